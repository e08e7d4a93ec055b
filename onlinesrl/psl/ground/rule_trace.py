"""Which ground rules the rows of a model are: the constants of their variables, for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from onlinesrl.logic.ast import Atom, Constant, Leaf, Variable, replace_terms, terms
from onlinesrl.psl.ground.form_assembly import Joined, Listing
from onlinesrl.psl.ground.join_plan import RulePlan
from onlinesrl.psl.lang.ast import LogicalRule, PslProgram, PslRule, Summand
from onlinesrl.psl.lang.model import Functions
from onlinesrl.psl.lang.text import show_unweighted


def ground_rule_texts(
    program: PslProgram,
    rows: Iterable[tuple[RulePlan, Joined]],
    listing: Listing,
    functions: Functions,
    variable: int,
) -> Iterator[str]:
    """Yield the texts of the ground rules that have a variable, in the order of the model's rows.

    ``rows`` are the joined rows of the program's plans, over one world's listing.
    """
    assembler = listing.assembler(functions)
    for plan, joined in rows:
        for ground_rule in _with_variable(plan, joined, listing, variable):
            if variable not in assembler.assemble(plan, ground_rule, 1, 0).model.variable:
                continue
            constants = {}  # of the variables that are not summed
            atoms = ground_rule.atoms[:, 0].tolist()
            for term, number in zip(plan.form.terms, atoms, strict=False):
                if number < 0:
                    continue
                name = term.atom.predicate
                column = listing.columns[name][1:, number - listing.base[name]].tolist()
                for leaf, constant in zip(terms(term.atom), column, strict=True):
                    if isinstance(leaf, Variable) and leaf.name in plan.outer:
                        constants[leaf.name] = listing.constants[constant]
            yield show_unweighted(bound(program.rules[plan.form.rule], constants))


def _with_variable(
    plan: RulePlan, joined: Joined, listing: Listing, variable: int
) -> Iterator[Joined]:
    """Yield the joined rows of each ground rule that has the atom of a variable, in their order."""
    is_listed = joined.atoms >= 0
    variables = listing.variable[np.where(is_listed, joined.atoms, 0)]
    reaching = np.any(is_listed & (variables == variable), axis=0)
    places = [[row] for row in np.flatnonzero(reaching).tolist()]
    if plan.form.summations:
        outer = joined.bindings[[plan.variables.index(name) for name in plan.outer]]
        groups: dict[tuple[int, ...], list[int]] = {}
        for row, key in enumerate(map(tuple, outer.T.tolist())):
            groups.setdefault(key, []).append(row)
        places = [groups[key] for key in sorted(groups) if reaching[groups[key]].any()]
    for rows in places:
        yield Joined(joined.atoms[:, rows], joined.bindings[:, rows], joined.worlds[rows])


def bound(rule: PslRule, binding: Mapping[str, str]) -> PslRule:
    """Return a rule with constants for some variables."""

    def new(leaf: Leaf) -> Leaf:
        is_bound = isinstance(leaf, Variable) and leaf.name in binding
        return Constant(binding[leaf.name]) if is_bound else leaf

    def summand(summand_: Summand) -> Summand:
        if summand_.atom is None:
            return summand_
        atom = replace_terms(summand_.atom, new)
        assert isinstance(atom, Atom)
        return replace(summand_, atom=atom)

    if isinstance(rule, LogicalRule):
        return replace(rule, formula=replace_terms(rule.formula, new))
    filters = (replace(f, condition=replace_terms(f.condition, new)) for f in rule.filters)
    left, right = (tuple(map(summand, side)) for side in (rule.left, rule.right))
    return replace(rule, left=left, right=right, filters=tuple(filters))
