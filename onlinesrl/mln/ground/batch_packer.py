"""Packing of examples into a micro-batch: constants become integers, atoms become rows of integers.

Constants of types that plans join on, enumerate or query are numbered separately in each world. Constants
of types of ``+`` variables are numbered for the whole stream, because they identify weights.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from msgspec import UNSET

from onlinesrl.core.background import Background
from onlinesrl.core.errors import ExampleError
from onlinesrl.core.example import (
    MOST,
    Atom,
    Atoms,
    Constant,
    Example,
    Unlabelled,
    ValuedAtom,
    arguments,
    asked_atoms,
    listed_unlabelled,
    number_of,
    show_ground_atom,
    unlabelled_atoms,
)
from onlinesrl.mln.ground.constant_index import Constants, Domain
from onlinesrl.mln.ground.json_line_reader import JsonLineReader, NumberedExample
from onlinesrl.mln.ground.model_index import Layout
from onlinesrl.mln.kernels.grounding_frames import WHOLLY, Batch

KEPT_NAMES = 1 << 16
Wholly = Mapping[str, Sequence[Sequence[Constant]]]
NONE: Wholly = {}


class Packed(NamedTuple):
    """A packed example and its place among the items of the micro-batch."""

    example: Example
    place: int
    asked: set[Atom] | None = None  # see ``asked_atoms``
    unlabelled: Unlabelled = Unlabelled(set())


class LimitKeys(NamedTuple):
    """The names of the options of a world's limits, for messages."""

    atoms: str = "limits.max_atoms"
    groundings: str = "inference.max_groundings"
    advice: str = "list the atoms to predict in `query`, or add"


KEYS = LimitKeys()


