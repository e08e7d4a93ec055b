"""A search that takes long says what it does, where its limit is, and what else there is."""

import io

import pytest

import onlinesrl as srl
from onlinesrl.core import search_status
from onlinesrl.mln.query.world import QueryError
from onlinesrl.runs.progress import Search, Status
from tests.support.ground_mrfs import BranchAndBound, clause_model

TRANSITIVE = """bib = {A, B, C, D, E}
Similar(bib, bib)
Same(bib, bib)
-1.2 Same(x, y)
2.5 Similar(x, y) => Same(x, y)
1.1 Same(x, y) => Same(y, x)
0.6 Same(x, y) ^ Same(y, z) => Same(x, z)
"""
SIMILAR = [[x, y] for x in "ABCDE" for y in "ABCDE" if x != y and ord(x) * ord(y) % 7 < 3]


def test_a_search_is_shown_after_seconds_and_has_advice_after_a_minute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, shown = iter([0.0, 4.0, 20.0, 20.0, 20.0, 61.0, 61.0, 61.0]), io.StringIO()
    monkeypatch.setattr("time.monotonic", lambda: next(clock, 62.0))
    search = Search(Status(shown), "use another method")
    with search_status.doing(lambda: "searching 9 atoms"):
        for _ in range(5):
            search()

    lines = shown.getvalue().splitlines()
    assert lines[:3] == ["searching 9 atoms: 20 s", "searching 9 atoms: 61 s", "use another method"]
    assert lines.count("use another method") == 1


def test_engines_say_what_they_do() -> None:
    model, weights = clause_model(3, [(1.0, [1, 2]), (1.0, [-2, 3]), (-1.0, [1, 3])])
    said: list[str] = []
    with search_status.observed(lambda: said.append(search_status.description())):
        BranchAndBound().solve(model, weights)

    assert "branch and bound on 3 atoms" in said
    assert search_status.description() == "searching"


def test_a_limit_ends_the_search_of_mpe_with_a_state_that_is_not_proven() -> None:
    limited = srl.infer(TRANSITIVE, {"Similar": SIMILAR}, "Same", max_work=1)
    found = srl.infer(TRANSITIVE, {"Similar": SIMILAR}, "Same")

    assert found.stats["certified"]
    assert not limited.stats["certified"]
    assert limited.stats["cost"] >= found.stats["cost"] >= limited.stats["bound"]
    with pytest.raises(QueryError, match=r"--max-work .* not of lp"):
        srl.infer(TRANSITIVE, {"Similar": SIMILAR}, "Same", method="lp", max_work=1)
