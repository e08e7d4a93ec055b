"""Joined rows to potentials and constraints, and the failures of grounding."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from onlinesrl.core.arrays import Bools, Floats, Ints, Ints32
from onlinesrl.logic.ast import Atom, Constant, Variable, terms
from onlinesrl.psl.ground.hinge_loss_mrf import AT_MOST, EQUAL, HARD, HINGE, HingeLossMRF
from onlinesrl.psl.ground.join_plan import RulePlan, Size
from onlinesrl.psl.kernels import linear as kernel
from onlinesrl.psl.lang.ast import LARGEST, Coefficient, Number, cardinalities, evaluate
from onlinesrl.psl.lang.data import Database
from onlinesrl.psl.lang.linear_form import LinearTerm, NormalRule
from onlinesrl.psl.lang.model import Functions
from onlinesrl.psl.lang.text import show_coefficient, show_psl_atom


class Listing:
    """The listed atoms of a database, numbered by predicate, observed ones before targets.

    ``columns[name]`` int32 (arity, rows) are their constants, ``base[name]`` is the number of the first.
    ``value`` float64[atoms] is that of observed atoms, ``variable`` int32[atoms] that of targets (-1 for
    others). With worlds, the first column of every table is the world, ascending, and variables are
    numbered world by world; ``first_variable`` is int64[worlds + 1]. ``opened`` are the predicates with
    targets; without worlds, those that have some in the data.
    """

    def __init__(self, database: Database, worlds: int | None = None, opened: Collection[str] = ()):
        relations = database.relations
        with_targets = (name for name, relation in relations.items() if not relation.closed)
        self.constants = database.constants
        self.opened = frozenset(with_targets if worlds is None else opened)
        self.columns: dict[str, Ints32] = {}
        self.base: dict[str, int] = {}
        self.worlds = 1 if worlds is None else worlds
        targets = (relation.targets.columns for relation in relations.values())
        world = np.concatenate(
            [np.empty(0, np.int32)]
            + [np.zeros(c.shape[1], np.int32) if worlds is None else c[0] for c in targets]
        )
        self.first_variable: Ints = np.concatenate(
            ([0], np.cumsum(np.bincount(world, minlength=self.worlds)))
        )
        variable = np.empty(len(world), np.int32)
        variable[np.argsort(world, kind="stable")] = np.arange(len(world), dtype=np.int32)
        values, variables = [np.empty(0)], [np.empty(0, np.int32)]
        base = first = 0
        for name, relation in relations.items():
            observed, n_targets = relation.observed, len(relation.targets)
            self.base[name] = base
            self.columns[name] = np.concatenate(
                (observed.columns, relation.targets.columns), axis=1
            )
            values += [observed.values, np.zeros(n_targets)]
            variables += [np.full(len(observed), -1, np.int32), variable[first : first + n_targets]]
            base += len(observed) + n_targets
            first += n_targets
        self.value: Floats = np.concatenate(values)
        self.variable: Ints32 = np.concatenate(variables)

    @property
    def n_variables(self) -> int:
        """The number of targets."""
        return int(self.first_variable[-1])

    def assembler(self, functions: Functions) -> Assembler:
        """Return what makes ground rules over the targets."""
        return Assembler(self.constants, self.value, self.variable, self.n_variables, functions)

    def sizes(self) -> dict[str, Size]:
        """Return the sizes of the relations."""
        n = len(self.constants)
        return {
            name: Size(
                columns.shape[1],
                [int(np.count_nonzero(np.bincount(column, minlength=n))) for column in columns],
            )
            for name, columns in self.columns.items()
        }


def number_constants(
    constants: Sequence[str], named: Mapping[str, None]
) -> tuple[Sequence[str], dict[str, int]]:
    """Append the constants that occur only in rules; return all, and the numbers of the named ones."""
    if not named:
        return constants, {}
    place = {name: n for n, name in enumerate(constants) if name in named}
    new = [name for name in named if name not in place]
    place |= {name: len(constants) + n for n, name in enumerate(new)}
    return [*constants, *new], place


@dataclass(frozen=True, eq=False)
class Joined:
    """Rows of a plan: ground rules, or the rows to group if it has summations.

    ``atoms`` int32 (terms, rows) are the numbers of the joined, summed and looked up atoms, -1 for
    unlisted ones; ``worlds`` int32 (rows,). ``bindings`` int32 (variables, rows) are the constants of the
    plan's variables, empty (0, rows) for plans without summations and computed terms. A group is never
    split over two Joined.
    """

    atoms: Ints32
    bindings: Ints32
    worlds: Ints32


@dataclass(frozen=True)
class GroundingFailure:
    """Why a world cannot be grounded, and at which rule; ``kind`` as in ExampleError."""

    rule: int
    kind: str
    message: str
    hint: str | None = None


class TooManyRows(Exception):
    """The joins of several worlds have more rows together than allowed."""


class RuleError(Exception):
    """A rule cannot be grounded in any world."""

    def __init__(self, failure: GroundingFailure):
        super().__init__(failure)
        self.failure = failure


def missing(form: NormalRule, atom: Atom, bound: Mapping[str, str]) -> GroundingFailure:
    """Return the failure of an unlisted atom; ``bound`` are the constants of variables."""
    constants = (
        Constant(bound[term.name]) if isinstance(term, Variable) else term for term in atom.terms
    )
    atom_text = show_psl_atom(Atom(atom.predicate, tuple(constants)))
    message = f"the rule needs {atom_text}, which is neither observed nor a target"
    hint = (
        f"{atom.predicate} has targets, so each of its atoms in a ground rule must be listed; "
        "inference.targets: skip (infer: --targets skip) leaves such ground rules out"
    )
    return GroundingFailure(form.rule, "not_open", message, hint)


def listed(plan: RulePlan, joined: Joined, opened: Collection[str]) -> Joined:
    """Return the rows without unlisted atoms of predicates with targets."""
    atoms = joined.atoms[len(plan.steps) :]
    reached = [
        atom
        for term, atom in zip(plan.form.lookups, atoms, strict=False)
        if term.atom.predicate in opened
    ]
    is_listed = np.all(np.array(reached) >= 0, axis=0) if reached else np.bool_(True)
    if is_listed.all():
        return joined
    return Joined(
        joined.atoms[:, is_listed], joined.bindings[:, is_listed], joined.worlds[is_listed]
    )


def too_many(form: NormalRule, most: int) -> GroundingFailure:
    """Return the failure of a world whose joins have too many rows."""
    message = f"more than {most} joined rows, reached in this rule"
    return GroundingFailure(form.rule, "limit", message)


def broken(form: NormalRule) -> GroundingFailure:
    """Return the failure of a hard rule that no values of targets satisfy."""
    message = "what is observed breaks this hard rule, whatever the targets are"
    return GroundingFailure(form.rule, "hard_rule", message)


@dataclass(frozen=True, eq=False)
class Assembled:
    """The potentials or constraints of a plan's rows, in the order of the rows, and the ``world`` of each.

    ``inactive`` int64[worlds] counts the ground rules left out because their form is never above 0;
    ``broken`` bool[worlds] marks worlds in which no values of the variables satisfy a hard rule.
    """

    model: HingeLossMRF
    world: Ints32
    inactive: Ints
    broken: Bools


class Assembler:
    """Turns joined rows of numbered atoms into potentials and constraints; see ``Listing``."""

    def __init__(
        self,
        constants: Sequence[str],
        value: Floats,
        variable: Ints32,
        n_variables: int,
        functions: Functions,
    ):
        self.constants, self.value, self.variable = constants, value, variable
        self._functions = functions
        self._place = np.full(n_variables, -1)

    def assemble(self, plan: RulePlan, joined: Joined, worlds: int, weight_index: int) -> Assembled:
        """Return what joined rows of so many worlds are; ``weight_index`` is that of potentials.

        Raises RuleError if a coefficient divides by 0 or a function returns a value outside [0, 1].
        """
        form, hard = plan.form, plan.form.weight is None
        value, variable, atoms = self.value, self.variable, joined.atoms
        for term in form.computed:
            atom, values = self._computed(plan, joined, term)
            atoms = np.concatenate((atoms, (len(value) + atom)[None].astype(np.int32)))
            value = np.concatenate((value, values))
            variable = np.concatenate((variable, np.full(len(values), -1, np.int32)))
        ground = self._grouped if form.summations else _single
        rows = ground(plan, joined, atoms)
        n, entries = len(rows.constant), len(rows.variable)
        out = kernel.Forms.zeros(row=n, entry=entries)
        inactive, broken = np.zeros(worlds, np.int64), np.full(worlds, -1)
        # what is left out of a potential is multiplied by its weight, however large that is
        tolerance = kernel.ROUNDING if hard else 0.0
        of_rows = rows, value, variable, form.equality, tolerance
        n = kernel.assemble(*of_rows, self._place, out, inactive, broken)
        end = out.start[n]
        kind = HINGE if not hard else EQUAL if form.equality else AT_MOST
        model = HingeLossMRF(
            len(self._place),
            out.start[: n + 1],
            out.variable[:end],
            out.coefficient[:end],
            out.constant[:n],
            np.full(n, HARD if hard else weight_index),
            np.full(n, 1 if hard else form.power, np.uint8),
            np.full(n, kind, np.uint8),
        )
        return Assembled(model, out.world[:n], inactive, (broken >= 0) & hard)

    def _computed(self, plan: RulePlan, joined: Joined, term: LinearTerm) -> tuple[Ints, Floats]:
        """Return each row's index into the values of a function, and these values. Raises RuleError."""
        n = joined.atoms.shape[1]
        names = self.constants
        columns = [
            joined.bindings[plan.variables.index(leaf.name)] if isinstance(leaf, Variable) else None
            for leaf in terms(term.atom)
        ]
        bound_columns = [column for column in columns if column is not None]
        bound = np.array(bound_columns, np.int32).reshape(len(bound_columns), n)
        distinct, place = np.unique(bound, axis=1, return_inverse=True)
        values = np.empty(distinct.shape[1])
        for k, row in enumerate(distinct.T.tolist()):
            constants = iter(row)
            arguments = [
                leaf.name if column is None else names[next(constants)]
                for leaf, column in zip(terms(term.atom), columns, strict=True)
            ]
            name = term.atom.predicate
            value = self._functions[name](*arguments)
            if not 0.0 <= value <= 1.0:
                spelled = f"{name}({', '.join(arguments)})"
                message = f"{spelled} is {value:g}, not a value from 0 to 1"
                raise RuleError(GroundingFailure(plan.form.rule, "schema", message))
            values[k] = value
        return place.reshape(n), values

    def _grouped(self, plan: RulePlan, joined: Joined, atoms: Ints32) -> kernel.Forms:
        """Group rows by world and outer variables, one ground row per group, ascending."""
        form, slot = plan.form, plan.variables.index
        outer = [joined.bindings[slot(name)] for name in plan.outer]
        order, group = _ranked([joined.worlds, *outer])
        first = order[np.flatnonzero(np.diff(group, prepend=-1))]
        n, atoms = len(first), atoms[:, order]
        bindings = joined.bindings[:, order]
        counts = {
            part.variable: np.bincount(
                _distinct(group, bindings[slot(part.variable)])[0], minlength=n
            )
            for part in form.summations
        }
        entries = []
        for term, atom in zip(form.terms, atoms, strict=True):
            groups, distinct = _distinct(group, atom)
            coefficient = _evaluated(plan, term.coefficient, counts, n)
            entries.append((groups, distinct, coefficient[groups]))
        groups, atom, coefficient = (np.concatenate(part) for part in zip(*entries, strict=True))
        by_group = np.argsort(groups, kind="stable")
        return kernel.Forms(
            np.concatenate(([0], np.cumsum(np.bincount(groups, minlength=n)))),
            atom[by_group],
            coefficient[by_group],
            _evaluated(plan, form.constant, counts, n),
            joined.worlds[first],
        )


