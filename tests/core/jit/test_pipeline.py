"""Kernels compute what Python does."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from conftest import REPO
from hypothesis import given
from hypothesis import strategies as st
from numba.core import event

from onlinesrl.core.jit.decorators import kernel

Ints32 = npt.NDArray[np.int32]
Floats2 = npt.NDArray[np.float64]


@kernel
def first_above(row: Ints32, least: int) -> tuple[int, float]:
    """A part that returns early, and two values."""
    for i in range(len(row)):
        if row[i] > least:
            return i, row[i] / 2
    return -1, 0.0


@kernel
def clipped(value: int, low: int, high: int) -> int:
    """A part of builtins that numba has written in Python."""
    return max(low, min(int(value), high)) ** 2


@kernel
def mixed(row: Ints32, table: Floats2, cube: npt.NDArray[np.uint8], least: int) -> float:
    """Loops, branches, slices, rows, and arrays of one to three dimensions that are written to."""
    total, found = 0.0, least
    place, half = first_above(row, least)
    if place >= 0:
        total += half
        found = clipped(row[place], -3, 5)
    for i in range(table.shape[0]):
        line = table[i]
        for j in range(len(line)):
            if line[j] < 0:
                continue
            table[i, j] += found
            cube[i, j, 0] = (cube[i, j, 1] + 1) & 255
            total += table[i, j] + cube[i, j, 0]
    for value in row[1:]:
        total -= value
    return total if total != least else -total


@kernel
def counted(bounds: Ints32, start: int, stop: int, step: int, seen: Floats2) -> int:
    """Loops up and down, within loops, over what two arrays' items say, and over nothing."""
    n, last = 0, -99
    for i in range(start, stop, step):
        for j in range(bounds[0], bounds[1]):
            seen[n, 0], seen[n, 1] = i, j
            n += 1
        last = i
    for i in range(stop, start, -2):
        if i == bounds[0]:
            break
        seen[n, 0], seen[n, 1] = i, last
        n += 1
    else:
        n += 100
    return n


@kernel
def calculated(x: float, y: float, i: int, j: int, row: Ints32) -> tuple[float, ...]:
    """Arithmetic, comparisons and extremes, of one kind and of several."""
    sign = 1.0
    if x < y or i >= j:
        sign = -1.0
    total = x
    total += y * sign
    total -= i
    total *= 0.5
    least, most = min(x, y, i), max(row[0], j)
    same = x == y, x != y, x <= y, i == j, i != row[0], x > i, row[0] in (i, 3), x in (y, 0.0)
    rest = int(y) if abs(y) < 1e9 else int(x > y)
    halves = (i - j) / 2 + (x / y if y != 0.0 else x)
    sizes = row.shape[0], len(row)
    square, cubes = (x - y) ** 2, float(i) ** 3 + 2.0 ** (j - j)
    code = 0
    for each in same:
        code = 2 * code + bool(each)
    return total, least, most, code, rest, halves, sizes[0] + sizes[1], square, cubes


@kernel
def beyond(row: Ints32, place: int) -> int:
    return row[place]


@kernel
def asked_beyond(row: Ints32, place: int) -> int:
    """A kernel whose part reads where nothing is, if it is told to."""
    return beyond(row, place) + 1


SMALL = st.integers(-9, 9)


@given(st.lists(SMALL, max_size=5), st.lists(st.lists(SMALL, min_size=2, max_size=2)), SMALL)
def test_kernels_compute_what_python_does(row: list[int], table: list[list[int]], least: int):
    plain = {f: f.py_func for f in (first_above, clipped)}
    python = type(mixed.py_func)(
        mixed.py_func.__code__,
        mixed.py_func.__globals__ | {f.__name__: g for f, g in plain.items()},
    )
    results = []
    for function in (mixed, python):
        grid = np.array(table, np.float64).reshape(len(table), 2)
        cube = np.arange(len(table) * 4, dtype=np.uint8).reshape(len(table), 2, 2)
        result = function(np.array(row, np.int32), grid, cube, least)
        results.append((float(result), grid.tolist(), cube.tolist()))
    assert results[0] == results[1]


