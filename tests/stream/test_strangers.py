"""Run folders that somebody else made: what they hold is checked, and no link in them is followed."""

import json
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from conftest import MODEL, Job

from onlinesrl import OnlineLearner
from onlinesrl.commands.dashboard import worker
from onlinesrl.commands.dashboard.folders import Watched
from onlinesrl.core.errors import FolderError, ModelError, StorageError
from onlinesrl.core.io.checkpoint_file import load, write
from onlinesrl.stream.checkpoints import numbered
from onlinesrl.stream.run_folder import RunFolder
from tests.support.trust_program import MODEL as TRUST
from tests.support.trust_program import examples

SECRET = "the first line of a private file"


# commands ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def untouched(warm, citations, tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished")
    run = Job(folder, citations[:20], checkpoint={"every": 10}, batch=4)
    assert run.run("--until", "16") == 0, run.said
    shutil.copytree(run.output, folder / "untouched")
    return run


@pytest.fixture
def finished(untouched):
    """The run, as it was when it had finished."""
    shutil.rmtree(untouched.output)
    shutil.copytree(untouched.folder / "untouched", untouched.output)
    return untouched


def rewrite(path: Path, change: Callable[[dict[str, Any], dict[str, Any]], object]) -> None:
    """Change header and arrays of a checkpoint, which stays whole."""
    saved = load(path)
    change(saved.header, saved.arrays)
    write(path, saved.number, saved.header, saved.arrays)


def test_a_hostile_checkpoint_is_refused_by_every_command(finished):
    for path in finished.checkpoints():
        rewrite(path, lambda _, arrays: arrays["block"].fill(10**12))
    last, config = finished.checkpoints()[-1], finished.config
    begun = ("--set", f"output={finished.folder / 'begun'}")
    before = {path: path.read_bytes() for path in finished.output.glob("*.jsonl")}
    for arguments in (
        ("checkpoint", "verify", last),
        ("weights", last),
        ("evaluate", last, config),
        ("predict", last, config),
        ("run", config),
        ("run", config, "--set", f"learner.start={last}", *begun),
    ):
        assert finished.call(*arguments) == 74
        assert f"{last}: cannot be restored: the blocks of weights do not" in finished.said
        assert "Traceback" not in finished.said
    found = worker.answer({"task": "look", "checkpoint": str(last), "before": None})
    assert "cannot be restored" in found["error"]
    assert {path: path.read_bytes() for path in before} == before  # nothing was cut


@pytest.mark.parametrize("key", ["position", "metrics", "model", "fingerprint", "shown", "lengths"])
def test_a_header_that_lacks_a_part_is_refused(finished, key):
    for path in finished.checkpoints():
        rewrite(path, lambda header, _: header.pop(key))
    assert finished.run() == 74
    assert f"{finished.checkpoints()[-1]}: cannot be restored: " in finished.said
    assert f"`{key}`" in finished.said


def test_a_checkpoint_includes_no_file(finished, tmp_path):
    """Neither the page, nor weights, nor the library shows a line of the file that it names."""
    for name in ("private.txt", "private.mln"):
        (tmp_path / name).write_text(f"{SECRET}\n")
        path = finished.checkpoints()[-1]
        text = f'#include "{tmp_path / name}"\n{MODEL.read_text()}'
        rewrite(path, lambda header, _, text=text: header.update(model=text))
        with pytest.raises(ModelError, match="a checkpoint's model includes no file") as caught:
            OnlineLearner.load(path)
        assert SECRET not in str(caught.value)
        found = worker.answer({"task": "look", "checkpoint": str(path), "before": None})
        assert "includes no file" in found["error"]
        assert SECRET not in found["error"]
        assert finished.call("weights", path) == 78
        assert SECRET not in finished.said


def test_only_what_is_named_as_a_model_is_included(tmp_path):
    """An error shows a line of the file."""
    (tmp_path / "private.txt").write_text(f"{SECRET}\n")
    (tmp_path / "link.mln").symlink_to(tmp_path / "private.txt")
    for name in ("private.txt", "link.mln"):
        with pytest.raises(ModelError, match="only MLN files can be included") as caught:
            OnlineLearner(f'#include "{tmp_path / name}"\n', "P")
        assert SECRET not in str(caught.value)


