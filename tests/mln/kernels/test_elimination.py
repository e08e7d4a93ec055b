"""Elimination orders, their room, and ties; best states are tested by `test_narrow.py` and the families."""

import numpy as np
import pytest

from onlinesrl.mln.ground.ground_mrf import network_of
from onlinesrl.mln.inference.brute_force import Brute
from onlinesrl.mln.kernels import elimination, elimination_order, ground_network
from tests.support.ground_mrfs import clause_model as model_of

LARGEST = 14
"""The atoms of a ring."""


def memory(net: ground_network.Network, arcs: int = 1 << 12, cells: int = 1 << 16):
    return elimination_order.structure_memory(len(net.var_of), len(net.row_len), arcs, cells)


def random_clauses(edges, rng: np.random.Generator) -> list:
    """For each set of atoms two clauses with random signs and weights of their own."""
    signed = [
        [int(a + 1) * int(rng.choice([-1, 1])) for a in atoms] for atoms in edges for _ in (0, 1)
    ]
    return list(zip(rng.normal(size=len(signed)).tolist(), signed, strict=True))


def grid(rows: int, columns: int) -> list[tuple[int, ...]]:
    cell = np.arange(rows * columns).reshape(rows, columns)
    across, down = (cell[:, :-1], cell[:, 1:]), (cell[:-1], cell[1:])
    return [
        *((a,) for a in cell.flat),
        *zip(across[0].flat, across[1].flat, strict=True),
        *zip(down[0].flat, down[1].flat, strict=True),
    ]


def status_of(edges, atoms: int, **room: int) -> int:
    model, _ = model_of(atoms, random_clauses(edges, np.random.default_rng(0)))
    net, _ = network_of(model)
    return elimination_order.structure(net, memory(net, **room))


def test_wide_graphs_are_told():
    clique = [(a, b) for a in range(30) for b in range(a)]

    assert status_of(clique, 30) == elimination_order.WIDE
    assert status_of(grid(20, 20), 400, arcs=1 << 14, cells=1 << 20) == elimination_order.WIDE
    assert status_of(grid(20, 4), 80) == elimination_order.SOLVED
    size = elimination_order.MAX_TABLE // 100  # two very large groups: known before they take room
    groups = [(True, [*range(size)]), (True, [*range(size, 2 * size)])]
    net, _ = network_of(model_of(2 * size, [(1.0, [-1, -(size + 1)])], groups)[0])
    assert elimination_order.structure(net, memory(net, cells=16)) == elimination_order.WIDE


def test_an_empty_hard_clause_is_a_contradiction():
    net, _ = network_of(model_of(2, [(None, [1]), (None, []), (1.0, [1, 2])])[0])
    assert elimination_order.structure(net, memory(net)) == elimination_order.CONTRADICTION


@pytest.mark.parametrize("room", [{"arcs": 2}, {"cells": 8}, {"arcs": 26, "cells": 60}])
def test_without_room_it_asks_for_more_and_with_it_solves(room):
    rng = np.random.default_rng(8)
    clauses = random_clauses([(a, (a + 1) % LARGEST) for a in range(LARGEST)], rng)
    model, weights = model_of(LARGEST, clauses)
    net, _ = network_of(model)
    arcs, cells = room.get("arcs", 1 << 10), room.get("cells", 1 << 10)

    asked = 0
    while (
        elimination_order.structure(net, st_ := memory(net, arcs, cells))
        == elimination_order.TABLES_FULL
    ):
        arcs, cells, asked = 2 * arcs, 2 * cells, asked + 1
    state = np.zeros(LARGEST + 1, np.uint8)
    elimination.eliminate(net, st_, weights, np.zeros(LARGEST + 1), state)

    assert asked > 0
    best = Brute().solve(model, weights)
    assert model.score(state[:LARGEST], weights) == pytest.approx(best.score, abs=1e-9)


def test_ties_go_to_none_and_then_to_the_first_value():
    model, ones = model_of(4, [(1.0, [1, 2])], [(False, [0, 1]), (True, [2, 3])])
    net, _ = network_of(model)
    tables = memory(net)
    assert elimination_order.structure(net, tables) == elimination_order.SOLVED
    for weight, best in ((0 * ones, [0, 0, 1, 0]), (ones, [1, 0, 1, 0])):
        state = np.zeros(len(net.var_of), np.uint8)
        elimination.eliminate(net, tables, weight, np.zeros(len(net.var_of)), state)
        assert state[:4].tolist() == best
