"""Latent groups from hashtags and links: learners by rounds of ADMM, on ten folds of generated users.

usage: python streams/papers/groups/groups.py [--folds N] [--output FOLDER]

Prints a table, and writes it with a figure to FOLDER. See README.md.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import onlinesrl as srl
from onlinesrl.psl.lang.ast import PslProgram
from onlinesrl.psl.lang.columns import Columns, database_of
from onlinesrl.psl.lang.reader import parse
from onlinesrl.psl.learning.latent import Em, Latent, PairedDual, Primal
from onlinesrl.psl.learning.mple import Mple
from onlinesrl.psl.learning.problem import PslProblem, grounded

sys.path.insert(0, str(Path(__file__).parents[1]))

from by_rounds import Curves, Score, report

USERS, TOPS, TAGS, FOLDS = 600, 20, 40, 10
OPTIONS: dict[str, Any] = {"latent": ("Group",), "l2": 0.001, "entropy": "loss", "step": 0.1}
LEARNERS: dict[str, Latent] = {
    "PDL, N=1": PairedDual(updates=200, **OPTIONS),
    "PDL, N=10": PairedDual(rounds=10, updates=60, **OPTIONS),
    "EM": Em(updates=60, **OPTIONS),
    "Primal": Primal(updates=60, **OPTIONS),
}
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Network:
    """``tags`` bool[users, TAGS] and ``talks`` bool[users, TOPS] of users, and ``links`` int64[links, 2]."""

    tags: Bools
    talks: Bools
    links: NDArray[np.int64]


def generate(seed: int = 0) -> Network:
    """Draw users of two groups.

    Of the hashtags, the first quarter is used by one group, the second by the other, nine times in ten; the
    rest by both. Links are within a tenth of the users, of ten nine within a group. Half of the top users
    belong to each group; members talk to theirs with a probability between 0.6 and 0.9, others with 0.05.
    """
    rng = np.random.default_rng(seed)
    group = rng.random(USERS) < 0.5
    lean = np.repeat([0.9, 0.1, 0.5], [TAGS // 4, TAGS // 4, TAGS // 2])
    share = np.repeat([0.04, 0.04, 0.06], [TAGS // 4, TAGS // 4, TAGS // 2])
    rate = 2 * share * np.where(group[:, None], lean, 1.0 - lean)
    pairs = rng.integers(0, USERS // FOLDS, (40 * USERS, 2)) * FOLDS
    pairs += rng.integers(0, FOLDS, (40 * USERS, 1))
    same = group[pairs[:, 0]] == group[pairs[:, 1]]
    kept = (pairs[:, 0] != pairs[:, 1]) & (rng.random(len(pairs)) < np.where(same, 0.18, 0.02))
    liked = rng.uniform(0.6, 0.9, TOPS)
    member = group[:, None] == (np.arange(TOPS) < TOPS // 2)
    talks = rng.random((USERS, TOPS)) < np.where(member, liked, 0.05)
    return Network(rng.random((USERS, TAGS)) < rate, talks, np.unique(pairs[kept], axis=0))


def latent_rules() -> Iterator[str]:
    """Yield the rules with groups.

    One top user of each group begins with it: without, the rules say the same of a group and of its
    complement, all groups stay at 1/2, and there is nothing to learn from.
    """
    for n in range(TAGS):
        yield f"0.1: Tag{n}(U) -> Group(U) ^2"
        yield f"0.1: Tag{n}(U) -> !Group(U) ^2"
    for n in range(TOPS):
        one, other = (1.0 if n == 0 else 0.1), (1.0 if n == TOPS // 2 else 0.1)
        yield f"{one}: User(U) & Group(U) -> Talks(U, 't{n}') ^2"
        yield f"{other}: User(U) & !Group(U) -> Talks(U, 't{n}') ^2"
        yield f"{other}: User(U) & Group(U) -> !Talks(U, 't{n}') ^2"
        yield f"{one}: User(U) & !Group(U) -> !Talks(U, 't{n}') ^2"
    yield "0.5: Link(U, V) & Group(U) -> Group(V) ^2"
    yield "0.5: Link(U, V) & !Group(U) -> !Group(V) ^2"


def flat_rules() -> Iterator[str]:
    """Yield rules from hashtags and linked users to top users, with priors."""
    for n in range(TOPS):
        for tag in range(TAGS):
            yield f"0.1: Tag{tag}(U) -> Talks(U, 't{n}') ^2"
            yield f"0.1: Tag{tag}(U) -> !Talks(U, 't{n}') ^2"
        yield f"0.1: User(U) -> !Talks(U, 't{n}') ^2"
        yield f"0.1: User(U) -> Talks(U, 't{n}') ^2"
    yield "0.1: Link(U, V) & Talks(U, T) -> Talks(V, T) ^2"
    yield "0.1: Link(U, V) & !Talks(U, T) -> !Talks(V, T) ^2"


def small_rules() -> Iterator[str]:
    """Yield rules without groups and with as many weights as those with groups.

    Hashtags count for all top users alike; priors and links are of each top user.
    """
    for tag in range(TAGS):
        yield f"0.1: Tag{tag}(U) & Top(T) -> Talks(U, T) ^2"
        yield f"0.1: Tag{tag}(U) & Top(T) -> !Talks(U, T) ^2"
    for n in range(TOPS):
        yield f"0.1: User(U) -> !Talks(U, 't{n}') ^2"
        yield f"0.1: User(U) -> Talks(U, 't{n}') ^2"
        yield f"0.1: Link(U, V) & Talks(U, 't{n}') -> Talks(V, 't{n}') ^2"
        yield f"0.1: Link(U, V) & !Talks(U, 't{n}') -> !Talks(V, 't{n}') ^2"
    yield "0.1: Link(U, V) & Talks(U, T) -> Talks(V, T) ^2"
    yield "0.1: Link(U, V) & !Talks(U, T) -> !Talks(V, T) ^2"


MODELS = {"groups": latent_rules, "as many weights": small_rules, "flat": flat_rules}


def ground(program: PslProgram, of: Network, users: Sequence[int]) -> PslProblem:
    """Ask whom some users talk to, from their hashtags and the links between them."""
    names = np.array([f"u{n}" for n in range(USERS)])
    inside = np.isin(of.links, users).all(axis=1)
    chosen = names[np.array(users)].tolist()
    observed = {
        "User": Columns([chosen]),
        "Top": Columns([[f"t{n}" for n in range(TOPS)]]),
        "Link": Columns([names[c].tolist() for c in of.links[inside].T]),
    }
    observed |= {
        f"Tag{n}": Columns([names[[u for u in users if of.tags[u, n]]].tolist()])
        for n in range(TAGS)
    }
    pairs = [[u for u in chosen for _ in range(TOPS)], [f"t{n}" for n in range(TOPS)] * len(chosen)]
    truth = {"Talks": Columns(pairs, of.talks[np.array(users)].ravel().astype(float))}
    targets = {"Talks": Columns(pairs), "Group": Columns([chosen])}
    known = program.predicates
    observed, targets = ({n: c for n, c in d.items() if n in known} for d in (observed, targets))
    return grounded(program, {}, database_of(program.predicates, observed, targets, truth))


def main() -> None:
    """Run the experiment."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--folds", type=int, default=FOLDS)
    parser.add_argument("--output", type=Path, default=Path("runs/groups"))
    given = parser.parse_args()
    network, curves = generate(), Curves.empty()
    programs = {name: parse("\n".join(rules())) for name, rules in MODELS.items()}
    for fold in range(given.folds):
        print(f"fold {fold + 1}", flush=True)
        test = [*range(fold, USERS, FOLDS)]
        train = sorted({*range(USERS)} - {*test})
        for name, program in programs.items():
            of, held_out = (ground(program, network, users) for users in (train, test))
            compare(curves, name, of, held_out)
    report(curves, Score("AUPR"), given.output, ("Primal", "EM"))


def compare(curves: Curves, name: str, of: PslProblem, held_out: PslProblem) -> None:
    """Learn a model by all that can, and score it on held-out users."""

    def score(weights: NDArray[np.float64]) -> float:
        aupr = srl.METRICS["aupr"].measure(*held_out.predicted(weights)["Talks"])
        assert aupr is not None
        return aupr

    if name == "groups":
        for learner, latent in LEARNERS.items():
            curves.follow(learner, latent, of, score)
    else:
        weights = Mple(prior_sd=1.0).learn(of, lambda step: None).weights
        curves.other(f"{name}, {len(weights):,}, mple", score(weights))


if __name__ == "__main__":
    main()
