"""Incremental grounding: after every step the ground model of a cold start, and all or nothing."""

import math
from collections import Counter
from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinesrl.core.errors import Infeasible
from onlinesrl.mln.ground.incremental_grounder import IncrementalGrounder
from onlinesrl.mln.lang.reader import parse
from tests.support.fact_changes import CASES, begin_of, breaks, changes, pool_of, world_of
from tests.support.naive_grounder import Soft, tautology
from tests.support.random_programs import Case
from tests.support.soak import soaked


class Kept:
    """What a reader of steps keeps: the ground clauses and the atoms."""

    def __init__(self, grounder):
        self.grounder = grounder
        begin = grounder.everything()
        self.rows, self.atoms = begin.rows, begin.atoms

    def follow(self, step):
        self.rows = {k: row for k, row in (self.rows | step.rows).items() if row is not None}
        self.atoms = {
            a: value for a, value in (self.atoms | step.atoms).items() if value is not None
        }

    def soft(self):
        found = Counter()
        for row in self.rows.values():
            clause = self.grounder.clause(row.clause)
            if not clause.hard:
                found[Soft(clause, row.template, row.literals)] += row.factor
        return {x: n for x, n in found.items() if n}

    def hard(self):
        plans, groups = self.grounder.plan, {}
        found = {r.literals for r in self.rows.values() if self.grounder.clause(r.clause).hard}
        for atom, value in self.atoms.items():
            if not math.isnan(value):
                found.add(frozenset({(value == 1.0, atom)}))
            if (group := self.grounder.group(atom)) is not None:
                groups.setdefault(group, []).append(atom)
        for (name, _), members in groups.items():
            found |= {frozenset({(False, a), (False, b)}) for a, b in combinations(members, 2)}
            if plans.groups[name].exactly:
                found.add(frozenset((True, a) for a in members))
        return found


def same(kept, world):
    assert {a: None if math.isnan(v) else v == 1.0 for a, v in kept.atoms.items()} == world.atoms
    assert kept.hard() == world.hard()
    expected = {x: n for x, n in world.soft().items() if n and not tautology(x.literals)}
    assert kept.soft() == expected


def follows(case: Case, choose, steps=4) -> str:
    """Compare with the definition after every step; ``choose`` draws from a strategy."""
    listed = choose(st.booleans())
    grounder = IncrementalGrounder(case.program, case.query, listed)
    if breaks(world_of(case, {}, listed)):
        with pytest.raises(Infeasible, match=r"cannot (all )?hold"):
            grounder.everything()
        return "no world at all"
    kept, pool, facts = Kept(grounder), pool_of(case, listed), {}
    same(kept, world_of(case, facts, listed))
    outcomes = set()
    for number in range(steps):
        change = changes(choose, pool, facts) if number else begin_of(case, listed)
        new = {atom: value for atom, value in (facts | change).items() if value is not None}
        world = world_of(case, new, listed)
        if breaks(world):
            with pytest.raises(Infeasible, match=r"cannot (all )?hold"):
                grounder.change(change)
            outcomes.add("refused")
            continue
        kept.follow(grounder.change(change))
        facts = new
        same(kept, world)
        again = Kept(grounder)
        assert (again.rows, {*again.atoms}) == (kept.rows, {*kept.atoms})
    return f"{'listed' if listed else 'all open'}{', some refused' if outcomes else ''}"


@given(CASES, st.data())
def test_after_every_step_the_ground_model_of_a_cold_start(case, data):
    follows(case, data.draw)


@pytest.mark.soak
def test_thousands_of_programs_follow_their_facts(capsys):
    drawn = st.tuples(CASES, st.data())
    tried = soaked(lambda x: follows(x[0], x[1].draw), drawn, 3000, lambda x: x[0].traits())
    with capsys.disabled():
        print(f"\n{dict(tried)}")


def test_a_step_reaches_only_the_ground_clauses_that_mention_its_atoms():
    program = parse(
        "Knows(person, person)\nSmokes(person)\n"
        "1.5 Knows(x, y) ^ Smokes(x) => Smokes(y)\n-0.3 Smokes(x)\n"
    )
    grounder = IncrementalGrounder(program, ["Smokes"])
    people = [str(n) for n in range(50)]
    first = grounder.change({("Knows", pair): 1.0 for pair in pairwise(people)})
    assert len(first.rows) == 49 + 50
    assert len(first.atoms) == 50
    came = grounder.change({("Knows", ("7", "9")): 1.0})
    assert len(came.rows) == 1
    assert not came.atoms
    stranger = grounder.change({("Knows", ("7", "Eve")): 1.0})
    assert len(stranger.rows) == 2
    assert [*stranger.atoms] == [("Smokes", ("Eve",))]
    gone = grounder.change({("Knows", ("7", "Eve")): None})
    assert gone.rows == dict.fromkeys(stranger.rows)
    assert gone.atoms == {("Smokes", ("Eve",)): None}
