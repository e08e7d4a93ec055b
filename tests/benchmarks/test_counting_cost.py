"""Counting and learning without grounding: time by true atoms and domains, IJGP's error, sizes of a paper."""

from collections.abc import Mapping

import numpy as np
import pytest

from onlinesrl.core.example import GroundAtom
from onlinesrl.mln.counting.program_counts import Counters
from onlinesrl.mln.counting.world import Table, World
from onlinesrl.mln.lang import reader
from onlinesrl.mln.learning.contrastive_divergence import ContrastiveDivergence, VotedPerceptron
from onlinesrl.mln.learning.problem import MlnProblem
from tests.benchmarks.measure import show, sizes, timed
from tests.mln.counting.test_large_counts import ENTITIES, entities

DENSE = reader.parse("""F(person, person)
F(x, y) ^ F(y, z) => F(x, z)
!F(x, y) v !F(y, z) v !F(z, w) v !F(w, x)
F(x, y) ^ F(y, z) ^ F(z, w) ^ F(x, z) => F(y, w) v F(x, w)
F(x, y) ^ F(z, y) ^ F(z, w) ^ F(u, w) ^ F(u, x) => F(x, z) v x = u
""")
PROTEINS = """Interacts(protein, protein)
Complex(protein, complex)
Interacts(x, y)
Interacts(x, y) => Interacts(y, x)
Complex(x, c) ^ Interacts(x, y) => Complex(y, c)
"""
CITATIONS = """SameBib(bib, bib)
SameAuthor(author, author)
HasAuthor(bib, author)
HasWord(bib, word)
SameBib(x, y)
SameAuthor(x, y)
HasAuthor(a, x) ^ HasAuthor(b, y) ^ SameAuthor(x, y) => SameBib(a, b)
HasWord(a, w) ^ HasWord(b, w) => SameBib(a, b)
SameBib(a, b) ^ SameBib(b, c) => SameBib(a, c)
"""


@sizes("constants", (20, 40), (1_250, 2_500, 5_000, 10_000))
def test_time_by_true_atoms_and_by_domains(constants: tuple[int, ...]) -> None:
    """Three true atoms a constant; then the same atoms over domains up to a thousand times as large."""
    rows, counters = [], Counters(ENTITIES)
    worlds = [entities(size) for size in constants]
    for times in (10, 100, 1_000):
        domains = {of: (*map(str, range(times * constants[0])),) for of in worlds[0].domains}
        worlds.append(World(domains, worlds[0].tables))
    for world in worlds:
        fresh = world.changed({name: table.rows for name, table in world.tables.items()})
        seconds, [count, *_] = timed(lambda: [*counters.listed(fresh)])  # noqa: B023
        atoms = sum(len(table.rows) for table in world.tables.values())
        size = len(next(iter(world.domains.values())))
        rows.append((f"{size:,}", f"{atoms:,}", count.groundings, seconds))
    show("Three clauses", ("constants of a type", "true atoms", "groundings", "CPU s"), rows)


@sizes("people, bounds", (4, (1,)), (20, (1, 2, 3, 4)))
def test_the_error_of_ijgp_by_its_bound(people: int, bounds: tuple[int, ...]) -> None:
    rows = []
    for share in (0.05, 0.3, 0.7):
        worlds = []
        for seed in range(10):
            friends = np.argwhere(np.random.default_rng(seed).random((people, people)) < share)
            domains = {"person": (*map(str, range(people)),)}
            worlds.append(World(domains, {"F": Table(friends, ("person", "person"))}))

        def counts(*options: object) -> np.ndarray:
            counters = Counters(DENSE, *options)  # type: ignore[arg-type]
            return np.array([[float(n) for n in counters.counts(world)] for world in worlds])  # noqa: B023

        exact, compiled = counts(), Counters(DENSE).compiled
        all_of = np.array(
            [[each.groundings(world) for each in compiled] for world in worlds], float
        )
        for bound in bounds:
            seconds, found = timed(lambda: counts("ijgp", bound))  # noqa: B023
            error = np.abs(found - exact) / np.maximum(1, all_of - exact)
            rows.append((f"{share:.0%}", f"{bound}", float(error.mean()), seconds))
    show("Four clauses in ten worlds", ("friends", "i", "error of violated", "CPU s"), rows)


def proteins(size: int) -> tuple[str, Mapping[str, list], tuple[str, ...]]:
    """1,800 proteins in 126 complexes: 408 million groundings of the last rule."""
    drawn = np.random.default_rng(0).integers(size, size=(5 * size, 2)).tolist()
    pairs = {tuple(sorted(pair)) for pair in drawn}
    complexes = [(k, k % (size // 14 or 1)) for k in range(size)]
    both_ways = sorted(pairs | {(b, a) for a, b in pairs})
    return PROTEINS, {"Interacts": both_ways, "Complex": complexes}, ("Interacts",)


def citations(size: int) -> tuple[str, Mapping[str, list], tuple[str, ...]]:
    """1,300 citations of 1,000 authors: 1.7 trillion groundings of the rule of authors."""
    rng, authors, tenth = np.random.default_rng(0), size * 10 // 13, size // 10
    rows = {
        "SameBib": [(a, b) for a in range(size) for b in range(size) if (a - b) % tenth == 0],
        "SameAuthor": [
            (a, b) for a in range(authors) for b in range(authors) if (a - b) % (authors // 4) == 0
        ],
        "HasAuthor": np.unique(
            rng.integers([size, authors], size=(size * 30 // 13, 2)), axis=0
        ).tolist(),
        "HasWord": np.unique(rng.integers([size, 4 * size], size=(23 * size, 2)), axis=0).tolist(),
    }
    return CITATIONS, rows, ("SameBib", "SameAuthor")


@pytest.mark.parametrize("make", [proteins, citations])
@sizes("full", False, True)
def test_learning_at_the_sizes_of_the_paper(make, full: bool) -> None:
    """Two steps without grounding, then a sweep by the weights (Sarkhel et al. 2016, table 2)."""
    model, rows, query = make({proteins: 1_800, citations: 1_300}[make] if full else 26)
    program = reader.parse(model)
    atoms = [
        GroundAtom(
            name,
            tuple(f"{t[0]}{n}" for t, n in zip(program.predicates[name].types, row, strict=True)),
            True,
            0,
        )
        for name, of in rows.items()
        for row in of
    ]
    problem = MlnProblem(program, [atoms], query)
    counted = problem.counted(0)
    groundings = sum(each.groundings(counted.world) for each in counted.counters.compiled)
    table = []
    for learner in (
        ContrastiveDivergence(counting="exact", steps=2, samples=1),
        VotedPerceptron(counting="exact", steps=2, states=1, sweeps=0),
    ):
        seconds, learned = timed(lambda: learner.learn(problem, lambda _: None))  # noqa: B023
        assert np.all(np.isfinite(learned.weights))
        counted.sweep(learned.weights)
        tuples = sum(len(counted.counts.rows(name)) for name in counted.counts.names)
        memory = counted.counts.memory
        table.append((learner.kind, groundings, counted.atoms, tuples, memory, seconds))
        assert memory < 1_000 * tuples + 1e6
    head = ("learner", "groundings", "open atoms", "true atoms", "bytes", "CPU s of the steps")
    show(f"Two steps without grounding: {make.__name__}", head, table)
