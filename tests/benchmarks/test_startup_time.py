"""Seconds until a process is ready: imports, kernels from the cache, kernels compiled."""

from pathlib import Path

import pytest

from tests.benchmarks.measure import ONLINESRL, REPO, Used, python, show

pytestmark = pytest.mark.benchmark
ROUNDS = 5
KERNELS = """
from pathlib import Path
from onlinesrl.runs.config.loading import load
from onlinesrl.runs.run import make_learner
print(make_learner(load(Path({config!r}))).compile())
"""


def test_time_to_start(tmp_path):
    kernels = ("-c", KERNELS.format(config=str(REPO / "configs" / "citations.yaml")))
    cache = {"NUMBA_CACHE_DIR": str(tmp_path)}
    first = python(*kernels, **cache)
    rows = [
        least("onlinesrl --version", *ONLINESRL, "--version"),
        least("import onlinesrl.runs.run", "-c", "import onlinesrl.runs.run"),
        least("a learner, kernels cached", *kernels, **cache),
        row("a learner, kernels compiled", first),
    ]
    show("Start-up, seconds", ("", "wall", "cpu", "kernels"), rows)


def least(name: str, *arguments: str | Path, **environment: str) -> tuple[str | float, ...]:
    """The fastest of some runs."""
    runs = [python(*arguments, **environment) for _ in range(ROUNDS)]
    return row(name, min(runs, key=lambda used: used.wall))


def row(name: str, used: Used) -> tuple[str | float, ...]:
    """A process's wall clock and CPU, and the seconds it prints, if any."""
    printed = used.output.strip()
    return name, used.wall, used.cpu, float(printed) if printed[:1].isdigit() else ""
