"""Connected components: apart, together the whole, the narrow ones eliminated, the wide ones the core's."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinesrl.mln.ground.ground_mrf import validate
from onlinesrl.mln.inference.components import components, restrict, solve_components
from onlinesrl.mln.inference.ilp import Ilp
from onlinesrl.mln.inference.protocols import Solution
from onlinesrl.mln.inference.router import Router
from tests.support.ground_mrfs import Problem, Refuses, check, clause_model, listed, problems


def joined(parts: list[Problem]) -> Problem:
    """The parts side by side."""
    clauses, groups, first = [], [], 0
    for part in parts:
        model = part.model
        rows, members = listed(part)
        for weight, row in rows:
            clauses.append((weight, [x + first if x > 0 else x - first for x in row]))
        for exactly, atoms in members:
            groups.append((exactly, [a + first for a in atoms]))
        first += model.n_atoms
    return Problem(*clause_model(first, clauses, groups))


def connected(model, atoms: list[int], clauses: list[int]) -> bool:
    """Tell whether clauses and groups lead from the first of the atoms to all of them."""
    links = [
        set((np.abs(model.literals[model.start[c] : model.start[c + 1]]) - 1).tolist())
        for c in clauses
    ]
    links += [set(np.flatnonzero(model.group == g).tolist()) for g in range(len(model.exactly))]
    reached = {atoms[0]}
    while grown := {a for link in links if link & reached for a in link} - reached:
        reached |= grown
    return reached == set(atoms)


@given(st.lists(problems(max_atoms=4), min_size=1, max_size=3), st.integers(0, 2**12 - 1))
def test_components_are_apart_and_together_the_whole(parts, bits):
    """No live clause or group leaves its component, and scores and feasibility are those of the parts."""
    problem = joined(parts)
    whole = problem.model
    found = components(whole, np.ones(whole.n_clauses, bool))

    atoms = np.concatenate([a for a, _ in found] or [np.zeros(0, np.int64)])
    clauses = np.concatenate([c for _, c in found] or [np.zeros(0, np.int64)])
    assert sorted(atoms.tolist()) == list(range(whole.n_atoms))
    assert sorted(clauses.tolist()) == list(range(whole.n_clauses))
    size = [len(atoms) + len(clauses) for atoms, clauses in found]
    assert size == sorted(size) == np.diff(found.end).tolist()
    for atom in range(whole.n_atoms):
        assert atom in found.having(atom)[0]
    ends = np.cumsum([0, *(part.model.n_atoms for part in parts)])
    state = np.array([bits >> a & 1 for a in range(whole.n_atoms)], np.uint8)
    score, feasible = 0.0, True
    for own, rows in found:
        assert len(own) == 1 or connected(whole, own.tolist(), rows.tolist())
        assert len({int(np.searchsorted(ends, a, side="right")) for a in own}) == 1
        part = restrict(whole, own, rows)
        validate(part)
        score += part.score(state[own], problem.weights[rows])
        feasible &= part.feasible(state[own])
    assert score == pytest.approx(whole.score(state, problem.weights), abs=1e-9)
    assert feasible == whole.feasible(state)


@given(st.lists(st.tuples(st.integers(1, 9), st.booleans()), max_size=40))
def test_what_is_narrow_is_solved_together_and_all_else_alone(chains):
    """Of chains of so many atoms some are wide; each is asked for alone, and once."""
    ends = np.cumsum([0, *(n for n, _ in chains)]).tolist()
    links = [(1.0, [a + 1, a + 2]) for a in range(ends[-1]) if a + 1 not in ends]
    model, weights = clause_model(ends[-1], links)
    wide = {first for first, (_, is_wide) in zip(ends, chains, strict=False) if is_wide}
    tried, alone = [], []

    def narrow(atoms, clauses):
        restrict(model, atoms, clauses)
        tried.append(len(atoms))
        return None if wide.intersection(atoms.tolist()) else "narrow"

    def solve(atoms, clauses):
        restrict(model, atoms, clauses)
        alone.append(atoms.tolist())
        return "alone"

    found = solve_components(components(model, weights != 0), narrow, solve)

    assert sorted(a for atoms, _ in found for a in atoms.tolist()) == [*range(ends[-1])]
    firsts = [int(atoms[0]) for atoms, _ in found]
    assert firsts == sorted(firsts)
    chain = {a: [*range(a, b)] for a, b in pairwise(ends)}
    assert sorted(alone) == [chain[a] for a in sorted(wide)]
    for atoms, how in found:
        assert how == ("alone" if wide.intersection(atoms.tolist()) else "narrow")
    size = ends[-1] + len(links)  # of which each run has at most half of the one that it is from
    assert len(tried) <= (2 + 2 * len(wide)) * (2 + np.log2(1 + size))


def test_clauses_of_weight_zero_do_not_connect():
    """A clique of fifty atoms whose pairs all weigh nothing is fifty problems of one atom."""
    pairs = [(a, b) for a in range(1, 51) for b in range(1, a)]
    clauses = [(0.0, [a, b]) for a, b in pairs] + [(1.0, [a]) for a in range(1, 51)]
    model, weights = clause_model(50, clauses)

    found = Router(Refuses()).solve(model, weights)

    assert found.state.all()


class Counts:
    """A core that counts its questions and their atoms."""

    def __init__(self):
        self.atoms: list[int] = []
        self.core = Ilp()

    def solve(self, model, weights, *, bonus=None) -> Solution:
        self.atoms.append(model.n_atoms)
        return self.core.solve(model, weights, bonus=bonus)


def test_only_the_wide_component_goes_to_the_core():
    """A frustrated clique of twenty atoms beside a chain of thirty."""
    rng = np.random.default_rng(0)
    clique = [(a, b) for a in range(1, 21) for b in range(1, a)]
    chain = [(a, a + 1) for a in range(21, 50)]
    drawn = np.abs(rng.normal(size=len(clique) + len(chain)))
    drawn[: len(clique)] *= rng.choice([-1, 1], len(clique))
    clauses = [(w, [a, -b]) for w, (a, b) in zip(drawn, [*clique, *chain], strict=True)]
    model, weights = clause_model(50, clauses)
    core = Counts()

    found = Router(core).solve(model, weights)

    check(found, Problem(model, weights), "ilp")
    assert core.atoms == [20]


def test_an_uncertified_core_leaves_the_answer_uncertified_with_its_bound():
    class Guesses:
        """Says that its state may be two short of the best."""

        def solve(self, model, weights, *, bonus=None) -> Solution:
            state = np.zeros(model.n_atoms, np.uint8)
            score = model.score(state, weights, bonus)
            return Solution(state, score, score + 2.0, "ilp", certified=False)

    pairs = [(a, b) for a in range(1, 31) for b in range(1, a)]
    clauses = [(1.0, [s * a, s * b]) for a, b in pairs for s in (1, -1)]

    found = Router(Guesses()).solve(*clause_model(31, [*clauses, (1.0, [31])]))

    assert not found.certified
    assert found.state.tolist() == [0] * 30 + [1]
    assert found.bound == pytest.approx(found.score + 2.0)
