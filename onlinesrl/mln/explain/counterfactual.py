"""The smallest change of evidence that flips a prediction of Markov logic.

The search grounds a network in which candidate evidence atoms are open. Its ground clauses cover every
choice of the candidates' values. For fixed values, a state's score is a sum over the connected components
of the other atoms. Therefore only evidence in clauses of the predicted atom's component matters. A change
of evidence changes a difference of two scores by at most the sum of the absolute weights of its clauses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec
import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.core.errors import ExampleError
from onlinesrl.core.example import Atom, Atoms, Example, arguments, named_atoms
from onlinesrl.core.explain.counterfactual import (
    Candidate,
    CounterfactualQuery,
    candidates_of,
    search,
)
from onlinesrl.core.explain.counterfactual import changed as changed_example
from onlinesrl.core.explain.explanation import ExplanationError, Flip, shown
from onlinesrl.mln.explain.predicted_world import PredictedWorld, Predictor, atom_names
from onlinesrl.mln.ground.ground_mrf import GroundMRF, clause_model, clause_weights
from onlinesrl.mln.ground.grounder import Grounder
from onlinesrl.mln.ground.join_planner import compile_program
from onlinesrl.mln.ground.model_index import Layout
from onlinesrl.mln.inference.components import components
from onlinesrl.mln.kernels import ground_network as n
from onlinesrl.mln.kernels.grounding_frames import EVERY


def least_change(
    world: PredictedWorld, example: Example, a: int, gap: float, query: CounterfactualQuery
) -> Flip | None:
    """Return the smallest change that flips atom ``a`` of a world; the world is invalid afterwards.

    ``gap`` is the proven score difference to the best state with the other value. None: no search requested.
    """
    if not query.tries:
        return None
    predictor = world.predictor
    atom, group = world.names[a], [world.names[b] for b in world.members(a)]
    value = bool(world.state[a])
    candidates = _candidates(world, example, query)
    reaches = _reaches(world, example, a, candidates)
    mattering = [replace(c, reach=r) for c, r in zip(candidates, reaches, strict=True) if r > 0]

    def flipped(sets: Sequence[Sequence[Candidate]]) -> list[str | None]:
        outcomes = predictor.predict([changed_example(example, change) for change in sets])
        values: list[str | None] = []
        for outcome in outcomes:
            predicted = {} if outcome.prediction is None else outcome.prediction.predicted
            true = named_atoms(predicted)
            flips = outcome.prediction is not None and (atom in true) != value
            true_names = [shown(b) for b in group if b in true] or ["false"]
            value_text = "true" if atom in true else true_names[0]
            values.append(value_text if flips else None)
        return values

    return search(mattering, gap, flipped, query.tries)


def _candidates(
    world: PredictedWorld, example: Example, query: CounterfactualQuery
) -> list[Candidate]:
    """Return the candidate atoms, without functions and numeric atoms.

    Raises ExplanationError for a requested candidate that cannot change.
    """
    fixed = world.net.fixed
    open_ = {atom for a, atom in enumerate(world.names) if fixed[a] == n.OPEN}
    program = world.predictor.grounder.layout.plan.program
    for name, args in query.candidates or ():
        predicate = program.predicates.get(name)
        if predicate is None or name in program.functions or len(predicate.types) != len(args):
            raise ExplanationError(
                f"{shown((name, args))}: no atom of the model, so it cannot change"
            )
        if predicate.numeric:
            raise ExplanationError(f"{shown((name, args))} has a number, which is not changed")
        if (name, args) in open_:
            raise ExplanationError(
                f"{shown((name, args))} is predicted itself, so it cannot change"
            )
    candidates = candidates_of(example, query)
    numeric = {name for name, declared in program.predicates.items() if declared.numeric}
    names = program.predicates.keys() - program.functions.keys() - numeric
    return [c for c in candidates if c.atom[0] in names]


def _reaches(
    world: PredictedWorld, example: Example, a: int, candidates: Sequence[Candidate]
) -> list[float]:
    """Return the largest change of a score difference to atom ``a`` by each candidate; inf if unknown."""
    try:
        opened, model, weight = _opened(world, example, candidates)
    except ExampleError:
        return [np.inf] * len(candidates)
    number = {name: a for a, name in enumerate(opened)}
    is_candidate = np.zeros(model.n_atoms, np.bool_)
    is_candidate[[number[c.atom] for c in candidates]] = True
    row = np.repeat(np.arange(model.n_clauses), np.diff(model.start))
    literal = np.abs(model.literals) - 1
    free = replace(
        model,
        start=np.append(
            0, np.cumsum(np.bincount(row[~is_candidate[literal]], minlength=model.n_clauses))
        ),
        literals=model.literals[~is_candidate[literal]],
        group=np.where(is_candidate, np.int32(-1), model.group),
    )
    live = (model.hard | (weight != 0)) & (np.diff(free.start) > 0)
    parts = components(free, live)
    # what is ground lazily may connect everything
    every = world.lazy is not None
    atoms, clauses = parts.span(0, len(parts)) if every else parts.having(number[world.names[a]])
    reach = np.where(model.hard, np.inf, np.abs(weight))
    in_component = np.zeros(model.n_clauses, np.bool_)
    in_component[clauses] = True
    entries = is_candidate[literal] & in_component[row]
    total = np.bincount(literal[entries], reach[row[entries]], minlength=model.n_atoms)
    grouped = is_candidate & (model.group >= 0) & np.isin(model.group, model.group[atoms])
    total = np.where(grouped, np.inf, total)  # a group's constraint is hard
    return [float(total[number[c.atom]]) for c in candidates]


def _opened(
    world: PredictedWorld, example: Example, candidates: Sequence[Candidate]
) -> tuple[list[Atom], GroundMRF, Floats]:
    """Return the atoms, the model and its weights of a network in which candidates are open.

    Clauses that the world grounds lazily are left out where they have no candidate.
    """
    predictor = world.predictor
    changing = {c.atom for c in candidates}
    listed: Atoms = {}
    for name, args in dict.fromkeys([*world.names, *changing]):
        listed.setdefault(name, []).append([*args])
    evidence: Atoms = {
        name: [row for row in rows if (name, tuple(map(str, arguments(row)))) not in changing]
        for name, rows in example.evidence.items()
    }
    asked = msgspec.structs.replace(example, evidence=evidence, query=listed, truth=None)
    plan, packer = predictor.grounder.layout.plan, predictor.grounder.packer
    opened = dict.fromkeys([*plan.query, *(c.atom[0] for c in candidates)])
    layout = Layout(compile_program(plan.program, [*opened]))
    limits = predictor.inference.limits
    grounder = Grounder(layout, predictor.weights.stream, limits, packer.background)
    grounder.packer.set_shown(packer.shown())
    names, lazy = {c.atom[0] for c in candidates}, world.lazy.left_out if world.lazy else ()
    lazily = {
        plan.clauses[c].clause
        for c in lazy
        if names.isdisjoint(x.atom.predicate for x in plan.clauses[c].clause.literals)
    }
    eager = np.array([0 if p.clause in lazily else EVERY for p in layout.plan.clauses], np.int64)
    batch = grounder.ground_one(asked, plans=replace(layout.plans, eager=eager))
    atoms = atom_names(grounder, batch)
    model, place = clause_model(grounder.net, folded=False)
    return atoms, model, clause_weights(model, place, _ground_weights(predictor, grounder))


def _ground_weights(predictor: Predictor, grounder: Grounder) -> Floats:
    """Return the averaged weights of the ground clauses of a grounder with another layout.

    Clauses of evidence alone get weight 0, because they contribute the same to every score.
    """
    net = grounder.net
    numbers = {plan.clause: c for c, plan in enumerate(predictor.grounder.layout.plan.clauses)}
    numbers_here = [numbers.get(plan.clause, -1) for plan in grounder.layout.plan.clauses]
    rows = int(net.size[n.ROWS])
    row_clause = np.array([*numbers_here, -1], np.int32)[net.row_clause[:rows]]
    net.row_clause[:rows] = row_clause
    net.row_weight[:rows][row_clause < 0] = -1
    columns = predictor.weights.arrays.key.shape[1] - 1
    net = replace(net, row_key=np.ascontiguousarray(net.row_key[:, :columns]))
    weight = predictor.averaged(net)
    weight[: net.clause_start[rows]][np.repeat(row_clause < 0, net.row_len[:rows])] = 0.0
    return weight
