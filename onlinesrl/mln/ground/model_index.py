"""The numbers of predicates, relation slots, types and declared constants of a plan."""

from __future__ import annotations

from functools import cached_property

from onlinesrl.mln.ground.join_plan import VALUE, Plan
from onlinesrl.mln.ground.open_atoms import candidates
from onlinesrl.mln.kernels import grounding_frames as k


class Layout:
    """Numbers for a plan's predicates, relation slots, types and declared constants.

    Slots: the evidence of every predicate in declaration order, then its atoms that are mentioned as
    false and only add constants, then four a query predicate: its listed open atoms, those false by
    evidence, those that are true and those that its truth says are false. ``open`` has, for each
    predicate, the arguments of open types, which have the constants that the stream has shown.
    Relations of ``numeric`` predicates have one column more, for the numbers of their atoms' values.
    ``candidates`` say how the open atoms are found where hard rules leave some only.
    """

    def __init__(self, plan: Plan):
        self.plan = plan
        program = plan.program
        self.types = list(dict.fromkeys(t for p in program.predicates.values() for t in p.types))
        self.type_number = {VALUE: -1} | {name: n for n, name in enumerate(self.types)}
        self.numeric = {p.name for p in program.predicates.values() if p.numeric}
        self.constants = {t: tuple(program.types.get(t, ())) for t in self.types}
        self.constant_number = {
            t: {c: n for n, c in enumerate(names)} for t, names in self.constants.items()
        }
        self.evidence = {name: n for n, name in enumerate(program.predicates)}
        self.mentioned = {name: len(self.evidence) + n for name, n in self.evidence.items()}
        first = 2 * len(self.evidence)
        self.listed = {name: first + 4 * n for n, name in enumerate(plan.query)}
        self.false = {name: first + 4 * n + 1 for n, name in enumerate(plan.query)}
        self.truth = {name: first + 4 * n + 2 for n, name in enumerate(plan.query)}
        self.denied = {name: first + 4 * n + 3 for n, name in enumerate(plan.query)}
        self.slots = first + 4 * len(plan.query)
        opened = program.open & plan.local
        self.candidates = candidates(plan)
        self.open = {
            name: [(j, t) for j, t in enumerate(p.types) if t in opened]
            for name, p in program.predicates.items()
            if not opened.isdisjoint(p.types)
        }

    @cached_property
    def encoded(self) -> tuple[k.Plans, int]:
        """The encoded plans and the number of weights that they reserve."""
        from onlinesrl.mln.ground.plan_encoder import encoded

        return encoded(self)

    @property
    def plans(self) -> k.Plans:
        """The encoded plans."""
        return self.encoded[0]

    @property
    def reserved(self) -> int:
        """The number of weights that the plans reserve."""
        return self.encoded[1]

    def arguments(self, name: str) -> tuple[str, ...]:
        """Return the argument types of a predicate."""
        return self.plan.program.predicates[name].types

    def columns(self, name: str) -> tuple[str, ...]:
        """Return the types of the columns of a predicate's relations."""
        return (*self.arguments(name), *([VALUE] if name in self.numeric else []))

    def slot(self, name: str, value: float) -> int:
        """Return the slot of an evidence atom with a value; 0 only adds constants."""
        return self.evidence[name] if value else self.mentioned[name]

    def slot_predicates(self) -> list[str]:
        """Return the predicate of every slot."""
        return [*self.evidence] * 2 + [name for name in self.plan.query for _ in range(4)]

    def radix_order(self, name: str) -> list[int]:
        """Return argument positions with the grouped ones last."""
        group = self.plan.groups.get(name)
        order = list(range(len(self.arguments(name))))
        return sorted(order, key=lambda k: group is not None and k in group.arguments)
