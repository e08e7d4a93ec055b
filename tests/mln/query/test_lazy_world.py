"""Worlds whose large hard rules are ground where a state violates them, against eager and cold ones."""

from itertools import combinations
from random import Random

import pytest
from conftest import tiers

import onlinesrl as srl
from onlinesrl.core.errors import DataError, Infeasible
from onlinesrl.mln.ground import violated_rows
from onlinesrl.mln.ground.grounder import Limits
from onlinesrl.mln.ground.model_index import EAGER
from onlinesrl.mln.lang.reader import parse
from onlinesrl.mln.query.incremental_world import MlnWorld
from tests.support.families import FAMILIES, case

RULES = """Alike(record, record): real
Old(record)
Near(record, record)
Same(record, record)
1 Alike(x, y) ^ Same(x, y)
Same(x, x).
Same(x, y) => Same(y, x).
Same(x, y) ^ Same(y, z) => Same(x, z).
Old(x) ^ Same(x, y) ^ Same(x, z) => y = z v Near(y, z).
"""


LAZY = [name for name in FAMILIES if name not in {"covers", "trees", "grids", "mixtures"}]
"""The families of which some have a rule that may be left out."""


def started(rules, query, eager):
    """A world and its first step, None where hard rules contradict each other without any fact."""
    try:
        return MlnWorld(rules, query, eager=eager)
    except Infeasible:
        return None


def applied(world, step):
    """What a step changes, or the error that refuses it; then all is as before."""
    before = [*world.values()], world.certificate
    try:
        return world.apply(step)
    except Infeasible as error:
        assert ([*world.values()], world.certificate) == before
        return error


def cold(rules, query, facts):
    """A world of these facts that grounds everything; None where hard rules cannot hold."""
    try:
        world = MlnWorld(rules, query)
        world.apply(facts)
    except Infeasible:
        return None
    return world


def after(facts, step):
    return {a: x for a, x in {**facts, **step}.items() if x is not None}


@pytest.mark.parametrize("name", LAZY)
@tiers("number", 1, 120)
def test_steps_are_those_of_other_algorithms(name, number):
    for seed in range(number):
        of, rng = case(name, seed, large=False), Random(seed)
        rules, query, atoms = parse(of.family.rules), of.family.query, of.family.atoms
        if (world := started(rules, query, 0)) is None:
            assert started(rules, query, 1 << 62) is None
            continue
        facts = {}
        steps = [{(name, args): x for name, rows in of.facts.items() for args, x in rows.items()}]
        for _ in range(4):
            some = rng.sample(atoms, rng.randint(1, 2))
            steps.append({atom: rng.choice([None, 0.0, 1.0]) for atom in some})
        for step in steps:
            changes = {atom: x for atom, x in step.items() if x is not None or atom in facts}
            changed, then = applied(world, changes), after(facts, changes)
            if isinstance(changed, Infeasible):
                assert cold(rules, query, then) is None
                if not facts:
                    break
                continue
            facts = then
            assert [*changed] == sorted(changed)
            assert world.certificate.certified
            units = [n if facts[a] else -n for n, a in enumerate(atoms, 1) if a in facts]
            own = of.value([world.value(atom) for atom in atoms])
            assert own == pytest.approx(of.with_units(units).best_but(), abs=1e-6)


def whole(world):
    """All that a world is: its facts, what is ground of clauses left out, its answer and certificate."""
    facts, arrays = world.save()
    partial = {name: array.tobytes() for name, array in arrays.items()}
    return repr(facts), partial, [*world.values()], world.certificate


def some_step(rng, atoms, evidence, facts):
    """Some facts that come, go, or have another value."""
    step = {}
    for _ in range(rng.randint(1, 3)):
        match rng.randrange(4):
            case 0:
                step[rng.choice(atoms)] = rng.choice([0.0, 1.0, 1.0])
            case 1:
                atom, value = rng.choice(evidence)
                step[atom] = value
            case 2 if facts:
                step[rng.choice([*facts])] = None
            case _:
                atom, value = rng.choice(evidence)
                step[atom] = 1.0 if value == 1.0 else round(value + rng.gauss(0.0, 2.0), 2)
    return step


@pytest.mark.parametrize("name", LAZY)
@tiers("number", 1, 250)
def test_any_history(name, number):
    for seed in range(number):
        any_history(name, seed)