def without_clock(path: Path) -> str:
    """All that a checkpoint holds, in its order, but for what depends on the clock."""
    saved = load(path)
    header = {**saved.header, "seconds": 0, "slowest": []}
    arrays = {name: array.tolist() for name, array in saved.arrays.items()}
    return json.dumps([header, arrays])


def test_the_checkpoint_of_a_resumed_run_is_the_same_to_the_byte(job, citations):
    """Also where fewer examples follow than it holds for the report."""
    spaced = [
        line.replace(b'": ', b'":   ').replace(b"e", rb"\u0065", 1) for line in citations[:20]
    ]
    whole, stopped = (job(spaced, name, checkpoint={"every": 1000}) for name in ("a", "b"))
    assert whole.run() == 0, whole.said
    assert stopped.run("--until", "17") == 0, stopped.said
    assert stopped.run() == 0, stopped.said
    found = without_clock(stopped.checkpoints()[-1]).replace(str(stopped.folder), str(whole.folder))
    assert found == without_clock(whole.checkpoints()[-1])


def test_another_versions_checkpoint_is_told(finished):
    rewrite(finished.checkpoints()[-1], lambda header, _: header.update(version="0.0.9"))
    assert finished.run() == 0, finished.said
    assert f"{finished.checkpoints()[0].parent}" in finished.said
    assert "written by onlinesrl 0.0.9, and this is " in finished.said
    assert finished.run() == 0
    assert "written by" not in finished.said


# what a checkpoint holds ---------------------------------------------------------------------------

Change = Callable[[np.ndarray], np.ndarray | None]


def changed(place: Any, number: float) -> Change:
    """Put another number at a place."""

    def change(array: np.ndarray) -> np.ndarray:
        other = array.copy()
        other[place] = number
        return other

    return change


ARRAYS: dict[str, tuple[str, Change]] = {
    "block outside": ("block", lambda a: np.full_like(a, 10**12)),
    "block before": ("block", lambda a: np.full_like(a, -1)),
    "blocks overlap": ("block", lambda a: np.full_like(a, a[0])),
    "no such clause": ("key", changed((0, 0), 99)),
    "negative clause": ("key", changed((0, 0), -1)),
    "constant without a name": ("key", changed((0, 1), 10**6)),
    "negative constant": ("key", changed((0, 1), -1)),
    "same constants twice": ("key", lambda a: changed(slice(None), a[0])(a)),
    "fewer constants": ("key", lambda a: a[:, :1].copy()),
    "one block less": ("key", lambda a: a[:-1]),
    "longer numbers": ("key", lambda a: a.astype(np.int64)),
    "one weight less": ("value", lambda a: a[:-1]),
    "no average": ("value", lambda a: a[:, :2].copy()),
    "not a number": ("value", changed((0, 0), np.nan)),
    "infinite": ("value", changed((0, 1), np.inf)),
    "negative uses": ("uses", changed(0, -1)),
    "uses missing": ("uses", lambda a: None),
    "half an update": ("scalar", changed(0, 0.5)),
    "fewer scalars": ("scalar", lambda a: a[:3]),
    "negative square": ("square", changed(0, -1.0)),
    "complex": ("square", lambda a: a.astype(np.complex128)),
    "labels: other dimensions": ("early_labels", lambda a: np.zeros((2, 2), np.uint8)),
    **{
        f"labels: {line[:50]!r}": ("pending", lambda a, line=line: np.frombuffer(line, np.uint8))
        for line in (
            b"{",
            b'{"text": {"id": 1}}',
            b'{"text": {"id": 1, "evidence": {}}, "prediction": {"id": 1}}',
            b'{"text": {"id": 1, "evidence": {}}, "weight": 10000000}',
            b'{"text": {"id": 1, "evidence": {}}, "weight": -1}',
            b'{"text": {"id": 1, "evidence": {}}}\n{"text": {"id": "1", "evidence": {}}}',
            b'{"text": ' + b"[" * 100_000,
            b"\xff",
        )
    },
}
HEADERS: list[tuple[str, str, Any]] = [
    ("learner", "constants", {}),
    ("learner", "constants", None),
    ("learner", "dropped", -1),
    ("learner", "seen", 2**70),
    ("learner", "shown", {"person": [[]]}),
    ("metrics", "examples", -1),
    ("metrics", "examples", 2**70),
    ("metrics", "steps", "3"),
    ("metrics", "marks", [1]),
    ("metrics", "signals", 1),
    ("metrics", "total", {"atoms": [1, 2]}),
    ("metrics", "window", []),
    ("metrics", "by", {"a": [1, 2]}),
    ("metrics", "ranking", {"P": [[10_001, 1, 1]]}),
    ("metrics", "confusion", [["a", 1, 1]]),
    ("metrics", "confusion", 5),
]


