"""Worlds in other systems' dialects: their ground networks, what is open, weights from evidence, runs."""

import json
from itertools import product
from math import exp
from typing import get_args

import pytest
from conftest import Job
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import onlinesrl as srl
from onlinesrl.commands.cli import app
from onlinesrl.core.errors import DatabaseError, DataError, ModelError, OnlinesrlError
from onlinesrl.logic.ast import Variable, bound_variables, terms
from onlinesrl.logic.database import parse_db
from onlinesrl.logic.dialect import DIALECTS, dialect_of
from onlinesrl.mln.lang import reader
from onlinesrl.mln.lang.clausal_form import rule_clauses
from onlinesrl.mln.lang.evidence_weights import with_weights
from onlinesrl.mln.lang.weight_file import alchemy_text
from onlinesrl.mln.query import infer as infer_module
from onlinesrl.mln.query import world as inference
from onlinesrl.runs.config.schema import DialectName
from tests.support.answers import answer_lines
from tests.support.paths import SHARED
from tests.support.semantics import World

PEERS = SHARED / "peers" / "mln" / "friends_smokers"


def world(folder, dialect, model, database, query, closed=(), opened=()):
    (folder / "m.mln").write_text(model)
    (folder / "e.db").write_text(database)
    options = inference.WorldOptions(tuple(closed), tuple(opened), dialect_of(dialect))
    return inference.load_world(folder / "m.mln", [folder / "e.db"], query.split(","), options)


def network(grounded):
    """Ground clauses by their literals; None: hard."""
    found = {}
    for line in infer_module.network_lines(grounded):
        weight, _, text = ("", "", line[:-1]) if line.endswith(".") else line.partition(" ")
        key = tuple(sorted(text.split(" v ")))
        found[key] = float(weight) if weight else None
    return found


@pytest.mark.skipif(not PEERS.exists(), reason="the other systems' results are not there")
@pytest.mark.parametrize("people", [10, 50])
def test_a_program_of_tuffy_has_the_exact_answer(people):
    model, database = PEERS / "fs-infer-tuffy.mln", PEERS / f"fs{people}-test.db"
    options = inference.WorldOptions(dialect=dialect_of("tuffy"))
    grounded = inference.load_world(model, [database], ["Smokes", "Cancer"], options)
    _, stats = answer_lines(grounded, "mpe", 0)
    golden = (PEERS / f"fs{people}.map.exact").read_text()
    assert stats["cost"] == pytest.approx(float(golden.split()[2]), abs=1e-6)


# what is open --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dialect", "mark", "given", "opened"),
    [
        ("alchemy", "", "E(A, B)", False),
        ("alchemy", "", "", True),
        ("lomrf", "", "E(A, B)", False),
        ("lomrf", "", "", True),
        ("tuffy", "", "E(A, B)", True),
        ("tuffy", "", "", True),
        ("tuffy", "*", "", False),
        ("rockit", "", "E(A, B)", True),
        ("rockit", "*", "", False),
        ("pracmln", "", "E(A, B)", True),
        ("pracmln", "", "", True),
    ],
)
def test_which_predicates_are_open_is_the_dialects(tmp_path, dialect, mark, given, opened):
    x, y = ("?x", "?y") if dialect == "pracmln" else ("x", "y")
    model = f"{mark}E(t, t)\nQ(t)\n1 !E({x}, {y}) v Q({y})\n"
    options = ["--query", "Q", "--dialect", dialect]
    (tmp_path / "m.mln").write_text(model)
    (tmp_path / "e.db").write_text(f"{given}\nQ(A)\n!Q(B)\n")
    files = ["--model", str(tmp_path / "m.mln"), "--evidence", str(tmp_path / "e.db")]
    found = CliRunner().invoke(app, ["ground", *files, *options])

    assert ("E(B,B)" in found.stdout) == opened
    assumed = dialect in {"alchemy", "lomrf"} and not given
    assert ("no database has an atom of E" in found.stderr) == assumed


