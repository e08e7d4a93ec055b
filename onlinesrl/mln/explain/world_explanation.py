"""Explanation of an atom of a world that stays: ground rules for and against its value."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from onlinesrl.core.explain.explanation import Explanation, Other, shown
from onlinesrl.logic.ast import Program
from onlinesrl.logic.atom_index import Constants, GroundAtom
from onlinesrl.mln.explain.explanation import Instance, merged
from onlinesrl.mln.ground.binding_lists import Row
from onlinesrl.mln.ground.join_planner import Group
from onlinesrl.mln.lang.clausal_form import Clause
from onlinesrl.mln.lang.weight_file import rule_text

Values = Mapping[GroundAtom, float]
"""The values of open atoms, 0 or 1."""


class GroundClause(NamedTuple):
    """A ground clause that facts do not decide, and its weight, None if it is hard.

    The weight's name is the number of the clause and the constants of its template.
    """

    weight: float | None
    clause: Clause
    name: tuple[int, Constants]
    row: Row


class Alternative(NamedTuple):
    """The best values of a component in which an atom has its other value, and what they cost."""

    values: Values
    cost: float
    certified: bool


def explained(
    program: Program,
    atom: GroundAtom,
    values: Values,
    certified: bool,
    alternative: Alternative | None,
    clauses: Sequence[GroundClause],
    group: Group | None,
    members: Collection[GroundAtom],
) -> Explanation:
    """Explain the value of an open atom by the ground clauses of its component.

    ``values`` are those of the component and of facts, ``members`` the open atoms of the atom's group.
    ``alternative`` is None if hard rules leave no other value.
    """
    together = {atom: None} | dict.fromkeys(members)
    other = {a: alternative.values[a] if alternative else 0.0 for a in together}
    local = {**values, **other, atom: 1.0 - values[atom]}
    turned = {a for a in together if local[a] != values[a]}
    instances, forbidden, undecided = list[Instance](), dict[str, None](), 0
    for weight, clause, name, row in clauses:
        if turned.isdisjoint(row.atoms):
            continue
        change = int(row.holds(values.__getitem__)) - int(row.holds(local.__getitem__))
        constants = dict(zip(clause.template, name[1], strict=True))
        text = rule_text(program, clause, constants)
        if weight is None:
            forbidden |= {f"{text}.": None} if change else {}
        elif change:
            gain = weight * change
            instances.append(Instance(name, text, clause.sign, row.factor, weight, gain))
        else:
            undecided += 1
    true = [a for a in together if values[a]]
    otherwise = [a for a in together if local[a] and a != atom]
    instead = shown(otherwise[0]) if otherwise else "none of its group"
    cost = None
    if alternative is not None:
        changed = (a for a, value in alternative.values.items() if value != values[a])
        changes = ((shown(a), bool(alternative.values[a])) for a in changed if a not in together)
        cost = Other(alternative.cost, alternative.certified, tuple(changes))
    here = f", here {shown(true[0])}" if true else ", here none"
    return Explanation(
        "",
        shown(atom),
        values[atom],
        certified,
        group=None if group is None else group.show(atom[0]) + here,
        instead=instead if len(together) > 1 and values[atom] else None,
        reasons=merged(instances),
        undecided=undecided,
        forbidden=() if alternative else (*forbidden,),
        other=cost,
    )
