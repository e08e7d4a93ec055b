"""Reading .db files."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinesrl.errors import DatabaseError
from onlinesrl.lang.database import GroundAtom, parse_db
from onlinesrl.lang.text import quote

DATA = Path(__file__).parents[3] / "shared" / "data"


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


atoms = st.tuples(
    st.sampled_from(["Smokes", "advisedBy", "Rain"]), st.lists(st.text(), max_size=3), st.booleans()
)


@settings(derandomize=True, deadline=None)
@given(st.lists(atoms), st.sampled_from([" ", "\n", "\r\n", "\t// and\n"]))
def test_every_constant_reads_back(written, between):
    text = between.join(
        f"{'' if value else '!'}{name}({', '.join(map(quote, arguments))})"
        for name, arguments, value in written
    )
    read = parse_db(text)
    assert [(name, list(arguments), value) for name, arguments, value, _ in read] == written


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        ("Rain\n0.7 Smokes(Bob)", 2, 1, "soft evidence and numeric values are not supported yet"),
        ("Smokes(Bob) 0.7", 1, 13, "soft evidence and numeric values are not supported yet"),
        ("Temp(A) -3.5", 1, 9, "soft evidence and numeric values are not supported yet"),
        ("?Smokes(Bob)", 1, 1, "unknown atoms (`?`) are not supported yet"),
        ("F1 = father(Anna)", 1, 4, "function values are not supported yet"),
        ("3 = age(Anna)", 1, 1, "function values are not supported yet"),
        ("Smokes(anna)", 1, 8, 'write it with a capital or in quotes: "anna"'),
        ("Friends(Anna, bob)", 1, 15, 'write it with a capital or in quotes: "bob"'),
        ("Smokes(Anna Lee)", 1, 13, "expected `,` or `)` after this constant"),
        ("Smokes(Anna", 1, 12, "expected `,` or `)` after this constant"),
        ("Smokes(2.5)", 1, 8, "expected a constant"),
        ("Friends(Anna,)", 1, 14, "expected a constant"),
        ('Smokes("Anna)', 1, 8, "expected a constant"),
        ("Smokes(Anna).", 1, 13, "expected a ground atom"),
        ("\n\n  %", 3, 3, "expected a ground atom"),
        ("/* Smokes(Anna)", 1, 1, "this comment is never closed"),
    ],
)
def test_errors_say_what_and_where(text, line, column, words):
    with pytest.raises(DatabaseError) as caught:
        parse_db(text, "world.db")
    assert words in str(caught.value)
    assert str(caught.value).startswith(f"world.db:{line}:{column}: ")


@pytest.mark.skipif(not DATA.is_dir(), reason="no ../shared/data beside the project")
@pytest.mark.parametrize("path", ["citeseer/face.db", "uwcse/fold1.db", "yeast/fold1.db"])
def test_real_databases(path):
    text = (DATA / path).read_text()
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("//")]
    read = parse_db(text, path)
    assert [f"{name}({','.join(arguments)})" for name, arguments, _, _ in read] == lines
