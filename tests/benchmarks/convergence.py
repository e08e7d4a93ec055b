"""Tandem inference beside ADMM and SGD, page sizes, optimisers: figures 4.2 to 4.4 of Srinivasan (2020).

usage: python tests/benchmarks/convergence.py engines|pages|optimisers OUTPUT [FOLDER]

  engines     distance to the least energy by CPU seconds, grounding included, of the three methods
  pages       peak memory, system calls and seconds of a pass of tandem inference by the size of pages
  optimisers  distance to the least energy by passes: SGD with three kinds of rates, and ADMM

FOLDER holds citeseer/, epinions/ and jester/ as for streams/papers/searches/compare.py; without it there are
models of friendship only. Prints tables, and writes them to OUTPUT as tandem-*.csv.

Distances are |energy - least| / least, least being what ADMM certifies to 1e-6. In the passes of SGD within
tandem inference an energy is that of every ground rule just before its step. SGD takes the one of four
rates that is best after ten passes; what it takes to choose is not counted. It cannot take hard rules
(CiteSeer's).
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, get_args

import numpy as np

REPO = Path(__file__).parents[2]
sys.path += [str(REPO), str(REPO / "streams" / "papers" / "searches")]

from onlinesrl.core.arrays import Floats  # noqa: E402
from onlinesrl.psl.ground.form_assembly import Listing  # noqa: E402
from onlinesrl.psl.ground.grounder import Grounder  # noqa: E402
from onlinesrl.psl.ground.hinge_loss_mrf import AT_MOST, HingeLossMRF  # noqa: E402
from onlinesrl.psl.inference.admm import Admm  # noqa: E402
from onlinesrl.psl.inference.sgd import Descent, Optimizer  # noqa: E402
from onlinesrl.psl.inference.tandem import Tandem, TandemProgress  # noqa: E402
from onlinesrl.psl.inference.tron import potential_rows  # noqa: E402
from onlinesrl.psl.lang.ast import PslProgram  # noqa: E402
from onlinesrl.psl.lang.data import Database  # noqa: E402
from onlinesrl.psl.lang.reader import parse  # noqa: E402
from tests.benchmarks import tandem  # noqa: E402
from tests.benchmarks.measure import keep, python, show_and_keep  # noqa: E402

Curve = list[tuple[float, float]]
RATES = (0.01, 0.1, 1.0, 10.0)
NEAREST = 1e-7
"""Smaller distances are not told apart: the least energy is known to 1e-6 only."""


class Problem(NamedTuple):
    """A program, and its data."""

    program: PslProgram
    database: Database

    @property
    def weights(self) -> Floats:
        """The weights, the largest being 1; 0 for hard rules."""
        weights = np.array([rule.weight or 0.0 for rule in self.program.rules])
        return weights / weights.max()

    def ground(self) -> HingeLossMRF:
        """Return the ground model."""
        return Grounder(self.program, most=10**9).ground(self.database).graphs.model


def friendship(blocks: int, people: int = tandem.PEOPLE) -> Problem:
    """Return who is whose friend; 40 blocks of 1,080 people make 1.9 million ground rules, 17 make 5.4."""
    arity = {"Block": 2, "Similar": 2, "Friends": 2}
    return Problem(parse(tandem.RULES, declared=arity), tandem.database(blocks, people))


def problems(folder: Path | None) -> Iterator[tuple[str, Problem]]:
    """Yield the models by increasing size."""
    if folder is not None:
        import data as real

        for name in ("epinions", "citeseer"):
            fold = next(real.DATASETS[name].folds(folder, 0)).learn
            yield name, Problem(fold.program, fold.database)
        yield "jester", jester(folder)
    yield "friendship", friendship(40)


def jester(folder: Path) -> Problem:
    """Return 1,000 users of Jester."""
    import data as real

    users, ask = real.hidden_ratings(folder)
    asked = ask(users[:1000])
    return Problem(asked.program, asked.database)


def main(experiment: str, output: Path, folder: Path | None = None) -> None:
    """Run an experiment."""
    small = friendship(2, people=20)
    model = small.ground()
    Admm().solve(model, small.weights)  # compiles
    for optimizer in get_args(Optimizer):
        list(by_passes(model, small.weights, 2, optimizer))
    by_tandem(small)
    EXPERIMENTS[experiment](output, folder)


# engines -----------------------------------------------------------------------------------------


def engines(output: Path, folder: Path | None) -> None:
    """Figure 4.2."""
    sizes = []
    for name, problem in problems(folder):
        curves, least, model = {}, 0.0, problem.ground()
        curves["tandem"] = by_tandem(problem)
        curves["ADMM"], least = by_admm(problem)
        if not np.any(model.kind >= AT_MOST):
            curves["SGD"] = by_sgd(problem, model)
        sizes.append((name, len(problem.weights), model.n_rows, model.n_variables))
        sizes[-1] += tuple(first_below(curves.get(of), least) for of in ("tandem", "ADMM", "SGD"))
        keep_curves(output, f"tandem-engines-{name}", "CPU seconds", curves, least)
    head = ("model", "rules", "ground rules", "variables")
    within = tuple(f"{of}, CPU s to within 1 %" for of in ("tandem", "ADMM", "SGD"))
    show_and_keep(output, "tandem-engines", (*head, *within), sizes)


def by_admm(problem: Problem) -> tuple[Curve, float]:
    """Return energies by CPU seconds, and the least."""
    curve, began = Curve(), time.process_time()
    watch = _watch(curve, lambda _: time.process_time() - began)
    found = Admm(watch=watch).solve(problem.ground(), problem.weights)
    assert found.certified
    return curve, found.energy


def by_sgd(problem: Problem, model: HingeLossMRF) -> Curve:
    """Return energies by CPU seconds, with the best rate."""
    rate = best_rate(model, problem.weights)
    curve, began = Curve(), time.process_time()
    for energy in by_passes(problem.ground(), problem.weights, 500, "sgd", rate):
        curve.append((time.process_time() - began, energy))
        if len(curve) > 1 and abs(energy - curve[-2][1]) <= 1e-6 * max(1.0, abs(energy)):
            break
    return curve


def by_passes(
    model: HingeLossMRF,
    weights: Floats,
    passes: int,
    optimizer: Optimizer,
    rate: float | None = None,
    decay: bool | None = None,
) -> Iterator[float]:
    """Yield the energy after each pass over the rows in random order, from 1/2."""
    rows, y = potential_rows(model, weights, None, 0.0), np.full(model.n_variables, 0.5)
    steps, random = Descent(optimizer, rate, decay, len(y)), np.random.default_rng(0)
    for t in range(1, passes + 1):
        steps.step(rows, random.permutation(model.n_rows), y, t)
        yield model.energy(y, weights)


def best_rate(model: HingeLossMRF, weights: Floats) -> float:
    """Return the rate of SGD with the least energy after ten passes."""
    return min(RATES, key=lambda rate: min(by_passes(model, weights, 10, "sgd", rate)))


def by_tandem(problem: Problem, **options: int) -> Curve:
    """Return energies by CPU seconds."""
    curve, began = Curve(), time.process_time()

    def report(now: TandemProgress) -> None:
        known = curve[-1][1] if curve else None  # ADMM tells the last certificate's again and again
        if now.phase != "ground" and now.energy != known:
            curve.append((time.process_time() - began, now.energy))

    run_tandem(problem, report, **options)
    return curve


def run_tandem(problem: Problem, report: Callable[[TandemProgress], None], **options: int) -> None:
    """Ground and solve in tandem, in a temporary folder."""
    listing, none = Listing(problem.database), np.zeros(len(problem.weights), np.int64)
    with tempfile.TemporaryDirectory() as place:
        models = Grounder(problem.program, most=10**9).models(listing, none)
        found = Tandem(Path(place), **options)  # type: ignore[arg-type]
        found.solve(models, listing.n_variables, problem.weights, report)


def _watch(curve: Curve, place: Callable[[int], float]) -> Callable[..., None]:
    return lambda now: curve.append((place(now.number), now.energy))


def distance(energy: float, least: float) -> float:
    """Return how far an energy is from the least."""
    return max(abs(energy - least) / least, NEAREST)


def first_below(curve: Curve | None, least: float) -> str | float:
    """Return from where on all energies are within 1 % of the least; an empty cell where there is none."""
    far = [n for n, (_, energy) in enumerate(curve or ()) if distance(energy, least) > 0.01]
    after = (curve or ())[max(far, default=-1) + 1 :]
    return after[0][0] if after else ""


def keep_curves(
    output: Path, name: str, across: str, curves: dict[str, Curve], least: float
) -> None:
    """Keep curves in one table, a column for each, at most 200 points of each."""
    rows: list[Sequence[str | float]] = []
    for n, curve in enumerate(curves.values()):
        for x, energy in curve[:: -(-len(curve) // 200)]:
            cells = [""] * len(curves)
            cells[n] = f"{distance(energy, least):.3g}"
            rows.append((x, *cells))
    keep(output, name, (across, *curves), rows)


# pages -------------------------------------------------------------------------------------------

PAGE_BYTES = (1 << 10, 1 << 13, 1 << 16, 1 << 19, 1 << 22, 1 << 25, 1 << 28)
PASSES, BLOCKS = 3, 40


def pages(output: Path, folder: Path | None) -> None:
    """Figure 4.3; every size in a process of its own."""
    rows = []
    for size in (*PAGE_BYTES, 0):
        found = json.loads(python(Path(__file__), "page", str(size)).output)
        rows.append((size or "all in memory", *found.values()))
    head = ("bytes of a page", "ground rules of a page", "peak MB", "calls of a pass")
    show_and_keep(output, "tandem-pages", (*head, "CPU s of a pass", "s of a pass"), rows)
    for n, name in enumerate(("memory", "calls", "seconds"), 2):
        line = [(row[0], row[n]) for row in rows[:-1]]
        keep(output, f"tandem-pages-{name}", ("bytes of a page", name), line)


def page(size: int) -> None:
    """Print what passes of SGD over pages of a size use, in this process; 0: all in memory."""
    problem, marks = friendship(BLOCKS), list[tuple[float, float, int]]()

    def mark(now: object) -> None:
        if not isinstance(now, TandemProgress) or now.phase != "ground":
            marks.append((time.process_time(), time.perf_counter(), calls()))

    if size:
        run_tandem(problem, mark, page_bytes=size, descents=1 + PASSES, rounds=0)
        marks = marks[:PASSES]
    else:
        for energy in by_passes(problem.ground(), problem.weights, PASSES, "sgd"):
            mark(energy)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    first, last = np.array(marks[0]), np.array(marks[-1])
    cpu, wall, io = (last - first) / (len(marks) - 1)
    print(
        json.dumps({"rows": size // 75 or "", "peak": peak, "calls": io, "cpu": cpu, "wall": wall})
    )


def calls() -> int:
    """Return how often this process has read and written by system calls."""
    lines = (line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    counts = {name: int(value) for name, value in lines}
    return counts["syscr"] + counts["syscw"]


# optimisers --------------------------------------------------------------------------------------


def optimisers(output: Path, folder: Path | None) -> None:
    """Figure 4.4; at most 100 passes of SGD."""
    for name, problem in problems(folder):
        model, weights = problem.ground(), problem.weights
        if np.any(model.kind >= AT_MOST):
            continue
        curves = {"ADMM": Curve()}
        least = Admm(watch=_watch(curves["ADMM"], float)).solve(model, weights).energy
        rate = best_rate(model, weights)
        rates: dict[str, tuple[Optimizer, float, bool]] = {
            f"SGD, {rate:g} / t": ("sgd", rate, True),
            "SGD, constant 0.01": ("sgd", 0.01, False),
            "SGD, Adam 0.01": ("adam", 0.01, False),
        }
        for of, steps in rates.items():
            curves[of] = [*enumerate(by_passes(model, weights, 100, *steps), 1)]
        keep_curves(output, f"tandem-optimisers-{name}", "rounds", curves, least)


EXPERIMENTS = {"engines": engines, "pages": pages, "optimisers": optimisers}

if __name__ == "__main__":
    if "--help" in sys.argv:
        print(__doc__)
        sys.exit()
    if sys.argv[1:2] == ["page"] and len(sys.argv) == 3:
        page(int(sys.argv[2]))
    elif len(sys.argv) in {3, 4} and sys.argv[1] in EXPERIMENTS:
        main(sys.argv[1], *map(Path, sys.argv[2:]))
    else:
        sys.exit(__doc__)
