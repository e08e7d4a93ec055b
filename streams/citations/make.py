"""Convert references.txt to citations.jsonl.

usage: python streams/citations/make.py

Both files are in this folder. README.md defines words and features as in the CiteSeer data.
"""

import json
import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
FIELDS = {"author": "author", "title": "title", "venue": "venue", "none": None}
MARKS = {".": "period", ",": "comma", ":": "colon"}
SIGNS = {
    "(": "lparen",
    ")": "rparen",
    "[": "lbracket",
    "]": "rbracket",
    ";": "semicolon",
    "'": "quote",
    "&": "amp",
    "/": "backslash",
}
SHORT = {
    "proceedings": "proc",
    "conference": "conf",
    "international": "int",
    "transactions": "tran",
    "trans": "tran",
    "technical": "tech",
    "report": "rpt",
    "volume": "vol",
    "nips": "nips",
}
VENUE_WORD = re.compile(
    "conf|dissertation|ieee|journal|nips|press|proc|publisher|rpt|tech|thesis|tran|vol"
)
YEAR = re.compile(r"(19|20)\d\d")
YEAR_OR_PAGES = re.compile(r"(19|20)\d\d|\d{5,}")


@dataclass(frozen=True)
class Reference:
    """One paragraph of references.txt; its segments are (field or None, text), in order."""

    id: str
    dup_of: str | None
    stretches: tuple[tuple[str | None, str], ...]


def references(text: str) -> Iterator[Reference]:
    """Yield the paragraphs of references.txt; raises ValueError at a line without field and text."""
    for paragraph in re.split(r"\n\n+", re.sub(r"(?m)^#.*\n", "", text).strip()):
        head, *lines = paragraph.split("\n")
        identifier, _, dup_of = head.partition(" = ")
        stretches = []
        for line in lines:
            field, _, stretch = line.partition(" ")
            if field not in FIELDS or not stretch.strip():
                raise ValueError(f"{identifier}: {line!r} is not {' | '.join(FIELDS)} and text")
            stretches.append((FIELDS[field], stretch))
        yield Reference(identifier, dup_of or None, tuple(stretches))


def word(letters: str) -> str:
    """Normalise a word like CiteSeer: some are abbreviated, a final s after a consonant is removed."""
    return SHORT.get(letters) or re.sub(r"(?<=.[b-df-hj-np-rtv-z])s$", "", letters)


def pieces(text: str) -> Iterator[tuple[str, bool]]:
    """Split a segment into tokens (True) and the names of the marks that follow them (False).

    Accents and dashes are removed: Ré becomes re, max-margin maxmargin, 12-17 1217. Raises ValueError
    for a sign without a name.
    """
    folded = unicodedata.normalize("NFKD", text.lower().replace("ph.d.", "phd"))
    folded = "".join(c for c in folded if unicodedata.category(c) not in ("Mn", "Pd"))
    for piece in re.findall(r"[a-z0-9]+|\S", folded):
        if piece in MARKS:
            yield MARKS[piece], False
        elif piece in SIGNS or piece.isalnum():
            yield SIGNS.get(piece) or word(piece), True
        else:
            raise ValueError(f"{text!r}: no name for {piece!r}, give it one in SIGNS or MARKS")


def has_punc(i: int, words: Sequence[str], marks: Sequence[set[str]]) -> bool:
    """Return whether a segment may end at token i."""
    if i + 1 == len(words):
        return True
    initial = len(words[i]) == 1 and words[i].isalpha()
    return (
        bool(marks[i] & {"comma", "dquote"})
        or (not initial and ("period" in marks[i] or YEAR.fullmatch(words[i + 1]) is not None))
        or words[i] in ("rparen", "dquote")
        or words[i + 1] in ("lparen", "dquote")
        or YEAR_OR_PAGES.fullmatch(words[i]) is not None
        or (words[i] == "quote" and words[i + 1].isdigit())
    )


def has_comma(i: int, words: Sequence[str], marks: Sequence[set[str]]) -> bool:
    """Return whether a comma ends plain text at token i."""
    return (
        "comma" in marks[i]
        and "dquote" not in marks[i]
        and i + 1 < len(words)
        and words[i + 1] not in ("lparen", "dquote")
        and words[i] not in ("rparen", "quote")
        and YEAR_OR_PAGES.fullmatch(words[i]) is None
    )


