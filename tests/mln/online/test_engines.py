"""Runs whose predictions another engine than exact MPE makes: what they say, learn and count."""

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Job

from onlinesrl.core.errors import ConfigError
from onlinesrl.core.evaluation.ranking_metrics import Ranking
from onlinesrl.mln.inference.exact_marginals import Exact
from onlinesrl.mln.inference.maxwalksat import WalkSat
from onlinesrl.mln.inference.mcsat import McSat
from onlinesrl.runs.config.loading import load
from tests.support import ground_mrfs

QUERY = ["Smokes", "Cancer"]

DENSE = """Friends(person, person)
Rivals(person, person)
Smokes(person)
Cancer(person)
0.7 Smokes(x) => Cancer(x)
-0.4 Smokes(x)
-0.6 Cancer(x)
0.9 Friends(x, y) => (Smokes(x) <=> Smokes(y))
-0.8 Rivals(x, y) => (Smokes(x) <=> Smokes(y))
0.5 Friends(x, y) ^ Cancer(x) => Cancer(y)
"""


def people(number: int, count: int, density: float) -> bytes:
    """Who of so many are friends and who are rivals, and who smokes; dense ones stall a search."""
    rng = random.Random(number)
    pairs = [(a, b) for a in range(count) for b in range(count) if a != b]
    related: dict[str, list[list[int]]] = {"Friends": [[0, 0]], "Rivals": []}
    for a, b in pairs:
        if rng.random() < density:
            related[rng.choice(["Friends", "Rivals"])].append([a, b])
    smokes = [[a] for a in {a for rows in related.values() for row in rows for a in row} if a % 3]
    truth = {"Smokes": smokes, "Cancer": smokes[::2]}
    return json.dumps({"id": number, "evidence": related, "truth": truth}).encode() + b"\n"


def labelled_later(line: bytes) -> list[bytes]:
    """An example without its truth, and the truth."""
    example = json.loads(line)
    label = {"id": example["id"], "truth": example.pop("truth")}
    return [json.dumps(part).encode() + b"\n" for part in (example, label)]


EASY = [people(number, 5, 0.4) for number in range(4)]
WIDE = [people(number, 24, 0.5) for number in (30, 31)]


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    """Compile the samplers here, so that forks need not."""
    model, weights = ground_mrfs.clause_model(2, [(1.0, [1, 2])])
    for engine in (McSat(samples=10), Exact(McSat())):
        engine.marginals(model, weights)
    WalkSat(flips=10).solve(model, weights)


@pytest.fixture
def stream(job: Callable[..., Job], tmp_path: Path) -> Callable[..., Job]:
    (tmp_path / "dense.mln").write_text(DENSE)
    keys = {"model": str(tmp_path / "dense.mln"), "query": QUERY, "metrics": {}}

    def make(lines: Sequence[bytes], engine: str, name: str = "job", **more: Any) -> Job:
        inference = {"engine": engine, **more.pop("inference", {})}
        return job(lines, name, inference=inference, **{**keys, **more})

    return make


def true_atoms(line: bytes) -> set[tuple[str, int]]:
    truth = json.loads(line)["truth"]
    return {(name, row[0]) for name in QUERY for row in truth[name]}


