"""What the page asks of a checkpoint, answered by a process of its own with low priority.

It reads one JSON object, writes one, and ends; after ``SECONDS`` the system ends it. It imports the
learner, so that the page does not.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec

from onlinesrl.core.errors import OnlinesrlError
from onlinesrl.core.example import Example
from onlinesrl.core.explain.counterfactual import CounterfactualQuery
from onlinesrl.core.explain.explanation import compared, read_atom
from onlinesrl.core.learner import Learner, Outcome, heaviest
from onlinesrl.core.operating_system import step_back
from onlinesrl.library.learner import OnlineLearner
from onlinesrl.library.restored import restore
from onlinesrl.runs.summary import shown_row
from onlinesrl.stream.checkpoints import RunHeader, checked, load

SECONDS = 60
NICE = 5
HEAVIEST, MOVED = 24, 12
TRIES = 200
"""How many changes of evidence an explanation tries."""


def look(checkpoint: str, before: str | None) -> dict[str, Any]:
    """Return what a checkpoint holds: a line of metrics, weights, the last examples, times, position.

    ``before`` is the checkpoint with whose weights they are compared.
    """
    saved = checked(load(Path(checkpoint)), RunHeader)
    learner, metrics, recent = restore(saved)
    header, weights = saved.header, learner.weights
    line = {**metrics.snapshot(), **learner.certificate()}
    return {
        "line": line | {"updates": weights.updates, "weights": len(weights)},
        "seconds": header["seconds"],
        "slowest": header.get("slowest", []),
        "position": header["position"],
        "behind": header.get("behind", {}),
        "finished": header["finished"],
        "heaviest": [
            {"rule": e.text, "instance": e.instance, "weight": e.weight, "updates": e.uses}
            for e in heaviest(weights.entries())[:HEAVIEST]
        ],
        "examples": [{"row": asdict(shown_row(learner, *pair)), "pair": pair} for pair in recent],
        **({} if before is None else _since(before, learner, header)),
    }


def _since(before: str, learner: Learner, header: Mapping[str, Any]) -> dict[str, Any]:
    """Return the weights that moved most since an earlier checkpoint, and the examples and seconds since."""
    try:
        old = checked(load(Path(before)), RunHeader)
        learned, metrics, _ = restore(old)
        past = _weights(learned)
    except OnlinesrlError:  # removed for a newer one
        return {}
    now = _weights(learner)
    changes = {name: now.get(name, 0.0) - past.get(name, 0.0) for name in {**past, **now}}
    moved = sorted(changes, key=lambda name: (-abs(changes[name]), name))[:MOVED]
    return {
        "moved": [
            {
                "rule": rule,
                "instance": instance,
                "weight": now.get((rule, instance), 0.0),
                "change": changes[rule, instance],
            }
            for rule, instance in moved
            if changes[rule, instance]
        ],
        "since": {
            "examples": header["metrics"].get("examples", 0) - metrics.examples,
            "seconds": header["seconds"] - old.header["seconds"],
        },
    }


def _weights(learner: Learner) -> dict[tuple[str, str], float]:
    return {(e.text, e.instance): e.weight for e in learner.weights.entries()}


def explain(folder: str, pair: Any, atom: str | None) -> dict[str, Any]:
    """Explain an atom of an example, or its least certain one, by the newest checkpoint of a run."""
    example, outcome = msgspec.convert(pair, tuple[Example, Outcome])
    learner = OnlineLearner.load(folder).learned
    chosen = None if atom is None else read_atom(atom)
    explanation = learner.explain(example, chosen, CounterfactualQuery(tries=TRIES))
    predicted = outcome.prediction.predicted if outcome.prediction else None
    return {"lines": [*compared(explanation, predicted).lines()]}


TASKS: dict[str, Callable[..., dict[str, Any]]] = {"look": look, "explain": explain}


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Do the task that a request names; an error of the project becomes the answer."""
    try:
        return TASKS[request.pop("task")](**request)
    except OnlinesrlError as error:
        return {"error": str(error)}


def main() -> None:
    """Answer one request."""
    step_back(NICE, SECONDS)
    reply = answer(json.load(sys.stdin))
    sys.stdout.buffer.write(msgspec.json.encode(reply))


if __name__ == "__main__":
    main()
