"""A first signal ends a run after its micro-batch, a second at once; it goes on from there, bit for bit."""

import os
import signal
import subprocess
import sys
from typing import Any

import pytest
from conftest import REPO

from onlinesrl.mln.online.learner import MlnOnlineLearner


def signalled(*numbers: signal.Signals) -> Any:
    """Have signals come during the first micro-batch of several examples."""

    def install() -> None:
        step, left = MlnOnlineLearner.step, [*numbers]

        def stepping(self: Any, items: Any, learning: bool = True) -> Any:
            while left and len(items) > 1:
                os.kill(os.getpid(), left.pop(0))
            return step(self, items, learning)

        MlnOnlineLearner.step = stepping  # type: ignore[method-assign]

    return install


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_run_after_its_micro_batch(job, citations, number):
    """First of what there is, then, when it had finished, of a file that has grown."""
    whole, run = job(citations[:40], "whole"), job(citations[:20], "run")
    assert whole.run() == 0
    assert run.run(first=signalled(number)) == 0
    assert "stopping, with a checkpoint; a second signal stops at once\n" in run.said
    n = len(run.lines("predictions.jsonl"))
    assert 1 < n < 20
    assert f"stopped after {n} examples; run it again to resume" in run.said
    assert run.run() == 0, run.said
    run.source.write_bytes(b"".join(citations[:40]))
    assert (run.run(first=signalled(number)), run.run()) == (0, 0), run.said
    assert run.results()["weights.mln"] == whole.results()["weights.mln"]
    assert run.results()["predictions.jsonl"] == whole.results()["predictions.jsonl"]


def test_a_second_signal_ends_a_run_at_once(job, citations):
    whole, run = job(citations[:40], "whole"), job(citations[:40], "run")
    assert whole.run() == 0
    assert run.run(first=signalled(signal.SIGTERM, signal.SIGTERM)) == 130
    assert len(run.lines("predictions.jsonl")) <= 2
    assert run.run() == 0, run.said
    assert run.results() == whole.results()


def test_a_signal_while_kernels_are_compiled_ends_the_run(job, citations, tmp_path):
    run = job(citations[:5])
    with subprocess.Popen(
        [
            sys.executable,
            "-c",
            "from onlinesrl.commands.cli import main; main()",
            "run",
            str(run.config),
        ],
        env=os.environ | {"PYTHONPATH": str(REPO), "NUMBA_CACHE_DIR": str(tmp_path / "empty")},
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith(b"compiling")
        process.terminate()
        assert b"stopped after 0 examples" in process.stderr.read()
    assert process.returncode == 0
    assert run.run() == 0, run.said
    assert len(run.lines("predictions.jsonl")) == 5
