"""Bottom halves of the Olivetti faces from the top ones, by six latent states: learners by rounds of ADMM.

usage: python streams/papers/faces/olivetti.py FACES [--size PIXELS] [--output FOLDER]

FACES is olivettifaces.mat. Prints a table, and writes it with figures and pictures to FOLDER. See README.md.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray
from scipy.io import loadmat

from onlinesrl.psl.lang.ast import PslProgram
from onlinesrl.psl.lang.columns import Columns, database_of
from onlinesrl.psl.lang.reader import parse
from onlinesrl.psl.learning.latent import Em, Latent, PairedDual, Primal
from onlinesrl.psl.learning.problem import PslProblem, grounded

sys.path.insert(0, str(Path(__file__).parents[1]))

from by_rounds import Curves, Score, report

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
"""Step sizes of ADMM that paired duals are tried with, on faces of ``SMALL`` x ``SMALL`` pixels."""
SMALL = 8


def main() -> None:
    """Run the experiment."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("faces", type=Path)
    parser.add_argument("--size", type=int, default=32, choices=(8, 16, 32, 64))
    parser.add_argument("--output", type=Path, default=Path("runs/olivetti"))
    given = parser.parse_args()
    small = Faces.of(read(given.faces, SMALL))
    tried = ground(small.program, small.train), ground(small.program, small.others)
    learners = {name: chosen(learner, *tried) for name, learner in LEARNERS.items()}
    faces = Faces.of(read(given.faces, given.size))
    problem, held_out = (ground(faces.program, each) for each in (faces.train, faces.test))
    print(f"{len(problem.start):,} rules, {problem.model.n_rows:,} potentials", flush=True)
    half = given.size // 2
    mean, bottom = faces.train[:, half:].mean(0), faces.test[:, half:]
    curves, answers = Curves.empty(), dict[str, Answer]()
    curves.other("mean face", mse(np.broadcast_to(mean, bottom.shape), bottom))
    for name, learner in learners.items():
        answers[name] = answer = Answer(learner, held_out)
        curves.follow(name, learner, problem, answer.error)
    report(curves, Score("MSE", ".0f", greater=False), given.output, ("Primal", "EM"))
    pictures(faces, answers, given.output)


# data and model ----------------------------------------------------------------------------------


def read(path: Path, size: int) -> Floats:
    """Return the faces, float64[400, size, size] in [0, 1]; pixels are means over squares."""
    faces = loadmat(path)["faces"].T.reshape(-1, 64, 64).transpose(0, 2, 1) / 255
    scale = 64 // size
    small: Floats = faces.reshape(-1, size, scale, size, scale).mean((2, 4))
    return small


@dataclass(frozen=True)
class Faces:
    """Faces to learn from, others to choose settings by, those to test on, and the rules."""

    train: Floats
    others: Floats
    test: Floats
    program: PslProgram

    @classmethod
    def of(cls, faces: Floats) -> Faces:
        """Split faces: 50 and 30 of the first 350 at random, and the last 50; the same of each size."""
        rng = np.random.default_rng(0)
        mixed = rng.permutation(350)
        train, others = faces[np.sort(mixed[:50])], faces[np.sort(mixed[50:80])]
        return cls(train, others, faces[350:], parse(model(train, rng)))


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


def ground(program: PslProgram, faces: Floats) -> PslProblem:
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
    return grounded(program, {}, database_of(program.predicates, observed, targets, truth))


# learning ----------------------------------------------------------------------------------------


@dataclass
class Answer:
    """What some weights make of held-out faces."""

    learner: Latent
    held_out: PslProblem

    def __post_init__(self) -> None:
        [self._asked, _] = self.learner.sides(self.held_out)

    def error(self, weights: Floats) -> float:
        """Return the MSE with weights."""
        self.weights, known = weights, ~np.isnan(self.held_out.truth)
        self._asked.reweigh(weights)
        self._asked.solve()
        return mse(self._asked.y[known], self.held_out.truth[known])

    @property
    def pixels(self) -> Floats:
        """The bottom halves with the last weights, float64[faces, pixels]."""
        known = ~np.isnan(self.held_out.truth)
        faces = len(self.held_out.truth[~known]) // len(STATES)
        found: Floats = self._asked.y[known].reshape(-1, faces).T
        return found


def chosen(learner: Latent, problem: PslProblem, validation: PslProblem) -> Latent:
    """Return paired duals with the step size of ADMM that has the least MSE on other training faces."""
    if not isinstance(learner, PairedDual):
        return learner

    def error(candidate: Latent) -> float:
        return Answer(candidate, validation).error(
            candidate.learn(problem, lambda step: None).weights
        )

    errors = [error(learner.model_copy(update={"eta": eta})) for eta in ETAS]
    print(", ".join(f"eta {e}: {v:.0f}" for e, v in zip(ETAS, errors, strict=True)), flush=True)
    return learner.model_copy(update={"eta": ETAS[int(np.argmin(errors))]})


def mse(found: Floats, truth: Floats) -> float:
    """Return the mean squared error in grey levels of 0 to 255."""
    return float(np.mean((255 * (found - truth)) ** 2))


# pictures ----------------------------------------------------------------------------------------


def pictures(faces: Faces, answers: dict[str, Answer], folder: Path) -> None:
    """Draw faces of each fifth image with their reconstructions, and what the states look like."""
    some, size = faces.test[::5], faces.test.shape[1]
    half = size // 2
    mean = np.broadcast_to(faces.train[:, half:].mean(0), some[:, half:].shape)
    rows = {"face": some[:, half:], "mean face": mean} | {
        name: answer.pixels[::5].reshape(-1, half, size) for name, answer in answers.items()
    }
    grid(
        {name: np.concatenate((some[:, :half], bottom), axis=1) for name, bottom in rows.items()},
        folder / "reconstructions.png",
    )
    grid(
        {name: archetypes(answer.weights, size) for name, answer in answers.items()},
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
