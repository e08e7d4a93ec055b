"""What the dashboard reads of files that are being written, cut off, replaced or removed."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinesrl.commands.dashboard import folders
from onlinesrl.commands.dashboard.folders import POINTS, PREDICTIONS, Watched
from onlinesrl.stream.run_folder import RunFolder
from onlinesrl.stream.tail import Tail


def point(examples: int, **more: Any) -> bytes:
    return json.dumps({"examples": examples, "f1": 0.5, "loss": 2.0, **more}).encode() + b"\n"


def prediction(name: str, atoms: int = 1) -> bytes:
    atoms_ = [["a", n] for n in range(atoms)]
    line = {"id": name, "predicted": {"P": atoms_}, "score": 1.0, "certified": True, "hamming": 0}
    return json.dumps(line).encode() + b"\n"


@pytest.fixture
def run(tmp_path):
    """The folder of a run that has not written anything yet."""
    with RunFolder(tmp_path / "run") as folder:
        return folder.path


# a file that grows ---------------------------------------------------------------------------------


@settings(settings.get_profile("few"))
@given(st.lists(st.binary(max_size=9), max_size=12), st.integers(min_value=40, max_value=80))
def test_every_line_is_read_once_however_it_is_written(pieces, most):
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        tail, found = Tail(Path(folder) / "file", most), []
        for piece in pieces:
            with tail.path.open("ab") as file:
                file.write(piece)
            found += tail.lines()
            assert not tail.anew
        whole = b"".join(pieces)
        if whole.count(b"\n") and max(map(len, whole.split(b"\n"))) < most - 9:
            assert found == whole.split(b"\n")[:-1]


def test_of_a_file_that_is_long_the_newest_lines_are_read(tmp_path):
    tail = Tail(tmp_path / "file", most=100)
    tail.path.write_bytes(b"".join(b"%06d\n" % n for n in range(1000)))
    assert tail.lines() == [b"%06d" % n for n in range(1000 - 14, 1000)]
    assert not tail.anew


def test_a_line_longer_than_what_is_read_at_once_is_read_if_it_is_the_newest(tmp_path):
    tail = Tail(tmp_path / "file", most=100)
    tail.path.write_bytes(b"x" * 1000)
    assert tail.lines() == []
    with tail.path.open("ab") as file:
        file.write(b"x\nnext\n")
    assert tail.lines() == [b"next"]
    with tail.path.open("ab") as file:
        file.write(b"y" * 1000 + b"\n" + b"z" * 1000)
    assert tail.lines() == [b"y" * 1000]


def test_every_line_of_every_part_is_read_on_from_a_place(tmp_path):
    """Where the place is no longer there, all lines that are left are read."""
    file = tmp_path / "file"
    lines = [b"%d" % n * (1 + n % 3 * 60) for n in range(24)]
    for part in range(3):
        end = f".{part:06}" if part else ""
        text = b"".join(line + b"\n" for line in lines[8 * part :][:8])
        file.with_name(f"file{end}").write_bytes(text)

    def after(*place: int) -> tuple[list[bytes], bool]:
        tail = Tail(file, 50, newest=False, part=place[0], offset=place[1])
        found, anew = tail.lines(), tail.anew
        while more := tail.lines():
            found += more
        return found, anew

    assert after(0, 0) == (lines, False)
    assert after(0, len(lines[0]) + 1) == (lines[1:], False)
    assert after(1, 0) == (lines[8:], False)
    for nowhere in ((0, 1), (1, 10**6), (3, 0), (999_999, 5)):
        found, anew = after(*nowhere)
        assert (found, anew) == (lines, True)
    file.unlink()
    for gone in ((0, 0), (0, 3), (7, 0)):
        assert after(*gone) == (lines[8:], True)


@pytest.mark.parametrize("before", [b"old 1\nold 2\n", b"old 1\nold 2\nold 3"])
@pytest.mark.parametrize("after", [b"n\n", b"new\n" * 9, b"old 1\n"])
def test_a_file_that_is_replaced_or_cut_off_is_read_anew(before, after, tmp_path):
    tail = Tail(tmp_path / "file")
    tail.path.write_bytes(before)
    assert tail.lines() == [b"old 1", b"old 2"]
    tail.path.write_bytes(after)  # under the same number, as after --fresh, or a resumed run
    assert tail.lines() == after.splitlines()
    assert tail.anew


def test_a_long_line_that_is_cut_off_does_not_stop_the_reading(tmp_path):
    tail = Tail(tmp_path / "file", most=10)
    tail.path.write_bytes(b"x" * 50)
    tail.lines()
    tail.path.write_bytes(b"a\nb\n")
    assert tail.lines() == [b"a", b"b"]


def test_a_file_may_come_and_go(tmp_path):
    tail = Tail(tmp_path / "file")
    assert tail.lines() == []
    assert not tail.anew
    tail.path.write_bytes(b"a\n")
    assert tail.lines() == [b"a"]
    tail.path.unlink()
    assert (tail.lines(), tail.anew) == ([], True)
    assert (tail.lines(), tail.anew) == ([], False)
    tail.path.write_bytes(b"b\n")
    assert tail.lines() == [b"b"]


# the folder of a run -------------------------------------------------------------------------------


def test_curves_predictions_and_letters(run):
    watched = Watched(run)
    watched.look()
    assert watched.parts()["head"]["last"] is None
    (run / "metrics.jsonl").write_bytes(point(1) + point(2, window={"f1": 0.75}) + b'{"exam')
    (run / "predictions.jsonl").write_bytes(prediction("a", 3) + b'{"line": 2, "error": "bad"}\n')
    (run / "deadletter.jsonl").write_bytes(b'{"file": "f", "line": 2, "id": null, "reason": "r"}\n')
    watched.look()
    parts = watched.parts()
    assert parts["curves"]["examples"] == [1, 2]
    assert parts["curves"]["window"] == [None, 0.75]
    assert parts["curves"]["wrong"] == [0]
    [newest] = parts["examples"]["newest"]
    assert (newest["id"], newest["atoms"]) == ("a", ["P(a, 0)", "P(a, 1)", "P(a, 2)"])
    assert [letter.reason for letter in parts["operation"]["letters"]] == ["r"]


def test_the_bound_is_that_of_an_update_and_signals_have_places(run):
    drift = {"signals": 1, "at": [7]}
    first = point(6, regret_bound=3.0, updates=6)
    second = point(10, regret_bound=4.5, updates=9, drift=drift)
    (run / "metrics.jsonl").write_bytes(first + second)
    watched = Watched(run)
    watched.look()
    curves = watched.parts()["curves"]
    assert curves["regret"] == [0.5, 0.5]
    assert curves["drift"] == [7]


def test_what_a_change_of_a_world_touches_is_on_average_since_the_point_before(run):
    first, second = (point(at, touched_rules=10 * at, changed_atoms=at // 2) for at in (2, 6))
    (run / "metrics.jsonl").write_bytes(first + second + point(8))
    watched = Watched(run)
    watched.look()
    curves = watched.parts()["curves"]
    assert curves["touched"] == [10.0, 10.0, None]
    assert curves["changed"] == [0.5, 0.5, None]


@pytest.mark.parametrize("bad", [b"\xff\n", b"[]\n", b'{"examples": "1"}\n', b"{\n", b"[" * 9999])
def test_damaged_lines_are_left_out(bad, run):
    for name in ("metrics", "predictions", "deadletter"):
        (run / f"{name}.jsonl").write_bytes(bad + b"\n" + point(4))
    watched = Watched(run)
    watched.look()
    assert watched.parts()["curves"]["examples"] == [4]


def test_a_run_that_is_started_over_or_vanishes_is_forgotten(run):
    (run / "metrics.jsonl").write_bytes(point(1) + point(2) + point(4))
    (run / "predictions.jsonl").write_bytes(prediction("a"))
    watched = Watched(run)
    watched.look()
    with RunFolder(run) as folder:
        folder.clear()
    watched.look()
    assert watched.parts()["curves"]["examples"] == []
    (run / "metrics.jsonl").write_bytes(point(1, loss=7.0))
    watched.look()
    assert watched.parts()["curves"]["loss"] == [7.0]
    for path in sorted(run.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    run.rmdir()
    watched.look()
    assert watched.parts()["head"]["state"] == "gone"


def test_memory_and_the_page_do_not_grow_with_the_run(run):
    watched = Watched(run)
    for start in range(0, 10_000, 1000):
        with (run / "metrics.jsonl").open("ab") as file:
            file.writelines(point(n) for n in range(start + 1, start + 1001))
        with (run / "predictions.jsonl").open("ab") as file:
            file.writelines(prediction(str(n)) for n in range(1000))
        watched.look()
    curves = watched.parts()["curves"]
    assert (curves["examples"][0], curves["examples"][-1]) == (1, 10_000)
    assert POINTS // 2 < len(curves["examples"]) <= 2 * POINTS
    assert curves["examples"] == sorted(curves["examples"])
    assert len(curves["wrong"]) == PREDICTIONS


def test_curves_begin_at_the_first_point(run):
    long = {"confusion": "x" * 1000, "regret_bound": 6.0, "updates": 3}
    lines = [point(n, **long) for n in range(1, 501)]
    (run / "metrics.jsonl").write_bytes(b"".join(lines[:400]))
    (run / "metrics.jsonl.000001").write_bytes(b"".join(lines[400:]))
    watched = Watched(run)
    watched.look()
    assert watched.parts()["curves"]["examples"] == [*range(1, 501)]
    assert watched.parts()["curves"]["regret"] == 500 * [2.0]


def test_looking_changes_nothing_and_keeps_nobody_out(run):
    (run / "metrics.jsonl").write_bytes(point(1))
    (run / "checkpoints" / "checkpoint-000000000001.ckpt").write_bytes(b"damaged")

    def state():
        files = [path for path in sorted(run.rglob("*")) if path.is_file()]
        return [(path, path.read_bytes(), path.stat().st_mtime_ns) for path in files]

    before = state()
    watched = Watched(run)
    for _ in range(3):
        watched.look()
        watched.parts()
    assert state() == before
    with RunFolder(run):  # it takes the lock
        watched.look()


@pytest.mark.skipif(not folders.LOCKS.exists(), reason="the system has no list of locks")
def test_whether_it_runs_is_known_without_the_lock(run):
    watched = Watched(run)
    with RunFolder(run):
        assert watched.parts()["head"]["state"] == "running"
    assert watched.parts()["head"]["state"] == "not running"


def test_lag_is_what_the_checkpoint_had_not_read(run, tmp_path):
    (run / "checkpoints" / "checkpoint-000000000001.ckpt").write_bytes(b"")
    source = tmp_path / "source"
    source.write_bytes(b"x" * 100)
    watched = Watched(run)
    read = {"offsets": {"t[0]": 7}}
    for position, more, expected in (
        ({"path": str(source), "bytes": 40}, {}, {"bytes": 60, "of": 100}),
        ({"path": "-", "bytes": 40}, {}, None),
        (read, {"behind": {"t[0]": 2}}, read | {"behind": {"t[0]": 2}}),
        (read, {}, read | {"behind": {}}),
        (None, {}, None),
    ):
        watched.look()
        assert watched.unseen is not None
        line = {"examples": 3}
        held = {"line": line, "examples": [], "position": position}
        watched.take(watched.unseen, held | more)
        assert watched.parts()["operation"]["lag"] == expected
        assert watched.unseen is None
        with (run / "checkpoints" / "checkpoint-000000000001.ckpt").open("ab") as saved:
            saved.write(b"x")
