"""A served world: its changes, its answer, its explanations, and the stream of what changed."""

import json
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from urllib.parse import quote

import pytest

from tests.support.serving import Served, learned
from tests.support.waiting import PATIENCE
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
            while "data" not in fields:
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


def test_what_is_odd_has_one_clear_error(world_run):
    served = Served(world_run([], False))
    for path, status, words in (
        ("/atoms?atom=Good(zoe)", 422, "Good(zoe) is neither observed nor a target"),
        ("/atoms?atom=Bad(zoe)", 422, "the model has no predicate Bad"),
        ("/atoms?atom=Good", 400, "Good"),
        ("/explain", 400, "expected an `atom`"),
        (f"/explain?{'&'.join(['atom=Good(zoe)'] * 11)}", 400, "expected an `atom`, at most 10"),
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
