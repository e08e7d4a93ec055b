"""What a citation costs: in a run beside CRFsuite, in shards, one by one; growth.

Tests read the citations of ``streams/citations``, benchmarks those of CiteSeer.
"""

import json
from collections.abc import Callable, Sequence
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from statistics import median

import numpy as np
import pytest

import onlinesrl as srl
from onlinesrl.core.example import Example, decode
from onlinesrl.runs.config.loading import load
from onlinesrl.runs.run import make_learner
from tests.benchmarks.measure import ONLINESRL, Used, in_turns, python, ratio, show, sizes, timed
from tests.support.paths import REPO, SHARED
from tests.support.stream_scripts import converted

SHIPPED = REPO / "streams" / "citations" / "citations.jsonl"
CITESEER = SHARED / "data" / "citeseer"
CONFIG = REPO / "configs" / "citations.yaml"
MODEL = (REPO / "streams" / "citations" / "segmentation.mln").read_text()
FIELDS = "author", "title", "venue"
TOKENS = 25


def citations(full: bool, folder: Path) -> list[bytes]:
    """The lines of the citations."""
    if not full:
        return SHIPPED.read_bytes().splitlines()
    if not CITESEER.exists():
        pytest.skip(f"needs {CITESEER}")
    converted("citeseer", CITESEER, folder / "citeseer.jsonl")
    return (folder / "citeseer.jsonl").read_bytes().splitlines()


def repeated(lines: list[bytes], path: Path, times: int) -> Path:
    """Write citations so many times under fresh ids."""
    rows = [json.loads(line) for line in lines]
    with path.open("w") as file:
        for n in range(times):
            file.writelines(json.dumps({**row, "id": f"{row['id']}-{n}"}) + "\n" for row in rows)
    return path


def run(source: Path, *options: str) -> Used:
    """Run over a file in a process of its own, with predictions and checkpoints."""
    out = source.with_suffix("")
    sets = (f"--set=source.path={source}", f"--set=output={out}")
    used = python(*ONLINESRL, "run", CONFIG, "--fresh", *sets, *options)
    summary = json.loads((out / "summary.json").read_bytes())
    assert summary["updates"] == source.read_bytes().count(b"\n")
    return used


def shards(source: Path, workers: int) -> Used:
    """Run in rounds of eight shards of 2,000 citations, in so many processes."""
    keys = {"engine": "local", "workers": workers, "shards": 8, "round": 2000}
    return run(source, *(f"--set=distribute.{key}={value}" for key, value in keys.items()))


def crfsuites(source: Path) -> Used:
    return python("-c", "from tests.benchmarks.crfsuite import main; main()", source)


WAYS: dict[str, Callable[[Path], Used]] = {
    "a run": run,
    "CRFsuite": crfsuites,
    "in shards": lambda source: shards(source, 1),
    "in shards, two processes": lambda source: shards(source, 2),
}


@sizes("names, few, many, rounds", ([*WAYS][:2], 0, 1, 1), ([*WAYS], 4, 16, 5))
def test_a_citation_of_a_run(
    names: list[str], few: int, many: int, rounds: int, tmp_path: Path
) -> None:
    """What one more citation takes: a long stream less a short one, so that start-up is left out."""
    pytest.importorskip("pycrfsuite")
    lines = citations(rounds > 1, tmp_path)
    short = repeated(lines, tmp_path / "few.jsonl", few)
    long = repeated(lines, tmp_path / "many.jsonl", many)
    costs: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    scale = 1e6 / (many - few) / len(lines)
    for _ in range(rounds):
        for name in names:
            way = WAYS[name]
            before = way(short)[:2] if few else (0.0, 0.0)
            cpu, wall = (scale * (b - a) for a, b in zip(before, way(long)[:2], strict=True))
            costs[name].append((cpu, wall))
    columns = {name: [*zip(*of, strict=True)] for name, of in costs.items()}
    rows = [
        (name, *map(median, own), *map(ratio, columns["a run"], own))
        for name, own in columns.items()
    ]
    show("A citation, us", ("", "CPU", "wall", "CPU of a run by it", "wall"), rows)


