"""Explanations of a server: those of the command, of any example, and one error for what is odd."""

import json
import os
import signal
from pathlib import Path
from urllib.parse import quote

import msgspec
import pytest
from conftest import wait

from tests.support import dated_mails, serving, trust_program
from tests.support.golden import check
from tests.support.serving import Served, learned

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
    formulas = ["--formula", 'EXIST i InField(i, "venue")', "--given", '!InField(0, "venue")']
    asked = "&".join(
        f"{k[2:]}={quote(v)}" for k, v in zip(formulas[::2], formulas[1::2], strict=True)
    )
    status, text_of_formula = served.ask("GET", f"/explain?id={quote(NAME)}&{asked}")
    assert status == (200 if language == "mln" else 422)
    assert served.stop() == 0, run.said
    command = ["explain", run.output, "--id", NAME, "--tries", 20]
    assert run.call(*command, "--json") == 0, run.said
    assert json.loads(run.printed) == json.loads(json.dumps(found))
    assert run.call(*command) == 0
    assert run.printed == text.decode()
    assert run.call(*command, *formulas, "--json") == (0 if language == "mln" else 64), run.said
    if language == "mln":
        (one,) = json.loads(run.printed)
        assert [one] == json.loads(text_of_formula)
        assert (one["formula"], 0 < one["value"] < 1) == (formulas[1], True)
        assert run.call(*command, "--formula", 'InField(999, "venue")') == 64
        assert "the example has not all its constants" in run.said
    again = job([(run.output / "requests.jsonl").read_bytes()], "again", **keys)
    assert again.run() == 0, again.said
    assert learned(again.output) == learned(run.output)


def test_what_is_odd_has_one_clear_error(job):
    served = Served(job([], source={"path": "nowhere", "max_bytes": 5000}))

    def ask(request: str) -> str:
        path, body, kind = eval(request, {**vars(serving), "TOKENS": TOKENS})
        status, text = served.ask("POST", f"/explain{path}", body, kind)
        assert len(text) < 1000
        return f"{status}: {json.loads(text)['error']}"

    check(Path(__file__).parent / "golden" / "explanations.txt", ask)
    status, text = served.ask("GET", "/explain?id=" + "e" * 2000)
    assert status == 404
    assert json.loads(text)["error"].endswith("send the example itself by POST")
    assert served.ask("GET", "/explain")[0] == 400
    assert served.ask("PUT", "/explain", TOKENS)[0] == 405
    assert served.post("/predict", [TOKENS])[0]["id"] == "e"
    assert served.stop() == 0
    assert "Traceback" not in served.job.said
    assert not served.job.lines("requests.jsonl")


def test_an_example_from_before_a_restart_is_explained_with_probabilities(job, tmp_path):
    lines = dated_mails.mails(12)
    run = job([], **dated_mails.keys(tmp_path, metrics={}))
    served = Served(run)
    served.post("/learn", [line.rstrip() for line in dated_mails.encoded(lines)])
    asked = "/explain?id=e3&atom=Spam(m)"
    before = served.ask("GET", asked)
    assert served.stop() == 0
    again = Served(run)
    assert again.ask("GET", asked) == before
    (explained,) = json.loads(before[1])
    predict = {k: v for k, v in lines[3].items() if k not in {"truth", "unlabelled"}}
    ((probability,),) = (
        [atom["value"] for atom in answer["marginals"]["Spam"] if atom["args"] == ["m"]]
        for answer in again.post("/predict", [json.dumps(predict).encode()])
    )
    assert explained["probability"] == probability
    assert explained["without"]
    assert again.ask("GET", "/explain?id=e12")[0] == 404
    os.kill(again.process, signal.SIGKILL)
    wait(again.process)
    third = Served(run)
    status, text = third.ask("GET", asked, Accept="text/plain")
    name, other = explained["without"][0]
    assert status == 200
    assert f"probability {probability:.2f}; without {name} {other:.2f}" in text.decode()
    assert third.stop() == 0, run.said
