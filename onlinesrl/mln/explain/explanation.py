"""Explanation of a predicted atom: ground rules for and against it, and the best alternative."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from onlinesrl.core.arrays import Floats, Ints
from onlinesrl.core.example import Atom, Atoms, Constant, Example
from onlinesrl.core.explain.counterfactual import CounterfactualQuery
from onlinesrl.core.explain.explanation import (
    Explanation,
    ExplanationError,
    Other,
    Reason,
    first_of,
    ordered,
    shown,
)
from onlinesrl.core.kernels.covariance import sigmoid
from onlinesrl.mln.explain.counterfactual import least_change
from onlinesrl.mln.explain.leave_one_out import leave_one_out
from onlinesrl.mln.explain.predicted_world import PredictedWorld, Predictor
from onlinesrl.mln.ground.ground_mrf import State
from onlinesrl.mln.ground.model_index import Layout
from onlinesrl.mln.kernels import ground_network as n
from onlinesrl.mln.lang.clausal_form import Clause
from onlinesrl.mln.lang.weight_file import rule_text


def explain(
    predictor: Predictor, example: Example, atom: Atom | None, query: CounterfactualQuery
) -> Explanation:
    """See ``Learner.explain``."""
    world = PredictedWorld.of(predictor, example)
    if atom is None:
        atom = first_of(_by_certainty(world), example)
    a = _number(world, atom)
    named = words_of(predictor.grounder.layout, example.evidence)
    fields: dict[str, Any] = {
        "id": str(example.id),
        "atom": shown(atom),
        "value": float(world.state[a]),
        "certified": world.certified,
        "words": {constant: named[constant] for constant in atom[1] if constant in named},
    }
    if world.net.fixed[a] != n.OPEN:
        return Explanation(**fields, given=True)
    alternative = world.best_otherwise(a)
    local = world.turned(a, None if alternative is None else alternative[0])
    model = world.model
    gain = world.gain(world.state, local)
    other = None if alternative is None else _other(world, a, *alternative)
    names, state = world.names, world.state
    members = world.members(a)
    true = [shown(names[b]) for b in members if state[b]]
    group = predictor.grounder.layout.plan.groups.get(atom[0])
    if group is not None:
        fields["group"] = f"{group.show(atom[0])}, here {true[0] if true else 'none'}"
    if len(members) > 1 and state[a]:
        before = [shown(names[b]) for b in members if state[b] and b != a]
        after = [shown(names[b]) for b in members if local[b] and b != a]
        fields["instead"] = (after or before or ["none of its group"])[0]
    if other is not None and (variance := predictor.variance(world.net, state, local)):
        fields["notes"] = (_taught(float(gain.sum()), variance),)
    if alternative is None:
        broken: Ints = world.place[model.hard & ~model.satisfied(local)]
        instances = (_instance(world, g) for g in broken.tolist() if g >= 0)
        clauses = predictor.weights.clauses
        rules = (f"{_text(world, clauses[c], key)}." for c, key, _ in instances)
        fields["forbidden"] = tuple(dict.fromkeys(rules))
    # ground clauses whose truth stays although one of their atoms changes, of those that are always ground
    clause = np.repeat(np.arange(model.n_clauses), np.diff(model.start))
    literal_atom = np.abs(model.literals) - 1
    touched = np.unique(clause[state[literal_atom] != local[literal_atom]])
    touched = touched[world.place[touched] < world.eager]
    undecided = int(np.sum((world.weight[touched] != 0) & (gain[touched] == 0)))
    fields |= {"reasons": _reasons(world, gain), "undecided": undecided, "other": other}
    proven = 0.0  # the proven score difference to all states with the other value
    if other is None:
        proven = np.inf
    elif world.certified and other.certified:
        proven = other.cost
    flip = least_change(world, example, a, proven, query)
    fields |= leave_one_out(predictor, example, atom, query.tries)
    return Explanation(**fields, flip=flip)


def words_of(layout: Layout, evidence: Atoms) -> dict[str, str]:
    """Return a readable word for each constant of a query type.

    The words come from the first evidence relation between such constants and a type that no rule joins on.
    """
    plan = layout.plan
    queried = {t for q in plan.query for t in layout.arguments(q)}
    for name, atoms in evidence.items():
        types = layout.arguments(name) if name in layout.evidence else ()
        if len(types) == 2 and types[0] not in plan.local and types[1] in queried:
            rows = (row for row in atoms if isinstance(row, list) and len(row) == 2)
            return {str(other): str(word) for word, other in rows}
    return {}


def least_certain(predictor: Predictor, example: Example, most: int) -> list[Atom]:
    """See ``Learner.least_certain``; certainty is the loss of score by the other value alone.

    A group is represented by its true atom, or by the atom of the highest score if none is true.
    """
    return _by_certainty(PredictedWorld.of(predictor, example))[:most]


def _by_certainty(world: PredictedWorld) -> list[Atom]:
    world.complete_turns()
    cost, net = -_turn_gains(world), world.net
    by_cost = []
    for v in range(int(net.size[n.VARIABLES])):
        atoms = range(*net.var_start[v : v + 2].tolist())
        members = [a for a in atoms if a < len(world.names) and net.fixed[a] == n.OPEN]
        true = [a for a in members if world.state[a]]
        false = [a for a in members if not world.state[a]]
        alternatives = [cost[a] for a in false] + [0.0] * (len(true) > 0 and not net.exactly[v])
        if members and alternatives:
            a = true[0] if true else min(false, key=cost.__getitem__)
            by_cost.append((min(alternatives) + (cost[a] if true else 0.0), a))
    return [world.names[a] for _, a in sorted(by_cost)]


def _turn_gains(world: PredictedWorld) -> Floats:
    """Return the gain of score by flipping each atom alone in the predicted state, float64[atoms]."""
    model, state = world.model, world.state
    clause = np.repeat(np.arange(model.n_clauses), np.diff(model.start))
    atom = np.abs(model.literals) - 1
    true = (state[atom] != 0) == (model.literals > 0)
    count = np.bincount(clause[true], minlength=model.n_clauses)[clause]
    change = np.where(true & (count == 1), -1.0, np.where(count == 0, 1.0, 0.0))
    gains = np.zeros(model.n_atoms)
    np.add.at(gains, atom, change * world.weight[clause])
    return gains


# the parts of an explanation -----------------------------------------------------------------------


def _number(world: PredictedWorld, atom: Atom) -> int:
    """Return the number of an atom. Raises ExplanationError if the example lacks the atom."""
    layout, name = world.predictor.grounder.layout, atom[0]
    predicates = layout.plan.query
    if name not in predicates:
        raise ExplanationError(
            f"{shown(atom)}: {name} is not predicted, but {', '.join(predicates)}"
        )
    arity = len(layout.arguments(name))
    if len(atom[1]) != arity:
        raise ExplanationError(f"{shown(atom)}: {name} takes {arity} arguments")
    if atom not in world.names:
        raise ExplanationError(
            f"{shown(atom)} is not an open atom of the example: one of its constants is not in the "
            "evidence or `query`, `query` does not list it, or hard rules and evidence make it false"
        )
    return world.names.index(atom)


def _other(world: PredictedWorld, a: int, state: State, certified: bool) -> Other:
    """Return the cost of another state and its changes outside the atom's group.

    Where another atom of a group becomes true, that is the change to report.
    """
    cost = float(world.gain(world.state, state).sum())
    changed = np.flatnonzero(world.state != state).tolist()
    members = world.members(a)
    changes = [
        (shown(world.names[b]), bool(state[b]))
        for b in changed
        if b < len(world.names)
        and b not in members
        and (state[b] or not np.any(state[world.members(b)]))
    ]
    return Other(cost, certified, tuple(changes))


def _taught(difference: float, variance: float) -> str:
    """Say how well a difference of scores is known, and would be by a label of its atom (Ollivier 2018)."""
    curvature = sigmoid(difference) * sigmoid(-difference)
    after = np.sqrt(variance / (1.0 + curvature * variance))
    known = f"the difference of both scores is known to \u00b1 {np.sqrt(variance):.3f}"
    return f"{known}; a label of the atom would make that \u00b1 {after:.3f}"


def _reasons(world: PredictedWorld, gain: Floats) -> tuple[Reason, ...]:
    """Return the ground rules whose truth differs, merged by weight and direction."""
    clauses, net = world.predictor.weights.clauses, world.net
    instances = []
    for c in np.flatnonzero(gain).tolist():
        number, key, row = _instance(world, int(world.place[c]))
        factor, weight = float(net.row_factor[row]), float(world.weight[c])
        text = _text(world, clauses[number], key)
        sign = clauses[number].sign
        instances.append(Instance((number, key), text, sign, factor, weight, float(gain[c])))
    return merged(instances)


class Instance(NamedTuple):
    """A ground clause whose truth differs: the name of its weight, the text of its rule, the clause's sign.

    ``weight`` includes ``factor``, the product of the sign and the numeric evidence. ``gain`` is its
    contribution to the score of the predicted state less that to the other.
    """

    name: Hashable
    text: str
    sign: int
    factor: float
    weight: float
    gain: float


def merged(instances: Iterable[Instance]) -> tuple[Reason, ...]:
    """Return reasons: instances of the same weight and direction are one."""
    together: dict[tuple[Hashable, bool], list[Instance]] = {}
    for instance in instances:
        holds = (instance.gain > 0) == (instance.weight * instance.sign > 0)
        together.setdefault((instance.name, holds), []).append(instance)
    reasons = []
    for (_, holds), same in together.items():
        effect, count = sum(x.gain for x in same), len(same)
        number = sum(x.factor * x.sign for x in same)
        weight = same[0].weight / same[0].factor
        reasons.append(Reason(same[0].text, weight, effect, count, holds, number / count))
    return ordered(reasons)


def _instance(world: PredictedWorld, g: int) -> tuple[int, tuple[str, ...], int]:
    """Return a ground clause's clause, the template constants of its weight, and its row."""
    net, table = world.net, world.predictor.weights
    rows = int(net.size[n.ROWS])
    row = int(np.searchsorted(net.clause_start[: rows + 1], g, "right")) - 1
    number = int(net.row_clause[row])
    k = g - int(net.clause_start[row])
    offset = int(net.row_offset[row] + k * net.row_step[row])
    # the constants are those of a key and an offset, see ``mln.kernels.ground``
    plan, (strides, _) = table.layout.plan.clauses[number], table.strides[number]
    constants: list[Constant] = []
    key = net.row_key[row].tolist()
    for name, stride, part in zip(plan.clause.template, strides, key, strict=False):
        kind = plan.types[name]
        declared = table.layout.constants[kind]
        if stride and part == 0:
            constants.append(declared[offset // stride % len(declared)])
        elif part < 0:  # a constant that the stream has not shown
            constants.append(world.predictor.grounder.packer.constants.names[-2 - part])
        else:
            constants.append(table.stream[kind].names[part - (stride != 0)])
    return number, tuple(map(str, constants)), row


def _text(world: PredictedWorld, clause: Clause, key: Sequence[str]) -> str:
    constants = dict(zip(clause.template, key, strict=True))
    return rule_text(world.predictor.weights.layout.plan.program, clause, constants)
