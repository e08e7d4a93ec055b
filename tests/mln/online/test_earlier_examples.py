"""Learning again from earlier examples: what it does to the dual, and what it leaves alone."""

from itertools import product
from random import Random

import clarabel
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from test_updates import (
    ATOMS,
    CERTIFIED,
    WEIGHTS,
    Pair,
    Vector,
    base_weights,
    close,
    current,
    metric_of,
    pairs,
    sigmas,
)

from onlinesrl.core.errors import ExampleError
from onlinesrl.core.example import Example
from onlinesrl.core.learner import Answered
from onlinesrl.core.online import averaged_weights
from onlinesrl.core.online.reservoir import NO_DUAL, DualBlock, ReplaySection, unsampled
from onlinesrl.mln.ground.join_planner import compile_program
from onlinesrl.mln.ground.model_index import Layout
from onlinesrl.mln.inference.brute_force import Brute
from onlinesrl.mln.kernels.weight_lookup import gap
from onlinesrl.mln.lang import reader
from onlinesrl.mln.online.learner import MlnOnlineLearner
from onlinesrl.mln.online.weight_table import WeightTable
from tests.support.small_learners import (
    MODEL,
    exact,
    examples,
    learn,
    named,
    online,
    parsed,
    update_of,
)

MOVING = ("cda1", "cda2", "pa1", "adagrad")
REPEATING = ("log-likelihood", "perceptron", "mira", "cd")
TWO = ReplaySection(examples=2, reservoir=5)


# the dual ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", MOVING)
@given(
    st.lists(st.tuples(st.integers(0, 2), pairs()), max_size=14),
    sigmas,
    base_weights,
    st.lists(base_weights, min_size=3, max_size=3),
)
def test_an_examples_part_of_the_dual_is_moved(
    rule: str, visits: list[tuple[int, Pair]], sigma: float, base: Vector, others: list[Vector]
) -> None:
    """As on dense vectors; the dual never falls, and is below the loss of any fixed weights."""
    text = "P(x)\n" + "".join(f'{weight!r} P("{n}")\n' for n, weight in enumerate(base.tolist()))
    plan = compile_program(reader.parse(text, "rules.mln"), ["P"])
    table = WeightTable(Layout(plan), update_of(rule, sigma=sigma, delta=1.0, replay=TWO))
    blocks: dict[int, tuple[Vector, float]] = {}
    kept: dict[int, DualBlock] = {}
    cuts: list[tuple[int, float, Vector]] = []
    square, after, scale = np.zeros(WEIGHTS), list[Vector](), 1.0
    for name, each in visits:
        round_, again = each.round(), name in blocks
        rho = each.cost * (np.sqrt(round_.rho) if rule == "pa1" else round_.rho)
        cuts.append((name, rho, each.cost * round_.delta))
        block, summed = blocks.get(name, (np.zeros(WEIGHTS), 0.0))
        d, r = cuts[-1][2] - block, rho - summed
        updates = table.updates + (not again)
        strength = sigma * (updates if rule == "cda2" else 1)
        total = sum((b for b, _ in blocks.values()), np.zeros(WEIGHTS))
        metric = 1.0 + np.sqrt(square + d**2) if rule == "adagrad" else np.ones(WEIGHTS)
        slope = r - float((base + total / (strength * metric)) @ d)
        if rule == "adagrad" and abs(slope) < 1e-9:
            return
        curvature = float(d**2 @ (1 / metric)) / strength
        gamma = float(slope > 0) if curvature == 0 else float(np.clip(slope / curvature, 0, 1))
        blocks[name] = block + gamma * d, summed + gamma * r
        square = square + d**2 * (gamma > 0)
        metric = 1.0 + np.sqrt(square) if rule == "adagrad" else np.ones(WEIGHTS)
        w = sum(b for b, _ in blocks.values()) / (strength * metric)
        dual = sum(s - float(base @ b) for b, s in blocks.values())
        dual -= strength / 2 * float(metric @ w**2)
        after[updates - 1 :] = [w]

        before = table.certificate()["dual"]
        table.dual_block = kept.get(name, NO_DUAL)
        ones = np.ones(ATOMS)
        n, rho = gap(each.network(), table.arrays, each.truth, each.rival, ones)
        averaged_weights.learn(table.arrays, table.how, table.scalar, n, rho, each.cost, again)
        kept[name] = table.dual_block
        scale = max(scale, float(np.abs(w).max()) * updates, abs(dual))
        close(current(table), base + w, scale)
        close(table.averaged()[:WEIGHTS], base + np.mean(after, axis=0), scale)
        close(metric_of(table), metric, scale)
        found = table.certificate()["dual"]
        assert found is not None
        close(found, dual, 1e3 * scale)
        assert not again or before is None or found >= before - 1e-9 * scale
        for v in [base + w, *others]:
            losses = (
                max([0.0, *(q - float(v @ cut) for n, q, cut in cuts if n == name)])
                for name in blocks
            )
            least = sum(losses) + strength / 2 * float(metric @ (v - base) ** 2)
            assert found <= least + 1e-9 * max(scale, abs(least))


