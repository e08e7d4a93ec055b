"""Runs of PSL programs: learned, stopped, killed, gone on with, looked into and refused as others are."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from conftest import Job, command, long_if, wait

import onlinesrl as srl
from onlinesrl.core.errors import ConfigError, OnlinesrlError
from onlinesrl.psl.inference.admm import Admm
from onlinesrl.psl.lang import reader
from onlinesrl.runs import run as run_module
from onlinesrl.runs import weights as weights_module
from onlinesrl.runs.config.loading import load
from onlinesrl.runs.config.schema import Config
from onlinesrl.runs.evaluation import check, evaluate
from tests.core.evaluation.test_ranking_metrics import (
    f1_at,
    textbook_auc,
    textbook_average_precision,
)
from tests.stream.test_kill import LEARNERS
from tests.support.trust_program import MODEL, examples

BAD = [
    b"{\n",
    b'{"id": 1, "evidence": {"Knws": []}, "query": {"Trusts": [["a", "b"]]}}\n',
    b'{"id": 2, "evidence": {}}\n',
    b'{"id": 3, "evidence": {}, "query": {"Trusts": [["a", "b"]]}, "truth": {"Trusts": [["b", "a"]]}}\n',
]
LINES = [msgspec.json.encode(example) + b"\n" for example in examples(60)]


def mixed(count: int) -> list[bytes]:
    lines = LINES[:count]
    for place, bad in zip((0, 7, 8, 15), BAD, strict=True):
        lines.insert(place, bad)
    return lines


@pytest.fixture
def trust(job: Callable[..., Job], tmp_path: Path) -> Callable[..., Job]:
    """Makes jobs of the program of trust."""
    model = tmp_path / "trust.psl"
    model.write_text(MODEL)

    def make(lines: list[bytes], name: str = "job", **keys: Any) -> Job:
        settings = {"metrics": {"by": "Trusts.2"}, "limits": {"bad_share": 1.0}}
        return job(lines, name, model=str(model), query="Trusts", **settings | keys)

    return make


@pytest.fixture(scope="module", autouse=True)
def warm_soft(warm: None, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Compile everything once, in a fork, and load it in this process, so that forks start at once."""
    folder = tmp_path_factory.mktemp("warm_soft")
    (folder / "m.psl").write_text(MODEL)
    config = {"model": str(folder / "m.psl"), "query": "Trusts"}
    job = Job(folder / "job", LINES[:3], **config, metrics={})
    assert job.run() == 0, job.said
    run_module.run(config_of(job), run_module.Options(fresh=True), 0.0, print)


def config_of(job: Job, *overrides: str) -> Config:
    return load(job.config, overrides)


def test_a_run_learns_and_says_what(trust: Callable[..., Job]) -> None:
    run = trust(mixed(60))
    assert run.run() == 0, run.said
    first, last = (run.lines("metrics.jsonl")[n] for n in (0, -1))
    assert last["examples"] == 64
    assert last["errors"] == {"decode": 1, "not_open": 1, "schema": 2}
    assert (last["labelled"], last["updates"], last["routes"]) == (60, 60, {"admm": 60})
    assert last["window"]["mae"] < 0.2
    assert last["window"]["mae"] <= last["mae"]
    assert last["regret_bound"] > 0
    assert first["mae"] is None
    assert len(run.lines("deadletter.jsonl")) == 4
    assert not (run.output / "weights.mln").exists()
    learned = reader.load(run.output / "weights.psl")
    assert [rule.weight for rule in learned.rules] != [1.0, 1.0, 0.2, 0.5, None]
    page = (run.output / "report.html").read_text()
    for said in ("Mean absolute error", "!Trusts(A, B) ^2", "weight zero has no effect"):
        assert said in page
    assert "Mean absolute error" in run.printed


