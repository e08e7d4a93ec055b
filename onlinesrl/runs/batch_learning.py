"""Batch learning from a configuration: reads, learns, scores, and writes the result as a whole."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from onlinesrl.core.errors import FolderError
from onlinesrl.core.evaluation.metrics import measured
from onlinesrl.core.io.atomic_write import read_plain, storage_errors, sync_folder, write_atomic
from onlinesrl.core.learning.batch import Learned, Problem, Step, UnfitError
from onlinesrl.core.version import __version__
from onlinesrl.runs.config.batch import Batch
from onlinesrl.runs.config.fingerprint import check_fingerprint, leaves, mismatch

RESULT = "learned.json"
SETTINGS = "settings.json"
MOST_SHOWN = 30
"""How many weights a summary shows."""


def learn(config: Batch, fresh: bool, say: Callable[[str], object]) -> dict[str, Any]:
    """Learn weights, write them with scores and figures to ``output``, and return ``learned.json``.

    The folder appears whole or not at all. ``say`` is told what is being done. Raises FolderError where
    there is a result already, unless ``fresh``; the located errors of the input; ConfigError; LearningError.
    """
    began, output = time.perf_counter(), config.output
    _check_free(output, fresh)
    with _workshop(config, fresh) as folder:
        say("reading and grounding")
        problem, test = config.problem(folder), config.held_out()
        say("learning")
        clock = _cpu_seconds()
        learned = _learned(config, problem, say)
        cpu = _cpu_seconds() - clock
        say("scoring")
        predicted = {} if test is None else problem.predicted(learned.weights, test)
        result = _result(config, problem, learned) | {
            "scores": {name: measured(of) for name, of in predicted.items()},
            "seconds": {"learn_cpu": cpu, "all": time.perf_counter() - began},
        }
        if test is not None and not predicted:
            result["warnings"].append("no atom of the test data has a truth: nothing is scored")
        text = problem.trained(learned.weights)
        write_atomic(folder / f"weights{config.language.suffix}", text.encode())
        write_atomic(folder / RESULT, json.dumps(result, indent=2).encode(), b"\n")
        _replace(folder, output)
    return result


def _learned(config: Batch, problem: Problem, say: Callable[[str], object]) -> Learned:
    try:
        return config.batch_learner.learn(problem, _watch(say))
    except UnfitError as error:
        raise config.error(f"learner.{error.key}", error.reason) from None


def _cpu_seconds() -> float:
    """Return the CPU seconds of this process, and of those it has started and that have ended."""
    return sum(os.times()[:4])


def summary(result: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of a summary for people."""
    trace, seconds = result["objective"], result["seconds"]
    yield f"Learner    {result['learner']['kind']}, {len(trace):,} steps"
    if trace:
        yield f"Objective  {trace[-1]:.8g}, at first {trace[0]:.8g}"
    if "best" in (stats := result["stats"]):
        best = ", ".join(f"{each['value']:.4g}" for each in stats["best"])
        yield f"Tried      {stats['configurations']:,} configurations; the best by {stats['metric']}: {best}"
    yield f"Seconds    {seconds['learn_cpu']:.2f} of CPU to learn, {seconds['all']:.2f} in all"
    for name, figures in result["scores"].items():
        known = (f"{key} {value:.4g}" for key, value in figures.items() if value is not None)
        yield f"Held out   {name}: {', '.join(known)}"
    yield f"Results    {result['config']['output']}"
    yield ""
    yield f"{'before':>10}  {'learned':>10}  rule"
    shown = result["weights"]
    if len(shown) > MOST_SHOWN:
        shown = sorted(shown, key=lambda each: -abs(each["weight"]))[:MOST_SHOWN]
    for each in shown:
        yield f"{each['before']:10.4g}  {each['weight']:10.4g}  {each['rule']}"
    if len(shown) < len(result["weights"]):
        yield f"{'':24}and {len(result['weights']) - len(shown):,} smaller ones in {RESULT}"


def _watch(say: Callable[[str], object]) -> Callable[[Step], object]:
    return lambda step: say(f"step {step.number}: objective {step.objective:.8g}")


def _result(config: Batch, problem: Problem, learned: Learned) -> dict[str, Any]:
    """Return what is known of learned weights, as plain JSON."""
    values = config.as_dict()
    weights = zip(problem.names, problem.start.tolist(), learned.weights.tolist(), strict=True)
    return {
        "version": __version__,
        "config": values,
        "learner": values["learner"],
        "weights": [{"rule": n, "before": before, "weight": w} for n, before, w in weights],
        "objective": [step.objective for step in learned.trace],
        "stats": dict(learned.stats),
        "warnings": [*learned.warnings],
    }


# folders -----------------------------------------------------------------------------------------


def _check_free(output: Path, fresh: bool) -> None:
    """Raise FolderError where ``output`` is not a folder that may be made, or replaced."""
    with storage_errors(output, "read"):
        there = [*output.iterdir()] if output.is_dir() else [output] if output.exists() else []
    if not there:
        return
    if not (output / RESULT).is_file():
        raise FolderError(f"{output}: not a result of learning; choose another output")
    if not fresh:
        raise FolderError(f"{output}: there is a result already; --fresh replaces it")


@contextmanager
def _workshop(config: Batch, fresh: bool) -> Iterator[Path]:
    """Make the folder in which a result comes about, or find that of a process that was stopped.

    At an error it goes unless a learner keeps something there. Raises MismatchError where what is kept is
    of another configuration.
    """
    folder = config.output.with_name(f".{config.output.name}.part")
    settings = _compared(dict(leaves(config.as_dict())))
    with storage_errors(folder, "make the folder"):
        if fresh or not _kept(folder):
            shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
    known = folder / SETTINGS
    if known.is_file():
        kept = _compared(json.loads(read_plain(known)))
        check_fingerprint(folder, mismatch(kept, settings))
    write_atomic(known, json.dumps(settings).encode())
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
