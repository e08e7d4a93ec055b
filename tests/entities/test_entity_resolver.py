"""Entities against enumeration, and after any history those of a new resolver."""

import doctest
import gc
import random
import re
import sys
from contextlib import suppress
from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest
from conftest import soaked, tiers

import onlinesrl as srl
from onlinesrl.core.errors import Infeasible, Unsolved
from onlinesrl.entities import resolver as module
from onlinesrl.entities.comparisons import KINDS, NULL, Comparison, agreement, agreements, text_of
from onlinesrl.entities.fellegi_sunter import UNKNOWN, LevelWeights, estimate, level_counts
from tests.support.interrupts import cut_off

BLOCK = ["letter", ["town", "year"]]
COMPARE = {"name": "jaro_winkler", "town": "exact", "year": "edits", "street": "words"}
NAMES = ["Anna Berg", "Ana Berg", "Anna Bergh", "Anton Berg", "Bruno Carl", "Bruno Karl"]
STREETS = ["Hofgasse 12", "12 Hofgasse", "Seestrasse 9", "Seeweg 9", None]


def rows(n: int, rng: random.Random) -> dict[str, dict[str, str | None]]:
    table = {}
    for number in range(n):
        name = rng.choice(NAMES)
        table[f"r{number}"] = {
            "name": name,
            "letter": name[0],
            "town": rng.choice(["Bern", "Basel", None]),
            "year": rng.choice(["1970", "1971", "1985"]),
            "street": rng.choice(STREETS),
            "source": rng.choice(["x", "y"]),
        }
    return table


def twins(n: int) -> tuple[dict[str, dict[str, str | None]], list[tuple[str, str]]]:
    """Records and their twins, in which each column may have another value; and which are twins."""
    rng = random.Random(0)
    table = {name: {**row, "source": None} for name, row in rows(n, random.Random(0)).items()}
    second = {
        f"{name}b": {
            column: value if value is None or rng.random() < 0.8 else other[column]
            for column, value in row.items()
        }
        for (name, row), other in zip(table.items(), rows(n, rng).values(), strict=True)
    }
    return table | second, [(name, f"{name}b") for name in table]


def fitted(**options: str) -> srl.EntityResolver:
    table, same = twins(60)
    return srl.EntityResolver(BLOCK, COMPARE, **options).fit(table, same=same)


def groupings(records: list[str]) -> list[list[list[str]]]:
    """All ways to divide records."""
    if not records:
        return [[]]
    result = []
    for rest in groupings(records[1:]):
        result.append([[records[0]], *rest])
        for n in range(len(rest)):
            result.append([*rest[:n], [records[0], *rest[n]], *rest[n + 1 :]])
    return result


def test_the_example_of_the_class() -> None:
    assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize("seed", range(12))
def test_the_entities_are_the_best_of_all_groupings(seed: int) -> None:
    rng = random.Random(seed)
    one_to_one = {"one_to_one": "source"} if seed % 2 else {}
    resolver, table = fitted(**one_to_one), rows(7, rng)
    change = resolver.add(table)
    weights = resolver._weights

    def score(a: str, b: str) -> float:
        """A pair's log-odds, also where it shares no key; a source has no two of one entity."""
        first, second = ({c: text_of(x) for c, x in table[name].items()} for name in (a, b))
        comparisons = [Comparison.of(column, spec) for column, spec in COMPARE.items()]
        if one_to_one and first["source"] == second["source"]:
            return -np.inf
        return weights.log_odds(agreement(comparisons, first, second))

    def total(grouping: list[list[str]]) -> float:
        return sum(score(*pair) for group in grouping for pair in combinations(group, 2))

    best = max(map(total, groupings(sorted(table))))
    assert change.certified
    assert len(resolver.entities()) < len(table)
    assert total([*resolver.entities().values()]) == pytest.approx(best, abs=1e-9)
    assert change.moved == {name: (None, resolver.entity(name)) for name in table}


@pytest.mark.parametrize("seed", range(8))
def test_records_that_neither_share_a_key_nor_hang_together_are_of_two_entities(seed: int) -> None:
    """The weights are such that many pairs without a common key would speak for one entity."""
    rng, columns = random.Random(seed), {"a": "exact", "b": "exact", "c": "exact"}
    table = {
        f"r{n}": {column: str(rng.randint(0, 1)) for column in columns}
        | {key: str(rng.randint(0, 3)) for key in ("k", "l")}
        for n in range(7)
    }
    resolver = srl.EntityResolver(["k", "l"], columns)
    resolver._begin(
        LevelWeights(-0.9, np.array([[0, 1.6, -1.5], [0, 1.3, -1.0], [0, 1.2, -0.6]])),
        np.zeros((3, 3)),
    )
    assert resolver.add(table).certified

    def log_odds(a: str, b: str) -> float:
        first, second = table[a], table[b]
        level = [[1 if first[column] == second[column] else 2 for column in columns]]
        return float(resolver._weights.score(np.array(level))[0])

    def share(a: str, b: str) -> bool:
        return any(table[a][key] == table[b][key] for key in ("k", "l"))

    together = {name: {name} for name in table}
    for a, b in combinations(table, 2):
        if share(a, b) and log_odds(a, b) > 0 and together[a] is not together[b]:
            both = together[a] | together[b]
            together |= dict.fromkeys(both, both)

    def total(grouping: list[list[str]]) -> float:
        pairs = [pair for group in grouping for pair in combinations(group, 2)]
        if any(not share(a, b) and b not in together[a] for a, b in pairs):
            return -np.inf
        return sum(log_odds(*pair) for pair in pairs)

    best = max(map(total, groupings([*table])))
    assert total([*resolver.entities().values()]) == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize("seed", [*range(6), *map(soaked, range(6, 100))])
