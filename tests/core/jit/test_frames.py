"""Frames: kernels read the fields that Python gave, write to their arrays, and know the newest frame."""

import os
import pickle
import shutil
import subprocess
import sys
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import pytest
from conftest import REPO
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numba.core.errors import TypingError

from onlinesrl.core.jit.decorators import kernel, kernel_of
from onlinesrl.core.jit.frames import Frame


class Inside(Frame):
    table: npt.NDArray[np.int32]
    weight: float


class Outside(Frame):
    count: npt.NDArray[np.int64]
    inside: Inside
    grid: npt.NDArray[np.float64]
    cube: npt.NDArray[np.uint8]
    flag: bool
    number: int


class Rows(Frame):
    start: Annotated[npt.NDArray[np.int64], "row + 1"]
    value: Annotated[npt.NDArray[np.float64], "row, 2 * column + 3"]
    named: npt.NDArray[np.int32]
    number: int


def test_a_frame_makes_the_zeros_that_it_is_annotated_with():
    fields = {"named": np.ones(4, np.int32), "number": 7}
    frame = Rows.zeros(fields, row=5, column=2)
    assert (frame.start.dtype, frame.start.shape) == (np.int64, (6,))
    assert (frame.value.dtype, frame.value.shape) == (np.float64, (5, 7))
    assert not frame.start.any() and not frame.value.any()
    assert (frame.named is fields["named"], frame.number) == (True, 7)
    assert Rows.zeros({**fields, "start": np.ones(1, np.int64)}, row=0, column=0).start.all()
    with pytest.raises(ValueError, match="row"):
        Rows.zeros(fields, column=2)
    with pytest.raises(KeyError, match="named"):
        Rows.zeros({"number": 7}, row=1, column=1)


@kernel
def first(frame: Inside) -> float:
    return frame.weight * frame.table[0]


def test_what_is_written_into_a_copy_stays_in_it():
    frame = Inside(np.ones(2, np.int32), 0.5)
    other = deepcopy(frame)
    other.table[0] = 4
    assert (first(frame), first(other)) == (0.5, 2.0)
    assert first(pickle.loads(pickle.dumps(other))) == 2.0


@kernel
def weighed(frame: Outside, i: int) -> float:
    """One row of everything, each field with a factor of its own."""
    total = frame.number * frame.inside.weight if frame.flag else 0.0
    for j in range(frame.grid.shape[1]):
        total += frame.grid[i, j] * frame.count[i]
        for k in range(frame.cube.shape[2]):
            total += 2.0 * frame.cube[i, j, k]
    return total + 3.0 * frame.inside.table[len(frame.inside.table) - 1]


@kernel
def sums(frame: Outside, found: npt.NDArray[np.float64]) -> int:
    """All rows, each of which is marked as read."""
    for i in range(len(found)):
        found[i] = weighed(frame, i)
        frame.count[i] += 1
    return len(frame.count)


def expected(frame: Outside, i: int) -> float:
    total = frame.number * frame.inside.weight if frame.flag else 0.0
    total += float(frame.grid[i].sum() * frame.count[i]) + 2.0 * float(frame.cube[i].sum())
    return total + 3.0 * float(frame.inside.table[-1])


SHAPES = st.tuples(st.integers(1, 4), st.integers(0, 3), st.integers(0, 3))
NUMBERS = st.integers(-(1 << 20), 1 << 20)


@st.composite
def frames(draw: st.DrawFn) -> Outside:
    rows, columns, depth = draw(SHAPES)
    table = draw(arrays.arrays(np.int32, st.integers(1, 5), elements=NUMBERS))
    return Outside(
        draw(arrays.arrays(np.int64, rows, elements=NUMBERS)),
        Inside(table, draw(st.floats(-100.0, 100.0))),
        draw(arrays.arrays(np.float64, (rows, columns), elements=st.floats(-100.0, 100.0))),
        draw(arrays.arrays(np.uint8, (rows, columns, depth))),
        draw(st.booleans()),
        draw(NUMBERS),
    )


@given(frames())
def test_kernels_read_and_write_what_python_has(frame: Outside) -> None:
    rows = len(frame.count)
    wanted, before = [expected(frame, i) for i in range(rows)], frame.count.copy()
    assert weighed(frame, 0) == pytest.approx(wanted[0], abs=1e-6)
    found = np.zeros(rows)
    assert sums(frame, found) == rows
    assert found == pytest.approx(wanted, abs=1e-6)
    assert np.array_equal(frame.count, before + 1)


def small(**fields: Any) -> Outside:
    inside = Inside(np.array([7], np.int32), 0.5)
    count, grid, cube = np.ones(2, np.int64), np.ones((2, 2)), np.ones((2, 2, 1), np.uint8)
    return replace(Outside(count, inside, grid, cube, True, 4), **fields)


