"""The figures of a comparison: mean, standard deviation, and the paired t-test against the best."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from onlinesrl.runs.comparison.candidates import shown
from onlinesrl.runs.comparison.cross_validation import Compared, best

MEGABYTE = 1e6


@dataclass(frozen=True)
class Line:
    """A configuration: the mean and the sample standard deviation of its scores over the folds.

    ``p`` is the two-sided p-value of a paired t-test against the configuration with the best mean; None for
    that one, and where all differences are equal. ``cpu_seconds`` is the mean of a fold's learning,
    ``peak_bytes`` the most. A configuration that failed has an ``error``.
    """

    name: str
    mean: float | None = None
    sd: float | None = None
    p: float | None = None
    cpu_seconds: float | None = None
    peak_bytes: int | None = None
    best: bool = False
    error: str | None = None


def lines(compared: Sequence[Compared], metric: str) -> list[Line]:
    """Return a line for every configuration, in their order."""
    errors = [
        candidate.error
        or next((f"fold {t.fold}: {t.error}" for t in candidate.tested if t.error), None)
        for candidate in compared
    ]
    scored = [c for c, error in zip(compared, errors, strict=True) if error is None]
    means = [float(np.mean(_values(candidate))) for candidate in scored]
    winner = scored[best(means, metric)] if scored else None
    return [
        _line(candidate, winner)
        if error is None and winner
        else Line(candidate.candidate.name, error=error)
        for candidate, error in zip(compared, errors, strict=True)
    ]


def _line(compared: Compared, winner: Compared) -> Line:
    values = _values(compared)
    scores = [fold.score for fold in compared.tested if fold.score is not None]
    return Line(
        compared.candidate.name,
        mean=float(np.mean(values)),
        sd=float(np.std(values, ddof=1)) if len(values) > 1 else None,
        p=None if compared is winner else paired_t(_values(winner), values),
        cpu_seconds=float(np.mean([score.cpu_seconds for score in scores])),
        peak_bytes=max(score.peak_bytes for score in scores),
        best=compared is winner,
    )


def paired_t(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Return the two-sided p-value of the paired t-test; None where all differences are equal."""
    from scipy.stats import ttest_rel

    differences = np.subtract(first, second)
    if len(differences) < 2 or np.ptp(differences) <= 1e-12:
        return None
    return float(ttest_rel(first, second).pvalue)


def _values(compared: Compared) -> list[float]:
    return [t.score.value for t in compared.tested if t.score is not None]


# text --------------------------------------------------------------------------------------------


def text(lines: Sequence[Line], metric: str) -> Iterator[str]:
    """Yield a table for a terminal, then why configurations failed."""
    rows = [
        [
            line.name + (" *" if line.best else ""),
            _number(line.mean, "{:.4f}"),
            _number(line.sd, "{:.4f}"),
            _number(line.p, "{:.3g}"),
            _number(line.cpu_seconds, "{:.2f}"),
            _number(line.peak_bytes, "{:.0f}", MEGABYTE),
        ]
        for line in lines
    ]
    yield from aligned([["configuration", metric, "sd", "p", "CPU s", "peak MB"], *rows])
    for line in lines:
        if line.error is not None:
            yield f"{line.name}: {line.error}"


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
    for candidate, tested, error in compared:
        if error is not None:
            writer.writerow([candidate.name, "", "", "", "", "", error])
        for fold, score, chosen, failure in tested:
            value, *cost = ("", "", "") if score is None else score
            writer.writerow([candidate.name, fold, value, shown(chosen), *cost, failure or ""])
    return out.getvalue()
