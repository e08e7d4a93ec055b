"""``infer`` asked for its n best answers, against enumeration of what the rules mean."""

from heapq import nlargest

import numpy as np
import pytest
from conftest import command, tiers
from hypothesis import given

import onlinesrl as srl
from onlinesrl.core.errors import ExampleError, Infeasible, UsageError
from onlinesrl.mln.query import world as world_module
from onlinesrl.mln.query.world import QueryError
from tests.support.existential_programs import programs, scores
from tests.support.families import ENUMERATED, FAMILIES, Case, case

PEOPLE = """person = {Anna, Bob}
Smokes(person)
Cancer(person)
2 Smokes(x)
1.5 Smokes(x) => Cancer(x)
"""


def enumerated(of: Case, query: list[str]) -> dict[tuple[int, ...], float]:
    """The best score of each value of the queried atoms."""
    asked = [a for a, (name, _) in enumerate(of.family.atoms) if name in query]
    best, total = {}, of.scores()
    for number in np.flatnonzero(total > -np.inf).tolist():
        key = tuple(number >> a & 1 for a in asked)
        best[key] = max(best.get(key, -np.inf), total[number])
    return best


def check(of: Case, query: list[str], n: int, **options) -> None:
    expected = enumerated(of, query)
    arguments = (of.family.rules, of.evidence, query)
    if not expected:
        with pytest.raises((Infeasible, ExampleError)):
            srl.infer(*arguments, closed=[*of.facts], best=n, **options)
        return
    asked = [atom for atom in of.family.atoms if atom[0] in query]
    found = srl.infer(*arguments, closed=[*of.facts], best=n, **options).best
    best = nlargest(n, expected.values())
    assert len(found) == len(best)
    keys = [tuple(int(answer[name].get(row, 0)) for name, row in asked) for answer in found]
    assert len({*keys}) == len(keys)
    assert [expected[key] for key in keys] == pytest.approx(best, abs=1e-6)
    for answer, score in zip(found, best, strict=True):
        assert answer.certified
        assert answer.stats["difference"] == pytest.approx(best[0] - score, abs=1e-6)
        assert answer.score == pytest.approx(found[0].score + score - best[0], abs=1e-6)
        assert answer.stats["changes"] == {
            f"{name}({','.join(row)})": value
            for name in found[0]
            for row, value in sorted(answer[name].items())
            if value != found[0][name][row]
        }


@pytest.mark.parametrize("lazy", [True, False])
@pytest.mark.parametrize("name", FAMILIES)
@tiers("number", 4, 500)
def test_families(monkeypatch, name, lazy, number):
    """Of every other case, one queried predicate alone; ``lazy``: what holds by default is left out."""
    monkeypatch.setitem(world_module.EAGER, "auto", 0)
    for seed in range(number):
        of = case(name, seed, large=False)
        if of.n <= ENUMERATED:
            query = of.family.query[: None if seed % 2 else 1]
            check(of, query, [5, 2, 9, 3][seed % 4], lazy="auto" if lazy else "never")


@given(text=programs())
def test_existential_rules(text):
    """The atoms that stand for conjunctions make no two states, and no state is lost by them."""
    expected = scores(text)
    for query in (["R", "Q", "F"], ["F"]):
        best = {}
        for state, score in expected.items():
            key = frozenset(atom for atom in state if atom[0] in query)
            best[key] = max(best.get(key, -np.inf), score)
        if not best:
            with pytest.raises((Infeasible, ExampleError)):
                srl.infer(text, {}, query, best=6)
            continue
        top = nlargest(6, best.values())
        found = srl.infer(text, {}, query, best=6).best
        keys = [
            frozenset((n, row) for n in answer for row, true in answer[n].items() if true)
            for answer in found
        ]
        assert len({*keys}) == len(keys)
        assert [best[key] for key in keys] == pytest.approx(top, abs=1e-6)
        differences = [answer.stats["difference"] for answer in found]
        assert differences == pytest.approx([top[0] - score for score in top], abs=1e-6)


def test_formulas_tell_states_apart():
    """Of the atoms of the rules, only what the formula says counts."""
    found = srl.infer(PEOPLE, {}, formulas="Smokes(Anna) ^ !Cancer(Anna)", best=5).best
    assert [answer["Smokes(Anna) ^ !Cancer(Anna)"] for answer in found] == [{(): 0.0}, {(): 1.0}]
    assert found[1].stats["difference"] == pytest.approx(1.5)


def test_the_command_prints_what_differs(tmp_path, capfd):
    (tmp_path / "m.mln").write_text(PEOPLE)
    arguments = ("--model", str(tmp_path / "m.mln"), "--query", "Smokes,Cancer", "--best", "3")
    assert command("infer", *arguments) == 0
    assert capfd.readouterr().out.splitlines() == [
        "// 1: 0 less than the best",
        "Cancer(Anna) 1",
        "Cancer(Bob) 1",
        "Smokes(Anna) 1",
        "Smokes(Bob) 1",
        "// 2: 1.5 less than the best",
        "Cancer(Anna) 0",
        "// 2: 1.5 less than the best",
        "Cancer(Bob) 0",
    ]


@pytest.mark.parametrize("best", [0, -1, 1.5, "2", True])
def test_a_number_of_states_is_at_least_one(best):
    with pytest.raises((UsageError, QueryError), match="at least"):
        srl.infer(PEOPLE, {}, "Smokes", best=best)


@pytest.mark.parametrize("method", ["walksat", "lp", "exact", "mcsat"])
def test_only_mpe_proves_them(method):
    with pytest.raises(QueryError, match="not 2 of"):
        srl.infer(PEOPLE, {}, "Smokes", method=method, best=2)


def test_an_error_of_marginals_is_refused():
    with pytest.raises(QueryError, match=r"--error is a number above 0 for .*, not 0.1 for mpe"):
        srl.infer(PEOPLE, {}, "Smokes", error=0.1, best=2)


def test_psl_has_no_second_best_state():
    with pytest.raises(UsageError, match="continuous"):
        srl.infer(
            srl.Model("1: A(X) -> B(X)", language="psl"), {"A": {("a",): 1}}, {"B": [["a"]]}, best=2
        )
