"""Every exact route of Markov logic on models that people write, against other algorithms' answers."""

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from heapq import nlargest
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from conftest import Job, tiers

import onlinesrl as srl
from onlinesrl.core.arrays import Floats
from onlinesrl.core.errors import ExampleError, Infeasible, Unsolved
from onlinesrl.mln.ground.ground_mrf import GroundMRF
from onlinesrl.mln.inference.alternation import Alternation
from onlinesrl.mln.inference.ilp import Ilp
from onlinesrl.mln.inference.protocols import MapEngine, Solution, Wide
from onlinesrl.mln.inference.registry import exact_engine
from onlinesrl.mln.inference.router import Router
from tests.support.families import (
    ENUMERATED,
    FAMILIES,
    Atom,
    Case,
    Facts,
    Family,
    case,
    clusters,
    denials,
    orders,
    paths,
)
from tests.support.ground_mrfs import BranchAndBound, clause_model

ENGINES: dict[str, MapEngine] = {
    "elimination": Router(),
    "branch and bound": BranchAndBound(),
    "search": Alternation(Ilp()),
    "the engine of runs": exact_engine(Ilp(), None),
    "highs": Ilp(),
    "cbc": Ilp("cbc"),
}
COSTS = 2.5, 0.5
"""Of an atom of the first query predicate that is missed, and of one too many."""
each_family = pytest.mark.parametrize("name", FAMILIES)


def cases(name: str, number: int, small: bool = False) -> Iterator[tuple[int, Case]]:
    """Cases of a family, all or each other one small enough for enumeration."""
    for seed in range(number):
        yield seed, case(name, seed, large=seed % 2 == 1 and not small)


def best(of: Case) -> float:
    assert of.best is not None
    return of.best


def value(of: Case, state: list[int]) -> float:
    score = of.value(state)
    assert score is not None, "the state is not possible"
    return score


def optimal(of: Case, state: list[int]) -> None:
    assert value(of, state) == pytest.approx(best(of), abs=1e-6)


def no_better(of: Case, state: list[int], certified: bool) -> None:
    """A state that is certified is no worse, either."""
    assert value(of, state) <= best(of) + 1e-6
    assert not certified or value(of, state) >= best(of) - 1e-6


@each_family
def test_other_algorithms_agree(name: str) -> None:
    """What all tests here compare with: an algorithm for the family, enumeration, and a program."""
    for _, of in cases(name, 4):
        answers = [of.best, *([of.by_enumeration()] if of.n <= 14 else [])]
        assert answers == pytest.approx([of.by_program()] * len(answers), abs=1e-6)


@each_family
@tiers("number", 16, 2_000)
def test_engines(name: str, number: int) -> None:
    """On ground models in any order of their atoms, plain and with the bonus of a Hamming loss."""
    for seed, of in cases(name, number):
        rng = Random(seed)
        order = rng.sample(range(of.n), of.n)
        place = {old: new for new, old in enumerate(order)}
        clauses = [
            (weight, [(place[abs(x) - 1] + 1) * (1 if x > 0 else -1) for x in literals])
            for weight, literals in of.clauses
        ]
        groups = [(exactly, [place[a] for a in members]) for exactly, members in of.family.groups]
        model, weights = clause_model(of.n, clauses, groups)
        lossy = replace(of, bonus=tuple(rng.choice([-1.0, 1.0]) for _ in order))
        for question in (of, lossy):
            bonus = np.array([question.bonus[a] for a in order]) if question.bonus else None
            for engine, solver in ENGINES.items():
                if engine == "cbc" and seed % 8 != 1:
                    continue
                try:
                    found = solver.solve(model, weights, bonus=bonus)
                except Wide:
                    assert engine == "elimination"
                    continue
                except Infeasible:
                    assert question.best is None, engine
                    continue
                assert found.certified
                state = [int(found.state[place[a]]) for a in range(of.n)]
                optimal(question, state)


# infer -------------------------------------------------------------------------------------------


def answer_to(of: Case, **options: Any) -> tuple[list[int], dict[str, Any]]:
    """The state that ``infer`` finds, and its statistics; the bound holds."""
    rules, query = of.family.rules, of.family.query
    answer = srl.infer(rules, of.evidence, query, closed=[*of.facts], **options)
    state = of.state((n, row) for n in query for row, x in answer[n].items() if x)
    stats = dict(answer.stats)
    if stats["bound"] is not None:
        assert best(of) <= value(of, state) + stats["cost"] - stats["bound"] + 1e-6
    return state, stats


