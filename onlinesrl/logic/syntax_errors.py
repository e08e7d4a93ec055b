"""Error messages for texts that are not in the syntax of MLN files."""

from __future__ import annotations

from onlinesrl.logic.parsing import Complaint, Words

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
"""Complaints for all dialects."""

MLN = (
    Complaint("", "#", "`#` begins an include", 'write `#include "other.mln"`'),
    Complaint(
        r"^\s*(?:logx?|exp|sqrt)\(.*",
        "",
        "a weight that is computed is pracmln's",
        "write the number, or read it with --dialect pracmln",
    ),
    Complaint(
        r"\)\s*", r"v(?=[\s(!A-Z])", "`v` needs a blank on both sides", "write `A(x) v B(x)`"
    ),
    Complaint(
        r"^\s*v\s+",
        "",
        "a formula cannot start with `v`",
        "a line may break after a connective, not before it",
    ),
    Complaint(
        "", "<->|->|[&|~]", "this is not a connective here", "the connectives are ! ^ v => <=>"
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

MLN_WORDS: Words = (
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
    ({"_REAL"}, set(), "`real`, which makes a predicate numeric"),
    ({"$END"}, {"_NEWLINE", "COLON"}, "the end of the line"),
)
