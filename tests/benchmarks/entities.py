"""Sentences like those of CoNLL 2003, made by rule: words with entities of four kinds as BIO labels.

Names are made of syllables typical of their kind; many names are of two kinds, many are rare, and words
around them tell more or less which. A later ``day`` has some new names and new words.
"""

import random
from collections.abc import Iterator
from itertools import pairwise

Features = dict[str, str | bool]
Sentence = tuple[list[str], list[str]]

ONSETS = ["b", "br", "d", "f", "g", "h", "k", "l", "m", "n", "p", "r", "s", "st", "t", "tr", "v"]
ENDS = {
    "PER": ["son", "ez", "ov", "ini", "er", "a", "y"],
    "LOC": ["burg", "land", "ia", "ton", "a", "er", "o"],
    "ORG": ["corp", "ex", "com", "er", "ton", "a", "y"],
    "MISC": ["ish", "ese", "ian", "er", "a", "o", "ov"],
    "O": ["ing", "ed", "s", "ly", "er", "tion", "e"],
}
CUES = {
    "PER": [["mr"], ["president"], ["said"], ["coach"], ["by"]],
    "LOC": [["in"], ["at"], ["from"], ["near"], ["by"]],
    "ORG": [["at"], ["shares", "of"], ["the"], ["by"], ["from"]],
    "MISC": [["the"], ["a"], ["of", "the"], ["in"], ["by"]],
}
KINDS = [*CUES]


class Day:
    """The words of one day; two days of the same ``seed`` share all but the newest of them."""

    def __init__(self, seed: int, day: int = 0):
        fixed = random.Random(seed)
        self.words = [_word(fixed, "O", 2) for _ in range(4000)]
        self.names = {kind: [_word(fixed, kind, 1) for _ in range(1500)] for kind in KINDS}
        for one, other in pairwise(KINDS):
            self.names[other][::7] = self.names[one][::7]
        self.random = random.Random(f"{seed} {day}")
        if day:
            for place in self.random.sample(range(4000), 400):
                self.words[place] = _word(self.random, "O", 3)
            for kind in KINDS:
                for place in self.random.sample(range(1500), 300):
                    self.names[kind][place] = _word(self.random, kind, 2)

    def sentences(self, count: int) -> Iterator[Sentence]:
        """Yield sentences of 4 to 30 words, and their labels."""
        for _ in range(count):
            yield self._sentence(self.random.randint(4, 30))

    def _sentence(self, length: int) -> Sentence:
        words: list[str] = []
        labels: list[str] = []
        while len(words) < length:
            if self.random.random() < 0.82:
                words.append(self._zipf(self.words))
                labels.append("O")
            else:
                self._entity(words, labels)
        words[0] = words[0].capitalize()
        return [*words, "."], [*labels, "O"]

    def _entity(self, words: list[str], labels: list[str]) -> None:
        kind = self.random.choice(KINDS)
        cue = self.random.choice(CUES[kind]) if self.random.random() < 0.7 else []
        size = self.random.choice([1, 1, 2, 3])
        names = [self._zipf(self.names[kind]).capitalize() for _ in range(size)]
        if kind == "ORG" and self.random.random() < 0.3:
            names = [names[0].upper()]
        words += [*cue, *names]
        labels += ["O"] * len(cue)
        labels += [f"{'I' if n else 'B'}-{kind}" for n in range(len(names))]

    def _zipf(self, words: list[str]) -> str:
        """Choose a word, the n-th about in proportion to 1 / n."""
        return words[int(len(words) ** self.random.random()) - 1]


def _word(random_: random.Random, kind: str, syllables: int) -> str:
    parts = [random_.choice(ONSETS) + random_.choice("aeiou") for _ in range(syllables)]
    return "".join(parts) + random_.choice(ONSETS) + random_.choice(ENDS[kind])


def features(words: list[str]) -> list[Features]:
    """Return 20 features for each word: itself, its affixes and shape, and its neighbours'."""
    padded = ["<s>", "<s>", *words, "</s>", "</s>"]
    return [_features(*padded[n : n + 5]) for n in range(len(words))]


def _features(before2: str, before: str, word: str, after: str, after2: str) -> Features:
    return {
        "bias": True,
        "word": word.lower(),
        "prefix2": word[:2],
        "prefix3": word[:3],
        "suffix2": word[-2:],
        "suffix3": word[-3:],
        "shape": _shape(word),
        "upper": word.isupper(),
        "title": word.istitle(),
        "alpha": word.isalpha(),
        "-1:word": before.lower(),
        "-1:suffix3": before[-3:],
        "-1:shape": _shape(before),
        "-1:title": before.istitle(),
        "+1:word": after.lower(),
        "+1:suffix3": after[-3:],
        "+1:shape": _shape(after),
        "+1:title": after.istitle(),
        "-2:word": before2.lower(),
        "+2:word": after2.lower(),
    }


def _shape(word: str) -> str:
    return "".join("X" if c.isupper() else "x" if c.isalpha() else c for c in word[:4])


def entities(labels: list[str]) -> set[tuple[int, int, str]]:
    """Return the entities of BIO labels: first word, past the last, kind."""
    found, start, kind = set(), 0, "O"
    for n, label in enumerate([*labels, "O"]):
        if kind != "O" and label != f"I-{kind}":
            found.add((start, n, kind))
            kind = "O"
        if label[:1] == "B" or (label[:1] == "I" and kind == "O"):
            start, kind = n, label[2:]
    return found


def f1(truth: list[list[str]], predicted: list[list[str]]) -> float:
    """Return the F1 of whole entities."""
    pairs = [(entities(y), entities(found)) for y, found in zip(truth, predicted, strict=True)]
    hits = sum(len(y & found) for y, found in pairs)
    return 2 * hits / sum(len(y) + len(found) for y, found in pairs)
