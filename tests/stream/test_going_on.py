"""A finished run goes on when its source has more, and says what changed where it cannot."""

import gzip
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from conftest import Job, wait

from onlinesrl.stream.sources.files import FileSource
from tests.support.waiting import until

pytestmark = pytest.mark.usefixtures("counting")

FINISHED = "this run is finished; --fresh starts it over"


@pytest.fixture
def days(job, citations, tmp_path):
    """Makes runs over files of a folder, `days`, which it fills with lines: `a.jsonl=[0, 20]`."""
    folder = tmp_path / "days"
    folder.mkdir()

    def make(name, source, **keys):
        return job([], name, source={"path": source}, checkpoint={"every": 7}, **keys)

    def write(name, first, last):
        path = folder / name
        data = b"".join(citations[first:last])
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return path

    make.write, make.folder = write, folder  # type: ignore[attr-defined]
    return make


def finish(run: Job, *options: str) -> Job:
    assert run.run(*options) == 0, run.said
    return run


# the same as one unbroken run ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "how"), [("a.jsonl", "list"), ("a.jsonl.gz", "folder"), ("a.jsonl", "pattern")]
)
def test_more_files(days, name, how):
    sources = {
        "list": lambda *names: [str(days.folder / each) for each in names],
        "folder": lambda *_: str(days.folder),
        "pattern": lambda *_: str(days.folder / "*.jsonl*"),
    }
    source = sources[how]
    days.write(name, 0, 20)
    run = finish(days("run", source(name)))
    days.write(name, 0, 25)
    days.write("b.jsonl", 25, 40)
    days.write("c.jsonl", 40, 50)
    override = f"source.path={source(name, 'b.jsonl', 'c.jsonl')}"
    finish(run, "--set", override)
    whole = finish(days("whole", source(name, "b.jsonl", "c.jsonl")))
    assert run.results() == whole.results()
    files = [line["path"] for line in run.lines("files.jsonl")]
    assert files == [str(days.folder / each) for each in (name, "b.jsonl")]
    assert run.run("--set", override) == 0
    assert FINISHED in run.said


def test_a_folder_of_worlds_that_grew(job, tmp_path):
    worlds = tmp_path / "worlds"
    worlds.mkdir()

    def world(name):
        text = f'Token("{name}", 0)\nInField(0, "title")\n'
        (worlds / f"{name}.db").write_text(text)

    for name in ("w1", "w2"):
        world(name)
    run = finish(job([], source={"path": str(worlds)}))
    for name in ("w3", "w4"):
        world(name)
    finish(run)
    whole = finish(job([], "whole", source={"path": str(worlds)}))
    assert run.results() == whole.results()
    assert [line["id"] for line in run.lines("predictions.jsonl")] == ["w1", "w2", "w3", "w4"]
    (worlds / "w4.db").write_text('Token("w4", 0)\nInField(0, "title")\nToken("more", 1)\n')
    assert run.run() == 74
    assert "w4.db, of which" in run.said
    assert "it has grown after it was read to its end" in run.said


def test_standard_input_is_fed_again_with_more_at_its_end(job, citations, tmp_path):
    def feed(lines):
        (tmp_path / "fed").write_bytes(b"".join(lines))
        return lambda: os.dup2(os.open(tmp_path / "fed", os.O_RDONLY), 0)

    run = job([], source={"path": "-"})
    assert run.run(first=feed(citations[:20])) == 0, run.said
    assert run.run(first=feed(citations[:20])) == 0
    assert FINISHED in run.said
    assert run.run(first=feed(citations[1:40])) == 74
    assert "it was changed or replaced" in run.said
    assert run.run(first=feed(citations[:40])) == 0, run.said
    assert run.results() == finish(job(citations[:40], "whole")).results()


def test_a_file_that_stands_before_those_read_comes_after_them(days):
    days.write("b.jsonl", 0, 20)
    run = finish(days("run", str(days.folder)))
    a, c = days.write("a.jsonl", 20, 30), days.write("c.jsonl", 30, 40)
    finish(run)
    assert f"{a}: sorts before what has been read, and is read after it" in run.said
    assert str(c) not in run.said
    order = [str(days.folder / name) for name in ("b.jsonl", "a.jsonl", "c.jsonl")]
    assert run.results() == finish(days("whole", order)).results()


def test_a_source_that_was_moved_is_known_by_what_it_holds(days):
    days.write("a.jsonl", 0, 20)
    days.write("b.jsonl", 20, 30)
    run = finish(days("run", str(days.folder)))
    days.folder.rename(days.folder.with_name("moved"))
    assert run.run("--set", f"source.path={days.folder.with_name('moved')}") == 0
    assert FINISHED in run.said


# what changed is said -----------------------------------------------------------------------------


def test_what_became_of_files_read_before(days):
    a = days.write("a.jsonl", 0, 10)
    days.write("b.jsonl", 10, 20)
    days.write("c.jsonl", 20, 30)
    run = finish(days("run", str(days.folder)))
    days.write("a.jsonl", 0, 11)
    assert run.run() == 74
    assert f"{a}: was read to its end when it had " in run.said
    a.unlink()
    assert run.run() == 0
    assert f"{a}: was read, and is no longer a file of the source" in run.said
    assert FINISHED in run.said
    (days.folder / "c.jsonl").unlink()
    assert run.run() == 74
    assert "c.jsonl, of which" in run.said
    assert "is no longer a file of the source; give the same source again" in run.said


