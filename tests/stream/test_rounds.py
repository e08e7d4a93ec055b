"""Learning in rounds of shards: all examples once, the same bits for any workers, kills leave no trace."""

import gzip
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from conftest import REPO, Job, command, tiers
from hypothesis import given
from hypothesis import strategies as st

from onlinesrl.core.errors import StorageError
from onlinesrl.core.parallel import ray_executor
from onlinesrl.core.parallel.executors import Inline
from onlinesrl.stream.distributed.file_splits import FilePieces, Shards
from onlinesrl.stream.records import Record
from onlinesrl.stream.sources.files import FileSource
from tests.stream.test_crash import deadly, ids
from tests.stream.test_kill import mixed

pytestmark = pytest.mark.usefixtures("counting")

LIMIT = 12
MAIN = "from onlinesrl.commands.cli import main; main()"
DISTRIBUTED = {"shards": 3, "round": 4, "workers": 1}
LINE = st.sampled_from(
    [b"", b" ", b"{}", b'{"id": 1}', b"x" * (LIMIT + 3), b"\xef\xbb\xbf{}", b"\r"]
)
FILES = st.lists(
    st.tuples(
        st.sampled_from(["jsonl", "jsonl.gz", "db"]), st.lists(LINE, max_size=6), st.booleans()
    ),
    min_size=1,
    max_size=4,
)


def in_shards(paths: list[Path], count: int) -> Iterator[Record]:
    """The records as the shards read them, in the order of the files."""
    source = Shards(paths, LIMIT, count)
    source.begin(None, Inline())
    found: list[Record] = []
    for shard in range(count):
        own = [p for p in source.pieces if p.shard == shard]
        records = [*FilePieces(own, LIMIT).read()]
        assert [(own[r.index].number, r.line) for r in records] == sorted(
            (own[r.index].number, r.line) for r in records
        )
        found += records
    order = {file: n for n, file in enumerate(source.files)}
    return iter(sorted(found, key=lambda r: (order[r.file], r.line)))


@given(FILES, st.integers(1, 5))
def test_shards_have_the_records_of_the_files(contents, count):
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for number, (kind, lines, ended) in enumerate(contents):
            data = b"\n".join(lines) + b"\n" * ended
            path = Path(folder) / f"{number}.{kind}"
            path.write_bytes(gzip.compress(data) if kind.endswith("gz") else data)
            paths.append(path)
        expected = [
            (r.value, r.file, r.line, r.too_long) for r in FileSource(paths, LIMIT).read() if r
        ]
        found = [(r.value, r.file, r.line, r.too_long) for r in in_shards(paths, count)]
    assert found == expected


@given(st.integers(1, 4), st.integers(0, 119))
def test_a_shard_goes_on_behind_any_record(count, after):
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("a.jsonl", "b.jsonl")]
        for path in paths:
            path.write_bytes(b"".join(b"%d\n" % n for n in range(60)))  # several lines a piece
        source = Shards(paths, LIMIT, count)
        source.begin(None, Inline())
        pieces = FilePieces(source.pieces, LIMIT)
        records = list(pieces.read())
        position = json.loads(json.dumps(pieces.after(records[: after + 1])))
        assert list(pieces.read(position)) == records[after + 1 :]


def test_a_file_that_is_truncated_between_rounds_is_an_error(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"".join(b"%d\n" % n for n in range(40)))
    source = Shards([path], LIMIT, 1)
    source.begin(None, Inline())
    records = FilePieces(source.pieces, LIMIT).read()
    assert next(records).value == b"0"
    records.close()
    os.truncate(path, 50)
    with pytest.raises(StorageError, match="was replaced or truncated while it was read"):
        list(FilePieces(source.pieces, LIMIT).read())


@pytest.mark.parametrize("update", ["cda2", "second-order"])
def test_the_same_bits_for_any_number_of_workers(job, citations, update):
    lines, learner = mixed(citations, 24, "rounds"), {"update": update}
    one = job(lines, learner=learner, distribute=DISTRIBUTED, limits={"bad_share": 1.0})
    found = []
    for workers in (1, 3):
        assert one.run("--fresh", "--set", f"distribute.workers={workers}") == 0, one.said
        found.append(one.results())
    assert found[0] == found[1]
    assert len(one.lines("deadletter.jsonl")) == len(lines) - 24
    ids = [line["id"] for line in one.predictions()]
    assert sorted(ids) == sorted(json.loads(line)["id"] for line in citations[:24])
    last = one.lines("metrics.jsonl")[-1]
    assert last["examples"] == len(lines)
    assert last["rounds"] >= 2


