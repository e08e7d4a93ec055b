"""Sets of labels: by the equation in plain numpy, and what holds for every sequence."""

import copy
import json
import math
import pickle
import random
from collections.abc import Iterator
from itertools import chain, islice
from typing import Any

import numpy as np
import pytest
from crepes import ConformalClassifier
from hypothesis import example, given, settings
from hypothesis import strategies as st

from onlinesrl.core.evaluation import label_sets, set_coverage
from onlinesrl.core.evaluation.label_sets import NEITHER, OTHER, LabelSets, text_of
from onlinesrl.core.example import ValuedAtom
from onlinesrl.core.io.restoring import Misfit

GROUPS = {"One": ((1,), True), "Most": ((0, 2), False)}


def worlds(count: int, seed: int) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Marginals of atoms and of groups, in order and out of it, and truths that follow or are unknown."""
    rng = random.Random(seed)
    for n in range(count):
        sure = 0.9 if n < count / 2 else 0.3
        atoms: dict[str, list[tuple[list[Any], float, bool | None]]] = {}
        for name in ("Alone", "One", "Most"):
            rows = atoms[name] = []
            for unit in range(rng.randrange(3)):
                if name == "Alone":
                    p = round(rng.random(), 6)
                    rows.append(([unit], p, rng.random() < sure * p))
                    continue
                labels = [(x, y) for x in "ab" for y in (1, 2)] if name == "Most" else [*"abc"]
                weights = [rng.random() ** 3 for _ in [*labels, None]]
                p_of = [w / (sum(weights) - (name == "One") * weights[-1]) for w in weights]
                true = rng.choices(range(len(weights)), weights if rng.random() < sure else None)[0]
                for k, label in enumerate(labels):
                    args = [label[0], unit, label[1]] if name == "Most" else [unit, label]
                    rows.append((args, round(p_of[k], 6), k == true % (3 if name == "One" else 9)))
                if rng.random() < 0.2:
                    rows[-1] = (*rows[-1][:2], None)
            if n % 2:
                rng.shuffle(rows)
        yield (
            {name: [ValuedAtom(args, p) for args, p, _ in rows] for name, rows in atoms.items()},
            {name: [true for *_, true in rows] for name, rows in atoms.items()},
        )


class Plain:
    """The equation, with lists that only grow, sorted anew each time."""

    def __init__(self, alpha: float, by_class: bool) -> None:
        self.alpha, self.by_class = alpha, by_class
        self.logs: dict[Any, float] = {}
        self.came: dict[Any, list[float]] = {}

    def least(self, name: str, label: str) -> float:
        key = (name, label if self.by_class else OTHER)
        recent = np.sort(self.came.get(key, [])[-label_sets.RECENT :])
        k = math.ceil((1 - math.exp(self.logs.get(key, math.log(self.alpha)))) * (len(recent) + 1))
        return 0.0 if k > len(recent) else math.inf if k < 1 else float(recent[-k])

    def units(self, name: str, atoms: Any, truths: Any) -> dict[Any, dict[Any, Any]]:
        """By the shared arguments the probability and truth of each label."""
        units: dict[Any, dict[Any, Any]] = {}
        for atom, true in zip(atoms, truths, strict=True):
            args = tuple(atom.args)
            if name == "Alone":
                opposite = None if true is None else not true
                units[args] = {False: (1.0 - atom.value, opposite), True: (atom.value, true)}
                continue
            label = args[1] if name == "One" else (args[0], args[2])
            units.setdefault((args[name == "Most"],), {})[label] = atom.value, true
        for unit in units.values() if name == "Most" else ():
            values, known = zip(*unit.values(), strict=True)
            neither = False if True in known else None if None in known else True
            unit[None] = max(0.0, 1.0 - sum(values)), neither
        return units

    def merge(self, shards: list["Plain"]) -> None:
        """Mean logs; of what came since, the n-th newest of each shard together."""
        for key in {key for shard in shards for key in shard.came}:
            at = [shard.logs.get(key, math.log(self.alpha)) for shard in shards]
            self.logs[key] = sum(at) / len(at)
            old = self.came.get(key, [])
            more = [shard.came.get(key, old)[len(old) :] for shard in shards]
            ranked = [
                (k - len(new), -n, new[k]) for n, new in enumerate(more) for k in range(len(new))
            ]
            self.came[key] = old + [p for _, _, p in sorted(ranked)]

    def learn(self, name: str, label: str, p: float, missed: bool, rate: float) -> None:
        key = (name, label if self.by_class else OTHER)
        came = self.came.setdefault(key, [])
        came.append(p)
        recent = came[-label_sets.RECENT :]
        log = self.logs.get(key, math.log(self.alpha)) + rate * (self.alpha - missed)
        if sure := sum(one >= 1 for one in recent):
            log = min(log, math.log1p((0.5 - sure) / (len(recent) + 1)))
        self.logs[key] = log


def follow(sets: LabelSets, plain: Plain, marginals: Any, truths: Any) -> int:
    """Compare the sets of an example, and let both learn from its truths; returns how many there are."""
    units = sets.units(marginals, truths)
    given_sets = sets.of(units)
    known = []
    for name, atoms in marginals.items():
        expected = plain.units(name, atoms, truths[name])
        got = {tuple(one.args): {*one.labels} for one in given_sets[name]}
        assert got == {
            args: {x for x, (p, _) in unit.items() if p >= plain.least(name, text_of(x))}
            for args, unit in expected.items()
        }
        for args, unit in expected.items():
            for label, (p, true) in unit.items():
                if true:
                    known.append((name, text_of(label), p, label not in got[args]))
    covered = sets.learn(units, given_sets, sets.truths)
    assert [(one.predicate, one.label, one.probability, one.missed) for one in covered] == known
    rate = min(label_sets.RATE, label_sets.SPAN / (plain.alpha * sets.most_open))
    for one in known:
        plain.learn(*one, rate)
    return len(known)


@pytest.mark.parametrize("by_class", [False, True])
def test_sets_and_steps_are_those_of_the_equation(monkeypatch, by_class):
    """Groups in order and out of it, several units at once, forgotten truths; saved and restored between."""
    monkeypatch.setattr(label_sets, "RECENT", 40)
    sets, plain = LabelSets(0.8, GROUPS, by_class), Plain(0.2, by_class)
    most = scored = 0
    for n, (marginals, truths) in enumerate(worlds(300, seed=4)):
        if n % 100 == 50:
            other = LabelSets(0.8, GROUPS, by_class)
            other.restore(json.loads(json.dumps(sets.save())))
            assert other.save() == sets.save()
            sets = other
        known = follow(sets, plain, marginals, truths)
        scored += known
        most = max(most, known)
        assert sets.most_open == most
    assert scored == sets.truths > 500
    assert not by_class or ("Most", NEITHER) in plain.came


@pytest.mark.parametrize("by_class", [False, True])
def test_shards_go_on_from_the_mean_and_the_newest_truths_of_all(monkeypatch, by_class):
    """Shards of different sizes, of which one ends early; two have labels of their own in a round."""
    monkeypatch.setattr(label_sets, "RECENT", 40)
    sets, plain, examples = LabelSets(0.8, GROUPS, by_class), Plain(0.2, by_class), worlds(500, 9)
    scored, most = 0, [1]
    for turn in range(20):
        start, gains, shards = json.loads(json.dumps(sets.save())), [], list[Plain]()
        for length in (3, 20, 2)[: 3 if turn < 10 else 2]:
            own, by_hand = LabelSets(0.8, GROUPS, by_class), copy.deepcopy(plain)
            own.restore(start)
            for marginals, truths in islice(examples, length):
                most.append(follow(own, by_hand, marginals, truths))
                scored += most[-1]
            gains.append(pickle.loads(pickle.dumps(own.since(start))))
            shards.append(by_hand)
        sets.merge(gains)
        plain.merge(shards)
        assert sets.most_open == max(most)
        for name, of in sets.thresholds.items():
            for key, one in of.items():
                assert one.log == pytest.approx(plain.logs[name, key], abs=1e-12)
                assert [*one.recent] == plain.came[name, key][-40:]
                plain.logs[name, key] = one.log
    assert scored == sets.truths > 500


@pytest.mark.parametrize("by_class", [False, True])
def test_sets_without_steps_are_those_of_conformal_classifiers(by_class):
    """Each truth joins those before it, as in online conformal prediction; by class they are Mondrian's."""
    rng, coverage, labels = np.random.default_rng(7), 0.8137, [*"abc"]
    sets = LabelSets(coverage, {"One": ((1,), True)}, by_class, rate=0.0)
    reference = ConformalClassifier()
    rows, true = rng.dirichlet([0.5, 1, 2], 300), rng.integers(0, 3, 300)
    for n in range(300):
        if n == 100 or n % 40 == 39:
            classes = true[:n] if by_class else None
            reference.fit(1 - rows[np.arange(n), true[:n]], classes)
            bins = np.arange(3) if by_class else None
            for row in rows[n : n + 3]:
                alphas = 1 - (row[:, None] if by_class else row[None])
                p_values = reference.predict_p(alphas, bins, smoothing=False).ravel()
                expected = [*np.array(labels)[p_values > 1 - coverage]]
                atoms = [ValuedAtom([0, x], float(p)) for x, p in zip(labels, row, strict=True)]
                assert sets.of(sets.units({"One": atoms}, {}))["One"][0].labels == expected
        atoms = [ValuedAtom([n, x], float(p)) for x, p in zip(labels, rows[n], strict=True)]
        units = sets.units({"One": atoms}, {"One": [k == true[n] for k in range(3)]})
        sets.learn(units, sets.of(units), sets.truths)


