"""The run folder: one writer, files cut back to their checkpoint, whole files or none."""

import functools
import os
import resource
import signal
import subprocess
import sys

import pytest

from onlinesrl.core.errors import LockedError, StorageError
from onlinesrl.stream.run_folder import RunFolder

pytestmark = pytest.mark.usefixtures("counting")


def python(script, *arguments):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )


def names(folder):
    return sorted(path.name for path in folder.iterdir())


HOLD = """
import os, sys, time
from pathlib import Path
from onlinesrl.stream.run_folder import RunFolder
folder = RunFolder(Path(sys.argv[1]))
if not os.fork():
    print(os.getpid(), flush=True)  # it has let go of the folder
time.sleep(60)
"""


def test_the_lock_of_another_process_ends_with_it_however_it_ends(tmp_path):
    process = python(HOLD, tmp_path)
    try:
        fork = int(process.stdout.readline())
        with pytest.raises(LockedError, match=f"process {process.pid} is running"):
            RunFolder(tmp_path)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    RunFolder(tmp_path).close()  # though its fork lives
    os.kill(fork, signal.SIGKILL)
    process.communicate()


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("name", ["predictions.jsonl", "notes.txt", "lock", ".hidden"])
def test_a_folder_that_is_no_run_is_left_as_it_is(job, citations, name, fresh):
    run = job(citations[:5])
    run.output.mkdir()
    (run.output / name).write_bytes(b"123\n")
    assert run.run(*["--fresh"] * fresh) == 78
    assert f"{run.output}: is not empty and not the folder of a run" in run.said
    assert "choose another output" in run.said
    assert names(run.output) == [name]
    assert (run.output / name).read_bytes() == b"123\n"


@pytest.mark.parametrize("left", [[], ["lock"], ["lock", "checkpoints"]])
def test_a_run_that_was_killed_while_it_made_its_folder_is_no_hindrance(job, citations, left):
    run = job(citations[:5])
    run.output.mkdir()
    if "lock" in left:
        (run.output / "lock").touch()
    if "checkpoints" in left:
        (run.output / "checkpoints").mkdir()
    assert run.run() == 0, run.said
    assert (run.output / "lock").read_bytes().startswith(b"the folder of a run of onlinesrl")


def test_a_folder_whose_mark_could_not_be_written_whole_is_one_for_a_run(job, citations):
    run = job(citations[:3])
    little = functools.partial(
        resource.setrlimit, resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY)
    )
    assert run.run(first=little) == 74
    assert (run.output / "lock").read_bytes() == b""
    assert run.run() == 0, run.said
    marked = (run.output / "lock").read_bytes()
    assert run.run(first=little) == 74
    assert run.run("--fresh") == 0, run.said
    assert (run.output / "lock").read_bytes()[:20] == marked[:20]


@pytest.mark.parametrize("source", ["predictions.jsonl", "deadletter.jsonl", ""])
@pytest.mark.parametrize("fresh", [False, True])
def test_a_run_does_not_read_what_it_writes(job, citations, source, fresh):
    run = job(citations[:5])
    assert run.run() == 0, run.said
    before = run.results()
    path = f"source.path={run.output / source}"
    assert run.run("--set", path, *["--fresh"] * fresh) == 78
    assert f"--set {path}: source.path: {run.output}" in run.said
    assert "is written by this run; choose another output" in run.said
    assert run.results() == before


def test_a_run_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError, match="file: cannot make the run folder: ") as caught:
        RunFolder(tmp_path / "file")
    assert caught.value.exit_code == 74


def test_clear_removes_what_a_run_wrote_and_nothing_else(tmp_path):
    with RunFolder(tmp_path) as folder:
        mine = [tmp_path / "notes.txt", folder.checkpoints / "old.ckpt", tmp_path / "data.jsonl"]
        written = [
            *(folder.predictions, folder.metrics, folder.deadletter),
            *(folder.weights, folder.summary, folder.report),
            *(tmp_path / name for name in (".summary.json.tmp", ".report.html.tmp")),
            folder.checkpoints / "checkpoint-000000000500.ckpt",
            folder.checkpoints / ".checkpoint-000000001000.ckpt.tmp",
        ]
        for path in mine + written:
            path.write_bytes(b"x")
        folder.clear()
        assert names(tmp_path) == ["checkpoints", "data.jsonl", "lock", "notes.txt"]
        assert names(folder.checkpoints) == ["old.ckpt"]
        folder.clear()
        with pytest.raises(LockedError):
            RunFolder(tmp_path)
