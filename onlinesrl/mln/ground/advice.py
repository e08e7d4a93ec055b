"""Advice on a model: rules with many ground clauses, and constants that occur only in the truth."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from onlinesrl.core.arrays import Ints
from onlinesrl.core.background import Background
from onlinesrl.core.example import Atoms, Example, arguments
from onlinesrl.logic.text import quote
from onlinesrl.mln.ground.join_planner import Domain, Plan
from onlinesrl.mln.ground.model_index import Layout

MANY = 10_000
"""The number of ground clauses of one rule, in one example, from which advice is given."""


def largest(plan: Plan, by_example: Sequence[Ints]) -> list[str]:
    """Return messages on the rule with the most ground clauses, and advice if there are too many.

    ``by_example`` has, for each example, the number of ground clauses of each rule, int64[rules].
    """
    sizes = np.array(by_example, np.int64).reshape(len(by_example), len(plan.program.rules))
    total = int(sizes.sum())
    if not total:
        return []
    number = int(sizes.sum(axis=0).argmax())
    rule, groundings = plan.program.rules[number], sizes[:, number]
    largest_size = int(groundings.sum())
    lines = [
        f"ground clauses: {total:,}, {largest_size:,} of them ({largest_size / total:.0%}) by the rule "
        f"in line {rule.position.line}: {rule.text}"
    ]
    if groundings.max() >= MANY:
        lines.append(f"  up to {int(groundings.max()):,} in an example: {_fewer(plan, number)}")
    return lines


def _fewer(plan: Plan, number: int) -> str:
    """Return advice that reduces a rule's ground clauses."""
    steps = [step for p in plan.clauses if p.clause.rule == number for step in p.full]
    free = dict.fromkeys(step.variable for step in steps if isinstance(step, Domain))
    names = [name for name in free if name.isidentifier()]
    bound = (
        f"no evidence in the rule binds {' or '.join(names)}; join {'it' if len(names) == 1 else 'them'} "
        "with a predicate of the evidence (on the left of =>)"
        if names
        else "add a condition that evidence decides (on the left of =>)"
    )
    heads = [x.atom.predicate for p in plan.clauses if p.clause.rule == number for x in p.query]
    name = heads[0] if heads else plan.query[0]
    return (
        f"{bound}, add a hard rule that excludes false {name} atoms, as in `{name}(...) => "
        "Evidence(...).`, or list the atoms to predict in `query`"
    )


SHOWN = 5


def undeclared(layout: Layout, examples: Iterable[Example], background: Background) -> list[str]:
    """Return advice for each type that has constants that occur only in the truth of examples.

    Constants that are declared, in the background or of an open type do not count. Examples with a
    ``query`` do not count either.
    """
    opened = layout.plan.program.open
    constants: dict[str, dict[str, None]] = {}
    named: dict[str, dict[str, None]] = {}
    times: dict[str, int] = {}
    facts = {(t, c) for t, c, _ in _constants(layout, background.atoms)}
    for example in examples:
        known_constants = facts | {(t, c) for t, c, _ in _constants(layout, example.evidence)}
        truth = (example.truth or {}) if example.query is None else {}
        new_kinds = {}
        for kind, constant, place in _constants(layout, truth):
            if kind in opened or constant in layout.constant_number[kind]:
                continue
            if (kind, constant) not in known_constants:
                new_kinds[kind] = 1
                constants.setdefault(kind, {})[constant] = None
                named.setdefault(kind, {})[place] = None
        times |= {kind: times.get(kind, 0) + 1 for kind in new_kinds}
    messages: list[str] = []
    for kind, names in constants.items():
        listed = ", ".join([*map(quote, [*names][:SHOWN]), *["..."] * (len(names) > SHOWN)])
        messages.append(
            f"type {kind}: in {times[kind]} example{'s' * (times[kind] != 1)} only the truth of "
            f"{' and '.join(named[kind])} names its constants, so that they cannot be predicted; declare "
            f"them, `{kind} = {{{listed}}}`, or, if the stream adds constants, `{kind} = {{...}}`"
        )
    return messages


def _constants(layout: Layout, atoms_of: Atoms) -> Iterator[tuple[str, str, str]]:
    """Yield the type of each constant of the atoms, the constant, and its predicate and argument."""
    for name, atoms in atoms_of.items():
        if name in layout.evidence:
            types = layout.arguments(name)
            for atom in atoms:
                for j, (kind, constant) in enumerate(zip(types, arguments(atom), strict=False)):
                    yield kind, str(constant), f"{name} (argument {j + 1})"