FRIENDS = """\
Is(person)
Smokes(person)
Friends(person, person)
Cancer(person)
0 Smokes(x) => Cancer(x)
0 Friends(x, y) ^ Cancer(x) => Cancer(y)
0 Cancer(x)
"""
PEOPLE = ("a", "b", "c")


def friends(count: int) -> list[Example]:
    random, made = Random(1), []
    for number in range(count):
        smokers = [[p] for p in PEOPLE if random.random() < 0.5]
        pairs = [[p, q] for p in PEOPLE for q in PEOPLE if p != q and random.random() < 0.4]
        ill = [[p] for p in PEOPLE if random.random() < (0.8 if [p] in smokers else 0.2)]
        evidence = {"Is": [[p] for p in PEOPLE], "Smokes": smokers, "Friends": pairs}
        made.append(Example(id=number, evidence=evidence, truth={"Cancer": ill}))
    return made


def counts(example: Example, ill: set[str]) -> list[int]:
    """The true groundings of the rules, by hand."""
    smokers = {p for (p,) in example.evidence["Smokes"]}
    links = example.evidence["Friends"]
    return [
        sum(p not in smokers or p in ill for p in PEOPLE),
        sum(p not in ill or q in ill for p, q in links),
        len(ill),
    ]


def least_regularised_loss(seen: list[Example], sigma: float) -> float:
    """min sigma/2 |w|^2 + sum of max over all states of label loss - <w, Delta>, as one QP."""
    rows, right = [], []
    for n, each in enumerate(seen):
        truth = {p for (p,) in each.truth["Cancer"]}
        for bits in product((0, 1), repeat=len(PEOPLE)):
            ill = {p for p, bit in zip(PEOPLE, bits, strict=True) if bit}
            delta = np.subtract(counts(each, truth), counts(each, ill))
            rows.append([*-delta, *(-1.0 * (n == m) for m in range(len(seen)))])
            right.append(-float(len(ill ^ truth)))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    size = 3 + len(seen)
    curvature = sparse.diags_array([sigma] * 3 + [0.0] * len(seen), format="csc")
    linear = np.array([0.0] * 3 + [1.0] * len(seen))
    cone = [clarabel.NonnegativeConeT(len(right))]
    matrix = sparse.csc_array(np.array(rows, float).reshape(-1, size))
    found = clarabel.DefaultSolver(curvature, linear, matrix, np.array(right), cone, settings)
    return float(found.solve().obj_val)


def of_friends(
    update: str, replay: ReplaySection | None = None, **keys: object
) -> MlnOnlineLearner:
    plan = compile_program(reader.parse(FRIENDS, "friends.mln"), ["Cancer"])
    made = update_of(update, **{"loss": "ml", "sigma": 0.5, "replay": replay} | keys)
    return online(plan, made, exact(Brute()))


