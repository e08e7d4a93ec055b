"""Explanations in Python and by the command: what they say, their errors, and that nothing changes."""

import json
from pathlib import Path

import pytest
from conftest import REPO, command

import onlinesrl as srl

MODEL = """
person = {Anna, Bob}
Friends(person, person)
Smokes(person)
Cancer(person)
1.5 Smokes(x) => Cancer(x)
1.1 Friends(x, y) ^ Cancer(x) => Cancer(y)
-1 Cancer(x)
"""
X = srl.Example(id="e", evidence={"Smokes": [["Anna"]], "Friends": [["Anna", "Bob"]]})
RULES = "2: Knows(A, B) & Trusts(A, C) -> Trusts(B, C) ^2\n1: !Trusts(A, B) ^2"


def test_the_best_other_state_and_the_least_change() -> None:
    learner = srl.OnlineLearner(MODEL, query="Cancer")
    before = learner.weights_text()
    found = srl.explain(learner, X, ("Cancer", ["Anna"]))
    assert (found.value, found.certified) == (0.0, True)
    assert found.difference == pytest.approx(0.6)
    assert found.other is not None and found.other.cost == pytest.approx(0.5)
    assert found.other.changes == (("Cancer(Bob)", True),)
    assert found.flip is not None and found.flip.change == (("Friends(Anna, Bob)", False),)
    assert found.flip.excluded == 0
    assert json.loads(json.dumps(found.as_dict()))["atom"] == "Cancer(Anna)"
    assert "<table>" in found._repr_html_()
    assert srl.explain(learner, X).atom == "Cancer(Anna)"
    assert learner.weights_text() == before
    kept = srl.explain(learner, X, "Cancer(Anna)", change=["Smokes(Bob)"]).flip
    assert kept is not None and kept.candidates == 1


def test_a_number_multiplies_its_rule() -> None:
    model = "thing = {A}\nScore(thing): real\nGood(thing)\n2 Score(x) ^ Good(x)\n-1 Good(x)\n"
    learner = srl.OnlineLearner(model, query="Good")
    found = srl.explain(learner, {"Score": {"A": 0.75}}, "Good(A)")
    (reason,) = found.favour
    assert (reason.weight, reason.number, reason.effect) == pytest.approx((2.0, 0.75, 1.5))
    assert "2.000 x 0.750" in str(found)
    with pytest.raises(srl.ExplanationError, match="has a number, which is not changed"):
        srl.explain(learner, {"Score": {"A": 0.75}}, "Good(A)", change=["Score(A)"])


def test_numbers_that_cancel_leave_the_weight_of_their_rule() -> None:
    model = srl.Model("N(a): real\nQ(a)\n1 N(y) ^ Q(x)\n0.5 Q(x)\n")
    facts = {"N": {"K": 0.1, "L": 0.2, "M": -0.3}}
    world = srl.World(model, "Q")
    world.apply(add=facts)
    for found in (
        world.explain("Q(K)"),
        srl.explain(srl.OnlineLearner(model, query="Q"), facts, "Q(K)"),
    ):
        weights = [(reason.weight, reason.count) for reason in found.reasons]
        assert weights == [(pytest.approx(0.5), 1), (pytest.approx(1.0), 3)]
        assert found.reasons[1].effect == pytest.approx(0.0, abs=1e-9)


def test_one_other_atom_is_no_atoms() -> None:
    learner = srl.OnlineLearner("E(a)\nQ(a)\nR(a)\n1 E(x) => Q(x)\nQ(x) <=> R(x).\n", ["Q", "R"])
    found = str(srl.explain(learner, {"E": ["K"]}, "Q(K)"))
    assert "it changes 1 other atom\n" in found


def test_the_pulls_on_a_value_cancel() -> None:
    learner = srl.OnlineLearner(srl.Model(RULES, "psl"), query="Trusts")
    x = {"Knows": [("ann", "bob")], "Trusts": {("ann", "eve"): 0.9}}
    found = srl.explain(learner, x, "Trusts(bob, eve)", query={"Trusts": [("bob", "eve")]})
    assert found.value == pytest.approx(0.6, abs=1e-4)
    up, down = found.reasons if found.reasons[0].effect > 0 else found.reasons[::-1]
    assert (up.distance, up.effect) == pytest.approx((0.3, 2 * 2 * 0.3), abs=1e-4)
    assert (down.distance, down.effect) == pytest.approx((0.6, -2 * 1 * 0.6), abs=1e-4)
    assert found.residual == pytest.approx(0.0, abs=1e-4)


