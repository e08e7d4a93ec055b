"""Ground clauses that come and go; the best state and the probabilities of components that are narrow.

The work is done by the kernels of ``kernels/elimination_forest``; here atoms and clauses have names. Any
component is written as a model for other engines, in an order that does not depend on the history.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from fractions import Fraction
from hashlib import blake2b
from itertools import chain
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from onlinesrl.core.arrays import Bools, Floats, Ints, Ints32, gathered
from onlinesrl.logic.atom_index import GroundAtom
from onlinesrl.mln.ground.ground_mrf import GroundMRF, State
from onlinesrl.mln.kernels import elimination_forest as kernel
from onlinesrl.mln.kernels.elimination_forest import CLOSES, POSITIVE, UNKNOWN, UNSOLVED

Key = TypeVar("Key", bound=Hashable)


class Literals(Protocol):
    """The literals of a ground clause.

    A literal has an atom and a byte: ``POSITIVE``, and ``CLOSES`` where it stands alone or is the last of a
    conjunction.
    """

    @property
    def bits(self) -> bytes:
        """The bytes."""
        ...

    @property
    def atoms(self) -> Sequence[GroundAtom]:
        """The atoms."""
        ...


class Variable(NamedTuple):
    """The open atoms of which at most one is true, or exactly one; no atoms: there is no variable."""

    atoms: tuple[GroundAtom, ...]
    exactly: bool


@dataclass(frozen=True, eq=False)
class Component:
    """A connected component as a model of its atoms, which are in the order of names.

    Further atoms of the model stand for conjunctions of literals, which hard clauses define. ``weights`` has
    0 for hard clauses.
    """

    atoms: list[GroundAtom]
    conjunctions: Sequence[tuple[int, ...]]
    model: GroundMRF
    weights: Floats

    def state(self, values: Mapping[GroundAtom, float]) -> State:
        """Return the state of the model in which its atoms have these values."""
        state = [values[atom] == 1.0 for atom in self.atoms]
        state += [all(state[abs(x) - 1] == (x > 0) for x in part) for part in self.conjunctions]
        return np.array(state, np.uint8)

    def where(self, atom: GroundAtom, value: bool) -> Component:
        """Return the component with a hard clause by which an atom has a value."""
        number = self.atoms.index(atom) + 1
        model = self.model.with_units(np.array([number if value else -number], np.int32), hard=True)
        return replace(self, model=model, weights=np.append(self.weights, 0.0))


_LENGTHS = {
    "variable": "value",
    "factor": "weight",
    "literal": "holds",
    "cell": "cell",
    "atom": "fixed",
}
"""A frame's array by what it has an entry for."""


