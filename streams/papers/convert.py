"""Convert a published data set to examples, one a line.

usage: python streams/papers/convert.py NAME FOLDER OUT

data.md lists the data sets with their names and where they are published. FOLDER is the data set as
it is published, and OUT the file to write.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

STREAMS = Path(__file__).parents[1]
FOLDERS = ("papers", "papers/jester", "citations", "meetings", "trust")
sys.path += [str(STREAMS / each) for each in FOLDERS]
import eighths  # noqa: E402
import epinions  # noqa: E402
import from_caviar  # noqa: E402
import from_jester  # noqa: E402
import published  # noqa: E402
from make import example, json_lines  # noqa: E402

Example = dict[str, Any]


# worlds ------------------------------------------------------------------------------------------


def worlds(query: str, folder: Path) -> Iterator[Example]:
    """Yield each fold as a world, in a group of its own."""
    for name, atoms in published.folds(folder):
        rows: dict[str, dict[tuple[str, ...], None]] = defaultdict(dict)
        for predicate, arguments, _ in atoms:
            rows[predicate][arguments] = None
        if query not in rows:
            sys.exit(f"{folder}: expected true atoms of {query} in {name}; there are none")
        truth = {query: [*rows.pop(query)]}
        evidence = {predicate: [*of] for predicate, of in rows.items()}
        yield {"id": name, "group": name, "evidence": evidence, "truth": truth}


# CiteSeer's citations ----------------------------------------------------------------------------

TOPICS = ("constraint", "face", "reasoning", "reinforcement")
"""By the first digit of a citation's number."""
MARKED = ("HasPunc", "HasComma", "Center", "FirstIn", "LastInitial", "FirstNonAuthorTitleTkn")
UNUSED = ("next", "lessthan", "isalphachar", "isdate", "isdigit", "isbibpos")


class Citation:
    """The words, fields and features of a citation, by position."""

    def __init__(self) -> None:
        self.words: dict[int, str] = {}
        self.fields: dict[int, str] = {}
        self.follow: dict[tuple[int, str], None] = {}
        self.marked: dict[str, dict[int, None]] = {name.lower(): {} for name in MARKED}

    def add(self, name: str, position: int, value: str) -> bool:
        """Add what an atom says of a position; return False if it has another word or field already."""
        if name == "followby":
            self.follow[position, value] = None
        elif name in self.marked:
            self.marked[name][position] = None
        else:
            column = self.words if name == "token" else self.fields  # infield, infield_fauthor, ...
            return column.setdefault(position, value) == value
        return True

    def example(self, number: str) -> Example:
        """Return the example, without the sentinels that mean "none".

        These are the number of tokens in FirstIn and FirstNonAuthorTitleTkn, and 0 in LastInitial if token 0
        is longer than an initial.
        """
        tokens = [self.words[i] for i in range(len(self.words))]
        marked = {name: [[i] for i in sorted(self.marked[name.lower()])] for name in MARKED}
        for name in ("FirstIn", "FirstNonAuthorTitleTkn"):
            marked[name] = [row for row in marked[name] if row != [len(tokens)]]
        if marked["LastInitial"] == [[0]] and len(tokens[0]) > 1:
            marked["LastInitial"] = []
        features = {"FollowBy": [*map(list, sorted(self.follow))], **marked}
        labels = [self.fields.get(i) for i in range(len(tokens))]
        return example(number, TOPICS[int(number[1])], tokens, labels, features)


def citations(folder: Path) -> Iterator[Example]:
    """Yield CiteSeer's citations by number, with the topic as group."""
    found: dict[str, Citation] = defaultdict(Citation)
    for place, name, number, position, value in statements(folder):
        if not found[number].add(name, position, value):
            sys.exit(f"{place}: expected one {name} for position {position} of {number}")
    for number, citation in sorted(found.items()):
        if sorted(citation.words) != [*range(len(citation.words))]:
            sys.exit(f"{folder}: expected a token for each position of {number} from 0 on")
        yield citation.example(number)


