"""The syntax of MLN files: text to statements, by the grammar in mln.lark."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, TypeAlias

from onlinesrl.errors import LocatedError
from onlinesrl.lang.ast import (
    And,
    Atom,
    Constant,
    Equal,
    Formula,
    Iff,
    Implies,
    Not,
    Or,
    Position,
    Term,
    Variable,
)
from onlinesrl.lang.complaints import complaint
from onlinesrl.lang.source import Source
from onlinesrl.lang.text import unquote

if TYPE_CHECKING:
    from lark import Lark, Token, Tree, UnexpectedInput

    _Node: TypeAlias = Tree[Token] | Token


@dataclass(frozen=True, slots=True)
class Argument:
    """A term where it is written: ``spelling`` keeps quotes, a leading + and a trailing !."""

    term: Term
    spelling: str
    position: Position


@dataclass(frozen=True, slots=True)
class Mention:
    """An atom or equality where it is written."""

    formula: Atom | Equal
    arguments: tuple[Argument, ...]
    position: Position


@dataclass(frozen=True, slots=True)
class Sentence:
    """A formula on its own: a rule, or the declaration of a predicate."""

    formula: Formula
    weight: float | None
    hard: bool
    mentions: tuple[Mention, ...]
    position: Position
    last_line: int
    text: str


@dataclass(frozen=True, slots=True)
class Enumeration:
    """The constants of a type."""

    name: str
    constants: tuple[str, ...]
    position: Position
    last_line: int


Statement: TypeAlias = Sentence | Enumeration


def statements(code: str, source: Source) -> list[Statement]:
    """Parse the code of a source: its text, or its text with some lines blanked.

    Raises the source's error at the first place that is not Alchemy's syntax or not supported.
    """
    from lark import UnexpectedInput

    try:
        tree = _parser().parse(code)
    except UnexpectedInput as error:
        raise _located(error, code, source) from None
    return [_statement(node, code, source) for node in _trees(tree)]


@cache
def _parser() -> Lark:
    from lark import Lark

    grammar = files("onlinesrl.lang").joinpath("mln.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", propagate_positions=True, maybe_placeholders=False)


def _located(error: UnexpectedInput, code: str, source: Source) -> LocatedError:
    """Turn the parser's error into one for people."""
    token = getattr(error, "token", None)
    at_end = token is not None and token.type == "$END"
    offset = len(code.rstrip()) if at_end else error.pos_in_stream or 0
    state = _parser().parse_interactive(f"{code[:offset]} ")
    list(state.exhaust_lexer())
    accepted: set[str] = state.accepts()  # type: ignore[no-untyped-call]
    message, hint = complaint(code, offset, accepted)
    line_ends = code.startswith("\n", offset)
    return source.error(message, len(code[:offset].rstrip()) if line_ends else offset, hint)


def _statement(node: Tree[Token], code: str, source: Source) -> Statement:
    if node.data == "type":
        return _enumeration(node, source)
    (tree,) = _trees(node)
    given = {token.type: token for token in _tokens(node)}
    if len(given) == 2:
        raise source.error(
            "a rule has a weight or a final period, not both",
            _position(given["PERIOD"]),
            "drop the weight to make the rule hard, or the period to make it soft",
        )
    mentions: list[Mention] = []
    formula = _formula(tree, source, mentions)
    written = code[node.meta.start_pos : node.meta.end_pos].removeprefix(given.get("NUMBER", ""))
    return Sentence(
        formula=formula,
        weight=float(given["NUMBER"]) if "NUMBER" in given else None,
        hard="PERIOD" in given,
        mentions=tuple(mentions),
        position=Position(node.meta.line, node.meta.column),
        last_line=node.meta.end_line,
        text=re.sub(r"\s*\n\s*", " ", written.removesuffix(given.get("PERIOD", "")).strip()),
    )


def _enumeration(node: Tree[Token], source: Source) -> Enumeration:
    name, *constants = _tokens(node)
    for token in constants:
        if isinstance(_term(token, source), Variable):
            raise source.error(
                f"the constant {token} starts with a lower-case letter",
                _position(token),
                f'write it with a capital or in quotes: "{token}"',
            )
    return Enumeration(
        name=str(name),
        constants=tuple(map(unquote, constants)),
        position=_position(name),
        last_line=node.meta.end_line,
    )


def _formula(node: Tree[Token], source: Source, mentions: list[Mention]) -> Formula:
    """Convert a formula's tree, and append its atoms and equalities to ``mentions``."""
    match node.data:
        case "atom":
            name, *nodes = node.children
            arguments = tuple(_argument(each, source) for each in nodes)
            atom = Atom(str(name), tuple(each.term for each in arguments))
            mentions.append(Mention(atom, arguments, _position(name)))
            return atom
        case "equal" | "unequal":
            left, right = (_argument(each, source) for each in node.children)
            equal = Equal(left.term, right.term)
            mentions.append(Mention(equal, (left, right), left.position))
            return equal if node.data == "equal" else Not(equal)
        case connective:
            operands = tuple(_formula(each, source, mentions) for each in _trees(node))
            return _CONNECTED[str(connective)](operands)


_CONNECTED: dict[str, Callable[[tuple[Formula, ...]], Formula]] = {
    "not": lambda operands: Not(*operands),
    "and": And,
    "or": Or,
    "implies": lambda operands: Implies(*operands),
    "iff": lambda operands: Iff(*operands),
}


def _term(node: _Node, source: Source) -> Term:
    """Convert a term; a name marked ``!`` counts as a variable whatever its case."""
    if not isinstance(node, str):
        (name,) = _tokens(node)
        if node.data == "plus" and name[0].isupper():
            raise source.error(f"`+` needs a variable, and {name} is a constant", _position(name))
        return Variable(str(name), plus=node.data == "plus")
    if node.type == "NAME" and not node[0].isupper():
        return Variable(str(node))
    if node.type == "NUMBER" and not node.removeprefix("-").isdigit():
        raise source.error(
            f"the constant {node} is not an integer",
            _position(node),
            f'put it in quotes: "{node}"',
        )
    return Constant(unquote(node))


def _argument(node: _Node, source: Source) -> Argument:
    if isinstance(node, str):
        spelling = str(node)
    else:
        (name,) = _tokens(node)
        spelling = f"+{name}" if node.data == "plus" else f"{name}!"
    return Argument(_term(node, source), spelling, _position(node))


def _position(node: _Node) -> Position:
    if isinstance(node, str):
        return Position(node.line or 1, node.column or 1)
    return Position(node.meta.line, node.meta.column)


def _trees(node: Tree[Token]) -> list[Tree[Token]]:
    return [child for child in node.children if not isinstance(child, str)]


def _tokens(node: Tree[Token]) -> list[Token]:
    return [child for child in node.children if isinstance(child, str)]
