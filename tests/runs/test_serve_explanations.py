"""Explanations of a server: those of the command, of any example, and one error for what is odd."""

import json
from urllib.parse import quote

import msgspec
import pytest

from tests.support import trust_program
from tests.support.serving import JSON, LINES, Served, learned

TOKENS = b'{"id": "e", "evidence": {"Token": [["a", 0], ["b", 1]], "Next": [[0, 1]]}}'
NAME = "\u00fc5"


def test_of_large_examples_fewer_changes_are_tried(job, citations):
    served = Served(job([]))
    served.post("/learn", [line.rstrip() for line in citations[:12]])
    large = json.loads(citations[2])
    large["evidence"]["Token"] += [["and", n] for n in range(1000, 5000)]
    path, body = "/explain?atom=InField(1,venue)", json.dumps(large).encode()
    (explained,) = json.loads(served.ask("POST", path, body)[1])
    atoms = sum(map(len, large["evidence"].values()))
    assert (explained["flip"]["tried"], explained["flip"]["complete"]) == (200_000 // atoms, False)
    assert served.stop() == 0


@pytest.mark.parametrize("language", ["mln", "psl"])
def test_they_are_those_of_the_command_and_change_nothing(job, citations, tmp_path, language):
    lines, keys = [line.rstrip() for line in citations[:12]], {}
    if language == "psl":
        (tmp_path / "trust.psl").write_text(trust_program.MODEL)
        keys = {"model": str(tmp_path / "trust.psl"), "query": "Trusts", "metrics": {}}
        lines = [msgspec.json.encode(x) for x in trust_program.examples(12)]
    named = [json.dumps(json.loads(x) | {"id": f"\u00fc{n}"}).encode() for n, x in enumerate(lines)]
    run = job([], **keys)
    served = Served(run)
    for line in named:
        served.post("/learn", [line])
        status, text = served.ask("POST", "/explain?tries=3", line)
        assert status == 200, text
        assert served.post("/predict", [line])[0]["id"] == json.loads(text)[0]["id"]
    asked = f"/explain?id={quote(NAME)}&tries=20"
    found = json.loads(served.ask("GET", asked)[1])
    status, text = served.ask("GET", asked, Accept="text/plain")
    assert status == 200
    posted = json.loads(served.ask("POST", "/explain?tries=20", named[5])[1])
    assert [x | {"notes": []} for x in found] == [x | {"notes": []} for x in posted]
    atom = f"/explain?tries=20&atom={quote(found[1]['atom'])}"
    assert json.loads(served.ask("POST", atom, named[5])[1]) == posted[1:2]
    assert served.stop() == 0, run.said
    command = ["explain", run.output, "--id", NAME, "--tries", 20]
    assert run.call(*command, "--json") == 0, run.said
    assert json.loads(run.printed) == json.loads(json.dumps(found))
    assert run.call(*command) == 0
    assert run.printed == text.decode()
    again = job([(run.output / "requests.jsonl").read_bytes()], "again", **keys)
    assert again.run() == 0, again.said
    assert learned(again.output) == learned(run.output)


ODD = [
    ("", TOKENS, "text/plain", 415, "expected Content-Type application/json, an example"),
    ("", TOKENS, LINES, 415, "expected Content-Type application/json, an example"),
    ("", b"", JSON, 422, "no example"),
    ("", b"{", JSON, 422, "not an example: "),
    ("", TOKENS + b"\n" + TOKENS, JSON, 422, "not an example: "),
    ("", b"\xff" * 99, JSON, 422, "not an example: "),
    ("", b'{"id": 1, "evidence": []}', JSON, 422, "not an example: Expected `object`"),
    ("", b'{"id": 1, "truth": {"InField": []}}', JSON, 422, "not an example: "),
    ("", b'{"id": 1, "evidence": {"Tokn": []}}', JSON, 422, "Tokn"),
    ("", b'{"id": 1, "evidence": {"Token": [["a"]]}}', JSON, 422, "Token"),
    ("", b"[" + b" " * 6000 + b"]", JSON, 422, "longer than source.max_bytes (5000)"),
    ("", b" " * 10_001, JSON, 413, "longer than 10000 bytes"),
    ("?atom=InField(0,title", TOKENS, JSON, 400, "not an atom: InField(0,title"),
    ("?atom=Infield(0,title)", TOKENS, JSON, 422, "Infield is not predicted, but InField"),
    ("?atom=Token(a,0)", TOKENS, JSON, 422, "Token is not predicted, but InField"),
    ("?atom=InField(0)", TOKENS, JSON, 422, "InField takes 2 arguments"),
    ("?atom=InField(7,title)", TOKENS, JSON, 422, "is not an open atom of the example"),
    ("?change=Nothing", TOKENS, JSON, 422, "no evidence of Nothing"),
    ("?tries=many", TOKENS, JSON, 400, "Expected `int`"),
    ("?tries=1001", TOKENS, JSON, 400, "Expected `int` <= 1000"),
    ("?tries=1&tries=2", TOKENS, JSON, 400, "Expected `int`, got `array`"),
    ("?Atom=InField(0,title)", TOKENS, JSON, 400, "unknown field `Atom`"),
    ("?" + 11 * "&atom=InField(0,title)", TOKENS, JSON, 400, "Expected `array` of length <= 10"),
    ("?id=e", TOKENS, JSON, 400, "expected GET with the `id` of an example, or POST"),
    ("?atom=" + "P(" + "+" * 30_000 + "'", TOKENS, JSON, 400, "not an atom: P("),
]


def test_what_is_odd_has_one_clear_error(job):
    served = Served(job([], source={"path": "nowhere", "max_bytes": 5000}))
    for path, body, kind, status, said in ODD:
        found, text = served.ask("POST", f"/explain{path}", body, kind)
        assert (found, said in text.decode()) == (status, True), (path, body, text)
        assert json.loads(text)["error"]
        assert len(text) < 1000
    status, text = served.ask("GET", "/explain?id=" + "e" * 2000)
    assert status == 404
    assert json.loads(text)["error"].endswith("send the example itself by POST")
    assert served.ask("GET", "/explain")[0] == 400
    assert served.ask("PUT", "/explain", TOKENS)[0] == 405
    assert served.post("/predict", [TOKENS])[0]["id"] == "e"
    assert served.stop() == 0
    assert "Traceback" not in served.job.said
    assert not served.job.lines("requests.jsonl")
