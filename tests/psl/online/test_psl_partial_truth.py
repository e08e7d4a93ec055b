"""PSL's truth that is partly known: unlabelled targets are completed, and their rules are learned."""

import msgspec
import numpy as np
import pytest
from scipy.optimize import minimize

import onlinesrl as srl
from onlinesrl.core.errors import ExampleError
from onlinesrl.core.example import Example, ValuedAtom
from onlinesrl.psl.lang import reader
from tests.support.small_learners import state
from tests.support.trust_program import examples, learn, new_learner, soft

MODEL = """\
1.0: Knows(A, B) & Kind(A) -> Likes(B, A) ^2
0.4: Fair(A) -> Kind(A) ^2
0.3: !Kind(A) ^2
0.2: !Likes(B, A) ^2
"""


def social(number):
    """People of whom nobody has said who is kind, and whom they like."""
    rng = np.random.default_rng(number)
    names = [f"p{number}{k}" for k in range(4)]
    pairs = [[a, b] for a in names for b in names if a != b]
    knows = [pair for pair in pairs if rng.random() < 0.7] or pairs[:1]
    likes = [ValuedAtom([b, a], float(rng.choice([0.2, 0.7, 1.0]))) for a, b in knows]
    people = [[name] for name in names]
    return Example(
        id=number,
        evidence={"Knows": knows, "Fair": [ValuedAtom([n], float(rng.random())) for n in names]},
        query={"Likes": [list(atom.args) for atom in likes], "Kind": people},
        truth={"Likes": likes},
        unlabelled={"Kind": people},
    )


def least(graph, weights, free, at):
    """The values of least energy, those that are not free being ``at``, and the energy; by scipy."""

    def filled(part):
        y = at.copy()
        y[free] = part
        return y

    start = np.full(int(free.sum()), 0.5)
    bounds = [(0, 1)] * len(start)
    part = minimize(lambda x: graph.energy(filled(x), weights), start, bounds=bounds, tol=1e-12).x
    return filled(part), graph.energy(filled(part), weights)


def test_the_loss_is_that_of_the_latent_structural_hinge():
    """Label loss of the prediction, and the energy of the best completion less that of the prediction."""
    for number in range(6):
        example = social(number)
        learner = srl.OnlineLearner(srl.Model(MODEL, "psl"), ["Likes", "Kind"], update="perceptron")
        learner.learn_one(example)
        checked = learner.learned.packer.world(example)
        graph = learner.learned.ground_model(checked)
        weights, latent = np.array([1.0, 0.4, 0.3, 0.2]), checked.latent
        _, completed = least(graph, weights, latent, checked.truth)
        y, free = least(graph, weights, np.ones(len(latent), bool), checked.truth)
        loss = np.abs(y - checked.truth)[~latent].sum() + completed - free
        assert learner.certificate["loss"] == pytest.approx(loss, abs=5e-3)


def test_a_rule_on_unlabelled_atoms_keeps_its_weight():
    """With the unlabelled atoms taken as false, the rules that make them true go to 0."""
    seen = [social(number) for number in range(30)]
    closed = [msgspec.structs.replace(example, unlabelled=None) for example in seen]
    weights = []
    for stream in (seen, closed):
        learner = srl.OnlineLearner(srl.Model(MODEL, "psl"), ["Likes", "Kind"], update="adagrad")
        learner.learn_many(stream)
        weights.append([row.weight for row in learner.weights.rows])
        support = learner.metrics["predicates"]["Kind"]
        assert support["support"] == 0
    assert weights[0][1] > 0.1 > weights[1][1]


def test_no_unlabelled_atom_is_the_same_to_the_bit():
    plain, empty = new_learner(), new_learner()
    learn(plain, examples(12))
    learn(empty, [msgspec.structs.replace(e, unlabelled={}) for e in examples(12)])
    assert state(plain) == state(empty)


