"""Milliseconds for an exact MPE of the recorded instances, by each engine and by toulbar2."""

import time
from dataclasses import replace
from functools import partial

import pytest

from onlinesrl.mln.inference.alternation import CELLS, LONG
from onlinesrl.mln.inference.elimination import Elimination
from onlinesrl.mln.inference.ilp import Ilp
from onlinesrl.mln.inference.protocols import MapEngine, Wide
from onlinesrl.mln.inference.registry import exact_engine
from tests.benchmarks.measure import show
from tests.support.ground_mrfs import (
    BranchAndBound,
    Instance,
    Problem,
    clique,
    instance,
    transitive,
)

pytestmark = pytest.mark.benchmark
NARROW = [f"{kind}-{n}" for kind in ("W1", "W2") for n in range(4)]
COLLECTIVE = [f"W3-100-{kind}-{n}" for kind in ("weak", "mild", "strong", "neg") for n in range(3)]
COLLECTIVE += [f"W3-400-{kind}-{n}" for kind in ("weak", "strong") for n in range(2)]
ROUNDS = 5


def milliseconds(engine: MapEngine, recorded: Instance) -> float | None:
    """The least time of a solve, each of a model not seen before; None where it is too wide."""
    times = []
    for _ in range(ROUNDS):
        model = replace(recorded.model)
        started = time.perf_counter()
        try:
            found = engine.solve(model, recorded.weights)
        except Wide:
            return None
        times.append(1e3 * (time.perf_counter() - started))
        assert found.score == pytest.approx(recorded.optimum, abs=1e-5)
    return min(times)


def test_time_of_an_exact_mpe():
    rows = []
    for name in NARROW:
        recorded = instance(name)
        engines = (Ilp(), exact_engine(Ilp(), None), Elimination())
        ilp, *others = (milliseconds(engine, recorded) for engine in engines)
        cells = [x for ms in others for x in (("wide", "") if ms is None else (ms, ms / ilp))]
        rows.append((name, recorded.model.n_atoms, recorded.model.n_clauses, ilp, *cells))
    head = ("", "atoms", "clauses", "ILP", "as in runs", "/ ILP", "elimination", "/ ILP")
    show("Exact MPE of narrow models, ms a solve, HiGHS", head, rows)


def test_time_of_a_collective_mpe(monkeypatch: pytest.MonkeyPatch):
    """toulbar2's clock runs during its search alone, ours from the ground model to the answer."""
    cfn = pytest.importorskip("pytoulbar2").CFN
    from tests.support.toulbar2 import Toulbar2

    solve, searched = cfn.Solve, []

    def timed(problem, *args, **kwargs):
        started = time.perf_counter()
        try:
            return solve(problem, *args, **kwargs)
        finally:
            searched.append(1e3 * (time.perf_counter() - started))

    monkeypatch.setattr(cfn, "Solve", timed)
    rows = []
    for name in COLLECTIVE:
        recorded = instance(name)
        of = partial(milliseconds, recorded=recorded)
        ours, run = of(BranchAndBound()), of(exact_engine(Ilp(), None))
        searched.clear()
        whole = of(Toulbar2())
        theirs = min(searched)
        rows.append((name, ours, run, theirs, whole, ours / theirs, run / theirs))
    head = (
        "",
        "branch and bound",
        "as in runs",
        "toulbar2's search",
        "with tables",
        "ratio",
        "ratio",
    )
    show("Exact MPE of graphs with loops, ms a solve", head, rows)


def test_time_of_rules_over_three_atoms():
    """Branch and bound alone up to the limit of runs, the integer program alone, and both in turns."""
    mild = instance("W3-100-mild-1")
    problems = {
        "transitivity of 12": transitive(12, 0),
        "transitivity of 16": transitive(16, 0),
        "soft transitivity of 14": transitive(14, 2, hard=False),
        "every pair of 25": clique(25),
        "100 variables, mild": Problem(mild.model, mild.weights),
    }
    engines = {
        "branch and bound": BranchAndBound(CELLS * LONG),
        "integer program": Ilp(),
        "in turns": exact_engine(Ilp(), None),
    }
    rows = []
    for name, problem in problems.items():
        cells = list[object]()
        for engine in engines.values():
            engine.solve(problem.model, problem.weights)
            started = time.process_time()
            found = engine.solve(replace(problem.model), problem.weights)
            cells += [time.process_time() - started, "" if found.certified else "no proof"]
        rows.append((name, problem.model.n_atoms, problem.model.n_clauses, *cells))
    head = ("", "atoms", "clauses", *(cell for name in engines for cell in (name, "")))
    show("Exact MPE where rules have three atoms, CPU s", head, rows)
