"""Elimination orders and max-sum elimination, against brute force, dynamic programs and arithmetic."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinesrl.ground.convert import clause_model, network_of
from onlinesrl.ground.model import validate
from onlinesrl.infer.brute import Brute
from onlinesrl.infer.engine import Infeasible
from onlinesrl.kernels import elimination, network
from tests.infer.models import Problem, problems
from tests.infer.models import clause_model as model_of

LARGEST = 14
"""Atoms that brute force is asked for."""


def memory(net: network.Network, arcs: int = 1 << 12, cells: int = 1 << 16):
    return elimination.structure_memory(len(net.var_of), len(net.row_len), arcs, cells)


def table(weights) -> np.ndarray:
    """Weights as the kernels read them: base, u, v."""
    return np.column_stack([weights, np.zeros(len(weights)), np.zeros(len(weights))])


def maximise(net: network.Network, weights, bonus=None):
    """Return the value that elimination reports and its state."""
    st_ = memory(net)
    assert elimination.structure(net, st_) == elimination.SOLVED
    state = np.zeros(len(net.var_of), np.uint8)
    bonus = np.zeros(len(net.var_of)) if bonus is None else bonus
    found = elimination.eliminate(net, st_, table(weights), 0.0, 0.0, bonus, state)
    return found, state[: net.size[network.ATOMS]]


def agrees_with_brute_force(net: network.Network, weights, bonus) -> None:
    model, used = clause_model(net)
    validate(model)
    found, state = maximise(net, weights, np.append(bonus, 0.0))
    own = np.asarray(weights)[used]
    try:
        best = Brute().solve(model, own, bonus=bonus)
    except Infeasible:
        assert found == -np.inf
        return
    assert found > -np.inf
    assert model.feasible(state)
    score = model.score(state, own) + bonus[state == 1].sum()
    assert score == pytest.approx(best.score, abs=1e-9)
    second = Brute().second_best(model, own, best.state, bonus)
    if second is None or second.score < best.score - 1e-6:
        assert state.tolist() == best.state.tolist()


@st.composite
def networks(draw: st.DrawFn):
    """Runs of clauses over variables of one to four values, some atoms fixed, some rows hard."""
    sizes = draw(st.lists(st.sampled_from([1, 1, 2, 3]), min_size=1, max_size=7))
    atoms, rows = sum(sizes), draw(st.integers(0, 8))
    net = network.network(atoms + 1, rows + 1, 8 * rows + 8)
    start = np.cumsum([0, *sizes])
    net.var_start[: len(sizes) + 1] = start
    net.var_of[:atoms] = np.repeat(np.arange(len(sizes)), sizes)
    net.exactly[: len(sizes)] = [draw(st.integers(0, 3)) == 0 for _ in sizes]
    net.fixed[:atoms] = [draw(st.sampled_from([0] * 6 + [1, 2])) for _ in range(atoms)]
    at = 0
    for row in range(rows):
        length = draw(st.integers(1, min(3, atoms)))
        for _ in range(draw(st.integers(1, 4))):
            step = draw(st.sampled_from([0, 1])) if length > 1 else 0
            net.lit_atom[at] = draw(st.integers(0, atoms - 1 - step * (length - 1)))
            net.lit_step[at], net.lit_positive[at] = step, draw(st.integers(0, 1))
            at += 1
        hard = draw(st.integers(0, 5)) == 0
        net.row_len[row], net.row_weight[row] = length, -1 if hard else draw(st.integers(0, 6))
        net.row_step[row], net.row_sign[row] = (
            draw(st.integers(0, 1)),
            draw(st.sampled_from([1, -1])),
        )
        net.lit_start[row + 1] = at
    net.size[:] = atoms, len(sizes), rows, at, 0, atoms
    weights = draw(st.lists(st.floats(-5, 5, width=16), min_size=9, max_size=9))
    bonus = draw(st.lists(st.sampled_from([-1.0, 0.0, 1.0]), min_size=atoms, max_size=atoms))
    return net, np.array(weights), np.array(bonus)


@given(networks())
def test_runs_and_groups_agree_with_brute_force(case):
    agrees_with_brute_force(*case)


@given(problems(max_atoms=LARGEST - 4))
def test_models_agree_with_brute_force(problem: Problem):
    """Generic clauses of up to four literals, hard clauses, groups in any order."""
    net, order = network_of(problem.model)
    bonus = np.zeros(problem.model.n_atoms) if problem.bonus is None else problem.bonus
    agrees_with_brute_force(net, problem.weights, bonus[order])


def random_clauses(edges, rng: np.random.Generator) -> list:
    """For each set of atoms two clauses with random signs and weights of their own."""
    return [
        (2 * k + twice, 1.0, [int(a + 1) * int(rng.choice([-1, 1])) for a in atoms])
        for k, atoms in enumerate(edges)
        for twice in (0, 1)
    ]


def grid(rows: int, columns: int) -> list[tuple[int, ...]]:
    cell = np.arange(rows * columns).reshape(rows, columns)
    across, down = (cell[:, :-1], cell[:, 1:]), (cell[:-1], cell[1:])
    return [
        *((a,) for a in cell.flat),
        *zip(across[0].flat, across[1].flat, strict=True),
        *zip(down[0].flat, down[1].flat, strict=True),
    ]


SHAPES = {
    "chain": [(a, a + 1) for a in range(LARGEST - 1)],
    "tree": [(a, (a - 1) // 2) for a in range(1, LARGEST)],
    "star": [(0, a) for a in range(1, LARGEST)],
    "ring": [(a, (a + 1) % LARGEST) for a in range(LARGEST)],
    "grid": grid(3, 4),
    "clique": [(a, b) for a in range(8) for b in range(a)],
    "triples": [(a, a + 1, a + 2) for a in range(LARGEST - 2)],
    "fives": [(a, a + 1, a + 2, a + 4, a + 5) for a in range(LARGEST - 5)],
    "apart": [(a, a + 1) for a in range(0, LARGEST, 2)],
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", range(3))
def test_every_shape_of_graph_is_solved(shape, seed):
    rng = np.random.default_rng(seed)
    edges = [*SHAPES[shape], *((a,) for a in range(LARGEST))]
    clauses = random_clauses(edges, rng)
    hard = [(-1, 1.0, [1, -3]), (-1, 1.0, [2, 4])] if seed == 2 else []
    groups = [(False, [5, 6]), (True, [0, 1, 2])] if seed == 1 else []
    model = model_of(LARGEST, [*clauses, *hard], groups)
    net, order = network_of(model)

    bonus = rng.choice([-1.0, 1.0], LARGEST)
    agrees_with_brute_force(net, rng.normal(size=len(clauses)), bonus[order])


def test_a_grid_of_width_four_equals_its_column_by_column_program():
    """4 x 30 atoms: the columns' 16 states one after the other."""
    rng, length = np.random.default_rng(5), 30
    edges = grid(length, 4)
    clauses = random_clauses(edges, rng)
    weights = rng.normal(size=len(clauses))
    model = model_of(4 * length, clauses)
    bits = (np.arange(16)[:, None] >> np.arange(4)) & 1

    best = np.zeros(16)
    for row in range(length):
        scores = np.zeros((16, 16))
        for index, sign, literals in clauses:
            atoms = [abs(x) - 1 for x in literals]
            if max(atoms) // 4 != row:
                continue
            true = np.zeros((16, 16), bool)
            for x, a in zip(literals, atoms, strict=True):
                holds = bits[:, a % 4] == (x > 0)
                true |= holds[None, :] if a // 4 == row else holds[:, None]
            scores += sign * weights[index] * true
        best = (best[:, None] + scores).max(axis=0)

    _, state = maximise(network_of(model)[0], weights)
    assert model.score(state, weights) == pytest.approx(best.max(), abs=1e-9)


