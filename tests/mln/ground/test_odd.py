"""Odd models and examples, one by one, and what once went wrong."""

import numpy as np
import pytest

from onlinesrl.core.errors import ExampleError
from onlinesrl.core.example import Example, ValuedAtom
from onlinesrl.core.learner import Outcome
from onlinesrl.core.online.update_rules import Cda2
from onlinesrl.mln.ground.grounder import Limits
from onlinesrl.mln.ground.join_planner import compile_program
from onlinesrl.mln.inference.brute_force import Brute
from onlinesrl.mln.inference.settings import Inference
from onlinesrl.mln.kernels import elimination_order
from onlinesrl.mln.lang.reader import parse
from onlinesrl.mln.online.learner import MlnOnlineLearner
from tests.support.small_learners import exact, online


def learner(text: str, *query: str, by=None, **inference) -> MlnOnlineLearner:
    plan = compile_program(parse(text), query)
    return online(plan, inference=exact(**inference), by=by)


def example(evidence, truth=None, query=None) -> Example:
    return Example(id=1, evidence=evidence, truth=truth, query=query)


def asked(own: MlnOnlineLearner, *examples: Example, learning: bool = True) -> list[Outcome]:
    return own.step(list(examples), learning)[0]


def predicted(text: str, query: str, *given: Example, **settings) -> list:
    """What each example is predicted, or why it is bad."""
    outcomes = asked(learner(text, query, **settings), *given)
    return [o.prediction.predicted[query] if o.prediction else o.error for o in outcomes]


def test_predicates_without_arguments():
    model = "Rain\nWet\n1 Rain => Wet\n-0.5 Wet\n"
    rain = [example({"Rain": rows}) for rows in ([[]], [[], []], [])]

    assert predicted(model, "Wet", *rain, example({})) == [[[]], [[]], [], []]
    assert predicted(model, "Wet", example({"Wet": [[]]})) == [[]]


def test_a_query_predicate_without_rules_or_constants():
    given = [example({}), example({}, {}), example({"Q": [["a"]]}), example({}, {"Q": [["b"]]})]
    given[3] = example({}, {"Q": [["b"]]}, {"Q": [["b"], ["c"]]})
    own = learner("Q(thing)\n", "Q", by=("Q", 0))

    outcomes, tally = own.step(given)

    assert [o.prediction.predicted for o in outcomes] == [{"Q": []}] * 4
    assert [o.prediction.hamming for o in outcomes] == [None, 0, None, 1]
    counts = {k: v.tolist() for k, v in tally.by_class.items()}
    assert counts == {"a": [0, 0, 0], "b": [0, 0, 1], "c": [0, 0, 0]}


def test_empty_domains_ground_to_nothing():
    model = "E(a)\nQ(a, b!)\n1 E(x) => Q(x, y)\nQ(x, y) => !Q(y2, y) v x = y2.\n"
    given = [example({"E": [[1], [2]]}), example({}), example({"E": [[1]]}, {})]

    assert predicted(model, "Q", *given) == [[], [], []]


def test_many_arguments():
    """Twelve of a query atom; seventy of an evidence atom, each in the template."""
    names = [f"x{k}" for k in range(70)]
    wide = f"Q({', '.join(['t'] * 12)})\nE(t)\n1 Q({', '.join(names[:12])})\n"
    (found,) = predicted(wide, "Q", example({"E": [["a"], ["b"]]}))
    assert len(found) == 2**12
    assert found[:2] == [["a"] * 12, [*["a"] * 11, "b"]]

    plus = ", ".join(f"+{name}" for name in names)
    own = learner(f"Q(t)\nE({', '.join(['t'] * 70)})\n1 E({plus}) => Q(x0)\n", "Q")
    given = example({"E": [["a"] * 70, list(range(70))]}, {"Q": [["a"]]})
    assert asked(own, given)[0].prediction.predicted == {"Q": [["a"], [0]]}
    assert {e.key for e in own.weights.entries()} == {("a",) * 70, tuple(map(str, range(70)))}


