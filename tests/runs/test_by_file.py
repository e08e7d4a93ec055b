"""The files of a source predicted side by side: what is written and said is what one process does."""

import gzip
import json
import os
import subprocess
import sys

import pytest
from conftest import REPO, Job

MAIN = "import sys; from onlinesrl.commands.cli import main; sys.exit(main())"


@pytest.fixture
def many(job, citations):
    """A run whose examples then come in files: with a bad line, empty, packed, and of groups."""
    made = job(citations[:40])
    assert made.run() == 0, made.said
    folder = made.folder / "days"
    folder.mkdir()
    (folder / "a.jsonl").write_bytes(b"".join(citations[40:50]) + b"{\n")
    (folder / "b.jsonl").write_bytes(b"")
    (folder / "c.jsonl.gz").write_bytes(gzip.compress(b"".join(citations[50:55])))
    for name, group in (("d", "old"), ("e", "new")):
        grouped = [json.dumps(json.loads(line) | {"group": group}) for line in citations[55:60]]
        (folder / f"{name}.jsonl").write_text("\n".join(grouped))
    return made


def predicted(job: Job, *options: str) -> tuple[int, str, str]:
    """The exit code, and what is written and said."""
    files = f"source.path={job.folder / 'days'}"
    code = job.call("predict", job.output, job.config, "--set", files, *options)
    return code, job.printed, job.said


@pytest.mark.parametrize("workers", [1, 3])
def test_the_lines_are_those_of_one_process(many, workers):
    code, lines, said = predicted(many)
    assert (code, len(lines.splitlines())) == (0, 26)
    assert f"warning: {many.folder}/days/a.jsonl:11: not an example" in said
    assert predicted(many, "--distribute", f"workers={workers}") == (0, lines, said)


@pytest.mark.soak
def test_ray_gives_the_same_lines(many):
    """Not in forks of this process, which other tests have connected to Ray."""
    files = ["--set", f"source.path={many.folder / 'days'}"]
    command = [sys.executable, "-c", MAIN, "predict", str(many.output), str(many.config), *files]
    lines = []
    for where in ((), ("--distribute", "engine=ray", "--distribute", "workers=2")):
        done = subprocess.run(
            [*command, *where],
            env={**os.environ, "PYTHONPATH": str(REPO)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        lines.append(done.stdout)
    assert lines[0] == lines[1]
    assert len(lines[0].splitlines()) == 26


@pytest.mark.parametrize(("only", "code"), [("[new, nobody]", 0), ("[nobody]", 65)])
def test_groups_are_looked_for_in_all_files(many, only, code):
    choice = ("--set", f"source.only={only}")
    expected = predicted(many, *choice)
    assert expected[0] == code
    assert ("nobody" in expected[2]) == ("nobody" in only)
    assert predicted(many, *choice, "--distribute", "workers=2") == expected


def test_what_cannot_be_divided_is_refused(many):
    where = ("--distribute", "workers=2")
    code, _, said = predicted(many, *where, "--set", "source.path=-")
    assert (code, "standard input is no file of many" in said) == (64, True)
    code, _, said = predicted(many, *where, "--tables", "there")
    assert (code, "leave --tables out" in said) == (64, True)


def test_examples_that_share_constants_are_not_predicted_apart(many):
    model = many.folder / "open.mln"
    model.write_text("kind = {...}\nSeen(thing)\nIs(thing, kind)\n1 Seen(x) => Is(x, k)\n")
    line = '{"id": 1, "evidence": {"Seen": [["A"]]}, "truth": {"Is": [["A", "K"]]}}\n'
    (many.folder / "days" / "a.jsonl").write_text(line)
    keys = ("--set", f"model={model}", "--set", "query=Is", "--set", "metrics.by=null")
    where = (
        "--set",
        f"source.path={many.folder / 'days' / 'a.jsonl'}",
        "--distribute",
        "workers=2",
    )
    code = many.call("predict", model, many.config, *keys, *where)
    assert code == 64, many.said
    assert "share the constants of open types" in many.said