@pytest.fixture(scope="module")
def full(warm, citations, tmp_path_factory):
    """A run of Markov logic whose checkpoint has all that a checkpoint may have."""
    bare = [json.dumps({**json.loads(c), "truth": None}).encode() + b"\n" for c in citations[12:15]]
    keys = {"learner": {"update": "adagrad"}, "drift": {}, "labels": {}}
    run = Job(tmp_path_factory.mktemp("full"), [*citations[:12], *bare], **keys)
    assert run.run() == 0, run.said
    return run


def refused(run: Job, change: Callable[[dict[str, Any], dict[str, Any]], object]) -> str:
    """Change the last checkpoint for a while; return why it is refused."""
    path = run.checkpoints()[-1]
    whole = path.read_bytes()
    try:
        rewrite(path, change)
        assert run.call("checkpoint", "verify", path) == 74
        if run.said.startswith("damaged"):
            return run.said
        assert run.call("run", run.config, "--until", "end") == 74
        return run.said
    finally:
        path.write_bytes(whole)


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_of_a_checkpoint_are_checked(full, name):
    """Kernels take indexes from them: what does not fit is refused, and says so."""
    key, change = ARRAYS[name]

    def put(_, arrays):
        array = change(arrays.pop(key))
        arrays |= {} if array is None else {key: array}

    assert "cannot be restored: " in refused(full, put)


@pytest.mark.parametrize(("part", "key", "value"), HEADERS)
def test_headers_of_a_checkpoint_are_checked(full, part, key, value):
    def put(header, _):
        header[part][key] = value

    assert "cannot be restored: " in refused(full, put)


@pytest.mark.parametrize("name", ["base", "dual", "total", "uses", "scalar", "square"])
def test_arrays_of_psl_are_checked(job, tmp_path, name):
    (tmp_path / "trust.psl").write_text(TRUST)
    lines = [msgspec.json.encode(example) + b"\n" for example in examples(4)]
    keys = {"model": str(tmp_path / "trust.psl"), "query": "Trusts", "metrics": {}}
    run = job(lines, learner={"update": "adagrad"}, **keys)
    assert run.run() == 0, run.said
    changes: tuple[Change, ...] = (
        lambda a: a[:-1],
        lambda a: a.astype(np.float32),
        lambda a: -a - 1e301,
    )
    for change in changes:
        said = refused(
            run, lambda _, arrays, change=change: arrays.update({name: change(arrays[name])})
        )
        assert "cannot be restored: " in said


# links and pipes ------------------------------------------------------------------------------------

WRITTEN = ("metrics.jsonl", "predictions.jsonl", "deadletter.jsonl", "files.jsonl", "started")
DONE = ("open for writing", "open", "write", "read")
REPLACED = (".summary.json.tmp", "report.html", ".weights.mln.tmp")


@pytest.mark.parametrize("name", [*WRITTEN, *REPLACED])
@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_no_link_is_followed_and_no_pipe_opened(finished, name, kind):
    precious, place = finished.folder / "precious", finished.output / name
    precious.write_bytes(b"somebody's own\n" * 1000)
    place.unlink(missing_ok=True)
    if kind == "link":
        place.symlink_to(precious)
    else:
        os.mkfifo(place)
    assert finished.run() == 74
    of = finished.output / name.removeprefix(".").removesuffix(".tmp")
    reasons = ("it is a symbolic link, which is not followed", "it is not a plain file")
    assert any(f"{of}: cannot {do}: {reasons[kind == 'pipe']}" in finished.said for do in DONE)
    assert precious.read_bytes() == b"somebody's own\n" * 1000


