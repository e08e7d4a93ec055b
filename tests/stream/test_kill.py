"""A run that is killed for real, anywhere and any number of times, ends as if it had never been.

In this process `test_recovery` ends a run at its writes; here processes die.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import time

import pytest
from conftest import REPO, Job, soaked, tiers

from tests.support import world_changes
from tests.support.waiting import PATIENCE

LEARNERS = {
    "cda1": {"update": "cda1", "sigma": 0.01},
    "cda2": {"update": "cda2", "sigma": 0.01},
    "mira": {"update": "mira"},
    "subgradient": {"update": "subgradient", "sigma": 0.01},
}
BAD = [b"{\n", b'{"id": 1, "evidence": {"Tokn": []}}\n', b"\xff\xfe\n", b"[]\n"]
COLD = "from onlinesrl.commands.cli import main; main()"


def mixed(citations: list[bytes], count: int, seed: str) -> list[bytes]:
    """The first citations with bad lines among them."""
    lines = citations[:count]
    rng = random.Random(seed)
    for bad in BAD * (count // 30 + 1):
        lines.insert(rng.randrange(len(lines) + 1), bad)
    return lines


@tiers("kills", 2, 100)
@pytest.mark.parametrize("learner", ["cda2", *map(soaked, ("cda1", "mira", "subgradient"))])
def test_kills_at_random_moments_leave_no_trace(job, citations, learner, kills):
    lines = mixed(citations, 30, learner)
    keys = {"checkpoint": {"every": 7}, "limits": {"bad_share": 1.0}}
    broken = job(lines, learner=LEARNERS[learner], **keys)
    broken.survives(kills, learner)
    assert len(broken.lines("deadletter.jsonl")) == len(lines) - 30


@tiers("kills", 1, 50)
@pytest.mark.parametrize("soft", [True, False])
def test_a_run_over_a_world_that_dies_leaves_no_trace(world_run, soft, kills):
    lines = world_changes.changes(120, soft, 8)
    truths = [{"id": f"truth {name}", "truth": {"Good": [[name]]}} for name in "abc"]
    keys = {"checkpoint": {"every": 7}, "limits": {"bad_share": 1.0, "crashes": 0}}
    broken = world_run([*lines, *truths], soft, learner={"update": "cda2"}, **keys)
    broken.survives(kills, soft)
    assert broken.lines("metrics.jsonl")[-1]["labelled"]


@pytest.mark.soak
@pytest.mark.parametrize("learner", LEARNERS)
def test_kills_of_cold_processes_leave_no_trace(job, citations, tally, learner):
    """One in two while they learn, the others while they start."""
    broken = job(citations[:140], learner=LEARNERS[learner], checkpoint={"every": 3})
    assert broken.run() == 0, broken.said
    expected = broken.results()
    shutil.rmtree(broken.output)
    rng, kills, killed, code = random.Random(learner), 20, 0, -signal.SIGKILL
    while killed < kills or code != 0:
        if code == 0:  # it was at its end before it could be killed
            shutil.rmtree(broken.output)
        process = subprocess.Popen(
            [sys.executable, "-c", COLD, "run", str(broken.config)],
            env=os.environ | {"PYTHONPATH": str(REPO)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        goal = newest(broken) + rng.randint(1, 3)
        if killed < kills:
            if killed % 2:
                time.sleep(rng.uniform(0.0, 0.5))
            else:
                while process.poll() is None and newest(broken) < goal:
                    time.sleep(0.001)
            process.kill()
        code = process.wait(PATIENCE)
        assert code in (0, -signal.SIGKILL)
        killed += code == -signal.SIGKILL
    assert broken.results() == expected
    tally["kills"] += killed


def newest(job: Job) -> int:
    """The number of the newest checkpoint, 0: none yet."""
    found = job.checkpoints()
    return int(found[-1].stem.rpartition("-")[2]) if found else 0
