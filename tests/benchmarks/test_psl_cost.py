"""PSL: whole processes beside PSL's, inference on pages and beside HiGHS, and by two threads.

PSL's runtime is that of the package pslpython; it needs Java. PSL's seconds are those that the peers' script
takes from its log.
"""

import json
import re
import shutil
import time
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import highspy
import numpy as np
import pytest

from onlinesrl.core.arrays import Floats
from onlinesrl.psl.ground.hinge_loss_mrf import HingeLossMRF
from onlinesrl.psl.inference.admm import Admm
from tests.benchmarks.measure import ONLINESRL, Used, in_turns, python, ratio, show, sizes
from tests.support.hinge_models import PSL, alike, friendship

CASES = ["simple-acquaintances", "friendship-100k", "citeseer"]
CASES += ["smokers-100k-sq", "smokers-100k-lin", "socialnet-22050-quad"]
LEARNED = ["smokers-learn-5k", "simple-acquaintances-learn", "citeseer-learn"]
RULES = """
1: Block(P1, A) & Block(P2, A) & Similar(P1, P2) & P1 != P2 -> Friends(P1, P2) ^2
1: Block(P1, A) & Block(P2, A) & Block(P3, A) & Friends(P1, P2) & Friends(P2, P3)
   & P1 != P2 & P2 != P3 & P1 != P3 -> Friends(P1, P3) ^2
1: Block(P1, A) & Block(P2, A) & Friends(P1, P2) & P1 != P2 -> Friends(P2, P1) ^2
0.1: !Friends(P1, P2) ^2
"""
LEARN = """
import json, sys, time
from pathlib import Path
from onlinesrl.psl.query.infer import load
from onlinesrl.psl.learning.mle import Mle
from onlinesrl.psl.learning.problem import grounded
model = load(Path(sys.argv[1]), None)
data, began = model.database("learn"), time.process_time()
problem = grounded(model.program, model.functions, data)
learned = Mle().learn(problem, lambda step: None)
print(json.dumps([time.process_time() - began, learned.trace[-1].objective]))
"""


def infer(folder: Path, model: Path, *options: str | Path) -> tuple[Used, dict[str, Any]]:
    """Run ``infer`` in a process of its own; return what it used, and its statistics."""
    used = python(*ONLINESRL, "infer", "--model", model, "--output", folder, *options)
    return used, json.loads((folder / "stats.json").read_text())


def psls(case: str, folder: Path, times: int, *options: str) -> dict[str, Any]:
    """PSL's medians, and the objective of its answer as our model has it."""
    results = folder / "results.jsonl"
    package = find_spec("pslpython")
    assert package is not None and package.origin is not None
    jar = Path(package.origin).with_name("psl-runtime.jar")
    arguments = (case, "--n", str(times), "--jar", jar, "--out", results, *options)
    python(folder / "run_psl.py", *arguments)
    return json.loads(results.read_text().splitlines()[-1])


