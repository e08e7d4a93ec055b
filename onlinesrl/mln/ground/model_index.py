"""A compiled model for the kernels: numbers for its names, and its plans as arrays."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from onlinesrl.core.arrays import Ints
from onlinesrl.logic.ast import Constant, Leaf, Variable
from onlinesrl.logic.kernels.whole_numbers import NO_NUMBER
from onlinesrl.logic.whole_numbers import COMPARISONS, OPERATIONS, whole_number
from onlinesrl.mln.ground.join_planner import (
    VALUE,
    Absent,
    ClausePlan,
    Compute,
    Domain,
    Order,
    Plan,
    Scan,
    Step,
    block,
    holds_by_default,
    leaves,
)
from onlinesrl.mln.ground.open_atoms import candidates
from onlinesrl.mln.kernels import grounding_frames as k
from onlinesrl.mln.lang.clausal_form import Literal


class Layout:
    """Numbers for a plan's predicates, relation slots, types and declared constants.

    A slot is a relation of a world. There is one ``evidence`` slot per predicate, in declaration order. Then
    there is one ``mentioned`` slot per predicate for false atoms, which only add constants. Each query
    predicate has five more: ``listed`` (open atoms), ``false`` (false by evidence), ``truth`` (true atoms),
    ``denied`` (false in the truth) and ``unlabelled`` (open atoms whose truth is not known).

    ``open`` has, for each predicate, the arguments of open types, whose constants the stream adds.
    Relations of ``numeric`` predicates have one more column, for the atoms' values. ``candidates`` are the
    plans that find the open atoms if hard rules restrict them.

    Clauses that hold by default are left out where they have more than ``eager`` groundings.

    ``plans`` are the encoded plans. They reserve ``reserved`` weights. Each soft clause has a block for its
    weight, or for the weights of its declared template constants. A clause with a template has one more
    block, for the default weights of unseen constants.
    """

    def __init__(self, plan: Plan, eager: int = k.EVERY):
        self.plan, self.eager = plan, eager
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
        self.listed = {name: first + 5 * n for n, name in enumerate(plan.query)}
        self.false = {name: first + 5 * n + 1 for n, name in enumerate(plan.query)}
        self.truth = {name: first + 5 * n + 2 for n, name in enumerate(plan.query)}
        self.denied = {name: first + 5 * n + 3 for n, name in enumerate(plan.query)}
        self.unlabelled = {name: first + 5 * n + 4 for n, name in enumerate(plan.query)}
        self.slots = first + 5 * len(plan.query)
        opened = program.open & plan.local
        self.candidates = candidates(plan)
        self.open = {
            name: [(j, t) for j, t in enumerate(p.types) if t in opened]
            for name, p in program.predicates.items()
            if not opened.isdisjoint(p.types)
        }
        encoder = _Encoder(self)
        self.plans, self.reserved = encoder.plans(), encoder.reserved

    def arguments(self, name: str) -> tuple[str, ...]:
        """Return the argument types of a predicate."""
        return self.plan.program.predicates[name].types

    def columns(self, name: str) -> tuple[str, ...]:
        """Return the types of the columns of a predicate's relations."""
        return (*self.arguments(name), *([VALUE] if name in self.numeric else []))

    def slot(self, name: str, value: float) -> int:
        """Return the slot of an evidence atom by its value; an atom of value 0 only adds constants."""
        return self.evidence[name] if value else self.mentioned[name]

    def slot_predicates(self) -> list[str]:
        """Return the predicate of every slot."""
        return [*self.evidence] * 2 + [name for name in self.plan.query for _ in range(5)]

    def radix_order(self, name: str) -> list[int]:
        """Return the argument positions, with the arguments of the predicate's group last."""
        group = self.plan.groups.get(name)
        order = list(range(len(self.arguments(name))))
        return sorted(order, key=lambda k: group is not None and k in group.arguments)

    def strides(self, plan: ClausePlan) -> tuple[list[int], int]:
        """Return each template variable's stride in a block (0: part of the key), and the block's size."""
        block_variables = block(plan.clause, plan.types, self.constants)
        strides, size = [], 1
        for v in reversed(plan.clause.template):
            strides.append(size if v in block_variables else 0)
            size *= len(self.constants[plan.types[v]]) if v in block_variables else 1
        return strides[::-1], size


