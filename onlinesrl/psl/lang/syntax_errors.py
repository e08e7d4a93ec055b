"""Error messages for texts that are not in PSL's syntax."""

from __future__ import annotations

from onlinesrl.logic.parsing import Complaint, Words

COMPLAINTS = (
    Complaint(
        r"\w\s*",
        r"=(?!=)",
        "`=` compares sums of atoms; constants are compared by `==`",
        "write `X == Y`",
    ),
    Complaint(r"\w\s*", r"-", "`-` does not compare constants here", "write `X != Y`"),
    Complaint(r"\w\s*", r"\^", "`^` does not compare constants here", "write `X % Y`"),
    Complaint("", r"\^", "an exponent is ^1 or ^2, and comes last", "write `1.0: P(X) ^2`"),
    Complaint(r"\)\s*", "==|!=|%", "constants are compared, not atoms", "write `P(X) = Q(X)`"),
    Complaint(r"\)\s*=", "=", "constants are compared, not atoms", "write `P(X) = Q(X)`"),
    Complaint("<[=-]", ">", "PSL has no equivalence", "write a rule for each direction"),
    Complaint("=", ">", "`=>` is not a connective of PSL", "write `->` or `>>`"),
    Complaint("-", ">", "an arrow needs a body before it", "write `1.0: P(X) = 1`"),
    Complaint("", r"<(?![<=\-])|>(?![>=])", "there are no strict inequalities", "write <= or >="),
    Complaint(
        r"-\s*[0-9][0-9.eE+\-]*\s*",
        ":",
        "a weight is not negative",
        "negate the formula: the energy to be minimised must be convex",
    ),
    Complaint(r"-\s*", r"[A-Za-z_|(@]", "a minus needs a number here", "write `-1 * P(X)`"),
    Complaint("", r"\.[0-9]", "a number cannot start with a point", "write 0 before the point"),
    Complaint(r"\(\s*", r"\)", "a predicate has at least one argument", ""),
    Complaint(r"\{\s*", r"\+", "a filter names its variable without `+`", "write `{X: P(X)}`"),
    Complaint(
        "", r"\{", "a filter comes after the whole rule", "write `1.0: P(X, +Y) <= 1 ^2 {Y: Q(Y)}`"
    ),
    Complaint(
        r"[\])|]\s*",
        r"\w",
        "a coefficient that is not a plain number needs a `*`",
        "write `@Max[1, |X|] * P(+X)`",
    ),
    Complaint(
        "",
        "[\"']",
        "this quoted constant is not complete",
        r"close the quotes on the same line; the escapes are \" \\ \' \n \t \r",
    ),
)

_REST = {"COMPARISON", "PERIOD", "POWER", "LBRACE", "NUMBER", "COEFFICIENT", "CARDINALITY"}

WORDS: Words = (
    (
        {"NAME", "LPAR", "_NOT"},
        {*_REST, "STRING", "EXTREMUM", "MINUS", "DECLARATION", "$END"},
        "a rule",
    ),
    ({"NAME", "EXTREMUM"}, {"NUMBER", "COEFFICIENT", "CARDINALITY", "LPAR", "MINUS"}, "a sum"),
    ({"NAME", "STRING"}, {"NUMBER", "PLUS"}, "a variable or a constant"),
    ({"NAME"}, set(), "a name"),
    ({"RPAR"}, set(), "`)`"),
    ({"COMMA"}, set(), "`,`"),
    ({"LPAR"}, set(), "`(`"),
    ({"COLON"}, set(), "`:`"),
    ({"_AND"}, {"_OR", "_THEN", "_IF"}, "a connective (&, |, ->, <-)"),
    ({"RELATION"}, {"PLUS", "MINUS", "STAR", "SLASH"}, "a relation (=, <=, >=)"),
    ({"PLUS"}, {"MINUS", "STAR", "SLASH"}, "an operator (+, -, *, /)"),
    ({"STAR"}, {"SLASH"}, "an operator (*, /)"),
    ({"COMPARISON"}, set(), "a comparison (==, !=, %)"),
    ({"RBRACE"}, set(), "`}`"),
    ({"LSQB"}, set(), "`[`"),
    ({"RSQB"}, set(), "`]`"),
    ({"NUMBER"}, set(), "a number"),
    ({"PERIOD"}, {"$END", "POWER", "DECLARATION"}, "the end of the rule"),
)