def test_atoms_in_no_rule_change_nothing():
    """An example with unlabelled targets that no rule has learns what the example without them does."""
    program = reader.parse(
        "0.4: Asked(A) & Fair(A) -> Kind(A) ^2\n0.3: Asked(A) -> !Kind(A) ^2\n"
        "0.3: Asked(A) & Asked(B) & Knows(A, B) & Kind(A) -> Kind(B) ^2\n"
    )
    cut, whole = soft(program, ["Kind"]), soft(program, ["Kind"])
    more = [["nobody"], ["noone"]]
    for number in range(12):
        rows = social(number)
        people = rows.query["Kind"]
        example = Example(
            id=number,
            evidence={**rows.evidence, "Asked": people},
            query={"Kind": people},
            truth={"Kind": people[:2]},
        )
        learn(cut, [example])
        query = {"Kind": [*people, *more]}
        learn(whole, [msgspec.structs.replace(example, query=query, unlabelled={"Kind": more})])
    assert whole.weights.updates == 12
    for name, array in cut.save()[1].items():
        np.testing.assert_allclose(whole.save()[1][name], array, atol=2e-3)


def test_a_predicate_stands_for_its_targets_that_the_truth_does_not_list():
    listing, naming = new_learner(), new_learner()
    for example in examples(12):
        targets, truth = example.query["Trusts"], example.truth["Trusts"][::2]
        named = [atom.args for atom in truth]
        others = {"Trusts": [row for row in targets if row not in named]}
        part = msgspec.structs.replace(example, truth={"Trusts": truth})
        learn(listing, [msgspec.structs.replace(part, unlabelled=others)])
        learn(naming, [msgspec.structs.replace(part, unlabelled=["Trusts"])])
    assert state(naming) == state(listing)
    closed = new_learner()
    learn(closed, examples(12))
    assert state(closed) != state(naming)


def test_only_labelled_atoms_are_scored():
    (example,) = examples(1)
    trusts = example.query["Trusts"]
    known = [[*row] for row in trusts[:3]]
    partly = msgspec.structs.replace(
        example,
        truth={"Trusts": [ValuedAtom(row, 1.0) for row in known[:2]]},
        unlabelled={"Trusts": trusts[3:]},
    )
    outcomes, tally = new_learner().step([partly])
    values = {tuple(atom.args): atom.value for atom in outcomes[0].prediction.predicted["Trusts"]}
    wrong = [abs(values[tuple(row)] - (n < 2)) for n, row in enumerate(known)]
    assert outcomes[0].prediction.l1 == pytest.approx(sum(wrong), abs=1e-5)
    assert tally.counts[3] == 3


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"unlabelled": {"Kind": [["x"]]}}, r"unlabelled atom Kind\(x\) is not listed in"),
        ({"unlabelled": {"Fair": [["x"]]}}, "unknown query predicate in unlabelled Fair"),
        ({"unlabelled": ["Kind", "Fair"]}, "unknown query predicate in unlabelled Fair"),
        ({"truth": {"Kind": [["p00"]]}}, r"Kind\(p00\) is in `truth` and in"),
    ],
)
def test_bad_labels_are_refused(changes, reason):
    example = msgspec.structs.replace(social(0), **changes)
    learner = srl.OnlineLearner(srl.Model(MODEL, "psl"), ["Likes", "Kind"])
    with pytest.raises(ExampleError, match=reason):
        learner.learn_one(example)


def test_labels_that_no_completion_satisfies_change_nothing():
    program = reader.parse("1.0: Fair(A) -> Kind(A)\nLikes(A, B) -> Kind(A) .\nKind(+A) <= 1 .\n")
    example = Example(
        id=0,
        evidence={"Fair": [["a"]]},
        query={"Likes": [["a", "b"], ["b", "a"]], "Kind": [["a"], ["b"]]},
        truth={"Likes": [["a", "b"], ["b", "a"]]},
        unlabelled={"Kind": [["a"], ["b"]]},
    )
    learner = soft(program, ["Likes", "Kind"])
    before = state(learner)
    (outcome,), tally = learner.step([example])
    assert "satisfy the hard rules together with the truth" in outcome.error, outcome
    assert state(learner) == before and tally.errors == {"hard_rule": 1}
