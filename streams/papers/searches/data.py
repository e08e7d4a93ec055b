"""Eight folds of CiteSeer, Epinions and Jester as problems for learners of PSL's weights. See README.md."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onlinesrl.psl.lang.ast import PslProgram
from onlinesrl.psl.lang.columns import Columns, database_of
from onlinesrl.psl.lang.data import Database
from onlinesrl.psl.lang.reader import parse
from onlinesrl.psl.learning.problem import PslProblem, grounded

PAPERS = Path(__file__).parents[1]
sys.path += [str(PAPERS.parent / "trust"), str(PAPERS / "jester")]
import epinions  # noqa: E402
import from_jester  # noqa: E402

FOLDS = 8
Floats = NDArray[np.float64]
Values = Mapping[tuple[Any, ...], float]


class Fold(NamedTuple):
    """A problem to learn from, and a held-out one of the same rules."""

    learn: PslProblem
    test: PslProblem


class Remembered(PslProblem):
    """A problem that tries the same weights only once, though several metrics may be asked of them."""

    def tried(self, weights: Floats, share: float) -> dict[str, Any]:
        """See ``PslProblem.tried``."""
        return self._once(weights.tobytes(), share)

    @cache  # noqa: B019 - as long as the program runs
    def _once(self, weights: bytes, share: float) -> dict[str, Any]:
        return super().tried(np.frombuffer(weights), share)


@dataclass(frozen=True)
class Dataset:
    """What folds come from a folder with so many of Jester's users, and the two metrics made best."""

    folds: Callable[[Path, int], Iterator[Fold]]
    metrics: tuple[str, str]


def problem(text: str, seen: Mapping[str, Values], asked: Mapping[str, Values]) -> PslProblem:
    """Ground rules with the values seen and those asked for."""
    program = parse(text)
    truth = {name: columns(values) for name, values in asked.items()}
    targets = {name: Columns(of.constants) for name, of in truth.items()}
    observed = {name: columns(values) for name, values in seen.items()}
    return remembered(program, database_of(program.predicates, observed, targets, truth))


def remembered(program: PslProgram, database: Database) -> Remembered:
    """Ground a program."""
    return Remembered(program, database, grounded(program, {}, database).model)


def with_rules(of: PslProblem, n: int) -> PslProblem:
    """Return a problem with the first ``n`` of its rules that have weights, and all others."""
    kept = np.flatnonzero(~of.soft | (np.cumsum(of.soft) <= n))
    rules = tuple(of.program.rules[k] for k in kept)
    return remembered(replace(of.program, rules=rules), of.database)


def columns(values: Values) -> Columns:
    """Return atoms by argument."""
    return Columns([*zip(*values, strict=True)], np.array([*values.values()], float))


def parts(of: Sequence[Any]) -> list[list[Any]]:
    """Return eight random parts."""
    mixed = sorted(of)
    random.Random(0).shuffle(mixed)
    return [mixed[n::FOLDS] for n in range(FOLDS)]


def asked_and_seen(of: Sequence[Any]) -> Iterator[tuple[list[Any], ...]]:
    """Yield for each fold the parts learned: asked for and seen; and those held out: asked for and seen."""
    some = parts(of)
    for fold in range(FOLDS):
        rest = [each for n, part in enumerate(some) if n != fold for each in part]
        learn = some[(fold + 1) % FOLDS]
        known = {*learn}
        yield learn, [each for each in rest if each not in known], some[fold], rest


# Epinions ----------------------------------------------------------------------------------------


def trust(folder: Path, users: int) -> Iterator[Fold]:
    """Yield Epinions: an eighth of the opinions is asked for."""
    opinions = epinions.read(folder / "epinions" / "trusts.txt")
    for learn, beside_learn, test, beside_test in asked_and_seen([*opinions]):
        yield Fold(
            *(
                problem(
                    epinions.FLAT,
                    {
                        "Knows": dict.fromkeys((*beside, *asked), 1.0),
                        "Trusts": {pair: opinions[pair] for pair in beside},
                    },
                    {"Trusts": {pair: opinions[pair] for pair in asked}},
                )
                for asked, beside in ((learn, beside_learn), (test, beside_test))
            )
        )


# CiteSeer ----------------------------------------------------------------------------------------

CITESEER = """
1: Text(A, C) -> HasCat(A, C) ^2
1: HasCat(A, C) -> Text(A, C) ^2
1: Link(A, B) & HasCat(A, C) -> HasCat(B, C) ^2
1: Link(A, B) & HasCat(B, C) -> HasCat(A, C) ^2
""" + "\n".join(f"1: Link(A, B) & HasCat(A, 'c{n}') -> HasCat(B, 'c{n}') ^2" for n in range(1, 7))
CITESEER += "\n1: !HasCat(A, C) ^2\nHasCat(A, +C) = 1 .\n"