def _single(plan: RulePlan, joined: Joined, atoms: Ints32) -> kernel.Forms:
    """Return joined rows as ground rows."""
    k, n = atoms.shape
    coefficients = [_number(term.coefficient) for term in plan.form.terms]
    return kernel.Forms(
        np.arange(n + 1) * k,
        np.ascontiguousarray(atoms.T).reshape(-1),
        np.tile(np.array(coefficients, np.float64), n),
        np.full(n, _number(plan.form.constant)),
        joined.worlds,
    )


def _number(coefficient: Coefficient) -> float:
    assert isinstance(coefficient, Number)  # only a sum has other coefficients
    return coefficient.value


def _evaluated(
    plan: RulePlan, coefficient: Coefficient, counts: Mapping[str, Ints], n: int
) -> Floats:
    """Return the value of a coefficient in each of n groups.

    Raises RuleError if it divides by 0, or is too large.
    """
    names = tuple(dict.fromkeys(cardinalities(coefficient)))
    if not names:
        return np.full(n, evaluate(coefficient, {}))
    cases, case = np.unique([counts[name] for name in names], axis=1, return_inverse=True)
    values = []
    for sizes in cases.T.tolist():
        try:
            values.append(evaluate(coefficient, dict(zip(names, sizes, strict=True))))
            fault = "" if abs(values[-1]) <= LARGEST else f"is beyond {LARGEST:g}"
        except ZeroDivisionError:
            fault = "divides by 0"
        if fault:
            message = f"{show_coefficient(coefficient)} {fault} in a ground rule"
            raise RuleError(GroundingFailure(plan.form.rule, "schema", message))
    return np.array(values, np.float64)[case.reshape(n)]


def _ranked(keys: Sequence[Ints | Ints32]) -> tuple[Ints, Ints]:
    """Return the order that sorts rows by keys, and each sorted row's rank among the distinct ones."""
    order = np.lexsort(keys[::-1])
    new = np.zeros(len(order), np.bool_)
    for key in keys:
        new[1:] |= np.diff(key[order]) != 0
    return order, np.cumsum(new)


def _distinct(group: Ints, numbers: Ints32) -> tuple[Ints, Ints32]:
    """Return the distinct pairs of group and number, sorted."""
    order, rank = _ranked([group, numbers])
    first = order[np.flatnonzero(np.diff(rank, prepend=-1))]
    return group[first], numbers[first]
