"""The parser's trees to formulas, with the places of their atoms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

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
)
from onlinesrl.logic.dialect import ALCHEMY, Dialect
from onlinesrl.logic.parsing import position, tokens
from onlinesrl.logic.source import Source
from onlinesrl.logic.text import WHOLE, show_term, unquote

if TYPE_CHECKING:
    from lark import Token, Tree

    from onlinesrl.logic.parsing import Node


@dataclass(frozen=True, slots=True)
class Argument:
    """A term where it is written: ``spelling`` keeps quotes, a leading + and a trailing !.

    ``parts`` are the arguments of a function, or the operands of arithmetic that are written out.
    """

    term: Term
    spelling: str
    position: Position
    parts: tuple[Argument, ...] = ()


@dataclass(frozen=True, slots=True)
class Mention:
    """An atom, equality or comparison where it is written."""

    formula: Atom | Equal | Compare
    arguments: tuple[Argument, ...]
    position: Position


@dataclass(frozen=True, slots=True)
class Binder:
    """A quantifier where it is written, and the variables that it binds."""

    variables: tuple[str, ...]
    position: Position


class Converter:
    """Converts the trees of one sentence, and notes its ``mentions`` and ``binders`` in order.

    ``signs`` are the signs of the atoms marked ``*`` from left to right. A bound variable whose
    name is used elsewhere in the sentence gets a new one.
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
        self._taken = {self._named(name) for name in self._uses}

    def formula(self, node: Node, bound: Mapping[str, str] | None = None) -> Formula:
        """Convert a formula's tree; ``bound`` gives the bound variables in scope their names."""
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
                operands = tuple(self.formula(each, bound) for each in node.children)
                return _CONNECTED[str(connective)](operands)

    def _atom(self, node: Node, bound: Mapping[str, str]) -> Atom:
        name, *nodes = [node] if isinstance(node, str) else node.children
        arguments = tuple(self._argument(each, bound) for each in nodes)
        atom = Atom(str(name), tuple(each.term for each in arguments))
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
            used_elsewhere = inner[name] < self._uses[name]
            own = self._named(name)
            scope[str(name)] = self._fresh(own) if used_elsewhere else own
        variables = tuple(dict.fromkeys(scope[name] for name in tokens(names)))
        self.binders.append(Binder(variables, position(word)))
        quantifier = Exists if word.lower() == "exist" else Forall
        return quantifier(variables, self.formula(body, scope))

    def _named(self, name: Token) -> str:
        return self._dialect.variable(name) or str(name)

    def _fresh(self, name: str) -> str:
        fresh = next(new for new in map(f"{name}{{}}".format, count(1)) if new not in self._taken)
        self._taken.add(fresh)
        return fresh

    def _argument(self, node: Node, bound: Mapping[str, str]) -> Argument:
        if isinstance(node, str):
            term = leaf(node, self._source, self._dialect, bound)
            return Argument(term, str(node), position(node))
        match node.data:
            case "plus":
                return self._plus(node, bound)
            case "marked" | "optional" | "named":
                return _declared(node)
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
        parts = tuple(self._argument(each, bound) for each in nodes)
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
        parts = tuple(self._argument(each, bound) for each in (first, *second))
        self._check_integers(parts)
        right = parts[1].term if second else Constant("1")
        term = Arithmetic(sign[0], parts[0].term, right)
        return Argument(term, show_term(term), position(node), parts)

    def _check_integers(self, arguments: Iterable[Argument]) -> None:
        for argument in arguments:
            term = argument.term
            if isinstance(term, Constant) and not WHOLE.fullmatch(term.name):
                message = f"{argument.spelling} is not an integer of at most 18 digits"
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
    """Convert a name, number or string; ``bound`` gives bound variables their names."""
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


def _declared(node: Tree[Token]) -> Argument:
    """Convert an argument that only a declaration has: a type with a mark, or a name after it."""
    name, *rest = node.children
    assert isinstance(name, str)
    mark = {"marked": "!", "optional": "?"}.get(node.data, "")
    if rest and not isinstance(rest[0], str):
        mark = "!"
    return Argument(Variable(str(name)), f"{name}{mark}", position(node))


def _names(tree: Tree[Token]) -> Counter[Token]:
    """Count the occurrences of each name in a tree."""
    kinds = {"NAME", "VARIABLE"}
    return Counter(tree.scan_values(lambda each: getattr(each, "type", None) in kinds))
