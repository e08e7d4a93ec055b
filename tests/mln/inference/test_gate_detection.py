"""Atoms that hard clauses define: found in the clauses, computed by search and sampling."""

import numpy as np
import pytest
from hypothesis import given

from onlinesrl.core.errors import ExampleError, Infeasible
from onlinesrl.mln.inference.clique_elimination import CliqueTables
from onlinesrl.mln.inference.exact_marginals import Exact
from onlinesrl.mln.inference.gate_detection import LEVELS, Gate, definitions
from onlinesrl.mln.inference.gibbs import Gibbs
from onlinesrl.mln.inference.maxwalksat import WalkSat
from onlinesrl.mln.inference.presolve import reduced
from onlinesrl.mln.query.world import load_world
from tests.support import plain_clauses
from tests.support.existential_programs import by_definition, programs
from tests.support.ground_mrfs import clause_model


def rows(*gates: Gate) -> list[tuple[int, ...]]:
    return [tuple(sorted(clause)) for gate in gates for clause in gate.clauses()]


def test_a_gate_is_found_in_its_clauses():
    gate = Gate(4, (1, -2, 3))
    assert sorted(rows(gate)) == [(-4, -2), (-4, 1), (-4, 3), (-3, -1, 2, 4)]
    (found,) = definitions([*rows(gate), (1, 2), (-1, 2, 3)], [False] * 4, LEVELS)
    assert (found.literal, set(found.inputs)) == (4, {1, -2, 3})
    assert definitions(rows(gate)[:-1], [False] * 4, LEVELS) == []
    assert definitions(rows(gate), [False, False, False, True], LEVELS) == []


@pytest.mark.parametrize(
    ("hard", "gates"),
    [
        ([(-3, 1, 2), (-1, 3), (-2, 3)], [(-3, {-1, -2})]),  # 3 <=> 1 v 2
        (  # 5 <=> 6 v 7 with 6 <=> 1 ^ 2 and 7 <=> 3 ^ 4, whose parts 5 follows from
            [*rows(Gate(6, (1, 2)), Gate(7, (3, 4))), (-5, 6, 7), (-2, -1, 5), (-4, -3, 5)],
            [(7, {3, 4}), (6, {1, 2}), (-5, {-6, -7})],
        ),
        (  # 4 <=> 1 v 2 v 3 and 5 <=> 4 ^ !1, which says 4 <=> 1 v 5 as well
            rows(Gate(-4, (-1, -2, -3)), Gate(5, (4, -1))),
            [(-4, {-1, -2, -3}), (5, {4, -1})],
        ),
    ],
)
def test_definitions_that_rest_on_others_are_found(hard, gates):
    found = definitions(hard, [False] * 7, LEVELS)
    assert [(gate.literal, set(gate.inputs)) for gate in found] == gates


def test_definitions_are_no_circle_and_rest_on_few_levels():
    chain = [Gate(n, (n + 1, n + 20)) for n in range(1, 9)]
    found = definitions(rows(*chain), [False] * 40, LEVELS)
    level: dict[int, int] = {}
    for gate in found:
        assert all(
            abs(x) not in {abs(g.literal) for g in found} or abs(x) in level for x in gate.inputs
        )
        level[abs(gate.literal)] = 1 + max(level.get(abs(x), 0) for x in gate.inputs)
    assert max(level.values()) == LEVELS
    exactly_one = [(1, 2, 3), (-2, -1), (-3, -1), (-3, -2)]
    assert [abs(gate.literal) for gate in definitions(exactly_one, [False] * 3, LEVELS)] == [3]


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


def test_a_move_takes_what_follows_along():
    """Satisfying ``d`` takes two moves of inputs; the definition is never broken on the way."""
    model, weights = clause_model(
        3, [(None, row) for row in map(list, rows(Gate(3, (1, 2))))] + [(2.0, [3])]
    )
    cl = reduced(model, weights).clauses
    assert (cl.drawn, cl.defining, sorted(cl.aim[cl.aim_start[3] :])) == (2, 3, [0, 2])
    found = WalkSat(flips=20).solve(model, weights)
    assert found.state.tolist() == [1, 1, 1]


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
    sampled = Gibbs(samples=10_000).marginals(world.model, world.weight).probability
    assert sampled == pytest.approx(exact, abs=0.025)


@given(programs())
def test_existentials_of_open_atoms(tmp_path_factory, text):
    expected = by_definition(text)
    path = tmp_path_factory.getbasetemp() / "program.mln"
    path.write_text(text)
    try:
        world = load_world(path, [], ["R", "Q", "F"])
    except ExampleError:  # an empty hard clause
        assert expected is None
        return
    names = [f"{name}({','.join(map(str, args))})" for name, args in world.atoms]
    for engine in (Exact(), CliqueTables()):
        try:
            found = engine.marginals(world.model, world.weight)
        except Infeasible:
            assert expected is None
            continue
        assert expected is not None
        exact = np.array([expected.probability[name] for name in names])
        assert found.probability[: len(names)] == pytest.approx(exact, abs=1e-9)
        if found.log_z is not None:
            assert found.log_z == pytest.approx(expected.log_z, abs=1e-9)
