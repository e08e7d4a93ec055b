"""Weights of instances of a template, ``1.5 Smokes(+Anna) => Cancer(x)``, joined to one rule.

Each says which weight the rule with a ``+`` variable has for its constants, and holds in worlds that have
these. The rule itself, with a weight, says which one it has for all others; without it they have none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from onlinesrl.logic.ast import Formula, Leaf, Rule, Variable, replace_terms, terms
from onlinesrl.mln.lang.clausal_form import plus_variables
from onlinesrl.mln.lang.line_templates import summed


def joined(rules: Sequence[Rule], instances: Mapping[int, Rule]) -> Iterator[Rule]:
    """Yield rules; those of ``instances``, by number, are in the table of the first of their form.

    An instance of a rule with ``+`` variables and a weight is in its table, and has no weight but its own.
    """
    templates: dict[Formula, list[tuple[int, Formula]]] = defaultdict(list)
    for n, rule in enumerate(rules):
        if _is_template(rule):
            templates[_blank(rule.formula)].append((n, rule.formula))
    rows: dict[int, list[tuple[tuple[str, ...], float]]] = {}
    for n, rule in instances.items():
        alike = templates[_blank(rule.formula)]
        orders = ((home, _order(formula, rule.formula)) for home, formula in alike)
        home, order = next((each for each in orders if each[1] is not None), (n, None))
        if order is None:
            order = [*range(len(plus_variables(rule.formula)))]
            alike.append((n, rule.formula))
        table = ((tuple([key[k] for k in order]), weight) for key, weight in rule.table or ())
        rows.setdefault(home, []).extend(table)
    for n, rule in enumerate(rules):
        if n in rows:
            yield replace(rule, table=summed(rows[n]))
        elif n not in instances:
            yield rule


def _is_template(rule: Rule) -> bool:
    return rule.weight is not None and rule.table is None and bool(plus_variables(rule.formula))


def _blank(formula: Formula) -> Formula:
    """Return a formula whose ``+`` variables have no names."""
    return replace_terms(formula, lambda leaf: Variable("", plus=True) if _plus(leaf) else leaf)


def _plus(leaf: Leaf) -> bool:
    return isinstance(leaf, Variable) and leaf.plus


def _order(template: Formula, instance: Formula) -> list[int] | None:
    """Return which variable of an instance stands for each of a template's; None: two do for one."""
    pairs = {*zip(filter(_plus, terms(template)), filter(_plus, terms(instance)), strict=True)}
    names = {variable.name: other.name for variable, other in pairs}
    others = plus_variables(instance)
    if len(names) < len(pairs):
        return None
    return [others.index(names[name]) for name in plus_variables(template)]
