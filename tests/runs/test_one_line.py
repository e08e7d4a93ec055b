"""Names from a stream stay on one line of a terminal, and where they stand in a page."""

import json
from io import StringIO

import pytest
from conftest import command

from onlinesrl.runs.progress import print_summary
from onlinesrl.runs.report.html import tag

NAME = "a\nonlinesrl: all is well\r\x1b[1m\u202e"
SHOWN = r"a\nonlinesrl: all is well\r\x1b[1m\u202e"


def test_an_id_in_the_summary():
    stream = StringIO()
    config = {"output": NAME}
    print_summary({"examples": 1, "config": config}, stream)
    assert stream.getvalue().splitlines()[-1].endswith(f"  {SHOWN}")


@pytest.mark.parametrize("keys", [{}, {"distribute": {"workers": 1}}])
def test_the_id_of_a_bad_example(job, citations, keys):
    bad = {"id": NAME, "evidence": {"Nothing": [["a"]]}}
    run = job([*citations[:3], json.dumps(bad).encode() + b"\n"], **keys)
    assert run.run("--strict") == 65
    assert f"(example {SHOWN})" in run.said.splitlines()[-1]


def test_ids_that_might_be_meant(job, citations, capsys):
    example = json.loads(citations[0]) | {"id": NAME}
    run = job([json.dumps(example).encode() + b"\n"])
    assert run.run() == 0
    assert command("explain", str(run.output), "--id", "b") == 64
    said = capsys.readouterr().err
    assert f"its 1 examples begin with {SHOWN}" in said
    assert said.count("\n") == 1


def test_what_reorders_text_ends_with_its_name():
    assert tag("td", "\u202a\u202e\u2066\u2069x") == "<td>\ufffd\ufffd\ufffd\ufffdx</td>"
    assert tag("td", "\u05d0\u200f") == "<td>\u05d0\u200f</td>"
