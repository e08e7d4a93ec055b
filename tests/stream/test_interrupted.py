"""A signal ends a search: its example is not taken, and the run goes on from there, bit for bit."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import numpy as np
import pytest
from conftest import REPO, long, soaked, wait

from onlinesrl.core import interrupt
from onlinesrl.core.errors import Infeasible
from onlinesrl.mln.ground.convert import network_of
from onlinesrl.mln.ground.ground_mrf import Floats, GroundMRF
from onlinesrl.mln.inference.elimination import Elimination
from onlinesrl.mln.inference.ilp import Ilp
from onlinesrl.mln.inference.ilp_solvers import SOLVERS
from onlinesrl.mln.inference.maxwalksat import WalkSat
from onlinesrl.mln.inference.protocols import Wide
from onlinesrl.mln.kernels import elimination_order
from tests.support.ground_mrfs import clause_model
from tests.support.waiting import PATIENCE, until

DENSE = """Friends(person, person)
Rivals(person, person)
Smokes(person)
Cancer(person)
0.7 Smokes(x) => Cancer(x)
-0.4 Smokes(x)
-0.6 Cancer(x)
0.9 Friends(x, y) => (Smokes(x) <=> Smokes(y))
-0.8 Rivals(x, y) => (Smokes(x) <=> Smokes(y))
0.5 Friends(x, y) ^ Cancer(x) => Cancer(y)
"""


def people(number: int, count: int, density: float) -> bytes:
    """Who of so many are friends and who are rivals, and who smokes; dense ones stall a search."""
    rng = random.Random(number)
    pairs = [(a, b) for a in range(count) for b in range(count) if a != b]
    related: dict[str, list[list[int]]] = {"Friends": [[0, 0]], "Rivals": []}
    for a, b in pairs:
        if rng.random() < density:
            related[rng.choice(["Friends", "Rivals"])].append([a, b])
    smokes = [[a] for a in {a for rows in related.values() for row in rows for a in row} if a % 3]
    truth = {"Smokes": smokes, "Cancer": smokes[::2]}
    return json.dumps({"id": number, "evidence": related, "truth": truth}).encode() + b"\n"


def frustrated(rng: np.random.Generator, atoms: int) -> tuple[GroundMRF, Floats]:
    """A spin glass on all pairs: no relaxation is near its best state."""
    pairs = [(a, b) for a in range(1, atoms + 1) for b in range(1, a)]
    weighted = [*zip(rng.choice([-1.0, 1.0], len(pairs)), pairs, strict=True)]
    rows = [(w, [a, -b]) for w, (a, b) in weighted] + [(w, [-a, b]) for w, (a, b) in weighted]
    return clause_model(atoms, rows)


@contextmanager
def suppress_into(found: list[BaseException]) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        found.append(error)


EASY = [people(number, 5, 0.4) for number in range(4)]
STALLS = people(95, 95, 0.1)


@pytest.fixture
def stream(job, tmp_path):
    (tmp_path / "dense.mln").write_text(DENSE)
    keys = {"model": str(tmp_path / "dense.mln"), "query": ["Smokes", "Cancer"], "metrics": {}}

    def make(lines, name="job", **more):
        return job(lines, name, **{**keys, **more})

    return make


@pytest.mark.parametrize(
    ("solver", "number"),
    [
        ("highs", signal.SIGTERM),
        long("cbc", signal.SIGINT),
        soaked("highs", signal.SIGINT),
        soaked("cbc", signal.SIGTERM),
    ],
)
def test_a_signal_ends_a_search_that_takes_minutes(stream, number, solver):
    run = stream([*EASY, STALLS, *EASY], inference={"solver": solver, "max_work": None})
    process = run.start()
    until(lambda: "example 95: " in run.said)  # which takes longer than others
    os.kill(process, number)
    assert wait(process) == 0, run.said
    assert "stopping, with a checkpoint; a second signal stops at once\n" in run.said
    assert f"stopped after {len(EASY)} examples; run it again to resume" in run.said
    assert [p["id"] for p in run.lines("predictions.jsonl")] == list(range(len(EASY)))
    assert len(run.checkpoints()) == 1
    if solver == "cbc":  # which counts no work
        return
    limit = ("--set", "inference.max_work=1000")
    assert run.run(*limit) == 0, run.said
    expected = run.results()
    certified = [p["certified"] for p in run.lines("predictions.jsonl")]
    assert certified == [*[True] * 4, False, *[True] * 4]
    assert run.run("--fresh", *limit) == 0, run.said
    assert run.results() == expected


def labelled_later(line: bytes) -> list[bytes]:
    """An example without its truth, and the truth."""
    example = json.loads(line)
    label = {"id": example["id"], "truth": example.pop("truth")}
    return [json.dumps(part).encode() + b"\n" for part in (example, label)]


def test_a_kernel_looks_at_signals_and_what_it_leaves_is_no_answer():
    model, _ = clause_model(51, [(1.0, [n + 1, -(n + 2)]) for n in range(50)])
    hard = clause_model(2, [(None, [1]), (None, [2])])
    engines = (Elimination(), WalkSat(tries=1, flips=2**40))
    with interrupt.noted():
        interrupt.flag()[0] = 1
        for engine in engines:
            with suppress(Infeasible, Wide):
                engine.solve(*hard)
        net, _ = network_of(model)
        memory = elimination_order.structure_memory(60, 60, 1000, 10_000, interrupt.flag())
        assert elimination_order.structure(net, memory) == elimination_order.WIDE
    assert (
        elimination_order.structure(net, elimination_order.structure_memory(60, 60, 1000, 10_000))
        == 0
    )


def test_a_search_that_was_left_has_no_answer_and_no_error():
    with interrupt.noted(), pytest.raises(interrupt.Interrupted), interrupt.leavable():
        interrupt.flag()[0] = 1
        raise Infeasible("as a kernel that was left has it")
    with interrupt.noted():
        with interrupt.leavable():
            pass
        with pytest.raises(interrupt.Interrupted), interrupt.leavable():
            interrupt.note()
        with pytest.raises(interrupt.Interrupted):
            interrupt.check()
    interrupt.check()


def test_the_system_notes_a_signal_before_its_handler_runs():
    before = signal.signal(signal.SIGUSR1, lambda *_: None)
    try:
        with interrupt.noted():
            signal.raise_signal(signal.SIGUSR1)
            assert interrupt.flag()[0] == signal.SIGUSR1
            page = interrupt.flag()
        signal.raise_signal(signal.SIGUSR1)
        assert not interrupt.flag()[0]
        assert not page[1]
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_solver_leaves_where_it_is_asked_to_on_another_thread(solver):
    model, weights = frustrated(np.random.default_rng(1), 60)
    ilp, found = Ilp(solver), list[BaseException]()

    def search():
        with suppress_into(found), interrupt.leavable():
            ilp.solve(model, weights)

    with interrupt.noted():
        thread = threading.Thread(target=search)
        thread.start()
        time.sleep(0.5)
        interrupt.flag()[0] = 1
        thread.join(PATIENCE)
        assert not thread.is_alive()
    assert [type(each) for each in found] == [interrupt.Interrupted]
    assert ilp.solve(*clause_model(1, [(1.0, [1])])).certified


def test_a_signal_while_kernels_are_compiled_ends_the_run(job, citations, tmp_path):
    run = job(citations[:5])
    with subprocess.Popen(
        [
            sys.executable,
            "-c",
            "from onlinesrl.commands.cli import main; main()",
            "run",
            str(run.config),
        ],
        env=os.environ | {"PYTHONPATH": str(REPO), "NUMBA_CACHE_DIR": str(tmp_path / "empty")},
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith(b"compiling")
        process.terminate()
        assert b"stopped after 0 examples" in process.stderr.read()
    assert process.returncode == 0
    assert run.run() == 0, run.said
    assert len(run.lines("predictions.jsonl")) == 5
