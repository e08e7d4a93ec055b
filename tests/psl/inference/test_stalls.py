"""Where ADMM stalls, the dual simplex or TRON goes on; all rows are in the certificate."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import linprog

from onlinesrl.core.errors import Infeasible
from onlinesrl.psl.ground.hinge_loss_mrf import AT_MOST, EQUAL, HARD, HINGE, PLAIN, united
from onlinesrl.psl.inference.admm import Admm, AdmmState
from onlinesrl.psl.inference.dual import lower_bound
from onlinesrl.psl.inference.dual_simplex import optimum
from onlinesrl.psl.inference.incremental_admm import IncrementalAdmm
from onlinesrl.psl.inference.lifting import Lifted
from tests.support.hinge_models import Rows, alike, model_of


def random_linear(seed):
    """Up to eight variables; linear potentials and constraints, of which three in ten may be infeasible."""
    random = np.random.default_rng(seed)
    n, rows, may_be_infeasible = int(random.integers(1, 9)), Rows(), random.random() < 0.3
    inside = random.choice([0.0, 0.25, 0.3, 0.5, 1.0], n)
    for _ in range(random.integers(1, 25)):
        size = int(random.integers(1, min(4, n) + 1))
        chosen, q = (
            random.permutation(n)[:size],
            random.choice([-2.0, -1.0, -0.5, 0.5, 1.0, 3.0], size),
        )
        kind = random.choice([HINGE, PLAIN, AT_MOST, EQUAL], p=[0.7, 0.1, 0.1, 0.1])
        constant = random.choice([-1.5, -0.5, 0.0, 0.3, random.uniform(-1, 1)])
        if kind >= AT_MOST and not may_be_infeasible:
            constant = -q @ inside[chosen] - (random.choice([0.0, 0.5]) if kind == AT_MOST else 0.0)
        rows.add(HARD if kind >= AT_MOST else random.integers(3), chosen, q, constant, 1, kind)
    weights = random.choice([0.0, 0.1, 1.0, 7.0], 3)
    return rows.model(n), weights, random.choice([-1.0, 0.0, 0.5], n)


def least(model, weights, bonus):
    """The least energy by scipy's linear program, with a number for each hinge; None: infeasible."""
    n, m, weight = model.n_variables, model.n_rows, model.row_weights(weights)
    form = np.zeros((m, n + m))
    form[model.row, model.variable] = model.coefficient
    hinge = np.flatnonzero(model.kind == HINGE)
    form[hinge, n + hinge] = -1.0
    cost = np.append(-bonus, np.where(model.kind == HINGE, weight, 0.0))
    plain = model.kind == PLAIN
    cost[:n] += weight[plain] @ form[plain, :n]
    bounded, equal = (model.kind == HINGE) | (model.kind == AT_MOST), model.kind == EQUAL
    rows = form[bounded], -model.constant[bounded], form[equal], -model.constant[equal]
    bounds = [(0.0, 1.0)] * n + [(0.0, None)] * m
    found = linprog(cost, *(each if len(each) else None for each in rows), bounds)
    return None if found.status == 2 else found.fun + weight[plain] @ model.constant[plain]


@pytest.mark.parametrize("part", range(4))
def test_the_dual_simplex_beside_linear_programs(part):
    refused = 0
    for seed in range(100 * part, 100 * (part + 1)):
        model, weights, bonus = random_linear(seed)
        expected = least(model, weights, bonus)
        start = np.random.default_rng(seed).random(model.n_variables)
        try:
            found = optimum(model, weights, bonus, start, 1000, 1e-4)
        except Infeasible as error:
            refused += 1
            assert str(error) == "no values satisfy the constraints"
            assert expected is None
            continue
        assert found is not None
        y, dual = found
        energy = model.energy(y, weights) - bonus @ y
        assert energy == pytest.approx(expected, abs=1e-7)
        assert lower_bound(model, weights, dual, bonus) == pytest.approx(energy, abs=1e-7)
        assert model.violation(y) <= 1e-7
    assert 2 < refused < 30


