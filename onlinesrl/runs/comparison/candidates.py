"""Which configurations are compared: files, and the values of a grid."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from onlinesrl.core.errors import UsageError
from onlinesrl.core.online.update_rules import UPDATES
from onlinesrl.runs.config.loading import load_as, run_root
from onlinesrl.runs.config.mln_batch import MlnBatch
from onlinesrl.runs.config.schema import Config

_VALUE = re.compile(r"(?:[^,\[\]{}]|\{[^{}]*\}|\[[^\[\]]*\])+")
_UPDATE = ("learner", "learner.update")
Overrides = tuple[str, ...]
"""Each ``key=value``."""
Configured = Config | MlnBatch
"""What is compared: a run, or batch learning of Markov logic."""


class Candidate(NamedTuple):
    """A configuration: its name in tables, its file, and what is set in it."""

    name: str
    path: Path
    overrides: Overrides

    def load(self, more: Overrides = ()) -> Configured:
        """Read the configuration, with more that is set in it. Raises ConfigError."""
        config = load_as(_root, self.path, [*self.overrides, *more])
        if isinstance(config, Config):
            config.check_examples()
        return config

    def command(self) -> str:
        """Return the command that runs it, or that learns from its batch."""
        verb = "run" if isinstance(self.load(), Config) else "learn"
        options = [word for override in self.overrides for word in ("--set", override)]
        return shlex.join(["onlinesrl", verb, str(self.path), *options])

    def fitting(self, alternatives: Sequence[Overrides]) -> list[Overrides]:
        """Return alternatives without the keys that its update does not have, equal ones once.

        Raises ConfigError.
        """
        return [*dict.fromkeys(self._fitting(overrides) for overrides in alternatives)]

    def _fitting(self, overrides: Overrides) -> Overrides:
        keys = [override.partition("=")[0].strip() for override in overrides]
        keyed = [*zip(keys, overrides, strict=True)]
        config = self.load(tuple(override for key, override in keyed if key in _UPDATE))
        if not isinstance(config, Config):
            return overrides
        unused = {f"learner.{name}" for kind in UPDATES.values() for name in kind.model_fields}
        unused -= {f"learner.{name}" for name in type(config.learner).model_fields}
        return tuple(override for key, override in keyed if key not in unused)


def _root(values: Any) -> type[Configured]:
    """Tell batch learning, whose learner has a kind, from a run."""
    learner = values.get("learner") if isinstance(values, dict) else None
    return MlnBatch if isinstance(learner, dict) and "kind" in learner else run_root(values)


def grid(keys: Sequence[str]) -> list[Overrides]:
    """Return every combination of the values of ``KEY=v1,v2,...``, the first key slowest.

    A comma in brackets or braces is part of a value: ``learner={update: mira},{update: cda1, loss: pl}``.
    Raises UsageError.
    """
    choices = []
    for text in keys:
        key, _, listing = text.partition("=")
        values = [value.strip() for value in _VALUE.findall(listing)]
        if not key.strip() or not all(values) or not values:
            raise UsageError(f"{text}: expected KEY=v1,v2,... such as learner.sigma=0.01,0.1,1")
        choices.append([f"{key.strip()}={value}" for value in values])
    return list(product(*choices))


def candidates(paths: Sequence[Path], fixed: Sequence[str], keys: Sequence[str]) -> list[Candidate]:
    """Return every file with every combination of the grid; ``fixed`` is set in all of them."""
    combinations = grid(keys)
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
