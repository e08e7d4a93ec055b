"""Learning without grounding at the sizes of Sarkhel et al. (2016, table 2): sizes, memory, time."""

import time

import numpy as np
import pytest

from onlinesrl.core.example import GroundAtom
from onlinesrl.mln.lang import reader
from onlinesrl.mln.learning.contrastive_divergence import ContrastiveDivergence, VotedPerceptron
from onlinesrl.mln.learning.problem import MlnProblem
from tests.benchmarks.measure import show

pytestmark = pytest.mark.benchmark
PROTEIN = """Interacts(protein, protein)
Complex(protein, complex)
Interacts(x, y)
Interacts(x, y) => Interacts(y, x)
Complex(x, c) ^ Interacts(x, y) => Complex(y, c)
"""
ENTITIES = """SameBib(bib, bib)
SameAuthor(author, author)
HasAuthor(bib, author)
HasWord(bib, word)
SameBib(x, y)
SameAuthor(x, y)
HasAuthor(a, x) ^ HasAuthor(b, y) ^ SameAuthor(x, y) => SameBib(a, b)
HasWord(a, w) ^ HasWord(b, w) => SameBib(a, b)
SameBib(a, b) ^ SameBib(b, c) => SameBib(a, c)
"""


def protein():
    """1,800 proteins in 126 complexes: 408 million groundings of the last rule."""
    rng = np.random.default_rng(0)
    pairs = {tuple(sorted(pair)) for pair in rng.integers(1_800, size=(9_000, 2)).tolist()}
    rows = {
        "Interacts": sorted(pairs | {(b, a) for a, b in pairs}),
        "Complex": [(k, k % 126) for k in range(1_800)],
    }
    return world(PROTEIN, rows, ("Interacts",))


def entities():
    """1,300 citations of 1,000 authors: 1.7 trillion groundings of the rule of authors."""
    rng = np.random.default_rng(0)
    rows = {
        "SameBib": [(a, b) for a in range(1_300) for b in range(1_300) if a % 130 == b % 130],
        "SameAuthor": [(a, b) for a in range(1_000) for b in range(1_000) if a % 250 == b % 250],
        "HasAuthor": np.unique(rng.integers([1_300, 1_000], size=(3_000, 2)), axis=0).tolist(),
        "HasWord": np.unique(rng.integers([1_300, 5_000], size=(30_000, 2)), axis=0).tolist(),
    }
    return world(ENTITIES, rows, ("SameBib", "SameAuthor"))


def world(model, rows, query):
    """A problem of one world."""
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
    return MlnProblem(program, [atoms], query)


@pytest.mark.parametrize(("make", "least"), [(protein, 4e8), (entities, 1.6e12)])
def test_learning_at_the_sizes_of_the_paper(make, least):
    of = make()
    counted = of.counted(0)
    groundings = sum(each.groundings(counted.world) for each in counted.counters.compiled)
    assert groundings > least
    rows = []
    for learner in (
        ContrastiveDivergence(counting="exact", steps=2, samples=1),
        VotedPerceptron(counting="exact", steps=2, states=1, sweeps=0),
    ):
        start = time.process_time()
        learned = learner.learn(of, lambda _: None)
        seconds = time.process_time() - start
        assert np.all(np.isfinite(learned.weights))
        counted.sweep(learned.weights)
        tuples = sum(len(counted.counts.rows(name)) for name in counted.counts.names)
        memory = counted.counts.memory
        rows.append((learner.kind, groundings, counted.atoms, tuples, memory, seconds))
        assert memory < 1_000 * tuples + 1e6
    show(
        f"two steps without grounding, and a sweep by the weights: {make.__name__}",
        ("learner", "groundings", "open atoms", "true tuples", "bytes", "CPU s of the steps"),
        rows,
    )
