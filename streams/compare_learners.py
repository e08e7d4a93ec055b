"""Compare the online learners of a PSL program on held-out examples.

usage: compare_learners.py MODEL QUERY FILE --test GROUP [GROUP ...] [--alone RULE,RULE ...]

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
from typing import Any

import numpy as np
from numpy.typing import NDArray

import onlinesrl as srl

SIGMAS = (0.01, 0.1, 1.0, 10.0, 100.0)
NO_SIGMA = (None,)
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


def learned(
    keys: Mapping[str, Any], sigmas: Sequence[float | None], training: Sequence[srl.Example]
) -> tuple[srl.OnlineLearner, float | None]:
    """Return the learner with the least progressive error, and its sigma."""
    found = []
    for sigma in sigmas:
        learner = srl.OnlineLearner(**keys, sigma=sigma)
        learner.learn_many(training)
        found.append((learner.metrics["mae"], learner, sigma))
    _, learner, sigma = min(found, key=lambda each: each[0])
    return learner, sigma


def alone(model: srl.Model, numbers: Collection[int]) -> srl.Model:
    """Return a model with only the rules of these numbers; the others weigh nothing."""
    lines = model.text.splitlines()
    for rule in model.rules:
        if rule.number not in numbers:
            _, colon, text = lines[rule.line - 1].partition(":")
            lines[rule.line - 1] = f"0{colon}{text}"
    return srl.Model("\n".join(lines), "psl")


def constant(examples: Sequence[srl.Example]) -> dict[str, float]:
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


def values(example: srl.Example) -> NDArray[np.float64]:
    """Return the true values of all targets."""
    listed = [row for rows in (example.truth or {}).values() for row in rows]
    given = [1.0 if isinstance(row, list) else row.value for row in listed]
    count = sum(map(len, (example.query or {}).values()))
    return np.array(given + [0.0] * (count - len(given)))


def print_row(name: str, found: Mapping[str, Any], sigma: str = "-") -> None:
    """Print a row of the table."""
    percent = (f"{100 * (found[key] or 0.0):.1f}" for key in ("accuracy", "f1"))
    print(f"| {name} | {found['mae']:.3f} | {' | '.join(percent)} | {sigma} |", flush=True)


def main() -> None:
    """Train and test every learner."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("query", metavar="QUERY")
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("--test", metavar="GROUP", nargs="+", required=True)
    parser.add_argument("--alone", metavar="RULE,RULE", action="append", default=[])
    arguments = parser.parse_args()
    examples = [*srl.read(arguments.file)]
    test = [example for example in examples if example.group in arguments.test]
    training = [example for example in examples if example.group not in arguments.test]
    if not test or not training:
        parser.error(f"{len(test)} examples to test on and {len(training)} to learn from")
    model, query = srl.Model.read(arguments.model), arguments.query

    print(f"{len(training):,} examples to learn from, {len(test):,} to test on\n")
    print("| | mean error | accuracy | F1 | sigma |\n|---|---|---|---|---|")
    print_row("best constant", constant(test))
    for numbers in arguments.alone:
        rules = alone(model, {int(number) for number in numbers.split(",")})
        print_row(f"rules {numbers} alone", srl.OnlineLearner(rules, query).evaluate(test))
    print_row("untrained rules", srl.OnlineLearner(model, query).evaluate(test))
    for name, update, loss, sigmas in LEARNERS:
        keys = {"model": model, "query": query, "update": update, "loss": loss}
        learner, sigma = learned(keys, sigmas, training)
        print_row(name, learner.evaluate(test), f"{sigma:g}" if len(sigmas) > 1 else "-")


if __name__ == "__main__":
    main()
