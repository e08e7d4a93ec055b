"""Counts of any size are exact, in parts of any size; what does not fit memory is refused."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import onlinesrl as srl
from onlinesrl.core.errors import ModelError
from onlinesrl.core.example import GroundAtom
from onlinesrl.mln.counting import exact, factors, ijgp
from onlinesrl.mln.counting.exact import counter
from onlinesrl.mln.counting.program_counts import Counters
from onlinesrl.mln.counting.world import Table, World, world_of
from onlinesrl.mln.lang import reader
from onlinesrl.mln.learning.pseudo_likelihood import changes
from tests.support import counting_by_definition

PLACES = {"P": ("t",), "Q": ("t", "u")}
ENTITIES = reader.parse(
    """HasAuthor(bib, author)
Coauthor(author, author)
SameBib(bib, bib)
HasAuthor(d, a) ^ HasAuthor(d, b) => Coauthor(a, b)
SameBib(a, b) ^ SameBib(b, c) => SameBib(a, c)
SameBib(a, b) ^ HasAuthor(a, c) => HasAuthor(b, c)
""",
    "er.mln",
)


def entities(size, seed=0):
    """A world with ``size`` constants of each type, and three true atoms for each."""
    rng = np.random.default_rng(seed)
    domains = {t: (*map(str, range(size)),) for t in ("bib", "author")}
    tables = {
        name: Table(np.unique(rng.integers(0, size, (3 * size, 2)), axis=0), each.types)
        for name, each in ENTITIES.predicates.items()
    }
    return World(domains, tables)


def test_counts_of_1e12_groundings_equal_those_of_sets():
    world = entities(10_000)
    authors: dict[int, list[int]] = {}
    for document, author in world.tables["HasAuthor"].rows.tolist():
        authors.setdefault(document, []).append(author)
    known = {*map(tuple, world.tables["Coauthor"].rows.tolist())}
    broken = sum((a, b) not in known for of in authors.values() for a in of for b in of)
    first = next(Counters(ENTITIES).listed(world))
    assert first.groundings == 10**12
    assert first.violated == broken


@settings(settings.get_profile("few"))
@given(counting_by_definition.formulas(), counting_by_definition.worlds())
def test_joins_in_small_parts_with_long_keys_and_both_kinds_of_numbers(formula, world):
    types = counting_by_definition.typed(formula)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(factors, "CHUNK", 2)
        patch.setattr(factors, "_FITS", 8)
        patch.setattr(exact, "_FITS", 4)
        assert counter(formula, types).count(world) == counting_by_definition.brute(formula, world)


def test_groundings_beyond_64_bits():
    program = reader.parse("R(p, q, r, s, t)\nR(a, b, c, d, e) v R(f, b, c, d, e)")
    size = 10_000
    domains = {t: (*map(str, range(size)),) for t in "pqrst"}
    world = World(domains, {"R": Table(np.zeros((1, 5), np.int64), (*"pqrst",))})
    (count,) = Counters(program).listed(world)
    assert count.groundings == 10**24
    assert count.satisfied == 2 * size - 1


MANY = " v ".join(f"!S(x{n})" for n in range(19))


@pytest.mark.parametrize(
    ("rule", "true", "satisfied"),
    [
        (MANY, [1], [10**19 - 1]),
        (MANY, [], [10**19]),
        (MANY, [1, 2], [10**19 - 2**19]),
        (f"{MANY} v !S(+y)", [1, 2], [10**19 - 2**19] * 2 + [10**19] * 8),
        (f"{MANY} v S(+y)", [1], [10**19] + [10**19 - 1] * 9),
        (MANY.replace("!", "").replace(" v ", " ^ "), [*range(1, 11)], [10**19]),
    ],
)
def test_sums_of_terms_within_and_beyond_64_bits(rule, true, satisfied):
    found = srl.count("d = {1, ..., 10}\nS(d)\n1 " + rule, {"S": true})
    assert [each.satisfied for each in found] == satisfied
    assert {each.groundings for each in found} == {10**19}


def test_flips_beyond_64_bits():
    program = reader.parse(
        "d = {1, ..., 10000}\nS(d)\nT(d)\nS(x) ^ !T(y) ^ !T(z) ^ !T(u) ^ !T(v) ^ !T(w)"
    )
    found = changes(program, world_of(program, [GroundAtom("T", ("1",), True, 0)]), ["S"])
    assert found.rows.toarray()[0, 0] == pytest.approx(9_999**5, rel=1e-15)
    assert found.number.tolist() == [10_000, 0]


def test_a_table_that_changes_is_counted_anew_and_the_others_are_not_sorted_again():
    world, counters = entities(50), Counters(ENTITIES)
    before = [each.satisfied for each in counters.listed(world)]
    rows = world.tables["SameBib"].rows
    fewer = world.changed({"SameBib": rows[:-7]})
    assert fewer.tables["HasAuthor"] is world.tables["HasAuthor"]
    after = [each.satisfied for each in counters.listed(fewer)]
    assert after[0] == before[0]
    assert after[1:] != before[1:]
    again = fewer.changed({"SameBib": rows})
    assert [each.satisfied for each in counters.listed(again)] == before


def test_an_i_bound_that_does_not_fit_is_refused_before_anything_is_counted(monkeypatch):
    monkeypatch.setattr(ijgp.Network, "solutions", lambda *_: pytest.fail("it counts"))
    with pytest.raises(ModelError) as refused:
        Counters(ENTITIES, "ijgp", 3).counts(entities(1000))
    assert str(refused.value).startswith(
        "er.mln:4:1: this rule cannot be counted: with an i-bound of 3"
    )
    assert "1e+09 cells" in str(refused.value)
    assert refused.value.hint == "take an i-bound of 2, or exact counts"


def test_a_join_that_does_not_fit_is_refused(monkeypatch):
    monkeypatch.setattr(factors, "MAX_ROWS", 100)
    monkeypatch.setattr(factors, "CHUNK", 50)
    program = reader.parse(
        "R(p, q)\nS(p, q)\nR(a, b) ^ R(c, b) ^ S(a, d) ^ S(c, d) => R(a, d)", "w.mln"
    )
    world = World(
        {t: (*map(str, range(40)),) for t in "pq"},
        {name: Table(np.argwhere(np.ones((40, 40))), ("p", "q")) for name in "RS"},
    )
    with pytest.raises(ModelError, match=r"w.mln:3:1: .* has more than 100 rows") as refused:
        Counters(program).counts(world)
    assert refused.value.hint == "estimate it: --method ijgp --i-bound 2"


def test_an_existential_that_may_hold_of_too_many(monkeypatch):
    monkeypatch.setattr("onlinesrl.mln.counting.exact.MAX_ROWS", 8)
    program = reader.parse("F(person, person)\nP(person)\nP(x) v (EXIST y (!F(x, y) ^ !F(z, y)))")
    domains = {"person": ("A", "B", "C")}
    tables = {
        n: Table(np.zeros((0, k), np.int64), ("person",) * k) for n, k in (("F", 2), ("P", 1))
    }
    with pytest.raises(ModelError, match="a part of it may hold of more than 8 values of person"):
        Counters(program).counts(World(domains, tables))


def test_an_estimate_is_not_that_of_messages_that_happen_to_be_disjoint():
    """Ten rounds on this graph of few edges end with 3.2e6 cycles of none (all are proven away later)."""
    rng = np.random.default_rng(0)
    table = Table(np.argwhere(rng.random((20, 20)) < 0.05), ("person", "person"))
    program = reader.parse("F(person, person)\n!F(x, y) v !F(y, z) v !F(z, w) v !F(w, x)")
    world = World({"person": (*map(str, range(20)),)}, {"F": table})
    (exact,), (found,) = (Counters(program, *of).listed(world) for of in (("exact",), ("ijgp", 1)))
    assert exact.violated <= found.violated + 20
    assert found.violated < 100


@pytest.mark.parametrize("method", [("exact",), ("ijgp", 2)], ids=["exact", "ijgp"])
@pytest.mark.parametrize(
    "rule", ["P(x) ^ Q(x, y)", "P(x) v Q(x, y)", "EXIST x Q(x, y)", "!Q(z, y)"]
)
def test_types_without_constants_have_no_groundings(rule: str, method: Any) -> None:
    program = reader.parse(f"P(t)\nQ(t, u)\n1 {rule}")
    tables = {name: Table(np.zeros((0, len(of)), np.int64), of) for name, of in PLACES.items()}
    tables["P"] = Table(np.array([[0]]), ("t",))
    [found] = Counters(program, *method).listed(World({"t": ("A",), "u": ()}, tables))
    assert (found.satisfied, found.violated) == (0, 0)
