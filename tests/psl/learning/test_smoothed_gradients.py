"""Gradients of losses of most probable values in small programs, beside those of an interior point method."""

import numpy as np
import pytest
from conftest import tiers

from onlinesrl.core.arrays import Floats
from onlinesrl.core.errors import Unsolved
from onlinesrl.psl.lang.columns import Columns, database_of
from onlinesrl.psl.lang.reader import parse
from onlinesrl.psl.learning.problem import PslProblem, grounded
from onlinesrl.psl.learning.supervised import CrossEntropy, Smoothed, SquaredError, Supervised
from tests.support.qp import Qp

HARD = ["", "", "U(A, +B) <= 1 .\n", "T(A) + U(A, B) <= 1.2 .\n", "T(+A) = 1 .\n"]


def drawn(rng: np.random.Generator) -> PslProblem:
    """A program of up to three rules and a constraint over two or three people, and truth of some targets."""

    def number() -> float:
        return float(rng.choice([0.5, 1.0, 2.0, 1.3, -1.0, -0.7]))

    rules = [
        f"{number()} * T(B) + {number()} * U(A, B) <= {number()}",
        f"{number()} * U(A, B) - U(B, A) >= {number()}",
        f"T(A) = {abs(number())}",
        "O(A) & T(B) -> U(A, B)",
        "U(A, B) & T(A) -> T(B)",
        "!T(A)",
    ]
    lines = [f"1: {each}{rng.choice(['', ' ^2'])}\n" for each in rng.choice(rules, 3, False)]
    program = parse(
        "1: !U(A, B) ^2\n"
        + "".join(lines[: rng.integers(1, 4)])
        + "1: O(A) -> T(A)\n"
        + rng.choice(HARD)
    )
    names = ["a", "b", "c"][: rng.integers(2, 4)]
    people, pairs = (
        Columns([names]),
        Columns([np.repeat(names, len(names)).tolist(), names * len(names)]),
    )
    digits = int(rng.integers(3))
    truth = {"T": Columns(people.constants, rng.random(len(names)).round(digits))}
    if rng.random() < 0.7:
        truth["U"] = Columns(pairs.constants, rng.random(len(names) ** 2).round(digits))
    observed = {"O": Columns(people.constants, rng.random(len(names)).round(1))}
    targets = {"T": people, "U": pairs}
    return grounded(program, {}, database_of(program.predicates, observed, targets, truth))


def exact(of: Smoothed, w: Floats, loss: Supervised) -> tuple[float, Floats]:
    """Value and gradient by Danskin's theorem; Newton's method for the loss, which is 0 without truth."""
    n, solver, y = of.model.n_variables, Qp(precision=1e-12), np.full(of.model.n_variables, 0.5)

    def solve(square: Floats, bonus: Floats) -> Floats:
        return solver.solve(of.model, np.append(w, square), bonus=bonus).y

    def value(y: Floats) -> float:
        return of.energy(w, y) + float(loss.loss(y[of.known], of.truth).sum()) / loss.penalty

    ridge = np.full(n, loss.ridge)
    free = y = solve(ridge, ridge)
    for _ in range(50):
        first, second = np.zeros((2, n))
        first[of.known], second[of.known] = loss.slope(y[of.known], of.truth)
        bonus = ridge + (second * y - first) / loss.penalty
        step, share = solve(ridge + second / loss.penalty / 2, bonus) - y, 1.0
        while value(y + share * step) > value(y) + 1e-14 and share > 1e-9:
            share /= 2
        y = y + share * step
        if np.abs(step).max() < 1e-9:
            break
    near, least = (of.model.totals(each, of.rules + n)[: of.rules] for each in (y, free))
    return loss.penalty * (value(y) - of.energy(w, free)), loss.penalty * (near - least)


@tiers("number", 8, 1000)
@pytest.mark.parametrize("kind", [SquaredError, CrossEntropy])
def test_gradients_are_those_of_an_interior_point_method(
    kind: type[Supervised], number: int
) -> None:
    pytest.importorskip("clarabel")
    rng, tried = np.random.default_rng(0), 0
    while tried < number:
        of, penalty = drawn(rng), float(rng.choice([10.0, 1000.0]))
        loss = kind(penalty=penalty, ridge=float(rng.choice([0.01, 0.1, 1.0])))
        smoothed, w = Smoothed(loss, of), np.where(of.soft, rng.random(len(of.start)), 0.0)
        try:
            value, gradient = exact(smoothed, w, loss)
        except Unsolved:  # to so many digits
            continue
        found, slope = smoothed.value(w)
        assert smoothed.inexact == 0
        assert found == pytest.approx(value, rel=1e-4, abs=1e-4)
        assert slope == pytest.approx(gradient, rel=1e-3, abs=1e-3)
        tried += 1


def test_a_gradient_whose_sign_less_exact_states_turn() -> None:
    """The gradient by Clarabel through CVXPY to 1e-13, and by differences of F."""
    people = ["c0", "c1", "c2"]
    pairs = Columns([np.repeat(people, 3).tolist(), people * 3])
    program = parse("2.0: 2 * T(B) + 0.5 * U(A, B) <= 0.5 ^2\n")
    likes = np.array([0, 0.182, 0.451, 0.789, 1, 1, 0, 0, 1])
    truth = {"T": Columns([people], np.array([0.0, 1, 0])), "U": Columns(pairs.constants, likes)}
    data = database_of(program.predicates, {}, {"T": Columns([people]), "U": pairs}, truth)
    smoothed = Smoothed(SquaredError(ridge=1.0), grounded(program, {}, data))
    gradient = smoothed.value(np.array([0.09638253]))[1]
    assert gradient == pytest.approx([0.195979], abs=1e-5)
    ahead, behind = (smoothed.value(np.array([0.09638253 + h]))[0] for h in (1e-4, -1e-4))
    assert (ahead - behind) / 2e-4 == pytest.approx(0.195979, abs=1e-4)