def test_after_any_history_the_answer_is_that_of_a_new_resolver(seed: int, tmp_path) -> None:
    rng, table = random.Random(seed), rows(30, random.Random(seed))
    resolver = fitted(**({"one_to_one": "source"} if seed % 2 else {}))
    present, labels = dict[str, dict[str, str | None]](), dict[tuple[str, str], bool]()
    entity = dict[str, str]()
    for _ in range(60):
        name, action = rng.choice([*table]), rng.random()
        if action < 0.6 or len(present) < 3:
            row = {**table[name], "street": rng.choice(STREETS)}
            change, present[name] = resolver.add({name: row}), row
        elif action < 0.8 and name in present:
            change = resolver.remove(name)
            del present[name]
            labels = {pair: x for pair, x in labels.items() if name not in pair}
        else:
            pair = (*sorted(rng.sample([*present], 2)),)
            same = rng.choice([True, False, None])
            try:
                change = resolver.label(*pair, same)
            except Infeasible:
                continue
            labels.pop(pair, None)
            if same is not None:
                labels[pair] = same
        for record, (old, new) in change.moved.items():
            assert entity.pop(record, None) == old
            if new is not None:
                entity[record] = new
        assert entity == {x: name for name, group in resolver.entities().items() for x in group}
    cold = fitted(**({"one_to_one": "source"} if seed % 2 else {}))
    cold.add({name: present[name] for name in resolver.places})
    for (a, b), same in labels.items():
        cold.label(a, b, same)
    assert cold.entities() == resolver.entities()
    assert cold.certificate == resolver.certificate
    resolver.save(tmp_path / "entities")
    assert srl.EntityResolver.load(tmp_path / "entities").entities() == cold.entities()


def test_pairs_that_hang_together_teach_as_candidates_do() -> None:
    """Of three records the first and the last may share no key; both are of one source."""
    rng, table = random.Random(0), {}
    for n in range(24):
        street = f"Hofgasse {n}"
        for part in "abc":
            row = {
                "name": f"{NAMES[n % 6]} {n}",
                "street": rng.choice([street, street, "Seeweg 9"]),
            }
            row |= {"all": n, "source": "y" if part == "b" else "x"}
            row |= {"first": n, "last": n} if n % 3 else {"first": None, "last": None}
            table[f"{n}{part}"] = row | {
                key: n for key, parts in (("first", "ab"), ("last", "bc")) if part in parts
            }
    compare = {"name": "jaro_winkler", "street": "words"}
    few = srl.EntityResolver(["first", "last"], compare).fit(table)
    many = srl.EntityResolver(["all"], compare).fit(table)
    assert few.rules == many.rules
    few.add(table)
    few.learn()
    assert few.rules == many.rules
    assert len(few.entities()) == 24
    apart = srl.EntityResolver(["first", "last"], compare, one_to_one="source").fit(table)
    told = many.fit(table, different=[(f"{n}a", f"{n}c") for n in range(24)])
    weights = [
        [*map(float, re.findall(r"-?\d+\.\d+", x.rules))] for x in (apart, told)
    ]  # pairs of one source teach as pairs of two
    assert weights[0] == pytest.approx(weights[1], abs=1e-6)


@pytest.mark.parametrize("seed", [0, 87, 146])
def test_what_was_learned_from_the_records_of_fit_is_what_fit_estimated(seed: int) -> None:
    """Which records hang together depends on how often others agree, and they are no others then."""
    rng, table = random.Random(seed), {}
    for n in range(40):
        copied = rng.choice([*table.values()]) if n % 2 else {}
        row = {column: rng.choice("abcdefgh") for column in "abcd"}
        row |= {key: str(rng.randrange(14)) for key in "kl"}
        kept = {column: x for column, x in copied.items() if rng.random() < 0.75}
        table[f"r{n}"] = row | kept
    resolver = srl.EntityResolver(["k", "l"], dict.fromkeys("abcd", "exact")).fit(table)
    before = resolver.rules
    resolver.add(table)
    assert not resolver.learn().moved
    assert resolver.rules == before


