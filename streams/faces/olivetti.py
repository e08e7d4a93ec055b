"""Bottom halves of the Olivetti faces from the top ones, by six latent states: learners by rounds of ADMM.

usage: python streams/faces/olivetti.py FACES [--size PIXELS] [--output FOLDER]

FACES is olivettifaces.mat. Prints a table, and writes it with figures and pictures to FOLDER. See README.md.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray
from scipy.io import loadmat

from onlinesrl.psl.lang.columns import Columns, database_of
from onlinesrl.psl.lang.psl import parse
from onlinesrl.psl.learning.latent import Em, Latent, PairedDual, Primal
from onlinesrl.psl.learning.problem import PslProblem, grounded

Floats = NDArray[np.float64]
STATES = [f"State{n}" for n in range(6)]
FORMS = ("{a} -> {b}", "{b} -> {a}", "{a} -> !{b}", "Face(F) & !{a} -> {b}")
"""What a pixel and a state may have in common: likeness by the first two, contrast by the others."""
OPTIONS: dict[str, Any] = {"latent": STATES, "entropy_weight": 0.1, "l2": 0.001, "step": 0.1}
LEARNERS: dict[str, Latent] = {
    "PDL, N=1": PairedDual(warm_up=10, updates=300, **OPTIONS),
    "PDL, N=10": PairedDual(rounds=10, warm_up=1, updates=80, **OPTIONS),
    "EM": Em(updates=100, **OPTIONS),
    "Primal": Primal(updates=80, **OPTIONS),
}
ETAS = (None, 1.0, 3.0, 10.0)
"""Step sizes of ADMM that paired duals are tried with."""
POINTS = 24
"""How many of the means of a learner's weights are looked at, about."""


