"""File sources: every example once, in order, with the place to go on from."""

import gzip
import io
import json
import os
import sys
import tempfile
import tracemalloc
from itertools import islice
from pathlib import Path

import duckdb
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from onlinesrl.core.errors import StorageError
from onlinesrl.stream.decoding import ExampleReader, RecordDecoder
from onlinesrl.stream.sources import line_reader as opened_files
from onlinesrl.stream.sources.files import MAX_BYTES, FileSource
from onlinesrl.stream.sources.parquet import TableSource

MARK = b"\xef\xbb\xbf"
LIMIT = 12


def write(path, data):
    path.write_bytes(gzip.compress(data) if path.name.endswith(".gz") else data)
    return path


class Fed:
    """A standard input with given bytes."""

    def __init__(self, data):
        self.descriptor = os.memfd_create("stdin")
        os.write(self.descriptor, data)
        os.lseek(self.descriptor, 0, os.SEEK_SET)

    def fileno(self):
        return self.descriptor

    def __del__(self):
        os.close(self.descriptor)


def feed(monkeypatch, data):
    monkeypatch.setattr(sys, "stdin", Fed(data))


def reading(paths, position=None, limit=MAX_BYTES, ledger=None):
    """Yield the records, and the position after each."""
    source = FileSource(paths, limit, ledger=ledger)
    source.open(position)
    while (batch := source.next_batch(1)) is not None:
        for record in batch:
            yield record, json.loads(json.dumps(source.snapshot()))


def records_of(paths, position=None, limit=MAX_BYTES, ledger=None):
    return [record for record, _ in reading(paths, position, limit, ledger)]


def brief(records):
    return [(r.value, r.file, r.line, r.kind, r.too_long) for r in records]


def expected(file, data):
    """What a source with the limit of this module must deliver, written the slow way."""
    if ".db" in Path(file).name:
        value = data[:LIMIT].removeprefix(MARK)
        return [(value, file, 1, "db", len(data) > LIMIT)]
    records = []
    for number, raw in enumerate(io.BytesIO(data), start=1):
        body = raw.removesuffix(b"\n")
        too_long = len(body) > LIMIT
        value = body[:LIMIT] if too_long else body.rstrip(b"\r")
        value = value.removeprefix(MARK) if number == 1 else value
        if value.strip():
            records.append((value, file, number, "json", too_long))
    return records


line = st.one_of(
    st.sampled_from([b"", b" \t", b'{"id":"a"}', b"{", MARK, MARK + b"{}", b"\xff\x00", b"\r"]),
    st.binary(max_size=2 * LIMIT).map(lambda data: data.replace(b"\n", b"")),
)
content = st.builds(
    lambda lines, end, last: end.join(lines) + (end if last else b""),
    st.lists(line, max_size=7),
    st.sampled_from([b"\n", b"\r\n"]),
    st.booleans(),
)
file_name = st.sampled_from(["x.jsonl", "x.json", "x.jsonl.gz", "x.db", "x.db.gz"])
files = st.lists(st.tuples(file_name, content), min_size=1, max_size=4)


@given(files=files)
@example(files=[("x.jsonl", b"a\n\nb\n"), ("x.db", b"A(1)\n"), ("x.jsonl.gz", b"c\n" * 9)])
@example(files=[("x.jsonl.gz", b"y" * (LIMIT + 1)), ("x.jsonl", b"y" * LIMIT + b"\nz")])
@example(files=[("x.jsonl", b"y" * (1 << 19) + b"\nz\n"), ("x.db", b"y" * (1 << 19))])
def test_going_on_from_any_record_gives_the_rest(files):
    with tempfile.TemporaryDirectory() as folder:
        paths, wanted = [], []
        for number, (name, data) in enumerate(files):
            paths.append(write(Path(folder) / f"{number}{name}", data))
            wanted += expected(str(paths[-1]), data)
        ledger = Path(folder) / "ledger"
        read = list(reading(paths, None, LIMIT, ledger))
        assert brief(record for record, _ in read) == wanted
        noted = ledger.read_bytes() if ledger.exists() else b""
        for k, (_, position) in reversed(list(enumerate(read))):
            ledger.write_bytes(b"".join(noted.splitlines(keepends=True)[: position["file"]]))
            assert list(reading(paths, position, LIMIT, ledger)) == read[k + 1 :]


