"""Time per example of a PSL program: packing, grounding, inference, all of a step."""

import time
from collections.abc import Callable

import pytest

from tests.benchmarks.measure import show
from tests.support.trust_program import examples, learn, new_learner

pytestmark = pytest.mark.benchmark
COUNT, ROUNDS = 256, 5
PEOPLE = (3, 4, 6, 8)


def microseconds(work: Callable[[], object]) -> float:
    """The least time of an example, of some rounds over all."""
    best = float("inf")
    for _ in range(ROUNDS):
        started = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - started)
    return best / COUNT * 1e6


def measured(people: int) -> tuple[str | float, ...]:
    """Targets and ground rows of an example, and the times of what is done with it."""
    seen = examples(COUNT, people=people)
    learner = new_learner()
    learner.compile()
    learn(learner, seen, 64)
    worlds = [learner.packer.world(example) for example in seen]
    graphs = [ground.graph for ground in learner._ground(worlds)]
    weights, engine = learner.weights.averaged(), learner.inference.engine
    fresh = {size: new_learner() for size in (1, 64)}
    return (
        f"{sum(graph.n_variables for graph in graphs) / COUNT:.0f}",
        sum(graph.n_rows for graph in graphs) / COUNT,
        microseconds(lambda: [learner.packer.world(each) for each in seen]),
        microseconds(lambda: learner._ground(worlds)),
        microseconds(lambda: [engine.solve(graph, weights) for graph in graphs]),
        microseconds(lambda: learn(fresh[1], seen, 1)),
        microseconds(lambda: learn(fresh[64], seen, 64)),
    )


def test_time_per_example():
    head = ("targets", "rows", "check, us", "ground", "predict", "step, batch 1", "batch 64")
    show("Time per example of a PSL program", head, [measured(people) for people in PEOPLE])
