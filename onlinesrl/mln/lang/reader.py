"""The reader of MLN files: text to a program with checked names, arities and types."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from onlinesrl.core.errors import LocatedError, StorageError
from onlinesrl.logic.ast import (
    Atom,
    Formula,
    FunctionType,
    Implies,
    Position,
    Predicate,
    Program,
    Rule,
    subformulas,
)
from onlinesrl.logic.cnf import disjunctions, misplaced_universal
from onlinesrl.logic.dialect import ALCHEMY, FLOAT, Dialect
from onlinesrl.logic.parsing import MAX_DEPTH
from onlinesrl.logic.source import Source, read_text, source
from onlinesrl.logic.text import NAME, show
from onlinesrl.mln.lang.cardinality import counted, functional
from onlinesrl.mln.lang.clausal_form import plus_everywhere, plus_variables
from onlinesrl.mln.lang.evidence_weights import ordered_variables
from onlinesrl.mln.lang.formula_features import MAX_PARTS, clauses_of
from onlinesrl.mln.lang.line_templates import Family, fold, generalise, joined
from onlinesrl.mln.lang.predicate_completion import Definite, completions
from onlinesrl.mln.lang.statements import (
    Enumeration,
    FunctionDeclaration,
    Include,
    Sentence,
    statements,
)
from onlinesrl.mln.lang.type_checker import Checker, Declarations, TypedConstant

MAX_INCLUDES = 1000
"""The largest number of included files; a file that is included twice counts twice."""
_NOT_INCLUDED = {".db": "a database is evidence", ".cpp": "C++ cannot be linked in"}
_TYPE = re.compile(rf"({NAME})([!?]?)")


def load(path: str | Path, dialect: Dialect = ALCHEMY) -> Program:
    """Read an MLN file, see `parse`. Raises StorageError if the file cannot be read."""
    return parse(read_text(path), str(path), dialect)


def parse(
    text: str,
    file: str = "<model>",
    dialect: Dialect = ALCHEMY,
    alone: bool = False,
    clausal: bool = True,
) -> Program:
    """Parse a program in a dialect's syntax.

    ``file`` is the path for error messages and for relative includes. ``alone``: includes are forbidden.
    Unless ``clausal``, formulas need no clausal form. Raises ModelError at the first mistake or unsupported
    construct.
    """
    reader = _Reader(dialect, alone, clausal)
    first = _File(reader, source(text, file), (), (Path(file).resolve(),))
    return reader.program(file, first.read())


class _Reader:
    """A program under construction."""

    def __init__(self, dialect: Dialect, alone: bool, clausal: bool) -> None:
        self.dialect, self.alone, self.clausal = dialect, alone, clausal
        self.types: dict[str, dict[str, tuple[int, ...]]] = {}
        self.spelled_types: dict[str, str] = {}
        self.open: set[str] = set()
        self.declared = Declarations()
        self.rules: list[Rule] = []
        self.instances: dict[int, Rule] = {}
        self.definite: list[Definite] = []
        self.included = 0
        self.closed: set[str] = set()

    def program(self, file: str, text: str) -> Program:
        types = {
            name: tuple(sorted(constants, key=constants.__getitem__))
            for name, constants in self.types.items()
        }
        predicates = self.declared.predicates
        rules = joined(self.rules, self.instances) if self.instances else self.rules
        rules = [*rules, *completions(self.definite, predicates)]
        functions, opened = self.declared.functions, frozenset(self.open)
        closed = frozenset(self.closed.difference(rule.head.predicate for rule in self.definite))
        return Program(file, types, predicates, tuple(rules), functions, text, opened, closed)

    def occurs(self, type_: str, constant: str, place: tuple[int, ...]) -> None:
        """Record the place of a constant of a type; places compare in reading order."""
        constants = self.types.setdefault(type_, {})
        constants[constant] = min(place, constants.get(constant, place))


class _File:
    """The reader of one file.

    ``prefix`` has the lines of the includes that lead to the file, ``stack`` the files from the first
    file to this one.
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
        """Add the file's statements to the program; return its text with included files."""
        lines = self._source.text.split("\n")
        code, dialect = self._source.code(), self._reader.dialect
        families: dict[int, Family] = {}
        if dialect is ALCHEMY:
            parsed, families = fold(code, self._source)
        else:
            parsed = statements(code, self._source, dialect)
        for statement in parsed:
            match statement:
                case Enumeration(name, constants, is_open, position):
                    self._add_type(name, position)
                    if is_open:
                        self._reader.open.add(name)
                    for index, constant in enumerate(constants):
                        self._reader.occurs(name, constant, (*self._prefix, position.line, index))
                case FunctionDeclaration(result, name, types, position):
                    if name == "succ":
                        message = "succ is a built-in function: succ(t) is t + 1"
                        raise self._source.error(message, position)
                    self._declare(name, position)
                    self._reader.declared.functions[name] = FunctionType(name, types, result)
                    self._add_relation(Predicate(name, (*types, result)), position)
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
        if self._reader.alone:
            raise self._source.error("a checkpoint's model includes no file", statement.position)
        path = Path(self._source.file).parent / statement.path
        if path.suffix in _NOT_INCLUDED:
            raise self._not_included(statement)
        try:
            text, resolved = read_text(path, pipe=False), path.resolve()
        except StorageError as error:
            raise self._source.error(str(error), statement.position) from None
        if not path.suffix == resolved.suffix == ".mln":
            raise self._not_included(statement)  # errors would disclose a line of another file
        if resolved in self._stack:
            chain = " includes ".join(
                file.name for file in (*self._stack[self._stack.index(resolved) :], path)
            )
            raise self._source.error(f"this file includes itself: {chain}", statement.position)
        self._reader.included += 1
        if len(self._stack) > MAX_DEPTH or self._reader.included > MAX_INCLUDES:
            message = f"at most {MAX_INCLUDES} files are included, and {MAX_DEPTH} by one another"
            raise self._source.error(message, statement.position, "join some of them")
        prefix = (*self._prefix, statement.position.line)
        stack = (*self._stack, resolved)
        return _File(self._reader, source(text, str(path)), prefix, stack).read()

    def _not_included(self, statement: Include) -> LocatedError:
        hint = _NOT_INCLUDED.get(Path(statement.path).suffix, "the name of one ends with .mln")
        message = f"only MLN files can be included, not {statement.path}"
        return self._source.error(message, statement.position, hint)

    def _declares(self, sentence: Sentence) -> bool:
        """Return whether a sentence declares its predicate.

        A bare atom of a new predicate is a declaration. A bare atom whose arguments are names of types
        is a repeated declaration.
        """
        formula = sentence.formula
        weighted = sentence.weight is not None or sentence.weight_variable is not None
        if not isinstance(formula, Atom) or weighted or sentence.hard:
            return False
        spellings = [spelling.spelling for spelling in sentence.mentions[0].arguments]
        types = self._reader.types
        repeated = bool(spellings) and all(spelling.rstrip("!?") in types for spelling in spellings)
        new = formula.predicate not in self._reader.declared.predicates
        return new or repeated or sentence.closed or sentence.numeric

    def _add_predicate(self, sentence: Sentence) -> None:
        if sentence.star is not None:
            raise self._source.error(
                "`*` before a predicate declaration is Tuffy's mark for a closed world, and RockIt's",
                sentence.star,
                "leave it out: a predicate that is not queried is closed anyway; "
                "or read it with --dialect tuffy or --dialect rockit",
            )
        (mention,) = sentence.mentions
        assert isinstance(mention.formula, Atom)
        name = mention.formula.predicate
        self._declare(name, mention.position)
        dialect = self._reader.dialect
        says = {"": "", "!": dialect.functional, "?": "at most one"}
        types: list[str] = []
        constraints: list[str] = []
        for argument in mention.arguments:
            match = _TYPE.fullmatch(argument.spelling)
            if match is None:
                raise self._source.error(
                    f"{name} is not declared yet, and a declaration has types as arguments,"
                    f" not {argument.spelling}",
                    argument.position,
                    "a `+` belongs in formulas"
                    if argument.spelling.startswith("+")
                    else f"declare it before its first use, like `{name}(person)`",
                )
            types.append(match[1])
            constraints.append(says[match[2]])
        exactly = tuple(index for index, text in enumerate(constraints) if text == "exactly one")
        if sentence.numeric and any(constraints):
            message = f"{name} is numeric: its atoms have numbers, and no argument has a mark"
            raise self._source.error(message, mention.position)
        predicate = Predicate(name, tuple(types), exactly, sentence.numeric)
        self._add_relation(predicate, sentence.position)
        if sentence.closed:
            self._reader.closed.add(name)
        elif dialect.opened == "unmarked" and FLOAT in predicate.types:
            message = f"a predicate with an argument of type {FLOAT} has a closed world"
            raise self._source.error(message, mention.position, f"write `*{name}(...)`")
        at_most = [index for index, text in enumerate(constraints) if text == "at most one"]
        if at_most:
            self._reader.rules.append(functional(predicate, at_most, sentence.position))

    def _declare(self, name: str, position: Position) -> None:
        places = self._reader.declared.places
        if name in places:
            kind_declared = "function" if name in self._reader.declared.functions else "predicate"
            message = f"the {kind_declared} {name} is already declared on {places[name]}"
            raise self._source.error(message, position)
        within = f" of {self._source.file}" if self._prefix else ""
        places[name] = f"line {position.line}{within}"

    def _add_type(self, name: str, place: Position) -> None:
        spelled = self._reader.spelled_types.setdefault(name.lower(), name)
        if spelled != name:
            message = f"the type {name} is spelled {spelled} before"
            raise self._source.error(
                message, place, "spell a type in one way, or rename one of two"
            )
        self._reader.types.setdefault(name, {})

    def _add_relation(self, predicate: Predicate, place: Position) -> None:
        for type_ in predicate.types:
            self._add_type(type_, place)
        self._reader.declared.predicates[predicate.name] = predicate

    def _add_rule(self, sentence: Sentence, family: Family | None) -> None:
        variables = self._checker.variables(sentence)
        constants = self._checker.constants(sentence, variables)
        if self._reader.clausal:
            self._check_normal_form(sentence)
        for index, constant in enumerate(constants):
            if constant.type is not None and not constant.plus:
                place = (*self._prefix, sentence.position.line, index)
                self._reader.occurs(constant.type, constant.name, place)
        formula = plus_everywhere(sentence.formula, self._weight_variable(sentence, variables))
        rule = Rule(
            formula=formula,
            weight=sentence.weight,
            hard=sentence.hard,
            position=sentence.position,
            text=sentence.text,
            types=tuple(variables.items()),
            weight_variable=sentence.weight_variable,
            fixed=sentence.fixed,
        )
        self._checker.check_numeric(sentence, rule)
        if isinstance(formula, Implies) and sentence.definite:
            self._check_datalog(formula, sentence.position)
            definite = Definite(formula, rule.position, rule.types, self._source)
            self._reader.definite.append(definite)
        if any(constant.plus for constant in constants):
            rule = self._instance_rule(rule, family, constants, sentence)
        elif family is not None:
            rule = self._family_rule(rule, family, constants)
        if sentence.cardinality is not None:
            try:
                rule = counted(rule, sentence.cardinality, self._reader.closed)
            except ValueError as error:
                raise self._source.error(str(error), rule.position) from None
        if not self._reader.dialect.whole or rule.weight is None:
            self._reader.rules.append(rule)
            return
        signed = clauses_of(rule.formula)  # the formula is one feature
        if signed is None:
            raise self._source.error(
                f"a formula that is one feature has at most {MAX_PARTS} atoms, and no negated EXIST "
                "(`=>` and `<=>` negate, too)",
                rule.position,
                "write a rule for each part of it",
            )
        clauses, sign = signed
        self._reader.rules += [
            replace(rule, formula=clause, weight=sign * rule.weight, text=show(clause))
            for clause in clauses
        ]

    def _weight_variable(self, sentence: Sentence, types: Mapping[str, str]) -> str | None:
        """Return the variable of a rule's weight; check the use of decimal numbers."""
        if self._reader.dialect.decimals:
            for ordered in ordered_variables(sentence.formula):
                if types[ordered] == FLOAT:
                    message = f"{ordered} is of type {FLOAT}: only whole numbers are ordered"
                    raise self._source.error(message, sentence.position)
        name = sentence.weight_variable
        if name is not None and types.get(name) != FLOAT:
            message = f"the weight {name} is no argument of type {FLOAT} in this formula"
            hint = f"declare a predicate like `*confidence(thing, {FLOAT})`, and use it"
            raise self._source.error(message, sentence.position, hint)
        return name

    def _check_datalog(self, rule: Implies, position: Position) -> None:
        """Check that Tuffy could evaluate a datalog rule before inference, in the file's order."""
        if self._reader.dialect.opened != "unmarked":
            return
        assert isinstance(rule.right, Atom)
        head, definite = rule.right.predicate, self._reader.definite
        derived = {clause.head.predicate for clause in definite}
        body = set(_predicates(rule.left))
        if unknown := sorted(body - self._reader.closed - derived):
            message = f"a datalog rule is evaluated before {unknown[0]} is known"
            hint = "its body has predicates marked `*`, or heads of datalog rules"
            raise self._source.error(message, position, hint)
        if head in body.union(*(_predicates(clause.formula.left) for clause in definite)):
            message = f"{head} is derived from itself, or after it was used"
            raise self._source.error(message, position, "recursion is not supported")

    def _check_normal_form(self, sentence: Sentence) -> None:
        """Reject a universal quantifier inside an existential one, and a too large normal form."""
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
        try:
            disjunctions(formula)
        except ValueError as error:
            hint = "write it in several rules"
            raise self._source.error(str(error), sentence.position, hint) from None

    def _instance_rule(
        self, rule: Rule, family: Family | None, constants: list[TypedConstant], sentence: Sentence
    ) -> Rule:
        """Return the rule of a line, or family of lines, with weights of a template's instances."""
        plus = plus_variables(rule.formula)
        if rule.weight is None or rule.hard or sentence.definite or plus:
            message = "`+` before a constant means that the line has the weight of an instance"
            hint = "write a weight before it, no period, and no `+` before a variable"
            raise self._source.error(message, rule.position, hint)
        names = tuple(constant.name for constant in constants)
        lines = family or Family("", [rule.position.line], [rule.weight], [names])
        rule = self._family_rule(rule, lines, constants)
        columns = zip(constants, zip(*lines.constants, strict=True), strict=True)
        if all(constant.plus or len({*column}) == 1 for constant, column in columns):
            self._reader.instances[len(self._reader.rules)] = rule
        return rule

    def _family_rule(self, rule: Rule, family: Family, places: list[TypedConstant]) -> Rule:
        types = [constant.type if constant.fixed else None for constant in places]
        columns = zip(*family.constants, strict=True)
        for index, (type_, constants) in enumerate(zip(types, columns, strict=True)):
            if type_ is not None and not places[index].plus:
                first = dict(zip(reversed(constants), reversed(family.lines), strict=True))
                for constant, line in first.items():
                    self._reader.occurs(type_, constant, (*self._prefix, line, index))
        plus = [constant.plus for constant in places]
        formula, table, new = generalise(rule.formula, types, family, plus)
        all_types = (*rule.types, *new)
        return replace(
            rule, formula=formula, table=table, weight=0.0, text=show(formula), types=all_types
        )


def _predicates(formula: Formula) -> Iterator[str]:
    if isinstance(formula, Atom):
        yield formula.predicate
    for part in subformulas(formula):
        yield from _predicates(part)
