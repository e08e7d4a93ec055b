"""Eighths of opinions and of documents: each is asked for beside the others, which are seen."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from published import rows

EIGHTHS = 8
Floats = NDArray[np.float64]
Values = Mapping[tuple[Any, ...], float]


class Asked(NamedTuple):
    """What is seen, by predicate, and the values of what is asked for."""

    seen: Mapping[str, Values]
    truth: Values


def parts(of: Sequence[Any]) -> list[list[Any]]:
    """Return eight random parts."""
    mixed = sorted(of)
    random.Random(0).shuffle(mixed)
    return [mixed[n::EIGHTHS] for n in range(EIGHTHS)]


def asked_and_seen(of: Sequence[Any]) -> Iterator[tuple[list[Any], ...]]:
    """Yield for each fold the parts learned: asked for and seen; and those held out: asked for and seen."""
    some = parts(of)
    for fold in range(EIGHTHS):
        rest = [each for n, part in enumerate(some) if n != fold for each in part]
        learn = some[(fold + 1) % EIGHTHS]
        known = {*learn}
        yield learn, [each for each in rest if each not in known], some[fold], rest


def ask_opinions(opinions: Values, asked: Sequence[Any], beside: Sequence[Any]) -> Asked:
    """Ask for opinions beside others."""
    seen: dict[str, Values] = {
        "Knows": dict.fromkeys((*beside, *asked), 1.0),
        "Trusts": {pair: opinions[pair] for pair in beside},
    }
    return Asked(seen, {pair: opinions[pair] for pair in asked})


class Documents(NamedTuple):
    """Documents with the numbers of their categories and words, and the links between them."""

    labels: Mapping[str, int]
    words: Mapping[str, Sequence[int]]
    links: Values

    @classmethod
    def read(cls, folder: Path, name: str) -> Documents:
        """Read NAME.labels, NAME.words and NAME.links; a link of a document to itself is left out."""
        labels = rows(folder / f"{name}.labels", "a document and its category", str, int)
        words = rows(folder / f"{name}.words", "a document and words such as 352:1", str, numbers)
        links = rows(folder / f"{name}.links", "two documents", str, str)
        return cls(
            {document: category for _, (document, category) in labels},
            {document: of for _, (document, of) in words},
            {(a, b): 1.0 for _, (a, b) in links if a != b},
        )

    def ask(self, asked: Sequence[str], beside: Sequence[str]) -> Asked:
        """Ask for the categories of documents beside those of others.

        Of the words is seen what naive Bayes says of them that has learned from the others.
        """
        there, categories = {*asked, *beside}, range(1, max(self.labels.values()) + 1)
        belief = naive_bayes(
            [self.words.get(a, []) for a in beside],
            [self.labels[a] for a in beside],
            len(categories),
        )
        text = {
            (a, f"c{c}"): float(p)
            for a in asked
            for c, p in zip(categories, belief(self.words.get(a, [])), strict=True)
        }
        known, truth = (
            {(a, f"c{c}"): float(self.labels[a] == c) for a in part for c in categories}
            for part in (beside, asked)
        )
        links = {pair: 1.0 for pair in self.links if pair[0] in there and pair[1] in there}
        return Asked({"Link": links, "Text": text, "HasCat": known}, truth)


def numbers(words: str) -> list[int]:
    """Return the numbers of words such as `352:1 903:1`."""
    return [int(word.split(":")[0]) for word in words.split()]


def naive_bayes(
    texts: Sequence[Sequence[int]], labels: Sequence[int], categories: int
) -> Callable[[Sequence[int]], Floats]:
    """Return what gives the probabilities of the categories, from the words that are in a text."""
    size = 1 + max((max(text, default=0) for text in texts), default=0)
    counts = np.ones((categories, size))
    of = np.bincount(np.array(labels) - 1, minlength=categories)
    for text, label in zip(texts, labels, strict=True):
        counts[label - 1, text] += 1
    logs = np.log(counts / counts.sum(1, keepdims=True))
    prior = np.log((of + 1) / (of + 1).sum())

    def belief(text: Sequence[int]) -> Floats:
        score = prior + logs[:, [w for w in text if w < size]].sum(1)
        likely: Floats = np.exp(score - score.max())
        return likely / likely.sum()

    return belief
