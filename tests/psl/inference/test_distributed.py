"""One PSL model in parts: certified, the same bits wherever the parts are held, whoever dies."""

import json
import os
import signal
import sys
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
from conftest import command, long, tiers

from onlinesrl.core.errors import Infeasible
from onlinesrl.core.io.checkpoint_file import load, write
from onlinesrl.core.parallel.executors import Forks, Inline, Pool
from onlinesrl.core.parallel.task_result import PartError
from onlinesrl.psl.ground.grounder import Grounder
from onlinesrl.psl.inference import admm_distributed, resume_file
from onlinesrl.psl.inference.admm import Admm
from onlinesrl.psl.inference.admm_distributed import DistributedAdmm, PartRows, Task
from onlinesrl.psl.lang.data import AtomTable, Database, Relation
from onlinesrl.psl.lang.reader import parse

MEMORY = 100_000_000
RULES = """
10: Block(P1, A) & Block(P2, A) & Similar(P1, P2) & P1 != P2 -> Friends(P1, P2) ^2
10: Block(P1, A) & Block(P2, A) & Block(P3, A) & Friends(P1, P2) & Friends(P2, P3)
    & P1 != P2 & P2 != P3 & P1 != P3 -> Friends(P1, P3) ^2
1: !Friends(P1, P2) ^2
2: Friends(P1, +P2) = 1 {P2: Similar(P1, P2)}
Friends(P1, P2) = Friends(P2, P1) .
"""
PROGRAM = parse(RULES, declared={"Block": 2, "Similar": 2, "Friends": 2})
WEIGHTS = np.array([rule.weight or 0.0 for rule in PROGRAM.rules])


def table(pairs, values=None):
    columns = np.array(pairs, np.int32).reshape(-1, 2).T.copy()
    return AtomTable(columns, np.full(columns.shape[1], np.nan if values is None else values))


def data(people=9, blocks=3):
    random = np.random.default_rng(0)
    pairs = [(a, b) for a in range(people) for b in range(people) if a != b]
    similar = AtomTable(table(pairs).columns, random.random(len(pairs)).round(2))
    none = table([])
    relations = {
        "Block": Relation(
            table([(p, people + p % blocks) for p in range(people)], 1.0), none, none
        ),
        "Similar": Relation(similar, none, none),
        "Friends": Relation(none, table(pairs), none),
    }
    return Database(tuple(map(str, range(people + blocks))), relations)


def solved(pool: Pool, parts=4, program=PROGRAM, database=None):
    rows: list[int] = []
    task = Task(Grounder(program), database or data(), WEIGHTS[: len(program.rules)], MEMORY)
    found, ground = DistributedAdmm(pool, parts).solve(task, lambda *_: None, rows.append)
    assert rows == [found.potentials + found.constraints]
    return found, ground


@pytest.fixture(scope="module")
def inline():
    return solved(Inline())[0]


def test_the_optimum(inline):
    grounded = Grounder(PROGRAM).ground(data())
    model = grounded.graphs.model
    exact = Admm().solve(model, WEIGHTS)
    one, ground = solved(Inline(), parts=1)

    for found in (inline, one):
        assert found.certified
        assert found.energy == pytest.approx(model.energy(found.y, WEIGHTS))
        assert found.violation == pytest.approx(model.violation(found.y), abs=1e-12)
        assert exact.bound - 1e-9 <= found.energy <= exact.energy + 2e-6 * exact.energy
        assert found.constraints == np.count_nonzero(model.kind >= 2)
        assert found.potentials + found.constraints == model.n_rows
    assert ground.inactive.tolist() == grounded.inactive.tolist()
    assert ground.bytes_a_round == 16 * model.n_variables


@pytest.mark.parametrize("workers", [long(1), 2, long(3)])
def test_the_same_bits_for_any_workers(inline, workers):
    found, _ = solved(Forks(workers))
    assert found.y.tobytes() == inline.y.tobytes()
    assert (found.energy, found.bound, found.iterations) == (
        inline.energy,
        inline.bound,
        inline.iterations,
    )


