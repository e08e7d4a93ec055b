"""Kernels that are compiled without what a plan has nothing of learn the same bits as whole ones."""

from typing import Any

import pytest
from conftest import soaked

from onlinesrl.core.background import Background
from onlinesrl.core.example import Example, GroundAtom
from onlinesrl.core.jit.frames import Frame
from onlinesrl.mln.ground.join_planner import compile_program
from onlinesrl.mln.lang import reader
from tests.support.shapes import AS_SHIPPED, SHAPED
from tests.support.small_learners import learn, online, state

DECLARED = "E(t)\nR(t, t)\nQ(t)\n"
PLAIN = "1 E(x) => Q(x)\n1 Q(x) ^ R(x, y) => Q(y)\n"
RICH = PLAIN + "1 E(x) => (EXIST y (R(x, y) ^ Q(y)))\n1 Q(x) ^ E(y) ^ y = x + 1 => Q(y)\n"
SHARED = [GroundAtom("R", ("1", "2"), True, 1), GroundAtom("R", ("2", "7"), True, 2)]


def examples() -> list[Example]:
    """Numbers in two relations; those that are even are Q."""
    return [
        Example(
            id=n,
            evidence={
                "E": [[i] for i in range(n % 3, 6)],
                "R": [[i, (i * n) % 5] for i in range(5)],
            },
            truth={"Q": [[i] for i in range(5) if (i + n) % 2 == 0]},
        )
        for n in range(12)
    ]


def learned(rules: str, facts: list[GroundAtom]) -> Any:
    plan = compile_program(reader.parse(DECLARED + rules), ["Q"])
    learner = online(plan, background=Background(facts))
    return [learn(learner, examples()), state(learner)]


@pytest.mark.parametrize(
    ("rules", "facts"),
    [
        pytest.param(PLAIN, [], id="plain"),
        soaked(RICH, [], name="rich"),
        soaked(PLAIN, SHARED, name="plain with facts"),
    ],
)
def test_a_shape_makes_no_difference(
    rules: str, facts: list[GroundAtom], monkeypatch: pytest.MonkeyPatch
) -> None:
    for frame in SHAPED:
        monkeypatch.setattr(frame, "_without", Frame._without)
    whole = learned(rules, facts)
    for frame, shipped in zip(SHAPED, AS_SHIPPED, strict=True):
        monkeypatch.setattr(frame, "_without", shipped)
    assert learned(rules, facts) == whole
