"""Distrust in a sample of Epinions, with latent attributes of people: learners by rounds of ADMM, on folds.

usage: python streams/trust/epinions.py KNOWS TRUSTS [--folds N] [--output FOLDER]

KNOWS and TRUSTS are tab-separated: who, whom, and whether the opinion is trust. Prints a table, and writes it
with a figure to FOLDER. See README.md.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import onlinesrl as srl

FLAT = (Path(__file__).parent / "trust.psl").read_text()
LATENT = """
1: Knows(A, B) & Trusts(A, B) -> Trusting(A) ^2
1: Knows(A, B) & !Trusts(A, B) -> !Trusting(A) ^2
1: Knows(A, B) & Trusting(A) -> Trusts(A, B) ^2
1: Knows(A, B) & !Trusting(A) -> !Trusts(A, B) ^2
1: Knows(A, B) & Trusts(A, B) -> Trustworthy(B) ^2
1: Knows(A, B) & !Trusts(A, B) -> !Trustworthy(B) ^2
1: Knows(A, B) & Trustworthy(B) -> Trusts(A, B) ^2
1: Knows(A, B) & !Trustworthy(B) -> !Trusts(A, B) ^2
"""
HIDDEN = {"latent": ["Trusting", "Trustworthy"], "l2": 0.001}
LEARNERS: dict[str, dict[str, Any]] = {
    "PDL, N=1": {"kind": "paired-dual", "updates": 200, **HIDDEN},
    "PDL, N=10": {"kind": "paired-dual", "rounds": 10, "updates": 60, **HIDDEN},
    "EM": {"kind": "em", "updates": 60, **HIDDEN},
    "Primal": {"kind": "primal", "updates": 60, **HIDDEN},
}

Opinions = Mapping[tuple[str, str], float]


def main() -> None:
    """Run the experiment."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("knows", type=Path)
    parser.add_argument("trusts", type=Path)
    parser.add_argument("--folds", type=int, default=8)
    parser.add_argument("--output", type=Path, default=Path("runs/epinions"))
    given = parser.parse_args()
    opinions = read(given.trusts)
    pairs = sorted(opinions)
    random.Random(0).shuffle(pairs)
    parts = [pairs[n::8] for n in range(8)]
    curves: dict[str, list[list[dict[str, float]]]] = {name: [] for name in LEARNERS}
    flat: list[float] = []
    for fold in range(given.folds):
        test, learn = parts[fold], parts[(fold + 1) % 8]
        rest = [pair for n, part in enumerate(parts) if n != fold for pair in part]
        seen = [pair for pair in rest if pair not in {*learn}]
        trained = learned(
            FLAT, opinions, seen, learn, {"kind": "mle", "log": 0.1, "entropy": 0.0}, False
        )
        flat.append(distrust(trained.model, opinions, rest, test, False))
        print(f"fold {fold + 1}: flat {flat[-1]:.3f}", flush=True)
        for name, learner in LEARNERS.items():
            began = time.process_time()
            found = learned(FLAT + LATENT, opinions, seen, learn, learner, True)
            seconds = time.process_time() - began
            curves[name].append([*curve(found, opinions, (seen, learn), (rest, test))])
            last = curves[name][-1][-1]
            shown = (
                f"{last['rounds']:,.0f} rounds, {seconds:.1f} s, objective {last['objective']:.0f}"
            )
            print(f"fold {fold + 1}: {name}: {shown}, AUPR {last['aupr']:.3f}", flush=True)
    given.output.mkdir(parents=True, exist_ok=True)
    (given.output / "curves.json").write_text(json.dumps({"flat": flat, **curves}))
    table(flat, curves)
    figure(flat, curves, given.output / "epinions.svg")


def read(path: Path) -> Opinions:
    """Return the opinions of a file."""
    rows = (line.split("\t") for line in path.read_text().splitlines())
    return {(a, b): float(value) for a, b, value in rows}


def world(opinions: Opinions, seen: Sequence[Any], asked: Sequence[Any], latent: bool) -> Any:
    """Return evidence and targets."""
    known = {"Knows": [*seen, *asked], "Trusts": {pair: opinions[pair] for pair in seen}}
    people = sorted({person for pair in known["Knows"] for person in pair})
    hidden = {"Trusting": people, "Trustworthy": people} if latent else {}
    return known, {"Trusts": [*asked], **hidden}


