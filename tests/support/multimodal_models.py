"""Models of several modes, as people write them: where a chain that looks well may be in one of them."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np

from onlinesrl.mln.ground.ground_mrf import Floats, GroundMRF
from onlinesrl.mln.query.world import World, load_world

SIDE = 4
NEXT = [(c, c + 1) for c in range(SIDE * SIDE) if (c + 1) % SIDE] + [
    (c, c + SIDE) for c in range(SIDE * (SIDE - 1))
]


def ising(weight: float) -> str:
    """A 4 x 4 grid whose neighbours like to be equal, in small random fields."""
    rng = random.Random(1)
    rules = [f"{weight} Up({a}) => Up({b})" for pair in NEXT for a, b in (pair, pair[::-1])]
    rules += [f"{rng.uniform(-0.2, 0.2):.4f} Up({c})" for c in range(SIDE * SIDE)]
    return "\n".join(["cell = {0,...,15}", "Up(cell)", *rules])


def spin_glass() -> str:
    """A 4 x 4 grid whose neighbours like to be equal or opposite, at random: not all can have it."""
    rng = random.Random(2)
    rules = [f"{rng.gauss(0.0, 4.0):.4f} Up({a}) <=> Up({b})" for a, b in NEXT]
    rules += [f"{rng.uniform(-0.2, 0.2):.4f} Up({c})" for c in range(SIDE * SIDE)]
    return "\n".join(["cell = {0,...,15}", "Up(cell)", *rules])


def parity_chain() -> str:
    """Seven hard parities, each of three atoms and one of them in the next: none moves alone."""
    rng = random.Random(3)
    rules = [f"Up({c}) <=> (Up({c + 1}) <=> Up({c + 2}))." for c in range(0, 13, 2)]
    rules += [f"{rng.uniform(-1.0, 1.0):.4f} Up({c})" for c in range(15)]
    return "\n".join(["cell = {0,...,14}", "Up(cell)", *rules])


MODELS = {
    "Ising, weight 2.5": ising(2.5),
    "Ising, weight 8": ising(8),
    "spin glass": spin_glass(),
    "parity chain": parity_chain(),
}


def world(folder: Path, name: str) -> World:
    """Load one of the models."""
    path = folder / "model.mln"
    path.write_text(MODELS[name])
    return load_world(path, [], ["Up"])


def network(folder: Path, name: str) -> tuple[GroundMRF, Floats]:
    """Return one of the models ground."""
    found = world(folder, name)
    return found.model, found.weight


def error(found: Floats, exact: Floats) -> float:
    """The mean of the absolute errors."""
    return float(np.abs(found - exact).mean())
