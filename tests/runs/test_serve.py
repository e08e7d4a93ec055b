"""A run that answers by HTTP: one order, which its journal has, whoever asks, and whatever ends it."""

import json
import os
import random
import signal
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from threading import Barrier
from typing import Any

import msgspec
import pytest
from conftest import Job, long, soaked, wait

from onlinesrl.psl.inference.registry import ENGINES
from onlinesrl.runs import service
from onlinesrl.runs.http import server
from onlinesrl.stream.sources import request_queue
from tests.support import trust_program
from tests.support.serving import JSON, LINES, Served, ask, learned
from tests.support.waiting import until

pytestmark = pytest.mark.usefixtures("counting")

Make = Callable[..., Job]
BAD = [b"{", b'{"id": 7, "evidence": {"Tokn": []}}', b"\xff", b"[]"]
CLIENTS, REQUESTS = 6, 20


def check_journal(job: Job, make: Make, **keys: Any) -> list[bytes]:
    """What was learned is what a run learns from the journal, which is returned."""
    journal = (job.output / "requests.jsonl").read_bytes()
    again = make([journal], f"again-{job.folder.name}", **keys)
    assert again.run() == 0, again.said
    assert learned(job.output) == learned(again.output)
    for name in ("predictions.jsonl", next(again.output.glob("weights.*")).name):
        assert (job.output / name).read_bytes() == (again.output / name).read_bytes()
    return journal.splitlines()


@pytest.fixture(params=["mln", long("psl")])
def stream(request, job, citations, tmp_path):
    """Makes jobs of one of the languages; and examples, each with another id."""
    keys: dict[str, Any] = {"limits": {"bad_share": 1.0}}
    if request.param == "mln":
        lines = [line.rstrip() for line in citations]
        keys["inference"] = {"audit_every": 50}
    else:
        (tmp_path / "trust.psl").write_text(trust_program.MODEL)
        lines = [msgspec.json.encode(example) for example in trust_program.examples(120)]
        keys |= {"model": str(tmp_path / "trust.psl"), "query": "Trusts", "metrics": {}}
    named = [json.loads(line) | {"id": n} for n, line in enumerate(lines)]
    lines = [json.dumps(each).encode() for each in named]
    return lambda given, name="job", **more: job(given, name, **keys | more), lines


@pytest.mark.usefixtures("kernels")
def test_each_client_has_its_answers(stream):
    make, lines = stream
    run = make([])
    served = Served(run)
    begin = Barrier(CLIENTS)

    def client(number):
        rng, answers = random.Random(number), dict[int, bytes]()
        with served.connection() as connection:
            begin.wait()
            for name in range(number * REQUESTS, (number + 1) * REQUESTS):
                path = rng.choice(("/predict", "/learn"))
                if rng.random() < 0.1:
                    status, text = ask(connection, "POST", path, rng.choice(BAD))
                    assert status == 422
                    assert json.loads(text)["error"]
                    continue
                example = json.loads(rng.choice(lines)) | {"id": name}
                status, text = ask(connection, "POST", path, json.dumps(example, indent=1).encode())
                assert status == 200, text
                assert json.loads(text)["id"] == name
                if path == "/learn":
                    answers[name] = text.rstrip()
        return answers

    with ThreadPoolExecutor(CLIENTS) as clients:
        found: dict[int, bytes] = {}
        for answers in clients.map(client, range(CLIENTS)):
            found |= answers
    assert served.stop() == 0, run.said
    assert "run it again to resume" in run.said
    check_journal(run, make)
    predictions = (run.output / "predictions.jsonl").read_bytes().splitlines()
    good = {json.loads(line)["id"]: line for line in predictions if b'"predicted"' in line}
    assert found == good
    assert len(run.lines("deadletter.jsonl")) == len(predictions) - len(good) > 0


