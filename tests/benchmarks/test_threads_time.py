"""Wall time of ADMM and tandem inference with one and two threads, on a million ground rules.

The model is PSL's friendship example with 430 people in ten blocks. Needs two cores that are idle.
"""

import statistics
import time

import numpy as np
import pytest

from onlinesrl.psl.inference.admm import Admm
from onlinesrl.psl.inference.tandem import Tandem
from tests.benchmarks.measure import show
from tests.support.hinge_models import friendship

pytestmark = pytest.mark.benchmark
PEOPLE, BLOCKS, TIMES = 430, 10, 5


def model():
    random = np.random.default_rng(0)
    similar = random.beta(7.6, 2.4, size=(PEOPLE, PEOPLE))
    return friendship(random.integers(BLOCKS, size=PEOPLE), similar)


def timed(solve, threads):
    wall, cpu = time.perf_counter(), time.process_time()
    found = solve(threads)
    return found, time.perf_counter() - wall, time.process_time() - cpu


def test_two_threads(tmp_path):
    ground, weights = model()
    engines = {
        "admm": lambda n: Admm(threads=n).solve(ground, weights),
        "tandem": lambda n: Tandem(tmp_path, threads=n).solve(
            [ground], ground.n_variables, weights
        ),
    }
    rows = []
    for name, solve in engines.items():
        runs = [(timed(solve, 1), timed(solve, 2)) for _ in range(TIMES + 1)][1:]
        for one, two in runs:
            assert one[0].y.tobytes() == two[0].y.tobytes()
            assert (one[0].energy, one[0].bound) == (two[0].energy, two[0].bound)
        median = [
            statistics.median(run[of][part] for run in runs) for part in (1, 2) for of in (0, 1)
        ]
        ratio = statistics.median(one[1] / two[1] for one, two in runs)
        rows.append((name, runs[0][0][0].iterations, *median, ratio))
    head = ("engine", "rounds", "1: wall s", "2: wall s", "1: CPU s", "2: CPU s", "wall ratio")
    show(f"One and two threads on {ground.n_rows:,} ground rules", head, rows)
