"""Inference on one world: a model, databases and a query in; atoms with values, or the ground network, out.

Which atoms are open is as in Alchemy: those of query predicates; those of predicates without an atom in
any database, unless these are said to be closed; those of predicates said to be open; unknown (``?``) and
soft ones. In some other dialects the predicates without a mark are open instead, or all. All other atoms
are closed: false unless given as true. Softly given atoms are open and get a unit clause of weight
log(p / (1 - p)).
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np

from onlinesrl.errors import UNPROVEN, DatabaseError, ExampleError, OnlinesrlError
from onlinesrl.ground.model import ClauseModel, Floats, State
from onlinesrl.ground.pack import LimitKeys
from onlinesrl.ground.plan import compile_program
from onlinesrl.infer.diagnostics import DISAGREE, Diagnostics
from onlinesrl.infer.engine import MapEngine, Marginals
from onlinesrl.infer.ilp import Ilp
from onlinesrl.infer.lp import Lp
from onlinesrl.infer.marginals import marginals
from onlinesrl.infer.mpe import Mpe
from onlinesrl.infer.walksat import WalkSat
from onlinesrl.lang import mln
from onlinesrl.lang.ast import Program
from onlinesrl.lang.database import GroundAtom, Truth, load_db
from onlinesrl.lang.dialect import ALCHEMY, Dialect
from onlinesrl.lang.example import Atoms, Constant, Example, ValuedAtom
from onlinesrl.lang.given import check_numbers, with_weights
from onlinesrl.lang.text import quote
from onlinesrl.learn.learner import Hyper
from onlinesrl.learn.online import Ground, Inference, OnlineLearner

SAMPLED = (
    "the network is too wide for exact marginals: those of its wide parts are estimates, by "
    "{found.route} with {found.samples} samples: R-hat {of.largest_r_hat:.3g}, standard errors up to "
    "{of.largest_error:.2g}"
)
DISAGREED = (
    "the {of.chains} chains disagree, so that the estimates may be far off: R-hat {of.largest_r_hat:.3g} "
    "of {atom} (more than {limit}), standard errors up to {of.largest_error:.2g}; --error E samples until "
    "they agree"
)
NOT_REACHED = (
    "the wanted error of {error:g} was not reached in {found.samples} samples: standard errors up to "
    "{of.largest_error:.2g}, R-hat {of.largest_r_hat:.3g}"
)
MAP_METHODS = ("mpe", "lp", "walksat")
MARGINAL_METHODS = ("exact", "mcsat", "gibbs")


@dataclass(frozen=True)
class Limits:
    """The most open atoms and ground clauses that a world may have."""

    atoms: int = 1_000_000
    groundings: int = 1_000_000


class QueryError(OnlinesrlError):
    """The query, what is closed or open, or the method does not go with this model."""

    exit_code = 64


@dataclass(frozen=True)
class World:
    """A ground model with names: ``atoms`` are (predicate, arguments), ``shown`` those asked for.

    Behind them ``model`` has the atoms that stand for conjunctions an existential quantifier asks for.
    Atoms that evidence fixes are hard unit clauses of ``model`` and in no other one; ``soft`` has the
    weights of all soft clauses by their literals, those of fixed atoms too. ``assumed`` are the predicates
    that are open only because no database has an atom of them.
    """

    model: ClauseModel
    weights: Floats
    atoms: list[tuple[str, list[Constant]]]
    fixed: dict[int, bool]
    soft: dict[tuple[int, ...], float]
    shown: list[int]
    assumed: tuple[str, ...]
    seconds: dict[str, float]


@dataclass(frozen=True)
class Reading:
    """How a world's files are read.

    ``closed`` and ``opened`` are predicates whose atoms are false, or open, where no database says
    otherwise; for others that are not queried the ``dialect`` says which they are.
    """

    closed: tuple[str, ...] = ()
    opened: tuple[str, ...] = ()
    dialect: Dialect = ALCHEMY


def load_world(
    model: Path,
    evidence: Sequence[Path],
    query: Sequence[str],
    reading: Reading = Reading(),
    limits: Limits = Limits(),
) -> World:
    """Read and ground a model with databases.

    Raises the located errors of the files, QueryError for names that are not the model's predicates or
    of which two things are asked, and ExampleError for a world that is beyond the limits or breaks a hard
    rule.
    """
    clock = time.perf_counter()
    program = mln.load(model, reading.dialect)
    given = _given(program, evidence, reading.dialect)
    program = with_weights(program, given)
    unweighted = [r for r in program.rules if r.weight is None and not r.hard]
    if unweighted:
        rule = unweighted[0]
        raise QueryError(f"{model}:{rule.position.line}: a rule without a weight: {rule.text}")
    _check_asked(program, query, reading)
    assumed = _assumed(program, given, query, reading)
    loaded = time.perf_counter()
    wholly = tuple(dict.fromkeys([*query, *reading.opened, *assumed]))
    ground, soft = _ground(program, given, wholly, limits)
    unsaid = assumed if reading.dialect.opened == "unmentioned" else ()
    clause_model, weights = _with_soft(ground, soft)
    shown = [
        number
        for number, (name, _) in enumerate(ground.atoms)
        if name in query and number not in ground.fixed
    ]
    seconds = {"load": loaded - clock, "ground": time.perf_counter() - loaded}
    kept, fixed = folded(clause_model, ground.fixed), ground.fixed
    soft_weights = soft_clauses(clause_model, weights)
    return World(kept, weights, ground.atoms, fixed, soft_weights, shown, unsaid, seconds)


def _given(program: Program, evidence: Sequence[Path], dialect: Dialect) -> list[GroundAtom]:
    """Read the atoms of all databases; DatabaseError where one is given two values."""
    given: list[GroundAtom] = []
    told: dict[tuple[str, tuple[str, ...]], tuple[Truth, str]] = {}
    for path in evidence:
        atoms = load_db(path, program, dialect)
        for atom in atoms:
            here = (atom.value, f"{path}:{atom.line}")
            before, place = told.setdefault((atom.predicate, atom.arguments), here)
            if before != atom.value:
                name = show_atom(atom.predicate, atom.arguments)
                message = f"{name} has another value in {place}"
                hint = "an atom is given once, or alike"
                raise DatabaseError(message, file=str(path), line=atom.line, column=1, hint=hint)
        if dialect.decimals:
            check_numbers(program, atoms, str(path))
        given += atoms
    return given


def _check_asked(program: Program, query: Sequence[str], reading: Reading) -> None:
    closed, opened = reading.closed, reading.opened
    for option, names in (("query", query), ("closed", closed), ("open", opened)):
        for name in names:
            if name not in program.predicates:
                known = ", ".join(sorted(program.predicates.keys() - program.functions.keys()))
                raise QueryError(
                    f"{option} predicate {name} is not declared; declared are: {known}"
                )
            if name in program.functions and option != "query":
                raise QueryError(
                    f"{name} is a function: its databases say what it gives, no --{option}"
                )
    for option, names in (("queried", query), ("said to be open", opened)):
        if both := sorted({*names} & {*closed}):
            raise QueryError(f"{', '.join(both)}: {option}, so it cannot be closed (--closed)")
    if both := sorted({*query} & program.closed):
        raise QueryError(f"{', '.join(both)}: queried, and marked `*` (closed) in {program.file}")


def _assumed(
    program: Program, given: Sequence[GroundAtom], query: Sequence[str], reading: Reading
) -> tuple[str, ...]:
    """Return the predicates of which nothing is said, and whose atoms are open in the dialect."""
    closed: Set[str] = {*reading.closed, *query, *reading.opened, *program.functions}
    match reading.dialect.opened:
        case "unmentioned":
            closed = closed | {atom.predicate for atom in given}
        case "unmarked":
            closed = closed | program.closed
        case "all":
            pass
    return tuple(name for name in program.predicates if name not in closed)


def _ground(
    program: Program, given: Sequence[GroundAtom], wholly: tuple[str, ...], limits: Limits
) -> tuple[Ground, dict[tuple[str, tuple[str, ...]], float]]:
    """Ground a program with all atoms of some predicates open, and the soft and unknown ones.

    Returns its network and the soft atoms with their probability.
    """
    soft = {
        (a.predicate, a.arguments): float(a.value) if a.value is not None else 0.5
        for a in given
        if not isinstance(a.value, bool)
    }
    partly = {name for name, _ in soft if name not in wholly}
    opened = (*wholly, *sorted(partly))
    plan = compile_program(_with_constants(program, soft), opened)
    inference = Inference(
        Ilp(),
        Mpe(Ilp()),
        max_groundings=limits.groundings,
        max_atoms=limits.atoms,
        keys=LimitKeys("--max-atoms", "--max-groundings", "add"),
    )
    learner = OnlineLearner(plan, Hyper(), inference)
    example = _example(program, given, opened, partly, soft, limits)
    return learner.ground_network(example), soft


def _with_constants(program: Program, atoms: Iterable[tuple[str, tuple[str, ...]]]) -> Program:
    """Declare the constants of atoms that no evidence brings into the world."""
    types = {kind: dict.fromkeys(names) for kind, names in program.types.items()}
    for name, arguments in atoms:
        for kind, constant in zip(program.predicates[name].types, arguments, strict=True):
            types.setdefault(kind, {})[constant] = None
    return replace(program, types={kind: (*names,) for kind, names in types.items()})


def _example(  # noqa: PLR0913, PLR0917 - one use
    program: Program,
    given: Sequence[GroundAtom],
    opened: Sequence[str],
    partly: set[str],
    soft: dict[tuple[str, tuple[str, ...]], float],
    limits: Limits,
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
            listed[name] = partial if name in partly else _all_atoms(program, given, name, limits)
    return Example(id="world", evidence=evidence, query=listed)


def _all_atoms(
    program: Program, given: Sequence[GroundAtom], name: str, limits: Limits
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
    if math.prod(map(len, columns)) > limits.atoms:
        raise ExampleError(f"more atoms of {name} than --max-atoms ({limits.atoms})", "limit")
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


def merged(model: ClauseModel, weights: Floats) -> list[MergedClause]:
    """Merge identical clauses: weights add up, a hard one wins, zero ones are dropped."""
    soft, clauses = soft_clauses(model, weights), _clauses(model)
    hard = {clauses[c] for c in np.flatnonzero(model.weight_index < 0).tolist()}
    return [
        MergedClause(key, None if key in hard else soft[key])
        for key in dict.fromkeys(clauses)
        if key in hard or soft[key] != 0.0
    ]


def soft_clauses(model: ClauseModel, weights: Floats) -> dict[tuple[int, ...], float]:
    """Return the weights of the soft clauses, of identical ones added up."""
    value, soft = model.clause_weights(weights).tolist(), (model.weight_index >= 0).tolist()
    total: dict[tuple[int, ...], float] = {}
    for c, literals in enumerate(_clauses(model)):
        if soft[c]:
            total[literals] = total.get(literals, 0.0) + value[c]
    return total


def _clauses(model: ClauseModel) -> list[tuple[int, ...]]:
    literals, start = model.literals.tolist(), model.start.tolist()
    return [
        tuple(sorted(literals[start[c] : start[c + 1]], key=abs)) for c in range(model.n_clauses)
    ]


def folded(model: ClauseModel, fixed: dict[int, bool]) -> ClauseModel:
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
    )


def _names(world: World) -> list[str]:
    """Return the model's atoms as written; those that stand for conjunctions have no name of their own."""
    names = [show_atom(*atom) for atom in world.atoms]
    return names + [f"Some_{n}" for n in range(1, world.model.n_atoms - len(names) + 1)]


