"""IJGP(i): its join graphs, and the loss of learning with it (theorem 1 of Sarkhel et al. 2016)."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinesrl.mln.counting.elimination_order import elimination, min_fill
from onlinesrl.mln.counting.ijgp import join_graph
from onlinesrl.mln.counting.program_counts import Counters
from onlinesrl.mln.counting.world import Table, World
from onlinesrl.mln.lang import reader

SCOPES = st.lists(
    st.lists(st.sampled_from("abcdefg"), min_size=1, max_size=3, unique=True).map(tuple), min_size=1
)


@settings(settings.get_profile("few"))
@given(SCOPES, st.integers(1, 8))
def test_a_join_graph(scopes, bound):
    graph = join_graph((*scopes,), bound)
    assert sorted(k for inside in graph.factors for k in inside) == [*range(len(scopes))]
    for scope, inside in zip(graph.scopes, graph.factors, strict=True):
        assert all({*scopes[k]} <= {*scope} for k in inside)
        assert len(scope) <= max(bound, *map(len, scopes))
    for v in {v for scope in scopes for v in scope}:
        clusters = {u for u, scope in enumerate(graph.scopes) if v in scope}
        edges = [(e.a, e.b) for e in graph.edges if v in e.label]
        assert {u for edge in edges for u in edge} <= clusters
        assert len(edges) == len(clusters) - 1
        reached = {min(clusters)}
        for _ in clusters:
            reached |= {u for edge in edges if reached & {*edge} for u in edge}
        assert reached == clusters
    _, width = min_fill(scopes)
    if bound > width:
        assert len(graph.edges) < len(graph.scopes)  # a tree, or several


@settings(settings.get_profile("few"))
@given(SCOPES, st.sets(st.sampled_from("abcdefg"), max_size=2))
def test_elimination_leaves_what_is_kept(scopes, keep):
    live = dict(enumerate(scopes))
    for k, step in enumerate(elimination(scopes, keep)):
        joined = {v for i in step.inputs for v in live.pop(i)}
        gone = joined - {*step.scope}
        assert not gone & {v for scope in live.values() for v in scope}
        assert not gone & keep
        live[len(scopes) + k] = step.scope
    assert {v for scope in live.values() for v in scope} <= keep


def test_acyclic_factors_are_never_joined_to_larger_ones():
    scopes = [("a", "b"), ("b", "c"), ("c", "d", "e"), ("d", "e"), ("c", "f")]
    assert all(len(step.scope) <= 3 for step in elimination(scopes))
    for step in elimination(scopes):
        assert any({*step.scope} <= {*scope} for scope in scopes)


# theorem 1 ---------------------------------------------------------------------------------------

MODELS = {
    "cycle": "!F(x, y) v !F(y, z) v !F(z, x)\nF(x, y)",
    "transitive": "F(x, y) ^ F(y, z) => F(x, z)\n!F(x, y)",
    "square": "F(x, y) ^ F(y, z) ^ F(z, w) ^ F(w, x) => x = z\nF(x, x)",
}


def worlds():
    """All worlds of two people and one relation."""
    for bits in itertools.product([0, 1], repeat=4):
        table = Table(np.argwhere(np.reshape(bits, (2, 2))), ("person", "person"))
        yield World({"person": ("A", "B")}, {"F": table})


def counts(counters):
    return np.array([[float(n) for n in counters.counts(world)] for world in worlds()])


def likelihood(weights, features, world):
    scores = features @ weights
    return scores[world] - np.logaddexp.reduce(scores)


def optimum(features, world):
    """The likeliest weights, from 0 to 3: the theorem is stated for weights that are not negative."""
    start, bounds = np.ones(features.shape[1]), [(0, 3)] * features.shape[1]
    minimize = pytest.importorskip("scipy.optimize").minimize
    return minimize(lambda w: -likelihood(w, features, world), start, bounds=bounds).x


@pytest.mark.parametrize("model", MODELS)
def test_the_bound_of_theorem_1(model):
    program = reader.parse("F(person, person)\n" + MODELS[model])
    exact, estimated = counts(Counters(program)), counts(Counters(program, "ijgp", 1))
    epsilon = np.abs(exact - estimated).max()
    assert epsilon > 0.01
    for world in range(len(exact)):
        alpha, beta = optimum(exact, world), optimum(estimated, world)
        for weights in (alpha, beta):  # lemma 1
            gap = likelihood(weights, exact, world) - likelihood(weights, estimated, world)
            assert abs(gap) <= 2 * epsilon * weights.sum() + 1e-6
        lost = likelihood(alpha, exact, world) - likelihood(beta, exact, world)
        assert lost <= 2 * epsilon * (alpha + beta).sum() + 1e-6