def test_a_star_of_a_thousand_leaves():
    """Given the centre the leaves are free of each other."""
    rng, leaves = np.random.default_rng(6), 1000
    model = model_of(
        leaves + 1,
        [(k, 1.0, [1, -(k + 2)]) for k in range(leaves)]
        + [(leaves + k, 1.0, [k + 2]) for k in range(leaves)],
    )
    pair, own = rng.normal(size=(2, leaves))

    _, state = maximise(network_of(model)[0], np.concatenate([pair, own]))

    centre_true = pair.sum() + np.maximum(own, 0).sum()
    centre_false = np.maximum(own, pair).sum()
    expected = max(centre_true, centre_false)
    score = model.score(state, np.concatenate([pair, own]))
    assert score == pytest.approx(expected, abs=1e-9)
    assert state[0] == (centre_true > centre_false)


def test_a_long_chain_of_labels_equals_viterbi():
    """Three labels or none a token, as in segmentation; runs as the grounding writes them."""
    rng, tokens, labels = np.random.default_rng(7), 400, 3
    net = network.network(tokens * labels + 1, 2 * tokens * labels + 1, 4 * tokens * labels + 1)
    net.var_start[: tokens + 1] = labels * np.arange(tokens + 1)
    net.var_of[: tokens * labels] = np.repeat(np.arange(tokens), labels)
    row = at = 0
    for i in range(tokens):
        net.lit_atom[at], net.lit_step[at], net.lit_positive[at] = labels * i, 1, 1
        net.row_len[row], net.row_weight[row], net.row_step[row] = labels, labels * i, 1
        row, at = row + 1, at + 1
        net.row_sign[row - 1], net.lit_start[row] = 1.0, at
        if i + 1 < tokens:
            net.lit_atom[at : at + 2] = labels * i, labels * (i + 1)
            net.lit_step[at : at + 2], net.lit_positive[at : at + 2] = 1, (0, 1)
            net.row_len[row], net.row_weight[row], net.row_step[row] = labels, labels * tokens, 1
            row, at = row + 1, at + 2
            net.row_sign[row - 1], net.lit_start[row] = 1.0, at
    net.size[:] = tokens * labels, tokens, row, at, 0, tokens * labels
    own = rng.normal(size=(tokens, labels))
    stay = rng.normal(size=labels)

    follows = np.tile(stay.sum(), (labels + 1, labels + 1))  # !InField(i, f) v InField(i + 1, f)
    for f in range(labels):
        follows[f + 1, [g for g in range(labels + 1) if g != f + 1]] -= stay[f]
    padded = np.column_stack([np.zeros(tokens), own])
    best = padded[0]
    for i in range(1, tokens):
        best = (best[:, None] + follows).max(axis=0) + padded[i]

    weights = np.concatenate([own.ravel(), stay])
    _, state = maximise(net, weights)
    score = network.soft_score(net, np.append(state, 0).astype(np.uint8), table(weights), 0.0, 0.0)
    assert score == pytest.approx(best.max(), abs=1e-9)


