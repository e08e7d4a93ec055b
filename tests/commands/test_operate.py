"""Looking after a run: its dead letters and its checkpoints."""

import json
import os
import signal
from pathlib import Path

import numba
import pytest
from conftest import REPO, Job, wait

from onlinesrl.core.jit import cache
from onlinesrl.stream import checkpoints as checkpoints_module
from onlinesrl.stream.dead_letters import DeadLetters
from onlinesrl.stream.records import Record

pytestmark = pytest.mark.usefixtures("counting")

BAD = [
    b"{\n",
    b'{"id": "\\u001b[31m", "evidence": {"Nothing": [["a"]]}}\r\n',
    b'{"id": "\xff\x1b]0;x\x07"}\n',
    b"\xc2\x9b{\t\x00 \n",
    b'{"id": 1, "evidence": {"Nothing": [["a"]]}}  \n',
    b"{\n",
]
"""Bad examples, and what a terminal would obey."""


@pytest.fixture(scope="module")
def done(warm, tmp_path_factory, citations):
    """A finished run with bad examples, and checkpoints on the way."""
    lines = [*citations[:30], *BAD, *citations[30:40]]
    run = Job(
        tmp_path_factory.mktemp("done"), lines, checkpoint={"every": 20}, limits={"bad_share": 1.0}
    )
    assert run.run() == 0, run.said
    return run


def raw(job: Job) -> bytes:
    return (job.folder / "stdout").read_bytes()


# dead letters ------------------------------------------------------------------------------------


def test_dead_letters_are_listed_and_counted(done):
    assert done.call("dlq", "list", done.output) == 0, done.said
    listed, counts = done.printed.split("6 dead letters\n")
    letters = [line.strip().split("  ") for line in listed.replace("\\x", "x").splitlines()]
    assert [letter[1] for letter in letters] == [f"{done.source}:{n}" for n in range(31, 37)]
    assert [letter[2] for letter in letters] == ["-", "x1b[31m", "-", "-", "1", "-"]
    assert counts.splitlines()[0].split()[:4] == ["2", "not", "an", "example:"]
    assert sum(int(line.split()[0]) for line in counts.splitlines()) == 6
    assert all(c.isprintable() or c == "\n" for c in done.printed)
    assert done.call("dlq", "list", done.output / "deadletter.jsonl") == 0


@pytest.mark.parametrize(
    ("number", "shown"), [(2, "\\\\u001b[31m"), (3, "\\xff\\x1b]0;x\\x07"), (4, "\\x9b{\\t\\x00")]
)
def test_a_dead_letter_is_shown_harmlessly(done, number, shown):
    assert done.call("dlq", "show", done.output, number) == 0, done.said
    assert all(c.isprintable() or c == "\n" for c in done.printed)
    assert shown.replace("\\\\", "\\") in done.printed
    assert done.printed.startswith(f"place   {done.source}:{30 + number}\n")
    size = len(BAD[number - 1].rstrip(b"\r\n"))
    assert f"bytes   {size}\n" in done.printed


def test_a_dead_letter_that_is_not_there(done):
    assert done.call("dlq", "show", done.output, 7) == 64
    assert done.said == f"{done.output}: there is no dead letter 7\n"
    assert done.call("dlq", "list", done.folder / "nowhere") == 74
    assert done.call("dlq", "list", done.source) == 74
    assert f"{done.source}:1: not a dead letter" in done.said


def test_dead_letters_are_replayed_byte_for_byte(done):
    assert done.call("dlq", "replay", done.output) == 0, done.said
    assert raw(done) == b"".join(line.rstrip(b"\r\n") + b"\n" for line in BAD)
    assert done.said.startswith("6 sent in ")
    target = done.folder / "again.jsonl"
    replayed = raw(done)
    assert done.call("dlq", "replay", done.output, "--output", target) == 0
    assert (target.read_bytes(), raw(done)) == (replayed, b"")
    assert done.call("dlq", "replay", done.output, "--output", done.folder / "no" / "file") == 74
    assert done.call("dlq", "replay", done.output, "--to", "kafka") == 64
    assert done.said == "--to kafka needs --topic\n"


def test_what_was_bad_is_learned_after_the_model_is_put_right(job, citations):
    strange = [line.replace(b'"Token"', b'"Word"') for line in citations[10:20]]
    run = job([*citations[:10], *strange], limits={"bad_share": 1.0})
    assert run.run() == 0
    assert len(run.lines("deadletter.jsonl")) == 10
    assert run.call("dlq", "replay", run.output, "--output", run.folder / "dead") == 0
    model = run.folder / "new.mln"
    text = (REPO / "streams" / "citations" / "segmentation.mln").read_text()
    model.write_text(text.replace("Token(", "Word("))
    dead = os.open(run.folder / "dead", os.O_RDONLY)
    again = [
        "--set",
        f"model={model}",
        "--set",
        "source.path=-",
        "--set",
        f"output={run.folder / 'b'}",
    ]
    assert run.run(*again, first=lambda: os.dup2(dead, 0)) == 0, run.said
    os.close(dead)
    assert json.loads((run.folder / "b" / "summary.json").read_text())["updates"] == 10


