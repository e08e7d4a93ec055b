"""Where memory is short fewer examples are taken together, and one that alone takes too much is bad."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from onlinesrl.core.errors import ExampleError
from onlinesrl.core.example import Example
from onlinesrl.core.learner import Item, Outcome, Tally
from onlinesrl.core.parallel.adaptive_batch import AdaptiveBatcher, Apart
from onlinesrl.mln.inference.elimination import Mpe
from onlinesrl.mln.inference.ilp import Ilp
from onlinesrl.mln.inference.settings import Inference
from onlinesrl.mln.kernels import grounding_frames
from onlinesrl.mln.kernels.predict_and_learn import GROW_OUTPUT
from onlinesrl.mln.online.learner import MlnOnlineLearner
from onlinesrl.psl.inference.admm import Admm
from onlinesrl.psl.online import learner as psl_learner
from tests.support import small_learners, trust_program

MONSTER = "monster"


def monster(tokens: int) -> Example:
    """A sentence of words of its own; of 600 so many that everything has to grow for it."""
    return Example(
        id=MONSTER,
        evidence={
            "Token": [[f"own {n}", n] for n in range(tokens)],
            "Next": [[n, n + 1] for n in range(tokens - 1)],
        },
        truth={"InField": [[n, "a"] for n in range(0, tokens, 2)]},
    )


def stream(stage: str) -> list[Item]:
    """Examples with the monster, and one that is bad anyway, among them."""
    seen: list[Item] = [*small_learners.examples(30 if stage in STAGES else 9)]
    size = 600 if stage in {"atoms", "weights"} else 12
    seen[5:5] = [ExampleError("no example"), monster(size)]
    return seen


def without(items: Sequence[Item]) -> list[Item]:
    return [
        ExampleError("", "memory") if isinstance(item, Example) and item.id == MONSTER else item
        for item in items
    ]


def taken(learner: Any, items: Sequence[Item], batch: int) -> tuple[list[Outcome], Tally]:
    outcomes, tallies = [], []
    for first in range(0, len(items), batch):
        some, tally = learner.step(items[first : first + batch])
        outcomes += some
        tallies.append(tally)
    total = tallies[0]
    for tally in tallies[1:]:
        total += tally
    return outcomes, total


def told(found: tuple[list[Outcome], Tally]) -> Any:
    """What is said and counted, but for the words of memory."""
    outcomes, tally = found
    said = [(o.prediction, o.unsolved) for o in outcomes]
    by = {name: row.tolist() for name, row in tally.by_class.items()}
    by |= {f"all {name}": np.asarray(row).tolist() for name, row in tally.predicates.items()}
    numbers = (tally.labelled, tally.predicted, tally.certified, tally.audited, tally.unsolved)
    return (
        said,
        tally.counts.tolist(),
        numbers,
        by,
        dict(tally.routes),
        dict(tally.errors),
        tally.l1,
    )


def new_learner(stage: str = "batch") -> MlnOnlineLearner:
    presolve = stage in STAGES
    every = 1 if stage == "audit" else 4 if presolve else 0
    return small_learners.new_learner(
        inference=Inference(Ilp("highs"), Mpe(Ilp("highs")), presolve=presolve, audit_every=every)
    )


Failing = Callable[[pytest.MonkeyPatch, MlnOnlineLearner, Callable[[], bool]], None]


def fails_in(
    owner: Callable[[MlnOnlineLearner], Any],
    name: str,
    when: Callable[..., bool] = lambda *args: True,
) -> Failing:
    """Let a method run out of memory half done, where the monster is at hand."""

    def install(
        patch: pytest.MonkeyPatch, learner: MlnOnlineLearner, short: Callable[[], bool]
    ) -> None:
        own = owner(learner)
        method = getattr(own, name)

        def failing(*args: Any, **options: Any) -> Any:
            if short() and when(*args):
                raise MemoryError
            return method(*args, **options)

        patch.setattr(own, name, failing)

    return install


def of_packer(learner: MlnOnlineLearner) -> Any:
    return learner.packer


def of_grounder(learner: MlnOnlineLearner) -> Any:
    return learner.grounder


def of_worlds(learner: MlnOnlineLearner) -> Any:
    return learner.worlds


def of_weights(learner: MlnOnlineLearner) -> Any:
    return learner.weights


STAGES: dict[str, Failing] = {
    "batch": fails_in(of_packer, "batch"),
    "types": fails_in(of_packer, "localise", lambda batch, kind, *args: kind == 1),
    "begin": fails_in(of_worlds, "begin"),
    "atoms": fails_in(of_grounder, "grow", lambda status: status == grounding_frames.GROW_ATOMS),
    "weights": fails_in(of_weights, "grow"),
    "audit": fails_in(of_worlds, "_audit"),
}
OUTSIDE: dict[str, Failing] = {
    "predict": fails_in(of_worlds, "_solve", lambda *args: len(args) == 3),
    "rival": fails_in(of_worlds, "_solve", lambda *args: len(args) == 4),
    "output": fails_in(of_worlds, "_grow", lambda *args: args[0] == GROW_OUTPUT),
}


@pytest.mark.parametrize(
    ("stage", "alone", "batch"),
    [
        *((stage, True, 64) for stage in ("types", "begin", "atoms", "weights", "rival")),
        *((stage, False, 64) for stage in ("batch", "audit", "predict", "output")),
        ("weights", True, 1),
    ],
)
def test_what_takes_too_much_leaves_nothing(
    stage: str, alone: bool, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is too much alone is a bad example, what is only with others is taken alone, bit for bit."""
    items = stream(stage)
    learner, other = new_learner(stage), new_learner(stage)
    failures = []
    alone &= stage != "output"  # of one example there is always room for

    def short() -> bool:
        worlds = learner.packer.worlds
        at_hand = any(world.example.id == MONSTER for world in worlds)
        failures.append(at_hand and (alone or len(worlds) > 1))
        return failures[-1]

    (STAGES | OUTSIDE)[stage](monkeypatch, learner, short)
    learner.worlds.allocate(output=8 if stage == "output" else 1 << 12)
    found = taken(learner, items, batch)
    expected = taken(other, without(items) if alone else items, batch)
    assert any(failures)
    refused = [o.error for o in found[0] if o.error and "memory" in o.error]
    assert len(refused) == alone
    assert all("takes more memory than is available" in error for error in refused)
    assert told(found) == told(expected)
    assert small_learners.state(learner) == small_learners.state(other)


