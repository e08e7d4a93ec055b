"""Sets of whole answers: the probability beside the strongest rival, and what holds for every sequence."""

import math

import numpy as np
import pytest
from conftest import tiers
from hypothesis import given, settings
from hypothesis import strategies as st

import onlinesrl as srl
from onlinesrl.core.evaluation import label_sets
from onlinesrl.core.evaluation.label_sets import ANSWERS, LabelSets
from onlinesrl.core.example import named_atoms
from onlinesrl.core.learner import Alternative, Prediction
from onlinesrl.mln.online.answer_sets import RATE, answers
from tests.support.families import ENUMERATED, FAMILIES, case

Atoms = set[tuple[str, tuple[str, ...]]]


@pytest.mark.parametrize("name", FAMILIES)
@tiers("number", 3, 200)
def test_each_truth_is_as_probable_as_beside_its_strongest_rival_alone(
    name: str, number: int
) -> None:
    """Of all states by enumeration, each the truth once; one that is not listed is as the last one."""
    for seed in range(number):
        of, n = case(name, seed, large=False), [2, 3, 6][seed % 3]
        scores = of.scores() if of.n <= ENUMERATED else np.array([])
        possible = np.flatnonzero(scores > -np.inf)
        if not len(possible):
            continue
        learner = srl.OnlineLearner(of.family.rules, of.family.query)
        line = learner.predict_one(of.evidence, best=n).line
        predicted = named_atoms(line.predicted)
        falling = np.sort(scores[possible])[::-1]
        if len(falling) == 1:
            assert answers(line, n, (set(), set())) == {}
            continue
        rival = np.where(scores == falling[0], falling[1], falling[0])
        with np.errstate(over="ignore", invalid="ignore"):
            p = 1 / (1 + np.exp(rival - scores))
        least = np.sort(p[possible])[::-1][:n][-1]
        for state in possible.tolist():
            true: Atoms = {atom for a, atom in enumerate(of.family.atoms) if state >> a & 1}
            (unit,) = answers(line, n, (true - predicted, predicted - true))[ANSWERS]
            assert len(unit.labels) == len(unit.probabilities) == min(n, len(falling))
            assert unit.true is not None
            assert unit.probabilities[unit.true] == pytest.approx(max(p[state], least), abs=1e-6)
            assert unit.probabilities == sorted(unit.probabilities, reverse=True)


def listed(differences: list[float]) -> Prediction:
    rows = [
        Alternative(2 + n, -x, x, certified=True, true={"P": [[n]]})
        for n, x in enumerate(sorted(differences))
    ]
    return Prediction("x", {}, 0.0, best=rows)


def the_truth(place: int) -> tuple[Atoms, Atoms]:
    return ({("P", (str(place - 1),))} if place else set()), set()


@settings(deadline=None, max_examples=60)
@given(
    st.sampled_from([0.5, 0.8, 0.95, 0.99]),
    st.lists(
        st.tuples(
            st.lists(st.floats(0, 30), min_size=1, max_size=6),
            st.sampled_from(["miss", "hit", "first", "beyond"]),
            st.integers(1, 30),
        ),
        min_size=1,
        max_size=40,
    ),
    st.integers(0, 3),
)
def test_misses_are_bounded_for_every_sequence(coverage, blocks, late):
    """An opponent who sees the set says which answer is true; some truths come late."""
    sets, waiting, misses = LabelSets(coverage, {}, rate=RATE), [], 0
    alpha = round(1 - coverage, 12)

    def answer() -> int:
        return sum(one.missed for one in sets.learn(*waiting.pop(0)))

    for differences, opponent, times in blocks:
        for _ in range(times):
            line = listed(differences)
            (chosen,) = sets.of(answers(line, 9, None))[ANSWERS]
            size, n = len(chosen.labels), len(differences) + 1
            place = {"miss": size, "hit": max(size - 1, 0), "first": 0, "beyond": n}[opponent]
            units = answers(line, 9, the_truth(place))
            waiting.append((units, {ANSWERS: [chosen]}, sets.truths))
            if len(waiting) > late:
                misses += answer()
    while waiting:
        misses += answer()
    rate = min(RATE, label_sets.SPAN / (alpha * sets.most_open))
    open_ = sets.most_open * (1 + math.log(RATE / rate))
    bound = math.log(label_sets.RECENT + 1) / rate + open_
    assert abs(misses - alpha * sets.truths) <= bound


def test_a_set_has_all_that_tie_and_everything_with_the_last_one():
    sets, line = LabelSets(0.8, {}, rate=RATE), listed([1.0, 2.0, 2.0, 3.0])
    assert sets.of(answers(line, 9, None))[ANSWERS][0].labels == [1, 2, 3, 4, None]
    for place in (2,) * 6:
        units = answers(line, 9, the_truth(place))
        sets.learn(units, sets.of(units), sets.truths)
    (chosen,) = sets.of(answers(line, 9, None))[ANSWERS]
    assert chosen.labels == [1, 2, 3, 4]
    (cut,) = sets.of(answers(line, 4, None))[ANSWERS]
    assert cut.labels == [1, 2, 3, None]


@pytest.mark.parametrize(("presolve", "count"), [("exact", 60), ("none", 6)])
def test_predictions_have_the_first_of_their_best_answers(presolve: str, count: int) -> None:
    """Learned from or not, with as many as the learner has, or fewer; nothing else changes."""
    data, inference = srl.datasets.citations(), {"best": 4, "presolve": presolve}
    plain = srl.OnlineLearner(data.model, data.query, inference=inference)
    learner = srl.OnlineLearner(data.model, data.query, inference={**inference, "coverage": 0.8})
    examples, held = [*data.examples][:count], 0

    def labels_of(prediction: srl.Prediction) -> list[int | None]:
        (one,) = prediction.line.sets[ANSWERS]
        assert prediction.line.abstains == (not one.labels or None in one.labels)
        if None in one.labels:
            assert prediction.answer_set is None
        else:
            assert prediction.answer_set == [prediction.best[n - 1] for n in one.labels]
        labels: list[int | None] = one.labels
        return labels

    for example in examples:
        first, more, fewer = (learner.predict_one(example, best=n) for n in (None, 7, 2))
        labels = labels_of(first)
        assert labels == labels_of(more) == [1, 2, 3, None][: len(labels)]
        assert labels_of(fewer) == [1, None][: len(labels)]
        assert learner.predict_one(example, marginals=True).line.sets is None
        assert learner.predict_one(example, best=1).answer_set is None
        assert first.best[1].answer_set is first.best[1].line.sets is None
        learned = learner.learn_one(example)
        assert labels_of(learned) == labels
        truth = {name: {*rows} for name, rows in learned.truth.items()}
        states = [{name: {*rows} for name, rows in one.atoms.items()} for one in learned.best]
        held += (states.index(truth) if truth in states else 3) < len(labels)
        assert plain.learn_one(example).line.best == learned.line.best
    told = learner.metrics["sets"][ANSWERS]
    assert (told["units"], told["coverage"]) == (count, pytest.approx(held / count))
    assert learner.weights_text() == plain.weights_text()
