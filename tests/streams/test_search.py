"""Our own stream of searches: how it is made, what it holds, and that TRON and ADMM agree on it."""

import json
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from onlinesrl.core.evaluation.prequential import Metrics
from onlinesrl.core.example import decode
from onlinesrl.psl.ground.hinge_loss_mrf import AT_MOST, validate
from onlinesrl.psl.inference.admm import Admm
from onlinesrl.psl.inference.tron import Tron
from onlinesrl.psl.lang import reader
from onlinesrl.runs.config.loading import load
from onlinesrl.runs.run import make_learner
from tests.support.stream_scripts import REPO, STREAMS, generator, ground

STREAM = STREAMS / "search"
CONFIG = REPO / "configs" / "search.yaml"
OPEN = ["Mismatch", "StrongMismatch"]


@pytest.fixture(scope="module")
def lines() -> list[bytes]:
    return (STREAM / "search.jsonl").read_bytes().splitlines()


@pytest.fixture(scope="module")
def examples(lines: list[bytes]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines]


def values(example: dict[str, Any], name: str) -> dict[tuple[str, ...], float]:
    return {tuple(atom["args"]): atom["value"] for atom in example["evidence"].get(name, [])}


def test_it_is_as_large_as_its_readme_says(examples: list[dict[str, Any]]) -> None:
    readme = (STREAM / "README.md").read_text(encoding="utf-8")
    assert f"{len(examples)} simulated searches" in readme
    assert f"{sum(len(e['evidence']['Similar']) for e in examples):,} atoms" in readme
    assert f"3,000, of which {sum(len(e['truth']['Mismatch']) for e in examples):,}" in readme
    assert f"the {sum('StrongTMC' in e['evidence'] for e in examples)} queries" in readme


def test_a_query_scores_its_ten_products(examples: list[dict[str, Any]]) -> None:
    for e in examples:
        pairs = [[e["id"], f"p{n}"] for n in range(10)]
        assert [atom["args"] for atom in e["evidence"]["TMC"]] == pairs
        assert e["query"]["Mismatch"] == pairs
        assert all(0 <= value <= 1 for value in values(e, "TMC").values())
        assert all(pair in pairs for pair in e["truth"]["Mismatch"])


def test_sure_scores_open_the_second_predicate_where_others_are_unsure(
    examples: list[dict[str, Any]],
) -> None:
    for e in examples:
        scores = values(e, "TMC")
        sure = {pair: x for pair, x in scores.items() if not 0.1 <= x <= 0.9}
        both = 0 < len(sure) < len(scores)
        assert values(e, "StrongTMC") == (sure if both else {})
        assert e["query"].get("StrongMismatch") == (e["query"]["Mismatch"] if both else None)
        assert e["truth"].get("StrongMismatch") == (e["truth"]["Mismatch"] if both else None)


def test_similarity_goes_both_ways(examples: list[dict[str, Any]]) -> None:
    for e in examples:
        similar = values(e, "Similar")
        assert all(similar[b, a] == value for (a, b), value in similar.items())
        assert all(0 < value <= 1 and a != b for (a, b), value in similar.items())


def test_the_scores_are_calibrated() -> None:
    """Of the products with scores about x, the share x mismatches; 20,000 of them."""
    generate = generator("search")
    rng = Random(1)
    products = [product for _ in range(2000) for product in generate.search(rng)]
    scores = np.array([product.score for product in products])
    true = np.array([product.mismatch for product in products])
    bins = np.digitize(scores, [0.05, 0.2, 0.3, 0.4, 0.5, 0.6, 0.95])
    for number in range(8):
        inside = bins == number
        error = 4 * np.sqrt(0.25 / inside.sum())
        assert abs(true[inside].mean() - scores[inside].mean()) < error


def test_the_weights_are_those_of_table_5_2() -> None:
    rules = reader.load(STREAM / "search.psl").rules
    assert [rule.weight for rule in rules] == [10, 10, 0, 0, 1000, 1000, 10, 10, 100, 100, 1, 1]
    assert all(rule.power == 2 for rule in rules)


def test_every_query_can_be_ground_and_no_rule_reaches_beyond_its_query(lines: list[bytes]) -> None:
    examples = [decode(line) for line in lines]
    found = ground(STREAM / "search.psl", OPEN, examples)
    graphs = found.graphs
    assert not found.failures
    validate(graphs.model)
    assert not np.any(graphs.model.kind >= AT_MOST)
    sizes = [sum(map(len, e.query.values())) for e in examples]
    assert np.diff(graphs.first_variable).tolist() == sizes
    strong = np.isin(graphs.model.weight_index, [4, 5])
    per_query = np.add.reduceat(strong, graphs.first_row[:-1])
    assert np.all(per_query <= 20)
    assert np.all((per_query > 0) == (np.array(sizes) == 20))


def test_a_missing_sure_score_pulls_nothing(lines: list[bytes]) -> None:
    """An unsure product is what the sure ones like it say, and not 0."""
    example = next(e for e in map(decode, lines) if "StrongTMC" in e.evidence)
    graphs = ground(STREAM / "search.psl", OPEN, [example]).graphs
    rows = np.flatnonzero(np.isin(graphs.model.weight_index, [4, 5]))
    pulled = {
        int(v)
        for row in rows
        for v in graphs.model.variable[slice(*graphs.model.start[row : row + 2])]
    }
    sure = [
        i
        for i, atom in enumerate(example.query["StrongMismatch"])
        if atom in [each.args for each in example.evidence["StrongTMC"]]
    ]
    assert pulled == {10 + i for i in sure}


def test_tron_and_admm_agree_and_the_prior_is_a_ridge(lines: list[bytes]) -> None:
    examples = [decode(line) for line in lines[:40]]
    graphs = ground(STREAM / "search.psl", OPEN, examples).graphs
    weights = np.array([rule.weight for rule in reader.load(STREAM / "search.psl").rules])
    y, _ = Tron().solve_each(graphs, weights)
    ridged, _ = Tron(ridge=1.0).solve_each(graphs, np.where(np.arange(12) < 10, weights, 0.0))
    np.testing.assert_allclose(ridged, y, atol=1e-6)
    for n in range(len(examples)):
        model = graphs.micrograph(n)
        ours = y[graphs.first_variable[n] : graphs.first_variable[n + 1]]
        found = Admm().solve(model, weights)
        assert found.certified
        assert model.energy(ours, weights) <= found.energy + 1e-7
        np.testing.assert_allclose(ours, found.y, atol=2e-3)


def test_one_pass_beats_the_weights_of_the_table(lines: list[bytes]) -> None:
    learner, untrained = (make_learner(load(CONFIG, [])) for _ in range(2))
    examples = [decode(line) for line in lines]
    scores = []
    for each, learning in ((learner, True), (untrained, False)):
        metrics = Metrics()
        metrics.add(each.step(examples, learning=learning)[1], len(examples))
        scores.append(metrics.snapshot()["f1"])
    assert 0.6 < scores[1] < 0.67
    assert scores[0] > 0.7


def test_the_comparison_runs(tmp_path: Path) -> None:
    command = [sys.executable, str(STREAM / "micrographs.py"), "20"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=REPO)
    assert done.returncode == 0, done.stderr
    rows = [line.split(" | ")[0].strip("| ") for line in done.stdout.splitlines()]
    assert [row for row in rows if row in ("TMC", "STMC", "SMC", "S2MC")] == [
        "TMC",
        "STMC",
        "SMC",
        "S2MC",
        "STMC",
        "SMC",
        "S2MC",
    ]
    assert "20 queries" in done.stdout
