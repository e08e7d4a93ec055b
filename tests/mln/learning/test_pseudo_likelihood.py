"""Pseudo-likelihood from counts: against its definition, and against exact optima of Friends and Smokers."""

import numpy as np
import pytest

from onlinesrl.core.errors import ModelError
from onlinesrl.core.example import GroundAtom
from onlinesrl.logic.database import load_db
from onlinesrl.mln.counting.program_counts import Counters
from onlinesrl.mln.counting.world import world_of
from onlinesrl.mln.lang import reader
from onlinesrl.mln.learning.pseudo_likelihood import changes, maximise
from tests.support.paths import SHARED

GOLDEN = SHARED / "peers" / "mln" / "friends_smokers"
golden = pytest.mark.skipif(not GOLDEN.exists(), reason="the exact optima are not on this machine")
QUERIES = {"sc": ("Smokes", "Cancer"), "all": ("Friends", "Smokes", "Cancer")}

SMALL = reader.parse("""
person = {A, B, C}
colour = {Red, Blue}
Friends(person, person)
Smokes(person)
Likes(person, colour)
Friends(x, y) => (Smokes(x) <=> Smokes(y))
Smokes(x) ^ Likes(x, +c)
Friends(x, y) ^ Friends(y, z) => Friends(x, z)
""")
TRUE = [
    ("Friends", ("A", "B")),
    ("Friends", ("B", "C")),
    ("Smokes", ("A",)),
    ("Likes", ("A", "Red")),
]


def features(program, world):
    """The features of a world: a rule's counts, those of its clauses shared."""
    counters = Counters(program)
    total = [0.0] * len(program.rules)
    for clause, numbers in zip(counters.clauses, counters.counts(world), strict=True):
        shares = sum(each.rule == clause.rule for each in counters.clauses)
        total[clause.rule] = total[clause.rule] + np.ravel(numbers) / shares
    return np.concatenate(total)


def test_the_gradient_is_that_of_finite_differences():
    world = world_of(SMALL, [GroundAtom(*atom, True, 0) for atom in TRUE])
    found, weights = changes(SMALL, world, ("Friends", "Smokes")), np.array([0.7, -0.3, 1.1, 0.4])
    for slope, step in zip(found.value(weights)[1], np.eye(4) * 1e-6, strict=True):
        difference = found.value(weights + step)[0] - found.value(weights - step)[0]
        assert slope == pytest.approx(difference / 2e-6, abs=1e-6)


def test_both_optimizers_find_the_same_weights():
    world = world_of(SMALL, [GroundAtom(*atom, True, 0) for atom in TRUE])
    found = changes(SMALL, world, ("Friends", "Smokes"))
    one, other = (maximise(found, 2.0, optimizer).weights for optimizer in ("lbfgs", "newton"))
    assert one == pytest.approx(other, abs=1e-6)
    gradient = found.value(other)[1] - other / 4
    assert gradient == pytest.approx(0.0, abs=1e-6)


def test_a_hard_rule_that_cannot_be_counted_is_refused_with_its_place():
    program = reader.parse("P(person)\nR(person, person)\nP(x)\nEXIST y R(x, y) ^ P(y).", "m.mln")
    said = r"m.mln:4:1: this rule cannot be counted: P stands in an existential.*\n.*max-margin"
    told = [GroundAtom("P", ("A",), True, 0), GroundAtom("R", ("A", "A"), True, 0)]
    with pytest.raises(ModelError, match=said):
        changes(program, world_of(program, told), ["P"])


def test_more_atoms_than_have_numbers_are_counted():
    """Of 10^20 atoms two are in a rule that evidence does not decide; the others are a coin each."""
    people = ", ".join(f"P{n}" for n in range(10_000))
    rule = "E(x) => Q(x, x, x, x, x)"
    program = reader.parse(f"p = {{{people}}}\nQ(p, p, p, p, p)\nE(p)\n{rule}")
    world = world_of(program, [GroundAtom("E", (p,), True, 0) for p in ("P0", "P1")])
    value, gradient = changes(program, world, ["Q"]).value(np.array([2.0]))
    assert value == pytest.approx(-np.log(2) * (10.0**20 - 2) - 2 * np.logaddexp(0, 2.0))
    assert gradient == pytest.approx([-2 / (1 + np.exp(-2.0))])


def test_weights_that_no_flip_holds_back_are_told():
    for program in ("P(t)\nP(A)", "P(t)\nP(x)"):
        parsed = reader.parse("t = {A}\n" + program)
        found = changes(parsed, world_of(parsed, [GroundAtom("P", ("A",), True, 0)]), ["P"])
        assert found.unbounded() == [0]


@golden
@pytest.mark.parametrize("optimizer", ["lbfgs", "newton"])
@pytest.mark.parametrize("people", [10, 50, 100])
def test_weights_are_the_exact_optimum(people, optimizer):
    program = reader.load(GOLDEN / "fs-learn.mln")
    world = world_of(program, load_db(GOLDEN / f"fs{people}-train.db", program))
    lines = map(str.split, (GOLDEN / f"fs{people}.weights.exact").read_text().splitlines())
    counts, *rows = lines
    assert [int(n.strip("[],")) for n in counts[1:]] == features(program, world).tolist()
    rows = [row for row in rows if row[0] in QUERIES]
    assert len(rows) == 6
    for query, _, sd, _, *numbers in rows:
        weights, pll = np.array(numbers[:4], np.float64), float(numbers[5])
        found = maximise(
            changes(program, world, QUERIES[query]), None if sd == "None" else float(sd), optimizer
        )
        assert found.value == pytest.approx(pll, abs=1e-4)
        infinite = people == 10 and sd == "None"
        assert [w[:8] for w in found.warnings] == (["weight 3"] if infinite else [])
        if not infinite:
            assert found.weights == pytest.approx(weights, abs=1e-4), (query, sd)
