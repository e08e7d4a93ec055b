"""Facts that all examples share, as if each example contained its own copy of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec.structs import replace

from onlinesrl.core.errors import ExampleError
from onlinesrl.core.example import (
    Atoms,
    Example,
    GroundAtom,
    Number,
    ValuedAtom,
    arguments,
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
        for name, rows in example.evidence.items():
            facts = self.values.get(name, {})
            soft = any(value != 1.0 for value in facts.values())
            for row in rows if facts else ():
                if not (soft or isinstance(row, ValuedAtom)):
                    continue
                value = row.value if isinstance(row, ValuedAtom) else 1.0
                key = tuple(map(str, arguments(row)))
                fact = facts.get(key, value)
                if fact != value:
                    words = {} if name in self.numeric else {0.0: "false", 1.0: "true"}
                    said, known = (words.get(number, f"{number:g}") for number in (value, fact))
                    raise ExampleError(
                        f"contradiction: the evidence says {said} of {show_ground_atom(name, key)}, and "
                        f"source.background {known}",
                        "contradiction",
                    )
        names = (
            self.atoms
            if predicates is None
            else [name for name in self.atoms if name in predicates]
        )
        evidence: Atoms = dict(example.evidence)
        for name in names:
            evidence[name] = [*self.atoms[name], *evidence.get(name, ())]
        return replace(example, evidence=evidence)
