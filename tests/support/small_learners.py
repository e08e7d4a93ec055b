"""A small model, sentences to learn it from, and what learners of them have come to."""

import random
from collections.abc import Iterable
from functools import cache
from typing import Any, get_args

from onlinesrl.core.example import Example
from onlinesrl.core.learner import Prediction
from onlinesrl.core.online.update_rules import UPDATES, Cda2
from onlinesrl.core.online.update_rules.rule import Update
from onlinesrl.logic.ast import Program
from onlinesrl.mln.ground.join_planner import Plan, compile_program
from onlinesrl.mln.inference.brute_force import Brute
from onlinesrl.mln.inference.ilp import Ilp
from onlinesrl.mln.inference.router import Router
from onlinesrl.mln.inference.settings import Inference
from onlinesrl.mln.lang import reader
from onlinesrl.mln.online.learner import MlnOnlineLearner
from onlinesrl.mln.online.weight_table import WeightTable

MODEL = """\
field = {"a", "b"}
Token(word, position)
Next(position, position)
InField(position, field)

!InField(i, f) v !InField(i, g) v f = g.

0.5 Token(+w, i) => InField(i, +f)
-0.25 Token(+v, i) ^ Next(i, j) ^ Token(+w, j) => InField(i, +f)
InField(i, +f) ^ Next(i, j) ^ InField(j, +g)
1.0 InField(i, "a")
0.25 InField(i, +f) ^ Next(i, j) => InField(j, +f)
"""


CDA2 = Cda2(loss="ml")


def update_of(name: str, **keys: Any) -> Update:
    """An update by name; keys that it does not have are left out, and losses that it does not take."""
    made = UPDATES[name]
    known = {key: value for key, value in keys.items() if key in made.model_fields}
    if known.get("loss") not in get_args(made.model_fields["loss"].annotation):
        known.pop("loss", None)
    update: Update = made(**known)
    return update


def exact(engine: Ilp | Brute | None = None, **keys: Any) -> Inference:
    """One engine for what is given to it whole, and for what is too wide for elimination."""
    engine = engine or Ilp()
    return Inference(Router(engine) if keys.get("presolve", True) else engine, engine, **keys)


def online(
    plan: Plan, update: Update = CDA2, inference: Inference | None = None, **keys: Any
) -> MlnOnlineLearner:
    """A learner; all that tests have are made here."""
    return MlnOnlineLearner(plan, update, inference or exact(), **keys)


@cache
def parsed() -> Program:
    return reader.parse(MODEL, "model.mln")


def new_learner(
    update: str = "cda2",
    max_weights: int | None = None,
    inference: Inference | None = None,
    **keys: Any,
) -> MlnOnlineLearner:
    plan = compile_program(parsed(), ["InField"])
    made = update_of(update, sigma=0.1, max_weights=max_weights, **keys)
    return online(plan, made, inference)


def examples(count: int, seed: int = 0, words: int = 40) -> list[Example]:
    """Sentences of two to five words; the first words are in field a, every third word in b."""
    rng = random.Random(seed)
    made = []
    for number in range(count):
        sentence = [rng.randrange(words) for _ in range(rng.randrange(2, 6))]
        fields = ["a" if rng.random() < 0.3 else "b" for w in sentence if w % 3]
        made.append(
            Example(
                id=number,
                evidence={
                    "Token": [[f"word {w}", i] for i, w in enumerate(sentence)],
                    "Next": [[i, i + 1] for i in range(len(sentence) - 1)],
                },
                truth={"InField": [[i, f] for i, f in enumerate(fields)]},
            )
        )
    return made


def learn(learner: MlnOnlineLearner, seen: Iterable[Example], batch: int = 8) -> list[Prediction]:
    seen, predictions = list(seen), []
    for first in range(0, len(seen), batch):
        outcomes, _ = learner.step(seen[first : first + batch])
        for outcome in outcomes:
            assert outcome.prediction is not None, outcome.error
            predictions.append(outcome.prediction)
    return predictions


def named(weights: WeightTable) -> dict[tuple[str, tuple[str, ...]], tuple[float, int]]:
    entries = list(weights.entries())
    found = {(e.clause.text, e.key): (e.weight, e.uses) for e in entries}
    assert len(found) == len(entries)
    return found


def state(learner: Any) -> tuple[Any, ...]:
    """All that is saved, the bytes of the arrays included."""
    header, arrays = learner.save()
    return header, {name: (a.dtype, a.shape, a.tobytes()) for name, a in arrays.items()}
