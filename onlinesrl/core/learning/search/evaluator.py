"""What a configuration of weights is worth: evaluated once, on every core, and remembered through kills."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.core.evaluation.metrics import METRICS, Scored
from onlinesrl.core.io.atomic_write import plain, read_plain
from onlinesrl.core.learning.batch import LearningError, Problem, UnfitError
from onlinesrl.core.parallel.executors import Pool

JOURNAL = "explored.jsonl"
WORTHWHILE = 0.5
"""Seconds of evaluations for which processes are started."""


class Searchable(Problem, Protocol):
    """A problem whose weights may be searched."""

    @property
    def signed(self) -> bool:
        """Whether weights may be negative."""

    @property
    def soft(self) -> Floats:
        """Which weights may change, bool[weights]."""

    @property
    def seed(self) -> int:
        """Of random numbers."""

    @property
    def folder(self) -> Path | None:
        """Where a learner may keep what it needs to resume."""

    def tried(
        self, weights: Floats, share: float, iterations: int | None = None
    ) -> Mapping[str, Scored]:
        """Predict the problem's own data with a share of the effort, 1 for all of it.

        ``iterations``: what this share is in iterations of inference; None: as the problem has it.
        """


class Trial(NamedTuple):
    """Weights of the rules that have one, and the effort of predicting, as in ``Searchable.tried``."""

    weights: Floats
    share: float = 1.0
    iterations: int | None = None


@dataclass(frozen=True)
class Scorer:
    """Scores weights by a metric, the greater the better.

    ``predicate`` None: the only one whose truth is known.
    """

    problem: Searchable
    metric: str
    predicate: str | None

    def score(self, trial: Trial) -> float:
        """Return the metric, or its negative where less is better. Raises LearningError."""
        weights = np.zeros(len(self.problem.start))
        weights[self.problem.soft] = trial.weights
        scored = self.problem.tried(weights, trial.share, trial.iterations)
        if not scored:
            raise LearningError("no target has a truth to learn from")
        name = self.predicate or next(iter(scored))
        if name not in scored:
            raise UnfitError("predicate", f"{name} has no known truth; known: {', '.join(scored)}")
        if self.predicate is None and len(scored) > 1:
            raise UnfitError("predicate", f"needed where there are several: {', '.join(scored)}")
        metric = METRICS[self.metric]
        value = metric.measure(*scored[name])
        if value is None:
            raise LearningError(
                f"{self.metric} of {name} is not defined: its truth has no true atom, or no false one"
            )
        return value if metric.greater else -value


@dataclass
class Evaluations:
    """Scores of weights, each found once."""

    scorer: Scorer
    pool: Pool
    known: dict[bytes, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Read what a process that was stopped has evaluated; a torn last line does not count."""
        journal = self._journal
        if journal is not None and journal.exists():
            whole, _, _ = read_plain(journal).decode().rpartition("\n")
            for line in whole.splitlines():
                key, score = json.loads(line)
                self.known[bytes.fromhex(key)] = score
            with open(journal, "wb", opener=plain) as file:
                file.write(f"{whole}\n".encode() if whole else b"")

    @property
    def _journal(self) -> Path | None:
        folder = self.scorer.problem.folder
        return None if folder is None else folder / JOURNAL

    def scores(self, trials: Sequence[Trial]) -> Iterator[float]:
        """Yield the scores in the order of the trials."""
        keys = [_key(trial) for trial in trials]
        todo = {k: t for k, t in zip(keys, trials, strict=True) if k not in self.known}
        evaluated = self._evaluated([*todo.values()])
        for key in keys:
            while key not in self.known:
                trial, score = next(evaluated)
                self.known[_key(trial)] = score
                if self._journal is not None:
                    with open(self._journal, "a", opener=plain) as file:
                        file.write(json.dumps([_key(trial).hex(), score]) + "\n")
            yield self.known[key]

    def _evaluated(self, trials: Sequence[Trial]) -> Iterator[tuple[Trial, float]]:
        """Evaluate; the first in this process, the others in the pool if that takes long enough."""
        began = time.perf_counter()
        for n, trial in enumerate(trials):
            yield trial, self.scorer.score(trial)
            left = len(trials) - n - 1
            took = (time.perf_counter() - began) / (n + 1)
            if left > 1 and left * took > WORTHWHILE:
                rest = trials[n + 1 :]
                yield from zip(rest, self.pool.map(Scorer.score, self.scorer, rest), strict=True)
                return


def _key(trial: Trial) -> bytes:
    effort = [trial.share] if trial.iterations is None else [trial.share, trial.iterations]
    return trial.weights.tobytes() + np.array(effort, np.float64).tobytes()
