"""A ground world of which each step is a transaction: all of it or nothing, whatever exception ends it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from onlinesrl.core.errors import DataError, Infeasible, ModelError, OnlinesrlError, Unsolved
from onlinesrl.core.rule_instance import PlacedWeight
from onlinesrl.logic.atom_index import Change, GroundAtom, add_changes, same_value
from onlinesrl.logic.ground_world import Exchange, GroundWorld
from onlinesrl.logic.waiting_changes import Conflict, Parts, WaitingChanges

REFUSALS = (DataError, Infeasible, ModelError, Unsolved)
"""The errors with which a world refuses a step by itself, and is as before."""


MOST_WAITING = 1_000
"""The most changes that wait; beyond them a change that would wait is refused."""


class TransactionalWorld:
    """See ``GroundWorld``; a step that ends with an exception has changed nothing.

    Where the exception is none that the step raises by itself, but Ctrl-C, a lack of memory or a fault, the
    world is made again from its facts when it is next used.

    With ``keep_conflicts`` ``apply`` does not raise Infeasible. A change under which the hard rules cannot
    all hold waits: its facts are among those of the world, but the values are the best ones without it.
    Changes of the same atoms wait together, as one. At most ``MOST_WAITING`` wait, further ones are refused.
    After every step all that wait are tried again, first together and then one by one in their order, until
    no other fits. A trial is left out where the step changes no atom on which the conflict depends, since it
    would fail again.
    """

    def __init__(self, world: GroundWorld, keep_conflicts: bool = False) -> None:
        self.keep_conflicts = keep_conflicts
        self._world = world
        self._waiting = WaitingChanges()
        self._before: tuple[Any, list[Conflict], Parts] | None = None
        """In a step, or after one that was cut off: what was before it, see ``GroundWorld.state``."""
        self._states: list[Any] | None = None
        """In a ``transaction``: what was before each of its steps."""

    @property
    def world(self) -> GroundWorld:
        """The world without what waits."""
        if self._before is not None:
            state, conflicts, together = self._before
            world = self._world.remade(state)
            self._world, self._before = world, None
            self._waiting = WaitingChanges(conflicts, together)
        return self._world

    @property
    def conflicts(self) -> list[Conflict]:
        """The changes that wait."""
        return [*self._waiting] if self._before is None else self._before[1]

    def __getattr__(self, name: str) -> Any:
        """Return what does not differ."""
        return getattr(self.world, name)

    def fact(self, atom: GroundAtom) -> float | None:
        """Return the value of a fact, also of one that waits."""
        world, conflict = self.world, self._waiting.get(atom)
        return world.fact(atom) if conflict is None else conflict.changes[atom]

    def facts(self) -> dict[GroundAtom, float]:
        """Return the facts in the order of their names, those that wait too."""
        facts: dict[GroundAtom, float | None] = {**self.world.facts()}
        for conflict in self.conflicts:
            facts |= conflict.changes
        return {atom: value for atom, value in sorted(facts.items()) if value is not None}

    def apply(
        self, changes: Mapping[GroundAtom, float | None], exchanges: list[Exchange] | None = None
    ) -> dict[GroundAtom, Change]:
        """Change facts, now or later; see ``GroundWorld.apply``."""
        with self._step(changes) as world:
            if not self.keep_conflicts:
                return world.apply(changes, exchanges)
            waiting, together = self._waiting, dict[GroundAtom, float | None]()
            for number in waiting.changing(changes):
                together |= waiting.remove(number).changes
            together |= changes
            result = self._tried(together, (Infeasible,), exchanges)
            waiting.touch(together, in_world=not isinstance(result, Conflict))
            if isinstance(result, Conflict):
                if len(waiting) >= MOST_WAITING:
                    raise Infeasible(
                        f"{MOST_WAITING:,} other changes wait already; {result.reason}"
                    )
                waiting.add(result)
                result = {}
            return self._after(result, exchanges)

    def wait(self, conflicts: Iterable[Conflict]) -> None:
        """Let changes wait, as they did in a world that was saved."""
        self._waiting = WaitingChanges(conflicts)

    def save(self) -> tuple[dict[GroundAtom, float], dict[str, Any]]:
        """See ``GroundWorld.save``, and ``wait``."""
        world = self.world
        self._waiting.hold_back(None)
        return world.save()

    def set_weights(
        self, weights: Iterable[PlacedWeight], exchanges: list[Exchange] | None = None
    ) -> dict[GroundAtom, Change]:
        """See ``GroundWorld.set_weights``; what waits still does, as hard rules have no weights."""
        with self._step() as world:
            return self._after(world.set_weights(weights), exchanges)

    def set_model(
        self, program: Any, exchanges: list[Exchange] | None = None
    ) -> dict[GroundAtom, Change]:
        """See ``GroundWorld.set_model``; a model under which the hard rules cannot hold is refused."""
        with self._step() as world:
            changed = world.set_model(program, exchanges)
            self._waiting = WaitingChanges(c._replace(parts=None) for c in self._waiting)
            return self._after(changed, exchanges)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Do steps as one: where one of them, or what follows them, is refused, the facts change back.

        Weights stay as they were set.
        """
        conflicts, together = [*self._waiting], self._waiting.together
        self._states = states = list[Any]()
        try:
            yield
        except OnlinesrlError:
            if states:
                world = self.world
                before = {atom: x for state in reversed(states) for atom, x in state.facts.items()}
                facts = {a: x for a, x in before.items() if not same_value(x, world.fact(a))}
                world.go_back(facts, states)
                self._waiting = WaitingChanges(conflicts, together)
            raise
        finally:
            self._states = None

    def marginals(self, *arguments: Any) -> Any:
        """See ``MlnWorld.marginals``, which computes only what steps have changed since the last call."""
        with self._step() as world:
            markov: Any = world
            return markov.marginals(*arguments)

    def best_states(self, n: int) -> Any:
        """See ``MlnWorld.best_states``."""
        with self._step() as world:
            markov: Any = world
            return markov.best_states(n)

    @contextmanager
    def _step(self, atoms: Iterable[GroundAtom] = ()) -> Iterator[GroundWorld]:
        """Do a step that changes these atoms, and perhaps those that wait."""
        world, conflicts, together = self.world, [*self._waiting], self._waiting.together
        self._before = world.state(atoms), conflicts, together
        try:
            yield world
        except REFUSALS:
            self._waiting, self._before = WaitingChanges(conflicts, together), None
            raise
        if self._states is not None:
            self._states.append(self._before[0])
        self._before = None

    def _tried(
        self,
        changes: Mapping[GroundAtom, float | None],
        expected: tuple[type[OnlinesrlError], ...],
        exchanges: list[Exchange] | None,
    ) -> dict[GroundAtom, Change] | Conflict:
        """Make a change; return what changed, or the conflict if that raises what is expected.

        Atoms that are as the world has them already are left out.
        """
        assert self._before is not None
        facts, new = self._before[0].facts, dict[GroundAtom, float | None]()
        for atom, value in changes.items():
            if not same_value(value, present := self._world.fact(atom)):
                facts.setdefault(atom, present)
                new[atom] = value
        try:
            return self._world.apply(new, exchanges) if new else {}
        except expected as error:
            return Conflict(new, str(error), getattr(error, "parts", None))

    def _after(
        self, changed: dict[GroundAtom, Change], exchanges: list[Exchange] | None
    ) -> dict[GroundAtom, Change]:
        """Try what waits where its conflict may be over; return what changed, before and now."""
        waiting = self._waiting
        if len(waiting) > 1 and waiting.together is None:
            waiting.hold_back(waiting.lasting())
            if waiting.together is None:
                everything = {a: x for conflict in waiting for a, x in conflict.changes.items()}
                result = self._tried(everything, REFUSALS, exchanges)
                if not isinstance(result, Conflict):
                    self._waiting = WaitingChanges()
                    return _united(changed, result)
                waiting.hold_back(result.parts)
        before = None
        while waiting.due and len(waiting) != before:
            before = len(waiting)
            for number in waiting.numbers():
                if number not in waiting.due:
                    continue
                result = self._tried(waiting[number].changes, REFUSALS, exchanges)
                if isinstance(result, Conflict):
                    waiting.add(result, number)
                else:
                    waiting.accept(number)
                    changed = _united(changed, result)
        return _united(changed, {})


def _united(
    first: Mapping[GroundAtom, Change], second: Mapping[GroundAtom, Change]
) -> dict[GroundAtom, Change]:
    """Return what changed from before the first of two changes to after the second."""
    both = {**first}
    add_changes(both, second)
    return {atom: values for atom, values in both.items() if values[0] != values[1]}