def constrained(people):
    """Groups of four whose values sum to 1."""
    groups = np.random.default_rng(5).permutation(people).reshape(-1, 4)
    sums = model_of(people, (HARD, groups, 1.0, -1.0, 1, EQUAL))
    return groups[0], sums


@pytest.mark.parametrize("engine", [Admm(), Lifted(Admm())], ids=["admm", "lifted-admm"])
@pytest.mark.parametrize("is_constrained", [False, True], ids=["soft", "functional"])
def test_a_dense_linear_model_is_solved(engine, is_constrained):
    """Rounds alone are not enough; few of the 40,200 rows are columns of the simplex."""
    model, weights = alike(200)
    if is_constrained:
        model = united(200, [model, constrained(200)[1]])
    by_rounds = AdmmState(model, weights).solve(1e-6, 1e-4, 2000)
    found = engine.solve(model, weights)
    assert not by_rounds.certified
    assert found.certified
    assert found.route.endswith("admm, dual simplex")
    assert found.iterations < 2000
    assert found.energy < by_rounds.energy
    assert found.energy == pytest.approx(model.energy(found.y, weights), rel=1e-12)
    assert found.bound == pytest.approx(lower_bound(model, weights, found.dual), rel=1e-12)
    assert found.energy == pytest.approx(found.bound, rel=1e-10)
    assert model.violation(found.y) <= 1e-9


def test_a_dense_model_without_a_solution_is_refused():
    group, sums = constrained(200)
    low = model_of(200, (HARD, group[:, None], 1.0, -0.249, 1, AT_MOST))
    model, weights = alike(200)
    with pytest.raises(Infeasible, match=r"^no values satisfy the constraints$"):
        Admm().solve(united(200, [model, sums, low]), weights)


def test_a_stiff_squared_model_is_solved():
    """Neighbours of a grid are equal, nearly; what is seen of them is not."""
    at, random, rows = np.arange(170 * 170).reshape(170, 170), np.random.default_rng(1), Rows()
    for one, other in ((at[:, 1:], at[:, :-1]), (at[1:], at[:-1])):
        rows.add(0, np.stack((one.ravel(), other.ravel()), 1), [1, -1], 0.0, 2, PLAIN)
    rows.add(1, at.reshape(-1, 1), 1, -random.random(at.size), 2, PLAIN)
    model, weights = rows.model(at.size), np.array([1e4, 1.0])
    found = Admm().solve(model, weights)
    assert found.certified
    assert found.route == "admm, tron"
    assert found.energy == pytest.approx(model.energy(found.y, weights), rel=1e-12)
    assert found.bound == pytest.approx(lower_bound(model, weights, found.dual), rel=1e-9)


def test_rounds_that_end_go_on_from_the_last():
    """A model that no other engine takes has the answer of all rounds."""
    model, weights = alike(40)
    squares = model_of(40, (1, np.arange(40)[:, None], 1.0, -0.3, 2, HINGE))
    sums = constrained(40)[1]
    mixed = united(40, [model, squares, sums])
    found, by_rounds = (
        Admm().solve(mixed, weights),
        AdmmState(mixed, weights).solve(1e-6, 1e-4, 25_000),
    )
    assert found.y.tobytes() == by_rounds.y.tobytes()
    assert (found.route, found.iterations) == ("admm", by_rounds.iterations)


def test_too_few_steps_prove_nothing():
    model, weights = alike(40)
    assert optimum(model, weights, np.zeros(40), np.full(40, 0.5), 3, 1e-4) is None


def test_a_step_of_a_dense_world_is_solved():
    model, weights = alike(200)
    world, each = IncrementalAdmm(weights), np.arange(200)
    world.step(np.arange(model.n_rows), model, added=each)
    cold = Admm().solve(model, weights)
    assert world.certificate.certified
    assert world.certificate.energy == pytest.approx(cold.energy, rel=1e-6)
    label = np.arange(200 * 199, 200 * 199 + 20)
    changed = replace(model.chosen(label), constant=np.full(20, 0.9))
    world.step(label, changed)
    after = model.constant.copy()
    after[label] = 0.9
    cold = Admm().solve(replace(model, constant=after), weights)
    assert world.certificate.certified
    assert world.certificate.energy == pytest.approx(cold.energy, rel=1e-6)
