"""How the cost of an example grows: with the weights, the stream, its own length, and the rules.

CPU microseconds of a step, packing to outcome, the least of some rounds, on citations of ``TOKENS`` tokens
whose words and fields are drawn; each ratio is to the table's first row, of cost and of what grows.
"""

import time
from collections.abc import Sequence

import numpy as np
import pytest

import onlinesrl as srl
from onlinesrl.core.example import Example
from tests.benchmarks.measure import REPO, show

pytestmark = pytest.mark.benchmark
MODEL = REPO / "streams" / "citations" / "segmentation.mln"
FIELDS = "author", "title", "venue"
TOKENS, EXAMPLES, ROUNDS = 25, 64, 8


def citations(
    n: int = EXAMPLES, tokens: int = TOKENS, words: int = 1000, seed: int = 0
) -> list[Example]:
    """Draw citations of three fields in a row."""
    rng = np.random.default_rng(seed)
    places = range(tokens)
    field = [[i, FIELDS[3 * i // tokens]] for i in places]
    return [
        Example(
            id=number,
            evidence={
                "Token": [[f"w{w}", i] for i, w in enumerate(rng.integers(words, size=tokens))],
                "HasPunc": [[i] for i in places if rng.random() < 0.3],
                "Next": [[i, i + 1] for i in places[:-1]],
            },
            truth={"InField": [[*atom] for atom in field]},
        )
        for number in range(n)
    ]


def learner_of(text: str = "") -> srl.OnlineLearner:
    """A learner of the citations' model, with more rules."""
    return srl.OnlineLearner(MODEL.read_text(encoding="utf-8") + text, query="InField")


def microseconds(learner: srl.OnlineLearner, examples: Sequence[Example]) -> float:
    """Return the CPU time of an example, learned the second time and later."""
    learner.learned.step(examples)
    times = []
    for _ in range(ROUNDS):
        begun = time.process_time()
        learner.learned.step(examples)
        times.append(time.process_time() - begun)
    return 1e6 * min(times) / len(examples)


def growth(what: str, found: dict[int, float]) -> float:
    """Print a table; return how many times the cost grew, for each time that its cause did."""
    (size, cost), (most, last) = (*found.items(),)[0], (*found.items(),)[-1]
    rows = [(f"{n:,}", us, n / size, us / cost) for n, us in found.items()]
    show(f"CPU of an example by {what}", (what, "us", "times as many", "times the cost"), rows)
    return (last / cost) / (most / size)


def test_cost_by_weights():
    found = {}
    for words in (100, 1000, 10_000, 100_000):
        learner = learner_of()
        for first in range(0, 10 * words, 256 * TOKENS):
            learner.learned.step(citations(256, words=words, seed=first))
        found[len(learner.weights)] = microseconds(learner, citations())
    assert growth("weights", found) < 0.1


def test_cost_by_length_of_stream():
    learner, found = learner_of(), {}
    for length in (1 << 8, 1 << 10, 1 << 12, 1 << 14):
        while learner.learned.weights.updates < length:
            learner.learned.step(citations(seed=1))
        found[length] = microseconds(learner, citations())
    assert growth("updates before", found) < 0.1


def test_cost_by_length_of_example():
    sizes = (10, 20, 40, 80, 160, 320)
    found = {tokens: microseconds(learner_of(), citations(tokens=tokens)) for tokens in sizes}
    assert growth("tokens", found) < 2


def test_cost_by_rules():
    rule = "HasPunc(i) ^ Next(i, j) ^ InField(i, +f) ^ InField(j, +g)\n"
    found = {}
    for more in (0, 10, 20, 40):
        learner = learner_of(more * rule)
        found[10 + more] = microseconds(learner, citations())
    assert growth("rules", found) < 2