def test_what_was_learned_and_cannot_be_told_ends_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    learner = new_learner()

    def untold(*args: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(learner.reporter, "outcomes", untold)
    with pytest.raises(MemoryError):
        learner.step(small_learners.examples(5))
    assert learner.weights.updates == 5


# values in [0, 1] ------------------------------------------------------------------------------------

PSL_STAGES = {
    "world": True,
    "database": False,
    "ground_worlds": True,
    "predict": False,
    "rival": True,
}


def psl_stream() -> list[Item]:
    seen: list[Item] = [*trust_program.examples(24)]
    [large] = trust_program.examples(1, seed=5, people=7)
    seen[9:9] = [
        ExampleError("no example"),
        Example(id=MONSTER, evidence=large.evidence, query=large.query, truth=large.truth),
    ]
    return seen


@pytest.mark.parametrize(("stage", "alone"), PSL_STAGES.items())
def test_psl_examples_that_take_too_much(
    stage: str, alone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = psl_stream()
    learner, other = trust_program.new_learner(), trust_program.new_learner()
    failures: list[int] = []
    packed: list[bool] = []

    def failing(method: Callable[..., Any], count: Callable[..., int]) -> Callable[..., Any]:
        def short(*args: Any, **options: Any) -> Any:
            n = count(*args)
            if n and (alone or n > 1):
                failures.append(n)
                raise MemoryError
            return method(*args, **options)

        return short

    def with_monster(worlds: Any) -> int:
        packed.append(any(world.example.id == MONSTER for world in worlds))
        return len(worlds) * packed[-1]

    def solving(self: Any, graph: Any, weights: Any, **options: Any) -> Any:
        large, rival = graph.n_variables == 42, options["start"] is not None
        if large and rival == (stage == "rival") and (alone or not failures):
            failures.append(1)
            raise MemoryError
        return solve(self, graph, weights, **options)

    solve = Admm.solve
    if stage == "world":
        only = lambda example: example.id == MONSTER and (alone or not failures)  # noqa: E731
        monkeypatch.setattr(
            learner.packer, "world", failing(learner.packer.world, lambda e: 2 * only(e))
        )
    elif stage in {"predict", "rival"}:
        monkeypatch.setattr(Admm, "solve", solving)
    else:
        pack = learner.packer.database
        count = with_monster if stage == "database" else lambda worlds: with_monster(worlds) * 0
        monkeypatch.setattr(learner.packer, "database", failing(pack, count))
        if stage == "ground_worlds":
            ground_worlds = learner.grounder.ground_worlds
            monkeypatch.setattr(
                learner.grounder,
                "ground_worlds",
                failing(ground_worlds, lambda database, n, *rest: n * packed[-1]),
            )
    found = taken(learner, items, 64)
    assert failures
    monkeypatch.undo()
    expected = taken(other, without(items) if alone else items, 64)
    assert [o.error is not None and "memory" in o.error for o in found[0]].count(True) == alone
    assert told(found) == told(expected)
    assert trust_program.state(learner) == trust_program.state(other)


@pytest.mark.parametrize("rows", [1, 150, 600])
def test_how_many_are_ground_together_changes_nothing(
    rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = psl_stream()
    learner, other = trust_program.new_learner(), trust_program.new_learner()
    expected = taken(other, items, 64)
    sizes: list[int] = []
    ground_worlds = learner.grounder.ground_worlds

    def grounding(database: Any, worlds: int, *rest: Any) -> Any:
        grounded = ground_worlds(database, worlds, *rest)
        sizes.append(worlds)
        return grounded

    monkeypatch.setattr(learner.grounder, "ground_worlds", grounding)
    monkeypatch.setattr(psl_learner, "ROWS_TOGETHER", rows)
    found = taken(learner, items, 64)
    assert found[0] == expected[0]
    assert told(found) == told(expected)
    assert trust_program.state(learner) == trust_program.state(other)
    assert sum(sizes) == 25
    assert max(sizes) == 1 if rows == 1 else 1 < max(sizes) < 25


# how many at once ------------------------------------------------------------------------------------


class Counting:
    """Weights of which only the updates count."""

    updates = 0


def test_half_as_many_and_one_more_each_time() -> None:
    together, tried = AdaptiveBatcher(), list[int]()

    def attempt(items: Sequence[Item]) -> list[Outcome]:
        tried.append(len(items))
        if len(items) > 6:
            raise Apart
        return [Outcome(None, str(item)) for item in items]

    items: list[Item] = [ExampleError(str(n)) for n in range(40)]
    found = together.take(items, attempt, Counting())  # type: ignore[arg-type]
    assert [o.error for o in found] == [str(n) for n in range(40)]
    assert tried == [40, 20, 10, 5, 6, 7, 3, 4, 5, 6, 7, 3, 4, 4]
    assert together.take([], attempt, Counting()) == []  # type: ignore[arg-type]