def test_the_summary_replaces_a_link_and_is_not_read_through_one(finished):
    precious, place = finished.folder / "precious", finished.output / "summary.json"
    precious.write_text("somebody's own")
    place.unlink()
    place.symlink_to(precious)
    assert finished.run() == 0, finished.said
    assert precious.read_text() == "somebody's own"
    assert not place.is_symlink()
    place.unlink()
    place.symlink_to(precious)
    assert finished.run() == 74
    assert f"{place}: cannot read: it is a symbolic link" in finished.said


def test_a_lock_is_a_plain_file(finished):
    lock = finished.output / "lock"
    lock.unlink()
    lock.symlink_to("precious")
    assert finished.run() == 78
    assert f"{lock}: is a symbolic link, which a run does not follow" in finished.said
    lock.unlink()
    os.mkfifo(lock)
    assert finished.run() == 78
    assert "its `lock` does not say so" in finished.said


def test_checkpoints_are_not_elsewhere(finished):
    """Neither all, in a folder that is a link, nor one."""
    inside, outside = finished.output / "checkpoints", finished.folder / "outside"
    last = finished.checkpoints()[-1]
    shutil.copy(last, finished.folder / "other.ckpt")
    last.unlink()
    last.symlink_to(finished.folder / "other.ckpt")
    assert finished.run() == 74
    assert f"{last}: cannot open: it is a symbolic link, which is not followed" in finished.said
    inside.rename(outside)
    inside.symlink_to(outside)
    for arguments in (("run", finished.config), ("run", finished.config, "--fresh")):
        assert finished.call(*arguments, first=lambda: None) == 74  # a fork: the lock ends with it
        assert "checkpoints is a symbolic link, which is not followed" in finished.said
    with pytest.raises(StorageError, match="is a symbolic link"):
        numbered(inside)
    assert finished.call("weights", finished.output) == 74
    assert len(list(outside.iterdir())) == 2


def test_a_checkpoint_may_be_named_by_a_link(finished):
    """Whoever names it knows it."""
    link = finished.folder / "link.ckpt"
    link.symlink_to(finished.checkpoints()[-1])
    for arguments in (
        ("weights", link),
        ("checkpoint", "verify", link),
        ("checkpoint", "show", link),
    ):
        assert finished.call(*arguments) == 0, finished.said


def test_tables_of_predictions_are_not_elsewhere(tmp_path):
    """What --fresh removes is in the run folder."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "part-00000000.parquet").write_bytes(b"somebody's own")
    RunFolder(tmp_path / "run").close()
    (tmp_path / "run" / "predictions").mkdir()
    (tmp_path / "run" / "predictions" / "P").symlink_to(outside)
    with (
        RunFolder(tmp_path / "run") as folder,
        pytest.raises(StorageError, match="P is a symbolic"),
    ):
        folder.clear()
    shutil.rmtree(tmp_path / "run" / "predictions")
    (tmp_path / "run" / "predictions" / "P").mkdir(parents=True)
    names = ("part-x.parquet", "part-00000001.parquet", ".part-00000001.parquet.tmp")
    for name in names:
        (tmp_path / "run" / "predictions" / "P" / name).touch()
    with RunFolder(tmp_path / "run") as folder:
        folder.clear()
    left = (tmp_path / "run" / "predictions" / "P").iterdir()
    assert [file.name for file in left] == ["part-x.parquet"]
    shutil.rmtree(tmp_path / "run" / "predictions")
    (tmp_path / "run" / "predictions").symlink_to(outside)
    with pytest.raises(StorageError, match="predictions is a symbolic link"):
        RunFolder(tmp_path / "run")
    assert (outside / "part-00000000.parquet").exists()


def test_the_page_waits_for_no_pipe(finished):
    watched = Watched(finished.output)
    for name in ("predictions.jsonl", "metrics.jsonl", "deadletter.jsonl"):
        (finished.output / name).unlink()
        os.mkfifo(finished.output / name)
    looking = threading.Thread(target=watched.look, daemon=True)
    looking.start()
    looking.join(60)
    assert not looking.is_alive()
    assert watched.parts()["examples"]["newest"] == []
    (finished.output / "lock").unlink()
    (finished.output / "lock").symlink_to("/dev/zero")
    with pytest.raises(FolderError, match="not the folder of a run"):
        Watched(finished.output)
