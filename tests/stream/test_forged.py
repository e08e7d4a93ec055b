"""Checkpoints with a valid SHA-256 that somebody made: refused in one line, or used without harm."""

import copy
import json
import os
import random
import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from conftest import Job, command, tiers, wait

from onlinesrl.core.io.checkpoint_file import load, write
from tests.psl.test_psl_run import LINES as TRUSTED
from tests.support import world_changes
from tests.support.trust_program import MODEL as TRUST

ROOM = 1 << 30
"""How many bytes more than it has when it begins a process may have."""
REFUSED = {0, 64, 65, 74, 78}
VALUES = (
    None,
    -1,
    0,
    3,
    2**62,
    2**70,
    1.5,
    1e308,
    "x",
    "",
    [],
    {},
    [[]],
    True,
    [1, 2, 3],
    {"a": 1},
)


def kinds(job: Callable[..., Job], folder: Path, citations: list[bytes]) -> Iterator[Job]:
    """Yield runs whose checkpoints hold different parts."""
    (folder / "trust.psl").write_text(TRUST)
    psl = {"model": str(folder / "trust.psl"), "query": "Trusts", "metrics": {}}
    every = {"checkpoint": {"every": 5}, "batch": 4}
    learner = {"update": "adagrad"}
    labels = [json.loads(line) for line in citations[:12]]
    bare = [json.dumps({**each, "truth": None}).encode() + b"\n" for each in labels]
    yield job(citations[:12], "plain", sink={"kind": "parquet"}, **every)
    yield job(citations[:12], "rounds", distribute={"shards": 2, "workers": 1, "round": 3})
    yield job(citations[:12], "drift", drift={}, learner=learner, **every)
    yield job([*bare[:6], *citations[6:12]], "labels", labels={}, **every)
    for soft in (True, False):
        model = folder / ("world.psl" if soft else "world.mln")
        model.write_text(world_changes.PSL if soft else world_changes.MLN)
        lines = world_changes.encoded(world_changes.changes(12, soft))
        values = {"model": str(model), "query": "Good", "world": True, "metrics": {}}
        yield job(lines, f"world {soft}", limits={"bad_share": 1.0}, **values, **every)
    yield job(TRUSTED[:12], "psl", drift={}, learner=learner, **psl, **every)


def with_number(array: np.ndarray, place: int | slice, number: float) -> np.ndarray:
    """Return an array, as numbers of this type, with another one at some places."""
    other = array.astype(type(number)) if np.isnan(number) else array.copy()
    with suppress(OverflowError, IndexError):
        other.reshape(-1)[place] = number
    return other


