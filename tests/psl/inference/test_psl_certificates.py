"""PSL's certificates beside rational numbers, with weights from 1e-9 to 1e9 times the usual ones."""

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import numpy as np
import pytest

import onlinesrl as srl
from onlinesrl.psl.ground.hinge_loss_mrf import HINGE, PLAIN, HingeLossMRF
from onlinesrl.psl.inference.admm import Admm
from onlinesrl.psl.inference.dual import conjugates
from onlinesrl.psl.inference.lifting import Lifted
from onlinesrl.psl.inference.protocols import HingeSolution
from onlinesrl.psl.inference.tandem import Tandem, TandemEngine
from onlinesrl.psl.inference.tron import Tron
from onlinesrl.psl.inference.weight_scale import SMALL
from tests.support.hinge_models import Rows

FACTORS = [1.0, 1e-9, 1e9, 1e-30, 1e17]
ENGINES: dict[str, Callable[[], Any]] = {
    "admm": Admm,
    "lifted": lambda: Lifted(Admm()),
    "tron": Tron,
    "tandem": lambda: TandemEngine(Tandem(Path(gettempdir()), tolerance=1e-6)),
}


def random_model(seed: int, squared: bool) -> tuple[HingeLossMRF, np.ndarray]:
    """Up to four variables; hinges, and forms without a hinge; weights over two or ten powers of ten."""
    random = np.random.default_rng(seed)
    n, rows = int(random.integers(1, 5)), Rows()
    count = int(random.integers(1, 8))
    for k in range(count):
        size = int(random.integers(1, n + 1))
        power = 2 if squared else int(random.integers(1, 3))
        kind = PLAIN if random.random() < 0.2 else HINGE
        coefficients = random.choice([-2.0, -1.0, 0.5, 1.0], size)
        chosen = random.permutation(n)[:size]
        rows.add(k, chosen, coefficients, float(random.uniform(-1, 1)), power, kind)
    span = 1 if seed % 2 else 5
    return rows.model(n), 10.0 ** random.uniform(-span, span, count)


def exact_energy(model: HingeLossMRF, weights: np.ndarray, y: np.ndarray) -> Fraction:
    total = Fraction(0)
    for i in range(model.n_rows):
        entries = range(model.start[i], model.start[i + 1])
        form = Fraction(float(model.constant[i])) + sum(
            Fraction(float(model.coefficient[e])) * Fraction(float(y[model.variable[e]]))
            for e in entries
        )
        form = max(form, Fraction(0)) if model.kind[i] == HINGE else form
        total += Fraction(float(weights[model.weight_index[i]])) * form ** int(model.power[i])
    return total


def exact_bound(model: HingeLossMRF, weights: np.ndarray, dual: np.ndarray) -> Fraction:
    """Return what no values have less energy than, by weak duality."""
    rows = conjugates(model, weights)
    u = [Fraction(float(each)) for each in np.clip(dual, rows.low, rows.high)]
    total, gradient = Fraction(0), [Fraction(0)] * model.n_variables
    for i in range(model.n_rows):
        weight = Fraction(float(weights[model.weight_index[i]]))
        total += u[i] * Fraction(float(model.constant[i]))
        total -= u[i] ** 2 / (4 * weight) if model.power[i] == 2 else 0
        for e in range(model.start[i], model.start[i + 1]):
            gradient[model.variable[e]] += Fraction(float(model.coefficient[e])) * u[i]
    return total + sum(min(each, Fraction(0)) for each in gradient)


def check(found: HingeSolution, model: HingeLossMRF, weights: np.ndarray) -> None:
    energy, bound = exact_energy(model, weights, found.y), exact_bound(model, weights, found.dual)
    top = float(weights.max())
    allowed = 1e-6 * max(top if top < SMALL else 1.0, abs(float(energy)))
    assert float(energy - bound) <= 1.001 * allowed
    assert abs(float(energy) - found.energy) <= 1e-3 * allowed
    assert abs(float(bound) - found.bound) <= 1e-3 * allowed


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("name", ENGINES)
def test_a_certified_energy_is_as_close_to_its_bound_as_said(name: str, factor: float) -> None:
    engine, certified = ENGINES[name](), 0
    for seed in range(12):
        model, weights = random_model(seed, squared=name == "tron")
        weights *= factor
        found = engine.solve(model, weights)
        certified += found.certified
        if found.certified:
            check(found, model, weights)

    assert certified >= 10


