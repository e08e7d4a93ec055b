"""Batch learners in a comparison: the figures are those of learning from each fold's training part."""

import csv
import json
import random

import pytest
import yaml
from conftest import command as call

MODEL = """
Person(p)
Knows(p, p)
Old(p)
Likes(p)
Likes(x)
Old(x) => Likes(x)
Knows(x, y) ^ Likes(x) => Likes(y)
"""
BATCH = {"kind": "max-margin", "c": 1.0}


@pytest.fixture
def configs(tmp_path):
    """Batch learning and a run, on twelve worlds of three groups."""
    rng = random.Random(3)
    lines = []
    for n in range(12):
        people = [f"P{n}{k}" for k in range(5)]
        old = [p for p in people if rng.random() < 0.5]
        likes = [p for p in people if rng.random() < (0.9 if p in old else 0.2)]
        evidence = {
            "Person": [[p] for p in people],
            "Old": [[p] for p in old],
            "Knows": [rng.sample(people, 2)],
        }
        truth = {"Likes": [[p] for p in likes]}
        world = {"id": n, "group": "ABC"[n % 3], "evidence": evidence, "truth": truth}
        lines.append(json.dumps(world))
    (tmp_path / "worlds.jsonl").write_text("\n".join(lines) + "\n")
    (tmp_path / "m.mln").write_text(MODEL)
    shared = {"model": "m.mln", "query": "Likes", "source": {"path": "worlds.jsonl"}}
    paths = [tmp_path / "batch.yaml", tmp_path / "run.yaml"]
    for path, learner in zip(paths, (BATCH, {"update": "cda2"}), strict=True):
        path.write_text(yaml.safe_dump(shared | {"learner": learner}))
    return [*map(str, paths)]


def test_a_batch_learner_beside_an_online_one(configs, tmp_path):
    assert call("compare", *configs, "--output", str(tmp_path / "c"), "--workers", "1") == 0
    with (tmp_path / "c" / "comparison.csv").open() as file:
        rows = [*csv.DictReader(file)]
    assert [r["configuration"] for r in rows] == ["batch"] * 3 + ["run"] * 3
    for row in rows[:3]:
        group = row["fold"]
        parts = [
            f"source.without={group}",
            f"test={{path: {tmp_path}/worlds.jsonl, only: {group}}}",
            f"output={tmp_path}/{group}",
        ]
        assert call("learn", configs[0], *(x for p in parts for x in ("--set", p))) == 0
        learned = json.loads((tmp_path / group / "learned.json").read_text())
        assert float(row["f1"]) == learned["scores"]["Likes"]["f1"]


def test_a_metric_that_batch_learners_lack_is_told(configs, tmp_path, capsys):
    given = ("--metric", "macro_f1", "--output", str(tmp_path / "c"), "--workers", "1")
    assert call("compare", configs[0], *given) == 65
    assert "macro_f1 is not measured for batch learners" in capsys.readouterr().out