def test_what_was_answered_survives_kills(stream):
    make, lines = stream
    run = make([], checkpoint={"every": 7}, limits={"bad_share": 1.0, "crashes": 0})
    answered: dict[int, bytes] = {}

    def client(served, number):
        rng = random.Random(f"{served.process} {number}")
        with suppress(OSError, HTTPException), served.connection() as connection:
            for n in range(10_000):
                name = (served.process * CLIENTS + number) * 10_000 + n
                example = json.dumps(json.loads(rng.choice(lines)) | {"id": name}).encode()
                path = rng.choice(("/predict", "/learn", "/learn"))
                status, text = ask(connection, "POST", path, example)
                assert status == 200
                if path == "/learn":
                    answered[name] = text.rstrip()

    for kills in range(1, 2):
        served = Served(run)
        with ThreadPoolExecutor(CLIENTS) as clients:
            going = [clients.submit(client, served, n) for n in range(CLIENTS)]
            until(lambda: len(answered) >= 40 * kills)  # noqa: B023
            os.kill(served.process, signal.SIGKILL)
            assert wait(served.process) == -signal.SIGKILL
        for each in going:
            each.result()
        with (run.output / "requests.jsonl").open("ab") as journal:  # a write that was cut short
            journal.write(lines[0][:50])
    served = Served(run)
    assert served.stop() == 0, run.said
    journal = check_journal(run, make)
    predictions = (run.output / "predictions.jsonl").read_bytes().splitlines()
    assert len(predictions) == len(journal)
    assert len(answered) >= 40
    assert set(answered.values()) <= set(predictions)
    assert len(run.lines("deadletter.jsonl")) == 1


def test_predictions_are_those_of_predict(stream):
    make, lines = stream
    run = make([])
    served = Served(run)
    before = served.post("/learn", lines[:20])
    assert [answer["id"] for answer in before] == list(range(20))
    asked = [lines[20], BAD[0], lines[21], *lines[22:30]]
    answers = served.post("/predict", asked)
    assert served.post("/predict", asked) == answers
    assert served.stop() == 0, run.said
    file = make([b"".join(line + b"\n" for line in asked)], "file")
    assert file.call("predict", run.output, file.config) == 0
    assert answers == [json.loads(line) for line in file.printed.splitlines()]
    assert answers[1]["line"] == 2
    check_journal(run, make)


def test_a_signal_lets_the_run_answer(stream):
    make, lines = stream
    run = make([], batch=2)
    served = Served(run)
    answered, refused = dict[int, bytes](), list[int]()

    def client(number):
        with suppress(OSError, HTTPException):  # it has gone
            for first in range(5 * number, 100_000, 5 * CLIENTS):
                named = {
                    n: json.loads(lines[n % len(lines)]) | {"id": n}
                    for n in range(first, first + 5)
                }
                body = b"\n".join(json.dumps(each).encode() for each in named.values())
                status, text = served.ask("POST", "/learn", body, LINES)
                assert status in {200, 503}, text
                if status == 503:
                    refused.extend(named)
                else:
                    answered.update(zip(named, text.splitlines(), strict=True))

    with ThreadPoolExecutor(CLIENTS) as clients:
        going = [clients.submit(client, n) for n in range(CLIENTS)]
        until(lambda: len(answered) >= 30)
        assert served.stop() == 0, run.said
    for each in going:
        each.result()
    journal = check_journal(run, make)
    assert sorted(json.loads(line)["id"] for line in journal) == sorted(answered)
    assert not answered.keys() & refused
    predictions = (run.output / "predictions.jsonl").read_bytes().splitlines()
    assert set(answered.values()) == set(predictions)


@pytest.mark.parametrize(
    "engine", [name if name == "tron" else soaked(name) for name in ENGINES if name != "admm"]
)
def test_every_engine_of_psl_serves(job, tmp_path, engine):
    (tmp_path / "trust.psl").write_text(trust_program.SQUARED)
    keys = {"model": str(tmp_path / "trust.psl"), "query": "Trusts", "metrics": {}}
    keys |= {"inference": {"engine": engine}, "checkpoint": {"every": 3}}
    lines = [msgspec.json.encode(example) for example in trust_program.examples(10)]
    run = job([], **keys)
    served = Served(run)
    answers = served.post("/learn", lines[:5])
    os.kill(served.process, signal.SIGKILL)
    wait(served.process)
    served = Served(run)
    answers += served.post("/learn", lines[5:])
    assert [answer["id"] for answer in answers] == list(range(10))
    predicted = served.post("/predict", lines)
    status, text = served.ask("POST", "/explain?tries=5", lines[0])
    assert (status, json.loads(text)[0]["id"]) == (200, "0")
    assert served.post("/predict", lines[:3]) == predicted[:3]
    assert served.stop() == 0, run.said
    check_journal(run, job, **keys)