def test_what_cannot_be_replayed_whole_is_told(done, tmp_path):
    path = tmp_path / "deadletter.jsonl"
    with DeadLetters(path) as dead:
        dead.append(Record(b"{\n}", "a.db", 1, 0, 3), "bad")
        dead.append(Record(b"[[[", "a", 2, 0, 9, too_long=True), "too long")
        dead.append(Record(b"\r\n", "a", 3, 0, 9), "blank")
        dead.append(Record(b"{}\r\n", "a", 4, 0, 9), "bad")
    with path.open("ab") as stream:
        stream.write(b'{"file": "a", "li')  # what a run is about to write
    assert done.call("dlq", "replay", tmp_path) == 65
    assert raw(done) == b"{}\r\n\n"
    told = [line.partition(": dead letter ")[2] for line in done.said.splitlines()]
    assert [line.split(": ")[1].split()[0] for line in told[:3]] == ["it", "only", "it"]
    assert told[3:] == [""]
    assert done.call("dlq", "list", tmp_path) == 0
    assert "4 dead letters" in done.printed
    assert done.call("dlq", "show", tmp_path, 2) == 0
    assert "bytes   the first 3\n" in done.printed
    assert done.call("dlq", "show", tmp_path, 1) == 0
    assert done.printed.endswith("\n{\n}\n")


# checkpoints -------------------------------------------------------------------------------------


@pytest.fixture
def damaged(done, tmp_path):
    """A folder of the run's checkpoints, of which the newest is damaged."""
    for path in done.checkpoints():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    newest = tmp_path / done.checkpoints()[-1].name
    content = bytearray(newest.read_bytes())
    content[-1] ^= 1
    newest.write_bytes(content)
    return newest


def test_checkpoints_are_listed(done, damaged):
    assert done.call("checkpoint", "list", done.output) == 0, done.said
    lines = [line.split() for line in done.printed.splitlines()]
    assert [line[0] for line in lines] == [path.name for path in done.checkpoints()]
    assert [line[-3:] for line in lines] == [["intact", n, "examples"] for n in ("20", "40", "46")]
    sizes = [int(line[3].replace(",", "")) for line in lines]
    assert sizes == [path.stat().st_size for path in done.checkpoints()]
    assert done.call("checkpoint", "list", damaged.parent) == 0
    assert [line.split()[5] for line in done.printed.splitlines()] == [
        "intact",
        "intact",
        "damaged",
    ]
    assert done.call("checkpoint", "list", done.folder) == 74
    assert done.said == f"{done.folder}: no checkpoint in this folder\n"


def test_a_checkpoint_is_shown(done, damaged):
    assert done.call("checkpoint", "show", done.output) == 0, done.said
    shown = json.loads(done.printed)
    saved = checkpoints_module.load(done.checkpoints()[-1])
    assert shown["number"] == saved.number == 3
    assert shown["model_characters"] == len(saved.header["model"])
    for key in ("version", "position", "metrics", "fingerprint", "lengths", "finished"):
        assert shown[key] == saved.header[key]
    assert len(done.printed) < 10_000
    assert shown["arrays"] == {n: f"{a.dtype} {[*a.shape]}" for n, a in saved.arrays.items()}
    assert done.call("checkpoint", "show", damaged.parent) == 0
    assert json.loads(done.printed)["number"] == 2
    assert done.call("checkpoint", "show", damaged) == 74
    assert done.said == f"{damaged}: no intact checkpoint\n"
    assert done.call("checkpoint", "show", done.checkpoints()[0]) == 0
    assert json.loads(done.printed)["number"] == 1


def test_checkpoints_are_verified(done, damaged):
    assert done.call("checkpoint", "verify", done.output) == 0
    assert done.printed == "3 intact, 0 damaged\n"
    assert done.call("checkpoint", "verify", damaged.parent) == 74
    assert done.printed == "2 intact, 1 damaged\n"
    assert done.said.startswith(f"damaged: {damaged}: ")
    assert done.call("checkpoint", "verify", damaged) == 74
    assert done.call("checkpoint", "verify", done.checkpoints()[0]) == 0
    assert done.call("checkpoint", "verify", done.folder / "nothing") == 74
    assert "No such file" in done.said


def test_all_of_it_while_a_run_is_going(job, citations):
    run = job([], source={"path": "-"}, batch=1, checkpoint={"every": 1}, limits={"bad_share": 1.0})
    there, back = os.pipe()
    process = run.start("--set", "source.path=-", first=lambda: os.dup2(there, 0))
    asking = Job(run.folder / "asking", [])
    for n in range(5):
        os.write(back, b"".join([*citations[20 * n : 20 * n + 20], b"{\n"]))
        for command in ("dlq list", "dlq replay", "checkpoint list", "checkpoint verify"):
            code = asking.call(*command.split(), run.output)
            early = (
                "No such file",
                "Is a directory",
                "no checkpoint in this folder",
            )  # it just came
            assert code == 0 or any(words in asking.said for words in early), asking.said
    os.kill(process, signal.SIGTERM)
    assert wait(process) == 0
    os.close(there)
    os.close(back)


# kernels ------------------------------------------------------------------------------------------


def test_kernels_are_compiled_before_runs_where_they_can_be_kept(done, monkeypatch):
    assert done.call("warm", done.config) == 0, done.said
    assert done.printed == f"{done.config}: its kernels are in {cache.kernel_folder()}\n"
    for folder in "CACHE_DIR", "PACKAGE":
        target = numba.config if folder == "CACHE_DIR" else cache
        monkeypatch.setattr(target, folder, Path("/proc/nowhere"))
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    cache.kernel_folder.cache_clear()
    assert done.call("warm", done.config) == 74
    assert "compiled kernels cannot be cached (" in done.said
    monkeypatch.undo()
    cache.kernel_folder.cache_clear()
