"""Every engine of marginals: against enumeration and arithmetic."""

import numpy as np
import pytest
from hypothesis import given

from onlinesrl.core.errors import Infeasible
from onlinesrl.mln.inference.clique_elimination import CliqueTables
from onlinesrl.mln.inference.exact_marginals import Exact
from onlinesrl.mln.inference.gate_detection import Gate
from onlinesrl.mln.inference.gibbs import Gibbs
from onlinesrl.mln.inference.mcsat import McSat
from onlinesrl.mln.inference.protocols import Wide
from onlinesrl.mln.inference.registry import marginal_engine
from onlinesrl.testing import check_marginal_engine, marginals_by_enumeration
from tests.support.ground_mrfs import Clause, Problem, clause_model, defined_problems, problems

EXACT = [Exact(), Exact(McSat()), CliqueTables()]
SHORT = [McSat(samples=20, burn_in=5, flips=200), Gibbs(samples=20, burn_in=5)]


def name_of(engine: object) -> str:
    return type(engine).__name__


@pytest.mark.parametrize("engine", EXACT, ids=name_of)
@given(problem=problems() | defined_problems())
def test_exact_engines_agree_with_enumeration(engine, problem: Problem):
    check_marginal_engine(engine, problem.model, problem.weights, within=1e-9)


@pytest.mark.parametrize("engine", SHORT, ids=name_of)
@given(problem=problems() | defined_problems())
def test_the_contract_of_samplers(engine, problem: Problem):
    check_marginal_engine(engine, problem.model, problem.weights)


@pytest.mark.parametrize("engine", [*EXACT, *SHORT], ids=name_of)
def test_clauses_without_a_choice_are_constants(engine):
    with pytest.raises(Infeasible):
        engine.marginals(*clause_model(1, [(None, []), (1.0, [1])]))
    if engine in EXACT:
        found = engine.marginals(*clause_model(2, [(0.7, [1, 2]), (0.3, [-1])], [(True, [0])]))
        assert found.probability == pytest.approx([1.0, 0.5])
        assert found.log_z == pytest.approx(0.7 + np.log(2))


PARITY = [(None, x) for x in ([1, 2, 3], [1, -2, -3], [-1, 2, -3], [-1, -2, 3])]
"""An odd number of three: no two of the four states differ in one atom."""
CYCLE = [(None, [-1, 2]), (None, [-2, 3]), (None, [-3, 1])]

MODELS = {
    "a unit": (1, [(1.2, [1])], []),
    "a unit below 0": (1, [(-1.2, [1])], []),
    "an implication": (2, [(0.7, [1]), (1.5, [-1, 2]), (1.0, [-2])], []),
    "equivalence": (2, [(0.7, [1]), (1.5, [-1, 2]), (1.5, [1, -2])], []),
    "below 0": (3, [(-1.3, [1, 2]), (0.8, [-2, 3]), (-0.8, [1, 3])], []),
    "nearly hard": (2, [(9.0, [1, 2]), (9.0, [-1, -2]), (0.5, [1])], []),
    "parity": (3, [*PARITY, (0.5, [1]), (-0.8, [2, 3])], []),
    "cycle": (3, [*CYCLE, (0.4, [1]), (0.4, [2])], []),
    "exactly one": (4, [(0.9, [1]), (1.4, [-2, 4]), (0.9, [2, 3])], [(True, [0, 1, 2])]),
    "at most one": (4, [(0.9, [1]), (1.4, [-2, 4]), (-0.9, [3, 4])], [(False, [0, 1, 2])]),
    "two groups": (6, [(1.5, [-1, 4]), (1.5, [-2, 5]), (None, [-3, -6]), (0.7, [3])],
                   [(True, [0, 1, 2]), (False, [3, 4, 5])]),
    "a group of one": (2, [(1.1, [-1, 2])], [(True, [0])]),
    "a chain": (8, [(None, [-a, a + 1]) for a in range(1, 8)] + [(1.0, [1]), (-1.5, [8])], []),
}  # fmt: skip  # fmt: skip


