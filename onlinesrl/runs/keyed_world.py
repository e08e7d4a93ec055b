"""A world whose facts keys assert, and its state in checkpoints.

Values of PSL depend on their history, within the tolerance. So a checkpoint has the world of its last
renewal and the steps since then, also those of refused records, which a resumed run makes again: to the bit,
it goes on as an unbroken one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from math import isnan, nan
from typing import Any, Literal, NamedTuple, NotRequired, TypeAlias, TypedDict

import msgspec

from onlinesrl.core.errors import (
    DataError,
    ExampleError,
    Infeasible,
    ModelError,
    OnlinesrlError,
    Unsolved,
)
from onlinesrl.core.example import Atoms, show_ground_atom
from onlinesrl.core.io.restoring import Misfit, Natural, converted
from onlinesrl.core.rule_instance import PlacedWeight
from onlinesrl.logic.asserted_facts import AssertedFacts, Assertions, FactChanges, Facts, Key
from onlinesrl.logic.atom_index import Change, GroundAtom, same_value
from onlinesrl.logic.ground_world import FactSchema
from onlinesrl.logic.transactional_world import TransactionalWorld
from onlinesrl.logic.waiting_changes import Conflict
from onlinesrl.logic.waiting_changes import Parts as Dependence
from onlinesrl.stream.world_changes import WorldChange

UNKEYED = ""
"""The key of facts that no id asserts: no id is empty."""
BACKGROUND = None
"""The key of background facts: no record has it."""
RENEWAL = 1000
"""After so many steps the world is noted as it is, or later, see ``SHARE``."""
SHARE = 20
"""There is at least one step for so many facts before they are noted, since that costs time for each fact."""
TARGET: Literal["target"] = "target"
_Entry: TypeAlias = tuple[str, tuple[str, ...], float | Literal["target"] | None]
"""Predicate, constants and new value of a fact; None: it is no longer a fact."""
_Waiting: TypeAlias = tuple[list[_Entry], list[_Entry], str, Dependence]
"""A change that waits, the facts of its atoms in the answer, its conflict, and on what that depends."""
ARRAY = "world_"
"""Names of the world's arrays in checkpoints begin with it."""


class _Step(msgspec.Struct, omit_defaults=True):
    """New facts of a key, or new weights; neither: ids assert nothing any more."""

    key: Key = UNKEYED
    facts: list[_Entry] | None = None
    weights: list[PlacedWeight] | None = None


class _Record(msgspec.Struct, omit_defaults=True):
    """The steps that a record has led to; those of a ``refused`` one were taken back."""

    steps: list[_Step]
    refused: bool = False


class _Saved(TypedDict):
    """The state of a world in a checkpoint."""

    weights: list[PlacedWeight] | None
    asserted: list[Assertions]
    waiting: list[_Waiting]
    since: list[_Record]
    changed: Natural
    touched: Natural
    not_learned: NotRequired[Natural]


class Parts(NamedTuple):
    """What a record says: the changes of the facts that a key asserts, and labels to learn from first."""

    key: Key
    facts: FactChanges
    labels: Facts

    @property
    def replaces(self) -> bool:
        """Whether the facts and labels are all that the key asserts."""
        return self.key != UNKEYED