def test_labels_teach_the_weights_that_fit_would_have() -> None:
    table, same = twins(15)
    shared = [(a, b) for a, b in same if table[a]["letter"] == table[b]["letter"]]
    resolver = srl.EntityResolver(BLOCK, COMPARE).fit(table)
    before = resolver.rules
    resolver.add(table)
    resolver.add({}, same=shared)
    resolver.learn()
    cold = srl.EntityResolver(BLOCK, COMPARE).fit(table, same=shared)
    assert resolver.rules == cold.rules != before
    for pair in shared:
        resolver.label(*pair, None)
    cold.add(table)
    assert resolver.entities() == cold.entities()
    resolver.learn()
    assert resolver.rules == before


@pytest.mark.parametrize("seed", [*range(3), *map(soaked, range(3, 50))])
def test_after_any_history_that_teaches_the_answer_is_that_of_a_new_resolver(
    seed: int, tmp_path
) -> None:
    rng, (table, same) = random.Random(seed), twins(15)
    resolver, names = fitted(), [*table]
    resolver.add(table)
    for step in range(20):
        name, pair = rng.choice(names), rng.choice(same)
        if step % 10 == 9:
            resolver.learn()
        elif step % 3 == 0:
            resolver.remove(name)
            resolver.add({name: table[name]})
        elif step % 3 == 1:
            resolver.add({name: {**table[name], "street": rng.choice(STREETS)}})
            resolver.add({name: table[name]})
        else:
            resolver.label(*pair, rng.choice([True, None]))
    cold, number = fitted(), resolver.places
    labels = [pair for pair in same if number[pair[1]] in resolver._label.get(number[pair[0]], ())]
    cold.add({name: table[name] for name in number}, same=labels)
    resolver.save(tmp_path / "entities")
    for other in (cold, srl.EntityResolver.load(tmp_path / "entities")):
        other.learn()
        resolver.learn()
        assert other.rules == resolver.rules
        assert other.entities() == resolver.entities()
        assert other.certificate == resolver.certificate


def test_what_cannot_be_learned_changes_nothing(monkeypatch) -> None:
    resolver, (table, _) = fitted(), twins(15)
    resolver.add(table)
    before, rules = resolver.entities(), resolver.rules

    def refuse(*_: object) -> None:
        raise Unsolved("no time")

    with monkeypatch.context() as patch:
        patch.setattr(module, "best_partition", refuse)
        with pytest.raises(Unsolved):
            resolver.learn()
    assert (resolver.entities(), resolver.rules) == (before, rules)
    assert not resolver.add(table).moved
    resolver.learn()
    assert resolver.rules != rules


def values(text: str) -> dict[str, str | None]:
    return {column: x if x != "-" else None for column, x in zip("klab", text, strict=True)}


ROWS = ("11xx", "12xy", "21yx", "--xx")
STEPS = [
    lambda x: x.add({n: values(row) for n, row in zip("pqrs", ROWS, strict=True)}),
    lambda x: x.add({"t": values("22xy"), "q": values("11xx")}, same=[("t", "s")]),
    lambda x: x.add({"u": values("1-yy")}, different=[("u", "p"), ("p", "q")]),
    lambda x: x.label("s", "u", True),
    lambda x: x.label("t", "u", False),
    lambda x: x.weigh({0: 0.5, 1: 0.7, 2: -2, 3: 1.2, 4: -0.3}),
    lambda x: x.remove("p", "s"),
    lambda x: x.add({f"v{n}": values("12xx") for n in range(6)}),
    lambda x: x.change({"r": None, "w": values("12xx")}, {("u", "q"): 1.0}),
    lambda x: x.learn(),
]


def do(step, resolver: srl.EntityResolver) -> None:
    """Make a step, which may be refused."""
    with suppress(srl.DataError, Infeasible):
        step(resolver)


def lived(steps) -> srl.EntityResolver:
    """A resolver after steps."""
    resolver = srl.EntityResolver(["k", "l"], dict.fromkeys("ab", "exact"), largest=5)
    resolver.weigh({0: -0.5, 1: 1.3, 2: -0.9, 3: 0.9, 4: -1.1})
    for step in steps:
        do(step, resolver)
    return resolver


def state(resolver: srl.EntityResolver) -> tuple[object, ...]:
    """All that a resolver answers."""
    places = sorted(resolver.places.items())
    figures = resolver.number, resolver.keyless, resolver.candidates, resolver.touched
    answers = resolver.entities(), resolver.labels, resolver.certificate, resolver.rules
    sure = [(resolver.membership(name), resolver.together(name)) for name, _ in places]
    return figures, answers, sure, resolver.records, places


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # closed generators
@tiers("places", 6, 1_600)
def test_a_step_that_is_cut_off_anywhere_has_changed_nothing(places: int) -> None:
    """Also one that is refused, while it is taken back; the step then does what it does in another."""
    rng, ended, tried = random.Random(places), 0, 0
    resolver, plain = lived([]), lived([])
    for number, step in enumerate(STEPS):
        after = lived(STEPS[:number])
        total = cut_off(do, (step, after))
        for place in rng.sample(range(1, total), min(places, total - 1)):
            cut_off(do, (step, resolver), place)
            tried += 1
            if state(resolver) != state(plain):
                assert state(resolver) == state(after)
                ended += 1
                resolver = lived(STEPS[:number])
        for lives in (resolver, plain):
            do(step, lives)
            assert state(lives) == state(after)
    assert ended < tried / 2


