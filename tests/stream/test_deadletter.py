"""Dead letters: the bytes, the place and the reason of every bad example, ready to be replayed."""

import base64
import json
import os
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from onlinesrl.core.errors import StorageError
from onlinesrl.stream.dead_letters import PIECE, DeadLetters
from onlinesrl.stream.records import Record


def letters(path):
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def bytes_of(letter):
    return letter["text"].encode() if "text" in letter else base64.b64decode(letter["base64"])


def test_a_letter_says_what_where_and_why(tmp_path):
    with DeadLetters(tmp_path / "d.jsonl") as dead:
        dead.append(Record('{"é'.encode(), "in.jsonl", 3, 0, 9), "truncated", "c1")
        dead.append(Record(b"\xff", "in.jsonl", 4, 0, 11), "not UTF-8")
    assert letters(tmp_path / "d.jsonl") == [
        {"file": "in.jsonl", "line": 3, "id": "c1", "reason": "truncated", "text": '{"é'},
        {"file": "in.jsonl", "line": 4, "id": None, "reason": "not UTF-8", "base64": "/w=="},
    ]


@pytest.mark.parametrize(
    "value",
    [
        b"a" * (PIECE - 1) + "é€".encode(),
        '"\\\n😀'.encode() * PIECE,
        b"a" * (PIECE - 1) + b"\xc3",
        b"\xff" * (2 * PIECE + 1),
        b"x" * PIECE,
    ],
)
def test_a_letter_is_the_same_whatever_the_pieces(tmp_path, value):
    """Characters, escapes and bad bytes at the seams."""
    with DeadLetters(tmp_path / "d.jsonl") as dead:
        dead.append(Record(value, "in.jsonl", 1, 0, 9), "why")
    said = {"file": "in.jsonl", "line": 1, "id": None, "reason": "why"}
    try:
        said["text"] = value.decode()
    except UnicodeDecodeError:
        said["base64"] = base64.b64encode(value).decode()
    expected = json.dumps(said, ensure_ascii=False).encode() + b"\n"
    assert (tmp_path / "d.jsonl").read_bytes() == expected


anything = st.text(st.characters())


@given(value=st.binary(), reason=anything, name=st.none() | anything)
@example(value="\u2028\x00\x85\r".encode(), reason="\ud800 is \n half", name="\udcff")
@example(value=b"\xef\xbb\xbf{}", reason="", name="")
def test_every_byte_and_character_comes_back(tmp_path_factory, value, reason, name):
    path = tmp_path_factory.mktemp("d") / "d.jsonl"
    with DeadLetters(path) as dead:
        dead.append(Record(value, "a\udcff.jsonl", 1, 0, 0), reason, name)
    data = path.read_bytes()
    assert data.count(b"\n") == 1
    (letter,) = [json.loads(line) for line in data.decode().split("\n") if line]
    assert bytes_of(letter) == value
    assert (letter["file"], letter["reason"], letter["id"]) == ("a\udcff.jsonl", reason, name)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, a disk always full")
def test_a_failing_write_stops_the_stream(monkeypatch):
    monkeypatch.setattr("onlinesrl.stream.run_folder.plain", os.open)  # which opens devices, too
    dead = DeadLetters(Path("/dev/full"))
    with pytest.raises(StorageError, match="/dev/full: cannot write: No space left") as caught:
        dead.append(Record(b"{", "in.jsonl", 1, 0, 2), "truncated")
    assert caught.value.exit_code == 74
    with pytest.raises(StorageError):
        dead.close()
