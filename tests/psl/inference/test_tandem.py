"""Tandem inference: the optimum as in memory, whatever the chunks and pages, in constant memory."""

import os
import subprocess
import sys
import threading
import tracemalloc

import numpy as np
import pytest
from hypothesis import assume, given

from onlinesrl.core.errors import StorageError, UsageError
from onlinesrl.psl.ground.hinge_loss_mrf import PLAIN
from onlinesrl.psl.inference.admm import AdmmState
from onlinesrl.psl.inference.admm_paged import PagedRounds
from onlinesrl.psl.inference.row_pages import Pages
from onlinesrl.psl.inference.tandem import Tandem
from onlinesrl.psl.kernels import sgd
from onlinesrl.psl.kernels.admm_rows import weigh
from tests.support.hinge_models import Rows, friendship, hinge_problems
from tests.support.paths import REPO
from tests.support.qp import Qp

ROOT = REPO


def chunks(model, size):
    """The rows of a model, ``size`` at a time."""
    for first in range(0, model.n_rows, size):
        yield model.chosen(np.arange(first, min(first + size, model.n_rows)))


def friends(people=30, power=2):
    rng = np.random.default_rng(0)
    return friendship(rng.integers(8, size=people), rng.random((people, people)), power)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("tandem")


@pytest.mark.parametrize(("power", "near_by"), [(1, 1.5), (2, 1.05)])
def test_sgd_nears_the_optimum(tmp_path, power, near_by):
    model, weights = friends(power=power)
    best = Qp().solve(model, weights).energy
    engine = Tandem(tmp_path, descents=30, rounds=0)
    near = engine.solve(chunks(model, 100), model.n_variables, weights)

    assert near.iterations == 0
    assert near.energy == pytest.approx(model.energy(near.y, weights))
    assert near.bound <= best <= near.energy + 1e-6
    assert near.energy <= near_by * best


def test_the_best_values_so_far(tmp_path):
    """The first rounds of ADMM are worse than SGD; the answer is not."""
    model, weights = friends()
    few, none = (
        Tandem(tmp_path, rounds=rounds).solve([model], model.n_variables, weights)
        for rounds in (1, 0)
    )

    assert (few.iterations, few.certified) == (1, False)
    assert few.energy <= none.energy


def test_the_passes_of_sgd_are_those_in_memory(tmp_path):
    """The same steps as with all rows in memory, in the order of the pages."""
    model, weights = friends()
    page_bytes, seed, descents = 4096, 7, 3
    with Pages(tmp_path, model.n_variables, page_bytes) as pages:
        sizes = [len(page.dual) for page in pages.fill(chunks(model, 77), weights)]
    first = np.concatenate(([0], np.cumsum(sizes)))
    y, squares = np.full(model.n_variables, 0.5), np.zeros(model.n_variables)
    random = np.random.default_rng(seed)
    for t in range(descents):
        for page in range(len(sizes)) if t == 0 else random.permutation(len(sizes)):
            order = first[page] + random.permutation(sizes[page])
            sgd.descend(model, weights, order, y, 0.3, squares)
    engine = Tandem(tmp_path, descents, rounds=0, page_bytes=page_bytes, seed=seed)

    assert len(sizes) > 3
    assert np.array_equal(engine.solve(chunks(model, 50), model.n_variables, weights).y, y)


@given(hinge_problems())
def test_the_rounds_of_admm_are_those_in_memory(folder, problem):
    model, weights, _ = problem
    with Pages(folder, model.n_variables, 200) as pages:
        y, (weight_sums, ridge) = np.full(model.n_variables, 0.5), np.zeros((2, model.n_variables))
        for page in pages.fill(chunks(model, 3), weights):
            weigh(page.rows, weights, weight_sums, ridge)
        assume(not np.any(ridge))
        state = AdmmState(model, weights)
        rounds = PagedRounds(pages, weights, (weight_sums, ridge), y)
        found = rounds.start()
        np.testing.assert_allclose(found, state.certificate(), atol=1e-9)
        for _ in range(3):
            np.testing.assert_allclose(rounds.look(), state.certificate(), atol=1e-7)
            for _ in range(9):
                rounds.step()
            state.step(10)
        np.testing.assert_allclose(rounds.y, state.iterate.y, atol=1e-7)
        assert rounds.eta == pytest.approx(state.eta)


