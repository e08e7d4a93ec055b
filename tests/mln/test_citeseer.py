"""CiteSeer: accuracy, and that solvers, reductions, micro-batches, audits and files all agree."""

import csv
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

import msgspec
import pytest
from conftest import command as call
from conftest import long, soaked

from onlinesrl.core.example import Example, decode
from onlinesrl.core.learner import Prediction
from onlinesrl.mln.online.learner import MlnOnlineLearner
from onlinesrl.runs import run as run_module
from onlinesrl.runs.config.loading import load
from onlinesrl.runs.config.schema import Config
from onlinesrl.runs.evaluation import evaluate
from tests.support.paths import REPO, SHARED
from tests.support.stream_scripts import converted, generator

command = generator("citations", "leave_one_topic_out").command

DATA = SHARED / "data" / "citeseer"
CONFIG = REPO / "configs" / "citeseer.yaml"
pytestmark = pytest.mark.skipif(not DATA.exists(), reason=f"CiteSeer is not here: no {DATA}")


@pytest.fixture(scope="module")
def citeseer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The citations as examples."""
    path = tmp_path_factory.mktemp("citeseer") / "citeseer.jsonl"
    converted("citeseer", DATA, path)
    return path


@pytest.fixture(scope="module")
def examples(citeseer: Path) -> list[Example]:
    return [decode(line) for line in citeseer.read_bytes().splitlines()]


def config(source: Path, **keys: Any) -> Config:
    """The configuration of the project, with other keys (`a__b` is `a.b`)."""
    values = {"source.path": source, **{k.replace("__", "."): v for k, v in keys.items()}}
    return load(CONFIG, [f"{key}={value}" for key, value in values.items()])


class Passed(NamedTuple):
    """What a pass over examples gave."""

    predictions: list[Prediction]
    audited: int


def taken(
    learner: MlnOnlineLearner, examples: Sequence[Example], batch: int, learning: bool
) -> Passed:
    """A pass over the examples, all of which are good."""
    predictions, audited = [], 0
    for at in range(0, len(examples), batch):
        outcomes, tally = learner.step(examples[at : at + batch], learning)
        predictions += [outcome.prediction for outcome in outcomes]
        audited += tally.audited
    assert None not in predictions
    return Passed(predictions, audited)


def state(learner: MlnOnlineLearner) -> tuple[Any, dict[str, bytes]]:
    """Everything that a checkpoint holds of a learner, bit for bit."""
    header, arrays = learner.save()
    return msgspec.json.encode(header), {name: a.tobytes() for name, a in arrays.items()}


@pytest.fixture(scope="module")
def trained(citeseer: Path, examples: list[Example]) -> MlnOnlineLearner:
    """CDA2-ML after one pass."""
    learner = run_module.make_learner(config(citeseer))
    taken(learner, examples, batch=64, learning=True)
    return learner


# accuracy ------------------------------------------------------------------------------------------


@pytest.mark.long
def test_leaving_one_topic_out(citeseer, tmp_path):
    learners = ("{update: cda1, loss: pl}", "{update: cda2, loss: ml}")
    _, *words = command(citeseer, learners, "0.003,0.01,1,30")
    assert call(*words, "--output", str(tmp_path)) == 0
    with (tmp_path / "comparison.csv").open() as file:
        rows = [*csv.DictReader(file)]
    assert [row["fold"] for row in rows] == 2 * ["constraint", "face", "reinforcement"]
    cda1, cda2 = (mean(float(row["f1"]) for row in rows[at : at + 3]) for at in (0, 3))
    assert cda1 >= 0.945
    assert cda2 >= 0.93


# exactness -----------------------------------------------------------------------------------------


def predicted(
    trained: MlnOnlineLearner, source: Path, examples: Sequence[Example], **keys: Any
) -> list[Prediction]:
    """Predictions of the trained weights with their margins over the second best state."""
    learner = run_module.make_learner(config(source, **keys), margins=True)
    learner.restore(*trained.save())
    return taken(learner, examples, batch=64, learning=False).predictions


@pytest.mark.parametrize(
    ("solver", "count"), [("highs", 10), soaked("highs", 200), long("cbc", 10), soaked("cbc", 20)]
)
def test_the_reductions_change_no_answer(trained, citeseer, examples, solver, count):
    chosen = examples[:: len(examples) // count][:count]
    no_presolve = {"inference__presolve": "none", "inference__solver": solver}

    whole = predicted(trained, citeseer, chosen, **no_presolve)
    exact = predicted(trained, citeseer, chosen)

    assert all(p.certified for p in (*whole, *exact))
    assert [p.score for p in whole] == pytest.approx([p.score for p in exact], rel=0, abs=1e-6)
    assert [p.margin for p in whole] == pytest.approx([p.margin for p in exact], rel=0, abs=1e-6)
    unique = [n for n, p in enumerate(whole) if p.margin > 1e-6]
    assert len(unique) > 0.9 * count
    assert [whole[n].predicted for n in unique] == [exact[n].predicted for n in unique]


# micro-batches, audits -----------------------------------------------------------------------------


@pytest.mark.parametrize("max_weights", ["null", "2000"])
def test_the_size_of_a_micro_batch_changes_nothing(citeseer, examples, max_weights):
    chosen = examples[200:350]

    def learnt(batch: int) -> tuple[list[Prediction], Any]:
        learner = run_module.make_learner(config(citeseer, learner__max_weights=max_weights))
        passed = taken(learner, chosen, batch, learning=True)
        assert (learner.weights.dropped > 0) == (max_weights != "null")
        return passed.predictions, state(learner)

    one = learnt(1)
    for batch in (7, 1000):
        assert learnt(batch) == one


def test_audits_agree_and_change_nothing(citeseer, examples):
    chosen = examples[200:500]
    audited = run_module.make_learner(config(citeseer, inference__audit_every=25))
    plain = run_module.make_learner(config(citeseer))

    passed = taken(audited, chosen, batch=64, learning=True)

    assert passed.audited == 300 // 25
    assert passed == taken(plain, chosen, batch=64, learning=True)._replace(audited=12)
    assert state(audited) == state(plain)


# files ---------------------------------------------------------------------------------------------


@pytest.mark.long
def test_checkpoint_and_weights_file_score_the_same(citeseer, tmp_path):
    keys = {"output": tmp_path / "out", "source__without": "face"}
    run_module.run(
        config(citeseer, **keys), run_module.Options(fresh=True, strict=True), 0.0, print
    )
    held_out = config(citeseer, source__only="face")

    of_checkpoint = evaluate(held_out, tmp_path / "out")
    of_file = evaluate(held_out, tmp_path / "out" / "weights.mln")

    assert of_checkpoint["labelled"] == 348
    assert of_checkpoint["f1"] > 0.85
    assert of_file == of_checkpoint
