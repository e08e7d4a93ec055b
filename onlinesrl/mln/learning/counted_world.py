"""A world whose states are sampled without grounding: each draw takes its odds from counts.

Gibbs sampling draws an atom S by P(S = s | rest) proportional to exp(sum_j theta_j M_j(rest, S = s)), over
the formulas with the atom (Sarkhel et al. 2016, equation 5). Only the change of the counts by a flip is
counted (`mln.counting.flip_counts`), or estimated for wide formulas (`mln.counting.flip_estimates`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import prod

import numpy as np

from onlinesrl.core.arrays import Floats, Ints
from onlinesrl.core.errors import ExampleError, Unsolved
from onlinesrl.core.example import GroundAtom
from onlinesrl.core.io.config_types import Count
from onlinesrl.core.kernels.random import Generator
from onlinesrl.core.learning.batch import BatchLearner, UnfitError
from onlinesrl.logic.ast import And, Equal, Formula, Not, Program
from onlinesrl.mln.counting.exact import Counter, counter
from onlinesrl.mln.counting.flip_counts import FlipCounts
from onlinesrl.mln.counting.flip_estimates import DenseWorld, FlipEstimates
from onlinesrl.mln.counting.ijgp import Estimator
from onlinesrl.mln.counting.program_counts import Counters, Place, numbered
from onlinesrl.mln.counting.world import World, world_of
from onlinesrl.mln.ground.join_planner import Group
from onlinesrl.mln.kernels import flip_samplers as kernel
from onlinesrl.mln.kernels.tuple_index import NONE, room
from onlinesrl.mln.lang.clausal_form import Clause

EMPTY = np.zeros(0)


class CountingSection(BatchLearner):
    """How a learner counts groundings."""

    counting: str
    i_bound: Count = 2
    """ijgp: the maximal number of variables of a cluster; exact above a formula's treewidth."""

    @property
    def bound(self) -> int | None:
        """The bound of IJGP; None where all is counted exactly."""
        return self.i_bound if self.counting == "ijgp" else None


