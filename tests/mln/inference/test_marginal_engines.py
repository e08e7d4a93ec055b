"""Exact marginals and log Z: brute force, other systems' exact answers, and the choice of engine."""

import re

import numpy as np
import pytest
from hypothesis import given

from onlinesrl.core.errors import Infeasible
from onlinesrl.library.testing import check_marginal_engine, marginals_by_enumeration
from onlinesrl.mln.inference.components import components, restrict
from onlinesrl.mln.inference.exact_marginals import Exact, Narrow
from onlinesrl.mln.inference.gibbs import Gibbs
from onlinesrl.mln.inference.mcsat import McSat
from onlinesrl.mln.inference.protocols import Wide
from onlinesrl.mln.inference.registry import marginal_engine
from tests.support import recorded_networks
from tests.support.ground_mrfs import Problem, clause_model, listed, problems

CAVIAR = [
    (0, "21-Meet_WalkSplit.id1_id3"),
    (1, "27-Fight_OneManDown2.id2_id6"),
    (2, "24-Meet_Split.id0_id1"),
    (3, "19-Meet_WalkTogether1.id1_id2"),
]


@given(problems())
def test_elimination_agrees_with_enumeration(problem: Problem):
    check_marginal_engine(Exact(), problem.model, problem.weights, within=1e-9)


@given(problems())
def test_so_do_components_one_by_one(problem: Problem):
    check_marginal_engine(Narrow(McSat()), problem.model, problem.weights, within=1e-9)


@pytest.mark.parametrize("n", [10, 50, 100])
def test_friends_and_smokers(n):
    world = recorded_networks.friends_smokers(n)
    comment, exact = recorded_networks.answer(recorded_networks.WORLDS / f"fs{n}.marg.exact")

    found = Exact().marginals(world.model, world.weights)

    assert set(world.names) == set(exact)
    assert found.probability == pytest.approx(world.by_name(exact), abs=1e-6)
    assert log_z_of_connected(world) == pytest.approx(float(comment.split()[-1]), rel=1e-9)
    assert (found.route, found.samples) == ("exact", 0)


def log_z_of_connected(world: recorded_networks.Network) -> float:
    """Log Z in costs, of the atoms that share a clause with another one, as the exact answers have it.

    Theirs leaves out what evidence violates and the atoms on their own.
    """
    total = 0.0
    for atoms, clauses in components(world.model, np.ones(world.model.n_clauses, np.uint8)):
        if len(atoms) > 1:
            part = restrict(world.model, atoms, clauses)
            log_z = Exact().marginals(part, world.weights[clauses]).log_z
            assert log_z is not None
            total += log_z - world.weights[clauses].sum()
    return total


@pytest.mark.parametrize(("fold", "pair"), CAVIAR)
def test_caviar(fold, pair):
    case = recorded_networks.caviar("DN_HI", fold, pair)
    _, exact = recorded_networks.exact("DN_HI", fold, pair, "marg")

    found = Exact().marginals(case.model, case.weights)

    assert found.probability == pytest.approx(case.by_name(exact), abs=1e-6)


def test_a_long_chain_against_its_transfer_matrices():
    """log Z and marginals where exp overflows: 2000 atoms, weights of 10."""
    n = 2_000
    clauses = [(10.0, [-a, a + 1]) for a in range(1, n)] + [(0.3, [a]) for a in range(1, n + 1)]
    found = Exact().marginals(*clause_model(n, clauses))

    step = np.exp([[10.0, 10.0], [0.0, 10.0]]) * np.exp([0.0, 0.3])
    log_z, message = 0.0, np.exp([0.0, 0.3])
    for _ in range(n - 1):
        message = message @ step
        log_z += np.log(message.sum())
        message /= message.sum()
    assert found.log_z == pytest.approx(log_z, rel=1e-12)
    assert found.probability[-1] == pytest.approx(message[1], rel=1e-9)


