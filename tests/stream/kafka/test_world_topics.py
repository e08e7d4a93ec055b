"""A world that follows a topic of keyed records, and writes what changed to another one, exactly once."""

import json
import random
import time

import pytest
from conftest import tiers

from tests.support import world_changes
from tests.support.kafka_streams import UNTIL_END, keys, predicted, source
from tests.support.orders import as_avro, framed
from tests.support.schema_registry import serving


@tiers("kills", 3, 100)
@pytest.mark.parametrize("soft", [True, False])
def test_what_changed_is_written_once(broker, topic, world_run, tally, soft, kills):
    """A message of an atom that is gone is a tombstone, and a tombstone takes back what its key asserted."""
    lines = world_changes.changes(80, soft, 5)
    file = world_run(lines, soft, "file")
    assert file.run() == 0, file.said
    broker.create_topic(topic, partitions=1)
    broker.produce(topic, [message(line) for line in lines])
    run = world_run([], soft, **keys(broker, topic))
    rng, began = random.Random(0), time.monotonic()
    assert run.end(0, lambda: 0.0, *UNTIL_END) == 0
    seconds = time.monotonic() - began
    expected = [
        (f"{line['predicate']}({', '.join(line['args'])})", None if line["value"] is None else line)
        for line in file.lines("predictions.jsonl")
        if "predicate" in line
    ]
    assert written(broker, f"{topic}-out") == expected
    assert any(value is None for _, value in expected)
    attempt = killed = 0
    while killed < kills:
        attempt += 1
        again = world_run([], soft, f"again{attempt}", **keys(broker, topic, f"{topic}-{attempt}"))
        began = time.monotonic()
        deaths = again.end(kills - killed, lambda: rng.uniform(0.05, seconds), *UNTIL_END)  # noqa: B023
        if not deaths:  # the first run had more to load
            seconds = time.monotonic() - began
        killed += deaths
        assert written(broker, f"{topic}-{attempt}-out") == expected
        for name in ("metrics.jsonl", "weights.psl" if soft else "weights.mln"):
            assert (again.output / name).read_bytes() == (run.output / name).read_bytes()
    tally["kills"] += killed


ROW = {"type": "record", "name": "Row", "fields": [{"name": "a", "type": "string"}]}
ROW["fields"] += [{"name": name, "type": ["null", "string"], "default": None} for name in "bc"]
CHANGE = {"type": "record", "name": "Change", "fields": [{"name": "op", "type": "string"}]}
CHANGE["fields"] += [
    {"name": "before", "type": ["null", ROW], "default": None},
    {"name": "after", "type": ["null", "Row"], "default": None},
]
KEY = {
    "type": "record",
    "name": "Key",
    "fields": [{"name": name, "type": "string"} for name in "ab"],
}


def change(op, before=None, after=None):
    rows = [row and dict(zip("abc", row, strict=True)) for row in (before, after)]
    return {"op": op, "before": rows[0], "after": rows[1]}


def in_json(key, spelling):
    """A key as writers and converters spell it."""
    fields = dict(zip("ab", key, strict=False)) if isinstance(key, tuple) else key
    if spelling == 1 and isinstance(key, tuple):
        fields = dict(reversed(fields.items()))
    if spelling == 2:
        fields = {"schema": {"name": "two.Key"}, "payload": fields}
    return json.dumps(fields, separators=(",", ":") if spelling == 1 else None).encode()


def rows_of(broker, topic, records, world_run, name="run", **more):
    """What a run over a topic of a database's changes answers, and what it refuses."""
    broker.create_topic(topic, partitions=1)
    broker.produce(topic, [(key, value, 0) for key, value in records])
    mapping = {"evidence": {"Rates": {"arguments": ["b", "c"]}}} | more.pop("mapping", {})
    values = {"envelope": "debezium", "mapping": mapping, **more}
    run = world_run([], False, name, source=source(broker, topic, **values))
    assert run.run(*UNTIL_END) == 0, run.said
    values = {}
    for line in run.lines("predictions.jsonl"):
        if "predicate" in line:
            values[line["args"][0]] = line["value"]
    summary = json.loads((run.output / "summary.json").read_bytes())
    open_atoms = {name for name, value in values.items() if value is not None}
    return open_atoms, run.lines("deadletter.jsonl"), summary


@pytest.mark.parametrize("key", [("x",), ("x", "p"), "x", 7, ["x", 1]])
@pytest.mark.parametrize("mapped", [True, False])
def test_a_row_goes_however_its_key_is_written(broker, topic, world_run, key, mapped):
    """By an update, a deletion and a tombstone whose keys are spelled otherwise than the insertion's."""
    x, y = ("x", "p", "q"), ("x", "p", "r")
    records = []
    for spelling in range(3):
        for other in range(3):
            records += [(in_json(key, spelling), json.dumps(change("c", None, x)).encode())]
            records += [(in_json(key, other), json.dumps(change("u", x, y)).encode())]
            gone = json.dumps(change("d", y)).encode() if (spelling + other) % 2 else None
            records += [(in_json(key, spelling), gone)]
    more = {"mapping": {"id": "a"}} if mapped else {}
    values, letters, summary = rows_of(broker, topic, records, world_run, **more)
    assert (values, letters, summary["facts"]) == (set(), [], 0)