@pytest.mark.long
@pytest.mark.parametrize("update", ["cda1", "second-order"])
@tiers("kills", 2, 100)
def test_kills_of_the_run_leave_no_trace(job, citations, kills, update):
    broken = job(
        mixed(citations, 30, "rounds"),
        learner={"update": update},
        distribute=DISTRIBUTED | {"workers": 2},
        limits={"bad_share": 1.0},
    )
    broken.survives(kills, 2)


@pytest.mark.usefixtures("kernels")
def test_an_example_that_kills_workers_is_put_aside(job, citations):
    lines, keys = citations[:16], {"distribute": DISTRIBUTED | {"workers": 2}}
    run = job(lines, **keys)
    bad = [ids(lines)[n] for n in (5, 6)]
    without = job(
        [b"{\n".rjust(len(line)) if ids([line])[0] in bad else line for line in lines],
        "without",
        **keys,
    )
    assert without.run("--set", "limits.bad_share=1") == 0

    def all_deadly():
        for poison in bad:
            deadly(poison, signal.SIGKILL)()

    assert run.run("--set", "limits.bad_share=1", first=all_deadly) == 0, run.said
    letters = run.lines("deadletter.jsonl")
    assert sorted(letter["id"] for letter in letters) == sorted(bad)
    assert letters[0]["reason"].startswith("3 processes in succession died in this example")
    weights = run.results()["weights.mln"].replace(b'"crash"', b'"decode"')
    assert weights == without.results()["weights.mln"]
    assert run.predictions() == without.predictions()


@pytest.mark.usefixtures("kernels")
def test_as_many_examples_are_audited_as_without_shards(job, citations):
    """Also in rounds whose parts are shorter than the interval."""
    audited = job(citations[:24], inference={"audit_every": 6}, distribute=DISTRIBUTED)
    assert audited.run() == 0, audited.said
    assert audited.lines("metrics.jsonl")[-1]["audited"] == 4


def test_a_file_that_changed_is_refused(job, citations):
    changed = job(citations[:40], distribute=DISTRIBUTED)
    assert changed.run("--until", "12") == 0, changed.said
    changed.source.write_bytes(b"".join([*citations[1:40], citations[0]]))
    assert changed.run() == 74
    assert "source.jsonl: its bytes have changed since the run began" in changed.said
    changed.source.unlink()
    assert changed.run() == 78
    assert "source.path: expected a file" in changed.said


def test_an_example_that_may_not_be_bad_ends_the_run_with_its_place(job, citations):
    strict = job([*citations[:9], b"{\n"], distribute=DISTRIBUTED | {"workers": 2})
    assert strict.run("--strict") == 65
    assert "source.jsonl:10: " in strict.said
    assert strict.said.rstrip().endswith("nothing of its round was kept")


def test_a_server_has_no_shards(capfd):
    config = str(REPO / "configs" / "citations.yaml")
    assert command("serve", config, "--port", "0", "--set", "distribute.shards=2") == 78
    said = capfd.readouterr()
    assert "distribute: not for a server, whose requests come one by one" in said.err
    assert "serving at" not in said.out + said.err


# Ray ---------------------------------------------------------------------------------------------


def no_ray_here() -> None:
    """Let a run that imports Ray be a fork: its native library is in no process of other tests."""


def ray_environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(REPO), "RAY_DEDUP_LOGS": "0"}


