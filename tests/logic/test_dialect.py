"""Other systems' dialects: what each construct means in Alchemy's syntax, and what is refused."""

from pathlib import Path

import pytest

from onlinesrl.core.errors import UsageError
from onlinesrl.logic.database import parse_db
from onlinesrl.logic.dialect import DIALECTS, dialect_of
from onlinesrl.mln.lang.reader import parse
from onlinesrl.mln.lang.statements import evaluate
from onlinesrl.mln.lang.weight_file import alchemy_text
from tests.support.golden import check, refusal

GOLDEN = Path(__file__).parent / "golden"

DECLARED = {
    "tuffy": "*obs(t, t)\n*conf(t, float_)\n*num(t, whole)\na(t)\nb(t, t)\n",
    "rockit": "*obs(t, t)\n*conf(t, float_)\na(t)\nb(t, t)\n",
    "pracmln": "obs(t, t)\na(t)\nb(t, t)\n",
    "pracmln-standard": "obs(t, t)\na(t)\nb(t, t)\n",
    "lomrf": "Obs(t, t)\nA(t)\nB(t, t)\nNum(t, whole)\nt next(t)\n",
}


def rules(dialect, text):
    """The rules of a text in Alchemy's syntax."""
    program = parse(DECLARED[dialect] + text, dialect=dialect_of(dialect))
    return [
        f"{rule.text}." if rule.hard else f"{rule.weight:g} {rule.text}" for rule in program.rules
    ]