def test_what_is_marked_closed_is_not_queried(tmp_path):
    with pytest.raises(
        OnlinesrlError, match=r"P: queried, and marked `\*` \(closed\) in "
    ) as error:
        world(tmp_path, "rockit", "*P(t)\nQ(t)\n1 P(x) v Q(x)\n", "P(A)\n", "P")
    assert error.value.exit_code == 64
    grounded = world(tmp_path, "rockit", "*P(t)\nQ(t)\n1 P(x) v Q(x)\n", "Q(A)\n", "Q", (), ("P",))
    assert not network(grounded)
    grounded = world(tmp_path, "tuffy", "P(t)\nQ(t)\n1 P(x) v Q(x)\n", "P(A)", "Q", ("P",))
    assert not network(grounded)


def test_a_configuration_knows_every_dialect():
    assert get_args(DialectName) == tuple(DIALECTS)


def test_an_unknown_dialect_is_a_mistake(tmp_path):
    (tmp_path / "m.mln").write_text("P(t)\n")
    arguments = ["infer", "--model", str(tmp_path / "m.mln"), "--query", "P", "--dialect", "tufy"]
    found = CliRunner().invoke(app, arguments)
    assert "unknown dialect tufy; known are: alchemy, tuffy, rockit" in str(found.exception)
    assert found.exception.exit_code == 64


# numbers from evidence -----------------------------------------------------------------------------

MATCHING = {
    "rockit": """
        *like(left, right, float_)
        same(left, right)
        c: !like(x, y, c) v same(x, y)
        |y| same(x, y) <= 1
        |x| same(x, y) <= 1
    """,
    "tuffy": """
        *like(left, right, float_ confidence)
        same(left, right!)
        c: like(x, y, c) => same(x, y)
        same(x, z), same(y, z) => x = y.
    """,
}


@pytest.mark.parametrize("dialect", MATCHING)
def test_a_weight_from_evidence_is_one_of_each_ground_clause(tmp_path, dialect):
    database = "like(a, b, 0.9) like(a, c, .8)\nlike(d, b, 0.75) like(d, c, -1)\n"
    grounded = world(tmp_path, dialect, MATCHING[dialect], database, "same")
    answer, stats = answer_lines(grounded, "mpe", 0)

    soft = {key: weight for key, weight in network(grounded).items() if weight is not None}
    assert soft == {
        ('same("a","b")',): 0.9,
        ('same("a","c")',): 0.8,
        ('same("d","b")',): 0.75,
        ('same("d","c")',): -1.0,
    }
    # a with c and d with b have 1.55; a with b alone 0.9: with d and c as well -0.1
    assert [line for line in answer if line.endswith("1")] == ['same("a","c") 1', 'same("d","b") 1']
    assert stats["cost"] == pytest.approx(0.9)


def test_a_number_given_twice_adds_up_and_marginals_follow(tmp_path):
    model = (
        "*like(t, float_)\n*love(t, float_)\nq(t)\nw: like(x, w) => q(x)\nw: love(x, w) => q(x)\n"
    )
    grounded = world(tmp_path, "tuffy", model, "like(a, 0.5)\nlove(a, 0.25)\nlove(b, 0.5)\n", "q")
    found = [float(line.split()[1]) for line in answer_lines(grounded, "exact", 0)[0]]
    assert found == pytest.approx([1 / (1 + exp(-0.75)), 1 / (1 + exp(-0.5))])


LIKE = "*like(t, float_)\nq(t)\nw: like(x, w) => q(x)\n"
AGE = "*age(t, n)\nq(t)\n1 age(x, y), [y > 17] => q(x)\n"


@pytest.mark.parametrize(
    ("model", "database", "said"),
    [
        (LIKE, "like(a, 1)\nlike(a, high)", "high is not a number"),
        (LIKE, "like(a, 1)\nlike(a, nan)", "nan is not a number"),
        (AGE, "age(a, 20)\nage(a, 2.5)", "2.5 is not a whole number"),
        (AGE, "age(a, 20)\nage(a, old)", "old is not a whole number"),
    ],
)
def test_what_is_no_number_is_said(tmp_path, model, database, said):
    with pytest.raises(DatabaseError, match=said) as error:
        world(tmp_path, "tuffy", model, database, "q")
    assert (error.value.line, error.value.exit_code) == (2, 65)
    assert error.value.file == str(tmp_path / "e.db")


