"""A server of raw rows answers and learns as a run over the same rows in files, whatever ends it."""

import csv
import json
import os
import random
import signal
from collections.abc import Iterator
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path

import pytest
from conftest import Job, tiers, wait

from onlinesrl.stream.linked_rows import ARRAY
from tests.support.payments import generate, linked_job
from tests.support.serving import LINES, Served, learned

pytestmark = pytest.mark.usefixtures("counting", "job")


def rows_of(folder: Path) -> list[dict[str, str]]:
    """The rows of both tables by time, labels first."""

    def events() -> Iterator[tuple[str, int, int, dict[str, str]]]:
        for kind, (name, column) in enumerate([("labels", "label_ts"), ("transactions", "ts")]):
            with (folder / f"{name}.csv").open(newline="", encoding="utf-8") as file:
                for n, row in enumerate(csv.DictReader(file)):
                    yield row[column], kind, n, row

    return [row for *_, row in sorted(events(), key=lambda event: event[:3])]


def encoded(rows: list[dict[str, str]]) -> list[bytes]:
    return [json.dumps(row).encode() for row in rows]


def same(job: Job, other: Job) -> None:
    """Whatever the files of the rows are called, of which the remembered rows have the names."""
    for (header, arrays), (expected, others) in [(learned(job.output), learned(other.output))]:
        assert header == expected
        assert arrays | {ARRAY: b""} == others | {ARRAY: b""}
    assert job.results() == other.results()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_rows_by_post_are_rows_in_files(tmp_path, seed):
    paths = generate(tmp_path, seed, honest=150, days=12)
    whole, rng = linked_job(tmp_path, "whole", paths), random.Random(seed)
    assert whole.run() == 0, whole.said
    run, lines = linked_job(tmp_path, "served"), encoded(rows_of(tmp_path))
    served, answers = Served(run), []
    while len(answers) < len(lines):
        many = rng.choice([1, 7, 60, 400])
        answers += served.post("/learn", lines[len(answers) :][:many])
    assert served.stop() == 0, run.said
    same(run, whole)
    asked = [one for one, line in zip(answers, lines, strict=True) if b"label_ts" not in line]
    assert asked == whole.lines("predictions.jsonl")
    assert all("hamming" in one for one in answers if one not in asked)
    journal = linked_job(tmp_path, "journal", [run.output / "requests.jsonl"])
    assert journal.run() == 0, journal.said
    same(journal, whole)


@tiers("kills", 3, 40)
def test_a_server_of_rows_that_dies_leaves_no_trace(tmp_path, kills):
    """What has no answer is looked for in the journal."""
    paths, rng = generate(tmp_path, 4, honest=150, days=12), random.Random(kills)
    whole = linked_job(tmp_path, "whole", paths)
    assert whole.run() == 0, whole.said
    lines = encoded(rows_of(tmp_path))
    run = linked_job(tmp_path, "run", checkpoint={"every": 20})
    for kill in range(kills):
        served, sent = Served(run), learned_lines(run)
        most = sent + rng.randrange(2 * len(lines) // (kills + 1))
        with suppress(OSError, HTTPException):
            while sent < min(most, len(lines)):
                some = lines[sent:][: rng.choice([1, 5, 30])]
                sent += len(served.post("/learn", some))
            if rng.random() < 0.5:  # while it answers
                with served.connection() as connection:
                    body = b"\n".join(lines[sent:][:50])
                    connection.request("POST", "/learn", body, {"Content-Type": LINES})
        os.kill(served.process, signal.SIGKILL)
        assert wait(served.process) == -signal.SIGKILL
        assert kill or learned_lines(run)
    served = Served(run)
    served.post("/learn", lines[learned_lines(run) :])
    assert served.stop() == 0, run.said
    same(run, whole)


def learned_lines(run: Job) -> int:
    """How many rows the journal has: all whole, since none is cut short by the kill of a process."""
    path = run.output / "requests.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def test_what_becomes_of_rows_and_labels(tmp_path):
    generate(tmp_path, 5, honest=150, days=12)
    rows = rows_of(tmp_path)
    run = linked_job(tmp_path, "run", metrics={})
    served = Served(run)
    label = next(row for row in rows if "label_ts" in row)
    (waits,) = served.post("/learn", encoded([label]))
    assert (waits["id"], waits["waits"], waits["labels_waiting"]) == (label["tx_id"], True, 1)
    assert served.ask("POST", "/learn", *encoded([label]))[0] == 202
    assert served.stop() == 0, run.said

    served = Served(run)
    payments = [row for row in rows if "ts" in row and row["tx_id"] != label["tx_id"]][:40]
    first, last = payments[0], payments[-1]
    (answer,) = served.post("/predict", encoded([first]))
    assert served.post("/learn", encoded(payments))[0] == answer
    for row, error in (
        (last, f"linked.rows.id: '{last['tx_id']}' is also the id of requests.jsonl:42"),
        (first | {"tx_id": "new"}, "linked.rows.time: "),
        (last | {"tx_id": "new", "amount": "much"}, "linked.numbers.Number.amount: "),
    ):
        for path in ("/learn", "/predict"):
            code, text = served.ask("POST", path, *encoded([row]))
            assert (code, json.loads(text)["error"][: len(error)]) == (422, error)
    code, text = served.ask("POST", "/predict", *encoded([label]))
    assert (code, json.loads(text)["error"]) == (422, "it is a label: there is nothing to predict")
    late = {"tx_id": last["tx_id"], "label_ts": first["ts"], "is_fraud": "1"}
    (answer,) = served.post("/learn", encoded([late]))
    assert "hamming" in answer
    (answer,) = served.post("/learn", encoded([late | {"is_fraud": "0"}]))
    assert (answer["waits"], answer["label"][:27]) == (False, "not learned: its row has on")
    assert served.stop() == 0, run.said
    *days, last = run.lines("metrics.jsonl")
    assert last["linked"]["corrections"] == 1
    assert days and all(line["until"] % 86400 == 0 for line in days)  # and not by doublings
    assert len(run.lines("deadletter.jsonl")) == 3


@pytest.mark.usefixtures("kernels")
def test_examples_of_rows_are_explained_after_a_restart(tmp_path):
    generate(tmp_path, 6, honest=150, days=12)
    rows = rows_of(tmp_path)[:300]
    run = linked_job(tmp_path, "run")
    served = Served(run)
    served.post("/learn", encoded(rows))
    name = next(row["tx_id"] for row in reversed(rows) if "ts" in row)
    said = served.ask("GET", f"/explain?id={name}&tries=5")
    assert said[0] == 200, said
    assert served.stop() == 0, run.said
    served = Served(run)
    assert served.ask("GET", f"/explain?id={name}&tries=5") == said
    last = [row for row in rows_of(tmp_path) if "ts" in row][-1]
    new = last | {"tx_id": "new"}
    (before,) = served.post("/predict", encoded([new]))
    status, text = served.ask("POST", "/explain?tries=5", *encoded([new]))
    assert (status, json.loads(text)[0]["id"]) == (200, "new")
    (learned_from,) = served.post("/learn", encoded([new]))
    assert before == learned_from | {"margin": before["margin"]}
    assert served.stop() == 0, run.said
