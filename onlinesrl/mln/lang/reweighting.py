"""A program with other weights, from a file of weights: no clause changes, so nothing is ground again."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import replace

from onlinesrl.core.errors import DataError
from onlinesrl.logic.ast import Program
from onlinesrl.mln.lang import weight_file
from onlinesrl.mln.lang.clausal_form import Clause, clauses, plus_variables

_OTHERS = "\n"
"""Stands for all constants of a template that are not listed; no constant is spelled so."""


def reweighed(program: Program, weights: Program) -> list[tuple[Clause, Clause]]:
    """Return the soft clauses of a program, each with the same clause with its weight in a file of weights.

    A template that the file does not list itself keeps its weight, for constants that are not listed. Of
    clauses that are the same the first has the sum of their weights. Raises DataError for a weight that fits
    no clause, and for a clause without a weight.
    """
    soft = [clause for clause in clauses(program) if not clause.hard]
    own, _ = _tables(soft, program)
    tables, unmatched = _tables(soft, weights)
    for lost in unmatched:
        line = f"{weights.file}, line {lost.position.line}"
        raise DataError(f"{line}: no rule of the world fits `{lost.text}`")
    result = []
    for place, clause in enumerate(soft):
        table = tables.get(place, {})
        if not clause.template and place in own and not table:
            raise DataError(f"no weight fits the rule `{clause.text}`")
        default = clause.weight if clause.template else 0.0
        weight = table.pop((_OTHERS,) * len(clause.template), default)
        result.append((clause, replace(clause, weight=weight, table=(*table.items(),) or None)))
    return result


def _tables(
    soft: Sequence[Clause], weights: Program
) -> tuple[Mapping[int, dict[tuple[str, ...], float]], Sequence[weight_file.Unmatched]]:
    """Return the weights of a file by the place of their clause and its constants, and what fits none."""
    rules = []
    for rule in weights.rules:
        template, rows = plus_variables(rule.formula), rule.table or ()
        if template and rule.weight is not None:  # the weight of all constants that are not listed
            rows = (((_OTHERS,) * len(template), rule.weight), *rows)
        rules.append(replace(rule, table=rows or rule.table))
    lines = weight_file.read(soft, replace(weights, rules=tuple(rules)))
    tables = dict[int, dict[tuple[str, ...], float]]()
    for place, key, weight in lines.entries:
        tables.setdefault(place, {})[key] = weight
    return tables, lines.unmatched


def weights_text(program: Program, soft: Sequence[Clause]) -> str:
    """Return a program with the weights of these clauses, as a file of weights."""
    templates = [clause for clause in soft if clause.template]
    entries = [(clause, (), clause.weight or 0.0) for clause in soft if not clause.template]
    rows = [(clause, key, weight) for clause in soft for key, weight in clause.table or ()]
    text = io.StringIO()
    weight_file.write(program, [*entries, *rows], text, "", templates)
    return text.getvalue()
