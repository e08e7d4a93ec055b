"""Facts and who asserts them: a fact stands as long as one key asserts it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import chain
from math import isnan, nan
from typing import TypeAlias

from onlinesrl.logic.atom_index import GroundAtom, same_value

Key: TypeAlias = str | None
"""Who asserts facts: the id of a record; None: the run itself."""
Facts: TypeAlias = dict[GroundAtom, float]
"""Observed atoms with their values, and targets, whose value is NaN."""
FactChanges: TypeAlias = dict[GroundAtom, float | None]
"""New values of facts; None: the atom is no longer a fact."""
Assertions: TypeAlias = tuple[str, tuple[str, ...], list[tuple[Key, float]], list[Key]]
"""A predicate, constants, the values that keys assert, oldest first, and the keys that make it a target."""


class AssertedFacts:
    """What each key asserts, and the facts that follow.

    Keys count, not messages: a key that asserts the same again changes nothing. Of several values of an
    atom the one that was asserted last counts, and any value before a target.
    """

    def __init__(self) -> None:
        self._by_key: dict[Key, Facts] = {}
        self._values: dict[GroundAtom, dict[Key, float]] = {}
        self._targets: dict[GroundAtom, dict[Key, None]] = {}
        self._number = 0

    def __len__(self) -> int:
        """Return the number of facts."""
        return self._number

    def by(self, key: Key) -> Mapping[GroundAtom, float]:
        """Return what a key asserts."""
        return self._by_key.get(key, {})

    def replacement(self, key: Key, facts: Mapping[GroundAtom, float | None]) -> FactChanges:
        """Return how what a key asserts changes if ``facts`` are all of it from now on."""
        before = self.by(key)
        return {
            atom: value
            for atom in sorted({**before, **facts})
            if not same_value(value := facts.get(atom), before.get(atom))
        }

    def alone(self, keys: Collection[Key]) -> AssertedFacts:
        """Return what these keys assert, without the others."""
        alone = AssertedFacts()
        alone.restore(
            (
                name,
                args,
                [v for v in values if v[0] in keys],
                [key for key in targets if key in keys],
            )
            for name, args, values, targets in self.save()
        )
        return alone

    def consequences(self, key: Key, changes: FactChanges) -> FactChanges:
        """Return the facts that change where what a key asserts changes."""
        now = {atom: self._fact(atom) for atom in changes}
        later = {atom: self._fact(atom, {key: value}) for atom, value in changes.items()}
        return {atom: later[atom] for atom in changes if not same_value(now[atom], later[atom])}

    def change(self, key: Key, changes: FactChanges) -> None:
        """Change what a key asserts."""
        facts = self._by_key.setdefault(key, {})
        for atom, value in changes.items():
            self._number -= atom in self._values or atom in self._targets
            for index in (self._values, self._targets):
                keys = index.get(atom, {})
                keys.pop(key, None)
                if not keys:
                    index.pop(atom, None)
            if value is None:
                facts.pop(atom, None)
            else:
                facts[atom] = value
                if isnan(value):
                    self._targets.setdefault(atom, {})[key] = None
                else:
                    self._values.setdefault(atom, {})[key] = value
            self._number += atom in self._values or atom in self._targets
        if not facts:
            del self._by_key[key]

    def _fact(self, atom: GroundAtom, new: Mapping[Key, float | None] = {}) -> float | None:
        """Return the value of a fact, NaN for a target, if keys assert ``new`` values in place of others."""
        values = (value for value in new.values() if value is not None and not isnan(value))
        old = reversed(self._values.get(atom, {}).items())
        for value in chain(values, (value for key, value in old if key not in new)):
            return value
        keys = (key for key in self._targets.get(atom, {}) if key not in new)
        is_target = any(value is not None for value in new.values()) or any(True for _ in keys)
        return nan if is_target else None

    def facts(self) -> Facts:
        """Return all facts, in the order of names."""
        atoms = sorted({**self._values, **self._targets})
        return {atom: value for atom in atoms if (value := self._fact(atom)) is not None}

    def save(self, atoms: Iterable[GroundAtom] | None = None) -> list[Assertions]:
        """Return who asserts what, of these atoms or of all, for ``restore``."""
        return [
            (*atom, [*self._values.get(atom, {}).items()], [*self._targets.get(atom, ())])
            for atom in (sorted({**self._values, **self._targets}) if atoms is None else atoms)
        ]

    def restore(self, saved: Iterable[Assertions]) -> None:
        """Restore what ``save`` returned; other atoms stay."""
        for name, constants, values, targets in saved:
            atom = name, constants
            self._number -= atom in self._values or atom in self._targets
            for key in (*self._values.pop(atom, ()), *self._targets.pop(atom, ())):
                del self._by_key[key][atom]
            self._number += bool(values or targets)
            if values:
                self._values[atom] = dict(values)
            if targets:
                self._targets[atom] = dict.fromkeys(targets)
            for key, value in (*((key, nan) for key in targets), *values):
                self._by_key.setdefault(key, {})[atom] = value
