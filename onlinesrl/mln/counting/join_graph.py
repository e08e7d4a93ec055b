"""Join graphs whose clusters have at most i variables, by the mini-bucket schema (Mateescu et al. 2010)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from onlinesrl.mln.counting.elimination_order import Scope, min_fill


class Edge(NamedTuple):
    """Two clusters, the first eliminated earlier, and the variables that they tell each other about."""

    a: int
    b: int
    label: Scope


@dataclass(frozen=True)
class JoinGraph:
    """Clusters: their variables, and the factors that each has; and edges.

    The clusters that have a variable are a tree by the edges whose labels have it.
    """

    scopes: tuple[Scope, ...]
    factors: tuple[tuple[int, ...], ...]
    edges: tuple[Edge, ...]


class _Item(NamedTuple):
    """A factor, or the message of a cluster, on its way into a bucket."""

    scope: Scope
    factor: int | None
    cluster: int | None


@cache
def join_graph(scopes: tuple[Scope, ...], bound: int) -> JoinGraph:
    """Return the join graph of factors with at least one variable.

    A cluster has at most ``bound`` variables, or those of one factor if that has more. If the bound is the
    width of the order plus one, the graph is a tree, and propagation exact.
    """
    order, _ = min_fill(scopes)
    place = {v: k for k, v in enumerate(order)}
    buckets: dict[str, list[_Item]] = {v: [] for v in order}
    for k, scope in enumerate(scopes):
        buckets[min(scope, key=place.__getitem__)].append(_Item(scope, k, None))
    found: list[tuple[Scope, tuple[int, ...]]] = []
    edges: list[Edge] = []
    for v in order:
        first = len(found)
        for items in _mini_buckets(buckets[v], bound):
            u = len(found)
            scope = tuple(dict.fromkeys(name for item in items for name in item.scope))
            found.append((scope, tuple(i.factor for i in items if i.factor is not None)))
            edges += [Edge(i.cluster, u, i.scope) for i in items if i.cluster is not None]
            edges += [Edge(u - 1, u, (v,))] if u > first else []
            if rest := tuple(name for name in scope if name != v):
                buckets[min(rest, key=place.__getitem__)].append(_Item(rest, None, u))
    return JoinGraph(tuple(s for s, _ in found), tuple(f for _, f in found), tuple(edges))


def _mini_buckets(items: Sequence[_Item], bound: int) -> list[list[_Item]]:
    """Put each item, the larger first, where it fits."""
    parts: list[tuple[set[str], list[_Item]]] = []
    for item in sorted(items, key=lambda each: -len(each.scope)):
        for names, inside in parts:
            if len(names | {*item.scope}) <= max(bound, len(names)):
                names |= {*item.scope}
                inside.append(item)
                break
        else:
            parts.append(({*item.scope}, [item]))
    return [inside for _, inside in parts]
