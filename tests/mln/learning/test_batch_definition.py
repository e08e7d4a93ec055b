"""Batch learners of Markov logic in small models, against enumeration by the definition."""

import itertools
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest
from conftest import tiers
from pytest import approx

import onlinesrl as srl
from onlinesrl.core.errors import ModelError
from onlinesrl.core.example import Example, GroundAtom
from onlinesrl.core.learning.batch import UnfitError
from onlinesrl.mln.counting.world import world_of
from onlinesrl.mln.lang import reader
from onlinesrl.mln.lang.clausal_form import clauses
from onlinesrl.mln.learning.max_margin import MaxMargin
from onlinesrl.mln.learning.problem import MlnProblem
from onlinesrl.mln.learning.pseudo_likelihood import changes
from tests.support.naive_grounder import World, holds, tautology

ANN = {"E": ["Ann"], "F": ["Ann"], "P": ["Ann"]}


class Definition:
    """The states of a problem's world and their features, by the reference grounder.

    A soft rule of k clauses has a k-th of their number as its feature, whatever evidence decides. ``rules``
    are the hard clauses without those of the marks ``!``.
    """

    def __init__(self, of: MlnProblem, number: int) -> None:
        evidence: dict = {name: [] for name in of.program.predicates}
        true = [atom for atom in of.worlds[number] if atom.value is True]
        for atom in true:
            if atom.predicate not in of.query:
                evidence[atom.predicate].append([*atom.arguments])
        self.of, self.truth = of, {atom[:2] for atom in true if atom.predicate in of.query}
        program = replace(of.program, types=world_of(of.program, of.worlds[number]).domains)
        self.world = World(program, of.query, Example(id=0, evidence=evidence))
        self.shares = Counter(clause.rule for clause in clauses(program))
        self.soft, self.hard = self.world.soft(), self.world.hard()
        hard = [clause for clause in clauses(program) if clause.hard]
        ground = (x for clause in hard for _, x in self.world.groundings(clause))
        self.rules = {x for x in ground if not tautology(x)}
        self.atoms = sorted(self.world.atoms)

    def possible(self, state: set) -> bool:
        return all(holds(each, state) for each in self.hard)

    def states(self) -> list[set]:
        some = (itertools.combinations(self.atoms, n) for n in range(len(self.atoms) + 1))
        return [s for s in map(set, itertools.chain(*some)) if self.possible(s)]

    def features(self, state: set) -> np.ndarray:
        total = np.zeros(len(self.of.start))
        for each, number in self.soft.items():
            if holds(each.literals, state):
                rule = each.clause.rule
                total[self.of.place(rule, each.key)] += number / self.shares[rule]
        return total

    def pseudo_likelihood(self, weights: np.ndarray) -> float:
        """Its logarithm: an atom whose flip breaks a hard rule has the probability 1."""
        total, here = 0.0, self.features(self.truth)
        for atom in self.atoms:
            flipped = self.truth ^ {atom}
            if all(holds(each, flipped) for each in self.rules):
                total -= np.logaddexp(0.0, weights @ (self.features(flipped) - here))
        return float(total)


def formula(rng: np.random.Generator, depth: int) -> str:
    """Of evidence E and R and the query P and S, with constants, a + variable or an existential."""
    kind = rng.choice(["^", "v", "=>", "<=>", "!", "EXIST"]) if depth else ""
    if kind == "EXIST":
        return "(EXIST z R(x, z) ^ P(z))"
    if kind == "!":
        return f"!({formula(rng, depth - 1)})"
    if kind:
        return f"({formula(rng, depth - 1)} {kind} {formula(rng, depth - 1)})"
    terms = rng.choice(["x", "x", "x", "y", "A"], 2)
    name = rng.choice(["E", "P", "P", "R", "S"])
    return f"{name}({terms[0]}" + (
        f", {terms[1]})" if name == "R" else ", +k)" if name == "S" else ")"
    )


def some_of(rng: np.random.Generator, atoms: Iterable) -> list:
    return [atom for atom in atoms if rng.random() < 0.5]


def drawn(rng: np.random.Generator) -> tuple[MlnProblem, list[Definition]]:
    """A problem of two worlds of two people, whose truth does not break hard rules, and its definition."""
    mark = rng.choice(["", "!"])
    lines = ["person = {A, B}", "kind = {U, V}", "E(person)", "R(person, person)", "P(person)"]
    lines.append(f"S(person, kind{mark})")
    lines += [formula(rng, 2) for _ in range(3)]
    lines += [f"{formula(rng, 1)}.".replace("+", "") for _ in range(rng.integers(2))]
    program = reader.parse("\n".join(lines))
    worlds = []
    for _ in range(2):
        told = [("E", a) for a in some_of(rng, ["A", "B"])]
        told += [("R", *pair) for pair in some_of(rng, itertools.product("AB", repeat=2))]
        atoms = [GroundAtom(name, (*args,), True, 0) for name, *args in told]
        states = Definition(MlnProblem(program, [atoms], ("P", "S")), 0).states()
        if not states:
            return drawn(rng)
        truth = states[rng.integers(len(states))]
        worlds.append(atoms + [GroundAtom(*atom, True, 0) for atom in sorted(truth)])
    of = MlnProblem(program, worlds, ("P", "S"))
    return of, [Definition(of, k) for k in range(2)]


