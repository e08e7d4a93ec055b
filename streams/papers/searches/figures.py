"""The figures of ``compare.py``, by matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def likelihoods(
    by: Mapping[str, Sequence[float]], scores: Mapping[str, Sequence[float]], path: Path
) -> None:
    """Draw each metric of some weights against each of their likelihoods."""
    if (axes := _axes(len(scores), len(by))) is None:
        return
    for row, (metric, found) in zip(axes, scores.items(), strict=True):
        for axis, (name, values) in zip(row, by.items(), strict=True):
            axis.scatter(values, found, s=12)
            axis.set(xlabel=f"logarithm of the {name}", ylabel=metric)
    _save(path)


def seconds(found: Mapping[str, Mapping[str, Mapping[int, float]]], path: Path) -> None:
    """Draw the CPU seconds of learners by what grows: ``found[what][learner][size]``."""
    if (axes := _axes(1, len(found))) is None:
        return
    for axis, (what, learners) in zip(axes[0], found.items(), strict=True):
        for name, spent in learners.items():
            axis.plot([*spent], [*spent.values()], marker=".", label=name)
        axis.set(xlabel=what, ylabel="CPU seconds", yscale="log")
        if what == "groundings":
            axis.set_xscale("log")
    axes[0][-1].legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    _save(path)


def _axes(rows: int, columns: int) -> Any:
    """Return axes by row and column; None without matplotlib."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        print("no figure: pip install matplotlib")
        return None
    return plt.subplots(rows, columns, figsize=(5 * columns, 4 * rows), squeeze=False)[1]


def _save(path: Path) -> None:
    import matplotlib.pyplot as plt

    plt.tight_layout()
    plt.savefig(path)
    plt.close()
    print(f"figure: {path}")
