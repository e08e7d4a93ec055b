"""IJGP(i): approximate counts by propagation on a join graph (Mateescu et al. 2010; Sarkhel et al. 2016).

A conjunction is a network of factors of zeros and ones; the number of its solutions is estimated by the
product of what the clusters' beliefs sum to, divided by what the edges' do. Factors are dense: time and
memory grow with the domains to the power of the clusters' variables. Join graphs whose clusters have at
most i variables are made by the mini-bucket schema.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from math import exp, inf, log, prod
from typing import Any, NamedTuple

import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.logic.ast import Atom, Constant, Equal, Variable, free_variables
from onlinesrl.mln.counting.disjoint_conjunctions import SAME, Conjunction, Part, unify
from onlinesrl.mln.counting.elimination_order import Scope, min_fill
from onlinesrl.mln.counting.exact import Counter
from onlinesrl.mln.counting.factors import TooLarge
from onlinesrl.mln.counting.world import World

MAX_CELLS = 1 << 26
"""The most cells of a cluster: half a gigabyte."""
ITERATIONS = 10
CONVERGED = 1e-10
"""So little messages, which sum to 1, change at the end."""
NOT = "!"


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
    clusters: list[tuple[Scope, tuple[int, ...]]] = []
    edges: list[Edge] = []
    for v in order:
        first = len(clusters)
        for items in _mini_buckets(buckets[v], bound):
            u = len(clusters)
            scope = tuple(dict.fromkeys(name for item in items for name in item.scope))
            clusters.append((scope, tuple(i.factor for i in items if i.factor is not None)))
            edges += [Edge(i.cluster, u, i.scope) for i in items if i.cluster is not None]
            edges += [Edge(u - 1, u, (v,))] if u > first else []
            if rest := tuple(name for name in scope if name != v):
                buckets[min(rest, key=place.__getitem__)].append(_Item(rest, None, u))
    return JoinGraph(tuple(s for s, _ in clusters), tuple(f for _, f in clusters), tuple(edges))


def _mini_buckets(items: Sequence[_Item], bound: int) -> list[list[_Item]]:
    """Put each item, the larger first, where it fits."""
    parts: list[tuple[set[str], list[_Item]]] = []
    for item in sorted(items, key=lambda entry: -len(entry.scope)):
        for names, inside in parts:
            if len(names | {*item.scope}) <= max(bound, len(names)):
                names |= {*item.scope}
                inside.append(item)
                break
        else:
            parts.append(({*item.scope}, [item]))
    return [inside for _, inside in parts]


@dataclass(frozen=True)
class Network:
    """A conjunction as factors: atoms, false where their predicate has a ``!`` before it.

    Its solutions are counted for each constant of the variables to ``keep``.
    """

    atoms: tuple[Atom, ...]
    types: Mapping[str, str]
    free: tuple[str, ...]
    keep: tuple[str, ...]

    @cached_property
    def scopes(self) -> tuple[tuple[str, ...], ...]:
        """The variables of the factors that have any; the kept ones are a factor of ones."""
        return tuple(s for s in (*map(free_variables, self.atoms), self.keep) if s)

    def width(self) -> int:
        """Return the width of the min-fill order."""
        return min_fill(self.scopes)[1]

    def cells(self, world: World, bound: int) -> int:
        """Return the size of the largest cluster."""
        scopes = join_graph(self.scopes, bound).scopes
        return max((prod(self._sizes(world, s)) for s in scopes), default=1)

    def _sizes(self, world: World, scope: Sequence[str]) -> list[int]:
        return [world.size(self.types[v]) for v in scope]

    def solutions(self, world: World, bound: int) -> Floats:
        """Return the estimated numbers of solutions, with an axis for each kept variable."""
        sizes = self._sizes(world, self.keep)
        factors = []
        for atom in self.atoms:
            scope, sparse = world.factor(Atom(atom.predicate.removeprefix(NOT), atom.terms))
            dense = np.zeros(self._sizes(world, scope))
            if len(sparse.rows):
                dense[tuple(sparse.rows.T)] = 1.0
            factors.append((scope, 1.0 - dense if atom.predicate.startswith(NOT) else dense))
        constant = prod((float(f) for scope, f in factors if not scope), start=1.0)
        if constant == 0.0 or any(0 in self._sizes(world, scope) for scope in self.scopes):
            return np.zeros(sizes)
        inside = [factor for factor in (*factors, (self.keep, np.ones(sizes))) if factor[0]]
        total = _propagate(join_graph(self.scopes, bound), inside, self.keep)
        return total * prod(map(world.size, self.free))


def network(
    parts: Conjunction, types: Mapping[str, str], keep: tuple[str, ...] = ()
) -> Network | None:
    """Return the network of a conjunction whose variables have these types; None if it is false.

    Its solutions are counted for each constant of the variables to ``keep``. Raises Uncountable.
    """
    signed: list[Part] = []
    for part, true in parts:
        if true:
            signed.append(part)
        elif isinstance(part, Atom):
            signed.append(Atom(NOT + part.predicate, part.terms))
        else:
            sides = part.left, part.right
            type_ = next(types[side.name] for side in sides if isinstance(side, Variable))
            signed.append(Atom(NOT + SAME + type_, sides))
    unified = unify(signed, types, keep)
    if unified is None:
        return None
    return Network((*sorted(unified[0], key=repr),), types, unified[1], keep)


def check_memory(networks: Sequence[Network], world: World, bound: int) -> None:
    """Raise TooLarge, which says the largest bound that fits, if a cluster does not fit memory."""

    def cells(i: int) -> int:
        return max((net.cells(world, i) for net in networks), default=1)

    if (most := cells(bound)) > MAX_CELLS:
        fits = [i for i in range(1, bound) if cells(i) <= MAX_CELLS]
        raise TooLarge(
            f"with an i-bound of {bound} a cluster has {most:.3g} cells, more than {MAX_CELLS:,}",
            f"take {f'an i-bound of {fits[-1]}, or ' if fits else ''}exact counts",
        )


@dataclass(frozen=True)
class Estimator:
    """A counter by IJGP with clusters of at most ``bound`` variables."""

    counter: Counter
    bound: int

    @cached_property
    def networks(self) -> tuple[Network, ...]:
        """The networks of the formula's ways, with the kept variables as variables. Raises Uncountable."""
        networks = (network(parts, self.types) for parts in self.counter.ways.conjunctions)
        return tuple(net for net in networks if net is not None)

    @property
    def types(self) -> Mapping[str, str]:
        """The types of the variables that are counted."""
        return self.counter.types

    def groundings(self, world: World) -> int:
        """Return the number of groundings, true or false, for each constant of the kept variables."""
        return self.counter.groundings(world)

    def compile(self) -> None:
        """Compile the networks, and what existentials hold. Raises Uncountable."""
        _ = self.networks
        for existential in self.counter.existentials.values():
            existential.compile()

    def width(self) -> int:
        """Return the width of the widest network: estimates with a larger bound are exact."""
        return max((net.width() for net in self.networks), default=0)

    def check(self, world: World) -> None:
        """Raise TooLarge, which says the largest bound that fits, if a cluster does not fit memory."""
        check_memory(self.networks, world, self.bound)

    def count(self, world: World) -> Floats:
        """Return the estimated numbers of satisfied groundings. Raises TooLarge."""
        self.check(world)
        self.counter.prepare(world)
        keep, ways, most = self.counter.keep, self.counter.ways, float(self.groundings(world))
        domains = [world.domains.get(self.types[v], ()) for v in keep]
        total = np.zeros([*map(len, domains)])
        for key in np.ndindex(total.shape):
            fixed = [
                (Equal(Variable(v), Constant(names[n])), True)
                for v, n, names in zip(keep, key, domains, strict=True)
            ]
            networks = (network((*p, *fixed), self.types) for p in ways.conjunctions)
            number = sum(float(n.solutions(world, self.bound)) for n in networks if n is not None)
            number = min(number, most)
            total[key] = number if ways.truth else most - number
        return total


