"""The spelling of formulas: Alchemy's syntax for constants, terms, atoms and formulas.

What is written here reads back as the same value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from onlinesrl.lang.ast import And, Atom, Constant, Equal, Formula, Iff, Implies, Not, Or, Term

ESCAPES = {"\\": "\\", '"': '"', "'": "'", "n": "\n", "t": "\t", "r": "\r"}

STRING = r'"(?:[^"\\\n]|\\[\\"\'ntr])*"'
"""Regular expression of a quoted constant."""

NAME = r"[A-Za-z_][A-Za-z0-9_'\-]*"
"""Regular expression of an identifier."""

_PLAIN = re.compile(r"(?!(?i:exist|forall)$)[A-Z][A-Za-z0-9_'\-]*|-?(?:0|[1-9][0-9]*)", re.ASCII)
_QUOTED = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n", "\t": r"\t", "\r": r"\r"})

_CONNECTIVE = {And: " ^ ", Or: " v ", Implies: " => ", Iff: " <=> "}
_BINDING = {Iff: 1, Implies: 2, Or: 3, And: 4, Not: 5}


def quote(constant: str) -> str:
    """Spell a constant: as it is where Alchemy's syntax allows it, else in quotes."""
    if _PLAIN.fullmatch(constant) and constant != "-0":
        return constant
    return f'"{constant.translate(_QUOTED)}"'


def unquote(spelling: str) -> str:
    """Return the name of a constant that is spelled in one of the two ways of `quote`."""
    if not spelling.startswith('"'):
        return str(spelling)
    if "\\" not in spelling:
        return spelling[1:-1]
    return re.sub(r"\\(.)", lambda match: ESCAPES[match[1]], spelling[1:-1])


def show_term(term: Term) -> str:
    """Spell a term: ``x``, ``+x``, ``Anna`` or ``"Anna Lee"``."""
    if isinstance(term, Constant):
        return quote(term.name)
    return f"+{term.name}" if term.plus else term.name


def show_atom(atom: Atom, term: Callable[[Term], str] = show_term) -> str:
    """Spell an atom, each of its terms by the function ``term``."""
    if not atom.terms:
        return atom.predicate
    return f"{atom.predicate}({', '.join(map(term, atom.terms))})"


def show(formula: Formula, term: Callable[[Term], str] = show_term) -> str:
    """Spell a formula, each of its terms by the function ``term``."""
    match formula:
        case Atom():
            return show_atom(formula, term)
        case Equal(left, right):
            return f"{term(left)} = {term(right)}"
        case Not(Equal(left, right)):
            return f"{term(left)} != {term(right)}"
        case Not(operand):
            return f"!{_enclosed(operand, formula, term)}"
        case And(operands) | Or(operands):
            return _joined(operands, formula, term)
        case Implies(left, right) | Iff(left, right):
            return _joined((left, right), formula, term)


def _joined(operands: Sequence[Formula], parent: Formula, term: Callable[[Term], str]) -> str:
    return _CONNECTIVE[type(parent)].join(_enclosed(each, parent, term) for each in operands)


def _enclosed(operand: Formula, parent: Formula, term: Callable[[Term], str]) -> str:
    """Spell an operand, in parentheses where it does not bind tighter than its parent."""
    text = show(operand, term)
    if isinstance(parent, Not) and isinstance(operand, Equal):
        return f"({text})"
    tighter = _BINDING.get(type(operand), 6) > _BINDING[type(parent)]
    return text if tighter or isinstance(operand, Not) else f"({text})"