ALL, ONE = slice(None), slice(-1, None)
MUTATIONS: tuple[Callable[[np.ndarray], np.ndarray | None], ...] = (
    lambda array: None,
    lambda array: array[: len(array) // 2],
    lambda array: array[::-1],
    lambda array: array.astype(np.complex128),
    lambda array: array.astype(np.float32),
    lambda array: array.reshape(-1).view(np.uint8),
    lambda array: array.reshape(-1)[:, None],
    lambda array: np.concatenate([array, array]),
    lambda array: with_number(array, ALL, float("nan")),
    *(
        lambda array, place=place, number=number: with_number(array, place, number)  # type: ignore[misc]
        for place in (ALL, ONE, slice(None, None, 7))
        for number in (-1, 3, 10**6, 2**30, -(10**6), 2**63 - 1, 10**12, 1e308, float("inf"))
    ),
)
"""What becomes of an array; None: it is not there."""


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths to all values of a header, of lists those of the first."""
    inside = value.items() if isinstance(value, dict) else enumerate(value[:6])
    for key, each in inside:
        yield (*path, key)
        if isinstance(each, dict | list) and len(path) < 6:
            yield from places(each, (*path, key))


def mutate_header(header: dict[str, Any], dice: random.Random, foreign: Path) -> str:
    """Change or remove one value of a header; return a description."""
    *path, last = dice.choice([*places(header)])
    inside: Any = header
    for key in path:
        inside = inside[key]
    texts = (f'#include "{foreign}"\n{header["model"]}', str(foreign), f"../../{foreign.name}")
    value = dice.choice([*VALUES, *texts, "removed"])
    if value == "removed":
        del inside[last]
    else:
        inside[last] = copy.deepcopy(value)
    return f"header {[*path, last]} = {value!r}"


def forge(path: Path, source: Path, seed: int, foreign: Path) -> str:
    """Write a checkpoint that differs in a value or an array; return a description."""
    dice, known = random.Random(seed), load(source)
    header, arrays = known.header, dict(known.arrays)
    if dice.random() < 0.5:
        name = dice.choice([*arrays])
        array = dice.choice(MUTATIONS)(arrays.pop(name))
        arrays |= {} if array is None else {name: array}
        said = f"array {name}: {'removed' if array is None else array.dtype}"
    else:
        said = mutate_header(header, dice, foreign)
    path.parent.mkdir(parents=True, exist_ok=True)
    for old in path.parent.iterdir():
        old.unlink()
    write(path, known.number, header, arrays)
    return f"seed {seed}: {said}"


def limited(foreign: Path) -> None:
    """Bound the memory of this process; open no foreign file."""
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + ROOM, now + ROOM))

    def heed(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(arguments[0], str | bytes | os.PathLike):
            with suppress(OSError, ValueError):
                if os.path.samefile(arguments[0], foreign):  # noqa: PTH121
                    os.write(2, b"Traceback: a foreign file was opened\n")
                    os._exit(99)

    sys.addaudithook(heed)


def set_(key: str, value: object) -> tuple[str, str]:
    return "--set", f"{key}={value}"


def tried(run: Job, foreign: Path, checkpoint: Path) -> list[int]:
    """Do with a checkpoint what a user may, in one process; return the exit codes."""
    codes = run.folder / "codes"
    said: list[int] = []
    begun = set_("output", run.folder / "begun")

    def work() -> None:
        limited(foreign)
        for arguments in (
            ("checkpoint", "verify", str(checkpoint)),
            ("weights", str(checkpoint)),
            ("evaluate", str(checkpoint), str(run.config)),
            ("run", str(run.config), "--fresh", *set_("learner.start", checkpoint), *begun),
            ("run", str(run.config)),
        ):
            said.append(command(*arguments))
        from onlinesrl.commands.dashboard import worker

        before = str(checkpoint)
        shown = worker.answer({"task": "look", "checkpoint": before, "before": before})
        for each in shown.get("examples", [])[:1]:
            pair = msgspec.to_builtins(each["pair"])
            worker.answer({"task": "explain", "folder": before, "pair": pair, "atom": None})
        codes.write_text(json.dumps(said))
        os._exit(0)

    assert wait(run.fork("guide", first=work)) == 0, run.said
    return [int(code) for code in json.loads(codes.read_text())]


@tiers("forgeries", 1, 50)
def test_forged_checkpoints_do_no_harm(job, citations, tmp_path, tally, forgeries):
    """No signal, no traceback, no file opened that is not of the run, and memory that is bounded."""
    foreign = tmp_path / "foreign.mln"
    foreign.write_text("secret of somebody else\n")
    few = 2 if forgeries == 1 else 1
    for number, run in list(enumerate(kinds(job, tmp_path, citations)))[::few]:
        assert run.run("--until", "10") == 0, run.said
        own = set_("output", tmp_path / "own")
        assert run.call("run", run.config, "--fresh", *own) == 0  # forks then have its kernels
        source = run.checkpoints()[-1]
        whole = tmp_path / "whole.ckpt"
        whole.write_bytes(source.read_bytes())
        assert forgeries == 1 or tried(run, foreign, source)[0] == 0
        for seed in range(forgeries):
            said = forge(source, whole, 1000 * number + seed, foreign)
            codes = tried(run, foreign, source)
            assert set(codes) <= REFUSED, (said, codes, run.said)
            assert "Traceback" not in run.said, (said, codes, run.said)
            assert "secret" not in run.said + run.printed, said
            tally["forged checkpoints"] += 1
    assert foreign.read_text() == "secret of somebody else\n"
