"""Reading MLN files: Alchemy's syntax, and errors that people understand."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import long
from hypothesis import given
from hypothesis import strategies as st

from onlinesrl.core.errors import ModelError, StorageError
from onlinesrl.logic.ast import And, Atom, Constant, Equal, Iff, Implies, Not, Or, Variable
from onlinesrl.logic.dialect import DIALECTS
from onlinesrl.logic.text import show
from onlinesrl.mln.lang.reader import load, parse
from tests.support.paths import REPO, SHARED

DECLARED = "P(t)\nQ(t)\nR(t)\nF(t, t)\nRain\nTown(u)\n"
DECLARED_LINES = DECLARED.count("\n")


def rule(text):
    (found,) = parse(DECLARED + text).rules
    return found


def formulas(text):
    return [show(each.formula) for each in parse(DECLARED + text).rules]


TOUR = r"""/* A tour of
   the syntax. */
person = { Anna, Bob,
           "Anna Lee" }   // three people
Smokes(person)
advisedBy(person, person)
State(time, val!)
Obs(time,val)
Rain
Wet()

1.5 Smokes(x) => advisedBy(x, Anna)
-1.5e-1 advisedBy(x,y) ^ !(x = y) =>
    (Smokes(x) <=> Smokes(y))
Obs(t,+v) => State(t,+v)
Rain v Wet() v !Smokes("say \"hi\" \\").
0 Obs(3, "3") ^ x != Bob ^ Smokes(x)
"""


def test_a_tour_of_the_syntax():
    program = parse(TOUR, "tour.mln")
    assert program.file == "tour.mln"
    assert dict(program.types) == {
        "person": ("Anna", "Bob", "Anna Lee", 'say "hi" \\'),
        "time": ("3",),
        "val": ("3",),
    }
    assert {name: each.types for name, each in program.predicates.items()} == {
        "Smokes": ("person",),
        "advisedBy": ("person", "person"),
        "State": ("time", "val"),
        "Obs": ("time", "val"),
        "Rain": (),
        "Wet": (),
    }
    assert program.predicates["State"].exactly_one == (1,)
    assert [(each.weight, each.hard, show(each.formula)) for each in program.rules] == [
        (1.5, False, "Smokes(x) => advisedBy(x, Anna)"),
        (-0.15, False, "advisedBy(x, y) ^ x != y => (Smokes(x) <=> Smokes(y))"),
        (None, False, "Obs(t, +v) => State(t, +v)"),
        (None, True, r'Rain v Wet v !Smokes("say \"hi\" \\")'),
        (0.0, False, "Obs(3, 3) ^ x != Bob ^ Smokes(x)"),
    ]


A, B, C, D = (Atom(name, (Variable("x"),)) for name in ("P", "Q", "R", "lower"))


@pytest.mark.parametrize(
    ("text", "formula"),
    [
        ("P(x) ^ Q(x) v R(x)", Or((And((A, B)), C))),
        ("P(x) v Q(x) ^ R(x)", Or((A, And((B, C))))),
        ("P(x) ^ (Q(x) v R(x))", And((A, Or((B, C))))),
        ("!P(x) v Q(x)", Or((Not(A), B))),
        ("!(P(x) v Q(x))", Not(Or((A, B)))),
        ("P(x) => Q(x) => R(x)", Implies(Implies(A, B), C)),
        ("P(x) => (Q(x) => R(x))", Implies(A, Implies(B, C))),
        ("P(x) <=> Q(x) => R(x)", Iff(A, Implies(B, C))),
        ("P(x) <=> Q(x) <=> R(x)", Iff(Iff(A, B), C)),
        ("P(x) v Q(x) v R(x)", Or((A, B, C))),
        ("(P(x) ^ Q(x)) ^ R(x)", And((And((A, B)), C))),
        ("P(x)^Q(x)", And((A, B))),
        ("!!P(x)", Not(Not(A))),
        ("!x = y ^ F(x,y)", And((Not(Equal(Variable("x"), Variable("y"))), Atom("F", ())))),
    ],
)
def test_precedence(text, formula):
    if "F" in text:
        formula = And((formula.operands[0], Atom("F", (Variable("x"), Variable("y")))))
    assert rule(f"1 {text}").formula == formula


@pytest.mark.parametrize(
    ("spelling", "term"),
    [
        ("x", Variable("x")),
        ("_x", Variable("_x")),
        ("x-1", Variable("x-1")),
        ("+x", Variable("x", plus=True)),
        ("Anna", Constant("Anna")),
        ('"Anna"', Constant("Anna")),
        ("3", Constant("3")),
        ('"3"', Constant("3")),
        ("-3", Constant("-3")),
        ("O'Brien", Constant("O'Brien")),
        ('"// /* "', Constant("// /* ")),
        (r'"\n\t\r\'"', Constant("\n\t\r'")),
    ],
)
def test_terms(spelling, term):
    assert rule(f"1 P({spelling})").formula == Atom("P", (term,))


@pytest.mark.parametrize("weight", ["2", "-2", "0.5", "-1.5e-1", "1e5", "2.5E+3"])
def test_weights(weight):
    assert rule(f"{weight} P(x)").weight == float(weight)


def test_a_name_is_a_variable_where_a_term_stands_and_v_is_or_between_blanks():
    assert formulas("1 F(v, v ) v Rain v P(v)") == ["F(v, v) v Rain v P(v)"]


def test_plus_anywhere_is_plus_everywhere():
    assert formulas("1 P(x) ^ Q(+x)") == ["P(+x) ^ Q(+x)"]


def test_a_constant_that_a_variable_is_compared_with_has_its_type():
    program = parse(DECLARED + "1 P(x) ^ x != Anna")
    assert program.types["t"] == ("Anna",)


def test_lines_may_break_after_connectives():
    assert formulas("1 P(x) ^\n Q(x) v // or\n\n R(x) =>\n  P(x) <=>\n Q(x)") == [
        "P(x) ^ Q(x) v R(x) => P(x) <=> Q(x)"
    ]


@pytest.mark.parametrize(
    "enumeration",
    ["t = {A,B,3}", "t={ A B 3 }", "t = {\n A,\n B,\n 3\n}", "t = {A\n,B\n,3}", "t = {\nA\nB\n3}"],
)
def test_enumerations(enumeration):
    assert parse(enumeration).types == {"t": ("A", "B", "3")}


def test_enumerations_add_up_and_may_be_empty():
    program = parse("t = {}\nu = {B}\nP(t)\nt = {A}\n1 P(B)\nt = {C, A}")
    assert program.types == {"t": ("A", "B", "C"), "u": ("B",)}


def test_line_ends_and_byte_order_mark_do_not_matter():
    assert (
        parse("\ufeffP(t)\r\n1 P(x) =>\r\n P(A)\r\n").rules == parse("P(t)\n1 P(x) =>\n P(A)").rules
    )


def test_an_empty_file_is_a_program():
    assert parse("").rules == parse("\n // nothing\n\n").rules == ()


ERRORS = (Path(__file__).parent / "errors.tsv").read_text().splitlines()
"""Place, text after the declarations, and message with its hint; a backslash is written twice."""


@pytest.mark.parametrize("case", ERRORS)
def test_errors_say_what_where_and_what_to_do(case):
    place, text, message = case.split("\t")
    text = DECLARED + re.sub(r"\\(.)", lambda found: found[1].replace("n", "\n"), text)
    with pytest.raises(ModelError) as caught:
        parse(text, "model.mln")
    error = caught.value
    first, line, caret, *hint = str(error).split("\n")
    assert first.startswith(f"model.mln:{error.line}:{error.column}: ")
    assert f"{error.line - DECLARED_LINES}:{error.column}" == place
    assert line == "  " + text.split("\n")[error.line - 1]
    assert caret == " " * (error.column + 1) + "^"
    said = [first.split(": ", 1)[1], " ".join(map(str.strip, hint))]
    assert " // ".join(filter(None, said)) == message
    assert not any(terminal in str(error) for terminal in TERMINALS)


TERMINALS = ("NAME", "NUMBER", "_NEWLINE", "$END", "_OR", "BANG")
CHARACTERS = list("13xvPt(),.!^=+-*/%<>[]{}?:#@é'_\\\"\t\n ")
WORDS = [
    "2.5",
    "-1e3",
    "Q(x)",
    "F(x,y)",
    "Rain",
    " v ",
    "=>",
    "<=>",
    "!=",
    ":-",
    "...",
    "->",
    "P(x)v",
]
WORDS += ["f(x)", "t f(t)\n", "x + 1", "t++", "*P(x)", "<=", "EXIST x ", "FORALL y "]
WORDS += ["t = {1, ..., 9}\n"]
COMMENTS = ['"a"', '" "', "//", "/*", "*/", "EXIST x", "Anna", "t = {A}"]
pieces = st.sampled_from(CHARACTERS + WORDS + COMMENTS)


@given(st.lists(pieces, max_size=12), st.sampled_from(["", " "]))
def test_any_text_parses_or_is_a_located_error(found, between):
    text = DECLARED + between.join(found)
    try:
        program = parse(text)
    except ModelError as error:
        lines = text.split("\n")
        assert 1 <= error.line <= len(lines)
        assert 1 <= error.column <= len(lines[error.line - 1]) + 1
    else:
        assert len(program.rules) <= 2**10 * text.count("\n")


def test_a_file_is_read_under_its_name(tmp_path):
    path = tmp_path / "model.mln"
    path.write_text("P(t)\n1 Q(x)\n")
    with pytest.raises(ModelError, match=r"model\.mln:2:3: the predicate Q is not declared"):
        load(path)
    path.write_text("P(t)\n1 P(x)\n")
    assert load(path) == parse("P(t)\n1 P(x)\n", str(path))


def test_a_file_that_cannot_be_read_is_a_storage_error(tmp_path):
    with pytest.raises(StorageError, match="cannot read"):
        load(tmp_path / "none.mln")
    (tmp_path / "latin.mln").write_bytes(b'P(t)\n1 P("\xe9")')
    with pytest.raises(StorageError, match="save the file as UTF-8"):
        load(tmp_path / "latin.mln")


def test_lark_is_imported_only_to_parse():
    code = (
        "import sys; from onlinesrl.logic import database;"
        "from onlinesrl.mln.lang import clausal_form, reader, weight_file;"
        "assert 'lark' not in sys.modules; reader.parse('P(t)'); assert 'lark' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=REPO)


def named(path, name):
    return pytest.param(path, id=name)


def real_files():
    if not SHARED.is_dir():
        return [
            pytest.param(None, marks=pytest.mark.skip(reason="no ../shared beside the project"))
        ]
    return [
        (long if "count-overflow" in str(path) else named)(path, name=str(path.relative_to(SHARED)))
        for path in sorted(SHARED.glob("**/*.mln"))
        if "cases" not in path.parts  # in other dialects
    ]


EXPECTED = {
    "yeast/predicates.mln": "belongs in formulas",
    "fs-infer-tuffy.mln": "Tuffy's mark",
    "tuffy_closed_star.mln": "Tuffy's mark",
    "undeclared_pred.mln": "Foo is not declared",
    "weight_and_dot.mln": "not both",
}


@pytest.mark.parametrize("path", real_files())
def test_real_files_parse_or_say_what_is_not_supported(path):
    expected = [words for name, words in EXPECTED.items() if str(path).endswith(name)]
    if expected:
        with pytest.raises(ModelError, match=expected[0]):
            load(path)
    else:
        assert load(path).predicates


DECLARED_PLAINLY = ["P(t)", "Q(t)"]


@pytest.mark.parametrize("dialect", ["alchemy", "pracmln-standard"])
def test_the_first_mistake_is_said_though_another_is_far_behind(dialect):
    lines = [*DECLARED_PLAINLY, *(f"1.5 P(x{n}) ^ Q(x{n})" for n in range(5_000)), "1.5 P(x) ^ ^"]
    lines[30] = "1.5 P(x, y)"
    with pytest.raises(ModelError, match="P takes 1 argument, not 2") as caught:
        parse("\n".join(lines), dialect=DIALECTS[dialect])
    assert (caught.value.line, caught.value.column) == (31, 5)


@pytest.mark.parametrize("blank", [50, 60, 61, 62, 63, 64, 125, 126, 127])
@pytest.mark.parametrize("dialect", ["alchemy", "pracmln-standard"])
def test_a_statement_may_have_lines_in_two_parts_of_a_file(dialect, blank):
    before = [*DECLARED_PLAINLY, *["0.5 Q(x)"] * blank]
    several = [
        "t = {A,",
        *["B,"] * 200,
        "C}",
        "1.5 P(x) ^",
        "!Q(x)",
        "2.5 P(x) v",
        "Q(x)",
        "-1 Q(x)",
    ]
    program = parse("\n".join([*before, *several]), dialect=DIALECTS[dialect])
    assert program.types["t"] == ("A", "B", "C")
    found = [(rule.weight, rule.position.line) for rule in program.rules[blank:]]
    first = len(before) + 203
    lines = [first, first, first + 2, first + 4]
    assert sorted({line for _, line in found}) == sorted({*lines})
    with pytest.raises(ModelError) as caught:
        parse("\n".join([*before, *several, '1 P("é', "1 P(x)"]), dialect=DIALECTS[dialect])
    assert (caught.value.line, caught.value.column) == (len(before) + len(several) + 1, 5)