def test_conditions_choose_ground_clauses(tmp_path):
    model = "*age(t, n)\nq(t)\n2 age(x, y), [y > 17 && !(y = 20 || y >= 60)] => q(x)\n"
    database = "age(a, 17) age(b, 18) age(c, 20) age(d, 59) age(e, 60)\n"
    assert network(world(tmp_path, "tuffy", model, database, "q")) == {
        ('q("b")',): 2.0,
        ('q("d")',): 2.0,
    }


def test_datalog_derives_what_rules_use(tmp_path):
    model = """
        *wrote(author, paper)
        *coauthor(author, author)
        friend(author, author)
        coauthor(x, y) :- wrote(x, p), wrote(y, p), x != y.
        2 coauthor(x, y) => friend(x, y)
        -1 friend(x, y)
    """
    database = "wrote(ann, p) wrote(bob, p) wrote(cid, q)\n"
    answer, _ = answer_lines(world(tmp_path, "tuffy", model, database, "friend"), "mpe", 0)
    true = [line for line in answer if line.endswith("1")]
    assert true == ['friend("ann","bob") 1', 'friend("bob","ann") 1']


@pytest.mark.parametrize("bound", [1, 2, 3])
def test_at_most_so_many(tmp_path, bound):
    model = f"*on(t, t)\nq(t, t)\n1 q(x, y)\n|y| !on(x, y) v q(x, y) <= {bound}\n"
    database = "".join(f"on(a, {y}) " for y in "bcd") + "\non(b, c)\n"
    answer, _ = answer_lines(world(tmp_path, "rockit", model, database, "q"), "mpe", 0)
    true = {line.split()[0] for line in answer if line.endswith(" 1")}
    assert sum(f'q("a","{y}")' in true for y in "bcd") == min(bound, 3)
    assert sum('q("a",' in each for each in true) == min(bound, 3) + 1, "what is not on, is free"
    assert sum('q("b",' in each for each in true) == 4


def test_at_least_one_where_one_can_be(tmp_path):
    model = "*on(t, t)\nq(t, t)\n-1 q(x, y)\n|y| !on(x, y) v q(x, y) >= 1\n"
    answer, _ = answer_lines(
        world(tmp_path, "rockit", model, "on(a, b) on(a, c) on(b, c)\n", "q"), "mpe", 0
    )
    true = [line.split()[0] for line in answer if line.endswith(" 1")]
    assert len(true) == 2
    assert true[0] in {'q("a","b")', 'q("a","c")'}
    assert true[1] == 'q("b","c")'


def test_at_most_one_constant_of_an_argument(tmp_path):
    """pracmln's `?` and Tuffy's `!` allow none; pracmln's `!` does not."""
    prac = "k = {Red, Blue}\ncolour(t, k%s)\nseen(t)\n-1 colour(?x, ?y)\n3 seen(?x)\n"
    tuffy = "colour(t, k!)\nseen(t)\n-1 colour(x, y)\n3 seen(x)\n-1 colour(x, Red)\n-1 colour(x, Blue)\n"
    for dialect, model, number in (
        ("pracmln", prac % "?", 0),
        ("pracmln", prac % "!", 1),
        ("tuffy", tuffy, 0),
    ):
        grounded = world(tmp_path, dialect, model, "seen(a)\n", "colour")
        answer, _ = answer_lines(grounded, "mpe", 0)
        assert sum(line.endswith(" 1") for line in answer) == number
        assert network(grounded)[('!colour("a",Blue)', '!colour("a",Red)')] is None
    liked = world(tmp_path, "tuffy", tuffy.replace("-1", "1"), "seen(a)\n", "colour")
    assert sum(line.endswith(" 1") for line in answer_lines(liked, "mpe", 0)[0]) == 1


# a formula counts as one ---------------------------------------------------------------------------

PARTS = ["a(?x)", "a(?y)", "a(A)", "b(?x, ?y)", "b(?y, ?x)", "b(?x, A)", "?x = ?y", "?x =/= A"]
ATOMS = [("a", (x,)) for x in "AB"] + [("b", pair) for pair in product("AB", repeat=2)]


def combined(parts, most):
    """Formulas of up to so many parts."""
    return st.recursive(
        parts,
        lambda inner: st.one_of(
            inner.map("!({})".format),
            st.tuples(inner, st.sampled_from(["^", "v", "=>", "<=>"]), inner).map(
                lambda three: "({} {} {})".format(*three)
            ),
        ),
        max_leaves=most,
    )


