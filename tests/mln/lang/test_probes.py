"""The one-feature probes of Alchemy's language, and the theories that other systems wrote."""

import pytest

from onlinesrl.core.errors import DatabaseError, ModelError
from onlinesrl.logic.database import parse_db
from onlinesrl.mln.lang.clausal_form import clauses
from onlinesrl.mln.lang.reader import load
from tests.support.paths import SHARED

PROBES = SHARED / "peers" / "mln" / "syntax"

REFUSED = {
    "tuffy_closed_star.mln": (1, 1, "Tuffy's mark for a closed world"),
    "undeclared_pred.mln": (4, 16, "the predicate Foo is not declared"),
    "weight_and_dot.mln": (4, 27, "a weight or a final period, not both"),
    "lower_const.db": (1, 8, 'write it with a capital or in quotes: "anna"'),
}
"""The files that Alchemy's language does not allow: line, column and words of the error."""


def files(*patterns):
    found = sorted(path for pattern in patterns for path in SHARED.glob(pattern))
    skipped = pytest.mark.skip(reason="no ../shared beside the project")
    return found or [pytest.param(None, marks=skipped)]


def read(path):
    if path.suffix == ".mln":
        return load(path)
    return parse_db(path.read_text(), str(path))


@pytest.mark.parametrize(
    "path",
    files("peers/mln/syntax/*.mln", "peers/mln/syntax/*.db"),
    ids=lambda path: path and path.name,
)
def test_a_probe_is_read_or_refused(path):
    if path.name not in REFUSED:
        read(path)
        return
    line, column, words = REFUSED[path.name]
    with pytest.raises((ModelError, DatabaseError)) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}:{line}:{column}: ")
    assert words in str(caught.value)


@pytest.mark.parametrize("path", files("peers/mln/syntax/*.q"), ids=lambda path: path and path.name)
def test_a_probe_names_declared_predicates(path):
    model, world = path.with_suffix(".mln"), path.with_suffix(".db")
    if {model.name, world.name} & REFUSED.keys():
        return
    program = load(model)
    assert set(path.read_text().strip().split(",")) <= program.predicates.keys()
    for atom in read(world):
        assert len(program.predicates[atom.predicate].types) == len(atom.arguments)


def probe(name):
    path = PROBES / f"{name}.mln"
    if not path.exists():
        pytest.skip("no ../shared beside the project")
    program = load(path)
    return program, clauses(program)


def test_what_the_probes_say():
    program, (clause,) = probe("int_arith")
    assert program.types["t"] == ("1", "2", "3", "4", "5")
    assert [(v.name, op, x.name, y.name) for v, op, x, y in clause.computed] == [
        ("y", "+", "x", "1")
    ]
    assert [literal.atom.predicate for literal in clause.literals] == ["P", "Q"]
    _, parts = probe("star_pred")
    assert [[literal.positive for literal in each.literals] for each in parts] == [
        [False, False],
        [True, False],
    ]
    _, (clause,) = probe("exist_mixed")
    assert clause.literals == ()
    assert clause.domains == (("x", "person"),)
    assert [literal.atom.predicate for literal in clause.exists[0].literals] == [
        "Friends",
        "Cancer",
    ]
    _, (clause,) = probe("forall")
    assert [literal.positive for literal in clause.literals] == [False, True]
    program, _ = probe("include")
    assert set(program.predicates) == {"Smokes", "Cancer", "Friends"}
    program, _ = probe("type_range")
    assert program.types["t"] == ("1", "2", "3", "4", "5")
    if PROBES.is_dir():
        values = [each.value for each in read(PROBES / "db_soft.db")]
        assert values == [True, True, 0.7]
        values = [each.value for each in read(PROBES / "db_unknown.db")]
        assert values == [True, True, None]


@pytest.mark.parametrize(
    "path",
    files("data/caviar_goldens/*/*/meet_trained_func.mln"),
    ids=lambda path: path and "/".join(path.parts[-3:-1]),
)
def test_a_trained_theory_of_caviar(path):
    program = load(path)
    assert set(program.functions) == {
        *("exit", "meet", "walking", "active", "enter", "running", "inactive")
    }
    assert program.predicates["meet"].types == ("id", "id", "fluent")
    statistics = next(path.parent.glob("*.statistics")).read_text()
    assert f"mln.formulas.size={sum(rule.weight != 0 for rule in program.rules)}\n" in statistics
    parts = clauses(program)
    assert len(parts) == len(program.rules)
    comments = [
        line.removeprefix("// Source formula: ").rstrip(".")
        for line in path.read_text().split("\n")
        if line.startswith("// Source formula: ")
    ]
    for part, comment in zip(parts, comments, strict=True):
        assert sorted(shape(comment)) == sorted(
            ("" if each.positive else "!")
            + ("ReturnValueOf" if each.atom.predicate in program.functions else "")
            + each.atom.predicate
            for each in part.literals
        )


def shape(source):
    """The literals of LoMRF's flat form of a formula, without arguments and weight."""
    text = source.split(" ", 1)[1] if source[0] in "-0123456789" else source
    return [literal.split("(")[0] for literal in text.split(" v ")]
