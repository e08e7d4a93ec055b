"""Time per update against the number of weights.

The same updates of one ground network, whose weights stand evenly spread over the table: always at
the same places, and at other places each time. The second shows the memory's latency too: what an
update touches is then in no cache once the table is larger than those.
"""

import time

import numpy as np
import pytest

from onlinesrl.core.example import decode
from onlinesrl.core.jit.decorators import kernel
from onlinesrl.core.kernels.averaging import measure, move
from onlinesrl.mln.kernels.ground_network import ROWS, Bytes, Floats, Ints, Network
from onlinesrl.mln.kernels.weight_lookup import Weights, gap
from onlinesrl.mln.online.learner import MlnOnlineLearner
from onlinesrl.runs import run
from onlinesrl.runs.config.loading import load
from tests.benchmarks.measure import REPO, show

pytestmark = pytest.mark.benchmark
SIZES = [10**n for n in range(3, 8)]
UPDATES, ROUNDS, PRIME = 20_000, 8, 611_953
RUN = 9
"""No row has a longer run of weights."""


@kernel
def learn(
    net: Network,
    weights: Weights,
    truth: Bytes,
    rival: Bytes,
    cost: Floats,
    places: Ints,
    room: int,
    stride: int,
    updates: int,
) -> None:
    """Update to and fro by MIRA's steps; the soft rows' weights move between pairs."""
    for t in range(updates):
        for r in range(net.size[ROWS]):
            if places[r] >= 0:
                net.row_weight[r] = (places[r] + t // 2 * stride) % room
        if t % 2 == 0:
            n, rho = gap(net, weights, truth, rival, cost)
        else:
            n, rho = gap(net, weights, rival, truth, cost)
        margin, dot, norm = measure(weights, n, rho)
        move(weights, n, (margin - dot) / norm if norm > 0 else 0.0, float(t))


def learner_of(size: int) -> tuple[MlnOnlineLearner, Ints]:
    """A learner with so many weights, one citation's network in it, and the places of its rows."""
    source = REPO / "streams" / "citations" / "citations.jsonl"
    learner = run.make_learner(load(REPO / "configs" / "citations.yaml"))
    learner.step([decode(source.read_bytes().splitlines()[0])])
    while len(learner.weights.arrays.uses) < size:
        learner.weights.grow()
    arrays = learner.weights.arrays
    arrays.size[0] = size
    arrays.value[:size] = np.random.default_rng(0).normal(size=(size, 3))
    assert learner.grounder.net.row_len.max() <= RUN
    rows = learner.grounder.net.row_weight[: learner.grounder.net.size[ROWS]]
    firsts, number = np.unique(rows, return_inverse=True)
    spread = np.linspace(0, size - RUN, len(firsts), endpoint=False)
    return learner, np.where(rows >= 0, spread.astype(np.int64)[number], -1)


def nanoseconds(learner: MlnOnlineLearner, places: Ints, stride: int) -> float:
    """The time of an update."""
    state, room = learner.worlds.state, len(learner.weights) - RUN
    arguments = (
        learner.grounder.net,
        learner.weights.arrays,
        state.truth,
        state.rival,
        state.cost,
    )
    started = time.perf_counter_ns()
    learn(*arguments, places, room, stride, UPDATES)
    return (time.perf_counter_ns() - started) / UPDATES


def test_time_per_update_does_not_grow_with_the_weights():
    learners = [learner_of(size) for size in SIZES]
    rounds = [
        [(nanoseconds(*x, 0), nanoseconds(*x, PRIME)) for x in learners] for _ in range(ROUNDS)
    ]
    times = np.min(rounds, axis=0)
    rows = [
        (f"{size:,}", same, same / times[0, 0], moving, moving / times[0, 1])
        for size, (same, moving) in zip(SIZES, times.tolist(), strict=True)
    ]
    show("Time per update", ("weights", "ns", "ratio", "ns, moving", "ratio"), rows)
    assert times[-1, 0] < 1.5 * times[0, 0]
