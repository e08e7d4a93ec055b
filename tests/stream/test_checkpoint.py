"""Checkpoints: what was saved comes back, and nothing else is ever taken for it."""

import errno
import hashlib
import json
import os
import resource
import tracemalloc
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from onlinesrl.core.errors import StorageError
from onlinesrl.stream import checkpoints
from onlinesrl.stream.checkpoints import DamagedCheckpoint, latest, load, save

HEADER = {"position": {"file": 0, "line": 7}, "f1": 0.1 + 0.2, "ids": ["é", None, True]}
SYSTEM_CALLS = ("open", "write", "fsync", "close", "replace", "unlink")


def arrays_of(number):
    return {"weights": np.arange(number, number + 9) / 7, "counts": np.array([number, 2**60])}


def save_number(folder, number, keep=2):
    return save(folder, number, HEADER, arrays_of(number), keep)


def assert_holds(checkpoint, number):
    assert (checkpoint.number, checkpoint.header) == (number, HEADER)
    for name, array in arrays_of(number).items():
        np.testing.assert_array_equal(checkpoint.arrays[name], array)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def never(message):
    raise AssertionError(f"unexpected warning: {message}")


numeric = hnp.arrays(
    dtype=st.sampled_from(["?", "<i1", "<u2", ">i8", "<u8", "<f4", "<f8", ">f8", "<c16"]),
    shape=hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
)


@given(arrays=st.dictionaries(st.text(max_size=4), numeric, max_size=4), turn=st.booleans())
def test_arrays_come_back_with_every_bit(tmp_path_factory, arrays, turn):
    arrays = {name: array.T if turn else array for name, array in arrays.items()}
    loaded = load(save(tmp_path_factory.mktemp("c"), 3, {}, arrays, keep=1)).arrays
    assert loaded.keys() == arrays.keys()
    for name, array in arrays.items():
        assert loaded[name].dtype == array.dtype.newbyteorder("<")
        assert loaded[name].shape == array.shape
        assert loaded[name].tobytes() == array.astype(loaded[name].dtype).tobytes()


def test_header_comes_back_and_arrays_are_independent_and_writable(tmp_path):
    path = save_number(tmp_path, 500)
    assert path.name == "checkpoint-000000000500.ckpt"
    checkpoint = load(path)
    assert checkpoint.path == path
    assert_holds(checkpoint, 500)
    checkpoint.arrays["weights"][:] = 0
    assert checkpoint.arrays["counts"][1] == 2**60


def test_the_same_content_gives_the_same_bytes_and_arrays_are_aligned(tmp_path):
    first = save_number(tmp_path, 1).read_bytes()
    assert save_number(tmp_path, 1).read_bytes() == first
    assert first.index(arrays_of(1)["weights"].tobytes()) % 64 == 0
    assert len(first) % 64 == 0


def test_layout_is_as_documented(tmp_path):
    data = save_number(tmp_path, 1).read_bytes()
    assert data[:16] == b"OSRLCKPT" + (1).to_bytes(8, "little")
    assert data[16:48] == hashlib.sha256(data[48:]).digest()
    text_length = int.from_bytes(data[48:56], "little")
    assert int.from_bytes(data[56:64], "little") == len(data)
    content = json.loads(data[64 : 64 + text_length])
    place = content["arrays"]["counts"]
    assert (place["dtype"], place["shape"], content["header"]) == ("<i8", [2], HEADER)
    raw = data[64 + text_length + place["offset"] :][:16]
    assert raw == arrays_of(1)["counts"].astype("<i8").tobytes()


@pytest.mark.parametrize(
    ("header", "array", "error"),
    [
        ({"loss": float("nan")}, np.zeros(1), ValueError),
        ({"loss": [{"all": (1.0, -float("inf"))}]}, np.zeros(1), ValueError),
        ({"x": [b"text"]}, np.zeros(1), TypeError),
        ({"x": {1, 2}}, np.zeros(1), TypeError),
        ({"x": np.float64(1).astype(np.float32)}, np.zeros(1), TypeError),
        ({}, np.array([{}], dtype=object), TypeError),
        ({}, np.array(["text"]), TypeError),
    ],
)
def test_what_cannot_be_written_is_refused_before_anything_is(tmp_path, header, array, error):
    with pytest.raises(error):
        save(tmp_path, 1, header, {"a": array}, keep=1)
    assert names(tmp_path) == []


def test_headers_hold_file_names_that_are_no_text_and_floats_of_numpy(tmp_path):
    header = {"path": "a\udcff.jsonl", "mean": np.float64(0.1), "names": ["é", 3, "\u2028"]}
    assert load(save(tmp_path, 1, header, {}, keep=1)).header == header


@pytest.mark.parametrize("path", ["a.jsonl", "a\udcff.jsonl"])
def test_headers_hold_json_that_is_written_already(tmp_path, path):
    header = {"path": path, "shown": msgspec.Raw(b'[{"id": "\xc3\xa9"}, 1]')}
    found = load(save(tmp_path, 1, header, {}, keep=1)).header
    assert found == {"path": path, "shown": [{"id": "é"}, 1]}


