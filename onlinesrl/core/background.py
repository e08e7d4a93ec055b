"""Facts that all examples share, as if each example contained its own copy of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from msgspec.structs import replace

from onlinesrl.core.errors import ExampleError
from onlinesrl.core.example import (
    Atoms,
    Example,
    GroundAtom,
    Number,
    ValuedAtom,
    show_ground_atom,
)


class Background:
    """Atoms that are put into the evidence of every example, before its own atoms.

    ``values`` holds their values by predicate and constants, ``numeric`` the predicates whose are numbers.
    """

    def __init__(self, atoms: Sequence[GroundAtom] = ()):
        self.values: dict[str, dict[tuple[str, ...], float]] = {}
        self.numeric = {atom.predicate for atom in atoms if isinstance(atom.value, Number)}
        for name, args, value, _ in atoms:
            assert value is not None
            self.values.setdefault(name, {})[args] = float(value)
        self.atoms: Atoms = {
            name: [
                [*args] if value == 1.0 and name not in self.numeric else ValuedAtom([*args], value)
                for args, value in rows.items()
            ]
            for name, rows in self.values.items()
        }

    def __bool__(self) -> bool:
        return bool(self.atoms)

    def beside(self, example: Example, predicates: Collection[str] | None = None) -> Example:
        """Return an example with these facts added to its evidence; ``predicates``: only of these predicates.

        Raises ExampleError where its evidence contradicts a fact.
        """
        if not self.atoms:
            return example
        self._check(example.evidence)
        names = (
            self.atoms
            if predicates is None
            else [name for name in self.atoms if name in predicates]
        )
        evidence: Atoms = dict(example.evidence)
        for name in names:
            evidence[name] = [*self.atoms[name], *evidence.get(name, ())]
        return replace(example, evidence=evidence)

    def _check(self, evidence: Atoms) -> None:
        for name, key, value in _valued(evidence, self.values):
            own_value = self.values[name].get(key, value)
            if own_value != value:
                spelled = "{:g}".format if name in self.numeric else _said
                atom = show_ground_atom(name, key)
                raise ExampleError(
                    f"contradiction: the evidence says {spelled(value)} of {atom}, and "
                    f"source.background {spelled(own_value)}",
                    "contradiction",
                )


def _valued(
    evidence: Atoms, values: Mapping[str, Mapping[tuple[str, ...], float]]
) -> Iterator[tuple[str, tuple[str, ...], float]]:
    """Yield the atoms of evidence that may contradict facts, with their values."""
    for name, rows in evidence.items():
        soft = any(value != 1.0 for value in values.get(name, {}).values())
        for row in rows if name in values else ():
            if isinstance(row, ValuedAtom):
                yield name, tuple(map(str, row.args)), row.value
            elif soft:
                yield name, tuple(map(str, row)), 1.0


def _said(value: float) -> str:
    return {0.0: "false", 1.0: "true"}.get(value, f"{value:g}")
