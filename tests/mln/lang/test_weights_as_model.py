"""A file of weights is a model: it predicts what its learner did, also where it has constants of others."""

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import onlinesrl as srl
from onlinesrl.mln.lang.reader import parse

MODELS = {
    "one template": "S(p)\nC(p)\nF(p, p)\n0 S(+x) => C(x)\n0.5 C(x)\n0.2 F(x, y) ^ C(x) => C(y)",
    "false evidence": "S(p)\nC(p)\nF(p, p)\n0 !S(+x) => C(y)\n0.5 !C(x)\n0 F(x, +y) => C(x)",
    "a weight at the start": "S(p)\nC(p)\nF(p, p)\n0.7 S(+x) => C(x)\n-0.4 F(+x, +y) ^ C(x)\n0.1 C(x)",
    "several clauses": "S(p)\nC(p)\nF(p, p)\n0.6 C(+x) <=> S(x)\n0 F(+y, x) => C(x) ^ S(+y)",
    "names of its own": 'S(p)\nC(p)\nF(p, p)\n1 C("3")\n0 S(+x) ^ C(x)\n0 F(+x, y) ^ C(y)\nS(A) => C(A).',
    "declared": "p = {A, B, 3}\nS(p)\nC(p)\nF(p, p)\n0 S(+x) ^ C(x)\n0.3 F(+x, y) ^ C(+y)",
    "open": "p = {...}\nS(p)\nC(p)\nF(p, p)\n0 S(+x) ^ C(x)\n0 F(x, +y) ^ C(x)\n-0.1 C(x)",
}
NAMES = ["A", "B", "two words", "3", "", "+x", 'q"', "é"]


@st.composite
def worlds(draw: st.DrawFn, labelled: bool = True) -> tuple[dict[str, Any], dict[str, Any] | None]:
    known = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True))
    some = st.sampled_from(known)
    evidence: dict[str, Any] = {
        "S": draw(st.lists(some, max_size=3, unique=True)),
        "F": draw(st.lists(st.tuples(some, some), max_size=3, unique=True)),
    }
    inside = {*evidence["S"], *(name for row in evidence["F"] for name in row)}
    truth = [name for name in sorted(inside) if draw(st.booleans())]
    hard = "A" in evidence["S"] and "A" not in truth
    return evidence, {"C": [*truth, "A"] if hard else truth} if labelled else None


def marginals(learner: srl.OnlineLearner, x: dict[str, Any]) -> dict[Any, float]:
    values = learner.predict_one(x, marginals=True).values
    assert values is not None
    return {tuple(map(str, atom)): value for atom, value in values["C"].items()}


@pytest.mark.parametrize("name", MODELS)
@given(stream=st.lists(worlds(), min_size=1, max_size=4), asked=worlds(labelled=False))
@settings(max_examples=4, deadline=None, phases=[Phase.generate])
def test_learned_weights_predict_what_their_learner_did(
    name: str, stream: list[Any], asked: Any
) -> None:
    learner = srl.OnlineLearner(MODELS[name], "C", update={"update": "cda2", "sigma": 0.5})
    learner.learn_many(*zip(*stream, strict=True))
    expected = marginals(learner, asked[0])
    text = learner.weights_text()
    again = srl.OnlineLearner(srl.Model(text), "C")
    assert marginals(again, asked[0]) == pytest.approx(expected, abs=2e-6)
    assert again.weights_text().count("\n") <= text.count("\n")
    assert marginals(srl.OnlineLearner(again.weights_text(), "C"), asked[0]) == pytest.approx(
        expected, abs=2e-6
    )
    started = srl.OnlineLearner(MODELS[name], "C")
    assert started.learned.start(parse(text)) == []
    assert marginals(started, asked[0]) == pytest.approx(expected, abs=2e-6)


def test_a_model_learned_from_a_batch_asks_for_nothing_more() -> None:
    model = "Smokes(person)\nCancer(person)\n0 Smokes(+x) => Cancer(x)\n0.5 Cancer(x)"
    worlds = [{"Smokes": ["Anna", "Eve"], "Cancer": ["Anna"]}, {"Smokes": ["Bob"], "Cancer": []}]
    learned = srl.learn(model, worlds, "Cancer", learner={"kind": "mple", "prior_sd": 1}).model
    assert [rule.text for rule in learned.rules] == [
        "Smokes(Anna) => Cancer(Anna)",
        "Smokes(Eve) => Cancer(Eve)",
        "Smokes(Bob) => Cancer(Bob)",
        "Cancer(x)",
    ]
    weights = {rule.text: rule.weight or 0.0 for rule in learned.rules}
    for name in ("Anna", "Eve", "Carl"):
        found = srl.infer(learned, {"Smokes": [name]}, "Cancer", method="exact")["Cancer"]
        energy = weights["Cancer(x)"] + weights.get(f"Smokes({name}) => Cancer({name})", 0.0)
        assert found == {(name,): pytest.approx(1 / (1 + math.exp(-energy)), abs=1e-6)}
    again = srl.learn(learned, {"Smokes": ["Dan"], "Cancer": ["Dan"]}, "Cancer", learner="mple")
    assert "Smokes(Anna) => Cancer(Anna)" in {rule.text for rule in again.model.rules}
    assert [*srl.infer(again.model, {"Smokes": ["Dan"]}, "Cancer")["Cancer"]] == [("Dan",)]
    assert [count.groundings for count in srl.count(learned, worlds[1])] == [1, 1]


def test_a_run_writes_weights_that_predict_what_it_did(tmp_path: Path) -> None:
    (tmp_path / "m.mln").write_text(MODELS["a weight at the start"])
    line = '{"id": %d, "evidence": {"S": [["%s"]]}, "truth": {"C": [["%s"]]}}\n'
    lines = [line % (n, name, name) for n, name in enumerate(["Anna", "Bob", "Eve"])]
    (tmp_path / "s.jsonl").write_text("".join(lines))
    config = {
        "model": str(tmp_path / "m.mln"),
        "query": "C",
        "source": {"path": str(tmp_path / "s.jsonl")},
        "output": str(tmp_path / "run"),
    }
    srl.run(config)
    learned = srl.Model.read(tmp_path / "run" / "weights.mln")
    assert set(learned.program.types.values()) == {()}
    of_run = srl.OnlineLearner.load(tmp_path / "run")
    for name in ("Anna", "Carl"):
        x = {"S": [name], "F": [(name, name)]}
        expected = pytest.approx(marginals(of_run, x), abs=2e-6)
        assert marginals(srl.OnlineLearner(learned, "C"), x) == expected
