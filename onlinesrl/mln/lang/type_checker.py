"""The type checker of sentences: predicates, functions, variables and constants."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import NamedTuple

from onlinesrl.core.errors import LocatedError
from onlinesrl.logic.ast import (
    Arithmetic,
    Atom,
    Compare,
    Constant,
    Equal,
    Function,
    FunctionType,
    Position,
    Predicate,
    Rule,
    Variable,
    terms,
)
from onlinesrl.logic.source import Source
from onlinesrl.mln.lang.clausal_form import rule_clauses
from onlinesrl.mln.lang.statements import Argument, Mention, Sentence

_LATER = {"concat", "substr"}
MOST_FACTORS = 5
"""The largest number of numeric atoms of a rule; their product is finite, see ``core.example.MOST``."""


@dataclass(frozen=True, slots=True)
class Declarations:
    """The declarations of a program so far; ``places`` has their locations in words."""

    predicates: dict[str, Predicate] = field(default_factory=dict)
    functions: dict[str, FunctionType] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)


class TypedConstant(NamedTuple):
    """A constant of a sentence; ``type`` is None for a number without a type.

    ``fixed``: the type comes from the constant's place, as in an atom; in a comparison, the type comes
    from the other side. ``plus``: a ``+`` precedes the constant.
    """

    name: str
    type: str | None
    fixed: bool
    plus: bool


class Checker:
    """The type checker of the sentences of one file."""

    def __init__(self, source: Source, declared: Declarations) -> None:
        self._source = source
        self._declared = declared

    def variables(self, sentence: Sentence) -> dict[str, str]:
        """Return the type of each variable, from the atoms and functions that contain it.

        A variable that occurs only in arithmetic takes the type of the arithmetic term's place. In an
        equation with arithmetic, it takes the type of another variable of the equation.
        """
        types: dict[str, str] = {}
        numeric: list[tuple[Argument, str]] = []
        for mention in sentence.mentions:
            for argument, type_ in self._expected(mention):
                self._place(argument, type_, types, numeric)
        if not any(isinstance(mention.formula, Atom) for mention in sentence.mentions):
            start = sentence.mentions[0].position
            raise self._source.error("a formula needs at least one predicate", start)
        for argument, type_ in numeric:
            _spread(argument, type_, types)
        before = -1
        while before < len(types):  # as long as equations with arithmetic give new types
            before = len(types)
            for mention in sentence.mentions:
                sides = mention.arguments
                if not isinstance(mention.formula, Equal) or not any(
                    isinstance(argument.term, Arithmetic) for argument in sides
                ):
                    continue
                results = [self._result(argument) for argument in sides]
                leaves = (leaf for leaf in terms(mention.formula) if isinstance(leaf, Variable))
                leaf_types = (types.get(leaf.name) for leaf in leaves)
                side_type = next(filter(None, (*results, *leaf_types)), None)
                for argument in sides:
                    _spread(argument, side_type, types)
        self._all_typed(sentence, types)
        return types

    def constants(self, sentence: Sentence, types: dict[str, str]) -> list[TypedConstant]:
        """Return the constants from left to right, given the types of the variables."""
        constants: list[TypedConstant] = []
        for mention in sentence.mentions:
            compared = self._compared_type(mention, types)
            for argument, type_ in self._expected(mention):
                if isinstance(argument.term, Constant) and not isinstance(mention.formula, Atom):
                    plus = argument.spelling.startswith("+")
                    constants.append(TypedConstant(argument.term.name, compared, False, plus))
                else:
                    constants.extend(self._constants(argument, type_))
        return constants

    def check_numeric(self, sentence: Sentence, rule: Rule) -> None:
        """Check that numeric atoms are conditions of all clauses of a sentence's rule, a soft one.

        They multiply its weight.
        """
        predicates = self._declared.predicates
        atoms = [(x.formula, x.position) for x in sentence.mentions if isinstance(x.formula, Atom)]
        numeric = [(a.predicate, place) for a, place in atoms if predicates[a.predicate].numeric]
        if not numeric:
            return
        (name, place), message, hint = numeric[0], None, ""
        if sentence.hard or sentence.definite:
            message = f"{name} is numeric: it multiplies a rule's weight, and this rule has none"
            hint = "make the rule soft: no period, no `:-`"
        elif len(numeric) > MOST_FACTORS:
            message = (
                f"the rule has {len(numeric)} numeric atoms; at most {MOST_FACTORS} are supported"
            )
            hint = "declare one predicate for their product"
        elif any(
            sum(not x.positive and predicates[x.atom.predicate].numeric for x in clause.literals)
            < len(numeric)
            for clause in rule_clauses(rule)
        ):
            message = f"{name} is numeric, neither true nor false: it multiplies a whole rule, once"
            hint = (
                f"use it as a condition, as in `{name}(x) => (...)`, or in a conjunction of atoms"
            )
        if message is not None:
            raise self._source.error(message, place, hint)

    def _expected(self, mention: Mention) -> Iterator[tuple[Argument, str | None]]:
        """Pair the arguments of a mention with the types of their places; None if a place has no type."""
        if isinstance(mention.formula, Compare):
            return zip(mention.arguments, (None, None), strict=True)
        if isinstance(mention.formula, Equal):
            results = [self._result(argument) for argument in mention.arguments]
            return zip(mention.arguments, reversed(results), strict=True)
        name = mention.formula.predicate
        predicate = self._declared.predicates.get(name)
        if name in self._declared.functions:
            raise self._source.error(
                f"{name} is a function, and a predicate stands here",
                mention.position,
                f"write `x = {name}(...)`, or use it as an argument",
            )
        if predicate is None:
            raise self._undeclared("predicate", name, mention.position)
        return self._arguments(name, mention.arguments, predicate.types, mention.position)

    def _arguments(
        self, name: str, arguments: Sequence[Argument], types: Sequence[str], place: Position
    ) -> Iterator[tuple[Argument, str]]:
        """Pair arguments with their declared types."""
        if len(types) != len(arguments):
            takes = f"{len(types)} argument{'' if len(types) == 1 else 's'}"
            raise self._source.error(
                f"{name} takes {takes}, not {len(arguments)}",
                place,
                f"it is declared on {self._declared.places[name]}",
            )
        for argument in arguments:
            if argument.spelling.endswith("!") and isinstance(argument.term, Variable):
                message = "`!` after an argument belongs in a declaration"
                raise self._source.error(message, argument.position)
        return zip(arguments, types, strict=True)

    def _undeclared(self, kind: str, name: str, place: Position) -> LocatedError:
        if name in _LATER:
            return self._source.error(f"the built-in {kind} {name} is not supported yet", place)
        declared = self._declared.predicates if kind == "predicate" else self._declared.functions
        close = get_close_matches(name, declared, n=1)
        form = f"{name}(person)" if kind == "predicate" else f"event {name}(person)"
        hint = (
            f"did you mean {close[0]}?"
            if close
            else f"declare it before its first use, like `{form}`"
        )
        return self._source.error(f"the {kind} {name} is not declared", place, hint)

    def _result(self, argument: Argument) -> str | None:
        """Return the type of a function's value; None for other terms."""
        if not isinstance(argument.term, Function):
            return None
        name = argument.term.name
        if name not in self._declared.functions:
            raise self._undeclared("function", name, argument.position)
        return self._declared.functions[name].result

    def _parts(self, argument: Argument) -> Iterator[tuple[Argument, str | None]]:
        """Pair the parts of a compound argument with the types of their places."""
        if isinstance(argument.term, Function):
            self._result(argument)
            name = argument.term.name
            types = self._declared.functions[name].types
            yield from self._arguments(name, argument.parts, types, argument.position)
        else:
            yield from ((part, None) for part in argument.parts)

    def _place(
        self,
        argument: Argument,
        type_: str | None,
        types: dict[str, str],
        numeric: list[tuple[Argument, str]],
    ) -> None:
        """Add the types of an argument's variables, and its arithmetic terms, given the place's type."""
        term = argument.term
        result = self._result(argument)
        if isinstance(term, Variable) and type_ and types.setdefault(term.name, type_) != type_:
            raise self._source.error(
                f"the variable {term.name} is of type {types[term.name]} earlier in"
                f" this formula, and of type {type_} here",
                argument.position,
            )
        if result and type_ and result != type_:
            message = f"{argument.spelling} is of type {result}, and a {type_} stands here"
            raise self._source.error(message, argument.position)
        if type_ and isinstance(term, Arithmetic):
            numeric.append((argument, type_))
        for part, inner in self._parts(argument):
            self._place(part, inner, types, numeric)

    def _all_typed(self, sentence: Sentence, types: dict[str, str]) -> None:
        for mention in sentence.mentions:
            for argument in _innermost(mention.arguments):
                if isinstance(argument.term, Variable) and argument.term.name not in types:
                    message = (
                        f"the variable {argument.term.name} has no type: it is in no predicate"
                    )
                    raise self._source.error(message, argument.position)
        for binder in sentence.binders:
            unused = [name for name in binder.variables if name not in types]
            if unused:
                message = f"the quantifier binds {unused[0]}, which does not occur"
                raise self._source.error(message, binder.position)

    def _compared_type(self, mention: Mention, types: dict[str, str]) -> str | None:
        """Return the common type of both sides of an equality; None if both are plain numbers."""
        if not isinstance(mention.formula, Equal):
            return None
        sides = set()
        for argument in mention.arguments:
            if isinstance(argument.term, Variable):
                sides.add(types[argument.term.name])
            elif isinstance(argument.term, Function):
                sides.add(self._declared.functions[argument.term.name].result)
            elif isinstance(argument.term, Arithmetic):
                return None
        if len(sides) > 1:
            message = f"a {' and a '.join(sorted(sides))} cannot be equal"
            raise self._source.error(message, mention.position)
        return next(iter(sides), None)

    def _constants(self, argument: Argument, type_: str | None) -> Iterator[TypedConstant]:
        if isinstance(argument.term, Constant):
            plus = argument.spelling.startswith("+")
            yield TypedConstant(argument.term.name, type_, type_ is not None, plus)
        for part, inner in self._parts(argument):
            yield from self._constants(part, inner)


def _spread(argument: Argument, type_: str | None, types: dict[str, str]) -> None:
    """Give a type to an untyped variable, or to the untyped variables of an arithmetic term."""
    if isinstance(argument.term, Variable) and type_ is not None:
        types.setdefault(argument.term.name, type_)
    if isinstance(argument.term, Arithmetic):
        for part in argument.parts:
            _spread(part, type_, types)


def _innermost(arguments: Sequence[Argument]) -> Iterator[Argument]:
    for argument in arguments:
        if argument.parts:
            yield from _innermost(argument.parts)
        else:
            yield argument
