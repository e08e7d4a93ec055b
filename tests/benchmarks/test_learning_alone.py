"""Learning alone, beside CRFsuite's trainer: neither reads, decodes, nor writes anything.

Ours is what a citation costs between its ground network and the moved weights: numbered weights, the
best state by the averaged weights and the loss-augmented rival, both exact, and CDA2's step. Apart stand
grounding, and what a run does besides: it writes down the best state, its score and its counts. The peer's
is its passive-aggressive trainer, one pass over features extracted before. CPU microseconds a citation
and ratios are medians over rounds, each of which measures all; both learn CiteSeer's citations once, in
the same order.
"""

import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onlinesrl.core.example import Example, decode
from onlinesrl.core.jit.decorators import kernel
from onlinesrl.mln.kernels.grounding_frames import OK
from onlinesrl.mln.kernels.predict_and_learn import (
    LEARN,
    PREDICT,
    StepFrame,
    ground,
    learn,
    mean,
    solve,
)
from onlinesrl.mln.kernels.weight_lookup import number
from onlinesrl.mln.online.learner import MlnOnlineLearner
from onlinesrl.mln.online.results import Results
from onlinesrl.runs import run as run_module
from onlinesrl.runs.config.loading import load
from tests.benchmarks.measure import REPO, SHARED, show
from tests.support.stream_scripts import converted

CITESEER = SHARED / "data" / "citeseer"
ROUNDS, BATCH = 25, 64
pytestmark = [
    pytest.mark.benchmark,
    pytest.mark.skipif(find_spec("pycrfsuite") is None, reason="python-crfsuite is not installed"),
    pytest.mark.skipif(not CITESEER.exists(), reason=f"CiteSeer is not here: no {CITESEER}"),
]
Sequence = tuple[list[list[str]], list[str]]
"""Features and label of each token."""
Step = Callable[[MlnOnlineLearner, Results, int, int], None]
"""What is measured, of the worlds of a batch from one on to another."""


@kernel
def ground_all(p: StepFrame, stop: int) -> None:
    """Ground so many worlds, as the kernel that learns from them does."""
    for w in range(stop):
        ground(p, w)


@kernel
def ground_and_learn(p: StepFrame, first: int, stop: int) -> int:
    """Do what ``narrow.run`` does, but for writing results; returns ``stop``, or what needs more room."""
    for w in range(first, stop):
        ground(p, w)
        if not number(p.plans, p.net, p.weights, True):
            return w
        cu, cv = mean(p)
        status, _ = solve(p, cu, cv, True)
        if status != OK:
            return w
        learn(p, w, True)
    return stop


def whole(learner: MlnOnlineLearner, results: Results, first: int, stop: int) -> None:
    """Ground, predict, write down and learn, as a run does."""
    assert learner.worlds.run(first, stop, PREDICT | LEARN, learning=True) == stop


def alone(learner: MlnOnlineLearner, results: Results, first: int, stop: int) -> None:
    """Ground and learn; what needs more room is left to ``whole``."""
    while first < stop:
        first = ground_and_learn(learner.worlds.memory, first, stop)
        if first < stop:
            whole(learner, results, first, first + 1)
            first += 1


def ours(examples: list[Example], step: Step) -> tuple[float, float, Any]:
    """Return the CPU seconds of a step less those of grounding, those of grounding, and the weights."""
    learner = run_module.make_learner(load(REPO / "configs" / "citations.yaml"))
    assert isinstance(learner, MlnOnlineLearner)
    learner.compile()
    packed(learner, examples[:1])
    ground_all(learner.worlds.memory, 1)
    ground_and_learn(learner.worlds.memory, 0, 0)
    taken = apart = 0.0
    for first in range(0, len(examples), BATCH):
        results = packed(learner, examples[first : first + BATCH])
        worlds = len(results.worlds)
        begun = time.process_time()
        step(learner, results, 0, worlds)
        learned = time.process_time()
        ground_all(learner.worlds.memory, worlds)
        apart += time.process_time() - learned
        taken += learned - begun
    assert learner.weights.updates == len(examples)
    return taken - apart, apart, learner.weights.averaged()


def packed(learner: MlnOnlineLearner, examples: list[Example]) -> Results:
    """Pack a batch, with room for its results."""
    learner.packer.clear()
    for place, example in enumerate(examples):
        learner.packer.add(example, place)
    batch = learner.grounder.batch(learning=True)
    return learner.worlds.begin(batch, learner.packer.worlds, {})


def sequence(example: Example) -> Sequence:
    """Return what the peer learns from: words beside, punctuation, places, as its own script has them."""
    evidence, truth = example.evidence, example.truth or {}
    words = {i: str(word) for word, i in evidence["Token"]}
    marks = {
        name: {i for (i,) in evidence.get(name, ())} for name in ("HasPunc", "HasComma", "Center")
    }
    follow = [(i, f"fb={mark}") for i, mark in evidence.get("FollowBy", ())]
    label = {i: str(field) for i, field in truth.get("InField", ())}
    rows = []
    for n, (i, word) in enumerate(sorted(words.items())):
        row = [f"w={word}", "b", f"pos={min(n, 3)}", *(name for name in marks if i in marks[name])]
        row += [mark for at, mark in follow if at == i]
        row += [f"{name}-1" for name in ("HasPunc", "HasComma") if i - 1 in marks[name]]
        row += [f"w-1={words.get(i - 1)}", f"w+1={words.get(i + 1)}"]
        rows.append(row)
    return rows, [label.get(i, "other") for i in sorted(words)]


def peers(sequences: list[Sequence], model: Path) -> float:
    """Return the CPU seconds of the peer's trainer, one pass."""
    import pycrfsuite

    begun = time.process_time()
    trainer = pycrfsuite.Trainer("pa", {"max_iterations": 1}, verbose=False)
    for rows, labels in sequences:
        trainer.append(rows, labels)
    trainer.train(str(model))
    return time.process_time() - begun


def test_learning_alone_beside_crfsuite(tmp_path: Path) -> None:
    source = tmp_path / "citeseer.jsonl"
    converted("citeseer", CITESEER, source)
    examples = [decode(line) for line in source.read_bytes().splitlines()]
    sequences = [sequence(each) for each in examples]
    rounds = []
    for _ in range(ROUNDS):
        moved, apart, weights = ours(examples, alone)
        run, _, same = ours(examples, whole)
        np.testing.assert_array_equal(weights, same)
        rounds.append((moved, run, moved + apart, peers(sequences, tmp_path / "model")))
    costs = np.array(rounds) / len(examples)
    names = (
        "learning from ground networks",
        "with results written",
        "with grounding",
        "crfsuite's trainer",
    )
    rows = [
        (
            name,
            1e6 * float(np.median(own)),
            f"{1 / np.median(own):,.0f}",
            float(np.median(costs[:, -1] / own)),
        )
        for name, own in zip(names, costs.T, strict=True)
    ]
    show("CPU per citation", ("", "us", "per second", "times the peer's speed"), rows)
    assert rows[0][1] < rows[-1][1]
