"""The ground clauses that a state violates, of the clauses that an incremental grounder leaves out.

This is cutting plane inference (Riedel 2008) while facts and states change. A second grounder lists only the
true atoms. What an atom that changed may violate is found by a join over these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from math import nan

from onlinesrl.core.errors import DataError
from onlinesrl.logic.atom_index import GroundAtom
from onlinesrl.mln.ground.binding_lists import Key, Row
from onlinesrl.mln.ground.grounder import LIMITS
from onlinesrl.mln.ground.incremental_grounder import IncrementalGrounder

SHARE = 10_000
"""How many ground clauses are made and judged at a time."""


class ViolatedRows:
    """Finds violated ground clauses of those that ``grounder`` leaves out now.

    ``rows`` are the ground clauses that are kept; they follow the changes.
    """

    def __init__(self, grounder: IncrementalGrounder, rows: Mapping[Key, Row]):
        plan = grounder.plan
        self._grounder, self._rows, self.left_out = grounder, rows, grounder.left_out
        self._true = IncrementalGrounder(plan.program, plan.query, True, grounder)
        self._true.left_out = frozenset(grounder.numbers) - self.left_out
        self._before = dict[GroundAtom, float | None]()
        self._keys = dict[GroundAtom, dict[Key, None]]()
        for key in rows:
            self.note(key, True)

    def note(self, key: Key, present: bool) -> None:
        """Note that a ground clause is kept, or is no more."""
        if key[0] not in self.left_out:
            return
        for atom in self._grounder.mentioned(key):
            keys = self._keys.setdefault(atom, {})
            if present:
                keys[key] = None
            else:
                keys.pop(key, None)
            if not keys:
                del self._keys[atom]

    def about(self, atoms: Iterable[GroundAtom]) -> dict[Key, None]:
        """Return the ground clauses that are kept and mention atoms, those of evidence too."""
        return {key: None for atom in atoms for key in self._keys.get(atom, ())}

    def violated(
        self, atoms: Iterable[GroundAtom], value: Callable[[GroundAtom], float]
    ) -> dict[Key, Row]:
        """Return ground clauses that these values violate and that are not kept.

        ``atoms`` are those whose facts or values are others than at the last call. Raises DataError beyond
        the limit.
        """
        query, changes = self._true.plan.query, dict[GroundAtom, float | None]()
        for atom in atoms:
            changes[atom] = self._grounder.fact(atom)
            if atom[0] in query and value(atom) == 1.0:
                changes[atom] = nan
            self._before.setdefault(atom, self._true.fact(atom))
        result = dict[Key, Row]()
        for keys in _parts(self._true.follow(changes)):
            rows = self._grounder.only(key for key in keys if key not in self._rows)
            result |= {k: row for k, row in rows.items() if row and not row.holds(value)}
            if len(result) > LIMITS.groundings:
                text = self._grounder.clause(next(reversed(result))[0]).text
                raise DataError(
                    f"a state violates more than {LIMITS.groundings:,} ground rules of {text}; "
                    "list the targets"
                )
        return result

    def stay(self) -> None:
        """Keep all changes since the last call."""
        self._before = {}

    def go_back(self) -> None:
        """Take back the changes since ``stay``."""
        self._true.set_facts(self._before)
        self._before = {}


def _parts(keys: Iterator[Key]) -> Iterator[dict[Key, None]]:
    while part := dict.fromkeys(islice(keys, SHARE)):
        yield part