def network_lines(world: World) -> Iterator[str]:
    """Yield the ground network: ``weight literal v literal``, hard clauses with a final period."""
    names = _names(world)
    for clause in merged(world.model, world.weights):
        if len(clause.literals) == 1 and abs(clause.literals[0]) - 1 in world.fixed:
            continue
        text = " v ".join(("" if x > 0 else "!") + names[abs(x) - 1] for x in clause.literals)
        yield f"{text}." if clause.weight is None else f"{clause.weight:.10g} {text}"
    for group in range(len(world.model.exactly)):
        yield from _group_lines(world, group, names)


def _group_lines(world: World, group: int, names: Sequence[str]) -> Iterator[str]:
    """Yield the hard clauses that say how many atoms of a group are true."""
    members = np.flatnonzero(world.model.group == group).tolist()
    free = [names[atom] for atom in members if atom not in world.fixed]
    if any(world.fixed.get(atom) for atom in members):
        yield from (f"!{name}." for name in free)
        return
    yield from (f"!{first} v !{second}." for first, second in combinations(free, 2))
    if free and world.model.exactly[group]:
        yield f"{' v '.join(free)}."


def show_atom(name: str, args: Sequence[Constant]) -> str:
    """Return an atom in Alchemy's spelling."""
    if not args:
        return name
    return f"{name}({','.join(quote(str(a)) for a in args)})"


