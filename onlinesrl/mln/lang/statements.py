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
from typing import Any, TypeAlias

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
from onlinesrl.logic.parsing import Grammar, Node, Word, parse_lines
from onlinesrl.logic.source import Source
from onlinesrl.logic.syntax_errors import MLN_WORDS
from onlinesrl.logic.text import WHOLE, show, show_term, unquote

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


class _Converter:
    """A converter of the tree of one sentence.

    ``stars`` are the positions of the marks ``*`` before atoms. A bound variable gets a new name if its name
    occurs elsewhere in the sentence.
    """

    def __init__(self, node: Node, source: Source, dialect: Dialect) -> None:
        inside = _inside(node)
        marked = [x for x in inside if isinstance(x, Node) and x.kind == "starred"]
        self.stars = [atom.parts[0].position for atom in marked]
        self._node = node
        self._source = source
        self._dialect = dialect
        self._uses = _names(inside)
        self._variable = {word: dialect.variable(word) for word in self._uses}

    def sentence(self, formula: Node | Word, signs: Iterable[bool] = ()) -> Sentence:
        """Return the sentence of a formula; ``signs`` are those of the atoms marked ``*``, in order."""
        self._mentions: list[Mention] = []
        self._binders: list[Binder] = []
        self._signs = iter(signs)
        self._variable_names = {variable or str(word) for word, variable in self._variable.items()}
        definite = isinstance(formula, Node) and formula.kind == "definite"
        if isinstance(formula, Node) and definite:
            head_node, body_node = formula.parts
            body, head = self._formula(body_node, {}), self._formula(head_node, {})
            if not isinstance(head, Atom):
                message = "the head of a definite clause is one atom without sign"
                hint = "write other rules as `body => head`"
                raise self._source.error(message, head_node.position, hint)
            converted: Formula = Implies(body, head)
        else:
            converted = self._formula(formula, {})
        return Sentence(
            formula=converted,
            mentions=tuple(self._mentions),
            binders=tuple(self._binders),
            position=self._node.position,
            last_line=self._node.last_line,
            definite=definite,
        )

    def _formula(self, node: Node | Word, bound: Mapping[str, str]) -> Formula:
        """Convert a formula's tree; ``bound`` maps the bound variables in scope to their names."""
        if isinstance(node, Word) or node.kind == "call":
            return self._atom(node, bound)
        match node.kind:
            case "compare":
                return self._comparison(node, bound)
            case "starred":
                atom = self._atom(node.parts[1], bound)
                return atom if next(self._signs) else Not(atom)
            case "quantified":
                return self._quantified(node, bound)
            case connective:
                operands = tuple([self._formula(part, bound) for part in node.parts])
                return _CONNECTED[connective](operands)

    def _atom(self, node: Node | Word, bound: Mapping[str, str]) -> Atom:
        name, *nodes = [node] if isinstance(node, Word) else node.parts
        arguments = tuple([self._argument(argument, bound) for argument in nodes])
        atom = Atom(str(name), tuple([argument.term for argument in arguments]))
        self._mentions.append(Mention(atom, arguments, name.position))
        return atom

    def _comparison(self, node: Node, bound: Mapping[str, str]) -> Formula:
        first, sign, second = node.parts
        sides = (self._argument(first, bound), self._argument(second, bound))
        left, right = (side.term for side in sides)
        compared: Equal | Compare
        if sign in {"=", *_UNEQUAL}:
            compared = Equal(left, right)
        else:
            compared = Compare("<=" if sign == "=<" else str(sign), left, right)
            self._check_integers(sides)
        self._mentions.append(Mention(compared, sides, sides[0].position))
        return Not(compared) if sign in _UNEQUAL else compared

    def _quantified(self, node: Node, bound: Mapping[str, str]) -> Formula:
        word, variables, body = node.parts
        assert isinstance(word, Word) and isinstance(variables, Node)
        inner = _names(_inside(node))
        scope = dict(bound)
        for name in variables.words:
            variable = self._variable[name]
            if variable is None:
                message = f"a quantifier binds variables, and {name} is a constant"
                raise self._source.error(message, name.position)
            if inner[name] < self._uses[name]:  # the name is used elsewhere
                variable = fresh_name(variable, self._variable_names)
                self._variable_names.add(variable)
            scope[name] = variable
        binds = tuple(dict.fromkeys([scope[name] for name in variables.words]))
        self._binders.append(Binder(binds, word.position))
        quantifier = Exists if word.lower() == "exist" else Forall
        return quantifier(binds, self._formula(body, scope))

    def _argument(self, node: Node | Word, bound: Mapping[str, str]) -> Argument:
        if isinstance(node, Word):
            return Argument(self._leaf(node, bound), str(node), node.position)
        match node.kind:
            case "plus":
                return self._plus(node, bound)
            case "marked" | "optional" | "named":  # in a declaration: a type, with a mark or a name
                name, *rest = node.parts
                mark = {"marked": "!", "optional": "?"}.get(node.kind, "")
                if rest and isinstance(rest[0], Node):
                    mark = "!"
                return Argument(Variable(str(name)), f"{name}{mark}", node.position)
            case "call":
                return self._function(node, bound)
            case _:
                return self._arithmetic(node, bound)

    def _leaf(self, word: Word, bound: Mapping[str, str]) -> Leaf:
        variable = self._variable.get(word)
        if variable is None:
            return _constant(word, self._source, self._dialect)
        return Variable(bound.get(word, variable))

    def _plus(self, node: Node, bound: Mapping[str, str]) -> Argument:
        _, name = node.parts
        assert isinstance(name, Word)
        variable = self._variable.get(name)
        if variable is None and self._dialect is ALCHEMY:
            constant = _constant(name, self._source, self._dialect)
            return Argument(constant, f"+{name}", node.position)
        if variable is None:
            message = f"`+` needs a variable, and {name} is a constant"
            raise self._source.error(message, name.position)
        if name in bound:
            message = f"`+` needs a free variable, and a quantifier binds {name}"
            raise self._source.error(message, name.position)
        return Argument(Variable(variable, plus=True), f"+{name}", node.position)

    def _function(self, node: Node, bound: Mapping[str, str]) -> Argument:
        name, *nodes = node.parts
        parts = tuple([self._argument(argument, bound) for argument in nodes])
        term: Term
        if name == "succ" and len(parts) == 1:
            self._check_integers(parts)
            term = Arithmetic("+", parts[0].term, Constant("1"))
        else:
            term = Function(str(name), tuple([part.term for part in parts]))
        return Argument(term, show_term(term), name.position, parts)

    def _arithmetic(self, node: Node, bound: Mapping[str, str]) -> Argument:
        first, sign, *second = node.parts
        parts = tuple([self._argument(operand, bound) for operand in (first, *second)])
        self._check_integers(parts)
        right = parts[1].term if second else Constant("1")
        term = Arithmetic(str(sign)[0], parts[0].term, right)
        return Argument(term, show_term(term), node.position, parts)

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


