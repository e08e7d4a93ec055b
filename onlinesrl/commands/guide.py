"""onlinesrl guide: print a page of the guide, or the keys of a configuration."""

from __future__ import annotations

import shutil
import sys
from importlib import resources
from typing import Annotated

import typer

from onlinesrl.core.errors import UsageError

KEYS = {
    "config": "Every key of the configuration of a run",
    "learn-config": "Every key of a configuration of batch learning",
}
"""The topics that are made from the schema of configurations, and their titles."""


def guide(
    topic: Annotated[str | None, typer.Argument(help="A page; without it, their titles.")] = None,
) -> None:
    """Print a page of the guide; `guide config` and `guide learn-config`: every key of a configuration.

    In a pipe a page is Markdown, and a key is a line.
    """
    folder = resources.files("onlinesrl") / "guide"
    pages = {page.name.removesuffix(".md"): page for page in folder.iterdir()}
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    if topic in KEYS:
        from onlinesrl.runs.config import reference as tables

        for line in tables.config_lines(width, learning=topic != "config"):
            print(line)
    elif topic is None:
        titles = {
            name: page.read_text(encoding="utf-8").partition("\n")[0]
            for name, page in pages.items()
        }
        for name, title in sorted({**titles, **KEYS}.items()):
            print(f"{name:12} {title.removeprefix('# ')}")
    elif topic in pages:
        _show(pages[topic].read_text(encoding="utf-8"), width)
    else:
        raise UsageError(f"no topic {topic}; there are {', '.join(sorted([*pages, *KEYS]))}")


def _show(page: str, width: int | None) -> None:
    """Print Markdown: as it is to a pipe, set to a terminal of a width in columns."""
    if width is None:
        print(page, end="")
        return
    from rich.console import Console
    from rich.markdown import Markdown

    Console(width=min(width, 120)).print(Markdown(page))
