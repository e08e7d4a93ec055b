"""Explanations of Markov logic against every state, by the reference grounder."""

import random
import re
from itertools import combinations, product

import pytest
from hypothesis import assume, given
from hypothesis import example as tried
from hypothesis import strategies as st

from onlinesrl.core.example import Example, named_atoms
from onlinesrl.core.explain.counterfactual import CounterfactualQuery, candidates_of, changed
from onlinesrl.core.explain.explanation import ExplanationError, shown
from onlinesrl.mln.ground.join_planner import compile_program
from onlinesrl.mln.online.learner import MlnOnlineLearner
from tests.support.naive_grounder import World, holds
from tests.support.random_programs import Case, cases
from tests.support.small_learners import online

MOST = 9
"""The most open atoms of an example whose states are all looked at."""
NO_FLIPS = CounterfactualQuery(tries=0)


@st.composite
def weighted(draw: st.DrawFn) -> Case:
    """Programs with weights that rarely tie, and one example each."""
    case = draw(cases(weighted=True))
    rng = random.Random(draw(st.integers(0, 9)))
    text = re.sub(
        r"^(0\.5|-1|2) ", lambda m: f"{rng.gauss(float(m[1]), 1):.3f} ", case.text, flags=re.M
    )
    return Case(text, case.query, case.examples)


def made(case: Case) -> tuple[MlnOnlineLearner, Example, set]:
    """A learner of a case, its example without truth, and the atoms that are predicted true."""
    own = online(compile_program(case.program, case.query))
    (example,) = case.examples
    example = Example(id=example.id, evidence=example.evidence, query=example.query)
    (outcome,) = own.predict([example])
    assume(outcome.prediction is not None)
    return own, example, named_atoms(outcome.prediction.predicted)


class Reference:
    """The scores of an example's states, by the definition."""

    def __init__(self, own: MlnOnlineLearner, case: Case, example: Example):
        self.world = World(case.program, case.query, example)
        self.hard = self.world.hard()
        known = {(e.clause, e.key): e.weight for e in own.weights.entries()}
        self.soft = [
            (known.get((each.clause, each.key), each.clause.weight) * times, each.literals)
            for each, times in self.world.soft().items()
        ]
        self.open = [atom for atom, value in self.world.atoms.items() if value is None]
        self.given = {atom for atom, value in self.world.atoms.items() if value}

    def score(self, state: set) -> float:
        return sum(weight for weight, literals in self.soft if holds(literals, state | self.given))

    def best(self, atom, value: bool) -> float | None:
        """The score of the best feasible state with a value of an atom; None: there is none."""
        scores = []
        for values in product([False, True], repeat=len(self.open)):
            state = {a for a, v in zip(self.open, values, strict=True) if v} | self.given
            if (atom in state) == value and all(holds(x, state) for x in self.hard):
                scores.append(self.score(state))
        return max(scores, default=None)


def alone(found, atom, true: set, world: World) -> set:
    """The state in which the atom alone, or its group, has the value that the explanation compares with."""
    if not found.value:
        group = {shown(a) for a in true} & {re.sub(".*, here ", "", found.group or "")}
        return {a for a in true if shown(a) not in group} | {atom}
    return (true - {atom}) | {a for a in world.atoms if shown(a) == found.instead}


@given(weighted())
def test_the_effects_are_the_difference_of_two_scores_and_the_cost_is_that_of_the_best_other_state(
    case: Case,
):
    own, example, true = made(case)
    reference = Reference(own, case, example)
    assume(0 < len(reference.open) <= MOST)
    for atom in reference.open[:4]:
        try:
            found = own.explain(example, atom, NO_FLIPS)
        except ExplanationError:  # hard rules make it false
            assert reference.best(atom, True) is None
            continue
        assert found.value == (atom in true)
        local = alone(found, atom, true, reference.world)
        gain = reference.score(true) - reference.score(local)
        assert found.difference == pytest.approx(gain, abs=1e-9)
        assert {r.effect > 0 for r in found.favour} <= {True}
        for reason in found.reasons:
            sign = 1 if reason.holds else -1
            assert reason.effect == pytest.approx(sign * reason.weight * reason.count)
        best = reference.best(atom, not found.value)
        assert (found.other is None) == (best is None)
        if found.other is not None:
            assert found.other.certified
            assert found.other.cost == pytest.approx(reference.score(true) - best, abs=1e-9)
            assert found.other.cost >= -1e-9


AT_MOST_ONE = "Q0(place)\n1.5 Q0(p)\nQ0(p0) ^ p1 != p0 => !Q0(p1)."
GIVEN_AND_OPEN = Example(id=0, evidence={"Q0": [["P1"]]}, query={"Q0": [["P2"]]})


@given(weighted())
@tried(Case(AT_MOST_ONE, ("Q0",), [GIVEN_AND_OPEN]))
def test_the_least_change_is_the_least_of_all(case: Case):
    own, example, true = made(case)
    relations = case.program.functions
    candidates = [
        c for c in candidates_of(example, CounterfactualQuery()) if c.atom[0] not in relations
    ][:5]
    asked = CounterfactualQuery([c.atom for c in candidates])
    reference = Reference(own, case, example)
    for atom in reference.open[:2]:
        try:
            explained = own.explain(example, atom, asked)
        except ExplanationError:
            continue
        if explained.other and abs(explained.other.cost) < 1e-9:
            continue  # a tie is broken by the order of constants, which a change may change
        found = explained.flip
        least = least_flip(own, example, atom, candidates, atom in true)
        assert found.complete
        if least is None:
            assert (found.change, found.excluded) == ((), found.candidates)
        else:
            assert len(found.change) == least == found.excluded + 1
            change = [c for c in candidates if (shown(c.atom), False) in found.change]
            assert flips(own, changed(example, change), atom, atom in true)


def least_flip(
    own: MlnOnlineLearner, example: Example, atom, candidates, value: bool
) -> int | None:
    """The size of the smallest set that flips an atom, by trying all of them."""
    for size in range(1, len(candidates) + 1):
        for change in combinations(candidates, size):
            if flips(own, changed(example, change), atom, value):
                return size
    return None


def flips(own: MlnOnlineLearner, example: Example, atom, value: bool) -> bool:
    (outcome,) = own.predict([example])
    return (
        outcome.prediction is not None
        and (atom in named_atoms(outcome.prediction.predicted)) != value
    )
