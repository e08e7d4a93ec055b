"""Milliseconds for an exact MPE of the recorded instances, by each engine."""

import time
from dataclasses import replace

import pytest

from onlinesrl.mln.engines.engine import MapEngine
from onlinesrl.mln.engines.ilp import Ilp
from onlinesrl.mln.engines.mpe import Elimination, Mpe, Wide
from tests.benchmarks.measure import show
from tests.infer.models import Instance, instance

pytestmark = pytest.mark.benchmark
NAMES = [f"{kind}-{n}" for kind in ("W1", "W2") for n in range(4)]
NAMES += [f"W3-100-weak-{n}" for n in range(3)]
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
        assert found.score == pytest.approx(recorded.optimum, abs=1e-6)
    return min(times)


def test_time_of_an_exact_mpe():
    rows = []
    for name in NAMES:
        recorded = instance(name)
        engines = (Ilp(), Mpe(Ilp()), Elimination())
        ilp, *others = (milliseconds(engine, recorded) for engine in engines)
        cells = [x for ms in others for x in (("wide", "") if ms is None else (ms, ms / ilp))]
        rows.append((name, recorded.model.n_atoms, recorded.model.n_clauses, ilp, *cells))
    head = ("", "atoms", "clauses", "ILP", "Mpe", "/ ILP", "elimination", "/ ILP")
    show("Exact MPE, ms a solve, HiGHS", head, rows)
