"""Second-order steps against dense numpy: one open atom of any units, dependent atoms, saved and dropped."""

import itertools
import json
import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import brentq

import onlinesrl as srl
from onlinesrl.core.example import decode
from onlinesrl.core.online.update_rules.second_order import SecondOrder
from onlinesrl.mln.kernels.ground_network import DEFINED, clause_true, define
from onlinesrl.mln.online.weight_table import WeightTable

Vector = NDArray[np.float64]
NUMBERS = "Value(x, name): real\nFraud(x)\n-1 Fraud(x)\nValue(x, +n) ^ Fraud(x)\n"


def sigmoid(z: float) -> float:
    return float(0.5 * (1.0 + np.tanh(0.5 * z)))


class Dense:
    """Mean and covariance of a few weights, by numpy."""

    def __init__(self, base: Vector):
        self.w, self.s, self.scale = base.copy(), np.zeros((len(base),) * 2), np.zeros(len(base))
        self.base = base

    def begin(self, sizes: Vector) -> None:
        """Set the variances of the features that are first used, and note larger ones."""
        for j in np.flatnonzero((self.scale > 0) & (sizes > 5.0 * self.scale)):
            h, a = sizes[j] ** 2 / 25.0 - self.scale[j] ** 2, self.s[j].copy()
            share = h / (1.0 + h * a[j])
            self.w = self.w - a * share * (self.w[j] - self.base[j])
            self.s = self.s - np.outer(a, a) * share
            self.scale[j] = sizes[j] / 5.0
        for j in np.flatnonzero((self.scale == 0) & (sizes > 0)):
            self.s[j, j], self.scale[j] = 1.0 / sizes[j] ** 2, sizes[j]

    def reduce(self, x: Vector, moved: Vector, times: int = 1) -> Vector:
        """Take off the information of labels whose truth has the features x more than the other value.

        Other units have ``moved`` the weights; returned is how far they are after these.
        """
        a = self.s @ x
        m, v = float(x @ self.w), times * float(x @ a)
        k = m + float(x @ moved)
        z = brentq(lambda z: z - k - v * sigmoid(-z), k, k + v, xtol=1e-14) if v > 0 else k
        near = abs(z - m) <= 1e-6
        h = sigmoid(z) * sigmoid(-z) if near else (sigmoid(-m) - sigmoid(-z)) / (z - m)
        self.s = self.s - np.outer(a, a) * times * h / (1.0 + h * v)
        return moved + times * sigmoid(-z) * a


