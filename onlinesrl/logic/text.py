"""The spelling of constants, terms, atoms and formulas in Alchemy's syntax.

Parsing the spelling gives the same value again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from onlinesrl.logic.ast import (
    And,
    Arithmetic,
    Atom,
    Compare,
    Constant,
    Equal,
    Exists,
    Forall,
    Formula,
    Function,
    Iff,
    Implies,
    Leaf,
    Not,
    Or,
    Term,
    Variable,
    subformulas,
)

ESCAPES = {"\\": "\\", '"': '"', "'": "'", "n": "\n", "t": "\t", "r": "\r"}

STRING = r'"(?:[^"\\\n]|\\[\\"\'ntr])*"'
"""Regular expression of a quoted constant."""

NAME = r"[A-Za-z_](?:[A-Za-z0-9_']|-(?!-(?![A-Za-z0-9_'\-])))*"
"""Regular expression of an identifier, without a final ``--`` (LoMRF's predecessor)."""

_PLAIN = re.compile(rf"(?!(?i:exist|forall)$)(?=[A-Z]){NAME}|-?(?:0|[1-9][0-9]*)", re.ASCII)
_QUOTED = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n", "\t": r"\t", "\r": r"\r"})
_SPECIAL = re.compile(r'[\\"\n\t\r]')

_CONNECTIVE = {And: " ^ ", Or: " v ", Implies: " => ", Iff: " <=> "}
_BINDING = {Exists: 0, Forall: 0, Iff: 1, Implies: 2, Or: 3, And: 4, Not: 5}
_PRODUCT = {"*", "/", "%"}


WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")
"""Constants that are whole numbers, those of comparisons and arithmetic; ``007`` and ``-0`` are names."""


def constant_of(text: str) -> int | str:
    """Return a constant as examples have it, see ``WHOLE``."""
    return int(text) if WHOLE.fullmatch(text) else text


def quote(constant: str) -> str:
    """Spell a constant, in quotes if Alchemy's syntax requires them."""
    if _PLAIN.fullmatch(constant) and constant != "-0":
        return constant
    escaped = constant.translate(_QUOTED) if _SPECIAL.search(constant) else constant
    return f'"{escaped}"'


def unquote(spelling: str) -> str:
    """Return the name of a constant from its spelling by `quote`."""
    if not spelling.startswith('"'):
        return str(spelling)
    if "\\" not in spelling:
        return spelling[1:-1]
    return re.sub(r"\\(.)", lambda match: ESCAPES[match[1]], spelling[1:-1])


def show_leaf(leaf: Leaf) -> str:
    """Spell a variable or constant: ``x``, ``+x``, ``Anna`` or ``"Anna Lee"``."""
    if isinstance(leaf, Constant):
        return quote(leaf.name)
    return f"+{leaf.name}" if leaf.plus else leaf.name


def show_instance(leaf: Leaf, constants: Mapping[str, str | None]) -> str:
    """Spell a variable or constant; a variable in ``constants`` is spelled as its constant."""
    constant = constants.get(leaf.name) if isinstance(leaf, Variable) else None
    return show_leaf(leaf if constant is None else Constant(constant))


def show_term(term: Term, leaf: Callable[[Leaf], str] = show_leaf) -> str:
    """Spell a term; the function ``leaf`` spells its variables and constants."""
    match term:
        case Variable() | Constant():
            return leaf(term)
        case Function(name, parts):
            return f"{name}({', '.join(show_term(part, leaf) for part in parts)})"
        case Arithmetic(op, left, right):
            first, second = show_term(left, leaf), show_term(right, leaf)
            if isinstance(left, Arithmetic) and left.op not in _PRODUCT and op in _PRODUCT:
                first = f"({first})"
            if isinstance(right, Arithmetic) and (right.op not in _PRODUCT or op in _PRODUCT):
                second = f"({second})"
            return f"{first} {op} {second}"


def show_atom(atom: Atom, leaf: Callable[[Leaf], str] = show_leaf) -> str:
    """Spell an atom; the function ``leaf`` spells its variables and constants."""
    if not atom.terms:
        return atom.predicate
    return f"{atom.predicate}({', '.join(show_term(term, leaf) for term in atom.terms)})"


def spell_atom(name: str, constants: Sequence[object]) -> str:
    """Spell a ground atom as Alchemy does, without spaces."""
    return (
        f"{name}({','.join(quote(str(constant)) for constant in constants)})" if constants else name
    )


def show(formula: Formula, leaf: Callable[[Leaf], str] = show_leaf) -> str:
    """Spell a formula; the function ``leaf`` spells its variables and constants."""
    match formula:
        case Atom():
            text = show_atom(formula, leaf)
        case Equal(left, right):
            text = f"{show_term(left, leaf)} = {show_term(right, leaf)}"
        case Not(Equal(left, right)):
            text = f"{show_term(left, leaf)} != {show_term(right, leaf)}"
        case Compare(op, left, right):
            text = f"{show_term(left, leaf)} {op} {show_term(right, leaf)}"
        case Not(operand):
            text = f"!{_enclosed(operand, formula, leaf)}"
        case Exists(variables, body):
            text = f"EXIST {', '.join(variables)} ({show(body, leaf)})"
        case Forall(variables, body):
            text = f"FORALL {', '.join(variables)} ({show(body, leaf)})"
        case _:
            parts = (_enclosed(part, formula, leaf) for part in subformulas(formula))
            text = _CONNECTIVE[type(formula)].join(parts)
    return text


def _enclosed(operand: Formula, parent: Formula, leaf: Callable[[Leaf], str]) -> str:
    """Spell an operand, in parentheses unless it binds tighter than its parent."""
    text = show(operand, leaf)
    if isinstance(parent, Not) and isinstance(operand, Equal | Compare):
        return f"({text})"
    tighter = _BINDING.get(type(operand), 6) > _BINDING[type(parent)]
    return text if tighter or isinstance(operand, Not) else f"({text})"
