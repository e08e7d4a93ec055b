"""Writing and reading files of learned weights."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinesrl.core.errors import ModelError
from onlinesrl.mln.lang.clausal_form import clauses
from onlinesrl.mln.lang.reader import parse
from onlinesrl.mln.lang.weight_file import alchemy_text, read, write

MODEL = """
field = { Author, Title, Venue }
Token(word, pos)
InField(pos, field!)
Next(pos, pos)
HasPunc(pos)
Same(word, word)
Rain
event walking(id)
id boss(id)
Happens(event, pos)

Token(+w, i) => InField(i, +f)
Token(+w, i) ^ Next(i, j) ^ !HasPunc(i) => InField(j, +f)
Next(i, j) ^ InField(i, +f) ^ InField(j, +g)
Next(i, j) ^ InField(i, +f) ^ InField(j, +g) ^ f != g
InField(i, Author) ^ HasPunc(i) ^ Next(i, j)
InField(i, Title) ^ HasPunc(i) ^ Next(i, j)
HasPunc(i) <=> InField(i, +f)
Same(+a, +b) ^ (Token(a, i) v Token(b, i))
Same(+a, +b) v !Same(+b, +a) v Rain
!Rain
Happens(walking(+p), i) ^ i > 2 => InField(i, +f)
Happens(walking(boss(+p)), i) <=> InField(i + 1, +f)
Happens(e, i) ^ e = walking(boss(+p)) ^ InField(i - 1, +f)
EXIST j (Next(i, j) ^ InField(j, +f))
InField(i, +f) => EXIST j (Next(i, j) ^ j > i * 2 ^ HasPunc(j)) v Rain
InField(i, +f) => EXIST j (Next(i, j) ^ HasPunc(j)) v (EXIST k (Next(k, i) ^ HasPunc(k)))
HasPunc(i) <=> (EXIST j (Next(i, j) ^ Token(+w, j)))
InField(i, Venue) => Token("100 %", i)
Token(+w, i) ^ i % 2 = 1 => InField(i, +f)
// a comment
InField(i, f) ^ InField(i, g) =>
    f = g.