formulas = combined(st.sampled_from(PARTS), 6)
bodies = combined(st.sampled_from([*PARTS, "a(?z)", "b(?x, ?z)", "b(?z, ?y)", "?z = ?y"]), 4)
existential = bodies.filter(lambda text: "a(?z)" in text).map("(EXIST ?z ({}))".format)


def counts_as_one(formula):
    """The clauses' score differs from the number of true groundings by a constant, over all states."""
    dialect, declared = DIALECTS["pracmln"], "a(t)\nb(t, t)\n"
    formula = f"({formula}) ^ (b(?x, ?y) v !b(?x, ?y))"
    (hard,) = reader.parse(f"{declared}{formula}.\n", dialect=dialect).rules
    rules = reader.parse(f"{declared}1 {formula}\n", dialect=dialect).rules
    bound = set(bound_variables(hard.formula))
    free = sorted({t.name for t in terms(hard.formula) if isinstance(t, Variable)} - bound)
    parts = [(clause, rule.weight) for rule in rules for clause in rule_clauses(rule)]
    gaps = set()
    for state in product([False, True], repeat=len(ATOMS)):
        here = World("AB", [atom for atom, true in zip(ATOMS, state, strict=True) if true], {})
        count = sum(here.holds(hard.formula, binding) for binding in here.bindings(free))
        score = sum(
            weight * clause.sign * value
            for clause, weight in parts
            for _, value in here.clause_values(clause)
        )
        gaps.add(count - score)
    assert len(gaps) == 1, gaps


@given(formulas)
def test_a_formula_of_pracmln_counts_as_one(formula):
    counts_as_one(formula)


@pytest.mark.parametrize(
    "formula",
    [
        "(EXIST ?z (b(?x, ?z) ^ a(?z))) => a(?x)",
        "(EXIST ?z (b(?x, ?z))) v (a(?x) ^ a(?y))",
        "!(EXIST ?z (b(?x, ?z))) ^ a(?y)",
        "EXIST ?z (a(?z) v (a(?x) ^ b(?x, ?y)))",
        "EXIST ?z ((a(?z) => a(B)) <=> !b(?x, ?y))",
        "EXIST ?z ((a(?z) => a(B)) ^ b(?x, ?y))",
        "EXIST ?z (?z = ?z ^ a(?x) v a(?z))",
    ],
)
def test_existentials_in_a_formula_that_counts_as_one(formula):
    counts_as_one(formula)


@given(combined(st.one_of(st.sampled_from(PARTS), existential), 3))
def test_whatever_an_existential_has_counts_as_one_or_is_refused(formula):
    try:
        counts_as_one(formula)
    except ModelError as error:
        assert "no negated EXIST" in str(error)


# random programs -----------------------------------------------------------------------------------

TERMS = ["x", "y", "z", "A", "B"]
ARITY = {"o": 2, "a": 1, "b": 2}
LITERALS = st.tuples(
    st.booleans(), st.sampled_from(sorted(ARITY)), st.tuples(*[st.sampled_from(TERMS)] * 2)
).map(lambda each: (each[0], each[1], each[2][: ARITY[each[1]]]))
CLAUSES = st.tuples(
    st.lists(LITERALS, min_size=1, max_size=3),
    st.none() | st.booleans(),  # an equality of its first two variables, or an inequality
    st.sampled_from(["given", "0.5", "-1.25", "2", "hard"]),
    st.integers(0, 3),  # so many go to the left of Tuffy's =>
)
NAMES = st.sampled_from("ABC")
NUMBERS = ("0.5", "-1.25", "2")
GIVEN = st.tuples(
    st.lists(st.tuples(NAMES, NAMES), max_size=4, unique=True),
    st.lists(st.tuples(NAMES, st.sampled_from(NUMBERS)), max_size=4, unique=True),
    st.lists(st.tuples(NAMES), max_size=1),
)
DECLARED = {
    "alchemy": "o(t, t)\nw(t, float_)\na(t)\nb(t, t)\n",
    "tuffy": "*o(t, t)\n*w(t, float_)\na(t)\nb(t, t)\n",
    "rockit": "*o(t, t)\n*w(t, float_)\na(t)\nb(t, t)\n",
    "pracmln": "o(t, t)\nw(t, float_)\na(t)\nb(t, t)\n",
    "pracmln-standard": "o(t, t)\nw(t, float_)\na(t)\nb(t, t)\n",
    "lomrf": "o(t, t)\nw(t, float_)\na(t)\nb(t, t)\n",
}


