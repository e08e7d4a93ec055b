"""Reading and grounding one world: a model, databases and a query give a ground network with names.

Which atoms are open is as in Alchemy: those of query predicates; those of predicates without an atom in
any database, unless these are closed (``--closed``); those of open predicates (``--open``); unknown
(``?``) and soft ones. In some other dialects the predicates without a mark are open instead, or all. All
other atoms are closed: false unless given as true. Softly given atoms are open and get a unit clause of
weight log(p / (1 - p)).
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np

from onlinesrl.core.arrays import Bools, Floats, Ints
from onlinesrl.core.errors import DatabaseError, ExampleError, OnlinesrlError
from onlinesrl.core.example import (
    Atoms,
    Constant,
    Example,
    GroundAtom,
    Number,
    Truth,
    ValuedAtom,
)
from onlinesrl.logic.ast import Program
from onlinesrl.logic.dialect import ALCHEMY, Dialect
from onlinesrl.logic.tables import load_atoms
from onlinesrl.logic.text import spell_atom
from onlinesrl.mln.ground.compile import compile_program
from onlinesrl.mln.ground.convert import clause_model, clause_weights
from onlinesrl.mln.ground.grounder import Grounder, Limits
from onlinesrl.mln.ground.layout import Layout
from onlinesrl.mln.ground.model import ClauseModel
from onlinesrl.mln.ground.names import WorldAtoms
from onlinesrl.mln.ground.pack import LimitKeys
from onlinesrl.mln.kernels.network import FALSE, TRUE
from onlinesrl.mln.lang import mln
from onlinesrl.mln.lang.given import check_numbers, with_weights
from onlinesrl.mln.weights import WeightTable

LIMITS = Limits(keys=LimitKeys("--max-atoms", "--max-groundings", "add"))
"""The default limits of a world."""


class QueryError(OnlinesrlError):
    """The query, what is closed or open, or the method does not go with this model."""

    exit_code = 64


@dataclass(frozen=True)
class GroundWorld:
    """A ground model with names.

    ``atoms`` are (predicate, arguments), ``shown`` those asked for, ``types`` those of each predicate's
    arguments. Behind the atoms ``model`` has those that stand for conjunctions an existential quantifier
    asks for. Atoms that evidence fixes are hard unit clauses of ``model`` and in no other one; ``soft`` has
    all soft clauses, those of fixed atoms too. ``weight`` and ``gain`` are the weights of the clauses of
    ``model`` and of ``soft``, float64[clauses]. ``assumed`` are the predicates that are open only because
    no database has an atom of them.
    """

    model: ClauseModel
    weight: Floats
    atoms: WorldAtoms
    types: Mapping[str, Sequence[str]]
    fixed: dict[int, bool]
    soft: ClauseModel
    gain: Floats
    shown: Ints
    assumed: tuple[str, ...]
    seconds: dict[str, float]


@dataclass(frozen=True)
class WorldOptions:
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
    options: WorldOptions = WorldOptions(),
    limits: Limits = LIMITS,
) -> GroundWorld:
    """Read and ground a model with databases.

    Raises the located errors of the files, QueryError for names that are not the model's predicates or
    of which two things are asked, and ExampleError for a world that is beyond the limits or breaks a hard
    rule.
    """
    clock = time.perf_counter()
    program = mln.load(model, options.dialect)
    given = read_evidence(program, evidence, options.dialect)
    return world_of(program, given, query, options, limits, clock)


def world_of(  # noqa: PLR0913, PLR0917 - as ``load_world``
    program: Program,
    given: Sequence[GroundAtom],
    query: Sequence[str],
    options: WorldOptions = WorldOptions(),
    limits: Limits = LIMITS,
    clock: float | None = None,
) -> GroundWorld:
    """Ground a program with atoms of its predicates, as ``load_world``; ``clock`` is when that began."""
    clock = time.perf_counter() if clock is None else clock
    program = with_weights(program, given)
    unweighted = [r for r in program.rules if r.weight is None and not r.hard]
    if unweighted:
        rule = unweighted[0]
        place = f"{program.file}:{rule.position.line}"
        raise QueryError(f"{place}: a rule without a weight: {rule.text}")
    _check_asked(program, query, options)
    assumed = _assumed(program, given, query, options)
    loaded = time.perf_counter()
    wholly = tuple(dict.fromkeys([*query, *options.opened, *assumed]))
    world = _ground(program, given, wholly, limits)
    ground = time.perf_counter() - loaded
    return replace(
        world,
        shown=np.setdiff1d(world.atoms.numbers(query), [*world.fixed]),
        assumed=assumed if options.dialect.opened == "unmentioned" else (),
        seconds={"load": loaded - clock, "ground": ground},
    )


def read_evidence(program: Program, evidence: Sequence[Path], dialect: Dialect) -> list[GroundAtom]:
    """Read the atoms of all databases; DatabaseError where one is given two values."""
    given: list[GroundAtom] = []
    seen: dict[tuple[str, tuple[str, ...]], tuple[Truth, str]] = {}
    for path in evidence:
        atoms = load_atoms(path, program, dialect)
        for atom in atoms:
            here = (atom.value, f"{path}:{atom.line}")
            before, place = seen.setdefault((atom.predicate, atom.arguments), here)
            if before != atom.value:
                name = spell_atom(atom.predicate, atom.arguments)
                message = f"{name} has another value in {place}"
                hint = "an atom is given once, or alike"
                raise DatabaseError(message, file=str(path), line=atom.line, column=1, hint=hint)
        if dialect.decimals:
            check_numbers(program, atoms, str(path))
        given += atoms
    return given


def _check_asked(program: Program, query: Sequence[str], options: WorldOptions) -> None:
    closed, opened = options.closed, options.opened
    for option, names in (("query", query), ("closed", closed), ("open", opened)):
        for name in names:
            if name not in program.predicates:
                known = ", ".join(sorted(program.predicates.keys() - program.functions.keys()))
                raise QueryError(
                    f"{option} predicate {name} is not declared; declared are: {known}"
                )
            if program.predicates[name].numeric and option != "closed":
                raise QueryError(f"{name} is numeric: databases say its numbers, no --{option}")
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
    program: Program, given: Sequence[GroundAtom], query: Sequence[str], options: WorldOptions
) -> tuple[str, ...]:
    """Return the predicates that no option or database mentions and whose atoms the dialect opens."""
    closed: Set[str] = {*options.closed, *query, *options.opened, *program.functions}
    match options.dialect.opened:
        case "unmentioned":
            closed = closed | {atom.predicate for atom in given}
        case "unmarked":
            closed = closed | program.closed
        case "all":
            pass
    return tuple(
        name for name, each in program.predicates.items() if name not in closed and not each.numeric
    )


def _ground(
    program: Program, given: Sequence[GroundAtom], wholly: tuple[str, ...], limits: Limits
) -> GroundWorld:
    """Ground a program with all atoms of some predicates open, and the soft and unknown ones."""
    soft = {
        (a.predicate, a.arguments): float(a.value) if a.value is not None else 0.5
        for a in given
        if not isinstance(a.value, bool | Number)
    }
    partly = {name for name, _ in soft if name not in wholly}
    opened = (*wholly, *sorted(partly))
    layout = Layout(compile_program(_with_constants(program, soft), opened))
    table = WeightTable(layout)
    grounder = Grounder(layout, table.stream, limits)
    batch = grounder.ground_one(_example(program, given, opened, partly, soft, limits))
    net = grounder.net
    table.number(net, learning=False)
    of_ground = table.of(net, averaged=True)
    atoms = WorldAtoms([*grounder.named(batch, 0)])
    units = _soft_units(atoms, soft) if soft else []
    whole, place = clause_model(net, folded=False)
    whole, gain = _with_units(whole, clause_weights(whole, place, of_ground), units)
    is_soft = np.flatnonzero(~whole.hard)
    model, place = clause_model(net)
    model, weight = _with_units(model, clause_weights(model, place, of_ground), units)
    values = net.fixed[: len(atoms)]
    fixed = {
        n: bool(values[n] == TRUE)
        for n in np.flatnonzero((values == FALSE) | (values == TRUE)).tolist()
    }
    types = {name: each.types for name, each in program.predicates.items()}
    none = np.zeros(0, np.int64)
    return GroundWorld(
        model, weight, atoms, types, fixed, chosen(whole, is_soft), gain[is_soft], none, (), {}
    )


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
        if isinstance(atom.value, bool | Number):
            args: list[Constant] = list(atom.arguments)
            row = args if atom.value is True else ValuedAtom(args, float(atom.value))
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


def _soft_units(
    atoms: Sequence[tuple[str, Sequence[Constant]]], soft: dict[tuple[str, tuple[str, ...]], float]
) -> list[tuple[int, float]]:
    """Return a literal and the weight log(p / (1 - p)) for every softly given atom."""
    return [
        (number, math.log(p / (1.0 - p)))
        for number, (name, args) in enumerate(atoms, start=1)
        if (p := soft.get((name, tuple(map(str, args))), 0.5)) != 0.5
    ]


def _with_units(
    model: ClauseModel, weight: Floats, units: Sequence[tuple[int, float]]
) -> tuple[ClauseModel, Floats]:
    """Add soft clauses of one literal."""
    n, first = len(units), int(model.start[-1])
    literals = np.asarray([literal for literal, _ in units], np.int32)
    model = replace(
        model,
        start=np.concatenate([model.start, first + 1 + np.arange(n)]),
        literals=np.concatenate([model.literals, literals]),
        hard=np.concatenate([model.hard, np.zeros(n, np.bool_)]),
    )
    return model, np.concatenate([weight, [gain for _, gain in units]])


def distinct(model: ClauseModel, weight: Floats) -> tuple[Ints, Floats, Bools]:
    """Return the different clauses of a model, in the order of their first ones.

    Each is the number of its first one, int64[K], with the sum of the weights of the soft ones like it,
    float64[K], and whether one of these is hard, bool[K].
    """
    length, n = np.diff(model.start), model.n_clauses
    clause = np.repeat(np.arange(n), length)
    literals = model.literals[np.lexsort((np.abs(model.literals), clause))]
    number, found = np.zeros(n, np.int64), 0
    for each in np.unique(length).tolist():
        rows = np.flatnonzero(length == each)
        kinds, of = np.unique(
            literals[model.start[rows][:, None] + np.arange(each)], axis=0, return_inverse=True
        )
        number[rows] = found + of.reshape(-1)
        found += len(kinds)
    first = np.zeros(found, np.int64)
    first[number[::-1]] = np.arange(n)[::-1]
    order = np.argsort(first)
    total: Floats = np.bincount(number, np.where(model.hard, 0.0, weight), found).astype(np.float64)
    return first[order], total[order], (np.bincount(number, model.hard, found) > 0)[order]


def chosen(model: ClauseModel, clauses: Ints) -> ClauseModel:
    """Return a model with some of its clauses."""
    length = np.diff(model.start)[clauses]
    start = np.concatenate(([0], np.cumsum(length))).astype(np.int64)
    picked = np.repeat(model.start[clauses] - start[:-1], length) + np.arange(start[-1])
    return replace(model, start=start, literals=model.literals[picked], hard=model.hard[clauses])