class EliminationForest(Generic[Key]):
    """Variables, ground clauses, and the best state, which does not depend on the history."""

    def __init__(self) -> None:
        self._variables = dict[int, Variable]()
        self._number = dict[GroundAtom, int]()
        self._free_variables, self._free_factors, self._free_atoms = (list[int]() for _ in range(3))
        self._atom = dict[GroundAtom, int]()
        self._factors = dict[Key, int]()
        self._keys = dict[int, Key]()
        self._literals = 0
        self._touched = _ints([])
        self.broken = list[Key]()
        """The hard clauses that facts break, of those of the last update."""
        self._probability = dict[GroundAtom, float]()
        self.score = Fraction(0)
        """The weight of the true clauses of solved components."""
        self._frame = kernel.forest()

    @property
    def feasible(self) -> bool:
        """Whether hard clauses and groups can hold, as far as components are solved."""
        return not self._frame.size[kernel.INFEASIBLE]

    @property
    def certified(self) -> bool:
        """Whether the states of all solved components are certified."""
        return not self._frame.size[kernel.UNCERTIFIED]

    def values(self, atoms: Iterable[GroundAtom]) -> dict[GroundAtom, float | None]:
        """Return the values of those atoms that are open; None where their component is not solved."""
        present, frame = [atom for atom in atoms if atom in self._atom], self._frame
        if not present:
            return {}
        numbers = self._numbers_of(present)
        place = frame.place[numbers]
        value = np.where(place < 0, kernel.NONE, frame.value[place]).tolist()
        true = (value == frame.holding[numbers]).astype(np.float64).tolist()
        triples = zip(present, value, true, strict=True)
        return {atom: None if x < 0 else y for atom, x, y in triples if x != kernel.NONE}

    def proven(self, atom: GroundAtom) -> bool:
        """Tell whether the state of an open atom's component, which is solved, is certified."""
        v = int(self._frame.place[self._atom[atom]])
        while (above := int(kernel.parent(self._frame, v))) >= 0:
            v = above
        return not self._frame.known[v]

    def clauses(self, atom: GroundAtom) -> list[Key]:
        """Return the keys of the clauses that mention an atom."""
        numbers = _ints([self._atom[atom]] if atom in self._atom else [])
        return [self._keys[f] for f in self._clauses_of(numbers).tolist()]

    def touched(self) -> list[Key]:
        """Return the keys of the clauses that the last update has changed, or atoms of which it has moved."""
        return [self._keys[f] for f in self._touched.tolist() if f in self._keys]

    def is_open(self, key: Key) -> bool:
        """Tell whether facts leave a clause undecided, and its weight is not 0."""
        return bool(self._frame.length[self._factors[key]])

    def components(self, atoms: Iterable[GroundAtom]) -> Iterator[Component]:
        """Yield the components, solved or not, of these atoms; an atom that is not open has none."""
        seen = set[GroundAtom]()
        for atom in atoms:
            v = int(self._frame.place[self._atom[atom]]) if atom in self._atom else -1
            if v >= 0 and atom not in seen:
                component = self._component(v)
                seen |= {*component.atoms}
                yield component

    def together(self, atoms: Iterable[GroundAtom]) -> Component:
        """Return the components, solved or not, of these atoms as one model; see ``components``."""
        frame, seen = self._frame, set[int]()
        members, factors = [np.zeros(0, np.int32)], [np.zeros(0, np.int32)]
        for atom in atoms:
            v = int(frame.place[self._atom[atom]]) if atom in self._atom else -1
            if v >= 0 and v not in seen:
                members.append(frame.work[: kernel.component(frame, v)].copy())
                factors.append(frame.flipped[: frame.size[kernel.FLIPPED]].copy())
                seen.update(members[-1].tolist())
        return self._model(np.concatenate(members), np.concatenate(factors))

    def _component(self, v: int) -> Component:
        """Return the component of a variable. The cost is that of sorting its atoms and clauses."""
        frame = self._frame
        members = frame.work[: kernel.component(frame, v)]
        return self._model(members, frame.flipped[: frame.size[kernel.FLIPPED]])

    def _model(self, members: Ints32, factors: Ints32) -> Component:
        """Return variables and the factors that mention them as a model."""
        frame, members = self._frame, np.sort(members)
        variables = [self._variables[u] for u in members.tolist()]
        names = [atom for variable in variables for atom in variable.atoms]
        order = sorted(range(len(names)), key=names.__getitem__)
        number = np.empty(len(names), np.int64)
        number[order] = np.arange(1, len(names) + 1)
        last_atom = np.cumsum(_ints(len(variable.atoms) for variable in variables)) - 1
        lengths, places = _places(frame.start[factors], frame.length[factors])
        variable = np.searchsorted(members, frame.variable[places])
        from_last = frame.values[members[variable]] - 1 - frame.holds[places]
        atom = number[last_atom[variable] - from_last]
        bits = frame.bits[places]
        literals = np.where(bits & POSITIVE, atom, -atom)
        closes = (bits & CLOSES).astype(np.bool_)
        literals, conjunctions, definitions = _with_definitions(literals, closes, len(names))
        clause = np.repeat(np.arange(len(factors)), lengths)[closes]
        lengths = np.bincount(clause, minlength=len(factors))
        lengths = np.append(lengths, _ints(map(len, definitions))).astype(np.int64)
        literals = np.append(literals, _ints(x for row in definitions for x in row))
        weights = np.append(frame.weight[factors], np.full(len(definitions), np.inf))
        start, literals, weights = _in_order(lengths, literals, weights)
        groups = sorted(x for x in variables if len(x.atoms) > 1 or x.exactly)
        group_of = {atom: g for g, group in enumerate(groups) for atom in group.atoms}
        atoms = [names[n] for n in order]
        group = [group_of.get(atom, -1) for atom in atoms] + [-1] * len(conjunctions)
        model = GroundMRF(
            len(group),
            start,
            literals.astype(np.int32),
            weights == np.inf,
            np.array(group, np.int32),
            np.array([group.exactly for group in groups], np.bool_),
        )
        return Component(atoms, conjunctions, model, np.where(weights == np.inf, 0.0, weights))

    def update(
        self,
        values: Mapping[GroundAtom, float | None],
        variables: Mapping[GroundAtom, Variable],
        clauses: Mapping[Key, Literals | None],
        weights: Iterable[float | None],
    ) -> dict[GroundAtom, float | None]:
        """Change atoms, variables and clauses; return open atoms that moved, None where one is not solved.

        ``values`` are the facts about atoms: NaN is open, None is an atom no more. They include all atoms of
        ``variables``, by name, that differ. ``clauses`` are those that change, by key, None where one is no
        more. ``weights`` has theirs in the same order: None for a hard one, 0 for one that is no more.
        """
        known = map(self._factors.get, clauses)
        every = zip(clauses, clauses.values(), weights, known, strict=True)
        given = [x for x in every if x[1] is not None or x[3] is not None]
        self._make_room(sum(len(x[1].bits) for x in given if x[1] is not None), len(given))
        moved = gone = new = weighed = numbers = _ints([])
        if values:
            moved, gone, new = self._exchange(values, variables)
        if given:
            numbers, weighed = self._write(given)
        if len(moved):
            again = self._clauses_of(moved).tolist()
            numbers = _ints(dict.fromkeys([*numbers.tolist(), *again]))
        frame, self._touched = self._frame, numbers
        changed = frame.work[: kernel.fold(frame, numbers)].tolist()
        self.broken = [self._keys[f] for f in frame.order[: frame.size[kernel.BROKEN]].tolist()]
        self._untrue(frame.flipped[: frame.size[kernel.FLIPPED]].copy())
        count = kernel.eliminate(frame, _ints([*new, *changed]), gone)
        frame = self._with_room(cell=int(frame.size[kernel.CELLS] + kernel.room(frame, count)))
        weighed = frame.work[: kernel.variables_of(frame, weighed)].tolist()
        kernel.solve(frame, count, _ints([*new, *changed, *weighed]))
        kernel.judge(frame, numbers)
        flipped = frame.flipped[: frame.size[kernel.FLIPPED]]
        true = frame.true[flipped] == 1
        self._add(flipped[true], 1)
        self._add(flipped[~true], -1)
        for v in gone.tolist():
            del self._variables[v]
        self._free_variables += gone.tolist()
        ended = [self._factors.pop(x[0]) for x in given if x[1] is None]
        for number in ended:
            del self._keys[number]
        self._free_factors += ended
        absent = [a for a, value in values.items() if value is None and a in self._atom]
        self._free_atoms += map(self._atom.pop, absent)
        return self._moved()

    def marginals(self) -> dict[GroundAtom, float]:
        """Return the probabilities of the atoms whose component is solved; those of others are stale.

        The forest is feasible. The cost is that of the atoms whose probability is another since the last
        call, and of the messages above those that a step has touched.
        """
        frame = self._frame
        kernel.sum_products(frame)
        moved = frame.moved[: frame.size[kernel.MOVED]]
        for v, first in zip(moved.tolist(), frame.message[moved].tolist(), strict=True):
            atoms, exactly = self._variables[v]
            values = frame.probability[first : first + len(atoms) + (not exactly)].tolist()
            self._probability |= zip(atoms, values[not exactly :], strict=True)
        return self._probability

    def _exchange(
        self, values: Mapping[GroundAtom, float | None], variables: Mapping[GroundAtom, Variable]
    ) -> tuple[Ints32, Ints32, Ints32]:
        """Return the numbers of atoms that move, and those of variables that go and come.

        New atoms are left out: their clauses are new, too.
        """
        others = {
            name: variable
            for name, variable in variables.items()
            if name not in self._number or self._variables[self._number[name]] != variable
        }
        gone = [self._number.pop(name) for name in others if name in self._number]
        closed = [atom for v in gone for atom in self._variables[v].atoms]
        others = {name: variable for name, variable in others.items() if variable.atoms}
        new = _numbers(len(others), self._variables, self._free_variables)
        self._number |= zip(others, new, strict=True)
        self._variables |= zip(new, others.values(), strict=True)
        known = [atom for atom in values if atom in self._atom]
        fresh = [a for a, value in values.items() if value is not None and a not in self._atom]
        fresh_numbers = _numbers(len(fresh), self._atom, self._free_atoms)
        self._atom |= zip(fresh, fresh_numbers, strict=True)
        frame = self._with_room(
            variable=len(self._variables) + len(self._free_variables),
            atom=len(self._atom) + len(self._free_atoms),
        )
        frame.mention[fresh_numbers] = frame.place[fresh_numbers] = -1
        numbers = self._numbers_of(known)
        before = [array[numbers] for array in (frame.fixed, frame.place, frame.holding)]
        frame.fixed[numbers] = [values[atom] == 1.0 for atom in known]
        frame.fixed[fresh_numbers] = [values[atom] == 1.0 for atom in fresh]
        frame.place[self._numbers_of(closed)] = -1
        if new:
            self._open(_ints(new), others)
        differs = before[0] != frame.fixed[numbers]
        differs |= before[1] != frame.place[numbers]
        differs |= before[2] != frame.holding[numbers]
        for atom in closed:
            self._probability.pop(atom, None)
        return numbers[differs], _ints(gone), _ints(new)

    def _open(self, new: Ints32, variables: Mapping[GroundAtom, Variable]) -> None:
        """Begin variables with these numbers."""
        frame, rows = self._frame, variables.values()
        sizes = _ints(len(atoms) for atoms, _ in rows)
        none = _ints(not exactly for _, exactly in rows)  # the first value: none of them is true
        texts = ("\0".join((name, *constants)).encode() for name, constants in variables)
        hashes = b"".join(blake2b(text, digest_size=8).digest() for text in texts)
        frame.name[new] = np.frombuffer(hashes, ">i8")
        frame.values[new] = sizes + none
        frame.first[new] = frame.sender[new] = frame.block[new] = -1
        frame.round[new], frame.degree[new], frame.value[new] = kernel.NEVER, 0, UNKNOWN
        frame.wide[new] = 0
        atoms = self._numbers_of(atom for variable in rows for atom in variable.atoms)
        begin = np.cumsum(sizes) - sizes - none
        frame.place[atoms] = np.repeat(new, sizes)
        frame.holding[atoms] = np.arange(len(atoms)) - np.repeat(begin, sizes)

    def _write(
        self, given: Sequence[tuple[Key, Literals | None, float | None, int | None]]
    ) -> tuple[Ints32, Ints32]:
        """Write clauses behind the others; return the numbers of all, and of those with another weight.

        They are given by their keys, literals, weights and numbers, where they have one.
        """
        keys, clauses, given_weights, known = zip(*given, strict=True)
        frame, old = self._frame, [number for number in known if number is not None]
        if old:
            kernel.withdraw(frame, _ints(old))
            self._untrue(_ints(old))
        fresh = [key for key, number in zip(keys, known, strict=True) if number is None]
        new = _numbers(len(fresh), self._keys, self._free_factors)
        self._factors |= zip(fresh, new, strict=True)
        self._keys |= zip(new, fresh, strict=True)
        again = iter(new)
        numbers = _ints(next(again) if number is None else number for number in known)
        bits = [b"" if literals is None else literals.bits for literals in clauses]
        atoms = [() if literals is None else literals.atoms for literals in clauses]
        weights = np.array([np.inf if weight is None else weight for weight in given_weights])
        weighed = numbers[(frame.weight[numbers] != weights) & (frame.length[numbers] > 0)]
        frame.weight[numbers] = weights
        frame.size_of[numbers] = lengths = _ints(map(len, bits))
        ends = self._literals + np.cumsum(lengths)
        frame.begin[numbers] = ends - lengths
        frame.start[new] = frame.begin[new]
        span = slice(self._literals, self._literals + int(lengths.sum()))
        frame.atom[span] = self._numbers_of(chain.from_iterable(atoms))
        frame.sign[span] = np.frombuffer(b"".join(bits), np.uint8)
        self._literals = span.stop
        kernel.mention(frame, numbers)
        return numbers, weighed

    def _make_room(self, literals: int, factors: int) -> None:
        """Make room for more clauses."""
        end = self._literals + literals
        if end > len(self._frame.holds):
            self._compact()
            end = self._literals + literals
            end += self._literals // 4  # so many literals come before the next time
        self._with_room(literal=end, factor=len(self._keys) + len(self._free_factors) + factors)

    def _compact(self) -> None:
        """Close the gaps between the literals of clauses that are left."""
        frame, numbers = self._frame, _ints(self._factors.values())
        lengths, places = _places(frame.begin[numbers], frame.size_of[numbers])
        self._literals = total = len(places)
        for array in (frame.atom, frame.sign, frame.variable, frame.holds, frame.bits):
            array[:total] = array[places]
        frame.begin[numbers] = frame.start[numbers] = np.cumsum(lengths) - lengths
        frame.first[:] = frame.mention[:] = -1
        kernel.link(frame, numbers)
        kernel.mention(frame, numbers)

    def _untrue(self, numbers: Ints32) -> None:
        """Take the weights of clauses that are true out of the score."""
        true = numbers[self._frame.true[numbers] == 1]
        self._add(true, -1)
        self._frame.true[true] = 0

    def _clauses_of(self, atoms: Ints32) -> Ints32:
        """Return the numbers of the clauses that mention atoms."""
        kernel.clauses_of(self._frame, atoms)
        return self._frame.flipped[: self._frame.size[kernel.FLIPPED]].copy()

    def _numbers_of(self, atoms: Iterable[GroundAtom]) -> Ints32:
        return _ints(map(self._atom.__getitem__, atoms))

    def _add(self, numbers: Ints32, sign: int) -> None:
        """Add the weights of clauses to the score, without rounding."""
        if not len(numbers):
            return
        weights, counts = np.unique(self._frame.weight[numbers], return_counts=True)
        for weight, n in zip(weights.tolist(), counts.tolist(), strict=True):
            if weight < np.inf:
                self.score += sign * n * Fraction(weight)

    def _moved(self) -> dict[GroundAtom, float | None]:
        frame = self._frame
        moved = frame.moved[: frame.size[kernel.MOVED]]
        result = dict[GroundAtom, float | None]()
        triples = zip(
            moved.tolist(),
            frame.before[: len(moved)].tolist(),
            frame.value[moved].tolist(),
            strict=True,
        )
        for v, before, value in triples:
            atoms, exactly = self._variables[v]
            if value == UNSOLVED:
                result |= dict.fromkeys(atoms)
                continue
            result |= dict.fromkeys(atoms, 0.0) if before < 0 else {}
            for number, truth in ((before, 0.0), (value, 1.0)):
                if number >= (not exactly):
                    result[atoms[number - (not exactly)]] = truth
        return result

    def _with_room(self, **lengths: int) -> Any:
        """Return the frame, with arrays of at least these lengths."""
        old = self._frame
        if any(n > len(getattr(old, _LENGTHS[kind])) for kind, n in lengths.items()):
            sizes = {kind: len(getattr(old, name)) for kind, name in _LENGTHS.items()}
            sizes |= {kind: 2 * n for kind, n in lengths.items() if n > sizes[kind]}
            grown = kernel.forest(**sizes)
            for name, array in vars(old).items():
                if isinstance(array, np.ndarray):
                    getattr(grown, name)[: len(array)] = array
            self._frame = grown
        return self._frame