def _constant(word: Word, source: Source, dialect: Dialect) -> Constant:
    """Convert a name, number or string that is no variable."""
    if word.kind == "NUMBER" and not (dialect.decimals or word.removeprefix("-").isdigit()):
        raise source.error(
            f"the constant {word} is not an integer", word.position, f'put it in quotes: "{word}"'
        )
    return Constant(unquote(word))


def _inside(node: Node) -> list[Node | Word]:
    """Return a node, and all nodes and words inside, in the order of the text."""
    inner: list[Node | Word] = []
    waiting: list[Node | Word] = [node]
    while waiting:
        part = waiting.pop()
        inner.append(part)
        if isinstance(part, Node):
            waiting += reversed(part.parts)
    return inner


def _names(parts: Iterable[Node | Word]) -> Counter[Word]:
    """Count the occurrences of each name."""
    return Counter([x for x in parts if isinstance(x, Word) and x.kind in {"NAME", "VARIABLE"}])


MAX_STARS = 10
"""The largest number of atoms marked `*` in one formula."""

MAX_RANGE = 1_000_000
"""The largest number of constants of an integer type."""

_MARKS = {"WEIGHT", "weight", "PERIOD"}


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
    mentions: tuple[Mention, ...]
    binders: tuple[Binder, ...]
    position: Position
    last_line: int
    definite: bool
    text: str = ""
    weight: float | None = None
    hard: bool = False
    star: Position | None = None
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
    files = tuple(f"onlinesrl.mln.lang/{name}" for name in ("mln", *dialect.grammar))
    grammar = Grammar(files, dialect.complaints, MLN_WORDS, lists=("type",))
    reader = _Statements(source, dialect)
    for node in parse_lines(code, source, grammar):
        yield from reader.read(node)