def test_keep_must_be_positive(tmp_path):
    with pytest.raises(ValueError, match="keep must be at least 1"):
        save_number(tmp_path, 1, keep=0)


def test_every_flipped_byte_is_noticed(tmp_path):
    path = save_number(tmp_path, 1)
    data = bytearray(path.read_bytes())
    for place in range(len(data)):
        data[place] ^= 1 << place % 8
        path.write_bytes(data)
        with pytest.raises(DamagedCheckpoint, match=r"checkpoint-000000000001\.ckpt: "):
            load(path)
        data[place] ^= 1 << place % 8
    path.write_bytes(data)
    assert_holds(load(path), 1)


def test_every_truncation_is_noticed(tmp_path):
    path = save_number(tmp_path, 1)
    data = path.read_bytes()
    for length in range(len(data)):
        path.write_bytes(data[:length])
        with pytest.raises(DamagedCheckpoint, match=f"has {length} bytes.*cut off"):
            load(path)


def resealed(data, text=None, length=None):
    """The file with another JSON text and a digest and lengths that fit it, or the given length of it."""
    old = 64 + int.from_bytes(data[48:56], "little")
    text = data[64:old] if text is None else text
    size = (64 + len(text) + len(data) - old).to_bytes(8, "little")
    body = (length or len(text)).to_bytes(8, "little") + size + text + data[old:]
    return data[:16] + hashlib.sha256(body).digest() + body


def with_array(**change):
    array = {"dtype": "<f8", "shape": [9], "offset": 0} | change
    return json.dumps({"number": 1, "header": {}, "arrays": {"weights": array}}).encode()


def overlapping():
    """Many arrays that would each have the same bytes, and so more memory than the file."""
    arrays = {str(n): {"dtype": "<f8", "shape": [9], "offset": 0} for n in range(1000)}
    return json.dumps({"number": 1, "header": {}, "arrays": arrays}).encode()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data + b"\0", "bytes after its end"),
        (lambda data: data * 2, "bytes after its end"),
        (lambda data: b"\x80\x04." + data[3:], "not a checkpoint of onlinesrl"),
        (lambda data: data[:8] + b"\x02" + data[9:], "format version 2; .* version 1"),
        (lambda data: resealed(data, b"[" * 100_000), "cannot be read"),
        (lambda data: resealed(data, b'{"number": 1}'), "cannot be read"),
        (lambda data: resealed(data, b"[]"), "cannot be read"),
        (lambda data: resealed(data, b"\xff"), "cannot be read"),
        (lambda data: resealed(data, with_array(dtype="O")), "array of dtype O"),
        (lambda data: resealed(data, with_array(dtype="?!")), "cannot be read"),
        (lambda data: resealed(data, with_array(shape=[10**6])), "cannot be read"),
        (lambda data: resealed(data, with_array(offset=-(10**6))), "cannot be read"),
        (lambda data: resealed(data, with_array(code="x")), "cannot be read"),
        (lambda data: resealed(data, with_array(dtype="(1,")), "array of dtype"),
        (lambda data: resealed(data, with_array(shape=[2**40])), "not at its place"),
        (lambda data: resealed(data, with_array(shape=[2**32, 2**32])), "not at its place"),
        (lambda data: resealed(data, with_array(shape=[2**70])), "cannot be read"),
        (lambda data: resealed(data, with_array(shape=[-1])), "cannot be read"),
        (lambda data: resealed(data, with_array(shape=[1])), "128 bytes are of no array"),
        (lambda data: resealed(data, with_array(offset=64, shape=[1])), "not at its place"),
        (
            lambda data: resealed(data, b'{"number": 1, "header": {}, "arrays": []}'),
            "cannot be read",
        ),
        (lambda data: resealed(data, b'{"number": 1, "header": {"x": NaN}}'), "cannot hold NaN"),
        (lambda data: resealed(data, overlapping()), "array 1 .*not at its place"),
        (lambda data: resealed(data, length=2**63), "a text of .* bytes: cut off"),
    ],
)
def test_other_content_is_noticed_and_named(tmp_path, change, message):
    path = save_number(tmp_path, 1)
    data = path.read_bytes()
    assert resealed(data) == data  # which alone does no damage
    path.write_bytes(change(data))
    with pytest.raises(DamagedCheckpoint, match=message) as caught:
        load(path)
    assert str(path) in str(caught.value)
    assert caught.value.exit_code == 74


def test_a_missing_file_is_a_storage_error_not_a_damaged_one(tmp_path):
    with pytest.raises(StorageError, match="cannot open: No such file") as caught:
        load(tmp_path / "checkpoint-000000000001.ckpt")
    assert not isinstance(caught.value, DamagedCheckpoint)


def test_latest_is_none_only_without_any_checkpoint(tmp_path):
    assert latest(tmp_path / "never made", never) is None
    (tmp_path / ".checkpoint-000000000001.ckpt.tmp").write_bytes(b"half")
    (tmp_path / "checkpoint-1.ckpt.old").write_bytes(b"")
    assert latest(tmp_path, never) is None


