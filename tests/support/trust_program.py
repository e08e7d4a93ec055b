"""A small PSL program, made-up circles of people to learn it from, and learners of it."""

import random
from collections.abc import Sequence
from typing import Any

from onlinesrl.core.example import Constant, Example, ValuedAtom
from onlinesrl.core.online.update_rules import Cda2
from onlinesrl.core.online.update_rules.rule import Update
from onlinesrl.psl.inference.admm import Admm
from onlinesrl.psl.lang import reader
from onlinesrl.psl.lang.ast import PslProgram
from onlinesrl.psl.online.learner import PslInference, PslOnlineLearner
from tests.support.small_learners import update_of

MODEL = """\
// Who trusts whom: of those that people know the fair ones, and nobody more than two.
1.0: Knows(A, B) & Knows(B, C) & (A != C) & Trusts(A, B) & Trusts(B, C) -> Trusts(A, C) ^2
1.0: Knows(A, B) & Trusts(A, B) -> Trusts(B, A)
0.2: Fair(B) & Knows(A, B) -> Trusts(A, B) ^2
0.5: !Trusts(A, B) ^2
Trusts(A, +B) <= 2 .
"""
SQUARED = MODEL.replace("Trusts(A, +B) <= 2 .\n", "").replace("Trusts(B, A)\n", "Trusts(B, A) ^2\n")
"""The same without a hard rule and a linear one, which some engines do not take."""


CDA2 = Cda2(loss="ml")


def soft(
    program: PslProgram,
    query: Sequence[str],
    update: Update = CDA2,
    inference: PslInference | None = None,
    **keys: Any,
) -> PslOnlineLearner:
    """A learner of a PSL program; all that tests have are made here."""
    return PslOnlineLearner(program, query, update, inference or PslInference(Admm()), **keys)


def new_learner(update: str = "cda2", rounds: int = 25_000, **settings: Any) -> PslOnlineLearner:
    keys = {name: settings.pop(name, None) for name in ("loss", "replay")}
    made = update_of(update, sigma=0.1, **keys)
    inference = PslInference(Admm(rounds=rounds), **settings)
    return soft(reader.parse(MODEL), ["Trusts"], made, inference, by=("Trusts", 1))


def examples(count: int, seed: int = 0, people: int = 4) -> list[Example]:
    """Circles of people, some known to be more or less fair; each example has names of its own."""
    rng = random.Random(seed)
    made = []
    for number in range(count):
        names = [rng.choice("abcdefgh") + str(rng.randrange(100)) + str(k) for k in range(people)]
        pairs = [[a, b] for a in names for b in names if a != b]
        knows = [pair for pair in pairs if rng.random() < 0.6]
        fair = {name: rng.choice([0.0, 0.1, 0.9, 1.0]) for name in names}
        trusts: dict[tuple[str, str], float] = {}
        for a, b in knows:
            if fair[b] > 0.5 and sum(value for (c, _), value in trusts.items() if c == a) <= 1.0:
                trusts[a, b] = rng.choice([1.0, 1.0, 0.75])
        made.append(
            Example(
                id=number,
                evidence={
                    "Knows": list[list[Constant] | ValuedAtom](map(list, knows)),
                    "Fair": [ValuedAtom([name], value) for name, value in fair.items()],
                },
                query={"Trusts": list[list[Constant] | ValuedAtom](map(list, pairs))},
                truth={"Trusts": [ValuedAtom(list(k), v) for k, v in trusts.items()]},
            )
        )
    return made


GOOD = {
    "id": 1,
    "evidence": {"Knows": [["a", "b"]], "Fair": [{"args": ["b"], "value": 0.5}]},
    "query": {"Trusts": [["a", "b"], ["b", "a"]]},
    "truth": {"Trusts": [{"args": ["a", "b"], "value": 0.25}]},
}
"""An example, which tests change to bad ones."""


def learn(learner: PslOnlineLearner, seen: Sequence[Any], batch: int = 8) -> list[Any]:
    outcomes = []
    for first in range(0, len(seen), batch):
        outcomes += learner.step(seen[first : first + batch])[0]
    return outcomes
