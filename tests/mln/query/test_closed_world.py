"""Which predicates are closed and which are open, as said by --closed and --open, and as assumed."""

import pytest
from conftest import long
from typer.testing import CliRunner

from onlinesrl.commands.cli import app
from tests.support.paths import SHARED

SHARED = SHARED / "data"
THEORY = SHARED / "caviar_goldens" / "DN_HI" / "fold_0" / "meet_trained_func.mln"
PAIRS = [SHARED / "caviar" / f"{name}.db" for name in ("02-Walk2.id1_id3", "01-Walk1.id0_id4")]

needs_caviar = pytest.mark.skipif(
    not all(path.exists() for path in (THEORY, *PAIRS)), reason="the CAVIAR data are not there"
)

MODEL = (
    "Ill(t)\nNear(t, t)\nOld(t)\n2 Near(x, y) ^ Ill(x) => Ill(y)\n1 Old(x) => Ill(x)\n0.5 !Ill(x)\n"
)


def call(folder, command, model, database, *options):
    """Run a command on a model and a database; errors come as they are."""
    files = {"m.mln": model, "e.db": database}
    for name, text in files.items():
        (folder / name).write_text(text)
    arguments = ["--model", str(folder / "m.mln"), "--evidence", str(folder / "e.db")]
    found = CliRunner().invoke(app, [command, *arguments, *options])
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        raise found.exception
    said = found.stderr.splitlines(keepends=True)
    said = [line for line in said if not line.startswith("compiling the kernels")]
    return sorted(found.stdout.splitlines()), "".join(said)


def ground(folder, database, *options, model=MODEL):
    return call(folder, "ground", model, database, "--query", "Ill", *options)


def test_a_predicate_without_an_atom_is_open_and_a_warning_says_so(tmp_path):
    lines, said = ground(tmp_path, "Old(A)\nOld(B)\n")

    assert "2 !Ill(A) v Ill(B) v !Near(A,B)" in lines
    assert said == (
        "warning: no database has an atom of Near: all their atoms are open, as in Alchemy; "
        "--closed Near makes them false, --open Near says that it is meant so\n"
    )


def test_the_warning_names_every_such_predicate(tmp_path):
    _, said = ground(tmp_path, "Ill(A)\n")
    assert "no database has an atom of Near, Old: " in said
    assert "--closed Near,Old " in said
    _, said = ground(tmp_path, "Ill(A)\n", "--closed", "Near")
    assert "no database has an atom of Old: " in said


@pytest.mark.parametrize("option", ["--closed", "--open"])
def test_nothing_is_said_where_all_is_said(tmp_path, option):
    assert ground(tmp_path, "Old(A)\nOld(B)\n", option, "Near")[1] == ""
    assert ground(tmp_path, "Old(A)\nNear(A, B)\n")[1] == ""


def test_closed_means_what_one_false_atom_says(tmp_path):
    by_option, _ = ground(tmp_path, "Old(A)\nOld(B)\n", "--closed", "Near")
    by_atom, _ = ground(tmp_path, "Old(A)\nOld(B)\n!Near(A, B)\n")
    assert by_option == by_atom == ["0.5 !Ill(A)", "0.5 !Ill(B)", "1 Ill(A)", "1 Ill(B)"]


def test_open_means_the_same_with_and_without_the_warning(tmp_path):
    database = "Old(A)\nOld(B)\n"
    assert ground(tmp_path, database, "--open", "Near")[0] == ground(tmp_path, database)[0]


def test_an_open_predicate_is_open_beside_the_atoms_that_are_given(tmp_path):
    database = "Old(A)\nOld(B)\nNear(A, B)\n!Near(B, A)\n"
    lines, said = ground(tmp_path, database, "--open", "Near")

    assert said == ""
    assert {line for line in lines if line.startswith("2 ")} == {"2 !Ill(A) v Ill(B)"}
    lines, _ = ground(tmp_path, "Old(A)\nOld(B)\nNear(A, B)\n", "--open", "Near")
    assert "2 Ill(A) v !Ill(B) v !Near(B,A)" in lines
    answer, _ = call(tmp_path, "infer", MODEL, database, "--query", "Ill", "--open", "Near")
    assert [line.split("(")[0] for line in answer] == ["Ill", "Ill"]


def test_a_closed_predicate_keeps_its_unknown_and_soft_atoms(tmp_path):
    database = "Old(A)\nOld(B)\n?Near(A, B)\n0.7 Near(B, A)\n"
    lines, _ = ground(tmp_path, database, "--closed", "Near")
    assert lines == ground(tmp_path, database)[0]
    assert sum("Near(" in line for line in lines) == 3  # two rules and the soft atom's clause


@pytest.mark.parametrize(
    ("options", "said", "code"),
    [
        (["--closed", "Nearby"], "closed predicate Nearby is not declared; declared are: ", 64),
        (["--open", "Nearby"], "open predicate Nearby is not declared; declared are: ", 64),
        (["--closed", "Ill"], "Ill: queried, so it cannot be closed", 64),
        (["--closed", "Near", "--open", "Old,Near"], "Near: said to be open, so", 64),
        (["--closed", "next"], "next is a function", 64),
    ],
)
def test_what_cannot_be_is_an_error(tmp_path, options, said, code):
    model = f"t next(t)\n{MODEL}"
    for command in ("ground", "infer"):
        with pytest.raises(Exception, match=said) as error:
            call(tmp_path, command, model, "Old(A)\n", "--query", "Ill", *options)
        assert error.value.exit_code == code


def test_the_options_are_of_markov_logic(tmp_path):
    (tmp_path / "m.psl").write_text("1: P(A) -> Q(A)\n")
    with pytest.raises(Exception, match=r"not --query, --evidence, --closed, --open"):
        found = CliRunner().invoke(
            app, ["infer", "--model", str(tmp_path / "m.psl"), "--closed", "P"]
        )
        raise found.exception


@needs_caviar
@pytest.mark.parametrize("pair", [PAIRS[0], long(PAIRS[1])], ids=lambda path: path.stem)
def test_caviar_pairs_that_are_never_close(tmp_path, pair):
    """Closed is what a false atom says; open, where no database has an atom, costs far more clauses."""
    left_out = ("HoldsAt", "Move_", "OrientationMove", "Close")
    database = "".join(
        f"{line}\n" for line in pair.read_text().splitlines() if not line.startswith(left_out)
    )
    model, query = THEORY.read_text(), ("--query", "HoldsAt")
    far = f"{database}!Close(ID1, ID1, 25, 0)\n!OrientationMove(ID1, ID1, 0)\n"
    never = ("--closed", "Close,OrientationMove")
    closed = call(tmp_path, "ground", model, database, *query, *never)
    opened, said = call(tmp_path, "ground", model, database, *query)

    assert closed == call(tmp_path, "ground", model, far, *query)
    assert closed[1] == ""
    assert "no database has an atom of OrientationMove, Close: " in said
    assert not any("Close(" in line for line in closed[0])
    assert len(opened) > 1.5 * len(closed[0])