class _Statements:
    """A converter of the trees of one text to statements."""

    def __init__(self, source: Source, dialect: Dialect) -> None:
        self._source = source
        self._dialect = dialect

    def read(self, node: Node) -> Iterator[Statement]:
        """Yield the statements of one tree; a formula with ``*`` has one for each choice of signs."""
        match node.kind:
            case "type":
                yield _enumeration(node, self._source, self._dialect)
            case "function":
                yield _function(node, self._source)
            case "include":
                (path,) = node.parts
                before = node.position.column - 1
                around = slice(before), slice(before + len(node.code[node.span]), None)
                yield Include(unquote(str(path)), around, path.position, node.last_line)
            case "fixed" | "closed" | "numeric":
                sentence = node.parts[-1] if node.kind == "fixed" else node
                assert isinstance(sentence, Node)
                mark: dict[str, Any] = {node.kind: True}
                yield from (replace(x, **mark) for x in self._sentences(sentence))
            case "cardinality":
                yield self._cardinality(node)
            case _:
                yield from self._sentences(node)

    def _sentences(self, node: Node) -> Iterator[Sentence]:
        parts = {part.kind: part for part in node.parts if part.kind in _MARKS}
        if {"WEIGHT", "PERIOD"} <= parts.keys():
            raise self._source.error(
                "a rule has a weight or a final period, not both",
                parts["PERIOD"].position,
                "drop the weight to make the rule hard, or the period to make it soft",
            )
        weight, variable = parts.get("WEIGHT"), None
        if isinstance(named := parts.get("weight"), Node):
            (variable,) = map(self._dialect.variable, named.words)
        (formula,) = (part for part in node.parts if part.kind not in {*_MARKS, "STAR"})
        converter = _Converter(node, self._source, self._dialect)
        stars = converter.stars
        if len(stars) > MAX_STARS:
            message = f"more than {MAX_STARS} atoms of one formula are marked `*`"
            raise self._source.error(message, stars[MAX_STARS])
        for signs in product((True, False), repeat=len(stars)):
            sentence = converter.sentence(formula, signs)
            as_written = not stars and not sentence.definite and self._dialect is ALCHEMY
            text = _written(node, parts) if as_written else show(sentence.formula)
            yield replace(
                sentence,
                weight=self._weight(weight) if weight is not None else None,
                weight_variable=variable,
                hard="PERIOD" in parts,
                star=stars[0] if stars else None,
                text=text,
            )

    def _weight(self, word: Node | Word) -> float:
        try:
            weight: float | None = float(str(word))
        except ValueError:
            weight = evaluate(str(word))
        if weight is None:
            raise self._source.error("this weight has no value", word.position)
        if not isfinite(weight):
            raise self._source.error("a weight is at most 1.8e308", word.position)
        return weight

    def _cardinality(self, node: Node) -> Sentence:
        over, formula, op, bound = node.parts
        assert isinstance(over, Node)
        names = map(self._dialect.variable, over.words)
        cardinality = Cardinality(tuple(filter(None, names)), str(op), int(str(bound)[:18]))
        sentence = _Converter(node, self._source, self._dialect).sentence(formula)
        return replace(sentence, hard=True, cardinality=cardinality)


def _written(node: Node, marks: Mapping[str, Node | Word]) -> str:
    """Return the text of a sentence as written, without weight and period, on one line."""
    code = node.code[node.span].removeprefix(str(marks.get("WEIGHT", "")))
    lines = code.removesuffix(str(marks.get("PERIOD", ""))).split("\n")
    return " ".join(filter(None, map(str.strip, lines)))


def _function(node: Node, source: Source) -> FunctionDeclaration:
    result, name, *types = map(str, node.parts)
    place = node.parts[1].position
    if result == "v":
        hint = "a line may break after a connective, not before it"
        raise source.error("a formula cannot start with `v`", place, hint)
    return FunctionDeclaration(result, name, tuple(types), place, node.last_line)


def _enumeration(node: Node, source: Source, dialect: Dialect) -> Enumeration:
    name, *constants = node.words
    for word in constants:
        if dialect.variable(word) is not None:
            raise source.error(
                f"the constant {word} starts with a lower-case letter",
                word.position,
                f'write it with a capital or in quotes: "{word}"',
            )
        _constant(word, source, dialect)
    more = bool(constants) and constants[-1].kind == "DOTS"
    listed = constants[:-1] if more else constants
    dots = [word for word in listed if word.kind == "DOTS"]
    names = tuple(map(unquote, listed))
    if dots:  # the integers of ``first, ..., last``
        if [word.kind for word in listed] != ["NUMBER", "DOTS", "NUMBER"]:
            raise source.error(
                "`...` stands between the first and the last integer of a type, or at its end",
                dots[0].position,
                "write `time = {0, ..., 9}`, or `label = {A, B, ...}` if the stream may add constants",
            )
        for word in (listed[0], listed[2]):
            if not WHOLE.fullmatch(word):
                message = f"{word} is not an integer of at most 18 digits without leading zeros"
                raise source.error(message, word.position)
        first, last = int(listed[0]), int(listed[2])
        if first > last:
            message = f"the type ends before it begins, at {first}"
            raise source.error(message, listed[2].position)
        if last - first >= MAX_RANGE:
            message = f"an integer type has at most {MAX_RANGE} constants"
            raise source.error(message, listed[2].position)
        names = tuple(map(str, range(first, last + 1)))
    return Enumeration(str(name), names, more, name.position, node.last_line)
