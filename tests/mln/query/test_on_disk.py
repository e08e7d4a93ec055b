"""A world in files is the world in memory, part by part; what a folder cannot take is said."""

import errno
import os
from collections import Counter
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from onlinesrl.commands.cli import app
from onlinesrl.core.errors import ExampleError, StorageError, UsageError
from onlinesrl.core.io import memmap
from onlinesrl.mln.ground import convert, grounder
from onlinesrl.mln.ground.convert import fixed_units
from onlinesrl.mln.kernels.ground_network import ATOMS
from onlinesrl.mln.query import infer as infer_module
from onlinesrl.mln.query import world as world_module
from onlinesrl.mln.query.load_world import WorldOptions, load_world
from onlinesrl.mln.query.world import GroundWorld, WorldOnDisk, distinct, in_memory, stored
from tests.support.answers import answer_lines
from tests.support.random_networks import ground_weights, networks

MODEL = """
Friends(person, person)
Smokes(person)
Ill(person, illness)
Leads(person, person)
illness = {Asthma, Cancer, Flu}
0.7 Smokes(x) => Ill(x, Asthma)
1.1 Friends(x, y) ^ Smokes(x) => Smokes(y)
-0.45 Smokes(x)
0.3 Ill(x, i)
0.6 EXIST y (Leads(y, x) ^ Smokes(y))
!Ill(x, i) v !Ill(x, j) v i = j.
Leads(x, y) => Friends(x, y).
"""
"""Groups, existentials over conjunctions, hard rules, weights of both signs."""
DATABASE = """
Friends(A1, A2)
Friends(A2, A3)
Friends(B1, B2)
Friends(C1, C2)
Friends(C2, C3)
Friends(C3, C1)
Friends(D1, D1)
Leads(A1, A2)
Leads(C1, C2)
Smokes(A1)
!Smokes(C2)
Ill(B1, Flu)
0.8 Smokes(B2)
"""
NAMED = {"atoms": None, "types": {}, "fixed": {}}


@pytest.fixture
def small(monkeypatch):
    """Let blocks and parts be small, so that a small world has several."""
    monkeypatch.setattr(convert, "LITERALS", 7)
    monkeypatch.setattr(world_module, "PART", 9)


def worlds(folder, query="Smokes,Ill", database=DATABASE):
    (folder / "m.mln").write_text(MODEL)
    (folder / "e.db").write_text(database)
    files = folder / "files"
    files.mkdir(exist_ok=True)
    asked = partial(load_world, folder / "m.mln", [folder / "e.db"], query.split(","))
    return asked(), asked(WorldOptions(folder=files))


def spelled(parts):
    """Count the different clauses of parts by the world's atoms, with their weights; and the groups.

    Without those that weigh nothing.
    """
    clauses, groups = Counter(), Counter()
    for atoms, model, weight in parts:
        for c, total, hard in zip(*distinct(model, weight), strict=True):
            if not hard and total == 0.0:
                continue
            own = model.literals[model.start[c] : model.start[c + 1]]
            literals = np.sign(own) * (atoms[np.abs(own) - 1] + 1)
            clauses[tuple(sorted(literals.tolist())), bool(hard), float(total)] += 1
        for group, exactly in enumerate(model.exactly.tolist()):
            groups[(*atoms[model.group == group].tolist(), exactly)] += 1
    return clauses, groups


@given(networks(), st.data())
def test_its_parts_are_the_network(case, data):
    net, weights, _ = case
    atoms = int(net.size[ATOMS])
    literal = st.integers(1, atoms) | st.integers(-atoms, -1)
    units = data.draw(st.lists(st.tuples(literal, st.sampled_from([-1.5, 0.5])), max_size=3))
    model, weight, soft = in_memory(net, ground_weights(net, weights), units)
    fixed = {abs(x) - 1: x > 0 for x in fixed_units(net).tolist()}
    named = {**NAMED, "n_atoms": atoms, "fixed": fixed}
    whole = GroundWorld(model=model, weight=weight, all_soft=soft, **named)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(convert, "LITERALS", 3)
        patch.setattr(world_module, "PART", 4)
        kept = stored(net, lambda view: ground_weights(view, weights), units, np.zeros)
    found = WorldOnDisk(stored=kept, **named)
    parts = [*found.parts()]

    assert sorted(a for part in parts for a in part.atoms.tolist()) == [*range(atoms)]
    assert spelled(parts) == spelled(whole.parts())
    every = np.arange(atoms)
    all_soft = [[(every, *each) for each in world.soft()] for world in (found, whole)]
    assert spelled(all_soft[0])[0] == spelled(all_soft[1])[0]
    assert all(part.model.n_atoms == len(part.atoms) for part in parts)