def main() -> None:
    """Run the experiment."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("faces", type=Path)
    parser.add_argument("--size", type=int, default=32, choices=(8, 16, 32, 64))
    parser.add_argument("--output", type=Path, default=Path("runs/olivetti"))
    given = parser.parse_args()
    faces, rng = read(given.faces, given.size), np.random.default_rng(0)
    mixed = rng.permutation(350)
    train, others, test = faces[np.sort(mixed[:50])], faces[np.sort(mixed[50:80])], faces[350:]
    text = model(train, rng)
    problem, validation, held_out = (ground(text, each) for each in (train, others, test))
    print(f"{len(problem.start):,} rules, {problem.model.n_rows:,} potentials", flush=True)
    half = train.shape[1] // 2
    baseline = mse(np.broadcast_to(train[:, half:].mean(0), test[:, half:].shape), test[:, half:])
    print(f"mean face of training: MSE {baseline:.0f}", flush=True)
    curves, shown = {}, {}
    for name, learner in LEARNERS.items():
        best = chosen(learner, problem, validation)
        curves[name], shown[name] = followed(name, best, problem, held_out)
    given.output.mkdir(parents=True, exist_ok=True)
    (given.output / "curves.json").write_text(json.dumps({"mean face": baseline, **curves}))
    table(baseline, curves)
    figure(baseline, curves, given.output / "olivetti.svg")
    pictures(test, train, shown, given.output)


# data and model ----------------------------------------------------------------------------------


def read(path: Path, size: int) -> Floats:
    """Return the faces, float64[400, size, size] in [0, 1]; pixels are means over squares."""
    faces = loadmat(path)["faces"].T.reshape(-1, 64, 64).transpose(0, 2, 1) / 255
    scale = 64 // size
    small: Floats = faces.reshape(-1, size, scale, size, scale).mean((2, 4))
    return small


def model(train: Floats, rng: np.random.Generator) -> str:
    """Return the rules; a state begins near a face of the training set, where it differs from the mean."""
    prototypes = train[rng.choice(len(train), len(STATES), replace=False)] - train.mean(0)
    half = prototypes[0].size // 2
    return "\n".join(rules(prototypes.reshape(len(STATES), 2, half)))


def rules(prototypes: Floats) -> Iterator[str]:
    """Yield the rules, from prototypes float64[states, top or bottom, pixels]."""
    for state, (top, bottom) in zip(STATES, prototypes, strict=True):
        for of, part in (("Bright", top), ("Rounded", top), ("Pixel", bottom)):
            for n, contrast in enumerate(part.tolist()):
                like, unlike = max(contrast, 0.0), max(-contrast, 0.0)
                for weight, form in zip((like, like, unlike, unlike), FORMS, strict=True):
                    rule = form.format(a=f"{of}{n}(F)", b=f"{state}(F)")
                    yield f"{weight + 0.01:.4f}: {rule} ^2"
    for one, other in pairwise(STATES):
        yield f"0.1: {one}(F) -> {other}(F) ^2"
        yield f"0.1: {other}(F) -> {one}(F) ^2"
    for n in range(prototypes.shape[2]):
        yield f"0.5: Face(F) -> !Pixel{n}(F) ^2"
        yield f"0.5: Face(F) -> Pixel{n}(F) ^2"


def ground(text: str, faces: Floats) -> PslProblem:
    """Ground the model for some faces."""
    names = [f"f{n}" for n in range(len(faces))]
    observed = {"Face": Columns([names])}
    top, bottom = np.split(faces.reshape(len(faces), -1), 2, axis=1)
    observed |= {
        f"{of}{n}": Columns([names], column)
        for of, values in (("Bright", top), ("Rounded", np.round(top)))
        for n, column in enumerate(values.T)
    }
    truth = {f"Pixel{n}": Columns([names], column) for n, column in enumerate(bottom.T)}
    targets = {name: Columns([names]) for name in (*truth, *STATES)}
    program = parse(text)
    return grounded(program, {}, database_of(program.predicates, observed, targets, truth))


# learning ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Answer:
    """Bottom halves, float64[faces, pixels], and states, float64[faces, states], of held-out faces."""

    pixels: Floats
    states: Floats
    weights: Floats


def chosen(learner: Latent, problem: PslProblem, validation: PslProblem) -> Latent:
    """Return paired duals with the step size of ADMM that has the least MSE on other training faces."""
    if not isinstance(learner, PairedDual):
        return learner

    def error(candidate: Latent) -> float:
        weights = candidate.learn(problem, lambda step: None).weights
        [asked, _] = candidate.sides(validation)
        asked.reweigh(weights)
        asked.solve()
        known = ~np.isnan(validation.truth)
        return mse(asked.y[known], validation.truth[known])

    errors = [error(learner.model_copy(update={"eta": eta})) for eta in ETAS]
    print(", ".join(f"eta {e}: {v:.0f}" for e, v in zip(ETAS, errors, strict=True)), flush=True)
    return learner.model_copy(update={"eta": ETAS[int(np.argmin(errors))]})


def followed(
    name: str, learner: Latent, problem: PslProblem, held_out: PslProblem
) -> tuple[list[dict[str, float]], Answer]:
    """Learn; return the objective and the MSE of the means of weights on the way, and the last answer."""
    began = time.process_time()
    path = learner.learn(problem, lambda step: None).stats["path"]
    seconds = time.process_time() - began
    free, clamped = learner.sides(problem)
    [asked, _] = learner.sides(held_out)
    known = ~np.isnan(held_out.truth)
    points = []
    for point in path[:: max(1, len(path) // POINTS)][:-1] + path[-1:]:
        weights = np.array(point["weights"])
        for side in (free, clamped, asked):
            side.reweigh(weights)
            side.solve()
        error = mse(asked.y[known], held_out.truth[known])
        objective = learner.objective(problem, weights, free, clamped)
        points.append({"rounds": point["rounds"], "objective": objective, "mse": error})
    last = points[-1]
    print(
        f"{name}: {last['rounds']:,} rounds, {seconds:.0f} CPU s, objective {last['objective']:.1f}, "
        f"MSE {last['mse']:.0f}",
        flush=True,
    )
    faces = len(held_out.truth[~known]) // len(STATES)
    pixels = asked.y[known].reshape(-1, faces).T
    return points, Answer(pixels, asked.y[~known].reshape(-1, faces).T, weights)


def mse(found: Floats, truth: Floats) -> float:
    """Return the mean squared error in grey levels of 0 to 255."""
    return float(np.mean((255 * (found - truth)) ** 2))


# figures -----------------------------------------------------------------------------------------


def table(baseline: float, curves: dict[str, list[dict[str, float]]]) -> None:
    """Print what each learner ends with, and after how many rounds it beats the mean face."""
    print(
        f"{'':12}{'MSE':>8}{'least':>8}{'objective':>12}{'rounds':>10}{'below the mean face':>22}"
    )
    print(f"{'mean face':12}{baseline:8.0f}")
    for name, points in curves.items():
        last, least = points[-1], min(point["mse"] for point in points)
        below = next((str(p["rounds"]) for p in points if p["mse"] < baseline), "never")
        print(
            f"{name:12}{last['mse']:8.0f}{least:8.0f}{last['objective']:12.1f}{last['rounds']:10}{below:>22}"
        )


def figure(baseline: float, curves: dict[str, list[dict[str, float]]], path: Path) -> None:
    """Draw objective and error by rounds."""
    _, axes = plt.subplots(1, 2, figsize=(10, 4))
    for name, points in curves.items():
        rounds = [point["rounds"] for point in points]
        for axis, key in zip(axes, ("objective", "mse"), strict=True):
            axis.plot(rounds, [point[key] for point in points], label=name)
    axes[1].axhline(baseline, color="grey", linestyle=":", label="mean face")
    for axis, title in zip(axes, ("objective", "MSE of bottom halves"), strict=True):
        axis.set_xscale("log")
        axis.set_xlabel("rounds of ADMM")
        axis.set_ylabel(title)
        axis.legend()
    plt.tight_layout()
    plt.savefig(path)
    print(path)


def pictures(test: Floats, train: Floats, shown: dict[str, Answer], folder: Path) -> None:
    """Draw faces of each fifth image with their reconstructions, and what the states look like."""
    some, half = test[::5], test.shape[1] // 2
    mean = np.broadcast_to(train[:, half:].mean(0), some[:, half:].shape)
    rows = {"face": some[:, half:], "mean face": mean} | {
        name: answer.pixels[::5].reshape(-1, half, test.shape[2]) for name, answer in shown.items()
    }
    grid(
        {name: np.concatenate((some[:, :half], bottom), axis=1) for name, bottom in rows.items()},
        folder / "reconstructions.png",
    )
    grid(
        {name: archetypes(answer.weights, test.shape[1]) for name, answer in shown.items()},
        folder / "states.png",
    )


def archetypes(weights: Floats, size: int) -> Floats:
    """Return faces float64[states, size, size]: likeness less contrast, by the weights of each pixel."""
    pixels = size * size // 2
    forms = weights[: len(STATES) * 3 * pixels * 4].reshape(len(STATES), 3, pixels, 4)
    signed = forms[..., :2].sum(-1) - forms[..., 2:].sum(-1)
    whole = np.concatenate((signed[:, 0] + signed[:, 1], signed[:, 2]), axis=1)
    most = np.percentile(np.abs(whole), 99, axis=1, keepdims=True)
    faces: Floats = np.clip(0.5 + 0.5 * whole / most, 0, 1).reshape(-1, size, size)
    return faces


def grid(rows: dict[str, Floats], path: Path) -> None:
    """Write rows of pictures."""
    width = len(next(iter(rows.values())))
    _, axes = plt.subplots(len(rows), width, figsize=(width, 1.1 * len(rows)), squeeze=False)
    for line, (name, images) in zip(axes, rows.items(), strict=True):
        line[0].set_title(name, fontsize=8, loc="left")
        for axis, image in zip(line, images, strict=True):
            axis.imshow(image, cmap="gray", vmin=0, vmax=1)
            axis.axis("off")
    plt.tight_layout()
    plt.savefig(path, dpi=120)
    print(path)


if __name__ == "__main__":
    main()
