"""Every engine of states: against brute force and recorded optima."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from conftest import long, soaked
from hypothesis import given

from onlinesrl.core.errors import Infeasible, Unsolved
from onlinesrl.mln.inference.brute_force import Brute, state_scores
from onlinesrl.mln.inference.ilp import Ilp
from onlinesrl.mln.inference.lp_relaxation import Lp
from onlinesrl.mln.inference.maxwalksat import WalkSat
from onlinesrl.mln.inference.protocols import MapEngine
from onlinesrl.mln.inference.registry import exact_engine
from onlinesrl.mln.inference.router import Router
from onlinesrl.testing import check_map_engine
from tests.support.ground_mrfs import (
    BranchAndBound,
    Problem,
    Refuses,
    check,
    clause_model,
    instance,
    problems,
)

PROVING: dict[str, tuple[MapEngine, str]] = {
    "elimination": (Router(), "elimination"),
    "components": (Router(Refuses()), "elimination"),
    "branch and bound": (BranchAndBound(), "branch-and-bound"),
    "highs": (Ilp("highs"), "ilp"),
    "cbc": (Ilp("cbc"), "ilp"),
}
"""Engines that certify their answers to small problems, each the same for all tests; and their routes.

None: it has more than one.
"""
GUESSING: dict[str, MapEngine] = {"lp": Lp(), "walksat": WalkSat(flips=2_000)}
ENGINES = {name: engine for name, (engine, _) in PROVING.items()} | GUESSING


@pytest.mark.parametrize("name", PROVING)
@given(problem=problems())
def test_small_problems_agree_with_brute_force(name: str, problem: Problem):
    engine, route = PROVING[name]
    question = (problem.model, problem.weights)
    try:
        best = Brute().solve(*question, bonus=problem.bonus)
    except Infeasible:
        with pytest.raises(Infeasible):
            engine.solve(*question, bonus=problem.bonus)
        return
    others = np.sort(state_scores(*question, problem.bonus))[:-1]

    found = engine.solve(*question, bonus=problem.bonus)

    check(found, problem, route or found.route)
    assert found.score == pytest.approx(best.score, abs=1e-6)
    if np.all(others < best.score - 1e-6):
        assert found.state.tolist() == best.state.tolist()


@pytest.mark.parametrize("name", GUESSING)
@given(problem=problems())
def test_the_contract_of_engines_without_proof(name: str, problem: Problem):
    check_map_engine(GUESSING[name], problem.model, problem.weights, problem.bonus)


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize(
    ("model", "weights"),
    [
        clause_model(0, [(None, [])]),
        clause_model(2, [(None, []), (1.0, [1, 2])]),
        clause_model(1, [(None, [1]), (None, [-1])]),
        clause_model(2, [(None, [1]), (None, [2])], [(False, [0, 1])]),
        clause_model(2, [(None, [-1]), (None, [-2])], [(True, [0, 1])]),
    ],
)
def test_contradictions_are_infeasible(name, model, weights):
    with pytest.raises(Infeasible):
        ENGINES[name].solve(model, weights)


@pytest.mark.parametrize("name", PROVING)
def test_a_model_without_atoms_has_the_empty_state(name):
    engine, route = PROVING[name]
    problem = Problem(*clause_model(0, []))
    found = engine.solve(problem.model, problem.weights)

    check(found, problem, route or found.route)
    assert (found.state.shape, found.score) == ((0,), 0.0)


@pytest.mark.parametrize("name", ENGINES)
def test_weights_that_are_not_finite_are_refused(name):
    model, _ = clause_model(2, [(0.0, [1, 2]), (0.0, [1])])
    for weights in ([np.nan, 1.0], [1.0, np.inf]):
        with pytest.raises(Unsolved, match="must be finite"):
            ENGINES[name].solve(model, np.array(weights))


# recorded problems -------------------------------------------------------------------------------


def recorded() -> Iterator[object]:
    """An engine that proves what it finds, the route that it takes, and a recorded instance."""
    narrow = [f"{kind}-{n}" for kind in ("W1", "W2") for n in range(4)]
    loopy = [f"W3-100-{kind}-{n}" for kind in ("weak", "strong") for n in range(3)]
    large = ["W3-400-weak-0", "W3-400-weak-1", "W3-400-strong-1", "W3-400-strong-0"]
    hard = [f"W3-100-{kind}-{n}" for kind in ("mild", "neg") for n in range(3)]
    for name in narrow:
        yield lambda: Router(Refuses()), "elimination", name
    for name in (*narrow, *loopy, *large, *hard):
        yield BranchAndBound, "branch-and-bound", name
        yield lambda: exact_engine(Ilp(), None), None, name
    for name in (*narrow[:2], *narrow[4:6], *loopy[:1], *loopy[3:4]):
        yield Ilp, "ilp", name
    for name in (*narrow[2:4], *narrow[6:], *loopy[1:3], *loopy[4:], *large[:3]):
        yield long(Ilp, "ilp", name)
    yield soaked(Ilp, "ilp", large[3])
    for name in (*narrow[:1], *narrow[4:5], *loopy[:1]):
        yield (lambda: Ilp("cbc")), "ilp", name


@pytest.mark.parametrize(("engine", "route", "name"), list(recorded()))
def test_recorded_optima_are_found(engine: Callable[[], MapEngine], route: str | None, name: str):
    case = instance(name)
    for bonus, optimum in (
        (None, case.optimum),
        (case.loss, case.optimum_loss_augmented - case.n_true),
    ):
        found = engine().solve(case.model, case.weights, bonus=bonus)
        check(found, Problem(case.model, case.weights, bonus), route or found.route)
        assert route == found.route or found.route != "ilp"
        assert found.score == pytest.approx(optimum, abs=1e-6)