@each_family
@tiers("number", 4, 1_000)
def test_infer(name: str, number: int) -> None:
    """Also within a limit, by local search, and by the linear relaxation."""
    for seed, of in cases(name, number):
        if of.best is None:
            with pytest.raises((Infeasible, ExampleError)):  # the facts alone may break a rule
                answer_to(of)
            continue
        state, stats = answer_to(of)
        assert stats["certified"]
        optimal(of, state)
        options: dict[str, Any]
        for options in ({"max_work": 1 + seed % 3}, {"method": "walksat"}, {"method": "lp"}):
            try:
                state, stats = answer_to(of, **options)
            except Unsolved:
                continue
            no_better(of, state, stats["certified"])


@pytest.mark.parametrize(
    ("family", "few", "many"),
    [
        (clusters, 9, 13),
        (partial(clusters, strangers=9), 4, 6),
        (orders, 7, 13),
        (paths, 6, 8),
        (denials, 6, 15),
    ],
    ids=["clusters", "soft clusters", "orders", "paths", "denials"],
)
@tiers("number", 4, 100)
def test_infer_of_rules_of_three_variables(
    family: Callable[[Random, bool, int], Family], few: int, many: int, number: int
) -> None:
    """Of larger sizes: beside all sets of records, orders of items, and cities of codes."""
    for seed in range(number):
        rng = Random(seed)
        drawn = family(rng, True, many if seed % 2 else few)
        of = drawn.with_facts(drawn.draw(rng))
        state, stats = answer_to(of)
        assert stats["certified"]
        optimal(of, state)


# learners ----------------------------------------------------------------------------------------


def learner_of(of: Case, **inference: Any) -> srl.OnlineLearner:
    rules, query = of.family.rules, of.family.query
    costs = {query[0]: dict(zip(("missed", "extra"), COSTS, strict=True))}
    update = {"update": "cda2", "loss": "ml", "costs": costs}
    return srl.OnlineLearner(rules, query, update=update, inference=inference)


def a_state(of: Case, rng: Random) -> list[int]:
    """A possible state, the best for other weights."""
    state = replace(of, bonus=tuple(rng.gauss(0, 9) for _ in range(of.n))).best_state()
    assert state is not None
    return state


def truth_of(of: Case, state: list[int]) -> dict[str, list[tuple[str, ...]]]:
    atoms = [atom for atom, true in zip(of.family.atoms, state, strict=True) if true]
    return {name: [row for other, row in atoms if other == name] for name in of.family.query}


@each_family
@tiers("number", 4, 1_000)
def test_learners(name: str, number: int) -> None:
    """With and without reductions: a prediction, its margin, and the loss of the first rival of a truth."""
    for seed, of in cases(name, number):
        inference: dict[str, Any]
        for inference in ({}, {"presolve": "none"}, {"presolve": "none", "solver": "cbc"}):
            if "solver" in inference and seed % 4 != 1:
                continue
            learner = learner_of(of, **inference)
            if of.best is None:
                with pytest.raises(ExampleError):
                    learner.predict_one(of.evidence)
                continue
            listed = of.n <= ENUMERATED
            prediction = learner.predict_one(of.evidence, best=4 if listed else None)
            assert prediction.certified
            if listed:
                lists_the_best(of, prediction, 4)
            state = of.state((n, row) for n, rows in prediction.atoms.items() for row in rows)
            optimal(of, state)
            second = of.best_but(state)
            margin = None if second is None else pytest.approx(of.best - second, abs=1e-6)
            assert prediction.line.margin == margin
            learns_from_the_worst_rival(of, learner, Random(seed))


def lists_the_best(of: Case, prediction: srl.Prediction, n: int) -> None:
    """The best states by enumeration, each once, what ties in one rank, and how much less they score."""
    expected = nlargest(n, of.scores()[of.scores() > -np.inf])
    found = [
        tuple(of.state((n, row) for n, rows in one.atoms.items() for row in rows))
        for one in prediction.best
    ]
    assert len({*found}) == len(found)
    values = [of.value(state) for state in found]
    assert values == pytest.approx(expected, abs=1e-6)
    assert all(one.certified for one in prediction.best)
    for row, value in zip(prediction.line.best, values[1:], strict=True):
        assert row.difference == pytest.approx(values[0] - value, abs=1e-6)
        assert row.rank == 1 + sum(other > value + 1e-9 for other in values)