HARD_TO_CROSS = {"cycle", "nearly hard"}


@pytest.mark.parametrize(
    ("engine", "name"),
    [(McSat(samples=10_000), name) for name in MODELS]
    + [(Gibbs(samples=25_000), name) for name in MODELS if name not in HARD_TO_CROSS],
)
def test_small_models_to_within_sampling_error(engine, name):
    check_marginal_engine(engine, *clause_model(*MODELS[name]), within=0.02)


def test_a_search_from_random_states_is_fair():
    """SampleSAT alone: of two solutions that mirror each other neither is found more often."""
    engine = McSat(samples=20_000, jump=1.0, sweeps=1)
    check_marginal_engine(engine, *clause_model(*MODELS["equivalence"]), 0.012)


# arithmetic, and the choice of an engine ---------------------------------------------------------


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


def pairs(n: int) -> list[Clause]:
    """Definitions of one atom for each pair of n, soft ones on them, all in one long clause."""
    defined = [(a, b) for a in range(1, n + 1) for b in range(1, a)]
    gates = [Gate(n + 1 + i, (a, -b)) for i, (a, b) in enumerate(defined)]
    hard: list[Clause] = [(None, list(row)) for gate in gates for row in gate.clauses()]
    names = [gate.literal for gate in gates]
    return [*hard, *((0.3, [d]) for d in names), (2.0, names)]


def test_defined_atoms_do_not_widen():
    """Twelve atoms with 66 defined ones: too wide clause by clause, 4096 states by themselves."""
    n = 12
    found = Exact().marginals(*clause_model(n + n * (n - 1) // 2, pairs(n)))
    mass = np.zeros(1 << n)
    states = np.arange(1 << n)
    true = np.array([states >> a & 1 for a in range(n)])
    one = np.array([true[a] & ~true[b] & 1 for a in range(n) for b in range(a)])
    mass = np.exp(0.3 * one.sum(axis=0) + 2.0 * one.any(axis=0))

    assert found.route == "exact"
    assert found.log_z == pytest.approx(np.log(mass.sum()), abs=1e-9)
    assert found.probability[:n] == pytest.approx((true * mass).sum(axis=1) / mass.sum(), abs=1e-9)
    assert found.probability[n:] == pytest.approx((one * mass).sum(axis=1) / mass.sum(), abs=1e-9)


WIDE: list[Clause] = [(0.01, [a, -b]) for a in range(1, 31) for b in range(1, 31) if a != b]


def test_tables_too_large_are_refused():
    for clauses in (WIDE, [(1.0, list(range(1, 31)))]):
        with pytest.raises(Wide):
            CliqueTables().marginals(*clause_model(30, clauses))
    with pytest.raises(Wide):
        Exact().marginals(*clause_model(30, WIDE))


def test_the_choice_is_by_component_and_said():
    """A dense component of 30 atoms beside a chain of three; clauses of weight 0 connect nothing."""
    chain = [(1.0, [-31, 32]), (1.0, [-32, 33]), (1.0, [31])]
    narrow = clause_model(3, [(1.0, [-1, 2]), (1.0, [-2, 3]), (1.0, [1])])
    model, weights = clause_model(33, WIDE + chain)
    engine = marginal_engine("exact")

    found, exact = engine.marginals(model, weights), marginals_by_enumeration(*narrow)
    free = engine.marginals(model, 0 * weights)

    assert (found.route, found.log_z, found.samples) == ("exact+mcsat", None, 1_000)
    assert found.probability[30:] == pytest.approx(exact.probability, abs=1e-12)
    assert found.probability[:30] == pytest.approx(np.full(30, 0.5), abs=0.1)
    assert engine.marginals(*clause_model(30, WIDE)).route == "mcsat"
    assert engine.marginals(*narrow).route == "exact"
    assert (free.route, free.log_z) == ("exact", pytest.approx(33 * np.log(2)))
    assert engine.marginals(*clause_model(0, [])).log_z == 0.0
