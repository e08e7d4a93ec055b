"""A world of records is, after any history, a new world with the same facts, and says why."""

import math
import random

import numpy as np
import pytest
from conftest import soaked

import onlinesrl as srl
from onlinesrl.core.errors import DataError, ExampleError, Infeasible, Unsolved
from onlinesrl.core.explain.explanation import ExplanationError
from onlinesrl.core.io.restoring import Misfit
from onlinesrl.core.rule_instance import PlacedWeight
from onlinesrl.entities.config import EntitiesSection
from onlinesrl.entities.world import RecordSchema
from onlinesrl.logic.transactional_world import TransactionalWorld
from onlinesrl.mln.language import LANGUAGE

RULES = """A(record, record, level)
B(record, record, level)
Pair(record, record)
Same(record, record)
-0.4 Same(x, y)
1.3 A(x, y, Exact) ^ Same(x, y)
-0.9 A(x, y, Other) ^ Same(x, y)
0.9 B(x, y, Exact) ^ Same(x, y)
-1.1 B(x, y, Other) ^ Same(x, y)
Same(x, y) ^ Same(y, z) => Same(x, z).
Pair(y, z) ^ Same(x, y) ^ Same(x, z) => Same(y, z).
Pair(x, y) ^ Same(x, z) ^ Same(y, z) => Same(x, y).
"""


def section(**keys) -> EntitiesSection:
    values = {"block": ["key", "b"], "compare": {"a": "exact", "b": "exact"}, **keys}
    return EntitiesSection.model_validate(values)


def world(rules: str = RULES, **keys) -> TransactionalWorld:
    return TransactionalWorld(section(**keys).world(LANGUAGE.parse(rules, "rules.mln", "alchemy")))


def row(record: str, **values: str) -> dict[tuple[str, tuple[str, str]], float]:
    return {(column, (record, value)): 1.0 for column, value in values.items()}


def drawn(rng: random.Random, record: str, columns) -> dict[tuple[str, tuple[str, str]], float]:
    columns = {c: rng.choice("xyz") for c in columns if rng.random() < 0.9}
    return row(record, **columns) or row(record, a="x")


def entities(world) -> dict[str, str]:
    return {record: entity for (_, (record, entity)), _ in world.values()}


def same(world, other) -> None:
    assert [*world.values()] == [*other.values()]
    assert world.facts() == other.facts()
    assert world.certificate == other.certificate
    assert world.resolver.labels == other.resolver.labels
    for record in world.resolver.places:
        assert world.resolver.membership(record) == other.resolver.membership(record)


class Cut(BaseException):
    """Ends a step anywhere."""


@pytest.mark.parametrize("seed", [*range(6), *map(soaked, range(6, 200))])
def test_after_any_history_it_is_a_new_world(seed: int, monkeypatch) -> None:
    """Corrections, withdrawals, labels before their records, refusals, and steps that are cut off."""
    rng, names = random.Random(seed), [f"r{n}" for n in range(9)]
    keys = {"one_to_one": "source"} if seed % 2 else {}
    lived, arrived, told = world(**keys), list[str](), dict[str, str]()
    refused, weights = 0, list[PlacedWeight]()
    for step in range(60):
        if step % 20 == 9:
            weights = [PlacedWeight(n, (), rng.uniform(-2, 2)) for n in range(5)]
            reported(lived.set_weights(weights), told)
        record, action = rng.choice(names), rng.random()
        before = {x: v for x, v in lived.facts().items() if x[0] != "Same" and x[1][0] == record}
        pair = "Same", (*sorted(rng.sample(names, 2)),)
        new = drawn(rng, record, lived.resolver.columns) if action < 0.55 else {}
        changes = {pair: rng.choice([0.0, 1.0, None])}
        if action < 0.8:
            changes = dict.fromkeys(before, None) | new
        facts, cut = lived.facts(), step % 7 == 3
        try:
            if cut:
                with monkeypatch.context() as patch:
                    patch.setattr(type(lived.resolver), "_regroup", lambda *_: cut_off())
                    with pytest.raises(Cut):
                        lived.apply(changes)
                assert lived.facts() == facts
                continue
            with lived.transaction():
                changed = lived.apply(changes)
                if step % 5 == 0:
                    lived.apply(dict.fromkeys(lived.facts(), None))
                    raise Unsolved("what followed is refused")
        except (Infeasible, Unsolved):
            refused += 1
            assert lived.facts() == facts
            continue
        reported(changed, told)
        assert told == entities(lived)
        if action < 0.8:
            arrived = [name for name in arrived if name != record or new]
            arrived += [record] if new and record not in arrived else []
    assert refused and arrived
    cold = world(**keys)
    cold.set_weights(weights)
    cold.apply({x: v for x, v in lived.facts().items() if x[0] == "Same"})
    for name in arrived:
        cold.apply({x: v for x, v in lived.facts().items() if x[0] != "Same" and x[1][0] == name})
    same(lived, cold)
    resumed = world(**keys)
    resumed.set_weights(weights)
    resumed.resume(*lived.save())
    same(lived, resumed)
    changes = row("new", a="x", b="x", key="x")
    assert lived.apply(changes) == resumed.apply(changes) == cold.apply(changes)


