"""Which rule makes most of the ground clauses, and what would make them fewer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onlinesrl.core.arrays import Ints
from onlinesrl.mln.ground.join_plan import Domain, Plan

MANY = 10_000
"""So many ground clauses of one rule in an example are worth advice."""


def largest(plan: Plan, each: Sequence[Ints]) -> list[str]:
    """Return the rules with the most ground clauses, and how to have fewer where they are many.

    ``sizes`` has the numbers of ground clauses per rule of each example, int64[rules].
    """
    sizes = np.array(each, np.int64).reshape(len(each), len(plan.program.rules))
    total = int(sizes.sum())
    if not total:
        return []
    number = int(sizes.sum(axis=0).argmax())
    rule, of = plan.program.rules[number], sizes[:, number]
    said = [
        f"ground clauses: {total:,}, {int(of.sum()):,} of them ({of.sum() / total:.0%}) by the rule "
        f"in line {rule.position.line}: {rule.text}"
    ]
    if of.max() >= MANY:
        said.append(f"  up to {int(of.max()):,} in an example: {_advice(plan, number)}")
    return said


def _advice(plan: Plan, number: int) -> str:
    """Return what would reduce a rule's ground clauses."""
    steps = [step for p in plan.clauses if p.clause.rule == number for step in p.full]
    free = dict.fromkeys(step.variable for step in steps if isinstance(step, Domain))
    names = [name for name in free if name.isidentifier()]
    bound = (
        f"no evidence in it bounds {' or '.join(names)}; join {'it' if len(names) == 1 else 'them'} "
        "with a predicate of the evidence (on the left of =>)"
        if names
        else "add a condition that evidence decides (on the left of =>)"
    )
    heads = [x.atom.predicate for p in plan.clauses if p.clause.rule == number for x in p.query]
    name = heads[0] if heads else plan.query[0]
    return (
        f"{bound}, say in a hard rule which {name} cannot be true, as in `{name}(...) => "
        "Evidence(...).`, or list the atoms to predict in `query`"
    )
