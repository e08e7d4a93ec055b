"""What is too deep, too long or too much of a model is refused with its place, and soon."""

import os
from pathlib import Path

import pytest

from onlinesrl.core.errors import DatabaseError, ModelError, StorageError
from onlinesrl.logic.database import parse_db
from onlinesrl.logic.source import read_text
from onlinesrl.mln.lang import reader as mln_reader
from onlinesrl.mln.lang.weight_file import _enumerated
from onlinesrl.psl.lang import reader as psl_reader

DECLARED = "S(p)\nF(p, p)\np f(p)\n"
DEEP = "this is nested more than 100 deep"
LONG = "names and constants, and a formula at most 2000"
LARGE = "more than 20,000 literals in the conjunctive normal form"
DIGITS = "is not an integer of at most 18 digits without leading zeros"

RULES = {
    "300 implications": (" => ".join(["S(x)"] * 300), DEEP, 1),
    "5,000 negations": ("!" * 5_000 + "S(x)", DEEP, 101),
    "2,000 quantifiers": ("EXIST y " * 2_000 + "F(x, y)", DEEP, 799),
    "2,000 summands": ("S(x) ^ x = " + "+".join(["1"] * 2_000), DEEP, 12),
    "functions of functions": (f"S({'f(' * 500}x{')' * 500})", DEEP, 201),
    "500 parentheses on the right": ("(S(x) => " * 500 + "S(x)" + ")" * 500, DEEP, 893),
    "2,000 atoms": (" v ".join(f"S(x{n})" for n in range(2_000)), LONG, 1),
    "3,000 arguments": (f"Q({', '.join(['p'] * 3_000)})", LONG, 1),
    "40 equivalences": (" <=> ".join(f"S(x{n})" for n in range(40)), LARGE, 1),
    "40 equal equivalences": (" <=> ".join(["S(x)"] * 40), LARGE, 1),
    "24 conjunctions": (" v ".join(f"S(x{n}) ^ S(y{n})" for n in range(24)), LARGE, 1),
    "conjunctions that exist": (
        "EXIST z " + " v ".join(f"S(x{n}) ^ S(y{n})" for n in range(24)) + " v S(z)",
        LARGE,
        1,
    ),
    "a formula as a term": ("F(x, y) < (S(x) <=> S(y))", r"expected an operator \(\+", 17),
    "a name among operators": ("x + S(y) <=> S(x)", "expected a comparison", 10),
    "a number of 5,000 digits": ("S(x) ^ x < " + "9" * 5_000, DIGITS, 12),
    "a sum of such a number": ("S(x) ^ x = 3 + " + "9" * 5_000, DIGITS, 16),
    "a range to such a number": ("p = {0, ..., " + "9" * 5_000 + "}", DIGITS, 14),
    "digits that are not ASCII": ('S(x) ^ x < "\u0663"', DIGITS, 12),
}


@pytest.mark.parametrize("name", RULES)
def test_a_rule_beyond_the_bounds_is_refused_with_its_place(name: str) -> None:
    rule, message, column = RULES[name]
    with pytest.raises(ModelError, match=message) as caught:
        mln_reader.parse(f"{DECLARED}{rule}\n", "model.mln")
    assert (caught.value.line, caught.value.column) == (4, column)
    assert len(str(caught.value)) < 2_000, "a long line is shown in part"


PSL_RULES = {
    "5,000 negations": ("!" * 5_000 + "P(X)", DEEP),
    "maxima of maxima": (f"{'@Max[1, ' * 500}1{']' * 500} * P(X) <= 1", DEEP),
    "500 cardinalities": (f"P(+X) <= {' + '.join(['|X|'] * 500)}", "at most 100 summands"),
    "24 conjunctions": (" | ".join(f"(P(X{n}) & Q(X{n}))" for n in range(24)), LARGE),
    "a filter of 24": (
        f"P(+X) <= 1 {{X: {' & '.join(f'(Q(X) | R{n}(X))' for n in range(24))}}}",
        LARGE,
    ),
    "2,000 summands": (f"{' + '.join(['P(X)'] * 2_000)} <= 1", LONG),
}