def test_keys_of_a_registry_are_what_they_say(broker, topic, world_run):
    """Whatever the number of their schema; a key that no schema fits is bad."""
    with serving() as registry:
        numbers = registry.add(KEY), registry.add({**KEY, "doc": "again"})
        value = registry.add(CHANGE)

        def key(n):
            return framed(numbers[n], as_avro({"a": "x", "b": "p"}, KEY))

        def written(*parts):
            return framed(value, as_avro(change(*parts), CHANGE))

        x, y = ("x", "p", "q"), ("x", "p", "r")
        records = [(key(0), written("c", None, x)), (key(1), written("u", x, y))]
        records += [(b"plain", written("c", None, ("z", "s", "t")))]
        records += [(b"\0\0\0\0\x63abc", written("c", None, ("w", "u", "v")))]
        last = [(key(0), written("d", y))], [(key(0), None)]
        for number, gone in enumerate(last):
            values, letters, summary = rows_of(
                broker,
                f"{topic}-{number}",
                records + gone,
                world_run,
                f"run{number}",
                registry={"url": registry.url},
            )
            assert (values, summary["facts"]) == ({"s", "t"}, 1)
            assert [letter["reason"][:16] for letter in letters] == ["key: schema 99: "]


@pytest.mark.parametrize("mapped", [True, False])
def test_a_truncation_takes_back_all_rows_and_a_message_none(broker, topic, world_run, mapped):
    rows = {n: (f"k{n}", f"a{n}", f"b{n}") for n in range(4)}
    records = [
        (json.dumps({"a": row[0]}).encode(), json.dumps(change("c", None, row)).encode())
        for row in rows.values()
    ]
    records.append((None, json.dumps({"add": {"Rates": [["single", "fact"]]}}).encode()))
    records.insert(2, (None, json.dumps({"op": "m", "message": {"prefix": "p"}}).encode()))
    records.insert(4, (None, json.dumps({"payload": change("t")}).encode()))
    more = {"mapping": {"id": "a"}} if mapped else {}
    values, letters, summary = rows_of(broker, topic, records, world_run, **more)
    assert values == {"a3", "b3"}
    assert ["add" in letter["text"] for letter in letters] == [True]
    assert summary["tombstones"] == 1


def test_rows_without_keys_go_by_the_id_of_the_mapping(broker, topic, world_run):
    """Where there is none, or it changes, or the row before is not there, that is said."""
    x, y, z = ("x", "p", "q"), ("x", "p", "r"), ("z", "p", "r")
    key = json.dumps({"a": "x"}).encode()
    steps = [change("c", None, x), change("u", x, y), change("d", y)]
    records = [(None, json.dumps(step).encode()) for step in steps]
    records += [(key, records[0][1]), records[2], (None, b'{"op": "d", "before": null}')]
    records += [(None, json.dumps(step).encode()) for step in (steps[0], change("u", x, z))]
    values, letters, summary = rows_of(broker, topic, records, world_run, mapping={"id": "a"})
    assert (values, summary["facts"]) == ({"p", "q"}, 1)
    assert [letter["line"] for letter in letters] == [5, 7]
    assert "without a key: expected one of the message" in letters[0]["reason"]
    assert "makes row x to row z" in letters[1]["reason"]
    values, letters, summary = rows_of(broker, f"{topic}-2", records[:3], world_run, "placed")
    assert [letter["line"] for letter in letters] == [1, 2]


def test_a_row_that_leaves_the_chosen_groups_goes(broker, topic, world_run):
    rows = [("x", "p", "q"), ("y", "r", "q"), ("x", "s", "t")]
    records = [(r[0].encode(), json.dumps(change("c", None, r)).encode()) for r in rows]
    mapping = {"id": "a", "group": "c"}
    values, _, summary = rows_of(broker, topic, records, world_run, mapping=mapping, only=["q"])
    assert (values, summary["facts"]) == ({"r", "q"}, 1)
    truncation = None, json.dumps(change("t")).encode()
    lasts = ((b"y", None), {"p", "q"}), (truncation, set())
    for number, (last, left) in enumerate(lasts):
        values, _, summary = rows_of(
            broker,
            f"{topic}-{number}",
            [*records[:2], last],
            world_run,
            str(number),
            mapping=mapping,
            only=["q"],
        )
        assert (values, summary["facts"]) == (left, len(left) // 2)


def message(line):
    """The record of a change: its key is that of the facts, and what takes them back has no value."""
    key = line.get("id")
    if key is None or "add" in line:
        return None, json.dumps(line).encode(), 0
    value = {name: part for name, part in line.items() if name != "id"}
    return key.encode(), json.dumps(value).encode() if value else None, 0


def written(broker, topic):
    """The keys and values of a topic, each once, in order."""
    predicted(broker, topic)
    return [
        (record.key.decode(), None if record.value is None else json.loads(record.value))
        for record in broker.read_all(topic)
    ]