def test_values_are_ranked_as_the_predictions_have_them(trust: Callable[..., Job]) -> None:
    run = trust(LINES)
    assert run.run() == 0, run.said
    found = []
    for line, said in zip(LINES, run.lines("predictions.jsonl"), strict=True):
        true = {tuple(a["args"]): a["value"] for a in json.loads(line)["truth"]["Trusts"]}
        for atom in said["predicted"]["Trusts"]:
            found.append((atom["value"], true.get(tuple(atom["args"]), 0.0) > 0.5))
    last = run.lines("metrics.jsonl")[-1]
    for measures in (last, last["predicates"]["Trusts"]):
        assert abs(measures["auc"] - textbook_auc(found)) <= measures["auc_error"] + 1e-12
        assert measures["auc_error"] < 0.01
        exact = textbook_average_precision(found)
        off = measures["average_precision"] - exact
        assert abs(off) <= measures["average_precision_error"] + 1e-12
        assert measures["best_f1"] == pytest.approx(f1_at(found, measures["best_threshold"]))
        assert measures["best_f1"] >= measures["f1"] == last["f1"]
    assert last["predicates"]["Trusts"]["support"] == sum(true for _, true in found)
    assert last["confusion"] is None  # who trusts several has no one class
    assert f"AUC {last['auc']:.1%} Average precision" in " ".join(run.printed.split())
    assert "Scores by predicate" in (run.output / "report.html").read_text()
    summary = json.loads((run.output / "summary.json").read_text())
    assert summary["best_threshold"] == last["best_threshold"]


def test_classes_are_confused_and_predicates_counted(
    job: Callable[..., Job], tmp_path: Path
) -> None:
    """The label of a document is what its words hint at; some are hinted at wrongly, some not at all."""
    (tmp_path / "label.psl").write_text(
        "3: Hint(D, C) -> Label(D, C)\n1: !Label(D, C)\n1: !Long(D)\n3: Words(D) -> Long(D)\n"
    )
    hints = ["aa", "ab", "bb", "b-", "-c", "aa"]  # the true label, and the one hinted at
    lines = []
    for n, (true, said) in enumerate(hints):
        name = f"d{n}"
        example = {
            "id": n,
            "evidence": {"Hint": [[name, said]] if said != "-" else [], "Words": [[name]]},
            "query": {"Label": [[name, c] for c in "abc"], "Long": [[name]]},
            "truth": {"Label": [[name, true]] if true != "-" else [], "Long": []},
        }
        lines.append(json.dumps(example).encode() + b"\n")
    keys = {"model": str(tmp_path / "label.psl"), "query": ["Label", "Long"]}
    run = job(lines, metrics={"by": "Label.2"}, **keys)
    assert run.run() == 0, run.said
    assert wait(run.fork("evaluate", str(tmp_path / "label.psl"), str(run.config))) == 0
    found = json.loads(run.printed)
    expected = {"a": {"a": 2, "b": 1}, "b": {"b": 1, "none": 1}, "none": {"c": 1}}
    assert found["confusion"] == expected
    label, long_ = found["predicates"]["Label"], found["predicates"]["Long"]
    assert (label["precision"], label["recall"], label["support"]) == (3 / 5, 3 / 5, 5)
    assert (long_["f1"], long_["recall"], long_["support"]) == (0.0, None, 0)
    nothing = ("auc", "average_precision", "best_f1", "best_threshold")
    assert [long_[name] for name in nothing] == [None] * 4


PLACES = "".join(
    f"{rule}\n"
    for rule in (
        "1: Score(T, P) -> Assign(T, P) ^2",
        "0.1: Score(T, P) & Big(T, 'yes') -> Assign(T, P) ^2",
        "0.2: !Assign(T, P) ^2",
        "1 = Assign(T, +P) .",
    )
)


