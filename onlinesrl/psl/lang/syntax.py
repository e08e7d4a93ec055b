"""Parsing of PSL's rules, by the grammar in psl.lark."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

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
    Position,
    Variable,
)
from onlinesrl.logic.parsing import MAX_DEPTH, MAX_NAMES, Grammar, Node, Word, parse
from onlinesrl.logic.source import Source
from onlinesrl.psl.lang.ast import (
    LARGEST,
    ArithmeticRule,
    Cardinality,
    Coefficient,
    Filter,
    LogicalRule,
    Number,
    PslRule,
    Summand,
    moderate,
    operation,
)
from onlinesrl.psl.lang.syntax_errors import COMPLAINTS, WORDS
from onlinesrl.psl.lang.text import unquote_constant

_GRAMMAR = Grammar(("onlinesrl.psl.lang/psl",), COMPLAINTS, WORDS)
_STRING = r'"(?:[^"\\\n]|\\.)*"' + r"|'(?:[^'\\\n]|\\.)*'"
COMMENT = re.compile(rf"({_STRING})|//[^\n]*|#[^\n]*|/\*.*?\*/|(/\*)", re.DOTALL)
"""Matches a comment, or a quoted constant as group 1, or an unclosed comment as group 2."""

_ONE = Number(1.0)

_CONNECTED: Mapping[str, Callable[[tuple[Formula, ...]], Formula]] = {
    "not": lambda operands: Not(*operands),
    "and": And,
    "or": Or,
    "implies": lambda operands: Implies(*operands),
    "implied": lambda operands: Implies(*reversed(operands)),
}


class Mention(NamedTuple):
    """An atom with its position."""

    atom: Atom
    position: Position


@dataclass(frozen=True, slots=True)
class ParsedRule:
    """A rule, its atoms in order, and the first position of each variable.

    ``filtered`` are the positions of the filters.
    """

    rule: PslRule
    mentions: tuple[Mention, ...]
    places: dict[str, Position]
    filtered: tuple[Position, ...]


class Declaration(NamedTuple):
    """A predicate with its number of arguments."""

    name: str
    arity: int
    position: Position


def parsed_program(
    code: str, source: Source, spell: Callable[[str], str]
) -> tuple[list[Declaration], list[ParsedRule]]:
    """Parse the code of a source; ``spell`` normalises the spelling of predicates.

    Raises the source's error at the first syntax error.
    """
    declarations, rules = [], []
    for statement in parse(code, source, _GRAMMAR):
        if isinstance(statement, Node):
            rules.append(_Converter(source, spell).rule(statement))
            continue
        name, _, arity = statement.partition("/")
        if len(arity) > 4 or not 1 <= int(arity) <= MAX_NAMES:
            message = f"a predicate has 1 to {MAX_NAMES} arguments"
            raise source.error(message, statement.position)
        declarations.append(Declaration(spell(name), int(arity), statement.position))
    return declarations, rules


class _Converter:
    """Converts the tree of one rule, and records its atoms and variables."""

    def __init__(self, source: Source, spell: Callable[[str], str]) -> None:
        self._source = source
        self._spell = spell
        self._mentions: list[Mention] = []
        self._places: dict[str, Position] = {}

    def rule(self, node: Node) -> ParsedRule:
        inner = [part for part in node.parts if isinstance(part, Node)]
        hard = len(inner) < len(node.parts)
        parts = {part.kind: part for part in inner if part.kind in {"weight", "power"}}
        if ("weight" in parts) == hard:
            message = (
                "a rule has a weight or a final period, not both"
                if hard
                else "this rule has neither a weight nor a final period"
            )
            hint = "write `1.0: ...` for a weighted rule, and `... .` for one that must hold"
            raise self._source.error(message, node.position, hint)
        weight = None if hard else self._number(parts["weight"])
        power = int(str(parts["power"].parts[0])[-1]) if "power" in parts else 1
        if hard and "power" in parts:
            message = "a hard rule has no exponent: it must hold"
            raise self._source.error(message, parts["power"].position)
        body = next(part for part in inner if part.kind not in {*parts, "filter"})
        filters = [part for part in inner if part.kind == "filter"]
        place = node.position
        text = " ".join(node.code[node.span].split())
        rule: PslRule
        if body.kind == "relation":
            left, op, right = body.parts
            rule = ArithmeticRule(
                self._side(left),
                str(op),
                self._side(right),
                tuple(
                    Filter(str(name), self._formula(condition))
                    for name, condition in (item.parts for item in filters)
                ),
                weight,
                power,
                place,
                text,
            )
        elif filters:
            message = "a filter belongs to a summation variable, but this rule is logical"
            raise self._source.error(message, filters[0].position)
        else:
            rule = LogicalRule(self._formula(body), weight, power, place, text)
        places = tuple(item.position for item in filters)
        return ParsedRule(rule, tuple(self._mentions), self._places, places)

    def _number(self, node: Node) -> float:
        value = float("".join(map(str, node.parts)))
        if not abs(value) <= LARGEST:
            raise self._source.error("a number is at most 1e50", node.position)
        return value

    def _formula(self, node: Node | Word) -> Formula:
        assert not isinstance(node, Word)
        if node.kind == "atom":
            return self._atom(node)
        if node.kind == "compare":
            first, op, second = node.parts
            left, right = self._leaf(first), self._leaf(second)
            if isinstance(left, Constant) and isinstance(right, Constant):
                message = "a comparison needs a variable"
                raise self._source.error(message, node.position)
            if op == "%":
                return Compare("%", left, right)
            return Equal(left, right) if op == "==" else Not(Equal(left, right))
        operands = tuple(map(self._formula, node.parts))
        return _CONNECTED[node.kind](operands)

    def _atom(self, node: Node) -> Atom:
        name, *arguments = node.parts
        assert isinstance(name, Word)
        atom = Atom(self._spell(str(name)), tuple(map(self._leaf, arguments)))
        self._mentions.append(Mention(atom, node.position))
        return atom

    def _leaf(self, node: Node | Word) -> Leaf:
        token = node if isinstance(node, Word) else node.parts[-1]
        assert isinstance(token, Word)
        if token.kind == "NAME":
            self._places.setdefault(str(token), token.position)
            return Variable(str(token), plus=not isinstance(node, Word))
        if token.kind == "NUMBER" and not token.isdigit():
            message = "a constant without quotes is a name or an integer"
            raise self._source.error(message, token.position, f"write '{token}'")
        return Constant(unquote_constant(token))

    def _side(self, node: Node | Word) -> tuple[Summand, ...]:
        """Convert a side of a relation: its atoms, then its constant if any."""
        summands = self._linear(node)
        atoms = [summand for summand in summands if summand.atom]
        constants = [summand for summand in summands if not summand.atom]
        if constants:
            atoms.append(Summand(self._factor(constants, node), None))
        if not all(moderate(summand.coefficient) for summand in atoms):
            raise self._source.error("a number is at most 1e50", node.position)
        return tuple(atoms)

    def _linear(self, node: Node | Word) -> list[Summand]:
        """Convert an expression to summands, multiplying out parentheses."""
        assert not isinstance(node, Word)
        if node.kind == "atom":
            return [Summand(_ONE, self._atom(node))]
        if node.kind == "sum":
            first, *terms = node.parts
            summands = self._linear(first)
            for sign, term in zip(terms[::2], terms[1::2], strict=True):
                added = self._linear(term)
                summands += added if sign == "+" else _scaled(Number(-1.0), added)
            return summands
        if node.kind in {"product", "quotient"}:
            return self._operation(node)
        return [Summand(self._simple(node), None)]

    def _simple(self, node: Node) -> Coefficient:
        """Convert a number, cardinality, minimum or maximum."""
        if node.kind == "cardinality":
            name = str(node.parts[0]).strip("| \t\n")
            self._places.setdefault(name, node.position)
            return Cardinality(name)
        if node.kind == "extremum":
            op, *operands = node.parts
            coefficients = []
            for operand in operands:
                summands = self._linear(operand)
                if any(summand.atom for summand in summands):
                    message = "a minimum or maximum takes coefficients, not atoms"
                    raise self._source.error(message, node.position)
                coefficients.append(self._factor(summands, operand))
            return operation(str(op), *coefficients)
        value = self._number(node)
        return Number(-value if node.kind == "negative" else value)

    def _operation(self, node: Node) -> list[Summand]:
        first, second = node.parts
        left_sum, right_sum = self._linear(first), self._linear(second)
        if node.kind == "quotient":
            divisor = self._factor(right_sum, second)
            if divisor == Number(0.0):
                raise self._source.error("this divides by zero", second.position)
            if any(x.atom for x in left_sum):
                return [
                    replace(x, coefficient=operation("/", x.coefficient, divisor)) for x in left_sum
                ]
            return [Summand(operation("/", self._factor(left_sum, second), divisor), None)]
        if any(summand.atom for summand in right_sum):
            return _scaled(self._factor(left_sum, first), right_sum)
        factor = self._factor(right_sum, second)
        if any(summand.atom for summand in left_sum):
            return _scaled(factor, left_sum)
        return [Summand(operation("*", self._factor(left_sum, first), factor), None)]

    def _factor(self, summands: list[Summand], node: Node | Word) -> Coefficient:
        """Return the value of an expression without atoms."""
        if any(item.atom for item in summands):
            message = "an arithmetic rule is linear: an atom is not multiplied or divided by atoms"
            raise self._source.error(message, node.position)
        if sum(not isinstance(item.coefficient, Number) for item in summands) > MAX_DEPTH:
            message = f"a coefficient has at most {MAX_DEPTH} summands that are not numbers"
            raise self._source.error(message, node.position)
        total, *coefficients = (item.coefficient for item in summands)
        for item in coefficients:
            total = operation("+", total, item)
        return total


def _scaled(factor: Coefficient, summands: list[Summand]) -> list[Summand]:
    """Multiply summands by a factor."""
    return [replace(x, coefficient=operation("*", factor, x.coefficient)) for x in summands]
