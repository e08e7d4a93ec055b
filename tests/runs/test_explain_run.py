"""Explanations of a run by its folder, while it learns and when it has ended."""

import json
import os
import signal

import pytest
from conftest import Job, wait

from onlinesrl.mln.online.learner import MlnOnlineLearner
from tests.support.serving import Served
from tests.support.waiting import until

KEYS = {"checkpoint": {"every": 1, "keep": 1}}


def explained(reader: Job, run: Job, name: object) -> list[dict[str, object]]:
    """What the command says of an example of a run; ``reader`` has the files that it writes to."""
    assert reader.call("explain", run.output, "--id", name, "--tries", "5", "--json") == 0, (
        reader.said
    )
    found = json.loads(reader.printed)
    assert [each["id"] for each in found] == [name] * 3
    return found  # type: ignore[no-any-return]


@pytest.mark.parametrize("kind", ["served", "running"])
def test_a_live_process(job, citations, kind):
    lines = [json.dumps(json.loads(line) | {"id": f"c{n}"}) for n, line in enumerate(citations[:8])]
    reader = job([], "reader")
    if kind == "served":
        run = job([], **KEYS)
        served = Served(run)
        served.post("/learn", [line.encode() for line in lines])
        process = served.process
    else:
        run = job([f"{line}\n".encode() for line in lines], **KEYS)
        process = run.start("--until", "forever")
    until(lambda: any(path.stem.endswith("9") for path in run.checkpoints()))
    assert not (run.output / "summary.json").exists()
    live = explained(reader, run, "c5")
    os.kill(process, signal.SIGTERM)
    assert wait(process) == 0, run.said
    assert explained(reader, run, "c5") == live
    by_file = reader.call("explain", run.checkpoints()[-1], "--id", "c5", "--tries", "5", "--json")
    assert by_file == 0, reader.said
    notes = [{**each, "notes": []} for each in live]
    assert [{**each, "notes": []} for each in json.loads(reader.printed)] == notes
    assert reader.call("explain", run.output / "weights.mln", "--id", "c5") == 64
    assert "has no configuration of a run; give the configuration as well" in reader.said


def test_examples_that_came_from_standard_input(job, citations):
    run = job(citations[:3])

    def read() -> None:
        os.dup2(os.open(run.source, os.O_RDONLY), 0)

    assert run.call("run", run.config, "--set", "source.path=-", first=read) == 0, run.said
    assert run.call("explain", run.output, "--id", "a") == 64
    assert "its examples came from standard input; give the configuration as well" in run.said


def test_a_signal_while_the_report_explains_leaves_the_other_explanations_out(job, citations):
    run, said = job(citations[:5]), "explained"

    def interrupted() -> None:
        explain = MlnOnlineLearner.explain

        def explaining(*arguments):
            with (run.output / said).open("a") as file:
                file.write("one\n")
            os.kill(os.getpid(), signal.SIGTERM)
            return explain(*arguments)

        MlnOnlineLearner.explain = explaining  # type: ignore[method-assign]

    assert run.call("run", run.config, first=interrupted) == 0, run.said
    assert (run.output / said).read_text() == "one\n"
    assert json.loads((run.output / "summary.json").read_text())["finished"]
