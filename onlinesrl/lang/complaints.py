"""What to say about a text that the grammar does not accept."""

from __future__ import annotations

import re
from collections.abc import Set
from typing import NamedTuple

from onlinesrl.lang.text import NAME


class _Complaint(NamedTuple):
    """A message for a place: the line before it ends as `before`, the text goes on as `at`."""

    before: str
    at: str
    message: str
    hint: str


_LATER = "are not supported yet"
_START = r"^\s*"
_FORMULA_COMES = r"(?:^|^\s*-?[0-9.eE+\-]+|[(!^>]|\sv)\s*"
_ONE_NAME = rf"^\s*{NAME}\s+"

_COMPLAINTS = (
    _Complaint("", r"#\s*include", f"included files {_LATER}", "put the file's contents here"),
    _Complaint(
        "",
        r"(?i:exist|forall)\b",
        f"quantifiers {_LATER}",
        "a variable that no quantifier binds holds for all its constants",
    ),
    _Complaint("", ":-", f"definite clauses {_LATER}", "write `body => head`"),
    _Complaint(
        _START,
        rf"\*\s*{NAME}\s*(?:\([^()\n]*\))?[ \t]*(?:\n|$)",
        "`*` before a predicate declaration is Tuffy's mark for a closed world",
        "leave it out: a predicate that is not queried is closed anyway",
    ),
    _Complaint(
        _FORMULA_COMES,
        rf"\*\s*{NAME}",
        f"sign expansions (`*` before a predicate) {_LATER}",
        "write one formula with the atom and one with its negation",
    ),
    _Complaint("", r"\.\.\.", f"integer types {_LATER}", "list the constants one by one"),
    _Complaint(r"\)\s*", "v", "`v` needs a blank on both sides", "write `A(x) v B(x)`"),
    _Complaint(
        r"^\s*v\s+",
        "",
        "a formula cannot start with `v`",
        "a line may break after a connective, not before it",
    ),
    _Complaint(
        _START,
        r"=>|<=>|\^",
        "a formula cannot start with a connective",
        "a line may break after a connective, not before it",
    ),
    _Complaint(_ONE_NAME, rf"{NAME}\s*\(", f"function declarations {_LATER}", ""),
    _Complaint(
        rf"[(,=]\s*{NAME}\s*", r"\(", f"functions {_LATER}", "use a predicate for their graph"
    ),
    _Complaint(
        "",
        "<->|->|[&|~]",
        "this is not a connective here",
        "the connectives are ! ^ v => <=>",
    ),
    _Complaint("", r"[<>]", f"comparisons other than = and != {_LATER}", ""),
    _Complaint(r"=", "/=", "`=/=` is not a connective here", "write `!=`"),
    _Complaint(r"[\w')]\s*", r"[-+*/%]", f"arithmetic and hybrid formulas {_LATER}", ""),
    _Complaint(
        r"[\w']\s*",
        r"\?",
        f"arguments marked `?` {_LATER}",
        "state `at most one` as a hard rule: !P(x, y) v !P(x, z) v y = z.",
    ),
    _Complaint(
        r"\)\s*", ",", "a comma does not join formulas here", "write `^` for and, `v` for or"
    ),
    _Complaint("", r"[\[\]]", f"formulas in square brackets {_LATER}", ""),
    _Complaint("", r"[@$]", "`@` and `$` are reserved characters", "put the constant in quotes"),
    _Complaint("", r"\.[0-9]", "a number cannot start with a point", "write 0 before the point"),
    _Complaint(
        "",
        '"',
        "this quoted constant is not complete",
        r"close the quotes on the same line; the escapes are \" \\ \' \n \t \r",
    ),
    _Complaint("", r"[^\x00-\x7f]", "this character needs quotes", 'write "..." around constants'),
)

_WORDS: tuple[tuple[set[str], set[str], str], ...] = (
    ({"BANG", "LPAR"}, {"NAME", "NUMBER", "STRING", "PLUS"}, "a formula"),
    ({"NAME", "PLUS"}, {"NUMBER", "STRING"}, "a variable or a constant"),
    ({"NAME", "STRING"}, {"NUMBER"}, "a constant"),
    ({"NAME"}, set(), "a variable"),
    ({"LPAR"}, set(), "`(`"),
    ({"RPAR"}, set(), "`)`"),
    ({"LBRACE"}, set(), "`{`"),
    ({"RBRACE"}, set(), "`}`"),
    ({"COMMA"}, set(), "`,`"),
    ({"EQUAL"}, {"__ANON_0"}, "`=`"),
    ({"_AND"}, {"_OR", "_IMPLIES", "_IFF"}, "a connective (^, v, =>, <=>)"),
    ({"PERIOD"}, set(), "a final period"),
    ({"$END"}, {"_NEWLINE"}, "the end of the line"),
)


def complaint(code: str, offset: int, accepted: Set[str]) -> tuple[str, str | None]:
    """Return the message and the hint for the first place that does not parse.

    ``accepted`` are the terminals of the grammar that could stand at ``offset``.
    """
    before = code[code.rfind("\n", 0, offset) + 1 : offset]
    for each in _COMPLAINTS:
        if re.search(f"(?:{each.before})$", before) and re.compile(each.at).match(code, offset):
            return each.message, each.hint or None
    return f"expected {_alternatives(accepted)}, not {_found(code, offset)}", None


def _alternatives(accepted: Set[str]) -> str:
    words, left = [], set(accepted)
    for needed, implied, word in _WORDS:
        if needed <= left:
            words.append(word)
            left -= needed | implied
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def _found(code: str, offset: int) -> str:
    if not code[offset:].strip():
        return "the end of the file"
    token = re.compile(rf"{NAME}|[0-9.]+|<=>|=>|!=|\n|.").match(code, offset)
    assert token is not None
    return "the end of the line" if token[0] == "\n" else f"`{token[0]}`"
