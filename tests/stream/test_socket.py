"""A program that sends lines is learned from as a file would be, whatever breaks: it, the line or the run."""

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import Job, wait

from onlinesrl.core.errors import ConfigError, StorageError, UnavailableError
from onlinesrl.runs.config import load
from onlinesrl.stream.folder import OutputFile
from onlinesrl.stream.sources.socket import PAUSE_SECONDS, RECEIVED, Connection
from tests.waiting import PATIENCE, until

Make = Callable[..., Job]
UNTIL_END = ("--until", "end")
UNAVAILABLE = 69


class Sender:
    """A program that listens, and sends to one connection at a time."""

    def __init__(self, address: str | None = None) -> None:
        if address is None:
            self.listening = socket.create_server(("127.0.0.1", 0))
            self.address = f"tcp://127.0.0.1:{self.listening.getsockname()[1]}"
        else:
            self.listening = socket.socket(socket.AF_UNIX)
            self.listening.bind(address.removeprefix("unix:"))
            self.listening.listen()
            self.address = address
        self.listening.settimeout(PATIENCE)

    def accept(self) -> socket.socket:
        connection, _ = self.listening.accept()
        connection.settimeout(PATIENCE)
        return connection

    def send(self, data: bytes) -> None:
        """Send all to one connection, and end it."""
        with self.accept() as connection:
            connection.sendall(data)


@pytest.fixture
def sender() -> Iterator[Sender]:
    found = Sender()
    yield found
    found.listening.close()


def received(run: Job) -> bytes:
    journal = run.output / RECEIVED
    return journal.read_bytes() if journal.exists() else b""


def socketed(job: Make, sender: Sender, **keys: Any) -> Job:
    source = {"kind": "socket", "address": sender.address, **keys.pop("source", {})}
    return job([], "socketed", source=source, **keys)


def as_file(job: Make, lines: list[bytes], **keys: Any) -> dict[str, bytes]:
    """What a run over a file with these lines comes to, but for the places of dead letters."""
    file = job(lines, "file", **keys)
    assert file.run() == 0, file.said
    return results(file)


def results(run: Job) -> dict[str, bytes]:
    found = run.results()
    for path in (run.source, run.output / RECEIVED):
        text = str(path).encode()
        found["deadletter.jsonl"] = found["deadletter.jsonl"].replace(text, b"FILE")
    return found


def test_it_is_as_a_file_to_the_end(job: Make, citations: list[bytes], sender: Sender) -> None:
    lines = [*citations[:30], b"{\n", b"\n", *citations[30:60]]
    run = socketed(job, sender)
    process = run.start(*UNTIL_END)
    sender.send(b"".join(lines))
    assert wait(process) == 0, run.said
    assert received(run) == b"".join(lines)
    assert results(run) == as_file(job, lines)
    (dead,) = run.lines("deadletter.jsonl")
    assert (dead["file"], dead["line"]) == (str(run.output / RECEIVED), 31)


def test_a_path_of_this_machine(
    job: Make, citations: list[bytes], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)  # paths of sockets are short
    sender = Sender("unix:here")
    run = socketed(job, sender)
    process = run.start(*UNTIL_END)
    sender.send(b"".join(citations[:20]))
    assert wait(process) == 0, run.said
    assert results(run) == as_file(job, citations[:20])
    sender.listening.close()


def test_killed_and_started_again_it_is_as_a_file(
    job: Make, citations: list[bytes], sender: Sender
) -> None:
    """What had been received survives, learned or not; the sender goes on with what is left."""
    keys = {"checkpoint": {"every": 7}, "limits": {"crashes": 0}}
    run = socketed(job, sender, **keys)
    for first in (0, 40, 80):
        process = run.start()
        with sender.accept() as connection:
            connection.sendall(b"".join(citations[first : first + 40]))
            until(lambda: received(run) == b"".join(citations[: first + 40]))  # noqa: B023
            os.kill(process, signal.SIGKILL)
            assert wait(process) == -signal.SIGKILL
    process = run.start(*UNTIL_END)
    sender.send(b"")
    assert wait(process) == 0, run.said
    assert "resuming from" in run.said
    assert results(run) == as_file(job, citations[:120], **keys)


