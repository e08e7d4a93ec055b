"""A world whose facts keys assert, and its state in checkpoints.

Values of PSL depend on their history, within the tolerance. So a checkpoint has the world of its last
renewal and the steps since then, which a resumed run makes again: to the bit, it goes on as an unbroken one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isnan, nan
from typing import Any, Literal, NotRequired, TypeAlias, TypedDict

from onlinesrl.core.errors import DataError, Infeasible, ModelError, Unsolved
from onlinesrl.core.example import show_ground_atom
from onlinesrl.core.io.restoring import Misfit, Natural, converted
from onlinesrl.core.language import Program
from onlinesrl.logic.asserted_facts import AssertedFacts, Assertions, FactChanges, Key
from onlinesrl.logic.atom_index import Change, GroundAtom, same_value
from onlinesrl.logic.ground_world import FactSchema
from onlinesrl.logic.transactional_world import TransactionalWorld
from onlinesrl.logic.waiting_changes import Conflict, Parts

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
_Step: TypeAlias = tuple[Key, list[_Entry]] | str | None
"""A key with the changes of its facts, the text of a model with new weights, or None: ids assert nothing."""
_Waiting: TypeAlias = tuple[list[_Entry], list[_Entry], str, Parts]
"""A change that waits, the facts of its atoms in the answer, its conflict, and on what that depends."""
ARRAY = "world_"
"""Names of the world's arrays in checkpoints begin with it."""


class _Saved(TypedDict):
    """The state of a world in a checkpoint."""

    weights: str | None
    asserted: list[Assertions]
    waiting: list[_Waiting]
    since: list[_Step]
    changed: Natural
    touched: Natural
    not_learned: NotRequired[Natural]


class KeyedWorld:
    """Facts that keys assert, and the answer under them; ``parse`` reads the text of a model."""

    def __init__(
        self, ground: TransactionalWorld, schema: FactSchema, parse: Callable[[str], Program]
    ) -> None:
        self.ground, self.schema, self.asserted = ground, schema, AssertedFacts()
        self.changed = self.touched = 0
        """Sums over all steps: atoms whose answer changed, and ground rules that were made again."""
        self.not_learned = 0
        """How many labels were asserted and not learned from, since their atoms were no targets."""
        self._parse = parse
        self._weights: str | None = None
        self._noted: list[Assertions] = []
        self._waiting: list[_Waiting] = []
        self._arrays: Mapping[str, Any] = {}
        self._since: list[_Step] = []

    def change(self, key: Key, changes: FactChanges) -> dict[GroundAtom, Change]:
        """Change what a key asserts; return the atoms whose answer changed. Raises as ``apply`` does."""
        changed = self._apply(self.asserted.consequences(key, changes))
        self.asserted.change(key, changes)
        self._note((key, _entries(changes)))
        return changed

    def clear(self) -> dict[GroundAtom, Change]:
        """Take back all that ids assert; return the atoms whose answer changed. Raises as ``apply`` does."""
        left = self.asserted.alone({UNKEYED, BACKGROUND})
        old, new = self.asserted.facts(), left.facts()
        changed = self._apply(
            {atom: new.get(atom) for atom in old if not same_value(old[atom], new.get(atom))}
        )
        self.asserted = left
        self._note(None)
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

    def set_weights(self, text: str) -> dict[GroundAtom, Change]:
        """Give the rules the weights of a model; return the atoms whose answer changed. Raises DataError."""
        changed = self.ground.set_weights(self._parse(text))
        self.changed += len(changed)
        self._note(text)
        return changed

    def _note(self, step: _Step) -> None:
        """Note a step. Now and then note the world instead, which then goes on as a resumed one does."""
        self._since.append(step)
        if len(self._since) >= max(RENEWAL, len(self.asserted) // SHARE):
            texts = [step for step in self._since if isinstance(step, str)]
            self._weights = texts[-1] if texts else self._weights
            facts, self._arrays = self.ground.save()
            self._waiting = [
                (_entries(changes), _entries({x: facts.get(x) for x in changes}), reason, parts)
                for changes, reason, parts in self.conflicts
            ]
            self._noted, self._since = self.asserted.save(), []

    def save(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return header and arrays of a checkpoint."""
        saved = _Saved(
            weights=self._weights,
            asserted=self._noted,
            waiting=self._waiting,
            since=[*self._since],
            changed=self.changed,
            touched=self.touched,
            not_learned=self.not_learned,
        )
        return dict(saved), {f"{ARRAY}{name}": array for name, array in self._arrays.items()}

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
        """Become, from a new world, the one that was saved. Raises Misfit."""
        saved = converted(header, _Saved)
        self._weights, self._noted = saved["weights"], saved["asserted"]
        self._arrays = {
            name.removeprefix(ARRAY): array
            for name, array in arrays.items()
            if name.startswith(ARRAY)
        }
        self._check(saved)
        try:
            if self._weights is not None:
                self.ground.set_weights(self._parse(self._weights))
            self.asserted.restore(self._noted)
            facts: FactChanges = {**self.asserted.facts()}
            self._waiting = saved["waiting"]
            for _, held, _, _ in self._waiting:
                facts |= _changes(held)
            self.ground.wait(
                Conflict(_changes(entries), reason, parts)
                for entries, _, reason, parts in self._waiting
            )
            if self._noted:
                present = {atom: x for atom in sorted(facts) if (x := facts[atom]) is not None}
                self.ground.resume(present, self._arrays)
            for step in saved["since"]:
                if step is None:
                    self.clear()
                elif isinstance(step, str):
                    self.set_weights(step)
                else:
                    self.change(step[0], _changes(step[1]))
        except (DataError, ModelError, Infeasible, Unsolved) as error:
            raise Misfit(str(error)) from None
        self.changed, self.touched = saved["changed"], saved["touched"]
        self.not_learned = saved.get("not_learned", 0)

    def _check(self, saved: _Saved) -> None:
        """Raise Misfit where the facts of a checkpoint are none of the model's."""
        facts: list[_Entry] = [
            entry for step in saved["since"] if isinstance(step, tuple) for entry in step[1]
        ]
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


def _entries(changes: Mapping[GroundAtom, float | None]) -> list[_Entry]:
    """Return changes as JSON can hold them."""
    return [
        (*atom, TARGET if value is not None and isnan(value) else value)
        for atom, value in changes.items()
    ]


def _changes(entries: list[_Entry]) -> FactChanges:
    """Return the changes of entries."""
    return {(name, args): nan if isinstance(value, str) else value for name, args, value in entries}
