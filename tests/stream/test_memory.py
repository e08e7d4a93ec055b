"""Memory is bounded by bytes."""

import json
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from onlinesrl.stream.source import READ_BYTES
from tests.stream.test_late_labels import shuffled

LEFT = {"checkpoint": {"every": 7}, "limits": {"bad_share": 1.0}}


def test_giants_are_read_one_by_one(job, citations):
    """What is said does not depend on it; the report shows none of them."""
    shown = [json.loads(line) for line in citations[:20]]
    for example in shown[::5]:
        example["evidence"]["Token"] *= 1 + READ_BYTES // (8 * len(json.dumps(example)))
    lines = [json.dumps(example).encode() + b"\n" for example in shown]
    runs = [job(lines, f"b{batch}", batch=batch, **LEFT) for batch in (1, 64)]
    assert [run.run() for run in runs] == [0, 0], runs[0].said
    assert runs[0].results() == runs[1].results()
    assert runs[0].lines("metrics.jsonl")[-1]["bad"] == 0


def room_for(megabytes: int) -> Callable[[], None]:
    """Let the process have only so much more memory than it has."""

    def install() -> None:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + (megabytes << 20)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))

    return install


def giant(name: str, size: int, **more: Any) -> bytes:
    """An example of so many bytes, of a citation with very many tokens."""
    count = size // 28
    tokens = [[f"word{n % 1000}", n] for n in range(count)]
    following = [[n, n + 1] for n in range(count - 1)]
    evidence = {"Token": tokens, "Next": following, **more}
    line = json.dumps({"id": name, "evidence": evidence}, separators=(",", ":"))
    return line.encode() + b"\n"


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_giants_that_are_refused_are_not_held_together(job, citations):
    """Eight of them held together would take more than the 200 MB that there are."""
    giants = [giant("g", 5_000_000, Tokn=[["x"]])] * 8
    small = job(citations[:10], "small", **LEFT)
    run = job([*citations[:5], *giants, *citations[5:10]], **LEFT)
    assert (small.run(), run.run(first=room_for(200))) == (0, 0), run.said
    assert run.lines("metrics.jsonl")[-1]["errors"] == {"schema": 8}
    assert run.predictions() == small.predictions()


# what waits ----------------------------------------------------------------------------------------


def test_what_is_given_up_does_not_depend_on_batches_and_stops(job, citations):
    lines = shuffled(citations[:110], 3)
    most = 3 * max(map(len, lines))
    keys: dict[str, Any] = {"labels": {"max_bytes": most}, **LEFT}
    runs = [job(lines, f"b{batch}", batch=batch, **keys) for batch in (1, 64)]
    assert [run.run() for run in runs] == [0, 0], runs[0].said
    stopped = job(lines, "stopped", **keys)
    assert [stopped.run("--until", str(n)) for n in (50, 75, 100)] == [0, 0, 0]
    assert stopped.run() == 0
    last = runs[0].lines("metrics.jsonl")[-1]
    assert last["expired"] > 5
    assert runs[0].results() == runs[1].results() == stopped.results()
    assert "labels.max_bytes" in runs[0].said
