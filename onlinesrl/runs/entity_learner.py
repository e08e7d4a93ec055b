"""A run over records, which says of what entity each is, and why."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from heapq import nsmallest
from io import StringIO

import msgspec

from onlinesrl.core.errors import DataError, ExampleError
from onlinesrl.core.example import Atom, Example, ValuedAtom
from onlinesrl.core.explain.explanation import Explanation
from onlinesrl.entities.resolver import EntityResolver, Membership
from onlinesrl.entities.world import SAME
from onlinesrl.runs.world_learner import WorldLearner
from onlinesrl.stream.world_changes import ChangedAtom, WorldChange

ALIKE = 12
"""So many records that hang together need each way to an answer."""


class MovedRecord(ChangedAtom, omit_defaults=True):
    """A record that is of another entity than before, and how sure that is; see ``Membership``."""

    probability: float | None = None
    nearest: str | None = None
    levels: Mapping[str, str] = msgspec.field(default_factory=dict)


class EntityLearner(WorldLearner):
    """A world of records; see ``EntityWorld``."""

    no_target = "since a record was not there yet, or no entity has both (entities.one_to_one)"

    @property
    def resolver(self) -> EntityResolver:
        """The records that are there."""
        resolver: EntityResolver = self._world.ground.resolver
        return resolver

    def _told(self, atom: ChangedAtom) -> ChangedAtom:
        if atom.value is None:
            return atom
        why = self.resolver.membership(atom.args[0])
        return MovedRecord(
            atom.predicate,
            atom.args,
            atom.value,
            atom.old,
            round(why.probability, 6),
            why.nearest,
            why.levels,
        )

    def _explained(self, atom: Atom, tries: int) -> Explanation:
        explanation: Explanation = self._world.ground.explain(atom, tries)
        return explanation

    def _present_figures(self) -> dict[str, float | None]:
        resolver = self.resolver
        counts = {"entities": resolver.number, "keyless": resolver.keyless}
        return super()._present_figures() | counts

    def entity(self, record: str) -> dict[str, object]:
        """Return the entity of a record, its records, and how sure that is. Raises ExampleError."""
        try:
            why = self.resolver.membership(record)
        except DataError as error:
            raise ExampleError(str(error)) from None
        records = self.resolver.together(record)
        return {"record": record, **why._asdict(), "records": records}

    def examples(self) -> Iterator[WorldChange]:
        """Yield records that are alike, some of them of two entities, and labels to learn from.

        All of the kernels that other records need are needed for these.
        """
        columns = [name for name in self.resolver.columns if name != self.resolver.one_to_one]
        records = [f"alike {n}" for n in range(ALIKE)]
        for n, record in enumerate(records):
            yield WorldChange(id=record, evidence={name: [[record, "0"]] for name in columns})
            if n > 1:
                apart = ValuedAtom([records[n - 2], record], 0.0)
                yield WorldChange(id=f"apart {n}", evidence={SAME: [apart]})
                label = ValuedAtom([records[n - 1], record], float(n % 2))
                yield WorldChange(id="label", truth={SAME: [label]})

    def sizes(self) -> list[tuple[int, int]]:
        """Return numbers of records, and how many entities have so many."""
        of_entity = Counter(map(self.resolver.entity, self.resolver.places))
        return sorted(Counter(of_entity.values()).items())

    def members(self) -> list[tuple[str, Membership]]:
        """Return all records, the oldest first, and how sure the entity of each is."""
        places = self.resolver.places
        records = sorted(places, key=places.__getitem__)
        return [(record, self.resolver.membership(record)) for record in records]

    def least_certain(self, example: Example, most: int) -> list[Atom]:
        """Return the pairs of the records whose entity is least certain and those nearest to them."""
        pairs = (
            sorted((record, why.nearest or ""))
            for record, why in least_sure(self.members(), 2 * most)
        )
        return [*dict.fromkeys((SAME, (*pair,)) for pair in pairs)][:most]


def least_sure(
    members: Iterable[tuple[str, Membership]], most: int
) -> list[tuple[str, Membership]]:
    """Return the records whose entity is least certain, of those that something joins to others."""
    joined = (entry for entry in members if entry[1].nearest is not None)
    return nsmallest(most, joined, key=lambda entry: entry[1].probability)


def table(members: Iterable[tuple[str, Membership]]) -> bytes:
    """Return CSV with the entity of each record."""
    text = StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(("record", "entity", "probability", "nearest"))
    for record, why in members:
        rows.writerow((record, why.entity, f"{why.probability:.6f}", why.nearest))
    return text.getvalue().encode()
