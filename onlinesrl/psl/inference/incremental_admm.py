"""Certified answers of a hinge-loss model whose rows come and go, at the cost of what changes.

The duality gap of values y and duals u (``psl.inference.dual``) is a sum of local terms, none below 0:

    energy(y) - bound(u) = sum_i [ f_i(l_i) + curvature_i u_i^2 / 2 - u_i l_i ]
                         + sum_j [ r_j y_j - min(0, r_j) ],      r = Q' u

(Fenchel's inequality for every row, complementarity for every variable; a constraint adds |u_i l_i|). A
change of rows changes the terms of these rows and of their variables, so the certificate follows at that
cost, and the terms say where there is work left. Where the energy is smooth, as that of squared hinges, the
duals follow from the values. Descent along single variables, those with the largest terms first, then
needs work where there is a gap, and nowhere else (Wright 2015, "Coordinate descent algorithms"). What it
leaves open, at kinks of hinges and at constraints, ADMM minimises over the variables with large terms, all
others fixed. Variables beside them, whose own terms have grown, join them, until the whole gap is within
the tolerance. Where that is much of the model, ADMM goes on with the whole model.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import fields
from typing import NamedTuple

import numpy as np

from onlinesrl.core.arrays import Floats, Ints
from onlinesrl.core.errors import Infeasible
from onlinesrl.psl.ground.hinge_loss_mrf import AT_MOST, HingeLossMRF
from onlinesrl.psl.inference.admm import Admm
from onlinesrl.psl.inference.dual import conjugates
from onlinesrl.psl.inference.protocols import HingeSolution
from onlinesrl.psl.inference.weight_scale import scale
from onlinesrl.psl.kernels import linked_rows as kernel

START = 0.5
"""The value of a variable that is in no row."""
MARGIN = 0.1
"""The share of the tolerance that a solution uses up, so that later steps have the rest."""
FULL = 0.8
"""All variables with large terms are solved for where those that a step has not touched use up more than
this share of the tolerance."""
LOCAL_ROUNDS = 2_000
"""Rounds of ADMM on a part of the model, before the part grows."""
SHARE = 0.5
"""The whole model is solved where a step touches more than this share, or parts together have it."""
LARGE = 0.1
"""Terms of at least this share of the largest call for work."""
RENEWAL = 1_000
"""Steps between two certificates that are computed anew, since sums of changes drift."""
_NONE: Ints = np.empty(0, np.int64)


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


class IncrementalAdmm:
    """A hinge-loss model whose rows and variables come and go, with its certified minimiser.

    The caller numbers rows and variables; the number of one that went may be used again. ``weights`` is
    float64[W]; ``tolerance`` and ``violation`` are those of ``Admm``.
    """

    def __init__(self, weights: Floats, tolerance: float = 1e-6, violation: float = 1e-4):
        self.weights = weights
        self.tolerance, self.violation = tolerance, violation
        self._linked = kernel.LinkedRows.zeros(row=0, block=0, variable=0, entry=0)
        self._size = self._n_rows = self._hard = 0
        """The numbers of variables, of rows, and of constraints among these."""
        self._free, self._end = dict[int, list[int]](), 0
        """Where entries of removed rows were, by their number; the end of all entries."""
        self._marks = kernel.Marks.zeros(row=0, variable=0)
        self._mark = 0
        self._energy = self._gap = 0.0
        self._old_duals = list[tuple[Ints, Floats]]()
        self._old_values = list[tuple[Ints, Floats]]()
        """Of the present step: duals and values that were replaced, to go back to."""
        self._steps = self.largest_part = 0
        """The number of steps; of the variables that the last step solved for at once."""

    def __len__(self) -> int:
        return self._size

    @property
    def values(self) -> Floats:
        """The values of the variables, by number."""
        return self._linked.y

    @property
    def certificate(self) -> Certificate:
        """The certificate of the present values."""
        violation = float(self._linked.worst.max(initial=0.0)) if self._hard else 0.0
        close = self._gap <= self._allowed and violation <= self.violation
        return Certificate(self._energy, self._gap, violation, close)

    @property
    def _allowed(self) -> float:
        return self.tolerance * max(self._unit, abs(self._energy))

    @property
    def _unit(self) -> float:
        """The energy below which the tolerance is absolute, as where ``Admm`` scales the weights."""
        return 1.0 / scale(self.weights)

    def set_weights(self, weights: Floats) -> None:
        """Change the weights, and the duals of the rows in proportion; ``step`` then solves again."""
        rows, linked = np.flatnonzero(self._linked.is_row), self._linked
        numbers = linked.weight_index[rows]
        weighted = linked.kind[rows] < AT_MOST
        old, new = self.weights[numbers], weights[numbers]
        ratio = np.divide(new, old, out=np.ones(len(rows)), where=weighted & (old > 0.0))
        self.weights = weights
        self._set_conjugates(rows, self._model(rows))
        linked.dual[rows] *= ratio
        self.renew()

    def step(
        self,
        rows: Ints,
        model: HingeLossMRF,
        gone: Ints = _NONE,
        added: Ints = _NONE,
        removed: Ints = _NONE,
    ) -> Ints:
        """Set rows to those of ``model`` in its order, remove rows, add and remove variables; solve again.

        Returns the variables whose values changed, with those that came or went. The rows of a removed
        variable are to be set or removed in the same step. Raises Infeasible where the constraints have no
        solution; then nothing has changed.
        """
        self._old_duals.clear()
        self._old_values.clear()
        self._steps += 1
        figures = self._energy, self._gap
        self._reserve(row=int(rows.max(initial=-1)) + 1, variable=int(added.max(initial=-1)) + 1)
        differs = np.empty(len(rows), np.uint8)
        kernel.compare(self._linked, rows, model, differs)
        places = np.flatnonzero(differs)
        rows = rows[places]
        replaced = np.concatenate((rows[self._linked.is_row[rows] > 0], gone))
        old_rows = self._model(replaced), self._linked.dual[replaced]
        touched = np.concatenate((self._variables_of(replaced), _NONE))
        self._remove_rows(replaced)
        linked = self._linked
        assert np.all(linked.first[removed] < 0), "a row of a removed variable stays"
        self._keep_values(removed)
        self._gap -= float(linked.variable_gap[removed].sum())
        self._remove_variables(removed)
        self._add_variables(added)
        linked.replaced[added] = self._steps
        self._old_values.append((added, np.full(len(added), np.nan)))
        self._add_rows(rows, model if len(places) == model.n_rows else model.chosen(places))
        touched = np.union1d(touched, self._variables_of(rows))
        touched = touched[self._linked.is_variable[touched] > 0]
        single = touched[self._linked.first[touched] < 0]
        self._keep_values(single)
        self._gap -= float(self._linked.variable_gap[single].sum())
        self._begin(single)
        self._refresh(rows, touched)
        if self._steps % RENEWAL == 0:
            self.renew()
        try:
            self._settle(touched)
        except Infeasible:
            self._undo(rows, added, removed, replaced, *old_rows)
            self._energy, self._gap = figures
            raise
        variables, old = (np.concatenate(part) for part in zip(*self._old_values, strict=True))
        new = np.where(self._linked.is_variable[variables] > 0, self._linked.y[variables], np.nan)
        changed: Ints = variables[old != new]
        return changed

    def _undo(
        self,
        new: Ints,
        added: Ints,
        removed: Ints,
        replaced: Ints,
        model: HingeLossMRF,
        duals: Floats,
    ) -> None:
        """Restore rows, variables, values and duals as they were before a step."""
        for rows, dual in reversed(self._old_duals):
            self._linked.dual[rows] = dual
        self._remove_rows(new)
        self._remove_variables(added)
        self._add_variables(removed)
        for variables, values in self._old_values:
            self._linked.y[variables] = np.where(np.isnan(values), START, values)
        self._add_rows(replaced, model)
        self._linked.dual[replaced] = duals
        self.renew()

    def duals(self, rows: Ints) -> Floats:
        """Return the duals of rows."""
        duals: Floats = self._linked.dual[rows]
        return duals

    def resume(
        self, rows: Ints, model: HingeLossMRF, duals: Floats, variables: Ints, values: Floats
    ) -> None:
        """Begin with variables of these values and rows of these duals, unsolved."""
        self._reserve(
            row=int(rows.max(initial=-1)) + 1, variable=int(variables.max(initial=-1)) + 1
        )
        self._add_variables(variables)
        self._linked.y[variables] = values
        self._add_rows(rows, model)
        self._linked.dual[rows] = duals
        self.renew()

    def around(self, variables: Ints) -> tuple[Ints, HingeLossMRF, HingeSolution]:
        """Return the numbers of the rows of variables, the rows over these alone, and their solution.

        Its figures are those of the whole model.
        """
        rows, model = self._part(variables)
        of = self.certificate
        figures = of.energy, self._linked.dual[rows], of.energy - of.gap, of.violation, self._steps
        y = self._linked.y[variables]
        return rows, model, HingeSolution(y, *figures, "incremental ADMM", of.certified)

    def renew(self) -> None:
        """Compute reduced costs and the whole certificate anew."""
        linked, rows = self._linked, np.flatnonzero(self._linked.is_row)
        dual = linked.dual[rows]
        linked.reduced_cost[:] = linked.dual[rows] = 0.0
        kernel.set_duals(linked, rows, dual)
        self._energy = self._gap = 0.0
        for terms in (linked.energy, linked.row_gap, linked.variable_gap):
            terms[:] = 0.0
        self._refresh(rows, np.flatnonzero(self._linked.is_variable))

    # variables and rows --------------------------------------------------------------------------

    def _add_variables(self, variables: Ints) -> None:
        self._linked.is_variable[variables] = 1
        self._size += len(variables)
        self._begin(variables)

    def _remove_variables(self, variables: Ints) -> None:
        self._linked.is_variable[variables] = 0
        self._size -= len(variables)

    def _begin(self, variables: Ints) -> None:
        """Give variables in no row their first value."""
        linked = self._linked
        linked.first[variables], linked.y[variables] = -1, START
        linked.reduced_cost[variables] = linked.variable_gap[variables] = 0.0

    def _keep_values(self, variables: Ints, values: Floats | None = None) -> None:
        """Note the values of variables, to which this step gives others."""
        values = self._linked.y[variables] if values is None else values
        is_fresh = self._linked.replaced[variables] != self._steps
        self._linked.replaced[variables] = self._steps
        self._old_values.append((variables[is_fresh], values[is_fresh]))

    def _reserve(self, row: int = 0, variable: int = 0, entry: int = 0) -> None:
        """Make room for so many; where there is too little, twice as much."""
        linked, wanted = self._linked, {"row": row, "variable": variable, "entry": entry}
        room = [len(linked.start), len(linked.first), len(linked.variable)]
        sizes = {
            name: n if n >= wanted[name] else 2 * wanted[name]
            for name, n in zip(wanted, room, strict=True)
        }
        if [*sizes.values()] == room:
            return
        blocks = -(-sizes["row"] // kernel.BLOCK)
        self._linked = kernel.LinkedRows.zeros({}, **sizes, block=blocks)
        for field in fields(linked):
            before = getattr(linked, field.name)
            getattr(self._linked, field.name)[: len(before)] = before
        self._marks = kernel.Marks.zeros(row=sizes["row"], variable=sizes["variable"])
        self._mark = 0

    def _remove_rows(self, rows: Ints) -> None:
        linked = self._linked
        energy, gap = kernel.remove(linked, rows)
        self._energy -= energy
        self._gap -= gap
        self._linked.is_row[rows] = 0
        self._n_rows -= len(rows)
        self._hard -= int((linked.kind[rows] >= AT_MOST).sum())
        start, sizes = linked.start[rows], linked.stop[rows] - linked.start[rows]
        for size in np.unique(sizes).tolist():
            self._free.setdefault(size, []).extend(start[sizes == size].tolist())

    def _add_rows(self, rows: Ints, model: HingeLossMRF) -> None:
        sizes = np.diff(model.start)
        start = self._places(sizes)
        self._reserve(entry=self._end)
        linked = self._linked
        entries = np.repeat(start - model.start[:-1], sizes) + np.arange(len(model.variable))
        linked.start[rows], linked.stop[rows] = start, start + sizes
        linked.variable[entries], linked.coefficient[entries] = model.variable, model.coefficient
        linked.constant[rows], linked.weight_index[rows] = model.constant, model.weight_index
        linked.power[rows], linked.kind[rows] = model.power, model.kind
        self._set_conjugates(rows, model)
        self._linked.is_row[rows] = 1
        self._n_rows += len(rows)
        self._hard += int((model.kind >= AT_MOST).sum())
        kernel.insert(linked, rows)

    def _set_conjugates(self, rows: Ints, model: HingeLossMRF) -> None:
        conjugate = conjugates(model, self.weights)
        linked = self._linked
        linked.low[rows], linked.high[rows] = conjugate.low, conjugate.high
        linked.curvature[rows] = conjugate.curvature

    def _places(self, sizes: Ints) -> Ints:
        """Return where rows with so many entries go: in the place of a removed row, or at the end."""
        start = np.empty(len(sizes), np.int64)
        for size in np.unique(sizes).tolist():
            which, free = np.flatnonzero(sizes == size), self._free.get(size, [])
            again = min(len(free), len(which))
            start[which[:again]] = free[len(free) - again :]
            del free[len(free) - again :]
            start[which[again:]] = self._end + size * np.arange(len(which) - again)
            self._end += size * (len(which) - again)
        return start

    def _model(self, rows: Ints) -> HingeLossMRF:
        """Return rows as a model."""
        linked = self._linked
        sizes = linked.stop[rows] - linked.start[rows]
        start = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))
        entries = np.repeat(linked.start[rows] - start[:-1], sizes) + np.arange(start[-1])
        return HingeLossMRF(
            len(linked.first),
            start,
            linked.variable[entries],
            linked.coefficient[entries],
            *(getattr(linked, name)[rows] for name in OF_ROWS),
        )

    def _variables_of(self, rows: Ints) -> Ints:
        """Return the variables of rows, each once."""
        self._mark += 1
        beside = self._marks.beside
        n = kernel.variables_of(self._linked, rows, self._mark, self._marks.variable, beside)
        return beside[:n].copy()

    def _refresh(self, rows: Ints, variables: Ints) -> None:
        """Compute the terms of rows and variables anew."""
        energy, gap = kernel.refresh_rows(self._linked, rows)
        self._energy += energy
        self._gap += gap + kernel.refresh_variables(self._linked, variables)

    def _reach(self, active: Ints) -> tuple[Ints, Ints, int]:
        """Return the rows around variables, the variables beside, and the entries of the variables."""
        marks = self._marks
        self._mark += 1
        n_rows, n_beside, entries = kernel.reach(self._linked, active, self._mark, marks)
        return marks.around[:n_rows].copy(), marks.beside[:n_beside].copy(), entries

    def _part(self, active: Ints) -> tuple[Ints, HingeLossMRF]:
        """Return the rows around variables, and their model, see ``_restricted``."""
        rows, _, entries = self._reach(active)
        return rows, self._restricted(rows, len(active), entries)

    def _restricted(self, rows: Ints, n: int, entries: int) -> HingeLossMRF:
        """Return the model of the rows around the variables that ``_reach`` was asked for last.

        It has these n variables in their order; the values of all others are in the constants.
        """
        linked, start = self._linked, np.empty(len(rows) + 1, np.int64)
        forms = start, np.empty(entries, np.int32), np.empty(entries)
        part = HingeLossMRF(n, *forms, *(getattr(linked, name)[rows] for name in OF_ROWS))
        kernel.restrict(linked, rows, self._marks.number, part)
        return part

    # solving -------------------------------------------------------------------------------------

    def _settle(self, touched: Ints) -> None:
        """Solve for more and more variables until the values are certified. Raises Infeasible."""
        self.largest_part = 0
        if len(touched) > SHARE * self._size and not self.certificate.certified:
            self._solve_whole()
            return
        others = self._gap - float(self._linked.variable_gap[touched].sum())
        if others > FULL * self._allowed:
            gaps = np.where(self._linked.is_variable > 0, self._linked.variable_gap, 0.0)
            is_large = gaps > MARGIN * self._allowed / max(1, self._size)
            touched, others = np.flatnonzero(is_large), float(gaps.sum(where=~is_large))
        touched, moved = self._descend(touched, others + MARGIN * (self._allowed - others))
        active = np.union1d(moved, self._calling(touched, self._unmet()))
        most = SHARE * self._n_rows
        while not self.certificate.certified:
            rows, beside, entries = self._reach(active)
            most -= len(rows)
            if not len(active) or most < 0:
                self._solve_whole()
                return
            self.largest_part = len(active)
            self._solve(rows, active, beside, self._restricted(rows, len(active), entries))
            if not self.certificate.certified:
                active = self._larger(active, self._calling(beside, rows))

    def _descend(self, touched: Ints, goal: float) -> tuple[Ints, Ints]:
        """Minimise over single variables until the whole gap is at most ``goal``, or that gets on slowly.

        Begins with those touched; returns these and those around, and which of them moved.
        """
        marks, least = self._marks, MARGIN * self._allowed / max(1, self._size)
        self._mark += 1
        figures = self._gap - goal, least, self._mark, marks
        n_rows, n, energy, gap = kernel.descend(self._linked, touched, *figures)
        self._energy += energy
        self._gap += gap
        around, rows = marks.beside[:n].copy(), marks.around[:n_rows].copy()
        moves = self._linked.y[around] != marks.old_y[:n]
        self.largest_part = n
        self._keep_values(around, marks.old_y[:n])
        self._old_duals.append((rows, marks.old_dual[:n_rows].copy()))
        return around, around[moves]

    def _larger(self, active: Ints, new: Ints) -> Ints:
        """Return the active variables with new ones, and those around these while at most as many are new.

        So a change that travels far, as along a chain, is met after few solutions. None if none are new.
        """
        ring = new
        while len(ring) and len(new) + len(ring) <= len(active):
            _, beside, _ = self._reach(new)
            ring = beside[~np.isin(beside, active)]
            if len(new) + len(ring) <= len(active):
                new = np.concatenate((new, ring))
        return np.concatenate((active, new)) if len(new) else new

    def _calling(self, variables: Ints, rows: Ints) -> Ints:
        """Return the variables whose terms are large, or that are in one of these rows and violate it."""
        linked = self._linked
        gap = linked.variable_gap[variables]
        is_large = (gap > 0.0) & (gap >= LARGE * gap.max(initial=0.0))
        if self._hard:
            unmet = rows[linked.excess[rows] > self.violation]
            is_large |= np.isin(variables, self._variables_of(unmet))
        calling: Ints = variables[is_large]
        return calling

    def _unmet(self) -> Ints:
        """Return the constraints that the values violate."""
        linked = self._linked
        blocks = np.flatnonzero(linked.worst > self.violation)
        rows = (blocks[:, None] * kernel.BLOCK + np.arange(kernel.BLOCK)).ravel()
        rows = rows[rows < len(linked.excess)]
        unmet: Ints = rows[linked.excess[rows] > self.violation]
        return unmet

    def _solve(self, rows: Ints, active: Ints, beside: Ints, model: HingeLossMRF) -> None:
        """Minimise over the active variables, all others fixed, if that is feasible."""
        energy = abs(float(self._linked.energy[rows].sum()))
        engine = Admm(
            MARGIN * self._allowed / max(self._unit, energy), self.violation, LOCAL_ROUNDS
        )
        with suppress(Infeasible):  # the others will join them
            self._accept(engine, rows, active, model)
            self._refresh(rows, np.concatenate((active, beside)))

    def _solve_whole(self) -> None:
        """Continue ADMM on the whole model. Raises Infeasible."""
        variables = np.flatnonzero(self._linked.is_variable)
        rows, model = self._part(variables)
        engine = Admm(MARGIN * self.tolerance, self.violation)
        self.largest_part = len(variables)
        self._accept(engine, rows, variables, model)
        self.renew()

    def _accept(self, engine: Admm, rows: Ints, variables: Ints, model: HingeLossMRF) -> None:
        linked = self._linked
        y = linked.y[variables]
        start = HingeSolution(
            y, np.nan, linked.dual[rows], -np.inf, np.nan, 0, "start", certified=False
        )
        solution = engine.solve(model, self.weights, start=start)
        self._keep_values(variables)
        self._old_duals.append((rows, linked.dual[rows]))
        linked.y[variables] = solution.y
        kernel.set_duals(linked, rows, solution.dual)


OF_ROWS = "constant", "weight_index", "power", "kind"
"""The columns of ``HingeLossMRF`` that have one number a row, as they are in ``LinkedRows``."""