def challenge(sets: LabelSets, size: int, opponent: int, p: float) -> tuple[Any, Any, int]:
    """An example whose truth misses sets where that can be done, or never, or as the number says."""
    atoms = {"P": [ValuedAtom([n], p * (1 + n) / size) for n in range(size)]}
    chosen = sets.of(sets.units(atoms, {}))["P"]
    truths = [
        (True not in one.labels) if opponent == 0 else (True in one.labels) if opponent == 1
        else bool(n % opponent)
        for n, one in enumerate(chosen)
    ]  # fmt: skip
    return sets.units(atoms, {"P": truths}), {"P": chosen}, sets.truths


COVERAGES = st.sampled_from([0.5, 0.8, 0.95, 0.99])
BLOCKS = st.lists(
    st.tuples(st.integers(1, 12), st.integers(0, 3), st.floats(0, 0.999)), max_size=60
)


@settings(deadline=None, max_examples=40)
@given(COVERAGES, BLOCKS, st.integers(0, 3))
def test_misses_are_bounded_for_every_sequence(coverage, blocks, late):
    sets, waiting, misses, alpha = LabelSets(coverage, {}), [], 0, round(1 - coverage, 12)

    def answer() -> int:
        return sum(one.missed for one in sets.learn(*waiting.pop(0)))

    for block in blocks * 8:
        waiting.append(challenge(sets, *block))
        if len(waiting) > late:
            misses += answer()
    while waiting:
        misses += answer()
    rate = min(label_sets.RATE, label_sets.SPAN / (alpha * sets.most_open))
    open_ = sets.most_open * (1 + math.log(label_sets.RATE / rate) if late else 1)
    bound = math.log(label_sets.RECENT + 1) / rate + open_
    assert least(blocks, bound) <= misses - alpha * sets.truths <= bound


