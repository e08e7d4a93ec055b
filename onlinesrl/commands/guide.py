"""onlinesrl guide: print a page of the guide, or the keys of a configuration."""

from __future__ import annotations

import shutil
import sys
from importlib import resources
from typing import Annotated

import typer

from onlinesrl.core.errors import UsageError

PAGES = (
    "quickstart",
    "mapping",
    "tables",
    "models",
    "transitivity",
    "examples",
    "cutting",
    "runs",
    "learners",
    "python",
    "estimators",
    "comparing",
    "explain",
    "kafka",
    "serving",
    "monitoring",
    "cluster",
    "psl",
    "worlds",
    "entities",
    "numbers",
    "drift",
    "learning",
    "counting",
    "dialects",
    "commands",
    "metrics",
    "troubleshooting",
    "glossary",
    "modules",
    "results",
    "internals",
)
"""The pages in the order in which a user needs them."""
KEYS = {
    "config": "Every key of the configuration of a run",
    "learn-config": "Every key of a configuration of batch learning",
}
"""The topics that are made from the schema of configurations, and their titles."""


def guide(
    topic: Annotated[
        str | None, typer.Argument(help="A page; without it, the titles of all pages.")
    ] = None,
) -> None:
    """Print a page of the guide; `guide config` and `guide learn-config`: every key of a configuration.

    In a pipe a page is Markdown, and a key is a line.
    """
    folder = resources.files("onlinesrl") / "guide"
    pages = {name: (folder / f"{name}.md").read_text(encoding="utf-8") for name in PAGES}
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    if topic in KEYS:
        from onlinesrl.runs.config import reference as tables

        for line in tables.config_lines(width, learning=topic != "config"):
            print(line)
    elif topic is None:
        titles = {name: page.partition("\n")[0].removeprefix("# ") for name, page in pages.items()}
        for name, title in {**titles, **KEYS}.items():
            print(f"{name:16} {title}")
    elif topic not in pages:
        raise UsageError(f"no topic {topic}; there are {', '.join([*PAGES, *KEYS])}")
    elif width is None:
        print(pages[topic], end="")
    else:
        from rich.console import Console
        from rich.markdown import Markdown

        Console(width=min(width, 120)).print(Markdown(pages[topic]))
