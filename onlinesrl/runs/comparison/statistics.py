"""The figures of a comparison: mean, standard deviation, and the paired t-test against the best."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np

from onlinesrl.core.errors import UsageError
from onlinesrl.runs.comparison.candidates import shown
from onlinesrl.runs.comparison.cross_validation import Compared, best

MEGABYTE = 1e6


@dataclass(frozen=True)
class Line:
    """A configuration: its scores by fold, and over the folds their mean and sample standard deviation.

    ``p`` is the two-sided p-value of a paired t-test against the configuration with the best mean; None for
    that one, and where all differences are equal. ``cpu_seconds`` is the mean of a fold's learning,
    ``peak_bytes`` the most. ``chosen`` is what tuning chose for each fold. A configuration that failed has an
    ``error``, and the scores of the folds that did not.
    """

    name: str
    scores: tuple[tuple[str, float], ...] = ()
    mean: float | None = None
    sd: float | None = None
    p: float | None = None
    cpu_seconds: float | None = None
    peak_bytes: int | None = None
    best: bool = False
    chosen: tuple[str, ...] = ()
    error: str | None = None


def lines(compared: Sequence[Compared], metric: str) -> list[Line]:
    """Return a line for every configuration, in their order."""
    failed = [_failure(each) for each in compared]
    whole = [each for each, why in zip(compared, failed, strict=True) if why is None]
    means = [float(np.mean(_values(each))) for each in whole]
    winner = whole[best(means, metric)] if whole else None
    return [
        _line(each, winner)
        if why is None and winner
        else Line(each.candidate.name, scores=_scores(each), error=why)
        for each, why in zip(compared, failed, strict=True)
    ]


def _line(of: Compared, winner: Compared) -> Line:
    values = _values(of)
    known = [each.score for each in of.tested if each.score is not None]
    return Line(
        of.candidate.name,
        scores=_scores(of),
        mean=float(np.mean(values)),
        sd=float(np.std(values, ddof=1)) if len(values) > 1 else None,
        p=None if of is winner else paired_t(_values(winner), values),
        cpu_seconds=float(np.mean([score.cpu_seconds for score in known])),
        peak_bytes=max(score.peak_bytes for score in known),
        best=of is winner,
        chosen=tuple(shown(each.chosen) for each in of.tested if each.chosen),
    )


def check_scipy() -> None:
    """Raise UsageError where there is no SciPy, before hours are spent on what it is to test."""
    if find_spec("scipy") is None:
        raise UsageError("the t-tests need SciPy: pip install 'onlinesrl[compare]'")


def paired_t(one: Sequence[float], other: Sequence[float]) -> float | None:
    """Return the two-sided p-value of the paired t-test; None where all differences are equal."""
    from scipy.stats import ttest_rel

    differences = np.subtract(one, other)
    if len(differences) < 2 or np.ptp(differences) <= 1e-12:
        return None
    return float(ttest_rel(one, other).pvalue)


def _values(of: Compared) -> list[float]:
    return [each.score.value for each in of.tested if each.score is not None]


def _scores(of: Compared) -> tuple[tuple[str, float], ...]:
    return tuple((each.fold, each.score.value) for each in of.tested if each.score is not None)


def _failure(of: Compared) -> str | None:
    return of.error or next((f"fold {t.fold}: {t.error}" for t in of.tested if t.error), None)


# text --------------------------------------------------------------------------------------------


def text(found: Sequence[Line], metric: str) -> Iterator[str]:
    """Yield a table for a terminal, then why configurations failed."""
    rows = [
        [
            each.name + (" *" if each.best else ""),
            _number(each.mean, "{:.4f}"),
            _number(each.sd, "{:.4f}"),
            _number(each.p, "{:.3g}"),
            _number(each.cpu_seconds, "{:.2f}"),
            _number(each.peak_bytes, "{:.0f}", MEGABYTE),
        ]
        for each in found
    ]
    yield from aligned([["configuration", metric, "sd", "p", "CPU s", "peak MB"], *rows])
    for each in found:
        if each.error is not None:
            yield f"{each.name}: {each.error}"


def aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield rows as lines of columns: the first to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for first, *rest in rows:
        cells = [f"{cell:>{width}}" for cell, width in zip(rest, widths[1:], strict=True)]
        yield "  ".join([f"{first:<{widths[0]}}", *cells])


def _number(value: float | None, form: str, unit: float = 1.0) -> str:
    return "-" if value is None else form.format(value / unit)


def csv(compared: Sequence[Compared], metric: str) -> str:
    """Return a line for every configuration and fold, in CSV."""
    import csv as writing
    from io import StringIO

    out = StringIO()
    writer = writing.writer(out, lineterminator="\n")
    writer.writerow(
        ["configuration", "fold", metric, "chosen", "cpu_seconds", "peak_bytes", "error"]
    )
    for of in compared:
        if of.error is not None:
            writer.writerow([of.candidate.name, "", "", "", "", "", of.error])
        for each in of.tested:
            score = ("", "", "") if each.score is None else each.score
            value, *cost = score
            row = [of.candidate.name, each.fold, value, shown(each.chosen), *cost, each.error or ""]
            writer.writerow(row)
    return out.getvalue()
