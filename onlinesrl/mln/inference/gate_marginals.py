"""Marginals of a model and of gates: atoms that hard clauses define, and that no other clause depends on.

Gates join the components that they name. So those asked about are eliminated with these components alone, as
many at a time as are narrow together.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import cache

import numpy as np

from onlinesrl.core.arrays import Floats, Ints
from onlinesrl.mln.ground.ground_mrf import GroundMRF
from onlinesrl.mln.inference.components import components, restrict
from onlinesrl.mln.inference.exact_marginals import Exact, together
from onlinesrl.mln.inference.protocols import MarginalEngine, Marginals, Wide

Atoms = frozenset[int]


class GateModel:
    """A model whose atoms from number ``first`` on are gates; ``plain`` is the model without them.

    The clauses that define a gate have no later atom.
    """

    def __init__(self, model: GroundMRF, weight: Floats, first: int) -> None:
        self.model, self.weight, self._first = model, weight, first
        last = np.full(model.n_clauses, -1)
        clause = np.repeat(np.arange(model.n_clauses), np.diff(model.start))
        np.maximum.at(last, clause, np.abs(model.literals) - 1)
        self._order = np.argsort(last, kind="stable")
        self._start = np.searchsorted(last[self._order], np.arange(first, model.n_atoms + 1))
        self._own = np.sort(self._order[: self._start[0]])
        self.plain = restrict(model, np.arange(first), self._own), weight[self._own]
        live = self.plain[0].hard | (self.plain[1] != 0)
        self._parts = components(self.plain[0], live)
        self.decided_by = cache(self._decided_by)

    def deciding(self, atoms: Ints) -> tuple[Ints, GroundMRF, Floats]:
        """Return the atoms of the gates and components that decide some atoms, their model, and weights."""
        of = [self.decided_by(gate) for gate in atoms[atoms >= self._first].tolist()]
        gates = Atoms().union(*(gates for gates, _ in of))
        firsts = [*Atoms().union(*(firsts for _, firsts in of))]
        number = self._parts.number[np.append(atoms[atoms < self._first], firsts).astype(np.int64)]
        plain, rows = self._parts.several(np.unique(number))
        chosen = np.sort(np.append(plain, [*gates]).astype(np.int64))
        clauses = np.sort(np.concatenate([self._own[rows], *map(self._clauses, gates)]))
        return chosen, restrict(self.model, chosen, clauses), self.weight[clauses]

    def _clauses(self, gate: int) -> Ints:
        place = gate - self._first
        return self._order[self._start[place] : self._start[place + 1]]

    def _decided_by(self, atom: int) -> tuple[Atoms, Atoms]:
        """Return the gates that decide an atom, with itself if it is one, and components' first atoms."""
        if atom < self._first:
            part = self._parts.number[atom]
            return Atoms(), Atoms([int(self._parts.atoms[self._parts.atom_start[part]])])
        named = set((np.abs(self.model.select(self._clauses(atom)).literals) - 1).tolist())
        gates, firsts = zip(*map(self.decided_by, named - {atom}), strict=True)
        return Atoms([atom]).union(*gates), Atoms().union(*firsts)


def gate_marginals(
    engine: MarginalEngine, model: GroundMRF, weight: Floats, first: int, asked: Ints
) -> Marginals:
    """Return the marginals of a model, whose atoms from number ``first`` on are gates.

    Of the gates, those ``asked`` and what they depend on have a probability. It is exact where the components
    that a gate names are narrow with it, if the engine is ``Exact``. Raises Infeasible, Unsolved.
    """
    if first == model.n_atoms or not isinstance(engine, Exact):
        return engine.marginals(model, weight)
    of, found = GateModel(model, weight, first), list[tuple[Ints, Marginals]]()

    @cache
    def narrow(*gates: int) -> bool:
        """Find the marginals of atoms, if they and what decides them are narrow together."""
        atoms, part, weights = of.deciding(np.array(gates))
        with suppress(Wide):
            found.append((atoms, Exact().marginals(part, weights)))
            return True
        return False

    groups, wide, too_wide = dict[Atoms, list[int]](), list[int](), set[int]()
    for gate in asked[asked >= first].tolist():
        groups.setdefault(of.decided_by(gate)[1], []).append(gate)
    for parts, gates in groups.items():
        at, size, most = 0, 1, len(gates)
        while at < len(gates) and not parts & too_wide:
            if narrow(*gates[at : at + size]):
                at, size = at + size, min(2 * size, most)
            elif size > 1:
                size = most = size // 2
            else:
                too_wide |= {part for part in parts if not narrow(part)}
                wide, at = [*wide, gates[at]], at + 1
        wide += gates[at:]
    if wide:
        atoms, part, weights = of.deciding(np.array(wide))
        found.insert(0, (atoms, engine.marginals(part, weights)))
    result = engine.marginals(*of.plain)
    found.append((np.arange(first), result))
    return replace(together(model.n_atoms, found), log_z=result.log_z)