def scored(count: int, first: str = "no") -> list[bytes]:
    """Tasks with a score for each place; that of the true place is the greatest, if at all, by little."""
    lines, random = [], np.random.default_rng(0)
    for n in range(count):
        scores = random.uniform(0.2, 0.4, (3, 4)).round(3)
        tasks, true = ["s", "t", "u"], random.integers(0, 4, 3).tolist()
        scores[[0, 1, 2], true] += 0.1
        atoms = [(task, f"p{p}") for task in tasks for p in range(4)]
        values = zip(atoms, scores.ravel().tolist(), strict=True)
        example = {
            "id": n,
            "evidence": {
                "Score": [{"args": args, "value": value} for args, value in values],
                "Big": [["s", "no" if n else first]],
                # what is observed takes the place of one of the targets
                "Assign": [["u", "p0"]] if true[2] == 0 else [{"args": ["u", "p0"], "value": 0}],
            },
            "query": {"Assign": [atom for atom in atoms if atom != ("u", "p0")]},
            "truth": {
                "Assign": [
                    [t, f"p{p}"] for t, p in zip(tasks, true, strict=True) if (t, p) != ("u", 0)
                ]
            },
        }
        lines.append(msgspec.json.encode(example) + b"\n")
    return lines


def test_of_values_that_sum_to_one_the_greatest_counts_as_true(
    job: Callable[..., Job], tmp_path: Path
) -> None:
    (tmp_path / "places.psl").write_text(PLACES)
    lines, hits, predicted = scored(30), 0, 0
    keys = {"model": str(tmp_path / "places.psl"), "query": "Assign", "metrics": {}}
    run = job(lines, **keys, learner={"update": "cda1"})
    assert run.run() == 0, run.said
    for line, said in zip(lines, run.lines("predictions.jsonl"), strict=True):
        example = json.loads(line)
        groups: dict[str, list[tuple[float, list[str]]]] = {}
        observed = [
            atom if isinstance(atom, dict) else {"args": atom, "value": 1.0}
            for atom in example["evidence"]["Assign"]
        ]
        for atom in observed + said["predicted"]["Assign"]:
            groups.setdefault(atom["args"][0], []).append((atom["value"], atom["args"]))
        best = [max(group, key=lambda pair: pair[0])[1] for group in groups.values()]
        best = [args for args in best if args in example["query"]["Assign"]]
        hits += sum(args in example["truth"]["Assign"] for args in best)
        predicted += len(best)
    last = run.lines("metrics.jsonl")[-1]
    assert (last["precision"], last["mae"] > 0.1) == (hits / predicted, True)
    assert last["f1"] > 0.5


def test_weights_that_came_to_nothing_and_constants_that_match_nothing_are_said(
    job: Callable[..., Job], tmp_path: Path
) -> None:
    (tmp_path / "places.psl").write_text(PLACES)
    keys = {"model": str(tmp_path / "places.psl"), "query": "Assign", "metrics": {}}
    unmatched = "the constant 'yes' of the model is nowhere in the examples"
    run = job(scored(30), "unmatched", **keys, learner={"update": "adagrad", "sigma": 0.01})
    assert run.run() == 0
    assert f"warning: {unmatched}" in run.said
    assert "warning: learning drove all weights to 0" in run.said
    run = job(scored(30, "yes"), "matched", **keys, learner={"update": "adagrad", "sigma": 1e4})
    assert run.run("--until", "4") == 0
    assert run.run() == 0  # it knows of the constant of the first example
    assert "warning" not in run.said
    lines = scored(1)
    example = json.loads(lines[0])
    stats = srl.infer(srl.Model(PLACES, "psl"), example["evidence"], example["query"]).stats
    assert stats["warnings"] == ["the constant 'yes' of the model is nowhere in the data"]


@pytest.mark.parametrize("learner", long_if("cda2".__ne__, LEARNERS))
def test_batches_and_stops_leave_no_trace(trust: Callable[..., Job], learner: str) -> None:
    run = trust(mixed(24), learner=LEARNERS[learner])
    assert run.run() == 0, run.said
    expected = run.results()
    shutil.rmtree(run.output)
    for until in ("5", "17", "18"):
        assert run.run("--set", "batch=3", "--until", until) == 0, run.said
    assert run.run("--set", "batch=3") == 0, run.said
    assert run.results() == expected


# what is made of a run -----------------------------------------------------------------------------


@pytest.fixture
def trained(trust: Callable[..., Job]) -> Job:
    run = trust(LINES[:40], "trained")
    assert run.run() == 0, run.said
    return run


