"""IJGP(i): its join graphs, and the order of elimination."""

from hypothesis import given, settings
from hypothesis import strategies as st

from onlinesrl.mln.counting.elimination_order import elimination, min_fill
from onlinesrl.mln.counting.ijgp import join_graph

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
