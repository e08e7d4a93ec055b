"""A file as a live stream: what arrives, when, and what is said when it cannot."""

import gzip
import json
import os
import signal
import time

import pytest
from conftest import wait

from onlinesrl.core.errors import DataError, UsageError
from onlinesrl.core.example import decode
from onlinesrl.logic.dialect import DIALECTS
from onlinesrl.runs.replay import Message, message_of, messages
from tests.support.waiting import until


def test_lines_come_as_they_are(job, citations):
    lines = [*citations[:5], b" {\xff \n", b"\n", b'{"id": 3}\r\n']
    run = job(lines)
    packed = run.folder / "packed.jsonl.gz"
    packed.write_bytes(gzip.compress(b"".join(lines)))
    expected = b"".join(line.rstrip(b"\r\n") + b"\n" for line in lines if line.strip())
    for path in (run.source, packed):
        assert run.call("replay", path, "--to", "stdout") == 0, run.said
        assert (run.folder / "stdout").read_bytes() == expected
        assert run.said.startswith("7 sent in ")
    source = os.open(run.source, os.O_RDONLY)
    assert run.call("replay", "-", "--to", "stdout", first=lambda: os.dup2(source, 0)) == 0
    os.close(source)
    assert (run.folder / "stdout").read_bytes() == expected


@pytest.mark.parametrize(
    ("value", "key"),
    [
        (b'{"id": "c1", "evidence": {}}', b"c1"),
        (b'{"evidence": {"P": [["a", 1]]}, "id": 7}', b"7"),
        ('{"id": "é"}'.encode(), "é".encode()),
        (b'{"id": "\\ud800"}', None),
        (b'{"id": 1.5}', None),
        (b"{}", None),
        (b"[" * 100_000, None),
        (b'{"id": "\xff"}', None),
    ],
)
def test_keys(value, key):
    assert message_of(value, "here").key == key


def test_worlds_are_sent_as_examples(tmp_path):
    (tmp_path / "w.db").write_text('P("a", "b")\n!P("b", "b")\nQ("a")\n')
    with pytest.raises(UsageError, match="--query"):
        list(messages(tmp_path, []))
    [message] = messages(tmp_path, ["Q"])
    assert message == Message(message.value, b"w", f"{tmp_path / 'w.db'}:1")
    example = decode(message.value)
    assert example.truth == {"Q": [["a"]]}
    assert set(json.loads(message.value)) == {"id", "evidence", "truth"}
    (tmp_path / "w.db").write_text("P(")
    with pytest.raises(DataError, match=r"w\.db"):
        list(messages(tmp_path, ["Q"]))


def test_several_databases_of_pracmln_in_a_file(tmp_path):
    (tmp_path / "w.db").write_text("---\nP(a)\nQ(a)\n  --- \n\nP(b)\n!Q(b)\n---\n")
    sent = list(messages(tmp_path, ["Q"], DIALECTS["pracmln"]))
    first, second = (decode(message.value) for message in sent)
    assert [message.key for message in sent] == [b"w.1", b"w.2"]
    assert (first.evidence, first.truth) == ({"P": [["a"]]}, {"Q": [["a"]]})
    assert (second.id, second.evidence) == ("w.2", {"P": [["b"]]})
    (tmp_path / "w.db").write_bytes(b"P(a)\n---\nP(\xff)\n")
    with pytest.raises(DataError, match=r"w\.db"):
        list(messages(tmp_path, ["Q"], DIALECTS["pracmln"]))
    (tmp_path / "w.db").write_text("P(a)\n---\nP(\n")
    with pytest.raises(DataError, match=r"w\.db:3:3: "):
        list(messages(tmp_path, ["Q"], DIALECTS["pracmln"]))


def test_rate(job, citations):
    run = job(citations[:11])
    started = time.monotonic()
    assert run.call("replay", run.source, "--to", "stdout", "--rate", 20) == 0
    assert time.monotonic() - started >= 0.5
    assert run.said.startswith("11 sent in ")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("waiting", ["to send", "to read"])
def test_a_signal_stops_it(job, citations, number, waiting):
    run = job(citations[:50])
    there, back = os.pipe()
    if waiting == "to send":
        process = run.fork("replay", str(run.source), "--to", "stdout", "--rate", "0.001")
    else:
        process = run.fork(
            "replay", "-", "--to", "stdout", "--rate", "1e6", first=lambda: os.dup2(there, 0)
        )
        os.write(back, citations[0])
    stdout = run.folder / "stdout"
    until(lambda: stdout.exists() and stdout.read_bytes() == citations[0])
    os.kill(process, number)
    assert wait(process) == 0
    assert run.said.startswith("stopped: 1 sent in ")
    os.close(there)
    os.close(back)
