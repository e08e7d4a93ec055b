"""Reading PSL's rules: its syntax, and errors that people understand."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinesrl.core.errors import ModelError, StorageError
from onlinesrl.logic.ast import (
    And,
    Atom,
    Compare,
    Constant,
    Equal,
    Implies,
    Not,
    Or,
    Position,
    Variable,
)
from onlinesrl.psl.lang.ast import (
    ArithmeticRule,
    Cardinality,
    Filter,
    LogicalRule,
    Number,
    Operation,
    PslProgram,
    Summand,
)
from onlinesrl.psl.lang.reader import load, parse
from onlinesrl.psl.lang.text import show_program, show_rule
from tests.support.golden import check, refusal

X, Y, Z = (Variable(name) for name in "XYZ")
START = Position(1, 1)


def rule(text, **options):
    (found,) = parse(text, **options).rules
    return found


def shown(text):
    return [show_rule(each) for each in parse(text).rules]


TOUR = r"""// Who knows whom.
20: Lived(P1, L) & Lived(P2, L) & (P1 != P2) -> Knows(P1, P2) ^2   # one rule
5.0: Lived(P1, L1) && Lived(P2, L2) && P1 != P2 && (L1 != L2) >>
     !Knows(P1, P2) ^2
Knows(A, B) | ~Friend(A, B) <- Met(A, B) & A % B .
/* Symmetry, // as a
   constraint */