def learned(  # noqa: PLR0913, PLR0917
    text: str,
    opinions: Opinions,
    seen: Sequence[Any],
    asked: Sequence[Any],
    learner: Mapping[str, Any],
    latent: bool,
) -> srl.LearnedModel:
    """Learn from opinions asked for beside those seen."""
    known, targets = world(opinions, seen, asked, latent)
    truth = {"Trusts": {pair: opinions[pair] for pair in asked}}
    return srl.learn(srl.Model(text, "psl"), known, targets, truth=truth, learner=learner)


def distrust(
    model: srl.Model, opinions: Opinions, seen: Sequence[Any], asked: Sequence[Any], latent: bool
) -> float:
    """Return the area under precision and recall of distrust (average precision)."""
    known, targets = world(opinions, seen, asked, latent)
    values = srl.infer(model, known, targets)["Trusts"]
    order = sorted(asked, key=lambda pair: values[pair])
    hits, total = 0, 0.0
    for n, pair in enumerate(order, 1):
        if opinions[pair] < 0.5:
            hits += 1
            total += hits / n
    return total / hits


def curve(
    found: srl.LearnedModel, opinions: Opinions, train: Any, test: Any
) -> Iterator[dict[str, float]]:
    """Yield objective on the training data, and AUPR on the others, along the path of a learner."""
    for point in found.stats["path"]:
        text = FLAT + LATENT
        for weight in point["weights"]:
            text = text.replace("\n1: ", f"\n{weight!r}: ", 1)
        model = srl.Model(text, "psl")
        exact = learned(text, opinions, *train, {"kind": "primal", "updates": 1, **HIDDEN}, True)
        aupr = distrust(model, opinions, *test, True)
        yield {"rounds": point["rounds"], "objective": exact.objective[0], "aupr": aupr}


def table(flat: list[float], curves: Mapping[str, list[list[dict[str, float]]]]) -> None:
    """Print what each learner ends with, and after how many rounds it has that of the primal subgradient."""
    print(
        f"{'':12}{'AUPR':>8}{'sd':>8}{'objective':>12}{'rounds':>10}{'reaches primal and EM':>24}"
    )
    print(f"{'flat':12}{fmean(flat):8.3f}{spread(flat):8.3f}")
    for name, folds in curves.items():
        last = [points[-1] for points in folds]
        reached = []
        for points, *others in zip(folds, curves["Primal"], curves["EM"], strict=True):
            goal = max(of[-1]["aupr"] for of in others) - 0.005
            least = min(of[-1]["rounds"] for of in others)
            after = next((p["rounds"] for p in points if p["aupr"] >= goal), None)
            reached.append("never" if after is None else f"{after / least:.3f}")
        aupr = [point["aupr"] for point in last]
        objective, rounds = (fmean(point[key] for point in last) for key in ("objective", "rounds"))
        shown = f"{name:12}{fmean(aupr):8.3f}{spread(aupr):8.3f}{objective:12.0f}{rounds:10.0f}"
        print(f"{shown}  {' '.join(reached)}")


def spread(values: list[float]) -> float:
    """Return the standard deviation; 0 of one value."""
    return stdev(values) if len(values) > 1 else 0.0


def figure(
    flat: list[float], curves: Mapping[str, list[list[dict[str, float]]]], path: Path
) -> None:
    """Draw the first fold."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        print("no figure: pip install matplotlib")
        return
    _, axes = plt.subplots(1, 2, figsize=(10, 4))
    for name, folds in curves.items():
        rounds = [point["rounds"] for point in folds[0]]
        for axis, key in zip(axes, ("objective", "aupr"), strict=True):
            axis.plot(rounds, [point[key] for point in folds[0]], label=name)
    axes[1].axhline(flat[0], color="grey", linestyle=":", label="flat")
    for axis, title in zip(axes, ("objective", "AUPR of distrust"), strict=True):
        axis.set_xscale("log")
        axis.set_xlabel("rounds of ADMM")
        axis.set_ylabel(title)
        axis.legend()
    plt.tight_layout()
    plt.savefig(path)
    print(path)


if __name__ == "__main__":
    main()