def any_history(name, seed):
    """Steps, refusals, ways back, other weights, and worlds saved and loaded, beside a cold world."""
    of, rng = case(name, seed, large=False), Random(f"history {name} {seed}")
    texts = [of.family.rules, of.family.rules.replace("\n1 W(", "\n0.6 W(")]
    programs, now = [*map(parse, texts)], 0
    query, atoms = of.family.query, of.family.atoms
    evidence = [((name, args), x) for name, rows in of.facts.items() for args, x in rows.items()]
    world, facts = started(programs[0], query, 0), {}
    if world is None or not evidence:
        return
    steps = [dict(evidence)] + [some_step(rng, atoms, evidence, facts) for _ in range(6)]
    for step in steps:
        changes = {atom: x for atom, x in step.items() if x is not None or atom in facts}
        then = after(facts, changes)
        eager = cold(programs[now], query, then)
        changed = one_step(world, facts, changes)
        assert isinstance(changed, Infeasible) == (eager is None)
        if eager is None and not facts:
            return
        if eager is None:
            continue
        facts = then
        if rng.random() < 0.3:
            now = 1 - now
            world.set_weights(world.weights_of(programs[now]))
            eager = cold(programs[now], query, facts)
        twin = started(programs[now], query, 0)
        twin.resume(*world.save())
        assert whole(twin) == whole(world)
        world = rng.choice([world, twin])
        assert world.certificate.certified
        assert world.certificate.score == pytest.approx(eager.certificate.score, abs=1e-9)
        explained(world, eager, rng.choice(atoms))
        some = rng.sample(atoms, min(2, len(atoms)))
        if dict(world.values()) == dict(eager.values()):
            assert world.neighbourhood(some) == eager.neighbourhood(some)
        assert whole(world) == whole(twin)


def one_step(world, facts, changes):
    """What a step changes, or the error that refuses it; the world before it is found again on all ways."""
    before, state = whole(world), world.state(changes)
    changed = applied(world, changes)
    assert whole(world.remade(state)) == before
    if not isinstance(changed, Infeasible):
        present = whole(world)
        world.go_back({atom: facts.get(atom) for atom in changes}, [state])
        assert whole(world) == before
        assert world.apply(changes) == changed
        assert whole(world) == present
    assert isinstance(changed, dict) or whole(world) == before
    return changed


def step_of(rng, facts, records):
    """Some new facts, and some that go."""
    step = {}
    for _ in range(rng.randint(1, 3)):
        x, y = sorted(rng.sample(records, 2))
        match rng.randrange(8):
            case 0:
                step["Old", (x,)] = rng.choice([1.0, 0.0])
            case 1:
                step["Near", (x, y)] = 1.0
            case 2:
                step["Same", (x, y)] = rng.choice([1.0, 0.0])
            case 3 | 4 if facts:
                step[rng.choice([*facts])] = None
            case _:
                step["Alike", (x, y)] = round(rng.gauss(0.1, 1.0), 3)
    return step


@tiers("number", 8, 100)
def test_records_that_come_and_go(number):
    for seed in range(number):
        come_and_go(seed)


def come_and_go(seed):
    rng, facts, rules = Random(seed), {}, parse(RULES)
    world = MlnWorld(rules, ["Same"], eager=0 if seed % 2 else 60)  # lazy from four records on
    reported = {}
    for number in range(8):
        records = [f"R{n}" for n in range(3 + number % 4)]
        step = step_of(rng, facts, records)
        changed, then = one_step(world, facts, step), after(facts, step)
        eager = cold(rules, ["Same"], then)
        if isinstance(changed, Infeasible):
            assert eager is None
            with pytest.raises(Infeasible) as refused:
                before = MlnWorld(rules, ["Same"])
                before.apply(facts)
                before.apply(step)
            assert str(changed).startswith(str(refused.value)[:20])
            continue
        facts = then
        for atom, (old, new) in changed.items():
            assert reported.pop(atom, None) == old != new
            reported |= {} if new is None else {atom: new}
        values = dict(world.values())
        assert reported == values
        assert values.keys() == dict(eager.values()).keys()
        certificate = world.certificate
        assert certificate.certified
        assert certificate.score == pytest.approx(eager.certificate.score, abs=1e-9)
        for atom in rng.sample([*values], min(3, len(values))):
            explained(world, eager, atom)
        assert dict(world.values()) == values
        assert world.certificate == certificate
    eager = cold(rules, ["Same"], facts)
    assert world.marginals()[0] == pytest.approx(eager.marginals()[0], abs=1e-9)