@pytest.mark.parametrize("method", ["mpe", "lp", "walksat", "exact"])
def test_answers_are_the_same(small, tmp_path, method):
    memory, disk = worlds(tmp_path)
    assert len([*disk.parts()]) > 4
    (expected, stats), (values, found) = (
        answer_lines(world, method, seed=1) for world in (memory, disk)
    )
    if method != "walksat":  # a search for each part
        assert values == expected
    for key in ("atoms", "soft_clauses", "hard_clauses", "certified", "samples", "warnings"):
        assert found.get(key) == stats.get(key)
    for key in ("cost", "bound", "log_z"):
        assert found.get(key) == pytest.approx(stats.get(key))
    assert not [*(tmp_path / "files").iterdir()]


@pytest.mark.parametrize("method", ["mcsat", "gibbs"])
def test_sampled_marginals_are_as_reliable(small, tmp_path, method):
    memory, disk = worlds(tmp_path)
    exact, _ = infer_module.solve(memory, "exact", seed=0)
    values, found = infer_module.solve(disk, method, seed=0, error=0.005)
    assert found["chains"] > 1
    assert found["standard_error"] <= 0.005
    assert not found["warnings"]
    assert np.abs(values - exact).max() < 0.025


def test_what_weighs_nothing_connects_nothing(small, tmp_path):
    (tmp_path / "m.mln").write_text("P(t)\nt = {1,...,30}\n0 P(x) v P(y)\n1 P(x)\n")
    files = tmp_path / "m.mln", [], ["P"], WorldOptions(folder=tmp_path)
    world = load_world(*files)
    parts = [*world.parts()]
    assert len(parts) > 3
    assert sum(part.model.n_clauses for part in parts) == 30
    assert infer_module.solve(world, "mpe", seed=0)[0].all()


def test_its_network_is_the_same(small, tmp_path):
    memory, disk = worlds(tmp_path, "Smokes,Ill,Leads")
    expected = sorted(infer_module.network_lines(memory))
    assert sorted(infer_module.network_lines(disk)) == expected
    assert any("Some_2" in line for line in expected)


def test_a_world_without_atoms(tmp_path):
    _, disk = worlds(tmp_path, database="Leads(A, B)\nFriends(A, B)\n")
    assert sum(len(part.atoms) for part in disk.parts()) == disk.n_atoms
    (tmp_path / "m.mln").write_text("P(t)\nR(t)\n1 P(x) ^ R(x)\n")
    (tmp_path / "e.db").write_text("")
    options = WorldOptions(folder=tmp_path, closed=("R",))
    world = load_world(tmp_path / "m.mln", [tmp_path / "e.db"], ["P"], options)
    assert answer_lines(world, "mpe", seed=0)[0] == []


def test_commands_spill(tmp_path):
    worlds(tmp_path)
    folder = tmp_path / "files"
    files = ["--model", str(tmp_path / "m.mln"), "--evidence", str(tmp_path / "e.db")]
    for command in ("infer", "ground"):
        asked = [command, *files, "--query", "Smokes,Ill"]
        expected = CliRunner().invoke(app, asked).stdout
        found = CliRunner().invoke(app, [*asked, "--spill", str(folder)]).stdout
        assert sorted(found.splitlines()) == sorted(expected.splitlines()) != []
        assert not [*folder.iterdir()]
    wrong = CliRunner().invoke(app, [*asked, "--spill", str(tmp_path / "none")]).exception
    assert isinstance(wrong, StorageError)
    assert f"{tmp_path / 'none'}: cannot keep arrays: No such file or directory" in str(wrong)
    (tmp_path / "m.psl").write_text("1: A(X) -> B(X)\n")
    psl = ["infer", "--model", str(tmp_path / "m.psl"), "--spill", str(folder)]
    refused = CliRunner().invoke(app, psl).exception
    assert isinstance(refused, UsageError)
    assert "--spill" in str(refused)


def test_a_full_disk_is_said_before_anything_is_written(tmp_path, monkeypatch):
    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(StorageError, match="No space left on device; free some space and run it"):
        worlds(tmp_path)


def test_more_rows_than_have_numbers_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(grounder, "ROWS", 1 << 13)
    people = "".join(f"Friends(A{n}, B{m})\n" for n in range(100) for m in range(100))
    with pytest.raises(ExampleError, match=r"more than 8,192 rows of ground clauses") as error:
        worlds(tmp_path, database=people)
    assert error.value.kind == "limit"


def test_arrays_in_files(tmp_path):
    for shape, kind in ((5, np.int32), ((3, 2), np.float64), ((4, 0), np.int32), (0, np.bool_)):
        array = memmap.zeros(tmp_path, shape, kind)
        assert array.dtype == kind
        assert np.array_equal(array, np.zeros(shape))
        array[:] = 1
        assert array.sum() == array.size
    assert not [*tmp_path.iterdir()]
