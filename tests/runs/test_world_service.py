"""A served world: its changes, its answer, its explanations, and the stream of what changed."""

import json
import os
import signal
import socket
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPConnection
from urllib.parse import quote

import pytest
from conftest import wait

from onlinesrl.runs import run as run_module
from onlinesrl.runs import world_service
from onlinesrl.runs.http import events as events_module
from onlinesrl.runs.http import server
from tests.support.serving import Client, Served, learned
from tests.support.waiting import PATIENCE, until
from tests.support.world_changes import BAD, changes, encoded


@contextmanager
def events(served, after="", **headers):
    """The stream of what changed: a function that returns the next event with its id."""
    with closing(HTTPConnection(served.host, served.port, timeout=PATIENCE)) as connection:
        connection.request("GET", f"/changes{after}", headers=headers)
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        assert answer.getheader("content-type").startswith("text/event-stream")
        assert answer.readline().startswith(b":")

        def following():
            fields = {}
            while "data" not in fields:  # else a comment, or the end of an event
                name, _, value = answer.readline().decode().strip().partition(": ")
                fields[name] = value
            return fields["id"], fields["event"], json.loads(fields["data"])

        yield following


@pytest.mark.parametrize("soft", [True, False])
def test_changes_are_answered_and_followed(world_run, soft):
    lines = [line for line in changes(40, soft, 6) if line not in BAD]
    run = world_run([], soft)
    served = Served(run)
    answers, seen = [], []
    with events(served) as following:
        for line in encoded(lines):
            answers += served.post("/changes", [line.rstrip()])
            seen += [following() for _ in answers[-1].get("changed", ())]
    assert [event for _, event, _ in seen] == ["changed"] * len(seen)
    told = [atom for answer in answers for atom in answer.get("changed", ())]
    assert [{k: v for k, v in data.items() if k in told[0]} for *_, data in seen] == told
    middle = len(seen) // 2
    for after in ({"after": f"?after={seen[middle][0]}"}, {"Last-Event-ID": seen[middle][0]}):
        with events(served, **after) as following:
            assert [following() for _ in seen[middle + 1 :]] == seen[middle + 1 :]
    values = {}
    for *_, data in seen:
        values[data["predicate"], *data["args"]] = data["value"]
    status, text = served.ask("GET", "/atoms")
    assert status == 200
    answer = json.loads(text)
    assert answer["certified"]
    now = {(atom["predicate"], *atom["args"]): atom["value"] for atom in answer["atoms"]}
    assert now.keys() == {atom for atom, value in values.items() if value is not None}
    assert all(now[atom] == pytest.approx(values[atom], abs=2e-3) for atom in now)
    name, *args = next(iter(now))
    asked = quote(f"{name}({', '.join(args)})")
    one = json.loads(served.ask("GET", f"/atoms?atom={asked}")[1])["atoms"]
    assert one == [{"predicate": name, "args": args, "value": now[name, *args]}]
    (explanation,) = json.loads(served.ask("GET", f"/explain?atom={asked}")[1])
    assert explanation["atom"] == f"{name}({', '.join(args)})"
    assert served.ask("GET", f"/explain?atom={asked}", Accept="text/plain")[1].startswith(b"Good(")
    assert served.stop() == 0, run.said
    again = world_run(lines, soft, "again")
    assert again.run() == 0, again.said
    assert learned(again.output) == learned(run.output)


def test_the_next_best_states_are_told_with_the_whole_answer(world_run):
    lines = [line for line in changes(20, False, 6) if line not in BAD]
    served = Served(world_run([], False, inference={"engine": "mpe", "best": 4}))
    told = served.post("/changes", [line.rstrip() for line in encoded(lines)])
    assert all(len(answer["best"]) == 3 for answer in told[3:])
    whole = json.loads(served.ask("GET", "/atoms")[1])
    assert whole["best"] == told[-1]["best"]
    name, args = whole["atoms"][0]["predicate"], whole["atoms"][0]["args"]
    one = json.loads(served.ask("GET", f"/atoms?atom={quote(f'{name}({args[0]})')}")[1])
    assert one == {"atoms": whole["atoms"][:1], "certified": True}
    assert json.loads(served.ask("GET", "/atoms")[1]) == whole
    assert served.stop() == 0


