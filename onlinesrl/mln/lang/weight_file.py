"""Weight files: MLN files with one line per instance of a template.

`write` writes a weight file from a model's clauses. `read` matches the rules of any weight file with
the clauses and template instances of a model. Names of variables and the order of literals may differ;
both a clause and its weight may be negated.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from math import isfinite
from typing import NamedTuple, TextIO, TypeAlias

from onlinesrl.logic.ast import (
    Constant,
    Formula,
    Leaf,
    Position,
    Program,
    Rule,
    Variable,
    replace_terms,
)
from onlinesrl.logic.text import quote, show, show_instance, show_leaf
from onlinesrl.mln.lang.clausal_form import Clause, plus_variables, rule_clauses
from onlinesrl.mln.lang.clause_matching import Kind, Pattern, Shape, patterns, shape

Entry: TypeAlias = tuple[Clause, tuple[str, ...], float]
"""A clause of the model, the constants of its template, and a weight."""


def write(
    program: Program,
    entries: Iterable[Entry],
    stream: TextIO,
    header: str,
    weighted: Iterable[Clause] = (),
) -> None:
    """Write an MLN file: types, predicates and hard rules of the program, then the entries.

    ``weighted`` are clauses whose template has a weight of its own, for constants without an entry.
    ``header`` becomes a comment. Reading restores weights bit for bit. Raises ValueError for a weight that
    is not finite.
    """
    stream.writelines(f"// {line}".rstrip() + "\n" for line in header.splitlines())
    stream.write("\n")
    stream.writelines(_declarations(program))
    stream.write("\n")
    stream.writelines(f"{rule.text}.\n" for rule in program.rules if rule.hard)
    for clause in weighted:
        stream.write(f"{clause.weight!r} {show(written(clause, program.rules[clause.rule]))}\n")
    forms: dict[int, tuple[Clause, _Form]] = {}
    spelled: dict[str, str] = {}
    for clause, key, weight in entries:
        if id(clause) not in forms:
            rule = program.rules[clause.rule]
            form = _form(program, rule, written(clause, rule), clause.weight)
            forms[id(clause)] = (clause, form)
        if not isfinite(weight):
            raise ValueError(f"the weight of {clause.text} for {key} is {weight}")
        stream.write(forms[id(clause)][1].line(key, weight, spelled))


def alchemy_text(program: Program) -> str:
    """Return a program of any dialect as an Alchemy MLN file, with the weights of its rules.

    Marks of closed predicates are omitted. Raises ValueError for a rule whose weight is a variable, unless
    evidence has turned the rule into a family.
    """
    lines = (_rule_lines(program, rule) for rule in program.rules)
    return "".join([*_declarations(program), *lines])


def _declarations(program: Program) -> Iterator[str]:
    for name, constants in program.types.items():
        listed = [_enumerated(constants)] if constants else []
        listed += ["..."] if name in program.open else []
        if listed:
            yield f"{name} = {{ {', '.join(listed)} }}\n"
    for name, predicate in program.predicates.items():
        function, types = program.functions.get(name), predicate.types
        if function is not None:
            yield f"{function.result} {name}({', '.join(function.types)})\n"
        elif predicate.numeric:
            yield f"{name}({', '.join(types)}): real\n"
        elif not types:
            yield f"{name}\n"
        else:
            marks = ("!" if n in predicate.exactly_one else "" for n in range(len(types)))
            yield f"{name}({', '.join(map(str.__add__, types, marks))})\n"


def _rule_lines(program: Program, rule: Rule) -> str:
    if rule.table is not None:
        form, spelled = _form(program, rule, rule.formula, rule.weight), dict[str, str]()
        first = f"{rule.weight!r} {show(rule.formula)}\n" if rule.weight else ""
        return first + "".join(form.line(key, weight, spelled) for key, weight in rule.table)
    if rule.weight_variable is not None:
        raise ValueError(f"the weight {rule.weight_variable} is known with evidence only")
    text = show(rule.formula)
    if rule.hard:
        return f"{text}.\n"
    return f"{text}\n" if rule.weight is None else f"{rule.weight!r} {text}\n"


def _enumerated(constants: Sequence[str]) -> str:
    """Return the text of a type's constants; consecutive integers become a range."""
    first = constants[0]
    if len(constants) > 2 and re.fullmatch("0|-?[1-9][0-9]{0,17}", first):
        row = range(int(first), int(first) + len(constants))
        if all(constant == str(number) for constant, number in zip(constants, row, strict=True)):
            return f"{first}, ..., {constants[-1]}"
    return ", ".join(map(quote, constants))


