"""Compare the online learners of a PSL program on held-out examples.

usage: compare_learners.py CONFIG --test GROUP [GROUP ...] [--set KEY=VALUE ...] [--alone RULE,RULE ...]

Each learner makes one pass over the examples of the other groups; its averaged weights are tested on the
test groups. Its sigma is the one with the least progressive mean absolute error: every example is predicted
before it is learned from, and the test groups are not used. Baselines are the best constant on the test
groups (the median of the truth), the rules of the file, and, for each --alone, only the rules with these
numbers, counted from 1. Prints Markdown: mean absolute error; accuracy and F1 in per cent, with values
above 1/2 counted as true.
"""

from __future__ import annotations

import argparse
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.core.example import Example, ValuedAtom, decode
from onlinesrl.core.learner import Learner
from onlinesrl.core.metrics import Metrics
from onlinesrl.psl.lang import psl
from onlinesrl.runs.config import load
from onlinesrl.runs.schema import Config
from onlinesrl.runs.session import make_learner

SIGMAS = (0.01, 0.1, 1.0, 10.0, 100.0)
NO_SIGMA = (1.0,)
LEARNERS = (
    ("CDA1-PL", "cda1", "pl", SIGMAS),
    ("CDA1-ML", "cda1", "ml", SIGMAS),
    ("CDA2-PL", "cda2", "pl", SIGMAS),
    ("CDA2-ML", "cda2", "ml", SIGMAS),
    ("1-best MIRA", "mira", "pl", NO_SIGMA),
    ("Subgradient", "subgradient", "ml", SIGMAS),
    ("Perceptron", "perceptron", "pl", NO_SIGMA),
)
"""Name, update, loss, and the sigmas to choose from."""


def scores(learner: Learner, examples: Sequence[Example], learning: bool = False) -> dict[str, Any]:
    """Predict examples, optionally learn from each afterwards; return the scores."""
    metrics = Metrics()
    metrics.add(learner.step(examples, learning=learning)[1], len(examples))
    return metrics.snapshot()


def learned(
    config: Path, values: Sequence[str], sigmas: Sequence[float], training: Sequence[Example]
) -> tuple[Learner, float]:
    """Return the learner with the least progressive error, and its sigma."""
    found = []
    for sigma in sigmas:
        learner = make_learner(load(config, [*values, f"learner.sigma={sigma}"]))
        found.append((scores(learner, training, learning=True)["mae"], learner, sigma))
    _, learner, sigma = min(found, key=lambda each: each[0])
    return learner, sigma


def alone(config: Config, numbers: Collection[int]) -> Learner:
    """Return a learner with only the rules of these numbers."""
    program = psl.load(config.model)
    rules = enumerate(program.rules, 1)
    kept = tuple(rule if number in numbers else replace(rule, weight=0.0) for number, rule in rules)
    return make_learner(config, replace(program, rules=kept))


def constant(examples: Sequence[Example]) -> dict[str, float]:
    """Return the scores of the constant with the least error."""
    truth = np.concatenate([values(example) for example in examples])
    best = float(np.median(truth))
    true, guess = truth > 0.5, best > 0.5
    hits = float(np.sum(true)) if guess else 0.0
    return {
        "mae": float(np.mean(np.abs(truth - best))),
        "accuracy": float(np.mean(true == guess)),
        "f1": 2 * hits / (hits + len(truth)) if guess else 0.0,
    }


def values(example: Example) -> Floats:
    """Return the true values of all targets."""
    listed = [row for rows in (example.truth or {}).values() for row in rows]
    given = [row.value if isinstance(row, ValuedAtom) else 1.0 for row in listed]
    count = sum(map(len, (example.query or {}).values()))
    return np.array(given + [0.0] * (count - len(given)))


def print_row(name: str, found: Mapping[str, Any], sigma: str = "-") -> None:
    """Print a row of the table."""
    percent = (f"{100 * (found[key] or 0.0):.1f}" for key in ("accuracy", "f1"))
    print(f"| {name} | {found['mae']:.3f} | {' | '.join(percent)} | {sigma} |", flush=True)


def main() -> None:
    """Train and test every learner."""
    parser = argparse.ArgumentParser(description="Compare the online learners of a PSL program.")
    parser.add_argument("config", metavar="CONFIG", type=Path)
    parser.add_argument("--test", metavar="GROUP", nargs="+", required=True)
    parser.add_argument("--set", metavar="KEY=VALUE", action="append", default=[])
    parser.add_argument("--alone", metavar="RULE,RULE", action="append", default=[])
    arguments = parser.parse_args()
    config = load(arguments.config, arguments.set)
    lines = (line for path in config.source.path for line in path.read_bytes().splitlines())
    examples = [decode(line) for line in lines]
    test = [example for example in examples if example.group in arguments.test]
    training = [example for example in examples if example.group not in arguments.test]
    if not test or not training:
        parser.error(f"{len(test)} examples to test on and {len(training)} to learn from")

    print(f"{len(training):,} examples to learn from, {len(test):,} to test on\n")
    print("| | mean error | accuracy | F1 | sigma |\n|---|---|---|---|---|")
    print_row("best constant", constant(test))
    for numbers in arguments.alone:
        learner = alone(config, {int(number) for number in numbers.split(",")})
        print_row(f"rules {numbers} alone", scores(learner, test))
    print_row("untrained rules", scores(make_learner(config), test))
    for name, update, loss, sigmas in LEARNERS:
        keys = [*arguments.set, f"learner.update={update}", f"learner.loss={loss}"]
        learner, sigma = learned(arguments.config, keys, sigmas, training)
        print_row(name, scores(learner, test), f"{sigma:g}" if len(sigmas) > 1 else "-")


if __name__ == "__main__":
    main()
