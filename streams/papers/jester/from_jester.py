"""Jester's ratings of jokes as examples, one per user, for streams/papers/convert.py.

The folder, or one below it, has these tab-separated files: jester-1-tr-obs-0.txt and jester-1-tr-uno-0.txt
with the observed and unobserved ratings (user, joke, rating from 0 to 1) of the training users, the same
with -te- for the test users, and jokeTextSim.txt with the similarity of texts (joke, joke, value). The
examples are the users by number, first group train, then group test. Averages and neighbours of jokes are
computed from the observed ratings of group train.
"""

import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1]))

from published import below, rows

PARTS = {"tr": "train", "te": "test"}
NEIGHBOURS = 10
DIGITS = 4

Floats = NDArray[np.float64]
Pair = tuple[int, int]
Values = dict[Pair, float]


def read(path: Path) -> Values:
    """Read lines of two numbers and a value from 0 to 1; exit with a message at an invalid line."""
    found: Values = {}
    for place, (first, second, rating) in rows(path, "two numbers and a value", int, int, float):
        if not 0 <= rating <= 1:
            sys.exit(f"{place}: expected a value from 0 to 1, not {rating}")
        if (first, second) in found:
            sys.exit(f"{place}: expected one value for {first} and {second}; this is the second")
        found[first, second] = rating
    return found


class Jokes:
    """Facts about the jokes; averages and neighbours are computed from ratings."""

    def __init__(self, ratings: Values, text: Values) -> None:
        users = {user: row for row, user in enumerate(sorted({user for user, _ in ratings}))}
        names = sorted({joke for _, joke in ratings})
        columns = {joke: column for column, joke in enumerate(names)}
        table = np.full((len(users), len(names)), np.nan)
        for (user, joke), rating in ratings.items():
            table[users[user], columns[joke]] = rating
        self.text = text
        self.mean = float(np.nanmean(table))
        self.average = dict(zip(names, np.nanmean(table, axis=0).tolist(), strict=True))
        self.neighbours = neighbours(names, adjusted_cosine(table))

    def evidence(self, seen: Collection[int], hidden: Collection[int]) -> dict[str, list[Any]]:
        """Return the facts relevant for a user's hidden ratings; of pairs, those with both jokes rated."""

        def kept(pair: Pair) -> bool:
            first, second = pair
            known = (first in seen or first in hidden) and (second in seen or second in hidden)
            return known and (first in hidden or second in hidden)

        averages = self.average.items()
        return {
            "AverageOfJoke": [valued((joke,), mean) for joke, mean in averages if joke in hidden],
            "Average": [valued((0,), self.mean)],
            "Neighbours": [pair for pair in self.neighbours if kept(pair)],
            "SimilarText": [valued(pair, value) for pair, value in self.text.items() if kept(pair)],
        }


def neighbours(names: list[int], similarity: Floats) -> list[Pair]:
    """Return the pairs of each joke and its nearest neighbours, nearest first."""
    order = np.argsort(-similarity, axis=1, kind="stable")[:, :NEIGHBOURS]
    return [
        (joke, names[j])
        for i, joke in enumerate(names)
        for j in order[i].tolist()
        if similarity[i, j] > 0
    ]


def adjusted_cosine(table: Floats) -> Floats:
    """Return the adjusted cosine of columns: over rows with both, less each row's mean.

    ``table`` is [users, jokes] with NaN for missing ratings. It is -inf for a joke with itself, and 0 if
    nobody rated both.
    """
    there = np.isfinite(table).astype(np.float64)
    off = np.nan_to_num(table - np.nanmean(table, axis=1, keepdims=True))
    squares = (off**2).T @ there
    norms = np.sqrt(squares * squares.T)
    similarity = np.divide(off.T @ off, norms, np.zeros_like(norms), where=norms > 0)
    np.fill_diagonal(similarity, -np.inf)
    return similarity


def valued(args: tuple[int, ...], value: float) -> dict[str, Any]:
    """Return an atom with its value."""
    return {"args": args, "value": round(value, DIGITS)}


def example(
    user: int, group: str, seen: dict[int, float], hidden: dict[int, float], jokes: Jokes
) -> dict[str, Any]:
    """Return a user's example: observed ratings, targets, and facts about the jokes."""
    evidence = {
        "Rating": [valued((user, joke), rating) for joke, rating in seen.items()],
        "AverageOfUser": [valued((user,), sum(seen.values()) / len(seen))] if seen else [],
        **jokes.evidence(seen, hidden),
    }
    return {
        "id": user,
        "group": group,
        "evidence": {name: atoms for name, atoms in evidence.items() if atoms},
        "query": {"Rating": [(user, joke) for joke in hidden]},
        "truth": {"Rating": [valued((user, joke), rating) for joke, rating in hidden.items()]},
    }


def by_user(ratings: Values) -> dict[int, dict[int, float]]:
    """Return each user's ratings, by number of the joke."""
    found: dict[int, dict[int, float]] = {}
    for (user, joke), rating in sorted(ratings.items()):
        found.setdefault(user, {})[joke] = rating
    return found


def examples(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the users of both groups who have hidden ratings."""
    text = read(below(folder, "jokeTextSim.txt"))
    parts = {
        part: tuple(read(below(folder, f"jester-1-{part}-{half}-0.txt")) for half in ("obs", "uno"))
        for part in PARTS
    }
    jokes = Jokes(parts["tr"][0], text)
    for part, group in PARTS.items():
        observed, unobserved = parts[part]
        for user, joke in observed.keys() & unobserved.keys():
            sys.exit(
                f"{folder}: the rating of joke {joke} by user {user} is both observed and hidden"
            )
        seen = by_user(observed)
        for user, hidden in by_user(unobserved).items():
            yield example(user, group, seen.get(user, {}), hidden, jokes)