class Mortal(PartRows):
    """Parts whose worker is killed at every call, of those of all workers, whose number is a file's name."""

    folder: Path

    def round(self, *of):
        with (self.folder / "calls").open("ab") as calls:
            calls.write(b".")
            calls.flush()
            order = self.folder / str(calls.tell())
        if order.exists():
            order.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().round(*of)


@tiers("kills", 3, 60)
def test_workers_may_die(inline, kills, tmp_path, monkeypatch):
    monkeypatch.setattr(admm_distributed, "PartRows", Mortal)
    Mortal.folder = tmp_path
    random = np.random.default_rng(kills)
    for number in random.integers(1, 4 * inline.iterations, kills):
        (tmp_path / str(number)).touch()
    found, _ = solved(Forks(2))
    assert [path.name for path in tmp_path.iterdir()] == ["calls"]
    assert found.y.tobytes() == inline.y.tobytes()
    assert (found.energy, found.bound) == (inline.energy, inline.bound)


def test_constraints_that_contradict_each_other():
    """The parts do not see it, their sums do."""
    rules = "1: Friends(P, Q) = 0\nFriends(P, Q) >= 0.9 .\nFriends(P, Q) <= 0.1 ."
    program = parse(rules, declared={"Friends": 2})
    with pytest.raises(Infeasible, match="no values satisfy the constraints"):
        solved(Inline(), program=program)


def test_an_error_of_a_part_is_told_with_its_place():
    program = parse("1: Similar(P, Q) -> Friends(Q, P)\n", declared={"Similar": 2, "Friends": 2})
    some = data()
    fewer = Relation(table([]), table([(0, 1), (2, 1)]), table([]))
    broken = Database(some.constants, {**some.relations, "Friends": fewer})
    with pytest.raises(PartError, match="which is neither observed nor a target") as error:
        solved(Forks(2), program=program, database=broken)
    assert error.value.exit_code == 78


# the command -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("friends")
    pairs = [(a, b) for a in "abcdef" for b in "abcdef" if a != b]
    (folder / "model.psl").write_text(
        "1: Similar(P, Q) -> Friends(P, Q) ^2\n"
        "2: Friends(P, Q) & Friends(Q, R) & P != Q & Q != R & P != R -> Friends(P, R) ^2\n"
        "0.5: !Friends(P, Q) ^2\n"
    )
    similar = "".join(f"{a}\t{b}\t{0.1 * n % 1:.1f}\n" for n, (a, b) in enumerate(pairs))
    (folder / "similar.txt").write_text(similar)
    (folder / "friends.txt").write_text("".join(f"{a}\t{b}\n" for a, b in pairs))
    (folder / "model.data").write_text(
        "predicates:\n  Similar/2: closed\n  Friends/2: open\n"
        "observations:\n  Similar: similar.txt\ntargets:\n  Friends: friends.txt\n"
    )
    return folder


def infer(files, *options):
    return command(
        "infer", "--model", str(files / "model.psl"), "--data", str(files / "model.data"), *options
    )


def test_the_command_gives_the_same_files(files, tmp_path, capfd):
    assert infer(files, "--output", str(tmp_path / "memory")) == 0
    answers = []
    for workers in (1, 2):
        output = tmp_path / str(workers)
        options = ("--distribute", f"workers={workers}", "--distribute", "parts=3")
        assert infer(files, "--output", str(output), *options) == 0, capfd.readouterr().err
        answers.append((output / "Friends.txt").read_bytes())
        stats = json.loads((output / "stats.json").read_text())
        assert (stats["certified"], stats["parts"], stats["targets"]) == (True, 3, 30)
    assert answers[0] == answers[1]
    memory = json.loads((tmp_path / "memory" / "stats.json").read_text())
    assert stats["objective"] == pytest.approx(memory["objective"], rel=2e-6)
    assert stats["potentials"] == memory["potentials"]


