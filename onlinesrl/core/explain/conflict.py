"""The smallest part of some constraints that cannot all hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import TypeAlias, TypeVar

from onlinesrl.core.errors import Infeasible

T = TypeVar("T")
Pattern: TypeAlias = tuple[str, tuple[str | None, ...]]
"""The atoms of a predicate with these constants; None stands for any constant."""
SHOWN = 12
"""The rules, and the facts, that a message has at most."""


def smallest_conflict(
    constraints: Iterable[T], can_hold: Callable[[list[T]], bool]
) -> list[T] | None:
    """Return constraints that cannot all hold, though any all but one of them can; None if all can.

    Those that come first are tried first, twice as many each time. The first number that cannot all hold is
    divided (Junker 2004, QUICKXPLAIN): k of n constraints are found by O(k log(n / k)) calls.
    """
    several, tried = iter(constraints), list[T]()
    while chosen := [*islice(several, max(1, len(tried)))]:
        tried += chosen
        if not can_hold(tried):
            return _divided([], False, tried, can_hold)
    return None


def _divided(
    assumed: list[T], is_new: bool, constraints: list[T], can_hold: Callable[[list[T]], bool]
) -> list[T]:
    """Return a smallest part that conflicts with what is assumed; empty if that conflicts in itself."""
    if is_new and not can_hold(assumed):
        return []
    if len(constraints) == 1:
        return constraints
    middle = len(constraints) // 2
    first, second = constraints[:middle], constraints[middle:]
    late = _divided(assumed + first, True, second, can_hold)
    early = _divided(assumed + late, bool(late), first, can_hold)
    return early + late


def impossible(
    rules: Sequence[str], facts: Sequence[str], depends: Iterable[Pattern] = ()
) -> Infeasible:
    """Return the error for rules and facts that conflict, and that depend on atoms of these patterns."""
    error = Infeasible(_message(rules, facts))
    error.parts = (*dict.fromkeys(depends),)
    return error


def _message(rules: Sequence[str], facts: Sequence[str]) -> str:
    parts = [f"the hard rule{'s' * (len(rules) != 1)} {_listed(rules)}"] if rules else []
    parts += [f"the fact{'s' * (len(facts) != 1)} {_listed(facts)}"] if facts else []
    if len(rules) + len(facts) == 1:
        return f"this cannot hold: {parts[0]}"
    message = "these cannot all hold; without any one of them the others can"
    return f"{message}: {', and '.join(parts)}"


def _listed(texts: Sequence[str]) -> str:
    more = [f"{len(texts) - SHOWN:,} more"] if len(texts) > SHOWN else []
    return "; ".join([*texts[:SHOWN], *more])
