"""A server among strangers: turns, limits, descriptors, and requests that are not what they seem."""

import json
import os
import signal
import socket
from contextlib import ExitStack

import pytest
from conftest import soaked, wait
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from onlinesrl.core.errors import PortError
from onlinesrl.runs.http import server
from onlinesrl.runs.http.server import At, may_ask
from onlinesrl.stream.run_folder import RunFolder
from onlinesrl.stream.sources.request_queue import PendingRequest, Requests
from tests.support.serving import JSON, LINES, Served, ask
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.usefixtures("counting")

# turns and limits --------------------------------------------------------------------------------


def test_many_lines_are_refused_and_many_lines_of_one_example_are_not(job):
    served = Served(job([], limits={"request_lines": 3}))
    refused = b'{"error":"more than 3 lines (limits.request_lines): send them in parts"}\n'
    for path in ("/predict", "/learn"):
        for body in (b"{}\n" * 4, b"{}\n{}\n{}\n{}", b"\n" * 4):
            assert served.ask("POST", path, body, LINES) == (413, refused)
        for body in (b"{}\n" * 3, b"{}\n{}\n{}"):
            status, text = served.ask("POST", path, body, LINES)
            assert (status, text.count(b"\n")) == (200, 3)
        assert served.ask("POST", path, b"{\n\n\n\n\n}", JSON)[0] == 422
    assert served.stop() == 0


# keys on which answers depend --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "now", "said"),
    [
        ("source.max_bytes", "1000", "source.max_bytes: was 8000000, is 1000"),
        soaked("inference.max_work", "1", "inference.max_work: was 1000000, is 1"),
        soaked("inference.unsolved", "skip", "inference.unsolved: was 'fallback', is 'skip'"),
    ],
)
def test_what_was_answered_is_read_with_the_limits_of_its_time(job, citations, key, now, said):
    run = job([], checkpoint={"every": 1000})
    served = Served(run)
    served.post("/learn", [line.rstrip() for line in citations[:10]])
    os.kill(served.process, signal.SIGKILL)
    wait(served.process)
    change = ("--set", f"{key}={now}")
    assert run.call("serve", run.config, "--port", 0, *change) == 78
    assert said in run.said
    assert "requests.jsonl has examples that came after it" in run.said
    served = Served(run)  # as before, to the end
    assert served.stop() == 0
    assert len(run.predictions()) == 10
    assert not run.lines("deadletter.jsonl")
    served = Served(run, *change)  # nothing is left that was answered before
    assert served.stop() == 0, run.said


def test_requests_over_too_many_connections_are_refused(monkeypatch):
    monkeypatch.setattr(server, "CLIENTS", 3)
    routes = [Route("/", lambda request: PlainTextResponse("yes"))]
    with server.Server(At()) as served, ExitStack() as held:
        served.start(routes)

        def status():
            address = "127.0.0.1", served.port
            client = held.enter_context(socket.create_connection(address, PATIENCE))
            client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            return client.recv(12)[-3:]

        assert [status() for _ in range(3)] == [b"200", b"200", b"503"]


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_answers_over_a_kept_connection_are_sent_at_once(host):
    """Without TCP_NODELAY the body of an answer waits for the client's delayed acknowledgement."""
    routes = [Route("/", lambda request: PlainTextResponse("yes"))]
    try:
        served = server.Server(At(host))
    except PortError as error:
        pytest.skip(f"no address {host} here: {error}")
    with served:
        served.start(routes)
        with socket.create_connection((host, served.port), PATIENCE) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert client.recv(15) == b"HTTP/1.1 200 OK"
            (connection,) = served.uvicorn.server_state.connections
            opened = connection.transport.get_extra_info("socket")
            assert opened.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


# who may ask, and how ------------------------------------------------------------------------------


@pytest.mark.parametrize("may", [True, False])
def test_one_rule_for_hosts(may):
    good = "localhost LOCALHOST:8080 127.0.0.1:1 [::1]:8080 10.1.2.3 learner:9464"
    bad = (
        "elsewhere.example localhost.elsewhere.example 127.0.0.1.elsewhere.example user@localhost "
    )
    bad += "localhost,elsewhere.example [elsewhere] [::1 ::1 localhost:port "
    names = At("0.0.0.0", 0, ["Learner"]).names
    app = server.application([Route("/", lambda request: PlainTextResponse("yes"))], names)
    for header in (good if may else bad).split(" "):
        assert may_ask(header, names) is may
        answer = TestClient(app).get("/", headers={"Host": header})
        assert answer.status_code == (200 if may else 400)
        assert may or "--allow-host NAME" in answer.text


def test_the_rule_holds_at_every_address(job, citations):
    served = Served(job([]), "--host", "127.0.0.2", "--allow-host", "learner", host="127.0.0.2")
    with served.connection() as client:
        for host, status in (("learner:80", 200), ("127.0.0.2", 200), ("elsewhere.example", 400)):
            answer = ask(client, "POST", "/learn", citations[0], Host=host)
            assert answer[0] == status
            client.close()
    assert served.stop() == 0
    assert len(served.job.lines("predictions.jsonl")) == 2


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "::1", "::"])
def test_a_server_that_is_open_to_other_machines_says_so(host, capsys):
    """Of runs, of metrics and of the dashboard: they have one server in common."""
    try:
        with server.Server(At(host)) as served:
            said = f"warning: {served.address}: open to other machines, without a password"
    except PortError as error:
        pytest.skip(f"no address {host} here: {error}")
    assert capsys.readouterr().err.startswith(said) is (host in ("0.0.0.0", "::"))


# locks -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["serve", "run"])
def test_who_has_no_folder_does_not_say_that_it_serves(job, command):
    run = job([])
    ports = ["--port", "0"] if command == "serve" else ["--metrics-port", "0"]
    with RunFolder(run.output):
        assert run.call(command, run.config, *ports) == 75
    assert run.said.count("\n") == 1
    assert "is running in this folder" in run.said


def test_the_journal_takes_what_json_may_have(job, citations):
    """Line ends within an example, of all kinds, are not lines of the journal."""
    served = Served(job([]))
    example = json.loads(citations[0]) | {"id": "\u2028\x85\x0b\r\n"}
    text = json.dumps(example, ensure_ascii=False, indent=1).replace("\n", "\r\n")
    assert served.ask("POST", "/learn", text.encode())[0] == 200
    assert served.ask("POST", "/learn", citations[1])[0] == 200
    assert served.stop() == 0
    assert next(each["id"] for each in served.job.predictions()) == example["id"]


def test_requests_take_turns():
    with Requests() as queue:
        queue.take(4, 4)
        queue._pace.most = 4
        greedy = PendingRequest(b"".join(b"g%d\n\n" % n for n in range(11)), learn=True)
        assert queue.put(greedy)
        assert queue.put(PendingRequest(b" s0 \r\n\n", learn=True))
        turns: list[list[bytes]] = []
        for _ in range(4):
            lines = queue.take(4, 4)
            for line in lines:
                line.answer(b"", False)
            turns.append([line.text for line in lines])
        assert turns == [
            [b"g0", b"g1", b"s0", b"g2"],
            [b"g3", b"g4", b"g5", b"g6"],
            [b"g7", b"g8", b"g9", b"g10"],
            [],
        ]
        assert greedy.done.done()
        assert len(greedy.answers) == 11
