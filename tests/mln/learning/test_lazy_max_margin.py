"""Max-margin learning from worlds whose rules of three variables are ground where states violate them."""

from itertools import combinations
from random import Random

import pytest
from conftest import tiers

from onlinesrl.core.errors import ExampleError
from onlinesrl.core.example import GroundAtom, Number
from onlinesrl.mln.ground import model_index
from onlinesrl.mln.ground.grounder import Limits
from onlinesrl.mln.lang import reader
from onlinesrl.mln.learning.max_margin import MaxMargin
from onlinesrl.mln.learning.problem import LIMITS, MlnProblem

PAIRS = """Alike(record, record): real
Kind(record, kind)
Same(record, record)
Alike(x, y) ^ Same(x, y)
!Same(x, y)
Same(x, x).
!Same(x, y) v Same(y, x).
"""
TRANSITIVE = "!Same(x, y) v !Same(y, z) v Same(x, z)"
RULES = {
    "hard": f"{PAIRS}{TRANSITIVE}.\n",
    "soft": f"{PAIRS}{TRANSITIVE}\n",
    "template": f"{PAIRS}Kind(x, +k) ^ Kind(z, +l) => ({TRANSITIVE})\n",
}


def problem(rules: str, sizes: list[int], seed: int, limits: Limits = LIMITS) -> MlnProblem:
    """Worlds of records of about n / 3 things; a fifth of the similarities has the wrong sign."""
    rng, worlds = Random(seed), []
    for n in sizes:
        thing = {f"R{i:02}": rng.randrange(max(1, n // 3)) for i in range(n)}
        atoms = [GroundAtom("Kind", (a, f"K{rng.randrange(2)}"), True, 0) for a in thing]
        for a, b in combinations(thing, 2):
            right = (thing[a] == thing[b]) == (rng.random() >= 0.2)
            alike = Number(rng.uniform(0.2, 1.0) * (1 if right else -1))
            atoms.append(GroundAtom("Alike", (a, b), alike, 0))
        same = [(a, b) for a in thing for b in thing if thing[a] == thing[b]]
        worlds.append([*atoms, *(GroundAtom("Same", pair, True, 0) for pair in same)])
    return MlnProblem(reader.parse(rules), worlds, ("Same",), limits=limits)


@pytest.mark.parametrize("rules", RULES)
@tiers("number", 1, 20)
def test_weights_are_those_of_eager_grounding(monkeypatch, rules, number):
    """The smaller worlds have no more ground clauses than are ground at first."""
    monkeypatch.setitem(model_index.EAGER, "auto", 100)
    for seed in range(number):
        of = problem(RULES[rules], [4, 5, 6], seed)
        ours, theirs = (
            MaxMargin(c=5.0, gap=1e-6, lazy=lazy).learn(of, lambda _: None)
            for lazy in ("auto", "never")
        )
        assert ours.stats["certified"]
        assert ours.stats["objective"] == pytest.approx(theirs.stats["objective"], rel=1e-5)
        assert ours.weights == pytest.approx(theirs.weights, abs=2e-2)
        assert ours.stats["lower_bound"] <= theirs.stats["objective"] + 1e-9


def test_a_world_beyond_the_limit_of_ground_clauses(monkeypatch):
    monkeypatch.setitem(model_index.EAGER, "auto", 0)
    of = problem(RULES["hard"], [9], 0, Limits(1_000_000, 700, LIMITS.keys))
    assert MaxMargin(c=1.0, gap=0.1).learn(of, lambda _: None).stats["certified"]
    with pytest.raises(ExampleError, match=r"world 1: more ground clauses .*Same\(y, z\)"):
        MaxMargin(lazy="never").learn(of, lambda _: None)