def status_of(edges, atoms: int, **room: int) -> int:
    model = model_of(atoms, random_clauses(edges, np.random.default_rng(0)))
    net, _ = network_of(model)
    return elimination.structure(net, memory(net, **room))


def test_wide_graphs_are_told():
    clique = [(a, b) for a in range(30) for b in range(a)]

    assert status_of(clique, 30) == elimination.WIDE
    assert status_of(grid(20, 20), 400, arcs=1 << 14, cells=1 << 20) == elimination.WIDE
    assert status_of(grid(20, 4), 80) == elimination.SOLVED


def test_a_pair_of_very_large_groups_is_wide_before_it_takes_room():
    size = elimination.MAX_TABLE // 100
    atoms = [list(range(size)), list(range(size, 2 * size))]
    model = model_of(2 * size, [(0, 1.0, [-1, -(size + 1)])], [(True, group) for group in atoms])
    net, _ = network_of(model)

    assert elimination.structure(net, memory(net, cells=16)) == elimination.WIDE


@pytest.mark.parametrize("room", [{"arcs": 2}, {"cells": 8}, {"arcs": 26, "cells": 60}])
def test_without_room_it_asks_for_more_and_with_it_solves(room):
    rng = np.random.default_rng(8)
    clauses = random_clauses(SHAPES["ring"], rng)
    model, weights = model_of(LARGEST, clauses), rng.normal(size=len(clauses))
    net, _ = network_of(model)
    arcs, cells = room.get("arcs", 1 << 10), room.get("cells", 1 << 10)

    asked = 0
    while elimination.structure(net, st_ := memory(net, arcs, cells)) == elimination.TABLES_FULL:
        arcs, cells, asked = 2 * arcs, 2 * cells, asked + 1
    state = np.zeros(LARGEST + 1, np.uint8)
    elimination.eliminate(net, st_, table(weights), 0.0, 0.0, np.zeros(LARGEST + 1), state)

    assert asked > 0
    best = Brute().solve(model, weights)
    assert model.score(state[:LARGEST], weights) == pytest.approx(best.score, abs=1e-9)


def test_weights_are_read_with_their_scale():
    """A weight is base + cu u + cv v."""
    net, _ = network_of(model_of(1, [(0, 1.0, [1])]))
    st_, state = memory(net), np.zeros(2, np.uint8)
    assert elimination.structure(net, st_) == elimination.SOLVED
    weights = np.array([[1.0, 2.0, -4.0]])

    for cu, cv in ((0.0, 0.0), (-1.0, 0.0), (0.5, 1.0), (0.5, 0.25)):
        elimination.eliminate(net, st_, weights, cu, cv, np.zeros(2), state)
        total = 1.0 + 2.0 * cu - 4.0 * cv
        assert state[0] == (total > 0)
        assert network.soft_score(net, state, weights, cu, cv) == state[0] * total


def test_ties_go_to_none_and_then_to_the_first_value():
    model = model_of(4, [(0, 1.0, [1, 2])], [(False, [0, 1]), (True, [2, 3])])
    net, _ = network_of(model)

    assert maximise(net, [0.0])[1].tolist() == [0, 0, 1, 0]
    assert maximise(net, [1.0])[1].tolist() == [1, 0, 1, 0]
