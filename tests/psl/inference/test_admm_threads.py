"""ADMM by several threads: to the bit what one thread finds; errors and signals come through."""

import signal
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinesrl.core.errors import Infeasible
from onlinesrl.core.parallel.threads import ThreadTeam
from onlinesrl.psl.inference import admm_threads
from onlinesrl.psl.inference.admm import Admm, AdmmState
from onlinesrl.psl.kernels import admm_parts
from tests.support.hinge_models import Rows, friendship, hinge_problems


def of_people(people, seed=0):
    rng = np.random.default_rng(seed)
    return friendship(rng.integers(4, size=people), rng.random((people, people)))


def assert_same(one, other):
    for name in ("y", "dual"):
        assert getattr(one, name).tobytes() == getattr(other, name).tobytes()
    for name in ("energy", "bound", "violation", "iterations", "certified"):
        assert getattr(one, name) == getattr(other, name)


@given(hinge_problems(), st.sampled_from([2, 3]))
def test_the_same_bits_for_any_threads(problem, threads):
    model, weights, bonus = problem
    try:
        one = Admm(large=0, rounds=1_000).solve(model, weights, bonus=bonus)
    except Infeasible:
        with pytest.raises(Infeasible):
            Admm(threads=threads, large=0, rounds=1_000).solve(model, weights, bonus=bonus)
        return
    several = Admm(threads=threads, large=0, rounds=1_000)
    assert_same(one, several.solve(model, weights, bonus=bonus))
    whole = Admm().solve(model, weights, bonus=bonus)
    if one.certified:
        assert one.energy == pytest.approx(whole.energy, rel=4e-6, abs=4e-6)


def test_the_same_bits_of_many_blocks():
    model, weights = of_people(100)
    one, watched = Admm(large=0).solve(model, weights), []
    several = Admm(threads=3, large=0, watch=watched.append).solve(model, weights)

    assert model.n_variables > 2 * admm_parts.BLOCK
    assert_same(one, several)
    assert [each.number for each in watched] == list(range(10, one.iterations + 1, 10))


def test_rounds_and_new_weights():
    model, weights = of_people(20)
    with ThreadTeam(2) as team:
        states = [AdmmState(model, weights, team=each) for each in (None, team)]
        for state in states:
            state.step(25)
            state.reweigh(weights[::-1] + 0.5)
            state.step(7)
        copies = [state.copies() for state in states]

    assert states[0].iterate.y == pytest.approx(states[1].iterate.y, abs=1e-9)
    assert copies[0] == pytest.approx(copies[1], abs=1e-9)


def test_runs():
    rows = Rows()
    rows.add(0, [[0, 2], [1, 2], [2, 0]], [[1, -1], [1, -1], [2, -1]], [0.0, 0.5, 0.0])
    rows.add(1, [[1], [0]], 1)
    state = AdmmState(rows.model(3), np.array([1.0, 1.0]))
    run_end = np.zeros(5, np.int32)
    admm_parts.find_runs(state.problem, run_end)
    assert run_end.tolist() == [2, 2, 3, 5, 5]


def test_parts_are_rounds_of_all_rows(monkeypatch):
    """With as many parts as there may be, a round is that of the kernel for all rows, up to rounding."""
    model, weights = of_people(90)
    monkeypatch.setattr(admm_threads, "ROWS", model.n_rows // 9)
    assert admm_threads.number_of_parts(model.n_rows) == 8
    assert model.n_rows > 8 * admm_parts.BLOCK
    with ThreadTeam(3) as team:
        whole, parts = (AdmmState(model, weights, team=each) for each in (None, team))
        for state in (whole, parts):
            state.step(20)
    for name in ("y", "dual", "ahead"):
        assert getattr(parts.iterate, name) == pytest.approx(getattr(whole.iterate, name), abs=1e-9)


def test_ctrl_c_ends_the_rounds_and_the_threads():
    model, weights = of_people(30)
    before = threading.active_count()

    def interrupt(at):
        if at.number == 20:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        Admm(threads=2, large=0, watch=interrupt).solve(model, weights)
    assert threading.active_count() == before