@pytest.mark.parametrize(
    ("atom", "said"),
    [
        ("Cancer", "not an atom: Cancer"),
        ("Cancer(Anna, Bob)", "Cancer takes 1 argument"),
        ("Smokes(Anna)", "Smokes is not predicted, but Cancer"),
        ("Cancer(Eve)", "is not an open atom of the example"),
    ],
)
def test_what_cannot_be_explained_is_said(atom: str, said: str) -> None:
    learner = srl.OnlineLearner(MODEL, query="Cancer")
    with pytest.raises(srl.ExplanationError, match=said):
        srl.explain(learner, X, atom)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    citations = REPO / "streams" / "citations"
    config = {"model": str(citations / "segmentation.mln"), "query": "InField"}
    source = {"path": str(citations / "citations.jsonl")}
    srl.run({**config, "source": source, "output": str(folder)}, until=20)
    return folder


def test_the_command_explains_an_example_of_a_run(
    run: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    name, kept = "online-max-margin-03", (run / "weights.mln").read_bytes()
    assert command("explain", str(run), "--id", name, "--json", "--tries", "20") == 0
    found = json.loads(capfd.readouterr().out)
    assert [each["id"] for each in found] == [name] * 3
    atom = found[0]["atom"]
    assert command("explain", str(run), "--id", name, "--atom", atom) == 0
    said = capfd.readouterr().out
    assert said.startswith(atom.partition("(")[0]) and "what would flip it" in said
    assert (run / "weights.mln").read_bytes() == kept


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--id", "nobody"], 64, "no example with the id nobody; its 252 examples begin with"),
        (["--id", "online-max-margin-03", "--atom", "InField(x"], 64, "not an atom"),
        (["--id", "online-max-margin-03", "--change", "Nothing"], 64, "no evidence of Nothing"),
        ([], 64, "--id"),
    ],
)
def test_the_command_says_what_is_wrong(
    run: Path, capfd: pytest.CaptureFixture[str], arguments: list[str], code: int, said: str
) -> None:
    assert command("explain", str(run), *arguments) == code
    assert said in capfd.readouterr().err


@pytest.mark.parametrize(
    ("suffix", "model", "example", "atom"),
    [
        (
            "mln",
            MODEL,
            {"evidence": {"Smokes": [["Anna"]]}, "truth": {"Cancer": [["Bob"]]}},
            "Cancer(Anna) of example e: false",
        ),
        (
            "psl",
            RULES,
            {
                "evidence": {
                    "Knows": [["ann", "bob"]],
                    "Trusts": [{"args": ["ann", "eve"], "value": 0.9}],
                },
                "query": {"Trusts": [["bob", "eve"]]},
                "truth": {"Trusts": []},
            },
            "Trusts(bob, eve) of example e: 0.",
        ),
    ],
)
def test_the_report_explains_a_wrong_atom(
    tmp_path: Path, suffix: str, model: str, example: dict[str, object], atom: str
) -> None:
    (tmp_path / f"m.{suffix}").write_text(model)
    (tmp_path / "x.jsonl").write_text(json.dumps({"id": "e", **example}) + "\n")
    query = "Cancer" if suffix == "mln" else "Trusts"
    said = srl.run(
        {
            "model": str(tmp_path / f"m.{suffix}"),
            "query": [query],
            "source": {"path": str(tmp_path / "x.jsonl")},
            "output": str(tmp_path / "run"),
        }
    )
    assert said["examples"] == 1
    report = (tmp_path / "run" / "report.html").read_text()
    why = report.partition("<summary>Why ")[2].partition("</details>")[0]
    assert why.startswith(atom)
    assert "ground rule" in why
    assert ("the run itself predicted true" in why) == (suffix == "mln")
