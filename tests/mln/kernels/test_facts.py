"""The numbers of constants in worlds with facts, and the facts that match, against plain Python."""

import numpy as np
import pytest

from onlinesrl.mln.kernels import background


@pytest.mark.parametrize("seed", range(25))
def test_shared_and_world_numbers_are_each_others_inverse(seed: int) -> None:
    """Facts' constants keep their order around a world's own; early ones stand where it names them."""
    rng = np.random.default_rng(seed)
    shared, facts = int(rng.integers(0, 4)), int(rng.integers(1, 8))
    early = np.sort(rng.choice(np.arange(shared, shared + facts), rng.integers(0, facts), False))
    mine = len(early) + int(rng.integers(0, 5))
    total = shared + facts - len(early) + mine
    numbers = np.sort(rng.choice(np.arange(shared, total), mine, False))
    of_own = np.full(mine, -1)
    of_own[rng.choice(mine, len(early), False)] = rng.permutation(early)
    places = {int(e): int(numbers[np.flatnonzero(of_own == e)[0]]) for e in early}
    w, kind, pad = 1, 1, 3  # other worlds and types stand before
    own = background.Own(
        np.array([[9, 9], [9, mine]], np.int32),
        np.concatenate([np.zeros(pad), numbers]).astype(np.int64),
        np.concatenate([np.zeros(pad), of_own]).astype(np.int32),
        np.full((2, 2), pad, np.int64),
        np.array([[9, 9], [9, len(early)]], np.int32),
        np.concatenate([np.zeros(pad), early]).astype(np.int64),
        np.concatenate([np.zeros(pad), [places[e] for e in early.tolist()]]).astype(np.int32),
    )
    members = np.full((2, 2), pad, np.int64)

    others = (n for n in range(total) if n not in numbers)
    expected = {s: places[s] if s in places else next(others) for s in range(shared + facts)}
    found = {s: background.number_beside(own, members, w, kind, s) for s in expected}
    assert found == expected
    for place, number in enumerate(numbers.tolist()):
        known = int(of_own[place])
        assert background.shared_beside(own, members, w, kind, number) == (
            known if known >= 0 else -1 - place
        )
    for s, number in expected.items():
        assert background.shared_beside(own, members, w, kind, number) == s
