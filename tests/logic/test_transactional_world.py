"""A step that is cut off anywhere has changed nothing: facts, answer and later steps are those without it."""

import random
from contextlib import suppress
from math import nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

import onlinesrl as srl
from onlinesrl.core.errors import Infeasible, Unsolved
from onlinesrl.library.learner import validated
from onlinesrl.logic import transactional_world
from onlinesrl.logic.atom_index import same_value
from onlinesrl.logic.transactional_world import REFUSALS, TransactionalWorld
from onlinesrl.mln.query.incremental_world import MlnWorld
from onlinesrl.psl.query import incremental_world
from tests.conftest import tiers
from tests.support.fact_changes import CASES, begin_of, changes, pool_of
from tests.support.interrupts import cut_off
from tests.support.linked_papers import MARKOV

PSL = """
1: Link(A, B) & Has(A, T) -> Has(B, T) ^2
0.4: Link(A, B) -> Has(A, 'Logic') ^2
0.5: Score(A) -> Has(A, 'Vision') ^2
0.1: !Has(A, T) ^2
Link(A, A) -> Has(A, 'Logic') .
Has(A, +T) <= 1 .
"""


def atoms(name, *rows, value=1.0):
    return {(name, tuple(row.split())): value for row in rows}


def steps(text):
    """The name of each step, and the facts that it changes or the text of its model."""
    papers = [f"{paper} {topic}" for paper in "abcdefg" for topic in ("Logic", "Vision")]
    listed, opened = (atoms("Has", *papers, value=nan), nan) if text is PSL else ({}, None)
    links = atoms("Link", "a b", "b c", "c d", "d e", "e f")
    heavier = text.replace("0.4", "0.9")
    return [
        ("apply", links | atoms("Score", "c", "e") | listed),
        (
            "apply",
            atoms("Link", "a b", value=None) | atoms("Link", "a g") | atoms("Score", "c", value=0),
        ),
        ("apply", atoms("Has", "b Logic") | atoms("Has", "c Vision", value=0.0)),
        ("set_weights", heavier),
        ("apply", atoms("Has", "b Vision")),
        ("apply", atoms("Has", "b Logic", value=opened)),
        ("set_model", heavier.replace("0.5", "-0.7" if text is MARKOV else "2")),
        ("apply", atoms("Score", "c", value=None) | atoms("Link", "f a")),
    ]


def new_world(model, targets):
    engine = validated(model.language.engines, "inference", {})
    return model.language.world(model.program, ["Has"], targets, engine)


class Followed:
    """A world, and its answer by what its steps reported."""

    def __init__(self, text, keep, done=()):
        self.kind, self.shown = "psl" if text is PSL else "mln", {}
        model = srl.Model(text, self.kind)
        world = new_world(model, model.language.targets[0])
        self.world = TransactionalWorld(world, keep)
        for step in done:
            self.do(*step)

    def do(self, name, what):
        """Make a step, and ask for marginals in Markov logic; whether the step was refused."""
        argument = what
        if isinstance(what, str):
            argument = srl.Model(what, self.kind).program
            if name == "set_weights":
                argument = self.world.weights_of(argument)
        try:
            changed = getattr(self.world, name)(argument)
        except Infeasible:
            return True
        for atom, (old, new) in changed.items():
            assert self.shown.pop(atom, None) == old
            self.shown |= {} if new is None else {atom: new}
        if self.kind == "mln":
            self.world.marginals()
        return False

    def is_as(self, other):
        """Whether two worlds have the same facts, weights, conflicts and answers, PSL's as certified."""
        one, other = self.world, other.world
        same = (one.text, repr(one.facts()), len(one.conflicts)) == (
            other.text,
            repr(other.facts()),
            len(other.conflicts),
        )
        ours, theirs = dict(one.values()), dict(other.values())
        if self.kind == "mln":
            answers = (ours, one.certificate), (theirs, other.certificate)
            return same and answers[0] == answers[1] and one.marginals() == other.marginals()
        assert one.certificate.certified
        energy = pytest.approx(other.certificate.energy, abs=1e-4)
        return same and ours == pytest.approx(theirs, abs=0.03) and one.certificate.energy == energy


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # closed generators
@pytest.mark.parametrize("text", [MARKOV, PSL], ids=["mln", "psl"])
@pytest.mark.parametrize("keep", [False, True])
@tiers("places", 5, 400)
def test_a_step_that_is_cut_off_anywhere_has_changed_nothing(text, keep, places):
    rng, every, ended, tried = random.Random(places), steps(text), 0, 0
    world, plain = Followed(text, keep), Followed(text, keep)
    for number, step in enumerate(every):
        after = Followed(text, keep, every[:number])
        total = cut_off(after.do, step)
        for place in rng.sample(range(1, total), min(places, total - 1)):
            cut_off(world.do, step, place)
            tried += 1
            if not world.is_as(plain):
                assert world.is_as(after)
                ended += 1
                world = Followed(text, keep, every[:number])
        assert world.do(*step) == plain.do(*step)
        assert world.is_as(plain)
        values = dict(world.world.values())
        assert world.shown == pytest.approx(values, abs=2e-3 if text is PSL else 0)
    assert ended < tried / 2


