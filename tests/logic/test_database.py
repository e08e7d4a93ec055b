"""Reading .db files."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinesrl.core.example import GroundAtom
from onlinesrl.logic.database import parse_db
from onlinesrl.logic.text import quote
from tests.support.golden import check, refusal
from tests.support.paths import SHARED

DATA = SHARED / "data"


def test_true_and_false_atoms_with_their_lines():
    text = (
        "// a world\nSmokes(Anna)\n!Smokes( Bob )\n\n"
        "/* two\nlines */ Friends(Anna, Bob) Rain !Wet()\n"
        'Age("Anna \\"Lee\\" //", 42)\r\nadvisedBy(Level_500,-3)'
    )
    assert parse_db(text) == [
        GroundAtom("Smokes", ("Anna",), True, 2),
        GroundAtom("Smokes", ("Bob",), False, 3),
        GroundAtom("Friends", ("Anna", "Bob"), True, 6),
        GroundAtom("Rain", (), True, 6),
        GroundAtom("Wet", (), False, 6),
        GroundAtom("Age", ('Anna "Lee" //', "42"), True, 7),
        GroundAtom("advisedBy", ("Level_500", "-3"), True, 8),
    ]


def test_an_empty_database_has_no_atoms():
    assert parse_db("") == parse_db(" \n// nothing\n") == []


def test_unknown_atoms_probabilities_and_functions():
    text = (
        "?Smokes(Bob)\n0.7 Smokes(Anna) Rain\n/* c */ 1e-2 Wet\nSmokes(Carl) 0.25 // maybe\n"
        'A(X) ? B(Y) Zoe_1 = child(Zoe, 1) 42 = age("Anna Lee") !Rain\n1.0 A(Y)\nA(Z) 0'
    )
    assert parse_db(text) == [
        GroundAtom("Smokes", ("Bob",), None, 1),
        GroundAtom("Smokes", ("Anna",), 0.7, 2),
        GroundAtom("Rain", (), True, 2),
        GroundAtom("Wet", (), 0.01, 3),
        GroundAtom("Smokes", ("Carl",), 0.25, 4),
        GroundAtom("A", ("X",), True, 5),
        GroundAtom("B", ("Y",), None, 5),
        GroundAtom("child", ("Zoe", "1", "Zoe_1"), True, 5),
        GroundAtom("age", ("Anna Lee", "42"), True, 5),
        GroundAtom("Rain", (), False, 5),
        GroundAtom("A", ("Y",), True, 6),
        GroundAtom("A", ("Z",), False, 7),
    ]
    assert [type(each.value) for each in parse_db("0 A(X)\nA(X) 1")] == [bool, bool]


atoms = st.tuples(
    st.sampled_from(["Smokes", "advisedBy", "Rain"]), st.lists(st.text(), max_size=3), st.booleans()
)


@given(st.lists(atoms), st.sampled_from([" ", "\n", "\r\n", "\t// and\n"]))
def test_every_constant_reads_back(written, between):
    text = between.join(
        f"{'' if value else '!'}{name}({', '.join(map(quote, arguments))})"
        for name, arguments, value in written
    )
    read = parse_db(text)
    assert [(name, list(arguments), value) for name, arguments, value, _ in read] == written


def test_errors_say_what_and_where():
    path = Path(__file__).parent / "golden" / "databases.txt"
    check(path, lambda text: refusal(lambda: parse_db(text, "world.db")))


@pytest.mark.skipif(not DATA.is_dir(), reason="no ../shared/data beside the project")
@pytest.mark.parametrize("path", ["citeseer/face.db", "uwcse/fold1.db", "yeast/fold1.db"])
def test_real_databases(path):
    text = (DATA / path).read_text()
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("//")]
    read = parse_db(text, path)
    assert [f"{name}({','.join(arguments)})" for name, arguments, _, _ in read] == lines


def caviar():
    found = sorted(DATA.glob("caviar*/**/*.db"))
    return found[::8] or [
        pytest.param(None, marks=pytest.mark.skip(reason="no ../shared/data/caviar"))
    ]


@pytest.mark.parametrize("path", caviar(), ids=lambda path: path and path.name)
def test_every_line_of_caviar_is_an_atom_or_a_function(path):
    text = path.read_text()
    lines = [line.strip() for line in re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL).split("\n")]
    lines = [line.replace(" ", "") for line in lines if line and not line.startswith("//")]
    read = parse_db(text, path.name)
    functions = {line.split("=")[1].split("(")[0] for line in lines if "=" in line}
    assert {"walking", "meet"} <= functions

    def written(atom):
        result = f"{atom.arguments[-1]}=" if atom.predicate in functions else ""
        arguments = atom.arguments[:-1] if result else atom.arguments
        return f"{result}{atom.predicate}({','.join(arguments)})"

    assert [written(atom) for atom in read] == lines
