"""What a probability would be without a constant or an evidence atom, against all states of a world."""

import math
from typing import Any

import pytest

import onlinesrl as srl

MODEL = """
Flag(v, t)
Linked(t, t)
Fraud(t)

1.5 Flag(v, t) => Fraud(t)
1.2 Linked(t, s) ^ Fraud(s) => Fraud(t)
-1 Fraud(t)
"""
EVIDENCE: dict[str, Any] = {
    "Flag": [["new", "t1"], ["odd", "t2"], ["odd", "t3"]],
    "Linked": [["t1", "t2"], ["t1", "t3"], ["t3", "t1"]],
}


def learner(engine: str = "mcsat") -> srl.OnlineLearner:
    return srl.OnlineLearner(srl.Model(MODEL), "Fraud", inference={"engine": engine})


def by_hand(flags: set[str], links: set[tuple[str, str]], payments: tuple[str, ...]) -> float:
    """The probability of Fraud(t1), from all states of the payments."""
    total = [0.0, 0.0]
    for bits in range(2 ** len(payments)):
        fraud = {t for n, t in enumerate(payments) if bits >> n & 1}
        score = -1.0 * len(fraud)
        score -= 1.5 * len(flags - fraud)
        score -= 1.2 * sum(s in fraud and t not in fraud for t, s in links)
        total["t1" in fraud] += math.exp(score)
    return total[1] / sum(total)


def test_probabilities_are_those_of_all_states() -> None:
    told = srl.explain(learner(), srl.Example(id="x", evidence=EVIDENCE), "Fraud(t1)")
    everyone = ("t1", "t2", "t3")
    flags, links = {"t1", "t2", "t3"}, {("t1", "t2"), ("t1", "t3"), ("t3", "t1")}
    expected = {
        "t2": by_hand(flags - {"t2"}, {("t1", "t3"), ("t3", "t1")}, ("t1", "t3")),
        "t3": by_hand(flags - {"t3"}, {("t1", "t2")}, ("t1", "t2")),
        "Flag(new, t1)": by_hand(flags - {"t1"}, links, everyone),
        "Flag(odd, t2)": by_hand(flags - {"t2"}, links, everyone),
        "Flag(odd, t3)": by_hand(flags - {"t3"}, links, everyone),
        "Linked(t1, t2)": by_hand(flags, links - {("t1", "t2")}, everyone),
        "Linked(t1, t3)": by_hand(flags, links - {("t1", "t3")}, everyone),
        "Linked(t3, t1)": by_hand(flags, links - {("t3", "t1")}, everyone),
    }
    base = by_hand(flags, links, everyone)
    assert told.probability == pytest.approx(base, abs=1e-6)
    expected = {name: p for name, p in expected.items() if abs(p - base) >= 0.005}
    assert dict(told.without) == pytest.approx(expected, abs=1e-6)
    assert [*told.without] == sorted(told.without, key=lambda pair: -abs(pair[1] - base))
    (first, p), *_ = told.without
    assert f"  probability {base:.2f}; without {first} {p:.2f}; " in str(told)
    assert not told.sampled


def test_the_last_neighbour_leaves_its_atom_alone() -> None:
    """Without it nothing names the atom's constant any more, which stays nevertheless."""
    evidence: dict[str, Any] = {"Linked": [["t1", "t2"], ["t2", "t1"]]}
    told = srl.explain(learner(), srl.Example(id="x", evidence=evidence), "Fraud(t1)")
    assert dict(told.without)["t2"] == pytest.approx(by_hand(set(), set(), ("t1",)), abs=1e-6)


def test_listed_atoms_of_a_constant_go_with_it() -> None:
    query = {"Fraud": [["t1"], ["t2"], ["t3"]]}
    x = srl.Example(id="x", evidence=EVIDENCE, query=query, asked={"Fraud": [["t1"]]})
    told = srl.explain(learner(), x, "Fraud(t1)")
    open_ = srl.explain(learner(), srl.Example(id="x", evidence=EVIDENCE), "Fraud(t1)")
    assert told.without == open_.without


@pytest.mark.parametrize(("engine", "tries"), [("mpe", 100), ("mcsat", 0)])
def test_there_is_none_without_probabilities_or_tries(engine: str, tries: int) -> None:
    x = srl.Example(id="x", evidence=EVIDENCE)
    told = srl.explain(learner(engine), x, "Fraud(t1)", tries=tries)
    assert told.probability is None
    assert told.without == ()
    assert "probability" not in str(told)


def test_tries_bound_what_is_left_out() -> None:
    x = srl.Example(id="x", evidence=EVIDENCE)
    told = srl.explain(learner(), x, "Fraud(t1)", tries=1)
    assert [name for name, _ in told.without] == ["t2"]
