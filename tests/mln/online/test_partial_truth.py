"""Truth that is partly known: unlabelled atoms are completed, and steps are those of all states."""

import itertools

import numpy as np
import pytest

import onlinesrl as srl
from tests.mln.online.test_online_cd import FACTS, SMOKERS, counts

WEIGHTS = np.array([0.7, 1.2, -0.5])
ATOMS = [(name, person) for name in ("Smokes", "Likes") for person in "abc"]
STATES = np.array([s for s in itertools.product((0, 1), repeat=6) if not (s[2] and s[5])])
SCORE = np.array([counts(s[:3], s[3:]) for s in STATES.tolist()]) @ WEIGHTS


def parts(truth, known):
    """The truth and the unlabelled atoms, as an example has them."""

    def some(chosen):
        return {
            name: [p for n, (q, p) in enumerate(ATOMS) if q == name and chosen[n]]
            for name in ("Smokes", "Likes")
        }

    return {"y": some(np.logical_and(truth, known)), "unlabelled": some(~known)}


def cases(seed):
    """Random states of the model with a random half of the labels."""
    rng = np.random.default_rng(seed)
    for _ in range(12):
        yield STATES[rng.integers(len(STATES))], rng.random(6) < 0.5


def learner_of(update, presolve, query=("Smokes", "Likes"), model=SMOKERS):
    return srl.OnlineLearner(
        model, [*query], update=update, inference={"engine": "mpe", "presolve": presolve}
    )


@pytest.mark.parametrize("engine", ["mpe", "mcsat"])
def test_a_step_is_along_the_gradient_of_the_marginal_likelihood(engine):
    update = {"update": "log-likelihood", "sigma": 2.0, "delta": 0.5}
    features = np.array([counts(s[:3], s[3:]) for s in STATES.tolist()])
    p = np.exp(SCORE)
    for truth, known in cases(0):
        learner = srl.OnlineLearner(
            SMOKERS, query=["Smokes", "Likes"], update=update, inference=engine
        )
        learner.learn_one(FACTS, **parts(truth, known))
        agrees = np.all(STATES[:, known] == truth[known], axis=1)
        delta = p[agrees] @ features[agrees] / p[agrees].sum() - p @ features / p.sum()
        moved = np.array([row.weight for row in learner.weights.rows])
        np.testing.assert_allclose(
            moved, WEIGHTS + delta / (2.0 * (0.5 + np.abs(delta))), atol=1e-9
        )
        loss = np.log(p.sum()) - np.log(p[agrees].sum())
        assert learner.certificate["loss"] == pytest.approx(loss, abs=1e-9)


def test_where_elimination_is_too_wide_samples_stand_for_both_expectations():
    """By zero weights, all states are equally likely, beside the labels as well."""
    people = [f"p{n:02}" for n in range(24)]
    pairs = [(a, b) for a in people for b in people if a < b]
    model = "Knows(person, person)\nTall(person)\n0 Knows(x, y) ^ Tall(x) => Tall(y)\n0 Tall(x)"
    update = {"update": "log-likelihood", "samples": 800, "delta": 10.0, "sigma": 1.0}
    learner = srl.OnlineLearner(model, query="Tall", update=update)
    tall, short, unlabelled = people[:9], people[9:12], people[12:]
    learner.learn_one({"Knows": pairs}, {"Tall": tall}, unlabelled={"Tall": unlabelled})
    assert learner.certificate["sampled"] == 1
    chance = {**dict.fromkeys(tall, 1.0), **dict.fromkeys(short, 0.0)}
    chance |= dict.fromkeys(unlabelled, 0.5)
    rule = sum(1 - chance[a] * (1 - chance[b]) for a, b in pairs) - 0.75 * len(pairs)
    deltas = np.array([rule, sum(chance.values()) - 12])
    moved = np.array([row.weight for row in learner.weights.rows])
    np.testing.assert_allclose(moved, deltas / (10 + np.abs(deltas)), atol=0.06)


@pytest.mark.parametrize("presolve", ["exact", "none"])
def test_the_loss_is_that_of_the_latent_structural_hinge(presolve):
    """max over states of score + label loss, less max over the states that agree with the labels."""
    for truth, known in cases(1):
        learner = learner_of({"update": "cda1", "loss": "ml"}, presolve)
        prediction = learner.learn_one(FACTS, **parts(truth, known))
        agrees = np.all(STATES[:, known] == truth[known], axis=1)
        wrong = (STATES[:, known] != truth[known]).sum(axis=1)
        loss = (SCORE + wrong).max() - SCORE[agrees].max()
        assert learner.certificate["loss"] == pytest.approx(loss, abs=1e-9)
        best = STATES[SCORE.argmax()]
        assert prediction.hamming == (best != truth)[known].sum()
        metrics = learner.metrics
        support = sum(metrics["predicates"][name]["support"] for name in ("Smokes", "Likes"))
        assert support == truth[known].sum()


