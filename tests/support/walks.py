"""Count the files that a citation, and ``infer``, pass through.

usage: python tests/support/walks.py [--files]

A walk is the sequence of Python functions of the package that are called. A kernel is part of the function
that calls it. What runs while modules are imported does not count. The walk of a citation goes from one call
of the sink to the next, in a run whose micro-batches have one citation. Printed are functions, files and
changes of folder from one call to the next, and with ``--files`` the files.
"""

import argparse
import contextlib
import io
import itertools
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

REPO = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPO))
PACKAGE = f"{REPO / 'onlinesrl'}/"
CITATIONS = REPO / "streams" / "citations"
INFER = """
Friends(person, person)
Smokes(person)
Cancer(person)

1.5 Smokes(x) => Cancer(x)
1.1 Friends(x, y) => (Smokes(x) <=> Smokes(y))
"""
Call = tuple[str, str]
"""The file, from the package's folder on, and the function."""


def traced(work: Callable[[], object]) -> list[Call]:
    """Return the calls within the package, in order, but for those while a module is imported."""
    calls: list[Call] = []
    importing = 0

    def profile(frame: FrameType, event: str, _: Any) -> None:
        nonlocal importing
        code = frame.f_code
        if code.co_name == "<module>":
            importing += {"call": 1, "return": -1}.get(event, 0)
        elif event == "call" and not importing and code.co_filename.startswith(PACKAGE):
            calls.append((code.co_filename.removeprefix(PACKAGE), code.co_qualname))

    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


def command(*arguments: str | Path) -> None:
    """Run a command of onlinesrl in this process, quietly."""
    from onlinesrl.commands.cli import app

    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        app([str(argument) for argument in arguments], standalone_mode=False)


def of_a_citation(folder: Path) -> list[Call]:
    """Return what is called from the answer to one citation to the answer to the next."""
    keys = {"output": folder / "run", "batch": 1, "checkpoint.every": 1000, "metrics.every": 1000}
    settings = [part for key, value in keys.items() for part in ("--set", f"{key}={value}")]
    run = ("run", REPO / "configs" / "citations.yaml", *settings, "--fresh", "--until", "9")
    command(*run)  # compiles
    calls = traced(lambda: command(*run))
    answers = [
        number
        for number, (file, function) in enumerate(calls)
        if file.startswith("stream/sinks/") and function.endswith(".write")
    ]
    return calls[answers[5] + 1 : answers[6] + 1]


def of_infer(folder: Path) -> list[Call]:
    """Return what ``infer`` calls for a small model and a database."""
    model, evidence = folder / "model.mln", folder / "evidence.db"
    model.write_text(INFER)
    evidence.write_text("Friends(Anna, Bob)\nSmokes(Anna)\n")
    world = (
        "--model",
        model,
        "--evidence",
        evidence,
        "--query",
        "Cancer",
        "--closed",
        "Friends,Smokes",
    )
    infer = ("infer", *world, "--output", folder / "answer.txt")
    command(*infer)  # loads kernels
    return traced(lambda: command(*infer))


def show(name: str, calls: list[Call], files: bool) -> None:
    """Print the length of a walk, and its files if asked for."""
    passed = list(dict.fromkeys(file for file, _ in calls))
    folders = [str(Path(file).parent) for file, _ in calls]
    changes = sum(one != other for one, other in itertools.pairwise(folders))
    print(f"{name}: {len(set(calls))} functions, {len(passed)} files, {changes} changes of folder")
    if files:
        print("\n".join(f"  {file}" for file in passed))


def main() -> None:
    """Print both walks."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--files", action="store_true")
    files = parser.parse_args().files
    with tempfile.TemporaryDirectory() as name:
        show("a citation", of_a_citation(Path(name)), files)
        show("infer", of_infer(Path(name)), files)


if __name__ == "__main__":
    main()
