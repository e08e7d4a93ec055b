"""The reservoir is a uniform sample, within its bytes, and draws the same after it was saved."""

import doctest

import numpy as np
import pytest

from onlinesrl.core.io.restoring import Misfit
from onlinesrl.core.online import reservoir
from onlinesrl.core.online.reservoir import DualBlock, Held, ReplaySection, Reservoir


def held(number: int, size: int = 0) -> Held:
    block = DualBlock(np.array([number % 5, 7]), np.array([0.5, -1.5 * number]), number / 3)
    return Held(b'{"id": "%d%s", "evidence": {}}' % (number, b"x" * size), block)


def filled(count: int, seed: int = 0, **keys: int) -> Reservoir:
    made = Reservoir(ReplaySection(**keys), seed)
    for number in range(count):
        made.offer(held(number))
    return made


def names(sample: Reservoir) -> list[bytes]:
    return [each.line for each in sample.held]


def test_the_example_holds():
    assert doctest.testmod(reservoir).attempted
    assert not doctest.testmod(reservoir).failed


@pytest.mark.parametrize("max_bytes", [10_000, 4 * held(0).size])
def test_every_example_is_as_likely_in_the_sample_and_drawn(max_bytes):
    """Also where there is no room for as many as were asked for."""
    seeds, found, drawn = 3000, np.zeros(12), np.zeros(5)
    for seed in range(seeds):
        sample = filled(12, seed, reservoir=5, examples=2, max_bytes=max_bytes)
        found[[int(line.split(b'"')[3]) for line in names(sample)]] += 1
        places = sample.drawn()
        assert len({*places}) == 2
        drawn[places] += len(sample.held) == 5
    error = 5 * np.sqrt(seeds * 0.25)
    np.testing.assert_allclose(found, found.mean(), atol=error)
    np.testing.assert_allclose(drawn, drawn.mean(), atol=error)
    assert (found.sum() == 5 * seeds) == (drawn.sum() == 2 * seeds) == (max_bytes == 10_000)


def test_all_are_drawn_where_there_are_fewer():
    assert sorted(filled(3, examples=10).drawn()) == [0, 1, 2]
    assert filled(0).drawn() == []


def test_it_stays_within_its_bytes_whatever_comes():
    sample = Reservoir(ReplaySection(reservoir=50, max_bytes=2000), 0)
    for number in range(300):
        sample.offer(held(number, size=37 * number % 700))
        sample.offer(held(number, size=3000))
        assert sample.bytes == sum(each.size for each in sample.held) <= 2000
    assert sample.held


def test_a_restored_one_goes_on_with_the_same_bits():
    one, other = filled(40, examples=3, reservoir=6), filled(7, 1, examples=3, reservoir=6)
    other.seed = one.seed
    header, arrays = one.save()
    other.restore(header, arrays, weights=8)
    for number in range(40, 90):
        assert one.drawn() == other.drawn()
        for each in (one, other):
            each.offer(held(number))
        assert one.bytes == other.bytes
    for mine, theirs in zip(one.save()[1].values(), other.save()[1].values(), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    other.restore(None, {}, weights=8)
    assert (other.held, other.met, other.bytes) == ([], 0, 0)


def test_what_does_not_fit_is_refused():
    header, arrays = filled(4, reservoir=6).save()
    with pytest.raises(Misfit):
        filled(0).restore(header, arrays, weights=7)
    with pytest.raises(Misfit):
        filled(0, reservoir=3).restore(header, arrays, weights=8)
    for name, wrong in (
        ("replay_ends", arrays["replay_ends"][::-1].copy()),
        ("replay_text", arrays["replay_text"][:-1]),
        (
            "replay_text",
            np.where(arrays["replay_text"] == ord("{"), ord("["), arrays["replay_text"]).astype(
                np.uint8
            ),
        ),
        ("replay_rho", arrays["replay_rho"][1:]),
        ("replay_index", np.zeros_like(arrays["replay_index"])),
    ):
        with pytest.raises(Misfit):
            filled(0).restore(header, arrays | {name: wrong}, weights=8)