class CountedWorld:
    """A world whose ``query`` is open, and its state, which starts at the truth.

    Weights are numbered by ``place``: from the constants of the world's types to the numbers, int64[weights],
    of which ``size`` is that of unknown weights. The constructor raises ModelError for a rule that cannot
    be counted, ExampleError for a truth that breaks a hard rule, and UnfitError for a query whose atoms flip
    in groups. With a ``bound``, the counts are estimated where IJGP's clusters of so many variables are not
    exact for the change by a flip.
    """

    def __init__(
        self,
        program: Program,
        atoms: Iterable[GroundAtom],
        query: Sequence[str],
        place: Callable[[Mapping[str, tuple[str, ...]]], Ints],
        size: int,
        rng: Generator,
        bound: int | None = None,
    ) -> None:
        for name in query:
            if program.predicates[name].exactly_one:
                raise UnfitError(
                    "counting", f"the atoms of {name} flip in groups (`!`): take `grounded`"
                )
        self.world, self.query = world_of(program, atoms), query
        self.counters = Counters(program)
        check_truth(self.counters, self.world, query)
        self.estimates = self._estimates(bound) if bound is not None else {}
        self.counts = FlipCounts(self.counters, self.world, query, self.estimates)
        self.dense = DenseWorld(self.world)
        self.weight, self.size, self.rng = place(self.world.domains), size, rng
        self.change = np.zeros(len(self.weight) + 1)
        types = [program.predicates[name].types for name in self.counts.query]
        self.atoms = sum(prod(map(self.world.size, argument_types)) for argument_types in types)
        self.places, _ = self.counters.places(self.world)
        self.parts = [*zip(self.counters.clauses, self.counters.compiled, self.places, strict=True)]
        rules = {self.counters.clauses[number].rule for number, _ in self.estimates}
        self.estimators: list[tuple[Place, Estimator]] = []  # of the clauses of estimated rules
        for clause, compiled, part in self.parts:
            if clause.rule in rules:
                assert isinstance(compiled, Counter)
                estimator = Estimator(compiled, bound or 0)
                with self.counters.located(clause):
                    estimator.check(self.world)
                self.estimators.append((part, estimator))
        self.truth = self._estimated()

    def _estimates(self, bound: int) -> dict[tuple[int, str], FlipEstimates]:
        """Return the estimates by soft clause and predicate: of formulas too wide without the atom."""
        estimates = {}
        pairs = zip(self.counters.clauses, self.counters.compiled, strict=True)
        for number, (clause, compiled) in enumerate(pairs):
            for name in () if clause.hard else self.query:
                assert isinstance(compiled, Counter)
                types = self.counters.program.predicates[name].types
                with self.counters.located(clause):
                    estimate = FlipEstimates(compiled, name, types, bound)
                    compiled.prepare(self.world)
                if estimate.width() >= bound:
                    estimates[number, name] = estimate
        return estimates

    def _estimated(self) -> Floats:
        """Return M_j of the state for the weights of estimated rules, float64[weights + 1], else NaN."""
        total = np.full(self.size + 1, np.nan)
        if not self.estimates:
            return total
        world = self.world.changed({name: self.counts.rows(name) for name in self.query})
        for place, estimator in self.estimators:
            weight = self._weights(place)
            total[weight] = np.nan_to_num(total[weight])
            total[weight] += estimator.count(world).ravel() / place.share
        return total

    def _weights(self, place: Place) -> Ints:
        return self.weight[place.first : place.first + prod(place.sizes)]

    def estimated_odds(self, atom: int, weights: Floats) -> float:
        """Return the estimated part of an atom's log odds: sum_j theta_j (M_j(flipped) - M_j)."""
        name, row = self.counts.atom(atom)
        total = 0.0
        for (number, predicate), estimates in self.estimates.items():
            if predicate == name:
                place = self.places[number]
                change = np.ravel(estimates.change(self.dense, row)) / place.share
                total += float(change @ weights[place.first : place.first + len(change)])
        return total

    def features(self) -> Floats:
        """Return f(state) - f(truth), float64[weights]."""
        total = np.zeros(self.size + 1)
        np.add.at(total, self.weight, self.change[:-1])
        estimated = self._estimated() - self.truth
        return np.where(np.isnan(estimated), total, estimated)[: self.size]

    def sweep(self, weights: Floats, probability: Floats = EMPTY) -> None:
        """Draw each atom given all others; adds the atoms' probabilities to ``probability`` if it has any."""
        own_weights = self._own(weights)
        c, rng, change, atom = self.counts, self.rng, self.change, 0
        while atom < self.atoms:
            if not room(c.frame.tuples, 1):
                c.grow()
            if not self.estimates:
                atom = kernel.sweep(
                    c.frame, atom, self.atoms, rng, own_weights, change, probability
                )
                continue
            extra = self.estimated_odds(atom, own_weights)
            if kernel.resample(c.frame, atom, extra, rng, own_weights, change, probability):
                self.dense.flip(*c.atom(atom))
            atom += 1

    def step(self, weights: Floats, samples: int) -> Iterator[Floats]:
        """Yield f(state) - f(truth) after each sweep."""
        for _ in range(samples):
            self.sweep(weights)
            yield self.features()

    def marginals(
        self, weights: Floats, samples: int
    ) -> Iterator[tuple[str, Floats, Floats, Ints]]:
        """Yield, for each query predicate, the truth, probabilities and groups of all its atoms.

        A group has the atoms that differ in the last argument. The chain starts where all atoms are false.
        It keeps the hard rules once it has met them; then a tenth of the samples go before. Raises
        Unsolved if as many sweeps as samples do not meet them.
        """
        counts, world = self.counts, self.world
        empty = {name: np.zeros((0, len(counts.types[name])), np.int64) for name in counts.query}
        counts.set(empty)
        self.dense.set(empty)
        broken = sum(
            int(np.sum(compiled.groundings(world) - compiled.count(world.changed(empty))))
            for clause, compiled, _ in self.parts
            if clause.hard
        )
        self.change[:] = 0.0
        for _ in range(samples):
            if self.change[-1] >= broken:
                break
            self.sweep(weights)
        if self.change[-1] < broken:
            raise Unsolved("Gibbs sampling by counts found no state that satisfies the hard rules")
        for _ in range(-(-samples // 10)):
            self.sweep(weights)
        probability = np.zeros(self.atoms)
        for _ in range(samples):
            self.sweep(weights, probability)
        first = 0
        for name in counts.query:
            sizes = [*map(world.size, counts.types[name])]
            n = prod(sizes)
            truth = np.zeros(n)
            truth[numbered(world.tables[name].rows, sizes)] = 1.0
            group = np.arange(n) // sizes[-1] if sizes and n else np.zeros(n, np.int64)
            yield name, truth, probability[first : first + n] / samples, group
            first += n

    def units(self) -> tuple[Floats, Floats]:
        """Return the true atoms of the query's unit clauses, and all their groundings, float64[weights]."""
        true, total = np.zeros((2, self.size + 1))
        for clause, compiled, place in self.parts:
            names = [literal.atom.predicate for literal in clause.literals]
            if not clause.hard and len(names) == 1 and names[0] in self.query:
                weight = self._weights(place)
                true[weight] += np.ravel(np.asarray(compiled.count(self.world), np.float64))
                total[weight] += float(compiled.groundings(self.world))
        return true[: self.size], total[: self.size]

    def every(self, size: int) -> Floats:
        """Return the numbers of groundings that some state makes false, float64[size]."""
        total = np.zeros(size + 1)
        for clause, compiled, place in self.parts:
            observed = [
                literal for literal in clause.literals if literal.atom.predicate not in self.query
            ]
            if clause.hard or len(observed) == len(clause.literals):
                continue
            false: list[Formula] = [
                Not(literal.atom) if literal.positive else literal.atom for literal in observed
            ]
            for same, left, right in clause.equalities:
                false.append(Not(Equal(left, right)) if same else Equal(left, right))
            false += [Not(same) for same in _tautologies(clause)]
            undecided = counter(And((*false,)), compiled.types, clause.template)
            other_types = [t for v, t in compiled.types.items() if v not in undecided.types]
            with self.counters.located(clause):
                number = np.asarray(undecided.count(self.world), np.float64)
            weight = self._weights(place)
            total[weight] += (
                np.ravel(number) * prod(map(self.world.size, other_types)) / place.share
            )
        return total[:size]

    def _own(self, weights: Floats) -> Floats:
        """Return the weights of this world, float64[weights + 1]; the last, 1, is of hard rules."""
        return np.append(np.append(weights, 0.0)[self.weight], 1.0)

    def search(self, weights: Floats, flips: int, chance: float, seed: int | None) -> None:
        """Go on to a good state by MaxWalkSAT; with a ``seed``, of perturbed weights.

        Each step draws a broken grounding, and flips one of its atoms, whose gains are counted.
        """
        own_weights, c = self._own(weights), self.counts
        status, journal = np.zeros(4), np.zeros(flips, np.int64)
        noise = NONE if seed is None else seed
        step = (status, journal, chance, noise, self.rng, own_weights, self.change)
        while status[kernel.STEP] < flips:
            if not room(c.frame.tuples, 1):
                c.grow()
            if not self.estimates:
                kernel.maxwalksat(c.frame, self.atoms, *step)
                continue
            n = kernel.candidates(c.frame, self.atoms, noise, self.rng, own_weights)
            scratch = c.frame.scratch
            for k in range(n):
                scratch.extra[k] = self.estimated_odds(int(scratch.atom[k]), own_weights)
            atom = kernel.move(c.frame, n, *step)
            if atom != NONE:
                self.dense.flip(*c.atom(atom))
        while status[kernel.JOURNAL]:
            if not room(c.frame.tuples, 1):
                c.grow()
            kernel.go_back(c.frame, status, journal, own_weights, self.change)
        self.dense.set({name: c.rows(name) for name in self.query})


def check_truth(counters: Counters, world: World, predicates: Sequence[str]) -> None:
    """Raise ExampleError, as the grounder does, if a world breaks a hard rule or a ``!`` group."""
    for clause, compiled in zip(counters.clauses, counters.compiled, strict=True):
        if not clause.hard:
            continue
        with counters.located(clause):
            broken = np.any(compiled.count(world) != compiled.groundings(world))
        if broken:
            inner = (literal for existential in clause.exists for literal in existential.literals)
            literals = [*clause.literals, *inner]
            of_query = any(literal.atom.predicate in predicates for literal in literals)
            part = "truth" if of_query else "evidence"
            raise ExampleError(f"the {part} breaks the hard rule {clause.text}", "hard_rule")
    for name in predicates:
        marked, table = counters.program.predicates[name].exactly_one, world.tables[name]
        if not marked or 0 in map(world.size, table.types):
            continue
        other_columns = [k for k in range(len(table.types)) if k not in marked]
        groups = prod(world.size(table.types[k]) for k in other_columns)
        if not groups == len(np.unique(table.rows[:, other_columns], axis=0)) == len(table.rows):
            reason = f"the truth breaks {Group(marked, exactly=True).show(name)}"
            raise ExampleError(reason, "hard_rule")


def _tautologies(clause: Clause) -> Iterator[Formula]:
    """Yield what makes a clause true in all states: an atom and its negation that are the same."""
    for first in clause.literals:
        for second in clause.literals:
            if (
                first.positive
                and not second.positive
                and first.atom.predicate == second.atom.predicate
            ):
                yield And((*map(Equal, first.atom.terms, second.atom.terms),))
