"""Queries of the stream of searches: a missing score, TRON and ADMM, limits of scores."""

import numpy as np
import pytest

from onlinesrl.core.example import Example, decode
from onlinesrl.psl.inference.admm import Admm
from onlinesrl.psl.inference.tron import Tron
from onlinesrl.psl.lang import reader
from tests.support.stream_scripts import STREAMS, generator, ground

STREAM = STREAMS / "search"
OPEN = ["Mismatch", "StrongMismatch"]


@pytest.fixture(scope="module")
def examples() -> list[Example]:
    return [decode(line) for line in (STREAM / "search.jsonl").read_bytes().splitlines()[:40]]


def test_a_missing_sure_score_pulls_nothing(examples: list[Example]) -> None:
    """An unsure product is what the sure ones like it say, and not 0."""
    example = next(e for e in examples if "StrongTMC" in e.evidence)
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


def test_tron_and_admm_agree(examples: list[Example]) -> None:
    graphs = ground(STREAM / "search.psl", OPEN, examples).graphs
    weights = np.array([rule.weight for rule in reader.load(STREAM / "search.psl").rules])
    y, _ = Tron().solve_each(graphs, weights)
    for n in range(len(examples)):
        model = graphs.micrograph(n)
        ours = y[graphs.first_variable[n] : graphs.first_variable[n + 1]]
        found = Admm().solve(model, weights)
        assert found.certified
        assert model.energy(ours, weights) <= found.energy + 1e-7
        np.testing.assert_allclose(ours, found.y, atol=2e-3)


def test_no_limits_no_coverage_and_limits_that_meet_cover_nothing() -> None:
    limits = generator("papers", "limits")
    of = limits.stream(40)
    covered = [
        limits.with_limits(of, *pair)[1] for pair in ((0.0, 1.0), (0.1, 0.9), (0.505, 0.505))
    ]
    assert [bool(each.any()) for each in covered] == [False, True, False]
    asked, both = limits.with_limits(of, 0.1, 0.9)
    for query, made, is_covered in zip(of.queries, asked, both, strict=True):
        assert is_covered == ("StrongTMC" in query.evidence)  # the stream's own limits
        assert made.evidence.get("StrongTMC", []) == query.evidence.get("StrongTMC", [])
        assert set(made.query or {}) == set(query.query or {})


def test_the_comparison_runs(capsys: pytest.CaptureFixture[str]) -> None:
    generator("search", "micrographs").main(20)
    rows = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines()]
    names = [row[0] for row in rows if row[0] in ("TMC", "STMC", "SMC", "S2MC")]
    assert names == ["TMC", "STMC", "SMC", "S2MC", "STMC", "SMC", "S2MC"]
