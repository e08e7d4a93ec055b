"""How learning went: lines of metrics over the stream."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from onlinesrl.core.io.atomic_write import json_lines
from onlinesrl.library.tables import Table

_SHOWN = (
    "examples",
    "f1",
    "precision",
    "recall",
    "accuracy",
    "mae",
    "loss",
    "dual",
    "regret_bound",
)
_HEIGHT = 640
"""Of the frame in a notebook, in pixels."""


class Curves:
    """Lines of metrics, as in metrics.jsonl; in a notebook, the learning curve and the regret bound.

    ``update`` is the name of the online update, which says what the bound means.
    """

    def __init__(self, lines: Sequence[Mapping[str, Any]], update: str = "cda2"):
        self.lines = [*lines]
        self.update = update

    @classmethod
    def read(cls, folder: str | Path) -> Curves:
        """Read the curves of a run folder. Raises StorageError."""
        from onlinesrl.runs.summary import read_summary

        lines = [*json_lines(Path(folder) / "metrics.jsonl", dict[str, Any])]
        summary = read_summary(Path(folder) / "summary.json") or {}
        update = summary.get("config", {}).get("learner", {}).get("update", "cda2")
        return cls(lines, update)

    def table(self) -> Table:
        """Return the number of examples and the scores and bounds known then, a row per line."""
        names = [name for name in _SHOWN if any(line.get(name) is not None for line in self.lines)]
        return Table({name: [line.get(name) for line in self.lines] for name in names})

    def __len__(self) -> int:
        return len(self.lines)

    def __repr__(self) -> str:
        return f"<Curves of {len(self.lines)} points>"

    def _repr_html_(self) -> str:
        """Return a frame, so that the report's styles do not reach the notebook."""
        from onlinesrl.runs.report import curves_page

        page = html.escape(curves_page(self.lines, self.update), quote=True)
        return f'<iframe srcdoc="{page}" width="100%" height="{_HEIGHT}" frameborder="0"></iframe>'