def reported(changed, told: dict[str, str]) -> None:
    """Bring the entities up to date."""
    for (_, (name, entity)), (_, now) in changed.items():
        if now is None:
            assert told.pop(name) == entity
    told |= {name: entity for (_, (name, entity)), (_, now) in changed.items() if now}


def cut_off() -> None:
    raise Cut


def test_places_that_do_not_fit_are_damage() -> None:
    with pytest.raises(Misfit, match="there are 1 records, and places for 2"):
        world().resume(row("q", a="x"), {"places": np.array([1, 2])})


def test_a_label_waits_for_its_records_and_a_conflict_is_named() -> None:
    lived, label = world(), {("Same", ("p", "q")): 1.0, ("Same", ("q", "r")): 1.0}
    assert lived.apply(label) == {}
    assert lived.apply(row("q", a="x")) == {("Entity", ("q", "q")): (None, 1.0)}
    lived.apply(row("p", a="y"))
    lived.apply(row("r", a="z"))
    assert entities(lived) == {"p": "q", "q": "q", "r": "q"}
    with pytest.raises(Infeasible, match=r"the facts !Same\(p, r\); Same\(p, q\); Same\(q, r\)"):
        lived.apply({("Same", ("p", "r")): 0.0})
    gone = dict.fromkeys(row("q", a="x"))
    assert lived.apply(gone)["Entity", ("r", "r")] == (None, 1.0)
    lived.apply({("Same", ("p", "r")): 0.0})
    with pytest.raises(Infeasible):
        lived.apply(row("q", a="x"))


def test_a_record_has_one_value_of_a_column_and_without_a_key_is_alone() -> None:
    lived = world()
    lived.apply(row("q", a="x"))
    lived.apply(row("r", a="x"))
    assert entities(lived) == {"q": "q", "r": "r"}
    assert (lived.resolver.number, lived.resolver.keyless) == (2, 2)
    with pytest.raises(DataError, match="record 'q' has two values of a, 'x' and 'y'"):
        lived.apply(row("q", a="y"))