def test_atoms_beyond_every_number_are_refused():
    arguments = [f"x{k}" for k in range(70)]
    model = f"E(t)\nQ({', '.join(['t'] * 70)})\n1 Q({', '.join(arguments)})\n"

    (error,) = predicted(model, "Q", example({"E": [[1], [2]]}))
    assert error == "more query atoms than limits.max_atoms (1000000)"


@pytest.mark.parametrize("rule", ["Q(x)", "Q(x) v Q(y)", "E(x) ^ E(y) => Q(x)", "Q(1) ^ Q(x)"])
def test_groundings_beyond_the_limit_are_refused(rule):
    model, given = f"E(t)\nQ(t)\n1 {rule}\n", example({"E": [[k] for k in range(50)]})

    (error,) = predicted(model, "Q", given, limits=Limits(groundings=49))
    assert error.startswith("more ground clauses than inference.max_groundings (49), reached in")
    assert len(predicted(model, "Q", given, limits=Limits(groundings=2500))[0]) == 50


def test_any_text_is_a_constant_and_a_number_is_its_text():
    big = 10**30
    words = ["", "é\0 x", "a" * 10000, -5, "-5", "007", 7, big, str(big)]
    own = learner("E(t)\nQ(t)\n1 E(+x) => Q(x)\n", "Q")
    given = example({"E": [[word] for word in words]}, {"Q": [[str(big)]]})

    (outcome,) = asked(own, given)

    found = [args for (args,) in outcome.prediction.predicted["Q"]]
    assert list(map(str, found)) == ["", "é\0 x", "a" * 10000, "-5", "007", "7", str(big)]
    assert outcome.prediction.hamming == 6
    assert len(list(own.weights.entries())) == 7


def test_large_groups_that_meet_are_left_to_the_ilp_and_take_no_tables():
    model = "N(a, a)\nF(b)\nQ(a, b!)\n1 N(x, y) => (Q(x, b) <=> Q(y, b))\n"
    own = learner(model, "Q")
    values = int(elimination_order.MAX_TABLE**0.5) + 10
    evidence = {"N": [[1, 2], [2, 3]], "F": [[k] for k in range(values)]}

    (outcome,), tally = own.step([example(evidence, {"Q": [[1, 1], [2, 1], [3, 1]]})])

    assert outcome.prediction.certified
    assert tally.routes == {"elimination": 0, "ilp": 1}
    assert len({value for _, value in outcome.prediction.predicted["Q"]}) == 1
    assert own.worlds.room["tables"] < 1 << 17


MARKED = "b = {2, 3}\nQ(a, b!)\nE(a)\n1 E(x) => Q(x, y)\n"


@pytest.mark.parametrize(
    ("evidence", "truth", "reason"),
    [
        ([[1, 2], [1, 3]], None, "no state satisfies the hard rules"),
        ([[1, 2]], [[1, 3]], "the truth breaks exactly one Q along argument 2"),
        ([ValuedAtom([1, 2], 0.0)], [[1, 2]], "truth atom Q(1, 2) is not an open atom"),
        ([ValuedAtom([1, 2], 0.0), [1, 2]], None, "contradiction in evidence: Q(1, 2)"),
        ([], [ValuedAtom([1, 2], 0.0), [1, 2]], "contradiction in truth: Q(1, 2)"),
        ([ValuedAtom([1, 2], 0.5)], None, "evidence atom Q(1, 2) has value 0.5"),
    ],
)
def test_contradictions_are_named(evidence, truth, reason):
    given = example({"Q": evidence}, None if truth is None else {"Q": truth})

    (error,) = predicted(MARKED, "Q", given)
    assert error.startswith(reason)


