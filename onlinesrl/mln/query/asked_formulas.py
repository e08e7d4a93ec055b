"""The text of formulas asked about: read as formulas of a model, and written with constants."""

from __future__ import annotations

from collections.abc import Sequence

from onlinesrl.core.errors import ModelError, UsageError
from onlinesrl.logic.ast import (
    Constant,
    Formula,
    Leaf,
    Program,
    Rule,
    Variable,
    free_variables,
    replace_terms,
)
from onlinesrl.logic.dialect import Dialect
from onlinesrl.logic.text import show
from onlinesrl.mln.lang import reader
from onlinesrl.mln.lang.clausal_form import plus_variables


def parsed(program: Program, formulas: Sequence[str], dialect: Dialect) -> list[Rule]:
    """Return the hard rule that each formula is in a program. Raises UsageError."""
    if not formulas:
        return []
    texts = [" ".join(text.split()) for text in formulas]
    lines = program.text.count("\n") + 2  # the line of the first formula
    try:
        text = "\n".join([program.text, *(f"{text}." for text in texts)])
        extended = reader.parse(text, program.file, dialect, alone=True, clausal=False)
    except ModelError as error:
        hint = f" ({error.hint})" if error.hint else ""
        raise UsageError(f"formula {texts[error.line - lines]}: {error.message}{hint}") from None
    by_line: dict[int, list[Rule]] = {}
    for rule in extended.rules:
        by_line.setdefault(rule.position.line - lines, []).append(rule)
    return [_one(by_line.get(n, []), text) for n, text in enumerate(texts)]


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