@pytest.mark.parametrize("name", PSL_RULES)
def test_a_psl_rule_beyond_the_bounds_is_refused_with_its_place(name: str) -> None:
    rule, message = PSL_RULES[name]
    with pytest.raises(ModelError, match=message) as caught:
        psl_reader.parse(f"1: P(X) -> Q(X)\n1: {rule}", "model.psl")
    assert caught.value.line == 2
    assert len(str(caught.value)) < 2_000


def test_a_sum_of_600_atoms_is_one_rule() -> None:
    (rule,) = psl_reader.parse(f"1: {' + '.join(f'P({n})' for n in range(600))} <= 1").rules
    assert len(rule.left) == 600  # type: ignore[union-attr]


def test_parentheses_alone_are_no_depth() -> None:
    deep = "(" * 2_000 + "S(x)" + ")" * 2_000
    assert (
        mln_reader.parse(f"{DECLARED}1 {deep}").rules[0].formula
        == mln_reader.parse(f"{DECLARED}1 S(x)").rules[0].formula
    )


def test_completions_are_bounded_too() -> None:
    clauses = "\n".join(f"1 S(x) :- F(x, Y{n}) ^ F(Z{n}, x)" for n in range(24))
    with pytest.raises(ModelError, match=f"the head S: there are {LARGE}"):
        mln_reader.parse(f"S(p)\nF(p, p)\n{clauses}")


def test_includes_are_bounded(tmp_path: Path) -> None:
    for n in range(120):
        (tmp_path / f"chain{n}.mln").write_text(f'#include "chain{n + 1}.mln"\n')
    with pytest.raises(ModelError, match="at most 1000 files are included, and 100 by") as caught:
        mln_reader.load(tmp_path / "chain0.mln")
    assert caught.value.file == str(tmp_path / "chain100.mln")
    for n in range(25):
        (tmp_path / f"double{n}.mln").write_text(f'#include "double{n + 1}.mln"\n' * 2)
    (tmp_path / "double25.mln").write_text("\n")
    with pytest.raises(ModelError, match="at most 1000 files are included"):
        mln_reader.load(tmp_path / "double0.mln")


def test_what_cannot_be_included(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    known = {
        "/dev/zero": "it is a device or a pipe, not a file",
        "fifo": "it is a device or a pipe, not a file",
        ".": "Is a directory",
        "no.mln": "No such file or directory",
        "a" * 5_000: "File name too long",
        "circle": "Too many levels of symbolic links",
        "a\0b": "embedded null byte",
    }
    for path, reason in known.items():
        with pytest.raises(ModelError, match=f"cannot read .*{reason}") as caught:
            mln_reader.parse(f'S(p)\n#include "{path}"\n', str(tmp_path / "model.mln"))
        assert (caught.value.line, caught.value.column) == (2, 10)


def test_a_device_without_an_end_is_not_read_to_its_end() -> None:
    with pytest.raises(StorageError, match="/dev/zero: it is not a file, and has more than"):
        read_text("/dev/zero")
    assert read_text("/dev/null") == ""


def test_constants_of_many_digits_are_names() -> None:
    long = "9" * 5_000
    program = mln_reader.parse(f"S(p)\n1 S({long})\n")
    assert program.types == {"p": (long,)}
    assert _enumerated([long, "1", "2"]) == f"{long}, 1, 2"


BLANKS = " " * 100_000


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{BLANKS}(", "expected a ground atom"),
        (f"S({BLANKS}x", "the constant x starts with a lower-case letter"),
        (f"{'?' * 100_000}", "expected a ground atom"),
        (f"S({'A,' * 100_000}", "expected a constant"),
        (f"S(A) /*{'*' * 100_000}", "this comment is never closed"),
    ],
)
def test_long_junk_in_a_database_is_refused_at_once(text: str, said: str) -> None:
    with pytest.raises(DatabaseError, match=said) as caught:
        parse_db(text)
    assert len(str(caught.value)) < 2_000


def test_long_blanks_in_a_rule_are_blanks() -> None:
    texts = (
        f"1 S(x){BLANKS}v S(y)",
        f"1 S(x) v{BLANKS}\n\n{BLANKS}S(y)",
        f"1 S(x){BLANKS}v S(y){BLANKS}",
    )
    for text in texts:
        (rule,) = mln_reader.parse(f"S(p)\nA{BLANKS}\n{text}").rules
        assert rule.text.split() == ["S(x)", "v", "S(y)"]
