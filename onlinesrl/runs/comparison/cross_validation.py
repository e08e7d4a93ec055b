"""Cross-validation and tuning, in processes of their own; what comes out does not depend on how many."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from onlinesrl.core.errors import DataError, OnlinesrlError, UsageError
from onlinesrl.core.example import Example
from onlinesrl.core.interrupt import whole
from onlinesrl.core.parallel.config import PoolSection, opening
from onlinesrl.core.parallel.executors import Pool
from onlinesrl.runs import console
from onlinesrl.runs.comparison.candidates import Candidate, Configured, Overrides
from onlinesrl.runs.comparison.fold_cache import (
    Journal,
    Kept,
    digest,
    digest_of_candidate,
    digest_of_examples,
)
from onlinesrl.runs.comparison.folds import Divide, Fold, last_tenth
from onlinesrl.runs.comparison.scoring import SCORES, Score, examples_of, score
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


@dataclass(frozen=True)
class _Work:
    """What all processes share: candidates, and of each the alternatives to tune among and the folds."""

    candidates: Sequence[Candidate]
    alternatives: Sequence[Sequence[Overrides]]
    folds: Sequence[Sequence[Fold]]
    metric: str


class _Part(NamedTuple):
    """A candidate and a fold by their numbers, and the digest of what the score depends on."""

    candidate: int
    fold: int
    key: str


class _Loaded(NamedTuple):
    """A candidate's alternatives and folds, and the digests of itself and of the examples."""

    alternatives: Sequence[Overrides]
    folds: Sequence[Fold]
    candidate: str
    examples: str

    def key(self, fold: Fold) -> str:
        """Return the digest of all that the score on a fold depends on."""
        return digest(self.candidate, self.examples, [example.id for example in fold.test])


def cross_validated(
    candidates: Sequence[Candidate],
    alternatives: Sequence[Overrides],
    divide: Divide,
    metric: str,
    pool: PoolSection,
    say: Callable[[str], object],
    journal: Journal,
) -> list[Compared]:
    """Score every candidate on every fold, in the order of the candidates.

    Of ``alternatives`` the best on the last tenth of a fold's training part is taken, if there are several;
    keys that a candidate's update does not have are left out of them.
    Candidates that fail say why. What the journal knows is not done again. Raises UsageError where
    candidates are not about the same examples.
    """
    with opening(pool, inline=False) as ready:
        loaded = _loaded(candidates, alternatives, divide, metric)
        good = [entry for entry in loaded if isinstance(entry, _Loaded)]
        runnable = [
            c for c, entry_ in zip(candidates, loaded, strict=True) if isinstance(entry_, _Loaded)
        ]
        tuned = [entry_.alternatives for entry_ in good]
        work = _Work(runnable, tuned, [entry_.folds for entry_ in good], metric)
        parts = [
            _Part(n, m, entry_.key(fold))
            for n, entry_ in enumerate(good)
            for m, fold in enumerate(entry_.folds)
        ]
        results = _all_tested(work, parts, ready, say, journal)
    return [
        Compared(c, [next(results) for _ in entry_.folds])
        if isinstance(entry_, _Loaded)
        else Compared(c, (), str(entry_))
        for c, entry_ in zip(candidates, loaded, strict=True)
    ]


def _all_tested(
    work: _Work,
    parts: Sequence[_Part],
    ready: Callable[[], Pool],
    say: Callable[[str], object],
    journal: Journal,
) -> Iterator[Tested]:
    """Return what came of each part, those that the journal does not know being done now."""
    todo = [part for part in parts if part.key not in journal.known]
    tested: dict[_Part, Tested] = {}
    if len(todo) < len(parts):
        console.say(f"going on: {len(parts) - len(todo)} of {len(parts)} folds are known")
    with whole():  # else Ctrl-C would be lost in a fork
        for part, result in zip(todo, ready().map(_tested, work, todo), strict=True):
            tested[part] = result
            if result.score is not None:
                journal.add(Kept(part.key, result.score, result.chosen))
            count = len(parts) - len(todo) + len(tested)
            say(f"{count} of {len(parts)} folds of all configurations")
    return (tested[part] if part in tested else _known(work, part, journal) for part in parts)


def _known(work: _Work, part: _Part, journal: Journal) -> Tested:
    cached = journal.known[part.key]
    return Tested(work.folds[part.candidate][part.fold].name, cached.score, cached.chosen)


def _loaded(
    candidates: Sequence[Candidate],
    alternatives: Sequence[Overrides],
    divide: Divide,
    metric: str,
) -> list[_Loaded | OnlinesrlError]:
    """Return each candidate's folds, or why it cannot be run; kernels are compiled before processes start.

    Examples that several candidates read are in memory once.
    """
    by_source: dict[str, tuple[list[Fold], str]] = {}
    entries: list[_Loaded | OnlinesrlError] = []
    for candidate in candidates:
        try:
            fitting = candidate.fitting(alternatives)
            configs = [candidate.load(more) for more in fitting]
            text = _compiled(configs[0])
            source = _source(configs[0])
            if source not in by_source:
                examples = examples_of(configs[0])
                by_source[source] = [*divide(examples)], digest_of_examples(examples)
            folds, examples_digest = by_source[source]
            candidate_digest = digest_of_candidate(configs, text, metric)
            entries.append(_Loaded(fitting, folds, candidate_digest, examples_digest))
        except OnlinesrlError as error:
            entries.append(error)
    _check_same([folds for folds, _ in by_source.values()])
    if (errors := [entry for entry in entries if isinstance(entry, OnlinesrlError)]) == entries:
        raise errors[0]
    return entries


def _compiled(config: Configured) -> str:
    """Return the text of the model; a run's kernels are compiled."""
    if not isinstance(config, Config):
        return str(config.language.load(config.model, config.dialect).text)
    learner = make_learner(config)
    learner.compile()
    return learner.model_text


def _source(config: Configured) -> str:
    """Return what two configurations have in common if they have the same examples."""
    return f"{config.source.model_dump_json()} {config.query} {config.dialect}"


def _check_same(sources: Sequence[Sequence[Fold]]) -> None:
    """Raise UsageError where the folds of two sources test different examples."""
    tested = [[[str(e.id) for e in fold.test] for fold in source_folds] for source_folds in sources]
    if any(other != tested[0] for other in tested[1:]):
        raise UsageError(
            "the configurations have different examples; compare them on the same ones"
        )


def _tested(work: _Work, part: _Part) -> Tested:
    """Tune a candidate on a fold, and score it."""
    candidate, fold = work.candidates[part.candidate], work.folds[part.candidate][part.fold]
    try:
        alternatives = work.alternatives[part.candidate]
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