EAGER = {"auto": 2000, "never": k.EVERY}
"""How many groundings of a clause are ground before any state violates them, by the setting ``lazy``."""
PAIRS = 50
"""So many times more groundings of a clause of two query atoms are ground at first where it is learned."""


def eager_groundings(plan: Plan, most: int, learned: bool = False) -> Ints:
    """Return how many groundings of each clause are ground before any state violates them, int64[clauses].

    Of those that hold by default these are ``most``; ``learned`` as in ``holds_by_default``.
    """
    by_default = [holds_by_default(clause, learned) for clause in plan.clauses]
    pairs = [learned and len(clause.query) == 2 for clause in plan.clauses]
    every = zip(by_default, pairs, strict=True)
    sizes = [min(k.EVERY, most * (PAIRS if two else 1)) if held else k.EVERY for held, two in every]
    return np.array(sizes, np.int64)


_BYTES = {"run", "binds", "hard", "literal_positive", "found_again", "part_exists"}
_WIDE = {"eager", "number", "first_weight", "unseen_weight"}


class _Encoder:
    """The encoder of the columns of ``Plans``, in the order in which the kernels read them."""

    def __init__(self, layout: Layout):
        self.layout = layout
        self.columns: defaultdict[str, list[int]] = defaultdict(list)
        self.indexes: dict[tuple[int, int], int] = {}
        self.reserved = 0
        for name in ("query", "term", "literal", "literal_term", "exist", "template", "value"):
            self.add(**{f"{name}_start": 0})
        self.add(found_part=0)

    def add(self, **values: int) -> None:
        """Append one value to each named column."""
        for name, value in values.items():
            self.columns[name].append(value)

    def end(self, start: str, column: str) -> None:
        """Append the current length of ``column`` to ``start``: the end of one part."""
        self.columns[start].append(len(self.columns[column]))

    def plans(self) -> k.Plans:
        """Return the encoded plans."""
        layout, columns = self.layout, self.columns
        self.queries()
        columns["arity"] = [len(layout.columns(name)) for name in layout.slot_predicates()]
        self.end("step_start", "op")
        for plan in layout.plan.clauses:
            slots = {name: n for n, name in enumerate(plan.types)}
            for steps in (plan.full, plan.listed):
                self.steps(steps, plan.types, "step_start")
            self.literals(plan.query, slots)
            self.end("literal_start", "literal_query")
            self.template(plan, slots)
            self.add(hard=plan.clause.hard, sign=plan.clause.sign)
            columns["value_variable"] += [
                n for n, kind in enumerate(plan.types.values()) if kind == VALUE
            ]
            self.end("value_start", "value_variable")
        self.existentials()
        self.candidates()
        columns["eager"] = eager_groundings(layout.plan, layout.eager).tolist()
        columns["declared"] = [len(layout.constants[t]) for t in layout.types]
        columns["index_slot"] = [slot for slot, _ in self.indexes]
        columns["index_argument"] = [argument for _, argument in self.indexes]
        kinds = dict.fromkeys(_BYTES, np.uint8) | dict.fromkeys(_WIDE, np.int64)
        arrays: dict[str, Any] = {
            name: np.asarray(columns[name], kinds.get(name, np.int32))
            for name in k.Plans.__annotations__
        }
        return k.Plans(**arrays)

    def queries(self) -> None:
        """Encode the query predicates."""
        layout = self.layout
        for name in layout.plan.query:
            order, group = layout.radix_order(name), layout.plan.groups.get(name)
            self.columns["query_type"] += [
                layout.type_number[layout.arguments(name)[j]] for j in order
            ]
            self.columns["query_argument"] += order
            self.end("query_start", "query_type")
            kind = k.NO_GROUP
            if group is not None:
                kind = k.EXACTLY_ONE if group.exactly else k.AT_MOST_ONE
            self.add(
                query_group=kind,
                query_grouped=0 if group is None else len(group.arguments),
                query_evidence=layout.evidence[name],
                query_listed=layout.listed[name],
                query_false=layout.false[name],
                query_truth=layout.truth[name],
                query_denied=layout.denied[name],
                query_unlabelled=layout.unlabelled[name],
            )

    # steps ---------------------------------------------------------------------------------------

    def steps(self, steps: Sequence[Step], types: Mapping[str, str], start: str) -> None:
        """Encode a sequence of steps, and append its end to the column ``start``."""
        slots = {name: n for n, name in enumerate(types)}
        for step in steps:
            self.step(step, types, slots)
        self.end(start, "op")

    def step(self, step: Step, types: Mapping[str, str], slots: dict[str, int]) -> None:
        """Encode one step."""
        if isinstance(step, Scan | Absent):
            self.relation(step, slots)
        elif isinstance(step, Domain):
            kind = self.layout.type_number[step.type]
            self.step_of(k.DOMAIN, kind, [(slots[step.variable], True)], run=step.run)
        elif isinstance(step, Order):
            terms = [(step.left, False), (step.right, False)]
            self.numbers(k.LESS + COMPARISONS[step.op], -1, terms, types, slots)
        elif isinstance(step, Compute):
            terms = [(step.variable, step.binds), (step.left, False), (step.right, False)]
            self.numbers(k.COMPUTE, OPERATIONS[step.op], terms, types, slots)
        else:
            kind_of = [types[t.name] for t in (step.left, step.right) if isinstance(t, Variable)]
            left, right = (self.term(t, kind_of[0], slots) for t in (step.left, step.right))
            self.step_of(
                k.EQUAL if step.equal else k.UNEQUAL, -1, [(left, step.binds), (right, False)]
            )

    def step_of(
        self, op: int, slot: int, terms: Sequence[tuple[int, bool]], run: bool = False
    ) -> None:
        """Write a step without an index; ``terms`` has each term's code and whether the step binds it."""
        self.add(op=op, slot=slot, probe=-1, probe_term=0, run=run)
        for term, binds in terms:
            self.add(term=term, binds=binds, term_type=-1)
        self.end("term_start", "term")

    def term(self, term: Leaf, kind: str, slots: dict[str, int]) -> int:
        """Return the code of a term: its variable's slot, or -1 - constant."""
        if isinstance(term, Variable):
            return slots[term.name]
        return -1 - self.layout.constant_number[kind][term.name]

    def relation(self, step: Scan | Absent, slots: dict[str, int]) -> None:
        """Encode a join or an anti-join, with an index on its first bound argument."""
        layout, atom = self.layout, step.atom
        opened = isinstance(step, Scan) and step.opened
        slot = (layout.listed if opened else layout.evidence)[atom.predicate]
        bound = set(step.bound) if isinstance(step, Scan) else set(slots)
        seen, terms, probe = set(bound), [], None
        for position, (term, kind) in enumerate(
            zip(leaves(atom), layout.arguments(atom.predicate), strict=True)
        ):
            binds = isinstance(term, Variable) and term.name not in seen
            is_bound = not isinstance(term, Variable) or term.name in bound
            if binds:
                seen.add(term.name)
            if probe is None and is_bound and kind in layout.plan.local:
                probe = (position, kind, self.term(term, kind, slots))
            terms.append((self.term(term, kind, slots), binds))
        if isinstance(step, Scan) and step.value is not None:
            terms.append((slots[step.value], True))
        self.step_of(k.SCAN if isinstance(step, Scan) else k.ABSENT, slot, terms)
        if probe is not None:
            argument, kind, term_code = probe
            if (slot, argument) not in self.indexes:
                self.indexes[slot, argument] = len(self.indexes)
                self.add(index_type=layout.type_number[kind])
            self.columns["probe"][-1] = self.indexes[slot, argument]
            self.columns["probe_term"][-1] = term_code

    def numbers(
        self,
        op: int,
        operation: int,
        terms: Sequence[tuple[Leaf, bool]],
        types: Mapping[str, str],
        slots: dict[str, int],
    ) -> None:
        """Encode a step on integers; constants are encoded by their value."""
        first, codes = len(self.columns["term"]), []
        for term, binds in terms:
            if isinstance(term, Variable):
                codes.append((slots[term.name], binds))
            else:
                self.add(
                    number=whole_number(term.name) if isinstance(term, Constant) else NO_NUMBER
                )
                codes.append((-len(self.columns["number"]), binds))
        self.step_of(op, operation, codes)
        for place, (term, _) in enumerate(terms, first):
            if isinstance(term, Variable):
                number = self.layout.type_number.get(types[term.name], -1)
                self.columns["term_type"][place] = number

    # clauses -------------------------------------------------------------------------------------

    def literals(self, literals: Sequence[Literal], slots: dict[str, int]) -> None:
        """Encode query literals."""
        layout = self.layout
        for literal in literals:
            name = literal.atom.predicate
            kinds, terms = layout.arguments(name), leaves(literal.atom)
            self.add(literal_query=layout.plan.query.index(name), literal_positive=literal.positive)
            self.columns["literal_term"] += [
                self.term(terms[j], kinds[j], slots) for j in layout.radix_order(name)
            ]
            self.end("literal_term_start", "literal_term")

    def template(self, plan: ClausePlan, slots: Mapping[str, int]) -> None:
        """Reserve the weights of a clause, and encode the template variables of these weights."""
        strides, size = self.layout.strides(plan)
        for name, stride in zip(plan.clause.template, strides, strict=True):
            kind = self.layout.type_number[plan.types[name]]
            self.add(template_variable=slots[name], template_type=kind, template_stride=stride)
        self.end("template_start", "template_variable")
        unseen = size if plan.clause.template and 0 not in strides else 0
        self.add(first_weight=self.reserved, unseen_weight=self.reserved + unseen)
        self.reserved += 0 if plan.clause.hard else size + unseen

    def existentials(self) -> None:
        """Encode the existentials of all clauses, after all clauses."""
        self.end("exist_step_start", "op")
        self.end("exist_literal_start", "literal_query")
        for plan in self.layout.plan.clauses:
            slots = {name: n for n, name in enumerate(plan.types)}
            for part in plan.exists:
                for steps in (part.full, part.listed):
                    self.steps(steps, plan.types, "exist_step_start")
                self.literals(part.query, slots)
                self.end("exist_literal_start", "literal_query")
            self.add(exist_start=(len(self.columns["exist_step_start"]) - 1) // 2)

    def candidates(self) -> None:
        """Encode the plans that find the open atoms, last of all: one part for each sequence of steps."""
        self.end("part_step_start", "op")
        for atoms in self.layout.candidates:
            repeated = any(isinstance(step, Scan) and step.opened for step in atoms.steps)
            query = self.layout.plan.query.index(atoms.predicate)
            self.add(found_query=query, found_again=repeated)
            parts = [(atoms.steps, atoms.types, False)]
            for exclusion in atoms.exclusions:
                parts.append((exclusion.steps, exclusion.types, False))
                parts += [(steps, exclusion.types, True) for steps in exclusion.exists]
            for steps, types, exists in parts:
                self.steps(steps, types, "part_step_start")
                self.add(part_exists=exists)
            self.end("found_part", "part_exists")
