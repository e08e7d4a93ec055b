"""Reading MLN files: text to a program whose names, arities and types are checked."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from onlinesrl.errors import StorageError
from onlinesrl.lang.ast import (
    Atom,
    Formula,
    FunctionType,
    Implies,
    Leaf,
    Position,
    Predicate,
    Program,
    Rule,
    Variable,
    replace_terms,
    terms,
)
from onlinesrl.lang.checks import Checker, Declarations, TypedConstant
from onlinesrl.lang.cnf import misplaced_universal
from onlinesrl.lang.completion import Definite, completions
from onlinesrl.lang.families import Family, fold, generalise
from onlinesrl.lang.formulas import Argument
from onlinesrl.lang.source import Source, read_text, source
from onlinesrl.lang.syntax import Enumeration, FunctionDeclaration, Include, Sentence
from onlinesrl.lang.text import NAME, show

_TYPE = re.compile(rf"({NAME})(!?)")


def load(path: str | Path) -> Program:
    """Read an MLN file: `parse` of its text; StorageError where it cannot be read."""
    return parse(read_text(path), str(path))


def parse(text: str, file: str = "<model>") -> Program:
    """Read a program in Alchemy's syntax; ``file`` names it in errors, and includes are beside it.

    Raises ModelError at the first mistake, or feature that is not supported.
    """
    reader = _Reader()
    whole = _File(reader, source(text, file), (), (Path(file).resolve(),)).read()
    return reader.program(file, whole)


class _Reader:
    """A program in the making."""

    def __init__(self) -> None:
        self.types: dict[str, dict[str, tuple[int, ...]]] = {}
        self.declared = Declarations()
        self.rules: list[Rule] = []
        self.definite: list[Definite] = []

    def program(self, file: str, text: str) -> Program:
        types = {
            name: tuple(sorted(constants, key=constants.__getitem__))
            for name, constants in self.types.items()
        }
        predicates = self.declared.predicates
        rules = (*self.rules, *completions(self.definite, predicates))
        return Program(file, types, predicates, rules, self.declared.functions, text)

    def occurs(self, type_: str, constant: str, place: tuple[int, ...]) -> None:
        """Note that a constant of a type stands at a place; places compare as in reading order."""
        constants = self.types.setdefault(type_, {})
        constants[constant] = min(place, constants.get(constant, place))


class _File:
    """One file on its way into the program.

    ``prefix`` holds the lines of the includes that led here, ``stack`` the files from the first
    one to this.
    """

    def __init__(
        self, reader: _Reader, text: Source, prefix: tuple[int, ...], stack: tuple[Path, ...]
    ) -> None:
        self._reader = reader
        self._source = text
        self._prefix = prefix
        self._stack = stack
        self._checker = Checker(text, reader.declared)

    def read(self) -> str:
        """Add the file's statements to the program; return its text, of included files, too."""
        lines = self._source.text.split("\n")
        parsed, families = fold(self._source.code(), self._source)
        for statement in parsed:
            match statement:
                case Enumeration():
                    self._add_constants(statement)
                case FunctionDeclaration():
                    self._add_function(statement)
                case Include():
                    index = statement.position.line - 1
                    before, after = (lines[index][place] for place in statement.around)
                    lines[index] = "\n".join((before, self._include(statement), after))
                case _ if self._declares(statement):
                    self._add_predicate(statement)
                case _:
                    self._add_rule(statement, families.get(statement.position.line))
        return "\n".join(lines)

    def _include(self, statement: Include) -> str:
        path = Path(self._source.file).parent / statement.path
        if path.suffix in {".db", ".cpp"}:
            hint = "a database is evidence" if path.suffix == ".db" else "C++ cannot be linked in"
            message = f"only MLN files can be included, not {statement.path}"
            raise self._source.error(message, statement.position, hint)
        if path.resolve() in self._stack:
            chain = " includes ".join(
                each.name for each in (*self._stack[self._stack.index(path.resolve()) :], path)
            )
            raise self._source.error(f"this file includes itself: {chain}", statement.position)
        try:
            text = read_text(path)
        except StorageError as error:
            raise self._source.error(str(error), statement.position) from None
        prefix = (*self._prefix, statement.position.line)
        stack = (*self._stack, path.resolve())
        return _File(self._reader, source(text, str(path)), prefix, stack).read()

    def _add_constants(self, statement: Enumeration) -> None:
        self._reader.types.setdefault(statement.name, {})
        for index, constant in enumerate(statement.constants):
            place = (*self._prefix, statement.position.line, index)
            self._reader.occurs(statement.name, constant, place)

    def _declares(self, sentence: Sentence) -> bool:
        """Tell whether a sentence declares its predicate.

        It does if it is a bare atom of a new predicate. One whose arguments are names of types is
        taken for a declaration that comes twice.
        """
        formula = sentence.formula
        if not isinstance(formula, Atom) or sentence.weight is not None or sentence.hard:
            return False
        spellings = [each.spelling for each in sentence.mentions[0].arguments]
        types = self._reader.types
        again = bool(spellings) and all(each.removesuffix("!") in types for each in spellings)
        return formula.predicate not in self._reader.declared.predicates or again

    def _add_predicate(self, sentence: Sentence) -> None:
        if sentence.star is not None:
            raise self._source.error(
                "`*` before a predicate declaration is Tuffy's mark for a closed world",
                sentence.star,
                "leave it out: a predicate that is not queried is closed anyway",
            )
        (mention,) = sentence.mentions
        assert isinstance(mention.formula, Atom)
        name = mention.formula.predicate
        self._declare(name, "predicate", mention.position)
        types = [self._declared_type(name, each) for each in mention.arguments]
        marked = tuple(index for index, (_, mark) in enumerate(types) if mark)
        self._add_relation(Predicate(name, tuple(type_ for type_, _ in types), marked))

    def _add_function(self, statement: FunctionDeclaration) -> None:
        name, types, result = statement.name, statement.types, statement.result
        if name == "succ":
            message = "succ is a built-in function: succ(t) is t + 1"
            raise self._source.error(message, statement.position)
        self._declare(name, "function", statement.position)
        self._reader.declared.functions[name] = FunctionType(name, types, result)
        self._add_relation(Predicate(name, (*types, result)))

    def _declare(self, name: str, kind: str, position: Position) -> None:
        places = self._reader.declared.places
        if name in places:
            known = "function" if name in self._reader.declared.functions else "predicate"
            message = f"the {known} {name} is already declared on {places[name]}"
            raise self._source.error(message, position)
        within = f" of {self._source.file}" if self._prefix else ""
        places[name] = f"line {position.line}{within}"

    def _add_relation(self, predicate: Predicate) -> None:
        for type_ in predicate.types:
            self._reader.types.setdefault(type_, {})
        self._reader.declared.predicates[predicate.name] = predicate

    def _declared_type(self, predicate: str, argument: Argument) -> tuple[str, bool]:
        """Return the type that a declaration's argument names, and whether `!` marks it."""
        match = _TYPE.fullmatch(argument.spelling)
        if match is not None:
            return match[1], match[2] == "!"
        raise self._source.error(
            f"{predicate} is not declared yet, and a declaration has types as arguments,"
            f" not {argument.spelling}",
            argument.position,
            "a `+` belongs in formulas"
            if argument.spelling.startswith("+")
            else f"declare it before its first use, like `{predicate}(person)`",
        )

    def _add_rule(self, sentence: Sentence, family: Family | None) -> None:
        variables = self._checker.variables(sentence)
        constants = self._checker.constants(sentence, variables)
        self._check_quantifiers(sentence)
        for index, constant in enumerate(constants):
            if constant.type is not None:
                place = (*self._prefix, sentence.position.line, index)
                self._reader.occurs(constant.type, constant.name, place)
        formula = _plus_everywhere(sentence.formula)
        rule = Rule(
            formula=formula,
            weight=sentence.weight,
            hard=sentence.hard,
            position=sentence.position,
            text=sentence.text,
            types=tuple(variables.items()),
        )
        if isinstance(formula, Implies) and sentence.definite:
            self._reader.definite.append(Definite(formula, rule.position, rule.types))
        self._reader.rules.append(
            rule if family is None else self._family_rule(rule, family, constants)
        )

    def _check_quantifiers(self, sentence: Sentence) -> None:
        """Refuse a universal quantifier inside an existential one."""
        formula = sentence.formula
        index = misplaced_universal(formula)
        if index is None and sentence.definite and isinstance(formula, Implies):
            index = misplaced_universal(formula.left, inside=True)
        if index is not None:
            raise self._source.error(
                "a universal quantifier inside an existential one is not supported yet",
                sentence.binders[index].position,
                "`!` and the left side of `=>` turn one kind into the other",
            )

    def _family_rule(self, rule: Rule, family: Family, found: list[TypedConstant]) -> Rule:
        types = [constant.type if constant.fixed else None for constant in found]
        columns = zip(*family.constants, strict=True)
        for index, (type_, constants) in enumerate(zip(types, columns, strict=True)):
            if type_ is not None:
                first = dict(zip(reversed(constants), reversed(family.lines), strict=True))
                for constant, line in first.items():
                    self._reader.occurs(type_, constant, (*self._prefix, line, index))
        formula, table, new = generalise(rule.formula, types, family)
        known = (*rule.types, *new)
        return replace(
            rule, formula=formula, table=table, weight=0.0, text=show(formula), types=known
        )


def _plus_everywhere(formula: Formula) -> Formula:
    """Mark all occurrences of a variable that has a ``+`` somewhere."""
    plus = {term.name for term in terms(formula) if isinstance(term, Variable) and term.plus}
    if not plus:
        return formula

    def marked(leaf: Leaf) -> Leaf:
        isplus = isinstance(leaf, Variable) and leaf.name in plus
        return Variable(leaf.name, plus=True) if isplus else leaf

    return replace_terms(formula, marked)
