"""Reading MLN files: text to a program whose names, arities and types are checked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path

from onlinesrl.lang.ast import (
    Atom,
    Constant,
    Formula,
    Position,
    Predicate,
    Program,
    Rule,
    Term,
    Variable,
    replace_terms,
    terms,
)
from onlinesrl.lang.families import Family, fold, generalise
from onlinesrl.lang.source import Source, read_text, source
from onlinesrl.lang.syntax import Argument, Enumeration, Mention, Sentence
from onlinesrl.lang.text import NAME, show

_TYPE = re.compile(rf"({NAME})(!?)")


def load(path: str | Path) -> Program:
    """Read an MLN file: `parse` of its text; StorageError where it cannot be read."""
    return parse(read_text(path), str(path))


def parse(text: str, file: str = "<model>") -> Program:
    """Read a program in Alchemy's syntax; ``file`` names it in errors.

    Raises ModelError at the first mistake, or feature that is not supported.
    """
    text_source = source(text, file)
    parsed, families = fold(text_source.code(), text_source)
    reader = _Reader(text_source)
    for statement in parsed:
        if isinstance(statement, Enumeration):
            reader.add_constants(statement)
        elif reader.declares(statement):
            reader.add_predicate(statement)
        else:
            reader.add_rule(statement, families.get(statement.position.line))
    return reader.program()


class _Reader:
    """A program in the making."""

    def __init__(self, text: Source) -> None:
        self.source = text
        self.types: dict[str, dict[str, tuple[int, int]]] = {}
        self.predicates: dict[str, Predicate] = {}
        self.declared: dict[str, Position] = {}
        self.rules: list[Rule] = []

    def program(self) -> Program:
        types = {
            name: tuple(sorted(constants, key=constants.__getitem__))
            for name, constants in self.types.items()
        }
        return Program(self.source.file, types, self.predicates, tuple(self.rules))

    def add_constants(self, statement: Enumeration) -> None:
        self.types.setdefault(statement.name, {})
        for index, constant in enumerate(statement.constants):
            self._occurs(statement.name, constant, (statement.position.line, index))

    def _occurs(self, type_: str, constant: str, place: tuple[int, int]) -> None:
        """Note that a constant of a type stands at (line, index in the line)."""
        constants = self.types[type_]
        constants[constant] = min(place, constants.get(constant, place))

    def declares(self, sentence: Sentence) -> bool:
        """Tell whether a sentence declares its predicate.

        It does if it is a bare atom of a new predicate. One whose arguments are names of types is
        taken for a declaration that comes twice.
        """
        formula = sentence.formula
        if not isinstance(formula, Atom) or sentence.weight is not None or sentence.hard:
            return False
        spellings = [each.spelling for each in sentence.mentions[0].arguments]
        again = bool(spellings) and all(each.removesuffix("!") in self.types for each in spellings)
        return formula.predicate not in self.predicates or again

    def add_predicate(self, sentence: Sentence) -> None:
        (mention,) = sentence.mentions
        assert isinstance(mention.formula, Atom)
        name = mention.formula.predicate
        if name in self.declared:
            raise self.source.error(
                f"the predicate {name} is already declared on line {self.declared[name].line}",
                mention.position,
            )
        types = [self._declared_type(name, each) for each in mention.arguments]
        for type_, _ in types:
            self.types.setdefault(type_, {})
        marked = tuple(index for index, (_, mark) in enumerate(types) if mark)
        self.predicates[name] = Predicate(name, tuple(type_ for type_, _ in types), marked)
        self.declared[name] = mention.position

    def _declared_type(self, predicate: str, argument: Argument) -> tuple[str, bool]:
        """Return the type that a declaration's argument names, and whether `!` marks it."""
        match = _TYPE.fullmatch(argument.spelling)
        if match is not None:
            return match[1], match[2] == "!"
        raise self.source.error(
            f"{predicate} is not declared yet, and a declaration has types as arguments,"
            f" not {argument.spelling}",
            argument.position,
            "a `+` belongs in formulas"
            if argument.spelling.startswith("+")
            else f"declare it before its first use, like `{predicate}(person)`",
        )

    def add_rule(self, sentence: Sentence, family: Family | None) -> None:
        variables = self._variable_types(sentence)
        types = self._constant_types(sentence, variables)
        rule = Rule(
            formula=_plus_everywhere(sentence.formula),
            weight=sentence.weight,
            hard=sentence.hard,
            position=sentence.position,
            text=sentence.text,
        )
        self.rules.append(rule if family is None else self._family_rule(rule, family, types))

    def _family_rule(self, rule: Rule, family: Family, types: list[str | None]) -> Rule:
        columns = zip(*family.constants, strict=True)
        for index, (type_, constants) in enumerate(zip(types, columns, strict=True)):
            if type_ is not None:
                first = dict(zip(reversed(constants), reversed(family.lines), strict=True))
                for constant, line in first.items():
                    self._occurs(type_, constant, (line, index))
        formula, table = generalise(rule.formula, types, family)
        return replace(rule, formula=formula, table=table, weight=0.0, text=show(formula))

    def _variable_types(self, sentence: Sentence) -> dict[str, str]:
        """Return the type of each variable of a sentence, by the atoms that it stands in."""
        variables: dict[str, str] = {}
        atoms = [each for each in sentence.mentions if isinstance(each.formula, Atom)]
        for mention in atoms:
            for argument, type_ in self._typed(mention):
                term = argument.term
                if isinstance(term, Variable) and variables.setdefault(term.name, type_) != type_:
                    raise self.source.error(
                        f"the variable {term.name} is of type {variables[term.name]} earlier in"
                        f" this formula, and of type {type_} here",
                        argument.position,
                    )
        if not atoms:
            start = sentence.mentions[0].position
            raise self.source.error("a formula needs at least one predicate", start)
        return variables

    def _typed(self, mention: Mention) -> Iterator[tuple[Argument, str]]:
        """Return the arguments of an atom with their types; its predicate must be declared so."""
        assert isinstance(mention.formula, Atom)
        name = mention.formula.predicate
        if name not in self.predicates:
            raise self.source.error(
                f"the predicate {name} is not declared", mention.position, self._advice(name)
            )
        types, found = self.predicates[name].types, len(mention.arguments)
        if len(types) != found:
            raise self.source.error(
                f"{name} takes {_arguments(len(types))}, not {found}",
                mention.position,
                f"it is declared on line {self.declared[name].line}",
            )
        for argument in mention.arguments:
            if argument.spelling.endswith("!"):
                message = "`!` after an argument belongs in a declaration"
                raise self.source.error(message, argument.position)
        return zip(mention.arguments, types, strict=True)

    def _advice(self, name: str) -> str:
        close = get_close_matches(name, self.predicates, n=1)
        if close:
            return f"did you mean {close[0]}?"
        return f"declare it before its first use, like `{name}(person)`"

    def _constant_types(self, sentence: Sentence, variables: dict[str, str]) -> list[str | None]:
        """Note the constants of a sentence; return their types in atoms, None in equalities."""
        found: list[str | None] = []
        for mention in sentence.mentions:
            types = self._argument_types(mention, variables)
            for argument, type_ in zip(mention.arguments, types, strict=True):
                if isinstance(argument.term, Constant):
                    if type_ is not None:
                        place = (sentence.position.line, len(found))
                        self._occurs(type_, argument.term.name, place)
                    found.append(type_ if isinstance(mention.formula, Atom) else None)
        return found

    def _argument_types(
        self, mention: Mention, variables: dict[str, str]
    ) -> tuple[str | None, ...]:
        """Return the types of a mention's arguments; None for constants compared to each other."""
        if isinstance(mention.formula, Atom):
            return self.predicates[mention.formula.predicate].types
        sides: set[str] = set()
        for argument in mention.arguments:
            if isinstance(argument.term, Variable):
                if argument.term.name not in variables:
                    raise self.source.error(
                        f"the variable {argument.term.name} has no type: it is in no predicate",
                        argument.position,
                    )
                sides.add(variables[argument.term.name])
        if len(sides) > 1:
            raise self.source.error(
                f"a {' and a '.join(sorted(sides))} cannot be equal", mention.position
            )
        return (*sides, *sides) if sides else (None, None)


def _arguments(number: int) -> str:
    return f"{number} argument{'' if number == 1 else 's'}"


def _plus_everywhere(formula: Formula) -> Formula:
    """Mark all occurrences of a variable that has a ``+`` somewhere."""
    plus = {term.name for term in terms(formula) if isinstance(term, Variable) and term.plus}
    if not plus:
        return formula

    def marked(term: Term) -> Term:
        isplus = isinstance(term, Variable) and term.name in plus
        return Variable(term.name, plus=True) if isplus else term

    return replace_terms(formula, marked)
