"""The spelling of PSL's rules; it parses back to the same value."""

from __future__ import annotations

import re

from onlinesrl.logic.ast import (
    And,
    Atom,
    Compare,
    Constant,
    Equal,
    Formula,
    Implies,
    Leaf,
    Not,
    Or,
    Term,
    subformulas,
)
from onlinesrl.logic.text import ESCAPES
from onlinesrl.psl.lang.ast import (
    Cardinality,
    Coefficient,
    LogicalRule,
    Number,
    Operation,
    PslProgram,
    PslRule,
    Summand,
    atoms_of,
)

_INTEGER = re.compile(r"0|[1-9][0-9]*", re.ASCII)
_QUOTED = str.maketrans({"\\": r"\\", "'": r"\'", "\n": r"\n", "\t": r"\t", "\r": r"\r"})
_CONNECTIVE = {And: " & ", Or: " | ", Implies: " -> "}
_BINDING = {Implies: 0, Or: 1, And: 2, Not: 3, Equal: 4, Compare: 4, Atom: 5}


def unquote_constant(spelling: str) -> str:
    """Return the name of a constant spelled as an integer or in quotes."""
    if spelling[0] not in "'\"":
        return str(spelling)
    return re.sub(r"\\(.)", lambda match: ESCAPES[match[1]], spelling[1:-1])


def show_formula(formula: Formula) -> str:
    """Spell a logical formula of PSL."""
    match formula:
        case Atom():
            return show_psl_atom(formula)
        case Equal(left, right):
            return f"{_term(left)} == {_term(right)}"
        case Not(Equal(left, right)):
            return f"{_term(left)} != {_term(right)}"
        case Compare(op, left, right):
            return f"{_term(left)} {op} {_term(right)}"
        case Not(operand):
            return f"!{_enclosed(operand, formula)}"
        case _:
            parts = (_enclosed(part, formula) for part in subformulas(formula))
            return _CONNECTIVE[type(formula)].join(parts)


def _enclosed(operand: Formula, parent: Formula) -> str:
    """Spell an operand, in parentheses unless it binds tighter than its parent."""
    text = show_formula(operand)
    compared = isinstance(operand, Not) and isinstance(operand.operand, Equal)
    if isinstance(parent, Not):
        return text if isinstance(operand, Atom) else f"({text})"
    return text if compared or _BINDING[type(operand)] > _BINDING[type(parent)] else f"({text})"


def show_psl_atom(atom: Atom) -> str:
    """Spell an atom, with ``+`` before summation variables."""
    return f"{atom.predicate}({', '.join(map(_term, atom.terms))})"


def _term(term: Term) -> str:
    assert isinstance(term, Leaf)
    if isinstance(term, Constant):
        whole = _INTEGER.fullmatch(term.name)
        return term.name if whole else f"'{term.name.translate(_QUOTED)}'"
    return f"+{term.name}" if term.plus else term.name


def show_coefficient(coefficient: Coefficient) -> str:
    """Spell a coefficient, with parentheses around infix operations."""
    match coefficient:
        case Number(value):
            return show_number(value)
        case Cardinality(variable):
            return f"|{variable}|"
        case Operation("@Min" | "@Max" as op, left, right):
            return f"{op}[{show_coefficient(left)}, {show_coefficient(right)}]"
        case Operation(op, left, right):
            return f"({show_coefficient(left)} {op} {show_coefficient(right)})"


def show_number(value: float) -> str:
    """Spell a number in the fewest digits that parse back to it."""
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


def _sum(summands: tuple[Summand, ...]) -> str:
    return " + ".join(map(_summand, summands))


def _summand(summand: Summand) -> str:
    if summand.atom is None:
        return show_coefficient(summand.coefficient)
    atom = show_psl_atom(summand.atom)
    if summand.coefficient == Number(1.0):
        return atom
    return f"{show_coefficient(summand.coefficient)} * {atom}"


def show_rule(rule: PslRule) -> str:
    """Spell a rule with its weight, exponent or period, and filters."""
    if isinstance(rule, LogicalRule):
        body, filters = show_formula(rule.formula), ""
    else:
        body = f"{_sum(rule.left)} {rule.op} {_sum(rule.right)}"
        filters = "".join(
            f" {{{filter_.variable}: {show_formula(filter_.condition)}}}"
            for filter_ in rule.filters
        )
    if rule.weight is None:
        body = re.sub(r"^-\S+", r"(\g<0>)", body)  # else a rule before it would subtract it
        return f"{body} .{filters}"
    power = " ^2" if rule.power == 2 else ""
    return f"{show_number(rule.weight)}: {body}{power}{filters}"


def show_unweighted(rule: PslRule) -> str:
    """Spell a rule without its weight."""
    return show_rule(rule).partition(": ")[2] if rule.weight is not None else show_rule(rule)


def show_program(program: PslProgram) -> str:
    """Spell a program: declarations of predicates that no rule uses, then one rule per line."""
    used = {atom.predicate for rule in program.rules for atom in atoms_of(rule)}
    unused = (f"{name}/{n}" for name, n in program.predicates.items() if name not in used)
    return "".join(f"{line}\n" for line in (*unused, *map(show_rule, program.rules)))
