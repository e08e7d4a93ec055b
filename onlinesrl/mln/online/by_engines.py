"""What engines do for a world beside its prediction: its marginals, and audits."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.core.errors import Infeasible, OnlinesrlError, Unsolved
from onlinesrl.core.example import ValuedAtom
from onlinesrl.core.interrupt import leavable
from onlinesrl.mln.ground.convert import clause_model, clause_weights
from onlinesrl.mln.ground.ground_mrf import GroundMRF
from onlinesrl.mln.inference.protocols import MarginalEngine, Solution
from onlinesrl.mln.inference.rounding import Magnitude
from onlinesrl.mln.kernels import ground_network
from onlinesrl.mln.kernels.grounding_frames import OK
from onlinesrl.mln.online.reporting import Results

if TYPE_CHECKING:
    from onlinesrl.mln.online.example_step import ExampleProcessor

AUDIT_TOLERANCE = 1e-6


class AuditError(OnlinesrlError):
    """Two exact engines disagree on the value of an example: a defect of the program."""


def likeliest(
    worlds: ExampleProcessor,
    results: Results,
    w: int,
    model: GroundMRF,
    weight: Floats,
    engine: MarginalEngine,
) -> Solution:
    """Predict each atom, or group, by its most probable value.

    Raises Unsolved where no feasible state to start from was found.
    """
    from onlinesrl.mln.inference.exact_marginals import likeliest as most_probable

    try:
        with leavable():
            marginals = engine.marginals(model, weight)
    except Unsolved:
        results.unsolved.add(w)
        raise
    net = worlds.grounder.net
    state = most_probable(model, marginals.probability)
    ground_network.define(net, state)
    values = np.round(marginals.probability, 6).tolist()
    if marginals.diagnostics is not None:
        results.diagnostics[w] = marginals.diagnostics
    results.marginals[w] = {
        name: [
            ValuedAtom(args, values[n])
            for n, args in enumerate(atoms, first)
            if net.fixed[n] == ground_network.OPEN
        ]
        for name, first, atoms in worlds.grounder.atoms(results.batch, w)
    }
    return Solution(state, 0.0, math.inf, engine.route, certified=False)


def margin(worlds: ExampleProcessor, model: GroundMRF, weight: Floats, best: Solution) -> float:
    """Return by how much the best state scores more than any other; infinite where that is not proven.

    Raises Unsolved.
    """
    second = worlds.inference.whole.second_best(model, weight, best.state)
    if second is None or not second.certified:
        return math.inf
    if not Magnitude.of(weight).lost:
        return best.score - second.score
    return float(model.exact_score(best.state, weight) - model.exact_score(second.state, weight))


def audit(worlds: ExampleProcessor, results: Results, w: int) -> None:
    """Solve a world whole by the ILP, with the averaged weights; see ``check_audits``."""
    net = worlds.grounder.net
    with leavable():
        model, place = clause_model(net)
    ground = worlds.weights.of(net, averaged=True)
    weight = clause_weights(model, place, ground)
    none = (net.fixed[: net.size[ground_network.ATOMS]] == ground_network.TRUE).astype(np.uint8)
    constant = ground_network.soft_score(net, none, ground) - model.score(none, weight)
    try:
        with leavable():
            whole = worlds.inference.whole.solve(model, weight)
    except Infeasible:
        results.audits[w] = -math.inf
    except Unsolved:
        return
    else:
        if whole.certified:
            results.audits[w] = whole.score + constant


def check_audits(results: Results) -> None:
    """Compare the values that the worlds got with those of the ILP. Raises AuditError."""
    out = results.out
    for w, value in results.audits.items():
        found = float(out.score[w]) if out.status[w] == OK else -math.inf
        if not math.isclose(found, value, rel_tol=AUDIT_TOLERANCE, abs_tol=AUDIT_TOLERANCE):
            raise AuditError(
                f"audit of example {results.worlds[w].example.id}: {results.routes[int(out.route[w])]} "
                f"gives {found!r}, the whole ILP {value!r}"
            )
