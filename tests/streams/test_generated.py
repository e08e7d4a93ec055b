"""The streams that come with the project: their scripts make them, configurations fit, rules are learned."""

import io
import json
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from conftest import command, long, long_if, soaked

import onlinesrl as srl
from onlinesrl.core.evaluation.prequential import Metrics
from onlinesrl.core.example import decode
from onlinesrl.core.online.update_rules import UPDATES
from onlinesrl.runs.config.loading import load
from onlinesrl.runs.progress import Display
from onlinesrl.runs.run import Options, make_learner, run
from tests.support.stream_scripts import REPO, STREAMS, generator

GENERATED = ["collective", "entities", "market", "meetings", "scores", "search", "tastes", "trust"]


@pytest.mark.parametrize("name", GENERATED)
def test_a_stream_is_what_its_generator_makes(name: str) -> None:
    text = (STREAMS / name / f"{name}.jsonl").read_text(encoding="utf-8")
    assert text == generator(name).made()


def test_the_village_is_what_its_generator_makes() -> None:
    for name, text in generator("trust").village().items():
        assert (STREAMS / "trust" / "village" / name).read_text(encoding="utf-8") == text


@pytest.mark.parametrize("name", ["citations", *(each for each in GENERATED if each != "tastes")])
def test_check_finds_nothing_wrong(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert command("check", str(REPO / "configs" / f"{name}.yaml")) == 0
    assert "100 of the first 100 are good" in capfd.readouterr().out


# what is learned ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "metric", "most", "least"),
    [("trust", "accuracy", 0.69, 0.72), ("search", "f1", 0.69, 0.7), ("meetings", "f1", 0.1, 0.85)],
)
def test_one_pass_beats_untrained_rules(name: str, metric: str, most: float, least: float) -> None:
    """Three quarters of the stream are learned from, the others tested on."""
    lines = (STREAMS / name / f"{name}.jsonl").read_bytes().splitlines()
    examples = [decode(line) for line in lines]
    cut, scores = len(examples) * 3 // 4, []
    for learned in ([], examples[:cut]):
        learner, metrics = make_learner(load(REPO / "configs" / f"{name}.yaml")), Metrics()
        learner.step(learned)
        metrics.add(learner.step(examples[cut:], learning=False)[1], len(examples) - cut)
        scores.append(metrics.snapshot()[metric] or 0.0)
    assert scores[0] < most < least < scores[1]


@pytest.mark.parametrize(
    ("name", "joint", "alone", "metric", "more"),
    [
        (
            "collective",
            "AdaGrad",
            ("CDA1, ML, words alone", "AdaGrad, words alone"),
            "accuracy",
            0.08,
        ),
        soaked("collective", "AdaGrad", None, "accuracy", 0.08, name="collective, all"),
        ("scores", "both", None, "f1", 0.1),
    ],
)
def test_joint_rules_beat_others_as_the_readme_says(
    name: str,
    joint: str,
    alone: tuple[str, ...] | None,
    metric: str,
    more: float,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The shipped configuration learns what the comparison does, and proves every prediction."""
    compare = generator(name, "compare")
    if alone:
        chosen = {key: compare.LEARNERS[key] for key in (joint, *alone)}
        monkeypatch.setattr(compare, "LEARNERS", chosen)
    found = dict(compare.compared())
    others = [of[metric] for key, of in found.items() if "alone" in key]
    assert found[joint][metric] > more + max(others)
    readme = (STREAMS / name / "README.md").read_text().splitlines()
    for each in found.values():
        parts = ("f1", "accuracy") if name == "scores" else ("accuracy",)
        row = "".join(f" {each[part] * 100:.1f} % |" for part in parts)
        assert any(line.endswith(f"|{row}") for line in readme), row
    summary = srl.run(REPO / "configs" / f"{name}.yaml", settings={"output": tmp_path / "run"})
    assert summary[metric] == found[joint][metric]
    assert summary["certified"] == summary["examples"]


def test_the_world_follows_the_market(tmp_path: Path) -> None:
    """Certified answers tell those who are good from those who turned bad."""
    market, text = generator("market"), (STREAMS / "market" / "market.jsonl").read_text()
    config = str(REPO / "configs" / "market.yaml")
    assert command("run", config, "--set", f"output={tmp_path}", "--until", "1500") == 0
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert (summary["certified"], summary["bad"]) == (1500, 0)
    assert summary["auc"] > 0.7
    values: dict[str, float | None] = {}
    for line in (tmp_path / "predictions.jsonl").read_text().splitlines():
        change = json.loads(line)
        assert values.get(change["args"][0]) == change["old"]
        values[change["args"][0]] = change["value"]
    lines = [json.loads(line) for line in text.splitlines()[:1500]]
    day = max(int(line["id"].split()[1]) for line in lines if line["id"].startswith("trade"))
    turned = {name: market.TRADES * turned for name, turned in market.hidden().items()}
    ranked = [(value, turned.get(name, day) < day) for name, value in values.items() if value]
    good, bad = ([value for value, is_bad in ranked if is_bad == kind] for kind in (False, True))
    right = sum((a > b) + 0.5 * (a == b) for a in good for b in bad)
    assert right / (len(good) * len(bad)) > 0.7
    assert len(bad) > 5


def test_people_of_three_lists_are_resolved(tmp_path: Path) -> None:
    config = str(REPO / "configs" / "entities.yaml")
    assert command("run", config, "--set", f"output={tmp_path}", "--until", "300") == 0
    person, entity = generator("entities").hidden(), dict[str, str]()
    for line in (tmp_path / "predictions.jsonl").read_text().splitlines():
        record, name = json.loads(line)["args"]
        if json.loads(line)["value"] is None:
            assert entity.pop(record) == name
        else:
            entity[record] = name
    pairs = [*combinations(sorted(entity), 2)]
    same = {(a, b) for a, b in pairs if person[a] == person[b]}
    joined = {(a, b) for a, b in pairs if entity[a] == entity[b]}
    assert len(same & joined) > 0.7 * max(len(same), len(joined)) > 30


# drift -------------------------------------------------------------------------------------------


def drift(output: Path, *settings: str) -> Any:
    """The drift of a run over the shipped stream of tastes, with other settings."""
    config = load(REPO / "configs" / "tastes.yaml", [f"output={output}", *settings])
    summary = run(config, Options(display=Display(io.StringIO())), 0.0, lambda said: None)
    return summary.get("drift")


@pytest.mark.parametrize(
    "update", long_if(lambda update: update != "adagrad", sorted({*UPDATES} - {"cd"}))
)
def test_a_change_is_noticed_soon(tmp_path: Path, update: str) -> None:
    """The second one is not: after the first one predictions are as bad as after it."""
    first = generator("tastes").CHANGES[0]
    (at,) = drift(tmp_path / "run", f"learner.update={update}")["at"]
    assert first < at <= first + 100


@pytest.mark.parametrize("seed", [2, long(3)])
def test_other_streams_have_the_signal_after_the_change_and_not_before(
    tmp_path: Path, seed: int
) -> None:
    tastes, stream = generator("tastes"), tmp_path / "stream.jsonl"
    lines, first = tastes.made(seed).splitlines(keepends=True), tastes.CHANGES[0]
    for count, expected in ((len(lines), 1), (first, 0)):
        stream.write_text("".join(lines[:count]))
        found = drift(tmp_path / f"{count}", f"source.path={stream}")
        assert len(found["at"] if found else ()) == expected
        assert not found or first < found["at"][0] <= first + 100