def test_wide_tables_are_refused():
    with pytest.raises(Wide):
        Exact().marginals(*dense(30))


def dense(n: int, first: int = 1):
    atoms = range(first, first + n)
    return clause_model(n, [(0.1, [a, -b]) for a in atoms for b in atoms if a != b])


def test_the_choice_is_by_component_and_said():
    """A dense component of 30 atoms beside a chain of three."""
    wide = [(0.01, [a, -b]) for a in range(1, 31) for b in range(1, 31) if a != b]
    chain = [(1.0, [-31, 32]), (1.0, [-32, 33]), (1.0, [31])]
    both, alone = clause_model(33, wide + chain), clause_model(30, wide)
    narrow = clause_model(3, [(1.0, [-1, 2]), (1.0, [-2, 3]), (1.0, [1])])

    found = marginal_engine("exact").marginals(*both)
    exact = marginals_by_enumeration(*narrow)

    assert (found.route, found.log_z, found.samples) == ("exact+mcsat", None, 1_000)
    assert found.probability[30:] == pytest.approx(exact.probability, abs=1e-12)
    assert found.probability[:30] == pytest.approx(np.full(30, 0.5), abs=0.1)
    assert marginal_engine("exact").marginals(*alone).route == "mcsat"
    assert marginal_engine("exact").marginals(*narrow).route == "exact"
    model, weights = both
    # clauses of zero weight connect nothing
    assert marginal_engine("exact").marginals(model, 0 * weights).route == "exact"
    assert marginal_engine("exact").marginals(model, 0 * weights).log_z == pytest.approx(
        33 * np.log(2)
    )


def test_methods_by_name():
    model, weights = clause_model(1, [(0.5, [1])])

    for name, sampler in (("mcsat", McSat(seed=4)), ("gibbs", Gibbs(seed=4))):
        named, own = (e.marginals(model, weights) for e in (marginal_engine(name, 4), sampler))
        assert (named.route, named.probability) == (own.route, own.probability)
    assert marginal_engine("exact").marginals(*clause_model(0, [])).log_z == 0.0


@pytest.mark.parametrize("engine", [Exact(), Narrow(McSat()), McSat(), Gibbs()])
def test_an_empty_hard_clause_has_no_state(engine):
    with pytest.raises(Infeasible):
        engine.marginals(*clause_model(1, [(None, []), (1.0, [1])]))


def test_the_tiny_worlds():
    """Worlds with answers by hand: n atoms of weight w; exactly one of six values."""
    lines = recorded_networks.here(recorded_networks.WORLDS / "tiny.exact").read_text().splitlines()
    exact = {m[1]: float(m[2]) for m in (re.match(r"(\w+) .* ([\d.]+)$", x) for x in lines) if m}
    heads, ones = clause_model(1, [(1.0, [1])])
    outcome = clause_model(6, [], [(True, range(6))])

    assert Exact().marginals(heads, 0 * ones).probability[0] == exact["uniform"]
    assert Exact().marginals(heads, ones).probability[0] == pytest.approx(exact["binomial"])
    probability = Exact().marginals(*outcome).probability
    assert probability == pytest.approx(np.full(6, exact["multinomial"]), abs=1e-8)


@given(problems(max_atoms=6))
def test_probabilities_are_the_derivatives_of_log_z(problem: Problem):
    """Expected features are d log Z / d w: what learning by gradient rests on."""
    try:
        Exact().marginals(problem.model, problem.weights)
    except Infeasible:
        return
    n, (clauses, groups) = problem.model.n_atoms, listed(problem)
    z = [
        Exact().marginals(
            *clause_model(n, [*clauses, *((h, [a]) for a in range(1, n + 1))], groups)
        )
        for h in (-1e-4, 0.0, 1e-4)
    ]
    assert z[0].log_z is not None
    assert z[2].log_z is not None
    assert (z[2].log_z - z[0].log_z) / 2e-4 == pytest.approx(z[1].probability.sum(), abs=1e-5)
