"""Records as the facts of a world, whose answer is the entity of each.

``column(record, value)`` gives a record a value of a column, and ``Same(a, b)``, 1 or 0, labels two records,
whether they are there or not. The answer has an atom ``Entity(record, oldest record)`` for each record. The
facts of pairs, and the rules about them, are those of the resolver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from onlinesrl.core.errors import DataError, ExampleError, Infeasible, shown
from onlinesrl.core.example import Atoms, Constant, show_ground_atom
from onlinesrl.core.explain.explanation import Explanation, ExplanationError
from onlinesrl.core.io.restoring import Misfit
from onlinesrl.core.language import Program, language_of
from onlinesrl.core.rule_instance import PlacedWeight
from onlinesrl.entities.explanation import TRIES
from onlinesrl.entities.resolver import EntityChange, EntityResolver
from onlinesrl.logic.atom_index import Change, GroundAtom
from onlinesrl.logic.ground_world import Exchange, FactSchema

ENTITY, SAME, PAIR = "Entity", "Same", "Pair"
PLACES = "places"
"""The array of the places of records."""


class RecordSchema(FactSchema):
    """Facts of records; of two records with a label the one whose name is less stands first."""

    def rows(self, atoms: Atoms, part: str) -> Iterator[tuple[str, list[Constant], float | None]]:
        """See ``FactSchema.rows``. Raises DataError also for a label of one record, and for an empty id."""
        for name, constants, value in super().rows(atoms, part):
            records = [*map(str, constants)]
            if not all(map(str.strip, records if name == SAME else records[:1])):
                raise DataError(
                    f"{part}: {show_ground_atom(name, constants)} has an empty id, expected text"
                )
            if name == SAME and records[0] == records[1]:
                raise DataError(f"{part}: {SAME} has {shown(records[0])} twice, expected two")
            yield name, [*sorted(records)] if name == SAME else constants, value

    def check_change(
        self, part: str, atom: GroundAtom, value: float | None, present: float | None
    ) -> None:
        """See ``FactSchema.check_change``. Raises ExampleError for a ``query``."""
        if part == "query":
            raise ExampleError(
                f"query: {show_ground_atom(*atom)}: all pairs of records are decided, none is listed; leave "
                f"`query` out, or say in `evidence` what {SAME} is",
                "not_open",
            )
        super().check_change(part, atom, value, present)


class _State(NamedTuple):
    """What a step changes: the facts of its atoms, the places of their records, the weights."""

    facts: dict[GroundAtom, float | None]
    places: dict[str, int]
    weights: list[PlacedWeight]


class EntityWorld:
    """See ``GroundWorld``; ``new`` returns a resolver without weights, which are 0 where none is given."""

    def __init__(
        self, new: Callable[[], EntityResolver], weights: Iterable[PlacedWeight] = ()
    ) -> None:
        self._new, self._weights = new, [*weights]
        self._facts = dict[GroundAtom, float]()
        self._of_record = dict[str, dict[GroundAtom, float]]()
        """The values of each record, and its labels: an atom of two records is with both."""
        self.resolver = new()
        """The records that are there."""
        self.resolver.weigh({place: weight for place, _, weight in self._weights})
        self.touched = 0

    # the answer --------------------------------------------------------------------------------------

    @property
    def certificate(self) -> Any:
        """See ``GroundWorld``."""
        return self.resolver.certificate

    @property
    def text(self) -> str:
        """The program with the present weights."""
        return self.resolver.rules

    @property
    def program(self) -> Program:
        """The program of ``text``."""
        return language_of(".mln").parse(self.text, "<entities>", "alchemy")

    def fact(self, atom: GroundAtom) -> float | None:
        """Return the value of a fact; None if there is no such fact."""
        return self._facts.get(atom)

    def facts(self) -> dict[GroundAtom, float]:
        """Return the facts in the order of their names."""
        return dict(sorted(self._facts.items()))

    def value(self, atom: GroundAtom) -> float | None:
        """Return the value of an open atom or a fact; None if it is neither.

        All pairs of records that are there are open, but those of one source in which no entity has two.
        """
        name, records = atom = _ordered(atom)
        if atom in self._facts or not self._are_there(records):
            return self._facts.get(atom)
        a, b = records
        if name == ENTITY:
            return 1.0 if self.resolver.entity(a) == b else None
        if name != SAME or a == b or self.resolver.label_of(a, b) is not None:
            return None
        return float(self.resolver.entity(a) == self.resolver.entity(b))

    def _are_there(self, records: Sequence[str]) -> bool:
        """Tell whether there are two names, both of records that are there."""
        return len(records) == 2 and self.resolver.places.keys() >= {*records}

    def values(self) -> Iterator[tuple[GroundAtom, float]]:
        """Yield the entities of all records, in the order of names."""
        for record in sorted(self.resolver.places):
            yield (ENTITY, (record, self.resolver.entity(record))), 1.0

    def neighbourhood(
        self, atoms: Iterable[GroundAtom]
    ) -> tuple[list[GroundAtom], dict[GroundAtom, float]]:
        """See ``GroundWorld.neighbourhood``; that of an entity's atom is that of its pair.

        A pair has the levels of its columns beside it, also where a label or no key makes them needless.
        """
        pairs = {_ordered((SAME, records)) for _, records in atoms if records[0] != records[1]}
        beside = dict[GroundAtom, float]()
        for _, (a, b) in sorted(pairs):
            others = (_ordered((SAME, pair)) for pair in self.resolver.beside(a, b))
            for atom in others:
                beside[PAIR, atom[1]] = 1.0
                if atom not in pairs:
                    beside[atom] = self.value(atom) or 0.0
        beside = dict(sorted(beside.items()))
        for _, (a, b) in sorted(pairs):
            beside |= self.resolver.evidence(a, b)
        return sorted(pairs), beside

    def explain(self, atom: GroundAtom, tries: int = TRIES) -> Explanation:
        """Return why two records are of one entity or not, or what holds an entity together.

        It is solved again at most ``tries`` times. Raises ExplanationError.
        """
        name, records = atom
        if name == SAME and self._are_there(records) and records[0] != records[1]:
            return self.resolver.explain(*records, tries=tries)
        if name == ENTITY and self.value(atom) is not None:
            return self.resolver.explain(records[0], tries=tries)
        raise ExplanationError(
            f"{show_ground_atom(*atom)} is not in the answer: {self._lack(atom)}"
        )

    def _lack(self, atom: GroundAtom) -> str:
        """Return why an atom is not in the answer."""
        name, records = atom
        if name in (SAME, ENTITY) and len(records) == 2:
            for record in records:
                if record not in self.resolver.places:
                    return f"there is no record {shown(record)}"
            if name == ENTITY:
                entity = self.resolver.entity(records[0])
                return f"{shown(records[0])} is of the entity {shown(entity)}"
        return (
            f"expected {SAME} of two records, or {ENTITY} of a record and the oldest of its entity"
        )

    # steps -------------------------------------------------------------------------------------------

    def apply(
        self, changes: Mapping[GroundAtom, float | None], exchanges: list[Exchange] | None = None
    ) -> dict[GroundAtom, Change]:
        """See ``GroundWorld.apply``; no rule is ground, so none is told.

        Raises DataError for two values of a column, and for a key that too many records share.
        """
        return self._apply(changes, {})

    def _apply(
        self, changes: Mapping[GroundAtom, float | None], places: Mapping[str, int]
    ) -> dict[GroundAtom, Change]:
        """Change facts; records that were there before come at their ``places``."""
        after = dict[str, dict[GroundAtom, float]]()
        for atom, value in changes.items():
            for record in {*_records(atom)}:
                facts = after.setdefault(record, {**self._of_record.get(record, {})})
                facts.pop(atom, None)
                if value is not None:
                    facts[atom] = value
        there, rows = self.resolver.places, dict[str, dict[str, str | None] | None]()
        for record in dict.fromkeys(a for name, (a, _) in changes if name != SAME):
            row = self._row(record, after[record])
            if row is not None or record in there:
                rows[record] = row
        labels = {pair: value for (name, pair), value in changes.items() if name == SAME}
        for record in (record for record in rows if record not in there):
            labels |= {pair: x for (name, pair), x in after[record].items() if name == SAME}
        present_labels = {
            (a, b): value
            for (a, b), value in sorted(labels.items())
            if all(rows[r] is not None if r in rows else r in there for r in (a, b))
        }
        result = self.resolver.change(rows, present_labels, places)
        self.touched = self.resolver.touched
        for record, facts in after.items():
            if facts:
                self._of_record[record] = facts
            else:
                self._of_record.pop(record, None)
        for atom, value in changes.items():
            if value is None:
                self._facts.pop(atom, None)
            else:
                self._facts[atom] = value
        return _moved(result)

    def _row(self, record: str, facts: Mapping[GroundAtom, float]) -> dict[str, str | None] | None:
        """Return the values of a record by column; None where it has no fact. Raises DataError."""
        row: dict[str, str | None] = dict.fromkeys(self.resolver.columns)
        values = [atom for atom in facts if atom[0] != SAME]
        for column, (_, value) in values:
            if facts[column, (record, value)] == 1.0:
                if row[column] is not None:
                    raise DataError(
                        f"record {shown(record)} has two values of {column}, {shown(row[column])} and "
                        f"{shown(value)}; a later value corrects an earlier one if both have one id"
                    )
                row[column] = value
        return row if values else None

    # weights -----------------------------------------------------------------------------------------

    def weights_of(self, program: Any) -> list[PlacedWeight]:
        """Return the weights of a file of weights. Raises DataError where it does not fit the rules."""
        from onlinesrl.mln.lang.reweighting import weights_of

        return weights_of(self.program, program)

    def set_weights(self, weights: Iterable[PlacedWeight]) -> dict[GroundAtom, Change]:
        """Judge all records by other weights. Raises DataError, Unsolved; then nothing has changed."""
        new = [*weights]
        result = self.resolver.weigh({place: weight for place, _, weight in new})
        self._weights = new
        self.touched = self.resolver.touched
        return _moved(result)

    def set_model(
        self, program: Any, exchanges: list[Exchange] | None = None
    ) -> dict[GroundAtom, Change]:
        """Take the weights of another program, which has the same rules."""
        return self.set_weights(self.weights_of(program))

    # states ------------------------------------------------------------------------------------------

    def save(self) -> tuple[dict[GroundAtom, float], dict[str, Any]]:
        """Return the facts, and the places of the records in the order of their names."""
        places = self.resolver.places
        return self.facts(), {PLACES: np.array([places[r] for r in sorted(places)], np.int64)}

    def resume(self, facts: Mapping[GroundAtom, float], arrays: Mapping[str, Any]) -> None:
        """Become the world that was saved; this one has no facts. Raises Misfit where it cannot be."""
        records = sorted({records[0] for name, records in facts if name != SAME})
        places = [int(place) for place in arrays.get(PLACES, ())]
        if len(records) != len({*places}):
            raise Misfit(f"there are {len(records)} records, and places for {len({*places})}")
        try:
            self._apply(facts, dict(zip(records, places, strict=True)))
        except (DataError, Infeasible) as error:
            raise Misfit(str(error)) from None

    def state(self, atoms: Iterable[GroundAtom]) -> _State:
        """See ``GroundWorld``."""
        facts, places = {atom: self.fact(atom) for atom in atoms}, self.resolver.places
        records = {record for atom in facts for record in _records(atom) if record in places}
        return _State(facts, {record: places[record] for record in records}, self._weights)

    def go_back(self, facts: Mapping[GroundAtom, float | None], states: Sequence[_State]) -> None:
        """See ``GroundWorld``; records come back at their places."""
        self._apply(facts, {r: place for x in reversed(states) for r, place in x.places.items()})

    def remade(self, state: _State) -> EntityWorld:
        """See ``GroundWorld``."""
        facts = {**self._facts, **state.facts}
        present = {atom: value for atom, value in facts.items() if value is not None}
        world = EntityWorld(self._new, state.weights)
        world._apply(present, self.resolver.places | state.places)
        return world


def _ordered(atom: GroundAtom) -> GroundAtom:
    """Return an atom; of a pair the name that is less comes first."""
    return (SAME, (*sorted(atom[1]),)) if atom[0] == SAME else atom


def _records(atom: GroundAtom) -> tuple[str, ...]:
    """Return the records that an atom is about."""
    return atom[1] if atom[0] == SAME else atom[1][:1]


def _moved(result: EntityChange) -> dict[GroundAtom, Change]:
    """Return the atoms of the answer that a step changed."""
    changed = dict[GroundAtom, Change]()
    for record, (old, new) in result.moved.items():
        changed |= {(ENTITY, (record, old)): (1.0, None)} if old is not None else {}
        changed |= {(ENTITY, (record, new)): (None, 1.0)} if new is not None else {}
    return changed
