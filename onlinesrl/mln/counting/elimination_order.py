"""The order in which variables are summed out, found once from the scopes of a formula's factors."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import combinations
from typing import NamedTuple

Scope = tuple[str, ...]


class EliminationStep(NamedTuple):
    """Replace some factors by their product, summed over all variables but those of ``scope``.

    Factors are numbered as given; the result of the k-th step has the k-th number after them.
    """

    inputs: tuple[int, ...]
    scope: Scope


def elimination(scopes: Sequence[Scope], keep: Collection[str] = ()) -> tuple[EliminationStep, ...]:
    """Return the steps that sum out all variables except those to ``keep``.

    A factor within the scope of another one is multiplied into it, and a variable of one factor only is
    summed out: neither makes a factor larger, and they suffice where the factors are acyclic (Yannakakis
    1981). Otherwise the variable goes next that joins the fewest pairs of variables (min-fill).
    """
    live = dict(enumerate(scopes))
    steps: list[EliminationStep] = []
    while (step := _within(live) or _alone(live, keep) or _least(live, keep)) is not None:
        live = {k: scope for k, scope in live.items() if k not in step.inputs}
        live[len(scopes) + len(steps)] = step.scope
        steps.append(step)
    return tuple(steps)


def _within(live: dict[int, Scope]) -> EliminationStep | None:
    for (i, a), (j, b) in combinations(live.items(), 2):
        if {*a} <= {*b}:
            return EliminationStep((j, i), b)
        if {*b} <= {*a}:
            return EliminationStep((i, j), a)
    return None


def _alone(live: dict[int, Scope], keep: Collection[str]) -> EliminationStep | None:
    for k, scope in live.items():
        elsewhere = {v for j, other in live.items() if j != k for v in other}
        stay = tuple(v for v in scope if v in elsewhere or v in keep)
        if stay != scope:
            return EliminationStep((k,), stay)
    return None


def _least(live: dict[int, Scope], keep: Collection[str]) -> EliminationStep | None:
    """Sum out the variable of least fill, with all others that then stand in no other factor."""
    scopes = [*live.values()]
    variables = dict.fromkeys(v for scope in scopes for v in scope if v not in keep)
    if not variables:
        return None
    best = min(variables, key=lambda v: fill(v, scopes))
    joined = tuple(dict.fromkeys(v for scope in scopes if best in scope for v in scope))
    inputs = tuple(k for k, scope in live.items() if {*scope} <= {*joined})
    elsewhere = {v for k, scope in live.items() if k not in inputs for v in scope}
    return EliminationStep(inputs, tuple(v for v in joined if v in elsewhere or v in keep))


def fill(variable: str, scopes: Sequence[Scope]) -> tuple[int, int]:
    """Return how many pairs of a variable's neighbours have no factor yet, and how many it has."""
    neighbours = {v for scope in scopes if variable in scope for v in scope} - {variable}
    edges = {pair for scope in scopes for pair in combinations(sorted(scope), 2)}
    return sum(pair not in edges for pair in combinations(sorted(neighbours), 2)), len(neighbours)


def min_fill(scopes: Iterable[Scope]) -> tuple[list[str], int]:
    """Return the variables in the order of least fill, and the width of that order."""
    remaining, order, width = [*scopes], [], 0
    while variables := sorted({v for scope in remaining for v in scope}):
        best = min(variables, key=lambda v: fill(v, remaining))
        joined = {v for scope in remaining if best in scope for v in scope} - {best}
        remaining = [scope for scope in remaining if best not in scope] + [tuple(sorted(joined))]
        order.append(best)
        width = max(width, len(joined))
    return order, width
