"""Copies of checkpoints elsewhere: the newest intact one resumes a run whose folder is lost."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import pytest
import s3fs
from conftest import MODEL, Job, soaked, tiers, wait
from fsspec.implementations.memory import MemoryFileSystem
from moto.server import ThreadedMotoServer

from onlinesrl.stream import checkpoints, daemon_calls
from onlinesrl.stream.checkpoint_copies import CheckpointCopies
from onlinesrl.stream.run_folder import RunFolder
from tests.support.serving import Served
from tests.support.waiting import PATIENCE, until

pytestmark = pytest.mark.usefixtures("counting")

EVERY = {"every": 7}


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[str]:
    """An address in memory."""
    yield f"memory://{tmp_path.name}/run"
    fsspec.filesystem("memory").store.clear()


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of a server of S3's protocol on this machine."""
    served = ThreadedMotoServer(port=0, verbose=False)
    served.start()
    yield "http://{}:{}".format(*served.get_host_and_port())
    served.stop()


@pytest.fixture
def s3(server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An address in an empty bucket of the server, and the environment that leads to it."""
    for name, value in {
        "AWS_ENDPOINT_URL": server,
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()
    files = s3fs.S3FileSystem()
    files.mkdir("bucket")
    yield "s3://bucket/run"
    files.rm("bucket", recursive=True)
    s3fs.S3FileSystem.clear_instance_cache()


class Faulty(MemoryFileSystem):
    """Files in memory, at faulty://, that are written as the tests say."""

    protocol = "faulty"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    faults: ClassVar[list[str]] = []
    """What happens to the next files; the last one happens to all that follow."""
    answering = threading.Event()

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        return MemoryFileSystem._strip_protocol(str(path).removeprefix("faulty://"))

    def put_file(self, lpath: str, rpath: str, **_: Any) -> None:
        fault = self.faults.pop(0) if len(self.faults) > 1 else self.faults[0]
        if fault == "hangs":
            self.answering.wait(PATIENCE)
        if fault == "refuses":
            raise PermissionError("403 Forbidden")
        data = Path(lpath).read_bytes()
        self.pipe_file(rpath, data[: len(data) // 2] if fault == "is cut off" else data)
        if fault == "cuts off the others":
            for path in self.find("/run"):
                if path.endswith(".ckpt"):
                    self.pipe_file(path, b"cut")


@pytest.fixture
def faulty() -> Iterator[str]:
    fsspec.register_implementation("faulty", Faulty, clobber=True)
    Faulty.answering.clear()
    yield "faulty://run"
    Faulty.answering.set()
    Faulty.store.clear()


def copies(address: str) -> list[str]:
    files, path = fsspec.url_to_fs(address)
    files.invalidate_cache()
    names = (name.rpartition("/")[2] for name in files.ls(path, detail=False))
    return sorted(name for name in names if name != "owner")


@pytest.mark.parametrize("kind", ["memory", "s3"])
def test_a_run_whose_folder_is_lost_goes_on_from_the_newest_intact_copy(
    kind: str, request: pytest.FixtureRequest, job: Callable[..., Job], citations: list[bytes]
) -> None:
    address = request.getfixturevalue(kind)
    run = job(citations[:40], checkpoint=EVERY)
    assert run.run() == 0
    expected = run.results()
    options = ["--set", f"checkpoint.copy_to={address}"]
    assert run.run("--fresh", "--until", "20", *options) == 0, run.said
    local = [path.name for path in run.checkpoints()]
    assert copies(address) == local and len(local) == 3
    assert run.lines("metrics.jsonl")[-1]["failed_copies"] == 0
    files, path = fsspec.url_to_fs(address)
    newest = files.cat_file(f"{path}/{local[-1]}")
    files.pipe_file(f"{path}/{local[-1]}", newest[: len(newest) // 2])
    files.pipe_file(f"{path}/.checkpoint-000000000099.ckpt.tmp", newest)
    shutil.rmtree(run.output)
    assert run.run(*options) == 0, run.said
    assert "damaged copy of a checkpoint skipped" in run.said
    assert f"resuming from {local[-2]}" in run.said
    found = run.results()
    assert found["weights.mln"] == expected["weights.mln"]
    predicted = expected["predictions.jsonl"].splitlines()
    assert found["predictions.jsonl"].splitlines() == predicted[14:]
    assert run.run("--fresh", *options) == 0, run.said
    lines = expected["metrics.jsonl"].splitlines()
    plain = [{**json.loads(line), "failed_copies": 0} for line in lines]
    assert run.lines("metrics.jsonl") == plain


def test_a_kill_leaves_copies_that_resume_to_the_same_bits(
    s3: str, job: Callable[..., Job], citations: list[bytes]
) -> None:
    """Killed within a copy or between two; then the run's folder is lost."""
    run = job(citations[:60], checkpoint={"every": 3, "copy_to": s3})
    assert run.run() == 0, run.said
    weights = run.results()["weights.mln"]
    assert run.run("--fresh", "--until", "1") == 0
    for _ in range(3):
        before = copies(s3)
        process = run.start()
        until(lambda known=before: copies(s3) != known)
        os.kill(process, signal.SIGKILL)
        assert wait(process) == -signal.SIGKILL
        shutil.rmtree(run.output)
    assert run.run() == 0, run.said
    assert f"checkpoints from {s3}" in run.said
    assert run.results()["weights.mln"] == weights


@pytest.mark.parametrize("sink", ["file", soaked("parquet")])
def test_a_folder_of_files_is_gone_on_with(
    sink: str, memory: str, job: Callable[..., Job], citations: list[bytes]
) -> None:
    """The list of the files that were read to their end is copied, too; their names do not matter.

    These begin like that of the file with a server's requests, which would begin anew.
    """
    run = job([], source={"path": "files"}, sink={"kind": sink}, checkpoint=EVERY)
    (run.folder / "files").mkdir()
    for n in range(4):
        file = run.folder / "files" / f"requests.jsonl.{n}.jsonl"
        file.write_bytes(b"".join(citations[10 * n :][:10]))
    assert run.run() == 0, run.said
    weights = run.results()["weights.mln"]
    options = ["--set", f"checkpoint.copy_to={memory}"]
    assert run.run("--fresh", "--until", "13", *options) == 0, run.said
    for count in ("26", "40"):
        shutil.rmtree(run.output)
        assert run.run("--until", count, *options) == 0, run.said
    assert run.results()["weights.mln"] == weights
    assert copies(memory)[-1] == "files.jsonl"
    assert run.run("--fresh", "--until", "1", *options) == 0, run.said
    assert "files.jsonl" not in copies(memory)


@tiers("kills", 2, 40)
def test_a_server_whose_folder_is_lost_at_each_kill_goes_on_from_copies(
    job: Callable[..., Job], citations: list[bytes], tmp_path: Path, kills: int, tally: Counter[str]
) -> None:
    """It has learned what it did up to the newest copy, and learns on from new requests."""
    address, rng = f"file://{tmp_path}/copies", random.Random(0)
    run = job([], checkpoint={"every": 3, "copy_to": address})
    lines = [line.rstrip() for line in citations]
    learned: list[bytes] = []
    for kill in range(kills + 1):
        served = Served(run)
        saved = checkpoints.latest(run.output / "checkpoints", print)
        assert saved is not None
        del learned[saved.header["metrics"]["examples"] :]
        asked = [rng.choice(lines) for _ in range(rng.randrange(4, 12))]
        learned += asked
        served.post("/learn", asked)
        if kill < kills:
            os.kill(served.process, signal.SIGKILL)
            assert wait(served.process) == -signal.SIGKILL
            shutil.rmtree(run.output)
            tally["kills"] += 1
    assert served.stop() == 0, run.said
    assert len(learned) >= 3 * kills
    unbroken = job([line + b"\n" for line in learned], "unbroken")
    assert unbroken.run() == 0, unbroken.said
    assert run.results()["weights.mln"] == unbroken.results()["weights.mln"]
    saved = checkpoints.latest(run.output / "checkpoints", print)
    assert saved is not None
    assert saved.header["metrics"]["examples"] == len(learned)


@pytest.mark.parametrize("fault", ["refuses", "is cut off"])
def test_a_copy_that_fails_is_counted_told_once_and_made_again(
    fault: str, faulty: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daemon_calls, "PAUSE_SECONDS", 0.0)
    Faulty.faults[:] = [fault]
    said: list[str] = []
    with (
        RunFolder(tmp_path / "run") as folder,
        CheckpointCopies(faulty, 2, folder, said.append, lambda: False) as written,
    ):
        for number in (1, 2):
            written.put(checkpoints.save(folder.checkpoints, number, {}, {}, 2))
            until(lambda before=written.failures: written.failures >= before + 2)
        Faulty.faults[:] = ["is whole", "cuts off the others", "is whole"]
        until(lambda: copies(faulty) == [path.name for path in _local(folder)])
        written.put(checkpoints.save(folder.checkpoints, 3, {}, {}, 2))
    [told] = said
    assert told.startswith(f"checkpoints are not copied: {faulty}: cannot write: ")
    for path in _local(folder):
        assert Faulty().cat_file(f"/run/{path.name}") == path.read_bytes()


def _local(folder: RunFolder) -> list[Path]:
    return sorted(folder.checkpoints.iterdir())


def test_an_address_that_never_answers_keeps_nothing_waiting(
    faulty: str, job: Callable[..., Job], citations: list[bytes]
) -> None:
    """Neither clients, nor checkpoints, nor a signal; a warning while it hangs, and one at the end."""

    def hanging() -> None:
        Faulty.faults[:] = ["hangs"]
        daemon_calls.STOP_SECONDS, daemon_calls.SLOW_SECONDS = 0.1, 0.0

    run = job([], checkpoint={"every": 3, "copy_to": faulty})
    served = Served(run, first=hanging)
    learned: list[bytes] = []

    def warned() -> bool:
        learned.extend(line.rstrip() for line in citations[:3])
        served.post("/learn", learned[-3:])
        return "warning: checkpoints are not copied: no answer for 0 s" in run.said

    until(warned)
    assert served.stop() == 0
    saved = checkpoints.latest(run.output / "checkpoints", print)
    assert saved is not None and saved.header["metrics"]["examples"] == len(learned)
    assert f"{faulty}: the last checkpoint, number {saved.number}, is not copied" in run.said


def test_another_run_at_an_address_is_noticed(
    memory: str, job: Callable[..., Job], citations: list[bytes]
) -> None:
    """One that has checkpoints copies nothing there; one whose folder is empty takes the address over."""
    options = ["--set", f"checkpoint.copy_to={memory}"]
    first = job(citations[:40], "first", checkpoint=EVERY)
    assert first.run("--until", "20", *options) == 0, first.said
    before = copies(memory)
    other = job(citations[:40], "other", checkpoint=EVERY)
    assert other.run("--until", "5") == 0
    assert other.run("--until", "10", *options) == 0
    assert f"{memory}: cannot write: another run copies there" in other.said
    assert copies(memory) == before
    assert first.run("--until", "30", *options) == 0
    assert "another run" not in first.said
    shutil.rmtree(other.output)
    assert other.run("--until", "35", *options) == 0
    assert f"checkpoints from {memory}" in other.said and "another run" not in other.said
    assert first.run("--until", "40", *options) == 0
    assert f"{memory}: cannot write: another run copies there" in first.said
    assert copies(memory) == [path.name for path in other.checkpoints()]


def test_an_address_that_cannot_be_read_ends_the_start_and_none_is_refused(
    job: Callable[..., Job], citations: list[bytes], s3: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a run whose folder is lost would start from nothing."""
    run = job(citations[:5])
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    s3fs.S3FileSystem.clear_instance_cache()
    assert run.run("--set", f"checkpoint.copy_to={s3}") == 74
    assert f"{s3}: cannot list copies: " in run.said
    assert run.run("--set", "checkpoint.copy_to=/tmp") == 78
    assert "expected an address such as s3://bucket/run" in run.said


@pytest.mark.usefixtures("kernels")
def test_a_model_and_a_start_are_read_from_an_address(
    memory: str, job: Callable[..., Job], citations: list[bytes]
) -> None:
    run = job(citations[:20], checkpoint={"every": 7, "copy_to": memory})
    assert run.run() == 0, run.said
    saved = run.checkpoints()[-1]
    files, path = fsspec.url_to_fs(memory)
    files.pipe_file(f"{path}/model.mln", MODEL.read_bytes())
    other = Job(run.folder / "other", citations[20:40], model=f"{memory}/model.mln")
    options = ["--set", f"learner.start={memory}/{saved.name}"]
    assert other.run(*options) == 0, other.said
    expected = Job(run.folder / "expected", citations[20:40])
    assert expected.run("--set", f"learner.start={saved}") == 0, expected.said
    assert other.results() == expected.results()
    printed = []
    for trained in saved, f"{memory}/{saved.name}":
        for command in "predict", "evaluate":
            assert other.call(command, trained, other.config) == 0, other.said
            printed.append(other.printed)
        for command in ("weights",), ("checkpoint", "verify"):
            assert other.call(*command, trained) == 0, other.said
            printed.append(other.printed.replace(str(saved), saved.name))
    assert printed[:3] == printed[4:7]
    assert other.call("weights", f"{memory}/nothing.ckpt") == 74
    assert f"{memory}/nothing.ckpt: cannot read: " in other.said
    assert other.run("--set", f"learner.start={memory}/nothing.ckpt") == 74
    assert f"{memory}/nothing.ckpt: cannot read: " in other.said


@pytest.mark.parametrize(
    ("key", "address", "code"),
    [
        ("checkpoint.copy_to", "ftp://ann:0pen-sesame@host/run", 78),
        ("checkpoint.copy_to", "https://0pen-sesame@host/run", 78),
        ("checkpoint.copy_to", "memory://:0pen@sesame@host/run", 78),
        ("model", "ftp://ann:0pen-sesame@127.0.0.1:9/model.mln", 64),
        ("learner.start", "http://ann:0pen-sesame@127.0.0.1:9/start.ckpt", 64),
        ("model", "http://127.0.0.1:9/model.mln?signature=0pen-sesame", 74),
    ],
)
def test_a_login_in_an_address_is_refused_and_never_shown(
    key: str, address: str, code: int, job: Callable[..., Job], citations: list[bytes]
) -> None:
    run = job(citations[:5])
    assert run.run("--set", f"{key}={address}") == code
    section, _, name = key.rpartition(".")
    values = {section: {name: address}} if section else {name: address}
    written = job(citations[:5], "written", **values)
    assert written.run() == code
    for said in run.said, written.said:
        assert "sesame" not in said
        assert "expected an address without a login" in said or code == 74
    assert run.call("weights", address) == (74 if code == 74 else 64)
    assert "sesame" not in run.said