def test_what_is_odd_has_one_clear_error(world_run):
    served = Served(world_run([], False))
    for path, status, words in (
        ("/atoms?atom=Good(zoe)", 422, "Good(zoe) is neither observed nor a target"),
        ("/atoms?atom=Bad(zoe)", 422, "the model has no predicate Bad"),
        ("/atoms?atom=Good", 400, "Good"),
        ("/explain", 400, "expected an `atom` alone"),
        ("/explain?atom=Good(zoe)&change=Rates", 400, "expected an `atom` alone"),
        (
            f"/explain?{'&'.join(['atom=Good(zoe)'] * 11)}",
            400,
            "expected an `atom` alone, at most 10",
        ),
        ("/explain?atom=Good(zoe)", 422, "Good(zoe)"),
        ("/changes?after=x", 400, "expected PART:OFFSET"),
        ("/predict", 404, "Not Found"),
    ):
        code, text = served.ask("GET", path)
        assert (code, words in text.decode()) == (status, True), (path, text)
    before = served.ask("GET", "/atoms")
    answers = served.post("/changes", [json.dumps(bad).encode() for bad in BAD])
    assert all("error" in answer for answer in answers)
    assert served.ask("GET", "/atoms") == before
    status, text = served.ask("POST", "/changes", b'{"id": "k", "evidence": []}')
    assert (status, b"not a change" in text) == (422, True)
    assert served.stop() == 0


# who follows what changes ----------------------------------------------------------------------------


def rated(name):
    return json.dumps({"add": {"Rates": [["ann", name]]}}).encode()


def test_a_line_of_any_length_is_sent(world_run):
    served = Served(world_run([], False))
    names = ["bob", "B" * 70_000, "carl"]
    with events(served) as following:
        for name in names:
            changed = served.post("/changes", [rated(name)])[0]["changed"]
            assert [following()[2]["args"] for _ in changed] == [atom["args"] for atom in changed]
    assert served.stop() == 0


def test_events_that_are_gone_are_said_to_be(world_run):
    """Those of parts that were removed; a place that the file never had is treated alike."""
    limits = {"bad_share": 1.0, "crashes": 0, "retention_bytes": 20_000}
    served = Served(world_run([], False, limits=limits, checkpoint={"every": 20, "keep": 1}))
    for n in range(20):
        served.post("/changes", [rated(f"{n}-{m}") for m in range(20)])
    assert served.ask("GET", "/atoms")[0] == 200  # the last checkpoint is written
    parts = sorted(served.job.output.glob("predictions.jsonl*"))
    assert parts[0].suffix != ".jsonl"
    left = [json.loads(line) for part in parts for line in part.read_bytes().splitlines()]
    for nowhere in ("0:500", f"{int(parts[-1].suffix[1:])}:3", "999999:0"):
        with events(served, **{"Last-Event-ID": nowhere}) as following:
            first, kind, data = following()
            assert (kind, data) == ("gone", {"after": nowhere, "next": first})
            assert first == f"{int(parts[0].suffix[1:])}:0"
            assert [following()[2] for _ in left] == left
    assert served.stop() == 0


def test_followers_keep_nobody_out_and_those_that_have_gone_are_noticed(world_run):
    def few():
        server.CLIENTS, world_service.CLIENTS, server.CLIENT_SECONDS = 6, 4, 0.2
        events_module.SILENT_SECONDS = 0.0

    served = Served(world_run([], False), first=few)
    asked = b"GET /changes HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with ExitStack() as held:
        for _ in range(2):
            deaf = socket.socket()
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
            deaf.connect(("127.0.0.1", served.port))
            held.enter_context(deaf).sendall(asked)
            assert deaf.recv(12) == b"HTTP/1.1 200"
        with served.connection() as connection:
            connection.request("GET", "/changes")
            answer = connection.getresponse()
            assert (answer.status, answer.getheader("Retry-After")) == (503, "5")
            answer.read()
        assert served.ask("GET", "/healthz")[0] == 200
        for n in range(9):  # they do not read, and are disconnected
            served.post("/changes", [rated(f"{n}{'x' * 1_000_000}")])
        one = until(lambda: followed(served, held))
        assert [one.readline() for _ in range(3)][::2] == [
            b": changes of the answer follow\n",
            b": still here\n",
        ]
    assert served.stop() == 0


def followed(served, held):
    """An answer of events, if there is room for one more follower."""
    connection = held.enter_context(served.connection())
    connection.request("GET", "/changes")
    answer = held.enter_context(connection.getresponse())
    return answer if answer.status == 200 else None


def test_before_it_is_ready_a_server_asks_to_come_again(world_run, tmp_path):
    def slow():
        compiles = run_module.compile_kernels

        def waiting(learner, say):
            until((tmp_path / "gate").exists)
            return compiles(learner, say)

        run_module.compile_kernels = waiting

    run = world_run([], False)
    process = run.fork("serve", str(run.config), "--port", "0", first=slow)
    until(lambda: "serving at" in run.said and run.said.endswith("\n"))
    served = Client(run.said)
    with served.connection() as connection:
        connection.request("GET", "/changes")
        answer = connection.getresponse()
        assert (answer.status, answer.getheader("Retry-After")) == (503, "1")
    (tmp_path / "gate").touch()
    until(lambda: served.ask("GET", "/readyz")[0] == 200)
    with events(served):
        os.kill(process, signal.SIGTERM)
        assert wait(process) == 0
    assert "Traceback" not in run.said
