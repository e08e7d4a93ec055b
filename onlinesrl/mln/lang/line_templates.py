"""Families of weighted lines that differ only in their constants, and weights of template instances.

A file of learned weights has one line per instance of a template: tens of thousands of lines, but few
shapes. Each shape is parsed only once and becomes a family. The shape of a line is its text with holes
for the constants. Names of predicates without arguments look like constants.

A line ``1.5 Smokes(+Anna) => Cancer(x)`` has the weight of a rule with a ``+`` variable for the constant
Anna. It applies in worlds that have this constant. The weight of the rule itself, if present, applies to
all other constants.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from math import isfinite

from onlinesrl.logic.ast import (
    Arithmetic,
    Atom,
    Constant,
    Formula,
    Function,
    Leaf,
    Rule,
    Table,
    Term,
    Variable,
    arguments,
    fresh_name,
    replace_terms,
    terms,
    variable_names,
)
from onlinesrl.logic.source import Source
from onlinesrl.logic.text import STRING, unquote
from onlinesrl.mln.lang.clausal_form import plus_variables
from onlinesrl.mln.lang.statements import Sentence, Statement, statements

ENOUGH = 8
"""The number of lines of one shape above which they become a family."""

_LINE = re.compile(r"[ \t]*(-?[0-9]+(?:\.[0-9]+)?(?:[eE][+\-]?[0-9]+)?)[ \t]+(\S.*)")
_HOLE = re.compile(
    rf"({STRING}"
    r"|(?<![A-Za-z0-9_'\-])(?!(?i:exist|forall)(?![A-Za-z0-9_'\-]))"
    r"[A-Z][A-Za-z0-9_'\-]*(?![A-Za-z0-9_'\-]|[ \t]*\()"
    r"|(?<![A-Za-z0-9_'\-.])-?[0-9]+(?![A-Za-z0-9_'\-.]))"
)
_NULLARY = re.compile(r"^[ \t]*([A-Z][A-Za-z0-9_'\-]*)[ \t]*+(?:\([ \t]*\)[ \t]*)?$", re.MULTILINE)


@dataclass(slots=True)
class Family:
    """The lines of one shape: their numbers, weights and constants from left to right."""

    shape: str
    lines: list[int] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)
    constants: list[tuple[str, ...]] = field(default_factory=list)


def fold(code: str, source: Source) -> tuple[Iterable[Statement], dict[int, Family]]:
    """Parse code, but only the first line of each family.

    Returns the statements, and the families by their first line. Lines are parsed one by one if
    the shape does not suffice. This happens for a line inside a longer statement, for holes that are not
    constants, and for constants that vary only in equalities.
    """
    unfit: set[str] = set()
    while families := _families(code, unfit):
        lines = code.split("\n")
        for family in families:
            for number in family.lines[1:]:
                lines[number - 1] = ""
        try:
            parsed = [*statements("\n".join(lines), source)]
        except source.kind:
            break
        firsts = {sentence.position.line: sentence for sentence in parsed}
        long = {
            number
            for sentence in firsts.values()
            if sentence.last_line > sentence.position.line
            for number in range(sentence.position.line, sentence.last_line + 1)
        }
        misfits = {
            family.shape
            for family in families
            if not _fits(firsts.get(family.lines[0]), family) or not long.isdisjoint(family.lines)
        }
        if not misfits:
            return parsed, {family.lines[0]: family for family in families}
        unfit |= misfits
    return statements(code, source), {}


def generalise(
    formula: Formula, types: Sequence[str | None], family: Family, plus: Sequence[bool]
) -> tuple[Formula, Table, tuple[tuple[str, str], ...]]:
    """Return a family's formula, table and new variables with types, given the first line's formula.

    Constants that vary, or have a ``plus``, become ``+`` variables. Places of the same type and with equal
    constants in every line share a variable. ``types`` has the types of the constants from left to right;
    None: the constant is in a comparison or in arithmetic.
    """
    columns = list(zip(*family.constants, strict=True))
    used = variable_names(formula)
    variables: dict[tuple[str, tuple[str, ...]], Variable] = {}
    for type_, column, marked in zip(types, columns, plus, strict=True):
        varies = marked or len(set(column)) > 1
        if type_ is not None and (type_, column) not in variables and varies:
            name = fresh_name("c", used)
            used[name] = None
            variables[type_, column] = Variable(name, plus=True)
    any_type = {column: variable for (_, column), variable in reversed(variables.items())}
    places = zip(types, columns, strict=True)

    def new(leaf: Leaf) -> Leaf:
        if isinstance(leaf, Variable):
            return leaf
        type_, column = next(places)
        fixed = variables.get((type_, column)) if type_ is not None else None
        return fixed or any_type.get(column) or leaf

    keys = zip(*(column for _, column in variables), strict=True)
    named = tuple((variable.name, type_) for (type_, _), variable in variables.items())
    return replace_terms(formula, new), summed(zip(keys, family.weights, strict=True)), named


def summed(pairs: Iterable[tuple[tuple[str, ...], float]]) -> Table:
    """Return pairs of distinct keys and weights; the weights of equal keys are added."""
    rows = (*pairs,)
    total = dict.fromkeys((key for key, _ in rows), 0.0)
    if len(total) == len(rows):
        return rows
    for key, weight in rows:
        total[key] += weight
    return tuple(total.items())


def _families(code: str, unfit: Set[str]) -> list[Family]:
    nullary = set(_NULLARY.findall(code))
    shapes: dict[str, Family] = {}
    names: dict[str, str] = {}
    for number, line in enumerate(code.split("\n"), start=1):
        weighted = _LINE.fullmatch(line)
        if weighted is None or not isfinite(float(weighted[1])):
            continue
        pieces = _HOLE.split(weighted[2])
        spellings = pieces[1::2]
        shape = "\n".join(pieces[::2])
        if not nullary.isdisjoint(spellings):
            shape = "\n".join(part if part in nullary else "" for part in spellings) + shape
            spellings = [part for part in spellings if part not in nullary]
        family = shapes.get(shape)
        if family is None:
            family = shapes[shape] = Family(shape)
        family.lines.append(number)
        family.weights.append(float(weighted[1]))
        for part in spellings:
            if part not in names:
                names[part] = unquote(part)
        family.constants.append(tuple([names[part] for part in spellings]))
    return [
        family
        for family in shapes.values()
        if len(family.lines) > ENOUGH and family.shape not in unfit
    ]


def _fits(first: Statement | None, family: Family) -> bool:
    """Return whether a family's holes are the constants of its first line and vary in atoms."""
    if not isinstance(first, Sentence) or first.weight is None or first.hard:
        return False
    if first.definite or first.star is not None or plus_variables(first.formula):
        return False
    constants = [
        constant
        for mention in first.mentions
        for term in arguments(mention.formula)
        for constant in _constants(term, isinstance(mention.formula, Atom))
    ]
    if tuple(name for name, _ in constants) != family.constants[0]:
        return False
    columns = zip(*family.constants, strict=True)
    varying: dict[bool, set[tuple[str, ...]]] = {True: set(), False: set()}
    for (_, typed), column in zip(constants, columns, strict=True):
        if len(set(column)) > 1:
            varying[typed].add(column)
    return bool(varying[True]) and varying[False] <= varying[True]