class Packer(Constants):
    """A packer of examples, one after another; ``batch()`` returns the packed worlds.

    The facts of ``background`` are added to every example. ``keys`` names the options of the limits.
    """

    def __init__(
        self,
        layout: Layout,
        stream: Mapping[str, Domain],
        max_atoms: int,
        keys: LimitKeys = KEYS,
        background: Background | None = None,
    ):
        super().__init__(layout, stream, background or Background())
        self.max_atoms = max_atoms
        self.keys = keys
        self.worlds_ever = 0
        self.clear()

    @cached_property
    def lines(self) -> JsonLineReader:
        """The reader of JSON lines to the numbers of packed constants."""
        return JsonLineReader(self, self.max_atoms)

    # one example ---------------------------------------------------------------------------------

    def clear(self) -> None:
        """Forget the packed worlds, and the numbers of constants if there are too many."""
        if len(self.constants.names) > self.first + KEPT_NAMES:
            self.begin()
        self.worlds: list[Packed] = []
        self.rows: list[bytes] = []
        self.spans: list[bytes] = []
        self.listed = bytearray()
        self.labelled = bytearray()
        self.values = dict(self.fact_values)  # values of numeric atoms, numbered as they appear

    def __len__(self) -> int:
        return len(self.worlds)

    def add(self, example: Example, place: int, wholly: Wholly = NONE) -> None:
        """Pack one example; if it raises ExampleError, nothing is packed.

        ``wholly`` opens further atoms, besides the example's query. It has, for each predicate, the distinct
        constants of each argument; all their combinations become open atoms.
        """
        if isinstance(example, NumberedExample):
            numbered: NumberedExample | None = example
            if example.domain is not self.constants:  # its numbers are outdated
                numbered = self.lines.read(example.line)
            assert numbered is not None, "a line that was read once can be read again"
            self.rows.append(numbered.row)
            self.spans.append(numbered.place)
            self._append(Packed(example, place), False, example.labelled)
            return
        asked = asked_atoms(example, self.layout.plan.query)
        example = self.background.beside(example, self.layout.plan.query)
        start, count = [0] * self.layout.slots, [0] * self.layout.slots
        self.data: list[int] = []
        evidence = example.evidence
        if self.layout.numeric:
            evidence = self._numeric(evidence, start, count)
        self._relations(evidence, "evidence", self.layout.evidence, start, count)
        if example.truth is not None:
            self._relations(example.truth, "truth", self.layout.truth, start, count)
        unlabelled = unlabelled_atoms(example)
        if unlabelled:
            listed = listed_unlabelled(example)
            rows_of: Atoms = {name: [*map(arguments, atoms)] for name, atoms in listed.items()}
            slots = self.layout.unlabelled
            self._relations(rows_of, "unlabelled", slots, start, count)
            for name in sorted(unlabelled.predicates):
                if name not in slots:
                    raise ExampleError(self._unknown(name, slots, "unlabelled"), "schema")
                count[slots[name]] = WHOLLY
        if example.query is not None:
            opened: Atoms = {name: [*atoms] for name, atoms in example.query.items()}
            for name in self.layout.plan.query:  # joins must also find what evidence fixes
                opened.setdefault(name, []).extend(example.evidence.get(name, ()))
            rows_of = {name: [arguments(atom) for atom in atoms] for name, atoms in opened.items()}
            self._relations(rows_of, "query", self.layout.listed, start, count)
        rows = array("i", self.data).tobytes()
        for name, columns in wholly.items():
            numbers = [np.array([self.constants[c] for c in names], np.int32) for names in columns]
            grid = np.zeros((1, 0), np.int32)  # all combinations, int32[atoms, arguments]
            if numbers:
                grid = np.stack(np.meshgrid(*numbers, indexing="ij"), -1).reshape(-1, len(numbers))
            slot = self.layout.listed[name]
            start[slot], count[slot] = len(rows) // grid.itemsize, len(grid)
            rows += grid.tobytes()
        self.rows.append(rows)
        self.spans.append(array("q", start + count).tobytes())
        world = Packed(example, place, asked, unlabelled)
        self._append(world, example.query is not None, example.truth is not None)

    def _append(self, world: Packed, listed: bool, labelled: bool) -> None:
        self.listed.append(listed)
        self.labelled.append(labelled)
        self.worlds.append(world)

    def _numeric(self, evidence: Atoms, start: list[int], count: list[int]) -> Atoms:
        """Pack the atoms of numeric predicates and return the other atoms; value 0 means absent."""
        layout = self.layout
        for name in (predicate for predicate in evidence if predicate in layout.numeric):
            rows_of: tuple[list[tuple[int, ...]], ...] = [], []  # absent atoms, and present ones
            for row, x in self._values(name, evidence[name]).items():
                rows_of[x != 0].append((*row, self.values.setdefault(x, len(self.values))))
            for present, rows in enumerate(rows_of):
                slot = layout.slot(name, present)
                start[slot], count[slot] = len(self.data), len(rows)
                self.data += chain.from_iterable(rows)
        return {name: atoms for name, atoms in evidence.items() if name not in layout.numeric}

    def _values(
        self, name: str, atoms: Sequence[list[Constant] | ValuedAtom]
    ) -> dict[tuple[int, ...], float]:
        """Return the value of each atom, a row of packed constants.

        Raises ExampleError for missing, bad or contradictory values.
        """
        if len(atoms) > self.max_atoms:
            raise ExampleError(self._wrong(name, atoms, "evidence"), "limit")
        arity, values = len(self.layout.arguments(name)), self._distinct_values(name, atoms)
        if values is not None:
            return values
        packed, values = self.constants.__getitem__, {}
        for atom in atoms:
            args, value = arguments(atom), number_of(atom)
            if len(args) != arity:
                raise ExampleError(self._wrong(name, [atom], "evidence"), "schema")
            if value is None:
                form = f'{{"args": {json.dumps(args)}, "value": 0.7}}'
                reason = f"has no value, and {name} is numeric; write {form}"
                raise ExampleError(
                    f"evidence atom {show_ground_atom(name, args)} {reason}", "schema"
                )
            if not abs(value) <= MOST:
                reason = f"has value {value}; expected a number from {-MOST:g} to {MOST:g}"
                raise ExampleError(
                    f"evidence atom {show_ground_atom(name, args)} {reason}", "schema"
                )
            first = values.setdefault(tuple(map(packed, args)), value)
            if first != value:
                reason = f"has the values {first} and {value}"
                message = f"contradiction: evidence atom {show_ground_atom(name, args)}"
                raise ExampleError(f"{message} {reason}", "contradiction")
        return values

    def _distinct_values(
        self, name: str, atoms: Sequence[list[Constant] | ValuedAtom]
    ) -> dict[tuple[int, ...], float] | None:
        """Return what ``_values`` does, without a loop; None if an atom is bad or appears twice."""
        arity = len(self.layout.arguments(name))
        if {*map(type, atoms)} != {ValuedAtom}:
            return None
        rows, numbers = ([*map(attrgetter(part), atoms)] for part in ("args", "number"))
        if {*map(len, rows)} != {arity} or UNSET in numbers:
            return None
        if not all(map(MOST.__ge__, map(abs, numbers))):
            return None
        constants = map(self.constants.__getitem__, chain.from_iterable(rows))
        values = dict(zip(zip(*[constants] * arity, strict=True), numbers, strict=False))
        return values if len(values) == len(atoms) else None

    def _relations(
        self,
        atoms_of: Atoms,
        part: str,
        slots: Mapping[str, int],
        start: list[int],
        count: list[int],
    ) -> None:
        """Pack the atoms of one part of an example (evidence, truth or query), by predicate."""
        offset = len(self.data)
        for name, atoms in atoms_of.items():
            slot = slots.get(name)
            if slot is None:
                raise ExampleError(self._unknown(name, slots, part), "schema")
            arity = self.arity[name]
            try:
                fits = set(map(len, atoms)) <= {arity}  # type: ignore[arg-type]
            except TypeError:
                plain = self._plain(atoms_of, part, start, count)
                return self._relations(plain, part, slots, start, count)
            if not fits or len(atoms) > self.max_atoms:
                raise ExampleError(self._wrong(name, atoms, part), "limit" if fits else "schema")
            start[slot], count[slot] = offset, len(atoms)
            offset += arity * len(atoms)
        rows = chain.from_iterable(atoms_of.values())
        self.data += map(self.constants.__getitem__, chain.from_iterable(rows))  # type: ignore[arg-type]
        return None

    @staticmethod
    def _unknown(name: str, predicates: Iterable[str], part: str) -> str:
        kind = "predicate" if part == "evidence" else f"query predicate in {part}"
        return f"unknown {kind} {name}; the model has {', '.join(sorted(predicates))}"

    def _wrong(self, name: str, atoms: Sequence[list[Constant] | ValuedAtom], part: str) -> str:
        """Return the message for an atom with the wrong number of arguments, or for too many atoms."""
        arity = len(self.layout.arguments(name))
        for atom in atoms:
            args = arguments(atom)
            if len(args) != arity:
                return (
                    f"{part} atom {show_ground_atom(name, args)}: {name} takes {arity} "
                    f"argument{'s' * (arity != 1)}, found {len(args)}"
                )
        return f"{part} has {len(atoms)} atoms of {name}; {self.keys.atoms} is {self.max_atoms}"

    def _plain(
        self, atoms_of: Atoms, part: str, start: list[int], count: list[int]
    ) -> dict[str, list[list[Constant] | ValuedAtom]]:
        """Return the true atoms without their values, and pack the false atoms.

        False evidence fixes atoms of query predicates. False atoms of the truth must be open. Of
        other false atoms, only the constants matter.
        """
        true: dict[str, list[list[Constant] | ValuedAtom]] = {}
        false: dict[str, list[list[Constant] | ValuedAtom]] = {}
        for name, atoms in atoms_of.items():
            true[name] = []
            for atom in atoms:
                args, value = (atom, 1.0) if isinstance(atom, list) else (atom.args, atom.value)
                if value not in (0.0, 1.0):
                    raise ExampleError(
                        f"{part} atom {show_ground_atom(name, args)} has value {value}; "
                        "a Markov logic example takes 1 (true) or 0 (false), and numbers for predicates that "
                        f"the model declares numeric, `{name}(...): real`",
                        "schema",
                    )
                (true if value else false).setdefault(name, []).append(args)
            contradictory = {tuple(map(str, a)) for a in true[name]} & {  # type: ignore[arg-type]
                tuple(map(str, a))  # type: ignore[arg-type]
                for a in false.get(name, ())
            }
            if contradictory:
                atom_shown = show_ground_atom(name, min(contradictory))
                reason = f"contradiction in {part}: {atom_shown} is both true and false"
                raise ExampleError(reason, "contradiction")
        layout = self.layout
        slots = layout.denied if part == "truth" else {**layout.mentioned, **layout.false}
        self._relations(false, part, slots, start, count)
        return true

    def batch(self, learning: bool) -> Batch:
        """Return the packed worlds as arrays; if ``learning``, those labelled add constants to the stream."""
        worlds, types = len(self.worlds), len(self.layout.types)
        if self.strange and learning and any(self.labelled):
            for kind, constant in self.strange:  # now the stream has the constants of facts
                self.stream[kind][constant]
            self.number_facts()
        data = np.frombuffer(bytearray().join(self.rows), np.int32)
        before_each = np.cumsum([0, *map(len, self.rows)]) // data.itemsize
        places = np.frombuffer(b"".join(self.spans), np.int64).reshape(worlds, 2, self.layout.slots)
        batch = Batch(
            places[:, 0] + before_each[:worlds, None],
            places[:, 1].copy(),
            data,
            np.zeros((worlds, types), np.int32),
            np.full((worlds, types), -1, np.int64),
            np.zeros(len(data), np.int32),
            np.zeros(len(data), np.int32),
            np.zeros(0, np.int64),
            *self.tables,
            np.frombuffer(bytes(self.listed), np.uint8),
            np.frombuffer(bytes(self.labelled), np.uint8),
            self.fact_arrays,
            np.array([*self.values], np.float64),
        )
        self.make_room(len(data))
        at = 0
        before, self.worlds_ever = self.worlds_ever, self.worlds_ever + worlds
        for number in range(types):
            at = self.localise(batch, number, before, at, learning)
        if self.layout.plan.numeric and self.constants.names:
            return replace(batch, number=self.numbers()[batch.member])
        return batch