def test_the_dual_comes_to_the_batch_optimum() -> None:
    """It stays below, and is the nearer the more is learned again; so the regret's bound falls."""
    seen, duals, bounds = friends(60), [], []
    best = least_regularised_loss(seen, 0.5)
    for many in (0, 1, 5, 30):
        learner = of_friends("cda1", ReplaySection(examples=many) if many else None)
        learn(learner, seen)
        certificate = learner.certificate()
        duals.append(certificate["dual"] or 0.0)
        bounds.append(certificate["regret_bound"] or 0.0)
    gaps = best - np.array(duals)
    assert np.all(gaps > -1e-6 * best)
    assert np.all(np.diff(gaps) < 0)
    assert np.all(np.diff(bounds) < 0)
    assert gaps[0] > 0.3 * best
    assert gaps[-1] < 0.05 * best


@pytest.mark.parametrize("rule", REPEATING)
def test_updates_without_such_a_dual_take_another_step_and_promise_nothing(rule: str) -> None:
    learner = of_friends(rule, TWO)
    learn(learner, friends(12))
    certificate = learner.certificate()
    assert certificate["dual"] is certificate["regret_bound"] is None
    assert learner.weights.updates == 12
    once = of_friends(rule)
    learn(once, friends(12))
    assert named(learner.weights) != named(once.weights)
    assert (rule in CERTIFIED) == (once.certificate()["dual"] is not None)


# the learner -------------------------------------------------------------------------------------


def replaying(update: str = "cda1", **keys: object) -> MlnOnlineLearner:
    plan = compile_program(parsed(), ["InField"])
    return online(plan, update_of(update, sigma=0.1, replay=TWO, **keys))


def saved(learner: MlnOnlineLearner) -> list[bytes]:
    return [np.asarray(array).tobytes() for array in learner.save()[1].values()]


@pytest.mark.parametrize("update", ["adagrad", "cda2", "log-likelihood"])
def test_bad_examples_and_late_labels_change_no_bit(update: str) -> None:
    """Batches and checkpoints: see ``core/test_learner_contract.py``."""
    seen, expected, learner, late = examples(30), *(replaying(update) for _ in range(3))
    learn(expected, seen, batch=30)
    bad = Example(id="bad", evidence={}, truth={"InField": [[9, "a"]]})
    mixed = [ExampleError("no example"), *seen[:9], bad, *seen[9:]]
    outcomes, tally = learner.step(mixed)
    assert [outcomes.index(each) for each in outcomes if each.error is not None] == [0, 10]
    assert (tally.predicted, tally.labelled) == (len(seen), len(seen))
    assert saved(learner) == saved(expected)
    for each in seen:
        ((outcome,), _) = late.step([Example(id=each.id, evidence=each.evidence)])
        assert outcome.prediction is not None
        late.step([Answered(each, outcome.prediction)])
    assert saved(late) == saved(expected)


def test_learning_again_leaves_no_more_weights_than_allowed() -> None:
    plan = compile_program(parsed(), ["InField"])
    learner = online(plan, update_of("perceptron", replay=TWO, max_weights=60))
    numbers = []
    for each in examples(30):
        learn(learner, [each])
        numbers.append(len(learner.weights))
    assert learner.weights.dropped > 0
    assert max(numbers) <= 60


def test_labels_scores_and_the_temperature_count_an_example_once() -> None:
    plan, seen = compile_program(parsed(), ["InField"]), examples(20)
    balanced = update_of("cda1", sigma=0.1, replay=TWO, costs="balanced", calibrated=True)
    learner = online(plan, balanced)
    learn(learner, seen)
    once = online(plan, update_of("cda1", sigma=0.1, costs="balanced", calibrated=True))
    learn(once, seen)
    assert learner.save()[0]["labels"] == once.save()[0]["labels"]
    assert learner.slowest.found == once.slowest.found
    still = online(plan, balanced)
    still.restore(*learner.save())
    assert learner.temperature is not None
    assert still.temperature is not None
    before = learner.temperature.save()
    learner._learn_again(seen[0], learner.reservoir)
    assert learner.temperature.save() == before != once.temperature.save()


