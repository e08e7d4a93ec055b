"""Friends and Smokers at growing size: learning with exact counts and with those of IJGP(i).

usage: python streams/batch/smokers.py [--people 50,100,200] [--kind contrastive-divergence] [--steps 50]

Draws two worlds of each size, learns who smokes and who has cancer from the first, and prints the CLL of the
second with its standard error, CPU seconds of learning and memory. With several numbers of --steps, the
figures are those on the way.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import yaml
from compare import WIDE, line

MODEL = Path(__file__).with_name("smokers.mln")
COUNTS = ("exact", "ijgp,i_bound=1", "ijgp,i_bound=2", "ijgp,i_bound=3")
CIRCLE = 8
"""People in a circle, of whom most are friends."""


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--people", default="50,100,200")
    parser.add_argument("--kind", default="contrastive-divergence")
    parser.add_argument("--steps", default="50")
    given = parser.parse_args()
    print(
        f"{'people':14}{'learner':{WIDE}}{'CLL':>10}{'se':>8}{'AUROC':>8}{'CPU s':>8}{'all s':>8}{'MB':>7}"
    )
    for people in map(int, given.people.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            folds = [Path(folder) / f"{people}-{k}.db" for k in range(2)]
            for seed, fold in enumerate(folds):
                fold.write_text(world(people, seed))
            config = Path(folder) / "smokers.yaml"
            config.write_text(
                yaml.safe_dump(
                    {"model": str(MODEL), "query": ["Smokes", "Cancer"], "method": "gibbs"}
                )
            )
            for counts in COUNTS:
                for learner in learners(given.kind, counts, given.steps.split(",")):
                    print(line(config, folds, folds[1], learner), flush=True)


def learners(kind: str, counts: str, steps: list[str]) -> list[str]:
    """Return the learners that count in a way, one for each number of steps."""
    first = f"kind={kind},prior_sd=2,counting={counts}"
    if kind == "mple":
        return [first]
    samples = ",samples=10" if kind == "contrastive-divergence" else ""
    return [f"{first}{samples},steps={n}" for n in steps]


def world(people: int, seed: int) -> str:
    """Draw circles of friends, who smoke or do not, and have cancer more often if they do."""
    rng = np.random.default_rng((people, seed))
    circle = np.arange(people) // CIRCLE
    near = np.where(circle[:, None] == circle, 0.6, 1.0 / people)
    friends = np.triu(rng.random((people, people)) < near, 1)
    smokes = rng.random(people) < rng.beta(0.5, 1.0, circle[-1] + 1)[circle]
    cancer = rng.random(people) < np.where(smokes, 0.5, 0.1)
    both = np.argwhere(friends | friends.T)
    rows = [f"Friends(P{a},P{b})" for a, b in both]
    rows += [f"Smokes(P{a})" for a in np.flatnonzero(smokes)]
    rows += [f"Cancer(P{a})" for a in np.flatnonzero(cancer)]
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    main()