@tiers("number", 4, 1000)
def test_features_are_those_of_the_definition(number: int) -> None:
    rng = np.random.default_rng(0)
    for _ in range(number):
        of, definitions = drawn(rng)
        for k, by in enumerate(definitions):
            world, here = of.ground[k], by.features(by.truth)
            names = [(name, tuple(map(str, args))) for name, args in world.atoms]
            for state in by.states():
                bits = np.array([name in state for name in names], np.uint8)
                assert world.model.feasible(bits)
                found = world.features(bits, len(here)) - world.features(world.truth, len(here))
                assert found == approx(by.features(state) - here, abs=1e-6)


@tiers("number", 8, 1000)
def test_the_features_of_states_by_counts_are_those_of_the_definition(number: int) -> None:
    rng, tried = np.random.default_rng(2), 0
    while tried < number:
        of, definitions = drawn(rng)
        weights = rng.normal(size=len(of.start))
        for k, by in enumerate(definitions):
            try:
                world = of.counted(k)
            except (ModelError, UnfitError) as error:
                assert "stands in an existential" in str(error) or "in groups" in str(error)
                continue
            tried += 1
            for found in world.step(weights, 10):
                state = {
                    (
                        name,
                        tuple(world.world.domains[t][n] for t, n in zip(types, row, strict=True)),
                    )
                    for name, types in world.counts.types.items()
                    if name in of.query
                    for row in world.counts.rows(name).tolist()
                }
                assert all(holds(each, state) for each in by.rules)
                assert found == approx(by.features(state) - by.features(by.truth), abs=1e-6)


@tiers("number", 8, 1000)
def test_pseudo_likelihoods_are_those_of_the_definition(number: int) -> None:
    rng, tried = np.random.default_rng(1), 0
    while tried < number:
        of, definitions = drawn(rng)
        weights = rng.normal(size=len(of.start))
        for k, by in enumerate(definitions):
            world = world_of(of.program, of.worlds[k])
            try:
                found = changes(of.program, world, of.query)
            except ModelError as error:
                assert "stands in an existential" in str(error)
                continue
            assert found.value(weights)[0] == approx(by.pseudo_likelihood(weights))
            tried += 1


@tiers("number", 5, 500)
def test_margins_are_the_largest_of_the_definition(number: int) -> None:
    rng = np.random.default_rng(2)
    for _ in range(number):
        of, definitions = drawn(rng)
        cuts = []
        for by in definitions:
            here = by.features(by.truth)
            cuts.append([(len(s ^ by.truth), here - by.features(s)) for s in by.states()])

        def objective(w: np.ndarray, cuts: list = cuts) -> float:
            slack = [max(loss - float(w @ d) for loss, d in of) for of in cuts]
            return 0.5 * float(w @ w) + 2.0 * float(np.mean(slack))

        learned = MaxMargin(c=2.0, gap=1e-6).learn(of, lambda _: None)
        assert learned.stats["certified"]
        assert learned.stats["objective"] == approx(objective(learned.weights), abs=1e-6)
        for size in (0.01, 0.1, 1.0):
            others = learned.weights + size * rng.normal(size=(10, len(of.start)))
            assert min(map(objective, others)) >= learned.stats["lower_bound"] - 1e-9


@pytest.mark.parametrize(
    ("learner", "weight", "error"),
    [
        ({"kind": "max-margin"}, 2.0, 1e-6),
        ({"kind": "mple", "prior_sd": 1}, 0.23531, 1e-5),
        ({"kind": "contrastive-divergence", "prior_sd": 1, "steps": 80}, 0.23531, 0.05),
        ({"kind": "voted-perceptron", "prior_sd": 1, "steps": 400}, 0.23531, 0.05),
    ],
    ids=lambda each: each["kind"] if isinstance(each, dict) else "",
)
def test_clauses_that_evidence_decides_have_a_share(
    learner: dict, weight: float, error: float
) -> None:
    """Of two clauses one is P(Ann): the least w^2 / 2 + 100 max(0, 1 - w / 2), or log(1 + e^(-w / 2))."""
    learned = srl.learn("E(t)\nF(t)\nP(t)\nE(x) => P(x) ^ F(x)\n", ANN, "P", learner=learner)
    assert learned.model.rules[0].weight == approx(weight, abs=error)
    if learner["kind"] == "max-margin":
        assert learned.stats["objective"] == approx(2.0)
