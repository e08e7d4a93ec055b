"""Our own stream of citation graphs: how it is made, and what joint decisions bring."""

from pathlib import Path
from typing import Any

import pytest
from conftest import soaked

import onlinesrl as srl
from tests.support.stream_scripts import REPO, STREAMS, generator

STREAM = STREAMS / "collective"
generate, compare = generator("collective"), generator("collective", "compare")


FEW = ("AdaGrad", "CDA1, ML, words alone", "AdaGrad, words alone")
ALL = tuple(compare.LEARNERS)


@pytest.fixture(scope="module", params=[FEW, soaked(ALL)], ids=["few", "all"])
def metrics(request: pytest.FixtureRequest) -> dict[str, dict[str, Any]]:
    """By learner the metrics of its pass."""
    chosen = {name: compare.LEARNERS[name] for name in request.param}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compare, "LEARNERS", chosen)
        return dict(compare.compared())


def test_citations_help_adagrad_beyond_words(metrics: dict[str, dict[str, Any]]) -> None:
    alone = max(found["accuracy"] for name, found in metrics.items() if "words alone" in name)
    assert metrics["AdaGrad"]["accuracy"] > alone + 0.08
    for found in metrics.values():
        assert found["examples"] == 300


def test_its_readme_has_these_figures(metrics: dict[str, dict[str, Any]]) -> None:
    lines = (STREAM / "README.md").read_text().splitlines()
    cells = [line.strip("| ").split(" | ") for line in lines if line.endswith(" % |")]
    assert [name for name, *_ in cells] == [*ALL]
    shown = {name: accuracy for name, _, accuracy in cells}
    for name, found in metrics.items():
        assert shown[name] == f"{found['accuracy'] * 100:.1f} %"


def test_the_shipped_configuration_learns_the_same_and_proves_every_prediction(
    metrics: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    summary = srl.run(REPO / "configs" / "collective.yaml", settings={"output": tmp_path / "run"})
    assert summary["accuracy"] == metrics["AdaGrad"]["accuracy"]
    assert summary["routes"] == {"elimination": 25, "branch-and-bound": 275}
    assert summary["certified"] == 300