def test_the_journal_is_learned_again_with_fresh(
    job: Make, citations: list[bytes], sender: Sender
) -> None:
    run = socketed(job, sender)
    process = run.start(*UNTIL_END)
    sender.send(b"".join(citations[:20]))
    assert wait(process) == 0, run.said
    expected = results(run)
    process = run.start("--fresh", *UNTIL_END)
    sender.send(b"")
    assert wait(process) == 0, run.said
    assert results(run) == expected


def test_a_sender_that_hangs_up_is_waited_for(
    job: Make, citations: list[bytes], sender: Sender
) -> None:
    """What is left of a line is bad; a last line without an end is an example."""
    run = socketed(job, sender)
    process = run.start()
    sender.send(b"".join(citations[:10]) + citations[10][:40])
    sender.send(b"".join(citations[10:20]).removesuffix(b"\n"))
    with sender.accept() as connection:
        connection.sendall(citations[20][:40])
        time.sleep(2 * PAUSE_SECONDS)
        connection.sendall(citations[20][40:])
        lines = [*citations[:10], citations[10][:40] + b"\n", *citations[10:21]]
        until(lambda: received(run) == b"".join(lines))
        os.kill(process, signal.SIGINT)
        assert wait(process) == 0, run.said
    process = run.start(*UNTIL_END)
    sender.send(b"")
    assert wait(process) == 0, run.said
    assert results(run) == as_file(job, lines)
    (dead,) = run.lines("deadletter.jsonl")
    assert dead["line"] == 11


def test_a_line_that_is_too_long(job: Make, citations: list[bytes], sender: Sender) -> None:
    """It is never held, and its neighbours are learned from."""
    limit = max(map(len, citations[:20]))
    keys = {"limits": {"bad_share": 1.0}}
    long = [b"x" * (limit + 1) + b"\n", b"y" * 3_000_000 + b"\n", b"z" * limit + b"\r\n"]
    lines = [*citations[:10], *long, *citations[10:20], b"w" * 1_000_000]
    run = socketed(job, sender, source={"max_bytes": limit}, **keys)
    process = run.start(*UNTIL_END)
    sender.send(b"".join(lines))
    assert wait(process) == 0, run.said
    assert len(received(run)) < sum(map(len, citations[:20])) + 5 * limit
    source = {"path": "source.jsonl", "max_bytes": limit}
    assert results(run) == as_file(job, lines, source=source, **keys)
    dead = run.lines("deadletter.jsonl")
    assert [each["line"] for each in dead] == [11, 12, 13, 24]
    assert all("longer than source.max_bytes" in each["reason"] for each in dead)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("there", [True, False], ids=["nothing is sent", "nobody is there"])
def test_a_signal_while_it_waits(job: Make, sender: Sender, number: int, there: bool) -> None:
    run = socketed(job, sender)
    if not there:
        sender.listening.close()
    process = run.start()
    connection = sender.accept() if there else None
    until(lambda: run.checkpoints() and (there or "waiting for it" in run.said))
    os.kill(process, number)
    assert wait(process) == 0, run.said
    assert "stopped after 0 examples" in run.said
    if connection is not None:
        connection.close()


def test_nobody_there_for_too_long(job: Make, sender: Sender) -> None:
    sender.listening.close()
    run = socketed(job, sender, source={"patience": "1s"})
    assert run.run() == UNAVAILABLE
    waiting, said = run.said.splitlines()[-2:]
    assert f"{sender.address}: cannot be reached: Connection refused; waiting for it, 1" in waiting
    assert f"{sender.address}: cannot be reached for" in said
    assert "(source.patience): Connection refused; start the program that sends" in said


def test_another_source_does_not_go_on_in_its_folder(
    job: Make, citations: list[bytes], sender: Sender
) -> None:
    file = job(citations[:5], "file")
    assert file.run() == 0, file.said
    run = socketed(job, sender, output=str(file.output))
    assert run.run() == 78
    assert "source.kind: was 'file', is 'socket'" in run.said


