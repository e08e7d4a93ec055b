"""Integer types, includes, sign expansion, definite clauses."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinesrl.core.errors import ModelError
from onlinesrl.logic.ast import Position, Variable, terms
from onlinesrl.logic.text import show
from onlinesrl.mln.lang.reader import load, parse
from tests.support.semantics import World


@pytest.mark.parametrize(
    "enumeration", ["t = {-1,...,3}", "t={ -1 ... 3 }", "t = {\n-1\n, ...,\n3\n}"]
)
def test_integer_types(enumeration):
    assert parse(enumeration).types == {"t": ("-1", "0", "1", "2", "3")}


def test_an_integer_type_of_one_constant_and_of_many():
    assert parse("t = {7, ..., 7}").types == {"t": ("7",)}
    types = parse("t = {0, ..., 99999}\nP(t)\n1 P(5)\n1 P(100000)\n1 P(-1)").types
    assert types["t"] == (*map(str, range(100_001)), "-1")


# includes


def files(folder, **contents):
    for name, text in contents.items():
        path = folder / f"{name.replace('__', '/')}.mln"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return folder / "main.mln"


def test_an_included_file_is_read_in_its_place(tmp_path):
    main = files(
        tmp_path,
        main='t = {A}\n#include "parts/types.mln" // here\n1 P(D) ^ Q(x)\nt = {E}',
        parts__types='P(t)\n# include "more.mln"\nt = {C}\n2 P(x)',
        parts__more="Q(t)\nt = {B}\n3 Q(x)",
    )
    program = load(main)
    assert program.file == str(main)
    assert program.types == {"t": ("A", "B", "C", "D", "E")}
    assert list(program.predicates) == ["P", "Q"]
    assert [(rule.weight, rule.text) for rule in program.rules] == [
        (3.0, "Q(x)"),
        (2.0, "P(x)"),
        (1.0, "P(D) ^ Q(x)"),
    ]


def test_the_text_of_a_program_is_whole(tmp_path):
    main = files(
        tmp_path,
        main='t = {A}\r\n/* x\n */ #include "parts/b.mln" // here\n1 P(D)\n',
        parts__b='P(t) // a\n#include "c.mln"',
        parts__c="2 P(x)\n",
    )
    program = load(main)
    assert program.text == ("t = {A}\n/* x\n */ \nP(t) // a\n\n2 P(x)\n\n\n // here\n1 P(D)\n")
    again = parse(program.text, str(main))
    assert (again.types, again.predicates) == (program.types, program.predicates)
    assert [rule.formula for rule in again.rules] == [rule.formula for rule in program.rules]
    assert parse("P(t) // declared").text == "P(t) // declared"


def test_families_in_included_files(tmp_path):
    lines = "\n".join(f"{n} P(A{n})" for n in range(9))
    main = files(tmp_path, main='P(t)\n#include "weights.mln"\n1 P(Last)', weights=lines)
    program = load(main)
    assert program.types["t"] == (*(f"A{n}" for n in range(9)), "Last")
    assert [rule.text for rule in program.rules] == ["P(+c1)", "P(Last)"]


def error(main):
    with pytest.raises(ModelError) as caught:
        load(main)
    return caught.value


def test_errors_name_the_included_file(tmp_path):
    main = files(tmp_path, main='#include "a.mln"\n1 Q(x)', a="P(t)\n1 P(x, y)")
    assert str(error(main)).startswith(f"{tmp_path / 'a.mln'}:2:3: P takes 1 argument, not 2\n")
    files(tmp_path, a="P(t)\n1 P(x")
    assert str(error(main)).startswith(f"{tmp_path / 'a.mln'}:2:6: expected `)`")
    files(tmp_path, a="P(t)")
    assert str(error(main)).startswith(f"{main}:2:3: the predicate Q is not declared")
    files(tmp_path, main='#include "a.mln"\nP(t)')
    assert "the predicate P is already declared on line 1 of " in str(error(main))
    assert "a.mln" in str(error(main))


def test_a_file_cannot_include_itself(tmp_path):
    main = files(tmp_path, main='P(t)\n#include "a.mln"', a='\n#include "./main.mln"')
    found = error(main)
    assert (found.file, found.line, found.column) == (str(tmp_path / "a.mln"), 2, 10)
    assert found.message == "this file includes itself: main.mln includes a.mln includes main.mln"
    files(tmp_path, main='#include "main.mln"')
    assert error(main).message == "this file includes itself: main.mln includes main.mln"


# sign expansion


DECLARED = "P(t)\nQ(t)\nR(t, t)\nRain\n"


def rules(text):
    return [(rule.weight, rule.hard, rule.text) for rule in parse(DECLARED + text).rules]


def test_a_star_gives_a_rule_for_each_sign():
    assert rules("1.5 *P(x)  ^ Q(x)") == [(1.5, False, "P(x) ^ Q(x)"), (1.5, False, "!P(x) ^ Q(x)")]
    assert rules("*Rain v *Q(A).") == [
        (None, True, "Rain v Q(A)"),
        (None, True, "Rain v !Q(A)"),
        (None, True, "!Rain v Q(A)"),
        (None, True, "!Rain v !Q(A)"),
    ]
    assert rules("*P(x)") == [(None, False, "P(x)"), (None, False, "!P(x)")]
    assert rules("2 !*P(x) ^ x * 2 = 4") == [
        (2.0, False, "!P(x) ^ x * 2 = 4"),
        (2.0, False, "!!P(x) ^ x * 2 = 4"),
    ]


# definite clauses


def test_definite_clauses_are_implications_and_their_completion():
    found = parse(DECLARED + "2 P(x) :- Q(x) ^ !Rain\nQ(A) :- Rain.\n1 P(y) :- R(y, z) ^ Q(z)")
    assert [(rule.weight, rule.hard, rule.text) for rule in found.rules] == [
        (2.0, False, "Q(x) ^ !Rain => P(x)"),
        (None, True, "Rain => Q(A)"),
        (1.0, False, "R(y, z) ^ Q(z) => P(y)"),
        (None, True, "P(x) => Q(x) ^ !Rain v (EXIST z (R(x, z) ^ Q(z)))"),
        (None, True, "Q(x1) => x1 = A ^ Rain"),
    ]
    assert found.rules[3].position == Position(5, 1)
    assert dict(found.rules[3].types) == {"x": "t", "z": "t"}
    reread = parse(DECLARED + "".join(f"{rule.text}.\n" for rule in found.rules))
    assert [rule.formula for rule in reread.rules] == [rule.formula for rule in found.rules]


@pytest.mark.parametrize(
    ("clauses", "completion"),
    [
        ("R(x, x) :- P(x).", "R(x, x1) => x1 = x ^ P(x)"),
        ("R(A, y) :- P(y).", "R(x1, y) => x1 = A ^ P(y)"),
        ("R(y, x) :- P(x).\nR(x, y) :- Q(x).", "R(y, x) => P(x) v Q(y)"),
        ("R(x, f(y)) :- P(y).", "R(x, x1) => (EXIST y (x1 = f(y) ^ P(y)))"),
        (
            "P(x) :- R(x, y).\nP(z) :- R(y, z).",
            "P(x) => (EXIST y (R(x, y))) v (EXIST y1 (R(y1, x)))",
        ),
        (
            "P(x) :- EXIST y R(x, y).\nP(y) :- Q(y) ^ (EXIST x R(x, y)).",
            "P(x) => (EXIST y (R(x, y))) v Q(x) ^ (EXIST x1 (R(x1, x)))",
        ),
        (
            "P(x1) :- Q(A).\nP(A) :- Q(x1) ^ Rain.",
            "P(x1) => Q(A) v (EXIST x11 (x1 = A ^ Q(x11) ^ Rain))",
        ),
    ],
)
def test_completions(clauses, completion):
    assert parse(f"{DECLARED}t f(t)\n{clauses}").rules[-1].text == completion


HEADS = ["P(x)", "P(y)", "P(A)", "P(f(x))", "R(x, y)", "R(x, x)", "R(A, f(y))", "R(y, x)"]
BODIES = ["Q(x)", "S(x, y)", "S(y, x) ^ !Q(y)", "Q(f(y)) ^ Q(x) ^ x = y", "Q(B) v S(x, z)"]
definite = st.lists(
    st.tuples(st.sampled_from(HEADS), st.sampled_from(BODIES)), min_size=1, max_size=3
)


@given(definite, st.randoms(use_true_random=False))
def test_a_completion_makes_true_exactly_what_the_clauses_give(chosen, random):
    text = "".join(f"{head} :- {body}.\n" for head, body in chosen)
    program = parse(f"t = {{A, B}}\n{DECLARED}S(t, t)\nt f(t)\n{text}")
    atoms = [(name, (a,)) for name in "PQ" for a in "AB"]
    atoms += [(name, pair) for name in "RS" for pair in product("AB", repeat=2)]
    for _ in range(20):
        functions = {"f": {("A",): random.choice("AB"), ("B",): random.choice("AB")}}
        world = World(("A", "B"), [each for each in atoms if random.random() < 0.5], functions)
        heads = {rule.formula.right.predicate for rule in program.rules[: len(chosen)]}
        given_ = {
            (
                rule.formula.right.predicate,
                tuple(world.value(t, b) for t in rule.formula.right.terms),
            )
            for rule in program.rules[: len(chosen)]
            for b in world.bindings(free(rule.formula))
            if world.holds(rule.formula.left, b)
        }
        completed = {atom for atom in world.true if atom[0] in heads} == given_
        assert completed == all(
            world.holds(rule.formula, b)
            for rule in program.rules
            for b in world.bindings(free(rule.formula))
        )


def free(formula):
    names = [leaf.name for leaf in terms(formula) if isinstance(leaf, Variable)]
    return list(dict.fromkeys(names))


def test_completions_are_whole_formulas():
    for head in HEADS:
        for body in BODIES:
            program = parse(f"t = {{A, B}}\n{DECLARED}S(t, t)\nt f(t)\n{head} :- {body}.")
            text = show(program.rules[-1].formula)
            again = parse(f"t = {{A, B}}\n{DECLARED}S(t, t)\nt f(t)\n{text}.")
            assert again.rules[0].formula == program.rules[-1].formula


MANY = "\n".join(f"{'1e999' if n == 15 else 2} P(A{n})" for n in range(20))


@pytest.mark.parametrize("rules", ["1e999 P(x)", "2 P(x)\n-2e308 P(A)", MANY])
def test_a_weight_that_no_number_can_hold_is_refused(rules):
    with pytest.raises(ModelError, match=r"a weight is at most 1\.8e308"):
        parse(f"P(t)\n{rules}\n")