class KeyedWorld:
    """Facts that keys assert, and the answer under them. Steps are made within a ``record``."""

    def __init__(self, ground: TransactionalWorld, schema: FactSchema) -> None:
        self.ground, self.schema, self.asserted = ground, schema, AssertedFacts()
        self.changed = self.touched = 0
        """Sums over all steps: atoms whose answer changed, and ground rules that were made again."""
        self.not_learned = 0
        """How many labels were asserted and not learned from, since their atoms were no targets."""
        self._weights: list[PlacedWeight] | None = None
        self._newest: list[PlacedWeight] | None = None
        """The present weights of the rules; ``_weights`` are those of the noted world."""
        self._noted = _encoded([])
        self._waiting: list[_Waiting] = []
        self._arrays: Mapping[str, Any] = {}
        self._since: list[msgspec.Raw] = []
        """The records since then. They and the noted world are JSON, written once for all checkpoints."""
        self._steps: list[_Step] = []
        """Those of the present record."""
        self._replaced: list[list[Assertions]] = []
        """What keys asserted before these steps."""

    @contextmanager
    def record(self) -> Iterator[None]:
        """Make the steps of a record: if one is refused, or what follows them, all are taken back.

        Now and then the world is noted, which then goes on as a resumed one does.
        """
        figures = self.changed, self.touched, self.not_learned
        self._steps, self._replaced = [], []
        refusal: OnlinesrlError | None = None
        try:
            with self.ground.transaction():
                yield
        except OnlinesrlError as error:
            refusal = error
            for replaced in reversed(self._replaced):
                self.asserted.restore(replaced)
            self.changed, self.touched, self.not_learned = figures
        else:
            self._newest = next((x.weights for x in self._steps[::-1] if x.weights), self._newest)
        if self._steps:
            self._since.append(_encoded(_Record(self._steps, refusal is not None)))
        if len(self._since) >= max(RENEWAL, len(self.asserted) // SHARE):
            self._note()
        if refusal is not None:
            raise refusal

    def parts(self, change: WorldChange) -> Parts:
        """Return what a record says. Raises DataError, ExampleError."""
        if change.asked is not None:
            raise ExampleError("asked: a world has evidence, query and truth", "schema")
        key = str(change.id) if change.keyed else UNKEYED
        parts = {"evidence": change.evidence, "add": change.add, "set": change.set}
        parts |= {"query": change.query, "remove": change.remove}
        facts = merged(
            (atom, None if part == "remove" else value)
            for part, atoms in parts.items()
            for atom, value in self.atoms(key, part, atoms)
        )
        labels = [*self.atoms(key, "truth", change.truth)]
        merged([*facts.items(), *labels])  # to raise DataError
        return Parts(key, facts, dict(labels))

    def atoms(self, key: Key, part: str, atoms: Atoms | None) -> Iterator[tuple[GroundAtom, float]]:
        """Yield the atoms of a part of a change, with their values; those of targets are NaN."""
        schema = self.schema
        old = self.asserted.by(UNKEYED) if key == UNKEYED else {}
        for name, constants, value in schema.rows(atoms or {}, part):
            atom = name, tuple(map(str, constants))
            schema.check_change(part, atom, value, old.get(atom))
            yield atom, nan if part == "query" else 1.0 if value is None else value

    def change(self, key: Key, changes: FactChanges) -> dict[GroundAtom, Change]:
        """Change what a key asserts; return the atoms whose answer changed. Raises as ``apply`` does."""
        self._steps.append(_Step(key, _entries(changes)))
        changed = self._apply(self.asserted.consequences(key, changes))
        self._replaced.append(self.asserted.save(changes))
        self.asserted.change(key, changes)
        return changed

    def clear(self) -> dict[GroundAtom, Change]:
        """Take back all that ids assert; return the atoms whose answer changed. Raises as ``apply`` does."""
        self._steps.append(_Step())
        left = self.asserted.alone({UNKEYED, BACKGROUND})
        old, new = self.asserted.facts(), left.facts()
        changed = self._apply(
            {atom: new.get(atom) for atom in old if not same_value(old[atom], new.get(atom))}
        )
        self.asserted = left
        return changed

    def _apply(self, facts: FactChanges) -> dict[GroundAtom, Change]:
        changed = self.ground.apply(facts) if facts else {}
        self.changed += len(changed)
        self.touched += self.ground.touched if facts else 0
        return changed

    @property
    def conflicts(self) -> list[Conflict]:
        """The changes that wait until the hard rules can hold."""
        return self.ground.conflicts

    @property
    def keep_conflicts(self) -> bool:
        """Whether changes under which the hard rules cannot all hold wait."""
        return self.ground.keep_conflicts

    def set_weights(self, weights: list[PlacedWeight]) -> dict[GroundAtom, Change]:
        """Give the rules weights; return the atoms whose answer changed. Raises Unsolved."""
        self._steps.append(_Step(weights=weights))
        changed = self.ground.set_weights(weights)
        self.changed += len(changed)
        return changed

    def _note(self) -> None:
        """Note the world instead of the steps so far."""
        self._weights = self._newest
        facts, self._arrays = self.ground.save()
        self._waiting = [
            (_entries(changes), _entries({x: facts.get(x) for x in changes}), reason, parts)
            for changes, reason, parts in self.conflicts
        ]
        self._noted, self._since = _encoded(self.asserted.save()), []

    def save(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return header and arrays of a checkpoint."""
        header: dict[str, Any] = {
            "weights": self._weights,
            "asserted": self._noted,
            "waiting": self._waiting,
            "since": self._since,
            "changed": self.changed,
            "touched": self.touched,
            "not_learned": self.not_learned,
        }
        return header, {f"{ARRAY}{name}": array for name, array in self._arrays.items()}

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
        """Become, from a new world, the one that was saved. Raises Misfit."""
        saved = converted(header, _Saved)
        self._weights = self._newest = saved["weights"]
        self._noted = _encoded(saved["asserted"])
        self._arrays = {
            name.removeprefix(ARRAY): array
            for name, array in arrays.items()
            if name.startswith(ARRAY)
        }
        self._check(saved)
        try:
            if self._weights is not None:
                self.ground.set_weights(self._weights)
            self.asserted.restore(saved["asserted"])
            facts: FactChanges = {**self.asserted.facts()}
            self._waiting = saved["waiting"]
            for _, held, _, _ in self._waiting:
                facts |= _changes(held)
            self.ground.wait(
                Conflict(_changes(entries), reason, parts)
                for entries, _, reason, parts in self._waiting
            )
            if saved["asserted"] or self._arrays:
                present = {atom: x for atom in sorted(facts) if (x := facts[atom]) is not None}
                self.ground.resume(present, self._arrays)
            for record in saved["since"]:
                expected = suppress(OnlinesrlError) if record.refused else nullcontext()
                with expected, self.record():
                    self._again(record)
        except (DataError, ModelError, Infeasible, Unsolved, ValueError) as error:
            raise Misfit(str(error)) from None
        self.changed, self.touched = saved["changed"], saved["touched"]
        self.not_learned = saved.get("not_learned", 0)

    def _again(self, record: _Record) -> None:
        """Make the steps of a record again. Raises an error where they were taken back."""
        for step in record.steps:
            if step.weights is not None:
                self.set_weights(step.weights)
            elif step.facts is not None:
                self.change(step.key, _changes(step.facts))
            else:
                self.clear()
        if record.refused:
            raise Unsolved("what followed them was refused")

    def _check(self, saved: _Saved) -> None:
        """Raise Misfit where the facts of a checkpoint are none of the model's."""
        steps = [step for record in saved["since"] for step in record.steps]
        facts: list[_Entry] = [entry for step in steps for entry in step.facts or ()]
        for name, args, values, targets in saved["asserted"]:
            facts += [(name, args, value) for _, value in values]
            facts += [(name, args, TARGET) for _ in targets]
        for entries, held, *_ in saved["waiting"]:
            facts += [*entries, *held]
        for name, args, value in facts:
            if value is None:
                fits = len(args) == self.schema.arities.get(name)
            else:
                fits = self.schema.is_fact(name, args, None if value == TARGET else value)
            if not fits:
                raise Misfit(f"{show_ground_atom(name, args)} is no fact of the model")


def merged(entries: Iterable[tuple[GroundAtom, float | None]]) -> FactChanges:
    """Return changes by atom: the value of a target that also has one. Raises DataError where two differ."""
    merged: FactChanges = {}
    for atom, value in entries:
        before = merged.setdefault(atom, value)
        if same_value(before, value):
            continue
        if before is None or value is None:
            raise DataError(f"{show_ground_atom(*atom)} is removed, and given as well")
        if not isnan(before) and not isnan(value):
            raise DataError(f"{show_ground_atom(*atom)} has two values, {before:g} and {value:g}")
        merged[atom] = value if isnan(before) else before
    return merged


def _encoded(value: Any) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


def _entries(changes: Mapping[GroundAtom, float | None]) -> list[_Entry]:
    """Return changes as JSON can hold them."""
    return [
        (*atom, TARGET if value is not None and isnan(value) else value)
        for atom, value in changes.items()
    ]


def _changes(entries: list[_Entry]) -> FactChanges:
    """Return the changes of entries."""
    return {(name, args): nan if isinstance(value, str) else value for name, args, value in entries}
