"""Explaining an example of a run: it is found by its id, and explained with the trained weights."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from pydantic import ValidationError

from onlinesrl.core.errors import UsageError, printable
from onlinesrl.core.example import Atom, Example, arguments
from onlinesrl.core.explain.counterfactual import DEFAULTS, CounterfactualQuery
from onlinesrl.core.explain.explanation import Explanation, ExplanationError, compared, read_atom
from onlinesrl.core.io.atomic_write import plain, storage_errors
from onlinesrl.core.io.config_types import STDIN
from onlinesrl.core.learner import Estimate, Explainable, Prediction
from onlinesrl.runs.config.loading import load, run_root
from onlinesrl.runs.config.schema import Config
from onlinesrl.runs.console import say
from onlinesrl.runs.inputs import make_reader
from onlinesrl.runs.run import compile_kernels, load_checkpoint, trained_learner
from onlinesrl.stream.dead_letters import letters
from onlinesrl.stream.run_folder import REQUESTS, parts
from onlinesrl.stream.world_changes import WorldChange

SHOWN_IDS = 5
"""How many ids are named where the one that is asked for is not there."""
CHOSEN = 3
"""How many atoms are explained where none is asked for."""


class FormulaProbability(NamedTuple):
    """The probability of a formula in an example."""

    formula: str
    estimate: Estimate

    def __str__(self) -> str:
        error = self.estimate.standard_error
        return f"{self.formula}: {self.estimate.value:.6f}" + (
            "" if error is None else f" \u00b1 {error:.6f}"
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the formula and its probability, for JSON."""
        return {"formula": self.formula, **msgspec.to_builtins(self.estimate)}


class Question(NamedTuple):
    """What is asked about an example.

    Without ``atoms`` and ``formulas`` the least certain atoms are explained. ``change`` are atoms, or
    predicates, of the evidence that may change. Formulas get their probabilities, where those ``given`` hold.
    """

    atoms: Sequence[Atom] = ()
    change: Sequence[str] = ()
    tries: int = DEFAULTS.tries
    formulas: Sequence[str] = ()
    given: Sequence[str] = ()

    def answers(
        self, learner: Explainable, example: Example, recorded: Prediction | None
    ) -> Iterator[Explanation | FormulaProbability]:
        """Yield explanations, which tell where a run has ``recorded`` another prediction.

        Raises ExplanationError for what the example does not have, and what ``Explainable`` raises.
        """
        if self.formulas or self.given:
            values = learner.probabilities(example, self.formulas, self.given)
            if not values:
                raise ExplanationError(
                    f"{self.formulas[0]} has no probability: the example has not all its constants, or "
                    "what is given cannot hold"
                )
            yield from (FormulaProbability(*item) for item in values.items())
        candidates = _candidates(example, self.change) if self.change else None
        query = CounterfactualQuery(candidates, self.tries)
        predicted = None if recorded is None else recorded.predicted
        atoms = self.atoms
        if not atoms and not self.formulas:
            atoms = learner.least_certain(example, CHOSEN)
        for atom in atoms:
            yield compared(learner.explain(example, atom, query), predicted)


def explanations(
    trained: Path,
    config: Path | None,
    overrides: Sequence[str],
    name: str | None,
    question: Question,
) -> Iterator[Explanation | FormulaProbability]:
    """Yield the answers to a question about an example, or about the world that a run keeps.

    ``trained`` is as for predictions, or the configuration of a run; ``config`` None: that in the checkpoint.
    The run may be running. Raises ExplanationError where there is no such example or atom.
    """
    if config is not None:
        settings = load(config, overrides)
    elif trained.suffix in {".yaml", ".yml"}:
        settings = load(trained, overrides)
        trained = settings.output
    else:
        settings = _settings_of(trained, overrides)
    if bool(settings.world) != (name is None):
        reason = (
            "a world has no examples; leave it out" if name else "expected the id of an example"
        )
        raise UsageError(f"--id: {reason}")
    if name is None:
        yield from question.answers(trained_learner(settings, trained), WorldChange(), None)
        return
    path = trained / "deadletter.jsonl"
    is_folder = trained.is_dir() and parts(path)
    for number, letter in enumerate(letters(path, plain) if is_folder else (), 1):
        if letter.id == name:
            raise ExplanationError(
                f"example {name} was not predicted, it is a dead letter: {letter.reason} "
                f"(onlinesrl dlq show {trained} {number})"
            )
    example = find(settings, name)
    learner = trained_learner(settings, trained)
    compile_kernels(learner, say)
    yield from question.answers(learner, example, _recorded(trained, name))


def _settings_of(trained: Path, overrides: Sequence[str]) -> Config:
    """Return the configuration in a run's checkpoint, the newest of a folder; its source may be a journal."""
    hint = "give the configuration as well: onlinesrl explain RUN CONFIG --id ID"
    if overrides:
        raise UsageError(f"--set changes a configuration: {hint}")
    has_state = trained.is_dir() or trained.suffix == ".ckpt"
    values = load_checkpoint(trained).header.get("config") if has_state else None
    if values is None:
        raise UsageError(f"{trained}: has no configuration of a run; {hint}")
    try:
        if journal := parts(trained / REQUESTS) if trained.is_dir() else []:
            values["source"] |= {"path": [*map(str, journal)]}
        settings = run_root(values).model_validate(values)
    except (KeyError, TypeError, ValidationError):
        raise UsageError(f"{trained}: its configuration cannot be read; {hint}") from None
    if STDIN in getattr(settings.source, "path", ()):
        raise UsageError(f"{trained}: its examples came from standard input; {hint}")
    return settings


def find(config: Config, name: str) -> Example:
    """Return the first example of the configured source with an id. Raises ExplanationError."""
    reader, ids, count = make_reader(config), list[str](), 0
    for _, example in chain.from_iterable(reader.read()):
        if not isinstance(example, Example):
            continue
        if str(example.id) == name:
            return example
        count += 1
        ids += [printable(str(example.id))] * (len(ids) < SHOWN_IDS)
    contents = f"its {count:,} examples begin with {', '.join(ids)}" if ids else "it has no example"
    raise ExplanationError(f"the source has no example with the id {name}; {contents}")


def _candidates(example: Example, change: Sequence[str]) -> list[Atom]:
    """Return the atoms that may change: those given, and the example's own of given predicates."""
    atoms: list[Atom] = []
    for text in change:
        if "(" in text:
            atoms.append(read_atom(text))
        elif text in example.evidence:
            atoms += [(text, tuple(map(str, arguments(row)))) for row in example.evidence[text]]
        else:
            predicates = ", ".join(sorted(example.evidence))
            raise ExplanationError(f"the example has no evidence of {text}, but of {predicates}")
    return atoms


def _recorded(trained: Path, name: str) -> Prediction | None:
    """Return the prediction that a run has written for an example, the last one; None: there is none."""
    recorded = None
    key = json.dumps(name, ensure_ascii=False).strip('"').encode()
    for path in parts(trained / "predictions.jsonl") if trained.is_dir() else ():
        with storage_errors(path, "read"), open(path, "rb", opener=plain) as lines:
            for line in lines:
                if key in line[: len(key) + 16]:  # an answer begins with the id
                    with suppress(msgspec.MsgspecError):
                        prediction = msgspec.json.decode(line, type=Prediction)
                        recorded = prediction if str(prediction.id) == name else recorded
    return recorded
