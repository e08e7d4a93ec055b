"""Batch learning from a configuration: reads, learns, scores, and writes the result as a whole."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from onlinesrl.core.errors import ConfigError, FolderError
from onlinesrl.core.evaluation.metrics import measured
from onlinesrl.core.example import Example
from onlinesrl.core.io.atomic_write import read_plain, storage_errors, sync_folder, write_atomic
from onlinesrl.core.language import check_query, language_of
from onlinesrl.core.learning.batch import Problem, UnfitError
from onlinesrl.core.version import __version__
from onlinesrl.logic.dialect import dialect_of
from onlinesrl.runs.config.fingerprint import check_fingerprint, leaves, mismatch
from onlinesrl.runs.inputs import examples_of, worlds_of

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    from onlinesrl.mln.learning.problem import MlnProblem
    from onlinesrl.runs.config.mln_batch import MlnBatch
    from onlinesrl.runs.config.psl_batch import PslBatch

RESULT = "learned.json"
SETTINGS = "settings.json"
MOST_SHOWN = 30
"""How many weights a summary shows."""


def learn(config: MlnBatch | PslBatch, fresh: bool, say: Callable[[str], object]) -> dict[str, Any]:
    """Learn weights, write them with scores and figures to ``output``, and return ``learned.json``.

    The folder appears whole or not at all. ``say`` is told what is being done. Raises FolderError where
    there is a result already, unless ``fresh``; the located errors of the input; ConfigError; LearningError.
    """
    began, output = time.perf_counter(), config.output
    with _workshop(config, fresh) as folder:
        say("reading and grounding")
        problem, test = read_problem(config, folder), read_held_out(config)
        say("learning")
        cpu_before = sum(os.times()[:4])  # of this process, and of its children that have ended
        try:
            learned = config.learner.learn(
                problem, lambda step: say(f"step {step.number}: objective {step.objective:.8g}")
            )
        except UnfitError as error:
            raise config.error(f"learner.{error.key}", error.reason) from None
        cpu = sum(os.times()[:4]) - cpu_before
        say("scoring")
        predicted = {} if test is None else problem.predicted(learned.weights, test)
        values = config.as_dict()
        weights = zip(problem.names, problem.start.tolist(), learned.weights.tolist(), strict=True)
        result = {
            "version": __version__,
            "config": values,
            "learner": values["learner"],
            "weights": [{"rule": n, "before": before, "weight": w} for n, before, w in weights],
            "objective": [step.objective for step in learned.trace],
            "stats": dict(learned.stats),
            "warnings": [*learned.warnings],
            "scores": {name: measured(predictions) for name, predictions in predicted.items()},
            "seconds": {"learn_cpu": cpu, "all": time.perf_counter() - began},
        }
        if test is not None and not predicted:
            result["warnings"].append("no atom of the test data has a truth: nothing is scored")
        text = problem.trained(learned.weights)
        write_atomic(folder / f"weights{config.language.suffix}", text.encode())
        write_atomic(folder / RESULT, json.dumps(result, indent=2).encode(), b"\n")
        _replace(folder, output)
    return result


def summary(result: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of a summary for people."""
    trace, seconds = result["objective"], result["seconds"]
    yield f"Learner    {result['learner']['kind']}, {len(trace):,} steps"
    if trace:
        yield f"Objective  {trace[-1]:.8g}, at first {trace[0]:.8g}"
    if "best" in (stats := result["stats"]):
        best = ", ".join(f"{row['value']:.4g}" for row in stats["best"])
        yield f"Tried      {stats['configurations']:,} configurations; the best by {stats['metric']}: {best}"
    yield f"Seconds    {seconds['learn_cpu']:.2f} of CPU to learn, {seconds['all']:.2f} in all"
    for name, figures in result["scores"].items():
        written = (f"{key} {value:.4g}" for key, value in figures.items() if value is not None)
        yield f"Held out   {name}: {', '.join(written)}"
    yield f"Results    {result['config']['output']}"
    yield ""
    yield f"{'before':>10}  {'learned':>10}  rule"
    rows = result["weights"]
    if len(rows) > MOST_SHOWN:
        rows = sorted(rows, key=lambda row: -abs(row["weight"]))[:MOST_SHOWN]
    for row in rows:
        yield f"{row['before']:10.4g}  {row['weight']:10.4g}  {row['rule']}"
    if len(rows) < len(result["weights"]):
        yield f"{'':24}and {len(result['weights']) - len(rows):,} smaller ones in {RESULT}"


# what is learned from ----------------------------------------------------------------------------


def read_problem(config: MlnBatch | PslBatch, folder: Path | None) -> Problem:
    """Read the model and its data; in ``folder`` the learner may keep what it needs to resume.

    Raises the located errors of the files, and LearningError.
    """
    if not _is_psl(config):
        return mln_problem(config, mln_examples(config), folder)
    from onlinesrl.psl.learning.problem import grounded
    from onlinesrl.psl.query import infer

    model = infer.load(config.model, config.data)
    database = model.database("learn")
    return grounded(model.program, model.functions, database, config.seed, folder, config.inference)