@pytest.mark.parametrize(
    ("engine", "presolve"), [("mcsat", "exact"), ("mcsat", "none"), ("gibbs", "exact")]
)
def test_marginals_are_predicted_and_ranked(
    stream: Callable[..., Job], engine: str, presolve: str
) -> None:
    run = stream(EASY, engine, inference={"presolve": presolve})
    assert run.run() == 0, run.said
    ranking = Ranking()
    for line, made in zip(EASY, run.lines("predictions.jsonl"), strict=True):
        true = true_atoms(line)
        found = {(n, a["args"][0]): a["value"] for n in QUERY for a in made["marginals"][n]}
        assert true <= found.keys()
        said = {(name, row[0]) for name in QUERY for row in made["predicted"][name]}
        assert said == {atom for atom, value in found.items() if value > 0.5}
        assert made["hamming"] == len(said ^ true)
        assert "certified" not in made
        assert made["probabilities"] == ("sampled" if "ess" in made else "exact")
        ranking.add(np.array([*found.values()]), np.array([atom in true for atom in found]))
    last = run.lines("metrics.jsonl")[-1]
    assert "certified" not in last
    assert run.call("predict", run.output, run.config) == 0
    assert "certified" not in run.printed + run.said
    assert {name: last[name] for name in ranking.measures()} == ranking.measures()
    assert last["predicates"]["Smokes"]["auc"] is not None
    route = "elimination" if presolve == "exact" else engine  # these examples are narrow
    assert {name: n for name, n in last["routes"].items() if n} == {route: len(EASY)}
    assert last["updates"] == len(EASY)
    assert last["regret_bound"] is not None  # rivals are proven


def test_sampled_marginals_say_how_far_to_trust_them(stream: Callable[..., Job]) -> None:
    run = stream([WIDE[0], EASY[0]], "mcsat")
    assert run.run() == 0, run.said
    sampled, exact = run.lines("predictions.jsonl")
    assert 1.0 <= sampled["r_hat"] < 2.0
    assert 0 < sampled["ess"] <= McSat().samples
    assert not {"r_hat", "ess"} & exact.keys()


def test_a_truth_that_comes_later_ranks_what_was_given_out(stream: Callable[..., Job]) -> None:
    at_once = stream(EASY, "mcsat", "at-once")
    later = stream([p for line in EASY for p in labelled_later(line)], "mcsat", labels={})
    assert (at_once.run(), later.run()) == (0, 0), later.said
    for name in Ranking().measures():
        assert later.lines("metrics.jsonl")[-1][name] == at_once.lines("metrics.jsonl")[-1][name]


@pytest.mark.parametrize("engine", ["walksat", "lp"])
def test_a_cheaper_engine_is_for_what_is_wide_and_proves_little(
    stream: Callable[..., Job], engine: str
) -> None:
    run = stream([*EASY[:2], *WIDE, *EASY[2:]], engine, batch=3, checkpoint={"every": 1})
    assert run.run("--until", "4") == 0, run.said
    assert run.run() == 0, run.said
    expected = run.results()
    assert run.run("--fresh", "--set", "batch=64") == 0, run.said
    assert run.results() == expected
    last = run.lines("metrics.jsonl")[-1]
    assert last["routes"] == {"elimination": len(EASY), engine: len(WIDE)}
    assert last["updates"] == len(EASY) + len(WIDE)
    assert (last["unsolved"], last["regret_bound"]) == (0, None)
    certified = [p["id"] for p in run.lines("predictions.jsonl") if p["certified"]]
    assert set(range(len(EASY))) <= set(certified)
    if engine == "walksat":
        assert last["certified"] == len(EASY)


def test_only_proven_answers_can_be_audited(stream: Callable[..., Job]) -> None:
    run = stream(EASY, "walksat", inference={"audit_every": 2})
    with pytest.raises(ConfigError, match="not for engine walksat, but for engine mpe"):
        load(run.config, [])


def test_the_slowest_examples_are_kept(stream: Callable[..., Job]) -> None:
    """Of a whole run, also of what it had done before it was stopped."""
    run = stream([*WIDE, *EASY], "mpe", inference={"max_work": 2_000})
    assert run.run("--until", "2") == 0, run.said

    def slowest() -> list[dict[str, Any]]:
        found = json.loads((run.output / "summary.json").read_bytes())["slowest"]
        assert found == sorted(found, key=lambda each: -each["seconds"])
        return found

    wide = {json.loads(line)["id"] for line in WIDE}
    assert {(each["id"], each["atoms"]) for each in slowest()} == {(name, 48) for name in wide}
    assert {each["route"] for each in slowest()} <= {
        "branch-and-bound",
        "ilp",
        "walksat",
    }  # as proven, or at the limit
    assert run.run() == 0, run.said
    assert wide <= {each["id"] for each in slowest()}
