"""The time of an example against how many facts all examples have: shared, and as copies in each."""

import time
from collections.abc import Sequence

import pytest

from onlinesrl.core.background import Background
from onlinesrl.core.example import Example, GroundAtom
from onlinesrl.mln.ground.join_planner import compile_program
from onlinesrl.mln.lang.reader import parse
from tests.benchmarks.measure import show
from tests.mln.ground.test_background import copied
from tests.support.small_learners import online

pytestmark = pytest.mark.benchmark
PEOPLE = [10**n for n in range(2, 6)]
COPIED = 10_000
"""The most facts that are copied into each example."""
EXAMPLES, FIRST = 256, 64
RULES = """\
Wrote(title, person)
Taught(course, person)
Helped(course, person)
Advised(person, person)
Advised(s, p) ^ Advised(s, q) => p = q.
0.0 Advised(s, p)
0.0 Wrote(t, s) ^ Wrote(t, p) => Advised(s, p)
0.0 Helped(c, s) ^ Taught(c, p) => Advised(s, p)
"""


def department(people: int) -> tuple[list[GroundAtom], list[Example]]:
    """Everyone has written and taught or helped something; a student has one of ten advisors."""
    facts, examples = [], []
    for n in range(people):
        facts.append(GroundAtom("Wrote", (f"T{n // 3}", f"P{n}"), True, 1))
        facts.append(
            GroundAtom("Taught" if n % 5 == 0 else "Helped", (f"C{n // 7}", f"P{n}"), True, 1)
        )
    for n in range(EXAMPLES):
        student, first = n * 13 % people, n * 7 % people
        pairs = [[f"P{student}", f"P{(first + k) % people}"] for k in range(10)]
        examples.append(
            Example(id=n, evidence={}, query={"Advised": pairs}, truth={"Advised": pairs[:1]})
        )
    return facts, examples


def seconds(facts: Sequence[GroundAtom], examples: Sequence[Example]) -> tuple[float, float]:
    """CPU seconds of getting ready and of an example; the first ones are not counted."""
    began = time.process_time()
    learner = online(compile_program(parse(RULES), ["Advised"]), background=Background(facts))
    ready = time.process_time() - began
    for first in range(0, EXAMPLES, FIRST):
        if first == FIRST:
            began = time.process_time()
        outcomes, _ = learner.step(examples[first : first + FIRST])
        assert all(outcome.error is None for outcome in outcomes)
    return ready, (time.process_time() - began) / (EXAMPLES - FIRST)


def test_time_of_an_example_against_facts() -> None:
    rows: list[list[str | float]] = []
    for people in PEOPLE:
        facts, examples = department(people)
        ready, shared = seconds(facts, examples)
        plain = "-"
        if len(facts) <= COPIED:
            plain = f"{1e6 * seconds([], [copied(each, facts) for each in examples])[1]:.3g}"
        rows.append([f"{len(facts):,}", 1e6 * shared, plain, ready])
    show("CPU of an example, us", ["facts", "shared", "copies", "s once"], rows)