def test_latest_takes_the_highest_number(tmp_path):
    for number in (7, 999_999_999_999, 1_000_000_000_000):
        save_number(tmp_path, number, keep=3)
    assert_holds(latest(tmp_path, never), 1_000_000_000_000)


def test_latest_refuses_one_that_cannot_be_opened(tmp_path):
    save_number(tmp_path, 1)
    (tmp_path / "checkpoint-000000000002.ckpt").mkdir()
    with pytest.raises(StorageError, match="cannot open: Is a directory"):
        latest(tmp_path, never)


def test_latest_takes_the_one_for_which_a_run_removes_another_meanwhile(tmp_path, monkeypatch):
    save_number(tmp_path, 1, keep=1)

    def late(path):
        if path.name.endswith("1.ckpt"):
            save_number(tmp_path, 2, keep=1)
        return load(path)

    monkeypatch.setattr(checkpoints, "load", late)
    assert_holds(latest(tmp_path, never), 2)


def test_save_keeps_the_newest_and_sweeps_up(tmp_path):
    for number in (1, 2, 3):
        save_number(tmp_path, number, keep=9)
    (tmp_path / ".checkpoint-000000000009.ckpt.tmp").write_bytes(b"left by a crash")
    (tmp_path / "notes.txt").write_text("not ours")
    save_number(tmp_path, 4)
    assert names(tmp_path) == [
        "checkpoint-000000000003.ckpt",
        "checkpoint-000000000004.ckpt",
        "notes.txt",
    ]


def test_a_damaged_future_never_pushes_out_what_is_saved(tmp_path):
    save_number(tmp_path, 500)
    save_number(tmp_path, 1000).write_bytes(b"damaged")
    save_number(tmp_path, 750, keep=1)
    assert names(tmp_path) == ["checkpoint-000000000750.ckpt"]


def test_the_steps_are_write_sync_rename_sync_folder(tmp_path, monkeypatch):
    kinds, calls = {}, []

    def record(name):
        real = getattr(os, name)

        def call(*arguments, **options):
            result = real(*arguments, **options)
            if name == "open":
                kinds[result] = "folder" if Path(arguments[0]).is_dir() else "file"
            calls.append((name, kinds.get(arguments[0], "")))
            return result

        monkeypatch.setattr(os, name, call)

    for name in SYSTEM_CALLS:
        record(name)
    save_number(tmp_path, 1)
    order = [call for call in calls if call[0] in {"fsync", "replace"}]
    assert order == [("fsync", "file"), ("replace", ""), ("fsync", "folder")]
    last_write = max(i for i, call in enumerate(calls) if call[0] == "write")
    assert last_write < calls.index(("fsync", "file"))


@pytest.mark.parametrize("name", SYSTEM_CALLS)
def test_an_error_in_any_call_leaves_an_intact_checkpoint(tmp_path, monkeypatch, name):
    real, seen = getattr(os, name), set()
    for step in range(1, 100):
        folder = tmp_path / str(step)
        folder.mkdir()
        for number in (1, 2):
            save_number(folder, number)
        count = 0

        def fail(*arguments, step=step, **options):
            nonlocal count
            count += 1
            if count == step:
                if name == "close":
                    real(*arguments)
                raise OSError(errno.EIO, "a fault")
            return real(*arguments, **options)

        monkeypatch.setattr(os, name, fail)
        try:
            save_number(folder, 3)
        except StorageError as error:
            assert "a fault" in str(error)
        failed = count >= step
        monkeypatch.setattr(os, name, real)
        found = latest(folder, never)
        assert_holds(found, found.number)
        seen.add(found.number)
        save_number(folder, 4)
        assert names(folder) == [f"checkpoint-{n:012d}.ckpt" for n in (found.number, 4)]
        if not failed:
            break
    assert seen == ({3} if name == "unlink" else {2, 3})


def test_too_many_open_files_are_no_damage(tmp_path):
    """The file can be opened, and no other beside it, as an array is read."""
    save_number(tmp_path, 1)
    save_number(tmp_path, 2)
    warned = []
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.open(os.devnull, os.O_RDONLY)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free + 1, limits[1]))
    try:
        with pytest.raises(StorageError, match="Too many open files") as caught:
            latest(tmp_path, warned.append)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert not isinstance(caught.value, DamagedCheckpoint)
    assert warned == []
    assert_holds(latest(tmp_path, warned.append), 2)


@pytest.mark.parametrize("loading", [False, True])
def test_memory_stays_at_one_copy(tmp_path, loading):
    """Of 64 MB: the one that is loaded, and none to save it."""
    array = np.ones(8 << 20)
    path = save(tmp_path, 1, {}, {"a": array}, keep=1) if loading else None
    tracemalloc.start()
    try:
        load(path) if path else save(tmp_path, 1, {}, {"a": array}, keep=1)
        peak = tracemalloc.get_traced_memory()[1] >> 20
    finally:
        tracemalloc.stop()
    assert 60 < peak < 72 if loading else peak < 8