def test_the_end_of_an_interrupt_takes_nothing_back_later() -> None:
    """Its frames live on for a while, as in an interactive session; other steps come between."""
    first, second, third = STEPS[:3]
    total = cut_off(do, (second, lived([first])))
    for place in range(total - 40, total):
        resolver = lived([first])
        cut_off(do, (second, resolver), place)
        do(third, resolver)
        before = state(resolver)
        del sys.last_value
        gc.collect()
        assert state(resolver) == before


def test_a_record_is_not_removed_and_labelled_in_one_step() -> None:
    resolver = lived(STEPS[:1])
    before = state(resolver)
    for label in (1.0, None):
        with pytest.raises(srl.DataError, match="record 'p' is removed and labelled in one step"):
            resolver.change({"p": None}, {("q", "p"): label})
    assert state(resolver) == before


def test_a_pair_has_one_label_which_is_1_or_0() -> None:
    resolver = lived(STEPS[:1])
    before = state(resolver)
    for label in (0.5, float("nan"), -1.0):
        with pytest.raises(srl.DataError, match="expected 1, 0 or None"):
            resolver.change({}, {("q", "p"): label})
    for one, other in ((1.0, 0.0), (1.0, None)):
        with pytest.raises(srl.DataError, match="has two labels, expected one"):
            resolver.change({}, {("q", "p"): one, ("p", "q"): other})
    assert state(resolver) == before
    resolver.change({}, {("q", "p"): 1.0, ("p", "q"): 1.0})
    assert resolver.labels == {("p", "q"): 1.0}


def test_weights_are_finite() -> None:
    resolver = lived(STEPS[:1])
    before = state(resolver)
    for wrong in (float("inf"), float("nan")):
        with pytest.raises(srl.DataError, match="expected finite numbers"):
            resolver.weigh({0: 1.0, 2: wrong})
    assert state(resolver) == before


def test_labels_contradict_each_other_or_join_what_shares_no_key() -> None:
    resolver = fitted()
    names = ["Anna Berg", "Bruno Carl", "Carla Diaz"]
    table = {
        n[0]: {**rows(1, random.Random(1))["r0"], "name": n, "letter": n[0], "town": None}
        for n in names
    }
    resolver.add(table)
    assert resolver.entities() == {"A": ["A"], "B": ["B"], "C": ["C"]}
    assert resolver.label("A", "B", True).moved == {"B": ("B", "A")}
    assert resolver.label("C", "B", True).moved == {"C": ("C", "A")}
    before = resolver.entities()
    with pytest.raises(Infeasible, match="Same"):
        resolver.label("A", "C", False)
    assert resolver.entities() == before
    assert resolver.probability("A", "B") == 1.0
    assert resolver.remove("A").moved == {"A": ("A", None), "B": ("A", "B"), "C": ("A", "B")}
    assert resolver.label("C", "B", None).moved == {"C": ("B", "C")}
    assert resolver.probability("C", "B") == 0.0


def test_a_link_has_a_probability_and_reasons() -> None:
    table = rows(40, random.Random(0))
    twins = {f"{name}b": {**row, "street": "Seeweg 10"} for name, row in table.items()}
    resolver = srl.EntityResolver(BLOCK, COMPARE)
    resolver.fit(table | twins, same=[(name, f"{name}b") for name in table])
    row = table["r0"]
    resolver.add({"a": row, "b": {**row, "street": "Seeweg 10"}})
    assert resolver.entities() == {"a": ["a", "b"]}
    first, second = row, {**row, "street": "Seeweg 10"}
    comparisons = [Comparison.of(column, spec) for column, spec in COMPARE.items()]
    score = resolver._weights.log_odds(agreement(comparisons, first, second))
    assert resolver.probability("b", "a") == pytest.approx(1 / (1 + np.exp(-score)))
    assert "Same(a, b)" in str(resolver.explain("a", "b"))


def test_weights_are_those_of_shares_where_everything_is_labelled() -> None:
    rng = np.random.default_rng(0)
    candidates, others = rng.integers(0, 3, (500, 2)), rng.integers(0, 3, (800, 2))
    label = rng.integers(0, 2, 500).astype(float)
    of_others = 10 * level_counts(others, np.ones(800), [3, 3])
    weights = estimate(candidates, label, np.ones(500), of_others, [3, 3])
    assert weights.pair == pytest.approx(np.log((label.sum() + 0.5) / (8_500 - label.sum() + 0.5)))
    for c, level in product(range(2), (1, 2)):
        m = ((candidates[:, c] == level) @ label + 0.5) / ((candidates[:, c] > NULL) @ label + 1)
        two = (candidates[:, c] == level) @ (1 - label) + 10 * (others[:, c] == level).sum()
        u = (two + 0.5) / (
            (candidates[:, c] > NULL) @ (1 - label) + 10 * (others[:, c] > NULL).sum() + 1
        )
        assert weights.level[c, level] == pytest.approx(np.log(m / u))
    assert not weights.level[:, NULL].any()


