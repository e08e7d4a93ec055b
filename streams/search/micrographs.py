"""Compare the models of table 5.2 on generated queries, and TRON with ADMM in solving them.

usage: python streams/search/micrographs.py [QUERIES]

Generates QUERIES (2,000) as generate.py does, with another seed. The first table has precision, recall and
F1 of a mismatch (a value above 1/2), over all queries and over those with both sure and unsure scores. S2MC
is for the latter; in the others it uses the classifier's score (section 5.5.3). The second table has CPU
times per query: of TRON with all queries in one call, of ADMM with one query per call, and of ADMM with
all queries as one model; then the ratios of ADMM's times to TRON's, and the largest differences of energy
(relative above 1) and value. Times are the least of three. Prints Markdown.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from onlinesrl.core.arrays import Floats
from onlinesrl.core.example import Example
from onlinesrl.psl.ground.grounder import Grounder
from onlinesrl.psl.ground.hinge_loss_mrf import Micrographs
from onlinesrl.psl.ground.packing import PslPacker
from onlinesrl.psl.inference.admm import Admm
from onlinesrl.psl.inference.tron import Tron
from onlinesrl.psl.lang import reader

STREAM = Path(__file__).parent
sys.path.insert(0, str(STREAM))

from generate import PRODUCTS, examples  # noqa: E402

RULES = STREAM / "search.psl"
SEED = 8
MODELS = {
    "STMC": (1000, 1000, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0),
    "SMC": (100, 100, 10, 10, 0, 0, 0, 0, 0, 0, 1, 0),
    "S2MC": (10, 10, 0, 0, 1000, 1000, 10, 10, 100, 100, 1, 1),
}
"""Table 5.2: weights of 5.2 to 5.11, then of 5.12 for Mismatch and for StrongMismatch."""

REPEATS = 3
COLUMNS = (
    "TRON",
    "ADMM, one per call",
    "ADMM, one model",
    "ratio, one per call",
    "ratio, one model",
    "energy, value: one per call",
    "energy, value: one model",
)

Bools = NDArray[np.bool_]
T = TypeVar("T")


class Scores(NamedTuple):
    """Precision, recall and F1; 0 where undefined."""

    precision: float
    recall: float
    f1: float


def queries(count: int) -> list[Example]:
    """Generate queries other than those of the stream."""
    return [msgspec.convert(example, Example) for example in examples(count, SEED)]


def grounded(weights: Sequence[float], queries: Sequence[Example]) -> tuple[Micrographs, Floats]:
    """Ground the rules of non-zero weight; return the micrographs and these weights."""
    whole = reader.load(RULES)
    pairs = zip(whole.rules, weights, strict=True)
    rules = tuple(replace(rule, weight=float(weight)) for rule, weight in pairs if weight)
    program = replace(whole, rules=rules)
    packer = PslPacker(whole.predicates, ("Mismatch", "StrongMismatch"), 1000)
    worlds = [packer.world(query) for query in queries]
    found = Grounder(program).ground_worlds(packer.database(worlds), len(worlds), packer.query)
    assert not found.failures
    return found.graphs, np.array([weight for weight in weights if weight], np.float64)


def energies(graphs: Micrographs, weights: Floats, y: Floats) -> Floats:
    """Return the energy of every micrograph, float64[micrographs]."""
    rows = graphs.model.row_weights(weights) * graphs.model.potentials(y)
    return np.add.reduceat(rows, graphs.first_row[:-1])


def least_time(call: Callable[[], T]) -> tuple[T, float]:
    """Return the result of a call and its least CPU seconds."""
    seconds = []
    for _ in range(REPEATS):
        started = time.process_time()
        result = call()
        seconds.append(time.process_time() - started)
    return result, min(seconds)


def compared(graphs: Micrographs, weights: Floats) -> tuple[Floats, list[str]]:
    """Solve micrographs three ways; return TRON's values and the cells of the second table."""
    count = len(graphs.first_row) - 1
    models = [graphs.micrograph(n) for n in range(count)]
    tron, admm = Tron(), Admm()
    tron.solve_each(graphs, weights)
    (y, _), in_tron = least_time(lambda: tron.solve_each(graphs, weights))
    each, in_each = least_time(lambda: [admm.solve(model, weights) for model in models])
    whole, in_whole = least_time(lambda: admm.solve(graphs.model, weights))
    times = [1e6 * seconds / count for seconds in (in_tron, in_each, in_whole)]
    cells = [f"{each:.1f}" for each in times]
    cells += [f"{times[1] / times[0]:.0f}", f"{times[2] / times[0]:.0f}"]
    ours = energies(graphs, weights, y)
    for other in (np.concatenate([found.y for found in each]), whole.y):
        energy = np.abs(energies(graphs, weights, other) - ours) / np.maximum(ours, 1.0)
        cells.append(f"{energy.max():.0e}, {np.abs(other - y).max():.0e}")
    return y, cells


def scores(predicted: Bools, true: Bools) -> Scores:
    """Compare predictions, bool[queries, products], with the truth."""
    right = float(np.sum(predicted & true))
    precision = right / max(1, np.sum(predicted))
    recall = right / max(1, np.sum(true))
    return Scores(precision, recall, 2 * right / max(1, np.sum(predicted) + np.sum(true)))


def print_row(cells: Sequence[str]) -> None:
    """Print a row of a Markdown table."""
    print(f"| {' | '.join(cells)} |", flush=True)


def main(count: int) -> None:
    """Print both tables."""
    made = queries(count)
    sure = np.array(["StrongTMC" in query.evidence for query in made])
    score = np.array([[atom.value for atom in query.evidence["TMC"]] for query in made])
    true = np.array(
        [[[*pair] in query.truth["Mismatch"] for pair in query.query["Mismatch"]] for query in made]
    )
    values, timed = {"TMC": score}, {}
    for name, weights in MODELS.items():
        solved = sure if name == "S2MC" else np.ones(count, np.bool_)
        graphs, used = grounded(weights, [made[n] for n in np.flatnonzero(solved)])
        y, timed[name] = compared(graphs, used)
        values[name] = score.copy()
        values[name][solved] = y[graphs.first_variable[:-1, None] + np.arange(PRODUCTS)]

    print_row(["precision, recall, F1", "all", "queries with both sure and unsure scores"])
    print_row(["---"] * 3)
    for name, value in values.items():
        found = [scores(value > 0.5, true), scores(value[sure] > 0.5, true[sure])]
        print_row([name, *(", ".join(f"{100 * x:.1f}" for x in each) for each in found)])
    print(
        f"\n{count} queries, {100 * np.mean(sure):.0f} % of them with both sure and unsure scores\n"
    )
    print_row(["us per query", *COLUMNS])
    print_row(["---"] * (1 + len(COLUMNS)))
    for name, cells in timed.items():
        print_row([name, *cells])


if __name__ == "__main__":
    if "--help" in sys.argv:
        print(__doc__)
        sys.exit()
    if len(sys.argv) > 2 or not all(map(str.isdecimal, sys.argv[1:])):
        sys.exit(__doc__)
    main(int(sys.argv[1]) if sys.argv[1:] else 2000)