def test_a_frame_with_other_fields_is_another_one() -> None:
    frame = small()
    longer = replace(frame, inside=replace(frame.inside, table=np.array([1, 2], np.int32)))
    assert (weighed(frame, 1), weighed(longer, 1)) == (29.0, 14.0)
    assert weighed(replace(frame, flag=False), 1) == 27.0
    assert frame.inside.table.tolist() == [7]


@pytest.mark.parametrize("given", [np.ones((4, 2))[::2], np.ones((2, 2), order="F"), None, "text"])
def test_what_no_kernel_can_read_is_refused(given: object) -> None:
    with pytest.raises(TypeError, match=r"Outside\.grid"):
        small(grid=given)


def test_a_field_that_there_is_not_is_an_error() -> None:
    @kernel
    def wrong(frame: Outside) -> int:
        return frame.counts[0]  # type: ignore[attr-defined, no-any-return]

    with pytest.raises(TypingError, match="counts"):
        wrong(small())


@kernel
def kind(number: float) -> int:
    """One for what is above 0."""
    return 1 if number > 0 else 0


@kernel
def of_all_kinds(short: npt.NDArray[np.int32]) -> int:
    """Call a kernel with literals, short and long integers."""
    return kind(1) + kind(short[0]) + kind(int(short[0])) + kind(True)


def test_kernels_are_compiled_once_for_all_widths_of_integers() -> None:
    assert of_all_kinds(np.ones(1, np.int32)) == 4
    assert kind(1) + kind(np.int32(1)) + kind(np.uint8(1)) == 3
    assert len(kind.signatures) == 1  # type: ignore[attr-defined]


def test_the_code_of_a_kernel_is_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    row, calls = np.ones(1, np.int32), list[object]()
    assert of_all_kinds(row) + kind(np.int32(1)) + kind(1) == 6
    for function in (of_all_kinds, kind):
        monkeypatch.setattr(type(function), "compile", lambda _, kinds: calls.append(kinds))
    assert of_all_kinds(row[:1]) + kind(np.int32(1)) + kind(2) == 6
    assert not calls


def test_a_kernel_is_compiled_anew_where_a_part_of_it_has_changed(tmp_path: Path) -> None:
    """Though the part stands in another file, which numba does not look at."""
    package = tmp_path / "onlinesrl"
    shutil.copytree(REPO / "onlinesrl" / "core" / "jit", package / "core" / "jit")
    (package / "__init__.py").touch()
    (package / "core" / "__init__.py").touch()
    (package / "core" / "kernels").mkdir()
    for name in "arrays.py", "errors.py", "interrupt.py", "operating_system.py":
        shutil.copy(REPO / "onlinesrl" / "core" / name, package / "core" / name)
    one, other = package / "core" / "jit" / "one.py", package / "core" / "jit" / "other.py"
    start = "from onlinesrl.core.jit.decorators import kernel\n"
    other.write_text(
        start
        + "from onlinesrl.core.jit.one import one\n@kernel\ndef twice(x):\n    return 2 * one(x)\n"
    )
    code = "from onlinesrl.core.jit.other import twice; "
    code += "print(twice(1), sum(twice.stats.cache_hits.values()))"
    said = []
    for body in ("x", "x", "x + 10"):
        if not one.exists() or body not in one.read_text():
            one.write_text(start + f"@kernel\ndef one(x):\n    return {body}\n")
        environment = os.environ | {"PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path)}
        said += subprocess.check_output(
            [sys.executable, "-c", code], env=environment, cwd=tmp_path
        ).split()
    assert said == [b"2", b"0", b"2", b"1", b"22", b"0"]


class Counted(Frame):
    extra: npt.NDArray[np.int64]

    @classmethod
    def _without(cls, values: dict[str, Any]) -> tuple[str, ...]:
        return () if len(values["extra"]) else ("extras",)


class Around(Frame):
    counted: Counted


@kernel_of("extras", 7)
def of_extras(around: Around) -> int:
    """What only frames with extras are ever asked for; without any it does not even compile."""
    return around.counted.extra.no_such_attribute  # type: ignore[no-any-return, attr-defined]


@kernel
def asks(around: Around) -> int:
    """Ask for extras, also of frames within."""
    return 1 + of_extras(around)


def test_what_a_frame_has_nothing_of_is_not_compiled() -> None:
    assert asks(Around(Counted(np.zeros(0, np.int64)))) == 8
    with pytest.raises(TypingError):
        asks(Around(Counted(np.zeros(1, np.int64))))


def test_an_array_that_is_none_of_a_kernels_is_refused() -> None:
    with pytest.raises(TypingError):
        weighed(np.ma.zeros(3), 0)  # type: ignore[arg-type]
