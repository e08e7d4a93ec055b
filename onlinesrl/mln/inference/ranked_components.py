"""The best states of a model that changes: a step ranks only those components again that it touches.

Of n states no component has more than the best one but the n - 1 of which a second state loses least. Only
their states are ranked on; the best sums of the scores come from a heap.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import count, islice
from typing import Any, NamedTuple

import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.logic.atom_index import GroundAtom
from onlinesrl.mln.inference.best_states import Ranking, ranked, rankings, runners_up, sums
from onlinesrl.mln.inference.elimination_forest import EliminationForest
from onlinesrl.mln.inference.protocols import MapEngine, Solution
from onlinesrl.mln.inference.rounding import Magnitude


class OtherState(NamedTuple):
    """One of the best states, by the ``values`` that differ; the other fields are as in ``Ranked``."""

    rank: int
    difference: float
    certified: bool
    values: dict[GroundAtom, float]


class _States(NamedTuple):
    """The best states of a component, the present one, and the weights that they are the best by."""

    ranking: Ranking
    present: Solution
    weights: Floats


@dataclass(eq=False)
class _Component:
    """A component, and how much less than its present state another one scores.

    ``ranking`` is of a wide component; ``states`` are there where they were needed.
    """

    atoms: list[GroundAtom]
    loss: float
    ranking: Ranking | None
    states: _States | None = None

    @property
    def proven(self) -> bool:
        """Whether no search for its states has ended at its limit."""
        return self.ranking is None or self.ranking.proven


class RankedComponents:
    """The ``n`` best states of a forest that has these ``atoms``.

    ``engine`` and ``max_work`` are those of ``best_states``.
    After any history they are those of a new object, bit for bit.
    """

    def __init__(
        self,
        forest: EliminationForest[Any],
        engine: MapEngine,
        n: int,
        atoms: Iterable[GroundAtom],
        max_work: int | None = None,
    ) -> None:
        self.n = n
        self.due = dict.fromkeys(atoms)
        """Atoms whose components are not ranked."""
        self._forest, self._engine, self._max_work = forest, engine, max_work
        self._component = dict[GroundAtom, _Component]()
        self._by_loss, self._number = list[tuple[float, GroundAtom, int, _Component]](), count()
        """A heap, also of components that are there no more."""

    def touch(self, atoms: Iterable[GroundAtom]) -> None:
        """Note that clauses or values of atoms have changed."""
        for atom in atoms:
            self.due[atom] = None
            if (component := self._component.get(atom)) is not None:
                for other in component.atoms:
                    del self._component[other]
                    self.due[other] = None

    def others(self, values: Mapping[GroundAtom, float]) -> list[OtherState]:
        """Return the n - 1 states next to the present one, fewer where there are fewer.

        The present one has these ``values``, and is certified.
        """
        self._rank_due(values)
        components = self._nearest()
        if not components:
            return []
        states = [self._states(component, values) for component in components]
        names = [atom for component in components for atom in component.atoms]

        def whole(parts: Iterable[Solution]) -> Solution:
            pairs = [*zip(components, parts, strict=True)]
            state = np.concatenate([part.state[: len(of.atoms)] for of, part in pairs])
            score = sum(part.score for _, part in pairs)
            certified = all(of.ranking.proven for of in states)
            return Solution(state, score, score, "", certified)

        own = whole(of.present for of in states)
        found = map(whole, sums([of.ranking for of in states]))
        others = (state for state in found if not np.array_equal(state.state, own.state))
        by_name = np.array(sorted(range(len(names)), key=names.__getitem__))
        error = Magnitude.of(np.concatenate([of.weights for of in states])).rounding
        rows = ranked([own, *islice(others, self.n - 1)], by_name, error)
        result = list[OtherState]()
        for row in rows:
            if (other := row.solution) is not own:
                differs = [n for n in by_name.tolist() if other.state[n] != own.state[n]]
                changed = {names[n]: float(other.state[n]) for n in differs}
                result.append(OtherState(row.rank, row.difference, other.certified, changed))
        return result

    def _rank_due(self, values: Mapping[GroundAtom, float]) -> None:
        """Find how much a second state of each component loses that is not ranked."""
        part = self._forest.together(self.due)
        names, present = np.arange(len(part.atoms)), part.state(values)
        best = Solution(present, 0.0, 0.0, "", certified=True)
        rows = runners_up(
            part.model, part.weights, names, self.n, self._engine, self._max_work, best
        )
        for numbers, loss, ranking in rows:
            atoms = [part.atoms[n] for n in numbers[numbers < len(names)].tolist()]
            component = _Component(atoms, loss, ranking)
            self._component |= dict.fromkeys(atoms, component)
            heappush(self._by_loss, (loss, atoms[0], next(self._number), component))
        self.due.clear()
        if len(self._by_loss) > 2 * len(self._component):
            self._by_loss = [entry for entry in self._by_loss if self._is_present(entry[-1])]
            heapify(self._by_loss)

    def _is_present(self, component: _Component) -> bool:
        return self._component.get(component.atoms[0]) is component

    def _nearest(self) -> list[_Component]:
        """Return the n - 1 components of which a second state loses least, and those without a proof."""
        entries, proven = [], 0
        while self._by_loss and self._by_loss[0][0] < np.inf and proven < self.n - 1:
            entry = heappop(self._by_loss)
            if self._is_present(entry[-1]):
                entries.append(entry)
                proven += entry[-1].proven
        for entry in entries:
            heappush(self._by_loss, entry)
        return [entry[-1] for entry in entries]

    def _states(self, component: _Component, values: Mapping[GroundAtom, float]) -> _States:
        """Return the states of a component, ranked as far as they have been needed."""
        if component.states is None:
            (part,) = self._forest.components(component.atoms[:1])
            state, ranking = part.state(values), component.ranking
            if ranking is None:
                seen = np.arange(len(part.atoms))
                ((_, ranking),) = rankings(
                    part.model, part.weights, seen, self.n, self._engine, self._max_work
                )
            score = part.model.score(state, part.weights)
            present = Solution(state, score, score, "", certified=True)
            component.states = _States(ranking, present, part.weights)
        return component.states
