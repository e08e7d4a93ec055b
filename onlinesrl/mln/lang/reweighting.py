"""A program with other weights, from a file of weights: no clause changes, so nothing is ground again."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from dataclasses import replace

from onlinesrl.core.errors import DataError
from onlinesrl.core.rule_instance import PlacedWeight
from onlinesrl.logic.ast import Program
from onlinesrl.mln.lang import weight_file
from onlinesrl.mln.lang.clausal_form import Clause, clauses, plus_variables

_OTHERS = "\n"
"""Stands for all constants of a template that are not listed; no constant is spelled so."""


def weights_of(program: Program, weights: Program) -> list[PlacedWeight]:
    """Return the weights of a program's clauses by a file of weights.

    Of clauses that are the same the first has the sum of their weights. Raises DataError for a weight that
    fits no clause, and for a clause without a weight.
    """
    every = clauses(program)
    own, lines = _read(every, program), _read(every, weights)
    for lost in lines.unmatched:
        line = f"{weights.file}, line {lost.position.line}"
        raise DataError(f"{line}: no rule of the world fits `{lost.text}`")
    weighted = {place for place, _, _ in lines.entries}
    for place, _, _ in own.entries:
        if not every[place].template and place not in weighted:
            raise DataError(f"no weight fits the rule `{every[place].text}`")
    return [PlacedWeight(*entry) for entry in lines.entries]


def reweighed(program: Program, weights: Iterable[PlacedWeight]) -> list[tuple[Clause, Clause]]:
    """Return the soft clauses of a program, each with the same clause with these weights, 0 without one.

    A template that has none itself keeps its weight, for constants that are not listed.
    """
    tables = dict[int, dict[tuple[str, ...], float]]()
    for place, key, weight in weights:
        tables.setdefault(place, {})[key] = weight
    result = []
    for place, clause in enumerate(clauses(program)):
        if not clause.hard:
            table = tables.get(place, {})
            default = clause.weight if clause.template else 0.0
            own = table.pop((_OTHERS,) * len(clause.template), default)
            result.append((clause, replace(clause, weight=own, table=(*table.items(),) or None)))
    return result


def _read(every: Sequence[Clause], weights: Program) -> weight_file.Matched:
    """Match a file of weights with clauses; a template's own weight has ``_OTHERS`` for constants."""
    rules = []
    for rule in weights.rules:
        template, rows = plus_variables(rule.formula), rule.table or ()
        if template and rule.weight is not None:  # the weight of all constants that are not listed
            rows = (((_OTHERS,) * len(template), rule.weight), *rows)
        rules.append(replace(rule, table=rows or rule.table))
    return weight_file.read(every, replace(weights, rules=tuple(rules)))


def weights_text(program: Program, soft: Sequence[Clause]) -> str:
    """Return a program with the weights of these clauses, as a file of weights."""
    templates = [clause for clause in soft if clause.template]
    entries = [(clause, (), clause.weight or 0.0) for clause in soft if not clause.template]
    rows = [(clause, key, weight) for clause in soft for key, weight in clause.table or ()]
    text = io.StringIO()
    weight_file.write(program, [*entries, *rows], text, "", templates)
    return text.getvalue()
