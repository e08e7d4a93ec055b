"""The n best states of ground models, against enumeration and against list Viterbi."""

from heapq import nlargest
from random import Random

import numpy as np
import pytest
from conftest import tiers

from onlinesrl.core.errors import Infeasible
from onlinesrl.mln.inference import best_states as module
from onlinesrl.mln.inference.best_states import best_states
from onlinesrl.mln.inference.brute_force import state_scores
from onlinesrl.mln.inference.ilp import Ilp
from onlinesrl.mln.inference.protocols import Wide
from onlinesrl.mln.inference.registry import exact_engine
from onlinesrl.mln.inference.router import build_structure
from tests.support.families import FAMILIES, case
from tests.support.ground_mrfs import clause_model, clique, instance, transitive

ENGINE = exact_engine(Ilp(), None)


def drawn(rng: Random):
    """A random model, its weights, and visible atoms; some weights are 0, and some tie."""
    n = rng.randint(1, 9)
    loose, groups = rng.sample(range(n), n), []
    while len(loose) > 1 and rng.random() < 0.4:
        size = rng.randint(1, min(4, len(loose)))
        groups.append((rng.random() < 0.6, loose[:size]))
        loose = loose[size:]
    rows = []
    for _ in range(rng.randint(0, 2 * n)):
        some = rng.sample(range(1, n + 1), min(n, rng.choice([1, 1, 2, 2, 2, 3, 4])))
        weight = rng.choice([None, 0.0, 1.0, -1.0, 0.5, rng.uniform(-3, 3), rng.uniform(-3, 3)])
        rows.append((weight, [a * rng.choice([1, -1]) for a in some]))
    share = rng.choice([0.3, 0.7, 1.0, 1.0])
    return *clause_model(n, rows, groups), np.flatnonzero([rng.random() < share for _ in range(n)])


def by_enumeration(model, weight, visible) -> dict[tuple[int, ...], float]:
    """The best score of each value of the visible atoms."""
    best, scores = {}, state_scores(model, weight, None)
    for number in np.flatnonzero(scores > -np.inf).tolist():
        key = tuple(number >> (model.n_atoms - 1 - a) & 1 for a in visible.tolist())
        best[key] = max(best.get(key, -np.inf), scores[number])
    return best


def check(model, weight, visible, n, max_work=None) -> None:
    expected = by_enumeration(model, weight, visible)
    if not expected:
        with pytest.raises(Infeasible):
            best_states(model, weight, visible, n, ENGINE, max_work)
        return
    found, complete = best_states(model, weight, visible, n, ENGINE, max_work)
    keys = [tuple(row.solution.state[visible].tolist()) for row in found]
    scores = nlargest(n, expected.values())
    assert complete
    assert all(row.solution.certified for row in found)
    assert len({*keys}) == len(keys)
    assert [row.solution.score for row in found] == pytest.approx(scores, abs=1e-6)
    assert [expected[key] for key in keys] == pytest.approx(scores, abs=1e-6)
    assert [row.difference for row in found] == pytest.approx(
        [scores[0] - score for score in scores], abs=1e-6
    )
    for row, key in zip(found, keys, strict=True):
        assert row.rank == 1 + sum(score > expected[key] + 1e-9 for score in scores)
    ties = [key for key, row in zip(keys, found, strict=True) if row.rank == 1]
    assert ties == sorted(ties)


@tiers("number", 300, 10_000)
def test_narrow_models(number):
    for seed in range(number):
        check(*drawn(Random(seed)), n=[1, 2, 5, 9, 40][seed % 5])


def wide(*_):
    raise Wide("all are")


@pytest.mark.parametrize("max_work", [None, 0])
@tiers("number", 60, 2_000)
def test_models_of_one_search_and_those_that_are_solved_again_for_each_state(
    monkeypatch, number, max_work
):
    monkeypatch.setattr(module, "build_structure", wide)
    for seed in range(number):
        check(*drawn(Random(seed)), [1, 2, 5, 9, 40][seed % 5], max_work)


@pytest.mark.parametrize("name", FAMILIES)
@tiers("number", 4, 200)
def test_families_by_one_search(monkeypatch, name, number):
    """Every other case with weights that tie, and in part with atoms that are not visible."""
    monkeypatch.setattr(module, "build_structure", wide)
    for seed in range(number):
        of, rng = case(name, seed, large=False), Random(seed)
        model, weight = clause_model(of.n, of.clauses, of.family.groups)
        visible = np.flatnonzero([rng.random() < [0.7, 1.0, 1.0][seed % 3] for _ in range(of.n)])
        check(model, np.round(weight, [9, 0][seed % 2]), visible, [2, 5, 30, 9][seed % 4])


