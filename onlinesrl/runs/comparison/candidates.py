"""Which configurations are compared: files, and the values of a grid."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

from onlinesrl.core.errors import UsageError
from onlinesrl.runs.config import Config, load

_VALUE = re.compile(r"(?:[^,\[\]{}]|\{[^{}]*\}|\[[^\[\]]*\])+")
Overrides = tuple[str, ...]
"""Each ``key=value``."""


class Candidate(NamedTuple):
    """A configuration: its name in tables, its file, and what is set in it."""

    name: str
    path: Path
    overrides: Overrides

    def load(self, more: Overrides = ()) -> Config:
        """Read the configuration, with more that is set in it. Raises ConfigError."""
        return load(self.path, [*self.overrides, *more])


def grid(given: Sequence[str]) -> list[Overrides]:
    """Return every combination of the values of ``KEY=v1,v2,...``, the first key slowest.

    A comma in brackets or braces is part of a value: ``learner={update: mira},{update: cda1, loss: pl}``.
    Raises UsageError.
    """
    return list(product(*map(_choices, given)))


def _choices(given: str) -> list[str]:
    key, _, values = given.partition("=")
    found = [value.strip() for value in _VALUE.findall(values)]
    if not key.strip() or not all(found) or not found:
        raise UsageError(f"{given}: expected KEY=v1,v2,... such as learner.sigma=0.01,0.1,1")
    return [f"{key.strip()}={value}" for value in found]


def candidates(
    paths: Sequence[Path], fixed: Sequence[str], given: Sequence[str]
) -> list[Candidate]:
    """Return every file with every combination of the grid; ``fixed`` is set in all of them."""
    combinations = grid(given)
    several = len(paths) > 1
    return [
        Candidate(
            shown(chosen, path.stem if several or not chosen else ""), path, (*fixed, *chosen)
        )
        for path in paths
        for chosen in combinations
    ]


def shown(overrides: Overrides, first: str = "") -> str:
    """Return overrides as a name: ``sigma=0.1``; of a section, what is in its braces."""
    return ", ".join([first, *map(_short, overrides)] if first else map(_short, overrides))


def _short(override: str) -> str:
    key, _, value = override.partition("=")
    return value.strip("{} ") if value.startswith("{") else f"{key.rpartition('.')[2]}={value}"


def command(candidate: Candidate) -> str:
    """Return the command that runs a candidate."""
    words = ["onlinesrl", "run", str(candidate.path)]
    for override in candidate.overrides:
        words += ["--set", override]
    return shlex.join(words)
