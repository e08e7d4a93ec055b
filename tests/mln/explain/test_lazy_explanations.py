"""Explanations where large rules are ground only where a state violates them, against all states."""

from dataclasses import replace

import pytest
from conftest import tiers

import onlinesrl as srl
from onlinesrl.core.errors import ExampleError
from onlinesrl.core.example import named_atoms
from onlinesrl.core.explain.explanation import ExplanationError
from onlinesrl.mln.ground import model_index
from tests.mln.online.test_lazy_learning import HARD, SOFT, learner, records
from tests.support.families import Case, case


@pytest.fixture
def lazy(monkeypatch: pytest.MonkeyPatch) -> None:
    """All clauses that hold by default are left out at first."""
    monkeypatch.setitem(model_index.EAGER, "auto", 0)


def made(of: Case, how: str = "auto") -> srl.OnlineLearner:
    return srl.OnlineLearner(of.family.rules, of.family.query, inference={"lazy": how})


def soft(of: Case) -> Case:
    """The case without hard rules, whose scores are of possible and impossible states."""
    clauses = [clause for clause in of.clauses if clause[0] is not None]
    return replace(of, family=replace(of.family, groups=[], optimum=None), clauses=clauses)


@pytest.mark.parametrize("name", ["cubic", "clusters", "orders", "matching", "paths", "denials"])
@tiers("number", 4, 400)
def test_reasons_and_margins_are_those_of_all_states(lazy, name, number):
    for seed in range(number * (5 if name == "cubic" else 1)):
        of = case(name, seed, large=False)
        if of.best is None:
            continue
        ours, theirs = made(of), made(of, "never")
        predicted = ours.predict_one(of.evidence)
        true = named_atoms(predicted.line.predicted)
        eager = named_atoms(theirs.predict_one(of.evidence).line.predicted)
        state = of.state(true)
        assert of.value(state) == pytest.approx(of.best, abs=1e-6)
        for a, atom in [*enumerate(of.family.atoms)][seed % 3 :: 3][:4]:
            try:
                found = srl.explain(ours, of.evidence, atom, tries=0)
            except ExplanationError:
                assert of.with_units([a + 1]).best is None
                continue
            if found.given:
                continue
            assert found.value == state[a]
            best = of.with_units([-a - 1 if state[a] else a + 1]).best
            assert (found.other is None) == (best is None)
            if found.other is not None:
                assert found.other.certified
                assert found.other.cost == pytest.approx(of.best - best, abs=1e-6)
            if found.group is None:
                flipped = [*state[:a], 1 - state[a], *state[a + 1 :]]
                gain = soft(of).value(state) - soft(of).value(flipped)
                assert found.difference == pytest.approx(gain, abs=1e-9)
            if true == eager:
                other = srl.explain(theirs, of.evidence, atom, tries=0)
                assert {*map(str, found.forbidden)} == {*map(str, other.forbidden)}
                if found.group is None:
                    assert by_rule(found) == pytest.approx(by_rule(other))


def by_rule(found):
    """The effect of each rule on each side, and how many ground clauses make it."""
    effects = {}
    for reason in found.reasons:
        key = reason.rule, reason.effect > 0
        effect, count = effects.get((*key, "effect"), 0.0), effects.get((*key, "count"), 0)
        effects[(*key, "effect")] = effect + reason.effect
        effects[(*key, "count")] = count + reason.count
    return effects


@tiers("number", 10, 300)
def test_the_least_certain_atoms_are_those_of_eager_grounding(lazy, number):
    for seed in range(number):
        of = case("cubic", seed, large=seed % 2 == 1)
        if of.best is None:
            continue
        found = []
        for how in ("auto", "never"):
            own = made(of, how)
            try:
                example = own.predict_one(of.evidence).example
            except ExampleError:
                break
            (outcome,) = own.learned.predict([example])
            true = named_atoms(outcome.prediction.predicted)
            found.append((true, own.learned.least_certain(example, 5)))
        if len(found) == 2 and found[0][0] == found[1][0]:
            assert found[0] == found[1]


@pytest.mark.parametrize("rules", [HARD, SOFT])
def test_the_least_change_is_that_of_eager_grounding(lazy, rules):
    evidence, _ = records(4, 0.1, 3)
    evidence["Alike"] = {pair: 0.2 * value for pair, value in evidence["Alike"].items()}
    rules += "Linked(record, record)\n0.5 Linked(x, y) ^ Same(x, y)\n"
    links = [("R000", "R001"), ("R001", "R000"), ("R002", "R003"), ("R001", "R002")]
    flips = []
    for how in ("auto", "never"):
        own = learner(rules, how, update="cda1")
        for atom in (("R000", "R001"), ("R002", "R003")):
            found = srl.explain(own, evidence | {"Linked": links}, ("Same", atom))
            flips.append((found.value, found.flip.complete, found.flip.change))
    assert flips[:2] == flips[2:]
    assert any(change for _, _, change in flips)


def test_what_is_predicted_within_the_limit_is_explained_within_it():
    evidence, _ = records(40, 0.0, 0)
    own = learner(HARD, "auto", update="cda1", inference={"max_groundings": 20_000})
    pair, other = [p for p in evidence["Alike"] if evidence["Alike"][p] > 0], ("R000", "R000")
    found = srl.explain(own, evidence, ("Same", pair[0]), tries=0)
    assert found.value and found.certified and found.other.certified and found.other.cost > 0
    assert "Same(x, x)." in srl.explain(own, evidence, ("Same", other), tries=0).forbidden
