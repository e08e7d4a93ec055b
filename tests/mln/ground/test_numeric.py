"""Numeric predicates: their atoms' numbers multiply ground clauses, as the definition says."""

import msgspec
import pytest

from onlinesrl.core.background import Background
from onlinesrl.core.errors import ModelError, OnlinesrlError
from onlinesrl.core.example import Example, GroundAtom, Number, ValuedAtom, decode
from onlinesrl.mln.ground.join_planner import compile_program
from onlinesrl.mln.lang.reader import parse
from onlinesrl.mln.online.learner import MlnOnlineLearner
from tests.support.small_learners import learn, online, state, update_of

DECLARED = """\
Score(thing): real
Near(thing, thing): real
Bias(): real
Word(word, thing)
Good(thing)
"""
MODEL = (
    DECLARED
    + """\
0.5 Score(x) => Good(x)
-1 Word(+w, x) => Good(x)
0.25 Near(x, y) ^ Score(x) ^ Good(x) => Good(y)
"""
)
EVIDENCE = {
    "Score": [ValuedAtom(["A"], 0.5), ValuedAtom(["B"], -2.0), ValuedAtom(["C"], 0.0)],
    "Word": [["a", "A"]],
    "Near": [ValuedAtom(["A", "B"], 3.0)],
}


def learner(text: str = MODEL, background: Background | None = None) -> MlnOnlineLearner:
    plan = compile_program(parse(text), ["Good"])
    return online(plan, update_of("cda2", sigma=0.1), background=background)


def factors(own: MlnOnlineLearner) -> list[float]:
    """What the ground clauses of the last example count."""
    net = own.grounder.net
    return net.row_factor[: net.size[2]].tolist()


def test_an_atom_without_a_number_counts_like_one_with_0() -> None:
    own = learner()
    learn(own, [Example(id=1, evidence=EVIDENCE, truth={"Good": [["B"]]})])
    assert factors(own) == [0.5, -2.0, 1.0, 1.5]
    assert own.weights.entries


def test_a_constant_that_has_the_number_0_is_one_of_the_world() -> None:
    (found,) = learn(learner("Score(thing): real\nGood(thing)\n1 Good(x)\n"), [
        Example(id=1, evidence={"Score": [ValuedAtom(["A"], 0.0)]})
    ])  # fmt: skip
    assert found.predicted == {"Good": [["A"]]}


def test_a_numeric_predicate_without_arguments() -> None:
    own = learner(DECLARED + "1 Bias() ^ Good(x)\n")
    evidence = {"Bias": [ValuedAtom([], -0.5)], "Word": [["a", "A"]]}
    (found,) = learn(own, [Example(id=1, evidence=evidence)])
    assert found.predicted == {"Good": []}


def test_a_world_of_numbers_alone_has_no_constants() -> None:
    """A rule computes with whole numbers, and no atom names one."""
    own = learner("Bias(): real\nWord(thing)\nGood(thing)\n1 Bias() ^ Word(x + 1) => Good(x)\n")
    (found,) = learn(own, [Example(id=1, evidence={"Bias": [ValuedAtom([], 0.5)]})])
    assert found.predicted == {"Good": []}


# bad numbers -----------------------------------------------------------------------------------

BAD = {
    '{"Score": [["A"]]}': 'atom Score(A) has no value, and Score is numeric; write {"args": ["A"], ',
    '{"Score": [{"args": ["A"]}]}': "evidence atom Score(A) has no value, and Score is numeric",
    '{"Score": [{"args": ["A"], "value": 2e30}]}': "value 2e+30; expected a number from -1e+30 to 1e",
    '{"Score": [{"args": ["A"], "value": 1e999}]}': "not an example",
    '{"Score": [{"args": ["A"], "value": NaN}]}': "not an example",
    '{"Score": [{"args": ["A"], "value": null}]}': "Expected `float`, got `null` - at `$.evidence",
    '{"Score": [{"args": ["A", "B"], "value": 1}]}': "Score takes 1 argument, found 2",
    '{"Score": [{"args": ["A"], "value": 1}, {"args": ["A"], "value": 2}]}': "the values 1.0 and 2.0",
    '{"Word": [{"args": ["a", "A"], "value": 0.5}]}': "declares numeric, `Word(...): real`",
    '{"Good": [{"args": ["A"], "value": 0.5}]}': "has value 0.5; a Markov logic example takes 1",
}


