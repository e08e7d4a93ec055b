"""What to say about a text that the grammar does not accept."""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from typing import NamedTuple, TypeAlias

from onlinesrl.lang.text import NAME


class Complaint(NamedTuple):
    """A message for a place: the line before it ends as `before`, the text goes on as `at`."""

    before: str
    at: str
    message: str
    hint: str


Words: TypeAlias = tuple[tuple[set[str], set[str], str], ...]
"""For terminals that must all be accepted, and others that come with them: one word for both."""

_LATER = "are not supported yet"
_START = r"^\s*"

COMMON = (
    Complaint(
        _START,
        r"=>|<=>|\^|v\s",
        "a formula cannot start with a connective",
        "a line may break after a connective, not before it",
    ),
    Complaint(
        "",
        '"',
        "this quoted constant is not complete",
        r"close the quotes on the same line; the escapes are \" \\ \' \n \t \r",
    ),
)
"""What is wrong in every dialect."""

MLN = (
    Complaint("", "#", "`#` begins an include", 'write `#include "other.mln"`'),
    Complaint(r"\)\s*", "v", "`v` needs a blank on both sides", "write `A(x) v B(x)`"),
    Complaint(
        r"^\s*v\s+",
        "",
        "a formula cannot start with `v`",
        "a line may break after a connective, not before it",
    ),
    Complaint(
        "",
        "<->|->|[&|~]",
        "this is not a connective here",
        "the connectives are ! ^ v => <=>",
    ),
    Complaint(r"[=]\s*", "/=", "`=/=` is not a connective here", "write `!=`"),
    Complaint(
        r"[\w']\s*",
        r"\?",
        f"arguments marked `?` {_LATER}",
        "state `at most one` as a hard rule: !P(x, y) v !P(x, z) v y = z.",
    ),
    Complaint(
        r"\)\s*", ",", "a comma does not join formulas here", "write `^` for and, `v` for or"
    ),
    Complaint("", ":-", "a definite clause has one head", "write `head :- body`"),
    Complaint("", r"[\[\]]", f"formulas in square brackets {_LATER}", ""),
    Complaint("", r"[@$]", "`@` and `$` are reserved characters", "put the constant in quotes"),
    Complaint("", r"\.[0-9]", "a number cannot start with a point", "write 0 before the point"),
    Complaint(
        "", r"\?[A-Za-z]", "`?` before a name is pracmln's", "read it with --dialect pracmln"
    ),
    Complaint(
        r"^\s*\w+\s*",
        ":(?![-=])",
        "a weight that evidence gives is Tuffy's and RockIt's",
        "read it with --dialect tuffy or --dialect rockit",
    ),
    *COMMON,
    Complaint("", r"[^\x00-\x7f]", "this character needs quotes", 'write "..." around constants'),
)

_INSIDE = {"EQUAL", "COMPARISON", "PLUS", "MINUS", "STAR", "SLASH", "PERCENT", "STEP", "LPAR"}

_MLN_WORDS: Words = (
    (
        {"QUANTIFIER"},
        {"BANG", "LPAR", "STAR", "NAME", "NUMBER", "STRING", "PLUS", "WEIGHT", "_INCLUDE"},
        "a formula",
    ),
    ({"NAME", "PLUS"}, {"NUMBER", "STRING", "LPAR"}, "a variable or a constant"),
    ({"NAME", "STRING"}, {"NUMBER", "DOTS"}, "a constant"),
    ({"NAME"}, set(), "a name"),
    ({"STRING"}, set(), "a file name in quotes"),
    ({"RPAR"}, {*_INSIDE, "BANG"}, "`)`"),
    ({"LBRACE"}, set(), "`{`"),
    ({"RBRACE"}, set(), "`}`"),
    ({"COMMA"}, set(), "`,`"),
    ({"_AND"}, {*_INSIDE, "_OR", "_IMPLIES", "_IFF", "_IF"}, "a connective (^, v, =>, <=>)"),
    ({"LPAR"}, set(), "`(`"),
    ({"EQUAL"}, {*_INSIDE}, "a comparison (=, !=, <, <=, >, >=)"),
    ({"PERIOD"}, set(), "a final period"),
    ({"_OR"}, {"_IMPLIES", "_IF"}, "a connective"),
    ({"VARIABLE"}, set(), "a variable (?x)"),
    ({"RSQB"}, {"_BOTH", "_EITHER"}, "`]`"),
    ({"BOUND"}, set(), "a bound (<= or >=)"),
    ({"NUMBER"}, set(), "a number"),
    ({"PLUS", "MINUS"}, {"STAR", "SLASH", "PERCENT"}, "an operator (+, -, *, /, %)"),
    ({"$END"}, {"_NEWLINE"}, "the end of the line"),
)


def complaint(
    code: str,
    offset: int,
    accepted: Set[str],
    complaints: Sequence[Complaint] = MLN,
    words: Words = _MLN_WORDS,
) -> tuple[str, str | None]:
    """Return the message and the hint for the first place that does not parse.

    ``accepted`` are the terminals of the grammar that could stand at ``offset``; ``complaints`` and
    ``words`` are the language's, Alchemy's unless given.
    """
    before = code[code.rfind("\n", 0, offset) + 1 : offset]
    for each in complaints:
        if re.search(f"(?:{each.before})$", before) and re.compile(each.at).match(code, offset):
            return each.message, each.hint or None
    return f"expected {_alternatives(accepted, words)}, not {_found(code, offset)}", None


def _alternatives(accepted: Set[str], known: Words) -> str:
    words, left = [], set(accepted)
    for needed, implied, word in known:
        if needed <= left:
            words.append(word)
            left -= needed | implied
    return " or ".join(filter(None, (", ".join(words[:-1]), *words[-1:]))) or "something else"


def _found(code: str, offset: int) -> str:
    if not code[offset:].strip():
        return "the end of the file"
    token = re.compile(rf"{NAME}|[0-9.]+|<=>|=>|!=|\n|.").match(code, offset)
    assert token is not None
    return "the end of the line" if token[0] == "\n" else f"`{token[0]}`"