@given(st.tuples(SMALL, SMALL), SMALL, SMALL, st.sampled_from((-3, -1, 1, 2)))
def test_loops_count_as_in_python(bounds: tuple[int, int], start: int, stop: int, step: int):
    results = []
    for function in (counted, counted.py_func):
        seen = np.zeros((400, 2))
        n = function(np.array(bounds, np.int32), start, stop, step, seen)
        results.append((n, seen.tolist()))
    assert results[0] == results[1]


@given(st.floats(), st.floats(), SMALL, SMALL, st.lists(SMALL, min_size=1, max_size=3))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_numbers_are_those_of_python(x: float, y: float, i: int, j: int, row: list[int]):
    values = np.float64(x), np.float64(y), i, j, np.array(row, np.int32)
    found, expected = (
        [repr(float(x)) for x in f(*values)] for f in (calculated, calculated.py_func)
    )
    assert found == expected


WHOLE, HALVES = (1, 2), (1.0, 2.0)


@kernel
def whole(place: int) -> int:
    return WHOLE[place]


@kernel
def halves(place: int) -> float:
    return HALVES[place] + 0.5


def test_constants_that_are_equal_have_types_of_their_own():
    assert (whole(1), halves(1)) == (2, 2.5)


def run_alone(code: str, cache: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Run Python code in a process that has loaded nothing, with no kernel compiled before."""
    environment = {"NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": "tests", **more}
    command = [sys.executable, "-c", code]
    return subprocess.run(
        command, cwd=REPO, env=environment, capture_output=True, text=True, check=False
    )


LEARNS = """
from pathlib import Path
from tests.support.shapes import same_for_all_plans
same_for_all_plans()
from onlinesrl.runs import run as run_module
from onlinesrl.runs.config.loading import load
run_module.make_learner(load(Path("configs/meetings.yaml"))).compile()
"""


@pytest.mark.soak
def test_kernels_that_learn_need_nothing_that_others_have_loaded(tmp_path):
    done = run_alone(LEARNS, tmp_path)
    assert done.returncode == 0, done.stderr


BEYOND = """
import numpy as np
from tests.core.jit.test_pipeline import asked_beyond, calculated
assert calculated(1.0, 2.0, 3, 4, np.arange(2, dtype=np.int32))[2] == 4
row = np.arange(3, dtype=np.int32)
assert asked_beyond(row, 2) == 3
for place in (3, -1):
    try:
        asked_beyond(row, place)
    except IndexError:
        print("out of bounds")
"""


def test_an_index_out_of_bounds_in_a_part_is_told_where_bounds_are_checked(tmp_path):
    """Also that kernels need nothing that others have loaded."""
    done = run_alone(BEYOND, tmp_path, NUMBA_BOUNDSCHECK="1")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:2] == ["out of bounds"] * 2


class _CtrlC(event.Listener):
    """Presses Ctrl-C at the end of a call of LLVM."""

    def __init__(self, left: int) -> None:
        self.left = left

    def on_start(self, event: event.Event) -> None:
        pass

    def on_end(self, event: event.Event) -> None:
        self.left -= 1
        if self.left == 0:
            signal.raise_signal(signal.SIGINT)


def press_ctrl_c_while_compiling() -> None:
    for call in range(1, 40):
        now = time.time_ns()  # so that it is never in the cache

        @kernel
        def later(nanoseconds: int) -> int:
            return now + nanoseconds  # noqa: B023

        with (
            pytest.raises(KeyboardInterrupt),
            event.install_listener("numba:llvm_lock", _CtrlC(call)),
        ):
            later(7)
        assert later(7) == now + 7


def test_ctrl_c_waits_for_the_end_of_a_compilation(tmp_path):
    """Where it came between LLVM's call and llvmlite's note of it, a module was freed twice."""
    code = "from tests.core.jit import test_pipeline as t; t.press_ctrl_c_while_compiling()"
    done = run_alone(code, tmp_path)
    assert done.returncode == 0, done.stderr