def _constants(term: Term, typed: bool) -> Iterator[tuple[str, bool]]:
    """Yield the constants of a term, and whether the place of each has a type.

    ``typed``: the place of the term itself has a type.
    """
    match term:
        case Constant(name):
            yield name, typed
        case Function(_, parts):
            for part in parts:
                yield from _constants(part, True)
        case Arithmetic(_, left, right):
            yield from _constants(left, False)
            yield from _constants(right, False)


def joined(rules: Sequence[Rule], instances: Mapping[int, Rule]) -> Iterator[Rule]:
    """Yield the rules, with ``instances`` (rules by number) merged into the tables of other rules.

    Instances join the table of the rule with ``+`` variables and the same form. Without such a rule, they
    join the first instance of the same form.
    """
    templates: dict[Formula, list[tuple[int, Formula]]] = defaultdict(list)
    for n, rule in enumerate(rules):
        if rule.weight is not None and rule.table is None and plus_variables(rule.formula):
            templates[_blank(rule.formula)].append((n, rule.formula))
    rows: dict[int, list[tuple[tuple[str, ...], float]]] = {}
    for n, rule in instances.items():
        alike = templates[_blank(rule.formula)]
        orders = ((home, _order(formula, rule.formula)) for home, formula in alike)
        home, order = next((entry for entry in orders if entry[1] is not None), (n, None))
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


def _blank(formula: Formula) -> Formula:
    """Return the formula with empty names of ``+`` variables."""
    return replace_terms(formula, lambda leaf: Variable("", plus=True) if _plus(leaf) else leaf)


def _plus(leaf: Leaf) -> bool:
    return isinstance(leaf, Variable) and leaf.plus


def _order(template: Formula, instance: Formula) -> list[int] | None:
    """Return the index of the instance's variable for each template variable; None if ambiguous."""
    pairs = {*zip(filter(_plus, terms(template)), filter(_plus, terms(instance)), strict=True)}
    names = {variable.name: other.name for variable, other in pairs}
    variables = plus_variables(instance)
    if len(names) < len(pairs):
        return None
    return [variables.index(names[name]) for name in plus_variables(template)]
