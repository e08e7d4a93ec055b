"""Rows in several topics are linked as those of files are, however they are polled and whatever stops."""

import csv
import json
import os
import random
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
import yaml
from conftest import Job, tiers, wait

from onlinesrl.core.errors import DataError
from onlinesrl.runs.comparison.scoring import folds_of
from onlinesrl.runs.config.loading import load, section_of
from onlinesrl.stream.kafka.client import Broker
from onlinesrl.stream.kafka.config import KafkaSection
from onlinesrl.stream.kafka.linked_topics import LinkedTopics
from onlinesrl.stream.kafka.sink import KafkaSink, _Written
from onlinesrl.stream.linked_config import LinkedSection
from onlinesrl.stream.linked_source import linked_source
from onlinesrl.stream.records import Record
from onlinesrl.stream.run_folder import RunFolder
from onlinesrl.stream.source import Source, SourceContext
from onlinesrl.stream.sources.files import FileSource
from tests.support.kafka_broker import Cluster
from tests.support.kafka_streams import UNTIL_END, from_file, learned, predicted, source
from tests.support.payments import SECTION, cut, generate, linked_job, plain
from tests.support.waiting import until

pytestmark = pytest.mark.usefixtures("counting", "job")
KEYS = {
    "within": "40s",
    "rows": {"id": "id", "time": "time"},
    "labels": {"id": "id", "time": "known", "truth": {"Bad": "bad"}},
    "links": {"Same": {"by": "card", "rows": "all"}},
}


def told(records: Sequence[Record]) -> list[tuple[bytes | str, str, int]]:
    return [(str(r.fault) if r.fault else r.value, r.file, r.line) for r in records]


def drained(source: Source, room: int = 500) -> list[Record]:
    records: list[Record] = []
    while (batch := source.next_batch(room)) is not None:
        records += batch
    return records


# however they are polled ---------------------------------------------------------------------------


class Polled:
    """A reader of partitions that brokers answer as they like: some rows of some partitions at a time.

    More rows arrive with each poll. A partition is ``over`` when all have, if the run ends there.
    """

    lost, identities = 0, {"rows": "a", "labels": "b"}

    def __init__(self, rows: dict[str, list[bytes]], rng: random.Random) -> None:
        self.rows, self.rng = rows, rng
        self.ends = dict.fromkeys(rows, 0)

    def open(self, position: Any) -> None:
        self.offsets = dict.fromkeys(self.rows, 0) | (position["offsets"] if position else {})
        self.ends = {name: max(end, self.offsets[name]) for name, end in self.ends.items()}

    def polled(self, names: Sequence[str]) -> list[Record]:
        name = self.rng.choice([*self.rows])
        self.ends[name] = min(self.ends[name] + self.rng.randrange(9), len(self.rows[name]))
        records = []
        for name in names:
            start = self.offsets[name]
            end = min(self.ends[name], start + self.rng.choice([0, 1, 5, 50]))
            for n in range(start, end):
                records.append(Record(self.rows[name][n], name, n, int(name[-2]), n + 1))
            self.offsets[name] = end
        return records

    def over(self, name: str) -> bool:
        return self.offsets[name] == len(self.rows[name])

    def at_end(self, names: Sequence[str]) -> list[str]:
        return [name for name in names if self.offsets[name] == self.ends[name]]

    def close(self) -> None:
        pass