def descendants(process: int) -> dict[int, str]:
    """The processes below one, by number, and their command lines."""
    parents: dict[int, list[tuple[int, str]]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            stat = (folder / "stat").read_text().rpartition(")")[2].split()
            text = (folder / "cmdline").read_text().replace("\0", " ")
        except OSError:
            continue
        parents.setdefault(int(stat[1]), []).append((int(folder.name), text))
    found: dict[int, str] = {}
    waiting = [process]
    while waiting:
        for number, text in parents.get(waiting.pop(), ()):
            found[number] = text
            waiting.append(number)
    return found


def on_ray(one: Job, kills: int, rng: random.Random) -> int:
    """Run on Ray; kill up to so many workers while they learn; return how many were killed."""
    options = ("--fresh", "--set", "distribute.engine=ray", "--set", "distribute.workers=2")
    with subprocess.Popen(
        [sys.executable, "-c", MAIN, "run", str(one.config), *options],
        env=ray_environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as process:
        killed: set[int] = set()
        while process.poll() is None and len(killed) < kills:
            learning = [
                number
                for number, text in descendants(process.pid).items()
                if text.startswith(("ray::_on_worker", "ray::IDLE")) and number not in killed
            ]
            if learning and one.checkpoints():
                victim = rng.choice(learning)
                with suppress(ProcessLookupError):
                    os.kill(victim, signal.SIGKILL)
                    killed.add(victim)
            time.sleep(rng.uniform(0.0, 1.0))  # often enough to hit, too rarely to stop it for good
        assert process.stderr is not None
        said = process.stderr.read().decode()
    assert process.returncode == 0, said
    return len(killed)


@pytest.mark.usefixtures("kernels")
@tiers("kills", 1, 50)
def test_ray_gives_the_same_bits_and_its_workers_may_die(job, citations, kills, tally):
    small = DISTRIBUTED | {"round": 1}
    one = job(
        mixed(citations, 18 if kills == 1 else 120, "ray"),
        learner={"update": "cda2"},
        distribute=small,
        limits={"bad_share": 1.0},
    )
    assert one.run() == 0, one.said
    local, killed, rng = one.results(), 0, random.Random(7)
    while killed < kills:
        killed += on_ray(one, kills - killed, rng)
        assert one.results() == local
    tally["kills of Ray's workers"] += killed


KILLING = """
import os, signal
from onlinesrl.core.parallel import ray_executor
from onlinesrl.core.parallel.executors import Inline
check, calls = ray_executor._Raylet.check, 0
def killing(raylet):
    global calls
    calls += 1
    if calls == 30:
        os.kill(int(raylet.stat.parent.name), signal.SIGKILL)
        while not raylet.dead:
            pass
    check(raylet)
ray_executor._Raylet.check = killing
"""


@pytest.mark.long
def test_the_death_of_ray_is_said_and_the_run_resumes(job, citations):
    one = job(citations[:40], distribute=DISTRIBUTED | {"round": 1})
    assert one.run() == 0, one.said
    local = one.results()
    options = ("--fresh", "--set", "distribute.engine=ray", "--set", "distribute.workers=1")
    done = subprocess.run(
        [sys.executable, "-c", KILLING + MAIN, "run", str(one.config), *options],
        env=ray_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 69, done.stderr
    assert "Ray on this machine has ended: its process raylet" in done.stderr
    assert one.run() == 0, one.said
    assert one.results() == local


def test_an_address_that_does_not_answer_is_said(job, citations):
    lost = job(citations[:5], distribute=DISTRIBUTED)
    with socket.socket() as bound:  # not listening: connections are refused
        bound.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{bound.getsockname()[1]}"
        ray = ("--set", "distribute.engine=ray", "--set", f"distribute.address={address}")
        assert lost.run(*ray, first=no_ray_here) == 69
    assert f"nothing answers at {address}" in lost.said
    assert "Traceback" not in lost.said


@pytest.mark.parametrize("says", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b""])
def test_an_address_of_something_else_is_said(job, citations, monkeypatch, says):
    monkeypatch.setattr(ray_executor, "ANSWER_SECONDS", 1.0)
    lost = job(citations[:5], distribute=DISTRIBUTED)
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"

        def answer():
            with other.accept()[0] as client:
                client.recv(64)
                client.sendall(says)

        server = threading.Thread(target=answer)
        if says:
            server.start()
        ray = ("--set", "distribute.engine=ray", "--set", f"distribute.address={address}")
        assert lost.run(*ray, first=no_ray_here) == 69
    if says:
        server.join()
    why = "what listens there is not Ray" if says else "timed out"
    assert f"nothing answers at {address} ({why})" in lost.said


def test_without_ray_it_says_what_to_install(job, citations, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    without = job(citations[:5], distribute=DISTRIBUTED | {"engine": "ray"})
    assert without.run() == 69
    assert "ray is not installed; pip install 'onlinesrl[ray]'" in without.said
