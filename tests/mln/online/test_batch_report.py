"""What kernels count and spell of a batch is what is counted and spelled without them."""

import json
from pathlib import Path

import pytest

from onlinesrl.core.errors import ExampleError
from onlinesrl.core.evaluation.prequential import Metrics
from onlinesrl.core.example import decode
from onlinesrl.core.learner import Outcome
from onlinesrl.core.online.update_rules import Cda1
from onlinesrl.mln.ground.join_planner import compile_program
from onlinesrl.mln.inference.brute_force import Brute
from onlinesrl.mln.inference.settings import Inference
from onlinesrl.mln.lang import reader
from onlinesrl.mln.online.atom_counts import AtomCounter
from onlinesrl.mln.online.learner import MlnOnlineLearner
from onlinesrl.mln.online.reporting import Reporter, SpelledPrediction
from onlinesrl.stream.predictions import Result
from onlinesrl.stream.records import Record

PROGRAM = """colour = {"red", "green"}
Near(node, node)
Kind(colour, node)
Bright(node)
0.5 Near(x, y) ^ Kind(+c, x) => Kind(c, y)
-0.2 Kind(+c, x)
0.4 Kind(c, x) ^ Near(x, y) => Bright(y)
"""
EXAMPLES = [
    {"id": 7, "evidence": {"Near": [["a", 2], ["é\n", "a"]]}, "truth": {"Kind": [["red", 2]]}},
    {"id": 'x"', "group": "g", "evidence": {"Near": [["b", "c"]]}},
    {
        "id": "two",
        "evidence": {"Near": [[1, 2], [2, 3]]},
        "truth": {"Kind": [["red", 1], ["green", 1], ["green", 3]], "Bright": [[2]]},
    },
    {"id": "bad", "evidence": {"Near": [["b"]]}},
    {"id": "red", "evidence": {"Near": [["\\", "red"]]}, "truth": {"Bright": [["red"], ["\\"]]}},
]


def stepped(by: tuple[str, int] | None, query: list[str]) -> tuple[list[Outcome], Metrics]:
    plan = compile_program(reader.parse(PROGRAM, "rules.mln"), query)
    engine = Brute()
    learner = MlnOnlineLearner(plan, Cda1(sigma=0.1), Inference(engine, engine), by)
    metrics, outcomes = Metrics(), []
    for _ in range(3):
        found, tally = learner.step([decode(json.dumps(each).encode()) for each in known(query)])
        metrics.add(tally, len(found))
        outcomes += found
    return outcomes, metrics


def known(query: list[str]) -> list[dict[str, object]]:
    """The examples without what is not asked for."""
    return [
        {**e, "truth": {q: e["truth"].get(q, []) for q in query}} if "truth" in e else e
        for e in EXAMPLES
    ]


CASES = [
    (("Kind", 0), ["Kind", "Bright"]),
    (("Kind", 1), ["Kind"]),
    (None, ["Kind", "Bright"]),
    (("Bright", 0), ["Bright"]),
]


@pytest.mark.parametrize(("by", "query"), CASES)
def test_kernels_report_what_python_does(
    monkeypatch: pytest.MonkeyPatch, by: tuple[str, int] | None, query: list[str]
) -> None:
    spelled, metrics = stepped(by, query)
    assert any(isinstance(each.prediction, SpelledPrediction) for each in spelled)
    monkeypatch.setattr(AtomCounter, "_countable", lambda *_: False)
    monkeypatch.setattr(Reporter, "texts", lambda *_: None)
    plain, others = stepped(by, query)

    record, nothing = Record(b"", str(Path("a")), 1, 0, 0), ExampleError("nothing")
    lines, expected = ([Result(record, nothing, x).answer for x in xs] for xs in (spelled, plain))
    assert lines == expected
    assert metrics.save() == others.save()
    for text, each in zip(spelled, plain, strict=True):
        if each.prediction is not None:
            assert text.prediction.predicted == each.prediction.predicted
            assert text.prediction.whole() == each.prediction
