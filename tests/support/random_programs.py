"""Random small programs in Alchemy's syntax, and random examples for them."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import Any, NamedTuple

from hypothesis import strategies as st
from msgspec.structs import replace

from onlinesrl.core.errors import OnlinesrlError
from onlinesrl.core.example import Example, ValuedAtom
from onlinesrl.logic.ast import Program
from onlinesrl.mln.lang.reader import parse

KINDS = ("thing", "place", "word")
NUMBERED = {kind: [f"{kind[0]}{n}" for n in range(3)] for kind in KINDS}
"""Three variables for each type."""
BOUND = [f"{kind[0]}{n}" for kind in KINDS for n in (7, 8)]
"""Variables to be quantified."""
KIND = {kind[0]: kind for kind in KINDS}
SPELLED = {
    "thing": ["T1", "1", '"new"'],
    "place": ["P1", "-2", '"03"'],
    "word": ['"a b"', "7", "W2"],
}
"""Constants as rules spell them."""
FOUND = {"thing": ["T1", 1, "1", "new"], "place": ["P1", -2, "-2"], "word": ["a b", 7, "W2"]}
"""Constants as examples spell them."""


PLUS = st.frozensets(
    st.sampled_from([name for names in NUMBERED.values() for name in names]), max_size=3
)
"""Variables with a + before them."""


@dataclass(frozen=True)
class Case:
    """A program, its query predicates, and examples."""

    text: str
    query: tuple[str, ...]
    examples: list[Example]

    @cached_property
    def program(self) -> Program:
        """The text, parsed."""
        return parse(self.text)


# strategies are kept: most would take longer to make than to draw from ------------------------------

BOOLEAN = st.booleans()


def one_of(choices: Iterable[Any]) -> st.SearchStrategy[Any]:
    """One of these."""
    return _one_of(*choices)


def some_of(
    choices: Iterable[str], least: int = 0, most: int | None = None, unique: bool = False
) -> st.SearchStrategy[list[str]]:
    """A list of these."""
    return _lists(_one_of(*choices), most, least, unique)


def rows_of(columns: Iterable[Sequence[Any]]) -> st.SearchStrategy[tuple[Any, ...]]:
    """One of each."""
    return _tuples(*(_one_of(*column) for column in columns))


@cache
def up_to(most: int) -> st.SearchStrategy[int]:
    """A number, 0 or above."""
    return st.integers(0, most)


@lru_cache(None, typed=True)
def _one_of(*choices: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from(choices)


@cache
def _tuples(*parts: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.tuples(*parts)


@cache
def _lists(
    of: st.SearchStrategy[Any], most: int | None, least: int = 0, unique: bool = False
) -> st.SearchStrategy[list[Any]]:
    return st.lists(of, min_size=least, max_size=most, unique=unique)


# programs -----------------------------------------------------------------------------------------


@st.composite
def cases(draw: st.DrawFn, examples: int = 1, weighted: bool = False) -> Case:
    """Programs of one to four rules, and so many examples; ``weighted``: no rule leaves its weight out."""
    evidence = {f"E{n}": draw(_types(1, 2, 0, 3)) for n in range(draw(st.integers(1, 3)))}
    query = {f"Q{n}": draw(_types(1, 2, 0)) for n in range(draw(st.integers(1, 2)))}
    functions = draw(up_to(2)) == 0 and {"f": draw(_types(1, 2)), "g": draw(_types(1))}
    results = {name: draw(one_of(KINDS)) for name in functions or ()}
    types = evidence | query
    marked = {name: draw(one_of([(), (), (0,), (1,), (0, 1)])) for name in query}
    declared = [
        *(_enumeration(draw, kind) for kind in KINDS if draw(BOOLEAN)),
        *(_declaration(name, types[name], marked.get(name, ())) for name in types),
        *(f"{results[name]} {name}({', '.join(functions[name])})" for name in results),
    ]
    language = _Language(evidence, query, functions or {}, results)
    written = [_rule(draw, language, weighted) for _ in range(draw(st.integers(1, 4)))]
    rules = [rule for rule in written if _accepted([*declared, rule])]
    rules += [_at_most_one(draw, name, query[name]) for name in query if draw(BOOLEAN)]
    deciders = [_decider(draw, language) for _ in range(draw(one_of([0, 0, 1, 2])))]
    rules += [rule for rule in deciders if _accepted([*declared, rule])]
    relations = {name: [*functions[name], results[name]] for name in results}
    found = [
        _example(draw, number, types | relations, list(query), [*results])
        for number in range(examples)
    ]
    return Case("\n".join([*declared, *filter(None, rules)]), tuple(query), found)


@st.composite
def with_numbers(draw: st.DrawFn, drawn: st.SearchStrategy[Case]) -> Case:
    """Cases with two numeric predicates, whose atoms multiply some soft rules and one more."""
    case = draw(drawn)
    kinds = {name: draw(_types(1, 2, 0)) for name in ("N0", "N1")}
    lines = [f"{name}({', '.join(of)}): real" for name, of in kinds.items()]
    soft = {rule.position.line for rule in case.program.rules if not rule.hard}
    for place, line in enumerate(case.text.split("\n"), 1):
        names = draw(some_of(["N0", "N1"], most=2)) if place in soft else []
        atoms = [f"{name}({', '.join(draw(_arguments(kinds[name])))})" for name in names]
        weight, formula = re.match(r"(-?[0-9.]+ |)(.*)", line).groups()
        joint = draw(one_of(["=>", "=>", "^"]))
        multiplied = f"{weight}{' ^ '.join(atoms)} {joint} ({formula})"
        lines.append(multiplied if atoms and _accepted([*lines, multiplied]) else line)
    types = {name: case.program.predicates[name].types for name in case.query[:1]}
    factors, (query, of) = draw(one_of([("N0",), ("N0", "N1")])), *types.items()
    atoms = [f"{name}({', '.join(draw(_arguments(kinds[name])))})" for name in factors]
    head = f"{query}({', '.join(draw(_arguments(of)))})" if of else query
    lines.append(f"0.75 {' ^ '.join(atoms)} => {head}")
    examples = [
        replace(x, evidence=x.evidence | {name: _numbers(draw, of) for name, of in kinds.items()})
        for x in case.examples
    ]
    return Case("\n".join(lines), case.query, examples)


def _arguments(kinds: Sequence[str]) -> st.SearchStrategy[tuple[str, ...]]:
    return rows_of([*NUMBERED[k], SPELLED[k][0]] for k in kinds)


NUMBERS = [0.0, -0.0, 1.0, 0.5, -1.25, 2.0, 0.125]


def _numbers(draw: st.DrawFn, kinds: list[str]) -> list[ValuedAtom]:
    """Atoms with numbers, some twice; sums and products of the numbers are exact."""
    rows = rows_of(FOUND[kind] for kind in kinds)
    found = draw(st.lists(st.tuples(rows, st.sampled_from(NUMBERS)), max_size=4))
    value = {tuple(map(str, row)): number for row, number in found}
    return [ValuedAtom([*row], value[tuple(map(str, row))]) for row, _ in found]


def _accepted(lines: list[str]) -> bool:
    """Tell whether rules are read; what the language does not have is refused with a reason."""
    try:
        parse("\n".join(lines))
    except OnlinesrlError as error:
        if not any(reason in str(error) for reason in REFUSED):
            raise
        return False
    return True


REFUSED = (
    "a universal quantifier inside an existential one",
    "has no type: it is in no predicate",
    "which does not occur",
    "it multiplies a whole rule, once",
)


@cache
def _types(*lengths: int) -> st.SearchStrategy[list[str]]:
    return st.sampled_from(lengths).flatmap(
        lambda n: st.lists(st.sampled_from(KINDS), min_size=n, max_size=n)
    )


def _declaration(name: str, kinds: list[str], marked: tuple[int, ...]) -> str:
    arguments = [f"{kind}!" if n in marked else kind for n, kind in enumerate(kinds)]
    return f"{name}({', '.join(arguments)})" if kinds else name


@cache
def _constants(kind: str) -> st.SearchStrategy[list[str]]:
    some = st.lists(st.sampled_from(SPELLED[kind]), min_size=1, unique=True)
    return some | st.permutations(SPELLED[kind])


def _enumeration(draw: st.DrawFn, kind: str) -> str:
    constants = draw(_constants(kind))
    return f"{kind} = {{ {', '.join(constants)} }}"


class _Language(NamedTuple):
    """What rules may be made of: predicates and functions with their types."""

    evidence: dict[str, list[str]]
    query: dict[str, list[str]]
    functions: dict[str, list[str]]
    results: dict[str, str]

    def types(self, name: str) -> list[str]:
        return {**self.evidence, **self.query}[name]


class _Scope:
    """The variables that a rule has used, the quantified ones of where we are, and its + ones."""

    def __init__(self, plus: frozenset[str], bound: tuple[tuple[str, str], ...] = ()):
        self.plus, self.bound = plus, bound
        self.used: dict[str, str] = dict(bound)

    def inner(self, bound: dict[str, str]) -> "_Scope":
        scope = _Scope(self.plus, (*self.bound, *bound.items()))
        scope.used = self.used | bound
        return scope


def _rule(draw: st.DrawFn, language: _Language, weighted: bool) -> str:
    """A clause, a conjunction, an implication or any formula; soft with some + variables, or hard."""
    hard = draw(up_to(3)) == 0
    scope = _Scope(frozenset() if hard else draw(PLUS))
    if draw(up_to(2)) == 0:
        formula = _formula(draw, language, scope, 2)
    else:
        names = draw(some_of(sorted(language.evidence), most=2))
        names += draw(some_of(sorted(language.query), least=1, most=3))
        literals = [_literal(draw, language, scope, name) for name in draw(st.permutations(names))]
        if scope.used and draw(up_to(2)) == 0:
            literals.append(_comparison(draw, language, scope))
        if draw(up_to(2)) == 0:
            literals.append(_existential(draw, language, scope))
        formula = draw(_joined(literals, hard))
    weights = ["0.5 ", "-1 ", "2 "] if weighted else ["0.5 ", "-1 ", ""]
    return f"{formula}." if hard else f"{draw(one_of(weights))}{formula}"


def _formula(draw: st.DrawFn, language: _Language, scope: _Scope, depth: int) -> str:
    """Any formula; quantified variables have numbers from 7 on."""
    kinds = ["^", "v", "=>", "<=>", "!", "EXIST", "EXIST", "FORALL"]
    kind = draw(one_of(kinds)) if depth else "literal"
    if kind == "literal" or (depth < 2 and draw(BOOLEAN)):
        name = draw(one_of(sorted(language.evidence | language.query)))
        return _literal(draw, language, scope, name)
    if kind == "!":
        return f"!({_formula(draw, language, scope, depth - 1)})"
    if kind in {"EXIST", "FORALL"}:
        own = draw(some_of(BOUND, least=1, most=2, unique=True))
        bound = {name: KIND[name[0]] for name in own}
        body = _formula(draw, language, scope.inner(bound), depth - 1)
        names = [name for name in own if re.search(rf"\b{name}\b", body)]
        return f"({kind} {','.join(names)} ({body}))" if names else f"({body})"
    left, right = (_formula(draw, language, scope, depth - 1) for _ in range(2))
    return f"({left} {kind} {right})"


def _existential(draw: st.DrawFn, language: _Language, scope: _Scope) -> str:
    """A conjunction over variables of its own and of the rule, sometimes negated."""
    types = language.evidence | language.query
    names = draw(some_of(sorted(types), least=1, most=3))
    inner = scope.inner({name: KIND[name[0]] for name in BOUND})
    inner.used = {v: kind for v, kind in inner.used.items() if v not in BOUND}
    parts = [_literal(draw, language, inner, name, among=True) for name in names]
    if inner.used and draw(up_to(2)) == 0:
        parts.append(_comparison(draw, language, inner))
    text = " ^ ".join(parts)
    bound = [name for name in BOUND if re.search(rf"\b{name}\b", text)]
    scope.used |= {v: kind for v, kind in inner.used.items() if v not in BOUND}
    quantified = f"(EXIST {','.join(bound)} ({text}))" if bound else f"({text})"
    return f"{draw(one_of(['', '', '!']))}{quantified}"


def _literal(
    draw: st.DrawFn, language: _Language, scope: _Scope, name: str, among: bool = False
) -> str:
    terms = [draw(_term(language, scope, kind, among)) for kind in language.types(name)]
    sign = draw(one_of(["", "", "!"] if among else ["", "!"]))
    return f"{sign}{name}({', '.join(terms)})" if terms else f"{sign}{name}"


@st.composite
def _term(
    draw: st.DrawFn, language: _Language, scope: _Scope, kind: str, among: bool = False
) -> str:
    """A variable, a constant, a sum of whole numbers or a function of such terms.

    ``among``: of those that are already there, where there are, and of the quantified ones.
    """
    choice = draw(up_to(11))
    fitting = [name for name, result in language.results.items() if result == kind]
    if choice == 0 and fitting:
        name = draw(one_of(fitting))
        inner = [draw(_term(language, scope, each, among)) for each in language.functions[name]]
        return f"{name}({', '.join(x.removeprefix('+') for x in inner)})"
    if choice == 1 and not among:
        return SPELLED[kind][0]
    bound = [v for v, of in scope.bound if of == kind]
    there = sorted(v for v, of in scope.used.items() if of == kind)
    names = sorted({*bound, *there}) if among and (bound or there) else [*bound, *NUMBERED[kind]]
    variable = draw(one_of(names))
    scope.used[variable] = kind
    if variable in scope.plus:
        return f"+{variable}"
    if choice == 2:
        return f"{variable} {draw(one_of(['+ 1', '- 9', '* 1', '% 3', '/ 2', '+ ' + variable]))}"
    return variable


def _comparison(draw: st.DrawFn, language: _Language, scope: _Scope) -> str:
    """Of constants, of whole numbers, or with a sum, whose groundings count where it is one."""
    left = draw(one_of(sorted(scope.used)))
    kind = scope.used[left]
    same = sorted(name for name, of in scope.used.items() if of == kind)
    if draw(up_to(2)) == 0:
        op, right = (draw(one_of(["<", "<=", ">", ">="])), draw(one_of([*same, "3"])))
        return f"{left} {draw(one_of(['', '+ 1 ', '* 2 ', '- 8 ', '% 4 ']))}{op} {right}"
    right = draw(one_of([*same, *SPELLED[kind]]))
    if draw(up_to(3)) == 0:
        right = draw(_term(language, scope, kind)).removeprefix("+")
    return f"{left} {draw(one_of(['=', '!=']))} {right}"


def _joined(literals: list[str], hard: bool) -> st.SearchStrategy[str]:
    """A hard conjunction would be clauses of one literal each: an equality alone has no types."""
    if len(literals) == 1:
        return st.just(literals[0])
    implication = f"{' ^ '.join(literals[:-1])} => {literals[-1]}"
    conjunction = [] if hard else [" ^ ".join(literals)]
    return st.sampled_from([" v ".join(literals), implication, *conjunction])


def _at_most_one(draw: st.DrawFn, name: str, kinds: list[str]) -> str:
    """The rule that the plan turns into a group, in one of its spellings; none without arguments."""
    if not kinds:
        return ""
    place = draw(up_to(len(kinds) - 1))
    first = [f"x{n}" for n in range(len(kinds))]
    second = [*first[:place], "y", *first[place + 1 :]]
    a, b = (f"{name}({', '.join(terms)})" for terms in (first, second))
    x = f"x{place}"
    return draw(one_of([f"!{a} v !{b} v {x} = y.", f"{a} ^ y != {x} => !{b}."]))


def _decider(draw: st.DrawFn, language: _Language) -> str:
    """A hard rule that says of a query atom what evidence, or another atom, it needs."""
    scope = _Scope(frozenset())
    own = _literal(draw, language, scope, draw(one_of(sorted(language.query))))
    needed = draw(one_of(sorted(language.evidence | language.query)))
    among = draw(up_to(3)) > 0
    other = _literal(draw, language, scope, needed, among=among).removeprefix("!")
    rule = f"{own.removeprefix('!')} => {other}."
    return (
        rule
        if draw(up_to(3))
        else f"{own.removeprefix('!')} => {other} v {_existential(draw, language, scope)}."
    )


def _example(
    draw: st.DrawFn,
    number: int,
    types: dict[str, list[str]],
    query: list[str],
    functions: list[str],
) -> Example:
    evidence = {name: _atoms(draw, kinds) for name, kinds in types.items() if name not in query}
    for name in functions:
        evidence[name] = _mapping(draw, types[name])
    observed = {name: _atoms(draw, types[name], most=1) for name in query if draw(BOOLEAN)}
    if draw(up_to(5)) == 0:
        evidence = {}
    truth = {name: _atoms(draw, types[name], most=2) for name in query}
    listed = {name: _atoms(draw, types[name], most=4, valued=False) for name in query}
    return Example(
        id=number,
        evidence=evidence | (observed if draw(up_to(2)) == 0 else {}),
        truth=truth if draw(up_to(2)) else None,
        query=listed if draw(up_to(2)) == 2 else None,
    )


def _mapping(draw: st.DrawFn, kinds: list[str]) -> list:
    """What a function gives: one constant for each of some arguments."""
    rows = draw(_lists(rows_of(FOUND[kind] for kind in kinds), 4))
    return [list(row) for row in {tuple(map(str, row[:-1])): row for row in rows}.values()]


def _atoms(draw: st.DrawFn, kinds: list[str], most: int = 3, valued: bool = True) -> list:
    """Atoms as lists of constants, repeated ones too; with values where a draw says so."""
    rows = draw(_lists(rows_of(FOUND[kind] for kind in kinds), most))
    atoms = [list(row) for row in rows]
    atoms += atoms[: draw(up_to(1))]
    if not valued or draw(up_to(2)):
        return atoms
    value = {tuple(map(str, atom)): draw(one_of([1.0, 1.0, 0.0])) for atom in atoms}
    return [ValuedAtom(atom, value[tuple(map(str, atom))]) for atom in atoms]