def infer(
    world: World, method: str, seed: int, error: float | None = None
) -> tuple[list[str], dict[str, Any]]:
    """Answer a query; returns ``Atom(args) value`` lines, sorted, and statistics.

    ``error`` is the standard error that sampled marginals are to have.
    """
    clock = time.process_time()
    if error is not None and (method in MAP_METHODS or not error > 0):
        raise QueryError(
            f"--error is a number above 0 for {', '.join(MARGINAL_METHODS)}: the standard error that is "
            f"wanted of sampled marginals, not {error:g} for {method}"
        )
    if method in MAP_METHODS:
        values, found = _map(world, method, seed)
    elif method in MARGINAL_METHODS:
        values, found = _marginals(world, method, seed, error)
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
        "warnings": [] if solution.certified else [UNPROVEN],
    }


def cost(world: World, state: Sequence[int] | State) -> float:
    """Return the weight of the false positive and the true negative soft clauses.

    Those with an atom of an open predicate, that is, and no true literal of a closed one. What evidence gives
    of open predicates counts like the rest of the state: giving an atom changes the cost of no state.
    """
    total = 0.0
    for literals, weight in world.soft.items():
        if any(state[abs(x) - 1] == (x > 0) for x in literals) == (weight < 0):
            total += abs(weight)
    return total