def citeseer(folder: Path, users: int) -> Iterator[Fold]:
    """Yield CiteSeer: an eighth of the categories is asked for, those of the others are seen."""
    here = folder / "citeseer"
    labels = {a: int(c) for a, c in _lines(here / "citeseer.labels")}
    links = {(a, b): 1.0 for a, b, *_ in _lines(here / "citeseer.links") if a != b}
    words = {
        a: [int(w.split(":")[0]) for w in ws.split()] for a, ws in _lines(here / "citeseer.words")
    }
    for learn, beside_learn, test, beside_test in asked_and_seen([*labels]):
        yield Fold(
            categories(labels, links, words, learn, beside_learn),
            categories(labels, links, words, test, beside_test),
        )


def categories(
    labels: Mapping[str, int],
    links: Values,
    words: Mapping[str, list[int]],
    asked: Sequence[str],
    beside: Sequence[str],
) -> PslProblem:
    """Ask for categories of some documents beside those of others, with what the words say of them."""
    there = {*asked, *beside}
    belief = naive_bayes([words.get(a, []) for a in beside], [labels[a] for a in beside])
    text = {
        (a, f"c{c}"): float(p)
        for a in asked
        for c, p in zip(range(1, 7), belief(words.get(a, [])), strict=True)
    }
    seen = {
        "Link": {pair: 1.0 for pair in links if pair[0] in there and pair[1] in there},
        "Text": text,
        "HasCat": {(a, f"c{c}"): float(labels[a] == c) for a in beside for c in range(1, 7)},
    }
    truth = {(a, f"c{c}"): float(labels[a] == c) for a in asked for c in range(1, 7)}
    return problem(CITESEER, seen, {"HasCat": truth})


def naive_bayes(texts: Sequence[list[int]], labels: Sequence[int]) -> Callable[[list[int]], Floats]:
    """Return what gives the probabilities of the six categories, from the words that are in a text."""
    size = 1 + max((max(text, default=0) for text in texts), default=0)
    counts, of = np.ones((6, size)), np.bincount(np.array(labels) - 1, minlength=6)
    for text, label in zip(texts, labels, strict=True):
        counts[label - 1, text] += 1
    logs = np.log(counts / counts.sum(1, keepdims=True))
    prior = np.log((of + 1) / (of + 1).sum())

    def belief(text: list[int]) -> Floats:
        score = prior + logs[:, [w for w in text if w < size]].sum(1)
        likely: Floats = np.exp(score - score.max())
        return likely / likely.sum()

    return belief


def _lines(path: Path) -> Iterator[list[str]]:
    yield from (line.split("\t") for line in path.read_text().splitlines())


# Jester ------------------------------------------------------------------------------------------


def jester(folder: Path, users: int) -> Iterator[Fold]:
    """Yield Jester: the hidden half of the ratings of so many users, others for each fold."""
    everyone, ask = hidden_ratings(folder)
    of = (ask(part[:users]) for part in parts(everyone))
    first = next(of)
    yield from (Fold(learn, test) for learn, test in pairwise(chain([first], of, [first])))


def hidden_ratings(folder: Path) -> tuple[list[int], Callable[[Sequence[int]], PslProblem]]:
    """Return Jester's users, and what asks for the hidden half of the ratings of some of them."""
    here = folder / "jester"
    rated, hidden = (
        {p: from_jester.read(here / f"jester-1-{p}-{of}-0.txt") for p in from_jester.PARTS}
        for of in ("obs", "uno")
    )
    jokes = from_jester.Jokes(rated["tr"], from_jester.read(here / "jokeTextSim.txt"))
    seen, asked = (
        {user: of for part in both.values() for user, of in from_jester.by_user(part).items()}
        for both in (rated, hidden)
    )
    rules = (PAPERS / "jester" / "jester.psl").read_text().replace("\n0.01:", "\n1:")
    return [*asked], lambda users: _ratings(rules, jokes, {u: seen[u] for u in users}, asked)


def _ratings(
    rules: str, jokes: from_jester.Jokes, seen: Mapping[int, dict[int, float]], asked: Any
) -> PslProblem:
    """Ask for the hidden ratings of users, with all facts about jokes."""
    names = [*jokes.average]
    observed: dict[str, Values] = {
        "Rating": {(f"u{u}", j): v for u, of in seen.items() for j, v in of.items()},
        "AverageOfUser": {(f"u{u}",): sum(of.values()) / len(of) for u, of in seen.items()},
        "AverageOfJoke": {(j,): jokes.average[j] for j in names},
        "Average": {(0,): jokes.mean},
        "Neighbours": dict.fromkeys(jokes.neighbours, 1.0),
        "SimilarText": jokes.text,
    }
    return problem(
        rules, observed, {"Rating": {(f"u{u}", j): v for u in seen for j, v in asked[u].items()}}
    )


DATASETS = {
    "citeseer": Dataset(citeseer, ("categorical_accuracy", "f1")),
    "epinions": Dataset(trust, ("auroc", "f1")),
    "jester": Dataset(jester, ("mse", "auroc")),
}