def test_a_graph_with_loops_as_without_those_before():
    """Too large for enumeration: each next state by the engine, on the atoms' values that are left."""
    recorded = instance("W3-100-strong-0")
    model, weight, atoms = recorded.model, recorded.weights, np.arange(600)

    found, complete = best_states(model, weight, atoms, 3, ENGINE, None)

    assert complete
    for row in found:
        assert row.solution.route == "branch-and-bound"
        assert row.solution.score == pytest.approx(ENGINE.solve(model, weight).score, abs=1e-6)
        model, weight = model.without(row.solution.state, atoms), np.append(weight, 0.0)


@pytest.mark.parametrize("n", [1, 2, 7, 30])
def test_narrow_and_wide_components_together(monkeypatch, n):
    """Two cliques of five are wide, and four atoms beside them are narrow."""

    def narrow(net, model, *rest):
        if np.bincount(np.abs(model.literals)).max() > 2:
            raise Wide("a clique")
        return build_structure(net, model, *rest)

    monkeypatch.setattr(module, "build_structure", narrow)
    rng = np.random.default_rng(n)
    rows = [(w, [a]) for a, w in enumerate(rng.normal(size=4).round(1).tolist(), 11)]
    for first in (1, 6):
        pairs = [(first + i, first + j) for i in range(5) for j in range(i)]
        rows += [(float(rng.normal()), [a, -b]) for a, b in pairs]
    model, weight = clause_model(14, rows)
    check(model, weight, np.arange(14), n)


def test_a_long_chain_as_list_viterbi():
    rng, length, labels, n = np.random.default_rng(5), 400, 4, 25
    local, step = rng.normal(size=(length, labels)), rng.normal(size=(length, labels, labels))
    atom = np.arange(1, length * labels + 1).reshape(length, labels)
    rows = [(float(local[t, y]), [atom[t, y]]) for t in range(length) for y in range(labels)]
    rows += [  # the clause is false where both labels are there
        (-float(step[t, y, z]), [-atom[t, y], -atom[t + 1, z]])
        for t in range(length - 1)
        for y in range(labels)
        for z in range(labels)
    ]
    groups = [(True, (atoms - 1).tolist()) for atoms in atom]
    model, weight = clause_model(length * labels, rows, groups)
    ends = [[(local[0, y], (y,))] for y in range(labels)]
    for t in range(1, length):
        ends = [
            nlargest(
                n,
                (
                    (score + step[t - 1, path[-1], z] + local[t, z], (*path, z))
                    for end in ends
                    for score, path in end
                ),
            )
            for z in range(labels)
        ]
    expected = nlargest(n, (row for end in ends for row in end))

    found, complete = best_states(model, weight, np.arange(model.n_atoms), n, ENGINE, None)

    assert complete
    paths = [row.solution.state.reshape(length, labels).argmax(1).tolist() for row in found]
    assert paths == [[*path] for _, path in expected]
    assert [row.difference for row in found] == pytest.approx(
        [expected[0][0] - score for score, _ in expected], abs=1e-6
    )


@pytest.mark.parametrize("hidden", [[*range(0, 30, 2)], [*range(15)]])
def test_atoms_that_are_not_visible_make_no_two_states(hidden):
    """Without a weight of their own, they leave a thousand ties for each visible state."""
    rows = [(0.5 + 0.01 * a, [a, -a - 1]) for a in range(1, 30)]
    model, weight = clause_model(30, rows)
    visible = np.setdiff1d(np.arange(30), hidden)

    found, complete = best_states(model, weight, visible, 40, ENGINE, None)

    assert complete
    keys = {tuple(row.solution.state[visible].tolist()) for row in found}
    assert len(keys) == len(found) == 40
    for row in found:  # another engine, with the visible atoms of the state
        fixed = np.where(row.solution.state[visible] > 0, visible + 1, -visible - 1)
        given = model.with_units(fixed.astype(np.int32), hard=True)
        best = ENGINE.solve(given, np.append(weight, np.zeros(len(visible))))
        assert row.solution.score == pytest.approx(best.score, abs=1e-9)


@pytest.mark.parametrize("max_work", [None, 0])
def test_the_search_for_a_wide_model_goes_on_to_the_proof(max_work):
    problem = transitive(4, 3)
    check(problem.model, problem.weights, np.arange(12), 12, max_work)


def test_a_limit_is_told():
    problem = clique(40)
    engine = exact_engine(Ilp(max_work=1), 1)
    found, complete = best_states(problem.model, problem.weights, np.arange(40), 3, engine, 1)
    assert not any(row.solution.certified for row in found)
    assert [row.rank for row in found] == sorted(row.rank for row in found)
    assert complete == (len(found) == 3)
    assert all(row.solution.bound >= row.solution.score for row in found)