@pytest.fixture
def served(job, citations):
    yield Served(job([], source={"path": "nowhere", "max_bytes": 5000}))


def test_what_is_refused(served, citations):
    good, long = citations[0], b"[" + b" " * 6000 + b"]"

    def status(*of, **headers):
        code, text = served.ask(*of, **headers)
        return code, json.loads(text) if text.startswith(b"{") else text.decode()

    assert status("POST", "/learn", good, "text/plain")[0] == 415
    code, said = status("POST", "/predict", b'{"id": 1, "truth": {"InField": []}}', JSON)
    assert code == 422
    assert said["error"].endswith("needs the section `labels: {}`)")
    assert status("POST", "/learn", b"", JSON) == (422, {"error": "no example"})
    assert status("POST", "/learn", b" \n\n", LINES) == (200, "")
    assert status("POST", "/learn", b"\xef\xbb\xbf", LINES) == (200, "")
    assert status("POST", "/learn", long, JSON)[1]["error"] == "longer than source.max_bytes (5000)"
    assert status("POST", "/predict", long, JSON)[1]["error"].startswith("longer than source.max_b")
    code, said = status("POST", "/learn", b" " * 10_001, JSON)
    assert (code, said) == (
        413,
        {"error": "longer than 10000 bytes (twice source.max_bytes): send it in parts"},
    )
    with served.connection() as pieces:
        pieces.request("POST", "/learn", iter([b" " * 6000] * 3), {"Content-Type": JSON})
        assert pieces.getresponse().status == 413
    assert status("GET", "/learn")[0] == 405
    assert status("GET", "/nothing")[0] == 404
    assert status("POST", "/learn", good, JSON, Host="elsewhere.example")[0] == 400
    assert status("POST", "/learn", good, f"{JSON}; charset=utf-8", Host="localhost:1")[0] == 200
    assert served.stop() == 0
    kept = (served.job.output / "requests.jsonl").read_bytes()
    assert kept == long + b"\n" + good


def test_its_state(served, citations):
    served.post("/learn", [line.rstrip() for line in citations[:5]])
    served.post("/predict", [line.rstrip() for line in citations[5:9]])
    assert served.ask("GET", "/healthz") == (200, b"alive\n")
    until(lambda: b"\nonlinesrl_examples_total 5.0\n" in served.ask("GET", "/metrics")[1])


def test_who_does_not_take_an_answer_is_hung_up_on(job):
    served = Served(
        job([], limits={"request_lines": 100_000}),
        first=lambda: setattr(server, "CLIENT_SECONDS", 0.5),
    )

    def established():
        rows = map(str.split, Path("/proc/net/tcp").read_text().splitlines()[1:])
        return sum(row[1].endswith(f":{served.port:04X}") and row[3] == "01" for row in rows)

    until(lambda: not established())
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", served.port))
        line = b'{"id": "%s", "evidence": {"Tokn": []}}\n' % (b"x" * 2000)
        body = line * 4000  # the answers name the example
        head = f"Host: localhost\r\nContent-Type: {LINES}\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall(b"POST /predict HTTP/1.1\r\n" + head.encode() + body)
        assert connection.recv(8) == b"HTTP/1.1"
        until(lambda: not established())
    assert served.stop() == 0
    assert "Traceback" not in served.job.said