def spell_term(term, dialect):
    if term[0].islower():
        return {"pracmln": f"?{term}", "rockit": term.upper()}.get(dialect, term)
    return f'"{term}"' if dialect == "rockit" or not term[0].isalpha() else term


def spell_literal(literal, dialect):
    positive, name, args = literal
    args = [spell_term(each, dialect) for each in args]
    if name == "=":
        unequal = {"tuffy": "<>", "pracmln": "=/=", "pracmln-standard": "=/="}.get(dialect, "!=")
        return f"{args[0]} {'=' if positive else unequal} {args[1]}"
    return f"{'' if positive else '!'}{name}({', '.join(args)})"


def rules_of(clause, dialect):
    """A clause in a dialect; one whose weight is given is one for each number where that is not there."""
    literals, equal, weight, split = clause
    variables = [
        t for t in dict.fromkeys(t for _, _, args in literals for t in args) if t.islower()
    ]
    parts = list(literals)
    if equal is not None and len(variables) > 1:
        parts.append((equal, "=", tuple(variables[:2])))
    if weight != "given":
        return [rule_of(parts, weight, split, dialect)]
    thing = (variables or ["x"])[0]
    if dialect in {"tuffy", "rockit"}:
        return [
            rule_of(
                [(False, "w", (thing, "c")), *parts],
                "c:" if dialect == "tuffy" else "C:",
                split,
                dialect,
            )
        ]
    numbered = ([(False, "w", (thing, number)), *parts] for number in NUMBERS)
    return [rule_of(each, n, split, dialect) for each, n in zip(numbered, NUMBERS, strict=True)]


def rule_of(parts, weight, split, dialect):
    left = parts[:split] if dialect == "tuffy" and len(parts) > split else []
    text = " v ".join(spell_literal(each, dialect) for each in parts[len(left) :])
    if left:
        flipped = ((not sign, name, args) for sign, name, args in left)
        text = f"{', '.join(spell_literal(each, dialect) for each in flipped)} => {text}"
    return f"{text}.\n" if weight == "hard" else f"{weight} {text}\n"


def facts_of(facts, dialect):
    pairs, numbers, asked = facts
    quoted = dialect not in {"tuffy", "rockit"}
    numbers = [(name, f'"{number}"' if quoted else number) for name, number in numbers]
    rows = [("o", *pair) for pair in pairs] + [("w", *row) for row in numbers]
    rows += [("a", *row) for row in asked]
    return "".join(f"{name}({', '.join(args)})\n" for name, *args in rows)


def grounds_to(folder, dialect, model, database):
    """The ground network, or that the hard rules and the evidence leave none."""
    closed = ("o", "w") if dialect not in {"tuffy", "rockit"} else ()
    try:
        found = network(world(folder, dialect, model, database, "a,b", closed))
    except OnlinesrlError as error:
        assert error.exit_code == 65, error
        return None
    return {key: weight if weight is None else round(weight, 9) for key, weight in found.items()}


def means_the_same(folder, dialect, clauses, facts):
    """A program in a dialect grounds as in Alchemy's, and so does what is printed of it."""
    model = DECLARED[dialect] + "".join(r for each in clauses for r in rules_of(each, dialect))
    alchemy = DECLARED["alchemy"] + "".join(
        r for each in clauses for r in rules_of(each, "alchemy")
    )
    database, plain = facts_of(facts, dialect), facts_of(facts, "alchemy")
    expected = grounds_to(folder, "alchemy", alchemy, plain)
    assert grounds_to(folder, dialect, model, database) == expected
    spelling = dialect_of(dialect)
    atoms = parse_db(database, "e.db", spelling)
    program = with_weights(reader.parse(model, dialect=spelling), atoms)
    assert grounds_to(folder, "alchemy", alchemy_text(program), plain) == expected


PROGRAMS = st.tuples(
    st.sampled_from(sorted(DECLARED)), st.lists(CLAUSES, min_size=1, max_size=4), GIVEN
)


@given(PROGRAMS)
def test_a_program_means_what_it_means_in_alchemy(tmp_path_factory, case):
    assert set(DECLARED) == set(DIALECTS)
    means_the_same(tmp_path_factory.mktemp("case"), *case)


