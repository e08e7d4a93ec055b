"""Lifted inference beside ADMM: table 3.1 and figures 3.3 to 3.5 of Srinivasan (2020).

usage: python streams/papers/lifting.py symmetry|density|cases FOLDER

  symmetry  a voting model of 22,050 people without symmetry; every ground rule 1 to 10 times, shuffled
  density   1,000 people, half of them with a label; friendship is 1, or a number of one or four decimals
  cases     CiteSeer and others from PSL's own data, where those are beside the project

Prints tables of CPU seconds and sizes, and writes them to FOLDER as lifting-*.csv.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.psl.ground.grounder import Grounder
from onlinesrl.psl.ground.hinge_loss_mrf import HingeLossMRF
from onlinesrl.psl.inference.admm import Admm
from onlinesrl.psl.inference.lifting import Lifting, lift
from onlinesrl.psl.inference.protocols import HingeSolution
from onlinesrl.psl.lang.data import AtomTable, Database, Relation
from onlinesrl.psl.lang.reader import parse

sys.path.insert(0, str(Path(__file__).parents[2]))

from streams.papers.recording import keep, show_and_keep
from tests.support.hinge_models import psl_case

T = TypeVar("T")
Cells = tuple[str | float, ...]


def seconds(work: Callable[[], T]) -> tuple[T, float]:
    """Return a result, and the CPU seconds."""
    started = time.process_time()
    found = work()
    return found, time.process_time() - started


def main(experiment: str, folder: Path) -> None:
    """Run an experiment."""
    warm, weights = friendship(1000, 0)
    Admm().solve(warm, weights)  # compiles
    lift(warm, weights)
    EXPERIMENTS[experiment](folder)


# symmetry ----------------------------------------------------------------------------------------

VOTERS, PARTIES, COPIES = 22_050, 2, range(1, 11)
VOTES = """
0.5: Bias(A, P) -> Votes(A, P) ^2
0.3: Votes(A, P) & KnowsWell(B, A) -> Votes(B, P) ^2
0.1: Votes(A, P) & Knows(B, A) -> Votes(B, P) ^2
0.05: Votes(A, P) & Boss(B, A) -> Votes(B, P) ^2
0.1: Votes(A, P) & Mentor(B, A) -> Votes(B, P) ^2
0.7: Votes(A, P) & OlderRelative(B, A) -> Votes(B, P) ^2
0.8: Votes(A, P) & Idol(B, A) -> Votes(B, P) ^2
Votes(A, +P) <= 1 .
"""
EDGES = {
    "KnowsWell": 9_000,
    "Knows": 16_000,
    "Boss": 3_000,
    "Mentor": 4_000,
    "OlderRelative": 5_000,
    "Idol": 6_000,
}


def voters(people: int) -> tuple[HingeLossMRF, Floats]:
    """Return the model of who votes for whom, lifted; few people have many of the edges."""
    random = np.random.default_rng(0)
    crowd = random.permutation(people)
    none = {n: AtomTable(np.empty((n, 0), np.int32), np.empty(0)) for n in (1, 2)}

    def edges(n: int) -> Relation:
        n = n * people // VOTERS
        a = random.integers(people, size=n)
        b = crowd[(people * random.random(n) ** 3).astype(int)]
        pairs = np.unique(np.stack((a, b))[:, a != b], axis=1).astype(np.int32)
        return Relation(AtomTable(pairs, np.ones(pairs.shape[1])), none[2], none[2])

    a, p = (x.ravel() for x in np.meshgrid(np.arange(people), people + np.arange(PARTIES)))
    votes = np.stack((a, p)).astype(np.int32)
    leaning = np.stack((np.arange(people), people + random.integers(PARTIES, size=people)))
    bias = AtomTable(leaning.astype(np.int32), random.random(people))
    relations = {name: edges(n) for name, n in EDGES.items()} | {
        "Bias": Relation(bias, none[2], none[2]),
        "Votes": Relation(none[2], AtomTable(votes, np.full(len(a), np.nan)), none[2]),
    }
    names = tuple(map(str, range(people + PARTIES)))
    program = parse(VOTES, declared=dict.fromkeys(relations, 2))
    weights = np.array([rule.weight or 0.0 for rule in program.rules])
    model = Grounder(program).ground(Database(names, relations))
    lifting = lift(model, weights)
    return lifting.model, lifting.weights


def repeated(model: HingeLossMRF, times: int) -> HingeLossMRF:
    """Return a model with every row so many times, in random order."""
    rows = np.random.default_rng(times).permutation(np.tile(np.arange(model.n_rows), times))
    length = np.diff(model.start)[rows]
    start = np.concatenate(([0], np.cumsum(length)))
    entry = np.arange(start[-1]) + np.repeat(model.start[:-1][rows] - start[:-1], length)
    by_row = (model.constant, model.weight_index, model.power, model.kind)
    return HingeLossMRF(
        model.n_variables,
        start,
        model.variable[entry],
        model.coefficient[entry],
        *(array[rows] for array in by_row),
    )


def symmetry(folder: Path) -> None:
    """Figure 3.5."""
    model, weights = voters(VOTERS)
    rows = [_copies(repeated(model, n), weights, n) for n in COPIES]
    head = ("copies", "ADMM", "lifted, solve", "lifted, lift", "lifted, both")
    show_and_keep(folder, "lifting-symmetry", head, rows)


def _copies(model: HingeLossMRF, weights: Floats, copies: int) -> Cells:
    whole, unlifted = seconds(lambda: Admm().solve(model, weights))
    lifting, lifted = seconds(lambda: lift(model, weights))
    small, solved = seconds(lambda: Admm().solve(lifting.model, lifting.weights))
    agree(whole, small)
    return copies, unlifted, solved, lifted, lifted + solved


def agree(one: HingeSolution, other: HingeSolution) -> None:
    """Raise AssertionError where two optima differ."""
    assert abs(one.energy - other.energy) <= 1e-5 * max(1.0, one.energy), (one, other)


# density -----------------------------------------------------------------------------------------

PEOPLE = 1000
FRIENDS = [10_000, 50_000, 100_000, 200_000, 500_000]
DECIMALS = {"binary": 0, "one decimal": 1, "four decimals": 4}
SMOKES = """
1: Friend(A, B) & Smokes(A) -> Smokes(B) ^2
1: Friend(A, B) & !Smokes(A) -> !Smokes(B) ^2
"""
HEAD = ("size", "lifted size", "share", "ADMM", "lifted, lift", "lifted, solve", "speed-up")


def friendship(edges: int, decimals: int) -> tuple[HingeLossMRF, Floats]:
    """Return the model of who smokes."""
    random = np.random.default_rng(0)
    place = random.choice(PEOPLE * (PEOPLE - 1), edges, replace=False)
    a, b = place // (PEOPLE - 1), place % (PEOPLE - 1)
    pairs = np.stack((a, b + (b >= a))).astype(np.int32)
    values = np.round(random.random(edges), decimals) if decimals else np.ones(edges)
    people = random.permutation(PEOPLE).astype(np.int32)
    known, hidden = people[None, : PEOPLE // 2], people[None, PEOPLE // 2 :]
    labels = random.integers(2, size=known.shape[1]).astype(float)
    none = {arity: AtomTable(np.empty((arity, 0), np.int32), np.empty(0)) for arity in (1, 2)}
    relations = {
        "Friend": Relation(AtomTable(pairs, values), none[2], none[2]),
        "Smokes": Relation(
            AtomTable(known, labels), AtomTable(hidden, np.full(hidden.shape[1], np.nan)), none[1]
        ),
    }
    database = Database(tuple(map(str, range(PEOPLE))), relations)
    return Grounder(parse(SMOKES)).ground(database), np.ones(2)


def compared(model: HingeLossMRF, weights: Floats) -> Cells:
    """Return the cells of HEAD."""
    whole, unlifted = seconds(lambda: Admm().solve(model, weights))
    lifting, lifted = seconds(lambda: lift(model, weights))
    small, solved = seconds(lambda: Admm().solve(lifting.model, lifting.weights))
    agree(whole, small)
    before, after = _size(model), _size(lifting)
    return before, after, after / before, unlifted, lifted, solved, unlifted / (lifted + solved)


def _size(of: HingeLossMRF | Lifting) -> int:
    """Return the number of variables and rules."""
    model = of.model if isinstance(of, Lifting) else of
    return model.n_variables + model.n_rows


def density(folder: Path) -> None:
    """Figure 3.4: sizes by the values of friendship, seconds for the binary ones."""
    found = {
        name: {edges: compared(*friendship(edges, decimals)) for edges in FRIENDS}
        for name, decimals in DECIMALS.items()
    }
    rows = [(f"{edges:,}, {name}", *of[edges]) for name, of in found.items() for edges in FRIENDS]
    show_and_keep(folder, "lifting-density", ("edges, friendship", *HEAD), rows)
    binary = found["binary"]
    sizes = [(edges, *binary[edges][:2]) for edges in FRIENDS]
    show_and_keep(
        folder, "lifting-density-sizes", ("edges", "variables and rules", "lifted"), sizes
    )
    shares = [(edges, *(of[edges][2] for of in found.values())) for edges in FRIENDS]
    keep(folder, "lifting-density-shares", ("edges", *found), shares)
    times = [(e, *binary[e][3:6], sum(map(float, binary[e][4:6]))) for e in FRIENDS]
    keep(folder, "lifting-density-seconds", ("edges", *HEAD[3:6], "lifted, both"), times)


def cases(folder: Path) -> None:
    """Table 3.1 and figure 3.3."""
    names = (
        "citeseer",
        "citeseer-learn",
        "smokers-100k-sq",
        "smokers-100k-sq-dec1",
        "smokers-100k-sq-dec4",
    )
    rows = [(name, *compared(*psl_case(name))) for name in names]
    show_and_keep(folder, "lifting-cases", ("model", *HEAD), rows)


EXPERIMENTS = {"symmetry": symmetry, "density": density, "cases": cases}

if __name__ == "__main__":
    if "--help" in sys.argv:
        print(__doc__)
        sys.exit()
    if len(sys.argv) != 3 or sys.argv[1] not in EXPERIMENTS:
        sys.exit(__doc__)
    main(sys.argv[1], Path(sys.argv[2]))
