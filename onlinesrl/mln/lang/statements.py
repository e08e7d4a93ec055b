"""The syntax of MLN files: text to statements, by the grammar in mln.lark and its dialects'."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from math import isfinite
from typing import TYPE_CHECKING, TypeAlias

from onlinesrl.logic.ast import Atom, Formula, Implies, Position, Variable
from onlinesrl.logic.dialect import ALCHEMY, Dialect
from onlinesrl.logic.parsing import check_bounds, parse, position, tokens, trees
from onlinesrl.logic.source import Source
from onlinesrl.logic.syntax_errors import MLN_WORDS
from onlinesrl.logic.text import WHOLE, show, unquote
from onlinesrl.mln.lang.formula_builder import Binder, Converter, Mention, leaf
from onlinesrl.mln.lang.weight_expression import evaluate

if TYPE_CHECKING:
    from lark import Token, Tree

    from onlinesrl.logic.parsing import Node

MAX_STARS = 10
"""More atoms than these cannot be marked `*` in one formula."""

MAX_RANGE = 1_000_000
"""An integer type has at most these many constants."""

_MARKS = {"WEIGHT", "PERIOD"}


@dataclass(frozen=True, slots=True)
class Cardinality:
    """Of the atoms that only ``over`` tells apart, at most (`<=`), or at least, so many are true."""

    over: tuple[str, ...]
    op: str
    bound: int


@dataclass(frozen=True, slots=True)
class Sentence:
    """A formula on its own: a rule, or the declaration of a predicate.

    A ``definite`` clause `head :- body` has the formula `body => head`. ``star`` is where the
    formula's first sign expansion stands, of which the sentence is one outcome. A rule may have the
    name of a variable as its weight, and a weight that learning leaves alone (``fixed``); ``closed``
    declares a predicate of a closed world, ``numeric`` one whose atoms have numbers.
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
    weight_variable: str | None = None
    fixed: bool = False
    closed: bool = False
    numeric: bool = False
    cardinality: Cardinality | None = None


@dataclass(frozen=True, slots=True)
class Enumeration:
    """The constants of a type; an ``open`` one, with `...` at its end, has those of the stream, too."""

    name: str
    constants: tuple[str, ...]
    open: bool
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


def statements(code: str, source: Source, dialect: Dialect = ALCHEMY) -> list[Statement]:
    """Parse the code of a source: its text, or its text with some lines blanked.

    Raises the source's error at the first place that is not the dialect's syntax or not supported.
    """
    grammars = tuple(f"onlinesrl.mln.lang/{name}" for name in ("mln", *dialect.grammar))
    tree = parse(code, source, grammars, dialect.complaints, MLN_WORDS)
    reader = _Statements(code, source, dialect)
    return [each for node in trees(tree) for each in reader.read(node)]


class _Statements:
    """Converts the trees of one text to statements."""

    def __init__(self, code: str, source: Source, dialect: Dialect) -> None:
        self._code = code
        self._source = source
        self._dialect = dialect

    def read(self, node: Tree[Token]) -> Iterator[Statement]:
        """Yield the statements of one tree: of a formula with ``*``, one for each choice of signs."""
        if node.data == "type":
            yield _enumeration(node, self._source, self._dialect)
            return
        check_bounds(node, self._source)
        match node.data:
            case "function":
                yield _function(node, self._source)
            case "include":
                (path,) = tokens(node)
                around = slice(node.meta.column - 1), slice(node.meta.end_column - 1, None)
                yield Include(unquote(path), around, position(path), node.meta.end_line)
            case "fixed":
                (sentence,) = trees(node)
                yield from (replace(each, fixed=True) for each in self._sentences(sentence))
            case "closed":
                yield from (replace(each, closed=True) for each in self._sentences(node))
            case "numeric":
                yield from (replace(each, numeric=True) for each in self._sentences(node))
            case "cardinality":
                yield self._cardinality(node)
            case _:
                yield from self._sentences(node)

    def _sentences(self, node: Tree[Token]) -> Iterator[Sentence]:
        marks = {each.type: each for each in tokens(node) if each.type in _MARKS}
        if {"WEIGHT", "PERIOD"} <= marks.keys():
            raise self._source.error(
                "a rule has a weight or a final period, not both",
                position(marks["PERIOD"]),
                "drop the weight to make the rule hard, or the period to make it soft",
            )
        (formula,) = (each for each in node.children if _is_formula(each))
        stars = _stars(node)
        if len(stars) > MAX_STARS:
            message = f"more than {MAX_STARS} atoms of one formula are marked `*`"
            raise self._source.error(message, position(stars[MAX_STARS]))
        for signs in product((True, False), repeat=len(stars)):
            sentence = self._sentence(node, formula, signs)
            if not stars and not sentence.definite and self._dialect is ALCHEMY:
                sentence = replace(sentence, text=_written(node, self._code, marks))
            yield replace(
                sentence,
                weight=self._weight(marks["WEIGHT"]) if "WEIGHT" in marks else None,
                weight_variable=self._weight_variable(node),
                hard="PERIOD" in marks,
                star=position(stars[0]) if stars else None,
            )

    def _sentence(self, node: Tree[Token], formula: Node, signs: Iterable[bool]) -> Sentence:
        converter = Converter(node, self._source, signs, self._dialect)
        converted = _convert(formula, converter, self._source)
        return Sentence(
            formula=converted,
            weight=None,
            hard=False,
            mentions=tuple(converter.mentions),
            binders=tuple(converter.binders),
            position=position(node),
            last_line=node.meta.end_line,
            text=show(converted),
            definite=_is_definite(formula),
            star=None,
        )

    def _weight(self, token: Token) -> float:
        weight = _number(token)
        if weight is None:
            raise self._source.error("this weight has no value", position(token))
        if not isfinite(weight):
            raise self._source.error("a weight is at most 1.8e308", position(token))
        return weight

    def _weight_variable(self, node: Tree[Token]) -> str | None:
        names = [name for each in node.find_data("weight") for name in tokens(each)]
        return next(map(self._dialect.variable, names), None)

    def _cardinality(self, node: Tree[Token]) -> Sentence:
        over, formula, op, bound = node.children
        assert not isinstance(over, str)
        names = map(self._dialect.variable, tokens(over))
        cardinality = Cardinality(tuple(filter(None, names)), str(op), int(str(bound)[:18]))
        return replace(self._sentence(node, formula, ()), hard=True, cardinality=cardinality)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return evaluate(text)


