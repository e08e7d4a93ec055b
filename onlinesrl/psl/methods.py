"""The methods of inference on one PSL model: each grounds a program on data, and solves it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from onlinesrl.core.arrays import Floats, Ints
from onlinesrl.core.errors import UsageError
from onlinesrl.core.storage import storage_errors
from onlinesrl.psl.engines.admm import Admm
from onlinesrl.psl.engines.dual import residual
from onlinesrl.psl.engines.engine import HingeEngine, HingeSolution, Round
from onlinesrl.psl.engines.lifting import Lifted
from onlinesrl.psl.engines.sgd import Sgd
from onlinesrl.psl.engines.tron import Tron
from onlinesrl.psl.ground.grounder import Grounder
from onlinesrl.psl.ground.hinges import AT_MOST
from onlinesrl.psl.ground.rows import Listing
from onlinesrl.psl.lang.ast import PslProgram
from onlinesrl.psl.lang.data import Database
from onlinesrl.psl.lang.model import Functions

if TYPE_CHECKING:
    from onlinesrl.core.pool import Pool
    from onlinesrl.psl.engines.kept import Kept
    from onlinesrl.psl.engines.paged import PagedSolution

METHODS = ("admm", "lifted-admm", "tandem", "sgd", "tron", "qp")

DUCKDB_BYTES = 400_000_000
"""The memory, in bytes, that DuckDB may use for grounding in tandem inference, or a part of a model."""

Say: TypeAlias = Callable[[str], None]
MakeGrounder: TypeAlias = Callable[[PslProgram, Functions], Grounder]
Solve: TypeAlias = Callable[
    [PslProgram, Functions, Database, Callable[[str], None]],
    "tuple[HingeSolution | PagedSolution, dict[str, Any]]",
]
"""Grounds and solves a program on data, reporting laps; also returns statistics."""


class Parts(NamedTuple):
    """A model cut into so many parts, which the workers of a pool hold; ``kept`` is where to go on."""

    pool: Pool
    number: int
    kept: Kept | None = None


def check_method(method: str, parts: Parts | None = None) -> None:
    """Raise UsageError for a method that there is not, or not in parts."""
    if method not in METHODS:
        raise UsageError(f"unknown method {method}; for PSL there are {', '.join(METHODS)}")
    if parts is not None and method != "admm":
        raise UsageError(f"--distribute: {method} is for one process; expected --method admm")


def method_of(  # noqa: PLR0913, PLR0917 - as ``infer``
    method: str,
    seed: int,
    folder: Path,
    say: Say,
    grounder: MakeGrounder,
    threads: int,
    fewest: int = Admm.fewest,
    parts: Parts | None = None,
) -> Solve:
    """Return a method, by name; ``parts``: in parts."""
    if parts is not None:
        return partial(_solved_in_parts, parts, say, grounder)
    if method == "tandem":
        return partial(_solved_while_ground, seed, threads, folder, say, grounder)
    engine = _engine(method, seed, say, threads, fewest)
    return partial(_solved_in_memory, engine, say, grounder)


def _solved_in_memory(  # noqa: PLR0913, PLR0917 - a method and its problem
    engine: HingeEngine,
    say: Say,
    grounder: MakeGrounder,
    program: PslProgram,
    functions: Functions,
    database: Database,
    lap: Callable[[str], None],
) -> tuple[HingeSolution, dict[str, Any]]:
    grounded = grounder(program, functions).ground(database)
    model = grounded.graphs.model
    lap("ground")
    say(f"{model.n_rows:,} ground rules over {model.n_variables:,} targets")
    try:
        found = engine.solve(model, weights_of(program))
    except ValueError as error:
        raise UsageError(f"this method does not solve this model: {error}") from None
    lap("solve")
    constraints = int(np.count_nonzero(model.kind >= AT_MOST))
    potentials = model.n_rows - constraints
    return found, {
        **_counts(program, model.n_variables, potentials, constraints, grounded.inactive),
        "skipped": int(grounded.skipped[0]),
        "dual_residual": residual(model, found.y, found.dual),
    }


def _solved_while_ground(  # noqa: PLR0913, PLR0917 - a method and its problem
    seed: int,
    threads: int,
    folder: Path,
    say: Say,
    grounder: MakeGrounder,
    program: PslProgram,
    functions: Functions,
    database: Database,
    lap: Callable[[str], None],
) -> tuple[PagedSolution, dict[str, Any]]:
    from onlinesrl.psl.engines.tandem import Tandem, TandemProgress
    from onlinesrl.psl.ground.duckdb_joins import DuckDb

    def report(at: TandemProgress) -> None:
        if at.phase != "ground" and not laps:
            laps.append(at.phase)
            lap("ground")
        so_far = f"{at.phase} {at.round}: {at.rows:,} ground rules"
        say(f"{so_far}, {_energy(at.energy, at.bound)}")

    laps: list[str] = []
    listing, inactive = Listing(database), np.zeros(len(program.rules), np.int64)
    skipped = np.zeros(1, np.int64)
    with storage_errors(folder, "create"):
        folder.mkdir(parents=True, exist_ok=True)
    with DuckDb(folder, DUCKDB_BYTES) as engine:
        models = grounder(program, functions).models(listing, inactive, engine, skipped)
        tandem = Tandem(folder, seed=seed, threads=threads)
        found = tandem.solve(models, listing.n_variables, weights_of(program), report)
    lap("solve")
    counts = found.potentials, found.constraints, inactive
    return found, {
        **_counts(program, listing.n_variables, *counts),
        "skipped": int(skipped[0]),
        "bytes_on_disk": found.bytes_on_disk,
    }


def _solved_in_parts(  # noqa: PLR0913, PLR0917 - a method and its problem
    parts: Parts,
    say: Say,
    grounder: MakeGrounder,
    program: PslProgram,
    functions: Functions,
    database: Database,
    lap: Callable[[str], None],
) -> tuple[PagedSolution, dict[str, Any]]:
    from onlinesrl.psl.engines.distributed import DistributedAdmm, Task
    from onlinesrl.psl.engines.paged import Certificate

    def report(count: int, at: Certificate) -> None:
        say(f"round {count}: {_energy(at.energy, at.bound)}")

    def grounded(rows: int) -> None:
        lap("ground")
        say(f"{rows:,} ground rules in {parts.number} parts")

    task = Task(grounder(program, functions), database, weights_of(program), DUCKDB_BYTES)
    engine = DistributedAdmm(parts.pool, parts.number)
    found, ground = engine.solve(task, report, grounded, parts.kept)
    lap("solve")
    counts = found.potentials, found.constraints, ground.inactive
    return found, {
        **_counts(program, len(found.y), *counts),
        "skipped": ground.skipped,
        "parts": parts.number,
        "bytes_on_disk": found.bytes_on_disk,
        "bytes_a_round": ground.bytes_a_round,
    }


def weights_of(program: PslProgram) -> Floats:
    """Return the weights of the rules, float64[rules]; 0 for hard ones."""
    return np.array([rule.weight or 0.0 for rule in program.rules])


def _counts(
    program: PslProgram, targets: int, potentials: int, constraints: int, inactive: Ints
) -> dict[str, int]:
    """Count ground rules, including those that are never active and hence not in the model."""
    hard = np.array([rule.weight is None for rule in program.rules], np.bool_)
    return {
        "targets": targets,
        "potentials": potentials + int(inactive[~hard].sum()),
        "constraints": constraints + int(inactive[hard].sum()),
        "never_active": int(inactive.sum()),
    }


def _energy(energy: float, bound: float) -> str:
    gap = f", at most {energy - bound:.3g} above the least" if bound > -np.inf else ""
    return f"energy {energy:.8g}{gap}"


def _engine(method: str, seed: int, say: Say, threads: int, fewest: int) -> HingeEngine:
    def watch(at: Round) -> None:
        excess = f", violation {at.violation:.2g}" if at.violation > 0 else ""
        say(f"round {at.number}: {_energy(at.energy, at.bound)}{excess}")

    if method == "qp":
        try:
            from onlinesrl.psl.engines.qp import Qp
        except ModuleNotFoundError as error:
            message = f"qp needs {error.name}, which comes with the extra qp: pip install '.[qp]'"
            raise UsageError(message) from None
        return Qp()
    admm = Admm(watch=watch, threads=threads, fewest=fewest)
    engines: Mapping[str, HingeEngine] = {
        "admm": admm,
        "lifted-admm": Lifted(admm),
        "sgd": Sgd(seed=seed, watch=watch),
        "tron": Tron(),
    }
    return engines[method]
