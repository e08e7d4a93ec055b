"""The README is kept true: its commands, and that every command of the tool is in it."""

import re
from pathlib import Path

import typer
import yaml

from onlinesrl.cli import app
from onlinesrl.core.example import decode
from onlinesrl.core.section import sections_of
from onlinesrl.runs.schema import Config

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


def commands(app: typer.Typer) -> list[str]:
    return [command.name or command.callback.__name__ for command in app.registered_commands]


def test_ci_calls_the_test_command_of_the_readme():
    _, command = (block.strip() for block in blocks("sh"))
    assert command.endswith(".venv/bin/pytest")
    assert command in (ROOT / ".ci" / "run").read_text().splitlines()


def test_both_commands_are_on_the_first_screen():
    first, second = (README.index(block) for block in blocks("sh"))
    assert README[: max(first, second)].count("\n") < 40


def test_every_command_of_the_tool_is_documented():
    names = [*commands(app)]
    for group in app.registered_groups:
        names += [f"{group.name} {name}" for name in commands(group.typer_instance)]
    assert len(names) > 14
    assert [name for name in names if f"`onlinesrl {name}" not in README] == []


def test_the_example_of_the_readme_is_one():
    (line,) = blocks("json")
    example = decode(line.encode())
    assert example.truth == {"InField": [[3, "title"]]}


def test_the_configuration_of_the_readme_has_only_keys_that_exist():
    for text in blocks("yaml"):
        for key, value in yaml.safe_load(text).items():
            if isinstance(value, dict):
                kinds = sections_of(Config.model_fields[key].annotation)
                assert set(value) <= {key for kind in kinds for key in kind.model_fields}
            else:
                assert key in Config.model_fields
