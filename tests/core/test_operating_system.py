"""What this system lacks nothing for, done without what Windows lacks: the same bits, and locks that hold."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from conftest import CITATIONS, REPO

WINDOWS = REPO / "tests" / "support" / "windows"
COMMAND = "from onlinesrl.commands.cli import main; main()"
COMMANDS = """
import json, sys
from onlinesrl.commands.cli import main

for arguments in json.loads(sys.argv[1]):
    sys.argv = ["onlinesrl", *arguments]
    try:
        main()
    except SystemExit as leave:
        assert not leave.code, arguments
"""
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
    runs = {"plain": job(lines), "shards": job(lines, "shards", distribute=distribute)}
    commands: list[list[object]] = []
    for name, run in runs.items():
        assert run.run() == 0, run.said
        commands.append(["run", run.config, "--set", f"output={tmp_path / f'{name}-again'}"])
    plain, printed = runs["plain"], ""
    infer = ["infer", "--model", TRUST / "trust.psl", "--data", TRUST / "village.data", "--method"]
    for arguments in (
        ["predict", plain.output, plain.config],
        [*infer, "tandem"],
        [*infer, "admm", "--distribute", "workers=2"],
    ):
        assert plain.call(*arguments) == 0, plain.said
        printed += plain.printed
        commands.append(arguments)
    texts = [[str(argument) for argument in arguments] for arguments in commands]
    assert done(COMMANDS, json.dumps(texts)).endswith(printed)
    for name, run in runs.items():
        for file, content in run.results().items():
            assert (tmp_path / f"{name}-again" / file).read_bytes() == content
    piped = tmp_path / "piped"
    values = ["--set", f"output={piped}", "--set", "source.path=-"]
    done(COMMAND, "run", plain.config, *values, given=b"".join(lines).decode())
    assert (piped / "weights.mln").read_bytes() == plain.results()["weights.mln"]


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
