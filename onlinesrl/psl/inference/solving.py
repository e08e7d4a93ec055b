"""Inference on one PSL model: an engine of ``registry`` grounds the program on its data, and solves it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.core.errors import UsageError
from onlinesrl.core.io.atomic_write import storage_errors
from onlinesrl.psl.ground.form_assembly import Listing
from onlinesrl.psl.ground.grounder import MOST, Grounder
from onlinesrl.psl.ground.hinge_loss_mrf import AT_MOST, HingeLossMRF, united
from onlinesrl.psl.inference.admm import Admm
from onlinesrl.psl.inference.dual import residual
from onlinesrl.psl.inference.protocols import EngineOptions, HingeSolution, Round
from onlinesrl.psl.inference.registry import ENGINES, PslEngine, TandemSection
from onlinesrl.psl.inference.weight_scale import scale
from onlinesrl.psl.lang.ast import PslProgram
from onlinesrl.psl.lang.data import Database
from onlinesrl.psl.lang.model import Functions

if TYPE_CHECKING:
    from onlinesrl.psl.inference.admm_paged import PagedSolution
    from onlinesrl.psl.inference.tandem import Tandem, TandemProgress

Say: TypeAlias = Callable[[str], None]


def quiet(message: str) -> None:
    """Say nothing."""


class InferenceProblem(NamedTuple):
    """A program and its data."""

    program: PslProgram
    functions: Functions
    database: Database


@dataclass(frozen=True)
class Options:
    """How a problem is solved: by the engine ``method``, whose random numbers are those of ``seed``.

    ``folder`` is for data that do not fit in memory; None: the system's temporary folder. ``say`` gets
    messages of progress, ``tell`` those that stay. ``most`` limits the rows of joins when grounding in
    memory; ``skip`` leaves out ground rules with an atom that is neither observed nor a target. ``threads``
    does not change the answer; ``large`` is ADMM's.
    """

    method: str = "admm"
    seed: int = 0
    folder: Path | None = None
    say: Say = quiet
    tell: Say = quiet
    most: int = MOST
    skip: bool = False
    threads: int = 1
    large: int = Admm.large

    def check(self) -> None:
        """Raise UsageError for a method that there is not."""
        if self.method not in ENGINES:
            raise UsageError(
                f"unknown method {self.method}; for PSL there are {', '.join(ENGINES)}"
            )

    @property
    def section(self) -> PslEngine:
        """The section of the method, with its default values."""
        section: PslEngine = ENGINES[self.method]()
        return section

    @property
    def of_engine(self) -> EngineOptions:
        """What the engine is made with."""

        def watch(at: Round) -> None:
            excess = f", violation {at.violation:.2g}" if at.violation > 0 else ""
            self.say(f"round {at.number}: {_energy(at.energy, at.bound)}{excess}")

        return EngineOptions(self.seed, watch, self.threads, self.large, self.folder)

    def grounder(self, problem: InferenceProblem) -> Grounder:
        """Return what grounds a problem."""
        advice = "--max-groundings sets how many, and --method tandem takes any number"
        most = np.iinfo(np.int64).max if self.method == "tandem" else self.most
        return Grounder(
            problem.program, problem.functions, most=most, advice=advice, skip=self.skip
        )


Solved: TypeAlias = tuple[HingeSolution, dict[str, Any]]
"""A solution, and statistics."""


def solved(problem: InferenceProblem, options: Options, lap: Say) -> Solved:
    """Ground and solve a problem, reporting laps; also returns statistics.

    Raises UsageError where a method does not solve such a model.
    """
    section, weights = options.section, weights_of(problem.program)
    listing, skipped = Listing(problem.database), np.zeros(1, np.int64)
    inactive = np.zeros(len(weights), np.int64)
    chunks = options.grounder(problem).models(listing, inactive, skipped)
    if isinstance(section, TandemSection):
        tandem = section.tandem(options.of_engine)
        paged = _solved_while_ground(tandem, chunks, listing.n_variables, weights, options, lap)
        solution: HingeSolution = paged
        potentials, constraints = paged.potentials, paged.constraints
        special: dict[str, Any] = {"bytes_on_disk": paged.bytes_on_disk}
    else:
        model = united(listing.n_variables, [*chunks])
        lap("ground")
        options.say(f"{model.n_rows:,} ground rules over {model.n_variables:,} targets")
        try:
            solution = section.make(options.of_engine).solve(model, weights)
        except ValueError as error:
            raise UsageError(f"this method does not solve this model: {error}") from None
        constraints = int(np.count_nonzero(model.kind >= AT_MOST))
        potentials = model.n_rows - constraints
        special = {"dual_residual": residual(model, solution.y, solution.dual)}
    lap("solve")
    hard = np.array([rule.weight is None for rule in problem.program.rules], np.bool_)
    return solution, {  # with ground rules that are never active and hence not in the model
        "targets": listing.n_variables,
        "potentials": potentials + int(inactive[~hard].sum()),
        "constraints": constraints + int(inactive[hard].sum()),
        "never_active": int(inactive.sum()),
        "skipped": int(skipped[0]),
        **special,
    }


def _solved_while_ground(
    tandem: Tandem,
    chunks: Iterable[HingeLossMRF],
    n_variables: int,
    weights: Floats,
    options: Options,
    lap: Say,
) -> PagedSolution:
    """Solve a problem while it is ground, for weights of any size."""

    def report(at: TandemProgress) -> None:
        if at.phase != "ground" and not laps:
            laps.append(at.phase)
            lap("ground")
        so_far = f"{at.phase} {at.round}: {at.rows:,} ground rules"
        options.say(f"{so_far}, {_energy(at.energy / s, at.bound / s)}")

    laps: list[str] = []
    s, folder = scale(weights), options.of_engine.place
    with storage_errors(folder, "create"):
        folder.mkdir(parents=True, exist_ok=True)
    solution = tandem.solve(chunks, n_variables, s * weights, report)
    return replace(solution, energy=solution.energy / s, bound=solution.bound / s)


def weights_of(program: PslProgram) -> Floats:
    """Return the weights of the rules, float64[rules]; 0 for hard ones."""
    return np.array([rule.weight or 0.0 for rule in program.rules])


def _energy(energy: float, bound: float) -> str:
    gap = f", at most {energy - bound:.3g} above the least" if bound > -np.inf else ""
    return f"energy {energy:.8g}{gap}"