def learns_from_the_worst_rival(of: Case, learner: srl.OnlineLearner, rng: Random) -> None:
    """Atoms cost what ``COSTS`` says; unlabelled ones cost nothing, and have their best values.

    The loss counts as often as the wrong atoms cost on average.
    """
    truth, cost = a_state(of, rng), list[float]()
    hidden = [a for a in range(of.n) if rng.random() < rng.choice([0.0, 0.4])]
    labels = of.with_units(
        (a if truth[a - 1] else -a) for a in range(1, of.n + 1) if a - 1 not in hidden
    )
    completed = alone_best(labels)
    if completed is None:
        return
    for a, (name, _) in enumerate(of.family.atoms):
        missed, extra = COSTS if name == of.family.query[0] else (1.0, 1.0)
        cost.append(0.0 if a in hidden else missed if truth[a] else extra)
    known = truth_of(of, [x * (a not in hidden) for a, x in enumerate(truth)])
    unlabelled = truth_of(of, [int(a in hidden) for a in range(of.n)])
    bonus = tuple(x * (1 - 2 * true) for x, true in zip(cost, completed, strict=True))
    lossy = replace(of, bonus=bonus)
    rival = alone_best(lossy)
    if rival is None:
        return
    learner.learn_one(of.evidence, known, unlabelled=unlabelled)
    loss = best(lossy) + math.fsum(np.multiply(cost, completed)) - value(of, completed)
    wrong = [x for x, a, b in zip(cost, completed, rival, strict=True) if x and a != b]
    mean = math.fsum(wrong) / len(wrong) if wrong else 1.0
    assert learner.certificate["loss"] == pytest.approx(mean * loss, abs=1e-6)


def alone_best(of: Case) -> list[int] | None:
    """The best state; None where another one is as good."""
    state = of.best_state()
    assert state is not None
    second = of.best_but(state)
    return None if second is not None and second > best(of) - 1e-6 else state


# worlds ------------------------------------------------------------------------------------------


class Steps:
    """A world in which facts come and go, and atoms are observed and asked for again."""

    def __init__(self, of: Case, rng: Random, **options: Any) -> None:
        self.family, self.rng, self.listed = of.family, rng, "targets" in options
        self.world = srl.World(srl.Model(of.family.rules), of.family.query, **options)
        self.facts = dict[Atom, float]()
        first = {of.family.atoms[members[0]] for _, members in of.family.groups}
        some = [atom for atom in of.family.atoms if atom in first or rng.random() < 0.8]
        self.open = dict.fromkeys(some if self.listed else (), math.nan)

    def case(self, facts: dict[Atom, float]) -> Case:
        """What facts make of the world."""
        evidence: Facts = {name: {} for name in self.family.draw(Random(0))}
        units = list[int]()
        for (name, row), x in facts.items():
            evidence.get(name, {})[row] = x
        for number, atom in enumerate(self.family.atoms, 1):
            x = facts.get(atom, 0.0 if self.listed else math.nan)
            units += [] if math.isnan(x) else [number if x else -number]
        return self.family.with_facts(evidence).with_units(units)

    def next(self) -> Case | None:
        """Change some facts; returns the case that the world is now, None where the step was refused."""
        facts = self._changed()
        after = self.case(facts)
        parts: dict[str, dict[str, Any]] = {"set": {}, "query": {}, "remove": {}}
        for (name, row), x in facts.items():
            if str(x) != str(self.facts.get((name, row))):  # NaN, too
                parts["query" if math.isnan(x) else "set"].setdefault(name, {})[row] = x
        for name, row in self.facts.keys() - facts.keys():
            parts["remove"].setdefault(name, {})[row] = 1.0
        sets, before = parts.pop("set"), self._all()
        lists = {part: {n: [*rows] for n, rows in by.items()} for part, by in parts.items()}
        try:
            self.world.apply(set=sets, **lists)
        except Infeasible:
            assert after.best is None
            assert self._all() == before
            return None
        self.facts = facts
        return after

    def _changed(self) -> dict[Atom, float]:
        rng, facts = self.rng, {**self.open, **self.facts}
        drawn = {
            (n, row): x for n, rows in self.family.draw(rng).items() for row, x in rows.items()
        }
        for atom in sorted({*drawn, *facts} - {*self.family.atoms}):
            if not self.facts or rng.random() < 0.3:
                facts.pop(atom, None)
                facts |= {atom: drawn[atom]} if atom in drawn else {}
        for atom in self.family.atoms:
            if self.facts and (atom in self.open or not self.listed):
                if rng.random() < 0.2:
                    facts.pop(atom, None)
                    facts |= {atom: math.nan} if self.listed else {}
                if rng.random() < 0.03:
                    facts[atom] = float(rng.random() < 0.3)
        return facts

    def _all(self) -> Any:
        return dict(self.world.answer()), self.world.certificate

    def state(self) -> list[int]:
        """The true atoms of the world, observed or not."""
        values = self.world.answer()
        both = ((n, row, self.facts.get((n, row))) for n, row in self.family.atoms)
        return [int(values.get(n, {}).get(row, x) == 1.0) for n, row, x in both]


def steps_of(of: Case, seed: int, **options: Any) -> Steps | None:
    """The world of a family, without facts; None where that has no state, or none is found."""
    try:
        return Steps(of, Random(seed), **options)
    except Unsolved:
        assert "max_work" in options
        return None
    except Infeasible:
        nothing = of.family.with_facts({name: {} for name in of.facts})
        assert "targets" in options or nothing.by_program() is None
        return None


