"""Certified answers of a hinge-loss model whose rows come and go, at the cost of what changes.

The duality gap of values y and duals u (``psl.inference.dual``) is a sum of local terms, none below 0:

    energy(y) - bound(u) = sum_i [ f_i(l_i) + curvature_i u_i^2 / 2 - u_i l_i ]
                         + sum_j [ r_j y_j - min(0, r_j) ],      r = Q' u

(Fenchel's inequality for every row, complementarity for every variable; a constraint adds |u_i l_i|). A
change of rows changes the terms of these rows and of their variables, so the certificate follows at that
cost, and the terms say where there is work left. ADMM then minimises over the variables with large terms,
all others fixed. Variables beside them, whose own terms have grown, join them, until the whole gap is within
the tolerance. Where that is more than half of the model, ADMM goes on with the whole model.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from contextlib import suppress
from dataclasses import fields, replace
from typing import Any, NamedTuple

import numpy as np

from onlinesrl.core.arrays import Floats, Ints, extended
from onlinesrl.core.errors import Infeasible
from onlinesrl.psl.ground.hinge_loss_mrf import AT_MOST, HingeLossMRF
from onlinesrl.psl.inference.admm import Admm
from onlinesrl.psl.inference.dual import conjugates, weighted_rows
from onlinesrl.psl.inference.protocols import HingeSolution
from onlinesrl.psl.kernels import linked_rows as kernel

START = 0.5
"""The value of a variable that is in no row."""
MARGIN = 0.1
"""The share of the tolerance that a solution uses up, so that later steps have the rest."""
LOCAL_ROUNDS = 2_000
"""Rounds of ADMM on a part of the model, before the part grows."""
SHARE = 0.5
"""Above this share of the variables, the whole model is solved."""
LARGE = 0.1
"""Terms of at least this share of the largest call for work."""
RENEWAL = 1_000
"""Steps between two certificates that are computed anew, since sums of changes drift."""
_NONE: Ints = np.empty(0, np.int64)


class HingeRow(NamedTuple):
    """A row of a hinge-loss model: its variables by name, and the other columns of ``HingeLossMRF``."""

    variables: tuple[Hashable, ...]
    coefficients: Floats
    constant: float
    weight_index: int
    power: int
    kind: int


class Certificate(NamedTuple):
    """Energy, an upper bound on its distance to the least, and the largest violation of a constraint."""

    energy: float
    gap: float
    violation: float
    certified: bool

    @property
    def score(self) -> float:
        """Minus the energy."""
        return 0.0 - self.energy


class _Numbers:
    """Numbers for names that come and go; the number of a name that went is given out again."""

    def __init__(self) -> None:
        self.of: dict[Hashable, int] = {}
        self.names: list[Hashable] = []
        self._free: list[int] = []

    def add(self, name: Hashable) -> int:
        """Return a number for a new name."""
        if not self._free:
            self._free.append(len(self.names))
            self.names.append(None)
        number = self.of[name] = self._free.pop()
        self.names[number] = name
        return number

    def remove(self, name: Hashable) -> int:
        """Return the number of a name that goes."""
        number = self.of.pop(name)
        self.names[number] = None
        self._free.append(number)
        return number

    @property
    def all(self) -> Ints:
        """All numbers, int64[names]."""
        return np.fromiter(self.of.values(), np.int64, len(self.of))


ENTRY = "variable", "coefficient", "row", "following", "preceding"
VARIABLE = "first", "y", "reduced_cost", "variable_gap"
"""The fields of ``LinkedRows`` by what they are about; all others are about rows."""


def _longer(frame: Any, **sizes: int) -> Any:
    """Return a frame whose arrays of entries, rows or variables have these sizes, or more."""
    longer = {}
    for field in fields(frame):
        about = "entry" if field.name in ENTRY else "variable" if field.name in VARIABLE else "row"
        array, size = getattr(frame, field.name), sizes.get(about, 0)
        if size > len(array):
            longer[field.name] = extended(array, size)
    return replace(frame, **longer) if longer else frame


def _no_rows() -> kernel.LinkedRows:
    floats, names = np.empty(0), [field.name for field in fields(kernel.LinkedRows)]
    others: dict[str, Any] = {
        "variable": np.int32,
        "row": np.int32,
        "following": np.int32,
        "preceding": np.int32,
        "first": np.int32,
        "start": np.int64,
        "stop": np.int64,
        "weight_index": np.int64,
        "power": np.uint8,
        "kind": np.uint8,
    }
    return kernel.LinkedRows(
        **{name: floats.astype(others.get(name, np.float64)) for name in names}
    )


class IncrementalAdmm:
    """A hinge-loss model whose rows and variables come and go, with its certified minimiser.

    ``weights`` is float64[W]; ``tolerance`` and ``violation`` are those of ``Admm``.
    """

    def __init__(self, weights: Floats, tolerance: float = 1e-6, violation: float = 1e-4):
        self.weights = weights
        self.tolerance, self.violation = tolerance, violation
        self._variables, self._rows = _Numbers(), _Numbers()
        self._linked = _no_rows()
        self._free, self._end = dict[int, list[int]](), 0
        """Where entries of removed rows were, by their number; the end of all entries."""
        self._marks = kernel.Marks(_NONE, _NONE, np.empty(0, np.int32))
        self._mark = 0
        self._energy = self._gap = 0.0
        self._excess = dict[int, float]()
        self._old_duals = list[tuple[Ints, Floats]]()
        """Of the present step: duals that were replaced, to go back to."""
        self._steps = self.largest_part = 0
        """The number of steps; of the variables that the last step solved for at once."""

    def __len__(self) -> int:
        return len(self._variables.of)

    @property
    def rows(self) -> Iterable[Any]:
        """The names of the rows."""
        return self._rows.of.keys()

    def value(self, variable: Hashable) -> float:
        """Return the value of a variable."""
        return float(self._linked.y[self._variables.of[variable]])

    @property
    def certificate(self) -> Certificate:
        """The certificate of the present values."""
        violation = max(self._excess.values(), default=0.0)
        close = self._gap <= self._allowed and violation <= self.violation
        return Certificate(self._energy, self._gap, violation, close)

    @property
    def _allowed(self) -> float:
        return self.tolerance * max(1.0, abs(self._energy))

    def set_weights(self, weights: Floats) -> None:
        """Change the weights, and the duals of the rows in proportion; ``step`` then solves again."""
        rows, linked = self._rows.all, self._linked
        numbers = linked.weight_index[rows]
        weighted = linked.kind[rows] < AT_MOST
        old, new = self.weights[numbers], weights[numbers]
        ratio = np.divide(new, old, out=np.ones(len(rows)), where=weighted & (old > 0.0))
        self.weights = weights
        self._set_conjugates(rows)
        linked.dual[rows] *= ratio
        self.renew()

    def step(
        self,
        rows: Mapping[Hashable, HingeRow | None],
        added: Iterable[Hashable] = (),
        removed: Iterable[Hashable] = (),
    ) -> dict[Any, tuple[float, float]]:
        """Replace, add and remove (None) rows by name, and add and remove variables; solve again.

        Returns the variables whose value changed, each with its old and new value (NaN: there is none). The
        rows of a removed variable are to be removed in the same step. Raises Infeasible where the
        constraints have no solution; then nothing has changed.
        """
        before, gone = dict[int, float](), dict[Hashable, tuple[float, float]]()
        old_rows = {name: self._row(name) for name in rows if name in self._rows.of}
        self._old_duals.clear()
        touched = self._remove_rows([*old_rows])
        for name in removed:
            number = self._variables.remove(name)
            assert self._linked.first[number] < 0, f"a row of {name} stays"
            touched.pop(number, None)
            self._gap -= float(self._linked.variable_gap[number])
            gone[name] = float(self._linked.y[number]), np.nan
        for name in added:
            number = self._variables.add(name)
            self._reserve(variable=number + 1)
            self._begin(number)
            before[number] = np.nan
        new = {name: row for name, row in rows.items() if row is not None}
        touched |= self._add_rows(new)
        variables = np.array([*touched], np.int64)
        for number in variables[self._linked.first[variables] < 0].tolist():
            before.setdefault(number, float(self._linked.y[number]))
            self._gap -= float(self._linked.variable_gap[number])
            self._begin(number)
        self._refresh(np.array([self._rows.of[name] for name in new], np.int64), variables)
        self._steps += 1
        if self._steps % RENEWAL == 0:
            self.renew()
        try:
            self._settle(variables, before)
        except Infeasible:
            self._undo(new, added, gone, old_rows, before)
            raise
        names, y = self._variables.names, self._linked.y
        return gone | {
            names[number]: (old, float(y[number]))
            for number, old in before.items()
            if old != y[number]
        }

    def _undo(
        self,
        new: Iterable[Hashable],
        added: Iterable[Hashable],
        gone: Mapping[Hashable, tuple[float, float]],
        old_rows: Mapping[Hashable, tuple[HingeRow, float]],
        before: Mapping[int, float],
    ) -> None:
        """Restore rows, variables, values and duals as they were before a step."""
        for rows, duals in reversed(self._old_duals):
            self._linked.dual[rows] = duals
        for number, value in before.items():
            self._linked.y[number] = value
        self._remove_rows([*new])
        for name in added:
            self._variables.remove(name)
        for name, (value, _) in gone.items():
            number = self._variables.add(name)
            self._begin(number)
            self._linked.y[number] = value
        self._add_rows({name: row for name, (row, _) in old_rows.items()})
        for name, (_, dual) in old_rows.items():
            self._linked.dual[self._rows.of[name]] = dual
        self.renew()

    def _row(self, name: Hashable) -> tuple[HingeRow, float]:
        """Return a row and its dual."""
        linked, number = self._linked, self._rows.of[name]
        entries = slice(linked.start[number], linked.stop[number])
        row = HingeRow(
            tuple(self._variables.names[j] for j in linked.variable[entries].tolist()),
            linked.coefficient[entries].copy(),
            float(linked.constant[number]),
            int(linked.weight_index[number]),
            int(linked.power[number]),
            int(linked.kind[number]),
        )
        return row, float(linked.dual[number])

    def whole(self) -> tuple[list[Hashable], HingeLossMRF, HingeSolution]:
        """Return the names of the variables in their order, the model over them, and its solution."""
        variables, certificate = self._variables.all, self.certificate
        rows, _, model = self._part(variables)
        solution = HingeSolution(
            self._linked.y[variables],
            certificate.energy,
            self._linked.dual[rows],
            certificate.energy - certificate.gap,
            certificate.violation,
            self._steps,
            "incremental ADMM",
            certificate.certified,
        )
        return list(self._variables.of), model, solution

    def state(self) -> tuple[dict[Any, float], dict[Any, float]]:
        """Return the values of the variables and the duals of the rows, by name; for ``resume``."""
        y, dual = self._linked.y, self._linked.dual
        return (
            {name: float(y[number]) for name, number in self._variables.of.items()},
            {name: float(dual[number]) for name, number in self._rows.of.items()},
        )

    def resume(
        self, rows: Mapping[Any, HingeRow], values: Mapping[Any, float], duals: Mapping[Any, float]
    ) -> None:
        """Begin with variables of these values and rows of these duals, in their order, unsolved."""
        self._reserve(variable=len(values))
        for name, value in values.items():
            number = self._variables.add(name)
            self._begin(number)
            self._linked.y[number] = value
        self._add_rows(rows)
        numbers = np.array([self._rows.of[name] for name in rows], np.int64)
        self._linked.dual[numbers] = [duals[name] for name in rows]
        self.renew()

    def around(self, variable: Hashable) -> tuple[list[Any], HingeLossMRF, HingeSolution]:
        """Return the names of the rows of a variable, their model over it alone, and its solution."""
        active = np.array([self._variables.of[variable]], np.int64)
        rows, _, model = self._part(active)
        certificate = self.certificate
        figures = certificate.energy, self._linked.dual[rows], certificate.energy - certificate.gap
        y, violation = self._linked.y[active], certificate.violation
        solution = HingeSolution(y, *figures, violation, 0, "part", certificate.certified)
        return [self._rows.names[row] for row in rows.tolist()], model, solution

    def renew(self) -> None:
        """Compute reduced costs and the whole certificate anew."""
        linked, rows, variables = self._linked, self._rows.all, self._variables.all
        dual = linked.dual[rows]
        linked.reduced_cost[:] = linked.dual[rows] = 0.0
        kernel.set_duals(linked, rows, dual)
        self._energy = self._gap = 0.0
        for terms in (linked.energy, linked.row_gap, linked.variable_gap):
            terms[:] = 0.0
        self._refresh(rows, variables)

    def _begin(self, variable: int) -> None:
        """Give a variable in no row its first value."""
        self._linked.first[variable], self._linked.y[variable] = -1, START
        self._linked.reduced_cost[variable] = self._linked.variable_gap[variable] = 0.0

    def _reserve(self, **sizes: int) -> None:
        self._linked = _longer(self._linked, **sizes)
        marks, linked = self._marks, self._linked
        if len(marks.row) < len(linked.start) or len(marks.variable) < len(linked.first):
            rows, variables = len(linked.start), len(linked.first)
            fresh = [np.zeros(size, np.int64) for size in (rows, variables)]
            self._marks = kernel.Marks(fresh[0], fresh[1], np.zeros(variables, np.int32))
            self._mark = 0

    def _remove_rows(self, names: list[Hashable]) -> dict[int, None]:
        """Remove rows; return their variables."""
        linked, touched = self._linked, dict[int, None]()
        numbers = np.array([self._rows.remove(name) for name in names], np.int64)
        energy, gap = kernel.remove(linked, numbers)
        self._energy -= energy
        self._gap -= gap
        for number in numbers.tolist():
            start, stop = int(linked.start[number]), int(linked.stop[number])
            touched |= dict.fromkeys(linked.variable[start:stop].tolist())
            self._free.setdefault(stop - start, []).append(start)
            self._excess.pop(number, None)
        return touched

    def _add_rows(self, rows: Mapping[Hashable, HingeRow]) -> dict[int, None]:
        """Add rows; return their variables."""
        columns, of = [*rows.values()], self._variables.of
        new = np.array([self._rows.add(name) for name in rows], np.int64)
        variables = [of[variable] for row in columns for variable in row.variables]
        sizes = np.array([len(row.variables) for row in columns], np.int64)
        start = np.array([self._place(size) for size in sizes.tolist()], np.int64)
        self._reserve(row=int(new.max(initial=-1)) + 1, entry=self._end)
        linked, stop = self._linked, np.cumsum(sizes)
        entries = np.repeat(start - stop + sizes, sizes) + np.arange(len(variables))
        linked.start[new], linked.stop[new] = start, start + sizes
        linked.variable[entries] = variables
        linked.coefficient[entries] = np.concatenate(
            [np.empty(0), *(row.coefficients for row in columns)]
        )
        linked.constant[new] = [row.constant for row in columns]
        linked.weight_index[new] = [row.weight_index for row in columns]
        linked.power[new] = [row.power for row in columns]
        linked.kind[new] = [row.kind for row in columns]
        self._set_conjugates(new)
        kernel.insert(self._linked, new)
        return dict.fromkeys(variables)

    def _place(self, size: int) -> int:
        """Return where so many entries go: in the place of a removed row, or at the end."""
        if self._free.get(size):
            return self._free[size].pop()
        self._end += size
        return self._end - size

    def _set_conjugates(self, rows: Ints) -> None:
        linked, none = self._linked, np.zeros(len(rows) + 1, np.int64)
        columns = linked.weight_index[rows], linked.power[rows], linked.kind[rows]
        model = HingeLossMRF(
            0, none, none[:0].astype(np.int32), np.empty(0), linked.constant[rows], *columns
        )
        conjugate = conjugates(weighted_rows(model, self.weights))
        linked.low[rows], linked.high[rows] = conjugate.low, conjugate.high
        linked.curvature[rows] = conjugate.curvature

    def _refresh(self, rows: Ints, variables: Ints) -> None:
        """Compute the terms of rows and variables anew."""
        linked = self._linked
        energy, gap = kernel.refresh_rows(linked, rows)
        self._energy += energy
        self._gap += gap + kernel.refresh_variables(linked, variables)
        for row in rows[linked.kind[rows] >= AT_MOST].tolist():
            if linked.excess[row] > 0.0:
                self._excess[row] = float(linked.excess[row])
            else:
                self._excess.pop(row, None)

    def _reach(self, active: Ints) -> tuple[Ints, Ints]:
        """Return the rows around variables, and the variables beside."""
        linked, marks = self._linked, self._marks
        self._mark += 1
        around, beside = np.empty((2, max(len(linked.start), len(linked.first))), np.int64)
        n_rows, n_beside = kernel.reach(linked, active, self._mark, marks, around, beside)
        return around[:n_rows].copy(), beside[:n_beside].copy()

    def _part(self, active: Ints) -> tuple[Ints, Ints, HingeLossMRF]:
        """Return the rows around variables, the variables beside, and the model of these rows.

        Its variables are the active ones in their order; the values of the others are in the constants.
        """
        linked = self._linked
        rows, beside = self._reach(active)
        n_rows, n_entries = len(rows), int((linked.stop[rows] - linked.start[rows]).sum())
        part = kernel.Part(
            np.empty(n_rows + 1, np.int64),
            np.empty(n_entries, np.int32),
            np.empty(n_entries),
            np.empty(n_rows),
        )
        kernel.restrict(linked, rows, self._marks.number, part)
        end = part.start[-1]
        model = HingeLossMRF(
            len(active),
            part.start,
            part.variable[:end],
            part.coefficient[:end],
            part.constant,
            linked.weight_index[rows],
            linked.power[rows],
            linked.kind[rows],
        )
        return rows, beside, model

    def _settle(self, touched: Ints, before: dict[int, float]) -> None:
        """Solve for more and more variables until the values are certified. Raises Infeasible."""
        self.largest_part = 0
        active = self._calling(touched, self._excess)
        while not self.certificate.certified:
            self.largest_part = len(active)
            if not len(active) or len(active) > SHARE * len(self):
                self._solve_whole(before)
                return
            rows, beside, model = self._part(active)
            self._solve(rows, active, beside, model, before)
            if not self.certificate.certified:
                active = self._larger(active, self._calling(beside, rows.tolist()))

    def _larger(self, active: Ints, new: Ints) -> Ints:
        """Return the active variables with new ones, and those around these while at most as many are new.

        So a change that travels far, as along a chain, is met after few solutions. None if none are new.
        """
        ring = new
        while len(ring) and len(new) + len(ring) <= len(active):
            _, beside = self._reach(new)
            ring = beside[~np.isin(beside, active)]
            if len(new) + len(ring) <= len(active):
                new = np.concatenate((new, ring))
        return np.concatenate((active, new)) if len(new) else new

    def _calling(self, variables: Ints, rows: Iterable[int]) -> Ints:
        """Return the variables whose terms are large, or that are in one of these rows and violate it."""
        linked = self._linked
        gap = linked.variable_gap[variables]
        is_large = (gap > 0.0) & (gap >= LARGE * gap.max(initial=0.0))
        unmet = [row for row in rows if self._excess.get(row, 0.0) > self.violation]
        entries = [linked.variable[linked.start[row] : linked.stop[row]] for row in unmet]
        if entries:
            is_large |= np.isin(variables, np.concatenate(entries))
        calling: Ints = variables[is_large]
        return calling

    def _solve(
        self,
        rows: Ints,
        active: Ints,
        beside: Ints,
        model: HingeLossMRF,
        before: dict[int, float],
    ) -> None:
        """Minimise over the active variables, all others fixed, if that is feasible."""
        energy = abs(float(self._linked.energy[rows].sum()))
        engine = Admm(MARGIN * self._allowed / max(1.0, energy), self.violation, LOCAL_ROUNDS)
        with suppress(Infeasible):  # the others will join them
            self._accept(engine, rows, active, model, before)
            self._refresh(rows, np.concatenate((active, beside)))

    def _solve_whole(self, before: dict[int, float]) -> None:
        """Continue ADMM on the whole model. Raises Infeasible."""
        variables = self._variables.all
        rows, _, model = self._part(variables)
        engine = Admm(MARGIN * self.tolerance, self.violation)
        self.largest_part = len(variables)
        self._accept(engine, rows, variables, model, before)
        self.renew()

    def _accept(
        self,
        engine: Admm,
        rows: Ints,
        variables: Ints,
        model: HingeLossMRF,
        before: dict[int, float],
    ) -> None:
        linked = self._linked
        y = linked.y[variables]
        start = HingeSolution(
            y, np.nan, linked.dual[rows], -np.inf, np.nan, 0, "start", certified=False
        )
        solution = engine.solve(model, self.weights, start=start)
        for number, value in zip(variables.tolist(), y.tolist(), strict=True):
            before.setdefault(number, value)
        self._old_duals.append((rows, linked.dual[rows]))
        linked.y[variables] = solution.y
        kernel.set_duals(linked, rows, solution.dual)
