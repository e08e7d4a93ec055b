"""Eight folds of CiteSeer, Cora, Epinions and Jester, for learners of PSL's weights. See README.md."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
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

HERE = Path(__file__).parent
PAPERS = HERE.parent
sys.path += [str(PAPERS), str(PAPERS.parent / "trust"), str(PAPERS / "jester")]
import epinions  # noqa: E402
import from_jester  # noqa: E402
from eighths import Documents, Values, ask_opinions, asked_and_seen, parts  # noqa: E402
from published import below  # noqa: E402

Floats = NDArray[np.float64]


class Fold(NamedTuple):
    """A problem to learn from, and a held-out one of the same rules."""

    learn: PslProblem
    test: PslProblem


class Remembered(PslProblem):
    """A problem that tries the same weights only once, though several metrics may be asked of them."""

    def tried(self, weights: Floats, share: float, iterations: int | None = None) -> dict[str, Any]:
        """See ``PslProblem.tried``."""
        return self._once(weights.tobytes(), share, iterations)

    @cache  # noqa: B019 - as long as the program runs
    def _once(self, weights: bytes, share: float, iterations: int | None) -> dict[str, Any]:
        return super().tried(np.frombuffer(weights), share, iterations)


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


# Epinions ----------------------------------------------------------------------------------------


def trust(folder: Path, users: int) -> Iterator[Fold]:
    """Yield Epinions: an eighth of the opinions is asked for."""
    opinions = epinions.read(folder / "epinions" / "trusts.txt")
    for learn, beside_learn, test, beside_test in asked_and_seen([*opinions]):
        made = (
            ask_opinions(opinions, learn, beside_learn),
            ask_opinions(opinions, test, beside_test),
        )
        yield Fold(*(problem(epinions.FLAT, seen, {"Trusts": truth}) for seen, truth in made))


# CiteSeer and Cora -------------------------------------------------------------------------------


def documents(name: str, folder: Path, users: int) -> Iterator[Fold]:
    """Yield CiteSeer or Cora: an eighth of the categories is asked for, those of the others are seen."""
    rules = (HERE / f"{name}.psl").read_text(encoding="utf-8")
    of = Documents.read(folder / name, name)
    for learn, beside_learn, test, beside_test in asked_and_seen([*of.labels]):
        made = (of.ask(learn, beside_learn), of.ask(test, beside_test))
        yield Fold(*(problem(rules, seen, {"HasCat": truth}) for seen, truth in made))


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
        {p: from_jester.read(below(here, f"jester-1-{p}-{of}-0.txt")) for p in from_jester.PARTS}
        for of in ("obs", "uno")
    )
    jokes = from_jester.Jokes(rated["tr"], from_jester.read(below(here, "jokeTextSim.txt")))
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
    "citeseer": Dataset(partial(documents, "citeseer"), ("categorical_accuracy", "f1")),
    "cora": Dataset(partial(documents, "cora"), ("categorical_accuracy", "f1")),
    "epinions": Dataset(trust, ("auroc", "f1")),
    "jester": Dataset(jester, ("mse", "auroc")),
}
