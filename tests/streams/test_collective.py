"""Our own stream of citation graphs: how it is made, and what joint decisions bring."""

from pathlib import Path
from typing import Any

import pytest

import onlinesrl as srl
from onlinesrl.core.example import decode
from tests.streams.programs import REPO, STREAMS, generator

STREAM = STREAMS / "collective"
generate, compare = generator("collective"), generator("collective", "compare")


@pytest.fixture(scope="module")
def metrics() -> dict[str, dict[str, Any]]:
    return dict(compare.compared())


def test_the_stream_is_what_its_generator_makes() -> None:
    text = (STREAM / "collective.jsonl").read_text(encoding="utf-8")
    assert text == generate.made()
    for line in text.encode().splitlines():
        decode(line)


def test_citations_help_adagrad_beyond_words(metrics: dict[str, dict[str, Any]]) -> None:
    alone = max(found["accuracy"] for name, found in metrics.items() if "words alone" in name)
    assert metrics["AdaGrad"]["accuracy"] > alone + 0.08
    for found in metrics.values():
        assert found["examples"] == 300


def test_its_readme_has_these_figures(metrics: dict[str, dict[str, Any]]) -> None:
    rows = [
        line for line in (STREAM / "README.md").read_text().splitlines() if line.endswith(" % |")
    ]
    for row, (name, found) in zip(rows, metrics.items(), strict=True):
        assert row.startswith(f"| {name} | ")
        assert row.endswith(f" | {found['accuracy'] * 100:.1f} % |")


def test_the_shipped_configuration_learns_the_same_and_proves_every_prediction(
    metrics: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    summary = srl.run(REPO / "configs" / "collective.yaml", settings={"output": tmp_path / "run"})
    assert summary["accuracy"] == metrics["AdaGrad"]["accuracy"]
    assert summary["routes"] == {"elimination": 25, "branch-and-bound": 275}
    assert summary["certified"] == 300
