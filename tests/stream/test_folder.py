"""The run folder: one writer, files cut back to their checkpoint, whole files or none."""

import errno
import functools
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from onlinesrl.core.errors import LockedError, StorageError
from onlinesrl.core.io.atomic_write import write_atomic
from onlinesrl.stream.run_folder import BUFFER_BYTES, OutputFile, RunFolder
from tests.support.waiting import PATIENCE

full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")


def python(script, *arguments):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )


def finish(process):
    output, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, errors
    return output


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def fail_with(code):
    def fail(*_arguments, **_options):
        raise OSError(code, os.strerror(code))

    return fail


def test_length_counts_what_is_not_flushed_yet(tmp_path):
    path = tmp_path / "o"
    with OutputFile(path) as output:
        output.write(b"12345")
        assert (output.length, path.stat().st_size) == (5, 0)
        output.flush()
        assert (output.length, path.read_bytes()) == (5, b"12345")
        output.write(b"x" * BUFFER_BYTES)
        assert path.stat().st_size == output.length == 5 + BUFFER_BYTES
    with OutputFile(path) as output:
        assert output.length == 5 + BUFFER_BYTES
        output.write(b"end")
    assert path.read_bytes().endswith(b"xend")


def test_flush_waits_for_the_disk_unless_told_not_to(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", synced.append)
    with OutputFile(tmp_path / "o") as output:
        output.write(b"1")
        output.flush(fsync=False)
        assert synced == []
        output.flush()
        assert len(synced) == 1


@pytest.mark.parametrize("length", range(7))
def test_truncate_cuts_back_and_writing_goes_on_from_there(tmp_path, length):
    path = tmp_path / "o"
    path.write_bytes(b"abcd")
    with OutputFile(path) as output:
        output.write(b"ef")
        output.truncate(length)
        assert output.length == length
        output.write(b"!")
    assert path.read_bytes() == b"abcdef"[:length] + b"!"


def test_truncate_refuses_a_file_that_is_too_short(tmp_path):
    path = tmp_path / "o"
    path.write_bytes(b"abcd")
    with (
        OutputFile(path) as output,
        pytest.raises(StorageError, match=r"has 4 bytes but .* had 5: lines are missing") as caught,
    ):
        output.truncate(5)
    assert caught.value.exit_code == 74
    assert path.read_bytes() == b"abcd"


def test_a_file_that_cannot_be_opened_is_named(tmp_path):
    with pytest.raises(StorageError, match="o: cannot open for writing: No such file"):
        OutputFile(tmp_path / "nowhere" / "o")


@full
def test_a_full_disk_is_a_storage_error_also_when_the_buffer_runs_over(monkeypatch):
    monkeypatch.setattr("onlinesrl.stream.run_folder.plain", os.open)  # which opens devices, too
    with pytest.raises(StorageError, match="No space left on device; free some space"):
        OutputFile(Path("/dev/full")).write(b"x" * BUFFER_BYTES)


@pytest.mark.parametrize("name", ["write", "fsync", "ftruncate"])
def test_input_output_errors_are_storage_errors(tmp_path, monkeypatch, name):
    output = OutputFile(tmp_path / "o")
    output.write(b"abc")
    with monkeypatch.context() as patch:
        patch.setattr(os, name, fail_with(errno.EIO))
        with pytest.raises(StorageError, match=r"o: cannot \w+: Input/output error"):
            output.truncate(0) if name == "ftruncate" else output.flush()
    output.close()
    output.close()
    assert (tmp_path / "o").read_bytes() == b"abc"


FILE_LIMIT = """
import resource, sys
from pathlib import Path
from onlinesrl.core.errors import StorageError
from onlinesrl.stream.run_folder import OutputFile

with OutputFile(Path(sys.argv[1])) as output:
    output.write(bytes(range(100)))
    resource.setrlimit(resource.RLIMIT_FSIZE, (40, resource.RLIM_INFINITY))
    for _ in range(2):
        try:
            output.flush()
        except StorageError as error:
            print(error.exit_code, error)
    print(output.length, output.path.stat().st_size)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    output.flush()
"""


def test_writing_goes_on_where_a_full_disk_stopped_it(tmp_path):
    path = tmp_path / "o"
    message = f"74 {path}: cannot write: File too large; free some space and run it again\n"
    assert finish(python(FILE_LIMIT, path)) == 2 * message + "100 40\n"
    assert path.read_bytes() == bytes(range(100))


def test_write_atomic_makes_and_replaces(tmp_path):
    path = tmp_path / "summary.json"
    write_atomic(path, b"old")
    write_atomic(path, b"new", memoryview(b""), memoryview(b" and more"))
    assert path.read_bytes() == b"new and more"
    assert names(tmp_path) == ["summary.json"]


@pytest.mark.parametrize("name", ["open", "write", "fsync", "replace"])
def test_write_atomic_leaves_the_old_content_when_it_fails(tmp_path, monkeypatch, name):
    path = tmp_path / "summary.json"
    write_atomic(path, b"old")
    with monkeypatch.context() as patch:
        patch.setattr(os, name, fail_with(errno.ENOSPC))
        with pytest.raises(StorageError, match="cannot write: No space left on device; free"):
            write_atomic(path, b"new")
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["summary.json"]


def test_one_run_at_a_time(tmp_path):
    path = tmp_path / "runs" / "a"
    with RunFolder(path):
        with pytest.raises(LockedError, match=f"a: process {os.getpid()} is running") as caught:
            RunFolder(path)
        assert caught.value.exit_code == 75
    with RunFolder(path) as folder:
        assert folder.checkpoints.is_dir()
        folder.close()
        RunFolder(path).close()


def test_a_lock_file_without_a_number_still_locks(tmp_path):
    with RunFolder(tmp_path):
        (tmp_path / "lock").write_bytes(b"")
        with pytest.raises(LockedError, match="another process is running"):
            RunFolder(tmp_path)


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


def test_a_lock_is_not_followed_through_a_link(job, citations):
    run = job(citations[:5])
    assert run.run() == 0, run.said
    other = run.folder / "precious"
    other.write_bytes(b"the folder of a run of onlinesrl, by process 1\nand more\n")
    (run.output / "lock").unlink()
    (run.output / "lock").symlink_to(other)
    assert run.run("--fresh") == 78
    assert "lock: is a symbolic link, which a run does not follow" in run.said
    assert other.read_bytes().endswith(b"and more\n")
    assert run.lines("predictions.jsonl")


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
