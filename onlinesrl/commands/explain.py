"""onlinesrl explain: why a prediction is as it is, and what would change it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from onlinesrl.commands.common import Overrides, located, with_records
from onlinesrl.core.errors import legible


@dataclass(frozen=True)
class QuestionArguments:
    """What is asked about an example."""

    atom: Annotated[
        list[str],
        typer.Option(
            metavar="'P(a, b)'", help="The atom to explain; by default the least certain ones."
        ),
    ] = field(default_factory=list)
    change: Annotated[
        list[str],
        typer.Option(
            metavar="'P(a, b)'|P",
            help="Evidence that may change to flip it: an atom, or the example's own of a predicate.",
        ),
    ] = field(default_factory=list)
    tries: Annotated[
        int, typer.Option(min=0, help="How many changes of the evidence are tried; 0: none.")
    ] = 1000
    formula: Annotated[
        list[str],
        typer.Option(
            metavar="F", help="Markov logic: a formula; its probability in place of explanations."
        ),
    ] = field(default_factory=list)
    given: Annotated[
        list[str],
        typer.Option(
            metavar="F", help="The probabilities on the condition that this formula holds."
        ),
    ] = field(default_factory=list)


@with_records
def explain(
    trained: Annotated[
        Path,
        typer.Argument(
            metavar="TRAINED",
            parser=located,
            help="A run folder, a run's YAML file, a checkpoint, an .mln or a .psl file.",
        ),
    ],
    config: Annotated[
        Path | None,
        typer.Argument(metavar="CONFIG", help="A run's YAML file; else that of the run."),
    ] = None,
    id_: Annotated[
        str | None,
        typer.Option("--id", metavar="ID", help="The id of the example; none for a world."),
    ] = None,
    *,
    asked: QuestionArguments,
    set_: Overrides = [],  # noqa: B006
    json_: Annotated[bool, typer.Option("--json", help="As JSON, to the last bit.")] = False,
) -> None:
    """Explain a prediction: the ground rules for and against it, and what would flip it."""
    from onlinesrl.core.explain.explanation import read_atom
    from onlinesrl.runs.explain import Question, explanations

    atoms = [*map(read_atom, asked.atom)]
    question = Question(atoms, asked.change, asked.tries, asked.formula, asked.given)
    explained = explanations(trained, config, set_, id_, question)
    if json_:
        print(json.dumps([explanation.as_dict() for explanation in explained], indent=2))
        return
    for number, explanation in enumerate(explained):
        print(legible("\n" * (number > 0) + str(explanation)), flush=True)
