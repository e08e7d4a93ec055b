"""Our own stream of meetings: how it is made, what it holds, and that it can be learned from."""

import json
import math
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from onlinesrl.core.evaluation.prequential import Metrics
from onlinesrl.core.example import Example, decode
from onlinesrl.mln.lang import reader
from onlinesrl.mln.online.learner import MlnOnlineLearner
from onlinesrl.runs.config.loading import load
from onlinesrl.runs.run import make_learner
from tests.support.stream_scripts import REPO, STREAMS, generator

STREAM = STREAMS / "meetings"
CONFIG = REPO / "configs" / "meetings.yaml"
generate = generator("meetings")


@pytest.fixture(scope="module")
def lines() -> list[bytes]:
    return (STREAM / "meetings.jsonl").read_bytes().splitlines()


@pytest.fixture(scope="module")
def examples(lines: list[bytes]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines]


def test_every_scene_has_all_windows_of_its_three_pairs(examples: list[dict[str, Any]]) -> None:
    assert len({e["id"] for e in examples}) == len(examples) == 336
    assert set(Counter(e["group"] for e in examples).values()) == {24}
    assert sum(len(e["truth"]["HoldsAt"]) for e in examples) == 1272


def test_a_window_says_of_every_frame_what_both_people_do(examples: list[dict[str, Any]]) -> None:
    for e in examples:
        evidence = e["evidence"]
        times = [evidence["Next"][0][0], *(u for _, u in evidence["Next"])]
        assert len(times) == generate.WINDOW
        assert all(u == t + 1 for t, u in evidence["Next"])
        assert Counter(t for _, t in evidence["Happens"]) == dict.fromkeys(times, 2)
        assert evidence.get("StartTime") == ([[0]] if times[0] == 0 else None)
        assert {t for _, t in e["truth"]["HoldsAt"]} <= set(times)


def test_who_is_near_is_also_within_the_larger_distances(examples: list[dict[str, Any]]) -> None:
    for e in examples:
        near = {(t, d) for _, _, d, t in e["evidence"].get("Close", ())}
        assert all((t, d + 1) in near for t, d in near if d < max(generate.NEAR))


def test_nobody_moves_faster_than_a_run() -> None:
    scene = generate.Scene(Random(1))
    for frame in range(100):
        before = [p.at for p in scene.people]
        scene.step(frame)
        for old, person in zip(before, scene.people, strict=True):
            assert math.dist(old, person.at) <= generate.RUN + 1e-9


def test_who_meets_stands_close_to_the_other() -> None:
    scene, met = generate.Scene(Random(2)), 0
    for frame in range(400):
        scene.step(frame)
        for p, q in scene.meeting:
            a, b = scene.people[p], scene.people[q]
            met += 1
            assert math.dist(a.at, b.at) <= 2 * generate.APART
            assert {a.event, b.event} <= set(generate.STANDS)
    assert met > 20


def test_labels_shift_by_two_frames_at_most() -> None:
    meets = [30 <= t < 60 for t in range(100)]
    shifts = set()
    for seed in range(50):
        found = generate.labels(Random(seed), meets)
        begin, end = (t for t, (a, b) in enumerate(pairwise(found), start=1) if a != b)
        assert all(found[begin:end])
        shifts |= {begin - 30, end - 60}
    assert shifts == {-2, -1, 0, 1, 2}


def f1(learner: MlnOnlineLearner, examples: list[Example]) -> float:
    metrics = Metrics()
    metrics.add(learner.step(examples, learning=False)[1], len(examples))
    return metrics.snapshot()["f1"] or 0.0


def test_one_pass_beats_the_rules_untrained(lines: list[bytes]) -> None:
    config = load(CONFIG, [])
    program = reader.load(config.model)
    rules = tuple(replace(rule, weight=1.0) for rule in program.rules)
    trained, untrained = make_learner(config), make_learner(config, replace(program, rules=rules))
    examples = [decode(line) for line in lines]
    cut = len(examples) * 3 // 4
    trained.step(examples[:cut])
    assert f1(untrained, examples[cut:]) < 0.7
    assert f1(trained, examples[cut:]) > 0.85
