"""Every engine of PSL in runs and in learning from batches, from one table."""

import json
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec
import pytest
from conftest import command

import onlinesrl as srl
from onlinesrl.core.errors import ConfigError
from onlinesrl.core.explain.counterfactual import CounterfactualQuery
from onlinesrl.mln.inference.registry import ENGINES as MLN_ENGINES
from onlinesrl.psl.inference.registry import ENGINES
from onlinesrl.runs import batch_learning
from onlinesrl.runs import run as run_module
from onlinesrl.runs.config.loading import load, load_batch
from tests.support.trust_program import MODEL, SQUARED, examples

EXAMPLES = examples(12)


def learner(model: str = SQUARED, **inference: Any) -> Any:
    return srl.OnlineLearner(srl.Model(model, "psl"), "Trusts", inference=inference).learned


@pytest.mark.parametrize("name", ENGINES)
def test_in_an_explanation_pulls_cancel(name: str) -> None:
    hard = ENGINES[name].takes_hard_rules
    of = learner(MODEL if hard else SQUARED, engine=name)
    for example in EXAMPLES[:4]:
        for atom in of.least_certain(example, 5):
            found = of.explain(example, atom, CounterfactualQuery(tries=0))
            assert found.residual <= (0.02 if name == "tandem" else 0.01)


@pytest.mark.parametrize("name", ENGINES)
def test_predictions_do_not_depend_on_the_batch(name: str) -> None:
    of = learner(engine=name)
    of.step(EXAMPLES[:4])
    one_by_one = [of.predict([example])[0].prediction for example in EXAMPLES]
    together = [outcome.prediction for outcome in of.predict(EXAMPLES)]
    assert repr(together) == repr(one_by_one)


def test_of_many_worlds_in_a_call_one_may_not_be_for_the_engine() -> None:
    """A hinge of power 1 is plain where only one target is in it, and then TRON takes it."""
    model = SQUARED + "0.1: Odd(A) & Trusts(A, B) -> Trusts(B, A)\n"
    of = learner(model, engine="tron")
    odd = EXAMPLES[3]
    name = odd.query["Trusts"][0][0]  # type: ignore[index]
    odd = msgspec.structs.replace(odd, evidence={**odd.evidence, "Odd": [[name]]})
    outcomes = of.predict([EXAMPLES[0], odd, EXAMPLES[1]])
    alone = [of.predict([example])[0].prediction for example in EXAMPLES[:2]]
    assert repr([outcomes[0].prediction, outcomes[2].prediction]) == repr(alone)
    assert "TRON takes no hinge of power 1" in str(outcomes[1].error)
    assert "(inference.engine)" in str(outcomes[1].error)


@pytest.mark.parametrize("name", ENGINES)
def test_every_engine_is_in_the_guide(name: str) -> None:
    assert f"\n| `{name}`" in (resources.files("onlinesrl") / "guide" / "psl.md").read_text()


@pytest.mark.parametrize(("wrong", "model"), [("mpe", "trust.psl"), ("admm", "m.mln")])
def test_the_error_for_a_wrong_engine_lists_those_of_the_language(
    wrong: str, model: str, tmp_path: Path
) -> None:
    known = [*ENGINES] if model == "trust.psl" else [*MLN_ENGINES]
    expected = f"{', '.join(map(repr, known))} or module:Class"
    (tmp_path / model).touch()
    (tmp_path / "a").touch()
    (tmp_path / "c.yaml").write_text(
        f"model: {model}\nquery: Trusts\nsource: {{path: a}}\ninference: {{engine: {wrong}}}\n"
    )
    with pytest.raises(ConfigError) as error:
        load(tmp_path / "c.yaml")
    assert f":4:21: inference.engine: expected {expected}, found '{wrong}'" in str(error.value)


def test_a_hard_rule_is_refused_before_an_example_is_taken(tmp_path: Path) -> None:
    (tmp_path / "trust.psl").write_text(MODEL)
    (tmp_path / "a").touch()
    (tmp_path / "c.yaml").write_text(
        "model: trust.psl\nquery: Trusts\nsource: {path: a}\ninference: {engine: tron}\n"
    )
    with pytest.raises(ConfigError) as error:
        run_module.new_learner(load(tmp_path / "c.yaml"))
    assert "inference.engine: tron is for models without hard rules" in str(error.value)
    assert "Trusts(A, +B) <= 2" in str(error.value)


# learning from a batch ---------------------------------------------------------------------------

RULES = """1: Knows(A, B) & Likes(A) -> Likes(B) ^2
1: Knows(A, B) & Likes(B) -> Likes(A) ^2
1: !Likes(A) ^2
"""
DATA = """predicates: {Knows/2: closed, Likes/1: open}
observations: {Knows: knows.txt}
targets: {Likes: likes.txt}
truth: {Likes: truth.txt}
"""


def batch(folder: Path, rules: str = RULES, **keys: Any) -> Path:
    (folder / "m.psl").write_text(rules)
    (folder / "m.data").write_text(DATA)
    names = [f"p{n}" for n in range(12)]
    knows = [f"{a}\t{names[(n + k) % 12]}\n" for n, a in enumerate(names) for k in (1, 5)]
    (folder / "knows.txt").write_text("".join(knows))
    (folder / "likes.txt").write_text("".join(f"{name}\n" for name in names))
    (folder / "truth.txt").write_text("".join(f"{name}\t{n % 2}\n" for n, name in enumerate(names)))
    config = folder / "learn.yaml"
    values = {"model": "m.psl", "data": "m.data", "test": "m.data", "output": str(folder / "out")}
    config.write_text(json.dumps(values | keys))
    return config


@pytest.mark.parametrize(
    ("kind", "engine"), [("mle", "lifted-admm"), ("lme", "tandem"), ("mle", "tron")]
)
def test_batch_learning_infers_by_the_engine(kind: str, engine: str, tmp_path: Path) -> None:
    learned = {}
    for name in ("admm", engine):
        keys = {"learner": {"kind": kind}, "inference": {"engine": name}}
        config = load_batch(batch(tmp_path, **keys))
        problem: Any = batch_learning.read_problem(config, None)
        assert name.replace("-", " ") in problem.solve(problem.start).route
        found = batch_learning.learn(config, True, lambda _: None)
        learned[name] = found
    objectives = (learned[name]["objective"][-1] for name in (engine, "admm"))
    assert next(objectives) == pytest.approx(next(objectives), rel=1e-3)
    assert learned[engine]["scores"]["Likes"]["atoms"] == 12


def test_a_model_that_is_not_for_the_engine_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = batch(tmp_path, RULES + "Likes(A) + Likes(B) <= 1 .\n", inference={"engine": "tron"})
    assert command("learn", str(config)) == 65
    assert "takes no constraints: use ADMM (inference.engine)" in capsys.readouterr().err


@pytest.mark.parametrize(("key", "value"), [("unsolved", "stop"), ("max_groundings", 7)])
def test_keys_of_runs_are_refused(key: str, value: object, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"inference.{key}: for runs only; leave it out"):
        load_batch(batch(tmp_path, inference={key: value}))
