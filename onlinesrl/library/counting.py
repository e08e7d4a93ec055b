"""Counts of satisfied groundings in Python, those of ``onlinesrl count``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from onlinesrl.core.errors import UsageError
from onlinesrl.core.language import language_of
from onlinesrl.library.inference import Evidence, atoms_given, read
from onlinesrl.library.model import Model, model_of
from onlinesrl.library.notebook import table_html
from onlinesrl.library.tables import Table

if TYPE_CHECKING:
    from onlinesrl.mln.counting.program_counts import Count

_LARGEST = 2**63 - 1


class Counts:
    """The counts of a model's formulas, in its order: ``satisfied``, ``violated``, ``groundings`` of each.

    A rule with ``+`` variables has one for each of their constants, and a soft rule of several clauses one
    for each clause, as they have weights. Numbers that are no estimates are exact, however large.
    """

    def __init__(self, counts: Sequence[Count]):
        self.counts = (*counts,)

    def __getitem__(self, number: int) -> Count:
        return self.counts[number]

    def __len__(self) -> int:
        return len(self.counts)

    def __iter__(self) -> Iterator[Count]:
        return iter(self.counts)

    def table(self) -> Table:
        """Return a row per count; a column whose numbers are beyond 64 bits has floating-point ones."""
        columns: dict[str, list[int | float]] = {
            "satisfied": [count.satisfied for count in self],
            "groundings": [count.groundings for count in self],
        }
        for name, numbers in columns.items():
            if max(numbers, default=0) > _LARGEST:
                columns[name] = [*map(float, numbers)]
        rules, formulas = [count.rule for count in self], [count.formula for count in self]
        named: dict[str, list[Any]] = {"rule": rules, "formula": formulas}
        return Table(named | columns)

    def __repr__(self) -> str:
        return f"<Counts of {len(self)} formulas>"

    def __str__(self) -> str:
        """Return a line per count, as the command prints it."""
        return "\n".join(map(str, self))

    def _repr_html_(self) -> str:
        rows = [[count.formula, count.satisfied, count.groundings] for count in self]
        return table_html(f"{len(self):,} formulas", ["formula", "satisfied", "groundings"], rows)


def count(
    model: Model | str,
    evidence: Evidence = (),
    *,
    method: str = "exact",
    i_bound: int | None = None,
) -> Counts:
    """Count the satisfied groundings of each formula, without grounding, as ``onlinesrl count`` does.

    ``evidence`` is a whole world, given as for ``infer``: what it does not have is false. ``method`` is
    ``exact``, or ``ijgp`` for estimates with clusters of at most ``i_bound`` (2) variables.

    Raises ModelError for a rule that cannot be counted so, DatabaseError, DataError, ExampleError,
    UsageError.

    >>> model = Model('''Friends(person, person)
    ... Smokes(person)
    ... 1.1 Friends(x, y) ^ Smokes(x) => Smokes(y)''')
    >>> print(count(model, {"Friends": [["Anna", "Bob"]], "Smokes": ["Anna"]})[0].violated)
    1
    """
    from onlinesrl.logic.dialect import dialect_of
    from onlinesrl.mln.counting.program_counts import count_program

    model = model_of(model)
    if model.language is language_of(".psl"):
        raise UsageError("PSL's rules have no satisfied groundings, but potentials; see infer")
    dialect = dialect_of(model.dialect)
    program, facts = atoms_given(model.written, read(evidence), dialect)
    return Counts(count_program(program, facts, method, i_bound))
