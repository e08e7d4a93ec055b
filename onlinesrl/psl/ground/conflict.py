"""The smallest conflict of ground hard rules and facts, by linear programs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import isnan
from typing import NamedTuple

import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.core.errors import Infeasible
from onlinesrl.core.example import show_ground_atom
from onlinesrl.core.explain.conflict import Pattern, impossible, smallest_conflict
from onlinesrl.logic.atom_index import GroundAtom


class HardRule(NamedTuple):
    """A ground hard rule: ``coefficients @ atoms + constant`` is at most 0, or 0 if it is an equality.

    ``values`` are those of its facts, NaN for targets, which are from 0 to 1. It ``depends`` on the atoms of
    these patterns.
    """

    text: str
    equality: bool
    atoms: Sequence[GroundAtom]
    values: Sequence[float]
    coefficients: Floats
    constant: float
    depends: Sequence[Pattern]


class _Fact(NamedTuple):
    atom: GroundAtom
    value: float


def conflict(rules: Iterable[HardRule]) -> Infeasible | None:
    """Return the error with the smallest conflict; None if all rules can hold."""
    constraints = smallest_conflict(_with_facts(rules), _can_hold)
    if constraints is None:
        return None
    facts = sorted(item for item in constraints if isinstance(item, _Fact))
    hard = [item for item in constraints if isinstance(item, HardRule)]
    return impossible(
        [rule.text for rule in hard],
        [f"{show_ground_atom(*fact.atom)} = {fact.value:g}" for fact in facts],
        [*(fact.atom for fact in facts), *(pattern for rule in hard for pattern in rule.depends)],
    )


def _with_facts(rules: Iterable[HardRule]) -> Iterator[HardRule | _Fact]:
    seen = set[GroundAtom]()
    for rule in rules:
        yield rule
        for atom, value in zip(rule.atoms, rule.values, strict=True):
            if not isnan(value) and atom not in seen:
                seen.add(atom)
                yield _Fact(atom, value)


def _can_hold(constraints: Sequence[HardRule | _Fact]) -> bool:
    from scipy.optimize import linprog
    from scipy.sparse import csr_array

    facts = {fact.atom: fact.value for fact in constraints if isinstance(fact, _Fact)}
    rules = [rule for rule in constraints if isinstance(rule, HardRule)]
    atoms = dict.fromkeys(atom for rule in rules for atom in rule.atoms)
    number = {atom: n for n, atom in enumerate(atoms)}
    if not rules:
        return True
    matrices = {}
    for equality in (False, True):
        chosen = [rule for rule in rules if rule.equality == equality]
        start = np.cumsum([0, *(len(rule.atoms) for rule in chosen)])
        column = [number[atom] for rule in chosen for atom in rule.atoms]
        entries = np.concatenate([np.empty(0), *(rule.coefficients for rule in chosen)])
        matrix = csr_array((entries, column, start), shape=(len(chosen), len(atoms)))
        matrices[equality] = matrix, np.array([-rule.constant for rule in chosen])
    (at_most, most), (equal, values) = matrices[False], matrices[True]
    bounds = [(facts.get(atom, 0.0), facts.get(atom, 1.0)) for atom in atoms]
    result = linprog(np.zeros(len(atoms)), at_most, most, equal, values, bounds, "highs")
    return bool(result.status != 2)