@pytest.mark.parametrize(("module", "limit"), [(request_queue, "WAITING"), (service, "BODIES")])
def test_no_room(job, citations, module, limit):
    served = Served(job([]), first=lambda: setattr(module, limit, 0))
    with served.connection() as connection:
        connection.request("POST", "/learn", citations[0], {"Content-Type": JSON})
        answer = connection.getresponse()
        assert (answer.status, answer.getheader("Retry-After")) == (503, "1")
        assert answer.read().startswith(b'{"error":"not accepted')
    assert served.stop() == 0
    assert (served.job.output / "requests.jsonl").read_bytes() == b""


@pytest.mark.usefixtures("kernels")
def test_truth_that_comes_later(job, citations):
    run = job([], labels={"pending": 2}, source={"path": "nowhere", "without": ["face"]})
    served = Served(run)
    example = json.loads(citations[0])
    truth = {"id": example["id"], "truth": example.pop("truth")}
    left_out = example | {"id": "left out", "group": "face"}
    lines = [json.dumps(each).encode() for each in (example, left_out, truth, truth)]
    answers = served.post("/learn", lines)
    name = example["id"]
    assert [answer.get("id") for answer in answers] == [name, None, name, name]
    assert [answer.get("line") for answer in answers] == [None, 2, None, 4]
    assert answers[1] == {
        "line": 2,
        "left_out": "its group is not read (source.only, source.without)",
    }
    assert answers[2]["hamming"] > 0
    assert answers[2] == answers[0] | {"hamming": answers[2]["hamming"]}
    assert (answers[3]["waits"], answers[3]["labels_waiting"]) == (True, 1)
    assert "until 2 newer labels wait (labels.pending)" in answers[3]["label"]
    early = [json.dumps(truth | {"id": f"early{n}"}).encode() for n in range(4)]
    for label, waiting in zip(early, (2, 2, 2, 2), strict=True):
        status, text = served.ask("POST", "/learn", label)
        assert (status, json.loads(text)["labels_waiting"]) == (202, waiting)
    both = [early[3], json.dumps(example | {"id": "early3"}).encode(), *early[:3]]
    told, met, *others = served.post("/learn", both)
    assert met["hamming"] > 0
    assert not told["waits"] and told["label"].startswith("an example came after it")
    assert [other["waits"] for other in others[1:]] == [True, True]
    status, text = served.ask("POST", "/predict", lines[2])
    assert (status, json.loads(text)["line"]) == (422, 1)
    assert served.stop() == 0
    assert json.loads((run.output / "summary.json").read_bytes())["updates"] == 2


def test_a_run_over_something_else_is_no_server(job, citations):
    run = job(citations[:5])
    assert run.run() == 0
    assert run.call("serve", run.config, "--port", 0) == 78
    assert f"choose another output, with learner.start={run.output} to keep" in run.said
    other = job([], "other", learner={"start": str(run.output)})
    served = Served(other)
    assert served.post("/learn", [citations[5].rstrip()])[0]["predicted"]["InField"]
    assert served.stop() == 0
    whole = job(citations[:6], "whole")
    assert whole.run() == 0
    assert learned(other.output)[1] == learned(whole.output)[1]


def test_a_run_goes_on_with_the_journal(job, citations):
    lines = [line.rstrip() for line in citations]
    run = job([], metrics={})
    served = Served(run)
    served.post("/learn", lines[:20])
    assert served.stop() == 0
    assert run.run("--set", f"source.path={run.output / 'requests.jsonl'}") == 0, run.said
    served = Served(run)
    served.post("/learn", lines[20:40])
    assert served.stop() == 0
    whole = job(citations[:40], "whole", metrics={})
    assert whole.run() == 0
    assert learned(run.output) == learned(whole.output)


def test_a_source_of_another_kind(job):
    kafka = {"kind": "kafka", "bootstrap": "localhost:1", "topic": "t"}
    run = job([], source=kafka)
    assert run.call("serve", run.config) == 78
    assert "source.kind: a server learns what clients send; leave source: out" in run.said


def test_who_reads_its_summary_has_gone(job):
    there, back = os.pipe()
    os.close(there)
    served = Served(job([]), first=lambda: os.dup2(back, 1))
    os.close(back)
    assert served.stop() == 141
    assert "Traceback" not in served.job.said