def least(blocks: list[Any], bound: float) -> float:
    """How far misses may be below their share: with labels of probability 1, as far as can be."""
    return -math.inf if any(1 - p / size == 1 for size, _, p in blocks) else -bound


MISSED, HIT = [(1, 0, 0.5)] * 60, [(1, 1, 0.9)] * 60
"""Truths of one atom each, missed where that can be done, and never."""


@settings(deadline=None, max_examples=40)
@example(0.5, [HIT, [(1, 0, 0.1)] * 60], [8, 1], [])
@example(0.8, [MISSED] * 4, [60], [])
@example(0.8, [HIT, MISSED], [60, 1], MISSED)
@example(0.5, [[(1, 0, 0.0)] * 4 + [(1, 1, 0.0)]], [1], [(1, 1, 0.0)])
@given(
    COVERAGES,
    st.lists(BLOCKS, min_size=1, max_size=4),
    st.lists(st.integers(1, 60), min_size=1),
    BLOCKS,
)
def test_misses_of_shards_are_bounded_for_every_sequence(coverage, shards, rounds, after):
    """Each shard has its own length of a round, and its own end; then one process goes on."""
    whole, misses, alpha = LabelSets(coverage, {}), 0, round(1 - coverage, 12)

    def learned(sets: LabelSets, blocks: list[Any]) -> int:
        return sum(one.missed for block in blocks for one in sets.learn(*challenge(sets, *block)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(label_sets, "RECENT", 5)
        left = [blocks * 8 for blocks in shards]
        while any(left):
            start, gains = whole.save(), []
            for n, blocks in enumerate(left):
                sets, length = LabelSets(coverage, {}), rounds[n % len(rounds)]
                if blocks:
                    sets.restore(start)
                    misses += learned(sets, blocks[:length])
                    gains.append(sets.since(start))
                    del blocks[:length]
            whole.merge(gains)
        misses += learned(whole, after * 8)
    rate = min(label_sets.RATE, label_sets.SPAN / (alpha * whole.most_open))
    bound = len(shards) * (math.log(5 + 1) / rate + whole.most_open)
    blocks = [*chain(*shards), *after]
    assert least(blocks, bound) <= misses - alpha * whole.truths <= bound


def test_a_label_that_is_sure_is_always_in_its_set():
    sets = LabelSets(0.9, {})
    for n in range(3000):
        atoms = {"P": [ValuedAtom([n], 1.0)]}
        units = sets.units(atoms, {"P": [True]})
        given_sets = sets.of(units)
        assert True in given_sets["P"][0].labels
        sets.learn(units, given_sets, sets.truths)
    assert sets.thresholds["P"][OTHER].log > math.log(0.1) - 7


def test_a_label_that_is_sure_to_one_shard_is_in_the_sets_of_all():
    """Five hits make a set empty, but for labels of probability 1; two of three shards saw none."""
    whole, gains = LabelSets(0.4, {}), []
    for last in (0.3, 0.3, 1.0):
        sets = LabelSets(0.4, {})
        for p in (0.3, 0.3, 0.3, 0.3, last):
            units = sets.units({"P": [ValuedAtom([0], p)]}, {"P": [True]})
            sets.learn(units, sets.of(units), sets.truths)
        gains.append(sets.since(whole.save()))
    whole.merge(gains)
    atoms = {"P": [ValuedAtom([0], 1.0), ValuedAtom([1], 0.9)]}
    assert [one.labels for one in whole.of(whole.units(atoms, {}))["P"]] == [[True], []]


def test_a_change_is_followed_where_a_fixed_threshold_fails():
    rng, sets, missed, fixed = random.Random(1), LabelSets(0.9, {}), [], []
    for n in range(6000):
        p = round(rng.random(), 6)
        true = rng.random() < (p if n < 3000 else 1 - p)
        units = sets.units({"P": [ValuedAtom([n], p)]}, {"P": [true]})
        missed += [one.missed for one in sets.learn(units, sets.of(units), sets.truths)]
        fixed.append((p if true else 1 - p) < 0.23)  # nine tenths of the first 3,000 have more
    for first in range(0, 6000, 1000):
        assert abs(np.mean(missed[first : first + 1000]) - 0.1) <= 0.01
    assert np.mean(fixed[3000:]) > 0.3


def test_what_no_run_saved_is_refused():
    sets = LabelSets(0.9, {})
    for wrong in (
        {"thresholds": {"P": {"true": {"log": -1.0, "recent": [0.5]}}}},
        {"thresholds": {"P": {OTHER: {"log": -1.0, "recent": [1.5]}}}},
        {"truths": -1},
    ):
        with pytest.raises(Misfit):
            sets.restore(wrong)


def test_a_whole_number_is_a_threshold_like_others():
    sets = LabelSets(0.5, {})
    sure = sets.units({"P": [ValuedAtom(["a"], 1)]}, {"P": [True]})
    sets.learn(sure, sets.of(sure), 0)
    unsure = sets.units({"P": [ValuedAtom(["b"], 0.4)]}, {"P": [None]})
    assert [one.labels for one in sets.of(unsure)["P"]] == [[]]


def test_figures_are_in_the_order_of_numbers_and_then_of_texts() -> None:
    labels = ["10", "b", "2", "(none)", "1", "a"]
    figures = set_coverage.figures({"Same": {label: [1, 1, 1, 0] for label in labels}}, {})
    assert [*figures["Same"]["by"]] == ["1", "2", "10", "(none)", "a", "b"]