def partitions(rng: random.Random, n: int, disorder: float) -> dict[str, list[bytes]]:
    """Rows in two partitions and labels in two, each a little out of order, some at fault or far ahead."""
    rows: dict[str, list[tuple[float, bytes]]] = {}
    for k in range(n):
        at, late = (k // 2 + gap + 500 * (k % 37 == 36) for gap in (0, 7))
        row = {"id": f"r{k}", "time": at, "card": f"c{rng.randrange(3)}"}
        label = {"id": f"r{k}", "known": late, "bad": rng.random() < 0.3}
        for topic, when, value in (("rows", k // 2, row), ("labels", k // 2 + 7, label)):
            name = f"{topic}[{rng.randrange(2)}]"
            line = b"{" if rng.random() < 0.02 else json.dumps(value).encode()
            rows.setdefault(name, []).append((when + rng.uniform(0, disorder), line))
    return {name: [x for _, x in sorted(rows[name], key=lambda r: r[0])] for name in sorted(rows)}


def topics(
    rows: dict[str, list[bytes]],
    rng: random.Random,
    journal: Path | None,
    folder: RunFolder | None = None,
    **keys: Any,
) -> LinkedTopics:
    section = section_of(LinkedSection, {**KEYS, **keys}, "linked")
    return LinkedTopics(section, Polled(rows, rng), journal, folder)  # type: ignore[arg-type]


def broken(
    rows: dict[str, list[bytes]],
    rng: random.Random,
    journal: Path | None,
    folder: RunFolder,
    **keys: Any,
) -> list[Record]:
    """What comes out of a reading that is killed again and again; each goes on at its last checkpoint."""
    linked = topics(rows, rng, journal, folder, **keys)
    linked.open(None)
    records, stops = list[Record](), 0
    saved, position, state = 0, json.loads(json.dumps(linked.snapshot())), linked.state()
    while (batch := linked.next_batch(rng.choice([1, 3, 20]))) is not None:
        records += batch
        if rng.random() < 0.3:
            saved, position = len(records), json.loads(json.dumps(linked.snapshot()))
            state = linked.state()
        if rng.random() < 0.1:
            linked.close()
            again = topics(rows, rng, journal, folder, **keys)
            again.reader.ends = linked.reader.ends  # type: ignore[attr-defined]
            linked, stops = again, stops + 1
            linked.restore(state)
            linked.open(position)
            if keys.get("idle") is None:
                records = records[:saved]
                continue
            for record in records[saved:]:  # they come again, whatever has arrived meanwhile
                (same,) = told([next_of(linked)])
                assert same == told([record])[0]
    assert stops > 3
    return records


def next_of(linked: LinkedTopics) -> Record:
    while not (batch := linked.next_batch(1)):
        assert batch is not None
    return batch[0]


def from_files(folder: Path, rows: dict[str, list[bytes]], **keys: Any) -> list[Any]:
    """What comes out of a file for each partition."""
    paths = [folder / f"{name}.jsonl" for name in rows]
    for name, path in zip(rows, paths, strict=True):
        path.write_bytes(b"\n".join(rows[name]))
    section = section_of(LinkedSection, {**KEYS, **keys}, "linked")
    files = linked_source(section, [FileSource([path]) for path in paths], "utf-8")
    files.open(None)
    return [
        (value, Path(file).name.removesuffix(".jsonl"), line - 1)
        for value, file, line in told(drained(files))
    ]


@pytest.mark.parametrize("lateness", ["0s", "3s"])
@pytest.mark.parametrize("seed", range(4))
def test_rows_come_out_as_those_of_files_however_they_are_polled(tmp_path, seed, lateness):
    rng = random.Random(seed)
    rows = partitions(rng, 300, 4.0)
    expected = from_files(tmp_path, rows, lateness=lateness)
    late = sum("linked.lateness" in str(value) for value, _, _ in expected)
    assert (late > 10) == (lateness == "0s")
    assert len(expected) > 300
    with RunFolder(tmp_path / "run") as folder:
        for journal in (None, folder.order):
            assert told(broken(rows, rng, journal, folder, lateness=lateness)) == expected


@pytest.mark.parametrize("lateness", ["0s", "3s"])
@pytest.mark.parametrize("seed", range(4))
def test_which_rows_counted_later_behind_an_idle_partition_is_noted(tmp_path, seed, lateness):
    """Each partition is idle as soon as it has nothing new; killed or not, and read at once."""
    rng, journal = random.Random(seed), tmp_path / "order.jsonl"
    rows = partitions(rng, 300, 1.0)
    keys = {"lateness": lateness, "idle": "0s"}
    with RunFolder(tmp_path / "run") as folder:
        records = broken(rows, rng, journal, folder, **keys)
    late = sum("linked.lateness" in str(record.fault) for record in records)
    assert late == 0
    examples = [json.loads(record.value) for record in records if record.fault is None]
    times = [one["time"] for one in examples if "time" in one]
    assert times == sorted(times)
    assert sum(one["time"] > int(one["id"][1:]) // 2 for one in examples if "time" in one) > 10
    again = topics(rows, random.Random(99), journal, lateness=lateness)
    again.open(None)
    position = again.snapshot()
    again.close()
    again = topics(rows, random.Random(99), journal, lateness=lateness)
    again.open(position)
    assert told(drained(again)) == told(records)


def test_rows_of_one_partition_come_out_at_once_in_their_order(tmp_path):
    rng = random.Random(5)
    mixed = [row for rows in partitions(rng, 200, 4.0).values() for row in rows]
    rng.shuffle(mixed)
    rows = {"rows[0]": mixed}
    expected = from_files(tmp_path, rows, lateness="90s")
    with RunFolder(tmp_path / "run") as folder:
        assert told(broken(rows, rng, None, folder, lateness="90s")) == expected


def test_a_partition_that_is_added_counts_from_what_has_come_out():
    rng = random.Random(6)
    rows = partitions(rng, 200, 1.0)
    linked = topics(rows, rng, None, lateness="3s")
    linked.open(None)
    records = list[Record]()
    while len(records) < 50:
        records += linked.next_batch(20) or ()
    row = b'{"id": "%s", "time": %d, "card": "x"}'
    rows["rows[9]"] = [row % (b"early", 0), row % (b"late", 999)]
    linked.reader.offsets["rows[9]"] = linked.reader.ends["rows[9]"] = 0  # type: ignore[attr-defined]
    last = max(json.loads(r.value).get("time", 0) for r in records if r.fault is None)
    records += drained(linked)
    early, late = (r for r in records if r.file == "rows[9]")
    assert json.loads(early.value)["time"] >= last
    assert records[-1] == late
    assert "linked.rows.time: further ahead" in str(late.fault)

    one = topics({"rows[0]": rows["rows[0]"]}, rng, None)
    one.open(None)
    one.reader.offsets["rows[9]"] = 0
    with pytest.raises(DataError, match=r"rows\[9\] is new: rows of one partition"):
        drained(one)


def test_a_partition_with_nothing_holds_rows_back_and_is_named():
    rows = {"rows[0]": [b'{"id": "a", "time": 1, "card": "x"}'] * 2, "labels[0]": []}
    linked = topics(rows, random.Random(1), None)
    linked.reader.over = lambda name: False  # type: ignore[method-assign]
    linked.open(None)
    assert [linked.next_batch(10) for _ in range(20)] == [[]] * 20
    assert linked.complaints() == [
        "2 rows wait for later ones of labels[0] (source.linked.idle: for how long)"
    ]


def test_predictions_that_are_there_are_told_in_any_order_of_offsets():
    there = _Written([("a[0]", 7), ("a[0]", 5), ("a[1]", 3)])
    asked = [("a[0]", 7), ("a[1]", 2), ("a[0]", 5), ("a[0]", 6), ("a[1]", 4), ("a[1]", 3)]
    assert [there.take(origin) for origin in asked] == [True, True, True, False, False, False]
    assert list(there) == []


def test_what_an_attempt_has_written_takes_no_later_prediction_with_it(monkeypatch):
    """After an outage the offsets that were written are not asked again, and others may be before them."""
    sink = KafkaSink(Broker("h:1"), "t", 1.0, 1 << 20, print)
    monkeypatch.setattr("onlinesrl.stream.kafka.sink.PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(sink, "_connect", lambda: {("a[0]", 9)})
    sink._recover()
    assert not sink._there.take(("a[0]", 5))


# from brokers --------------------------------------------------------------------------------------

NAMES = ("east", "west", "labels")
PARTITIONS = {"east": 2, "west": 1, "labels": 2}


def tables(folder: Path) -> dict[tuple[str, int], list[bytes]]:
    """The rows of both tables as JSON, by topic and partition: payments of the east and the west, labels."""
    parts: dict[tuple[str, int], list[bytes]] = {}
    for file in ("transactions", "labels"):
        with (folder / f"{file}.csv").open(newline="", encoding="utf-8") as text:
            for row in csv.DictReader(text):
                second = crc32((row.get("ts") or row["label_ts"]).encode())  # its rows are in order
                name = "labels" if file == "labels" else NAMES[second % 3 == 0]
                place = name, second % 7 % PARTITIONS[name]
                parts.setdefault(place, []).append(json.dumps(row).encode())
    return parts


def fill(broker: Cluster, topic: str, parts: dict[tuple[str, int], list[bytes]]) -> list[str]:
    """Make the topics, and write them one after the other."""
    for name in NAMES:
        broker.create_topic(f"{topic}-{name}", partitions=PARTITIONS[name])
        rows = [(None, row, n) for (of, n), lines in parts.items() if of == name for row in lines]
        broker.produce(f"{topic}-{name}", rows)
    return [f"{topic}-{name}" for name in NAMES]


def of_files(folder: Path, parts: dict[tuple[str, int], list[bytes]], linked: Any) -> Job:
    """A run over the same rows in a file for each partition."""
    paths = []
    for name, n in sorted(parts, key=lambda place: (NAMES.index(place[0]), place[1])):
        paths.append(folder / f"{name}{n}.jsonl")
        paths[-1].write_bytes(b"\n".join(parts[name, n]) + b"\n")
    return linked_job(folder, "files", source={"path": [*map(str, paths)], "linked": linked})


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_examples_from_three_topics_are_those_of_a_script(broker, topic, tmp_path, seed):
    generate(tmp_path, seed, honest=1000, days=30)
    expected = [*map(plain, cut(tmp_path))]
    names = fill(broker, topic, tables(tmp_path))
    section = section_of(KafkaSection, source(broker, names, linked=SECTION), "source")
    setting = SourceContext(None, "end", lambda: False, print, [], 1 << 20, 1)
    linked = section.make(setting)
    linked.open(None)
    try:
        assert [plain(json.loads(record.value)) for record in drained(linked)] == expected
    finally:
        linked.close()


@tiers("kills", 2, 40)
def test_a_run_over_topics_that_dies_leaves_no_trace(broker, topic, tmp_path, tally, kills):
    """Predictions are in their topic once, also where rows come out of the order of their offsets."""
    generate(tmp_path, 7, honest=100, days=12)
    parts = tables(tmp_path)
    rng = random.Random(7)
    for rows in parts.values():  # within the lateness
        days = [json.loads(row) for row in rows]
        keys = [(d.get("ts", d.get("label_ts"))[:10], rng.random()) for d in days]
        rows[:] = [row for _, row in sorted(zip(keys, rows, strict=True))]
    linked = json.loads(json.dumps({**SECTION, "within": "11d", "lateness": "1d"}))
    files = of_files(tmp_path, parts, linked)
    assert files.run() == 0, files.said
    names = fill(broker, topic, parts)

    def small_flushes() -> None:
        from onlinesrl.stream.kafka import sink as kafka_sink

        kafka_sink.FLUSH_SECONDS = 0.0

    moments, killed, trial = random.Random(1), 0, 0
    while killed < kills:
        trial += 1  # it may have ended before it was killed
        out = f"{topic}-out{trial}"
        broker.create_topic(out)
        run = linked_job(
            tmp_path,
            out,
            source=source(broker, names, linked=linked),
            sink={"kind": "kafka", "topic": out},
            checkpoint={"every": 40},
        )
        killed += run.end(
            kills - killed, lambda: moments.uniform(0.0, 4.0), *UNTIL_END, first=small_flushes
        )
        assert learned(run) == learned(files)
        assert predicted(broker, out) == from_file(files)
    tally["kills"] += killed


def test_an_idle_topic_holds_rows_back_for_the_declared_time(broker, topic, tmp_path):
    """What it has later and is earlier counts from then on; also after a kill one far ahead is refused."""
    generate(tmp_path, 8, honest=30, days=12)
    parts = {place: rows for place, rows in tables(tmp_path).items() if place[0] != "labels"}
    names = fill(broker, topic, parts)
    linked = json.loads(json.dumps({**SECTION, "within": "11d", "idle": "1s"}))
    run = linked_job(tmp_path, "topics", source=source(broker, names, linked=linked))
    process = run.start("--until", "forever")
    n_rows = sum(map(len, parts.values()))
    until(lambda: count(run.output / "predictions.jsonl") == n_rows)
    last = max(
        (json.loads(row) for rows in parts.values() for row in rows), key=lambda row: row["ts"]
    )
    label = {"tx_id": last["tx_id"], "label_ts": "2026-01-03 00:00:00", "is_fraud": "0"}
    early = [(None, json.dumps(label).encode(), 1)]
    broker.produce(f"{topic}-labels", early)
    until(lambda: [f"{topic}-labels[1]", 1] in [one[::2] for one in run.lines("order.jsonl")])
    os.kill(process, signal.SIGKILL)
    wait(process)
    ahead = label | {"tx_id": "t2", "label_ts": "2026-03-01 00:00:00"}
    broker.produce(f"{topic}-labels", [(None, json.dumps(ahead).encode(), 0)])
    assert run.run(*UNTIL_END) == 0, run.said
    assert count(run.output / "predictions.jsonl") == n_rows + 1
    (letter,) = run.lines("deadletter.jsonl")
    assert letter["reason"].startswith("linked.labels.time: further ahead")
    assert run.lines("metrics.jsonl")[-1]["labelled"] == 1


def count(path: Path) -> int:
    return len(path.read_bytes().splitlines()) if path.exists() else 0


@pytest.mark.parametrize(
    ("keys", "more", "reason"),
    [
        ({"topic": ["a", "b"]}, {}, "source.topic: several are read by source.linked"),
        ({"topic": ["a"], "linked": KEYS}, {"labels": {"topic": "l"}}, "list l in source.topic"),
        ({"topic": "a", "linked": KEYS}, {"labels": None}, "labels: missing beside source.linked"),
        (
            {"topic": "a", "linked": KEYS, "registry": {"url": "http://x:1"}},
            {},
            "source.registry: rows that are linked are JSON",
        ),
        (
            {"topic": "a", "linked": KEYS},
            {"distribute": {"shards": 2}},
            "distribute: rows are linked across shards",
        ),
    ],
)
def test_a_configuration_that_cannot_be_is_refused(tmp_path, keys, more, reason):
    linked = {"kind": "kafka", "bootstrap": "localhost:1", **json.loads(json.dumps(keys))}
    run = linked_job(tmp_path, "run", source=linked, **more)
    assert run.run() == 78
    assert reason in run.said


def test_tables_that_are_replayed_to_topics_are_as_the_files(broker, topic, tmp_path):
    """For examples, evaluate and the folds of compare."""
    paths = generate(tmp_path, 9, honest=60, days=12)
    files, names = linked_job(tmp_path, "files", paths), [f"{topic}-{path.stem}" for path in paths]
    for path, name in zip(paths, names, strict=True):
        broker.create_topic(name)
        target = ["--to", "kafka", "--topic", name, "--bootstrap", broker.bootstrap]
        assert files.call("replay", path, *target) == 0, files.said
    linked = yaml.safe_load(files.config.read_text())["source"]["linked"]
    topics = linked_job(tmp_path, "topics", source=source(broker, names, linked=linked))
    assert files.run() == 0, files.said
    printed = []
    for job in (files, topics):
        assert job.call("examples", job.config) == 0, job.said
        printed.append(job.printed)
        assert job.call("evaluate", files.output, job.config) == 0, job.said
        printed.append(job.printed)
    assert printed[2:] == printed[:2]
    expected, folds = (folds_of(load(job.config), 3) for job in (files, topics))
    for one, other in zip(expected, folds, strict=True):
        assert (one.training, one.test) == (other.training, other.test)
