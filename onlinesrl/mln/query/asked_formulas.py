"""Formulas asked about: a hard rule defines an atom for each, which any method of inference gives a value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from onlinesrl.core.errors import ModelError, UsageError
from onlinesrl.logic.ast import (
    Atom,
    Constant,
    Formula,
    Iff,
    Leaf,
    Predicate,
    Program,
    Rule,
    Variable,
    free_variables,
    replace_terms,
)
from onlinesrl.logic.cnf import disjunctions, misplaced_universal
from onlinesrl.logic.dialect import Dialect
from onlinesrl.logic.text import show
from onlinesrl.mln.lang import reader
from onlinesrl.mln.lang.clausal_form import plus_variables


def with_formulas(
    program: Program, asked: Sequence[str], given: Sequence[str], dialect: Dialect
) -> tuple[Program, dict[str, Formula]]:
    """Return the program with a predicate for each formula asked about, and the formulas by predicate.

    The predicate is named after the formula's text. Its arguments are the free variables, and it is defined
    by the hard rule ``Predicate(free variables) <=> formula``. Formulas that are ``given`` become hard rules,
    so that values are conditional on them; there, free variables stand for all constants. Raises UsageError.
    """
    extended, rules = parsed(program, (*asked, *given), dialect)
    texts = [" ".join(text.split()) for text in asked]
    predicates, formulas = dict(program.predicates), dict[str, Formula]()
    for n, (name, rule) in enumerate(zip(texts, rules, strict=False)):
        if name in program.predicates:
            raise UsageError(f"formula {name} is a predicate: ask for it in the query")
        kinds, free = dict(rule.types), free_variables(rule.formula)
        predicates[name] = Predicate(name, tuple(kinds[variable] for variable in free))
        definition = Iff(Atom(name, tuple(map(Variable, free))), rule.formula)
        try:
            universal = misplaced_universal(definition) is not None
            disjunctions(definition)
        except ValueError as error:
            raise UsageError(f"formula {name}: {error}; ask about parts of it") from None
        if universal:
            message = "one quantifier inside another of the other kind cannot be asked about"
            raise UsageError(f"formula {name}: {message}; define a predicate for the inner one")
        rules[n] = replace(rule, formula=definition)
        formulas[name] = rule.formula
    rules_of_all = (*program.rules, *rules)
    return replace(
        program, types=extended.types, predicates=predicates, rules=rules_of_all
    ), formulas


def parsed(
    program: Program, formulas: Sequence[str], dialect: Dialect
) -> tuple[Program, list[Rule]]:
    """Return the program with formulas as hard rules, and the rule of each. Raises UsageError."""
    texts = [" ".join(text.split()) for text in formulas]
    lines = program.text.count("\n") + 2  # the line of the first formula
    try:
        text = "\n".join([program.text, *(f"{text}." for text in texts)])
        extended = reader.parse(text, program.file, dialect, alone=True)
    except ModelError as error:
        hint = f" ({error.hint})" if error.hint else ""
        raise UsageError(f"formula {texts[error.line - lines]}: {error.message}{hint}") from None
    by_line: dict[int, list[Rule]] = {}
    for rule in extended.rules:
        by_line.setdefault(rule.position.line - lines, []).append(rule)
    return extended, [_one(by_line.get(n, []), text) for n, text in enumerate(texts)]


def spell_formula(formula: Formula, constants: Sequence[object]) -> str:
    """Return the text of a formula with constants in place of its free variables."""
    values = dict(zip(free_variables(formula), map(str, constants), strict=True))

    def leaf_of(leaf: Leaf) -> Leaf:
        is_free = isinstance(leaf, Variable) and leaf.name in values
        return Constant(values[leaf.name]) if is_free else leaf

    return show(replace_terms(formula, leaf_of))


def _one(rules: Sequence[Rule], text: str) -> Rule:
    """Return the rule of a formula. Raises UsageError where it is none, or several."""
    if len(rules) != 1 or plus_variables(rules[0].formula):
        raise UsageError(f"formula {text}: expected one formula, without weight, `:-` and `+`")
    return rules[0]
