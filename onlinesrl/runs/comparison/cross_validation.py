"""Cross-validation and tuning, in processes of their own; what comes out does not depend on how many."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from onlinesrl.core.errors import DataError, OnlinesrlError, UsageError
from onlinesrl.core.example import Example
from onlinesrl.core.parallel.config import PoolSection, opening
from onlinesrl.runs.comparison.candidates import Candidate, Overrides
from onlinesrl.runs.comparison.folds import Fold, last_tenth
from onlinesrl.runs.comparison.scoring import SCORES, Score, folds_of, score
from onlinesrl.runs.config.schema import Config
from onlinesrl.runs.run import make_learner


class Tested(NamedTuple):
    """What came of a candidate on a fold: its score and what tuning chose, or why there is none."""

    fold: str
    score: Score | None
    chosen: Overrides = ()
    error: str | None = None


class Compared(NamedTuple):
    """A candidate, and what came of it on every fold; none where ``error`` says why it has not begun."""

    candidate: Candidate
    tested: Sequence[Tested]
    error: str | None = None


class _Loaded(NamedTuple):
    """A candidate, the alternatives to tune among, and its folds."""

    candidate: Candidate
    alternatives: Sequence[Overrides]
    folds: Sequence[Fold]


@dataclass(frozen=True)
class _Work:
    """What all processes share: the candidates that can be run."""

    candidates: Sequence[_Loaded]
    metric: str


class _Part(NamedTuple):
    """A candidate and a fold by their numbers."""

    candidate: int
    fold: int


def cross_validated(
    candidates: Sequence[Candidate],
    alternatives: Sequence[Overrides],
    folds: int | None,
    metric: str,
    pool: PoolSection,
    say: Callable[[str], object],
) -> list[Compared]:
    """Score every candidate on every fold, in the order of the candidates.

    Of ``alternatives`` the best on the last tenth of a fold's training part is taken, if there are several;
    keys that a candidate's update does not have are left out of them. ``folds``: see ``scoring.folds_of``.
    Candidates that fail say why. Raises UsageError where candidates are not about the same examples.
    """
    with opening(pool, inline=False) as ready:
        loaded = _loaded(candidates, alternatives, folds)
        work = _Work([entry for entry in loaded if isinstance(entry, _Loaded)], metric)
        todo = [
            _Part(n, m) for n, entry in enumerate(work.candidates) for m in range(len(entry.folds))
        ]
        tested: list[Tested] = []
        for result in ready().map(_tested, work, todo):
            tested.append(result)
            say(f"{len(tested)} of {len(todo)} folds of all configurations")
    results = iter(tested)
    return [
        Compared(candidate, [next(results) for _ in entry.folds])
        if isinstance(entry, _Loaded)
        else Compared(candidate, (), str(entry))
        for candidate, entry in zip(candidates, loaded, strict=True)
    ]


def _loaded(
    candidates: Sequence[Candidate], alternatives: Sequence[Overrides], folds: int | None
) -> list[_Loaded | OnlinesrlError]:
    """Return each candidate's folds, or why it cannot be run; kernels are compiled before processes start.

    Examples that several candidates read are in memory once. Raises UsageError where the folds of two
    sources test different examples.
    """
    by_source: dict[str, Sequence[Fold]] = {}
    entries: list[_Loaded | OnlinesrlError] = []
    for candidate in candidates:
        try:
            fitting = candidate.fitting(alternatives)
            config, *_ = [candidate.load(more) for more in fitting]
            if isinstance(config, Config):  # compiled, so that the processes have the kernels
                make_learner(config).compile()
            else:
                config.language.load(config.model, config.dialect)
            source = f"{config.source.model_dump_json()} {config.query} {config.dialect}"
            if source not in by_source:
                by_source[source] = folds_of(config, folds)
            entries.append(_Loaded(candidate, fitting, by_source[source]))
        except OnlinesrlError as error:
            entries.append(error)
    tested = [[[str(e.id) for e in fold.test] for fold in folds] for folds in by_source.values()]
    if any(other != tested[0] for other in tested[1:]):
        raise UsageError(
            "the configurations have different examples; compare them on the same ones"
        )
    if (errors := [entry for entry in entries if isinstance(entry, OnlinesrlError)]) == entries:
        raise errors[0]
    return entries


def _tested(work: _Work, part: _Part) -> Tested:
    """Tune a candidate on a fold, and score it."""
    candidate, alternatives, folds = work.candidates[part.candidate]
    fold = folds[part.fold]
    try:
        chosen = _best(candidate, alternatives, fold.training, work.metric)
        return Tested(fold.name, score(candidate.load(chosen), fold, work.metric), chosen)
    except OnlinesrlError as error:
        return Tested(fold.name, None, error=str(error))
    except MemoryError:
        return Tested(fold.name, None, error="there is not enough memory")


def _best(
    candidate: Candidate,
    alternatives: Sequence[Overrides],
    training: Sequence[Example],
    metric: str,
) -> Overrides:
    if len(alternatives) == 1:
        return alternatives[0]
    fold, failed = last_tenth(training), ""
    scored: list[tuple[Overrides, float]] = []
    for overrides in alternatives:
        try:
            scored.append((overrides, score(candidate.load(overrides), fold, metric).value))
        except OnlinesrlError as error:
            failed = str(error)
    if not scored:
        raise DataError(failed)
    return scored[best([value for _, value in scored], metric)][0]


def best(scores: Sequence[float], metric: str) -> int:
    """Return the number of the best score, of equal ones the first."""
    sign = 1.0 if SCORES[metric] else -1.0
    return max(range(len(scores)), key=lambda n: sign * scores[n])