def test_what_does_not_learn_does_not_read_it(job: Make, sender: Sender) -> None:
    run = socketed(job, sender)
    assert wait(run.fork("check", str(run.config))) == 64
    assert "only `run` reads a socket" in run.said
    assert wait(run.fork("check", "--examples", "0", str(run.config))) == 0, run.said
    assert wait(run.fork("serve", str(run.config))) == 78


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("localhost:99", "expected tcp://host:port or unix:/path, found 'localhost:99'"),
        ("tcp://localhost", "expected tcp://host:port or unix:/path, found 'tcp://localhost'"),
        ("tcp://h:99999", "expected tcp://host:port or unix:/path, found 'tcp://h:99999'"),
        ("tcp://h:9/x", "expected tcp://host:port or unix:/path, found 'tcp://h:9/x'"),
        ("tcp://me@h:9", "expected tcp://host:port or unix:/path, found 'tcp://me@h:9'"),
        ("tcp://a..b:9", "expected tcp://host:port or unix:/path, found 'tcp://a..b:9'"),
        ("unix:", "expected tcp://host:port or unix:/path, found 'unix:'"),
        ("unix:/" + "x" * 107, "expected a path of at most 107 bytes, found 'unix:/xxx"),
        ("", "expected some text, found ''"),
    ],
)
def test_what_is_no_address(tmp_path: Path, address: str, said: str) -> None:
    path = tmp_path / "run.yaml"
    (tmp_path / "m.mln").touch()
    text = f"model: m.mln\nquery: A\nsource: {{kind: socket, address: '{address}'}}\n"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}:3:33: source.address: {said}")


def test_an_address_is_asked_for_and_may_change(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    (tmp_path / "m.mln").touch()
    path.write_text("model: m.mln\nquery: A\nsource: {kind: socket}\n")
    with pytest.raises(ConfigError, match=r":3:1: source\.address: missing; expected where the"):
        load(path)
    old, new = (load(path, [f"source.address={x}"]) for x in ("tcp://[::1]:9", "unix:///x"))
    assert old.fingerprint("") == new.fingerprint("")


# the connection by itself --------------------------------------------------------------------------


class Journal(OutputFile):
    """A journal that notes what it is told, and writes nothing."""

    def __init__(self) -> None:
        self.told: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.told.append(data)

    def flush(self, fsync: bool = True) -> None:
        assert fsync


def connection(address: str, *, to_end: bool = True, patience: float = 60.0) -> Connection:
    return Connection(address, 10, patience, to_end, lambda message: None)


def test_a_connection_that_breaks_is_no_end(sender: Sender) -> None:
    made, journal = connection(sender.address), Journal()
    try:
        until(lambda: made.take(journal, 0) or made.socket)
        with sender.accept() as broken:
            broken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        until(lambda: made.take(journal, 0) or not made.socket)
        assert not made.ended
        until(lambda: made.take(journal, 0) or made.socket)
        sender.send(b"12\n345678901234567890\nx")
        until(lambda: made.take(journal, 0) or made.ended)
        assert b"".join(journal.told) == b"12\n34567890123\nx\n"
    finally:
        made.close()


def test_what_cannot_be_written_is_told(sender: Sender, monkeypatch: pytest.MonkeyPatch) -> None:
    made, journal = connection(sender.address), Journal()

    def full(fsync: bool = True) -> None:
        raise StorageError("full")

    monkeypatch.setattr(journal, "flush", full)
    try:
        until(lambda: made.take(journal, 0) or made.socket)
        sender.send(b"12\n")
        with pytest.raises(StorageError):
            until(lambda: made.take(journal, 0) or made.ended)
    finally:
        made.close()


def test_a_name_that_nobody_has() -> None:
    made = connection("unix:/nowhere/at/all", patience=1e-9)
    with pytest.raises(UnavailableError, match="No such file or directory; start the program"):
        until(lambda: made.take(Journal(), 0))
    made.close()


def test_who_leaves_while_it_connects(sender: Sender) -> None:
    """A connection that comes too late is left at once."""
    made = connection(sender.address)
    made._connect()
    made.close()
    with sender.accept() as left:
        assert left.recv(1) == b""