def test_checkpoint_run_folder_and_weights_file_say_the_same(
    trained: Job, trust: Callable[..., Job]
) -> None:
    config = config_of(trust(LINES[40:], "held_out"))
    of_the_run = evaluate(config, trained.output)
    assert evaluate(config, trained.checkpoints()[-1]) == of_the_run
    assert evaluate(config, trained.output / "weights.psl") == of_the_run
    assert of_the_run["labelled"] == 20
    assert of_the_run["mae"] < evaluate(config, config.model)["mae"]


def test_a_run_goes_on_from_starting_weights(trained: Job, trust: Callable[..., Job]) -> None:
    weights = trained.output / "weights.psl"
    keys = {"update": "cda2", "loss": "ml"}
    warm = trust(LINES[40:], learner={"start": str(weights), **keys})
    learner = run_module.new_learner(config_of(warm))
    learned = [rule.weight or 0.0 for rule in reader.load(weights).rules]
    np.testing.assert_array_equal(learner.weights.averaged(), learned)
    assert warm.run() == 0, warm.said
    cold = trust(LINES[40:], "cold", learner=keys)
    assert cold.run() == 0
    assert warm.lines("metrics.jsonl")[-1]["mae"] < cold.lines("metrics.jsonl")[-1]["mae"]


def test_what_fits_no_rule_of_the_model_is_said(
    trust: Callable[..., Job], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "start.psl").write_text("2: Knows(A, B) -> Trusts(A, B)\n3: !Trusts(A, B) ^2\n")
    (tmp_path / "start.mln").write_text("P(x)\n1 P(x)\n")
    run = trust(LINES[:1])
    learner = run_module.new_learner(config_of(run, f"learner.start={tmp_path / 'start.psl'}"))
    assert [e.weight for e in learner.weights.entries()] == [1.0, 1.0, 0.2, 3.0]
    assert "line 1: no rule of the model fits `2: Knows(A, B) ->" in capsys.readouterr().err
    with pytest.raises(ConfigError, match=r"learner.start: expected weights for trust.psl"):
        run_module.new_learner(config_of(run, f"learner.start={tmp_path / 'start.mln'}"))


def test_a_program_of_its_own_predicts_without_the_model(
    trained: Job, trust: Callable[..., Job], tmp_path: Path
) -> None:
    (tmp_path / "other.psl").write_text("1: Knows(A, B) -> Trusts(A, B)\n0: !Fair(A)\n")
    found = evaluate(config_of(trust(LINES[40:])), tmp_path / "other.psl")
    assert found["recall"] == 1.0
    (tmp_path / "more.psl").write_text(MODEL + "1: Fair(A) & Knows(B, A) -> Trusts(A, B)\n")
    config = config_of(trust(LINES[:1], "more"), f"model={tmp_path / 'more.psl'}")
    with pytest.raises(OnlinesrlError, match="model: the file has changed"):
        evaluate(config, trained.output)