def _marginals(
    world: World, method: str, seed: int, error: float | None
) -> tuple[list[str], dict[str, Any]]:
    found = marginals(world.model, world.weights, method, seed=seed, error=error)  # type: ignore[arg-type]
    values = [f"{p:.10f}" for p in found.probability]
    return values, {
        "log_z": found.log_z,
        "route": found.route,
        "samples": found.samples,
        **({} if found.diagnostics is None else _figures(found.diagnostics)),
        "warnings": _doubts(world, method, found, error),
    }


def _figures(of: Diagnostics) -> dict[str, Any]:
    """Return how far to trust the atom of which least is known."""
    return {
        "chains": of.chains,
        "r_hat": of.largest_r_hat,
        "ess": of.least_ess,
        "standard_error": of.largest_error,
    }


def _doubts(world: World, method: str, found: Marginals, error: float | None) -> list[str]:
    """Say where the marginals are not what was asked for, or not to be trusted."""
    of = found.diagnostics
    if of is None:
        return []
    said = [SAMPLED.format(found=found, of=of)] if method == "exact" else []
    if error is not None and not of.reach(error):
        said.append(NOT_REACHED.format(error=error, found=found, of=of))
    if not of.agree:
        atom = _names(world)[int(of.r_hat.argmax())]
        said.append(DISAGREED.format(of=of, atom=atom, limit=DISAGREE))
    return said
