"""Counting: time against the true atoms and the domains; IJGP's error against its bound."""

import time

import numpy as np
import pytest

from onlinesrl.mln.counting.program_counts import Counters
from onlinesrl.mln.counting.world import Table, World
from onlinesrl.mln.lang import reader
from tests.benchmarks.measure import show
from tests.mln.counting.test_large_counts import ENTITIES, entities

pytestmark = pytest.mark.benchmark
DENSE = reader.parse("""F(person, person)
F(x, y) ^ F(y, z) => F(x, z)
!F(x, y) v !F(y, z) v !F(z, w) v !F(w, x)
F(x, y) ^ F(y, z) ^ F(z, w) ^ F(x, z) => F(y, w) v F(x, w)
F(x, y) ^ F(z, y) ^ F(z, w) ^ F(u, w) ^ F(u, x) => F(x, z) v x = u
""")


def cpu(do):
    """The least CPU seconds of three, and what it gives."""
    used = []
    for _ in range(3):
        start = time.process_time()
        found = do()
        used.append(time.process_time() - start)
    return min(used), found


def test_time_grows_with_the_true_atoms_and_not_with_the_domains():
    rows, counters = [], Counters(ENTITIES)
    for size in (1_250, 2_500, 5_000, 10_000):
        world = entities(size)
        atoms = sum(len(table.rows) for table in world.tables.values())
        seconds, found = cpu(lambda world=world: [*counters.listed(entities_like(world))])
        rows.append((f"{size:,}", atoms, found[0].groundings, seconds))
    show(
        "three clauses, three true atoms a constant",
        ("constants", "atoms", "groundings", "CPU s"),
        rows,
    )
    rows, base = [], entities(1_250)
    for size in (1_250, 12_500, 125_000, 1_250_000):
        domains = {t: (*map(str, range(size)),) for t in base.domains}
        world = World(domains, base.tables)
        seconds, found = cpu(lambda world=world: [*counters.listed(entities_like(world))])
        rows.append((f"{size:,}", 3 * 3_745, found[0].groundings, seconds))
    show("the same atoms, larger domains", ("constants", "atoms", "groundings", "CPU s"), rows)


def entities_like(world):
    """The same world, nothing of it sorted."""
    return world.changed({name: table.rows for name, table in world.tables.items()})


def test_the_error_of_ijgp_against_its_bound():
    rows = []
    for chance in (0.05, 0.3, 0.7):
        worlds = []
        for seed in range(10):
            rng = np.random.default_rng(seed)
            table = Table(np.argwhere(rng.random((20, 20)) < chance), ("person", "person"))
            worlds.append(World({"person": (*map(str, range(20)),)}, {"F": table}))
        exact_time, exact = cpu(lambda worlds=worlds: counted(Counters(DENSE), worlds))
        rows.append((f"{chance}", "exact", 0.0, 0.0, exact_time))
        for i in (1, 2, 3, 4, 5):
            counters = Counters(DENSE, "ijgp", i)
            seconds, found = cpu(lambda counters=counters, worlds=worlds: counted(counters, worlds))
            error = np.abs(found - exact)
            wrong = error / np.maximum(1, groundings(counters, worlds) - exact)
            rows.append(
                (
                    f"{chance}",
                    f"i = {i}",
                    float((error / exact).max()),
                    float(wrong.mean()),
                    seconds,
                )
            )
    show(
        "4 clauses, 10 worlds of 20 people",
        ("density", "method", "worst relative error", "mean error of violated", "CPU s"),
        rows,
    )


def counted(counters, worlds):
    return np.array([[float(n) for n in counters.counts(world)] for world in worlds])


def groundings(counters, worlds):
    return np.array(
        [[each.groundings(world) for each in counters.compiled] for world in worlds], float
    )
