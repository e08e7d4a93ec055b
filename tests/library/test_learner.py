"""The learner as a Python object: the bits of a run, whole steps, checkpoints, weights by name."""

import doctest
import json
import pickle
import re
import signal
import threading
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
import pytest
from conftest import REPO, command

import onlinesrl as srl
from onlinesrl.core.interrupt import whole
from onlinesrl.core.online.update_rules import UPDATES
from onlinesrl.runs.run import load_checkpoint
from tests.support.golden import check, refusal

GOLDEN = Path(__file__).parent / "golden"

SMOKERS = """
person = {Anna, Bob, Carl}
Friends(person, person)
Smokes(person)
Cancer(person)
0 Smokes(x) => Cancer(x)
0 Friends(x, y) ^ Cancer(x) => Cancer(y)
0 Cancer(+x)
!Cancer(Carl).
"""
ANNA = {"Smokes": ["Anna"], "Friends": [("Anna", "Bob")]}, {"Cancer": ["Anna", "Bob"]}
OPTIONS: dict[str, dict[str, Any]] = {
    "citations": {
        "query": "InField",
        "update": "cda2",
        "loss": "ml",
        "sigma": 0.003,
        "by": "field",
    },
    "trust": {"query": "Trusts", "update": "cda2", "loss": "ml", "sigma": 0.1},
}
EXAMPLES = 40


def test_the_updates_that_are_named_are_those_there_are() -> None:
    named = re.search(r"online update \(([^)]*)\)", srl.OnlineLearner.__doc__ or "")
    assert named is not None
    assert {*re.findall(r"``(.*?)``", named[1])} == UPDATES.keys()
    guide = (REPO / "onlinesrl" / "guide" / "learners.md").read_text()
    assert {*re.findall(r"^\| `([\w-]+)`", guide, re.MULTILINE)} - {"update"} == UPDATES.keys()


def new(name: str) -> srl.OnlineLearner:
    model = {"citations": "segmentation.mln", "trust": "trust.psl"}[name]
    return srl.OnlineLearner(srl.Model.read(REPO / "streams" / name / model), **OPTIONS[name])


def stream(name: str) -> list[srl.Example]:
    return [*srl.read(REPO / "streams" / name / f"{name}.jsonl")][:EXAMPLES]


def state(learner: srl.OnlineLearner, folder: Path) -> tuple[Any, dict[str, bytes]]:
    learner.save(folder / "state.ckpt")
    saved = load_checkpoint(folder / "state.ckpt")
    return saved.header, {name: array.tobytes() for name, array in saved.arrays.items()}


@pytest.fixture
def small() -> srl.OnlineLearner:
    learner = srl.OnlineLearner(SMOKERS, query="Cancer", sigma=0.1)
    learner.learn_one(*ANNA)
    return learner


# the bits of a run --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OPTIONS)
def test_learning_one_by_one_gives_the_bits_of_a_run(name: str, tmp_path: Path) -> None:
    seen: list[Any] = []
    summary = srl.run(
        REPO / "configs" / f"{name}.yaml",
        settings={"output": tmp_path / "run", "metrics.by": OPTIONS[name].get("by")},
        until=EXAMPLES,
        progress=seen.append,
    )
    learner = new(name)
    lines = [msgspec.json.encode(learner.learn_one(each).line) for each in stream(name)]
    assert lines == (tmp_path / "run" / "predictions.jsonl").read_bytes().splitlines()
    saved = load_checkpoint(tmp_path / "run")
    header, arrays = state(learner, tmp_path)
    assert arrays == {name: array.tobytes() for name, array in saved.arrays.items()}
    assert header["learner"] == saved.header["learner"]
    assert learner.metrics["f1"] == summary["f1"]
    assert seen[-1]["examples"] <= summary["examples"] == EXAMPLES


@pytest.mark.parametrize("name", OPTIONS)
def test_it_goes_on_from_its_own_checkpoint_and_from_that_of_a_run(
    name: str, tmp_path: Path
) -> None:
    examples, whole_learner = stream(name), new(name)
    whole_learner.learn_many(examples)
    first = new(name)
    first.learn_many(examples[:17])
    first.save(tmp_path / "first.ckpt")
    srl.run(
        REPO / "configs" / f"{name}.yaml",
        settings={"output": tmp_path / "run", "metrics.by": OPTIONS[name].get("by")},
        until=17,
    )
    for path in (tmp_path / "first.ckpt", tmp_path / "run"):
        learner = srl.OnlineLearner.load(path)
        learner.learn_many(iter(examples[17:]))
        assert state(learner, tmp_path)[1] == state(whole_learner, tmp_path)[1]
        assert learner.metrics["f1"] == whole_learner.metrics["f1"]