def test_learning_with_observed_query_atoms_changes_the_open_ones_only():
    """The observed atom counts in no metric, but in the features of the open ones beside it."""
    model = "N(a, a)\nQ(a)\nN(x, y) ^ Q(x) => Q(y)\n"
    own = learner(model, "Q")
    evidence = {"N": [[1, 2], [2, 3]], "Q": [[1]]}

    (first,), tally = own.step([example(evidence, {"Q": [[2], [3]]})])
    (second,) = asked(own, example(evidence, {"Q": [[2], [3]]}))

    assert first.prediction.predicted == {"Q": []}
    assert first.prediction.hamming == 2
    assert tally.counts[:3].tolist() == [0, 0, 2]
    assert second.prediction.predicted == {"Q": [[2], [3]]}


def test_a_template_over_an_undeclared_query_type_learns_its_constants():
    rules = "F(f)\nE(w, a)\nQ(a, f)\n!Q(x, f) v !Q(x, g) v f = g.\nE(+w, x) => Q(x, +f)\n"
    own = learner(rules, "Q")
    first = example({"E": [["w", 1]], "F": [["new"]]}, {"Q": [[1, "new"]]})

    asked(own, first)
    again = asked(own, example({"E": [["w", 1]], "Q": [[2, "new"]]}), learning=False)

    assert again[0].prediction.predicted == {"Q": [[1, "new"]]}
    assert {e.key for e in own.weights.entries()} == {("w", "new")}


# What once went wrong --------------------------------------------------------------------------


def test_an_unseen_constant_does_not_take_the_weight_of_a_declared_one():
    """`word` has a declared constant because another rule names it."""
    model = "T(word, pos)\nQ(pos)\n1 T(The, i) => !Q(i)\nT(+w, i) => Q(i)\n"
    own = learner(model, "Q")
    own.weights.set(1, ("The",), 5.0)
    own.weights.set(1, ("known",), 3.0)

    given = [example({"T": [[word, 1]]}) for word in ("The", "known", "unseen")]
    scores = [o.prediction.score for o in asked(own, *given, learning=False)]

    assert scores == [5.0, 3.0, 0.0]


def test_new_weights_beside_declared_constants_start_from_the_rule():
    own = learner("f = { A }\nE(i)\nQ(i, f)\n0.5 E(i) => Q(i, +f)\n", "Q")
    own.weights.set(0, ("A",), 2.0)

    (unseen,) = asked(own, example({"E": [[1]], "Q": [[2, "B"]]}), learning=False)

    assert unseen.prediction.score == 2.0 + 0.5  # of Q(1, A) and Q(1, B)


def test_weights_set_after_the_first_batch_are_found():
    """Constants packed before are looked up again: here one that another type declares."""
    own = learner("f = { Title }\nT(word, i)\nQ(i, f)\nT(+w, i) => Q(i, +f)\n", "Q")
    own.compile()
    asked(own, example({"T": [["late", 0]]}), learning=False)
    own.weights.set(0, ("Title", "Title"), 2.0)
    own.weights.set(0, ("late", "Title"), 3.0)

    given = example({"T": [["Title", 0], ["late", 1], ["new", 2]]}, {"Q": []})
    (outcome,) = asked(own, given)

    assert outcome.prediction.score == 5.0
    assert own.weights.stream["word"].names == ["Title", "late", "new"]
    assert len(list(own.weights.entries())) == 3


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_false_atoms_bring_their_constants(value):
    """Anna is a person, whether or not she smokes; what only the truth says of her is refused."""
    model = "Smokes(person)\nQ(person)\n1 Q(x)\n"
    evidence = {"Smokes": [ValuedAtom(["Anna"], value)]}

    assert predicted(model, "Q", example(evidence)) == [[["Anna"]]]
    (error,) = predicted(model, "Q", example({}, {"Q": [ValuedAtom(["Anna"], value)]}))
    assert error.startswith("truth atom Q(Anna) is not an open atom of the example: only the truth")


