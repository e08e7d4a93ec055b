"""The least change of evidence that flips a prediction of Markov logic.

Which atoms could matter, and how much, is read off a network in which evidence atoms are open: its
ground clauses are those of every choice of their values. Once these are fixed, a state's score is a sum
over the components that the other atoms make, so only evidence in clauses of the atom's own component
matters; and a change of the evidence in some clauses changes a difference of two scores by at most
the sum of their absolute weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec
import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.core.errors import ExampleError
from onlinesrl.core.example import Atoms, Example, arguments
from onlinesrl.core.explain.counterfactual import (
    Candidate,
    CounterfactualQuery,
    candidates_of,
    search,
)
from onlinesrl.core.explain.counterfactual import changed as changed_example
from onlinesrl.core.explain.explanation import Atom, ExplanationError, Flip, shown
from onlinesrl.mln.explain.predicted_world import PredictedWorld, Predictor, atom_names, true_atoms
from onlinesrl.mln.ground.convert import clause_model, clause_weights
from onlinesrl.mln.ground.ground_mrf import GroundMRF
from onlinesrl.mln.ground.grounder import Grounder
from onlinesrl.mln.ground.join_planner import compile_program
from onlinesrl.mln.ground.model_index import Layout
from onlinesrl.mln.inference.components import components
from onlinesrl.mln.kernels import ground_network as n


def least_change(
    world: PredictedWorld, example: Example, a: int, gap: float, asked: CounterfactualQuery
) -> Flip | None:
    """Return the least change that flips atom ``a`` of a world, which is not valid afterwards.

    ``gap`` is the proven difference to the best state with the other value. None: not asked for.
    """
    if not asked.tries:
        return None
    predictor = world.predictor
    atom, group = world.names[a], [world.names[b] for b in world.members(a)]
    names, value = world.names, bool(world.state[a])
    candidates = _candidates(world, example, asked)
    reaches = _reaches(predictor, example, names, atom, candidates)
    mattering = [replace(c, reach=r) for c, r in zip(candidates, reaches, strict=True) if r > 0]

    def flipped(sets: Sequence[Sequence[Candidate]]) -> list[str | None]:
        outcomes = predictor.predict([changed_example(example, each) for each in sets])
        found: list[str | None] = []
        for outcome in outcomes:
            true = set() if outcome.prediction is None else true_atoms(outcome.prediction)
            flips = outcome.prediction is not None and (atom in true) != value
            found.append(_value_text(atom, [b for b in group if b in true]) if flips else None)
        return found

    return search(mattering, gap, flipped, asked.tries)


def _value_text(atom: Atom, true: Sequence[Atom]) -> str:
    """Return the new value of an atom, or what is true of its group instead."""
    if atom in true:
        return "true"
    return shown(true[0]) if true else "false"


def _candidates(
    world: PredictedWorld, example: Example, asked: CounterfactualQuery
) -> list[Candidate]:
    """Return the candidates that are no values of functions, and no numbers.

    Raises ExplanationError for impossible ones.
    """
    fixed = world.net.fixed
    open_ = {atom for a, atom in enumerate(world.names) if fixed[a] == n.OPEN}
    program = world.predictor.grounder.layout.plan.program
    for name, args in asked.candidates or ():
        known = program.predicates.get(name)
        if known is None or name in program.functions or len(known.types) != len(args):
            raise ExplanationError(
                f"{shown((name, args))}: no atom of the model, so it cannot change"
            )
        if known.numeric:
            raise ExplanationError(f"{shown((name, args))} has a number, which is not changed")
        if (name, args) in open_:
            raise ExplanationError(
                f"{shown((name, args))} is predicted itself, so it cannot change"
            )
    found = candidates_of(example, asked)
    numeric = {name for name, each in program.predicates.items() if each.numeric}
    names = program.predicates.keys() - program.functions.keys() - numeric
    return [c for c in found if c.atom[0] in names]


def _reaches(
    predictor: Predictor,
    example: Example,
    names: Sequence[Atom],
    atom: Atom,
    candidates: Sequence[Candidate],
) -> list[float]:
    """Return how much each candidate can change a difference of scores; inf where that is not known."""
    try:
        known, model, weight = _opened(predictor, example, names, candidates)
    except ExampleError:
        return [np.inf] * len(candidates)
    number = {name: a for a, name in enumerate(known)}
    held = np.zeros(model.n_atoms, np.bool_)
    held[[number[c.atom] for c in candidates]] = True
    row = np.repeat(np.arange(model.n_clauses), np.diff(model.start))
    literal = np.abs(model.literals) - 1
    free = replace(
        model,
        start=np.append(0, np.cumsum(np.bincount(row[~held[literal]], minlength=model.n_clauses))),
        literals=model.literals[~held[literal]],
        group=np.where(held, np.int32(-1), model.group),
    )
    live = (model.hard | (weight != 0)) & (np.diff(free.start) > 0)
    atoms, clauses = components(free, live).having(number[atom])
    reach = np.where(model.hard, np.inf, np.abs(weight))
    inside = np.zeros(model.n_clauses, np.bool_)
    inside[clauses] = True
    entries = held[literal] & inside[row]
    total = np.bincount(literal[entries], reach[row[entries]], minlength=model.n_atoms)
    grouped = held & (model.group >= 0) & np.isin(model.group, model.group[atoms])
    total = np.where(grouped, np.inf, total)  # a group's constraint is hard
    return [float(total[number[c.atom]]) for c in candidates]


def _opened(
    predictor: Predictor,
    example: Example,
    names: Sequence[Atom],
    candidates: Sequence[Candidate],
) -> tuple[list[Atom], GroundMRF, Floats]:
    """Return the atoms, the model and its weights of a network in which candidates are open as well."""
    plan, packer = predictor.grounder.layout.plan, predictor.grounder.packer
    opened = dict.fromkeys([*plan.query, *(c.atom[0] for c in candidates)])
    layout = Layout(compile_program(plan.program, [*opened]))
    limits = predictor.inference.limits
    grounder = Grounder(layout, predictor.weights.stream, limits, packer.background)
    grounder.packer.set_shown(packer.shown())
    batch = grounder.ground_one(_with_open(example, names, candidates))
    known = atom_names(grounder, batch)
    model, place = clause_model(grounder.net, folded=False)
    return known, model, clause_weights(model, place, _ground_weights(predictor, grounder))


def _with_open(example: Example, names: Sequence[Atom], candidates: Sequence[Candidate]) -> Example:
    """Return an example that lists its atoms and the candidates as open."""
    open_: Atoms = {}
    gone = {c.atom for c in candidates}
    for name, args in dict.fromkeys([*names, *gone]):
        open_.setdefault(name, []).append([*args])
    evidence: Atoms = {
        name: [row for row in rows if (name, tuple(map(str, arguments(row)))) not in gone]
        for name, rows in example.evidence.items()
    }
    return msgspec.structs.replace(example, evidence=evidence, query=open_, truth=None)


def _ground_weights(predictor: Predictor, grounder: Grounder) -> Floats:
    """Return the averaged weights of another layout's ground clauses.

    Clauses of evidence alone have none, and a constant share in every score.
    """
    net = grounder.net
    numbers = {plan.clause: c for c, plan in enumerate(predictor.grounder.layout.plan.clauses)}
    here = [numbers.get(plan.clause, -1) for plan in grounder.layout.plan.clauses]
    rows = int(net.size[n.ROWS])
    own = np.array([*here, -1], np.int32)[net.row_clause[:rows]]
    net.row_clause[:rows] = own
    net.row_weight[:rows][own < 0] = -1
    columns = predictor.weights.arrays.key.shape[1] - 1
    net = replace(net, row_key=np.ascontiguousarray(net.row_key[:, :columns]))
    weight = predictor.averaged(net)
    weight[: net.clause_start[rows]][np.repeat(own < 0, net.row_len[:rows])] = 0.0
    return weight
