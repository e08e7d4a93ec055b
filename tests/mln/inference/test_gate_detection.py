"""Atoms that hard clauses define: found in the clauses, computed by search and sampling, no width."""

import numpy as np
import pytest
from hypothesis import given, settings

from onlinesrl.core.errors import ExampleError, Infeasible
from onlinesrl.library.testing import check_map_engine, check_marginal_engine
from onlinesrl.mln.inference.clique_elimination import CliqueTables
from onlinesrl.mln.inference.exact_marginals import Exact
from onlinesrl.mln.inference.gate_detection import LEVELS, Gate, definitions
from onlinesrl.mln.inference.gibbs import Gibbs
from onlinesrl.mln.inference.maxwalksat import WalkSat
from onlinesrl.mln.inference.mcsat import McSat
from onlinesrl.mln.inference.presolve import reduced
from onlinesrl.mln.inference.protocols import Wide
from onlinesrl.mln.query.load_world import load_world
from tests.support import plain_clauses
from tests.support.existential_programs import by_definition, programs
from tests.support.ground_mrfs import Clause, Problem, clause_model, defined_problems, problems


def rows(*gates: Gate) -> list[tuple[int, ...]]:
    return [tuple(sorted(clause)) for gate in gates for clause in gate.clauses()]


def test_a_gate_is_found_in_its_clauses():
    gate = Gate(4, (1, -2, 3))
    assert sorted(rows(gate)) == [(-4, -2), (-4, 1), (-4, 3), (-3, -1, 2, 4)]
    (found,) = definitions([*rows(gate), (1, 2), (-1, 2, 3)], [False] * 4)
    assert (found.literal, set(found.inputs)) == (4, {1, -2, 3})
    assert definitions(rows(gate)[:-1], [False] * 4) == []
    assert definitions(rows(gate), [False, False, False, True]) == []


def test_a_disjunction_is_a_gate_of_the_negation():
    """3 <=> 1 v 2."""
    (found,) = definitions([(-3, 1, 2), (-1, 3), (-2, 3)], [False] * 3)
    assert (found.literal, set(found.inputs)) == (-3, {-1, -2})


def test_what_is_defined_by_conjunctions_written_out_is_found_as_well():
    """5 <=> 6 v 7 with 6 <=> 1 ^ 2 and 7 <=> 3 ^ 4, where 5 follows from the conjunctions' parts."""
    both = Gate(6, (1, 2)), Gate(7, (3, 4))
    found = definitions([*rows(*both), (-5, 6, 7), (-2, -1, 5), (-4, -3, 5)], [False] * 7)
    assert [gate.literal for gate in found] == [7, 6, -5]
    assert set(found[-1].inputs) == {-6, -7}


def test_definitions_are_no_circle_and_rest_on_few_levels():
    chain = [Gate(n, (n + 1, n + 20)) for n in range(1, 9)]
    found = definitions(rows(*chain), [False] * 40)
    level: dict[int, int] = {}
    for gate in found:
        assert all(
            abs(x) not in {abs(g.literal) for g in found} or abs(x) in level for x in gate.inputs
        )
        level[abs(gate.literal)] = 1 + max(level.get(abs(x), 0) for x in gate.inputs)
    assert max(level.values()) == LEVELS
    exactly_one = [(1, 2, 3), (-2, -1), (-3, -1), (-3, -2)]
    assert [abs(gate.literal) for gate in definitions(exactly_one, [False] * 3)] == [3]


def test_what_is_defined_may_be_what_another_is_defined_by():
    """4 <=> 1 v 2 v 3 and 5 <=> 4 ^ !1, which says 4 <=> 1 v 5 as well: both are computed."""
    both = Gate(-4, (-1, -2, -3)), Gate(5, (4, -1))
    found = definitions(rows(*both), [False] * 5)
    assert [(gate.literal, set(gate.inputs)) for gate in found] == [
        (-4, {-1, -2, -3}),
        (5, {4, -1}),
    ]


@given(plain_clauses.layouts())
def test_each_state_of_the_drawn_atoms_has_one_of_the_defined(problem):
    cl = problem.clauses
    drawn = len(cl.var_of) - cl.gates
    assert cl.drawn == len(cl.exactly) - cl.gates
    states = {s[:drawn].tobytes() for s in plain_clauses.states(cl)}
    assert len(states) == len(plain_clauses.states(cl))
    assert all(a >> 1 < drawn for a in cl.aim)
    for v in range(cl.drawn):
        assert all(cl.var_of[a] == v for a in range(cl.var_start[v], cl.var_start[v + 1]))


@pytest.mark.long
def test_layouts_have_definitions():
    """What the property tests of search and sampling draw from has defined atoms often enough."""
    counts = []

    @settings(max_examples=200)
    @given(plain_clauses.layouts())
    def draw(problem):
        counts.append(problem.clauses.gates)

    draw()
    assert sum(n > 0 for n in counts) > 20
    assert max(counts) > 1