def test_the_probability_of_an_entity_is_that_given_all_others() -> None:
    lived = world(RULES.replace("-1.1 B", "-0.7 B"), one_to_one="source")
    values = {"p": "xx", "q": "xx", "r": "xz", "s": "xy", "t": "xx"}
    for n, (record, (a, b)) in enumerate(values.items()):
        lived.apply(row(record, a=a, b=b, key="k", source=str(n % 4)))
    lived.apply({("Same", ("p", "q")): 1.0})
    groups = entities(lived)

    def odds(m: str, n: str) -> float:
        if {m, n} == {"p", "t"}:
            return -math.inf
        (a, b), (c, d) = values[m], values[n]
        return -0.4 + (1.3 if a == c else -0.9) + (0.9 if b == d else -0.7)

    for record in "rst":
        others = {e: [m for m in groups if groups[m] == e and m != record] for e in groups}
        scores = [sum(odds(m, record) for m in members) for members in others.values() if members]
        own = sum(odds(m, record) for m in others[groups[record]])
        total = math.exp(0) + sum(map(math.exp, scores))
        expected = math.exp(own) / total
        assert lived.resolver.membership(record).probability == pytest.approx(expected)
    assert lived.resolver.membership("q").probability == 1.0
    assert lived.resolver.membership("q").nearest == "p"
    assert lived.resolver.membership("r").levels == {"a": "Exact", "b": "Other"}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("Pair(y, z) ^ Same", "Pair(x, z) ^ Same"), r"7 is Pair\(x, z\).*, expected Pair\(y, z\)"),
        (("1.3 A(x, y, Exact)", "1.3 A(x, y, Near)"), r"2 is A\(x, y, Near\)"),
        (("-1.1 B(x, y, Other) ^ Same(x, y)\n", ""), r"5 is Same.*, expected B\(x, y, Other\)"),
        (("Same(x, z).\n", "Same(x, z).\n1 Same(x, y)\n"), r"7 is Same\(x, y\), expected Pair"),
        (("Pair(x, y) ^ Same(x, z) ^ Same(y, z) => Same(x, y).\n", ""), "8 is none, expected Pair"),
        (
            ("=> Same(x, z).", "=> Same(x, z)"),
            r"6 is Same.*z\) without a weight, .* Same\(x, z\)\.",
        ),
        (
            ("Same(x, y) ^ Same(y, z) => Same(x, z).", "2 Same(x, y) ^ Same(y, z) => Same(x, z)"),
            "6",
        ),
        (
            ("1.3 A(x, y, Exact) ^ Same(x, y)", "A(x, y, Exact) ^ Same(x, y)."),
            r"2 is .* Same\(x, y\)\.",
        ),
    ],
)
def test_another_model_is_refused(change: tuple[str, str], says: str) -> None:
    """Rules have their order, by which weights are told."""
    with pytest.raises(srl.UsageError, match=f"people.mln: rule {says}"):
        section().world(LANGUAGE.parse(RULES.replace(*change), "people.mln", "alchemy"))


def test_a_label_has_two_records_in_any_order() -> None:
    schema: RecordSchema = section().facts()
    assert [*schema.rows({"Same": [["r2", 1]]}, "truth")] == [("Same", ["1", "r2"], None)]
    with pytest.raises(DataError, match="truth: Same has 'r2' twice, expected two"):
        [*schema.rows({"Same": [["r2", "r2"]]}, "truth")]


@pytest.mark.parametrize("name", ["Same", "Entity"])
@pytest.mark.parametrize("key", ["block", "one_to_one"])
def test_no_column_has_the_name_of_a_predicate(name: str, key: str) -> None:
    with pytest.raises(ValueError, match=f"the column {name} has the name of a predicate"):
        section(**{key: [name] if key == "block" else name})


def test_no_pair_of_records_is_asked_for() -> None:
    schema = section().facts()
    for part in ("add", "set", "evidence", "truth"):
        schema.check_change(part, ("Same", ("p", "q")), 1.0, None)
    with pytest.raises(
        ExampleError, match=r"query: Same\(p, q\): all pairs .* leave `query` out"
    ) as found:
        schema.check_change("query", ("Same", ("p", "q")), None, None)
    assert found.value.kind == "not_open"


def test_what_has_no_explanation_is_said() -> None:
    lived = world(one_to_one="source")
    for record in "pq":
        lived.apply(row(record, a="x", b="x", source="s"))
    for name, records, says in [
        ("Same", ("p",), r"Same\(p\) is not in the answer"),
        ("Same", ("p", "q", "r"), "is not in the answer"),
        ("Entity", ("q", "p"), r"Entity\(q, p\) is not in the answer: 'q' is of the entity 'q'"),
        ("Entity", ("q", "z"), "is not in the answer: there is no record 'z'"),
        ("Same", ("z", "p"), "is not in the answer: there is no record 'z'"),
        ("a", ("p", "x"), "is not in the answer"),
        ("Same", ("p", "p"), r"Same\(p, p\) is not in the answer"),
        ("Same", ("q", "p"), "both have the source 's'"),
    ]:
        with pytest.raises(ExplanationError, match=says):
            lived.explain((name, records))
    lived.apply(row("t", a="x", b="x", source="t"))  # joins both, of which it can have one
    with pytest.raises(ExplanationError, match="both have the source 's'"):
        lived.explain(("Same", ("q", "p")))


def test_a_link_by_a_label_alone_has_no_levels() -> None:
    lived = world()
    lived.apply(row("p", a="x") | row("q", b="x") | {("Same", ("p", "q")): 1.0})
    assert "p - q: a label; -0.400 = -0.400\n" in f"{lived.explain(('Entity', ('q', 'p')))}\n"