MEANING = [
    # Tuffy: clauses with commas, conditions in brackets, existentials, numbers and strings
    ("tuffy", "1.5 obs(x, y), !a(x) => a(y) v b(x, y)", ["1.5 obs(x, y) ^ !a(x) => a(y) v b(x, y)"]),
    ("tuffy", "a(x) => b(x, y).", ["a(x) => b(x, y)."]),
    ("tuffy", "-.5 !a(x) v a(Anna)", ["-0.5 !a(x) v a(Anna)"]),
    ("tuffy", '2 a("Anna Lee") v a(3) v a(-2.5)', ['2 a("Anna Lee") v a(3) v a("-2.5")']),
    ("tuffy", "1 a(x), x != y => b(x, y)", ["1 a(x) ^ x != y => b(x, y)"]),
    ("tuffy", "1 a(x) v x <> A", ["1 a(x) v x != A"]),
    (
        "tuffy",
        "1 num(x, n), [n > 2 && !(n = 5 || n >= 7 + 1)] => a(x)",
        ["1 num(x, n) ^ (n > 2 ^ !(n = 5 v n >= 7 + 1)) => a(x)"],
    ),
    ("tuffy", "1 a(x) v [x = A OR x = B]", ["1 a(x) v (x = A v x = B)"]),
    ("tuffy", "2 EXIST y obs(x, y), a(x) => b(x, y)", ["2 EXIST y (obs(x, y) ^ a(x) => b(x, y))"]),
    ("tuffy", "exist y b(x, y).", ["EXIST y (b(x, y))."]),
    (
        "tuffy",
        "*far(t, t)\nfar(x, y) :- obs(x, z), obs(z, y), x != y.",
        [
            "obs(x, z) ^ obs(z, y) ^ x != y => far(x, y).",
            "far(x, y) => (EXIST z (obs(x, z) ^ obs(z, y) ^ x != y)).",
        ],
    ),
    ("tuffy", "c(t thing, label!)", ["!c(x1, x21) v !c(x1, x22) v x21 = x22."]),
    # RockIt: clauses, all names are variables, cardinalities
    ("rockit", "05 !a(X) v b(X, y)", ["5 !a(_X) v b(_X, y)"]),
    ("rockit", '+1. a("Anna") v x != y v b(x, y)', ["1 a(Anna) v x != y v b(x, y)"]),
    ("rockit", '+1.5 a("Anna") v !obs(x, "b c")', ['1.5 a(Anna) v !obs(x, "b c")']),
    ("rockit", "!a(x) v !b(x, y).", ["!a(x) v !b(x, y)."]),
    ("rockit", "|y| b(x, y) <= 1", ["!b(x, y1) v !b(x, y2) v y1 = y2."]),
    (
        "rockit",
        "|y| !obs(x, y) v b(x, y) <= 1",
        ["!obs(x, y1) v !b(x, y1) v !obs(x, y2) v !b(x, y2) v y1 = y2."],
    ),
    (
        "rockit",
        "|x, y| b(x, y) <= 2",
        [
            "!b(x1, y1) v !b(x2, y2) v !b(x3, y3) v x1 = x2 ^ y1 = y2 v x1 = x3 ^ y1 = y3"
            " v x2 = x3 ^ y2 = y3."
        ],
    ),
    ("rockit", "|y| b(x, y) >= 1", ["EXIST y1 (b(x, y1))."]),
    (
        "rockit",
        "|y| !obs(x, y) v b(x, y) >= 1",
        ["!obs(x, y) v (EXIST y1 (obs(x, y1) ^ b(x, y1)))."],
    ),
    # pracmln: variables are marked, weights calculated, a formula counts as one
    ("pracmln", "log(4)/2 a(?x) => b(?x, anna)", ['0.693147 a(x) => b(x, "anna")']),
    ("pracmln", "logx(0)  a(Anna) v a(10am)", ['-100 a(Anna) v a("10am")']),
    ("pracmln", "-.5 a(?X) v ?X =/= ?x v b(?X, ?x)", ["-0.5 a(_X) v _X != x v b(_X, x)"]),
    ("pracmln", "1e-1 a(?x) v ?x = Anna", ["0.1 a(x) v x = Anna"]),
    ("pracmln", "1 a(?x) ^ b(?x, ?y)", ["-1 !a(x) v !b(x, y)"]),
    ("pracmln", "3 a(?x) <=> b(?x, ?y)", ["3 !a(x) v b(x, y)", "3 a(x) v !b(x, y)"]),
    (
        "pracmln",
        "3 a(?x) ^ a(?y) v b(?x, ?y)",
        ["3 !a(x) v a(y) v b(x, y)", "3 a(x) v b(x, y)"],
    ),
    ("pracmln", "2 (EXIST ?y (b(?x, ?y))) v a(?x)", ["2 a(x) v (EXIST y (b(x, y)))"]),
    (
        "pracmln",
        "2 (EXIST ?y (b(?x, ?y))) => a(?x)",
        ["-2 !a(x)", "-2 a(x) v (EXIST y (b(x, y)))"],
    ),
    ("pracmln", "EXIST ?y (b(?x, ?y)) ^ a(?x).", ["(EXIST y (b(x, y))) ^ a(x)."]),
    ("pracmln", "1 *a(?x) v b(?x, +?y)", ["1 a(x) v b(x, +y)", "1 !a(x) v b(x, +y)"]),
    ("pracmln", "#fixweight\n1 a(?x)", ["1 a(x)"]),
    ("pracmln", "k = {low, High}\nc(t, k?)", ["!c(x1, x21) v !c(x1, x22) v x21 = x22."]),
    # its other grammar: `v` before `^`
    ("pracmln-standard", "a(x) ^ a(y) v b(x, y).", ["a(x) ^ (a(y) v b(x, y))."]),
    ("pracmln-standard", "a(x) v a(y) ^ b(x, y).", ["(a(x) v a(y)) ^ b(x, y)."]),
    ("pracmln-standard", "1 a(Anna) v x =/= Bob v a(x)", ["1 a(Anna) v x != Bob v a(x)"]),
    # LoMRF: `=>` and `<=>` bind alike, `v` may touch parentheses, completion, steps
    (
        "lomrf",
        "A(x) => A(y) <=> B(x, y) => A(x).",
        ["(A(x) => A(y) <=> B(x, y)) => A(x)."],
    ),
    ("lomrf", "2 A(x)vB(x, y) ^ A(y)", ["2 A(x) v B(x, y) ^ A(y)"]),
    ("lomrf", "1 Num(x, n++) v Num(x, n--) v n =< 3", ["1 Num(x, n + 1) v Num(x, n - 1) v n <= 3"]),
    ("lomrf", "1 A(next(x)) v Exist y B(x, y)", ["1 A(next(x)) v (EXIST y (B(x, y)))"]),
    (
        "lomrf",
        "2 A(x) :- B(x, y) ^ !A(y)",
        ["2 B(x, y) ^ !A(y) => A(x)", "A(x) => (EXIST y (B(x, y) ^ !A(y)))."],
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("dialect", "text", "meaning"),
    MEANING,
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_construct_means(dialect, text, meaning):
    assert rules(dialect, text) == meaning


@pytest.mark.parametrize("dialect", ["tuffy", "rockit"])
def test_a_weight_may_be_a_variable(dialect):
    text = {"tuffy": "w: conf(x, w) => a(x)", "rockit": "w: !conf(x, w) v a(x)"}[dialect]
    program = parse(DECLARED[dialect] + text, dialect=dialect_of(dialect))
    (rule,) = program.rules

    assert (rule.weight_variable, rule.weight, rule.hard) == ("w", None, False)
    assert rule.text == text.partition(": ")[2]
    assert program.closed == {"obs", "conf"} | ({"num"} if dialect == "tuffy" else set())
    with pytest.raises(ValueError, match="known with evidence only"):
        alchemy_text(program)


def test_marks_are_kept():
    program = parse("a(t)\n#fixweights\n1 a(?x)\n2 a(?x)\n", dialect=DIALECTS["pracmln"])
    assert [rule.fixed for rule in program.rules] == [True, False]
    program = parse("*c(t)\n*d(t)\n*e(t)\nd(x) :- c(x).\n", dialect=DIALECTS["tuffy"])
    assert program.closed == {"c", "e"}, "what a datalog rule derives is no closed world"
    program = parse("k = {A}\nc(t, k!)\n", dialect=DIALECTS["pracmln"])
    assert program.predicates["c"].exactly_one == (1,)


def test_what_is_not_understood_is_refused_with_its_place():
    def read(given):
        dialect, _, text = given.partition(": ")
        return refusal(lambda: parse(DECLARED.get(dialect, "") + text, dialect=dialect_of(dialect)))

    check(GOLDEN / "dialects.txt", read)


def test_what_a_database_does_not_have():
    def read(given):
        dialect, _, text = given.partition(": ")
        return refusal(lambda: parse_db(text, "e.db", dialect_of(dialect)))

    check(GOLDEN / "databases_of_dialects.txt", read)


DATABASES = [
    ("tuffy", "a(anna) b(Anna, 2.5)\n!a(bob)", [("a", "anna"), ("b", "Anna", "2.5"), ("a", "bob")]),
    ("rockit", 'c("x y", b1, -0.5)\n', [("c", "x y", "b1", "-0.5")]),
    ("pracmln", "a(10am)\n!b(some-thing, x.y)", [("a", "10am"), ("b", "some-thing", "x.y")]),
    ("lomrf", "F1 = f(A)\nA(B)", [("f", "A", "F1"), ("A", "B")]),
]  # fmt: skip


@pytest.mark.parametrize(("dialect", "text", "atoms"), DATABASES)
def test_constants_of_databases(dialect, text, atoms):
    found = parse_db(text, "e.db", dialect_of(dialect))
    assert [(atom.predicate, *atom.arguments) for atom in found] == atoms


@pytest.mark.parametrize(
    ("dialect", "text", "values"),
    [
        ("tuffy", "0.7 a(x)\n0.3 !a(y)\n1 a(z)\n!a(w)", [0.7, 0.7, True, False]),
        ("pracmln", "0.7 a(x)\n0.25 !a(y)\n0 a(z)", [0.7, 0.75, False]),
        ("lomrf", "A(X) 0.7\nA(Y) 1.0\n?A(Z)", [0.7, True, None]),
    ],
)
def test_values_of_atoms(dialect, text, values):
    found = parse_db(text, "e.db", dialect_of(dialect))
    assert [atom.value for atom in found] == pytest.approx(values)


def test_weights_are_calculated():
    assert evaluate("log(4)/2") == pytest.approx(0.6931471805599453)
    assert evaluate("-(1+2)*3e-1") == pytest.approx(-0.9)
    assert (evaluate("logx(0)"), evaluate("sqrt(4)-exp(0)")) == (-100.0, 1.0)
    for text in ("log(0)", "1/0", "2**9", "exp(9999)", "f(2)", "1+", "(" * 190, "1+" * 150 + "1"):
        assert evaluate(text) is None, text


def test_an_unknown_dialect():
    with pytest.raises(UsageError, match="unknown dialect prolog; known are: alchemy, tuffy,"):
        dialect_of("prolog")