@pytest.mark.parametrize("loads", [False, True])
def test_a_world_that_is_saved_after_a_cut_still_reports_what_is_new(monkeypatch, loads):
    """It is made again from a cold start, so that values differ a little from those that were reported."""
    monkeypatch.setattr(incremental_world, "RESOLUTION", 1e-9)
    *before, step = steps(PSL)[:6]
    world, plain = Followed(PSL, False, before), Followed(PSL, False, before)
    cut_off(world.do, step, cut_off(plain.do, step) // 2)
    saved = world.world.save()
    if loads:
        other = Followed(PSL, False, [before[3]])  # the weights
        other.world.resume(*saved)
        other.shown, world = world.shown, other
    world.do("apply", atoms("Has", "z Logic", value=nan))
    assert world.shown == pytest.approx(dict(world.world.values()), abs=1e-9)


@pytest.mark.parametrize("text", [MARKOV, PSL], ids=["mln", "psl"])
@pytest.mark.parametrize("keep", [False, True])
def test_steps_that_are_taken_back_together_have_changed_nothing(monkeypatch, text, keep):
    """Nor have they been reported: the next step tells of values since those that were told before."""
    monkeypatch.setattr(incremental_world, "RESOLUTION", 1e-9)
    rng, every = random.Random(1), steps(text)
    world, plain = Followed(text, keep), Followed(text, keep)
    for step in every:
        for _ in range(4):
            inner = [what for name, what in rng.sample(every, 4) if name == "apply"]
            inner.append(atoms("Has", "b Logic") | atoms("Has", "b Vision"))  # PSL: a conflict
            with suppress(*REFUSALS), world.world.transaction():
                for what in inner:
                    world.world.apply(what)
                raise Unsolved("what follows")
            assert world.is_as(plain)
        assert world.do(*step) == plain.do(*step)
        assert world.is_as(plain)
        if step is not every[4]:  # which in PSL is refused, or waits, and so reports nothing
            values = dict(world.world.values())
            assert world.shown == pytest.approx(values, abs=1e-9 if text is PSL else 0)


class Exhaustive:
    """After each step all that waits is tried, together and one by one, until nothing more fits."""

    def __init__(self, world):
        self.world, self.waiting, self.trials = world, [], 0

    def refused(self, changes):
        """Make a change; what of it is new where it is refused, else nothing."""
        new = {a: x for a, x in changes.items() if not same_value(x, self.world.fact(a))}
        self.trials += 1
        try:
            self.world.apply(new)
        except REFUSALS:
            return [new]
        return []

    def apply(self, changes):
        same = [old for old in self.waiting if not old.keys().isdisjoint(changes)]
        self.waiting = [old for old in self.waiting if old not in same]
        self.waiting += self.refused({a: x for old in [*same, changes] for a, x in old.items()})
        before = None
        while self.waiting and len(self.waiting) != before:
            before = len(self.waiting)
            if not self.refused({a: x for old in self.waiting for a, x in old.items()}):
                self.waiting = []
            else:
                self.waiting = [new for old in self.waiting for new in self.refused(old)]


def waits_as_if_all_were_tried(one, other, steps):
    """Change two worlds of the same program; how many trials the first one spared, and how many waited."""
    world, plain, most, trials = TransactionalWorld(one, True), Exhaustive(other), 0, 0
    apply = one.apply

    def counting(*arguments):
        nonlocal trials
        trials += 1
        return apply(*arguments)

    one.apply = counting
    for change in steps(world):
        world.apply(change)
        plain.apply(change)
        assert repr([conflict.changes for conflict in world.conflicts]) == repr(plain.waiting)
        assert repr(one.facts()) == repr(other.facts())
        assert dict(one.values()) == pytest.approx(dict(other.values()), abs=0.03)
        most = max(most, len(plain.waiting))
    assert trials <= plain.trials
    return plain.trials - trials, most


@given(CASES, st.data())
def test_what_waits_is_tried_again_where_that_may_end_its_conflict(case, data):
    """Random changes of random Markov logic."""
    choose = data.draw
    listed = choose(st.booleans())
    try:
        worlds = [MlnWorld(case.program, case.query, listed) for _ in range(2)]
    except Infeasible:
        return
    pool = pool_of(case, listed)

    def steps(world):
        yield begin_of(case, listed)
        for _ in range(8):
            yield changes(choose, pool, world.facts())

    waits_as_if_all_were_tried(*worlds, steps)


WAITING = {
    "mln": """
Link(p, p)
Hint(p, t)
Has(p, t)
Has(x, t) ^ Has(x, s) => t = s.
Link(x, y) ^ Has(x, t) => Has(y, t).
Hint(x, t) => EXIST s Has(x, s).
0.5 Hint(x, t) => Has(x, t)
""",
    "psl": """
1: Hint(A, T) -> Has(A, T) ^2
Link(A, B) & Has(A, T) -> Has(B, T) .
Has(A, +T) <= 1 .
Has(+A, 'Logic') <= 4 .
""",
}


@pytest.mark.parametrize("kind", WAITING)
@pytest.mark.parametrize("targets", [0, 1])
@tiers("seeds", 2, 200)
def test_what_waits_in_a_world_of_papers(kind, targets, seeds):
    spared = waiting = 0
    for seed in range(seeds):
        rng, model = random.Random(seed), srl.Model(WAITING[kind], kind)
        listed = (kind == "psl") or targets

        def steps(world, rng=rng, listed=listed):
            papers, topics = "abcdef", ["Logic", "Vision"]
            if kind == "psl":
                yield atoms("Has", *(f"{p} {t}" for p in papers for t in topics), value=nan)
            for _ in range(40):
                one, other, topic = rng.choice(papers), rng.choice(papers), rng.choice(topics)
                name, row = rng.choice(
                    [("Link", (one, other)), ("Has", (one, topic)), ("Hint", (one, topic))]
                )
                opened = nan if listed else None
                choices = [opened, 1.0, 1.0, 0.0] if name == "Has" else [None, 1.0, 1.0]
                yield {(name, row): rng.choice(choices)}

        worlds = [new_world(model, model.language.targets[targets]) for _ in range(2)]
        some, most = waits_as_if_all_were_tried(*worlds, steps)
        spared, waiting = spared + some, max(most, waiting)
    assert spared
    assert waiting > 2


def test_so_many_changes_wait_at_most(monkeypatch):
    monkeypatch.setattr(transactional_world, "MOST_WAITING", 2)
    world = srl.World(srl.Model("P(t)\nQ(t)\nQ(x) => !P(x)."), "P", keep_conflicts=True)
    world.apply(add={"Q": [1, 2, 3]})
    for number in (1, 2):
        world.apply(add={"P": [number]})
    with pytest.raises(Infeasible, match=r"2 other changes wait already; these cannot all hold"):
        world.apply(add={"P": [3]})
    assert len(world.conflicts) == 2
    assert len(world.apply(set={"P": {1: 1}}).conflicts) == 2
    assert len(world.apply(remove={"Q": [1]}).conflicts) == 1
    assert len(world.apply(add={"P": [3]}).conflicts) == 2