def test_a_line_that_was_taken_without_its_end_may_only_end(job, citations):
    run = job(citations[:20])
    run.source.write_bytes(b"".join(citations[:20]).removesuffix(b"\n"))
    finish(run)
    cut = run.source.read_bytes()
    run.source.write_bytes(cut + b" {}\n")
    assert run.run() == 74
    assert "line 20 was read without a line end, and has since become longer" in run.said
    run.source.write_bytes(b"".join(citations[:25]))
    finish(run)
    assert run.results() == finish(job(citations[:25], "whole")).results()


# until forever ------------------------------------------------------------------------------------


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as stream:
        stream.write(data)


def test_a_run_forever_learns_what_comes_and_stops_when_asked(days, citations):
    first = days.write("a.jsonl", 0, 20)
    run = finish(days("run", str(days.folder)))
    process = run.start("--until", "forever")
    append(first, citations[20][:30])
    append(first, citations[20][30:])
    append(first, b"".join(citations[21:30]))
    until(lambda: counted(run) == 30)
    os.kill(process, signal.SIGTERM)
    assert wait(process) == 0, run.said
    assert "stopped after 30 examples; run it again to resume" in run.said
    days.write("b.jsonl", 30, 40)
    process = run.start("--until", "forever")
    until(lambda: counted(run) == 40)
    days.write("c.jsonl", 40, 45)
    until(lambda: counted(run) == 45)
    os.kill(process, signal.SIGTERM)
    assert wait(process) == 0, run.said
    finish(run)
    assert run.results() == finish(days("whole", str(days.folder))).results()


def counted(run: Job) -> int:
    """How many predictions the run has given to the system."""
    path = run.output / "predictions.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def test_a_file_that_is_cut_while_a_run_follows_it_ends_the_run(days, citations):
    path = days.write("a.jsonl", 0, 5)
    run = days("run", str(days.folder))
    process = run.start("--until", "forever")
    until(lambda: counted(run) == 5)
    path.write_bytes(b"")
    assert wait(process) == 74
    assert "a.jsonl: was replaced or truncated while it was read (line " in run.said


class Tail:
    """A live source over a folder, taken from until it has nothing more."""

    def __init__(self, *paths: Path, ledger: Path | None = None, position: Any = None) -> None:
        self.said: list[str] = []
        self.source = FileSource(paths, live=True, ledger=ledger, say=self.said.append)
        self.records = self.source.read(position)
        self.position = position

    def more(self) -> list[bytes]:
        """Return what has come; a look at the folder is made by force."""
        found: list[Any] = []
        quiet = 0
        while quiet < 3:
            self.source._looked = float("-inf")
            record = next(self.records)
            quiet = 0 if record is not None else quiet + 1
            found += [record] if record is not None else []
        if found:
            self.position = self.source.after(found)
        return [record.value for record in found]


def test_a_tail_waits_for_whole_lines_and_new_files(tmp_path):
    folder, ledger = tmp_path / "in", tmp_path / "ledger"
    folder.mkdir()
    tail = Tail(folder, ledger=ledger)
    assert tail.more() == []
    append(folder / "b.jsonl", b"1\n2\n3")
    assert tail.more() == [b"1", b"2"]
    append(folder / "c.jsonl", b"6\n")
    assert tail.more() == []
    assert tail.said == [f"{folder / 'b.jsonl'}: waiting for the end of line 3"]
    append(folder / "b.jsonl", b"3\n4\n")
    assert tail.more() == [b"33", b"4", b"6"]
    append(folder / "a.jsonl", b"7\n")
    assert tail.more() == [b"7"]
    assert tail.said[1:] == [
        f"{folder / 'a.jsonl'}: sorts before what has been read, and is read after it"
    ]
    append(folder / "a.jsonl", b"8\n")
    append(folder / "d.db", b"A(1)\n")
    assert tail.more() == [b"8", b"A(1)\n"]
    again = Tail(folder, ledger=ledger, position=tail.position)
    assert again.more() == []
    append(folder / "e.jsonl", b"9\n")
    assert again.more() == tail.more() == [b"9"]
    assert again.position == tail.position


def test_a_tail_of_what_gzip_packs(tmp_path):
    path = tmp_path / "a.jsonl.gz"
    packed = gzip.compress(b"1\n2\n", mtime=0) + gzip.compress(b"3\n4\n", mtime=0)
    path.touch()
    tail, found = Tail(tmp_path), []
    for place in range(0, len(packed), 7):
        append(path, packed[place : place + 7])
        found += tail.more()
    assert found == [b"1", b"2", b"3", b"4"]


def test_a_list_of_files_that_is_gone_or_cut_is_missed(days):
    for day in range(3):
        days.write(f"{day}.jsonl", 9 * day, 9 * day + 9)
    run = finish(days("run", str(days.folder)))
    listed = run.output / "files.jsonl"
    listed.write_bytes(listed.read_bytes().splitlines(keepends=True)[0])
    for has in (1, 0):
        days.write("3.jsonl", 27, 30)
        assert run.run() == 74
        said = f"{listed}: has {has} of the 2 files that were read to their end; restore the file, or start"
        assert said in run.said
        listed.unlink(missing_ok=True)