# runs ----------------------------------------------------------------------------------------------

SMOKERS = """
    *friends(person, person)
    smokes(person)
    0.1 friends(x, y), smokes(x) => smokes(y)
    0.1 smokes(x)
"""


def lines(number):
    for n in range(number):
        yield json.dumps({
            "id": f"e{n}",
            "evidence": {"friends": [["ann", "bob"]]},
            "truth": {"smokes": [["ann"], ["bob"]] if n % 3 else []},
        }).encode() + b"\n"  # fmt: skip


@pytest.mark.usefixtures("warm")
def test_a_run_learns_a_model_in_another_dialect(tmp_path):
    (tmp_path / "m.mln").write_text(SMOKERS)
    job = Job(tmp_path, list(lines(30)), model="m.mln", dialect="tuffy", query="smokes", metrics={})
    assert job.run() == 0, job.said
    written = reader.load(job.output / "weights.mln")
    texts = [rule.text for rule in written.rules]
    assert "friends(x, y) ^ smokes(x) => smokes(y)" in texts
    assert any(rule.weight not in {None, 0.1} for rule in written.rules)
    shown = CliRunner().invoke(app, ["weights", str(job.output)])
    assert "friends(x, y) ^ smokes(x) => smokes(y)" in shown.stdout
    best = CliRunner().invoke(app, ["evaluate", str(job.output), str(job.config)])
    assert json.loads(best.stdout)["examples"] == 30


@pytest.mark.usefixtures("warm")
def test_a_run_reads_databases_in_the_dialect(tmp_path):
    (tmp_path / "m.mln").write_text(SMOKERS)
    (tmp_path / "w1.db").write_text("friends(ann, bob) smokes(ann)\n!smokes(bob)\n")
    job = Job(
        tmp_path,
        [],
        model="m.mln",
        dialect="tuffy",
        query="smokes",
        metrics={},
        source={"path": "w1.db"},
    )
    assert job.run() == 0, job.said
    (line,) = (job.output / "predictions.jsonl").read_text().splitlines()
    assert json.loads(line)["id"] == "w1"


@pytest.mark.parametrize(
    ("dialect", "rules"),
    [
        ("tuffy", "*like(t, float_)\nq(t)\nw: like(x, w) => q(x)\n"),
        ("pracmln", "q(t)\n#fixweight\n1 q(?x)\n"),
    ],
)
def test_a_run_refuses_weights_that_it_could_not_leave_alone(tmp_path, dialect, rules):
    (tmp_path / "m.mln").write_text(rules)
    job = Job(tmp_path, [], model="m.mln", dialect=dialect, query="q", metrics={})
    assert job.run() == 78
    assert "m.mln:3:1: a learner changes the weights of all soft rules" in job.said


FIXED = "p = {K, L}\nA(p)\nB(p)\n#fixweight\n1.5 A(?x) => B(?x)\n0.5 A(?x)\n"
GIVEN_WEIGHTS = "red(x)\n*like(x, float_)\nw: !like(x, w) v red(x) v red(y)\n0.3 !red(x)\n"


