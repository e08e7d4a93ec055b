"""Friends and Smokers at growing size: learning with exact counts and with those of IJGP(i).

usage: python streams/papers/batch/smokers.py [--people 50,100,200] [--kind contrastive-divergence]
                                              [--steps 50] [--samples 10] [--figure smokers.svg]

Draws two worlds of each size, learns who smokes and who has cancer from the first, and prints the CLL of the
second with its standard error, CPU seconds of learning and memory. With several numbers of --steps, the
figures are those on the way. --figure draws time and CLL against people, and of the largest size CLL and
weights against time.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import yaml
from compare import HEAD, Row, tested

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
    parser.add_argument("--samples", default="10")
    parser.add_argument("--figure", type=Path)
    given = parser.parse_args()
    if given.figure and not find_spec("matplotlib"):
        parser.error("--figure: pip install matplotlib")
    print(HEAD.replace("test  ", "people"))
    rows: dict[tuple[int, str], list[Row]] = {}
    for people in map(int, given.people.split(",")):
        for counts in COUNTS:
            each = learners(given.kind, counts, given.steps.split(","), given.samples)
            try:
                for row in grown(people, each):
                    print(row, flush=True)
                    rows.setdefault((people, counts), []).append(row)
            except SystemExit as refused:
                print(f"{people}: {counts}: {refused}", flush=True)
    if given.figure:
        figure(rows, given.figure)


def grown(people: int, learners: Sequence[str]) -> Iterator[Row]:
    """Learn from a world, and score another of its size."""
    with tempfile.TemporaryDirectory() as folder:
        source, test = ({"path": str(Path(folder) / f"{people}-{k}.db")} for k in range(2))
        for seed, each in enumerate((source, test)):
            Path(each["path"]).write_text(world(people, seed))
        config = Path(folder) / "smokers.yaml"
        values = {"model": str(MODEL), "query": ["Smokes", "Cancer"], "method": "gibbs"}
        config.write_text(yaml.safe_dump(values))
        for learner in learners:
            yield tested(config, source, test, f"{people}-1", learner)


def learners(kind: str, counts: str, steps: list[str], samples: str = "10") -> list[str]:
    """Return the learners that count in a way, one for each number of steps."""
    first = f"kind={kind},prior_sd=2,counting={counts}"
    if kind == "mple":
        return [first]
    drawn = f",samples={samples}" if kind == "contrastive-divergence" else ""
    return [f"{first}{drawn},steps={n}" for n in steps]


def figure(rows: Mapping[tuple[int, str], Sequence[Row]], path: Path) -> None:
    """Draw time and CLL against people; of the largest size, CLL and weights against time."""
    import matplotlib.pyplot as plt
    from matplotlib.ticker import LogLocator, NullFormatter

    _, axes = plt.subplots(2, 2, figsize=(10, 8))
    most = max(people for people, _ in rows)
    for k, counts in enumerate(dict.fromkeys(counts for _, counts in rows)):
        plt.rc("lines", linewidth=7 - 2 * k, markersize=12 - 3 * k)  # equal curves are seen
        last = {people: row[-1] for (people, each), row in rows.items() if each == counts}
        way = rows.get((most, counts), [])  # none if it was refused
        seconds = [row.cpu for row in way]
        axes[0, 0].loglog([*last], [row.cpu for row in last.values()], "o-", label=counts)
        axes[0, 1].semilogx([*last], [row.cll for row in last.values()], "o-", label=counts)
        axes[1, 0].semilogx(seconds, [row.cll for row in way], "o-", label=counts)
        (of,) = axes[1, 1].semilogx(seconds, [row.weights[0] for row in way], "o-", label=counts)
        for weights in list(zip(*(row.weights for row in way), strict=True))[1:]:
            axes[1, 1].semilogx(seconds, weights, "o-", color=of.get_color())
    of_size = f"CPU seconds, {most} people"
    titles = (("people", "CPU seconds"), ("people", "CLL"), (of_size, "CLL"), (of_size, "weights"))
    for axis, (x, y) in zip(axes.flat, titles, strict=True):
        axis.set(xlabel=x, ylabel=y)
        axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.xaxis.set_major_formatter("{x:g}")
        axis.xaxis.set_minor_formatter(NullFormatter())
    axes[0, 0].legend()
    plt.tight_layout()
    plt.savefig(path)
    print(path)


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
    rows += [f"{'' if smokes[a] else '!'}Smokes(P{a})" for a in range(people)]
    rows += [f"{'' if cancer[a] else '!'}Cancer(P{a})" for a in range(people)]
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    main()