def _is_formula(node: Node) -> bool:
    if isinstance(node, str):
        return node.type not in {*_MARKS, "STAR"}
    return node.data != "weight"


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
    marks = (next(tokens(each)) for each in node.find_data("starred"))
    return sorted(marks, key=lambda mark: mark.start_pos or 0)


def _written(node: Tree[Token], code: str, marks: Mapping[str, Token]) -> str:
    """Return a sentence without weight and period, on one line."""
    text = code[node.meta.start_pos : node.meta.end_pos].removeprefix(marks.get("WEIGHT", ""))
    lines = text.removesuffix(marks.get("PERIOD", "")).split("\n")
    return " ".join(filter(None, map(str.strip, lines)))


def _function(node: Tree[Token], source: Source) -> FunctionDeclaration:
    result, name, *types = map(str, tokens(node))
    place = position(list(tokens(node))[1])
    if result == "v":
        hint = "a line may break after a connective, not before it"
        raise source.error("a formula cannot start with `v`", place, hint)
    return FunctionDeclaration(result, name, tuple(types), place, node.meta.end_line)


def _enumeration(node: Tree[Token], source: Source, dialect: Dialect) -> Enumeration:
    name, *constants = tokens(node)
    for token in constants:
        if isinstance(leaf(token, source, dialect), Variable):
            raise source.error(
                f"the constant {token} starts with a lower-case letter",
                position(token),
                f'write it with a capital or in quotes: "{token}"',
            )
    more = bool(constants) and constants[-1].type == "DOTS"
    known = constants[:-1] if more else constants
    dots = [token for token in known if token.type == "DOTS"]
    names = _range(known, dots[0], source) if dots else tuple(map(unquote, known))
    return Enumeration(str(name), names, more, position(name), node.meta.end_line)


def _range(tokens: list[Token], dots: Token, source: Source) -> tuple[str, ...]:
    """Return the integers of ``first, ..., last``."""
    if [token.type for token in tokens] != ["NUMBER", "DOTS", "NUMBER"]:
        message = "`...` stands between the first and the last integer of a type, or at its end"
        hint = (
            "write `time = {0, ..., 9}`, or `label = {A, B, ...}` where the stream may bring more"
        )
        raise source.error(message, position(dots), hint)
    for token in (tokens[0], tokens[2]):
        if not WHOLE.fullmatch(token):
            message = f"{token} is not an integer of at most 18 digits"
            raise source.error(message, position(token))
    first, last = int(tokens[0]), int(tokens[2])
    if first > last:
        raise source.error(f"the type ends before it begins, at {first}", position(tokens[2]))
    if last - first >= MAX_RANGE:
        message = f"an integer type has at most {MAX_RANGE} constants"
        raise source.error(message, position(tokens[2]))
    return tuple(map(str, range(first, last + 1)))