@pytest.mark.skipif(not PSL.exists(), reason="needs the cases of PSL")
class TestBesidePsl:
    @sizes("cases, times", (CASES[:1], 1), (CASES, 3))
    def test_inference(self, cases: list[str], times: int, tmp_path: Path) -> None:
        shutil.copytree(PSL, tmp_path / "psl")
        rows = []
        for case in cases:
            psl = psls(case, tmp_path / "psl", times)
            golden = json.loads((PSL / "golden" / case / "golden.json").read_text())
            recorded, whole = golden["psl_objective_recomputed"], psl["user_s"] + psl["sys_s"]
            grounding, solving, megabytes = (
                psl[k] for k in ("ground_cpu_s", "infer_cpu_s", "rss_kb")
            )
            rows.append((case, "PSL", grounding, solving, whole, megabytes / 1000, recorded))
            model = PSL / "cases" / case / "config.json"
            for method in ("admm", "lifted-admm"):
                runs = [infer(tmp_path / method, model, "--method", method) for _ in range(times)]
                used, stats = sorted(runs, key=lambda run: run[0].cpu)[times // 2]
                seconds, objective = stats["cpu_seconds"], stats["normalised_objective"]
                parts = seconds["ground"], seconds["solve"]
                rows.append((case, method, *parts, used.cpu, used.megabytes, objective))
                assert objective <= max(golden["ref_objective"], recorded) * (1 + 1e-5)
        head = ("case", "engine", "ground", "solve", "process", "MB", "objective")
        show("CPU seconds, medians", head, rows)

    @sizes("cases, times", (LEARNED[:1], 1), (LEARNED, 3))
    def test_learning(self, cases: list[str], times: int, tmp_path: Path) -> None:
        """MLE with most probable values, PSL's structured perceptron: CPU seconds with grounding."""
        shutil.copytree(PSL, tmp_path / "psl")
        rows = []
        for case in cases:
            psl = psls(case, tmp_path / "psl", times, "--learn", "StructuredPerceptron")
            log = (tmp_path / "psl" / "raw" / f"{case}.default" / "log.txt").read_text()
            [loss] = map(float, re.findall(r"Final Weight Learning Loss: ([-.\dE]+)", log))
            model = PSL / "cases" / case / "config.json"
            runs = [json.loads(python("-c", LEARN, model).output) for _ in range(times)]
            seconds, objective = sorted(runs)[times // 2]
            rows.append((case, psl["learn_cpu_s"], loss, seconds, objective))
            assert objective <= loss
        head = ("case", "PSL: CPU s", "objective", "ours: CPU s", "objective")
        show("Learning with grounding, medians", head, rows)


def write_friends(folder: Path, people: int, blocks: int) -> list[str | Path]:
    """Write PSL's friendship example, blocks of one size; return the options of ``infer``."""
    random = np.random.default_rng(0)
    pairs = [(a, b) for a in range(people) for b in range(people) if a != b]
    block = random.permutation(people) % blocks
    similar = np.where(random.random(len(pairs)) < 0.3, random.random(len(pairs)), 0.0)
    rows = {
        "block": [f"{n}\tb{at}" for n, at in enumerate(block)],
        "similar": [f"{a}\t{b}\t{x:.6f}" for (a, b), x in zip(pairs, similar, strict=True)],
        "friends": [f"{a}\t{b}" for a, b in pairs],
    }
    for name, lines in rows.items():
        (folder / f"{name}.txt").write_text("\n".join(lines) + "\n")
    (folder / "model.psl").write_text(RULES)
    (folder / "model.data").write_text(
        "predicates: {Block/2: closed, Similar/2: closed, Friends/2: open}\n"
        "observations: {Block: block.txt, Similar: similar.txt}\n"
        "targets: {Friends: friends.txt}\n"
    )
    return ["--data", folder / "model.data"]


@sizes("people, all_blocks, most, more", (12, (3,), 1e9, 1e9), (1080, (17, 5), 1500.0, 100.0))
def test_pages(
    people: int, all_blocks: tuple[int, ...], most: float, more: float, tmp_path: Path
) -> None:
    """17 blocks make 5 million ground rules, 5 make 50 million: the memory stays."""
    rows = []
    for blocks in all_blocks:
        data = write_friends(tmp_path, people, blocks)
        out, model = tmp_path / "out", tmp_path / "model.psl"
        used, stats = infer(out, model, *data, "--method", "tandem")
        assert stats["certified"]
        rows.append((f"{blocks} blocks", stats["potentials"], used.wall, used.cpu, used.megabytes))
    show("Tandem inference", ("", "potentials", "s", "CPU s", "peak MB"), rows)
    assert rows[-1][-1] <= min(most, rows[0][-1] + more)


def by_highs(model: HingeLossMRF, weights: Floats) -> float:
    """The least energy by HiGHS's dual simplex alone, of all rows, with a number for each hinge."""
    n, m, each = model.n_variables, model.n_rows, np.arange(model.n_rows)
    program = highspy.HighsLp()
    program.num_col_, program.num_row_ = n + m, m
    program.col_cost_ = np.append(np.zeros(n), model.row_weights(weights))
    program.col_lower_ = np.zeros(n + m)
    program.col_upper_ = np.append(np.ones(n), np.full(m, np.inf))
    program.row_lower_, program.row_upper_ = np.full(m, -np.inf), -model.constant
    program.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    program.a_matrix_.start_ = model.start + np.arange(m + 1)
    program.a_matrix_.index_ = np.insert(model.variable, model.start[1:], n + each)
    program.a_matrix_.value_ = np.insert(model.coefficient, model.start[1:], -1.0)
    solver = highspy.Highs()  # type: ignore[no-untyped-call]
    for option, setting in {"output_flag": False, "solver": "simplex", "threads": 1}.items():
        solver.setOptionValue(option, setting)  # type: ignore[arg-type]
    solver.passModel(program)
    solver.run()
    assert solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
    return float(solver.getInfo().objective_function_value)


@sizes("people, times, most", (30, 1, np.inf), (200, 5, np.inf), (600, 3, 1.0))
def test_a_dense_model(people: int, times: int, most: float) -> None:
    """Linear rules about all pairs of 600 people are 360,600 ground rules."""
    model, weights = alike(people)
    found, least = Admm().solve(model, weights), by_highs(model, weights)
    assert found.certified
    assert found.energy == pytest.approx(least, rel=2e-6)
    ours, theirs = in_turns(
        times, lambda: Admm().solve(model, weights), lambda: by_highs(model, weights)
    )
    row = (f"{model.n_rows:,}", median(ours), median(theirs), ratio(ours, theirs))
    show("ADMM beside HiGHS", ("ground rules", "ADMM: CPU s", "HiGHS: CPU s", "ratio"), [row])
    assert row[-1] <= most


@sizes("people, times", (10, 1), (430, 15))
def test_two_threads(people: int, times: int) -> None:
    """Ten blocks of 430 people are a million ground rules; two cores should be idle."""
    random = np.random.default_rng(0)
    similar = random.beta(7.6, 2.4, size=(people, people))
    ground, weights = friendship(random.integers(10, size=people), similar)
    walls: list[list[float]] = [[], []]
    for _ in range(times + 1):
        answers = []
        for threads, own in zip((1, 2), walls, strict=True):
            began = time.perf_counter()
            answers.append(Admm(threads=threads).solve(ground, weights))
            own.append(time.perf_counter() - began)
        assert answers[0].y.tobytes() == answers[1].y.tobytes()
    one, two = (own[1:] for own in walls)
    row = (f"{ground.n_rows:,}", median(one), median(two), ratio(one, two))
    show("ADMM by one and two threads", ("ground rules", "1: wall s", "2: wall s", "ratio"), [row])