class Messages:
    """The messages of a join graph, each of which sums to 1.

    ``changed`` are the factors of which no message tells yet, ``sent`` the number of messages of ``settle``.
    """

    def __init__(self, graph: JoinGraph, factors: Sequence[tuple[tuple[str, ...], Floats]]) -> None:
        self.graph = graph
        self.factors = factors
        self.sizes = {v: n for scope, f in factors for v, n in zip(scope, f.shape, strict=True)}
        self.changed = {*range(len(factors))}
        self.sent = 0
        self.message: dict[tuple[int, int], Floats] = {}
        for edge in graph.edges:
            shape = [self.sizes[v] for v in edge.label]
            self.message[edge.a, edge.b] = np.full(shape, 1.0 / prod(shape))
            self.message[edge.b, edge.a] = self.message[edge.a, edge.b]
        self.near: list[list[Edge]] = [
            [e for e in graph.edges if u in (e.a, e.b)] for u in range(len(graph.scopes))
        ]

    def belief(self, u: int, without: Edge | None, label: tuple[str, ...]) -> Floats:
        """Return the product of a cluster's factors and messages, but one, for each value of the label."""
        inside = [self.factors[k] for k in self.graph.factors[u]]
        inside += [
            (e.label, self.message[_other(e, u), u]) for e in self.near[u] if e is not without
        ]
        terms = [*inside, *(((v,), np.ones(self.sizes[v])) for v in label)]
        number = {v: k for k, v in enumerate(dict.fromkeys(v for scope, _ in terms for v in scope))}
        operands: list[Any] = []
        for scope, values in terms:
            operands += [values, [number[v] for v in scope]]
        total: Floats = np.einsum(*operands, [number[v] for v in label], optimize="greedy")
        return np.asarray(total)

    def send(self) -> float | None:
        """Send all messages, there and back; return the largest change, or None if one is zero."""
        forward = [(e.a, e.b, e) for e in self.graph.edges]
        backward = [(b, a, e) for a, b, e in reversed(forward)]
        change = 0.0
        for u, v, edge in (*forward, *backward):
            new = self.belief(u, edge, edge.label)
            total = float(new.sum())
            if total == 0.0:
                return None
            new /= total
            change = max(change, float(np.abs(new - self.message[u, v]).max()))
            self.message[u, v] = new
        return change

    def replace(self, factors: Sequence[tuple[tuple[str, ...], Floats]]) -> bool:
        """Replace the factors; return whether one of them differs from that before it."""
        pairs = zip(self.factors, factors, strict=True)
        self.changed |= {k for k, (a, b) in enumerate(pairs) if not np.array_equal(a[1], b[1])}
        self.factors = factors
        return bool(self.changed)

    def settle(self) -> bool:
        """Send messages on from the clusters whose factors changed; return whether none is zero.

        The message that changes most goes first (Elidan, McGraw & Koller 2006), until they settle, or as many
        were sent as in all iterations.
        """
        clusters = [
            u for u, factors_ in enumerate(self.graph.factors) if self.changed & {*factors_}
        ]
        self.changed.clear()
        pending: dict[tuple[int, int], tuple[float, Floats]] = {}
        ends = [(u, _other(e, u), e) for u in clusters for e in self.near[u]]
        for _ in range(ITERATIONS * len(self.message)):
            for u, v, edge in ends:
                new = self.belief(u, edge, edge.label)
                total = float(new.sum())
                if total == 0.0:
                    return False
                new /= total
                pending[u, v] = float(np.abs(new - self.message[u, v]).max()), new
            if not pending:
                break
            (u, v), (change, new) = max(pending.items(), key=lambda item: item[1][0])
            if change < CONVERGED:
                break
            del pending[u, v]
            self.message[u, v] = new
            self.sent += 1
            ends = [(v, _other(e, v), e) for e in self.near[v] if _other(e, v) != u]
        return True

    def estimate(self, label: tuple[str, ...]) -> Floats:
        """Return the estimated sum of the product of all factors, for each value of a label.

        It is shared out among these by the belief of a cluster that has the label.
        """
        message = self.message
        clusters = [float(self.belief(u, None, ())) for u in range(len(self.graph.scopes))]
        edges = [float((message[e.a, e.b] * message[e.b, e.a]).sum()) for e in self.graph.edges]
        if not all(clusters) or not all(edges):
            return np.zeros([self.sizes[v] for v in label])
        total = exp(min(700.0, sum(map(log, clusters)) - sum(map(log, edges))))
        u = next(u for u, scope in enumerate(self.graph.scopes) if {*label} <= {*scope})
        share: Floats = self.belief(u, None, label) / clusters[u]
        return total * share


def _propagate(
    graph: JoinGraph, factors: Sequence[tuple[tuple[str, ...], Floats]], label: tuple[str, ...]
) -> Floats:
    """Return the estimate of the round that changes messages least, the last one if they settle.

    Messages on a loop of factors with few ones may turn round without end, and where they happen to be
    almost disjoint an estimate is off by orders of magnitude. A message of zeros proves that there is no
    solution.
    """
    if not graph.scopes:
        return np.ones(())
    messages, least = Messages(graph, factors), inf
    estimate = nothing = np.zeros([messages.sizes[v] for v in label])
    for _ in range(ITERATIONS):
        change = messages.send()
        if change is None:
            return nothing
        if change <= least:
            least, estimate = change, messages.estimate(label)
        if change < CONVERGED:
            break
    return estimate


def _other(edge: Edge, u: int) -> int:
    return edge.a if edge.b == u else edge.b
