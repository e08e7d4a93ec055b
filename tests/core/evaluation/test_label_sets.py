"""Sets of labels: by the equation in plain numpy, and what holds for every sequence."""

import json
import math
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from crepes import ConformalClassifier
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinesrl.core.evaluation import label_sets
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

    def learn(self, name: str, label: str, p: float, missed: bool, rate: float) -> None:
        key = (name, label if self.by_class else OTHER)
        came = self.came.setdefault(key, [])
        came.append(p)
        recent = came[-label_sets.RECENT :]
        log = self.logs.get(key, math.log(self.alpha)) + rate * (self.alpha - missed)
        if sure := sum(one >= 1 for one in recent):
            log = min(log, math.log1p((0.5 - sure) / (len(recent) + 1)))
        self.logs[key] = log


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
        scored += len(known)
        most = max(most, len(known))
        for one in known:
            plain.learn(*one, min(label_sets.RATE, label_sets.SPAN / (0.2 * most)))
    assert scored == sets.truths > 500
    assert not by_class or ("Most", NEITHER) in plain.came


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


@settings(deadline=None, max_examples=40)
@given(
    st.sampled_from([0.5, 0.8, 0.95, 0.99]),
    st.lists(st.tuples(st.integers(1, 12), st.integers(0, 3), st.floats(0, 0.999)), max_size=60),
    st.integers(0, 3),
)
def test_misses_are_bounded_for_every_sequence(coverage, blocks, late):
    """An opponent who sees the set misses it where that can be done, or never, as the block says."""
    sets, waiting, misses, alpha = LabelSets(coverage, {}), [], 0, round(1 - coverage, 12)

    def answer() -> int:
        units, given_sets, truths = waiting.pop(0)
        return sum(one.missed for one in sets.learn(units, given_sets, truths))

    for size, opponent, p in blocks * 8:
        atoms = {"P": [ValuedAtom([n], p * (1 + n) / size) for n in range(size)]}
        chosen = sets.of(sets.units(atoms, {}))["P"]
        truths = [
            (True not in one.labels) if opponent == 0 else (True in one.labels) if opponent == 1
            else bool(n % opponent)
            for n, one in enumerate(chosen)
        ]  # fmt: skip
        waiting.append((sets.units(atoms, {"P": truths}), {"P": chosen}, sets.truths))
        if len(waiting) > late:
            misses += answer()
    while waiting:
        misses += answer()
    rate = min(label_sets.RATE, label_sets.SPAN / (alpha * sets.most_open))
    open_ = sets.most_open * (1 + math.log(label_sets.RATE / rate) if late else 1)
    bound = math.log(label_sets.RECENT + 1) / rate + open_
    assert abs(misses - alpha * sets.truths) <= bound


def test_a_label_that_is_sure_is_always_in_its_set():
    sets = LabelSets(0.9, {})
    for n in range(3000):
        atoms = {"P": [ValuedAtom([n], 1.0)]}
        units = sets.units(atoms, {"P": [True]})
        given_sets = sets.of(units)
        assert True in given_sets["P"][0].labels
        sets.learn(units, given_sets, sets.truths)
    assert sets.thresholds["P"][OTHER].log > math.log(0.1) - 7


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
