"""Errors: how they read, and the exit codes they mean."""

import pytest

from onlinesrl.core import errors


def test_a_located_error_shows_the_line_and_a_caret():
    error = errors.ModelError(
        "the predicate Foo is not declared",
        file="model.mln",
        line=4,
        column=16,
        source_line="1 Smokes(x) => Foo(x)",
        hint="declare it first",
    )
    assert str(error) == (
        "model.mln:4:16: the predicate Foo is not declared\n"
        "  1 Smokes(x) => Foo(x)\n"
        "                 ^\n"
        "  hint: declare it first"
    )


def test_the_caret_stays_under_its_character_behind_tabs():
    error = errors.LocatedError("no", file="f", line=1, column=4, source_line="\ta\tb")
    assert str(error).splitlines()[2] == "  \t \t^"


def test_what_a_terminal_would_obey_is_shown_as_escapes():
    error = errors.LocatedError(
        "no \x1b[31m\n!",
        file="f\udcff\x07",
        line=1,
        column=8,
        source_line="\ta\x1b[2J'\u202e\x9b'",
        hint="say \x1b]0;x\x07",
    )
    assert str(error).split("\n") == [
        r"f\udcff\x07:1:8: no \x1b[31m\n!",
        "  \ta\\x1b[2J'\\u202e\\x9b'",
        "  \t         ^",
        r"  hint: say \x1b]0;x\x07",
    ]
    assert errors.legible("a\tb\n\x1b") == "a\tb\n\\x1b"


def test_a_configuration_error_lists_all_problems():
    problems = [
        errors.LocatedError(f"problem {n}", file="run.yaml", line=n, column=1) for n in (1, 2)
    ]
    error = errors.ConfigError(problems)
    assert str(error) == "run.yaml:1:1: problem 1\nrun.yaml:2:1: problem 2"
    assert error.problems == tuple(problems)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.OnlinesrlError, 70),
        (errors.ModelError, 78),
        (errors.ConfigError, 78),
        (errors.DatabaseError, 65),
        (errors.DataError, 65),
        (errors.ExampleError, 65),
        (errors.UnavailableError, 69),
        (errors.StorageError, 74),
        (errors.LockedError, 75),
    ],
)
def test_exit_codes(error, code):
    assert error.exit_code == code
    assert issubclass(error, errors.OnlinesrlError)