def test_partly_labelled_worlds_and_wide_ones_learn_again_alike() -> None:
    """By elimination, and by an engine."""
    plan, seen = compile_program(parsed(), ["InField"]), examples(12, words=6)
    parts = [
        Example(
            id=each.id,
            evidence=each.evidence,
            truth={"InField": each.truth["InField"][1:]},
            unlabelled={"InField": [[0, "a"], [0, "b"]]},
        )
        for each in seen
    ]
    for xs in (seen, parts):
        update = update_of("cda1", sigma=0.1, replay=TWO, loss="ml")
        narrow, wide = online(plan, update), online(plan, update, exact(Brute(), presolve=False))
        learn(narrow, xs)
        learn(wide, xs)
        assert narrow.certificate()["dual"] == pytest.approx(wide.certificate()["dual"], rel=0.2)
        assert len(wide.reservoir.held) == len(narrow.reservoir.held) == 5


def test_shards_learn_again_from_what_they_saw_in_the_round() -> None:
    """Their merged dual is below the batch optimum, too, and above that of shards that see each once."""
    seen, duals = friends(60), []
    for replay in (None, ReplaySection(examples=5)):
        merged = of_friends("cda1", replay)
        for first in range(0, len(seen), 20):
            start, gains = merged.save(), []
            for part in (seen[first : first + 10], seen[first + 10 : first + 20]):
                shard = of_friends("cda1", replay)
                shard.restore(*start)
                learn(shard, part)
                gains.append(shard.gain(start))
            merged.merge(gains, by_dual=True)
        duals.append(merged.certificate()["dual"] or 0.0)
    assert duals[0] < duals[1] <= least_regularised_loss(seen, 0.5)


def test_no_shard_moves_what_one_learner_has_learned_before() -> None:
    """Else each would, and the merged dual would be above the batch optimum."""
    seen, many = friends(24), ReplaySection(examples=20)
    merged = of_friends("cda1", many, sigma=20.0)
    learn(merged, seen[:4], batch=1)
    for first in range(4, 24, 4):
        start, gains = unsampled(merged.save()), []
        for part in (seen[first : first + 2], seen[first + 2 : first + 4]):
            shard = of_friends("cda1", many, sigma=20.0)
            shard.restore(*start)
            learn(shard, part)
            gains.append(shard.gain(start))
        merged.merge(gains, by_dual=True)
    assert merged.reservoir is not None
    assert len(merged.reservoir.held) == 4
    assert 54 < (merged.certificate()["dual"] or 0.0) <= least_regularised_loss(seen, 20.0)


def test_an_examples_part_of_the_dual_outlives_the_growth_of_the_weights() -> None:
    plan = compile_program(parsed(), ["InField"])
    table = WeightTable(Layout(plan), update_of("cda1", sigma=0.1, replay=TWO))
    table.dual_block = DualBlock(np.array([3, 1]), np.array([0.5, -2.0]), 0.25)
    room = len(table.arrays.uses)
    table.grow()
    assert len(table.arrays.uses) > room
    block = table.dual_block
    assert (block.weights.tolist(), block.value.tolist(), block.rho) == ([3, 1], [0.5, -2.0], 0.25)


@pytest.mark.parametrize("update", ["cda1", "log-likelihood"])
def test_worlds_learn_again_with_the_constants_that_came_after_them(update: str) -> None:
    """Of open types, which all later worlds have: in batches of any size, and from a checkpoint, alike."""
    program = reader.parse(MODEL.replace('{"a", "b"}', '{"a", ...}'), "open.mln")
    plan, seen = compile_program(program, ["InField"]), examples(24, seed=3)
    made, states = update_of(update, sigma=0.1, replay=TWO), list[list[bytes]]()
    for batch in (1, 7):
        learner = online(plan, made)
        learn(learner, seen[:14], batch)
        other = online(plan, made)
        other.restore(*learner.save())
        learn(other, seen[14:], batch)
        states.append(saved(other))
    assert states[0] == states[1]
    assert learner.packer.shown()["field"] == ["b"] == other.packer.shown()["field"]
    once = online(plan, update_of(update, sigma=0.1))
    learn(once, seen)
    assert named(once.weights) != named(other.weights)
