"""Clauses that are ground only where a state violates them, against other algorithms and eager grounding."""

import math
from itertools import combinations
from random import Random

import pytest
from conftest import tiers

import onlinesrl as srl
from onlinesrl.core.errors import ExampleError, Infeasible
from onlinesrl.mln.query import world as world_module
from tests.support.families import FAMILIES, case

DEDUPLICATION = """Similar(record, record): real
Same(record, record)
1 Similar(x, y) => Same(x, y)
"""
HARD = """Same(x, x).
!Same(x, y) v Same(y, x).
!Same(x, y) v !Same(y, z) v Same(x, z).
"""
SOFT = """Same(x, x).
0.7 Same(x, y) => Same(y, x)
0.4 !Same(x, y) v !Same(y, z) v Same(x, z)
"""


@pytest.fixture
def lazy(monkeypatch):
    """All clauses that hold by default are left out at first."""
    monkeypatch.setitem(world_module.EAGER, "auto", 0)


def similarities(n: int, noise: float, seed: int) -> dict[tuple[str, str], float]:
    """Similarities of n records of about n / 3 things; a share ``noise`` has the wrong sign."""
    rng = Random(seed)
    thing = [rng.randrange(max(1, n // 3)) for _ in range(n)]
    return {
        (f"R{i:03}", f"R{j:03}"): round(rng.uniform(0.2, 1), 3)
        * (1 if (thing[i] == thing[j]) == (rng.random() >= noise) else -1)
        for i, j in combinations(range(n), 2)
    }


def answer(rules: str, similar, **options):
    found = srl.infer(DEDUPLICATION + rules, {"Similar": similar}, "Same", **options)
    return {atom for atom, x in found["Same"].items() if x}, found.stats


@pytest.mark.parametrize("name", FAMILIES)
@tiers("number", 3, 1_000)
def test_answers_are_those_of_other_algorithms(lazy, name, number):
    for seed in range(number):
        of = case(name, seed, large=seed % 2 == 1)
        arguments = (of.family.rules, of.evidence, of.family.query)
        if of.best is None:
            with pytest.raises((Infeasible, ExampleError)):
                srl.infer(*arguments, closed=[*of.facts])
            continue
        found = srl.infer(*arguments, closed=[*of.facts])
        state = of.state((n, row) for n in of.family.query for row, x in found[n].items() if x)
        assert found.certified
        assert of.value(state) == pytest.approx(of.best, abs=1e-6)
        eager = srl.infer(*arguments, closed=[*of.facts], lazy="never")
        assert found.stats["score"] == pytest.approx(eager.stats["score"], abs=1e-6)


@pytest.mark.parametrize("rules", [HARD, SOFT])
@tiers("number", 6, 300)
def test_deduplication_as_eager(lazy, rules, number):
    for seed in range(number):
        similar = similarities(4 + seed % 6, 0.1 * (seed % 4), seed)
        same, stats = answer(rules, similar)
        other, eager = answer(rules, similar, lazy="never")
        assert stats["certified"]
        for key in ("score", "cost"):
            assert stats[key] == pytest.approx(eager[key], abs=1e-6)
        assert same == other or rules == SOFT


def test_a_hundred_records_are_certified_from_few_ground_clauses():
    similar = similarities(100, 0.02, 0)
    same, stats = answer(HARD, similar, lazy="auto")
    assert stats["certified"]
    assert stats["hard_clauses"] < 20_000
    for x, y in same:
        assert all((x, z) in same for a, z in same if a == y)
    cost = sum(abs(s) for pair, s in similar.items() if (pair in same) != (s > 0))
    assert stats["cost"] == pytest.approx(cost)


def test_evidence_that_breaks_a_rule_left_out_is_told(lazy):
    rules = "Same(r, r)\nKnown(r)\n!Same(x, y) v !Same(y, z) v Same(x, z).\n"
    evidence = {"Same": {("A", "B"): 1, ("B", "C"): 1, ("A", "C"): 0}}
    with pytest.raises(Infeasible, match=r"evidence breaks this hard rule for"):
        srl.infer(rules, evidence, "Same", closed=["Known"])


def test_too_many_violated_clauses_name_the_rule(lazy):
    rules = "Near(r, r)\nSame(r, r)\n5 Near(x, y) => Same(x, y)\n!Same(x, y) v !Same(y, z) v Same(z, x).\n"
    near = [[f"A{i}", f"A{j}"] for i in range(200) for j in range(i)]
    with pytest.raises(ExampleError, match=r"more ground clauses than .*!Same\(x, y\) v !Same"):
        srl.infer(rules + "4 !Same(x, y)\n", {"Near": near}, "Same")


@pytest.mark.parametrize("max_work", [1, 1_000, 20_000])
def test_a_limit_gives_a_possible_state_and_its_gap(max_work):
    """It ends the first linear program, a later one, or the search of the integer program."""
    similar = similarities(40, 0.3, 1)
    same, stats = answer(HARD, similar, max_work=max_work)
    assert not stats["certified"]
    assert stats["bound"] < stats["cost"] < math.inf
    assert stats["bound"] > 0 or max_work == 1  # no step of the simplex: any state may cost nothing
    for x, y in same:
        assert (y, x) in same
        assert all((x, z) in same for a, z in same if a == y)


@pytest.mark.parametrize("seed", range(3))
def test_the_bound_of_a_limited_search_is_below_a_cost_that_is_reached(lazy, seed):
    similar = similarities(16, 0.5, seed)
    _, stats = answer(SOFT, similar, max_work=1)
    _, walk = answer(SOFT, similar, method="walksat")
    assert not stats["certified"]
    assert stats["bound"] <= min(stats["cost"], walk["cost"]) + 1e-6


@pytest.mark.parametrize("seed", range(4))
def test_the_bound_after_a_limited_round_holds_for_all_clauses(lazy, seed):
    rng, names = Random(seed), [f"C{i}" for i in range(6)]
    rules = """W(t, t): real
Same(t, t)
P(t)
1 W(x, y) ^ Same(x, y)
0.4 P(x)
0.3 Same(x, y) ^ P(y) => P(x)
0.7 Same(x, y) ^ Same(y, z) => Same(z, x)
0.3 Same(x, y) ^ Same(x, z) => y = z
1.1 Same(x, y) ^ Same(y, z) => Same(x, z)
"""
    evidence = {"W": {(a, b): round(rng.uniform(-1, 1), 2) for a in names for b in names}}
    eager = srl.infer(rules, evidence, ["Same", "P"], lazy="never").stats
    limited = srl.infer(rules, evidence, ["Same", "P"], max_work=20_000).stats
    assert eager["certified"]
    gap = limited["cost"] - limited["bound"]
    assert limited["score"] + gap >= eager["score"] - 1e-6


def test_the_setting_is_checked():
    with pytest.raises(srl.OnlinesrlError, match="lazy is often for mpe: expected auto or never"):
        answer(HARD, similarities(3, 0, 0), lazy="often")
    with pytest.raises(srl.OnlinesrlError, match=r"lazy is \['never'\] for mpe"):
        answer(HARD, similarities(3, 0, 0), lazy=["never"])
    with pytest.raises(srl.OnlinesrlError, match=r"lazy is never for walksat: .* for mpe only"):
        answer(HARD, similarities(3, 0, 0), lazy="never", method="walksat")
