"""Where the system lets no more threads, processes or memory, one line says so."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import REPO, Job

from onlinesrl.core.parallel.starting import REFUSED, starting
from onlinesrl.core.parallel.task_result import DEATHS

SAID = "the system lets no more threads or processes start: "
DISTRIBUTED = {"shards": 3, "round": 30, "workers": 2}


def no_threads(but: Callable[[], bool] = lambda: False) -> None:
    """Let no thread start in this process and its forks, as a limit of one process does."""
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if not but():
            raise RuntimeError(REFUSED)
        start(thread)

    threading.Thread.start = refuse  # type: ignore[method-assign]


def no_forks() -> None:
    def refuse() -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    os.fork = refuse


def no_threads_in_forks() -> None:
    driver = os.getpid()
    no_threads(but=lambda: os.getpid() == driver)


@pytest.mark.parametrize(
    ("options", "keys", "first"),
    [
        pytest.param(["run", "--metrics-port", "0"], {}, no_threads, id="metrics"),
        pytest.param(["serve", "--port", "0"], {}, no_threads, id="serve"),
        pytest.param(["run"], {"distribute": DISTRIBUTED}, no_threads_in_forks, id="workers"),
        pytest.param(["run"], {"distribute": DISTRIBUTED}, no_forks, id="forks"),
    ],
)
def test_a_refused_thread_or_process_is_one_line(
    job: Callable[..., Job],
    citations: list[bytes],
    options: list[str],
    keys: dict[str, Any],
    first: Callable[[], None],
) -> None:
    of = {"source": {"kind": "file", "path": "source.jsonl"}} if options[0] == "run" else {}
    run = job(citations[:60], **of, **keys)
    assert run.call(options[0], run.config, *options[1:], first=first) == 69, run.said
    assert SAID in run.said.splitlines()[-1]
    assert "Traceback" not in run.said
    assert f"{DEATHS} workers" not in run.said


def test_other_errors_are_not_taken_for_that() -> None:
    with pytest.raises(RuntimeError, match="another"), starting():
        raise RuntimeError("another")


BARE = """
import resource, sys
from onlinesrl.commands import cli
size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + {more}, -1))
cli.main()
"""


@pytest.mark.parametrize("megabytes", [100, 160])
def test_too_little_memory_for_what_is_imported_is_one_line(
    tmp_path: Path, citations: list[bytes], megabytes: int
) -> None:
    config = tmp_path / "run.yaml"
    config.write_text(
        f"model: {REPO}/streams/citations/segmentation.mln\nquery: InField\n"
        f"source: {{path: {REPO}/streams/citations/citations.jsonl}}\noutput: {tmp_path}/out\n"
    )
    code = BARE.format(more=megabytes << 20)
    command = [sys.executable, "-c", code, "run", str(config)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=REPO)
    if "OpenBLAS" in done.stderr or "RUST_BACKTRACE" in done.stderr:
        pytest.skip("a library ends the process itself where it cannot allocate")
    assert done.returncode == 69, done.stderr
    assert done.stderr == "onlinesrl: there is not enough memory for this\n"


MUTE = """
import resource, sys
from onlinesrl.commands import cli
class Mute:
    def find_spec(self, name, *others):
        if name == "numba":
            raise SystemError("error return without exception set")
sys.meta_path.insert(0, Mute())
resource.setrlimit(resource.RLIMIT_AS, ({limit}, -1))
cli.main()
"""


@pytest.mark.parametrize(("limit", "code"), [(1 << 36, 69), (-1, 70)])
def test_an_import_that_fails_without_a_reason_lacks_memory_where_that_is_limited(limit, code):
    arguments = ["infer", "--model", "model.mln", "--query", "Query"]
    command = [sys.executable, "-c", MUTE.format(limit=limit), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert ("there is not enough memory" in done.stderr) == (code == 69)
