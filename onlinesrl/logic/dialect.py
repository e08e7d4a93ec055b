"""The dialects of Markov logic: how other systems' files differ from Alchemy's.

A dialect is the grammar mln.lark with definitions overridden by its own files, and conventions for
names, open predicates and databases. All are parsed to the same abstract syntax.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from onlinesrl.core.errors import UsageError
from onlinesrl.logic.parsing import Complaint, Word
from onlinesrl.logic.syntax_errors import COMMON, MLN
from onlinesrl.logic.text import STRING

_LETTER = r"[A-Za-z0-9_'\-]"
_WHOLE = rf"-?[0-9]+(?!{_LETTER}|\.)"
_DECIMAL = rf"[+\-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+\-]?[0-9]+)?(?!{_LETTER}|\.)"

FLOAT = "float_"
"""The type of numbers in Tuffy and RockIt; only arguments of this type can be weights."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """One system's dialect.

    ``grammar``: the files that override mln.lark. ``variables``: the names of variables, with a lower-case
    first letter, any, or marked ``?``. ``opened``: the unqueried predicates that are open, if no database
    mentions them, if not marked ``*``, or all. ``functional``: the meaning of ``!`` after an argument.
    ``whole``: a soft formula is one feature; otherwise, its clauses share the weight. ``constant``: the
    regular expression of constants in databases. ``decimals``: formulas may have decimal constants.
    ``soft``: databases may have probabilities, `0.7 P(A)` or `P(A) 0.7`. ``unknown``: databases may have
    unknown atoms, `?P(A)`. ``typed_databases``: databases may list the constants of types, `t = {A, B}`.
    """

    name: str
    title: str
    grammar: tuple[str, ...] = ()
    variables: Literal["lower", "all", "marked"] = "lower"
    opened: Literal["unmentioned", "unmarked", "all"] = "unmentioned"
    functional: Literal["exactly one", "at most one"] = "exactly one"
    whole: bool = False
    constant: str = rf"(?:{STRING}|[A-Z]{_LETTER}*|{_WHOLE})"
    decimals: bool = False
    soft: tuple[Literal["before", "after"], ...] = ("before", "after")
    unknown: bool = True
    typed_databases: bool = False
    complaints: tuple[Complaint, ...] = MLN

    def variable(self, word: Word) -> str | None:
        """Return the name of the variable that a word denotes; None for a constant.

        The mapping to names of Alchemy's variables is injective.
        """
        if self.variables == "marked":
            return _lower(word[1:]) if word.kind == "VARIABLE" else None
        if word.kind != "NAME":
            return None
        if self.variables == "all":
            return _lower(word)
        return None if word[0].isupper() else str(word)


def _lower(name: str) -> str:
    return str(name) if name[0].islower() else f"_{name}"


_SYMBOL = rf"(?:{STRING}|[A-Za-z]{_LETTER}*|{_DECIMAL})"
_LATER = "is not supported"

ALCHEMY = Dialect("alchemy", "Alchemy")

TUFFY = Dialect(
    "tuffy",
    "Tuffy",
    grammar=("tuffy",),
    opened="unmarked",
    functional="at most one",
    constant=_SYMBOL,
    decimals=True,
    soft=("before",),
    unknown=False,
    complaints=(
        Complaint(
            r"\)\s*",
            r"\^",
            "Tuffy has no `^`",
            "write `A(x), B(x) => C(x)`, or a rule for each part",
        ),
        Complaint("", "<=>", "Tuffy has no `<=>`", "write a rule for each direction"),
        Complaint(r"\*", r"\*", f"a predicate marked `**` {_LATER}", "mark it `*`"),
        Complaint("", r"@|\[\+?Label", f"this mark of a rule {_LATER}", "leave it out"),
        Complaint(r"\)\s*", ":=", f"a scoping rule {_LATER}", "list the atoms in the database"),
        Complaint("", "#", "Tuffy has no `#` directives", ""),
        Complaint("", r"\{", "Tuffy does not list the constants of a type", "it finds them"),
        *COMMON,
    ),
)

ROCKIT = Dialect(
    "rockit",
    "RockIt",
    grammar=("rockit",),
    variables="all",
    opened="unmarked",
    constant=_SYMBOL,
    decimals=True,
    soft=(),
    unknown=False,
    complaints=(
        Complaint(
            "",
            r"\^|<=>|=>|,\s*!?[A-Za-z]\w*\(",
            "RockIt's formulas are clauses, joined by `v` only",
            "write `!A(x) v B(x)` for `A(x) => B(x)`",
        ),
        Complaint(
            "",
            r"(?i:exist|forall)\b",
            "RockIt has no quantifiers",
            "write `|y| A(x, y) >= 1` for `EXIST y A(x, y)`",
        ),
        Complaint("", r"\[", f"an expression in square brackets {_LATER}", ""),
        Complaint(r"\)\s*", ":=", f"a numerical predicate {_LATER}", "list its atoms"),
        Complaint("", "#", "RockIt has no `#` directives", ""),
        Complaint("", r"\{", "RockIt does not list the constants of a type", "it finds them"),
        *COMMON,
    ),
)

PRACMLN = Dialect(
    "pracmln",
    "pracmln (PRACGrammar)",
    grammar=("pracmln",),
    variables="marked",
    opened="all",
    whole=True,
    constant=rf"(?:{STRING}|[\w.:;$~/'\-]+)",
    decimals=True,
    soft=("before",),
    unknown=False,
    typed_databases=True,
    complaints=(
        Complaint(
            "",
            r"[^\n]*\bdomSize\(",
            f"a weight by `domSize` {_LATER}",
            "write the number that it is",
        ),
        Complaint(
            r"^\s*[PR]\s*\([^=\n]*",
            r"[^=\n]*=\s*[0-9.]",
            f"a constraint on a probability {_LATER}",
            "leave it out, and give the formula a weight",
        ),
        Complaint("", r"\.\.\.", "pracmln has no integer ranges", "list the constants"),
        Complaint("", "!=", "`!=` is not a connective here", "pracmln writes `=/=`"),
        Complaint("", r"\|", f"a group of predicates {_LATER}", "write a formula for each"),
        Complaint("", "#(?!include)", f"this directive {_LATER}", "there is #fixweight"),
        Complaint("", r"\$", f"a weight with a name {_LATER}", "write the number"),
        Complaint(
            r"(?i:exist)\s.*", "", "an EXIST has its formula in parentheses", "EXIST ?y (P(?y))"
        ),
        Complaint(
            r"(?i:forall)\s*",
            "",
            "pracmln has no FORALL",
            "free variables are universally quantified",
        ),
        *COMMON,
    ),
)

PRACMLN_STANDARD = Dialect(
    "pracmln-standard",
    "pracmln (StandardGrammar)",
    grammar=("pracmln", "pracmln_standard"),
    opened="all",
    whole=True,
    soft=("before",),
    unknown=False,
    typed_databases=True,
    complaints=PRACMLN.complaints,
)

LOMRF = Dialect(
    "lomrf",
    "LoMRF",
    grammar=("lomrf",),
    soft=("after",),
    complaints=(
        Complaint(
            r"[\w']\s*",
            "!",
            "LoMRF has no functional arguments",
            "write a hard rule: !P(x, y) v !P(x, z) v y = z.",
        ),
        Complaint("", r"\*", "LoMRF has no sign expansion", "write a rule for each sign"),
        *MLN,
    ),
)

DIALECTS = {
    dialect.name: dialect for dialect in (ALCHEMY, TUFFY, ROCKIT, PRACMLN, PRACMLN_STANDARD, LOMRF)
}


def dialect_of(name: str) -> Dialect:
    """Return a dialect by name. Raises UsageError."""
    if name not in DIALECTS:
        raise UsageError(f"unknown dialect {name}; known are: {', '.join(DIALECTS)}")
    return DIALECTS[name]
