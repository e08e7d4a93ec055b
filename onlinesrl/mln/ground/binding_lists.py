"""Join plans as functions of lists: each step takes all bindings so far, and returns the longer ones.

A binding is a tuple of constants: those of the plan, those that are given, and one more for each variable
that a step binds. A step is one list comprehension, and ground clauses are zipped from columns.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations, repeat, starmap
from math import prod
from operator import itemgetter
from typing import NamedTuple, TypeAlias

from onlinesrl.logic.ast import Atom, Constant, Leaf, Variable
from onlinesrl.logic.atom_index import AtomIndex, Constants, GroundAtom
from onlinesrl.logic.cnf import Literal
from onlinesrl.logic.kernels.whole_numbers import NO_NUMBER, compares, computed
from onlinesrl.logic.text import WHOLE
from onlinesrl.logic.whole_numbers import COMPARISONS, OPERATIONS, whole_number
from onlinesrl.mln.ground.join_planner import (
    NUMBER,
    Absent,
    ClausePlan,
    Compare,
    Compute,
    Domain,
    ExistentialPlan,
    Order,
    Scan,
    Step,
    leaves,
)
from onlinesrl.mln.kernels.elimination_forest import CLOSES, POSITIVE
from onlinesrl.mln.lang.clausal_form import Clause, Existential

Key: TypeAlias = tuple[int, Constants]
"""A ground clause: the number of its clause's plan, and the constants of the clause's own variables."""
Bindings: TypeAlias = Iterable[Constants]
_Places: TypeAlias = dict[str, int]
"""Where the constants of variables are in a binding."""
_Step: TypeAlias = Callable[[Bindings], Bindings]
_Signed: TypeAlias = tuple[bool, GroundAtom]
"""A literal: its sign and its atom."""


class Row(NamedTuple):
    """A ground clause: the sign of its clause times the values of its numeric atoms, and its literals.

    A literal has an atom and a byte: ``POSITIVE``, and ``CLOSES`` where it stands alone or is the last of a
    conjunction.
    """

    factor: float
    bits: bytes
    atoms: tuple[GroundAtom, ...]

    def holds(self, value: Callable[[GroundAtom], float]) -> bool:
        """Tell whether the ground clause is true where the atoms have these values."""
        together = True
        for bits, atom in zip(self.bits, self.atoms, strict=True):
            together &= (value(atom) == 1.0) == bool(bits & POSITIVE)
            if bits & CLOSES:
                if together:
                    return True
                together = True
        return False


class ClauseJoins:
    """The joins of one clause over facts and domains that change.

    ``names`` are the clause's own variables. In a ``listed`` world only listed atoms of query predicates are
    atoms.
    """

    def __init__(
        self,
        plan: ClausePlan,
        names: Sequence[str],
        world: tuple[AtomIndex, Mapping[str, Mapping[str, int]], bool],
    ):
        self._plan, self._names = plan, names
        self._facts, self._domains, self._listed = world
        parts: list[Clause | Existential] = [plan.clause, *plan.clause.exists]
        terms = [t for part in parts for x in part.literals for t in leaves(x.atom)]
        terms += [t for part in parts for _, *pair in part.equalities for t in pair]
        terms += [t for part in parts for _, _, *pair in part.comparisons for t in pair]
        terms += [t for part in parts for _, _, *pair in part.computed for t in pair]
        self._constants = tuple({t.name: None for t in terms if isinstance(t, Constant)})

    def substitutions(
        self, steps: Iterable[Step], bound: Sequence[str]
    ) -> Callable[[Bindings], Bindings]:
        """Return a function of constants of ``bound`` variables, which returns those of all ``names``.

        The same ones may come more than once.
        """
        place = self._places(bound)
        kinds = [(place[name], self._domains[self._plan.types[name]]) for name in bound]
        work = [*starmap(_among, kinds), *(self._step(step, place) for step in steps)]
        own, constants = getter([place[name] for name in self._names]), self._constants

        def substitutions(given: Bindings) -> Bindings:
            return map(own, _all(work, [constants + names for names in given]))

        return substitutions

    def rows(
        self, number: int, numeric: Iterable[Atom], broken: Callable[[Constants], None]
    ) -> Callable[[Collection[Constants]], dict[Key, Row | None]]:
        """Return a function of constants of ``names``: the ground clauses, None for those that are true.

        ``number`` is that of the clause, ``numeric`` are its atoms with a number as their value. ``broken``
        is called with the constants of a ground clause without a literal.
        """
        query: Sequence[Literal] = self._plan.query
        place, constants = self._places(self._names), self._constants
        sign = self._plan.clause.sign
        values = [(self._values(x), self._cells(x, place)) for x in numeric]
        literals = self._literals(query, place, negated=True)
        parts = [self._conjunctions(part, {**place}) for part in self._plan.exists]
        if self._listed:  # in the order of `_written`
            query = sorted(query, key=lambda x: x.positive)
        negative = sum(not x.positive for x in query)
        bits = bytes(POSITIVE * x.positive | CLOSES for x in query)
        atoms = [(x.atom.predicate, self._cells(x.atom, place)) for x in query]
        of_atoms = [self._values(x.atom) for x in query]
        alike = [(i, j) for (i, (x, _)), (j, (y, _)) in combinations(enumerate(atoms), 2) if x == y]

        def single(start: Constants, factor: float) -> Row | None:
            own = literals(start)
            conjunctions = [some for part in parts for some in part(start)]
            if own is None or [] in conjunctions:
                return None
            written = _written(own, conjunctions)
            if written == (b"", ()):
                broken(start[len(constants) :])
            return Row(factor, *written) if written and written[0] else None

        def rows(given: Collection[Constants]) -> dict[Key, Row | None]:
            starts = [constants + names for names in given] if constants else [*given]
            factors: list[float] = [sign] * len(starts)
            if values:
                numbers = ([of.get(cells(x)) or 0.0 for of, cells in values] for x in starts)
                factors = [sign * prod(of_start) for of_start in numbers]
            made: list[Row | None]
            if parts or not atoms:
                made = [*map(single, starts, factors)]
            else:
                columns = [[(name, cells(x)) for x in starts] for name, cells in atoms]
                together: Iterable[tuple[GroundAtom, ...]] = zip(*columns, strict=True)
                # an atom that comes twice makes one literal, or none
                odd = {n for i, j in alike for n, x in enumerate(columns[i]) if x == columns[j][n]}
                if self._listed:
                    halves = ((x[:negative], x[negative:]) for x in together)
                    together = [(*sorted(x), *sorted(y)) for x, y in halves]
                    for column, listed in zip(columns, of_atoms, strict=True):
                        odd.update(n for n, x in enumerate(column) if x[1] not in listed)
                table = zip(factors, repeat(bits), together)
                made = [*map(partial(tuple.__new__, Row), table)]  # as Row._make does
                for n in sorted(odd):
                    made[n] = single(starts[n], factors[n])
            return dict(zip([(number, names) for names in given], made, strict=True))

        return rows

    def _literals(
        self, literals: Iterable[Literal], place: _Places, negated: bool
    ) -> Callable[[Constants], list[_Signed] | None]:
        """Return a function of a binding: the literals over atoms of the world; all other atoms are false.

        None if such an atom decides: a negative literal if ``negated``, otherwise a positive one.
        """
        listed = self._listed
        columns = [
            (x.positive, x.atom.predicate, self._cells(x.atom, place), self._values(x.atom))
            for x in literals
        ]

        def over_atoms(start: Constants) -> list[_Signed] | None:
            result = list[_Signed]()
            for positive, name, cells, values in columns:
                constants = cells(start)
                if not listed or constants in values:
                    result.append((positive, (name, constants)))
                elif positive != negated:
                    return None
            return result

        return over_atoms

    def _conjunctions(
        self, part: ExistentialPlan, place: _Places
    ) -> Callable[[Constants], list[list[_Signed]]]:
        """Return a function of a binding: the literals of each binding of an existential part."""
        steps = [self._step(x, place) for x in (part.listed if self._listed else part.full)]
        literals = self._literals(part.query, place, negated=False)
        return lambda start: [x for x in map(literals, _all(steps, [start])) if x is not None]

    # steps ---------------------------------------------------------------------------------------

    def _step(self, step: Step, place: _Places) -> _Step:
        """Return a function that takes bindings and returns those with which a step goes on.

        The variables that it binds have their places in ``place`` from here on.
        """
        match step:
            case Scan():
                return self._scan(step, place)
            case Absent(atom):
                values, cells = self._values(atom), self._cells(atom, place)
                return lambda rows: [row for row in rows if not values.get(cells(row))]
            case Domain(variable, kind):
                domain = self._domains[kind]
                self._bind(variable, place)
                return lambda rows: [(*row, constant) for row in rows for constant in domain]
            case Compare(equal, left, right, binds):
                b = self._at(right, place)
                if binds:
                    self._bind(left.name, place)
                    return lambda rows: [(*row, row[b]) for row in rows]
                return _compared(self._at(left, place), b, equal)
            case Order(op, left, right):
                first, second = self._number(left, place), self._number(right, place)
                order = COMPARISONS[op]
                return lambda rows: [x for x in rows if compares(order, first(x), second(x))]
            case Compute():
                return self._compute(step, place)

    def _scan(self, step: Scan, place: _Places) -> _Step:
        terms, values, opened = leaves(step.atom), self._values(step.atom), step.opened
        bound = [n for n, t in enumerate(terms) if isinstance(t, Constant) or t.name in step.bound]
        free = [n for n in range(len(terms)) if n not in bound]
        cells, new = getter([self._at(terms[n], place) for n in bound]), getter(free)
        if not free and opened:
            return lambda rows: [row for row in rows if cells(row) in values]
        if not free:
            return lambda rows: [row for row in rows if values.get(cells(row))]
        name = step.atom.predicate
        index: Mapping[Constants, Collection[Constants]] = {(): values}
        if bound:
            index = self._facts.index(name, (*bound,))

        def scan(rows: Bindings) -> Bindings:
            pairs = ((row, others) for row in rows for others in index.get(cells(row), ()))
            return [row + new(others) for row, others in pairs if opened or values[others]]

        work: list[_Step] = [scan]
        for n in free:
            if terms[n].name in place:  # it comes twice in the atom
                again = self._bind(f"{len(place)}", place)
                work.append(_compared(self._at(terms[n], place), again, True))
            else:
                self._bind(terms[n].name, place)
        return scan if len(work) == 1 else partial(_all, work)

    def _compute(self, step: Compute, place: _Places) -> _Step:
        left, right = self._number(step.left, place), self._number(step.right, place)
        operation = OPERATIONS[step.op]

        def results(rows: Bindings) -> Iterator[tuple[Constants, int]]:
            for row in rows:
                result = computed(operation, left(row), right(row))
                if result != NO_NUMBER:
                    yield row, result

        if not step.binds:
            number = self._number(step.variable, place)
            return lambda rows: [row for row, result in results(rows) if number(row) == result]
        self._bind(step.variable.name, place)
        if (kind := self._plan.types[step.variable.name]) == NUMBER:
            return lambda rows: [(*row, str(result)) for row, result in results(rows)]
        domain = self._domains[kind]
        return lambda rows: [
            (*row, name)
            for row, result in results(rows)
            if (name := str(result)) in domain and WHOLE.fullmatch(name)
        ]

    # places --------------------------------------------------------------------------------------

    def _places(self, names: Iterable[str]) -> _Places:
        return {name: n for n, name in enumerate(names, len(self._constants))}

    def _bind(self, name: str, place: _Places) -> int:
        """Return the place of a variable that a step binds."""
        return place.setdefault(name, len(self._constants) + len(place))

    def _at(self, term: Leaf, place: _Places) -> int:
        is_constant = isinstance(term, Constant)
        return self._constants.index(term.name) if is_constant else place[term.name]

    def _cells(self, atom: Atom, place: _Places) -> Callable[[Constants], Constants]:
        """Return a function of a binding: the constants of an atom."""
        return getter([self._at(term, place) for term in leaves(atom)])

    def _values(self, atom: Atom) -> Mapping[Constants, float]:
        return self._facts.values(atom.predicate)

    def _number(self, term: Leaf, place: _Places) -> Callable[[Constants], int]:
        """Return a function of a binding: the whole number that a term stands for, or NO_NUMBER."""
        at = self._at(term, place)
        if isinstance(term, Variable) and self._plan.types[term.name] == NUMBER:
            return lambda row: int(row[at])
        return lambda row: whole_number(row[at])


def _all(steps: Iterable[_Step], rows: Bindings) -> Bindings:
    for step in steps:
        rows = step(rows)
    return rows


def getter(places: Sequence[int]) -> Callable[[Constants], Constants]:
    """Return a function of a tuple: the tuple of what is in these places."""
    first = places[0] if places else 0
    span = slice(first, first + len(places))
    in_order = [*places] == [*range(span.start, span.stop)]
    return itemgetter(span) if in_order else itemgetter(*places)


def _among(place: int, names: Collection[str]) -> _Step:
    return lambda rows: [row for row in rows if row[place] in names]


def _compared(first: int, second: int, equal: bool) -> _Step:
    return lambda rows: [row for row in rows if (row[first] == row[second]) == equal]


def _written(
    literals: Iterable[_Signed], conjunctions: Iterable[Iterable[_Signed]]
) -> tuple[bytes, tuple[GroundAtom, ...]] | None:
    """Return bits and atoms of literals, and of the conjunctions that can hold, each once and in order.

    None if the ground clause is always true.
    """
    distinct = {tuple(sorted({*some})) for some in conjunctions if not _with_opposites({*some})}
    single = {*literals, *(some[0] for some in distinct if len(some) == 1)}
    if _with_opposites(single):
        return None
    parts = [*((literal,) for literal in sorted(single)), *sorted(x for x in distinct if x[1:])]
    ends = [(n == len(part), *literal) for part in parts for n, literal in enumerate(part, 1)]
    bits = bytes(POSITIVE * positive | CLOSES * closes for closes, positive, _ in ends)
    return bits, tuple([atom for *_, atom in ends])


def _with_opposites(literals: Collection[_Signed]) -> bool:
    return any((not positive, atom) in literals for positive, atom in literals)