class _Form(NamedTuple):
    """The format of the lines of a template's instances.

    ``text`` has ``%`` for the weight and the constants. ``places`` has, for each place, the index in a key
    and the set of constants that need no ``+``.
    """

    text: str
    places: tuple[tuple[int, Set[str]], ...]

    def line(self, key: Sequence[str], weight: float, spelled: dict[str, str]) -> str:
        """Return the line of an instance; ``spelled`` caches the spellings of constants."""
        for constant in key:
            if constant not in spelled:
                spelled[constant] = quote(constant)
        marks = ("" if key[n] in declared else "+" for n, declared in self.places)
        names = (spelled[key[n]] for n, _ in self.places)
        return self.text % (float(weight), *map(str.__add__, marks, names))


def _form(program: Program, rule: Rule, formula: Formula, weight: float | None) -> _Form:
    """Return the format of a template's instances.

    A constant that the program does not declare is not in every world, and has a ``+``. If the template has
    a ``weight``, all constants have a ``+``.
    """
    template, types = plus_variables(rule.formula), dict(rule.types)
    places: list[tuple[int, Set[str]]] = []

    def place(term: Leaf) -> str:
        if isinstance(term, Variable) and term.plus:
            declared = () if weight else program.types.get(types[term.name], ())
            places.append((template.index(term.name), frozenset(declared)))
            return "\n"  # no spelling contains it
        return show_leaf(term)

    pieces = show(formula, place).replace("%", "%%").split("\n")
    return _Form(f"%r {'%s'.join(pieces)}\n", tuple(places))


def written(clause: Clause, rule: Rule) -> Formula:
    """Return the formula of a clause in a weight file: its rule's formula if the rule has one clause."""
    as_written = clause.sign > 0 and len(rule_clauses(rule)) == 1
    return rule.formula if as_written else clause.formula


def rule_text(program: Program, clause: Clause, constants: Mapping[str, str]) -> str:
    """Return the rule of a clause, as in a weight file, with constants in place of some variables."""
    formula = written(clause, program.rules[clause.rule])
    return show(formula, partial(show_instance, constants=constants))


@dataclass(frozen=True, slots=True)
class Unmatched:
    """Weights that match no clause: position and text of their rule, and the number of rows."""

    position: Position
    text: str
    rows: int


@dataclass(frozen=True, slots=True)
class Matched:
    """The weights of a file, matched with the model's clauses, in the order of the file.

    An entry is (index of the clause, constants of its template, weight of the clause).
    """

    entries: tuple[tuple[int, tuple[str, ...], float], ...]
    unmatched: tuple[Unmatched, ...]


