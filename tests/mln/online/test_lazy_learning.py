"""Learning from worlds whose rules of three variables are ground only where states violate them."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from conftest import tiers

import onlinesrl as srl
from onlinesrl.core.errors import ExampleError
from onlinesrl.mln.ground import model_index
from tests.support.textbook_updates import Round, textbook

PAIRS = """Alike(record, record): real
Kind(record, kind)
Candidate(record, record)
Same(record, record)
1 Alike(x, y) ^ Same(x, y)
0.137 !Same(x, y)
Same(x, x).
"""
SYMMETRIC = "!Same(x, y) v Same(y, x).\n"
TRANSITIVE = "!Same(x, y) v !Same(y, z) v Same(x, z)"
HARD = f"{PAIRS}{SYMMETRIC}{TRANSITIVE}.\n"
SOFT = f"{PAIRS}0.71 Same(x, y) => Same(y, x)\n0.43 {TRANSITIVE}\n"
TEMPLATE = f"{PAIRS}{SYMMETRIC}0.2 Kind(x, +k) ^ Kind(z, +l) => ({TRANSITIVE})\n0.3 {TRANSITIVE}\n"
UNEQUAL = f"{PAIRS}{SYMMETRIC}0.43 x != z => ({TRANSITIVE})\n"
LISTED = f"{PAIRS}{SYMMETRIC}0.3 {TRANSITIVE}\nSame(x, y) => Candidate(x, y).\n"
START = {"Alike(x, y) ^ Same(x, y)": 1.0, "!Same(x, y)": 0.137}
Records = tuple[dict[str, Any], dict[str, Any]]


@pytest.fixture
def lazy(monkeypatch: pytest.MonkeyPatch) -> None:
    """All clauses that hold by default are left out at first."""
    monkeypatch.setitem(model_index.EAGER, "auto", 0)


def records(n: int, noise: float, seed: int) -> Records:
    """Similarities of n records of n / 3 things, a share ``noise`` of the wrong sign; what is the same."""
    rng = Random(seed)
    thing = {f"R{i:03}": rng.randrange(max(1, n // 3)) for i in range(n)}
    alike = {}
    for a, b in itertools.combinations(thing, 2):
        right = (thing[a] == thing[b]) == (rng.random() >= noise)
        alike[a, b] = rng.uniform(0.2, 1.0) * (1 if right else -1)
    evidence = {
        "Alike": alike,
        "Kind": [(a, f"K{rng.randrange(3)}") for a in thing],
        "Candidate": [(a, b) for a in thing for b in thing if a == b or rng.random() < 0.8],
    }
    evidence["Candidate"] += [(b, a) for a, b in evidence["Candidate"]]
    return evidence, {"Same": pairs(thing)}


def pairs(thing: dict[str, int]) -> list[tuple[str, str]]:
    every = itertools.product(thing, repeat=2)
    return [(a, b) for a, b in every if thing[a] == thing[b]]


def learner(rules: str, lazy: str, **keys: Any) -> srl.OnlineLearner:
    inference = {"lazy": lazy} | keys.pop("inference", {})
    return srl.OnlineLearner(rules, "Same", inference=inference, **keys)


def learned(rules: str, worlds: list[Records], lazy: str, **keys: Any) -> tuple[Any, list[Any]]:
    made = learner(rules, lazy, **keys)
    return made, [made.learn_one(*world) for world in worlds]


def assert_equal(rules: str, worlds: list[Records], exact: bool = True, **keys: Any) -> Any:
    """Both ways of grounding predict and learn the same; return the learner that grounds lazily."""
    ours, predicted = learned(rules, worlds, "auto", **keys)
    theirs, expected = learned(rules, worlds, "never", **keys)
    close = dict if exact else pytest.approx
    assert dict(ours.weights) == close(dict(theirs.weights), **({} if exact else {"abs": 1e-9}))
    assert "lp" in ours.learned.worlds.routes
    assert "lp" not in theirs.learned.worlds.routes
    for mine, other in zip(predicted, expected, strict=True):
        assert mine["Same"] == other["Same"]
        assert mine.score == pytest.approx(other.score, abs=1e-9)
    assert {key: ours.weights[key] for key in START} != START
    return ours


UPDATES: list[dict[str, Any]] = [
    *({"update": name, "loss": loss} for name in ("cda1", "cda2") for loss in ("pl", "ml")),
    {"update": "mira"},
    {"update": "subgradient"},
    {"update": "perceptron", "eta": 0.02},
    {"update": "adagrad", "loss": "ml"},
    {"update": "cda1", "loss": "pl", "label_loss": "f1"},
    {"update": "cda2", "loss": "ml", "costs": {"Same": {"missed": 2.0, "extra": 0.5}}},
]


@pytest.mark.parametrize("rules", [HARD, SOFT, UNEQUAL])
@pytest.mark.parametrize("update", UPDATES, ids=str)
@tiers("number", 1, 30)
def test_weights_are_those_of_eager_grounding(lazy, rules, update, number):
    for seed in range(number):
        worlds = [records(4 + n % 4, 0.2, 10 * seed + n) for n in range(4)]
        sigma = {} if update["update"] in {"mira", "perceptron"} else {"sigma": 0.05}
        assert_equal(rules, worlds, update=update | sigma)


@pytest.mark.parametrize("rules", [TEMPLATE, LISTED])
@tiers("number", 2, 30)
def test_templates_and_atoms_that_hard_rules_decide(lazy, rules, number):
    """Numbers are added in another order where constants tell the weights of a rule apart."""
    for seed in range(number):
        worlds = [records(4 + n % 4, 0.2, 10 * seed + n) for n in range(5)]
        if rules == LISTED:
            worlds = [
                (evidence, {"Same": [p for p in truth["Same"] if p in evidence["Candidate"]]})
                for evidence, truth in worlds
            ]
        keys = {"update": "cda1", "loss": "ml", "sigma": 0.05}
        ours = assert_equal(rules, worlds, rules == LISTED, **keys)
        assert len(ours.weights) == (3 + 9 if rules == TEMPLATE else 3)


def states(n: int) -> Iterator[np.ndarray]:
    """Yield all sets of pairs of n records, each with itself."""
    off = ~np.eye(n, dtype=bool)
    for bits in itertools.product([False, True], repeat=n * n - n):
        same = np.eye(n, dtype=bool)
        same[off] = bits
        yield same


def partitions(n: int) -> Iterator[np.ndarray]:
    """Yield what is the same in all partitions of n records."""
    for thing in itertools.product(range(n), repeat=n):
        if all(thing[i] <= max((-1, *thing[:i])) + 1 for i in range(n)):
            yield np.array(thing)[:, None] == np.array(thing)


def features(same: np.ndarray, alike: np.ndarray, soft: bool) -> list[float]:
    three = ~same[:, :, None] | ~same[None] | same[:, None]
    of_soft = [np.sum(~same | same.T), np.sum(three)] if soft else []
    return [float(x) for x in (np.sum(alike * same), np.sum(~same), *of_soft)]


@pytest.mark.parametrize("rules", [HARD, SOFT])
@pytest.mark.parametrize("update", ["cda1", "cda2", "mira", "subgradient"])
@pytest.mark.parametrize("loss", ["pl", "ml"])
@tiers("number", 1, 20)
def test_weights_are_those_of_the_textbook_on_all_states(lazy, rules, update, loss, number):
    if (update, loss) in {("mira", "ml"), ("subgradient", "pl")}:
        return
    soft = rules == SOFT
    n, base = (3, np.array([1.0, 0.137, 0.71, 0.43])) if soft else (6, np.array([1.0, 0.137]))
    every = [*(states(n) if soft else partitions(n))]
    for seed in range(number):
        worlds = [records(n, 0.3, 10 * seed + k) for k in range(4)]
        sigma = {} if update == "mira" else {"sigma": 0.05}
        ours, _ = learned(rules, worlds, "auto", update={"update": update} | sigma, loss=loss)
        rounds: list[Round] = []
        steps: list[Any] = []
        for evidence, truth in worlds:
            number_of = {name: i for i, name in enumerate(sorted({a for a, _ in truth["Same"]}))}
            alike, true = np.zeros((n, n)), np.zeros((n, n), bool)
            for (a, b), value in evidence["Alike"].items():
                alike[number_of[a], number_of[b]] = value
            for a, b in truth["Same"]:
                true[number_of[a], number_of[b]] = True
            weight = base + (steps[-1].weights if steps else 0.0)
            f = np.array([features(same, alike, soft) for same in every])
            rho = np.array([float(np.sum(same != true)) for same in every])
            best = int(np.argmax(f @ weight + (rho if loss == "ml" else 0.0)))
            delta = np.array(features(true, alike, soft)) - f[best]
            rounds.append(Round(float(rho[best]), delta))
            steps = [*textbook(rounds, update, 0.05, 1.0, base)]
        assert [*ours.weights.values()] == pytest.approx([*(base + steps[-1].average)], abs=1e-9)


def test_a_weight_that_turns_negative_grounds_its_rule_first(lazy):
    """Neighbours in a circle are the same, and no others."""
    rng, worlds = Random(0), []
    for _ in range(6):
        names = [f"R{i}" for i in range(4)]
        alike = {pair: rng.uniform(-0.3, 0.3) for pair in itertools.permutations(names, 2)}
        circle = [(names[i], names[j % 4]) for i in range(4) for j in (i - 1, i, i + 1)]
        worlds.append(({"Alike": alike}, {"Same": circle}))
    rules = f"{PAIRS}0.01 {TRANSITIVE}\n"
    ours = assert_equal(rules, worlds, update="cda1", loss="ml", sigma=0.05)
    [weight] = [ours.weights[key] for key in ours.weights if "Same(y" in key[0]]
    assert weight < 0
    inference = {"max_groundings": 60}
    small, _ = learned(rules, worlds[:1], "auto", inference=inference, update="perceptron")
    with pytest.raises(ExampleError, match=r"more ground clauses .*\(60\).*Same\(y, z\)"):
        for world in worlds[1:] * 3:
            small.learn_one(*world)


def test_a_learner_goes_on_from_a_file_with_the_same_bits(lazy, tmp_path: Path):
    worlds = [records(4 + n % 4, 0.2, n) for n in range(6)]
    keys = {"update": {"update": "cda1", "replay": {"examples": 3}}, "loss": "ml"}
    whole, _ = learned(TEMPLATE, worlds, "auto", **keys)
    begun, _ = learned(TEMPLATE, worlds[:3], "auto", **keys)
    begun.save(tmp_path / "begun")
    other = srl.OnlineLearner.load(tmp_path / "begun")
    for world in worlds[3:]:
        other.learn_one(*world)
    assert dict(other.weights) == dict(whole.weights)
    together = learner(TEMPLATE, "auto", **keys)
    together.learn_many([x for x, _ in worlds], [y for _, y in worlds])
    assert dict(together.weights) == dict(whole.weights)


def test_unlabelled_atoms_are_completed(lazy):
    weights = []
    for how in ("auto", "never"):
        made = learner(HARD, how, update="cda1", loss="ml")
        for seed in range(4):
            evidence, truth = records(6, 0.2, seed)
            known = [pair for pair in truth["Same"] if "R000" not in pair]
            unknown = [(a, b) for a, b in evidence["Alike"] if a == "R000"]
            unknown += [(b, a) for a, b in unknown] + [("R000", "R000")]
            made.learn_one(evidence, {"Same": known}, unlabelled={"Same": unknown})
        weights.append(dict(made.weights))
    assert weights[0] == weights[1]


def test_margins_and_next_best_states_are_those_of_eager_grounding(lazy):
    made = {}
    for how in ("auto", "never"):
        made[how], _ = learned(SOFT, [records(4, 0.2, 0)], how, update="cda1", loss="ml")
    for seed in range(5):
        ours, theirs = (
            made[how].predict_one(records(4, 0.3, seed)[0], best=3) for how in ("auto", "never")
        )
        assert ours["Same"] == theirs["Same"]
        assert ours.line.margin == pytest.approx(theirs.line.margin, abs=1e-6)
        lost = [[row.difference for row in one.line.best] for one in (ours, theirs)]
        assert lost[0] == pytest.approx(lost[1], abs=1e-6)
        assert lost[0][0] == ours.line.margin


def test_audits_are_of_all_clauses(lazy):
    worlds = [records(5, 0.2, seed) for seed in range(3)]
    made, _ = learned(SOFT, worlds, "auto", inference={"audit_every": 1}, update="cda1")
    assert made.learned.seen == 3


@pytest.mark.parametrize("how", ["auto", "never"])
def test_a_truth_that_breaks_a_rule_is_told(lazy, how):
    evidence, _ = records(4, 0.2, 0)
    same = [(a, a) for a in ("R000", "R001", "R002", "R003")]
    same += [("R000", "R001"), ("R001", "R000"), ("R001", "R002"), ("R002", "R001")]
    with pytest.raises(ExampleError, match=r"the truth breaks the hard rule !Same\(x, y\) v !Same"):
        learner(HARD, how).learn_one(evidence, {"Same": same})


def test_updates_by_probabilities_ground_everything(lazy):
    worlds = [records(3, 0.2, seed) for seed in range(3)]
    for keys in ({"update": "log-likelihood"}, {"update": "cda1", "calibrated": True}):
        ours, theirs = (learned(SOFT, worlds, how, **keys)[0] for how in ("auto", "never"))
        assert dict(ours.weights) == dict(theirs.weights)
        assert "lp" not in ours.learned.worlds.routes


def test_limits_count_what_is_ground():
    world = records(40, 0.0, 0)
    inference = {"max_groundings": 20_000}
    made, [first] = learned(HARD, [world], "auto", inference=inference, update="cda1", loss="pl")
    assert first.certified
    again = made.predict_one(world[0])
    assert {*again["Same"]} == {*world[1]["Same"]}
    with pytest.raises(ExampleError, match=r"more ground clauses than .*\(20000\)"):
        learned(HARD, [world], "never", inference=inference, update="cda1")
    with pytest.raises(ExampleError, match=r"more ground clauses than .*\(20000\)"):
        learned(SOFT, [world], "auto", inference=inference, update="second-order")
