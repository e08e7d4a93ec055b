"""Colour refinement against rounds over the whole graph."""

import time

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from onlinesrl.psl.kernels.color_refinement import Graph, partition, refine


def graph_of(n, edges):
    ends = sorted([(a, b, w) for a, b, w in edges] + [(b, a, w) for a, b, w in edges])
    table = np.array(ends, np.float64).reshape(-1, 3)
    start = np.searchsorted(table[:, 0], np.arange(n + 1))
    return Graph(start.astype(np.int64), table[:, 1].astype(np.int32), table[:, 2].copy())


def refined_in_rounds(n, edges, colour):
    """Every node's colour becomes its old one and its sums to the colours, until none is new."""
    adjacency = np.zeros((n, n))
    for a, b, w in edges:
        adjacency[a, b] += w
        adjacency[b, a] += w
    while True:
        sums = adjacency @ np.eye(n)[colour]
        keys = np.column_stack((colour, sums))
        found = np.unique(keys, axis=0, return_inverse=True)[1].reshape(-1)
        if found.max() == colour.max():
            return colour
        colour = found


@st.composite
def coloured_graphs(draw):
    n = draw(st.integers(1, 12))
    node = st.integers(0, n - 1)
    pairs = draw(st.lists(st.tuples(node, node).filter(lambda e: e[0] < e[1]), unique=True))
    edges = [(a, b, draw(st.sampled_from([-1.0, 1.0, 2.0]))) for a, b in pairs]
    colour = draw(st.lists(st.integers(0, 1), min_size=n, max_size=n))
    return n, edges, np.unique(colour, return_inverse=True)[1]


def same_partition(a, b):
    return len(set(zip(a, b, strict=True))) == len(set(a)) == len(set(b))


@given(coloured_graphs())
def test_the_coarsest_stable_colouring(problem):
    n, edges, colour = problem
    memory = partition(colour)
    count = refine(graph_of(n, edges), memory, int(colour.max()) + 1)

    assert same_partition(memory.colour, refined_in_rounds(n, edges, colour))
    assert count == len(set(memory.colour.tolist()))


def seconds_of_a_chain(n):
    graph = graph_of(n, [(i, i + 1, 1.0) for i in range(n - 1)])
    memory = partition(np.zeros(n, np.int64))
    before = time.process_time()
    count = refine(graph, memory, 1)
    assert count == (n + 1) // 2
    return time.process_time() - before


def test_a_chain_is_not_refined_in_rounds():
    """Rounds over everything would look at 10^10 edges here."""
    seconds_of_a_chain(10)

    assert seconds_of_a_chain(100_000) < 2.0
