"""Readers of published formats; at a mistake they end with the file, the line and what was expected."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import onlinesrl as srl

_ARGUMENT = r'(?:"[^"]*"|[^\s(),"]+)'
_ATOM = re.compile(rf"(\w+)\s*\(\s*({_ARGUMENT}(?:\s*,\s*{_ARGUMENT})*)\s*\)\s*\.")


class Atom(NamedTuple):
    """A ground atom, and the file and line that it stands in."""

    predicate: str
    arguments: tuple[str, ...]
    place: str


def folds(folder: Path) -> Iterator[tuple[str, list[Atom]]]:
    """Yield the name and the true atoms of each fold: srlearn's test parts, or Alchemy's databases (.db)."""
    tests = sorted(folder.glob("**/test/test_facts.txt"))
    databases = sorted(folder.glob("*.db"))
    if not tests and not databases:
        sys.exit(
            f"{folder}: expected foldN/test/test_facts.txt, with test_pos.txt and test_neg.txt beside it, "
            "or databases (.db)"
        )
    for path in tests:
        facts, positive, negative = (
            [*atoms(path.with_name(f"test_{part}.txt"))] for part in ("facts", "pos", "neg")
        )
        true = {atom[:2] for atom in positive}
        for predicate, arguments, place in negative:
            if (predicate, arguments) in true:
                sys.exit(f"{place}: expected a false atom, but test_pos.txt has it, too")
        yield path.parents[1].name, facts + positive
    for path in databases:
        yield path.stem, [*database(path)]


def atoms(path: Path) -> Iterator[Atom]:
    """Yield the atoms of a Prolog-like file, one a line.

    Names and constants are given a capital, as in Alchemy.
    """
    for place, line in lines(path):
        if not line.strip() or line.lstrip().startswith(("//", "%")):
            continue
        match = _ATOM.fullmatch(line.strip())
        if match is None:
            sys.exit(
                f"{place}: expected an atom such as `professor(person5).`, not `{line.strip()}`"
            )
        arguments = re.findall(_ARGUMENT, match[2])
        yield Atom(
            _capital(match[1]), tuple(_capital(each.strip('"')) for each in arguments), place
        )


def _capital(name: str) -> str:
    return name[:1].upper() + name[1:]


def database(path: Path) -> Iterator[Atom]:
    """Yield the true atoms of a database."""
    try:
        (world,) = srl.read(path)
    except srl.OnlinesrlError as error:
        sys.exit(str(error))
    for predicate, rows in world.evidence.items():
        for row in rows:
            yield Atom(predicate, tuple(map(str, row)), str(path))


def rows(
    path: Path, expected: str, *kinds: Callable[[str], Any]
) -> Iterator[tuple[str, list[Any]]]:
    """Yield the tab-separated columns of each line, as such kinds, with the line's place."""
    for place, line in lines(path):
        try:
            yield place, [kind(x) for kind, x in zip(kinds, line.split("\t"), strict=True)]
        except ValueError:
            sys.exit(f"{place}: expected {expected}, separated by tabs, not `{line}`")


def below(folder: Path, name: str) -> Path:
    """Return the file of that name in a folder or below it."""
    return next(iter(sorted(folder.rglob(name))), folder / name)


def lines(path: Path) -> Iterator[tuple[str, str]]:
    """Yield each line of a file with its place."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        sys.exit(f"{path}: {error.strerror}; see streams/papers/data.md for what the folder holds")
    for number, line in enumerate(text.splitlines(), 1):
        yield f"{path}:{number}", line