@given(data=content)
def test_standard_input_goes_on_when_fed_again_from_its_start(data):
    with pytest.MonkeyPatch.context() as patch:
        feed(patch, data)
        read = list(reading(["-"], None, LIMIT))
        assert brief(record for record, _ in read) == expected("-", data)
        for k, (_, position) in enumerate(read):
            feed(patch, data)
            assert list(reading(["-"], position, LIMIT)) == read[k + 1 :]


def test_what_is_read_ahead_is_not_behind_the_position(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(b'{"evidence": {}}\n' * 4)

    def reader():
        return ExampleReader(FileSource([tmp_path / "a.jsonl"]), RecordDecoder([], MAX_BYTES))

    first = reader()
    first.open()
    assert first.snapshot() is None
    assert len(first.next_batch(2).items) == 2
    position, again = first.snapshot(), reader()
    assert again.more(position, lambda: False)
    assert again.snapshot() == position
    again.open(position)
    assert [record.line for record, _ in again.next_batch(1).items] == [3]
    assert again.snapshot()["lines"] == 3


def test_standard_input_is_left_open(monkeypatch):
    feed(monkeypatch, b"{}\n")
    assert len(records_of(["-"])) == 1
    assert os.fstat(sys.stdin.fileno()).st_size == 3


def test_a_folder_stands_for_its_examples_sorted_by_name(tmp_path):
    for name in ("b.jsonl", "a.jsonl.gz", "c.db", "README.md", "notes.json", "a.jsonl.bak"):
        write(tmp_path / name, name.encode())
    assert [record.value for record in records_of([tmp_path])] == [
        b"a.jsonl.gz",
        b"b.jsonl",
        b"c.db",
    ]


def test_a_file_may_come_twice(tmp_path):
    path = write(tmp_path / "a.jsonl", b"1\n2\n")
    read = list(reading([path, path], ledger=tmp_path / "ledger"))
    assert [record.value for record, _ in read] == [b"1", b"2", b"1", b"2"]
    assert records_of([path, path], read[2][1], ledger=tmp_path / "ledger") == [read[3][0]]


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.db"])
def test_the_rest_of_a_long_example_is_not_held(tmp_path, name):
    path = write(tmp_path / name, b"y" * (30 << 20) + b"\n")
    tracemalloc.start()
    try:
        (record,) = records_of([path], limit=1000)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (record.value, record.too_long) == (b"y" * 1000, True)
    assert record.offset == (30 << 20) + 1
    assert peak < 2 << 20


def test_what_is_not_there_is_named(tmp_path):
    """Before anything is read, and when it goes away afterwards."""
    with pytest.raises(StorageError, match=r"no \*\.jsonl, \*\.jsonl\.gz, \*\.db file"):
        FileSource([tmp_path])
    path = write(tmp_path / "a.jsonl", b"1\n")
    with pytest.raises(StorageError, match=r"gone\.jsonl: cannot read: No such file") as caught:
        FileSource([path, tmp_path / "gone.jsonl"])
    assert caught.value.exit_code == 74
    source = FileSource([path])
    path.unlink()
    with pytest.raises(StorageError, match=r"a\.jsonl: cannot read: No such file"):
        list(source.read())


def test_a_cut_gzip_file_is_an_error_with_its_line(tmp_path):
    path = tmp_path / "a.jsonl.gz"
    data = gzip.compress(b"".join(b"\n%d\n" % n for n in range(40_000)), 1)
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(StorageError) as caught:
        for record, _ in reading([path]):
            last = record
    assert last.value == b"%d" % (last.line // 2 - 1)
    place, reason = str(caught.value).removeprefix(f"{path}:").split(": cannot be read: ")
    assert 0 < int(place) - last.line <= 3
    assert "ended before" in reason


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.db.gz"])
def test_damaged_gzip_is_an_error_at_every_byte(tmp_path, name):
    path = tmp_path / name
    data = bytearray(gzip.compress(b'{"id": 1}\n', mtime=0))
    harmless = {3, 4, 5, 6, 7, 8, 9}  # flags, time, compression level, system
    for place in range(len(data)):
        data[place] ^= 0xFF
        path.write_bytes(data)
        if place not in harmless:
            with pytest.raises(StorageError, match=f"{name}:1: cannot be read: "):
                records_of([path])
        data[place] ^= 0xFF


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.db", "-"])
def test_a_source_that_has_become_shorter_is_an_error(tmp_path, monkeypatch, name):
    path = "-" if name == "-" else tmp_path / name

    def put(data):
        if name == "-":
            feed(monkeypatch, data)
        else:
            write(path, data)

    put(b"1\n22\n")
    ledger = tmp_path / "ledger"
    *_, (_, position) = reading([path], ledger=ledger)
    put(b"1\n22")
    with pytest.raises(
        StorageError, match=r"5 bytes \(\d lines\) were read: it has only 4 bytes now"
    ):
        records_of([path], position, ledger=ledger)


@pytest.mark.parametrize(("name", "whole"), [("a.jsonl", [b"1", b"22"]), ("a.db", [])])
def test_a_file_that_is_truncated_while_it_is_read_is_an_error(tmp_path, monkeypatch, name, whole):
    """What was a part of a line is no last line."""
    path = write(tmp_path / name, b"1\n22\n333\n")
    real = os.readv

    def read(descriptor, buffers):
        found = real(descriptor, buffers)
        os.truncate(path, 3)
        return found

    monkeypatch.setattr(opened_files, "BUFFER_BYTES", 8)
    monkeypatch.setattr(os, "readv", read)
    found = []
    with pytest.raises(StorageError, match=f"{name}: was replaced or truncated while it was read"):
        found.extend(record.value for record in FileSource([path]).read() if record)
    assert found == whole


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc to see open files")
@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_a_reader_that_stops_early_closes_the_file(tmp_path, name):
    def opened():
        return sum(os.path.realpath(link) == str(path) for link in Path("/proc/self/fd").iterdir())

    path = write(tmp_path / name, b"1\n2\n").resolve()
    records = FileSource([path]).read()
    assert next(records).value == b"1"
    assert opened() == 1
    records.close()
    assert opened() == 0


@pytest.mark.skipif(not Path("/proc/thread-self/io").exists(), reason="needs /proc to count bytes")
@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.parquet", "tables"])
def test_going_on_reads_as_much_however_long_the_stream_was(tmp_path, name):
    def going_on(count):
        """How many bytes are read to go on from there, where ten records follow."""
        folder = tmp_path / str(count)
        folder.mkdir()
        path = folder / name
        if name in {"tables", "a.parquet"}:
            file = path / "evidence" / "P.parquet" if name == "tables" else path
            file.parent.mkdir(parents=True, exist_ok=True)
            rows = f"SELECT n AS id, repeat('x', 60) || n AS text FROM range({count + 10}) t(n)"
            duckdb.connect().execute(f"COPY ({rows}) TO '{file}' (ROW_GROUP_SIZE 2048)")
        else:
            header = "id,text\n" if name == "a.csv" else ""
            path.write_text(header + "".join(f"{n},{'x' * 60}\n" for n in range(count + 10)))

        def source():
            if name == "tables":
                return TableSource(path, "id", MAX_BYTES)
            return FileSource([path], ledger=folder / "ledger")

        first = source()
        records = (record for record in first.read() if record is not None)
        position = first.after([[*islice(records, count)][-1]])
        first.close()
        before = bytes_read()
        rest = [record for record in source().read(position) if record is not None]
        assert len(rest) == 10
        return bytes_read() - before

    assert going_on(40_000) <= 1.5 * going_on(4_000)


def bytes_read():
    """How many bytes this thread has asked the system for."""
    return int(Path("/proc/thread-self/io").read_text().split()[1])
