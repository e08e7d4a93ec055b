"""The syntax of MLN files: text to statements, by the grammar in mln.lark."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import product
from math import isfinite
from typing import TYPE_CHECKING, TypeAlias

from onlinesrl.errors import LocatedError
from onlinesrl.lang.ast import Atom, Formula, Implies, Position, Variable
from onlinesrl.lang.complaints import complaint
from onlinesrl.lang.formulas import Binder, Converter, Mention, leaf, position
from onlinesrl.lang.source import Source
from onlinesrl.lang.text import show, unquote

if TYPE_CHECKING:
    from lark import Lark, Token, Tree, UnexpectedInput

    from onlinesrl.lang.formulas import Node

MAX_STARS = 10
"""More atoms than these cannot be marked `*` in one formula."""

MAX_RANGE = 1_000_000
"""An integer type has at most these many constants."""

_MARKS = {"WEIGHT", "PERIOD"}


@dataclass(frozen=True, slots=True)
class Sentence:
    """A formula on its own: a rule, or the declaration of a predicate.

    A ``definite`` clause `head :- body` has the formula `body => head`. ``star`` is where the
    formula's first sign expansion stands, of which the sentence is one outcome.
    """

    formula: Formula
    weight: float | None
    hard: bool
    mentions: tuple[Mention, ...]
    binders: tuple[Binder, ...]
    position: Position
    last_line: int
    text: str
    definite: bool
    star: Position | None


@dataclass(frozen=True, slots=True)
class Enumeration:
    """The constants of a type."""

    name: str
    constants: tuple[str, ...]
    position: Position
    last_line: int


@dataclass(frozen=True, slots=True)
class FunctionDeclaration:
    """``result name(types)``."""

    result: str
    name: str
    types: tuple[str, ...]
    position: Position
    last_line: int


@dataclass(frozen=True, slots=True)
class Include:
    """``#include "path"``; ``around`` are the parts of its line before and after it."""

    path: str
    around: tuple[slice, slice]
    position: Position
    last_line: int


Statement: TypeAlias = Sentence | Enumeration | FunctionDeclaration | Include


def statements(code: str, source: Source) -> list[Statement]:
    """Parse the code of a source: its text, or its text with some lines blanked.

    Raises the source's error at the first place that is not Alchemy's syntax or not supported.
    """
    from lark import UnexpectedInput

    try:
        tree = _parser().parse(code)
    except UnexpectedInput as error:
        raise _located(error, code, source) from None
    return [each for node in _trees(tree) for each in _statements(node, code, source)]


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


def _statements(node: Tree[Token], code: str, source: Source) -> Iterator[Statement]:
    match node.data:
        case "type":
            yield _enumeration(node, source)
        case "function":
            yield _function(node, source)
        case "include":
            (path,) = _tokens(node)
            around = slice(node.meta.column - 1), slice(node.meta.end_column - 1, None)
            yield Include(unquote(path), around, position(path), node.meta.end_line)
        case _:
            yield from _sentences(node, code, source)


def _sentences(node: Tree[Token], code: str, source: Source) -> Iterator[Sentence]:
    """Yield a sentence for each choice of signs of the atoms marked ``*``."""
    marks = {each.type: each for each in _tokens(node) if each.type in _MARKS}
    if len(marks) == 2:
        raise source.error(
            "a rule has a weight or a final period, not both",
            position(marks["PERIOD"]),
            "drop the weight to make the rule hard, or the period to make it soft",
        )
    weight = float(marks["WEIGHT"]) if "WEIGHT" in marks else None
    if weight is not None and not isfinite(weight):
        raise source.error("a weight is at most 1.8e308", position(node))
    (formula,) = (each for each in node.children if getattr(each, "type", None) not in _MARKS)
    stars = _stars(node)
    if len(stars) > MAX_STARS:
        message = f"more than {MAX_STARS} atoms of one formula are marked `*`"
        raise source.error(message, position(stars[MAX_STARS]))
    for signs in product((True, False), repeat=len(stars)):
        converter = Converter(node, source, signs)
        yield Sentence(
            formula=(converted := _convert(formula, converter, source)),
            weight=weight,
            hard="PERIOD" in marks,
            mentions=tuple(converter.mentions),
            binders=tuple(converter.binders),
            position=position(node),
            last_line=node.meta.end_line,
            text=show(converted) if stars or _is_definite(formula) else _written(node, code, marks),
            definite=_is_definite(formula),
            star=position(stars[0]) if stars else None,
        )


def _convert(node: Node, converter: Converter, source: Source) -> Formula:
    if not _is_definite(node):
        return converter.formula(node)
    assert not isinstance(node, str)
    head_node, body_node = node.children
    body = converter.formula(body_node)
    head = converter.formula(head_node)
    if not isinstance(head, Atom):
        message = "the head of a definite clause is one atom without sign"
        raise source.error(message, position(head_node), "write other rules as `body => head`")
    return Implies(body, head)


def _is_definite(node: Node) -> bool:
    return not isinstance(node, str) and node.data == "definite"


def _stars(node: Tree[Token]) -> list[Token]:
    """Return the ``*`` marks of a sentence in their order."""
    marks = (next(_tokens(each)) for each in node.find_data("starred"))
    return sorted(marks, key=lambda mark: mark.start_pos or 0)


def _written(node: Tree[Token], code: str, marks: Mapping[str, Token]) -> str:
    """Return a sentence without weight and period, on one line."""
    text = code[node.meta.start_pos : node.meta.end_pos].removeprefix(marks.get("WEIGHT", ""))
    return re.sub(r"\s*\n\s*", " ", text.removesuffix(marks.get("PERIOD", "")).strip())


def _function(node: Tree[Token], source: Source) -> FunctionDeclaration:
    result, name, *types = map(str, _tokens(node))
    place = position(list(_tokens(node))[1])
    if result == "v":
        hint = "a line may break after a connective, not before it"
        raise source.error("a formula cannot start with `v`", place, hint)
    return FunctionDeclaration(result, name, tuple(types), place, node.meta.end_line)


def _enumeration(node: Tree[Token], source: Source) -> Enumeration:
    name, *constants = _tokens(node)
    for token in constants:
        if isinstance(leaf(token, source), Variable):
            raise source.error(
                f"the constant {token} starts with a lower-case letter",
                position(token),
                f'write it with a capital or in quotes: "{token}"',
            )
    dots = [token for token in constants if token.type == "DOTS"]
    names = _range(constants, dots[0], source) if dots else tuple(map(unquote, constants))
    return Enumeration(str(name), names, position(name), node.meta.end_line)


def _range(tokens: list[Token], dots: Token, source: Source) -> tuple[str, ...]:
    """Return the integers of ``first, ..., last``."""
    if [token.type for token in tokens] != ["NUMBER", "DOTS", "NUMBER"]:
        message = "`...` stands between the first and the last integer of a type"
        raise source.error(message, position(dots), "write `time = {0, ..., 9}`")
    first, last = int(tokens[0]), int(tokens[2])
    if first > last:
        raise source.error(f"the type ends before it begins, at {first}", position(tokens[2]))
    if last - first >= MAX_RANGE:
        message = f"an integer type has at most {MAX_RANGE} constants"
        raise source.error(message, position(tokens[2]))
    return tuple(map(str, range(first, last + 1)))


def _trees(node: Tree[Token]) -> Iterator[Tree[Token]]:
    return (child for child in node.children if not isinstance(child, str))


def _tokens(node: Tree[Token]) -> Iterator[Token]:
    return (child for child in node.children if isinstance(child, str))
