"""Kept messages: state and probabilities by brute force, and after any history the bits of a cold start."""

import math
import random
from fractions import Fraction
from itertools import product
from math import nan
from typing import NamedTuple

import numpy as np
import pytest
from conftest import tiers
from hypothesis import given
from hypothesis import strategies as st

from onlinesrl.mln.inference.elimination_forest import EliminationForest, Variable
from onlinesrl.mln.kernels.elimination_forest import CLOSES, POSITIVE

WEIGHTS = [None, 0.25, -0.25, 1.0, -1.0, 0.1, 0.7, -1.3, 3e-3]


class Factor(NamedTuple):
    weight: float | None
    bits: bytes
    atoms: tuple


def changed(factors):
    """Ground clauses and their weights, as a forest takes them."""
    return factors, [0.0 if factor is None else factor.weight for factor in factors.values()]


def factor(weight, *conjunctions):
    """A ground clause of conjunctions of signed atoms."""
    literals = [(n == len(part), *x) for part in conjunctions for n, x in enumerate(part, 1)]
    bits = bytes(CLOSES * closes | POSITIVE * sign for closes, sign, _ in literals)
    return Factor(weight, bits, tuple(atom for *_, atom in literals))


def holds(factor, true):
    together = True
    for bits, atom in zip(factor.bits, factor.atoms, strict=True):
        together &= (atom in true) == bool(bits & POSITIVE)
        if bits & CLOSES and together:
            return True
        together |= bool(bits & CLOSES)
    return False