def first(positions: Iterable[int]) -> list[int]:
    """Return the first position as a list, empty if there is none."""
    return list(islice(positions, 1))


def last_initial(words: Sequence[str], marks: Sequence[set[str]], end: int) -> list[int]:
    """Return the last letter with a period, except i and j, before the first year and before end."""
    years = first(i for i, w in enumerate(words) if YEAR.fullmatch(w))
    letters = frozenset("abcdefghklmnopqrstuvwxyz")
    before = range(min([end, *years]))
    return [i for i in before if words[i] in letters and "period" in marks[i]][-1:]


def center(words: Sequence[str], punc: Sequence[int], initial: list[int], end: int) -> list[int]:
    """Return the middle, rounded up, of the last initial (or token 0) and the estimated start of the venue.

    The start is an "in" after HasPunc or after "appear", or ``end``. If it is the end of the citation,
    there is no middle.
    """
    ends = set(punc)
    opening = first(
        i for i in range(1, end) if words[i] == "in" and (i - 1 in ends or words[i - 1] == "appear")
    )
    venue = min([end, *opening])
    left = initial[0] if initial else 0
    return [(left + venue + 1) // 2] if venue < len(words) else []


def features(words: Sequence[str], marks: Sequence[set[str]]) -> dict[str, list[list[int | str]]]:
    """Return the atoms except Token and Next; marks[i] are the marks after token i."""
    everywhere = range(len(words))
    punc = [i for i in everywhere if has_punc(i, words, marks)]
    first_in = first(i for i in everywhere if words[i] == "in")
    venue_word = first(i for i in everywhere if VENUE_WORD.fullmatch(words[i]))
    end = min([len(words), *venue_word])
    initial = last_initial(words, marks, min([end, *first_in]))
    positions = {
        "HasPunc": punc,
        "HasComma": [i for i in everywhere if has_comma(i, words, marks)],
        "Center": center(words, punc, initial, end),
        "FirstIn": first_in,
        "LastInitial": initial,
        "FirstNonAuthorTitleTkn": venue_word,
    }
    follow: list[list[int | str]] = [[i, mark] for i in everywhere for mark in sorted(marks[i])]
    return {"FollowBy": follow, **{name: [[i] for i in at] for name, at in positions.items()}}


def example(
    identifier: str,
    group: str,
    tokens: Sequence[str],
    labels: Sequence[str | None],
    features: Mapping[str, Sequence[Sequence[int | str]]],
) -> dict[str, Any]:
    """Return one citation as an example: Token, features and Next as evidence, InField as truth.

    A feature is the list of its atoms. Predicates without true atoms are left out; a token labelled None
    has no InField atom.
    """
    evidence = {
        "Token": [[word, i] for i, word in enumerate(tokens)],
        **features,
        "Next": [[i, i + 1] for i in range(len(tokens) - 1)],
    }
    fields = [[i, label] for i, label in enumerate(labels) if label is not None]
    return {
        "id": identifier,
        "group": group,
        "evidence": {predicate: atoms for predicate, atoms in evidence.items() if atoms},
        "truth": {"InField": fields},
    }


def json_lines(rows: Iterable[dict[str, Any]]) -> str:
    """Write the rows as JSON lines."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def citation(reference: Reference) -> dict[str, Any]:
    """Convert one reference to an example; its group is its id without the number."""
    words: list[str] = []
    marks: list[set[str]] = []
    labels: list[str | None] = []
    for field, text in reference.stretches:
        for piece, is_token in pieces(text):
            if is_token:
                words.append(piece)
                marks.append(set())
                labels.append(field)
            else:
                marks[-1].add(piece)
    group = reference.id.rpartition("-")[0]
    row = example(reference.id, group, words, labels, features(words, marks))
    repeat = {} if reference.dup_of is None else {"dup_of": reference.dup_of}
    return {"id": reference.id, "group": group, **repeat, **row}


def made() -> str:
    """Return the text of citations.jsonl."""
    source = (HERE / "references.txt").read_text(encoding="utf-8")
    return json_lines(citation(reference) for reference in references(source))


if __name__ == "__main__":
    if "--help" in sys.argv:
        print(__doc__)
        sys.exit()
    (HERE / "citations.jsonl").write_text(made(), encoding="utf-8")
