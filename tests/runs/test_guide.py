"""The table of a configuration's keys: every one is there, with its default and what it means."""

from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel
from typer.testing import CliRunner

from onlinesrl.commands.cli import app
from onlinesrl.core.io.config_section import sections_of
from onlinesrl.mln.inference.registry import ENGINES as MLN_ENGINES
from onlinesrl.psl.inference.registry import ENGINES as PSL_ENGINES
from onlinesrl.runs.config import reference
from onlinesrl.runs.config.mln_batch import MlnBatch
from onlinesrl.runs.config.psl_batch import PslBatch
from onlinesrl.runs.config.schema import MlnConfig, PslConfig

SHOWN_BEFORE = {
    "alerts.sink",
    "sink.security",
    "source.linked.evidence",
    "source.mapping.truth",
    "source.mapping.query",
    "source.mapping.unlabelled",
}
"""Sections with the keys of another: sink, source.security and source.mapping.evidence."""
ROWS = {row.key: row for section in reference.sections() for row in section.rows}


def keys(section: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every key that a configuration may have, and its default."""
    for name, field in section.model_fields.items():
        inner = sections_of(field)
        if not inner or prefix + name in SHOWN_BEFORE:
            yield prefix + name, field
        for kind in inner if prefix + name not in SHOWN_BEFORE else ():
            yield from keys(kind, f"{prefix}{name}.")


def test_every_key_is_there_with_a_meaning() -> None:
    expected = {**dict(keys(PslConfig)), **dict(keys(MlnConfig))}
    assert ROWS.keys() == expected.keys()
    assert [key for key, row in ROWS.items() if len(row.meaning) < 5] == []
    assert [section.name for section in reference.sections() if len(section.meaning) < 10] == []
    for key, field in expected.items():
        said = ROWS[key].default
        assert (said == "-") == field.is_required(), key


@pytest.mark.parametrize(
    ("key", "default", "kind"),
    [
        ("model", "-", "path"),
        ("batch", "500", "integer >= 1"),
        ("source.kind", "file", "file | kafka | parquet | csv"),
        ("source.security.ssl_password", "null", "password | null"),
        ("learner.eta", "1.0", "number > 0"),
        ("limits.bad_share", "0.1", "0 to 1"),
        ("checkpoint.every", "30s", "integer | text"),
        ("sink.security", "null", "section"),
    ],
)
def test_defaults_and_what_a_key_may_be(key, default, kind):
    assert ROWS[key][1:3] == (default, kind)


@pytest.mark.parametrize("root", [PslBatch, MlnBatch])
def test_every_key_of_batch_learning_is_there_with_a_meaning(root):
    rows = {row.key: row for section in reference.sections(root) for row in section.rows}
    assert {key.split(".")[0] for key in rows} == root.model_fields.keys()
    assert [key for key, row in rows.items() if len(row.meaning) < 5] == []
    printed = CliRunner().invoke(app, ["guide", "learn-config"]).stdout
    assert all(f"\n{key} " in printed for key in rows)


def test_a_key_that_differs_between_kinds_is_shown_for_each_of_them():
    rows = [row for section in reference.sections() for row in section.rows]
    loss = [row[1:3] for row in rows if row.key == "learner.loss"]
    assert loss == [("pl", "pl | ml"), ("ml", "ml")]
    paths = [row.meaning for row in rows if row.key == "source.path"]
    assert [path.partition(":")[0] for path in paths] == ["file", "parquet, csv"]


def test_keys_of_markov_logic_say_so():
    assert ROWS["inference.max_nodes"].meaning.endswith("; Markov logic only")
    assert ROWS["inference.targets"].meaning.endswith("; PSL only")
    assert "only" not in ROWS["inference.unsolved"].meaning


@pytest.mark.parametrize("name", [*MLN_ENGINES, *PSL_ENGINES])
def test_every_engine_is_there_with_a_meaning(name: str) -> None:
    assert ROWS["inference.engine"].default == "mpe or admm"
    assert f" {name}: " in ROWS["inference.engine"].meaning


def test_a_pipe_gets_a_line_a_key_in_sections():
    printed = CliRunner().invoke(app, ["guide", "config"]).stdout.splitlines()
    found = [line.split()[0] for line in printed if "  [" in line]
    assert [*dict.fromkeys(found)] == ["key", *ROWS]
    assert any(line.startswith("source.security: How to be let in") for line in printed)
    (bytes_,) = (line for line in printed if line.startswith("source.max_bytes "))
    assert bytes_.split(maxsplit=2)[1:] == [
        "8000000",
        "[integer >= 1] the longest example, in bytes; a longer one is bad",
    ]


def test_a_terminal_gets_lines_that_fit():
    lines = list(reference.config_lines(100))
    assert max(map(len, lines)) <= 100
    assert len(lines) > len(list(reference.config_lines(None)))
    assert " ".join(" ".join(lines).split()) == " ".join(
        " ".join(reference.config_lines(None)).split()
    )
