"""AUC, average precision and thresholds beside their textbook definitions."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinesrl.core.evaluation.ranking_metrics import BINS, Ranking

on_the_grid = st.integers(0, BINS).map(lambda n: n / BINS) | st.sampled_from([0.0, 0.25, 0.5, 1.0])
anywhere = st.floats(0, 1) | st.floats(0.3, 0.3005)


def atoms(scores: st.SearchStrategy[float]) -> st.SearchStrategy[list[tuple[float, bool]]]:
    return st.lists(st.tuples(scores, st.booleans()), max_size=40)


def ranked(found: list[tuple[float, bool]]) -> Ranking:
    ranking = Ranking()
    ranking.add(np.array([s for s, _ in found], float), np.array([t for _, t in found], bool))
    return ranking


def textbook_auc(found: list[tuple[float, bool]]) -> float | None:
    """The share of (true, false) pairs in which the true one scores higher, ties half."""
    true, false = ([s for s, t in found if t == of] for of in (True, False))
    won = [(a > b) + 0.5 * (a == b) for a in true for b in false]
    return float(np.mean(won)) if won else None


def textbook_average_precision(found: list[tuple[float, bool]]) -> float | None:
    """The sum over falling thresholds of (R_n - R_(n-1)) P_n."""
    if not any(t for _, t in found):
        return None
    scores, true = (np.array(column) for column in zip(*found, strict=True))
    total, before = 0.0, 0.0
    for threshold in np.unique(scores)[::-1]:
        taken = scores >= threshold
        recall = np.sum(taken & true) / np.sum(true)
        total += (recall - before) * np.sum(taken & true) / np.sum(taken)
        before = recall
    return float(total)


def f1_at(found: list[tuple[float, bool]], threshold: float) -> float:
    hits = sum(t for s, t in found if s >= threshold)
    return 2 * hits / (sum(s >= threshold for s, _ in found) + sum(t for _, t in found))


@given(atoms(on_the_grid))
def test_scores_on_the_grid_have_the_textbooks_figures(found: list[tuple[float, bool]]) -> None:
    measures = ranked(found).measures()
    assert measures["auc"] == pytest.approx(textbook_auc(found))
    assert measures["average_precision"] == pytest.approx(textbook_average_precision(found))
    if any(t for _, t in found):
        best = max(f1_at(found, s) for s, _ in found)
        assert measures["best_f1"] == pytest.approx(best)
        assert f1_at(found, measures["best_threshold"]) == pytest.approx(best)
    else:
        assert measures["best_f1"] is measures["best_threshold"] is None


@given(atoms(anywhere))
def test_elsewhere_they_are_off_by_no_more_than_is_said(found: list[tuple[float, bool]]) -> None:
    measures = ranked(found).measures()
    for name, exact in (
        ("auc", textbook_auc(found)),
        ("average_precision", textbook_average_precision(found)),
    ):
        if exact is None:
            assert measures[name] is measures[f"{name}_error"] is None
        else:
            assert abs(measures[name] - exact) <= measures[f"{name}_error"] + 1e-12
    if measures["best_f1"] is not None:
        best = f1_at(found, measures["best_threshold"])
        near = [(round(s, 3), t) for s, t in found]  # thresholds that part what the grid parts
        assert measures["best_f1"] == pytest.approx(best)
        assert best >= max(f1_at(near, s) for s, _ in near) - 1e-12 or near != found


@given(atoms(on_the_grid).filter(len))
def test_the_log_likelihood_is_the_mean_over_atoms(found: list[tuple[float, bool]]) -> None:
    p = np.clip([s if t else 1 - s for s, t in found], 0.5 / BINS, 1 - 0.5 / BINS)
    told = ranked(found).log_likelihood()
    assert told["cll"] == pytest.approx(np.log(p).mean())
    assert told["cll_se"] == pytest.approx(np.log(p).std() / len(p) ** 0.5, abs=1e-9)


@given(atoms(on_the_grid).filter(len))
def test_calibration_has_the_textbooks_figures(found: list[tuple[float, bool]]) -> None:
    p, true = (np.array(column, float) for column in zip(*found, strict=True))
    edges = np.arange(1, 10) / 10
    bins = np.digitize(np.round(p, 4), edges)
    rows = [
        (np.sum(bins == n), p[bins == n].mean(), true[bins == n].mean()) for n in np.unique(bins)
    ]
    ranking = ranked(found)
    assert [tuple(row.values()) for row in ranking.reliability()] == [
        pytest.approx(row) for row in rows
    ]
    assert ranking.calibration() == {
        "brier": pytest.approx(np.mean((p - true) ** 2)),
        "calibration_error": pytest.approx(sum(n * abs(a - b) for n, a, b in rows) / len(found)),
    }


def test_without_atoms_calibration_is_undefined() -> None:
    assert Ranking().calibration() == {"brier": None, "calibration_error": None}
    assert Ranking().reliability() == []


@given(st.lists(atoms(anywhere), max_size=5))
def test_parts_add_up_and_survive_a_checkpoint(parts: list[list[tuple[float, bool]]]) -> None:
    merged, whole = Ranking(), ranked([atom for part in parts for atom in part])
    for part in parts:
        merged = Ranking.restore(json.loads(json.dumps(merged.save())))
        merged.merge(ranked(part))
    assert merged.save() == whole.save()
    assert merged.measures() == whole.measures()


def test_what_cannot_be_measured_is_none_and_never_0() -> None:
    assert set(Ranking().measures().values()) == {None}
    only_false = ranked([(0.2, False), (0.9, False)]).measures()
    assert set(only_false.values()) == {None}
    only_true = ranked([(0.2, True), (0.9, True)]).measures()
    assert (only_true["auc"], only_true["average_precision"]) == (None, 1.0)
    assert (only_true["best_f1"], only_true["best_threshold"]) == (1.0, pytest.approx(0.19995))


def test_memory_is_bounded() -> None:
    ranking = Ranking()
    for seed in range(20):
        scores = np.random.default_rng(seed).random(10_000)
        ranking.add(scores, scores > 0.5)
    assert len(ranking.save()) <= BINS + 1
    assert ranking.measures()["auc"] == pytest.approx(1.0, abs=1e-6)
