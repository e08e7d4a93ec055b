"""The answer to a query of one world, as ``onlinesrl infer`` writes it."""

from typing import Any

from onlinesrl.mln.query.infer import lines, solve
from onlinesrl.mln.query.world import World


def answer_lines(world: World, method: str, seed: int) -> tuple[list[str], dict[str, Any]]:
    """Return the sorted ``Atom(args) value`` lines, and statistics."""
    values, stats = solve(world, method, seed)
    return [*lines(world, values, method)], stats