def statements(folder: Path) -> Iterator[tuple[str, str, str, int, str]]:
    """Yield what atoms say of a position: the place, the name, the citation, the position and a value."""
    said = [
        (atom.place, atom.predicate.lower(), *(each.lower() for each in atom.arguments))
        for _, atoms in published.folds(folder)
        for atom in atoms
    ]
    where = {at: pair for _, name, at, *pair in said if name == "isbibpos"}
    marked = {name.lower() for name in MARKED}
    for place, name, *arguments in said:
        match name, *arguments:
            case "token", word, position, number:
                value = word[1:]
            case "followby", number, position, mark:
                value = mark[1:]
            case "infield", number, field, position:
                value = field[1:]
            case (("infield_fauthor" | "infield_ftitle" | "infield_fvenue"), at) if at in where:
                number, position = where[at]
                value = name.removeprefix("infield_f")
            case _, number, position if name in marked:
                value = ""
            case _ if name in UNUSED:
                continue
            case _:
                sys.exit(
                    f"{place}: expected token(token, position, citation), a feature, or a field of a "
                    f"position that isbibpos knows, not {name}({', '.join(arguments)})"
                )
        yield place, name, *numbered(place, number, position), value


def numbered(place: str, number: str, position: str) -> tuple[str, int]:
    """Return a citation's number and a position as a number."""
    if not (number[1:2] in "0123" and number[1:].isdecimal() and position[1:].isdecimal()):
        sys.exit(
            f"{place}: expected a citation such as b0295 and a position such as p04, "
            f"not {number} and {position}"
        )
    return number, int(position[1:])


# opinions and categories -------------------------------------------------------------------------


def in_eighths(
    query: str, ask: Callable[..., eighths.Asked], of: Iterable[Any]
) -> Iterator[Example]:
    """Yield eight examples, which ask for another eighth each beside the others, in groups of their own."""
    for number, (_, _, asked, beside) in enumerate(eighths.asked_and_seen([*of]), 1):
        seen, truth = ask(asked, beside)
        yield {
            "id": number,
            "group": str(number),
            "evidence": {name: valued(values) for name, values in seen.items()},
            "query": {query: [*truth]},
            "truth": {query: valued(truth)},
        }


def valued(values: eighths.Values) -> list[Any]:
    """Return atoms with their values, without those that are 1."""
    return [
        args if value == 1 else {"args": args, "value": value} for args, value in values.items()
    ]


def opinions(folder: Path) -> Iterator[Example]:
    """Yield who trusts whom in Epinions."""
    of = epinions.read(folder / "trusts.txt")
    return in_eighths("Trusts", partial(eighths.ask_opinions, of), of)


def documents(name: str, folder: Path) -> Iterator[Example]:
    """Yield the categories of the documents of CiteSeer or Cora."""
    of = eighths.Documents.read(folder, name)
    return in_eighths("HasCat", of.ask, of.labels)


# the table ---------------------------------------------------------------------------------------

DATASETS: Mapping[str, Callable[[Path], Iterable[Example]]] = {
    "citeseer": citations,
    "uwcse": partial(worlds, "Advisedby"),
    "webkb": partial(worlds, "Faculty"),
    "cora": partial(worlds, "Samebib"),
    "yeast": partial(worlds, "function"),
    "citeseer-documents": partial(documents, "citeseer"),
    "cora-documents": partial(documents, "cora"),
    "epinions": opinions,
    "jester": from_jester.examples,
    "caviar": from_caviar.examples,
}


def main() -> None:
    """Convert a data set."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("name", metavar="NAME", choices=DATASETS, help=", ".join(DATASETS))
    parser.add_argument("folder", metavar="FOLDER", type=Path)
    parser.add_argument("out", metavar="OUT", type=Path)
    given = parser.parse_args()
    given.out.write_text(json_lines(DATASETS[given.name](given.folder)), encoding="utf-8")


if __name__ == "__main__":
    main()
