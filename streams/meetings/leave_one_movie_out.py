"""Leave one movie out on CAVIAR: precision, recall and F1 of `meet` for every online learner.

usage: leave_one_movie_out.py CAVIAR.jsonl

CAVIAR.jsonl is what streams/papers/convert.py writes. Each learner makes one pass over the windows of the
other movies; its averaged weights are tested on the movie held out. Its sigma is the one with the best mean
F1 in leave-one-out over the training movies. There is a table for each of two orders: movie after movie,
and interleaved (the first window of every movie, then the second). Baselines are the majority label (all
true or all false, whichever has the better F1 on the held-out movie) and the untrained rules, all with
weight 1. Prints Markdown.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import onlinesrl as srl

MODEL = Path(__file__).with_name("meetings.mln")
NO_SIGMA = (None,)
CDA1_SIGMAS = (1.0, 3.0, 10.0, 30.0)
CDA2_SIGMAS = (0.001, 0.003, 0.01, 0.03, 0.1)


class Learner(NamedTuple):
    """An update and the sigmas to choose from."""

    name: str
    update: str
    loss: str
    sigmas: tuple[float | None, ...]


LEARNERS = (
    Learner("CDA1-PL", "cda1", "pl", CDA1_SIGMAS),
    Learner("CDA1-ML", "cda1", "ml", CDA1_SIGMAS),
    Learner("CDA2-PL", "cda2", "pl", CDA2_SIGMAS),
    Learner("CDA2-ML", "cda2", "ml", CDA2_SIGMAS),
    Learner("1-best MIRA", "mira", "pl", NO_SIGMA),
    Learner("Subgradient", "subgradient", "ml", (0.003, 0.01, 0.03, 0.1, 0.3)),
    Learner("Perceptron", "perceptron", "pl", NO_SIGMA),
    Learner("CD, 10 samples", "cd", "pl", NO_SIGMA),
)


class Scores(NamedTuple):
    """Precision, recall and F1 of HoldsAt; each 0 where it is undefined."""

    precision: float
    recall: float
    f1: float


class Split(NamedTuple):
    """The training windows and those of the movie held out."""

    training: list[srl.Example]
    test: list[srl.Example]


def splits(examples: Sequence[srl.Example]) -> dict[str, Split]:
    """Hold out each movie, by number."""
    return {
        movie: Split(
            [e for e in examples if e.group != movie], [e for e in examples if e.group == movie]
        )
        for movie in sorted({str(e.group) for e in examples})
    }


def trained(learner: Learner, sigma: float | None, split: Split) -> srl.OnlineLearner:
    """Return a learner after one pass over the training windows."""
    online = srl.OnlineLearner(
        srl.Model.read(MODEL),
        query="HoldsAt",
        update=learner.update,
        loss=learner.loss,
        sigma=sigma,
    )
    online.learn_many(split.training)
    return online


def untrained() -> srl.OnlineLearner:
    """Return the rules, all with weight 1."""
    model = srl.Model.read(MODEL)
    lines = model.text.splitlines()
    for rule in model.rules:
        if not rule.hard:
            lines[rule.line - 1] = f"1 {lines[rule.line - 1]}"
    return srl.OnlineLearner(srl.Model("\n".join(lines)), query="HoldsAt")


def scores(learner: srl.OnlineLearner, split: Split) -> Scores:
    """Return the scores of the averaged weights on the movie held out."""
    found = learner.evaluate(split.test)
    return Scores(*(float(found[name] or 0.0) for name in Scores._fields))


def majority(split: Split) -> Scores:
    """Return the scores of all true; the F1 of all false is 0."""
    true = sum(len(e.truth["HoldsAt"]) for e in split.test if e.truth)
    units = sum((len(e.evidence.get("Next", ())) + 1) * len(e.evidence["meet"]) for e in split.test)
    return Scores(true / units, 1.0, 2 * true / (units + true))


def tuned(learner: Learner, training: Sequence[srl.Example]) -> float | None:
    """Return the sigma with the best mean F1 in leave-one-out over the training movies."""
    if len(learner.sigmas) == 1:
        return learner.sigmas[0]
    inner = splits(training).values()
    return max(
        learner.sigmas,
        key=lambda sigma: sum(scores(trained(learner, sigma, s), s).f1 for s in inner),
    )


def side_by_side(examples: Sequence[srl.Example]) -> list[srl.Example]:
    """Return the windows in the order of their first frames."""
    return sorted(examples, key=lambda e: int(str(e.id).rsplit(".", maxsplit=1)[1]))


def rows(
    examples: Sequence[srl.Example],
) -> Iterator[tuple[str, dict[str, Scores], list[float | None]]]:
    """Yield each row's name, its scores on every movie held out, and its sigmas."""
    held_out = splits(examples)
    yield "majority label", {movie: majority(s) for movie, s in held_out.items()}, []
    rules = untrained()
    yield "untrained rules", {movie: scores(rules, s) for movie, s in held_out.items()}, []
    for learner in LEARNERS:
        sigmas = {movie: tuned(learner, s.training) for movie, s in held_out.items()}
        found = {
            movie: scores(trained(learner, sigmas[movie], s), s) for movie, s in held_out.items()
        }
        yield learner.name, found, list(sigmas.values()) if len(learner.sigmas) > 1 else []


def main(data: Path) -> None:
    """Print the tables of both orders."""
    examples = [*srl.read(data)]
    print("Movie after movie:\n")
    print_table(examples)
    print("\nInterleaved:\n")
    print_table(side_by_side(examples))


def print_table(examples: Sequence[srl.Example]) -> None:
    """Print a row for each learner, with the scores on every movie held out."""
    for number, (name, found, sigmas) in enumerate(rows(examples)):
        if number == 0:
            print(f"| precision, recall, F1 | {' | '.join(found)} | mean F1 | sigma |")
            print("|---|" + "---|" * (len(found) + 2))
        cells = [", ".join(f"{100 * value:.1f}" for value in s) for s in found.values()]
        mean = 100 * sum(s.f1 for s in found.values()) / len(found)
        chosen = ", ".join(f"{sigma:g}" for sigma in sigmas) or "-"
        print(f"| {' | '.join([name, *cells, f'{mean:.1f}', chosen])} |", flush=True)


if __name__ == "__main__":
    if "--help" in sys.argv:
        print(__doc__)
        sys.exit()
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
