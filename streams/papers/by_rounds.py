"""What learners of latent variables reach by rounds of ADMM: points along their paths, a table, a figure.

For faces/olivetti.py, groups/groups.py and ../trust/epinions.py.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from onlinesrl.psl.learning.latent import Latent
from onlinesrl.psl.learning.problem import PslProblem

Floats: TypeAlias = NDArray[np.float64]
Points: TypeAlias = list[dict[str, float]]
"""For some of the updates: rounds of ADMM, objective on the training data, and score on other data."""


DENSE = 12
"""After so many points on a path, each second one is looked at, and the last."""


class Score(NamedTuple):
    """How predictions are scored: what a figure calls it, its format, and whether more is better."""

    name: str
    form: str = ".3f"
    greater: bool = True

    def reaches(self, value: float, goal: float) -> bool:
        """Return whether a score is at least as good as another."""
        return value >= goal if self.greater else value <= goal


class Curves(NamedTuple):
    """The ``points`` of learners by fold, the CPU ``seconds`` of learning, and the scores of ``others``."""

    points: dict[str, list[Points]]
    seconds: dict[str, list[float]]
    others: dict[str, list[float]]

    @classmethod
    def empty(cls) -> Curves:
        """Return curves without folds."""
        return cls({}, {}, {})

    def follow(
        self, name: str, learner: Latent, of: PslProblem, score: Callable[[Floats], float]
    ) -> Floats:
        """Learn, score the means of the weights on the way, tell, and return the last."""
        began = time.process_time()
        path = learner.learn(of, lambda step: None).stats["path"]
        self.seconds.setdefault(name, []).append(time.process_time() - began)
        free, clamped = learner.sides(of)
        points: Points = []
        for point in path[:DENSE] + path[DENSE:-1:2] + path[-1:]:
            weights = np.array(point["weights"])
            for side in (free, clamped):
                side.reweigh(weights)
                side.solve()
            objective = learner.objective(of, weights, free, clamped)
            points.append(
                {"rounds": point["rounds"], "objective": objective, "score": score(weights)}
            )
        self.points.setdefault(name, []).append(points)
        print(f"{name}: {points[-1]}, {self.seconds[name][-1]:.1f} CPU s", flush=True)
        return weights

    def other(self, name: str, score: float) -> None:
        """Add the score of something that is not learned by rounds, and tell."""
        self.others.setdefault(name, []).append(score)
        print(f"{name}: {score:.4g}", flush=True)

    def mean(self, name: str, key: str) -> Floats:
        """Return the means over folds, float64[points]; all have the same updates."""
        return np.array([[p[key] for p in points] for points in self.points[name]]).mean(0)


def report(curves: Curves, score: Score, folder: Path, goals: Sequence[str]) -> None:
    """Write the curves, the table, and the figure to a folder, and print the table.

    The table says after how many rounds each learner has what those named in ``goals`` end with.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "curves.json").write_text(json.dumps(curves._asdict()))
    text = table(curves, score, goals)
    (folder / "table.md").write_text(text)
    print(text, end="")
    figure(curves, score, folder / "figure.svg")


def table(curves: Curves, score: Score, goals: Sequence[str]) -> str:
    """Return the table; scores to reach are means over folds, and the share is of the goal's rounds."""
    heads = [
        "",
        score.name,
        "objective",
        "rounds",
        "CPU s",
        *(f"to {goal}'s end" for goal in goals),
    ]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for name, scores in curves.others.items():
        lines.append(f"| {name} | {shown(scores, score)} |{' |' * (len(heads) - 2)}")
    for name, folds in curves.points.items():
        objective, rounds = (curves.mean(name, key)[-1] for key in ("objective", "rounds"))
        cells = [name, shown([points[-1]["score"] for points in folds], score)]
        cells += [f"{objective:,.1f}", f"{rounds:,.0f}", f"{fmean(curves.seconds[name]):.1f}"]
        cells += ["" if name == goal else reached(curves, score, name, goal) for goal in goals]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def shown(scores: Sequence[float], score: Score) -> str:
    """Return mean and standard deviation over folds."""
    spread = f" (sd {stdev(scores):{score.form}})" if len(scores) > 1 else ""
    return f"{fmean(scores):{score.form}}{spread}"


def reached(curves: Curves, score: Score, name: str, goal: str) -> str:
    """Return after how many rounds a learner has what another ends with, and in how many folds in a fifth."""
    after = first(
        curves.mean(name, "rounds"), curves.mean(name, "score"), score, curves, goal, None
    )
    ends = curves.mean(goal, "rounds")[-1]
    folds = [
        first([p["rounds"] for p in points], [p["score"] for p in points], score, curves, goal, n)
        / curves.points[goal][n][-1]["rounds"]
        for n, points in enumerate(curves.points[name])
    ]
    within = f"{sum(share <= 0.2 for share in folds)} of {len(folds)} folds in a fifth"
    if after == float("inf"):
        return f"never; {within}"
    return f"{after:,.0f} ({after / ends:.3f}); {within}"


def first(
    rounds: Sequence[float] | Floats,
    scores: Sequence[float] | Floats,
    score: Score,
    curves: Curves,
    goal: str,
    fold: int | None,
) -> float:
    """Return the first rounds after which scores reach what ``goal`` ends with in a fold, or in the mean."""
    end = curves.mean(goal, "score")[-1] if fold is None else curves.points[goal][fold][-1]["score"]
    found = (r for r, s in zip(rounds, scores, strict=True) if score.reaches(s, end))
    return float(next(found, np.inf))


def figure(curves: Curves, score: Score, path: Path) -> None:
    """Draw objective and score of the first fold, and scores of all folds with their means."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        print("no figure: pip install matplotlib")
        return
    folds = max(map(len, curves.points.values()))
    panels = 3 if folds > 1 else 2
    _, axes = plt.subplots(1, panels, figsize=(5 * panels, 4))
    for colour, (name, points) in enumerate(curves.points.items()):
        style = {"color": f"C{colour}", "label": name}
        rounds = [p["rounds"] for p in points[0]]
        for axis, key in zip(axes, ("objective", "score"), strict=False):
            axis.plot(rounds, [p[key] for p in points[0]], **style)
        if folds > 1:
            each = np.array([[(p["rounds"], p["score"]) for p in of] for of in points]).reshape(
                -1, 2
            )
            axes[2].plot(curves.mean(name, "rounds"), curves.mean(name, "score"), **style)
            axes[2].scatter(*each.T, s=4, alpha=0.3, color=style["color"])
    baselines(curves.others, axes[1:])
    for axis, title in zip(
        axes, ("objective", score.name, f"{score.name}, all folds"), strict=False
    ):
        axis.set(xscale="log", xlabel="rounds of ADMM", ylabel=title)
        axis.legend(fontsize=8)
    axes[0].set_yscale("log")
    plt.tight_layout()
    plt.savefig(path)
    plt.savefig(path.with_suffix(".png"), dpi=100)
    print(path)


def baselines(others: Mapping[str, Sequence[float]], axes: Sequence[Any]) -> None:
    """Draw scores of the first fold, and means of all, as lines."""
    for n, (name, scores) in enumerate(others.items()):
        for axis, value in zip(axes, (scores[0], fmean(scores)), strict=False):
            axis.axhline(value, color="grey", linestyle=(":", "--", "-.")[n % 3], label=name)
