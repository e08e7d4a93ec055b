"""A weight of Markov logic by name."""

from __future__ import annotations

from typing import NamedTuple

from onlinesrl.mln.lang.clausal_form import Clause


class Entry(NamedTuple):
    """One weight by name: clause, constants of its template, value, updates it took part in."""

    clause: Clause
    key: tuple[str, ...]
    weight: float
    uses: int

    @property
    def text(self) -> str:
        """The text of the clause."""
        return self.clause.text

    @property
    def instance(self) -> str:
        """The constants with the names of their variables."""
        names = zip(self.clause.template, self.key, strict=True)
        return ", ".join(f"{name} = {constant}" for name, constant in names)
