"""The online learner as a whole: which states it compares, by which route, and that audits bite."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from onlinesrl.core.errors import ExampleError, Infeasible
from onlinesrl.core.example import Example, ValuedAtom
from onlinesrl.core.online.update_rules import Cda2
from onlinesrl.mln.ground.ground_mrf import Floats, GroundMRF, clause_model, clause_weights
from onlinesrl.mln.ground.grounder import Limits
from onlinesrl.mln.ground.join_planner import compile_program
from onlinesrl.mln.inference.brute_force import Brute
from onlinesrl.mln.inference.ilp import Ilp
from onlinesrl.mln.inference.protocols import Solution
from onlinesrl.mln.inference.router import Router
from onlinesrl.mln.inference.settings import Inference
from onlinesrl.mln.kernels import predict_and_learn
from onlinesrl.mln.kernels.predict_and_learn import StepFrame
from onlinesrl.mln.lang import reader
from onlinesrl.mln.online.example_step import AuditError
from onlinesrl.mln.online.learner import MlnOnlineLearner
from tests.support.random_networks import features, ground_weights
from tests.support.small_learners import examples, learn, named, new_learner, state, update_of
from tests.support.textbook_updates import CERTIFIED, Round, textbook

COSTS = {"InField": {"missed": 2.0, "extra": 0.5}, "InField(_, b)": 3}


def costs(truth: Floats) -> Floats:
    """What COSTS says of the atoms InField(0, a), InField(0, b), InField(1, a), ..."""
    return np.where(np.arange(len(truth)) % 2, 3.0, np.where(truth == 1, 2.0, 0.5))


def with_engines(
    inference: Inference, update: str = "cda2", loss: str = "ml", **keys: Any
) -> MlnOnlineLearner:
    plan, made = new_learner().layout.plan, update_of(update, loss=loss, sigma=0.1, **keys)
    return MlnOnlineLearner(plan, made, inference, ("InField", 1))


class Spy:
    """Looks at every update on its way, and at the weights before and after it."""

    def __init__(self, learner: MlnOnlineLearner, monkeypatch: pytest.MonkeyPatch) -> None:
        learner.compile()  # or the kernels would be compiled with the spy among them
        self.learner = learner
        self.update = predict_and_learn.learn_from_gap
        self.rounds: list[tuple[float, Floats, float]] = []
        self.steps: list[tuple[Floats, Floats, dict[str, float | None]]] = []
        self.before: list[tuple[GroundMRF, Floats, Floats, Any, Any]] = []
        monkeypatch.setattr(predict_and_learn, "learn_from_gap", self.learn)

    def learn(self, frame: StepFrame, n: int, rho: float, factor: float, again: bool) -> float:
        learner, net = self.learner, self.learner.grounder.net
        model, place = clause_model(net, folded=False)
        state = learner.worlds.state
        truth, rival = state.truth[: model.n_atoms].copy(), state.rival[: model.n_atoms].copy()
        size = len(learner.weights)
        cost = costs(truth) if learner.update.costs else np.ones(len(truth))
        wrong = float(np.sum(cost * (truth != rival)))
        mean_cost = wrong / max(1, np.sum(truth != rival)) if wrong else 1.0
        if learner.update.label_loss == "f1" and wrong > 0:
            wrong = wrong / (np.sum(truth) + np.sum(rival))
            assert learner.update.costs or wrong == pytest.approx(1.0 - f1(truth, rival))
        delta = features(net, truth, size) - features(net, rival, size)
        self.rounds.append((wrong, delta, mean_cost))
        mean, current = (
            clause_weights(model, place, ground_weights(net, weights))
            for weights in (learner.weights.averaged(), self.current())
        )
        self.before.append((model, mean, current, truth, rival))
        loss = self.update(frame, n, rho, factor, again)
        self.steps.append(
            (self.current(), learner.weights.averaged(), learner.certificate() | {"g": loss})
        )
        return loss

    def current(self) -> Floats:
        """The weights that the next rival is found with."""
        weights = self.learner.weights
        value = weights.arrays.value[: len(weights)]
        scale = self.learner.update.scale(weights.updates + 1)
        return np.asarray(value[:, 0] + scale * value[:, 1])


def f1(truth: Floats, rival: Floats) -> float:
    """F1 of the rival's true atoms."""
    both = float(np.sum(truth * rival))
    if both == 0:
        return 0.0
    precision, recall = both / np.sum(rival), both / np.sum(truth)
    return float(2 * precision * recall / (precision + recall))


