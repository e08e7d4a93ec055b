"""Packing of examples into one database of many small worlds, for PSL programs.

Constants are numbered in the order of their names, so that a world does not depend on the others in its
batch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from onlinesrl.core.arrays import Bools, Floats, Ints32
from onlinesrl.core.background import Background
from onlinesrl.core.errors import ExampleError
from onlinesrl.core.example import (
    Constant,
    Example,
    ValuedAtom,
    arguments,
    asked_atoms,
    listed_unlabelled,
    show_ground_atom,
    unlabelled_atoms,
)
from onlinesrl.psl.lang.data import UNDECLARED, AtomTable, Database, Relation, no_atoms

AtomValues = dict[tuple[str, ...], float]
"""Values of the atoms of one predicate, by constants."""


@dataclass(frozen=True, eq=False)
class CheckedExample:
    """A checked example: observed atoms and targets, by predicate.

    ``targets`` has the arguments as spelled in the example. ``truth`` (targets,) is in the order of
    ``PslPacker.query`` and the targets; None without labels. ``latent`` (targets,) are those whose truth is
    not known, where ``truth`` is 0.
    """

    example: Example
    observed: Mapping[str, AtomValues]
    targets: Mapping[str, dict[tuple[str, ...], list[Constant]]]
    truth: Floats | None
    latent: Bools
    """bool[targets]; True: a target whose truth is not known."""
    scored: Bools
    """bool[targets]; False: a target that is latent or not asked for."""


class PslPacker:
    """Checks examples and packs them into one database, each as a world.

    ``arities`` are those of the program's predicates, ``query`` the predicates with targets. An example
    may list at most ``max_atoms`` atoms of a predicate. Every world also has the facts of ``background``.
    """

    def __init__(
        self,
        arities: Mapping[str, int],
        query: Sequence[str],
        max_atoms: int,
        background: Background | None = None,
    ):
        self.query = tuple(query)
        self.background = background or Background()
        self.arities = {name: arities[name] for name in (*query, *arities)}
        self.max_atoms = max_atoms

    def world(self, example: Example) -> CheckedExample:
        """Check an example. Raises ExampleError."""
        if example.query is None:
            raise ExampleError(
                "no `query`: an example of a PSL program lists the atoms to predict there", "schema"
            )
        observed = {
            name: self._atoms(name, atoms, "evidence", self.arities)
            for name, atoms in self.background.beside(example).evidence.items()
        }
        targets = {name: self._targets(name, example, observed) for name in self.query}
        for name in example.query:
            self._known(name, "query", self.query)
        if not any(targets.values()):
            raise ExampleError("`query` lists no atom to predict", "schema")
        truth = None if example.truth is None else self._truth(example, targets)
        latent, asked = self._latent(example, targets), asked_atoms(example, self.query)
        is_asked = [
            asked is None or (n, key) in asked for n, rows in targets.items() for key in rows
        ]
        scored = ~latent & np.array(is_asked, np.bool_)
        return CheckedExample(example, observed, targets, truth, latent, scored)

    def database(self, worlds: Sequence[CheckedExample]) -> Database:
        """Pack worlds; the first column of every table is the number of the world."""
        names: set[str] = set()
        for world in worlds:
            for part in (world.observed, world.targets):
                for keys in part.values():
                    names.update(chain.from_iterable(keys))
        constants = sorted(names)
        number = {name: n for n, name in enumerate(constants)}
        relations = {}
        for name, arity in self.arities.items():
            observed = _table([world.observed.get(name, {}) for world in worlds], arity, number)
            values = [world.observed[name].values() for world in worlds if name in world.observed]
            targets = _table([world.targets.get(name, {}) for world in worlds], arity, number)
            relations[name] = Relation(
                AtomTable(observed, np.array([*chain.from_iterable(values)], np.float64)),
                AtomTable(targets, np.full(targets.shape[1], np.nan)),
                no_atoms(arity + 1),
            )
        return Database(tuple(constants), relations)

    # one example ---------------------------------------------------------------------------------

    def _targets(
        self, name: str, example: Example, observed: Mapping[str, AtomValues]
    ) -> dict[tuple[str, ...], list[Constant]]:
        """Return the distinct targets of a predicate, in the order of the example."""
        listed = (example.query or {}).get(name, [])
        rows = [*map(arguments, listed)]
        targets: dict[tuple[str, ...], list[Constant]] = {}
        for key, row in zip(self._keys(name, rows, "query"), rows, strict=True):
            targets.setdefault(key, row)
        for key in observed.get(name, ()):
            if key in targets:
                reason = f"{show_ground_atom(name, key)} is in the evidence and in `query`"
                raise ExampleError(reason, "contradiction")
        return targets

    def _truth(
        self, example: Example, targets: Mapping[str, Mapping[tuple[str, ...], list[Constant]]]
    ) -> Floats:
        """Return the true value of every target, 0 if none is given."""
        truth = {
            name: self._atoms(name, atoms, "truth", self.query)
            for name, atoms in (example.truth or {}).items()
        }
        for name, atoms in truth.items():
            for key in atoms:
                if key not in targets[name]:
                    reason = f"truth atom {show_ground_atom(name, key)} is not listed in `query`"
                    raise ExampleError(reason, "not_open")
        values = (truth.get(name, {}).get(key, 0.0) for name in self.query for key in targets[name])
        return np.array([*values], np.float64)

    def _latent(
        self, example: Example, targets: Mapping[str, Mapping[tuple[str, ...], list[Constant]]]
    ) -> Bools:
        """Return which targets the example lists as unlabelled."""
        unlabelled = unlabelled_atoms(example)
        for name in sorted(unlabelled.predicates):
            self._known(name, "unlabelled", self.query)
        for name, atoms in listed_unlabelled(example).items() if unlabelled else ():
            self._known(name, "unlabelled", self.query)
            for key in self._keys(name, [*map(arguments, atoms)], "unlabelled"):
                if key not in targets[name]:
                    atom = show_ground_atom(name, key)
                    reason = f"unlabelled atom {atom} is not listed in `query`"
                    raise ExampleError(reason, "not_open")
        return np.array(
            [(name, key) in unlabelled for name in self.query for key in targets[name]], np.bool_
        )

    def _atoms(
        self,
        name: str,
        rows: Sequence[list[Constant] | ValuedAtom],
        part: str,
        predicates: Collection[str],
    ) -> AtomValues:
        """Return the distinct atoms of a predicate with their values."""
        self._known(name, part, predicates)
        plain = [row for row in rows if isinstance(row, list)]
        if len(plain) == len(rows):
            return dict.fromkeys(self._keys(name, plain, part), 1.0)
        valued = [row if isinstance(row, ValuedAtom) else ValuedAtom(row) for row in rows]
        values_: AtomValues = {}
        keys = self._keys(name, [row.args for row in valued], part)
        for key, row in zip(keys, valued, strict=True):
            if not 0.0 <= row.value <= 1.0:
                atom_text = f"{part} atom {show_ground_atom(name, key)} has value {row.value:g}"
                raise ExampleError(f"{atom_text}; expected a number from 0 to 1", "schema")
            if values_.setdefault(key, row.value) != row.value:
                values = f"{values_[key]:g} and {row.value:g}"
                reason = (
                    f"contradiction in {part}: {show_ground_atom(name, key)} has values {values}"
                )
                raise ExampleError(reason, "contradiction")
        return values_

    def _keys(self, name: str, rows: Sequence[list[Constant]], part: str) -> list[tuple[str, ...]]:
        """Return the constants of atoms as strings; check the arity."""
        arity = self.arities[name]
        if not set(map(len, rows)) <= {arity}:
            wrong = next(row for row in rows if len(row) != arity)
            raise ExampleError(
                f"{part} atom {show_ground_atom(name, wrong)}: {name} takes {arity} "
                f"argument{'s' * (arity != 1)}, found {len(wrong)}",
                "schema",
            )
        if len(rows) > self.max_atoms:
            raise ExampleError(
                f"{part} has {len(rows)} atoms of {name}; limits.max_atoms is {self.max_atoms}",
                "limit",
            )
        return [tuple(map(str, row)) for row in rows]

    @staticmethod
    def _known(name: str, part: str, predicates: Collection[str]) -> None:
        if name not in predicates:
            kind = "predicate" if part == "evidence" else f"query predicate in {part}"
            listed = ", ".join(sorted(predicates))
            hint = f"; {UNDECLARED}" if part == "evidence" else ""
            raise ExampleError(f"unknown {kind} {name}; the model has {listed}{hint}", "schema")


def _table(
    atoms: Sequence[Iterable[tuple[str, ...]]], arity: int, number: Mapping[str, int]
) -> Ints32:
    """Return the columns of one predicate's atoms: the world, then the constants."""
    rows = [
        (world, *map(number.__getitem__, key)) for world, keys in enumerate(atoms) for key in keys
    ]
    return np.array(rows, np.int32).reshape(len(rows), arity + 1).T.copy()
