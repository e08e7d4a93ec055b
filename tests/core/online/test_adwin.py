"""The window of a drift detector, against a plain one that keeps its buckets in a list."""

import math
from dataclasses import dataclass, field

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from onlinesrl.core.kernels import adwin

shares = st.floats(0, 1, allow_subnormal=False)


@dataclass
class Plain:
    """ADWIN2: the buckets hold all their values, the oldest bucket first."""

    delta: float
    buckets: list[list[float]] = field(default_factory=list)

    def add(self, x: float) -> bool:
        self.buckets.append([x])
        size = 1
        while len(same := [n for n, b in enumerate(self.buckets) if len(b) == size]) > 5:
            one, other = same[:2]
            self.buckets[one : other + 1] = [self.buckets[one] + self.buckets[other]]
            size *= 2
        risen = False
        while cut := self.cut():
            risen |= cut > 0
            self.buckets.pop(0)
        return risen

    def cut(self) -> float:
        values = [x for bucket in self.buckets for x in bucket]
        n = len(values)
        for k in np.cumsum([len(bucket) for bucket in self.buckets]):
            old, new = values[:k], values[k:]
            if min(len(old), len(new)) >= 5:
                m = 1 / (1 / len(old) + 1 / len(new))
                log = math.log(2 * math.log(n) / self.delta)
                bound = math.sqrt(2 / m * float(np.var(values)) * log) + 2 / (3 * m) * log
                rise = float(np.mean(new) - np.mean(old))
                if abs(rise) > bound:
                    return rise
        return 0.0

    def contents(self) -> list[tuple[int, float]]:
        return [(len(bucket), sum(bucket)) for bucket in self.buckets]


def contents(window: adwin.Window) -> list[tuple[int, float]]:
    """Sizes and sums of the buckets, the oldest first."""
    levels = reversed(range(adwin.LEVELS))
    return [(1 << n, float(window.total[n, b])) for n in levels for b in range(window.size[n])]


@given(
    st.lists(st.tuples(shares, shares, st.integers(1, 80)), min_size=1, max_size=4),
    st.sampled_from([0.002, 0.1, 0.9]),
    st.integers(0, 9),
)
def test_the_window_is_cut_as_a_plain_one(
    parts: list[tuple[float, float, int]], delta: float, seed: int
) -> None:
    """Values around some means, one after another."""
    rng = np.random.default_rng(seed)
    window, plain = adwin.empty(), Plain(delta)
    for mean, width, count in parts:
        for x in np.clip(mean + width * (rng.random(count) - 0.5), 0.0, 1.0).tolist():
            assert adwin.add(window, x, delta) == plain.add(x)
            sizes, sums = zip(*contents(window), strict=True)
            expected = plain.contents()
            assert [*sizes] == [size for size, _ in expected]
            np.testing.assert_allclose(sums, [total for _, total in expected], rtol=1e-12)


def test_false_signals_are_rare_and_true_ones_come_soon() -> None:
    rng, false, delays = np.random.default_rng(0), 0, []
    for _ in range(10):
        window = adwin.empty()
        false += sum(adwin.add(window, x, 0.1) for x in (rng.random(3000) < 0.2).astype(float))
        after = (rng.random(300) < 0.6).astype(float)
        delays.append(next(n for n, x in enumerate(after) if adwin.add(window, x, 0.1)))
    assert false <= 3
    assert max(delays) < 60