Knows(P1, P2) = Knows(P2, P1) .
1e-2: Likes('Anna // "Lee"', "it's", 42) -> Happy(1)
0.5: !Knows(P1, P2)
Knows(P1, +P2) <= 2 * |P2| / 3 . {P2: Met(P1, P2) || P1 == P2}
"""


def test_a_tour_of_the_syntax():
    assert shown(TOUR) == [
        "20: Lived(P1, L) & Lived(P2, L) & P1 != P2 -> Knows(P1, P2) ^2",
        "5: Lived(P1, L1) & Lived(P2, L2) & P1 != P2 & L1 != L2 -> !Knows(P1, P2) ^2",
        "Met(A, B) & A % B -> Knows(A, B) | !Friend(A, B) .",
        "Knows(P1, P2) = Knows(P2, P1) .",
        r"""0.01: Likes('Anna // "Lee"', 'it\'s', 42) -> Happy(1)""",
        "0.5: !Knows(P1, P2)",
        "Knows(P1, +P2) <= ((2 * |P2|) / 3) . {P2: Met(P1, P2) | P1 == P2}",
    ]


def test_a_logical_rule():
    assert rule("2: P(X) & X % 'a' -> Q(X,\n 3) ^2") == LogicalRule(
        Implies(
            And((Atom("P", (X,)), Compare("%", X, Constant("a")))), Atom("Q", (X, Constant("3")))
        ),
        2.0,
        2,
        START,
        "",
    )


def test_an_arithmetic_rule():
    found = rule("@Max[1, |Y|] * P(X, +Y) - Q(X) / 2 >= 1 - 3 Q(X) . {Y: !R(Y)}")
    assert found == ArithmeticRule(
        (
            Summand(
                Operation("@Max", Number(1.0), Cardinality("Y")),
                Atom("P", (X, Variable("Y", plus=True))),
            ),
            Summand(Number(-0.5), Atom("Q", (X,))),
        ),
        ">=",
        (Summand(Number(-3.0), Atom("Q", (X,))), Summand(Number(1.0), None)),
        (Filter("Y", Not(Atom("R", (Y,)))),),
        None,
        1,
        START,
        "",
    )


def test_a_rule_keeps_its_text_and_place():
    found = parse("\n\n  1.50: P(X)\n  -> Q(X)  // so\n").rules[0]
    assert found.text == "1.50: P(X) -> Q(X)"
    assert found.position == Position(3, 3)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("1: P(X) >> Q(X)", "1: P(X) -> Q(X)"),
        ("1: Q(X) << P(X)", "1: P(X) -> Q(X)"),
        ("1: Q(X) <- P(X)", "1: P(X) -> Q(X)"),
        ("1: ~P(X) || ~Q(X)", "1: !P(X) | !Q(X)"),
        ("1: P(X) -> Q(X) ^1", "1: P(X) -> Q(X)"),
        ("1: p(X) -> P(X) | q(X)", "1: p(X) -> p(X) | q(X)"),
        ("1: (P(X) & (Q(X))) -> R(X)", "1: P(X) & Q(X) -> R(X)"),
        ("1: P('007') -> P('7')", "1: P('007') -> P(7)"),
        ("-1 * P(X) <= 1 .", "(-1) * P(X) <= 1 ."),
        ("2 * (P(X) - 3) <= 4 / 2 / 2 .", "2 * P(X) + -6 <= 1 ."),
        ("P(X) * 2 <= 1 + 1 .", "2 * P(X) <= 2 ."),
        ("P(+X) / |X| = 1 .", "(1 / |X|) * P(+X) = 1 ."),
        ("P(X) <= @Min[2, 3] .", "P(X) <= 2 ."),
        ("P(X) = 1.\n2 Q(X) = 1.", "P(X) = 1 .\n2 * Q(X) = 1 ."),
        ("1: P(X) = 1\n2 Q(X) = 1.", "1: P(X) = 1\n2 * Q(X) = 1 ."),
        ("1: P(X) = 1 Q(X) = 1 .", None),
    ],
)
def test_spellings(text, same):
    if same is None:
        with pytest.raises(ModelError):
            parse(text)
    else:
        assert show_program(parse(text)) == f"{same}\n"


def test_errors_point_at_the_place():
    path = Path(__file__).parent / "golden" / "rules.txt"
    check(path, lambda text: refusal(lambda: parse(text, "model.psl")))


def test_an_error_as_people_see_it():
    with pytest.raises(ModelError) as caught:
        parse("1: Knows(A, B) -> Knws(B, A)", "m.psl", declared={"Knows": 2})
    assert str(caught.value) == (
        "m.psl:1:19: the predicate Knws is not declared\n"
        "  1: Knows(A, B) -> Knws(B, A)\n"
        "                    ^\n"
        "  hint: did you mean Knows?"
    )


def test_predicates_are_declared_or_found():
    program = parse("1: A(X) & similar(X, Y) & B(Y) -> C(X, Y)", functions=["Similar"])
    assert dict(program.predicates) == {"A": 1, "Similar": 2, "B": 1, "C": 2}
    assert program.functions == {"Similar"}
    program = parse("1: a(X) -> B(X)", declared={"A": 1, "B": 1})
    assert show_program(program) == "1: A(X) -> B(X)\n"


def test_what_no_rule_uses_is_declared_by_a_line():
    text = "Warns/2\n1: A(X) -> B(X)\n"
    program = parse("1: a(X) -> B(X)  // Warns is left out\na/1 Warns/2")
    assert dict(program.predicates) == {"a": 1, "B": 1, "Warns": 2}
    assert show_program(parse(text)) == text
    assert parse(show_program(program)).predicates == program.predicates


def test_a_function_binds_nothing():
    with pytest.raises(ModelError, match="nothing binds the variable Y"):
        parse("1: A(X) & Similar(X, Y) -> B(X)", functions=["Similar"])
    with pytest.raises(ModelError, match="it lists no atoms to sum over"):
        parse("A(X) + Similar(X, +Y) <= 1 .", functions=["Similar"])


def test_files(tmp_path):
    path = tmp_path / "m.psl"
    path.write_text("\ufeff1: A(X) -> B(X)\r\n")
    assert shown("1: A(X) -> B(X)") == [show_rule(each) for each in load(path).rules]
    assert parse("") == PslProgram("<model>", {}, ())
    with pytest.raises(StorageError, match=r"cannot read .*none\.psl"):
        load(tmp_path / "none.psl")


# What is written reads back.

constants = st.builds(Constant, st.sampled_from(["a", "3", "it's", "//"]) | st.text(max_size=4))
leaves = st.sampled_from([X, Y, Z]) | constants
atoms = st.builds(Atom, st.just("P"), st.tuples(leaves)) | st.builds(
    Atom, st.just("Q"), st.tuples(leaves, leaves)
)
variables = st.sampled_from([X, Y, Z])
compared = st.builds(Equal, variables, leaves) | st.builds(Compare, st.just("%"), leaves, variables)
formulas = st.recursive(
    atoms | compared,
    lambda parts: st.one_of(
        st.builds(Not, parts),
        st.builds(And, st.lists(parts, min_size=2, max_size=3).map(tuple)),
        st.builds(Or, st.lists(parts, min_size=2, max_size=3).map(tuple)),
        st.builds(Implies, parts, parts),
    ),
    max_leaves=6,
)
BINDING = And((Atom("R", (X, Y, Z)), Atom("P", (X,)), Atom("Q", (X, Y))))
numbers = st.floats(-1e6, 1e6).map(Number)
weights = st.none() | st.floats(0, 1e50)
coefficients = st.recursive(
    numbers | st.just(Cardinality("V")),
    lambda parts: st.builds(Operation, st.sampled_from(["@Min", "@Max"]), parts, parts),
    max_leaves=3,
).filter(lambda each: isinstance(each, Number | Cardinality) or "V" in str(each))
summands = st.builds(Summand, numbers, atoms)


def logical(formula, weight, power):
    power = 1 if weight is None else power
    return LogicalRule(Implies(BINDING, formula), weight, power, START, "")


def arithmetic(left, op, right, constant, weight, power, condition):
    power = 1 if weight is None else power
    first = Summand(constant, Atom("Q", (X, Variable("V", plus=True))))
    bound = Summand(Number(1.0), BINDING.operands[0])
    sides = (first, bound, *left), (*right, Summand(Number(2.5), None))
    return ArithmeticRule(
        sides[0], op, sides[1], (Filter("V", condition),), weight, power, START, ""
    )


rules = st.builds(logical, formulas, weights, st.sampled_from([1, 2])) | st.builds(
    arithmetic,
    st.lists(summands, max_size=2),
    st.sampled_from(["=", "<=", ">="]),
    st.lists(summands, max_size=2),
    coefficients,
    weights,
    st.sampled_from([1, 2]),
    formulas,
)


@given(st.lists(rules, max_size=3).map(tuple))
def test_what_is_shown_reads_back(some):
    text = "".join(f"{show_rule(each)}\n" for each in some)
    assert parse(text).rules == some


WORDS = "1 : 1.5 A ( X ) , +Y & | -> <- ! = <= * - @Max [ ] |X| { } . ^2 'a' % !="


@given(st.lists(st.sampled_from(WORDS.split()), max_size=14))
def test_no_text_breaks_the_reader(words):
    text = "1: A(X) -> B(X) " + " ".join(words)
    try:
        program = parse(text)
    except ModelError as error:
        assert error.message
        return
    assert parse(show_program(program)).rules == program.rules