@pytest.mark.parametrize(
    ("dialect", "text", "facts", "query"),
    [
        ("pracmln", FIXED, {"A": ["K"]}, "B"),
        ("rockit", GIVEN_WEIGHTS, {"like": [["K", "1.5"], ["L", "-0.5"]]}, "red"),
        ("tuffy", GIVEN_WEIGHTS, {"like": [["K", 2], ["L", "-0.5"], ["K", "1"]]}, "red"),
    ],
)
def test_weights_that_no_learner_changes_are_those_of_python(tmp_path, dialect, text, facts, query):
    model = srl.Model(text, "mln", dialect)
    database = "".join(
        f"{name}({', '.join(map(str, row if isinstance(row, list) else [row]))})\n"
        for name, rows in facts.items()
        for row in rows
    )
    (tmp_path / "m.mln").write_text(text)
    (tmp_path / "e.db").write_text(database)
    command = [f"--{key}={value}" for key, value in {"dialect": dialect, "query": query}.items()]
    command += [f"--model={tmp_path / 'm.mln'}", f"--evidence={tmp_path / 'e.db'}"]
    command += [f"--closed={name}" for name in facts]
    printed = CliRunner().invoke(app, ["infer", *command, "--method=exact"]).stdout
    expected = dict(line.rsplit(" ", 1) for line in printed.splitlines())
    of_files = srl.infer(
        srl.Model.read(tmp_path / "m.mln", dialect), tmp_path / "e.db", query, closed=[*facts]
    )
    assert dict(of_files) == dict(srl.infer(model, facts, query, closed=[*facts]))
    exact = srl.infer(model, facts, query, method="exact", closed=[*facts])[query]
    assert [*srl.ground(model, facts, query, closed=[*facts])] == [
        *CliRunner().invoke(app, ["ground", *command]).stdout.splitlines()
    ]
    assert len(srl.count(model, facts)) >= 2
    world = srl.World(model, query)
    for name, rows in facts.items():
        for row in rows:
            world.apply(add={name: [row]})
    world.save(tmp_path / "world")
    for one in (world, srl.World.load(tmp_path / "world")):
        marginals = one.marginals()[query]
        assert marginals.keys() == exact.keys()
        for atom, value in exact.items():
            assert marginals[atom] == pytest.approx(value, abs=1e-6)
            assert float(expected[f"{query}({atom[0]})"]) == pytest.approx(value, abs=1e-5)
    for learner in (srl.OnlineLearner, lambda m, q: srl.learn(m, facts, q)):
        with pytest.raises(ModelError, match="a learner changes the weights of all soft rules"):
            learner(model, query)


def test_a_weight_from_evidence_is_a_number():
    model, facts = srl.Model(GIVEN_WEIGHTS, "mln", "rockit"), {"like": [["K", "much"]]}
    world = srl.World(model, "red")
    for ask in (lambda: world.apply(add=facts), lambda: srl.infer(model, facts, "red")):
        with pytest.raises(OnlinesrlError, match="much is not a number, and the type float_ has"):
            ask()
    world.apply(add={"like": [["K", "1"]]})
    with pytest.raises(DataError, match="some weights of this model come from evidence"):
        world.set_weights("red(x)\nlike(x, float_)\n0.3 !red(x)\n")
    world.set_model(srl.Model(GIVEN_WEIGHTS.replace("0.3", "2"), "mln", "rockit"))
    expected = 1 / (1 + exp(2 - 1))
    assert world.marginals()["red"]["K",] == pytest.approx(expected)


@pytest.mark.parametrize("dialect", ["pracmln", "pracmln-standard"])
def test_a_database_of_pracmln_lists_the_constants_of_types(tmp_path, dialect):
    model, database = tmp_path / "m.mln", tmp_path / "e.db"
    model.write_text(
        "knows(person, person)\nkind(person)\nkinds = {A}\nis(person, kinds)\n1 !kind(Ann)\n"
    )
    database.write_text('// people\nperson = {Ann, "Bob Lee",\n  Eve}\n!kind(Ann)\n\nkinds = {}\n')
    read = srl.Model.read(model, dialect)
    found = srl.infer(read, database, ["kind", "is"])
    assert {*found["kind"]} == {("Bob Lee",), ("Eve",)}
    assert {*found["is"]} == {(name, "A") for name in ("Ann", "Bob Lee", "Eve")}
    assert srl.count(read, database)[0].groundings == 1
    database.write_text("!kind(Ann)\nplace = {Rome}\n")
    with pytest.raises(
        DatabaseError, match="no predicate of the model has the type place"
    ) as caught:
        srl.infer(read, database, "kind")
    assert caught.value.line == 2
    database.write_text("kind(Ann)\nperson = {Eve}\n")
    with pytest.raises(DataError, match="list the constants of types in the model"):
        srl.learn(read, database, "kind")
    for other in ("alchemy", "tuffy"):
        (tmp_path / "o.mln").write_text("kind(person)\n1 kind(x)\n")
        with pytest.raises(DatabaseError, match="not the constants of a type"):
            srl.infer(srl.Model.read(tmp_path / "o.mln", other), database, "kind")


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_a_type_is_spelled_in_one_way(dialect):
    with pytest.raises(ModelError, match="the type Person is spelled person before") as caught:
        reader.parse("kind(person)\nknows(person, Person)\n", dialect=DIALECTS[dialect])
    assert caught.value.line == 2
