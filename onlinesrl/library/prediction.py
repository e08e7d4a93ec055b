"""The prediction of one example."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

import msgspec

from onlinesrl.core.example import Constant, Example, ValuedAtom, arguments, unlabelled_atoms
from onlinesrl.core.learner import Estimate
from onlinesrl.core.learner import Prediction as Line
from onlinesrl.library.constants import (
    Named,
    Restore,
    Types,
    is_other_in_markov_logic,
    parts_of,
    restored,
)
from onlinesrl.library.notebook import table_html
from onlinesrl.library.tables import Table
from onlinesrl.logic.tables import VALUE, argument_names
from onlinesrl.mln.online import answer_sets

Atom = tuple[Constant, ...]


class Prediction:
    """What is predicted of an example, and how sure that is.

    Indexed by predicate it gives the atoms predicted true, as tuples of constants; ``values`` has the
    truth values (PSL) or the probabilities (marginals) of all open atoms by predicate and atom, else
    None. ``score`` is the weighted sum of features; ``certified`` tells whether it is proven that no other
    prediction has a higher one, up to rounding (``onlinesrl guide models``). Where probabilities predict, no
    state is searched for: ``certified`` is None, and ``probabilities`` says how they were computed. ``truth``
    and ``hamming`` (the number of wrong atoms) are None for an unlabelled example.
    ``line`` is what a run writes to predictions.jsonl.
    """

    def __init__(
        self,
        example: Example,
        line: Line,
        types: Types,
        valued: bool,
        texts: frozenset[Named] = frozenset(),
    ):
        self._example = example
        self.line = line
        self._types = types
        self._valued = valued
        self._texts = texts

    @cached_property
    def values(self) -> dict[str, dict[Atom, float]] | None:
        """The truth values or probabilities of all open atoms, by predicate and atom, or None."""
        atoms = self.line.predicted if self._valued else self.line.marginals
        if atoms is None:
            return None
        return {
            name: {
                atom: _value(row)
                for atom, row in zip(self._restored(name, rows), rows, strict=True)
            }
            for name, rows in atoms.items()
        }

    @cached_property
    def _restore(self) -> Restore | None:
        if self._valued:
            return None  # PSL has targets as the example has them
        names, parts = self.line.predicted, parts_of(self.example)
        return restored(self._types, names, parts, is_other_in_markov_logic, self._texts)

    def _restored(self, name: str, rows: Sequence[list[Constant] | ValuedAtom]) -> list[Atom]:
        """Return atoms with their constants as they were given."""
        restore, lists = self._restore, map(arguments, rows)
        if restore is None:
            return [*map(tuple, lists)]
        return [
            tuple(restore(name, n, constant) for n, constant in enumerate(row)) for row in lists
        ]

    @cached_property
    def best(self) -> list[Prediction]:
        """The prediction itself, and the next best ones that were asked for; ``line.best`` compares them."""
        others = list[Prediction]()
        for row in self.line.best or ():
            line = self.line.whole()
            atoms = {
                name: [atom for atom in rows if atom not in row.false.get(name, ())]
                for name, rows in line.predicted.items()
            }
            for name, rows in row.true.items():
                atoms[name] = [*atoms.get(name, ()), *rows]
            line = msgspec.structs.replace(
                line,
                predicted=atoms,
                score=row.score,
                certified=row.certified,
                hamming=None,
                margin=None,
                best=None,
                sets=None,
                truths=None,
                abstains=False,
            )
            others.append(Prediction(self._example, line, self._types, self._valued, self._texts))
        return [self, *others]

    @property
    def answer_set(self) -> list[Prediction] | None:
        """Those of ``best`` in the set with ``coverage``; None: it has every answer, or there is no set."""
        size = answer_sets.size(self.line.sets)
        return None if size is None else self.best[:size]

    @property
    def example(self) -> Example:
        """The example."""
        return self._example.whole()

    def __getstate__(self) -> dict[str, Any]:
        state = {
            k: value
            for k, value in self.__dict__.items()
            if k not in {"_restore", "values", "best"}
        }
        return {**state, "_example": self.example, "line": self.line.whole()}

    @property
    def id(self) -> Constant:
        """The id of the example."""
        return self.line.id

    @property
    def score(self) -> float:
        """The weighted sum of features."""
        return self.line.score

    @property
    def certified(self) -> bool | None:
        """Whether the prediction is proven to have the highest score; None for one by probabilities."""
        return self.line.certified

    @property
    def probabilities(self) -> Literal["exact", "sampled"] | None:
        """How the probabilities that predict were computed; None where none do."""
        return self.line.probabilities

    @property
    def formulas(self) -> Mapping[str, Estimate]:
        """The probabilities of formulas that were asked about, by their texts."""
        return self.line.formulas or {}

    @property
    def hamming(self) -> int | None:
        """The number of atoms predicted wrongly; None without a truth."""
        return self.line.hamming

    @property
    def atoms(self) -> dict[str, list[Atom]]:
        """The atoms predicted true, by predicate."""
        return {
            name: self._restored(name, [row for row in rows if _value(row) > 0.5])
            for name, rows in self.line.predicted.items()
        }

    @property
    def evidence(self) -> dict[str, list[Atom]]:
        """The atoms given as true, by predicate."""
        return {name: _true(rows) for name, rows in self.example.evidence.items()}

    @property
    def truth(self) -> dict[str, list[Atom]] | None:
        """The atoms that are true, by predicate; None if that is not known."""
        truth = self.example.truth
        return None if truth is None else {name: _true(rows) for name, rows in truth.items()}

    def __getitem__(self, predicate: str) -> list[Atom]:
        return self.atoms[predicate]

    def table(self, predicate: str) -> Table:
        """Return the atoms of a predicate: those predicted true, or all with their ``value``."""
        atoms = self[predicate] if self.values is None else [*self.values[predicate]]
        names = argument_names(self._types[predicate])
        columns: dict[str, list[Any]] = {
            name: [atom[n] for atom in atoms] for n, name in enumerate(names)
        }
        if self.values is not None:
            columns[VALUE] = [*self.values[predicate].values()]
        return Table(columns)

    def __repr__(self) -> str:
        atoms = [_spelled(name, atom) for name, rows in self.atoms.items() for atom in rows]
        listed = ", ".join(atoms[:8]) + (f", ... {len(atoms) - 8} more" if len(atoms) > 8 else "")
        return f"<Prediction of {self.id}: {listed or 'no atom'}>"

    def _repr_html_(self) -> str:
        """Return a table of the atoms, the truth beside them."""
        truth = None if self.truth is None else _spellings(self.truth)
        predicted, values = _spellings(self.atoms), self.values or {}
        valued = {
            _spelled(n, atom): v
            for n, valued_atoms in values.items()
            for atom, v in valued_atoms.items()
        }
        unlabelled = unlabelled_atoms(self.example)
        unknown = {
            _spelled(n, atom)
            for part in (values, self.atoms)
            for n, atoms in part.items()
            for atom in atoms
            if (n, tuple(map(str, atom))) in unlabelled
        }
        rows = [
            [
                name,
                valued.get(name, "yes" if name in predicted else "no"),
                "" if truth is None or name in unknown else "yes" if name in truth else "no",
            ]
            for name in dict.fromkeys([*valued, *predicted, *(truth or ())])
        ]
        sure = ", not proven to be the best" if self.certified is False else ""
        return table_html(f"{self.id}{sure}", ["atom", "predicted", "true"], rows)


def _value(row: list[Constant] | ValuedAtom) -> float:
    return row.value if isinstance(row, ValuedAtom) else 1.0


def _true(rows: Sequence[list[Constant] | ValuedAtom]) -> list[Atom]:
    return [(*arguments(row),) for row in rows if _value(row) > 0.5]


def _spelled(name: str, atom: Atom) -> str:
    return f"{name}({', '.join(map(str, atom))})"


def _spellings(atoms: Mapping[str, Sequence[Atom]]) -> dict[str, None]:
    return {_spelled(name, atom): None for name, rows in atoms.items() for atom in rows}
