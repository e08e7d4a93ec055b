"""Whole processes beside PSL's on its cases: ground, solve, all; CPU seconds, memory and objectives.

Needs PSL's runtime, ``psl-runtime.jar`` of the pslpython wheel, named by PSL_JAR, and Java. PSL's
seconds are those that the peers' script takes from its log.
"""

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from tests.benchmarks.measure import ONLINESRL, SHARED, Used, python, show

PSL = SHARED / "peers" / "psl"
JAR = os.environ.get("PSL_JAR", "")
CASES = [
    "simple-acquaintances",
    "friendship-10k",
    "friendship-100k",
    "citeseer",
    "smokers-100k-sq",
    "smokers-100k-lin",
    "socialnet-22050-quad",
]
LEARNED = ["smokers-learn-5k", "simple-acquaintances-learn", "citeseer-learn"]
TIMES = 3
LEARN = """
import json, sys, time
from pathlib import Path
from onlinesrl.psl.query import infer
from onlinesrl.psl.learning.mle import Mle
from onlinesrl.psl.learning.problem import grounded
model = query.load(Path(sys.argv[1]), None)
data, began = model.database("learn"), time.process_time()
problem = grounded(model.program, model.functions, data)
learned = Mle().learn(problem, lambda step: None)
print(json.dumps([time.process_time() - began, learned.trace[-1].objective]))
"""

pytestmark = [
    pytest.mark.benchmark,
    pytest.mark.skipif(not Path(JAR).is_file(), reason="PSL_JAR names no runtime of PSL"),
    pytest.mark.skipif(not PSL.exists(), reason="needs the cases of PSL"),
]


def ours(case: str, method: str, folder: Path) -> tuple[Used, dict]:
    model = PSL / "cases" / case / "config.json"
    options = ("--model", model, "--method", method, "--output", folder)
    runs = [python(*ONLINESRL, "infer", *options) for _ in range(TIMES)]
    stats = json.loads((folder / "stats.json").read_text())
    return sorted(runs, key=lambda run: run.cpu)[TIMES // 2], stats


def psls(case: str, folder: Path, *options: str) -> dict:
    """PSL's medians, and the objective of its answer as our model has it."""
    arguments = (case, "--n", str(TIMES), "--jar", JAR, "--out", folder / "results.jsonl", *options)
    python(folder / "run_psl.py", *arguments)
    return json.loads((folder / "results.jsonl").read_text().splitlines()[-1])


def test_beside_psl(tmp_path):
    shutil.copytree(PSL, tmp_path / "psl")
    rows, ratios = [], []
    for case in CASES:
        psl = psls(case, tmp_path / "psl")
        golden = json.loads((PSL / "golden" / case / "golden.json").read_text())
        recorded = golden["psl_objective_recomputed"]
        whole = psl["user_s"] + psl["sys_s"]
        megabytes = psl["rss_kb"] / 1000
        rows.append(
            (case, "PSL", psl["ground_cpu_s"], psl["infer_cpu_s"], whole, megabytes, recorded)
        )
        for method in ("admm", "lifted-admm"):
            used, stats = ours(case, method, tmp_path / case / method)
            seconds, found = stats["cpu_seconds"], stats["normalised_objective"]
            memory = stats["peak_bytes"] / 1e6
            rows.append(
                (case, method, seconds["ground"], seconds["solve"], used.cpu, memory, found)
            )
            ratios.append(
                (
                    case,
                    method,
                    psl["ground_cpu_s"] / seconds["ground"],
                    psl["infer_cpu_s"] / seconds["solve"],
                    whole / used.cpu,
                    memory / megabytes,
                )
            )
            assert found <= max(golden["ref_objective"], recorded) * (1 + 1e-5)
    head = ("case", "engine", "ground", "solve", "process", "MB", "objective")
    show("CPU seconds, medians", head, rows)
    show("PSL's over ours; memory: ours over PSL's", head[:-1], ratios)


def test_learning_beside_psl(tmp_path):
    """MLE with most probable values, PSL's structured perceptron: CPU seconds of grounding and learning."""
    shutil.copytree(PSL, tmp_path / "psl")
    rows = []
    for case in LEARNED:
        psl = psls(case, tmp_path / "psl", "--learn", "StructuredPerceptron")
        log = (tmp_path / "psl" / "raw" / f"{case}.default" / "log.txt").read_text()
        (loss,) = map(float, re.findall(r"Final Weight Learning Loss: ([-.\dE]+)", log))
        runs = [
            json.loads(python("-c", LEARN, PSL / "cases" / case / "config.json").output)
            for _ in range(TIMES)
        ]
        seconds, objective = sorted(runs)[TIMES // 2]
        rows.append(
            (case, psl["learn_cpu_s"], loss, seconds, objective, psl["learn_cpu_s"] / seconds)
        )
        assert objective <= loss
    head = ("case", "PSL: CPU s", "objective", "ours: CPU s", "objective", "ratio")
    show("Learning with grounding, medians", head, rows)
