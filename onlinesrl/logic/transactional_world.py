"""A ground world of which each step is a transaction: all of it or nothing, whatever exception ends it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from onlinesrl.core.errors import DataError, Infeasible, ModelError, OnlinesrlError, Unsolved
from onlinesrl.logic.atom_index import Change, GroundAtom, same_value
from onlinesrl.logic.ground_world import Exchange, GroundWorld

REFUSALS = (DataError, Infeasible, ModelError, Unsolved)
"""The errors with which a world refuses a step by itself, and is as before."""


class Conflict(NamedTuple):
    """A change that waits, and why: the smallest conflict."""

    changes: dict[GroundAtom, float | None]
    reason: str


class TransactionalWorld:
    """See ``GroundWorld``; a step that ends with an exception has changed nothing.

    Where the exception is none that the step raises by itself, but Ctrl-C, a lack of memory or a fault, the
    world is made again from its facts when it is next used.

    With ``keep_conflicts`` ``apply`` does not raise Infeasible. A change under which the hard rules cannot
    all hold waits: its facts are among those of the world, but the values are the best ones without it.
    Changes of the same atoms wait together, as one. After every step all that wait are tried again, together
    and one by one, each at the cost of a step.
    """

    def __init__(self, world: GroundWorld, keep_conflicts: bool = False) -> None:
        self.keep_conflicts = keep_conflicts
        self._world = world
        self._conflicts = list[Conflict]()
        self._before: tuple[Any, list[Conflict]] | None = None
        """In a step, or after one that was cut off: what was before it, see ``GroundWorld.state``."""

    @property
    def world(self) -> GroundWorld:
        """The world without what waits."""
        if self._before is not None:
            state, conflicts = self._before
            world = self._world.remade(state)
            self._world, self._conflicts, self._before = world, conflicts, None
        return self._world

    @property
    def conflicts(self) -> list[Conflict]:
        """The changes that wait."""
        return self._conflicts if self._before is None else self._before[1]

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

    def apply(
        self,
        changes: Mapping[GroundAtom, float | None],
        exchanges: list[Exchange] | None = None,
    ) -> dict[GroundAtom, Change]:
        """Change facts, now or later; see ``GroundWorld.apply``."""
        with self._step(changes) as world:
            if not self.keep_conflicts:
                return world.apply(changes, exchanges)
            waiting, together = self._conflicts, dict[GroundAtom, float | None]()
            self._conflicts = [old for old in waiting if old.changes.keys().isdisjoint(changes)]
            for conflict in waiting:
                together |= {} if conflict in self._conflicts else conflict.changes
            together |= changes
            return self._after(self._tried(together, (Infeasible,), exchanges), exchanges)

    def set_weights(
        self, program: Any, exchanges: list[Exchange] | None = None
    ) -> dict[GroundAtom, Change]:
        """See ``GroundWorld.set_weights``; what waited may bring and take away ground rules."""
        with self._step() as world:
            return self._after(world.set_weights(program), exchanges)

    def set_model(
        self, program: Any, exchanges: list[Exchange] | None = None
    ) -> dict[GroundAtom, Change]:
        """See ``GroundWorld.set_model``; a model under which the hard rules cannot hold is refused."""
        with self._step() as world:
            return self._after(world.set_model(program, exchanges), exchanges)

    def marginals(self, *arguments: Any) -> Any:
        """See ``MlnWorld.marginals``, which computes only what steps have changed since the last call."""
        with self._step() as world:
            markov: Any = world
            return markov.marginals(*arguments)

    @contextmanager
    def _step(self, atoms: Iterable[GroundAtom] = ()) -> Iterator[GroundWorld]:
        """Do a step that changes these atoms, and perhaps those that wait."""
        world, conflicts = self.world, [*self._conflicts]
        waiting = (atom for conflict in conflicts for atom in conflict.changes)
        self._before = world.state([*atoms, *waiting]), conflicts
        try:
            yield world
        except REFUSALS:
            self._conflicts, self._before = conflicts, None
            raise
        self._before = None

    def _tried(
        self,
        changes: Mapping[GroundAtom, float | None],
        expected: tuple[type[OnlinesrlError], ...],
        exchanges: list[Exchange] | None,
    ) -> dict[GroundAtom, Change]:
        """Make a change, or let it wait if that raises what is expected.

        Atoms that are as the world has them already are left out.
        """
        new = {atom: x for atom, x in changes.items() if not same_value(x, self._world.fact(atom))}
        try:
            return self._world.apply(new, exchanges) if new else {}
        except expected as error:
            self._conflicts.append(Conflict(new, str(error)))
        return {}

    def _after(
        self, changed: dict[GroundAtom, Change], exchanges: list[Exchange] | None
    ) -> dict[GroundAtom, Change]:
        """Try all that wait; return what changed, before and now."""
        before = None
        while self._conflicts and len(self._conflicts) != before:
            waiting, self._conflicts = self._conflicts, []
            before = len(waiting)
            everything = {a: x for conflict in waiting for a, x in conflict.changes.items()}
            for changes in (everything, *(conflict.changes for conflict in waiting)):
                for atom, (old, new) in self._tried(changes, REFUSALS, exchanges).items():
                    changed[atom] = (changed.get(atom, (old, new))[0], new)
                if changes is everything:
                    if not self._conflicts:
                        break
                    self._conflicts.clear()
        return {atom: values for atom, values in changed.items() if values[0] != values[1]}