def dying(files, output, writes, workers):
    """Infer in parts, in this process, which is killed after it has written so often where to go on."""
    write, left = resume_file.write, [writes]

    def counted(*of):
        write(*of)
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)

    resume_file.SECONDS, resume_file.write = 0.0, counted
    options = ("--distribute", f"workers={workers}", "--distribute", "parts=3")
    sys.exit(infer(files, "--output", str(output), *options))


def ended(*of):
    """Return the exit code of ``dying`` in a fork, or minus the signal that ended it."""
    process = get_context("fork").Process(target=dying, args=of)
    process.start()
    process.join()
    return process.exitcode


@tiers("kills", 3, 20)
def test_a_killed_driver_goes_on_with_the_same_bits(files, tmp_path, capfd, kills):
    """It is ten rounds further after one kill in eight, which is at the second time that it writes."""
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    assert ended(files, whole, 0, 1) == 0
    rounds = json.loads((whole / "stats.json").read_text())["rounds"]
    capfd.readouterr()
    for kill in range(kills):
        assert ended(files, broken, 1 + (kill % 8 == 1), 1 + kill % 2) == -signal.SIGKILL
        assert not (broken / "Friends.txt").exists()
        assert (broken / "infer.ckpt").exists()
    said = capfd.readouterr().err
    reached = 10 * len(range(1, kills - 1, 8))
    assert f"going on after round {reached}\n" in said
    assert 0 < reached < rounds
    assert ended(files, broken, 0, 2) == 0
    assert sorted(path.name for path in broken.iterdir()) == ["Friends.txt", "stats.json"]
    assert (broken / "Friends.txt").read_bytes() == (whole / "Friends.txt").read_bytes()
    assert json.loads((broken / "stats.json").read_text())["rounds"] == rounds


def test_what_was_kept_of_something_else_is_left(files, tmp_path, capfd):
    output = tmp_path / "out"
    assert ended(files, output, 2, 1) == -signal.SIGKILL
    options = ("--distribute", "workers=1", "--distribute", "parts=2")
    assert infer(files, "--output", str(output), *options) == 0
    assert (
        "infer.ckpt is of another model, data or options; beginning anew" in capfd.readouterr().err
    )
    assert ended(files, output, 2, 1) == -signal.SIGKILL
    (output / "infer.ckpt").write_bytes(b"torn")
    assert ended(files, output, 0, 1) == 0
    said = capfd.readouterr().err
    assert "cut off; beginning anew" in said
    assert "going on" not in said


def test_what_was_kept_is_checked(files, tmp_path, capfd):
    output = tmp_path / "out"
    assert ended(files, output, 2, 1) == -signal.SIGKILL
    whole = load(output / "infer.ckpt")
    for name, array in (("duals.0", np.zeros(2)), ("y", np.full(30, np.nan)), ("best", None)):
        arrays = {key: value for key, value in whole.arrays.items() if key != name}
        arrays |= {} if array is None else {name: array}
        write(output / "infer.ckpt", whole.number, whole.header, arrays)
        assert ended(files, output, 0, 1) == 74
        assert f"infer.ckpt: cannot be restored: the array {name} " in capfd.readouterr().err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--distribute", "workers=100000"], "--distribute workers: 100000 is no workers"),
        (["--distribute", "worker=2"], "--distribute worker: unknown key; expected KEY=VALUE"),
        (["--distribute", "workers=0"], "--distribute workers: 0 is no workers"),
        (["--distribute", "engine=spark"], "--distribute engine: 'spark' is no engine"),
        (["--distribute", "workers=1", "--method", "tandem"], "tandem is for one process"),
    ],
)
def test_what_it_does_not_take_is_said(files, options, said, capfd):
    assert infer(files, *options) == 64
    assert said in capfd.readouterr().err