def read(model: Sequence[Clause], weights: Program) -> Matched:
    """Match the weights of a weight file with a model's clauses.

    Hard rules and rules without a weight are ignored. Weights of the same clause and constants are added. If
    an instance matches several clauses, it belongs to the clause with the most constants, or else to the
    first. Clauses of the model that lack a variable of their template are not matched.
    """
    places: dict[tuple[Kind, ...], list[_Place]] = defaultdict(list)
    for number, clause in enumerate(model):
        if not clause.hard:
            form = shape(clause)
            places[form.kinds].append((number, clause.sign, form))
    total: dict[tuple[int, tuple[str, ...]], float] = {}
    unmatched: list[Unmatched] = []
    for rule in weights.rules:
        if rule.hard or rule.weight is None:
            continue
        alone = rule.table is None and bool(plus_variables(rule.formula))
        for instances in _instances(replace(rule, table=()) if alone else rule):
            choices = _choices(instances, places[instances.shape.kinds])
            missed = int(not choices) if alone else _add(instances, choices, total)
            if missed:
                unmatched.append(Unmatched(rule.position, rule.text, missed))
    return Matched(tuple((*place, weight) for place, weight in total.items()), tuple(unmatched))


@dataclass(frozen=True, slots=True)
class _Instances:
    """A clause with holes for its constants, the constants that do not vary, and the rows."""

    sign: int
    shape: Shape
    holes: tuple[str | None, ...]
    rows: tuple[tuple[tuple[str, ...], float], ...]


def _instances(rule: Rule) -> Iterator[_Instances]:
    """Yield the clauses of a rule, normalised with holes in place of constants."""
    template = plus_variables(rule.formula)
    holes: list[str | int] = []

    def hole(term: Leaf) -> Leaf:
        if isinstance(term, Variable) and not term.plus:
            return term
        holes.append(term.name if isinstance(term, Constant) else template.index(term.name))
        return Variable(f"?{len(holes) - 1}", plus=True)

    lifted = replace(rule, formula=replace_terms(rule.formula, hole))
    fixed = tuple(filler if isinstance(filler, str) else None for filler in holes)
    for clause in rule_clauses(lifted):
        table = (((), clause.weight or 0.0),) if clause.table is None else clause.table
        rows = tuple(
            (tuple([x if isinstance(x, str) else key[x] for x in holes]), weight)
            for key, weight in table
        )
        yield _Instances(clause.sign, shape(clause), fixed, rows)


_Place: TypeAlias = tuple[int, int, Shape]
"""The number of a clause of the model, its sign and its shape."""

_Choice: TypeAlias = tuple[int, int, Pattern]
"""The number of a clause of the model, the factor of its weight, and its pattern."""


def _choices(
    instances: _Instances, places: Iterable[_Place]
) -> list[tuple[tuple[int, ...], dict[tuple[str, ...], list[_Choice]]]]:
    """Return the possible clauses of instances, by the constants that the clauses require.

    The result has pairs (holes, choices by the constants in these holes), most holes first.
    """
    by_holes: dict[tuple[int, ...], dict[tuple[str, ...], list[_Choice]]] = {}
    for number, sign, model in places:
        factor = instances.sign * sign
        for pattern in patterns(instances.shape, instances.holes, model):
            holes = tuple(hole for hole, _ in pattern.constants)
            constants = tuple(constant for _, constant in pattern.constants)
            choices = by_holes.setdefault(holes, {}).setdefault(constants, [])
            choices.append((number, factor, pattern))
    return sorted(by_holes.items(), key=lambda choice: -len(choice[0]))


def _add(
    instances: _Instances,
    choices: list[tuple[tuple[int, ...], dict[tuple[str, ...], list[_Choice]]]],
    total: dict[tuple[int, tuple[str, ...]], float],
) -> int:
    """Add each row's weight to the first clause that it fits; return the number of unmatched rows."""
    missed = 0
    for row, weight in instances.rows:
        for holes, by_constants in choices:
            fitting = by_constants.get(tuple([row[hole] for hole in holes]), ())
            choice = next(
                (
                    option
                    for option in fitting
                    if all(row[first] == row[second] for first, second in option[2].equal)
                ),
                None,
            )
            if choice is not None:
                number, factor, pattern = choice
                place = (number, tuple([row[hole] for hole in pattern.key]))
                total[place] = total.get(place, 0.0) + factor * weight
                break
        else:
            missed += 1
    return missed
