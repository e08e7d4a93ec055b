"""The weights of a learner, by rule and constants."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from onlinesrl.core.example import Constant
from onlinesrl.core.rule_instance import Row
from onlinesrl.library.notebook import SHOWN_ROWS, table_html
from onlinesrl.library.tables import Table

Key = tuple[str, ...]
"""The text of a rule, then the constants of its ``+`` variables, as text, in the order of the rule.

Whole numbers find the same as their text.
"""


class Weights(Mapping[Key, float]):
    """The weights that predict at one moment: a mapping by the text of the rule and the constants.

    A rule without ``+`` variables has one weight, under its text alone: ``weights[text,]``. Where a rule
    stands twice, the second has ``weights[text, "the 2."]``.
    """

    def __init__(self, rows: Sequence[Row]):
        self.rows = tuple(rows)
        self._by_key = {_key(row): row for row in self.rows}

    def __getitem__(self, key: str | Sequence[Constant]) -> float:
        return self._by_key[(key,) if isinstance(key, str) else (*map(str, key),)].weight

    def __iter__(self) -> Iterator[Key]:
        return iter(self._by_key)

    def __len__(self) -> int:
        return len(self._by_key)

    def heaviest(self, n: int = 20) -> Weights:
        """Return the ``n`` most influential: by |weight| times the updates that each took part in."""
        used = [row for row in self.rows if row.updates or row.weight != 0.0]
        used.sort(key=lambda row: -abs(row.weight) * max(1, row.updates or 1))
        return Weights(used[:n])

    def about(self, constant: Constant) -> Weights:
        """Return the weights whose rule or constants name a constant."""
        return Weights([row for row in self.rows if str(constant) in row.about()])

    def table(self) -> Table:
        """Return a table: the rule with its constants, its weight, updates, and standard error if known."""
        columns: dict[str, list[Any]] = {
            "rule": [row.line() for row in self.rows],
            "weight": [row.weight for row in self.rows],
            "updates": [row.updates or 0 for row in self.rows],
        }
        errors = [row.standard_error for row in self.rows]
        if any(errors):
            columns["standard_error"] = errors
        return Table(columns)

    def __repr__(self) -> str:
        return f"<{len(self)} weights>"

    def __str__(self) -> str:
        """Return a line for each weight, of the first SHOWN_ROWS."""
        lines = [f"{row.number()}  {row.line()}" for row in self.rows[:SHOWN_ROWS]]
        more = len(self) - len(lines)
        return "\n".join(lines + [f"... {more:,} more"] * (more > 0))

    def _repr_html_(self) -> str:
        table = self.table()
        return table_html(f"{len(self):,} weights", [*table.columns], [*table.rows()])


def _key(row: Row) -> Key:
    again = (name if value is None else value for name, value in row.constants.items())
    return (row.text, *again)
