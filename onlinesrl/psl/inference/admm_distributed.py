"""ADMM over parts of one model that workers ground and keep; the values and the certificate are here.

What parts add is summed in their order, so that the answer depends on their number, not on that of the
workers. A part knows the variables of its own rows only: they are what a round sends and gets back.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path
from typing import NamedTuple

import numpy as np

from onlinesrl.core.arrays import Floats, Ints, Ints32
from onlinesrl.core.io.restoring import Expected, restored, restoring
from onlinesrl.core.parallel.actors import ActorPool
from onlinesrl.core.parallel.executors import Pool
from onlinesrl.psl.ground.duckdb_joins import DuckDb
from onlinesrl.psl.ground.form_assembly import Listing
from onlinesrl.psl.ground.grounder import Grounder
from onlinesrl.psl.ground.hinge_loss_mrf import HingeLossMRF
from onlinesrl.psl.ground.sql import Cut
from onlinesrl.psl.inference.admm_paged import (
    Certificate,
    Consensus,
    InitialSums,
    Limits,
    PagedSolution,
    PageRows,
    Progress,
    RoundSums,
    polish,
)
from onlinesrl.psl.inference.resume_file import ResumeFile, digest
from onlinesrl.psl.inference.row_pages import Pages
from onlinesrl.psl.kernels import admm_rows as kernel
from onlinesrl.psl.lang.data import Database

PAGE_BYTES = 1 << 23


@dataclass(frozen=True)
class Task:
    """What is grounded, with ``memory`` bytes for DuckDB; ``weights`` are those of the rules."""

    grounder: Grounder
    database: Database
    weights: Floats
    memory: int


class PartSums(NamedTuple):
    """A part's variables, int32[k] of the model, the sums over its rows that ADMM needs, and its size."""

    variables: Ints32
    weight_sums: Floats
    ridge: Floats
    highest: float
    rows: int
    constraints: int
    inactive: Ints
    skipped: int
    bytes_on_disk: int


class PartRows:
    """A part of the rows of a model, grounded into pages in the system's temporary folder.

    Its variables are numbered in the order in which they occur.
    """

    def __init__(self, task: Task, cut: Cut) -> None:
        folder, listing = Path(tempfile.gettempdir()), Listing(task.database)
        n = listing.n_variables
        inactive, skipped = np.zeros(len(task.weights), np.int64), np.zeros(1, np.int64)
        number, highest, rows, constraints = np.full(n, -1, np.int32), 0.0, 0, 0
        weight_sums, ridge = np.zeros((2, n))
        with ExitStack() as opened:
            self._pages = opened.enter_context(Pages(folder, PAGE_BYTES))
            with DuckDb(folder, task.memory, cut) as engine:
                models = task.grounder.models(listing, inactive, engine, skipped)
                for page in self._pages.fill(_renumbered(models, number), task.weights):
                    highest += kernel.weigh(page.rows, weight_sums, ridge)
                    rows += len(page.dual)
                    constraints += int(np.isinf(page.rows.weight).sum())
            self._opened = opened.pop_all()
        k = int(number.max(initial=-1)) + 1
        self._sums = PartSums(
            np.argsort(number, kind="stable")[n - k :].astype(np.int32),
            weight_sums[:k].copy(),
            ridge[:k].copy(),
            highest,
            rows,
            constraints,
            inactive,
            int(skipped[0]),
            self._pages.bytes_on_disk,
        )

    def sums(self) -> PartSums:
        """Return the sums over the rows."""
        return self._sums

    def begin(self, weight_sums: Floats, y: Floats) -> InitialSums:
        """See ``Rows.begin``; arguments and answer are of the part's variables."""
        self._hold(weight_sums)
        return self._rows.begin(y)

    def _hold(self, weight_sums: Floats) -> None:
        self._weight_sums = np.array(weight_sums)
        self._rows = PageRows(self._pages, self._weight_sums)

    def round(self, ahead: Floats, eta: float, y: Floats | None, mark: bool) -> RoundSums:
        """See ``Rows.round``."""
        return self._rows.round(ahead, eta, y, mark)

    def save(self) -> tuple[Floats, Floats]:
        """Return what is not known from the part, after a round with ``mark``: the duals of its rows."""
        duals = [self._pages.read(k).dual.copy() for k in range(len(self._pages))]
        return self._weight_sums, np.concatenate([np.empty(0), *duals])

    def restore(self, saved: tuple[Floats, Floats]) -> None:
        """See ``State.restore``."""
        weight_sums, duals = saved
        self._hold(weight_sums)
        first = 0
        for k in range(len(self._pages)):
            page = self._pages.read(k)
            page.dual[:] = page.mark[:] = duals[first : first + len(page.dual)]
            self._pages.keep(k, page, with_mark=True)
            first += len(page.dual)

    def close(self) -> None:
        """Delete the pages."""
        self._opened.close()


def _renumbered(models: Iterable[HingeLossMRF], number: Ints32) -> Iterator[HingeLossMRF]:
    """Yield models whose variables are numbered in the order in which they occur.

    ``number`` int32[variables], -1 before, is set to the new numbers.
    """
    count = 0
    for model in models:
        new = np.unique(model.variable[number[model.variable] < 0])
        number[new] = np.arange(count, count + len(new))
        count += len(new)
        yield replace(model, variable=number[model.variable])