@pytest.mark.parametrize("update", ["cda2", "perceptron", "adagrad", "log-likelihood"])
def test_atoms_in_no_rule_change_nothing(update):
    """An example with unlabelled atoms that no rule has learns what the example without them does."""
    model = "Asked(p)\nF(p, p)\nS(p)\n0 Asked(x) ^ S(x)\n0 F(x, y) ^ S(x) ^ S(y)\n"
    cut, whole = (
        learner_of(update, "exact", ["S"], model),
        learner_of(update, "exact", ["S"], model),
    )
    for n in range(6):
        people = [f"p{i}" for i in range(2 + n)]
        facts = {
            "Asked": [[p] for p in people],
            "F": [[a, b] for a, b in itertools.pairwise(people)],
        }
        truth, more = {"S": [[p] for p in people[::2]]}, [["q"], ["r"]]
        cut.learn_one(srl.Example(id=n, evidence=facts, truth=truth, query={"S": facts["Asked"]}))
        whole.learn_one(
            srl.Example(
                id=n,
                evidence=facts,
                truth=truth,
                query={"S": [*facts["Asked"], *more]},
                unlabelled={"S": more},
            )
        )
    assert [row.weight for row in cut.weights.rows] == [row.weight for row in whole.weights.rows]
    assert any(row.weight for row in cut.weights.rows)
    assert cut.metrics["accuracy"] == whole.metrics["accuracy"]
    assert cut.metrics["hamming"] == whole.metrics["hamming"]


def test_unlabelled_words_of_a_chain_take_one_label_each():
    """Groups of atoms: the completion keeps to one label for each word."""
    model = (
        "tag = {X, Y}\nNext(w, w)\nIs(w, word)\nTag(w, tag!)\n"
        "0 Is(w, +v) ^ Tag(w, +t)\n0 Next(w, u) ^ Tag(w, +t) ^ Tag(u, +s)\n"
    )
    evidence = {"Next": [["0", "1"], ["1", "2"]], "Is": [["0", "a"], ["1", "b"], ["2", "a"]]}
    learner = learner_of("adagrad", "exact", ["Tag"], model)
    for n in range(10):
        learner.learn_one(
            srl.Example(
                id=n,
                evidence=evidence,
                truth={"Tag": [["0", "X"], ["2", "X"]]},
                unlabelled={"Tag": [["1", "X"], ["1", "Y"]]},
            )
        )
    assert learner.metrics["updates"] == 10
    predicted = learner.predict_one(evidence).atoms["Tag"]
    assert ("0", "X") in predicted and ("2", "X") in predicted and len(predicted) == 3


@pytest.mark.parametrize(
    ("part", "reason"),
    [
        ({"unlabelled": {"Smokes": [["a"]]}}, r"Smokes\(a\) is in `truth` and in `unlabelled`"),
        ({"unlabelled": {"Smokes": [["z"]]}}, r"only the unlabelled names the person z"),
        ({"unlabelled": {"Friends": [["a", "b"]]}}, "unknown query predicate in unlabelled"),
        ({"truth": {"Smokes": [["c"]], "Likes": [["c"]]}}, "no values of the unlabelled atoms"),
    ],
)
@pytest.mark.parametrize("presolve", ["exact", "none"])
@pytest.mark.parametrize("update", ["cda1", "log-likelihood"])
def test_bad_labels_change_nothing(part, reason, presolve, update):
    example = {"truth": {"Smokes": [["a"]]}, "unlabelled": {"Likes": [["a"]]}, **part}
    facts = {"Friends": [[*pair] for pair in FACTS["Friends"]]}
    learner = learner_of(update, presolve)
    before = learner.weights_text()
    with pytest.raises(srl.ExampleError, match=reason):
        learner.learn_one(srl.Example(id=1, evidence=facts, **example))
    assert learner.weights_text() == before and learner.metrics["updates"] == 0


@pytest.mark.parametrize("presolve", ["exact", "none"])
@pytest.mark.parametrize("update", ["cda2", "adagrad", "log-likelihood"])
def test_a_predicate_stands_for_its_atoms_that_the_truth_does_not_list(update, presolve):
    """True and false ones that it lists have their label; the bits are those of listing the others."""
    listing, naming = learner_of(update, presolve), learner_of(update, presolve)
    for truth, known in cases(2):
        smokes = [p for n, p in enumerate("abc") if truth[n]]
        likes = {p: int(truth[3 + n]) for n, p in enumerate("abc") if known[3 + n]}
        y = {"Smokes": smokes, "Likes": likes}
        others = {"Likes": [p for p in "abc" if p not in likes]}
        found = [
            learner.learn_one(FACTS, y, unlabelled=unlabelled)
            for learner, unlabelled in ((listing, others), (naming, ["Likes"]))
        ]
        assert found[0].hamming == found[1].hamming
        for row in found[1]._repr_html_().split("<tr>"):
            if "<td>Likes(" in row:
                unknown = row.partition("Likes(")[2][0] in others["Likes"]
                assert unknown == ("<td></td></tr>" in row)
    assert naming.weights_text() == listing.weights_text()
    assert naming.metrics == listing.metrics
    with pytest.raises(srl.ExampleError, match="unknown query predicate in unlabelled Friends"):
        naming.learn_one(FACTS, {}, unlabelled=["Likes", "Friends"])
    for wrong in ("Likes", [1], 3):
        with pytest.raises(srl.ExampleError, match="unlabelled: expected a mapping from"):
            naming.learn_one(FACTS, {}, unlabelled=wrong)
    assert naming.weights_text() == listing.weights_text()


def test_an_empty_list_is_no_list(job, citations):
    """The same bits, for lines that the fast reader takes and those that the decoder does."""
    empty = [
        line.replace(b'"evidence"', b'"unlabelled": {}, "evidence"', 1) for line in citations[:20]
    ]
    weights = []
    for name, lines in (("plain", citations[:20]), ("empty", empty)):
        run = job(lines, name)
        assert run.run() == 0
        weights.append(run.results()["weights.mln"])
    assert weights[0] == weights[1]
