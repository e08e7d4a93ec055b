"""Compare batch learners of Markov logic: each is tested on every fold, having learned from the others.

usage: python streams/papers/batch/compare.py CONFIG EXAMPLES [--learner KEY=VALUE,...]

CONFIG is one of configs/; EXAMPLES is a file of streams/papers/convert.py, with each fold as a group. A
learner is a kind and other keys, such as kind=contrastive-divergence,steps=50; by default several are
compared, and the model of the unit clauses. Prints the conditional log-likelihood of the query's atoms with
its standard error, CPU seconds of learning and in all, and memory.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import yaml

import onlinesrl as srl

LEARNERS = (
    "kind=mple,prior_sd=2",
    "kind=contrastive-divergence,prior_sd=2",
    "kind=voted-perceptron,prior_sd=2",
)
WIDE = 84
"""Of the column of learners."""
UNIT = "unit clauses"
HEAD = (
    f"{'test':14}{'learner':{WIDE}}{'CLL':>10}{'se':>8}{'AUROC':>8}{'CPU s':>8}{'all':>8}{'MB':>7}"
)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("config", type=Path)
    parser.add_argument("examples", type=Path)
    parser.add_argument("--learner", action="append", metavar="KEY=VALUE,...")
    given = parser.parse_args()
    path = str(given.examples.resolve())
    folds = dict.fromkeys(str(example.group) for example in srl.read(path))
    if len(folds) < 2:
        parser.error("expected examples of two groups or more")
    print(HEAD)
    for fold in folds:
        source, test = {"path": path, "without": fold}, {"path": path, "only": fold}
        for learner in (UNIT, *(given.learner or LEARNERS)):
            print(tested(given.config, source, test, fold, learner), flush=True)


class Row(NamedTuple):
    """What came of a learner on a fold: means over predicates, CPU seconds of learning and in all, MB."""

    test: str
    learner: str
    cll: float
    error: float
    auroc: float
    cpu: float
    cpu_of_all: float
    megabytes: float
    weights: list[float]

    def __str__(self) -> str:
        """Return a line of the table."""
        scores = f"{self.cll:10.4f}{self.error:8.4f}{self.auroc:8.3f}"
        used = f"{self.cpu:8.1f}{self.cpu_of_all:8.1f}{self.megabytes:7.0f}"
        return f"{self.test:14}{self.learner:{WIDE}}{scores}{used}"


Section = Mapping[str, str]
"""A section of the configuration: a file and its groups."""


def tested(path: Path, source: Section, test: Section, name: str, learner: str) -> Row:
    """Learn from a source, and score a test of that name."""
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config.yaml"
        config.write_text(json.dumps(settings(path, source, test, learner, Path(folder))))
        result, usage = run(config)
    scores = result["scores"].values()  # of each predicate
    cll, error, auroc = (fmean(of[key] for of in scores) for key in ("cll", "cll_se", "auroc"))
    used = (result["seconds"]["learn_cpu"], usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)
    weights = [each["weight"] for each in result["weights"]]
    return Row(name, learner, cll, error, auroc, *used, weights)


def settings(
    path: Path, source: Section, test: Section, learner: str, folder: Path
) -> Mapping[str, Any]:
    """Return the configuration that learns from a source, and is tested on another."""
    values: dict[str, Any] = yaml.safe_load(path.read_text())
    model = path.parent / values["model"]
    if learner == UNIT:
        text = "\n".join(units(srl.Model.read(model)))
        model, learner = folder / "unit.mln", LEARNERS[0]
        model.write_text(text)
    keys = (part.partition("=") for part in learner.split(","))
    return values | {
        "model": str(model.resolve()),
        "source": source,
        "test": test,
        "output": str(folder / "out"),
        "learner": {key: yaml.safe_load(value) for key, _, value in keys},
    }


def units(model: srl.Model) -> Iterator[str]:
    """Yield the lines of a model without its rules of several literals."""
    for each in model.text.splitlines():
        if "=>" not in each and " ^ " not in each:
            yield each


def run(config: Path) -> tuple[dict[str, Any], resource.struct_rusage]:
    """Learn in a process of its own; return the result and what it used."""
    command = [Path(sys.executable).with_name("onlinesrl"), "learn", config]
    with (config.parent / "said").open("w+") as said:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=said)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        if process.returncode:
            sys.exit(said.read().strip().splitlines()[-1])
    result: dict[str, Any] = json.loads((config.parent / "out" / "learned.json").read_text())
    return result, usage


if __name__ == "__main__":
    main()
