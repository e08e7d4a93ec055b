"""The parser of MLN files: text to statements, by the grammar mln.lark and those of dialects."""

from __future__ import annotations

import ast
import math
import operator
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from math import isfinite
from typing import TYPE_CHECKING, TypeAlias

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
    Position,
    Term,
    Variable,
    fresh_name,
)
from onlinesrl.logic.dialect import ALCHEMY, Dialect
from onlinesrl.logic.parsing import check_bounds, parse_lines, position, tokens, trees
from onlinesrl.logic.source import Source
from onlinesrl.logic.syntax_errors import MLN_WORDS
from onlinesrl.logic.text import WHOLE, show, show_term, unquote

if TYPE_CHECKING:
    from lark import Token, Tree

    from onlinesrl.logic.parsing import Node

MAX_LENGTH = 200
"""The largest length of a weight expression."""

_OPERATORS: dict[type, Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_SIGNS: dict[type, Callable[[float], float]] = {ast.UAdd: operator.pos, ast.USub: operator.neg}
_FUNCTIONS: dict[str, Callable[[float], float]] = {
    "exp": math.exp,
    "log": math.log,
    "logx": lambda x: math.log(x) if x else -100.0,
    "sqrt": math.sqrt,
}


def evaluate(text: str) -> float | None:
    """Return the value of an expression; None for an invalid expression or an undefined value.

    ``logx(0)`` is -100.
    """
    if len(text) > MAX_LENGTH:
        return None
    try:
        return _value(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, ArithmeticError, RecursionError, MemoryError):
        return None


def _value(node: ast.expr) -> float:
    match node:
        case ast.Constant(int() | float() as value):
            return float(value)
        case ast.BinOp(left, op, right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_value(left), _value(right))
        case ast.UnaryOp(op, operand) if type(op) in _SIGNS:
            return _SIGNS[type(op)](_value(operand))
        case ast.Call(ast.Name(name), [argument], []) if name in _FUNCTIONS:
            return _FUNCTIONS[name](_value(argument))
        case _:
            raise ValueError


@dataclass(frozen=True, slots=True)
class Argument:
    """A term in the text; ``spelling`` keeps quotes, a leading + and a trailing !.

    ``parts`` are the arguments of a function, or the written operands of arithmetic.
    """

    term: Term
    spelling: str
    position: Position
    parts: tuple[Argument, ...] = ()


@dataclass(frozen=True, slots=True)
class Mention:
    """An atom, equality or comparison in the text."""

    formula: Atom | Equal | Compare
    arguments: tuple[Argument, ...]
    position: Position


@dataclass(frozen=True, slots=True)
class Binder:
    """A quantifier in the text, and the variables that it binds."""

    variables: tuple[str, ...]
    position: Position


class Converter:
    """A converter of the trees of one sentence, which collects ``mentions`` and ``binders`` in order.

    ``signs`` are the signs of the atoms marked ``*`` from left to right. A bound variable gets a new
    name if its name occurs elsewhere in the sentence.
    """

    def __init__(
        self,
        sentence: Tree[Token],
        source: Source,
        signs: Iterable[bool] = (),
        dialect: Dialect = ALCHEMY,
    ) -> None:
        self.mentions: list[Mention] = []
        self.binders: list[Binder] = []
        self._source = source
        self._signs = iter(signs)
        self._dialect = dialect
        self._uses = _names(sentence)
        self._variable_names = {self._named(name) for name in self._uses}

    def formula(self, node: Node, bound: Mapping[str, str] | None = None) -> Formula:
        """Convert a formula's tree; ``bound`` maps the bound variables in scope to their names."""
        bound = bound or {}
        if isinstance(node, str) or node.data == "call":
            return self._atom(node, bound)
        match node.data:
            case "compare":
                return self._comparison(node, bound)
            case "starred":
                atom = self._atom(node.children[1], bound)
                return atom if next(self._signs) else Not(atom)
            case "quantified":
                return self._quantified(node, bound)
            case connective:
                operands = tuple(self.formula(child, bound) for child in node.children)
                return _CONNECTED[str(connective)](operands)

    def _atom(self, node: Node, bound: Mapping[str, str]) -> Atom:
        name, *nodes = [node] if isinstance(node, str) else node.children
        arguments = tuple(self._argument(argument, bound) for argument in nodes)
        atom = Atom(str(name), tuple(argument.term for argument in arguments))
        self.mentions.append(Mention(atom, arguments, position(name)))
        return atom

    def _comparison(self, node: Tree[Token], bound: Mapping[str, str]) -> Formula:
        first, sign, second = node.children
        sides = (self._argument(first, bound), self._argument(second, bound))
        left, right = (side.term for side in sides)
        compared: Equal | Compare
        if sign in {"=", *_UNEQUAL}:
            compared = Equal(left, right)
        else:
            compared = Compare("<=" if sign == "=<" else str(sign), left, right)
            self._check_integers(sides)
        self.mentions.append(Mention(compared, sides, sides[0].position))
        return Not(compared) if sign in _UNEQUAL else compared

    def _quantified(self, node: Tree[Token], bound: Mapping[str, str]) -> Formula:
        word = next(tokens(node))
        names, body = node.children[1:]
        assert not isinstance(names, str)
        inner = _names(node)
        scope = dict(bound)
        for name in tokens(names):
            if self._dialect.variable(name) is None:
                message = f"a quantifier binds variables, and {name} is a constant"
                raise self._source.error(message, position(name))
            variable = self._named(name)
            if inner[name] < self._uses[name]:  # the name is used elsewhere
                variable = fresh_name(variable, self._variable_names)
                self._variable_names.add(variable)
            scope[str(name)] = variable
        variables = tuple(dict.fromkeys(scope[name] for name in tokens(names)))
        self.binders.append(Binder(variables, position(word)))
        quantifier = Exists if word.lower() == "exist" else Forall
        return quantifier(variables, self.formula(body, scope))

    def _named(self, name: Token) -> str:
        return self._dialect.variable(name) or str(name)

    def _argument(self, node: Node, bound: Mapping[str, str]) -> Argument:
        if isinstance(node, str):
            term = leaf(node, self._source, self._dialect, bound)
            return Argument(term, str(node), position(node))
        match node.data:
            case "plus":
                return self._plus(node, bound)
            case "marked" | "optional" | "named":  # in a declaration: a type, with a mark or a name
                name, *rest = node.children
                mark = {"marked": "!", "optional": "?"}.get(node.data, "")
                if rest and not isinstance(rest[0], str):
                    mark = "!"
                return Argument(Variable(str(name)), f"{name}{mark}", position(node))
            case "call":
                return self._function(node, bound)
            case _:
                return self._arithmetic(node, bound)

    def _plus(self, node: Tree[Token], bound: Mapping[str, str]) -> Argument:
        _, name = tokens(node)
        variable = self._dialect.variable(name)
        if variable is None and self._dialect is ALCHEMY:
            constant = leaf(name, self._source, self._dialect)
            return Argument(constant, f"+{name}", position(node))
        if variable is None:
            message = f"`+` needs a variable, and {name} is a constant"
            raise self._source.error(message, position(name))
        if name in bound:
            message = f"`+` needs a free variable, and a quantifier binds {name}"
            raise self._source.error(message, position(name))
        return Argument(Variable(variable, plus=True), f"+{name}", position(node))

    def _function(self, node: Tree[Token], bound: Mapping[str, str]) -> Argument:
        name, *nodes = node.children
        parts = tuple(self._argument(argument, bound) for argument in nodes)
        term: Term
        if name == "succ" and len(parts) == 1:
            self._check_integers(parts)
            term = Arithmetic("+", parts[0].term, Constant("1"))
        else:
            term = Function(str(name), tuple(part.term for part in parts))
        return Argument(term, show_term(term), position(name), parts)

    def _arithmetic(self, node: Tree[Token], bound: Mapping[str, str]) -> Argument:
        first, sign, *second = node.children
        assert isinstance(sign, str)
        parts = tuple(self._argument(operand, bound) for operand in (first, *second))
        self._check_integers(parts)
        right = parts[1].term if second else Constant("1")
        term = Arithmetic(sign[0], parts[0].term, right)
        return Argument(term, show_term(term), position(node), parts)

    def _check_integers(self, arguments: Iterable[Argument]) -> None:
        for argument in arguments:
            term = argument.term
            if isinstance(term, Constant) and not WHOLE.fullmatch(term.name):
                message = f"{argument.spelling} is not an integer of at most 18 digits without leading zeros"
                raise self._source.error(message, argument.position)


_UNEQUAL = {"!=", "=/=", "<>"}

_CONNECTED: dict[str, Callable[[tuple[Formula, ...]], Formula]] = {
    **dict.fromkeys(("not", "negative", "denied"), lambda operands: Not(*operands)),
    **dict.fromkeys(("and", "both", "conditions"), And),
    **dict.fromkeys(("or", "either"), Or),
    "implies": lambda operands: Implies(*operands),
    "iff": lambda operands: Iff(*operands),
}


def leaf(
    token: Token, source: Source, dialect: Dialect, bound: Mapping[str, str] | None = None
) -> Leaf:
    """Convert a name, number or string; ``bound`` maps bound variables to their names."""
    variable = dialect.variable(token)
    if variable is not None:
        return Variable((bound or {}).get(token, variable))
    if token.type == "NUMBER" and not (dialect.decimals or token.removeprefix("-").isdigit()):
        raise source.error(
            f"the constant {token} is not an integer",
            position(token),
            f'put it in quotes: "{token}"',
        )
    return Constant(unquote(token))


def _names(tree: Tree[Token]) -> Counter[Token]:
    """Count the occurrences of each name in a tree."""
    kinds = {"NAME", "VARIABLE"}
    return Counter(tree.scan_values(lambda token: getattr(token, "type", None) in kinds))


MAX_STARS = 10
"""The largest number of atoms marked `*` in one formula."""

MAX_RANGE = 1_000_000
"""The largest number of constants of an integer type."""

_MARKS = {"WEIGHT", "PERIOD"}


@dataclass(frozen=True, slots=True)
class Cardinality:
    """A bound on the number of true atoms that differ only in ``over``: at most (`<=`) or at least."""

    over: tuple[str, ...]
    op: str
    bound: int


@dataclass(frozen=True, slots=True)
class Sentence:
    """A rule, or the declaration of a predicate.

    A ``definite`` clause `head :- body` has the formula `body => head`. ``star`` is the position of
    the formula's first sign expansion `*`; the sentence has one choice of signs. ``weight_variable`` is
    a variable whose value is the weight; learning does not change a ``fixed`` weight. ``closed`` declares
    a closed-world predicate, ``numeric`` a predicate whose atoms have numeric values.
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
    """The constants of a type; an ``open`` type (`...` at the end) also has constants of the stream."""

    name: str
    constants: tuple[str, ...]
    open: bool
    position: Position
    last_line: int


@dataclass(frozen=True, slots=True)
class FunctionDeclaration:
    """A function declaration, ``result name(types)``."""

    result: str
    name: str
    types: tuple[str, ...]
    position: Position
    last_line: int


@dataclass(frozen=True, slots=True)
class Include:
    """An include, ``#include "path"``; ``around`` has the parts of the line before and after it."""

    path: str
    around: tuple[slice, slice]
    position: Position
    last_line: int


Statement: TypeAlias = Sentence | Enumeration | FunctionDeclaration | Include


def statements(code: str, source: Source, dialect: Dialect = ALCHEMY) -> Iterator[Statement]:
    """Parse the code of a source: its text, possibly with some lines blanked.

    Raises the error of the source at the first syntax error or unsupported construct, when it is reached.
    """
    grammars = tuple(f"onlinesrl.mln.lang/{name}" for name in ("mln", *dialect.grammar))
    for part, tree in parse_lines(code, source, grammars, dialect.complaints, MLN_WORDS):
        reader = _Statements(part, source, dialect)
        for node in trees(tree):
            yield from reader.read(node)


class _Statements:
    """A converter of the trees of one text to statements."""

    def __init__(self, code: str, source: Source, dialect: Dialect) -> None:
        self._code = code
        self._source = source
        self._dialect = dialect

    def read(self, node: Tree[Token]) -> Iterator[Statement]:
        """Yield the statements of one tree; a formula with ``*`` has one for each choice of signs."""
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
                yield from (
                    replace(statement, fixed=True) for statement in self._sentences(sentence)
                )
            case "closed":
                yield from (replace(statement, closed=True) for statement in self._sentences(node))
            case "numeric":
                yield from (replace(statement, numeric=True) for statement in self._sentences(node))
            case "cardinality":
                yield self._cardinality(node)
            case _:
                yield from self._sentences(node)

    def _sentences(self, node: Tree[Token]) -> Iterator[Sentence]:
        marks = {token.type: token for token in tokens(node) if token.type in _MARKS}
        if {"WEIGHT", "PERIOD"} <= marks.keys():
            raise self._source.error(
                "a rule has a weight or a final period, not both",
                position(marks["PERIOD"]),
                "drop the weight to make the rule hard, or the period to make it soft",
            )
        weights = (name for part in node.find_data("weight") for name in tokens(part))
        variable = next(map(self._dialect.variable, weights), None)
        (formula,) = (
            child
            for child in node.children
            if (
                child.type not in {*_MARKS, "STAR"}
                if isinstance(child, str)
                else child.data != "weight"
            )
        )
        starred = (next(tokens(argument)) for argument in node.find_data("starred"))
        stars = sorted(starred, key=lambda mark: mark.start_pos or 0)
        if len(stars) > MAX_STARS:
            message = f"more than {MAX_STARS} atoms of one formula are marked `*`"
            raise self._source.error(message, position(stars[MAX_STARS]))
        for signs in product((True, False), repeat=len(stars)):
            sentence = self._sentence(node, formula, signs)
            if not stars and not sentence.definite and self._dialect is ALCHEMY:
                # the text as written, without weight and period, on one line
                code = self._code[node.meta.start_pos : node.meta.end_pos]
                code = code.removeprefix(marks.get("WEIGHT", ""))
                lines = code.removesuffix(marks.get("PERIOD", "")).split("\n")
                code = " ".join(filter(None, map(str.strip, lines)))
                sentence = replace(sentence, text=code)
            yield replace(
                sentence,
                weight=self._weight(marks["WEIGHT"]) if "WEIGHT" in marks else None,
                weight_variable=variable,
                hard="PERIOD" in marks,
                star=position(stars[0]) if stars else None,
            )

    def _sentence(self, node: Tree[Token], formula: Node, signs: Iterable[bool]) -> Sentence:
        converter = Converter(node, self._source, signs, self._dialect)
        definite = not isinstance(formula, str) and formula.data == "definite"
        if definite:
            assert not isinstance(formula, str)
            head_node, body_node = formula.children
            body = converter.formula(body_node)
            head = converter.formula(head_node)
            if not isinstance(head, Atom):
                message = "the head of a definite clause is one atom without sign"
                hint = "write other rules as `body => head`"
                raise self._source.error(message, position(head_node), hint)
            converted: Formula = Implies(body, head)
        else:
            converted = converter.formula(formula)
        return Sentence(
            formula=converted,
            weight=None,
            hard=False,
            mentions=tuple(converter.mentions),
            binders=tuple(converter.binders),
            position=position(node),
            last_line=node.meta.end_line,
            text=show(converted),
            definite=definite,
            star=None,
        )

    def _weight(self, token: Token) -> float:
        try:
            weight: float | None = float(token)
        except ValueError:
            weight = evaluate(token)
        if weight is None:
            raise self._source.error("this weight has no value", position(token))
        if not isfinite(weight):
            raise self._source.error("a weight is at most 1.8e308", position(token))
        return weight

    def _cardinality(self, node: Tree[Token]) -> Sentence:
        over, formula, op, bound = node.children
        assert not isinstance(over, str)
        names = map(self._dialect.variable, tokens(over))
        cardinality = Cardinality(tuple(filter(None, names)), str(op), int(str(bound)[:18]))
        return replace(self._sentence(node, formula, ()), hard=True, cardinality=cardinality)


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
    listed = constants[:-1] if more else constants
    dots = [token for token in listed if token.type == "DOTS"]
    names = tuple(map(unquote, listed))
    if dots:  # the integers of ``first, ..., last``
        if [token.type for token in listed] != ["NUMBER", "DOTS", "NUMBER"]:
            raise source.error(
                "`...` stands between the first and the last integer of a type, or at its end",
                position(dots[0]),
                "write `time = {0, ..., 9}`, or `label = {A, B, ...}` if the stream may add constants",
            )
        for token in (listed[0], listed[2]):
            if not WHOLE.fullmatch(token):
                message = f"{token} is not an integer of at most 18 digits without leading zeros"
                raise source.error(message, position(token))
        first, last = int(listed[0]), int(listed[2])
        if first > last:
            message = f"the type ends before it begins, at {first}"
            raise source.error(message, position(listed[2]))
        if last - first >= MAX_RANGE:
            message = f"an integer type has at most {MAX_RANGE} constants"
            raise source.error(message, position(listed[2]))
        names = tuple(map(str, range(first, last + 1)))
    return Enumeration(str(name), names, more, position(name), node.meta.end_line)
