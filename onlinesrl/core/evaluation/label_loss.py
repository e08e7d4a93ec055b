"""What a wrong atom costs in the label loss, a sum over atoms or part of F1, by predicate and constants."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Literal, NamedTuple, TypeAlias

import numpy as np
from pydantic import Field

from onlinesrl.core.arrays import Floats
from onlinesrl.core.errors import OnlinesrlError
from onlinesrl.core.example import Constant
from onlinesrl.core.explain.explanation import read_atom

ANY = "_"
Cost = Annotated[float, Field(ge=0, allow_inf_nan=False)]
ByAtom: TypeAlias = Mapping[str, Cost | dict[Literal["missed", "extra"], Cost]]
"""Costs by atom; ``missed`` is that of a true atom predicted false, ``extra`` the other."""
Given: TypeAlias = ByAtom | Literal["balanced"]
"""Costs by atom, or those that balance the labels seen so far (``class_balance``)."""
EXTRA, MISSED = 0, 1
"""Places of the costs of an atom, by its truth."""


class Costs:
    """The costs that hold for the predicates of a query: 1, but where ``given`` says otherwise.

    Its keys are atoms such as ``InField(_, title)``, in which ``_`` is any constant, or predicates; of
    several that fit an atom the last holds. ``balanced`` ones are 1 here; see ``class_balance``. Raises
    ValueError for one that does not fit ``arities``.
    """

    def __init__(self, given: Given, arities: Mapping[str, int]) -> None:
        costs: ByAtom = {} if isinstance(given, str) else given
        self._entries: list[_Entry] = []
        for text, cost in costs.items():
            by_error = cost if isinstance(cost, dict) else {"extra": cost, "missed": cost}
            pair = by_error.get("extra", 1.0), by_error.get("missed", 1.0)
            atom: tuple[str, tuple[str, ...] | None] = text.strip(), None
            try:
                atom = read_atom(text) if "(" in text else atom
            except OnlinesrlError as error:
                raise ValueError(str(error)) from None
            self._entries.append(_Entry(*atom, pair))
        for text, entry in zip(costs, self._entries, strict=True):
            if entry.predicate not in arities:
                predicates = ", ".join(arities)
                raise ValueError(f"{text}: expected a predicate of the query ({predicates})")
            if entry.constants is not None and len(entry.constants) != arities[entry.predicate]:
                raise ValueError(
                    f"{text}: {entry.predicate} has {arities[entry.predicate]} arguments"
                )

    def constants(self) -> Iterator[tuple[str, int, str]]:
        """Yield the predicate, the place and the text of each constant that a key names."""
        for entry in self._entries:
            for place, constant in enumerate(entry.constants or ()):
                if constant != ANY:
                    yield entry.predicate, place, constant

    def of(self, predicate: str, rows: Sequence[Sequence[Constant]]) -> Floats:
        """Return the costs of a predicate's atoms, float64[atom, (EXTRA, MISSED)]."""
        costs = np.ones((len(rows), 2))
        for entry in self._entries:
            if entry.predicate == predicate and entry.constants is None:
                costs[:] = entry.cost
            elif entry.predicate == predicate:
                costs[[n for n, row in enumerate(rows) if entry.fits(row)]] = entry.cost
        return costs


class _Entry(NamedTuple):
    predicate: str
    constants: tuple[str, ...] | None
    cost: tuple[float, float]

    def fits(self, row: Sequence[Constant]) -> bool:
        constants = self.constants or ()
        return all(c in {ANY, str(constant)} for c, constant in zip(constants, row, strict=True))
