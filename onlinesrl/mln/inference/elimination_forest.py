"""Ground clauses that come and go; the best state and the probabilities of components that are narrow.

The work is done by the kernels of ``kernels/elimination_forest``; here atoms and clauses have names. Any
component is written as a model for other engines, in an order that does not depend on the history.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from hashlib import blake2b
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from onlinesrl.core.arrays import Bools, Floats, Ints, Ints32, gathered
from onlinesrl.logic.atom_index import GroundAtom
from onlinesrl.mln.ground.ground_mrf import GroundMRF, State
from onlinesrl.mln.kernels import elimination_forest as kernel
from onlinesrl.mln.kernels.elimination_forest import CLOSES, POSITIVE, UNKNOWN, UNSOLVED

Literal: TypeAlias = "tuple[bool, GroundAtom | Literals]"
"""A sign and an atom, or the literals of a conjunction."""
Literals: TypeAlias = frozenset[Literal]
Key = TypeVar("Key", bound=Hashable)


class Factor(NamedTuple):
    """A ground clause; the weight of a hard one is None."""

    weight: float | None
    literals: Literals


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


_LENGTHS = {"variable": "value", "factor": "weight", "literal": "holds", "cell": "cell"}
"""A frame's array by what it has an entry for."""


class EliminationForest:
    """Variables, ground clauses, and the best state, which does not depend on the history."""

    def __init__(self) -> None:
        self._variables = list[Variable]()
        self._number = dict[GroundAtom, int]()
        self._place = dict[GroundAtom, tuple[int, int]]()
        self._factors = dict[Hashable, tuple[int, tuple[int, ...]]]()
        self._free_variables, self._free_factors = list[int](), list[int]()
        self._n_factors = self._literals = 0
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

    def value(self, atom: GroundAtom) -> float | None:
        """Return the value of an open atom; None if its component is not solved."""
        v, holds = self._place[atom]
        value = self._frame.value[v]
        return None if value < 0 else float(value == holds)

    def proven(self, atom: GroundAtom) -> bool:
        """Tell whether the state of an open atom's component, which is solved, is certified."""
        v = self._place[atom][0]
        while (above := int(kernel.parent(self._frame, v))) >= 0:
            v = above
        return not self._frame.known[v]

    def components(self, atoms: Iterable[GroundAtom]) -> Iterator[Component]:
        """Yield the components, solved or not, of these atoms; an atom that is not open has none."""
        seen = set[GroundAtom]()
        for atom in atoms:
            if atom in self._place and atom not in seen:
                component = self._component(self._place[atom][0])
                seen |= {*component.atoms}
                yield component

    def _component(self, v: int) -> Component:
        """Return the component of a variable. The cost is that of sorting its atoms and clauses."""
        frame = self._frame
        members = np.sort(frame.work[: kernel.component(frame, v)])
        factors = frame.flipped[: frame.size[kernel.FLIPPED]]
        variables = [self._variables[u] for u in members.tolist()]
        names = [atom for variable in variables for atom in variable.atoms]
        order = sorted(range(len(names)), key=names.__getitem__)
        number = np.empty(len(names), np.int64)
        number[order] = np.arange(1, len(names) + 1)
        last_atom = np.cumsum([len(variable.atoms) for variable in variables]) - 1
        lengths, places = self._places(factors)
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
        self, variables: Mapping[GroundAtom, Variable], factors: Mapping[Key, Factor | None]
    ) -> dict[GroundAtom, float | None]:
        """Change variables and clauses; return atoms whose value moved, None where it is not solved.

        ``variables`` are by name; ``factors`` has all clauses, by key, of those that change.
        """
        gone, new = list[int](), list[int]()
        for name, variable in variables.items():
            old = self._number.get(name)
            if old is not None and self._variables[old] == variable:
                continue
            if old is not None:
                gone.append(self._number.pop(name))
                for atom in self._variables[old].atoms:
                    del self._place[atom]
                    self._probability.pop(atom, None)
            if variable.atoms:
                new.append(self._new_variable(name, variable))
        changed, added, weighed = self._exchange(factors)
        frame, changed = self._frame, [*new, *changed, *self._variables_of(added)]
        count = kernel.eliminate(frame, _ints(changed), _ints(gone))
        frame = self._with_room(cell=int(frame.size[kernel.CELLS] + kernel.room(frame, count)))
        kernel.solve(frame, count, _ints([*changed, *self._variables_of(weighed)]))
        kernel.judge(frame, _ints([*added, *weighed]))
        flipped = frame.flipped[: frame.size[kernel.FLIPPED]]
        true = frame.true[flipped] == 1
        self._add(flipped[true], 1)
        self._add(flipped[~true], -1)
        self._free_variables += gone
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

    def _new_variable(self, name: GroundAtom, variable: Variable) -> int:
        atoms, exactly = variable
        if self._free_variables:
            v = self._free_variables.pop()
            self._variables[v] = variable
        else:
            v = len(self._variables)
            self._variables.append(variable)
        frame = self._with_room(variable=v + 1)
        text = "\0".join((name[0], *name[1])).encode()
        frame.name[v] = int.from_bytes(blake2b(text, digest_size=8).digest(), "big", signed=True)
        frame.values[v] = len(atoms) + (not exactly)  # the first: none of them is true
        frame.first[v] = frame.sender[v] = frame.block[v] = -1
        frame.round[v], frame.degree[v], frame.value[v] = kernel.NEVER, 0, UNKNOWN
        frame.wide[v] = 0
        self._number[name] = v
        self._place |= {atom: (v, holds) for holds, atom in enumerate(atoms, not exactly)}
        return v

    def _exchange(
        self, factors: Mapping[Key, Factor | None]
    ) -> tuple[list[int], list[int], list[int]]:
        """Return variables of clauses that go, clauses that come, and those that have another weight."""
        removed, weighed = list[int](), list[tuple[int, float]]()
        added = list[tuple[Hashable, tuple[int, ...], float]]()
        for key, factor in factors.items():
            old = self._factors.get(key)
            written = None if factor is None else self._written(factor.literals)
            if factor is not None and written is not None:
                weight = np.inf if factor.weight is None else factor.weight
                if old is None or old[1] != written:
                    added.append((key, written, weight))
                elif self._frame.weight[old[0]] != weight:
                    weighed.append((old[0], weight))
            if old is not None and old[1] != written:
                removed.append(self._factors.pop(key)[0])
        numbers = [number for number, _ in weighed]
        gone = _ints([*removed, *numbers])
        gone = gone[self._frame.true[gone] == 1]
        self._add(gone, -1)
        self._frame.true[gone] = 0
        self._frame.weight[numbers] = [weight for _, weight in weighed]
        self._frame.weight[removed] = 0.0
        kernel.unlink(self._frame, _ints(removed))
        variables, added_numbers = self._variables_of(removed), self._write(added)
        self._free_factors += removed
        return variables, added_numbers, numbers

    def _written(self, literals: Literals) -> tuple[int, ...]:
        """Return variable, value and bits of each literal."""
        result = list[int]()
        for positive, content in literals:
            if not isinstance(content, frozenset):
                result += (*self._place[content], POSITIVE * positive | CLOSES)
                continue
            for sign, atom in content:
                result += (*self._place[atom], POSITIVE * sign)  # type: ignore[index]
            result[-1] |= CLOSES
        return tuple(result)

    def _write(self, added: list[tuple[Hashable, tuple[int, ...], float]]) -> list[int]:
        """Write clauses behind the others; returns their numbers."""
        total, spare = sum(len(written) for _, written, _ in added) // 3, 0
        if self._literals + total > len(self._frame.variable):
            self._compact()
            spare = self._literals // 4  # so many literals come before the next time
        first, numbers = self._literals, list[int]()
        room = first + total + spare
        frame = self._with_room(literal=room, factor=self._n_factors + len(added))
        for key, written, _ in added:
            free = self._free_factors
            numbers.append(free.pop() if free else self._n_factors)
            self._n_factors = max(self._n_factors, numbers[-1] + 1)
            self._factors[key] = numbers[-1], written
        table = np.array([x for _, written, _ in added for x in written], np.int32).reshape(-1, 3)
        span = slice(first, first + total)
        frame.variable[span], frame.holds[span], frame.bits[span] = table.T
        lengths = np.array([len(written) // 3 for _, written, _ in added], np.int64)
        frame.start[numbers] = first + np.cumsum(lengths) - lengths
        frame.length[numbers] = lengths
        frame.weight[numbers] = [weight for *_, weight in added]
        frame.true[numbers] = 0
        self._literals += total
        kernel.link(frame, _ints(numbers))
        return numbers

    def _compact(self) -> None:
        """Close the gaps between literals of clauses that are left."""
        frame = self._frame
        numbers = _ints(number for number, _ in self._factors.values())
        lengths, places = self._places(numbers)
        self._literals = total = len(places)
        for array in (frame.variable, frame.holds, frame.bits):
            array[:total] = array[places]
        frame.start[numbers] = np.cumsum(lengths) - lengths
        frame.first[: len(self._variables)] = -1
        kernel.link(frame, numbers)

    def _variables_of(self, numbers: Iterable[int]) -> list[int]:
        """Return the variables of clauses."""
        _, places = self._places(_ints(numbers))
        return [*dict.fromkeys(self._frame.variable[places].tolist())]

    def _places(self, numbers: Ints32) -> tuple[Ints, Ints]:
        """Return the lengths of clauses, and the places of their literals in the frame, clause by clause."""
        lengths = self._frame.length[numbers].astype(np.int64)
        begin = np.cumsum(lengths) - lengths
        return lengths, np.repeat(self._frame.start[numbers] - begin, lengths) + np.arange(
            lengths.sum()
        )

    def _add(self, numbers: Ints32, sign: int) -> None:
        """Add the weights of clauses to the score, without rounding."""
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
    """Sort clauses by length, literals and weight; returns starts, literals and weights."""
    clause, start = np.repeat(np.arange(len(lengths)), lengths), np.cumsum(lengths) - lengths
    literals, orders = literals[np.lexsort((literals, clause))], list[Ints]()
    for length in np.unique(lengths).tolist():
        rows = np.flatnonzero(lengths == length)
        columns = (literals[start[rows] + place] for place in reversed(range(length)))
        orders.append(rows[np.lexsort((weights[rows], *columns))])
    order = np.concatenate([np.zeros(0, np.int64), *orders])
    start, places = gathered(np.append(start, len(literals)), order)
    return start, literals[places], weights[order]


def _ints(numbers: Iterable[int]) -> Ints32:
    return np.array([*numbers], np.int32)
