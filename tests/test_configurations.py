"""Each ready-made configuration runs, and there is one for each update, engine and batch learner."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path

import pytest
from conftest import REPO, command

from onlinesrl.core.io.config_section import kind_of, sections_of
from onlinesrl.core.online.update_rules import UPDATES
from onlinesrl.mln.inference.registry import ENGINES as MLN_ENGINES
from onlinesrl.mln.learning.registry import AnyMlnLearner
from onlinesrl.psl.inference.registry import ENGINES as PSL_ENGINES
from onlinesrl.psl.learning.registry import AnyPslLearner
from tests.support.stream_scripts import generator

CONFIGS = REPO / "configs"
FEW = 3
RUNS = [
    *CONFIGS.glob("updates/*.yaml"),
    *CONFIGS.glob("engines/*.yaml"),
    CONFIGS / "distributed.yaml",
]
LEARNERS = [*CONFIGS.glob("learners/*.yaml")]


def names(folder: str, prefix: str = "") -> set[str]:
    files = (CONFIGS / folder).glob(f"{prefix}*.yaml")
    return {file.stem.removeprefix(prefix) for file in files}


def test_each_kind_has_a_configuration() -> None:
    assert names("updates") == {*UPDATES}
    assert names("engines", "mln-") == {*MLN_ENGINES}
    assert names("engines", "psl-") == {*PSL_ENGINES}
    assert names("learners", "mln-") == {*map(kind_of, sections_of(AnyMlnLearner))}
    assert names("learners", "psl-") == {*map(kind_of, sections_of(AnyPslLearner))}


@pytest.mark.parametrize("file", sorted(RUNS), ids=lambda file: file.stem)
def test_a_run_predicts(file: Path, tmp_path: Path) -> None:
    overrides = ["--set", f"output={tmp_path}", "--until", str(FEW)]
    if file.stem == "distributed":
        overrides += ["--set", "distribute.round=2"]
    assert command("run", str(file), *overrides) == 0
    lines = (tmp_path / "predictions.jsonl").read_bytes().splitlines()
    assert len(lines) >= FEW
    assert all("predicted" in json.loads(line) for line in lines)


@pytest.mark.parametrize("file", sorted(LEARNERS), ids=lambda file: file.stem)
def test_a_batch_learner_learns(file: Path, tmp_path: Path) -> None:
    overrides = ["--set", f"output={tmp_path / 'learned'}"]
    if file.name.startswith("mln-"):
        stream = REPO / "streams" / "scores" / "scores.jsonl"
        if file.stem == "mln-mple":
            stream = REPO / "streams" / "citations" / "citations.jsonl"
            overrides += ["--set", "source.only=null", "--set", "test=null"]
        with stream.open() as source:
            (tmp_path / "few.jsonl").write_text("".join(islice(source, FEW)))
        overrides += ["--set", f"source.path={tmp_path / 'few.jsonl'}"]
    assert command("learn", str(file), *overrides) == 0
    result = json.loads((tmp_path / "learned" / "learned.json").read_text())
    assert any(row["weight"] != row["before"] for row in result["weights"])


def test_a_stream_with_labels_that_come_late(tmp_path: Path) -> None:
    late = generator("scores", "late_labels")
    stream = tmp_path / "late.jsonl"
    stream.write_text("".join(f"{line}\n" for line in islice(late.lines(), 4 * late.LATER)))
    overrides = ["--set", f"output={tmp_path / 'run'}", "--set", f"source.path={stream}"]
    assert command("run", str(CONFIGS / "labels.yaml"), *overrides) == 0
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert 0 < summary["updates"] <= summary["labelled"] < summary["examples"]


def test_tables_are_the_stream(tmp_path: Path) -> None:
    generator("collective", "tables").write(tmp_path / "tables")
    (tmp_path / "tables.yaml").write_text((CONFIGS / "parquet.yaml").read_text())
    shared = ["--until", str(FEW), "--set"]
    parquet = [f"source.path={tmp_path / 'tables'}", "--set", "sink.kind=file", "--set"]
    file = CONFIGS / "engines" / "mln-mpe.yaml"
    for config, overrides in ((CONFIGS / "parquet.yaml", parquet), (file, [])):
        folder = tmp_path / config.stem
        assert command("run", str(config), *shared, *overrides, f"output={folder}") == 0
    weights = [(tmp_path / name / "weights.mln").read_bytes() for name in ("parquet", "mln-mpe")]
    assert weights[0] == weights[1]