def test_em_finds_the_shares_that_pairs_were_drawn_with() -> None:
    """Candidates agree in the first column or the second, as do nearly all pairs of one entity."""
    rng, m, u = (
        np.random.default_rng(1),
        np.array([0.95, 0.9, 0.8, 0.7]),
        np.array([0.1, 0.05, 0.3, 0.2]),
    )
    same = rng.random(100_000) < 0.05
    table = np.where(rng.random((100_000, 4)) < np.where(same[:, None], m, u), 1, 2)
    candidate = (table[:, :2] == 1).any(axis=1)
    candidates, others = table[candidate], table[~candidate]
    patterns, count = np.unique(candidates, axis=0, return_counts=True)
    half, sizes = others[: len(others) // 2], [3] * 4
    of_others = level_counts(half, np.full(len(half), len(others) / len(half)), sizes)
    weights = estimate(patterns, np.full(len(patterns), UNKNOWN), count, of_others, sizes)
    assert weights.pair == pytest.approx(np.log(0.05 / 0.95), abs=0.1)
    assert weights.level[:, 1] == pytest.approx(np.log(m / u), abs=0.1)


def test_a_record_is_compared_with_many_as_with_each() -> None:
    """In either order: a step does not know which one came first."""
    rng = random.Random(0)
    table = [
        {kind: "".join(rng.choices("ab c", k=rng.randrange(1, 9))) for kind in KINDS}
        | {rng.choice([*KINDS]): None}
        for _ in range(200)
    ]
    comparisons = [Comparison.of(kind, kind) for kind in KINDS]
    levels = set[bytes]()
    for row in table:
        of_row = agreements(comparisons, row, table)
        assert of_row == [agreement(comparisons, row, other) for other in table]
        assert of_row == [agreement(comparisons, other, row) for other in table]
        levels.update(of_row)
    assert len({level for of_pair in levels for level in of_pair}) == 6
    assert agreements(comparisons, table[0], []) == []


def test_levels_of_values() -> None:
    name = Comparison.of("name", "jaro_winkler")
    assert name.levels == ("Exact", "Over92", "Over80", "Over70", "Other")
    assert [name.level("Martha", x) for x in (None, "Martha", "Marhta", "Mirtha", "Berg")] == [
        0,
        1,
        2,
        3,
        5,
    ]
    year = Comparison.of("year", {"edits": [1, 2]})
    assert year.levels == ("Exact", "Within1", "Within2", "Other")
    assert [year.level("1970", x) for x in ("1970", "1971", "1907", "1985", "2085")] == [
        1,
        2,
        2,
        3,
        4,
    ]
    assert Comparison.of("street", "words").level("Hofgasse 12", "12 Hofgasse") == 2
    title = Comparison.of("title", "word_set")
    texts = ("a new bound", "on a new bound", "bound of a", "old")
    assert [title.level("a new bound", text) for text in texts] == [1, 2, 3, 5]
    assert Comparison.of("town", "exact").levels == ("Exact", "Other")
    assert [text_of(x) for x in (None, float("nan"), " ", 3, " a ")] == [None, None, None, "3", "a"]
    assert [text_of(x) for x in (pd.NA, pd.NaT, np.float32("nan"), "NaT")] == [None] * 3 + ["NaT"]


def test_a_full_block_is_refused_before_anything_is_compared() -> None:
    resolver = srl.EntityResolver(["town"], COMPARE, largest=3).fit(rows(3, random.Random(0)))
    table = {name: {**row, "town": "Bern"} for name, row in rows(5, random.Random(0)).items()}
    resolver.add({name: table[name] for name in ("r0", "r1", "r2")})
    before = resolver.entities()
    with pytest.raises(srl.DataError, match=r"the block town = 'Bern' has 3 records"):
        resolver.add({name: table[name] for name in ("r3", "r0", "r4")})
    assert resolver.entities() == before
    resolver.remove("r1")
    resolver.add({"r4": table["r4"]})


@pytest.mark.parametrize(
    ("block", "compare", "says"),
    [
        ([], COMPARE, "block is"),
        ([[]], COMPARE, "block is"),
        (BLOCK, {}, "compare has no column"),
        (BLOCK, {"name": "soundex"}, "expected one of " + ", ".join(KINDS)),
        (BLOCK, {"name": {"jaro_winkler": [0.8, 0.9]}}, "the most alike first"),
        ("letter", COMPARE, "block is 'letter', expected a list of keys"),
        ([""], COMPARE, "block is"),
        ([3], COMPARE, "block is"),
        (BLOCK, {"name": None}, "compare.name is None"),
        (BLOCK, {"name": {"jaro_winkler": [0.9], "edits": [1]}}, "expected one of"),
        (BLOCK, {"name": {"jaro_winkler": 0.9}}, "thresholds are 0.9, expected similarities"),
        (BLOCK, {"name": {"words": [90]}}, "expected similarities above 0"),
        (BLOCK, {"name": {"words": [0.9000001, 0.9]}}, "none twice"),
        (BLOCK, {"year": {"edits": [0.5]}}, "expected whole numbers"),
        (BLOCK, {"town": {"exact": [1]}}, "expected none"),
        (BLOCK, {"a b": "exact", "a_b": "exact"}, "not distinct"),
    ],
)
def test_what_does_not_fit_is_said(block, compare, says: str) -> None:
    with pytest.raises(srl.UsageError, match=says):
        srl.EntityResolver(block, compare)


def test_records_that_do_not_fit_are_said() -> None:
    resolver, table = srl.EntityResolver(BLOCK, COMPARE), rows(9, random.Random(0))
    with pytest.raises(srl.NotFittedError, match="call fit first"):
        resolver.add(table)
    resolver.fit(table)
    with pytest.raises(srl.DataError, match="record 'x' has no column street"):
        resolver.add({"x": {"name": "Anna", "letter": "A", "town": "Bern", "year": "1970"}})
    with pytest.raises(srl.DataError, match="there is no record 'x'"):
        resolver.remove("x")
    with pytest.raises(srl.DataError, match="one record"):
        resolver.add(table) and resolver.label("r0", "r0", True)
    with pytest.raises(srl.UsageError, match="fit comes before add"):
        resolver.fit(table)
    before = resolver.entities()
    with pytest.raises(srl.DataError, match="the id of a record is 1, expected text"):
        resolver.add({1: table["r0"]})
    with pytest.raises(srl.DataError, match="expected its values by column"):
        resolver.add({"x": ["Anna"]})
    with pytest.raises(srl.DataError, match="'r0' is None, expected its values by column"):
        resolver.add({"r0": None})
    with pytest.raises(srl.DataError, match="expected a mapping of ids to values by column"):
        resolver.add([table["r0"]])
    for pair in ("r0", ("r0",), ("r0", "r1", "r2")):
        with pytest.raises(srl.DataError, match="is in same or different, expected two ids"):
            resolver.add(table, same=[pair])
    with pytest.raises(srl.UsageError, match="same is nan, expected True, False or None"):
        resolver.label("r0", "r1", float("nan"))
    assert resolver.entities() == before


def test_an_extra_that_is_not_installed_is_said(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "rapidfuzz", None)
    assert srl.EntityResolver(BLOCK, {"name": "exact"}).fit(rows(3, random.Random(0)))
    with pytest.raises(
        srl.UsageError, match=r"compare.name: edits needs .* 'onlinesrl\[entities\]'"
    ):
        srl.EntityResolver(BLOCK, {"name": "edits"})


def test_pairs_for_fit_that_do_not_fit_are_said() -> None:
    resolver, table = srl.EntityResolver(BLOCK, COMPARE), rows(9, random.Random(0))
    with pytest.raises(srl.NotFittedError, match="call fit first"):
        print(resolver.rules)
    with pytest.raises(srl.DataError, match="one record"):
        resolver.fit(table, same=[("r0", "r0")])
    with pytest.raises(srl.DataError, match="'r1' and 'r0' are both in same and in different"):
        resolver.fit(table, same=[("r0", "r1")], different=[("r1", "r0")])
    resolver.fit(table)
    with pytest.raises(srl.DataError, match="'r1' and 'r0' are both in same and in different"):
        resolver.add(table, same=[("r0", "r1")], different=[("r1", "r0")])
    assert resolver.entities() == {}


def test_a_record_that_is_named_twice_is_removed_once() -> None:
    resolver, table = fitted(), rows(9, random.Random(0))
    resolver.add(table)
    assert resolver.remove("r0", "r0").moved["r0"][1] is None
    with pytest.raises(srl.DataError, match="there is no record 'r0'"):
        resolver.entity("r0")
    cold = fitted()
    cold.add({name: row for name, row in table.items() if name != "r0"})
    assert resolver.entities() == cold.entities()


def test_other_values_may_contradict_labels_and_are_refused() -> None:
    resolver, row = fitted(one_to_one="source"), rows(1, random.Random(0))["r0"]
    records = {name: {**row, "source": name} for name in "abc"}
    resolver.add(records)
    resolver.label("a", "c", True)
    resolver.label("b", "c", True)
    before = resolver.entities()
    with pytest.raises(Infeasible, match="Same"):
        resolver.add({"b": records["a"], "d": row})
    assert resolver.entities() == before
    resolver.add({"d": row})
    resolver.label("b", "c", None)
    resolver.add({"b": records["a"]})
    assert resolver.entity("b") == "b"


def test_a_saved_resolver_is_loaded_in_one_step(tmp_path, monkeypatch) -> None:
    """Without their labels many records that are alike would be one wide component."""
    resolver, row = fitted(), rows(1, random.Random(0))["r0"]
    for n in range(5):
        resolver.add({f"r{n}": row})
        for m in range(n):
            resolver.label(f"r{m}", f"r{n}", False)
    resolver.save(tmp_path / "entities")
    monkeypatch.setattr(module, "WIDEST", 1)
    loaded = srl.EntityResolver.load(tmp_path / "entities")
    assert loaded.entities() == resolver.entities() == {f"r{n}": [f"r{n}"] for n in range(5)}


def test_records_that_share_no_key_are_of_one_entity_only_where_others_join_them() -> None:
    table = rows(40, random.Random(0))
    twins = {f"{name}b": row for name, row in table.items()}
    resolver = srl.EntityResolver(BLOCK, COMPARE)
    resolver.fit(table | twins, same=[(name, f"{name}b") for name in table])
    row = table["r0"] | {"town": "Bern", "letter": "A"}
    resolver.add({"a": row, "c": row | {"letter": "B", "year": "1971"}})
    assert resolver.entities() == {"a": ["a"], "c": ["c"]}
    with pytest.raises(srl.ExplanationError, match="nothing joins them"):
        resolver.explain("a", "c")
    resolver.add({"b": row | {"letter": "A", "year": "1971"}})
    assert resolver.entities() == {"a": ["a", "c", "b"]}
    assert resolver.remove("b").moved == {"b": ("a", None), "c": ("a", "c")}


@pytest.mark.parametrize("column", ["exist", "FORALL", "1st", "a b"])
def test_a_column_may_have_any_name(column: str) -> None:
    table = {name: {**row, column: row["town"]} for name, row in rows(9, random.Random(0)).items()}
    resolver = srl.EntityResolver(BLOCK, {column: "exact", "name": "edits"}).fit(table)
    assert resolver.add(table).certified


def test_records_of_which_too_many_hang_together_are_refused(monkeypatch) -> None:
    """Whether one more comes, a label joins two components, or other weights do."""
    monkeypatch.setattr("onlinesrl.entities.resolver.WIDEST", 4)
    resolver = srl.EntityResolver(["k"], {"n": "exact"})
    resolver.weigh({0: -1.0, 1: 2.0, 2: -2.0})
    table = {f"r{i}": {"n": "xy"[i // 4], "k": 1} for i in range(5)}
    resolver.add(table)
    before = resolver.entities(), resolver.rules, {**resolver.places}
    for step in (
        lambda: resolver.add({"r5": table["r0"]}),
        lambda: resolver.label("r3", "r4", True),
        lambda: resolver.weigh({0: 1.0}),
    ):
        with pytest.raises(
            srl.DataError, match=r"5 records hang together with 'r0', and no more than 4"
        ):
            step()
        assert (resolver.entities(), resolver.rules, resolver.places) == before
    assert resolver.add({"r5": table["r4"]}).moved == {"r5": (None, "r4")}


def without(names: set[str], records, labels) -> srl.EntityResolver:
    """A new resolver with all records but these."""
    cold = fitted()
    cold.add({name: row for name, row in records.items() if name not in names})
    for (a, b), same in labels.items():
        if not names & {a, b}:
            cold.label(a, b, same)
    return cold


@pytest.mark.parametrize("seed", [*range(2), *map(soaked, range(2, 50))])
def test_what_splits_an_entity_is_what_new_resolvers_without_records_say(seed: int) -> None:
    """Also where a label holds two records together, and what is tried leaves the resolver as it is."""
    rng, resolver = random.Random(seed), fitted()
    records = rows(12, rng)
    resolver.add(records)
    labels = {("r0", "r1"): True, ("r2", "r3"): False}
    for pair, same in labels.items():
        resolver.label(*pair, same)
    before = resolver.entities(), resolver.labels, resolver.certificate
    tried = {name: without({name}, records, labels).entities() for name in records}
    for name, of_entity in before[0].items():
        explained = resolver.explain(rng.choice(of_entity))
        assert explained.records == (*of_entity,)
        assert explained.untried == 0 and explained.certified
        parts = {
            other: [tuple(r for r in group if r in of_entity) for group in groups.values()]
            for other, groups in tried.items()
        }
        splits = {
            other: {*filter(None, groups)}
            for other, groups in parts.items()
            if len([*filter(None, groups)]) > 1
        }
        assert {x.without: {*x.entities} for x in explained.splits} == splits
        assert {x.a for x in explained.links} | {x.b for x in explained.links} | {name} == {
            *of_entity
        }
    assert (resolver.entities(), resolver.labels, resolver.certificate) == before


def test_two_records_are_of_one_entity_because_of_others() -> None:
    """The fewest records without which they are of two, against enumeration."""
    resolver, columns = srl.EntityResolver(["k"], {"a": "exact", "b": "exact"}), "abk"
    resolver.weigh({0: -1.0, 1: 7.0, 2: -1.5, 3: 7.0, 4: -1.5})
    values = {"p": "xxk", "q": "yyk", "r": "xyk", "s": "xyk", "t": "zzk"}
    records = {name: dict(zip(columns, row, strict=True)) for name, row in values.items()}
    resolver.add(records)
    assert resolver.entities() == {"p": ["p", "q", "r", "s"], "t": ["t"]}
    flip = resolver.explain("q", "p").flip
    assert flip is not None and flip.complete

    def together(gone: set[str]) -> bool:
        cold = srl.EntityResolver(["k"], {"a": "exact", "b": "exact"})
        cold.weigh({0: -1.0, 1: 7.0, 2: -1.5, 3: 7.0, 4: -1.5})
        cold.add({name: row for name, row in records.items() if name not in gone})
        return cold.entity("p") == cold.entity("q")

    sets = [{*gone} for size in range(3) for gone in combinations("rs", size)]
    fewest = min((gone for gone in sets if not together(gone)), key=len)
    assert {name for name, _ in flip.change} == fewest and flip.becomes == "false"
    assert "without r, without s it would be false (of 2 records that could matter" in str(
        resolver.explain("p", "q")
    )
    resolver.remove("s")
    assert "without r: p | q" in str(resolver.explain("r")).splitlines()[-2]
    with pytest.raises(srl.ExplanationError, match=r"nothing join.*a Other -1.500, b Other -1.500"):
        resolver.explain("p", "t")


def test_trials_end_and_say_how_many_records_are_left(monkeypatch) -> None:
    monkeypatch.setattr("onlinesrl.entities.explanation.MOST_PAIRS", 6)
    resolver = srl.EntityResolver(["k"], {"a": "exact"})
    resolver.weigh({0: -1.0, 1: 3.0, 2: -1.5})
    resolver.add({name: {"a": "x", "k": 1} for name in "pqrs"})
    explained = resolver.explain("p")
    assert (explained.untried, explained.splits) == (3, ())
    assert "3 other records" in str(explained)
    flip = resolver.explain("p", "q").flip
    assert flip is not None and (flip.complete, flip.excluded, flip.tried) == (False, 0, 1)


def test_a_block_of_a_million_pairs_is_refused_before_anything_is_compared(monkeypatch) -> None:
    def compared(*_: object) -> bytes:
        raise AssertionError("a pair was compared")

    monkeypatch.setattr(module, "agreement", compared)
    resolver = srl.EntityResolver(["k", "n"], {"n": "exact"})
    table = {f"r{n}": {"n": str(n), "k": "Bern"} for n in range(1_415)}
    reason = r"the block k = 'Bern' has 1,000 records, and none has more than 1,000: choose a key"
    with pytest.raises(srl.DataError, match=reason):
        resolver.fit(table)
    resolver.weigh({0: -1.0})
    with pytest.raises(srl.DataError, match=reason):
        resolver.add(table)
    assert resolver.entities() == {} and resolver.keyless == 0


@pytest.mark.parametrize("value", [["Anna"], {"first": "Anna"}, b"Anna", np.array(["Anna"])])
def test_a_value_that_cannot_be_compared_is_said_with_its_record_and_column(value) -> None:
    resolver = srl.EntityResolver(["k"], {"name": "exact"})
    resolver.weigh({0: -1.0})
    resolver.add({"p": {"k": 1, "name": None}})
    with pytest.raises(srl.DataError, match=r"record 'q': the value of name is .*, expected text"):
        resolver.add({"p": {"k": 1, "name": "Anna"}, "q": {"k": 1, "name": value}})
    assert resolver.records == {"p": {"k": "1", "name": None}}


def test_an_explanation_says_that_its_answers_are_not_proven(monkeypatch) -> None:
    unproven = "not all of these answers are proven to be the best: a search ended early"
    rng = random.Random(2)
    table = {
        f"r{n}": {"k": "1", **{column: rng.choice("xyz") for column in "abc"}} for n in range(14)
    }
    for work, proven in ((module.MOST_WORK, True), (1, False)):
        monkeypatch.setattr(module, "MOST_WORK", work)
        resolver = srl.EntityResolver(["k"], dict.fromkeys("abc", "exact"))
        resolver.weigh({0: -0.2, 1: 1.1, 2: -0.9, 3: 1.0, 4: -1.21, 5: 0.8, 6: -1.07})
        assert resolver.add(table).certified is proven
        explanation = resolver.explain("r0")
        assert explanation.certified is proven
        assert (unproven in str(explanation)) is not proven
        pair = resolver.explain("r0", explanation.links[0].b)
        assert pair.certified is proven
        assert ("this answer is not proven to be the best" in str(pair)) is not proven


def test_a_conflict_says_which_of_its_facts_nobody_stated() -> None:
    resolver = srl.EntityResolver(["k"], {"a": "exact"}, one_to_one="source")
    resolver.weigh({0: -1.0})
    sources = {"p": "shop", "q": "club", "r": "shop"}
    resolver.add({n: {"a": "x", "k": 1, "source": source} for n, source in sources.items()})
    resolver.label("p", "q", True)
    implied = r"!Same\(p, r\) since both have the source 'shop' \(one_to_one\)"
    with pytest.raises(Infeasible, match=implied):
        resolver.label("q", "r", True)
    resolver.label("p", "r", False)
    with pytest.raises(Infeasible, match=r"!Same\(p, r\)") as stated:
        resolver.label("q", "r", True)
    assert "one_to_one" not in str(stated.value)