# engines


@given(problems() | defined_problems())
def test_elimination_on_tables_agrees_with_enumeration(problem: Problem):
    check_marginal_engine(CliqueTables(), problem.model, problem.weights, within=1e-9)


@given(defined_problems())
def test_the_contracts(problem: Problem):
    check_marginal_engine(McSat(samples=20, burn_in=5, flips=200), problem.model, problem.weights)
    check_marginal_engine(Gibbs(samples=20, burn_in=5), problem.model, problem.weights)
    check_map_engine(WalkSat(flips=500), problem.model, problem.weights)


def pairs(n: int) -> list[Clause]:
    """Definitions of one atom for each pair of n, soft ones on them, all in one long clause."""
    all_pairs = [(a, b) for a in range(1, n + 1) for b in range(1, a)]
    defined = [(n + 1 + i, a, b) for i, (a, b) in enumerate(all_pairs)]
    hard = [(None, list(row)) for d, a, b in defined for row in rows(Gate(d, (a, -b)))]
    return [*hard, *((0.3, [d]) for d, *_ in defined), (2.0, [d for d, *_ in defined])]


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


def test_tables_too_large_are_refused():
    wide = [(1.0, [a, -b]) for a in range(1, 31) for b in range(1, 31) if a != b]
    for clauses in (wide, [(1.0, list(range(1, 31)))]):
        with pytest.raises(Wide):
            CliqueTables().marginals(*clause_model(30, clauses))


def test_a_move_takes_what_follows_along():
    """Satisfying ``d`` takes two moves of inputs; the definition is never broken on the way."""
    model, weights = clause_model(
        3, [(None, row) for row in map(list, rows(Gate(3, (1, 2))))] + [(2.0, [3])]
    )
    cl = reduced(model, weights).clauses
    assert (cl.drawn, cl.defining, sorted(cl.aim[cl.aim_start[3] :])) == (2, 3, [0, 2])
    found = WalkSat(flips=20).solve(model, weights)
    assert found.state.tolist() == [1, 1, 1]


# programs

LAYERED = """t = {1, 2, 3}
R(t)
F(t, t)
R(x) <=> (EXIST y F(x, y)).
0.7 R(x)
-1.2 F(x, y)
1 F(x, y) => F(y, x)
2 EXIST x (R(x) ^ !F(x, x))
"""
FORCED = """t = {1, 2, 3}
R(t)
Q(t)
F(t)
R(x) <=> (Q(x) ^ F(x)).
Q(x) <=> (!R(x) v F(x)).
1.1 Q(x) => F(x)
0.4 R(x) ^ R(y) ^ x != y
"""


@pytest.mark.parametrize("text", [LAYERED, FORCED])
def test_gibbs_moves_what_hard_rules_tie_together(tmp_path, text):
    """A definition of the program's that another definition uses; two that are a circle."""
    (tmp_path / "program.mln").write_text(text)
    names = [name for name in "RQF" if f"\n{name}(" in text]
    world = load_world(tmp_path / "program.mln", [], names)
    exact = Exact().marginals(world.model, world.weight).probability
    sampled = Gibbs(samples=20_000).marginals(world.model, world.weight).probability
    assert sampled == pytest.approx(exact, abs=0.02)


def agrees_with_the_definition(text: str, folder, sampled: bool) -> bool:
    """Whether there was an answer to compare: exact to 1e-9, sampled to within sampling error."""
    expected = by_definition(text)
    path = folder / "program.mln"
    path.write_text(text)
    try:
        world = load_world(path, [], ["R", "Q", "F"])
    except ExampleError:  # an empty hard clause
        assert expected is None
        return False
    names = [f"{name}({','.join(map(str, args))})" for name, args in world.atoms]
    engines = [(Exact(), 1e-9), (CliqueTables(), 1e-9)]
    engines += [(McSat(samples=10_000), 0.06)] if sampled else []
    for engine, within in engines:
        try:
            found = engine.marginals(world.model, world.weight)
        except Infeasible:
            assert expected is None
            continue
        assert expected is not None
        exact = np.array([expected.probability[name] for name in names])
        assert found.probability[: len(names)] == pytest.approx(exact, abs=within)
        if found.log_z is not None:
            assert found.log_z == pytest.approx(expected.log_z, abs=1e-9)
    return expected is not None


@settings(max_examples=25)
@given(programs())
def test_existentials_of_open_atoms(tmp_path_factory, text):
    agrees_with_the_definition(text, tmp_path_factory.getbasetemp(), sampled=False)


@pytest.mark.soak
def test_existentials_of_open_atoms_soak(tmp_path_factory, tally):
    folder = tmp_path_factory.mktemp("programs")

    @settings(max_examples=1_000)
    @given(programs())
    def draw(text):
        answered = agrees_with_the_definition(text, folder, sampled=True)
        tally[f"programs with existentials, {'answered' if answered else 'infeasible'}"] += 1

    draw()