@pytest.mark.parametrize("evidence", BAD)
def test_a_bad_number_is_a_bad_example_and_changes_nothing(evidence: str) -> None:
    own = learner()
    learn(own, [Example(id=1, evidence=EVIDENCE, truth={"Good": [["B"]]})])
    before = state(own)
    try:
        bad = decode(f'{{"id": 2, "evidence": {evidence}, "truth": {{}}}}'.encode())
    except OnlinesrlError as error:
        assert BAD[evidence] in str(error)
    else:
        (outcome,), _ = own.step([bad])
        assert BAD[evidence] in outcome.error
    assert state(own) == before


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_a_number_that_is_none(number: float) -> None:
    bad = Example(id=1, evidence={"Score": [ValuedAtom(["A"], number)]})
    (outcome,), _ = learner().step([bad])
    assert f"evidence atom Score(A) has value {number}; expected a number" in outcome.error


def test_an_example_that_contradicts_a_fact() -> None:
    own = learner(background=Background([GroundAtom("Score", ("A",), Number(1.0), 1)]))
    evidence = {"Score": [ValuedAtom(["A"], 0.0)]}
    (outcome,), _ = own.step([Example(id=1, evidence=evidence)])
    said = "contradiction: the evidence says 0 of Score(A), and source.background 1"
    assert outcome.error == said


def test_numeric_atoms_are_neither_truth_nor_query() -> None:
    for part in ("truth", "query"):
        bad = msgspec.structs.replace(Example(id=1, evidence={}), **{part: {"Score": [["A"]]}})
        (outcome,), _ = learner().step([bad])
        assert "Score" in outcome.error
    with pytest.raises(OnlinesrlError, match="Score is numeric: it is evidence, and cannot be que"):
        compile_program(parse(MODEL), ["Good", "Score"])


# the language ----------------------------------------------------------------------------------

REFUSED = {
    "Score(x) => Good(x).": "it multiplies a rule's weight, and this rule has none",
    "Good(x) :- Score(x)": "it multiplies a rule's weight, and this rule has none",
    "Score(x) v Good(x)": "neither true nor false: it multiplies a whole rule, once",
    "!Score(x) => Good(x)": "neither true nor false",
    "Good(x) => Score(x)": "neither true nor false",
    "Score(x) <=> Good(x)": "neither true nor false",
    "Score(x) ^ Score(x) => Good(x)": "neither true nor false: it multiplies a whole rule, once",
    "Score(x) ^ (Good(x) v Word(w, x))": "neither true nor false",
    "EXIST x (Score(x) ^ Good(x))": "neither true nor false",
    " ^ ".join(f"Score({x})" for x in "uvwxyz") + " => Good(x)": "the rule has 6 numeric atoms",
    "More(thing!): real": "no argument has a mark",
    "More(thing): int": "expected `real`",
    "Score(thing): real": "already declared",
}


@pytest.mark.parametrize("rule", REFUSED)
def test_what_has_no_meaning_is_refused_with_its_place(rule: str) -> None:
    with pytest.raises(ModelError) as raised:
        parse(f"{DECLARED}{rule}\n")
    assert REFUSED[rule] in str(raised.value)
    assert str(raised.value).startswith("<model>:6:")


@pytest.mark.parametrize(
    "rule",
    [
        "Score(x) => Good(x)",
        "Score(x) ^ Good(x)",
        "!Score(x) v Good(x)",
        "Score(x) ^ Near(x, y) => (Good(x) <=> Good(y))",
        "Good(x) => (Score(x) => Good(y))",
        "Score(x) => (EXIST y Good(y))",
        "Bias() => Good(x)",
    ],
)
def test_what_has_one(rule: str) -> None:
    assert len(parse(f"{DECLARED}{rule}\n").rules) == 1
