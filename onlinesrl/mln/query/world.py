"""One world: model, databases and query are read and ground to a network with names.

As in Alchemy, these atoms are open: atoms of query predicates; atoms of predicates without an atom in
any database, unless closed by ``--closed``; atoms of predicates opened by ``--open``; atoms with unknown
(``?``) or soft values. Some other dialects open all predicates, or all predicates without a mark,
instead. All other atoms are closed: they are false unless a database makes them true. An atom with a soft
value p gets a unit clause of weight log(p / (1 - p)).
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from onlinesrl.core.arrays import Floats, Ints
from onlinesrl.core.errors import DatabaseError, ExampleError, Infeasible, UsageError
from onlinesrl.core.example import Atoms, Constant, Example, GroundAtom, Number, Truth, ValuedAtom
from onlinesrl.logic.ast import Program
from onlinesrl.logic.database import Domains
from onlinesrl.logic.dialect import ALCHEMY, Dialect
from onlinesrl.logic.tables import load_atoms
from onlinesrl.logic.text import spell_atom
from onlinesrl.mln.ground.atom_names import WorldAtoms
from onlinesrl.mln.ground.batch_packer import LimitKeys
from onlinesrl.mln.ground.ground_mrf import GroundMRF, Soft, clause_models, fixed_units
from onlinesrl.mln.ground.grounder import GroundExample, Limits, ModelGrounder
from onlinesrl.mln.ground.lazy_clauses import LazyClauses
from onlinesrl.mln.ground.model_index import EAGER
from onlinesrl.mln.kernels.ground_network import ROWS, Network, false_hard
from onlinesrl.mln.kernels.grounding_frames import EVERY
from onlinesrl.mln.lang import reader
from onlinesrl.mln.lang.evidence_weights import check_numbers, with_weights
from onlinesrl.mln.query.ground_formulas import (
    FormulaQuery,
    FormulaWorld,
    GroundFormula,
    asked_atoms,
)

LIMITS = Limits(keys=LimitKeys("--max-atoms", "--max-groundings", "add"))
"""The default limits of a world."""


class QueryError(UsageError):
    """The query, the closed or open predicates, or the method do not fit the model."""


class Part(NamedTuple):
    """Further ground clauses of a world, with fields as in ``World``."""

    model: GroundMRF
    weight: Floats
    soft: Soft


class Lazy:
    """The clauses of a world that are ground only where a state violates them."""

    def __init__(self, world: GroundExample, atoms: WorldAtoms) -> None:
        self._world, self._atoms = world, atoms
        self._clauses = LazyClauses(world.grounder, world.batch)

    def total(self) -> float:
        """Return the weight of all ground clauses of its soft clauses."""
        return self._clauses.total()

    def violated(self, value: Floats, conflicts: bool) -> Part | None:
        """Return the clauses that values of the atoms violate, see ``LazyClauses.violated``.

        Raises Infeasible where evidence breaks one.
        """
        net = self._clauses.violated(value, conflicts)
        if net is None:
            return None
        if (broken := false_hard(net)) >= 0:
            raise Infeasible(_broken(self._world, net, self._atoms, broken))
        self._world.grounder.weights.number(net, learning=False)
        return Part(*clause_models(net, self._world.weights(net), ()))


@dataclass(frozen=True, kw_only=True)
class World:
    """A ground network with the names of its atoms.

    ``atoms`` are (predicate, arguments); ``shown`` are the numbers of the queried atoms. Further atoms of
    ``model`` stand for conjunctions under existential quantifiers, and from number ``gates`` on for those of
    ``formulas``, which are asked about. ``weight``, float64[clauses], is 0 for hard clauses. ``soft`` has all
    soft clauses, also those with atoms that evidence fixes; in ``model`` such
    an atom occurs only in one hard unit clause. ``types`` has the argument types of each predicate, ``fixed``
    the values of atoms that evidence fixes. ``lazy`` grounds the clauses that the model leaves out.
    ``assumed`` are the predicates that are open only because no database has an atom of them, ``empty``
    what is queried and has no atom, or is a formula without constants for its variables.
    """

    atoms: WorldAtoms
    model: GroundMRF
    weight: Floats
    soft: Soft
    gates: int
    formulas: Mapping[str, GroundFormula]
    types: Mapping[str, Sequence[str]]
    fixed: Mapping[int, bool]
    shown: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    assumed: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()
    queried: tuple[str, ...] = ()
    lazy: Lazy | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)

    @property
    def visible(self) -> Ints:
        """The atoms that tell states apart: those asked about and of evidence, and what they decide."""
        known = np.union1d(self.shown, [*self.fixed]).astype(np.int64)
        if len(known) == len(self.atoms):
            return np.arange(self.model.n_atoms)
        return np.union1d(known, asked_atoms(self.formulas.values()))


@dataclass(frozen=True)
class WorldOptions:
    """The options of reading and grounding a world.

    ``closed`` and ``opened`` are predicates whose atoms are false, or open, unless a database has a value.
    The ``dialect`` decides on other predicates that are not queried. ``formulas`` are queried, too, all on
    the condition that those ``given`` hold.
    """

    closed: tuple[str, ...] = ()
    opened: tuple[str, ...] = ()
    dialect: Dialect = ALCHEMY
    formulas: tuple[str, ...] = ()
    given: tuple[str, ...] = ()


def eager_of(method: str, lazy: str | None) -> int:
    """Return how many groundings of a clause are ground at first, for a method and the setting ``lazy``.

    Raises QueryError for a setting that the method does not take.
    """
    if lazy is not None and (lazy not in [*EAGER] or method != "mpe"):
        raise QueryError(
            f"lazy is {lazy} for {method}: expected {' or '.join(EAGER)}, for mpe only"
        )
    return EAGER[lazy or "auto"] if method == "mpe" else EVERY


def load_world(
    model: Path,
    evidence: Sequence[Path],
    query: Sequence[str],
    options: WorldOptions = WorldOptions(),
    limits: Limits = LIMITS,
    eager: int = EVERY,
) -> World:
    """Read and ground a model with databases.

    Clauses that hold by default are left out where they have more than ``eager`` groundings.
    Raises errors in the files with their location, QueryError for unknown predicates or contradictory
    options, Infeasible if evidence breaks a hard rule, and ExampleError beyond the limits.
    """
    clock = time.perf_counter()
    program = reader.load(model, options.dialect)
    program, atoms = read_evidence(program, evidence, options.dialect)
    return world_of(program, atoms, query, options, limits, clock, eager)


def world_of(
    program: Program,
    atoms: Sequence[GroundAtom],
    query: Sequence[str],
    options: WorldOptions = WorldOptions(),
    limits: Limits = LIMITS,
    clock: float | None = None,
    eager: int = EVERY,
) -> World:
    """Ground a program with atoms, as in ``load_world``; ``clock`` is the start time of loading."""
    clock = time.perf_counter() if clock is None else clock
    program = with_weights(program, atoms)
    unweighted = [r for r in program.rules if r.weight is None and not r.hard]
    if unweighted:
        rule = unweighted[0]
        place = f"{program.file}:{rule.position.line}"
        raise QueryError(
            f"{place}: a rule without a weight: {rule.text}; write one before it, a period after it "
            "(hard), or learn the weights (onlinesrl run or onlinesrl learn)"
        )
    _check_asked(program, query, options)
    asked = FormulaQuery(program, options.formulas, options.given, options.dialect)
    for rule in asked.rules:
        if rule.text in program.predicates:
            raise UsageError(f"formula {rule.text} is a predicate: ask for it in the query")
    closed: Set[str] = {*options.closed, *query, *options.opened, *program.functions}
    if options.dialect.opened == "unmentioned":
        closed = closed | {atom.predicate for atom in atoms}
    elif options.dialect.opened == "unmarked":
        closed = closed | program.closed
    assumed = tuple(  # the predicates whose atoms the dialect opens without any option
        name
        for name, predicate in program.predicates.items()
        if name not in closed and not predicate.numeric
    )
    loaded = time.perf_counter()
    wholly = tuple(dict.fromkeys([*query, *options.opened, *assumed]))
    world = _ground(program, atoms, wholly, limits, eager, asked)
    seconds = {"load": loaded - clock, "ground": time.perf_counter() - loaded}
    return replace(
        world,
        shown=np.setdiff1d(world.atoms.numbers(query), [*world.fixed]),
        empty=(
            *(name for name in query if not len(world.atoms.numbers({name}))),
            *(name for name, formula in world.formulas.items() if not formula.constants),
        ),
        assumed=assumed if options.dialect.opened == "unmentioned" else (),
        queried=tuple(dict.fromkeys(query)),
        seconds=seconds,
    )


def read_evidence(
    program: Program, evidence: Sequence[Path], dialect: Dialect
) -> tuple[Program, list[GroundAtom]]:
    """Read the atoms of all databases; return the program with the constants that they list, and the atoms.

    Raises DatabaseError for an atom with two values, and for constants of a type that the program has not.
    """
    domains: Domains = {}
    evidence_atoms: list[GroundAtom] = []
    seen: dict[tuple[str, tuple[str, ...]], tuple[Truth, str]] = {}
    for path in evidence:
        atoms = load_atoms(path, program, dialect, domains)
        kinds = dict.fromkeys(t for p in program.predicates.values() for t in p.types)
        if unknown := [kind for kind in domains if kind not in kinds]:
            message = f"no predicate of the model has the type {unknown[0]}"
            line = min(domains[unknown[0]].values(), default=1)
            hint = f"it has the types {', '.join(kinds)}"
            raise DatabaseError(message, file=str(path), line=line, column=1, hint=hint)
        for atom in atoms:
            value_and_place = (atom.value, f"{path}:{atom.line}")
            before, place = seen.setdefault((atom.predicate, atom.arguments), value_and_place)
            if before != atom.value:
                name = spell_atom(atom.predicate, atom.arguments)
                message = f"{name} has another value in {place}"
                hint = "list an atom once, or always with the same value"
                raise DatabaseError(message, file=str(path), line=atom.line, column=1, hint=hint)
        if dialect.decimals:
            check_numbers(program, atoms, str(path))
        evidence_atoms += atoms
    types = {
        kind: (*dict.fromkeys((*program.types.get(kind, ()), *constants)),)
        for kind, constants in domains.items()
    }
    return replace(program, types={**program.types, **types}), evidence_atoms


def _check_asked(program: Program, query: Sequence[str], options: WorldOptions) -> None:
    closed, opened = options.closed, options.opened
    for option, names in (("query", query), ("closed", closed), ("open", opened)):
        for name in names:
            if name not in program.predicates:
                declared = ", ".join(sorted(program.predicates.keys() - program.functions.keys()))
                raise QueryError(
                    f"{option} predicate {name} is not declared; declared are: {declared}"
                )
            if program.predicates[name].numeric and option != "closed":
                raise QueryError(f"{name} is numeric: databases have its numbers, no --{option}")
            if name in program.functions and option != "query":
                raise QueryError(f"{name} is a function: databases have its values, no --{option}")
    for option, names in (("queried", query), ("said to be open", opened)):
        if conflicting := sorted({*names} & {*closed}):
            raise QueryError(
                f"{', '.join(conflicting)}: {option}, so it cannot be closed (--closed)"
            )
    if conflicting := sorted({*query} & program.closed):
        raise QueryError(
            f"{', '.join(conflicting)}: queried, and marked `*` (closed) in {program.file}"
        )


def _ground(
    program: Program,
    evidence: Sequence[GroundAtom],
    wholly: tuple[str, ...],
    limits: Limits,
    eager: int,
    asked: FormulaQuery,
) -> World:
    """Ground a program; all atoms of predicates ``wholly`` are open, and all soft or unknown atoms."""
    soft = {
        (a.predicate, a.arguments): float(a.value) if a.value is not None else 0.5
        for a in evidence
        if not isinstance(a.value, bool | Number)
    }
    partly = sorted({name for name, _ in soft if name not in wholly})
    opened = (*wholly, *partly)
    possible = _all_atoms(program, evidence, wholly, limits) if partly else {}
    example = _example(evidence, partly, soft)
    types = {kind: (*names,) for kind, names in _constants(program, soft).items()}
    declared = replace(program, types=types)
    world = ModelGrounder(declared, opened, limits, eager).ground_example(example, possible)
    net, atoms = world.net, world.atoms()
    if (broken := false_hard(net)) >= 0:
        raise Infeasible(_broken(world, net, atoms, broken))
    named_soft = ((n, atoms[n]) for n in atoms.numbers({name for name, _ in soft}).tolist())
    units = [  # a literal and its weight, for an atom of soft value p
        (number + 1, math.log(p / (1.0 - p)))
        for number, (name, args) in named_soft
        if (p := soft.get((name, tuple(map(str, args))), 0.5)) != 0.5
    ]
    model, weight, all_soft = clause_models(net, world.weights(net), units)
    formula_world = FormulaWorld(world.grounder, world.batch, 0, example)
    for rule in (*asked.rules, *asked.given):
        for constant in formula_world.lacks(rule):
            raise UsageError(f"formula {rule.text}: neither model nor evidence has {constant}")
    query = asked.ground(formula_world, model)
    predicates = {name: predicate.types for name, predicate in program.predicates.items()}
    return World(
        atoms=atoms,
        model=query.model,
        weight=np.append(weight, np.zeros(query.model.n_clauses - model.n_clauses)),
        soft=all_soft,
        gates=query.gates,
        formulas=query.formulas,
        types=predicates | {name: formula.types for name, formula in query.formulas.items()},
        fixed={abs(literal) - 1: literal > 0 for literal in fixed_units(net).tolist()},
        lazy=Lazy(world, atoms) if np.any(net.left_out) else None,
    )


def _broken(world: GroundExample, net: Network, atoms: WorldAtoms, clause: int) -> str:
    """Return the message that evidence breaks a hard rule, with the atoms of a false ground clause."""
    layout = world.grounder.layout
    row = int(np.searchsorted(net.clause_start[: net.size[ROWS]], clause, "right")) - 1
    k = clause - int(net.clause_start[row])
    program, clause_of_row = layout.plan.program, layout.plan.clauses[net.row_clause[row]].clause
    places = range(net.lit_start[row], net.lit_start[row + 1])
    numbers = [int(net.lit_atom[p] + k * net.lit_step[p]) for p in places]
    names = [spell_atom(*atoms[n]) for n in numbers if n < len(atoms)]
    rule = program.rules[clause_of_row.rule]
    against = f" for {', '.join(names)}" if names else ""
    return (
        f"{program.file}:{rule.position.line}: evidence breaks this hard rule{against}: {rule.text}\n"
        "  make the rule soft with a weight, or correct the evidence"
    )


def _example(
    atoms: Sequence[GroundAtom], partly: Sequence[str], soft: Iterable[tuple[str, tuple[str, ...]]]
) -> Example:
    """Return the world as an example; only soft atoms of the predicates ``partly`` are open."""
    evidence: Atoms = {}
    for atom in atoms:
        if isinstance(atom.value, bool | Number):
            args: list[Constant] = list(atom.arguments)
            row = args if atom.value is True else ValuedAtom(args, float(atom.value))
            evidence.setdefault(atom.predicate, []).append(row)
    listed: Atoms = {name: [[*args] for n, args in soft if n == name] for name in partly}
    return Example(id="world", evidence=evidence, query=listed if partly else None)


def _constants(
    program: Program, atoms: Iterable[tuple[str, tuple[str, ...]]]
) -> dict[str, dict[str, None]]:
    """Return the constants of each type: the program's, then those of atoms."""
    types = {kind: dict.fromkeys(names) for kind, names in program.types.items()}
    for name, arguments in atoms:
        for kind, constant in zip(program.predicates[name].types, arguments, strict=True):
            types.setdefault(kind, {})[constant] = None
    return types


def _all_atoms(
    program: Program, evidence: Sequence[GroundAtom], names: Iterable[str], limits: Limits
) -> dict[str, list[list[Constant]]]:
    """Return the possible constants of each argument of some predicates. Raises ExampleError."""
    domains = _constants(program, (atom[:2] for atom in evidence))
    possible: dict[str, list[list[Constant]]] = {
        n: [[*domains.get(k, {})] for k in program.predicates[n].types] for n in names
    }
    for name, columns in possible.items():
        if math.prod(map(len, columns)) > limits.atoms:
            reason = f"more atoms of {name} than --max-atoms ({limits.atoms})"
            raise ExampleError(reason, "limit")
    return possible