class Model:
    """Variables and clauses that come and go at random."""

    def __init__(self, rng, size):
        self.rng, self.size = rng, size
        self.reach = rng.choice([4, 6, 50])
        self.variables, self.factors = {}, {}
        self.forest = EliminationForest()

    def atoms(self):
        return [atom for variable in self.variables.values() for atom in variable.atoms]

    def a_variable(self, name):
        (name,) = name[1]
        if self.rng.random() < 0.7:
            return Variable((("P", (name,)),), False)
        members = sorted(self.rng.sample("abcd", self.rng.randint(1, 4)))
        return Variable(tuple(("Q", (name, x)) for x in members), self.rng.random() < 0.5)

    def a_factor(self, near):
        rng, weight = self.rng, self.rng.choice(WEIGHTS)
        if weight is None and rng.random() < 0.7:
            weight = 0.5

        def literal():
            return rng.random() < 0.5, rng.choice(near)

        signs = {
            atom: sign for sign, atom in (literal() for _ in range(rng.choice([1, 2, 2, 2, 3])))
        }
        parts = [[(sign, atom)] for atom, sign in signs.items()]
        if rng.random() < 0.1 and len(part := {literal() for _ in range(2)}) > 1:
            parts.append(sorted(part))
        return factor(weight, *parts)

    def step(self):
        """Change some variables and clauses; returns the atoms that moved."""
        rng = self.rng
        names = [
            ("N", (str(n),))
            for n in rng.sample(range(self.size), rng.choice([0, 0, 1, self.size // 3]))
        ]
        old = {
            atom for name in names if name in self.variables for atom in self.variables[name].atoms
        }
        variables = {
            name: self.a_variable(name) if rng.random() < 0.8 else Variable((), False)
            for name in names
        }
        self.variables |= variables
        self.variables = {name: x for name, x in self.variables.items() if x.atoms}
        present = {*self.atoms()}
        factors = {}
        for key, factor in self.factors.items():
            if mentioned(factor) & old:
                factors[key] = factor if mentioned(factor) <= present else None
        keys = [rng.randrange(3 * self.size) for _ in range(rng.choice([1, 2, self.size]))]
        for key in keys if present else ():
            near = sorted(present, key=lambda atom: (abs(int(atom[1][0]) - key // 3), atom))
            kind = rng.random()
            if kind < 0.3:
                factors[key] = None
            elif kind < 0.5 and (same := factors.get(key, self.factors.get(key))):
                factors[key] = same._replace(weight=rng.choice(WEIGHTS[1:]))
            else:
                factors[key] = self.a_factor(near[: self.reach])
        self.factors = {k: f for k, f in (self.factors | factors).items() if f is not None}
        closed = dict.fromkeys(old - present)
        return self.forest.update(
            closed | dict.fromkeys(sorted(present), nan), variables, *changed(factors)
        )

    def cold(self):
        """A new forest, with all in another order."""
        rng, forest = random.Random(len(self.factors)), EliminationForest()
        parts = [dict(rng.sample([*x.items()], len(x))) for x in (self.variables, self.factors)]
        forest.update(dict.fromkeys(self.atoms(), nan), parts[0], *changed(parts[1]))
        return forest

    def all_states(self):
        """The true atoms of each state, possible or not, that has an allowed number of each group."""
        choices = [
            [*((atom,) for atom in x.atoms), *([] if x.exactly else [()])]
            for x in self.variables.values()
        ]
        return ({a for part in state for a in part} for state in product(*choices))

    def states(self):
        """The true atoms and the score of each possible state, by brute force."""
        return [(true, x) for true in self.all_states() if (x := self.score(true)) is not None]

    def score(self, true):
        if any(x.weight is None and not holds(x, true) for x in self.factors.values()):
            return None
        gains = [Fraction(x.weight) for x in self.factors.values() if x.weight and holds(x, true)]
        return sum(gains, Fraction(0))


def mentioned(factor):
    return {*factor.atoms}


def bits(model, forest, with_marginals):
    marginals = forest.marginals() if with_marginals and forest.feasible else {}
    values = forest.values(model.atoms())
    return (
        values,
        [marginals.get(a) for a in model.atoms() if values[a] is not None],
        forest.score,
        forest.feasible,
        forest.certified,
        [written(part) for part in forest.components(model.atoms())],
    )


def written(part):
    """A component's model, as it is written."""
    arrays = *vars(part.model).values(), part.weights
    return part.atoms, part.conjunctions, [np.asarray(array).tolist() for array in arrays]


def expected(model, states):
    """The probability of each atom."""
    highest = max(score for _, score in states)
    shares = [(true, math.exp(score - highest)) for true, score in states]
    total = math.fsum(share for _, share in shares)
    return {
        atom: math.fsum(share for true, share in shares if atom in true) / total
        for atom in model.atoms()
    }


def assert_components(model, parts):
    """The models of components have each atom once, and the scores of all states together."""
    assert sorted(atom for part in parts for atom in part.atoms) == sorted(model.atoms())
    for true in model.all_states():
        score = Fraction(0)
        for part in parts:
            state = part.state({atom: float(atom in true) for atom in part.atoms})
            possible = part.model.feasible(state)
            score = score + part.model.exact_score(state, part.weights) if possible else None
            if score is None:
                break
        assert score == model.score(true)


def follows(seed, size, steps, brute):
    model, known = Model(random.Random(seed), size), {}
    for number in range(steps):
        known |= model.step()
        known = {atom: known[atom] for atom in model.atoms()}
        forest = model.forest
        asked = number % 3 != 1
        assert bits(model, forest, asked) == bits(model, model.cold(), asked)
        assert known == forest.values(model.atoms())
        true = {atom for atom, value in known.items() if value}
        if forest.feasible and None not in known.values():
            assert forest.score == model.score(true)
        if brute:
            assert_components(model, [*forest.components(model.atoms())])
            states = model.states()
            assert forest.feasible == bool(states)
            if states:
                best = max(score for _, score in states)
                assert float(forest.score) == pytest.approx(float(best), abs=1e-9)
                assert forest.certified
                assert forest.marginals() == pytest.approx(expected(model, states), abs=1e-12)


@given(st.integers(0, 10**9))
def test_small_models_have_state_and_probabilities_and_the_bits_of_a_cold_start(seed):
    follows(seed, 5, 6, brute=True)


@tiers("models", 5, 500)
def test_large_models_have_the_bits_of_a_cold_start(models):
    for seed in range(models):
        follows(seed, 30 + 20 * (seed % 8), 12, brute=False)


def test_a_chain_has_the_probabilities_of_forward_and_backward_messages():
    """Weights of a chain change, and change places; the bits are those of a cold start, the work is near."""
    rng, n = random.Random(3), 1000
    names = [("P", (str(i),)) for i in range(n)]
    variables = {name: Variable((name,), False) for name in names}
    alone = {i: factor(rng.gauss(0, 1), [(True, names[i])]) for i in range(n)}
    pairs = {
        n + i: factor(rng.gauss(0, 2), [(False, names[i])], [(True, names[i + 1])])
        for i in range(n - 1)
    }
    factors, forest = alone | pairs, EliminationForest()
    forest.update(dict.fromkeys(names, nan), variables, *changed(factors))
    for number in range(40):
        key = rng.randrange(n - 1)
        weights = [factors[key + 1].weight, factors[key].weight if number % 2 else rng.gauss(0, 2)]
        pair = {
            k: factors[k]._replace(weight=w) for k, w in zip((key, key + 1), weights, strict=True)
        }
        factors |= pair
        before = dict(forest.marginals())
        forest.update({}, {}, *changed(pair))
        if number % 3:
            cold = EliminationForest()
            cold.update(dict.fromkeys(names, nan), variables, *changed(factors))
            assert forest.marginals() == cold.marginals()
        again = [name for name in names if forest.marginals()[name] is not before[name]]
        assert len(again) < 200  # others are the same objects
    unary = [np.array([0.0, factors[i].weight]) for i in range(n)]
    pair = [factors[n + i].weight * np.array([[1, 1], [0, 1]]) for i in range(n - 1)]
    forward, backward = [np.zeros(2)], [np.zeros(2)]
    for i in range(n - 1):
        forward.append(log_sum(pair[i].T + unary[i] + forward[-1]))
        backward.append(log_sum(pair[-1 - i] + unary[-1 - i] + backward[-1]))
    scores = [sum(three) for three in zip(unary, forward, reversed(backward), strict=True)]
    expected = [1 / (1 + math.exp(zero - one)) for zero, one in scores]
    assert [forest.marginals()[name] for name in names] == pytest.approx(expected, abs=1e-13)


def log_sum(table):
    """The logarithm of the sum over the columns, the largest made 0."""
    sums = np.logaddexp.reduce(table, axis=1)
    return sums - sums.max()