def test_the_same_bits_for_any_threads(tmp_path):
    model, weights = friends()
    reports = [], []
    one, several = (
        Tandem(tmp_path, page_bytes=4096, threads=n).solve(
            chunks(model, 77), model.n_variables, weights, reports[n > 1].append
        )
        for n in (1, 3)
    )

    assert one.y.tobytes() == several.y.tobytes()
    assert (one.energy, one.bound, one.iterations) == (
        several.energy,
        several.bound,
        several.iterations,
    )
    assert str(reports[0]) == str(reports[1])


def test_a_fault_while_reading_ahead(tmp_path, monkeypatch):
    model, weights = friends()
    read, count = os.preadv, []

    def preadv(*arguments):
        count.append(1)
        if len(count) == 30:
            raise OSError(5, "Input/output error")
        return read(*arguments)

    monkeypatch.setattr(os, "preadv", preadv)
    before = threading.active_count()
    with pytest.raises(StorageError, match="Input/output error"):
        Tandem(tmp_path, page_bytes=4096, threads=2).solve([model], model.n_variables, weights)
    assert threading.active_count() == before
    assert list(tmp_path.iterdir()) == []


def test_squared_priors_are_no_rows_of_admm(folder):
    """Towards 0 from 1/2: the bound meets the energy at once, and it is exact."""
    rows = Rows()
    rows.add(0, [[0], [1]], 2.0, 0.0, 2)
    rows.add(1, [1], -0.5, 0.0, 2, PLAIN)
    rows.add(2, [1], -1.0, 0.75, 2)
    found = Tandem(folder, tolerance=1e-9).solve([rows.model(2)], 2, np.array([0.5, 4.0, 1.0]))

    assert found.certified
    assert found.energy == pytest.approx(0.75**2 * 3 / 4)
    np.testing.assert_allclose(found.y, [0, 0.75 / 4], atol=1e-5)


def test_chunks_do_not_matter(tmp_path):
    model, weights = friends()
    answers = [
        Tandem(tmp_path, page_bytes=3000).solve(chunks(model, size), model.n_variables, weights)
        for size in (1, 100, 10**6)
    ]

    assert all(np.array_equal(each.y, answers[0].y) for each in answers)
    assert len({each.bytes_on_disk for each in answers}) == 1
    assert answers[0].bytes_on_disk > 50_000
    assert list(tmp_path.iterdir()) == []


def test_a_row_larger_than_a_page(tmp_path):
    rows = Rows()
    rows.add(0, np.arange(8), 1.0)
    rows.add(0, np.arange(9), 1.0)
    page = 20 + 38 + 12 * 8
    with Pages(tmp_path, 9, page) as pages:
        assert len(next(pages.fill([rows.model(9)], np.ones(1))).dual) == 1
    with pytest.raises(UsageError, match=r"has 9 variables.* at most 8"):
        Tandem(tmp_path, page_bytes=page).solve([rows.model(9)], 9, np.ones(1))


def test_no_folder(tmp_path):
    with pytest.raises(StorageError, match=r"nowhere.*No such file"):
        Tandem(tmp_path / "nowhere").solve([], 1, np.empty(0))


def test_a_full_disk(tmp_path):
    """A limit on the size of files stands for the disk."""
    code = f"""
import resource
from pathlib import Path
from onlinesrl.core.errors import StorageError
from tests.psl.inference.test_tandem import Tandem, chunks, friends
model, weights = friends()
engine = Tandem(Path({str(tmp_path)!r}), page_bytes=4096)
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
try:
    engine.solve(chunks(model, 100), model.n_variables, weights)
except StorageError as error:
    print(error)
"""
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert "File too large" in ran.stdout
    assert str(tmp_path) in ran.stdout
    assert list(tmp_path.iterdir()) == []


def streamed(n_chunks):
    """Chunks of 1000 rows over 500 variables, each made when it is asked for."""
    random = np.random.default_rng(0)
    for _ in range(n_chunks):
        rows = Rows()
        pairs = random.integers(0, 250, (1000, 2)) * 2 + [0, 1]
        rows.add(0, pairs, [1.0, -1.0], random.uniform(-0.5, 0.5, 1000), 2)
        yield rows.model(500)


def test_memory_does_not_grow_with_the_rows(tmp_path):
    engine = Tandem(tmp_path, page_bytes=1 << 16, descents=3, rounds=5)
    engine.solve(streamed(2), 500, np.ones(1))
    peaks = []
    for n in (20, 200):
        tracemalloc.start()
        found = engine.solve(streamed(n), 500, np.ones(1))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert found.potentials == 1000 * n

    assert peaks[1] <= peaks[0] + 100_000  # of megabytes that the rows grow by
    assert found.bytes_on_disk > 10 * peaks[1]