@pytest.mark.parametrize(
    ("update", "loss", "label_loss", "costly"),
    [
        ("cda1", "pl", None, False),
        ("cda2", "ml", None, True),
        ("subgradient", "ml", None, False),
        ("perceptron", "pl", None, True),
        ("adagrad", "ml", None, True),
        ("cda1", "pl", "f1", True),
        ("pa1", "pl", "f1", False),
    ],
)
def test_a_stream_is_learned_as_in_the_textbook(
    update: str, loss: str, label_loss: str | None, costly: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    engines = Inference(Brute(), Brute(), presolve=False)
    priced = {"costs": COSTS if costly else None, "label_loss": label_loss}
    learner = with_engines(engines, update, loss, **priced)
    spy = Spy(learner, monkeypatch)
    predictions = learn(learner, examples(40))
    assert len(spy.rounds) == 40
    for prediction, (model, mean, current, truth, rival) in zip(
        predictions, spy.before, strict=True
    ):
        best = Brute().solve(model, mean)
        assert prediction.score == pytest.approx(best.score, rel=1e-9, abs=1e-9)
        cost = costs(truth) if costly else 1.0
        bonus = np.where(truth == 1, -cost, cost) if loss == "ml" else None
        worst = Brute().solve(model, current, bonus=bonus)
        np.testing.assert_array_equal(rival, worst.state)
    base = learner.weights.arrays.value[: len(learner.weights), 0].copy()
    rounds = []
    for rho, delta, cost in spy.rounds:
        dense = np.zeros(len(base))
        dense[: len(delta)] = delta
        rounds.append(Round(rho, dense, cost))
    for expected, (current, mean, certificate) in zip(
        textbook(rounds, update, 0.1, 1.0, base), spy.steps, strict=True
    ):
        n = len(current)
        np.testing.assert_allclose(current, (base + expected.weights)[:n], rtol=0, atol=1e-11)
        np.testing.assert_allclose(mean, (base + expected.average)[:n], rtol=0, atol=1e-11)
        assert certificate["g"] == pytest.approx(expected.loss, abs=1e-10)
        if update in CERTIFIED:
            assert certificate["dual"] == pytest.approx(expected.dual, abs=1e-9)
            assert certificate["regret_bound"] == pytest.approx(expected.bound, abs=1e-9)
        else:
            assert certificate["dual"] is certificate["regret_bound"] is None


@pytest.mark.parametrize("costly", [False, True])
def test_losses_that_are_no_sums_are_the_same_by_elimination(costly: bool) -> None:
    """In a batch, and one at a time where atoms have costs."""
    priced = {"costs": COSTS if costly else None, "label_loss": "f1"}
    engines = Inference(Router(Brute()), Brute())
    whole = with_engines(Inference(Brute(), Brute(), presolve=False), "cda1", "pl", **priced)
    narrow = with_engines(engines, "cda1", "pl", **priced)
    sums = with_engines(engines, "cda1", "pl")
    for learner in (whole, narrow, sums):
        learn(learner, examples(40))
    expected = named(whole.weights)
    found = named(narrow.weights)
    assert found.keys() == expected.keys()
    for name, entry in found.items():
        assert entry == pytest.approx(expected[name], abs=1e-9)
    other = named(sums.weights)
    assert any(abs(other[name][0] - weight) > 0.01 for name, (weight, _) in expected.items())


@pytest.mark.parametrize(("update", "whole"), [("adagrad", True), ("cda2", False), ("mira", False)])
def test_current_weights_predict_where_asked(
    update: str, whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Line 5 of Algorithm 3: the prediction is the rival of PL. What is learned is the same."""
    engines = Inference(Brute() if whole else Router(Brute()), Brute(), presolve=not whole)
    learner = with_engines(engines, update, "pl", predict="current")
    averaged = with_engines(engines, update, "pl")
    different = 0
    for example in examples(40):
        net = learner.grounder.net
        [outcome], _ = learner.step([example])
        [other], _ = averaged.step([example])
        state = learner.worlds.state
        n = net.size[0]
        np.testing.assert_array_equal(state.predicted[:n], state.rival[:n])
        different += outcome.prediction != other.prediction
    assert different > 0
    a, b = learner.weights.arrays.value, averaged.weights.arrays.value
    np.testing.assert_array_equal(a[: len(learner.weights)], b[: len(averaged.weights)])
    entries = {(e.clause.text, e.key): e.weight for e in learner.weights.entries()}
    value, scale = a[: len(learner.weights)], learner.weights.scale()
    weights = value[:, 0] + scale * value[:, 1]
    assert set(entries.values()) <= {*weights.tolist()}


@pytest.mark.parametrize("every", [1, 3])
def test_audits_change_nothing_but_their_count(every: int) -> None:
    """Not even the route: the engine for wide worlds is not asked."""
    seen = [*examples(28), SELF_NEIGHBOUR, *examples(1, seed=1)]
    engines = Inference(Liar(Router(Brute()), hopeless), Router(Brute()))
    plain, audited = with_engines(engines), with_engines(replace(engines, audit_every=every))
    tallies = []
    for first in range(0, 30, 7):
        batch = seen[first : first + 7]
        expected, _ = plain.step(batch)
        found, tally = audited.step(batch)
        assert found == expected
        tallies.append(tally.audited)
        audited_again = with_engines(audited.inference)
        audited_again.restore(*audited.save())
        audited = audited_again
    assert tallies == ([7, 7, 7, 7, 2] if every == 1 else [2, 2, 3, 2, 1])
    assert learned(audited) == learned(plain)


SELF_NEIGHBOUR = Example(
    id="self",
    evidence={"Token": [["w", 0], ["v", 1]], "Next": [[0, 1], [1, 1]]},
    truth={"InField": [[0, "a"]]},
)


def learned(learner: MlnOnlineLearner) -> Any:
    header, arrays = state(learner)
    return {**header, "seen": 0}, arrays


class Liar:
    """Another engine's answers, with a score that is too good, or no answer at all."""

    def __init__(self, honest: Router, lie: Callable[[Solution], Solution]) -> None:
        self.honest = honest
        self.lie = lie

    def solve(self, model: GroundMRF, weights: Floats, *, bonus: Floats | None = None) -> Solution:
        return self.lie(self.honest.solve(model, weights, bonus=bonus))


def better(found: Solution) -> Solution:
    return Solution(found.state, found.score + 1e-3, found.bound, found.route, certified=True)


def unsure(found: Solution) -> Solution:
    return Solution(found.state, found.score + 1e-3, found.bound + 1, found.route, certified=False)


def hopeless(found: Solution) -> Solution:
    raise Infeasible("no state")


@pytest.mark.parametrize("lie", [better, hopeless])
def test_an_audit_catches_engines_that_disagree(lie: Callable[[Solution], Solution]) -> None:
    honest = Router(Brute())
    learner = with_engines(Inference(honest, Liar(honest, lie), audit_every=4))
    learner.step(examples(3))
    with pytest.raises(
        AuditError, match=r"audit of example 3: elimination gives .*, the whole ILP"
    ):
        learner.step(examples(8)[3:])


def test_an_audit_without_proof_proves_nothing() -> None:
    honest = Router(Brute())
    learner = with_engines(Inference(honest, Liar(honest, unsure), audit_every=1))
    _, tally = learner.step(examples(3))
    assert tally.audited == 0


def test_uncertified_rivals_are_not_learned_from() -> None:
    engine = Liar(Router(Brute()), unsure)
    learner = with_engines(Inference(engine, engine, predicts_unproven=True, presolve=False))
    outcomes, tally = learner.step(examples(3))
    assert [o.prediction.certified for o in outcomes if o.prediction] == [False] * 3
    assert (tally.certified, tally.unsolved, learner.weights.updates) == (0, 3, 0)


@pytest.mark.parametrize(("presolve", "most"), [(True, 60), (False, None)])
def test_room_that_runs_out_grows_and_changes_nothing(presolve: bool, most: int | None) -> None:
    """Nor does it change which weights are dropped: that depends on the stream alone."""
    found = []
    for room in (1, 1 << 12):
        inference = Inference(Router(Brute()), Router(Brute()), presolve=presolve)
        learner = new_learner("cda1", most, inference)
        learner.grounder.allocate(atoms=room, rows=room)
        learner.worlds.allocate(tables=room, output=room)
        tallies, outcomes, seen = [], [], examples(80)
        for first in range(0, 80, 16):
            some, tally = learner.step(seen[first : first + 16])
            outcomes += some
            by_class = {name: row.tolist() for name, row in tally.by_class.items()}
            tallies.append((tally.counts.tolist(), tally.labelled, tally.routes, by_class))
        found.append((outcomes, tallies, state(learner)))
        assert (learner.weights.dropped > 0) == (most is not None)
    assert found[0] == found[1]


OPEN = """
token = {...}
Next(token, token)
Tag(token, tag)
tag = {"a", "b", ...}
Tag(x, +t)
Next(x, y) ^ Tag(x, +t) => Tag(y, t)
"""


@pytest.mark.parametrize("presolve", [True, False])
def test_to_predict_between_steps_leaves_no_trace(presolve: bool) -> None:
    plan = compile_program(reader.parse(OPEN), ("Tag",))
    stream = [
        Example(
            id=n,
            evidence={"Next": [[f"x{n}", f"y{n % 3}"]]},
            truth={"Tag": [[f"x{n}", "abcdef"[n % 6]]]},
        )
        for n in range(12)
    ]
    ask = [stream[0], ExampleError("bad"), replaced(stream[7]), replaced(stream[11])]

    def learner() -> MlnOnlineLearner:
        return MlnOnlineLearner(
            plan,
            Cda2(),
            Inference(
                Router(Ilp()) if presolve else Ilp(), Ilp(), presolve=presolve, audit_every=5
            ),
        )

    asked, alone = learner(), learner()
    for example in stream:
        before = asked.predict(ask)
        assert before[0].prediction is not None
        assert before[0].prediction.margin is not None
        outcome = asked.step([example])[0]
        assert outcome == alone.step([example])[0]
        assert outcome[0].prediction is not None
        assert outcome[0].prediction.margin is None
    assert state(asked) == state(alone)


def replaced(example: Example) -> Example:
    """The same without its truth."""
    return Example(id=example.id, evidence=example.evidence)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ({"evidence": {"Nothing": [["a"]]}}, "schema"),
        ({"evidence": {"Token": [["a"]]}}, "schema"),
        ({"evidence": {"Token": [ValuedAtom(["a", 0], 0.5)]}}, "schema"),
        ({"evidence": {"Token": [["a", 0], ValuedAtom(["a", "0"], 0)]}}, "contradiction"),
        ({"evidence": {"Token": [["a", 0]] * 41}}, "limit"),
        ({"evidence": {"Token": [["a", n] for n in range(40)]}}, "limit"),
        ({"truth": {"InField": [[0, "a"]]}, "query": {"InField": []}}, "not_open"),
        ({"truth": {"InField": [[0, "a"], [0, "b"]]}}, "hard_rule"),
        ({"evidence": {"Token": [["w", 0]], "InField": [[0, "a"], [0, "b"]]}}, "infeasible"),
    ],
)
def test_bad_examples_are_counted_by_kind(values: dict[str, Any], kind: str) -> None:
    learner = new_learner()
    limited = replace(learner.inference, limits=Limits(atoms=40))
    learner = MlnOnlineLearner(learner.layout.plan, learner.update, limited)
    bad = Example(id=1, **({"evidence": {"Token": [["w", 0]]}} | values))
    given = [ExampleError("bad"), bad, *examples(2), ExampleError("long", "too_long"), bad]
    outcomes, tally = learner.step(given)
    assert tally.errors == {"decode": 1, "too_long": 1, kind: 2}, outcomes[1].error
    assert tally.predicted == 2
