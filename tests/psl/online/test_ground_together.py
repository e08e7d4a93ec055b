"""How many examples are ground together changes nothing."""

from typing import Any

import pytest

from onlinesrl.core.errors import ExampleError
from onlinesrl.core.learner import Item
from onlinesrl.psl.online import learner as psl_learner
from tests.support import trust_program
from tests.support.small_learners import state


@pytest.mark.parametrize("rows", [1, 150, 600])
def test_how_many_are_ground_together_changes_nothing(
    rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    items: list[Item] = [*trust_program.examples(24), *trust_program.examples(1, 5, 7)]
    items[9:9] = [ExampleError("no example")]
    learner, other = trust_program.new_learner(), trust_program.new_learner()
    expected, _ = other.step(items)
    sizes: list[int] = []
    ground_worlds = learner.grounder.ground_worlds

    def grounding(database: Any, worlds: int, *rest: Any) -> Any:
        grounded = ground_worlds(database, worlds, *rest)
        sizes.append(worlds)
        return grounded

    monkeypatch.setattr(learner.grounder, "ground_worlds", grounding)
    monkeypatch.setattr(psl_learner, "ROWS_TOGETHER", rows)
    outcomes, _ = learner.step(items)
    assert outcomes == expected
    assert state(learner) == state(other)
    assert sum(sizes) == 25
    assert max(sizes) == 1 if rows == 1 else 1 < max(sizes) < 25