def _with_definitions(
    literals: Ints, closes: Bools, n_atoms: int
) -> tuple[Ints, list[tuple[int, ...]], list[tuple[int, ...]]]:
    """Put an atom, which follows the others, in the place of each conjunction of literals.

    ``closes`` says which literals stand alone, or are the last of their conjunction. Returns the literals,
    the conjunctions, and the clauses that define their atoms.
    """
    last = np.flatnonzero(closes)
    first = np.append(-1, last[:-1])[: len(last)] + 1
    parts = {
        i: tuple(sorted(literals[first[i] : last[i] + 1].tolist()))
        for i in np.flatnonzero(last > first).tolist()
    }
    conjunctions = sorted({*parts.values()})
    atom = {part: n for n, part in enumerate(conjunctions, n_atoms + 1)}
    literals = literals[first]
    literals[[*parts]] = [atom[part] for part in parts.values()]
    definitions = [(n, *(-x for x in part)) for part, n in atom.items()]
    definitions += [(-n, x) for part, n in atom.items() for x in part]
    return literals, conjunctions, definitions


def _in_order(lengths: Ints, literals: Ints, weights: Floats) -> tuple[Ints, Ints, Floats]:
    """Sort clauses by length, literals, each once, and weight; returns starts, literals and weights."""
    clauses, largest = np.repeat(np.arange(len(lengths)), lengths), np.abs(literals).max(initial=0)
    pairs = np.sort(clauses * (2 * largest + 1) + literals + largest)
    clauses, literals = divmod(pairs[np.diff(pairs, prepend=-1) > 0], 2 * largest + 1)
    lengths, literals = np.bincount(clauses, minlength=len(lengths)), literals - largest
    start, orders = np.cumsum(lengths) - lengths, list[Ints]()
    for length in np.unique(lengths).tolist():
        rows = np.flatnonzero(lengths == length)
        columns = (literals[start[rows] + place] for place in reversed(range(length)))
        orders.append(rows[np.lexsort((weights[rows], *columns))])
    order = np.concatenate([np.zeros(0, np.int64), *orders])
    start, places = gathered(np.append(start, len(literals)), order)
    return start, literals[places], weights[order]


def _places(start: Ints, length: Ints32) -> tuple[Ints, Ints]:
    """Return the lengths of spans, and their places, span by span."""
    lengths = length.astype(np.int64)
    begin = np.cumsum(lengths) - lengths
    return lengths, np.repeat(start - begin, lengths) + np.arange(lengths.sum())


def _numbers(count: int, used: Sized, free: list[int]) -> list[int]:
    """Return so many numbers, first those that are free."""
    again, end = max(len(free) - count, 0), len(used) + len(free)
    numbers = free[again:]
    del free[again:]
    return [*numbers, *range(end, end + count - len(numbers))]


def _ints(numbers: Iterable[int]) -> Ints32:
    return np.fromiter(numbers, np.int32)
