"""Every learner: neither the size of batches nor being saved and restored among them changes a bit."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from onlinesrl.core.errors import ExampleError
from onlinesrl.core.example import decode
from onlinesrl.core.online.reservoir import ReplaySection
from onlinesrl.stream import checkpoints
from tests.support import small_learners, trust_program
from tests.support.golden import inputs
from tests.support.small_learners import state
from tests.support.textbook_updates import RULES

BAD = Path(__file__).parents[1] / "psl" / "online" / "golden" / "examples.txt"


def mln(update: str, most: int | None = None, **keys: Any) -> tuple[Callable[[], Any], list[Any]]:
    """What makes a learner of Markov logic of at most so many weights, and examples."""
    count = 70 if update == "cd" else 120
    made = small_learners.examples(count)
    return lambda: small_learners.new_learner(update, most, **keys), made


def psl(update: str, **keys: Any) -> tuple[Callable[[], Any], list[Any]]:
    """What makes a learner of PSL, and examples, among them bad ones of every kind."""
    seen: list[Any] = [*trust_program.examples(40)]
    for place, changes in zip(range(3, 1000, 2), inputs(BAD), strict=False):
        bad = {**trust_program.GOOD, **eval(changes)}
        seen.insert(place, decode(msgspec.json.encode(bad)))
    return lambda: trust_program.new_learner(update, **keys), [
        ExampleError("no JSON", "decode"),
        *seen,
    ]


REPLAY = ReplaySection(examples=2, reservoir=9)
LEARNERS = {
    "mln cda2": mln("cda2"),
    **{f"mln {name} of 150": mln(name, 150) for name in ("cda2", "adagrad", "perceptron", "cd")},
    **{f"psl {update}": psl(update) for update in RULES},
    **{f"mln {name} replay": mln(name, replay=REPLAY) for name in ("adagrad", "log-likelihood")},
    **{f"psl {name} replay": psl(name, replay=REPLAY) for name in ("cda1", "perceptron")},
    "mln perceptron replay 150": mln("perceptron", 150, replay=REPLAY),
}


@pytest.mark.parametrize("name", LEARNERS)
def test_batches_and_checkpoints_change_no_bit(name: str, tmp_path: Path) -> None:
    make, seen = LEARNERS[name]
    found = []
    for batch in (1, 7, 64):
        learner = make()
        outcomes = trust_program.learn(learner, seen[:33], batch)
        saved = learner.save()  # which forgets constants
        if batch == 7:
            checkpoint = checkpoints.load(checkpoints.save(tmp_path, 1, *saved, keep=1))
            learner = make()
            learner.restore(checkpoint.header, checkpoint.arrays)
        outcomes += trust_program.learn(learner, seen[33:], batch)
        found.append((msgspec.json.encode(outcomes), state(learner), learner.certificate()))
    assert found[1:] == found[:1] * 2
    bad = sum(outcome.error is not None for outcome in outcomes)
    assert bad == (len(inputs(BAD)) + 1 if name.startswith("psl") else 0)
    if "150" in name:
        assert len(learner.weights) <= 150
        assert learner.weights.dropped > 0
