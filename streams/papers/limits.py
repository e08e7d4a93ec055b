"""Limits of sure scores against coverage: table 5.3 and figures 5.2 to 5.4 of Srinivasan (2020).

usage: python streams/papers/limits.py FOLDER [QUERIES]

Generates QUERIES (2,000) as micrographs.py does. A score is sure where it says a match with more than an
upper or with less than a lower limit: those of the thesis, and symmetric ones, for the classifier here is
another. Queries with both sure and unsure scores are covered: S2MC predicts those, the classifier (TMC) the
others; STMC and SMC do not depend on the limits. Precision, recall and F1 of a mismatch (a value above 1/2)
are over all queries, and over those covered. CPU seconds of TRON are of one call for all queries, of ADMM of
one for each, the least of three. Queries that are not covered are solved as STMC.

Prints the tables, and writes them to FOLDER as limits-*.csv.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from onlinesrl.core.arrays import Floats
from onlinesrl.core.example import Example, ValuedAtom
from onlinesrl.psl.inference.admm import Admm
from onlinesrl.psl.inference.tron import Tron
from streams.papers.recording import keep, show_and_keep
from streams.search.micrographs import (
    MODELS,
    PRODUCTS,
    Bools,
    Scores,
    grounded,
    least_time,
    queries,
    scores,
)

THESIS = (
    (0.01, 0.94),
    (0.02, 0.88),
    (0.03, 0.82),
    (0.04, 0.76),
    (0.05, 0.70),
    (0.06, 0.64),
    (0.07, 0.58),
    (0.08, 0.52),
    (0.09, 0.47),
    (0.10, 0.40),
    (0.11, 0.35),
    (0.12, 0.30),
    (0.13, 0.25),
    (0.14, 0.20),
    (0.15, 0.15),
)
"""Table 5.3: of a match; the probability of a mismatch is 1 less these."""
SYMMETRIC = tuple((n / 100, 1 - n / 100) for n in (1, 2, 3, 5, 7, 10, 15, 20, 25, 30, 40))
BEST = (0.1, 0.9)
"""Those of the stream, which cover 60 % of the queries, as the limits of figure 5.2 do there."""


class Stream(NamedTuple):
    """Queries, the classifier's scores and the truth, both [queries, products]."""

    queries: Sequence[Example]
    score: Floats
    true: Bools


def stream(count: int) -> Stream:
    """Generate queries."""
    made = queries(count)
    score = np.array([[atom.value for atom in query.evidence["TMC"]] for query in made])
    true = [
        [[*pair] in query.truth["Mismatch"] for pair in query.query["Mismatch"]] for query in made
    ]
    return Stream(made, score, np.array(true))


def with_limits(of: Stream, lower: float, upper: float) -> tuple[list[Example], Bools]:
    """Return the queries with the scores that are sure, and which are covered, bool[queries]."""
    sure = (1 - of.score > upper) | (1 - of.score < lower)
    covered = sure.any(1) & ~sure.all(1)
    found = [
        _asked(
            query,
            [each for each, is_sure in zip(query.evidence["TMC"], row, strict=True) if is_sure],
        )
        if both
        else _asked(query, [])
        for query, row, both in zip(of.queries, sure, covered, strict=True)
    ]
    return found, covered


def _asked(query: Example, sure: Sequence[ValuedAtom]) -> Example:
    """Return a query with these sure scores; without, what follows from them is not asked for."""
    evidence = {name: atoms for name, atoms in query.evidence.items() if name != "StrongTMC"}
    asked = {"Mismatch": query.query["Mismatch"]}
    if sure:
        evidence["StrongTMC"] = sure
        asked["StrongMismatch"] = asked["Mismatch"]
    truth = dict.fromkeys(asked, query.truth["Mismatch"])
    return Example(id=query.id, evidence=evidence, truth=truth, query=asked)


def solved(name: str, some: Sequence[Example]) -> tuple[Floats, float, float]:
    """Return the values, [queries, products], and the CPU seconds of TRON and of ADMM."""
    if not some:
        return np.empty((0, PRODUCTS)), 0.0, 0.0
    graphs, weights = grounded(MODELS[name], some)
    models = [graphs.micrograph(n) for n in range(len(some))]
    (y, _), tron = least_time(lambda: Tron().solve_each(graphs, weights))
    _, admm = least_time(lambda: [Admm().solve(model, weights) for model in models])
    return y[graphs.first_variable[:-1, None] + np.arange(PRODUCTS)], tron, admm


