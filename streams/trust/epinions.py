"""Distrust in a sample of Epinions, with latent attributes of people: learners by rounds of ADMM, on folds.

usage: python streams/trust/epinions.py KNOWS TRUSTS [--folds N] [--output FOLDER]

KNOWS and TRUSTS are tab-separated: who, whom, and whether the opinion is trust. Prints a table, and writes it
with a figure to FOLDER. See README.md.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import onlinesrl as srl
from onlinesrl.psl.lang.columns import Columns, database_of
from onlinesrl.psl.lang.reader import parse
from onlinesrl.psl.learning.latent import Em, Latent, PairedDual, Primal
from onlinesrl.psl.learning.mle import Mle
from onlinesrl.psl.learning.problem import PslProblem, grounded

sys.path.insert(0, str(Path(__file__).parents[1] / "papers"))

from by_rounds import Curves, Score, report
from published import rows

FLAT = (Path(__file__).parent / "trust.psl").read_text()
LATENT = """
1: Knows(A, B) & Trusts(A, B) -> Trusting(A) ^2
1: Knows(A, B) & !Trusts(A, B) -> !Trusting(A) ^2
1: Knows(A, B) & Trusting(A) -> Trusts(A, B) ^2
1: Knows(A, B) & !Trusting(A) -> !Trusts(A, B) ^2
1: Knows(A, B) & Trusts(A, B) -> Trustworthy(B) ^2
1: Knows(A, B) & !Trusts(A, B) -> !Trustworthy(B) ^2
1: Knows(A, B) & Trustworthy(B) -> Trusts(A, B) ^2
1: Knows(A, B) & !Trustworthy(B) -> !Trusts(A, B) ^2
"""
OPTIONS: dict[str, Any] = {"latent": ("Trusting", "Trustworthy"), "l2": 0.001}
LEARNERS: dict[str, Latent] = {
    "PDL, N=1": PairedDual(updates=500, **OPTIONS),
    "PDL, N=10": PairedDual(rounds=10, updates=120, **OPTIONS),
    "EM": Em(updates=200, **OPTIONS),
    "Primal": Primal(updates=120, **OPTIONS),
}

Opinions = Mapping[tuple[str, str], float]


def main() -> None:
    """Run the experiment."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("knows", type=Path)
    parser.add_argument("trusts", type=Path)
    parser.add_argument("--folds", type=int, default=8)
    parser.add_argument("--output", type=Path, default=Path("runs/epinions"))
    given = parser.parse_args()
    opinions = read(given.trusts)
    pairs = sorted(opinions)
    random.Random(0).shuffle(pairs)
    parts = [pairs[n::8] for n in range(8)]
    curves = Curves.empty()
    for fold in range(given.folds):
        print(f"fold {fold + 1}", flush=True)
        test, learn = parts[fold], parts[(fold + 1) % 8]
        rest = [pair for n, part in enumerate(parts) if n != fold for pair in part]
        seen = [pair for pair in rest if pair not in {*learn}]
        of, held_out = ground(FLAT, opinions, seen, learn), ground(FLAT, opinions, rest, test)
        flat = Mle(log=0.1, entropy=0.0).learn(of, lambda step: None).weights
        curves.other("flat, mle", distrust(held_out, flat))
        text = FLAT + LATENT
        of, held_out = ground(text, opinions, seen, learn), ground(text, opinions, rest, test)
        for name, learner in LEARNERS.items():
            curves.follow(name, learner, of, partial(distrust, held_out))
    report(curves, Score("AUPR of distrust"), given.output, ("Primal", "EM"))


def read(path: Path) -> Opinions:
    """Return the opinions of a file."""
    return {
        (a, b): value for _, (a, b, value) in rows(path, "who, whom and a value", str, str, float)
    }


def ground(
    text: str, opinions: Opinions, seen: Sequence[tuple[str, str]], asked: Sequence[tuple[str, str]]
) -> PslProblem:
    """Ask for some opinions beside those seen."""
    program = parse(text)
    people = Columns([sorted({person for pair in (*seen, *asked) for person in pair})])
    given, wanted = (
        Columns([[*c] for c in zip(*pairs, strict=True)], np.array([opinions[p] for p in pairs]))
        for pairs in (seen, asked)
    )
    observed = {"Knows": Columns([[*c] for c in zip(*seen, *asked, strict=True)]), "Trusts": given}
    targets = {"Trusts": Columns(wanted.constants)}
    if "Trusting" in program.predicates:
        targets |= {"Trusting": people, "Trustworthy": people}
    database = database_of(program.predicates, observed, targets, {"Trusts": wanted})
    return grounded(program, {}, database)


def distrust(of: PslProblem, weights: NDArray[np.float64]) -> float:
    """Return the area under precision and recall of distrust (average precision) with weights."""
    aupr = srl.METRICS["aupr_negative"].measure(*of.predicted(weights)["Trusts"])
    assert aupr is not None
    return aupr


if __name__ == "__main__":
    main()
