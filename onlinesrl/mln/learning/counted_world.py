"""A world whose states are sampled without grounding: each draw takes its odds from counts.

Gibbs sampling draws an atom S by P(S = s | rest) proportional to exp(sum_j theta_j M_j(rest, S = s)), over
the formulas with the atom (Sarkhel et al. 2016, equation 5). Only the change of the counts by a flip is
counted (`mln.counting.flip_plan`).
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from onlinesrl.core import interrupt
from onlinesrl.core.arrays import Floats, Ints
from onlinesrl.core.errors import ExampleError, Unsolved
from onlinesrl.core.kernels.random import generator
from onlinesrl.core.learning.batch import UnfitError
from onlinesrl.logic.ast import And, Equal, Formula, Not
from onlinesrl.mln.counting.exact import counter
from onlinesrl.mln.counting.flip_plan import FlipCounts
from onlinesrl.mln.counting.program_counts import Counters, numbered
from onlinesrl.mln.counting.world import world_of
from onlinesrl.mln.kernels import flip_counts as kernel
from onlinesrl.mln.lang.clausal_form import Clause
from onlinesrl.mln.learning.problem import MlnProblem
from onlinesrl.mln.learning.pseudo_likelihood import check_truth

EMPTY = np.zeros(0)


class CountedWorld:
    """A world (its ``number``) of a problem, or of other ``data``, and its state, which starts at the truth.

    The constructor raises ModelError for a rule that cannot be counted, ExampleError for a truth that
    breaks a hard rule, and UnfitError for a query whose atoms flip in groups.
    """

    def __init__(self, problem: MlnProblem, number: int, data: MlnProblem | None = None) -> None:
        program = problem.program
        for name in problem.query:
            if program.predicates[name].exactly_one:
                raise UnfitError(
                    "counting", f"the atoms of {name} flip in groups (`!`): take `grounded`"
                )
        data = problem if data is None else data
        self.world = world_of(program, data.worlds[number])
        self.counters = Counters(program)
        self.query = problem.query
        try:
            check_truth(self.counters, self.world, problem.query)
        except ExampleError as error:
            raise data.located(number, error) from None
        self.counts = FlipCounts(self.counters, self.world, problem.query)
        self.weight = problem.places(self.world.domains)
        self.size = len(problem.start)
        self.change = np.zeros(len(self.weight) + 1)
        self.rng = generator(problem.seed, 0, number)
        types = [program.predicates[name].types for name in self.counts.query]
        self.atoms = sum(prod(map(self.world.size, of)) for of in types)

    def features(self) -> Floats:
        """Return f(state) - f(truth), float64[weights]."""
        total = np.zeros(self.size + 1)
        np.add.at(total, self.weight, self.change[:-1])
        return total[: self.size]

    def sweep(self, weights: Floats, probability: Floats = EMPTY) -> None:
        """Draw each atom given all others; adds the atoms' probabilities to ``probability`` if it has any."""
        own, stop = self._own(weights), interrupt.flag()
        plan, scratch, atom = self.counts.plan, self.counts.scratch, 0
        while atom < self.atoms:
            interrupt.check()
            tuples = self.counts.tuples
            atom = kernel.sweep(
                plan, tuples, scratch, atom, self.rng, own, self.change, probability, stop
            )
            if atom < self.atoms:
                self.counts.grow()

    def step(self, weights: Floats, samples: int) -> Iterator[Floats]:
        """Yield f(state) - f(truth) after each sweep."""
        for _ in range(samples):
            self.sweep(weights)
            yield self.features()

    def marginals(
        self, weights: Floats, samples: int
    ) -> Iterator[tuple[str, Floats, Floats, Ints]]:
        """Yield, for each query predicate, the truth, probabilities and groups of all its atoms.

        A group has the atoms that differ in the last argument. The chain starts where all atoms are false;
        a tenth of the samples go before. Raises Unsolved if hard rules are broken to the end.
        """
        counts, world = self.counts, self.world
        empty = {name: np.zeros((0, len(counts.types[name])), np.int64) for name in counts.query}
        counts.set(empty)
        broken = sum(
            int(np.sum(compiled.groundings(world) - compiled.count(world.changed(empty))))
            for clause, compiled in zip(self.counters.clauses, self.counters.compiled, strict=True)
            if clause.hard
        )
        self.change[:] = 0.0
        for _ in range(-(-samples // 10)):
            self.sweep(weights)
        probability = np.zeros(self.atoms)
        for _ in range(samples):
            self.sweep(weights, probability)
        if self.change[-1] < broken:
            raise Unsolved("Gibbs sampling by counts found no state that satisfies the hard rules")
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
        counters = self.counters
        places, _ = counters.places(self.world)
        for clause, compiled, place in zip(
            counters.clauses, counters.compiled, places, strict=True
        ):
            names = [literal.atom.predicate for literal in clause.literals]
            if not clause.hard and len(names) == 1 and names[0] in self.query:
                weight = self.weight[place.first : place.first + prod(place.sizes)]
                true[weight] += np.ravel(np.asarray(compiled.count(self.world), np.float64))
                total[weight] += float(compiled.groundings(self.world))
        return true[: self.size], total[: self.size]

    def every(self, size: int) -> Floats:
        """Return the numbers of groundings that some state makes false, float64[size]."""
        total, counters = np.zeros(size + 1), self.counters
        places, _ = counters.places(self.world)
        for clause, compiled, place in zip(
            counters.clauses, counters.compiled, places, strict=True
        ):
            told = [each for each in clause.literals if each.atom.predicate not in self.query]
            if clause.hard or len(told) == len(clause.literals):
                continue
            false: list[Formula] = [Not(each.atom) if each.positive else each.atom for each in told]
            for same, left, right in clause.equalities:
                false.append(Not(Equal(left, right)) if same else Equal(left, right))
            false += [Not(same) for same in _tautologies(clause)]
            undecided = counter(And((*false,)), compiled.types, clause.template)
            others = [t for v, t in compiled.types.items() if v not in undecided.types]
            with counters.located(clause):
                number = np.asarray(undecided.count(self.world), np.float64)
            weight = self.weight[place.first : place.first + prod(place.sizes)]
            total[weight] += np.ravel(number) * prod(map(self.world.size, others)) / place.share
        return total[:size]

    def _own(self, weights: Floats) -> Floats:
        """Return the weights of this world, float64[weights + 1]; the last, 1, is of hard rules."""
        return np.append(np.append(weights, 0.0)[self.weight], 1.0)

    def search(self, weights: Floats, flips: int, chance: float, seed: int | None) -> None:
        """Go on to a good state by MaxWalkSAT; with a ``seed``, of perturbed weights.

        Each step draws a broken grounding, and flips one of its atoms, whose gains are counted.
        """
        own, stop, counts = self._own(weights), interrupt.flag(), self.counts
        status, journal = np.zeros(4), np.zeros(flips, np.int64)
        noise = kernel.NONE if seed is None else seed
        while not kernel.maxwalksat(
            counts.plan,
            counts.draws,
            counts.tuples,
            counts.scratch,
            status,
            journal,
            chance,
            noise,
            self.rng,
            own,
            self.change,
            stop,
        ):
            counts.grow()
        interrupt.check()


def _tautologies(clause: Clause) -> Iterator[Formula]:
    """Yield what makes a clause true in all states: an atom and its negation that are the same."""
    for one in clause.literals:
        for other in clause.literals:
            if one.positive and not other.positive and one.atom.predicate == other.atom.predicate:
                yield And((*map(Equal, one.atom.terms, other.atom.terms),))
