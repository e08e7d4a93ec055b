"""Exact states where elimination is too wide: branch and bound, HiGHS, toulbar2, and as in runs."""

import time
from dataclasses import replace

import numpy as np
import pytest

from onlinesrl.core.arrays import Ints
from onlinesrl.mln.inference.best_states import best_states
from onlinesrl.mln.inference.ilp import Ilp
from onlinesrl.mln.inference.protocols import MapEngine, Solution
from onlinesrl.mln.inference.registry import exact_engine
from tests.benchmarks.measure import in_turns, ratio, show, sizes, timed
from tests.support.ground_mrfs import (
    BranchAndBound,
    Instance,
    Problem,
    clique,
    instance,
    spins,
    transitive,
)
from tests.support.toulbar2 import Toulbar2

KINDS = [("100", kind, 3) for kind in ("weak", "mild", "strong", "neg")]
KINDS += [("400", kind, 2) for kind in ("weak", "strong")]
GRAPHS = [f"W3-{size}-{kind}-{n}" for size, kind, count in KINDS for n in range(count)]


def milliseconds(engine: MapEngine, name: str, rounds: int) -> float:
    """The least CPU time of a solve of a recorded graph, each of a model not seen before."""
    recorded, times = instance(name), []
    for _ in range(rounds):
        model = replace(recorded.model)
        seconds, found = timed(lambda: engine.solve(model, recorded.weights))  # noqa: B023
        times.append(1e3 * seconds)
        assert found.score == pytest.approx(recorded.optimum, abs=1e-5)
    return min(times)


@sizes("names, rounds", (GRAPHS[:1], 1), (GRAPHS, 5))
def test_graphs_with_loops(names: list[str], rounds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of toulbar2 runs during its search alone, ours from the ground model to the answer."""
    cfn = pytest.importorskip("pytoulbar2").CFN
    solve, searched = cfn.Solve, list[float]()

    def search(*args: object, **options: object) -> object:
        began = time.process_time()
        try:
            return solve(*args, **options)
        finally:
            searched.append(1e3 * (time.process_time() - began))

    monkeypatch.setattr(cfn, "Solve", search)
    rows = []
    for name in names:
        engines = (BranchAndBound(), exact_engine(Ilp(), None), Toulbar2())
        searched.clear()
        ours, run, whole = (milliseconds(engine, name, rounds) for engine in engines)
        theirs = min(searched)
        rows.append((name, ours, run, theirs, whole, ours / theirs, run / theirs))
    head = ("", "branch and bound", "as in runs", "toulbar2's search", "with tables")
    show("Graphs with loops, ms a solve", (*head, "ratio", "ratio"), rows)


@sizes("names, rounds", (GRAPHS[:1], 1), (GRAPHS, 5))
def test_five_best_states(names: list[str], rounds: int) -> None:
    """As in runs, where the best state is known before."""
    engine, rows = exact_engine(Ilp(), None), []
    for name in names:
        recorded = instance(name)
        atoms = np.arange(recorded.model.n_atoms)

        def best(recorded: Instance = recorded) -> Solution:
            return engine.solve(replace(recorded.model), recorded.weights)

        def five(recorded: Instance = recorded, atoms: Ints = atoms) -> None:
            model, weights, known = replace(recorded.model), recorded.weights, best()
            found, complete = best_states(model, weights, atoms, 5, engine, None, known)
            assert complete
            assert len(found) == 5
            assert found[0].solution.score == pytest.approx(recorded.optimum, abs=1e-5)

        ours, theirs = in_turns(rounds, five, best)
        rows.append((name, 1e3 * min(theirs), 1e3 * min(ours), ratio(ours, theirs)))
    show("The five best states, ms", ("", "best", "five best", "ratio"), rows)


@sizes("small", True, False)
def test_rules_over_three_atoms(small: bool) -> None:
    """Branch and bound alone up to the limit of runs, the integer program alone, and both in turns."""
    problems = {"transitivity of 5": transitive(5, 0)}
    if not small:
        mild = instance("W3-100-mild-1")
        problems["100 variables, mild"] = Problem(mild.model, mild.weights)
        problems |= {
            "transitivity of 12": transitive(12, 0),
            "transitivity of 16": transitive(16, 0),
            "soft transitivity of 14": transitive(14, 2, hard=False),
            "every pair of 25": clique(25),
            "grid of 12 x 12": spins(12, 0),
        }
    engines = (BranchAndBound(500_000_000), Ilp(), exact_engine(Ilp(), None))
    rows = []
    for name, problem in problems.items():
        cells: list[str | float] = []
        for engine in engines:
            engine.solve(problem.model, problem.weights)
            seconds, found = timed(lambda: engine.solve(replace(problem.model), problem.weights))  # noqa: B023
            cells += [seconds, "" if found.certified else "no proof"]
        assert found.certified
        rows.append((name, *cells))
    head = (
        cell for name in ("branch and bound", "integer program", "in turns") for cell in (name, "")
    )
    show("Rules over three atoms, CPU s", ("", *head), rows)
