"""The spelling of constants and formulas."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinesrl.logic.text import quote, show, unquote
from onlinesrl.mln.lang.reader import parse
from tests.support.random_formulas import DECLARATIONS, typed


@pytest.mark.parametrize(
    ("constant", "spelling"),
    [
        ("Anna", "Anna"),
        ("Level_500", "Level_500"),
        ("O'Brien-Smith", "O'Brien-Smith"),
        ("42", "42"),
        ("-3", "-3"),
        ("0", "0"),
        ("anna", '"anna"'),
        ("Anna Lee", '"Anna Lee"'),
        ("", '""'),
        ("007", '"007"'),
        ("2.5", '"2.5"'),
        ("-0", '"-0"'),
        ("Exist", '"Exist"'),
        ("Élan", '"Élan"'),
        ('say "hi"', r'"say \"hi\""'),
        ("back\\slash", r'"back\\slash"'),
        ("two\nlines", r'"two\nlines"'),
        ("//", '"//"'),
    ],
)
def test_a_constant_is_quoted_unless_alchemy_reads_it_plain(constant, spelling):
    assert quote(constant) == spelling
    assert unquote(spelling) == constant


@given(st.text())
def test_every_constant_reads_back(constant):
    program = parse(f"P(thing)\n1 P({quote(constant)})")
    assert program.types == {"thing": (constant,)}


@given(typed)
def test_every_formula_reads_back(formula):
    (rule,) = parse(f"{DECLARATIONS}1.5 {show(formula)}").rules
    assert rule.formula == formula
    assert rule.text == show(formula)