def read_held_out(config: MlnBatch | PslBatch) -> Problem | None:
    """Return the model with the held-out data, if there are any.

    For a .json model of PSL these are by default the data of its split ``infer``.
    """
    if not _is_psl(config):
        if config.test is None:
            return None
        return mln_problem(config, mln_examples(config, "test"), None, "test")
    from onlinesrl.psl.lang.model import load_json, load_psl
    from onlinesrl.psl.learning.problem import grounded

    if config.in_json:
        model = load_json(config.test or config.model)
        if config.test is None and model.files["learn"] == model.files["infer"]:
            return None
    elif config.test is None:
        return None
    else:
        model = load_psl(config.model, config.test)
    return grounded(
        model.program, model.functions, model.database(), config.seed, inference=config.inference
    )


def check(config: MlnBatch | PslBatch, most: int) -> Iterator[str]:
    """Read the model and data of batch learning; yield what was read, at most so many worlds of a source.

    Raises the located errors of the files, and ConfigError.
    """
    yield f"learner: {config.learner.kind}"
    if _is_psl(config):
        from onlinesrl.psl.query import infer

        model = infer.load(config.model, config.data)
        yield f"model: {len(model.program.rules)} rules"
        for name, relation in model.database("learn").relations.items():
            n_true = int(np.sum(~np.isnan(relation.target_truth())))
            targets = f", {len(relation.targets)} targets, {n_true} with a truth"
            yield f"{name}: {len(relation.observed)} observed{'' if relation.closed else targets}"
        return
    for section in ("source", "test") if config.test is not None else ("source",):
        examples = [*islice(mln_examples(config, section), most)]
        problem = mln_problem(config, examples, None, section)
        if section == "source":
            yield f"model: {len(problem.program.rules)} rules"
        atoms = sum(map(len, problem.worlds))
        yield f"{section}: {len(problem.worlds)} worlds with {atoms:,} atoms"


def _is_psl(config: MlnBatch | PslBatch) -> TypeIs[PslBatch]:
    return config.language is language_of(".psl")


def mln_examples(
    config: MlnBatch, section: Literal["source", "test"] = "source"
) -> Iterator[tuple[str, Example]]:
    """Yield the examples of a section's source, with their places."""

    def misfit(key: str, reason: str) -> ConfigError:
        return config.error(f"{section}.{key}", reason)

    source = config.source if section == "source" or config.test is None else config.test
    return examples_of(source, config.query, dialect_of(config.dialect), misfit)


def mln_problem(
    config: MlnBatch,
    examples: Iterable[tuple[str, Example]],
    folder: Path | None,
    section: Literal["source", "test"] = "source",
) -> MlnProblem:
    """Return the problem of examples of a section, with their places."""
    from onlinesrl.mln.learning.problem import LIMITS, MlnProblem, checked

    program = config.language.load(config.model, config.dialect)
    dialect = dialect_of(config.dialect)
    check_query(program, config)
    source = config.source if section == "source" or config.test is None else config.test
    placed = [*worlds_of(examples, source, program, dialect)]
    limits = replace(LIMITS, atoms=config.max_atoms, groundings=config.max_groundings)
    problem = MlnProblem(
        program,
        [atoms for _, atoms in placed],
        config.query,
        dialect,
        config.method,
        config.seed,
        folder,
        limits,
        config.samples,
        [place for place, _ in placed],
    )
    return checked(problem, section)


# folders -----------------------------------------------------------------------------------------


@contextmanager
def _workshop(config: MlnBatch | PslBatch, fresh: bool) -> Iterator[Path]:
    """Make the folder in which a result comes about, or find that of a process that was stopped.

    At an error it goes unless a learner keeps something there. Raises FolderError where ``output`` is not
    a folder that may be made or replaced, MismatchError where what is kept is of another configuration.
    """
    output = config.output
    with storage_errors(output, "read"):
        results = [*output.iterdir()] if output.is_dir() else [output] if output.exists() else []
    if results and not (output / RESULT).is_file():
        raise FolderError(f"{output}: not a result of learning; choose another output")
    if results and not fresh:
        raise FolderError(f"{output}: there is a result already; --fresh replaces it")
    folder = output.with_name(f".{output.name}.part")
    settings = _compared(dict(leaves(config.as_dict())))
    with storage_errors(folder, "make the folder"):
        if fresh or not _kept(folder):
            shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
    settings_file = folder / SETTINGS
    if settings_file.is_file():
        settings_before = _compared(json.loads(read_plain(settings_file)))
        check_fingerprint(folder, mismatch(settings_before, settings))
    write_atomic(settings_file, json.dumps(settings).encode())
    try:
        yield folder
    finally:
        if folder.exists() and not _kept(folder):
            shutil.rmtree(folder, ignore_errors=True)


def _compared(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings on which a result depends."""
    elsewhere = ("output", "learner.engine", "learner.address", "learner.workers")
    return {key: value for key, value in settings.items() if key not in elsewhere}


def _kept(folder: Path) -> bool:
    """Tell whether a learner keeps something in a folder."""
    return folder.is_dir() and any(file.name != SETTINGS for file in folder.iterdir())


def _replace(folder: Path, output: Path) -> None:
    """Put a finished folder in the place of ``output``."""
    old = output.with_name(f".{output.name}.old")
    with storage_errors(output, "write"):
        (folder / SETTINGS).unlink()
        shutil.rmtree(old, ignore_errors=True)
        if output.exists():
            output.rename(old)
        folder.rename(output)
        sync_folder(output.parent)
        shutil.rmtree(old, ignore_errors=True)