def test_a_run_starts_from_its_checkpoint(tmp_path: Path) -> None:
    learner, examples = new("citations"), stream("citations")
    learner.learn_many(examples[:20])
    learner.save(tmp_path / "first.ckpt")
    learner.learn_many(examples[20:])
    (tmp_path / "rest.jsonl").write_bytes(b"\n".join(map(msgspec.json.encode, examples[20:])))
    settings = {
        "output": tmp_path / "run",
        "learner.start": tmp_path / "first.ckpt",
        "source.path": tmp_path / "rest.jsonl",
    }
    srl.run(REPO / "configs" / "citations.yaml", settings=settings)
    saved = load_checkpoint(tmp_path / "run")
    arrays = {name: array.tobytes() for name, array in saved.arrays.items()}
    assert arrays == state(learner, tmp_path)[1]


def test_learners_in_threads_share_nothing(tmp_path: Path) -> None:
    examples, learners = stream("citations"), [new("citations") for _ in range(3)]
    orders = [examples, examples[::-1], examples]
    threads = [
        threading.Thread(target=learner.learn_many, args=(order,))
        for learner, order in zip(learners, orders, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    alone = new("citations")
    alone.learn_many(examples[::-1])
    first, second, third = (state(learner, tmp_path)[1] for learner in learners)
    assert first == third != second == state(alone, tmp_path)[1]


# a step is whole, or nothing ----------------------------------------------------------------------


def test_a_bad_example_is_an_error_and_changes_nothing(
    small: srl.OnlineLearner, tmp_path: Path
) -> None:
    before = state(small, tmp_path)

    def learn(example: str) -> str:
        x, y = eval(example, {"ANNA": ANNA})
        said = refusal(lambda: small.learn_one(x, y))
        of_many = refusal(lambda: small.learn_many([ANNA[0], x], [ANNA[1], y]))
        assert said in of_many
        assert state(small, tmp_path) == before
        return said

    check(GOLDEN / "examples.txt", learn)
    again = srl.OnlineLearner(SMOKERS, query="Cancer", sigma=0.1)
    again.learn_one(*ANNA)
    assert small.learn_one(*ANNA).line.score == again.learn_one(*ANNA).line.score


def test_the_error_of_many_tells_which(small: srl.OnlineLearner) -> None:
    ys = [ANNA[1]] * 100 + [{"Cancer": ["Carl"]}]
    with pytest.raises(srl.ExampleError, match=r"example 100: .*hard"):
        small.learn_many([ANNA[0]] * 101, ys)
    with pytest.raises(ValueError, match="shorter"):
        small.learn_many([ANNA[0]] * 2, [ANNA[1]])


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Ctrl-C is handled as Python does, whatever tests before have left."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_waits_for_the_end_of_a_step(ctrl_c: None) -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), whole():
        signal.raise_signal(signal.SIGINT)
        done.append("all of it")
    assert done
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with whole():
        pass


def test_predicting_changes_nothing(small: srl.OnlineLearner, tmp_path: Path) -> None:
    before = state(small, tmp_path)
    small.predict_one(ANNA[0])
    small.predict_many([ANNA[0], {"Smokes": ["Bob"]}], marginals=True)
    assert state(small, tmp_path) == before


@pytest.mark.parametrize("name", OPTIONS)
def test_scores_are_those_of_the_command(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    learner, lines = new(name), (REPO / "streams" / name / f"{name}.jsonl").read_bytes()
    examples = stream(name)
    learner.learn_many(examples[:20])
    before = state(learner, tmp_path)
    found = learner.evaluate(examples[20:])
    assert state(learner, tmp_path) == before
    (tmp_path / "rest.jsonl").write_bytes(b"\n".join(lines.splitlines()[20:EXAMPLES]))
    config = str(REPO / "configs" / f"{name}.yaml")
    given = (f"source.path={tmp_path / 'rest.jsonl'}", f"metrics.by={OPTIONS[name].get('by', '')}")
    options = [each for value in given[: 1 + ("by" in OPTIONS[name])] for each in ("--set", value)]
    assert command("evaluate", str(tmp_path / "state.ckpt"), config, *options) == 0
    said = json.loads(capfd.readouterr().out)
    assert found["labelled"] == EXAMPLES - 20
    assert {key: said[key] for key in found} == found


def test_an_example_that_cannot_be_scored_is_named(small: srl.OnlineLearner) -> None:
    with pytest.raises(srl.ExampleError, match="example 1"):
        small.evaluate([ANNA[0], {"Smoks": ["Bob"]}], [ANNA[1], ANNA[1]])


# what it gives -----------------------------------------------------------------------------------


def test_predictions_have_atoms_values_and_truth(small: srl.OnlineLearner) -> None:
    found = small.learn_one(*ANNA)
    assert found["Cancer"] == [("Anna",), ("Bob",)]
    assert found.hamming == 0
    assert found.certified
    assert found.truth == {"Cancer": [("Anna",), ("Bob",)]}
    assert found.values is None
    assert "Cancer(Anna)" in repr(found)
    assert "<td>Cancer(Bob)</td><td>yes</td><td>yes</td>" in found._repr_html_()
    assert found.table("Cancer").columns == {"person": ["Anna", "Bob"]}
    sure = small.predict_one(ANNA[0], marginals=True)
    assert sure.values is not None
    assert {*sure.values["Cancer"]} == {("Anna",), ("Bob",)}
    assert 0.5 < sure.values["Cancer"]["Anna",] < 1
    assert sure.table("Cancer")["value"] == [*sure.values["Cancer"].values()]


def test_only_the_queried_atoms_are_open(small: srl.OnlineLearner) -> None:
    found = small.predict_one(ANNA[0], query={"Cancer": ["Bob"]}, marginals=True)
    assert found.values is not None
    assert [*found.values["Cancer"]] == [("Bob",)]


def test_weights_by_rule_and_constants(small: srl.OnlineLearner) -> None:
    weights = small.weights
    assert weights["Smokes(x) => Cancer(x)"] > 0
    assert weights["Cancer(+x)", "Anna"] > 0
    assert len(weights) == 5
    assert weights.about("Anna").rows[0].weight == weights["Cancer(+x)", "Anna"]
    heavy = weights.heaviest(2)
    assert len(heavy) == 2
    assert len(weights.table()) == 5
    assert "5 weights" in weights._repr_html_()
    model = srl.Model(small.weights_text())
    assert {f"{rule.weight:.4f}" for rule in model.rules if rule.weight} <= {
        f"{row.weight:.4f}" for row in weights.rows
    }


def test_no_weight_takes_the_name_of_another() -> None:
    """An empty constant, one named as a variable, and a rule that stands twice have their own weights."""
    model = (
        'k = {"", "y", "B"}\nT(i)\nQ(i, k!)\nS(k)\n0 T(x) ^ Q(x, +y) ^ !S("y")\n'
        + "0 T(x) ^ Q(x, B)\n" * 2
    )
    learner = srl.OnlineLearner(model, "Q")
    learner.learn_one({"T": ["a"]}, {"Q": [("a", "y")]})
    rule = 'T(x) ^ Q(x, +y) ^ !S("y")'
    assert dict(learner.weights) == {
        (rule, ""): -1.0,
        (rule, "y"): 1.0,
        (rule, "B"): 0.0,
        ("T(x) ^ Q(x, B)",): 0.0,
        ("T(x) ^ Q(x, B)", "the 2."): 0.0,
    }
    assert 'T(x) ^ Q(x, B) ^ !S("y")' in learner.weights.table()["rule"]
    assert [row.shown() for row in learner.weights.about("").rows] == [rule + "  [y = ]"]
    rules = srl.Model("1: T(A) -> Q(A) ^2\n2: T(A) -> Q(A) ^2", "psl")
    weights = srl.OnlineLearner(rules, "Q").weights
    assert dict(weights) == {("T(A) -> Q(A) ^2",): 1.0, ("T(A) -> Q(A) ^2", "the 2."): 2.0}
    assert not len(weights.about(""))


def test_background_facts_are_those_of_every_example(tmp_path: Path) -> None:
    of = {"Friends": [("Anna", "Bob")]}
    shared = srl.OnlineLearner(SMOKERS, query="Cancer", background=of)
    own = srl.OnlineLearner(SMOKERS, query="Cancer")
    shared.learn_one({"Smokes": ["Anna"]}, ANNA[1])
    own.learn_one(*ANNA)
    assert state(shared, tmp_path)[1] == state(own, tmp_path)[1]
    shared.save(tmp_path / "shared.ckpt")
    again = srl.OnlineLearner.load(tmp_path / "shared.ckpt")
    again.learn_one({"Smokes": ["Anna"]}, ANNA[1])
    own.learn_one(*ANNA)
    assert state(again, tmp_path)[1] == state(own, tmp_path)[1]


def test_psl_predicts_values() -> None:
    learner = srl.OnlineLearner(srl.Model("1: A(X) -> B(X)\n1: !B(X)", "psl"), query="B")
    x = {"A": {("a",): 0.8}}
    found = learner.predict_one(x, query={"B": ["a"]})
    assert found.values is not None
    assert found.values["B"]["a",] == pytest.approx(0.4, abs=0.5)
    with pytest.raises(srl.UsageError, match="no marginal"):
        learner.predict_one(x, query={"B": ["a"]}, marginals=True)


def test_wrong_options_are_named() -> None:
    def make(options: str) -> str:
        return refusal(
            lambda: srl.OnlineLearner(SMOKERS, **eval(options, {"__file__": __file__})).predict_one(
                {}
            )
        )

    check(GOLDEN / "options.txt", make)


def test_a_model_tells_the_place_of_a_mistake() -> None:
    with pytest.raises(srl.ModelError, match="<model>:2:"):
        srl.Model("Smokes(person)\n1.5 Smokes(x) => Dead(x)")
    with pytest.raises(srl.UsageError, match="expected mln or psl"):
        srl.Model("", "prolog")


@pytest.mark.parametrize("module", ["model", "learner", "inference", "tables"])
def test_the_examples_of_the_docstrings(module: str) -> None:
    failed, tried = doctest.testmod(
        import_module(f"onlinesrl.library.{module}"), optionflags=doctest.ELLIPSIS
    )
    assert tried
    assert not failed


@pytest.mark.parametrize("name", OPTIONS)
def test_a_pickled_learner_goes_on(name: str, tmp_path: Path) -> None:
    learner, (*some, last) = new(name), stream(name)[:6]
    learner.learn_many(some)
    other = pickle.loads(pickle.dumps(learner))
    assert other.learn_one(last).line == learner.learn_one(last).line
    assert state(other, tmp_path) == state(learner, tmp_path)
    assert other.metrics == learner.metrics


# curves -------------------------------------------------------------------------------------------


def test_curves_are_those_of_a_run(tmp_path: Path) -> None:
    learner = new("citations")
    for x in stream("citations"):
        learner.learn_one(x)
    model = REPO / "streams" / "citations" / "segmentation.mln"
    config = {"model": str(model), "query": "InField", "output": str(tmp_path / "run")}
    config |= {
        "learner": {"update": "cda2", "loss": "ml", "sigma": 0.003},
        "metrics": {"by": "field"},
    }
    source = {"path": str(REPO / "streams" / "citations" / "citations.jsonl")}
    srl.run({**config, "source": source}, until=EXAMPLES)
    run = srl.Curves.read(tmp_path / "run")
    columns = learner.curves.table().columns
    assert {name: column[:-1] for name, column in columns.items()} == run.table().columns
    assert columns["examples"] == [1, 2, 4, 8, 16, 32, 40]
    for curves in (run, learner.curves):
        shown = curves._repr_html_()
        assert shown.startswith("<iframe") and "Regret bound" in shown and "svg" in shown


def test_curves_are_kept_in_checkpoints_and_after_exceptions(tmp_path: Path) -> None:
    learner = new("citations")
    learner.learn_many(stream("citations")[:20])
    lines = learner.curves.lines
    with pytest.raises(srl.ExampleError):
        learner.learn_many([*stream("citations")[20:], {"Nothing": [1]}])
    assert learner.curves.lines == lines
    learner.save(tmp_path / "c.ckpt")
    assert srl.OnlineLearner.load(tmp_path / "c.ckpt").curves.lines == lines


SMOKING = srl.Model("Smokes(a)\nCancer(a)\n1 Smokes(x) => Cancer(x)\n")
PSL_MODEL = srl.Model("1: Knows(A, B) -> Trusts(A, B)", "psl")


@pytest.mark.parametrize("odd", [srl.Model, 3.5, object(), [1]])
@pytest.mark.parametrize(
    ("said", "call"),
    [
        ("update", lambda odd: srl.OnlineLearner(SMOKING, "Cancer", update=odd)),
        ("engine", lambda odd: srl.OnlineLearner(SMOKING, "Cancer", inference=odd)),
        (
            r"learner\.costs",
            lambda odd: srl.OnlineLearner(SMOKING, "Cancer", update={"costs": odd}),
        ),
        (r"learner\.loss", lambda odd: srl.OnlineLearner(SMOKING, "Cancer", loss=odd)),
        ("query is", lambda odd: srl.OnlineLearner(SMOKING, odd)),
        ("query is", lambda odd: srl.World(SMOKING, odd)),
        ("query is", lambda odd: srl.infer(SMOKING, {}, odd)),
        ("closed is", lambda odd: srl.infer(SMOKING, {}, "Cancer", closed=odd)),
        ("evidence is", lambda odd: srl.infer(SMOKING, odd, "Cancer")),
        ("method is", lambda odd: srl.infer(SMOKING, {}, "Cancer", method=odd)),
        ("model is", lambda odd: srl.OnlineLearner(odd, "Cancer")),
        ("model is", lambda odd: srl.infer(odd, {}, "Cancer")),
        ("truth is", lambda odd: srl.infer(PSL_MODEL, {}, {}, truth=odd)),
        ("update", lambda odd: srl.SequenceTagger(update=odd).fit([[["a"]]], [["x"]])),
    ],
)
def test_an_argument_of_another_type_is_told_what_is_expected(said, call, odd) -> None:
    with pytest.raises(srl.UsageError, match=f"{said}(.|\n)*(expected|should be|of the query)"):
        call(odd)
