"""The number of a window is that of its rows by definition, to the bit, however rows came and went."""

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinesrl.stream.linked_windows import HALVES, WINDOWS, Sum, Window

HALF = 2.5


def deviation(values):
    return math.sqrt(statistics.pvariance(values))


def rate(times, now):
    """The sum of the weights that each row has, where the fraction of a half is left out of both times."""
    whole, part = divmod(now, HALF)
    ages = (divmod(min(time, now), HALF) for time in times)
    weights = [(2.0 ** (b / HALF), a - whole) for a, b in ages]
    total = math.fsum(math.ldexp(weight, int(shift)) for weight, shift in weights)
    return total * 2.0 ** (-part / HALF)


DEFINED = {
    "count": lambda rows, now: len(rows),
    "sum": lambda rows, now: math.fsum(value for _, _, value in rows),
    "mean": lambda rows, now: statistics.mean(value for _, _, value in rows),
    "std": lambda rows, now: deviation([value for _, _, value in rows]),
    "min": lambda rows, now: min(value for _, _, value in rows),
    "max": lambda rows, now: max(value for _, _, value in rows),
    "distinct": lambda rows, now: len({value for _, _, value in rows}),
    "last": lambda rows, now: rows[-1][2],
    "since": lambda rows, now: max(0.0, now - rows[-1][0]),
    "rate": lambda rows, now: rate([time for time, _, _ in rows], now),
}
VALUES = st.floats(-1e150, 1e150) | st.sampled_from(
    [0.1, 0.2, 0.3, 1e16, 1.0, -1e16, 5e-324, 12.34]
)
STEPS = st.tuples(
    st.sampled_from(["add", "add", "add", "late", "early", "remove", "back"]),
    st.floats(0, 4) | st.sampled_from([0.0, 1.0, 90.0]),
    VALUES,
    st.sampled_from([0.0, 0.5, 3.0, 80.0]),
)
SHIFTS = {"add": 0, "late": -1, "early": 1}
"""By how many of the seconds that have gone by a row is late."""


@pytest.mark.parametrize("measure", WINDOWS)
@given(st.lists(STEPS, max_size=60), st.sampled_from([0.0, 1.0, 7.0, 1e9]), st.booleans())
def test_a_number_is_that_of_the_rows_in_the_window(measure, steps, within, negative):
    now, window = -50.0 if negative else 1.7e9, WINDOWS[measure](within, HALF)
    rows, removed = [], []
    for number, (step, wait, value, ahead) in enumerate(steps):
        now += wait
        if step in SHIFTS:
            rows.append((now + wait * SHIFTS[step], number, value))
            window.add(rows[-1], now)
        elif step == "remove" and rows:
            removed.append(rows.pop(number % len(rows)))
            window.remove(removed[-1], now)
        elif step == "back" and removed:
            rows.append(removed.pop())
            window.add(rows[-1], now)
        most = min(within, HALVES * HALF) if measure == "rate" else within
        for time in (now + ahead, now) if wait else ():  # in between, several rows come and go
            inside = sorted(row for row in rows if row[0] >= time - most)
            expected = DEFINED[measure](inside, time) if inside else None
            assert window.at(time, now) == expected


def test_a_sum_beyond_all_floats_is_an_error_until_its_rows_have_left():
    window = Sum(1.0, 0.0)
    window.add((0.0, 1, 1e308), 0.0)
    window.add((0.0, 2, 1e308), 0.0)
    with pytest.raises(OverflowError):
        window.at(0.0, 0.0)
    window.add((2.0, 3, 0.1), 2.0)
    assert window.at(2.0, 2.0) == 0.1


@pytest.mark.parametrize("measure", WINDOWS)
def test_a_window_holds_little_more_than_its_rows(measure):
    """Of those that have left, no more than there are; and a rate has few bits."""
    window = WINDOWS[measure](10.0, HALF)
    for number in range(5000):
        now = float(number)
        window.add((now, number, now % 7), now)
        if number % 3 == 0:
            window.remove((now, number, now % 7), now)
        window.at(now, now)
        assert _size(window) < 200


def _size(window: Window) -> int:
    """How many elements, or words of 64 bits, the containers and whole numbers of a window have."""
    size = len(window.entries)
    for name in ("heap", "gone", "counts"):
        size += len(getattr(window, name, ()))
    return size + getattr(window, "sum", 0).bit_length() // 64
