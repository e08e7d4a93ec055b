"""Inference on one world: a model, databases and a query in; atoms with values, or the ground network, out.

Which atoms are open is as in Alchemy: those of query predicates; those of predicates without an atom in
any database; unknown (``?``) and soft ones. All other atoms of a predicate with database atoms are closed:
false unless given as true. Softly given atoms are open and get a unit clause of weight log(p / (1 - p)).
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from onlinesrl.errors import OnlinesrlError
from onlinesrl.ground.model import ClauseModel, Floats, State
from onlinesrl.ground.plan import compile_program
from onlinesrl.infer.engine import MapEngine
from onlinesrl.infer.ilp import Ilp
from onlinesrl.infer.lp import Lp
from onlinesrl.infer.marginals import marginals
from onlinesrl.infer.mpe import Mpe
from onlinesrl.infer.walksat import WalkSat
from onlinesrl.lang import mln
from onlinesrl.lang.ast import Program
from onlinesrl.lang.database import GroundAtom, parse_db
from onlinesrl.lang.example import Atoms, Constant, Example, ValuedAtom
from onlinesrl.lang.source import read_text
from onlinesrl.lang.text import quote
from onlinesrl.learn.learner import Hyper
from onlinesrl.learn.online import Ground, Inference, OnlineLearner

MAP_METHODS = ("mpe", "lp", "walksat")
MARGINAL_METHODS = ("exact", "mcsat", "gibbs")


class QueryError(OnlinesrlError):
    """The query or the method cannot be answered with this model."""

    exit_code = 64


@dataclass(frozen=True)
class World:
    """A ground model with names: ``atoms`` are (predicate, arguments), ``shown`` those asked for.

    Behind them ``model`` has the atoms that stand for conjunctions an existential quantifier asks for.
    Atoms that evidence fixes are hard unit clauses of ``model`` and in no other one; ``decided`` is the
    cost of the clauses that they decide.
    """

    model: ClauseModel
    weights: Floats
    atoms: list[tuple[str, list[Constant]]]
    fixed: dict[int, bool]
    decided: float
    shown: list[int]
    seconds: dict[str, float]


def load_world(model: Path, evidence: Sequence[Path], query: Sequence[str]) -> World:
    """Read and ground a model with databases. Raises the located errors of their files."""
    clock = time.perf_counter()
    program = mln.load(model)
    given = [atom for path in evidence for atom in parse_db(read_text(path), str(path))]
    unweighted = [r for r in program.rules if r.weight is None and not r.hard]
    if unweighted:
        rule = unweighted[0]
        raise QueryError(f"{model}:{rule.position.line}: a rule without a weight: {rule.text}")
    for name in query:
        if name not in program.predicates:
            known = ", ".join(sorted(program.predicates))
            raise QueryError(f"query predicate {name} is not declared; declared are: {known}")
    loaded = time.perf_counter()
    ground, soft = _ground(program, given, tuple(dict.fromkeys(query)))
    clause_model, weights = _with_soft(ground, soft)
    decided = decided_cost(clause_model, weights, ground.fixed)
    shown = [
        number
        for number, (name, _) in enumerate(ground.atoms)
        if name in query and number not in ground.fixed
    ]
    seconds = {"load": loaded - clock, "ground": time.perf_counter() - loaded}
    fixed = ground.fixed
    return World(
        *folded(clause_model, weights, fixed), ground.atoms, fixed, decided, shown, seconds
    )


def _ground(
    program: Program, given: Sequence[GroundAtom], query: tuple[str, ...]
) -> tuple[Ground, dict[tuple[str, tuple[str, ...]], float]]:
    """Ground a program; returns its network and the soft atoms with their probability."""
    used = {atom.predicate for atom in given}
    soft = {
        (a.predicate, a.arguments): float(a.value) if a.value is not None else 0.5
        for a in given
        if not isinstance(a.value, bool)
    }
    functions = set(program.functions)
    partly = {name for name, _ in soft if name not in query}
    hidden = [n for n in program.predicates if n not in used and n not in functions]
    opened = tuple(dict.fromkeys([*query, *hidden, *sorted(partly)]))
    plan = compile_program(program, opened)
    learner = OnlineLearner(plan, Hyper(), Inference(Ilp(), Mpe(Ilp())))
    example = _example(program, given, opened, partly, soft)
    return learner.ground_network(example), soft


def _example(
    program: Program,
    given: Sequence[GroundAtom],
    opened: Sequence[str],
    partly: set[str],
    soft: dict[tuple[str, tuple[str, ...]], float],
) -> Example:
    evidence: Atoms = {}
    for atom in given:
        if isinstance(atom.value, bool):
            args: list[Constant] = list(atom.arguments)
            row = args if atom.value else ValuedAtom(args, 0.0)
            evidence.setdefault(atom.predicate, []).append(row)
    listed: Atoms | None = None
    if partly:
        listed = {name: [] for name in opened}
        for name in opened:
            partial: list[list[Constant] | ValuedAtom] = [list(a) for n, a in soft if n == name]
            listed[name] = partial if name in partly else _all_atoms(program, given, name)
    return Example(id="world", evidence=evidence, query=listed)


def _all_atoms(
    program: Program, given: Sequence[GroundAtom], name: str
) -> list[list[Constant] | ValuedAtom]:
    """Return all groundings of a predicate over the constants of the model and the databases."""
    domains: dict[str, dict[str, None]] = {
        t: dict.fromkeys(constants) for t, constants in program.types.items()
    }
    for atom in given:
        for kind, constant in zip(
            program.predicates[atom.predicate].types, atom.arguments, strict=True
        ):
            domains.setdefault(kind, {})[constant] = None
    columns = [domains.get(kind, {}) for kind in program.predicates[name].types]
    return [list(row) for row in product(*columns)]


def _with_soft(
    ground: Ground, soft: dict[tuple[str, tuple[str, ...]], float]
) -> tuple[ClauseModel, Floats]:
    """Add a unit clause of weight log(p / (1 - p)) for every softly given atom."""
    units = [
        (number, math.log(p / (1.0 - p)))
        for number, (name, args) in enumerate(ground.atoms)
        if (p := soft.get((name, tuple(map(str, args))), 0.5)) != 0.5
    ]
    if not units:
        return ground.model, ground.weights
    m, n = ground.model, len(units)
    first = int(m.start[-1])
    model = ClauseModel(
        n_atoms=m.n_atoms,
        start=np.concatenate([m.start, first + 1 + np.arange(n)]),
        literals=np.concatenate([m.literals, np.asarray([a + 1 for a, _ in units], np.int32)]),
        weight_index=np.concatenate([m.weight_index, len(ground.weights) + np.arange(n)]),
        sign=np.concatenate([m.sign, np.ones(n)]),
        group=m.group,
        exactly=m.exactly,
    )
    return model, np.concatenate([ground.weights, [w for _, w in units]])


# what comes out -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class MergedClause:
    """A ground clause as written: identical ones merged; ``weight`` None: hard."""

    literals: tuple[int, ...]
    weight: float | None

    def cost(self, true: bool) -> float:
        """Return |weight| where a positive clause is false or a negative one true."""
        wrong = self.weight is not None and true == (self.weight < 0)
        return abs(self.weight) if wrong and self.weight is not None else 0.0


def merged(model: ClauseModel, weights: Floats) -> list[MergedClause]:
    """Merge identical clauses: weights add up, a hard one wins, zero ones are dropped."""
    value = model.clause_weights(weights).tolist()
    total: dict[tuple[int, ...], float | None] = {}
    for c, literals in enumerate(_clauses(model)):
        old = total.get(literals, 0.0)
        hard = model.weight_index[c] < 0 or old is None
        total[literals] = None if hard else old + value[c]
    return [MergedClause(key, w) for key, w in total.items() if w is None or w != 0.0]


def _clauses(model: ClauseModel) -> list[tuple[int, ...]]:
    literals, start = model.literals.tolist(), model.start.tolist()
    return [
        tuple(sorted(literals[start[c] : start[c + 1]], key=abs)) for c in range(model.n_clauses)
    ]


def folded(
    model: ClauseModel, weights: Floats, fixed: dict[int, bool]
) -> tuple[ClauseModel, Floats]:
    """Fold in the atoms that evidence fixes: literals they make false go, clauses they make true too."""
    rows: list[tuple[int, ...]] = []
    kept: list[int] = []
    for c, literals in enumerate(_clauses(model)):
        unit = model.weight_index[c] < 0 and len(literals) == 1
        if not unit and any(fixed.get(abs(x) - 1) == (x > 0) for x in literals):
            continue
        rest = literals if unit else tuple(x for x in literals if abs(x) - 1 not in fixed)
        if rest or model.weight_index[c] < 0:
            rows.append(rest)
            kept.append(c)
    return replace(
        model,
        start=np.cumsum([0, *map(len, rows)]).astype(np.int64),
        literals=np.asarray([x for row in rows for x in row], np.int32),
        weight_index=model.weight_index[kept],
        sign=model.sign[kept],
    ), weights


def decided_cost(model: ClauseModel, weights: Floats, fixed: dict[int, bool]) -> float:
    """Return the cost of the clauses whose truth the fixed atoms decide."""
    total = 0.0
    for clause in merged(model, weights):
        true = any(fixed.get(abs(x) - 1) == (x > 0) for x in clause.literals)
        if true or all(abs(x) - 1 in fixed for x in clause.literals):
            total += clause.cost(true)
    return total


def network_lines(world: World) -> Iterator[str]:
    """Yield the ground network: ``weight literal v literal``, hard clauses with a final period."""
    names = [show_atom(*atom) for atom in world.atoms]
    names += [f"Some_{n}" for n in range(1, world.model.n_atoms - len(names) + 1)]
    for clause in merged(world.model, world.weights):
        if len(clause.literals) == 1 and abs(clause.literals[0]) - 1 in world.fixed:
            continue
        text = " v ".join(("" if x > 0 else "!") + names[abs(x) - 1] for x in clause.literals)
        yield f"{text}." if clause.weight is None else f"{clause.weight:.10g} {text}"


def show_atom(name: str, args: Sequence[Constant]) -> str:
    """Return an atom in Alchemy's spelling."""
    if not args:
        return name
    return f"{name}({','.join(quote(str(a)) for a in args)})"