!HasPunc(i) v Token(",", i).
"""

PROGRAM = parse(MODEL, "model.mln")
CLAUSES = clauses(PROGRAM)
SOFT = [clause for clause in CLAUSES if not clause.hard]


def written(entries, program=PROGRAM, header="weights"):
    stream = io.StringIO()
    write(program, entries, stream, header)
    return stream.getvalue()


def clause_of(text):
    (clause,) = [each for each in SOFT if each.text == text]
    return clause


words = st.sampled_from(["A", "B", "Author", "Rain", "3", "w", "100 %", '"', "\\n", ""]) | st.text(
    max_size=3
)


@st.composite
def keys(draw):
    clause = draw(st.sampled_from(SOFT))
    return clause, tuple(draw(words) for _ in clause.template)


weights = st.floats(allow_nan=False, allow_infinity=False).filter(bool)


@given(
    st.lists(keys(), unique_by=lambda each: (id(each[0]), each[1]), max_size=80),
    st.randoms(use_true_random=False),
    st.lists(weights, min_size=80, max_size=80),
)
def test_what_is_written_reads_back_the_same(places, random, values):
    random.shuffle(places)
    entries = [(*place, value) for place, value in zip(places, values, strict=False)]
    matched = read(CLAUSES, parse(written(entries)))
    assert matched.unmatched == ()
    assert {(index, key): weight for index, key, weight in matched.entries} == {
        (CLAUSES.index(clause), key): weight for clause, key, weight in entries
    }


def test_a_weights_file_is_a_whole_model():
    text = written(
        [
            (clause_of("Token(+w, i) => InField(i, +f)"), ("learning", "Title"), 0.1),
            (clause_of("!HasPunc(i) v InField(i, +f)"), ("Author",), 1e-07),
            (clause_of("Same(+a, +b)"), ("A", "B"), 2),
            (clause_of('InField(i, Venue) => Token("100 %", i)'), (), -3.5),
            (
                clause_of("Next(i, j) ^ InField(i, +f) ^ InField(j, +g) ^ f != g"),
                ("Author", "two words"),
                1.0,
            ),
        ],
        header="learned\nby a test",
    )
    assert text == (
        "// learned\n"
        "// by a test\n"
        "\n"
        "field = { Author, Title, Venue }\n"
        'word = { "100 %", "," }\n'
        "Token(word, pos)\n"
        "InField(pos, field!)\n"
        "Next(pos, pos)\n"
        "HasPunc(pos)\n"
        "Same(word, word)\n"
        "Rain\n"
        "event walking(id)\n"
        "id boss(id)\n"
        "Happens(event, pos)\n"
        "\n"
        "InField(i, f) ^ InField(i, g) => f = g.\n"
        '!HasPunc(i) v Token(",", i).\n'
        '0.1 Token(+"learning", i) => InField(i, Title)\n'
        "1e-07 !HasPunc(i) v InField(i, Author)\n"
        "2.0 Same(+A, +B)\n"
        '-3.5 InField(i, Venue) => Token("100 %", i)\n'
        '1.0 Next(i, j) ^ InField(i, Author) ^ InField(j, +"two words")'
        ' ^ Author != +"two words"\n'
    )
    program = parse(text)
    assert program.predicates == PROGRAM.predicates
    assert program.functions == PROGRAM.functions
    assert program.types["field"][:3] == PROGRAM.types["field"]
    assert [rule.hard for rule in program.rules] == [True, True, *[False] * 5]


def test_a_weight_that_is_not_finite_is_refused():
    with pytest.raises(ValueError, match="the weight of !Rain"):
        written([(clause_of("!Rain"), (), float("nan"))])


def found(model, weights):
    program = clauses(parse(model))
    matched = read(program, parse(weights))
    return (
        [(program[index].text, key, weight) for index, key, weight in matched.entries],
        [(each.text, each.rows) for each in matched.unmatched],
    )


DECLARED = "P(t)\nQ(t, u)\nF(t, t)\nt f(t)\nt g(t, t)\n"


@pytest.mark.parametrize(
    ("rule", "line", "expected"),
    [
        ("P(x) => Q(x, +y)", "2 Q(a1, A) v !P(a1)", [(("A",), 2.0)]),
        ("P(x) => Q(x, +y)", "2 P(z) => Q(z, A)", [(("A",), 2.0)]),
        ("P(x) => Q(x, +y)", "2 P(z) => Q(y, A)", []),
        ("P(x) => Q(x, +y)", "2 P(x) => Q(x, y)", []),
        ("P(x) => Q(x, +y)", "2 P(x) => Q(x, +y)", []),
        ("P(x) => Q(x, +y)", "2 P(A) => Q(A, B)", []),
        ("P(x) => Q(x, +y)", "P(x) => Q(x, A)", []),
        ("P(x) => Q(x, A)", "2 P(x) => Q(x, A)", [((), 2.0)]),
        ("P(x) => Q(x, A)", "2 P(x) => Q(x, B)", []),
        ("P(x) => Q(x, y)", "2 P(y) => Q(y, x)", [((), 2.0)]),
        ("P(x) ^ Q(x, +y)", "-2 !P(x) v !Q(x, A)", [(("A",), 2.0)]),
        ("P(x) ^ Q(x, +y)", "2 Q(x, A) ^ P(x)", [(("A",), 2.0)]),
        ("!P(x) v !Q(x, +y)", "2 Q(x, A) ^ P(x)", [(("A",), -2.0)]),
        ("F(x, y) ^ F(y, x)", "2 F(a, b) ^ F(b, a)", [((), 2.0)]),
        ("F(x, y) ^ F(y, x)", "2 F(a, b) ^ F(a, b)", []),
        ("F(x, y) ^ F(y, z)", "2 F(b, c) ^ F(a, b)", [((), 2.0)]),
        ("F(+x, y) ^ F(y, +x)", "2 F(A, b) ^ F(b, A)", [(("A",), 2.0)]),
        ("F(+x, y) ^ F(y, +x)", "2 F(A, b) ^ F(b, B)", []),
        ("F(x, +y) ^ F(x, +z)", "2 F(x, A) ^ F(x, B)", [(("A", "B"), 2.0)]),
        ("F(x, +y) ^ F(x, +z)", "2 F(x, A) ^ F(x, A)", [(("A", "A"), 2.0)]),
        ("F(x, y) => x = y", "2 a = b v !F(b, a)", [((), 2.0)]),
        ("F(x, y) => x = +z ^ P(z)", "2 F(x, y) => A = x", [(("A",), 2.0)]),
        ("P(x) <=> Q(x, +y)", "4 P(x) <=> Q(x, A)", [(("A",), 2.0), (("A",), 2.0)]),
        ("P(x) <=> Q(x, +y)", "1 P(x) v !Q(x, A)", [(("A",), 1.0)]),
        ("Q(x, +y) v Q(x, +z)", "2 P(A) ^ (Q(x, A) v Q(x, B))", [(("A", "B"), 1.0)]),
        ("P(f(x)) ^ Q(x, +y)", "2 Q(a, A) ^ P(f(a))", [(("A",), 2.0)]),
        ("P(f(x)) ^ Q(x, +y)", "2 Q(a, A) ^ P(f(b))", []),
        ("P(g(x, +y))", "2 P(g(a, A))", [(("A",), 2.0)]),
        ("P(g(x, +y))", "2 P(g(A, a))", []),
        ("P(f(+x)) ^ Q(f(x), y)", "2 P(f(A)) ^ Q(f(A), b)", [(("A",), 2.0)]),
        ("P(f(+x)) ^ Q(f(x), y)", "2 P(f(A)) ^ Q(f(B), b)", []),
        ("P(f(+x)) ^ Q(f(+y), z)", "2 P(f(A)) ^ Q(f(A), b)", [(("A", "A"), 2.0)]),
        ("P(x) => P(x + 1)", "2 P(a) => P(succ(a))", [((), 2.0)]),
        ("P(x) => P(x + 1)", "2 P(a) => P(a + 2)", []),
        ("P(x) => P(x + 1)", "2 P(a) => P(a - 1)", []),
        ("P(x) => P(x + 1)", "2 P(a + 1) => P(a)", []),
        ("P(x) ^ x < 3", "2 a < 3 ^ P(a)", [((), 2.0)]),
        ("P(x) ^ x < 3", "2 P(a) ^ a < 4", []),
        ("P(x) ^ x < 3", "2 P(a) ^ a <= 3", []),
        ("P(x) ^ x + 1 = y ^ P(y)", "2 P(a) ^ P(b) ^ b = a + 1", [((), 2.0)]),
        ("P(x) => x + 1 = 3", "2 P(a) => 3 = a + 1", [((), 2.0)]),
        ("EXIST y F(x, y)", "2 EXIST b F(a, b)", [((), 2.0)]),
        ("EXIST y F(x, y)", "2 EXIST b F(b, a)", []),
        ("EXIST y F(x, y)", "2 F(a, b)", []),
        ("EXIST y F(x, y)", "2 EXIST a, b F(a, b)", []),
        (
            "EXIST y (F(x, y) ^ P(y)) v EXIST z (F(z, x) ^ P(z))",
            "2 EXIST y (F(a, y) ^ P(y)) v EXIST z (F(z, a) ^ P(z))",
            [((), 2.0)],
        ),
        (
            "(EXIST y (F(x, y) ^ P(+z))) v (EXIST y (F(y, x) ^ P(x)))",
            "2 (EXIST y (F(y, a) ^ P(a))) v (EXIST y (F(a, y) ^ P(A)))",
            [(("A",), 2.0)],
        ),
        (
            "(EXIST y (F(x, y) ^ P(+z))) v (EXIST y (F(y, x) ^ P(x)))",
            "2 (EXIST y (F(a, y) ^ P(a))) v (EXIST y (F(y, a) ^ P(A)))",
            [],
        ),
        ("EXIST y (F(x, y) ^ y != x)", "2 EXIST b (b != a ^ F(a, b))", [((), 2.0)]),
        ("EXIST y (F(x, y) ^ P(f(y)))", "2 EXIST b (P(f(b)) ^ F(a, b))", [((), 2.0)]),
        ("EXIST y (F(x, y) ^ P(f(y)))", "2 EXIST b (P(f(a)) ^ F(a, b))", []),
    ],
)
def test_a_clause_is_known_by_its_meaning(rule, line, expected):
    entries, _ = found(f"{DECLARED}1 {rule}", DECLARED + line)
    assert [(key, weight) for _, key, weight in entries] == expected


def test_constants_of_the_model_choose_among_its_clauses():
    model = DECLARED + "1 P(x) => Q(x, A)\n1 P(x) => Q(x, +y)\n1 P(x) => Q(x, B)"
    lines = [f"{n} P(x) => Q(x, {c})" for n, c in enumerate("ABCDEFGHIJ")]
    entries, unmatched = found(model, DECLARED + "\n".join(lines))
    assert entries[:3] == [
        ("P(x) => Q(x, A)", (), 0.0),
        ("P(x) => Q(x, B)", (), 1.0),
        ("P(x) => Q(x, +y)", ("C",), 2.0),
    ]
    assert len(entries) == 10
    assert unmatched == []


def test_what_the_model_does_not_have_is_reported():
    lines = [f"{n} P(x) => Q(x, {c})" for n, c in enumerate("ABCDEFGHIJ")]
    entries, unmatched = found(
        DECLARED + "1 P(x) => Q(x, A)\nP(A).",
        DECLARED + "\n".join([*lines, "5 P(x)", "7 P(+x)", "P(A).", "P(B)"]),
    )
    assert entries == [("P(x) => Q(x, A)", (), 0.0)]
    assert unmatched == [("P(x) => Q(x, +c1)", 9), ("P(x)", 1), ("P(+x)", 1)]


def test_weights_of_the_same_instance_add_up():
    entries, _ = found(DECLARED + "1 P(+x)", DECLARED + "1 P(A)\n2 P(A)\n3 P(B)")
    assert entries == [("P(+x)", ("A",), 3.0), ("P(+x)", ("B",), 3.0)]


def test_a_clause_without_a_variable_of_its_template_cannot_be_recognised():
    model = clauses(parse(DECLARED + "1 P(+x) ^ (Q(y, A) v Q(y, +z))"))
    lost, kept = model
    assert lost.template == kept.template == ("x", "z")
    entries, unmatched = found(DECLARED + "1 P(+x) ^ (Q(y, A) v Q(y, +z))", DECLARED + "1 P(A)")
    assert entries == []
    assert unmatched == [("P(A)", 1)]


def test_functions_numbers_and_quantifiers_in_the_file():
    text = written(
        [
            (clause_of("Happens(walking(+p), i) ^ i > 2 => InField(i, +f)"), ("Zoe", "Title"), 1),
            (clause_of("!InField(i + 1, +f) v Happens(walking(boss(+p)), i)"), ("A b", "Venue"), 2),
            (clause_of("EXIST j (Next(i, j) ^ InField(j, +f))"), ("Author",), 3),
            (clause_of("!HasPunc(i) v (EXIST j (Next(i, j) ^ Token(+w, j)))"), ("x",), 4),
        ]
    )
    assert text.endswith(
        "1.0 Happens(walking(+Zoe), i) ^ i > 2 => InField(i, Title)\n"
        '2.0 !InField(i + 1, Venue) v Happens(walking(boss(+"A b")), i)\n'
        "3.0 EXIST j (Next(i, j) ^ InField(j, Author))\n"
        '4.0 !HasPunc(i) v (EXIST j (Next(i, j) ^ Token(+"x", j)))\n'
    )


def test_integer_types_are_written_as_ranges():
    program = parse("t = {-1, ..., 3}\nu = {1, 2}\nw = {1, 2, 4}\nv = {01, 02, 03}\nx = {A, B, C}")
    head = written([], program, header="")
    assert head.split("\n")[1:6] == [
        "t = { -1, ..., 3 }",
        "u = { 1, 2 }",
        "w = { 1, 2, 4 }",
        'v = { "01", "02", "03" }',
        "x = { A, B, C }",
    ]
    assert parse(head).types == program.types


# instances of a template --------------------------------------------------------------------------


def test_an_instance_declares_no_constant_and_its_lines_are_one_rule():
    program = parse(
        "P(t)\nQ(t, u)\n1 P(+A) ^ Q(+A, +x1)\n".replace("+x1", '+"x y"')
        + "2 P(+B) ^ Q(+B, +3)\n4 P(C) ^ Q(C, D)\n0.5 Q(x, +E) ^ P(F)"
    )
    assert program.types == {"t": ("C", "F"), "u": ("D",)}
    assert [rule.text for rule in program.rules] == [
        "P(+c1) ^ Q(+c1, +c2)",
        "P(C) ^ Q(C, D)",
        "Q(x, +c1) ^ P(F)",
    ]
    assert program.rules[0].table == ((("A", "x y"), 1.0), (("B", "3"), 2.0))
    assert [rule.weight for rule in program.rules] == [0.0, 4.0, 0.0]


@pytest.mark.parametrize("count", [2, 20])
def test_instances_have_weights_in_place_of_the_template(count):
    """However many lines there are, and wherever they stand; other lines add to the template's weight."""
    lines = [f"{n}.0 F(+N{n}, x) ^ F(x, +N{2 * n})" for n in range(count)]
    text = "\n".join(["F(t, t)", *lines[1:], "0.7 F(+a, x) ^ F(x, +b)", lines[0]])
    program = parse(text + "\n1 F(A, x) ^ F(x, B)\n1 F(+a, x) ^ F(+a, x)")
    template, other, again = program.rules
    assert (template.weight, len(template.table), program.types) == (0.7, count, {"t": ("A", "B")})
    assert dict(template.table)["N1", "N2"] == 1.0
    assert (other.weight, other.table, again.table) == (1.0, None, None)
    assert alchemy_text(program).splitlines()[2:4] == [
        "0.7 F(+a, x) ^ F(x, +b)",
        "1.0 F(+N1, x) ^ F(x, +N2)",
    ]
    assert parse(alchemy_text(program)).types == program.types


def test_a_variable_of_a_template_has_one_constant_in_an_instance():
    program = parse("F(t, t)\n0.7 F(+a, +a)\n1 F(+A, +A)\n2 F(+A, +B)")
    assert [(rule.weight, rule.table) for rule in program.rules] == [
        (0.7, ((("A",), 1.0),)),
        (0.0, ((("A", "B"), 2.0),)),
    ]


@pytest.mark.parametrize("rule", ["P(+A).", "P(+A)", "1 P(+A) ^ P(+x)", "P(+A) :- P(x)."])
def test_an_instance_has_a_weight_and_nothing_else(rule):
    with pytest.raises(
        ModelError, match="`\\+` before a constant means that the line has the weight"
    ):
        parse(f"P(t)\n{rule}")


def test_a_template_with_a_weight_is_no_misfit():
    entries, unmatched = found(DECLARED + "0.7 P(+x)", DECLARED + "0.7 P(+x)\n2 P(+A)\n1 F(+x, y)")
    assert entries == [("P(+x)", ("A",), 2.0)]
    assert unmatched == [("F(+x, y)", 1)]
    assert found(DECLARED + "0.7 P(+x)", DECLARED + "0.7 P(+x)") == ([], [])