def test_check_predict_and_weights(
    trained: Job, trust: Callable[..., Job], capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    lines, good = check(config_of(trust(mixed(20), "mixed")), 100)
    assert lines[0] == "model: 5 rules, 4 of them with a weight"
    assert lines[1] == "examples: 20 of the first 24 are good"
    assert not good
    assert command("predict", str(trained.output), str(trained.config)) == 0
    said = [json.loads(line) for line in capsysbinary.readouterr().out.splitlines()]
    assert len(said) == 40
    _, *shown = weights_module.weight_lines(trained.output, None, weights_module.Chosen())
    assert len(shown) == 4
    assert all("updates" in line for line in shown)
    assert any(line.endswith("!Trusts(A, B) ^2") for line in shown)
    for other in (trained.output, trained.output / "weights.psl"):
        _, *changes = weights_module.weight_lines(trained.output, other, weights_module.Chosen())
        assert len(changes) == 4
        assert all(line.strip().startswith("+0.000000") for line in changes)
    file = weights_module.as_json(
        trained.output / "weights.psl", None, weights_module.Chosen(rule="Fair")
    )
    [[_, fair]] = [[w["rule"], w["weight"]] for w in file["weights"]]
    assert f"{fair:+.6f}" in next(line for line in shown if "Fair" in line)


def test_keys_of_markov_logic_are_refused_at_their_place(trust: Callable[..., Job]) -> None:
    run = trust(
        LINES[:1],
        inference={"solver": "highs", "presolve": "exact", "unsolved": "skip", "max_nodes": 3},
        learner={"max_weights": 10},
    )
    with pytest.raises(ConfigError) as caught:
        config_of(run, "inference.audit_every=1")
    found = {each.message.partition(":")[0]: each for each in caught.value.problems}
    assert found.keys() == {
        "inference.solver",
        "inference.presolve",
        "inference.max_nodes",
        "inference.audit_every",
        "learner.max_weights",
    }
    lines = run.config.read_text().splitlines()
    for name, each in found.items():
        assert each.message == f"{name}: not for PSL; leave it out"
        if each.line:
            key = name.partition(".")[2]
            assert lines[each.line - 1][each.column - 1 :].startswith(key)


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("query=Trust", "query: Trust is not declared in the model, which has Fair, Knows, Trusts"),
        (
            "metrics.by=Trusts.3",
            "metrics.by: Trusts.3 is no argument of a query predicate: Trusts.1, ",
        ),
    ],
)
def test_what_does_not_fit_the_model_is_said_at_its_key(
    trust: Callable[..., Job], override: str, said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        run_module.new_learner(config_of(trust(LINES[:1]), override))


def test_evidence_of_what_no_rule_uses_is_allowed_where_it_is_declared(
    job: Callable[..., Job], tmp_path: Path
) -> None:
    full = "1: Knows(A, B) -> Trusts(A, B) ^2\n0.5: Warns(A, B) -> !Trusts(A, B) ^2\n"
    less = full.splitlines()[0]
    pair = {"Trusts": [["a", "b"]]}
    example = {"evidence": {name: [["a", "b"]] for name in ("Knows", "Warns")}, "query": pair}
    lines = [msgspec.json.encode({"id": 0, **example, "truth": pair}) + b"\n"]
    codes = []
    for name, text in (("bad", less), ("good", f"Warns/2\n{less}")):
        (tmp_path / f"{name}.psl").write_text(text)
        run = job(lines, name, model=str(tmp_path / f"{name}.psl"), query="Trusts", metrics={})
        codes.append(run.run())
    assert codes == [65, 0]
    assert "Warns/2\n" in (run.output / "weights.psl").read_text()

    world = srl.World(srl.Model(full, "psl"), "Trusts")
    world.apply(add=example["evidence"], query=pair)
    with pytest.raises(srl.DataError, match="Warns"):
        world.set_model(less)
    with pytest.raises(srl.DataError, match="a line such as `Knows/2` declares"):
        srl.infer(srl.Model(less, "psl"), example["evidence"], pair)
    declared = f"Warns/2\n{less}"
    alone = srl.infer(srl.Model(declared, "psl"), example["evidence"], pair)["Trusts"]["a", "b"]
    world.set_model(declared)
    assert world.answer()["Trusts"]["a", "b"] == pytest.approx(alone, abs=1e-3)
    world.set_model(full)
    assert world.answer()["Trusts"]["a", "b"] < 0.7


def test_where_inference_ends_without_proof_a_run_may_stop(
    trust: Callable[..., Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onlinesrl.psl.inference.admm.Admm", _short)
    stopped = trust(LINES[:20], "stopped", inference={"unsolved": "stop"})
    assert stopped.run() == 65
    assert "inference ended after its last round without a proven answer" in stopped.said
    skipped = trust(LINES[:20], "skipped", inference={"unsolved": "skip"})
    assert skipped.run() == 0, skipped.said
    assert skipped.lines("metrics.jsonl")[-1]["errors"].keys() == {"unsolved"}


def _short(**_: Any) -> Admm:
    return Admm(rounds=10)