@pytest.mark.parametrize("method", ["admm", "lifted-admm", "tandem", "tron"])
@pytest.mark.parametrize("factor", [1e-9, 1e-4, 1.0, 1e9])
def test_the_answer_does_not_depend_on_the_size_of_all_weights(method: str, factor: float) -> None:
    """By hand: 2 a (1 - y)^2 + a y^2 is least at y = 2 / 3, where it is 2 a / 3."""
    rules = f"{2 * factor!r}: Knows(A, B) -> Trusts(A, B) ^2\n{factor!r}: !Trusts(A, B) ^2"
    model = srl.Model(rules, "psl")
    evidence = {"Knows": [("ann", "bob")]}
    found = srl.infer(model, evidence, {"Trusts": [("ann", "bob")]}, method=method)

    assert found["Trusts"][("ann", "bob")] == pytest.approx(2 / 3, abs=1e-2)
    assert found.stats["certified"]
    assert found.stats["objective"] == pytest.approx(2 * factor / 3, rel=2e-4)
    assert found.stats["gap"] <= 2e-4 * factor


@pytest.mark.parametrize("factor", [1e-30, 1e-9, 1e-4, 1e9])
def test_a_worlds_answer_does_not_depend_on_the_size_of_all_weights(factor: float) -> None:
    rules = f"{2 * factor!r}: Knows(A) -> Trusts(A) ^2\n{factor!r}: !Trusts(A) ^2"
    world = srl.World(srl.Model(rules, "psl"), "Trusts")
    world.apply(add={"Knows": ["ann"]}, query={"Trusts": ["ann", "bob"]})
    up, down = (reason.effect for reason in world.explain("Trusts(ann)").reasons)

    assert world.answer()["Trusts"]["ann",] == pytest.approx(2 / 3, abs=1e-2)
    assert world.certificate.certified
    assert world.certificate.gap <= 1.001e-6 * max(factor, 2 * factor / 3)
    assert up == pytest.approx(-down, rel=1e-3)
    assert abs(up) == pytest.approx(4 / 3 * factor, rel=1e-2)


@pytest.mark.parametrize("method", ["admm", "lifted-admm", "tandem", "world"])
@pytest.mark.parametrize(("weight", "value", "count"), [(1e9, 5e-8, 1), (1.0, 9e-8, 1000)])
def test_no_gap_leaves_out_what_is_small_before_it_is_weighted(
    method: str, weight: float, value: float, count: int
) -> None:
    """The energy w n max(0, a - b) + b is least at b = a, where it is a."""
    model = srl.Model(f"{weight:.0f}: A(X, Y) -> B(Y)\n1: !B(Y)\n", "psl")
    evidence = {"A": {(f"x{n}", "y"): value for n in range(count)}}
    if method == "world":
        world = srl.World(model, "B")
        world.apply(add=evidence, query={"B": ["y"]})
        b, gap = world.answer()["B"]["y",], world.certificate.gap
    else:
        found = srl.infer(model, evidence, {"B": ["y"]}, method=method)
        b, gap = found["B"]["y",], found.stats["gap"]

    assert weight * count * max(0.0, value - b) + b - value <= gap + 1e-9


@pytest.mark.parametrize("method", ["admm", "lifted-admm", "tandem"])
@pytest.mark.parametrize("weight", [1e3, 1e5, 1e9])
def test_weights_of_any_size_beside_each_other(method: str, weight: float) -> None:
    """Soft rules that pull one way, and one a billion times as heavy that ends to pull at 0.3."""
    model = srl.Model(f"{weight:.0f}: A(Y) -> B(Y)\n1: !B(Y)\n", "psl")
    found = srl.infer(model, {"A": {"y": 0.3}}, {"B": ["y"]}, method=method)

    assert found.stats["certified"]
    assert found["B"]["y",] == pytest.approx(0.3, abs=1e-4)


@pytest.mark.parametrize("coefficient", [3, 6, 12])
def test_coefficients_of_different_size(coefficient: int) -> None:
    """Tandem starts from what gradient descent leaves, which differs between targets that are alike."""
    names = "abc"
    rules = f"1: Q(X, Y) + {coefficient} * P(X) = 1\n0.5: P(X) >= 0.4 ^2\n|Y| * P(X) = Q(X, +Y).\n"
    targets = {"P": [*names], "Q": [(x, y) for x in names for y in names]}
    of = {
        method: srl.infer(srl.Model(rules, "psl"), {}, targets, method=method).stats
        for method in ("admm", "tandem")
    }

    assert of["admm"]["certified"]
    assert of["tandem"]["certified"]
    assert of["tandem"]["rounds"] < 5000
    assert of["tandem"]["objective"] == pytest.approx(of["admm"]["objective"], abs=1.01e-4)
