"""What this system lacks nothing for, done without what Windows lacks: the same bits, and locks that hold."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from conftest import CITATIONS, REPO

WINDOWS = REPO / "tests" / "support" / "windows"
COMMAND = "from onlinesrl.commands.cli import main; main()"
TRUST = REPO / "streams" / "trust"
LIBRARY = """
import os, sys
from pathlib import Path
import onlinesrl as srl
from onlinesrl.core.io.atomic_write import read_plain
from onlinesrl.core.jit.cache import kernel_folder

assert not hasattr(os, "fork") and not hasattr(os, "pread") and "fcntl" in sys.modules
citations = srl.datasets.citations()
learner = srl.OnlineLearner(citations.model, citations.query)
for example in citations.examples[:20]:
    learner.learn_one(example)
print(learner.metrics["f1"])
try:
    read_plain(Path(sys.argv[1]))
except OSError as error:
    print(error.strerror)
print(kernel_folder().is_relative_to(Path.home()))
"""


def start(code: str, *arguments: object, **variables: str) -> subprocess.Popen[str]:
    """Start a process without what Windows lacks; its home has the kernels of other tests."""
    given = {"PYTHONPATH": f"{WINDOWS}{os.pathsep}{REPO}", "HOME": str(REPO), **variables}
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        env=os.environ | given,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def done(code: str, *arguments: object, given: str = "", **variables: str) -> str:
    """Run such a process to its end; return what it printed."""
    with start(code, *arguments, **variables) as process:
        printed, said = process.communicate(given)
    assert process.returncode == 0, said
    return printed


def test_the_library_follows_no_link_and_keeps_kernels_in_the_home(tmp_path: Path) -> None:
    import onlinesrl as srl

    citations = srl.datasets.citations()
    learner = srl.OnlineLearner(citations.model, citations.query)
    for example in citations.examples[:20]:
        learner.learn_one(example)
    (tmp_path / "link").symlink_to(CITATIONS)
    expected = [
        str(learner.metrics["f1"]),
        "it is a symbolic link, which is not followed",
        "True",
    ]
    elsewhere = str(tmp_path / "kernels")
    assert done(LIBRARY, tmp_path / "link", NUMBA_CACHE_DIR=elsewhere).splitlines() == expected


def test_runs_predictions_and_inference_have_the_same_bits(
    job: Callable[..., Any], tmp_path: Path
) -> None:
    lines = CITATIONS.read_bytes().splitlines(keepends=True)[:40]
    distribute = {"workers": 2, "shards": 2, "round": 10}
    for name, keys in {"plain": {}, "shards": {"distribute": distribute}}.items():
        run = job(lines, **keys)
        assert run.run("--fresh") == 0, run.said
        expected = run.results()
        assert run.call("predict", run.output, run.config) == 0
        predicted = run.printed
        output = tmp_path / name
        options = ["--set", f"output={output}"]
        done(COMMAND, "run", run.config, *options)
        assert {file: (output / file).read_bytes() for file in expected} == expected
        assert done(COMMAND, "predict", output, run.config) == predicted
    piped = tmp_path / "piped"
    values = ["--set", f"output={piped}", "--set", "source.path=-"]
    plain = job(lines)
    done(COMMAND, "run", plain.config, *values, given=b"".join(lines).decode())
    assert (piped / "weights.mln").read_bytes() == (tmp_path / "plain/weights.mln").read_bytes()
    for method, options in {"tandem": [], "admm": ["--distribute", "workers=2"]}.items():
        arguments = ["infer", "--model", TRUST / "trust.psl", "--data", TRUST / "village.data"]
        arguments += ["--method", method, *options]
        assert plain.call(*arguments) == 0, plain.said
        assert done(COMMAND, *arguments) == plain.printed


def test_a_folder_has_one_writer(job: Callable[..., Any]) -> None:
    run = job([])
    options = ["run", run.config, "--set", "source.path=-"]
    first = CITATIONS.read_text().splitlines(keepends=True)[0]
    with start(COMMAND, *options) as writer:
        assert writer.stdin is not None and writer.stderr is not None
        writer.stdin.write(first)
        writer.stdin.flush()
        assert "examples 1 " in writer.stderr.readline()
        with start(COMMAND, *options) as other:
            _, said = other.communicate(first)
        assert other.returncode == 75 and f"process {writer.pid} is running in this folder" in said
        writer.communicate()
    assert writer.returncode == 0
    assert len(run.lines("predictions.jsonl")) == 1
