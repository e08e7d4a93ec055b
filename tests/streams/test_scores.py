"""Our own stream of scored reviews: how it is made, and that scores and rules together beat either alone."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

import onlinesrl as srl
from tests.support.stream_scripts import REPO, STREAMS, generator

STREAM = STREAMS / "scores"
generate, compare = generator("scores"), generator("scores", "compare")


@pytest.fixture(scope="module")
def examples() -> list[dict[str, Any]]:
    return [json.loads(line) for line in (STREAM / "scores.jsonl").read_bytes().splitlines()]


@pytest.fixture(scope="module")
def metrics() -> dict[str, dict[str, Any]]:
    return dict(compare.compared())


def test_the_classifier_is_calibrated(examples: list[dict[str, Any]]) -> None:
    """Of all reviews with about the same log odds, as many are fake as these say."""
    rated = [
        (1 / (1 + math.exp(-atom["value"])), atom["args"] in example["truth"]["Fake"])
        for example in examples
        for atom in example["evidence"]["Score"]
    ]
    assert len(rated) == 2791
    for low in (0.0, 0.2, 0.4, 0.6, 0.8):
        some = [(p, fake) for p, fake in rated if low <= p < low + 0.2]
        share, mean = sum(fake for _, fake in some) / len(some), sum(p for p, _ in some) / len(some)
        assert share == pytest.approx(mean, abs=0.06)


def test_both_beat_the_classifier_and_the_rules(
    metrics: dict[str, dict[str, Any]], examples: list[dict[str, Any]]
) -> None:
    classifier, rules, both = (metrics[name] for name in compare.MODELS)
    assert both["f1"] > 0.1 + max(classifier["f1"], rules["f1"])
    assert both["accuracy"] > 0.05 + max(classifier["accuracy"], rules["accuracy"])
    right = total = 0
    for example in examples:
        for atom in example["evidence"]["Score"]:
            right += (atom["value"] > 0) == (atom["args"] in example["truth"]["Fake"])
            total += 1
    assert both["accuracy"] > 0.04 + right / total


def test_its_readme_has_these_figures(metrics: dict[str, dict[str, Any]]) -> None:
    rows = [line for line in (STREAM / "README.md").read_text().splitlines() if " % | " in line]
    for row, found in zip(rows[-3:], metrics.values(), strict=True):
        assert row.endswith(f"| {found['f1'] * 100:.1f} % | {found['accuracy'] * 100:.1f} % |")


def test_the_shipped_configuration_learns_the_same(
    metrics: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    summary = srl.run(REPO / "configs" / "scores.yaml", settings={"output": tmp_path / "run"})
    assert summary["f1"] == metrics["both"]["f1"]
    weights = (tmp_path / "run" / "weights.mln").read_text()
    assert "Score(review): real" in weights
    (line,) = (each for each in weights.splitlines() if each.endswith(" Score(r) ^ Fake(r)"))
    assert float(line.split()[0]) == pytest.approx(1, abs=0.2)
