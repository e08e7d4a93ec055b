"""A ground world that accepts changes under which the hard rules cannot all hold."""

from __future__ import annotations

from collections.abc import Mapping
from math import isnan
from typing import Any, NamedTuple

from onlinesrl.core.errors import Infeasible, OnlinesrlError
from onlinesrl.logic.atom_index import Change, GroundAtom
from onlinesrl.logic.ground_world import GroundWorld


class Conflict(NamedTuple):
    """A change that waits, and why: the smallest conflict."""

    changes: dict[GroundAtom, float | None]
    reason: str


class AcceptingWorld:
    """See ``GroundWorld``; ``apply`` does not raise Infeasible.

    A change under which the hard rules cannot all hold waits: its facts are among those of the world, but the
    values are the best ones without it. Changes of the same atoms wait together, as one. After every
    step all that wait are tried again, together and one by one, each at the cost of a step.
    """

    def __init__(self, world: GroundWorld) -> None:
        self.world = world
        self.conflicts = list[Conflict]()

    def __getattr__(self, name: str) -> Any:
        """Return what does not differ."""
        return getattr(self.world, name)

    def fact(self, atom: GroundAtom) -> float | None:
        """Return the value of a fact, also of one that waits."""
        for conflict in self.conflicts:
            if atom in conflict.changes:
                return conflict.changes[atom]
        return self.world.fact(atom)

    def facts(self) -> dict[GroundAtom, float]:
        """Return the facts in the order of their names, those that wait too."""
        facts: dict[GroundAtom, float | None] = {**self.world.facts()}
        for conflict in self.conflicts:
            facts |= conflict.changes
        return {atom: value for atom, value in sorted(facts.items()) if value is not None}

    def apply(self, changes: Mapping[GroundAtom, float | None]) -> dict[GroundAtom, Change]:
        """Change facts, now or later; return the open atoms whose value changed."""
        waiting, together = self.conflicts, dict[GroundAtom, float | None]()
        self.conflicts = [old for old in waiting if old.changes.keys().isdisjoint(changes)]
        for conflict in waiting:
            together |= {} if conflict in self.conflicts else conflict.changes
        together |= changes
        try:
            changed = self._tried(together, Infeasible)
        except Exception:
            self.conflicts = waiting
            raise
        return self._after(changed)

    def set_weights(self, program: Any) -> dict[GroundAtom, Change]:
        """See ``GroundWorld.set_weights``."""
        return self._after(self.world.set_weights(program))

    def set_model(self, program: Any) -> dict[GroundAtom, Change]:
        """See ``GroundWorld.set_model``; a model under which the hard rules cannot hold is refused."""
        return self._after(self.world.set_model(program))

    def _tried(
        self, changes: Mapping[GroundAtom, float | None], expected: type[OnlinesrlError]
    ) -> dict[GroundAtom, Change]:
        """Make a change, or let it wait if that raises what is expected.

        Atoms that are as the world has them already are left out.
        """
        new = {atom: x for atom, x in changes.items() if not _same(x, self.world.fact(atom))}
        try:
            return self.world.apply(new) if new else {}
        except expected as error:
            self.conflicts.append(Conflict(new, str(error)))
        return {}

    def _after(self, changed: dict[GroundAtom, Change]) -> dict[GroundAtom, Change]:
        """Try all that wait; return what changed, before and now."""
        before = None
        while self.conflicts and len(self.conflicts) != before:
            waiting, self.conflicts = self.conflicts, []
            before = len(waiting)
            everything = {a: x for conflict in waiting for a, x in conflict.changes.items()}
            for changes in (everything, *(conflict.changes for conflict in waiting)):
                for atom, (old, new) in self._tried(changes, OnlinesrlError).items():
                    changed[atom] = (changed.get(atom, (old, new))[0], new)
                if changes is everything:
                    if not self.conflicts:
                        break
                    self.conflicts.clear()
        return {atom: values for atom, values in changed.items() if values[0] != values[1]}


def _same(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return one == other or (isnan(one) and isnan(other))
