"""Commands that tell what may be written: schema, guide config."""

from __future__ import annotations

import json
import shutil
import sys

import typer


def schema() -> None:
    """Print the JSON schema of an example."""
    from onlinesrl.core.example import json_schema

    print(json.dumps(json_schema(), indent=2))


guide = typer.Typer(no_args_is_help=True, help="What can be looked up: config.")


@guide.command("config")
def guide_config() -> None:
    """Print every key of a configuration with its default and meaning; in a pipe, a line each."""
    from onlinesrl.runs.guide import config_lines

    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for line in config_lines(width):
        print(line)
