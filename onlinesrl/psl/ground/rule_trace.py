"""Which ground rules the rows of a model are: the constants of their variables, for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from onlinesrl.core.arrays import Bools
from onlinesrl.logic.ast import Atom, Constant, Leaf, Variable, replace_terms, terms
from onlinesrl.psl.ground.form_assembly import Assembler, Joined, Listing, listed
from onlinesrl.psl.ground.join_plan import RulePlan
from onlinesrl.psl.ground.memory_joins import ArrayJoins
from onlinesrl.psl.lang.ast import LogicalRule, PslProgram, PslRule, Summand
from onlinesrl.psl.lang.model import Functions
from onlinesrl.psl.lang.text import show_unweighted


class GroundRules:
    """Finds the ground rules of one world's listing; ``skip`` leaves out those of unlisted atoms."""

    def __init__(self, listing: Listing, functions: Functions, skip: bool):
        self._listing = listing
        self._assembler = Assembler(listing, functions)
        self._skip = skip

    def texts(
        self, program: PslProgram, plans: Sequence[RulePlan], executor: ArrayJoins, variable: int
    ) -> Iterator[str]:
        """Yield the texts of the ground rules that have a variable, in the order of the model's rows."""
        listing = self._listing
        for number, plan in enumerate(plans):
            for joined in executor.join(number):
                listed_rows = listed(plan, joined, listing.opened) if self._skip else joined
                for row in _rows_of(plan, listed_rows, _reaching(listed_rows, listing, variable)):
                    if variable in self._assembler.assemble(plan, row).forms.variable:
                        rule = program.rules[plan.form.rule]
                        yield show_unweighted(bound(rule, _binding(plan, row, listing)))


def _reaching(joined: Joined, listing: Listing, variable: int) -> Bools:
    """Tell which joined rows reach the atom of a variable."""
    is_variable = joined.atoms >= 0
    reaching: Bools = np.any(
        is_variable & (listing.variable[np.where(is_variable, joined.atoms, 0)] == variable), axis=0
    )
    return reaching


def _rows_of(plan: RulePlan, joined: Joined, reaching: Bools) -> Iterator[Joined]:
    """Yield the joined rows of each ground rule of which one reaches a variable, in their order."""
    places = [[row] for row in np.flatnonzero(reaching).tolist()]
    if plan.form.summations:
        outer = joined.bindings[[plan.variables.index(name) for name in plan.outer]]
        groups: dict[tuple[int, ...], list[int]] = {}
        for row, key in enumerate(map(tuple, outer.T.tolist())):
            groups.setdefault(key, []).append(row)
        places = [groups[key] for key in sorted(groups) if reaching[groups[key]].any()]
    for rows in places:
        yield Joined(joined.atoms[:, rows], joined.bindings[:, rows], joined.worlds[rows])


def _binding(plan: RulePlan, joined: Joined, listing: Listing) -> dict[str, str]:
    """Return the constants of the variables that are not summed."""
    constants = {}
    for term, number in zip(plan.form.terms, joined.atoms[:, 0].tolist(), strict=False):
        if number < 0:
            continue
        name = term.atom.predicate
        column = listing.columns[name][1:, number - listing.base[name]].tolist()
        for leaf, constant in zip(terms(term.atom), column, strict=True):
            if isinstance(leaf, Variable) and leaf.name in plan.outer:
                constants[leaf.name] = listing.constants[constant]
    return constants


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
