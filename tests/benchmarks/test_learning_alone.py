"""Learning alone, beside CRFsuite's trainer: neither reads, decodes, nor writes anything.

Ours is what a citation costs between its ground network and the moved weights: numbered weights, the
prediction and the loss-augmented rival, both exact, and CDA2's step. Grounding stands apart. The peer's
is its passive-aggressive trainer, one pass over features extracted before. CPU microseconds a citation,
the least of some rounds; both learn CiteSeer's citations once, in the same order.
"""

import time
from importlib.util import find_spec
from pathlib import Path

import pytest

from onlinesrl.core.example import Example, decode
from onlinesrl.core.kernels.jit import kernel
from onlinesrl.mln.kernels.narrow import LEARN, PREDICT, Pass
from onlinesrl.mln.kernels.truth import ground_labelled
from onlinesrl.mln.learner import OnlineLearner
from onlinesrl.mln.outcomes import Results
from onlinesrl.runs import session
from onlinesrl.runs.config import load
from streams.citations import from_citeseer
from tests.benchmarks.measure import REPO, SHARED, show

CITESEER = SHARED / "data" / "citeseer"
ROUNDS, BATCH = 5, 64
pytestmark = [
    pytest.mark.benchmark,
    pytest.mark.skipif(find_spec("pycrfsuite") is None, reason="python-crfsuite is not installed"),
    pytest.mark.skipif(not CITESEER.exists(), reason=f"CiteSeer is not here: no {CITESEER}"),
]
Sequence = tuple[list[list[str]], list[str]]
"""Features and label of each token."""


@kernel
def ground(p: Pass, stop: int) -> None:
    """Ground so many worlds, as the kernel that learns from them does."""
    for w in range(stop):
        ground_labelled(
            p.plans, p.batch, w, p.net, p.scratch, p.state.truth, p.max_atoms, p.max_groundings
        )


def ours(examples: list[Example]) -> tuple[float, float]:
    """Return the CPU seconds of learning from ground networks, and of grounding them."""
    learner = session.make_learner(load(REPO / "configs" / "citations.yaml"))
    assert isinstance(learner, OnlineLearner)
    learner.compile()
    packed(learner, examples[:1])
    ground(learner.worlds.memory, 1)
    whole = apart = 0.0
    for first in range(0, len(examples), BATCH):
        results = packed(learner, examples[first : first + BATCH])
        worlds = len(results.worlds)
        begun = time.process_time()
        assert learner.worlds.run(results, 0, worlds, PREDICT | LEARN, learning=True) == worlds
        learned = time.process_time()
        ground(learner.worlds.memory, worlds)
        apart += time.process_time() - learned
        whole += learned - begun
    assert learner.weights.updates == len(examples)
    return whole - apart, apart


def packed(learner: OnlineLearner, examples: list[Example]) -> Results:
    """Pack a batch, with room for its results."""
    learner.packer.clear()
    for place, example in enumerate(examples):
        learner.packer.add(example, place)
    batch = learner.grounder.batch(learning=True)
    out = learner.worlds.begin(batch)
    return Results(batch, learner.packer.worlds, out, learner.worlds.routes, {})


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
    examples = [
        decode(line.encode())
        for line in from_citeseer.json_lines(from_citeseer.examples(CITESEER)).splitlines()
    ]
    sequences = [sequence(each) for each in examples]
    rounds = [(*ours(examples), peers(sequences, tmp_path / "model")) for _ in range(ROUNDS)]
    learn, apart, peer = (1e6 * min(times) / len(examples) for times in zip(*rounds, strict=True))
    rows = [
        ("learning from ground networks", learn, f"{1e6 / learn:,.0f}", peer / learn),
        (
            "with grounding",
            learn + apart,
            f"{1e6 / (learn + apart):,.0f}",
            peer / (learn + apart),
        ),
        ("crfsuite's trainer", peer, f"{1e6 / peer:,.0f}", 1.0),
    ]
    show("CPU per citation", ("", "us", "per second", "times the peer's speed"), rows)
    assert learn < peer