def infer(world: World, method: str, seed: int) -> tuple[list[str], dict[str, Any]]:
    """Answer a query; returns ``Atom(args) value`` lines, sorted, and statistics."""
    clock = time.process_time()
    if method in MAP_METHODS:
        values, found = _map(world, method, seed)
    elif method == "gibbs" and world.model.n_atoms > len(world.atoms):
        raise QueryError(
            "gibbs changes one atom at a time, which cannot make true what an EXIST asks of several; "
            "use mcsat or exact"
        )
    elif method in MARGINAL_METHODS:
        values, found = _marginals(world, method, seed)
    else:
        known = ", ".join((*MAP_METHODS, *MARGINAL_METHODS))
        raise QueryError(f"unknown method {method}; known are: {known}")
    clauses = merged(world.model, world.weights)
    stats = {
        "method": method,
        "atoms": len(world.atoms) - len(world.fixed),
        "soft_clauses": sum(c.weight is not None for c in clauses),
        "hard_clauses": sum(c.weight is None for c in clauses) - len(world.fixed),
        **found,
        "seconds": {**world.seconds, "infer_cpu": time.process_time() - clock},
    }
    order = sorted(world.shown, key=lambda n: _natural(world.atoms[n]))
    return [f"{show_atom(*world.atoms[n])} {values[n]}" for n in order], stats