@pytest.mark.parametrize(
    ("config", "stream"),
    [
        ("citations.yaml", "citations/citations.jsonl"),
        ("engines/psl-tron.yaml", "search/search.jsonl"),
        ("engines/psl-admm.yaml", "search/search.jsonl"),
    ],
)
@sizes("count", 3, 2000)
def test_latency_of_one_example(config: str, stream: str, count: int) -> None:
    """From the bytes of an example to its outcome, learned from, in a learner that has seen the stream."""
    lines = (REPO / "streams" / stream).read_bytes().splitlines()
    learner = make_learner(load(REPO / "configs" / config))
    learner.step([decode(line) for line in lines])
    if stream.startswith("citations"):
        lines = [x for x in lines if abs(len(decode(x).evidence["Token"]) - TOKENS) <= 2]

    def step(line: bytes) -> None:
        [outcome], _ = learner.step([decode(line)])
        assert outcome.error is None

    seconds = [timed(partial(step, line))[0] for line in islice(cycle(lines), count)]
    quantiles = np.percentile(1e3 * np.array(seconds), [50, 99, 100]).tolist()
    show(f"Latency of {config}, CPU milliseconds", ("", "p50", "p99", "most"), [("", *quantiles)])


# growth ------------------------------------------------------------------------------------------


def drawn(n: int = 64, tokens: int = TOKENS, words: int = 1000, seed: int = 0) -> list[Example]:
    """Draw citations of three fields in a row."""
    rng, places = np.random.default_rng(seed), range(tokens)
    return [
        Example(
            id=number,
            evidence={
                "Token": [[f"w{w}", i] for i, w in enumerate(rng.integers(words, size=tokens))],
                "HasPunc": [[i] for i in places if rng.random() < 0.3],
                "Next": [[i, i + 1] for i in places[:-1]],
            },
            truth={"InField": [[i, FIELDS[3 * i // tokens]] for i in places]},
        )
        for number in range(n)
    ]


def by_weights(words: int) -> tuple[srl.OnlineLearner, int]:
    learner = srl.OnlineLearner(MODEL, query="InField")
    for first in range(0, 10 * words, 256 * TOKENS):
        learner.learned.step(drawn(256, words=words, seed=first))
    return learner, len(learner.weights)


def by_updates(updates: int) -> tuple[srl.OnlineLearner, int]:
    learner = srl.OnlineLearner(MODEL, query="InField")
    while learner.learned.weights.updates < updates:
        learner.learned.step(drawn(seed=1))
    return learner, updates


def by_rules(rules: int) -> tuple[srl.OnlineLearner, int]:
    rule = "HasPunc(i) ^ Next(i, j) ^ InField(i, +f) ^ InField(j, +g)\n"
    return srl.OnlineLearner(MODEL + (rules - 10) * rule, query="InField"), rules


def by_tokens(tokens: int) -> tuple[srl.OnlineLearner, int]:
    return srl.OnlineLearner(MODEL, query="InField"), tokens


@pytest.mark.parametrize("grow", [by_weights, by_updates, by_rules, by_tokens])
@sizes("rounds, steps", (1, 2), (8, 4))
def test_growth(grow: object, rounds: int, steps: int) -> None:
    """The CPU of a step by the number of weights, of earlier updates, of rules, and of tokens."""
    amounts: Sequence[int] = {
        by_weights: (100, 1_000, 10_000, 100_000),
        by_updates: (1 << 8, 1 << 10, 1 << 12, 1 << 14),
        by_rules: (10, 20, 30, 50),
        by_tokens: (10, 40, 160, 320),
    }[grow][:steps]
    found = []
    for amount in amounts:
        learner, size = grow(amount)  # type: ignore[operator]
        examples = drawn(tokens=amount if grow is by_tokens else TOKENS)
        [seconds] = in_turns(rounds, lambda: learner.learned.step(examples))  # noqa: B023
        found.append((size, 1e6 * min(seconds) / len(examples)))
    (size, cost), rows = found[0], []
    for n, us in found:
        rows.append((f"{n:,}", us, n / size, us / cost))
    name = grow.__name__.removeprefix("by_")  # type: ignore[attr-defined]
    show(f"CPU of an example by {name}", (name, "us", "times as many", "times the cost"), rows)
