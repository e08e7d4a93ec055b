"""Which examples a run keeps for its report."""

import msgspec
import pytest

from onlinesrl.core.example import Example, ValuedAtom
from onlinesrl.core.learner import Outcome, Prediction
from onlinesrl.stream.predictions import Result
from onlinesrl.stream.recent_examples import SHOWN, Shown
from onlinesrl.stream.records import Record


def result(n: int, value: float, hamming: int = 0) -> Result:
    record = Record(f"{n}".encode(), "stream", n, 0, n)
    prediction = Prediction(n, {"P": [ValuedAtom(["a"], value)]}, 0.0, True, hamming=hamming)
    return Result(record, Example(id=n, evidence={}, truth={}), Outcome(prediction))


@pytest.mark.parametrize("size", [1, 7, 40])
def test_true_negatives_give_way_whatever_the_batches(size):
    notable = {3: (0.0, 1), 5: (0.45, 0), 17: (0.9, 0)}
    results = [result(n, *notable.get(n, (0.1, 0))) for n in range(40)]
    shown = Shown()
    for start in range(0, len(results), size):
        shown.take(results[start : start + size])
    assert [example.id for example, _ in shown] == [3, 5, 17, 35, 36, 37, 38, 39]
    again = Shown()
    again.restore(msgspec.json.decode(shown.save()))
    assert [*again] == [*shown]
    for n in range(40, 40 + SHOWN):
        shown.take([result(n, 0.9)])
    assert [example.id for example, _ in shown] == [*range(40, 40 + SHOWN)]
