"""Exact marginals in components of small induced width, and sampled ones in the others."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from onlinesrl.core.arrays import Floats, Ints
from onlinesrl.core.errors import Infeasible
from onlinesrl.mln.ground.ground_mrf import GroundMRF, State, network_of
from onlinesrl.mln.inference.clause_chains import chained
from onlinesrl.mln.inference.clique_elimination import CliqueTables
from onlinesrl.mln.inference.components import components, restrict, solve_components
from onlinesrl.mln.inference.mcmc_diagnostics import combine
from onlinesrl.mln.inference.protocols import MarginalEngine, Marginals, Wide
from onlinesrl.mln.inference.router import build_structure
from onlinesrl.mln.kernels import sum_product as sum_product_module
from onlinesrl.mln.kernels.elimination_order import GENERIC


class Exact:
    """Sum-product variable elimination of each component that is narrow enough, ``sampler`` for the others.

    It is clause by clause or, if that is too wide, with ``chained`` clauses, or on ``CliqueTables``. The
    route is ``exact``, the sampler's route, or both as in ``exact+mcsat``. Raises Wide if a table would be
    too large and there is no sampler.
    """

    def __init__(self, sampler: MarginalEngine | None = None) -> None:
        self._sampler = sampler

    @property
    def route(self) -> str:
        """The sampler's."""
        return "exact" if self._sampler is None else self._sampler.route

    def marginals(self, model: GroundMRF, weight: Floats) -> Marginals:
        """See ``MarginalEngine.marginals``; ``log_z`` is that of ``w . f``, known if nothing is sampled."""

        def narrow(atoms: Ints, clauses: Ints) -> Marginals | None:
            with suppress(Wide):
                return _by_clause(restrict(model, atoms, clauses), weight[clauses])
            return None

        def wide(atoms: Ints, clauses: Ints) -> Marginals:
            part, w = restrict(model, atoms, clauses), weight[clauses]
            with suppress(Wide):
                return _by_chain(part, w)
            try:
                return CliqueTables().marginals(part, w)
            except Wide:
                if self._sampler is None:
                    raise
                return self._sampler.marginals(part, w)

        live = model.hard | (weight != 0)
        return together(model.n_atoms, solve_components(components(model, live), narrow, wide))


def _by_chain(model: GroundMRF, weight: Floats) -> Marginals:
    """Eliminate with long clauses as chains. Raises Wide, also where no clause is long."""
    split = chained(model, weight)
    if split is None:
        raise Wide("the induced width is too large for elimination")
    answer = _by_clause(*split)
    return replace(answer, probability=answer.probability[: model.n_atoms])


def _by_clause(model: GroundMRF, weight: Floats) -> Marginals:
    """Eliminate with every atom or group as a variable, the defined atoms too."""
    net, order = network_of(model)
    memory = build_structure(net, model)
    unary, pairs = np.zeros(len(memory.unary)), np.zeros(len(memory.table))
    false = np.zeros(model.n_clauses)
    log_z = sum_product_module.sum_product(net, memory, weight, unary, pairs, false)
    if log_z == -np.inf:
        raise Infeasible("no state satisfies the hard clauses and the groups")
    atoms = np.arange(model.n_atoms)
    probability = np.empty(model.n_atoms)
    probability[order] = unary[atoms + net.var_of[atoms] + 1]
    generic = memory.row_kind[: model.n_clauses] == GENERIC
    # the tables leave out what clauses over one or two variables count where all their atoms are false,
    # and count other clauses 0 where they are true
    left_out = generic | model.satisfied(np.zeros(model.n_atoms, np.uint8))
    log_z += float(weight[left_out].sum())
    return Marginals(np.clip(probability, 0.0, 1.0), log_z, "exact", 0)


def together(n_atoms: int, by_atoms: Sequence[tuple[Ints, Marginals]]) -> Marginals:
    """Join the marginals of the parts of a model, each with its atoms; an atom's last part is what counts.

    An atom of no part has 0. ``log_z`` is right where no clause is in two parts.
    """
    probability = np.zeros(n_atoms)
    for atoms, part in by_atoms:
        probability[atoms] = part.probability
    places, parts = [atoms for atoms, _ in by_atoms], [part for _, part in by_atoms]
    log_zs = [part.log_z for part in parts if part.log_z is not None]
    samples = max((part.samples for part in parts), default=0)
    return Marginals(
        probability,
        float(sum(log_zs)) if len(log_zs) == len(parts) else None,
        "+".join(sorted({route for part in parts for route in part.route.split("+")})) or "exact",
        samples,
        combine(n_atoms, samples, places, [part.diagnostics for part in parts]),
    )


def likeliest(model: GroundMRF, probability: Floats, threshold: Floats | None = None) -> State:
    """Return the most probable value of each group (perhaps none of its atoms) and of each other atom.

    With a ``threshold`` of each atom, one of no group is true if its probability is at least that.
    """
    true = probability > 0.5 if threshold is None else probability >= threshold
    state = true.astype(np.uint8)
    for group, exactly in enumerate(model.exactly.tolist()):
        members = np.flatnonzero(model.group == group)
        best = members[np.argmax(probability[members])]
        none = 0.0 if exactly else 1.0 - float(probability[members].sum())
        state[members] = 0
        state[best] = exactly or probability[best] > none
    return state