class Sweep(NamedTuple):
    """For each pair of limits coverage and microseconds a query, which are covered, and what models say."""

    times: list[tuple[float, ...]]
    covered: list[Bools]
    values: list[dict[str, Floats]]


def sweep(of: Stream, limits: Sequence[tuple[float, float]], fixed: dict[str, Floats]) -> Sweep:
    """Solve the queries with each pair of limits; ``fixed`` are values that do not depend on them."""
    found = Sweep([], [], [])
    for lower, upper in limits:
        asked, covered = with_limits(of, lower, upper)
        parts = [
            [query for query, is_in in zip(asked, covered, strict=True) if is_in == both]
            for both in (1, 0)
        ]
        (values, *joint), (_, *plain) = solved("S2MC", parts[0]), solved("STMC", parts[1])
        tron, admm = (1e6 * (a + b) / len(asked) for a, b in zip(joint, plain, strict=True))
        found.times.append((lower, upper, float(covered.mean()), tron, admm, admm / tron))
        found.covered.append(covered)
        found.values.append(fixed | {"S2MC": of.score.copy()})
        found.values[-1]["S2MC"][covered] = values
    return found


def main(folder: Path, count: int) -> None:
    """Write the tables."""
    of = stream(count)
    solved("STMC", of.queries[:2])  # compiles
    plain, _ = with_limits(of, 0.0, 1.0)
    fixed = {"TMC": of.score} | {name: solved(name, plain)[0] for name in ("STMC", "SMC")}
    thesis, symmetric = (sweep(of, limits, fixed) for limits in (THESIS, SYMMETRIC))
    head = ("lower", "upper", "coverage", "TRON, us a query", "ADMM, us a query", "speed-up")
    show_and_keep(folder, "limits-thesis", head, thesis.times)
    show_and_keep(folder, "limits-symmetric", head, symmetric.times)
    by_coverage = sorted(row[2::3] for row in thesis.times)
    keep(folder, "limits-speed-up", ("coverage", "speed-up"), by_coverage)
    for n, name in enumerate(Scores._fields):
        for which in ("all", "covered"):
            keep_scores(folder, f"limits-{name}-{which}", n, of, symmetric)
    keep_scores(folder, "limits-thesis-f1-all", 2, of, thesis)
    keep_best(folder, of, symmetric)


def keep_scores(folder: Path, name: str, n: int, of: Stream, found: Sweep) -> None:
    """Keep precision, recall or F1 in per cent by the lower limit."""
    rows = []
    for times, covered, values in zip(*found, strict=True):
        chosen = covered if name.endswith("covered") else np.ones_like(covered)
        if chosen.any():
            each = (scores(y[chosen] > 0.5, of.true[chosen])[n] for y in values.values())
            rows.append((times[0], *(100 * score for score in each)))
    keep(folder, name, ("lower limit", *found.values[0]), rows)


def keep_best(folder: Path, of: Stream, found: Sweep) -> None:
    """Keep figure 5.2."""
    best = SYMMETRIC.index(BEST)
    covered, values = found.covered[best], found.values[best]
    rows = []
    for model in ("TMC", "STMC", "S2MC"):
        each = (
            scores(values[model][some] > 0.5, of.true[some])
            for some in (np.ones_like(covered), covered)
        )
        rows.append((model, *(100 * score for group in each for score in group)))
    names = [f"{name}, {which}" for which in ("all", "covered") for name in Scores._fields]
    show_and_keep(folder, "limits-best", (f"coverage {covered.mean():.2f}", *names), rows)


if __name__ == "__main__":
    if "--help" in sys.argv:
        print(__doc__)
        sys.exit()
    if len(sys.argv) not in {2, 3} or not all(map(str.isdecimal, sys.argv[2:])):
        sys.exit(__doc__)
    main(Path(sys.argv[1]), int(sys.argv[2]) if sys.argv[2:] else 2000)