def _natural(atom: tuple[str, Sequence[Constant]]) -> tuple[Any, ...]:
    name, args = atom
    return name, *((0, a, "") if isinstance(a, int) else (1, 0, a) for a in args)


def _map(world: World, method: str, seed: int) -> tuple[list[str], dict[str, Any]]:
    engines: dict[str, MapEngine] = {
        "mpe": Mpe(Ilp()),
        "lp": Lp(),
        "walksat": WalkSat(seed=seed),
    }
    solution = engines[method].solve(world.model, world.weights)
    found = cost(world, solution.state)
    slack = solution.bound - solution.score
    return [str(int(v)) for v in solution.state], {
        "cost": found,
        "bound": found - slack if math.isfinite(slack) else None,
        "route": solution.route,
        "certified": solution.certified,
    }


def cost(world: World, state: Sequence[int] | State) -> float:
    """Return the weight of the false positive and the true negative clauses."""
    clauses = merged(world.model, world.weights)
    open_cost = sum(c.cost(any(state[abs(x) - 1] == (x > 0) for x in c.literals)) for c in clauses)
    return world.decided + open_cost


def _marginals(world: World, method: str, seed: int) -> tuple[list[str], dict[str, Any]]:
    found = marginals(world.model, world.weights, method, seed=seed)  # type: ignore[arg-type]
    values = [f"{p:.10f}" for p in found.probability]
    return values, {"log_z": found.log_z, "route": found.route, "samples": found.samples}
