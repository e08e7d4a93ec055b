"""Experiments of searches: folds of Cora and Jester, a problem that remembers, fewer rules, and tables."""

import sys

import numpy as np
import pytest

from tests.support.paths import SHARED
from tests.support.stream_scripts import PAPERS

DATA = SHARED / "data" / "psl"


@pytest.fixture
def markov(monkeypatch):
    monkeypatch.syspath_prepend(PAPERS / "searches")
    monkeypatch.delitem(sys.modules, "markov", raising=False)
    import markov  # type: ignore[import-not-found]

    yield markov
    sys.modules.pop("markov", None)


def test_markov_logic_learns_categories_from_words_and_links(markov):
    def ask(names):
        truth = {
            (f"{name}{n}", f"c{c}"): float(c == 1 + n % 2)
            for name in names
            for n in range(6)
            for c in (1, 2)
        }
        text = {atom: 0.9 if value else 0.1 for atom, value in truth.items()}
        known = {("k", "c1"): 1.0, ("k", "c2"): 0.0}
        links = {("k", f"{names}0"): 1.0, (f"{names}0", f"{names}2"): 1.0}
        return markov.Asked({"Link": links, "Text": text, "HasCat": known}, truth)

    task = markov.TASKS["citeseer"]
    evidence = markov.example(task, ask("a"), "learn")["evidence"]
    assert evidence["Link"] == [["a0", "a2"]]
    assert evidence["Seen"] == [["a0", "k", "c1"]]
    assert evidence["Words"][:2] == [["a0", "c1"], ["a1", "c2"]]
    (metric,) = task.metrics
    learner = {"kind": "random", "metric": metric, "configurations": 3}
    score, seconds = markov.tested(task, metric, learner, ask("a"), ask("b"))
    assert score == 1.0
    assert seconds > 0.0


def test_opinions_are_joined_by_the_people_they_share(markov):
    pairs = [("a", "b"), ("b", "c"), ("a", "c"), ("c", "a"), ("d", "c")]
    trust = {pair: float(pair != ("b", "c")) for pair in pairs}
    asked = markov.ask_opinions(trust, [("a", "c")], [p for p in pairs if p != ("a", "c")])
    example = markov.example(markov.TASKS["epinions"], asked, "one")
    evidence, target = example["evidence"], {"b c", "d c"}
    assert evidence["Triangle"] == [["a b", "b c", "a c"]]
    assert evidence["Circle"] == []  # that of a, b and c asks for nothing
    assert sorted(evidence["Returned"]) == [["a c", "c a"], ["c a", "a c"]]
    assert {*map(tuple, evidence["SameTarget"])} == {
        pair for one in target for pair in ((one, "a c"), ("a c", one))
    }
    assert {*map(tuple, evidence["SameSource"])} == {("a b", "a c"), ("a c", "a b")}
    assert {"args": ["b c"], "value": 0.0} in evidence["Trusts"]
    assert example["truth"] == {"Trusts": [["a c"]]}


@pytest.fixture
def compare(monkeypatch):
    pytest.importorskip("sklearn")
    monkeypatch.syspath_prepend(PAPERS / "searches")
    names = ("compare", "data", "figures")
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    import compare  # type: ignore[import-not-found]

    yield compare
    for name in names:
        sys.modules.pop(name, None)


def test_cora_asks_for_seven_categories(compare, tmp_path):
    folder = tmp_path / "cora"
    folder.mkdir()
    (folder / "cora.labels").write_text("".join(f"{n}\t{1 + n % 7}\n" for n in range(1, 17)))
    (folder / "cora.words").write_text("".join(f"{n}\t{1 + n % 7}:1 \n" for n in range(1, 17)))
    (folder / "cora.links").write_text("1\t8\n8\t15\n")
    folds = [*compare.DATASETS["cora"].folds(tmp_path, 1)]
    asked = [{fold.test.atom(k) for k in range(14)} for fold in folds]
    assert len(set.union(*asked)) == 16 * 7
    assert all(fold.test.soft.sum() == 4 + 7 + 1 for fold in folds)


@pytest.mark.long
@pytest.mark.skipif(not DATA.exists(), reason="needs Jester's ratings")
def test_a_search_of_jester(compare, capsys):
    folds = [*compare.DATASETS["jester"].folds(DATA, 1)]
    assert len(folds) == 8
    users = [fold.learn.atom(0).split(",")[0] for fold in folds]
    assert len({*users}) == 8
    assert [fold.test.atom(0).split(",")[0] for fold in folds] == [*users[1:], users[0]]
    of = folds[0].learn
    weights = np.linspace(0.1, 1.0, 11)
    assert of.tried(weights, 1.0) is of.tried(weights.copy(), 1.0)
    assert of.tried(weights, 1.0) is not folds[1].learn.tried(weights, 1.0)
    few = compare.with_rules(of, 4)
    np.testing.assert_array_equal(few.counts, of.counts[:4])
    found = {
        name: [*compare._each({"kind": name, "metric": "mse"}, folds[:2])]
        for name in ("random", "random-grid")
    }
    found |= {"hyperband": found["random"], "bayesian": found["random"]}
    found |= {"mple": [*compare._each({"kind": "mple"}, folds[:2])]}
    compare.table("mse", folds[:2], found, timed=False)
    said = capsys.readouterr().out
    assert "| `random` | 0.0" in said
    assert "from the best of mle, mple, lme" in said