def rows(n: int, seed: int) -> Iterator[tuple[dict[str, float], bool]]:
    """Features of any unit, a constant one, and one that grows by a million in the middle."""
    rng = np.random.default_rng(seed)
    for t in range(n):
        x = rng.normal(size=3)
        y = bool(rng.random() < sigmoid(x[0] - 2.0 * x[1] + x[2]))
        yield (
            {
                "a": x[0],
                "tiny": 1e-9 * x[1],
                "large": 1e9 * x[2],
                "constant": 7.0,
                "grown": (1.0 if t < n // 2 else 1e6) * (x[0] + 0.1 * rng.normal()),
            },
            y,
        )


def probability(learner: srl.OnlineLearner, evidence: Any, query: str, atom: str) -> float:
    example = srl.Example(id="1", evidence=evidence, query={query: [[atom]]})
    (prediction,) = learner.predict_many([example], marginals=True)
    return float((prediction.values or {})[query][(atom,)])


def facts(row: dict[str, float]) -> dict[str, Any]:
    return {"Value": [{"args": ["t", name], "value": value} for name, value in row.items()]}


def test_one_open_atom_is_the_recursion_of_logistic_regression_in_any_units() -> None:
    learner = srl.OnlineLearner(NUMBERS, "Fraud", update={"update": "second-order"})
    dense, names = Dense(np.array([-1.0, *[0.0] * 5])), ["a", "tiny", "large", "constant", "grown"]
    losses = []
    for row, y in rows(300, 0):
        x = np.array([1.0, *(row[name] for name in names)])
        p = probability(learner, facts(row), "Fraud", "t")
        if len(losses) < 150:  # later variances differ by 1e12, which leaves a few digits
            assert p == pytest.approx(sigmoid(float(x @ dense.w)), abs=1e-5)
        losses.append(-np.log(max(p if y else 1.0 - p, 1e-6)))
        learner.learn_one(facts(row), {"Fraud": [["t"]] if y else []})
        dense.begin(np.abs(x))
        dense.reduce(x if y else -x, np.zeros(6))
        dense.w = dense.w + dense.s @ x * (float(y) - sigmoid(float(x @ dense.w)))
        if len(losses) == 150:
            errors = [row.standard_error for row in learner.weights.rows]
            np.testing.assert_allclose(errors, np.sqrt(np.diag(dense.s)), rtol=1e-4)
    assert np.mean(losses[100:150]) < 0.5
    assert np.mean(losses[200:]) < 0.5  # a few dozen examples after one of the features has grown


PEOPLE = "abc"
STATES = list(itertools.product((False, True), repeat=3))


def test_dependent_atoms_are_as_by_enumeration() -> None:
    model = "Friends(p, p)\nTall(p)\nSmokes(p)\n0.3 Smokes(x)\nTall(x) ^ Smokes(x)\n"
    model += "Friends(x, y) ^ Smokes(x) ^ Smokes(y)\n"
    learner = srl.OnlineLearner(
        'p = {"a", "b", "c"}\n' + model, "Smokes", update={"update": "second-order"}
    )
    dense, rng = Dense(np.array([0.3, 0.0, 0.0])), np.random.default_rng(5)
    for _ in range(40):
        friends = [(x, y) for x, y in itertools.permutations(range(3), 2) if rng.random() < 0.5]
        tall = rng.random(3) < 0.5
        table = np.array(
            [[sum(s), sum(tall & s), sum(s[x] and s[y] for x, y in friends)] for s in STATES],
            np.float64,
        )
        n = int(rng.choice(8, p=np.exp(lse(table @ [-0.5, 1.0, 0.4]))))
        evidence = {
            "Friends": [(PEOPLE[x], PEOPLE[y]) for x, y in friends],
            "Tall": [p for p, one in zip(PEOPLE, tall, strict=True) if one],
        }
        true = [p for p, one in zip(PEOPLE, STATES[n], strict=True) if one]
        learner.learn_one(evidence, {"Smokes": true})
        gradient = table[n] - np.exp(lse(table @ dense.w)) @ table
        dense.begin(np.array([1.0, tall.any(), bool(friends)], np.float64))
        moved = np.zeros(3)
        for atom in range(3):
            moved = dense.reduce(table[n] - table[n ^ (4 >> atom)], moved)
        step = dense.s @ gradient
        q, rise = step @ gradient, (lse(table @ dense.w) - lse(table @ (dense.w + step)))[n]
        curvature = 2.0 * (rise + q)
        dense.w = dense.w + step * (q / curvature if curvature > q else 1.0)
        got = [row.weight for row in learner.weights.rows]
        np.testing.assert_allclose(got, dense.w, atol=1e-6)
        errors = [row.standard_error or 0.0 for row in learner.weights.rows]
        np.testing.assert_allclose(errors, np.sqrt(np.diag(dense.s)), rtol=1e-6)
    before = learner.learned.save()[1]
    found = srl.explain(learner, evidence, "Smokes(b)")
    predicted = int(np.argmax(table @ dense.w))
    x = table[predicted] - table[predicted ^ 2]
    v, p = x @ dense.s @ x, sigmoid(float(x @ dense.w))
    known, then = np.sqrt(v), np.sqrt(v / (1 + p * (1 - p) * v))
    assert (
        f"known to \u00b1 {known:.3f}; a label of the atom would make that \u00b1 {then:.3f}"
        in str(found)
    )
    after = learner.learned.save()[1]
    assert all(np.array_equal(before[name], after[name]) for name in before)


def test_of_many_atoms_every_other_one_stands_for_two() -> None:
    people = [f"p{n}" for n in range(128)]
    learner = srl.OnlineLearner("P(x)\nQ(x)\nP(x) ^ Q(x)\n", "Q", update={"update": "second-order"})
    learner.learn_one({"P": people}, {"Q": people})
    dense, moved = Dense(np.zeros(1)), np.zeros(1)
    dense.begin(np.ones(1))
    for _ in range(64):
        moved = dense.reduce(np.ones(1), moved, 2)
    q = 64.0 * dense.s[0, 0] * 64.0  # of the gradient of 128 atoms
    w = 64.0 * dense.s[0, 0]
    curvature = 2.0 * (128 * np.logaddexp(0.0, -w) - 128 * np.log(2.0) + q)
    (row,) = learner.weights.rows
    assert row.weight == pytest.approx(w * min(q / curvature, 1.0))
    assert row.standard_error == pytest.approx(np.sqrt(dense.s[0, 0]))


def test_nine_in_ten_true_weights_are_within_two_standard_errors() -> None:
    names, within = "abcd", []
    model = "Value(x, name): real\nTrue(x)\nValue(x, +n) ^ True(x)\n"
    for seed in range(30):
        rng = np.random.default_rng(seed)
        w, examples = rng.normal(size=4), []
        for row in rng.normal(size=(300, 4)):
            y = bool(rng.random() < sigmoid(float(row @ w)))
            evidence = facts(dict(zip(names, row.tolist(), strict=True)))
            examples.append(srl.Example(id="", evidence=evidence, truth={"True": [["t"]] * y}))
        learner = srl.OnlineLearner(model, "True", update={"update": "second-order"})
        learner.learn_many(examples)
        for row, true in zip(learner.weights.rows, w, strict=True):
            within.append(abs(row.weight - true) < 2.0 * (row.standard_error or 0.0))
    assert 0.85 < np.mean(within) < 0.98  # the prior is narrow where a first number is large


def test_what_a_label_teaches_about_weights_without_covariances_and_unseen_ones() -> None:
    model = "Has(t, w)\nFraud(t)\n-1 Fraud(t)\nHas(t, +w) ^ Fraud(t)\n"
    keys = {"update": "second-order", "full": 1, "prior": 2.0}
    learner = srl.OnlineLearner(model, "Fraud", update=keys)
    learner.learn_one({"Has": [("t", "a"), ("t", "b")]}, {"Fraud": [["t"]]})
    x, v = np.ones(3), 6.0
    z = brentq(lambda z: z + 1.0 - v * sigmoid(-z), -1.0, -1.0 + v, xtol=1e-14)
    h = (sigmoid(1.0) - sigmoid(-z)) / (z + 1.0)
    s = np.diag(2.0 * x) - np.outer(2.0 * x, 2.0 * x) * h / (1.0 + h * v)
    variance = s[0, 0] + s[1, 1] + 2.0  # of the rule, of a, and of what was never seen
    found = srl.explain(learner, {"Has": [("t", "a"), ("t", "new")]}, "Fraud(t)")
    assert f"known to \u00b1 {np.sqrt(variance):.3f};" in str(found)


def lse(scores: Vector) -> Vector:
    """The logarithms of the probabilities by these scores."""
    normal: Vector = scores - np.logaddexp.reduce(scores)
    return normal


def test_a_single_label_beside_unlabelled_atoms_counts_by_its_fisher_information() -> None:
    model = "Linked(p, p)\nFraud(p)\n-1 Fraud(p)\nLinked(p, q) ^ Fraud(p) ^ Fraud(q)\n"
    learner = srl.OnlineLearner(model, "Fraud", update={"update": "second-order"})
    truth, unlabelled = {"Fraud": ["a"]}, {"Fraud": ["b"]}
    learner.learn_one({"Linked": [("a", "b")]}, truth, unlabelled=unlabelled)
    table, w = np.array([[0, 0], [1, 0], [1, 0], [2, 1.0]]), np.array([-1.0, 0.0])
    mass = np.exp(lse(table @ w))
    with_a = np.array([0.0, 0.0, *mass[2:]]) / mass[2:].sum()
    without = np.array([*mass[:2], 0.0, 0.0]) / mass[:2].sum()
    x, m = (with_a - without) @ table, np.log(mass[2:].sum() / mass[:2].sum())
    v = float(x @ x)
    z = brentq(lambda z: z - m - v * sigmoid(-z), m, m + v, xtol=1e-14)
    got = [row.weight for row in learner.weights.rows]
    np.testing.assert_allclose(got, w + x * sigmoid(-z), atol=1e-6)


def test_wide_examples_learn_from_samples() -> None:
    people = [f"p{n}" for n in range(24)]
    pairs = [(a, b) for a in people for b in people if a < b]
    model = "Knows(person, person)\nTall(person)\n0 Knows(x, y) ^ Tall(x) => Tall(y)\n0 Tall(x)"
    learner = srl.OnlineLearner(model, query="Tall", update={"update": "second-order"})
    for _ in range(4):
        learner.learn_one({"Knows": pairs}, {"Tall": people[:6]})
    assert learner.certificate["sampled"] == 4
    weights = np.array([row.weight for row in learner.weights.rows])
    assert np.all(np.abs(weights) < 3.0)
    p = probability(learner, {"Knows": []}, "Tall", "x")
    assert 0.1 < p < 0.45  # a quarter is tall


def citations(**keys: Any) -> tuple[srl.OnlineLearner, list[srl.Example]]:
    data = srl.datasets.citations()
    learner = srl.OnlineLearner(data.model, data.query, update={"update": "second-order", **keys})
    return learner, [*data.examples]


def test_a_checkpoint_goes_on_with_the_same_bits() -> None:
    learner, examples = citations(full=40, memory=1000)
    learner.learn_many(examples[:20])
    again = pickle.loads(pickle.dumps(learner))
    for one in (learner, again):
        one.learn_many(examples[20:30])
    assert learner.weights_text() == again.weights_text()
    first, second = (one.learned.save()[1] for one in (learner, again))
    assert first.keys() == second.keys()
    assert first["matrix"].shape == (40, 40)
    assert all(np.array_equal(first[name], second[name]) for name in first)
    assert np.linalg.eigvalsh(first["matrix"])[0] > 0.0


def in_rounds(
    make: Callable[[], srl.OnlineLearner], shards: Sequence[Sequence[srl.Example]], size: int
) -> srl.OnlineLearner:
    """A learner of shards, which are merged after so many examples of each."""
    merged: Any = make()
    for first in range(0, max(map(len, shards)), size):
        start, gains = merged.learned.save(), []
        for shard in shards:
            own: Any = make()
            own.learned.restore(*start)
            own.learned.step(shard[first : first + size])
            gains.append(own.learned.gain(start))
        assert merged.learned.merge(gains, False) == 1.0
    return cast(srl.OnlineLearner, merged)


@pytest.mark.parametrize("size", [5, 50])
def test_shards_know_together_nearly_what_one_learner_knows(size: int) -> None:
    """Exactly but for curvatures, which are at the weights of each shard; numbers are of any units."""

    def make() -> srl.OnlineLearner:
        return srl.OnlineLearner(NUMBERS, "Fraud", update={"update": "second-order"})

    examples = [
        decode(
            json.dumps(
                {"id": 1, "evidence": facts(row), "truth": {"Fraud": [["t"]] if y else []}}
            ).encode()
        )
        for row, y in rows(400, 2)
    ]
    one, two = make(), in_rounds(make, [examples[0::2], examples[1::2]], size)
    one.learn_many(examples)
    for a, b in zip(one.weights.rows, two.weights.rows, strict=True):
        assert b.weight == pytest.approx(a.weight, abs=0.4 * (a.standard_error or 0.0))
        assert b.standard_error == pytest.approx(a.standard_error, rel=0.06)


def test_one_shard_is_learned_as_without_rounds_while_slots_change() -> None:
    _, examples = citations()
    one, merged = citations(full=40)[0], in_rounds(lambda: citations(full=40)[0], [examples], 7)
    one.learn_many(examples)
    for a, b in zip(one.weights.rows, merged.weights.rows, strict=True):
        assert (a.rule, a.constants) == (b.rule, b.constants)
        assert b.weight == pytest.approx(a.weight, abs=1e-9)
        assert b.standard_error == pytest.approx(a.standard_error, rel=1e-9)
    slots = [set(learner.learned.save()[1]["slots"].tolist()) for learner in (one, merged)]
    assert slots[0] == slots[1]


def test_shards_of_other_slots_keep_those_of_the_most_used_weights() -> None:
    _, examples = citations()
    merged = in_rounds(lambda: citations(full=40)[0], [examples[n::3] for n in range(3)], 4)
    arrays = merged.learned.save()[1]
    assert arrays["matrix"].shape == (40, 40)
    assert np.linalg.eigvalsh(arrays["matrix"])[0] > 0.0
    again = in_rounds(lambda: citations(full=40)[0], [examples[n::3] for n in range(3)], 4)
    assert all(np.array_equal(arrays[n], array) for n, array in again.learned.save()[1].items())


def test_dropped_weights_take_their_covariances_along() -> None:
    learner, examples = citations(full=60)
    learner.learn_many(examples[:20])
    weights: Any = learner.learned.weights
    assert isinstance(weights, WeightTable)

    def covariances() -> dict[Any, float]:
        c, names = weights.how.covariance, [(e.text, e.key) for e in weights.entries()]
        places = [place for place, _, _ in weights.numbered()]
        name = dict(zip(places, names, strict=True))
        k = c.size[0]
        return {
            (name[i], name[j]): c.matrix[s, t]
            for (s, i), (t, j) in itertools.product(enumerate(c.weight[:k].tolist()), repeat=2)
        }

    before = covariances()
    assert weights.drop_least(len(weights) // 20)
    after = covariances()
    assert 0 < len(after) < len(before)
    assert after.items() <= before.items()
    learner.learn_many(examples[20:25])
    assert np.linalg.eigvalsh(learner.learned.save()[1]["matrix"])[0] > 0.0


def test_where_it_does_not_apply_it_is_refused() -> None:
    with pytest.raises(srl.OnlinesrlError, match="normaliser"):
        srl.OnlineLearner(
            srl.Model("1: P(X) -> Q(X)", "psl"), "Q", update={"update": "second-order"}
        )


def test_a_memory_of_one_example_is_refused() -> None:
    """Each would forget all before it."""
    with pytest.raises(ValueError, match="memory"):
        SecondOrder(memory=1)


def test_units_have_the_rows_that_they_change_also_by_defined_atoms() -> None:
    model = 'p = {"a", "b", "c", "d"}\nNear(p, p)\nSick(p)\nHas(p, k!)\nk = {"u", "v", "w"}\n'
    model += "1 (EXIST y (Near(x, y) ^ Sick(y) ^ !Sick(x)))\nSick(x) ^ Has(x, +k)\n"
    model += "Near(x, y) ^ Has(x, +k) => Has(y, +k)\nHas(x, k) v Has(x, +l) v Sick(x)\n"
    learner = srl.OnlineLearner(model, ["Sick", "Has"], update={"update": "second-order"})
    own: Any = learner.learned
    own.worlds.allocate(unit_rows=1)  # and grows
    near = [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")]
    truth = {"Sick": ["a", "d"], "Has": [("a", "u"), ("b", "v"), ("c", "v"), ("d", "w")]}
    learner.learn_one({"Near": near}, truth)
    net, rows, rng = own.grounder.net, own.worlds.rows, np.random.default_rng(0)
    atoms, variables, count = net.size[:3].tolist()
    assert np.any(net.fixed[:atoms] == DEFINED) and net.row_len[:count].max() <= 3
    changed = [set[int]() for _ in range(variables)]
    for _ in range(200):
        state = rng.integers(0, 2, atoms, dtype=np.uint8)
        define(net, state)
        for v in range(variables):
            other = state.copy()
            other[rng.integers(net.var_start[v], net.var_start[v + 1])] ^= 1
            define(net, other)
            changed[v] |= {
                r
                for r, k in itertools.product(range(count), range(3))
                if k < net.row_len[r]
                and clause_true(net, r, k, state) != clause_true(net, r, k, other)
            }
    for v, some in enumerate(changed):
        listed = rows.row[rows.start[v] : rows.start[v + 1]].tolist()
        assert len({*listed}) == len(listed)
        assert some <= {*listed}