@each_family
@tiers("number", 3, 1_000)
@pytest.mark.parametrize("listed", [False, True])
def test_worlds(name: str, listed: bool, number: int) -> None:
    """After every step: the best state, and the best one in which an atom has its other value."""
    for seed, of in cases(name, number):
        steps = steps_of(of, seed, **({"targets": "listed"} if listed else {}))
        for _ in range(0 if steps is None else 4):
            if (present := steps.next()) is None:
                continue
            state = steps.state()
            optimal(present, state)
            assert steps.world.certificate.certified
            assert steps.world.certificate.gap <= 1e-5
            number = steps.rng.randrange(present.n)
            atom, literal = present.family.atoms[number], number + 1
            if atom in steps.facts or listed:
                continue
            otherwise = present.with_units([-literal if state[number] else literal])
            other = steps.world.explain(atom).other
            assert (other is None) == (otherwise.best is None)
            if other is not None:
                assert other.certified
                assert other.cost == pytest.approx(best(present) - best(otherwise), abs=1e-6)


@each_family
@tiers("number", 2, 1_000)
def test_worlds_within_a_limit(name: str, number: int) -> None:
    """No state is certified that is worse, and the gap holds."""
    for seed, of in cases(name, number):
        steps = steps_of(of, seed, inference={"max_work": 1 + seed % 50})
        for _ in range(0 if steps is None else 3):
            try:
                present = steps.next()
            except Unsolved:
                continue
            if present is not None:
                state, certificate = steps.state(), steps.world.certificate
                no_better(present, state, certificate.certified)
                assert best(present) <= value(present, state) + certificate.gap + 1e-6


# probabilities -----------------------------------------------------------------------------------


@each_family
@tiers("number", 2, 1_000)
def test_probabilities(name: str, number: int) -> None:
    """Of ``infer``, of a learner and of a world that changes, by enumeration."""
    for seed, of in cases(name, number, small=True):
        if of.best is None:
            continue
        expected = of.probabilities()
        rules, query = of.family.rules, of.family.query
        answer = srl.infer(rules, of.evidence, query, closed=[*of.facts], method="exact")
        assert answer.stats["samples"] == 0
        assert [answer[n][row] for n, row in of.family.atoms] == pytest.approx(expected, abs=1e-9)
        values = learner_of(of).predict_one(of.evidence, marginals=True).values
        assert values is not None
        by_learner = [values[n].get(row, 0.0) for n, row in of.family.atoms]
        assert by_learner == pytest.approx(expected, abs=2e-6)  # written with six places
        steps = steps_of(of, seed)
        for _ in range(0 if steps is None else 3):
            if (present := steps.next()) is None:
                continue
            by_world = steps.world.marginals()
            for (n, row), x in zip(of.family.atoms, present.probabilities(), strict=True):
                fact = steps.facts.get((n, row))
                assert by_world.get(n, {}).get(row, fact) == pytest.approx(x, abs=1e-9)


# audits ------------------------------------------------------------------------------------------


def test_an_audit_finds_a_wrong_certified_answer_in_a_run(
    job: Callable[..., Job], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine loses a pair of each matching: the run ends at the first audited one, and names it."""
    honest = Router.solve

    def careless(
        self: Router, model: GroundMRF, weight: Floats, *, bonus: Floats | None = None
    ) -> Solution:
        found = honest(self, model, weight, bonus=bonus)
        state = found.state.copy()
        state[state.argmax()] = 0
        assert model.feasible(state)
        return replace(found, state=state, score=model.score(state, weight, bonus))

    of = next(of for _, of in cases("matching", 99) if of.n > 40 and of.family.optimum is not None)
    (tmp_path / "model.mln").write_text(of.family.rules)
    drawn = [of.family.with_facts(of.family.draw(Random(n))) for n in range(6)]
    lines = []
    for n, each in enumerate(drawn):
        atoms = [{"args": row, "value": x} for row, x in each.facts["W"].items()]
        truth = truth_of(each, a_state(each, Random(n)))
        line = {"id": n, "evidence": {"W": atoms}, "truth": truth}
        lines.append(json.dumps(line).encode() + b"\n")
    keys = {"model": str(tmp_path / "model.mln"), "query": "M", "inference": {"audit_every": 3}}
    run = job(lines, metrics={}, **keys)
    assert run.run() == 0, run.said
    assert run.lines("metrics.jsonl")[-1]["audited"] == 2
    monkeypatch.setattr(Router, "solve", careless)
    assert run.run("--fresh") == 70, run.said
    assert "audit of example 2: elimination gives" in run.said