@dataclass
class Ground:
    """What the parts are together, over ``n`` variables of the model."""

    actors: ActorPool
    n: int
    parts: list[PartSums]
    weight_sums: Floats = field(init=False)
    ridge: Floats = field(init=False)

    def __post_init__(self) -> None:
        """Add the sums of the parts."""
        self.weight_sums = self._sum(part.weight_sums for part in self.parts)
        self.ridge = self._sum(part.ridge for part in self.parts)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(part.rows for part in self.parts)

    @property
    def highest(self) -> float:
        """An upper bound of the energy."""
        return sum(part.highest for part in self.parts)

    @property
    def inactive(self) -> Ints:
        """The ground rules of each rule that are never active, int64[rules]."""
        return sum((part.inactive for part in self.parts), np.zeros(1, np.int64))

    @property
    def skipped(self) -> int:
        """The ground rules that reach an atom neither observed nor a target."""
        return sum(part.skipped for part in self.parts)

    @property
    def bytes_a_round(self) -> int:
        """The bytes of values and sums that a round sends and gets back, without certificate."""
        return 2 * 8 * sum(len(part.variables) for part in self.parts)

    def begin(self, y: Floats) -> InitialSums:
        """See ``Rows.begin``."""
        sums: list[InitialSums] = self.actors.call(
            "begin", [(self.weight_sums[p.variables], y[p.variables]) for p in self.parts]
        )
        return InitialSums(
            reduce(Certificate.add, (part.certificate for part in sums), Certificate()),
            self._sum(part.degree for part in sums),
            self._sum(part.gradient for part in sums),
            self._sum(part.clipped for part in sums),
        )

    def round(self, ahead: Floats, eta: float, y: Floats | None, mark: bool) -> RoundSums:
        """See ``Rows.round``."""
        sums: list[RoundSums] = self.actors.call(
            "round",
            [
                (ahead[p.variables], eta, None if y is None else y[p.variables], mark)
                for p in self.parts
            ],
        )
        if mark and self.actors.logged > 8 * self.rows:
            self.actors.save()
        return RoundSums(
            self._sum(part.gradient for part in sums),
            sum(part.moved for part in sums),
            reduce(Certificate.add, (part.certificate for part in sums), Certificate()),
            self._sum(part.clipped for part in sums) if y is not None else np.zeros(0),
        )

    def _sum(self, of_parts: Iterable[Floats]) -> Floats:
        """Add what parts give for their variables, in the order of the parts."""
        total = np.zeros(self.n)
        for part, added in zip(self.parts, of_parts, strict=True):
            total[part.variables] += added
        return total


_PROGRESS = {
    "found": Expected(np.float64, (4,), -np.inf, np.inf),
    "lowest": Expected(np.float64, (4,), -np.inf, np.inf),
    "best": Expected(np.float64, ("variables",), 0.0, 1.0),
}


@dataclass
class _ResumePoint:
    """Saves the consensus and the duals of every part from time to time, and restores them."""

    file: ResumeFile
    ground: Ground
    consensus: Consensus

    def restore(self, key: str) -> Progress | None:
        """Restore parts and consensus; return None where nothing was saved for ``key``."""
        saved = self.file.open(key)
        if saved is None:
            return None
        ground, parts = self.ground, self.ground.parts
        of_rows = {f"duals.{n}": Expected(np.float64, (p.rows,)) for n, p in enumerate(parts)}
        with restoring(saved.path):
            arrays = restored(saved.arrays, of_rows | _PROGRESS, variables=ground.n)
            self.consensus.restore(saved.header, saved.arrays)
        ground.actors.restore(
            [(ground.weight_sums[p.variables], arrays[f"duals.{n}"]) for n, p in enumerate(parts)]
        )
        last, lowest = (Certificate(*arrays[name].tolist()) for name in ("found", "lowest"))
        return Progress(last, lowest, arrays["best"])

    def save(self, progress: Progress) -> None:
        """Write the file, if it is due."""
        if self.file.due:
            header, arrays = self.consensus.save()
            arrays |= {name: np.array(value) for name, value in progress._asdict().items()}
            duals = [dual for _, dual in self.ground.actors.save()]
            arrays |= {f"duals.{n}": dual for n, dual in enumerate(duals)}
            self.file.write(self.consensus.count, header, arrays)


@dataclass(frozen=True)
class DistributedAdmm:
    """ADMM in so many parts, held by the workers of a pool; it ends as ``Admm`` does."""

    pool: Pool
    parts: int
    tolerance: float = 1e-6
    violation: float = 1e-4
    rounds: int = 25_000

    def solve(
        self,
        task: Task,
        report: Callable[[int, Certificate], object],
        grounded: Callable[[int], object],
        resume_file: ResumeFile | None = None,
    ) -> tuple[PagedSolution, Ground]:
        """Ground and solve; ``grounded`` is told the number of rows. ``resume_file`` is where this goes on.

        Raises Infeasible, ValueError and what ``Grounder.models`` and ``Pages`` raise, or PartError in
        its place.
        """
        cuts = [Cut(part, self.parts) for part in range(self.parts)]
        n = sum(len(item.targets) for item in task.database.relations.values())
        with self.pool.hold(PartRows, task, cuts) as rows:
            ground = Ground(rows, n, rows.call("sums", [()] * self.parts))
            grounded(ground.rows)
            consensus = Consensus(ground, np.full(n, 0.5), ground.ridge)
            limits = Limits(self.tolerance, self.violation, self.rounds, ground.highest)
            progress, save = None, None
            if resume_file is not None:
                point = _ResumePoint(resume_file, ground, consensus)
                settings = (
                    self.parts,
                    self.tolerance,
                    self.violation,
                    self.rounds,
                    task.grounder.key,
                )
                progress = point.restore(digest(settings, task.weights, task.database))
                save = point.save
            certificate, y, certified = polish(consensus, limits, report, progress, save)
        constraints = sum(part.constraints for part in ground.parts)
        size = sum(part.bytes_on_disk for part in ground.parts)
        counts = ground.rows - constraints, constraints, consensus.count, size
        return PagedSolution(y, *certificate[:3], *counts, certified), ground