def explained(world, eager, atom):
    """Compare explanations of an atom; of equal answers the worlds may have different ones."""
    one, other = world.explain(atom), eager.explain(atom)
    assert one.certified
    assert (one.other is None) == (other.other is None)
    if one.other is not None and one.value == other.value:
        assert one.other.certified
        assert one.other.cost == pytest.approx(other.other.cost, abs=1e-9)
    if dict(world.values()) == dict(eager.values()):
        assert {*one.forbidden} == {*other.forbidden}
        if one.instead == other.instead:  # of equal alternatives in a group
            assert one.difference == pytest.approx(other.difference, abs=1e-9)


def dedup(n, seed):
    """Similarities of records of n / 3 things, and the set of pairs of each thing."""
    rng = Random(seed)
    thing = [rng.randrange(n // 3) for _ in range(n)]
    pairs = [*combinations(range(n), 2)]
    similar = {
        (x, y): round(rng.uniform(0.2, 1), 3) * (1 if thing[x] == thing[y] else -1)
        for x, y in pairs
    }
    return similar, [pair for pair in pairs if thing[pair[0]] == thing[pair[1]]]


@tiers("records", 60, 300)
def test_many_records_without_candidates(records):
    similar, together = dedup(records, 0)
    world = srl.World(srl.Model(RULES), "Same")
    assert world.apply(set={"Alike": similar}, add={"Near": [(0, 1)]}).certificate.certified
    (x, y), *_ = together
    step = world.apply(set={"Alike": {(x, y): -50.0}})
    assert step.certificate.certified
    assert all(world.answer()["Same"][pair] == 1.0 for pair in together if pair[0] > y)
    assert world.answer()["Same"][x, y] == 0.0
    found = world.explain(f"Same({x}, {y})")
    assert found.certified
    assert found.other.certified
    assert found.other.cost > 0


def test_too_many_violated_ground_rules_are_refused(monkeypatch):
    """The step that asks for them names the rule, and has changed nothing."""
    monkeypatch.setattr(violated_rows, "LIMITS", Limits(groundings=20))
    world = MlnWorld(parse(RULES), ["Same"], eager=0)
    world.apply({("Alike", ("a", "b")): 1.0, ("Alike", ("b", "c")): 1.0})
    before = whole(world)
    star = {("Alike", ("a", f"b{n}")): 1.0 for n in range(9)}
    with pytest.raises(DataError, match=r"violates more than 20 ground rules of .*Same"):
        world.apply(star)
    assert whole(world) == before
    assert world.apply({("Alike", ("a", "b")): -2.0})


def test_a_world_goes_on_from_a_file(tmp_path, monkeypatch):
    """Also where changes wait, and where all was ground for its probabilities."""
    monkeypatch.setitem(EAGER, "auto", 0)
    world = srl.World(srl.Model(RULES), "Same", keep_conflicts=True)
    for x, y in combinations("abcde", 2):
        world.apply(set={"Alike": {(x, y): 1.0 if x in "ab" else -1.0}})
    refused = world.apply(add={"Same": [("a", "b")]}, set={"Same": {("b", "a"): 0}})
    assert refused.conflicts
    for probable in (False, True):
        if probable:
            world.marginals()
        world.save(tmp_path / "world")
        other = srl.World.load(tmp_path / "world")
        for one in (world, other):
            one.apply(set={"Alike": {("a", "c"): -1.0}})
        assert other.answer()["Same"] == world.answer()["Same"]
        assert other.certificate == world.certificate
        assert other.conflicts == world.conflicts


def test_a_world_with_other_weights_goes_on_from_a_file(tmp_path, monkeypatch):
    """Its text has the hard rules before the soft ones."""
    monkeypatch.setitem(EAGER, "auto", 0)
    text = "n = {A, B, C}\nSame(n, n)\n%s Same(x, y)\nSame(x, y) ^ Same(y, z) => Same(x, z).\n"
    world = srl.World(srl.Model(text % "-0.5", "mln"), "Same")
    world.apply(add={"Same": [("A", "B"), ("B", "C")]})
    world.set_weights(text % "-0.25")
    world.save(tmp_path / "world")
    other = srl.World.load(tmp_path / "world")
    assert (other.certificate, other.answer()["Same"]) == (
        world.certificate,
        world.answer()["Same"],
    )


def test_probabilities_of_what_is_too_much_are_refused():
    similar, _ = dedup(120, 0)
    world = srl.World(srl.Model(RULES), "Same")
    world.apply(set={"Alike": similar}, add={"Near": [(0, 1)]})
    with pytest.raises(
        DataError, match=r"has up to 1,728,000 ground rules: probabilities need all"
    ):
        world.marginals("Same(0, 1)")
