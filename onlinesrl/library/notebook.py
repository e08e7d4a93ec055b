"""HTML for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

SHOWN_ROWS = 60


def table_html(caption: str, head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return a table, of at most SHOWN_ROWS rows."""
    body = [*map(_row, rows[:SHOWN_ROWS])]
    if len(rows) > SHOWN_ROWS:
        body.append(f"<tr><td colspan={len(head)}>... {len(rows) - SHOWN_ROWS:,} more</td></tr>")
    return (
        f"<table><caption>{escape(caption)}</caption><thead>{_cells('th', head)}</thead>"
        f"<tbody>{''.join(body)}</tbody></table>"
    )


def _row(values: Sequence[Any]) -> str:
    return _cells("td", map(_text, values))


def _cells(tag: str, texts: Iterable[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(text)}</{tag}>' for text in texts)}</tr>"


def _text(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