def test_listed_worlds_join_with_observed_atoms():
    """Q(a) is true by evidence and not listed; the rule has Q(b) follow."""
    model = "N(t, t)\nQ(t)\n1 N(x, y) ^ Q(x) => Q(y)\n"
    evidence = {"N": [["a", "b"], ["c", "b"]], "Q": [["a"]]}

    assert predicted(model, "Q", example(evidence, query={"Q": [["b"]]})) == [[["b"]]]
    assert predicted(model, "Q", example(evidence, query={})) == [[]]


def test_an_atom_that_is_not_listed_leaves_its_clause_to_the_existential():
    """A is not listed, so false: the first rule of A hangs on B alone."""
    rule = "2 Sick(x) v (EXIST y (Near(x, y) ^ Sick(y)))"
    model = f"Near(t, t)\nSick(t)\n{rule}\n-3 Sick(x)\n"
    near = {"Near": [["A", "B"]]}
    given_false = near | {"Sick": [ValuedAtom(["A"], 0.0)]}

    assert predicted(model, "Sick", example(near, query={"Sick": [["B"]]})) == [[["B"]]]
    assert predicted(model, "Sick", example(given_false)) == [[["B"]]]


def test_a_hard_rule_is_broken_by_an_atom_that_is_not_listed():
    model = "E(t)\nQ(t)\nE(x) => Q(x).\n"
    evidence = {"E": [["a"], ["b"]]}

    both, one = ({"Q": [["a"], ["b"]]}, {"Q": [["a"]]})
    assert predicted(model, "Q", example(evidence, query=both)) == [[["a"], ["b"]]]
    (error,) = predicted(model, "Q", example(evidence, query=one))
    assert error == "the evidence breaks the hard rule E(x) => Q(x)"


def test_several_marked_arguments_are_chosen_together():
    """Exactly one pair (y, z) for each x."""
    model = "E(a, b, c)\nQ(a, b!, c!)\n1 E(x, y, z) => Q(x, y, z)\n"
    evidence = {"E": [[1, 1, 1], [1, 2, 2], [2, 2, 1]]}

    (found,) = predicted(model, "Q", example(evidence))

    assert sorted(found) == [[1, 1, 1], [2, 2, 1]]


def test_a_prediction_too_large_for_its_room_is_counted_once():
    atoms = [[i, j] for i in range(80) for j in range(80)]
    model = "E(a, b)\nQ(a, b)\n1 E(x, y) => Q(x, y)\n"
    for presolve in (True, False):
        own = learner(model, "Q", by=("Q", 0), presolve=presolve)
        (outcome,), tally = own.step([example({"E": atoms}, {"Q": atoms})])

        assert len(outcome.prediction.predicted["Q"]) == len(atoms)
        assert {tuple(v) for v in tally.by_class.values()} == {(80, 0, 0)}


def test_packing_without_a_batch_of_examples():
    own = MlnOnlineLearner(
        compile_program(parse("E(t)\nQ(t)\n1 E(x) => Q(x)\n"), ["Q"]),
        Cda2(),
        Inference(Brute(), Brute()),
    )
    outcomes, tally = own.step([])
    assert (outcomes, tally.predicted) == ([], 0)

    outcomes, tally = own.step([ExampleError("no example")])
    assert (outcomes, tally.predicted) == ([Outcome(None, "no example")], 0)
    assert np.all(tally.counts == 0)


def test_a_refused_example_takes_no_room():
    """Its evidence is packed before its truth is seen to be wrong."""
    own = learner("E(t)\nQ(t)\n1 E(x) => Q(x)\n", "Q")
    own.packer.clear()

    with pytest.raises(ExampleError, match="Q takes 1 argument, found 2"):
        own.packer.add(example({"E": [["a"], ["b"]]}, {"Q": [["a", "b"]]}), 0)

    assert (len(own.packer), own.packer.rows, own.packer.spans) == (0, [], [])
