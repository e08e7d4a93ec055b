"""Families: files of tens of thousands of weights are parsed by their shapes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinesrl.core.errors import ModelError
from onlinesrl.logic.ast import Constant, Variable, replace_terms
from onlinesrl.logic.text import quote, show
from onlinesrl.mln.lang import line_templates
from onlinesrl.mln.lang.clausal_form import plus_variables
from onlinesrl.mln.lang.reader import parse

DECLARED = "Token(word, pos)\nInField(pos, field)\nNext(pos, pos)\nRain\nSnow\nSame(word, word)\n"


def unfolded(text):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_templates, "ENOUGH", float("inf"))
        return parse(text)


def instances(program):
    """The rules with their families written out: formula -> sum of weights."""
    total = {}
    for rule in program.rules:
        template = plus_variables(rule.formula)
        rows = [((), rule.weight)] if rule.table is None else rule.table
        for key, weight in rows:
            values = dict(zip(template, key, strict=True)) if rule.table else {}

            def instance(term, values=values):
                filled = isinstance(term, Variable) and term.plus and term.name in values
                return Constant(values[term.name]) if filled else term

            text = (show(replace_terms(rule.formula, instance)), rule.hard)
            total[text] = total.get(text, 0.0) + (weight or 0.0)
    return total


def tokens(number, start=0):
    return [f"{n}.5 Token(W{n}, i) => InField(i, Author)" for n in range(start, start + number)]


def test_more_than_eight_lines_of_a_shape_are_a_family():
    assert len(parse(DECLARED + "\n".join(tokens(8))).rules) == 8
    (family,) = parse(DECLARED + "\n".join(tokens(9))).rules
    assert show(family.formula) == family.text == "Token(+c1, i) => InField(i, Author)"
    assert family.weight == 0.0
    assert not family.hard
    assert family.table == tuple(((f"W{n}",), n + 0.5) for n in range(9))
    assert family.position.line == 7


def test_constants_that_vary_alike_share_a_variable():
    lines = [f"1 Token(W{n}, i) ^ Same(W{n}, w) ^ Token(V{n}, 3) ^ Rain" for n in range(9)]
    (family,) = unfolded_equals(DECLARED + "\n".join(lines)).rules
    assert family.text == "Token(+c1, i) ^ Same(+c1, w) ^ Token(+c2, 3) ^ Rain"
    assert family.table[0] == (("W0", "V0"), 1.0)


def test_new_variables_avoid_the_names_that_are_taken():
    lines = [f"1 Token(A{n}, c1)" for n in range(9)]
    (family,) = parse(DECLARED + "\n".join(lines)).rules
    assert family.text == "Token(+c2, c1)"


def test_the_weights_of_a_repeated_line_add_up():
    (family,) = parse(DECLARED + "\n".join([*tokens(9), *tokens(2)])).rules
    assert family.table[:3] == ((("W0",), 1.0), (("W1",), 3.0), (("W2",), 2.5))
    assert len(family.table) == 9


def unfolded_equals(text):
    """Parse with and without families, and compare."""
    program = parse(text)
    plain = unfolded(text)
    assert instances(program) == pytest.approx(instances(plain))
    assert program.types == plain.types
    assert program.predicates == plain.predicates
    return program


@pytest.mark.parametrize(
    "lines",
    [
        [f"1 Rain ^ InField({n}, Author)" for n in range(12)],
        [f"1 {'Rain' if n % 2 else 'Snow'} ^ InField(3, Author)" for n in range(20)],
        [f"1 InField(i, f) ^ f = F{n} ^ (Rain)" for n in range(12)],
        [f"1 InField(i, f) ^ (f = F{n})" for n in range(12)],
        [f"1 InField({n}, +f)" for n in range(12)],
        [f"{n} InField(i, Author)" for n in range(12)],
        ["/*", *tokens(12), "*/", "1 Rain"],
        [*tokens(12), "/*", *tokens(12, 6), "*/", "Token(A, 3).", *tokens(12, 15)],
        ["1 InField(3, Author) =>", "Rain"] * 12,
        ["1 Rain =>", "3 = x v InField(x, f) ^ Token(A, x)"] * 12,
        ["word = {", "Zoe", "}", *tokens(20), "word = { Anna, W3 }"],
        [f"{n} Token({quote(c)}, i)" for n, c in enumerate('"(),./\\*+v!^ =>{}#é\n')],
        [f"1 Token(W{n},i)=>InField(i,Author) // W{n}" for n in range(12)],
    ],
)
def test_what_shapes_do_not_tell_is_parsed_line_by_line(lines):
    unfolded_equals(DECLARED + "\n".join(lines))


@pytest.mark.parametrize(
    "line",
    [
        "1 Token(W5, i) => InField(i, author",
        "1 Token(W5, i) => InField(i)",
        "1 Token(W5, i) => InFeld(i, Author)",
        "1 Token(W5, i) => InField(i, Author).",
        "Token(W5, i) =>",
        "word = {",
        "word = { A,",
        '1 Token("W5, i) => InField(i, Author)',
        "1 Token(EXIST, i) => InField(i, Author)",
    ],
)
def test_errors_are_those_of_the_file_without_families(line):
    text = DECLARED + "\n".join([*tokens(20), line, *tokens(20)])
    with pytest.raises(ModelError) as folded:
        parse(text)
    with pytest.raises(ModelError) as plain:
        unfolded(text)
    assert str(folded.value) == str(plain.value)
    assert folded.value.line in {27, 28}


words = st.sampled_from(["A", "B", "C", "a", "3", "4", "Two words", '"', "\\", "(", "=>"])
shapes = st.sampled_from(
    [
        "Token({0}, i) => InField(i, {1})",
        "InField(i, {0}) ^ Next(i, j) ^ InField(j, {1})",
        "InField(i, {0}) ^ {0} != {1} ^ Next(i, j) => InField(j, {1})",
        "Rain v Token({0}, {1})",
        "Same({0}, {1}) <=> Token({1}, {0})",
        "!Token({0}, x) ^ x = {1}",
        "Token({0}, x) ^ (Rain)",
        "Snow",
    ]
)


@given(st.lists(st.tuples(shapes, words, words, st.integers(-9, 9)), min_size=20, max_size=60))
def test_a_file_with_families_means_the_same_as_without(lines):
    unfolded_equals(
        DECLARED
        + "\n".join(
            f"{weight / 4} {shape.format(quote(first), quote(second))}"
            for shape, first, second, weight in lines
        )
    )
