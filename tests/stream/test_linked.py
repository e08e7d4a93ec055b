"""Rows become linked examples as a plain script cuts them, whatever stops in between."""

import json
import random
import shutil
import statistics
from datetime import UTC, datetime, timedelta, timezone

import pytest
from conftest import Job, soaked, tiers
from hypothesis import given
from hypothesis import strategies as st

import onlinesrl as srl
from onlinesrl.core.errors import ConfigError, StorageError
from onlinesrl.runs.config.loading import section_of
from onlinesrl.stream.checkpoints import save
from onlinesrl.stream.linked_config import LinkedSection
from onlinesrl.stream.linked_source import linked_source
from onlinesrl.stream.run_folder import RunFolder, part_of, parts
from onlinesrl.stream.sources.files import FileSource
from tests.support.payments import MODEL, SECTION, cut, generate, plain

MINIMAL = {
    "within": "10d",
    "rows": {"id": "id", "time": "time"},
    "labels": {"id": "id", "time": "known", "truth": {"Bad": "bad"}},
}


def source_of(paths, live=False, folder=None, **keys):
    section = section_of(LinkedSection, {**MINIMAL, **keys}, "linked")
    files = [FileSource([path], live=live) for path in paths]
    return linked_source(section, files, "utf-8", folder)


def drained(source, room=500):
    """The records up to the end, or up to where there are no more for now."""
    records = []
    while (batch := source.next_batch(room)) is not None and (batch or not source.live):
        records += batch
    return records


def read(paths, **keys):
    source = source_of(paths, **keys)
    source.open(None)
    return drained(source)


def values(records):
    return [str(record.fault) if record.fault else json.loads(record.value) for record in records]


def tables(folder, **rows):
    paths = []
    for name, text in rows.items():
        paths.append(folder / f"{name}.csv")
        paths[-1].write_text(text.replace(" ", "\n") + "\n")
    return paths


@pytest.mark.parametrize("seed", [1, 2, soaked(3)])
def test_examples_are_those_of_a_script_that_knows_all_rows(tmp_path, seed):
    paths = generate(tmp_path, seed, honest=1200, days=30)
    expected = [*map(plain, cut(tmp_path))]
    assert [*map(plain, values(read(paths, **SECTION)))] == expected
    assert [*map(plain, values(read(paths[::-1], **SECTION)))] == expected


def test_rows_out_of_order_within_the_lateness_change_nothing(tmp_path):
    """Also where the file's rows of a time keep their order."""
    paths = generate(tmp_path, 4, honest=600, days=10)
    expected = [*map(plain, cut(tmp_path))]
    for path in paths:
        head, *rows = path.read_text().splitlines()
        times = {row: row.split(",")[1] for row in rows}
        days = {row: time[5:10] + str(random.Random(time).random()) for row, time in times.items()}
        path.write_text("\n".join([head, *sorted(rows, key=lambda row: days[row])]) + "\n")
    assert [*map(plain, values(read(paths, **SECTION, lateness="2d")))] == expected


@pytest.mark.parametrize("lateness", ["0s", "3d"])
def test_a_source_that_goes_on_elsewhere_gives_the_same_bytes(tmp_path, lateness, monkeypatch):
    """Also where rows have times far ahead."""
    paths = generate(tmp_path, 5, honest=500, days=20)
    for path in paths:
        lines = path.read_text().splitlines()
        for n in (3, 200, 400, -1):
            lines[n] = lines[n].replace(",2026-", ",2062-")
        path.write_text("\n".join(lines) + "\n")
    keys = {**SECTION, "lateness": lateness, "within": "12d"}
    whole = read(paths, **keys)
    assert sum("further ahead of all" in str(record.fault) for record in whole) == 8
    assert sum(record.fault is not None for record in whole) == 8 + ("z" in lateness)
    expected = [record.value for record in whole]
    monkeypatch.setattr("onlinesrl.stream.linked_journal.PART_BYTES", 10_000)
    folder = RunFolder(tmp_path / "run")
    rng, source = random.Random(5), source_of(paths, folder=folder, **keys)
    source.open(None)
    records, stops = [], 0
    while (batch := source.next_batch(rng.choice([1, 3, 100, 500]))) is not None:
        records += batch
        if rng.random() < 0.6:
            position, state = json.loads(json.dumps(source.snapshot())), source.state()
            stops += 1
            save(folder.checkpoints, stops, {}, state, keep=1)
            source.committed(position, stops)
            if rng.random() < 0.5:  # what comes after a checkpoint is lost
                source.next_batch(rng.choice([1, 300]))
            source.close()
            source = source_of(paths, folder=folder, **keys)
            source.restore(state)
            source.open(position)
    assert [record.value for record in records] == expected
    assert stops > 10
    assert part_of(parts(folder.linked)[0]) > 0  # what no checkpoint needs was removed


def test_a_position_before_a_row_has_the_state_before_it(tmp_path):
    """A run that refuses a row notes the position first, and saves the state after it has read the row."""
    paths = generate(tmp_path, 6, honest=200, days=20)
    expected = [record.value for record in read(paths, **SECTION)]
    folder = RunFolder(tmp_path / "run")
    source = source_of(paths, folder=folder, **SECTION)
    source.open(None)
    records = list(source.next_batch(100))
    position = source.snapshot()
    source.next_batch(1)
    state = source.state()
    source.close()
    again = source_of(paths, folder=folder, **SECTION)
    again.restore(state)
    again.open(position)
    assert [record.value for record in [*records, *drained(again)]] == expected


def test_rows_and_labels_of_one_file_count_in_their_order(tmp_path):
    """From the time of the latest row on; and no label makes a row late, or is late."""
    lines = [
        {"id": "a", "time": 10, "card": "x"},
        {"id": "a", "known": 50, "bad": 1},
        {"id": "b", "time": 9, "card": "x"},
        {"id": "b", "known": 1, "bad": 0},
        {"id": "c", "time": 6, "card": "x"},
        {"id": "d", "time": 12, "card": "x"},
    ]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    keys = {"by": "card", "measure": "since", "transform": "log1p"}
    since = {"row": keys, "bad": keys | {"rows": "labelled", "age": "label"}}
    _, _, b, _, c, d = values(read([path], lateness="2s", numbers={"Number": since}))
    assert (b["time"], b["evidence"]) == (10, {})
    assert c.startswith("linked.rows.time: 2 s earlier")
    assert d["evidence"]["Number"] == [{"args": ["d", "row"], "value": 1.099}]


@pytest.mark.parametrize(
    ("rows", "good", "refused"),
    [
        ("a,1,x b,9e8,x c,3,x", "ac", "b"),  # one row alone
        ("a,1,x b,2000000,x c,2000001,x", "abc", ""),  # a pause
        ("a,1,x b,2000000,x c,9e8,x d,2000002,x", "abd", "c"),  # one after a pause
        ("a,1,x b,2000000,x c,4000000,x d,6000000,x", "abc", "d"),  # nothing follows the last
        ("a,1,x b,9e8,x", "a", "b"),
    ],
)
def test_a_time_far_ahead_is_believed_if_the_next_row_says_the_same(tmp_path, rows, good, refused):
    """Whether of a row or a label; it makes no other late."""
    labels = " ".join(",".join([row[0], row.split(",")[1], "1"]) for row in rows.split())
    paths = tables(tmp_path, rows=f"{HEAD}{rows}", labels=f"{KNOWN}{labels}")
    records = values(read(paths))
    examples = [one for one in records if isinstance(one, dict)]
    assert [one["id"] for one in examples] == [*good]
    assert [one["truth"]["Bad"] for one in examples] == [[[name]] for name in good]
    told = [one.split(" ")[0] for one in records if isinstance(one, str)]
    assert told == [f"linked.{part}.time:" for part in ("labels", "rows") for _ in refused]


def test_in_one_file_a_time_far_ahead_is_believed_the_second_time(tmp_path):
    lines = [
        {"id": "a", "time": 1, "card": "x"},
        {"id": "b", "time": 9e8, "card": "x"},
        {"id": "b", "time": 2, "card": "x"},
        {"id": "a", "known": 9e8, "bad": 1},
        {"id": "a", "known": 800000, "bad": 1},
        {"id": "c", "time": 3, "card": "x"},
        {"id": "d", "time": 2000000, "card": "x"},
        {"id": "d", "time": 2000000, "card": "x"},
        {"id": "e", "time": 2000001, "card": "x"},
    ]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    number = {"Number": {"n": {"by": "card"}}}
    a, first, b, label, truth, c, second, d, e = values(read([path], numbers=number))
    assert ["further ahead of all" in one for one in (first, label, second)] == [True] * 3
    assert [one["id"] for one in (a, b, truth, c, d, e)] == [*"abacde"]
    count = {one["id"]: one["evidence"].get("Number") for one in (b, c, d, e)}
    assert [count[name] and count[name][0]["value"] for name in "bcde"] == [1.0, 2.0, None, 1.0]


def growing(folder, rng, n=120):
    """Rows and labels by the time at which they come, each file in its own order, and written late."""
    rows = [f"r{k},{k},{k % 3}" for k in range(n)]
    labels = [f"r{k},{k + 5},{k % 2}" for k in range(n)]
    for name, head in (("rows", HEAD), ("labels", KNOWN)):
        (folder / f"{name}.csv").write_text(head.replace(" ", "\n"))
    listed = {"rows": rows, "labels": labels}

    def grow():
        name = rng.choice([*listed])
        some = [listed[name].pop(0) for _ in range(min(rng.randrange(12), len(listed[name])))]
        with (folder / f"{name}.csv").open("a") as file:
            file.writelines(f"{line}\n" for line in some)
        return any(listed.values())

    return [folder / "rows.csv", folder / "labels.csv"], grow


@pytest.mark.parametrize("seed", range(4))
def test_a_file_that_is_idle_lets_the_others_pass_and_this_is_noted(tmp_path, seed, monkeypatch):
    """Each is idle as soon as it has nothing new; a run that is killed repeats what was noted."""
    monkeypatch.setattr("onlinesrl.stream.sources.files.WAIT_SECONDS", 0.0)
    rng, folder = random.Random(seed), RunFolder(tmp_path / "run")
    paths, grow = growing(tmp_path, rng)
    keys = {"idle": "0s", "live": True, "folder": folder, **KEYED}
    source = source_of(paths, **keys)
    source.open(None)
    records, saved, kills, quiet = [], 0, 0, 0
    position, state = json.loads(json.dumps(source.snapshot())), source.state()
    while quiet < 5:
        more = grow()
        batch = source.next_batch(rng.choice([1, 3, 20]))
        records += batch
        quiet = 0 if more or batch else quiet + 1
        if rng.random() < 0.3:
            saved, position = len(records), json.loads(json.dumps(source.snapshot()))
            state = source.state()
        if rng.random() < 0.1:
            source.close()
            source, kills = source_of(paths, **keys), kills + 1
            source.restore(state)
            source.open(position)
            for record in records[saved:]:  # they come again, whatever has come meanwhile
                while not (same := source.next_batch(1)):
                    pass
                assert same[0] == record
    source.close()
    lines = values(records)
    examples = [one for one in lines if "time" in one]
    times = [one["time"] for one in examples]
    assert ([one["id"] for one in examples], times) == (
        [f"r{n}" for n in range(120)],
        sorted(times),
    )
    assert sum("truth" in one for one in lines) == 120
    assert sum(one["time"] > int(one["id"][1:]) for one in examples) > 1
    assert kills > 1


def test_a_file_that_has_nothing_new_holds_rows_back_and_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("onlinesrl.stream.sources.files.WAIT_SECONDS", 0.0)
    source = source_of(tables(tmp_path, rows=f"{HEAD}a,1,x b,2,x", labels=KNOWN), live=True)
    source.open(None)
    assert [source.next_batch(10) for _ in range(5)] == [[]] * 5
    assert source.complaints() == [
        "2 rows wait for later ones of file 2 (source.linked.idle: for how long)"
    ]


def test_a_checkpoint_costs_what_changed(tmp_path):
    """And a journal that is not as it was written is refused, by the name of its file."""
    paths = generate(tmp_path, 6, honest=2000, days=20)
    folder = RunFolder(tmp_path / "run")
    source = source_of(paths, folder=folder, **SECTION)
    source.open(None)
    sizes = []
    for _ in range(8):
        source.next_batch(400)
        before = folder.linked.stat().st_size
        state = source.state()
        sizes.append(folder.linked.stat().st_size - before + len(state["linked_rows"]))
    assert max(sizes) < 2 * sizes[0]
    source.close()
    data = bytearray(folder.linked.read_bytes())
    data[len(data) // 2] ^= 1
    folder.linked.write_bytes(data)
    with pytest.raises(StorageError, match=r"linked.jsonl: its first .* are not those"):
        source_of(paths, folder=folder, **SECTION).restore(state)


# by definition ------------------------------------------------------------------------------------

NUMBERS = {
    "n": {"by": "shop"},
    "total": {"measure": "sum", "of": "amount", "by": "card", "within": "7s"},
    "mean": {"measure": "mean", "of": "amount", "by": ["card", "shop"], "within": "9s"},
    "std": {"measure": "std", "of": "amount", "by": "shop", "within": "9s"},
    "least": {"measure": "min", "of": "amount", "by": "card", "rows": "unlabelled"},
    "most": {"measure": "max", "of": "amount", "by": "card", "rows": "labelled"},
    "shops": {"measure": "distinct", "of": "shop", "by": "card", "within": "8s"},
    "last": {"measure": "last", "of": "amount", "by": "card"},
    "since": {"measure": "since", "by": "card", "within": "6s"},
    "rate": {"measure": "rate", "by": "card", "half": "3s"},
    "bad": {"by": "card", "rows": "Bad", "within": "5s"},
    "bad by label": {"by": "card", "rows": "Bad", "within": "5s", "age": "label"},
    "good by label": {"by": "shop", "rows": "not Bad", "within": "5s", "age": "label"},
}
DEFINED = {
    "sum": sum,
    "mean": statistics.fmean,
    "std": statistics.pstdev,
    "min": min,
    "max": max,
    "distinct": lambda values: len(set(values)),
    "last": lambda values: values[-1],
}
WITHIN, LATENESS = 20, 3


@st.composite
def streams(draw):
    """Rows, and labels of most of them, some corrected, some early; each file a little out of order."""
    rows, labels = [], []
    for n in range(draw(st.integers(1, 25))):
        time = draw(st.integers(0, 60))
        row = {"id": f"r{n}", "time": time, "card": draw(st.sampled_from(["a", "b", None]))}
        row |= {"shop": draw(st.sampled_from("xy")), "amount": draw(st.integers(-3, 9))}
        rows.append(row)
        for _ in range(draw(st.integers(0, 2))):
            known = max(0, time + draw(st.integers(-25, 25)))
            labels.append({"id": f"r{n}", "known": known, "bad": draw(st.booleans())})
    labels.append({"id": "nobody", "known": 5, "bad": True})

    def nearly_sorted(listed, column):
        key = {id(one): one[column] + draw(st.integers(0, LATENESS + 1)) for one in listed}
        return sorted(listed, key=lambda one: key[id(one)])

    return nearly_sorted(rows, "time"), nearly_sorted(labels, "known")


def by_time(rows, labels):
    """All that is neither late nor too far ahead, in the order in which it comes out."""
    events, last = [], -1
    for kind, (listed, column) in enumerate([(labels, "known"), (rows, "time")]):
        latest, ahead = listed[0][column], None
        for n, one in enumerate(listed):
            time, event = one[column], (one[column], kind, n, one)
            if time < latest - LATENESS:
                continue
            if ahead is not None and time > latest + WITHIN and time >= ahead[0] - WITHIN:
                latest = ahead[0]
            elif ahead is not None:
                events.remove(ahead)
            ahead = event if time > latest + WITHIN else None
            latest = latest if ahead else max(latest, time)
            events.append(event)
        last = max(last, latest)
    return sorted((event for event in events if event[0] <= last), key=lambda event: event[:3])


def state_before(events, end):
    """The rows that are remembered when an event comes, each with its label and the time of this."""
    now, known, early = events[end][0], {}, {}
    for time, is_row, _, one in events[:end]:
        if is_row:
            first = early.pop(one["id"], None)
            if first is not None and first["known"] < time - WITHIN:
                first = None
            known[one["id"]] = [time, one, first]
        elif one["id"] not in known or known[one["id"]][0] < time - WITHIN:
            early[one["id"]] = one
        elif known[one["id"]][2] is None or known[one["id"]][2]["bad"] != one["bad"]:
            known[one["id"]][2] = one
    return [entry for entry in known.values() if entry[0] >= now - WITHIN]


def numbers_of(row, now, before):
    """The numbers of a row at a time, each from all rows before."""
    for name, of in NUMBERS.items():
        columns = [of["by"]] if isinstance(of["by"], str) else of["by"]
        for column in columns:
            entries = []
            for time, other, label in before:
                rows = of.get("rows", "all")
                fits = rows == "all" or (rows == "unlabelled") == (label is None)
                fits = fits and (rows not in ("Bad", "not Bad") or label["bad"] == (rows == "Bad"))
                at = label["known"] if of.get("age") == "label" and label else time
                within = float(of.get("within", f"{WITHIN}s")[:-1])
                if fits and other[column] == row[column] is not None and at >= now - within:
                    entries.append((at, other))
            entries.sort(key=lambda entry: entry[0])
            if not entries:
                continue
            measure = of.get("measure", "count")
            if measure == "count":
                value = len(entries)
            elif measure == "since":
                value = now - entries[-1][0]
            elif measure == "rate":
                value = sum(0.5 ** ((now - at) / 3) for at, _ in entries)
            else:
                value = DEFINED[measure]([other[of["of"]] for _, other in entries])
            if round(value, 9):
                yield name if len(columns) == 1 else f"{column} {name}", value


ZONES = [None, UTC, timezone(timedelta(hours=5, minutes=45)), timezone(-timedelta(hours=3))]


@given(streams(), st.sampled_from([0, 1767225600]), st.randoms(use_true_random=False))
def test_each_example_has_what_was_known_at_its_time(tmp_path_factory, both, start, rng):
    folder = tmp_path_factory.mktemp("streams")
    for name, column, listed in (("rows", "time", both[0]), ("labels", "known", both[1])):
        with (folder / name).open("w") as file:
            for one in listed:
                zone = rng.choice(ZONES)
                time = datetime.fromtimestamp(start + one[column], zone or UTC)
                text = str(time if zone else time.replace(tzinfo=None))
                file.write(json.dumps(one | {column: text}) + "\n")
    section = {
        "within": f"{WITHIN}s",
        "lateness": f"{LATENESS}s",
        "digits": 9,
        "links": {
            "Same": {"by": "card", "latest": 2, "within": "11s", "optional": True},
            "Near": {
                "by": ["card", "shop"],
                "latest": 1,
                "rows": "all",
                "value": "1/n",
                "optional": True,
            },
        },
        "numbers": {"Number": {name: of | {"optional": True} for name, of in NUMBERS.items()}},
    }
    records = values(read([folder / "rows", folder / "labels"], **section))
    events = by_time(*both)
    examples = {one["id"]: one for one in records if isinstance(one, dict) and "evidence" in one}
    faults = [one for one in records if isinstance(one, str)]
    refused = len(both[0]) + len(both[1]) - len(events)
    assert sum(".time: " in fault for fault in faults) == refused
    assert [*examples] == [one["id"] for _, is_row, _, one in events if is_row]
    for n, (now, is_row, _, row) in enumerate(events):
        if not is_row:
            continue
        before = state_before(events, n)
        near = [[r, lab] for t, r, lab in before if r["card"] == row["card"] is not None]
        opened = [
            r
            for t, r, lab in before
            if lab is None and t >= now - 11 and r["card"] == row["card"] is not None
        ]
        linked = {
            "card": [r for r, _ in near][-1:],
            "shop": [r for _, r, _ in before if r["shop"] == row["shop"]][-1:],
        }
        atoms = {
            other["id"]: other for other in [row, *opened[-2:], *linked["card"], *linked["shop"]]
        }
        evidence = examples[row["id"]]["evidence"]
        assert evidence.get("Same", []) == [[row["id"], other["id"]] for other in opened[-2:]]
        assert evidence.get("Near", []) == [
            {"args": [row["id"], other["id"], column], "value": 1.0}
            for column, others in linked.items()
            for other in others
        ]
        labels = {r["id"]: lab for _, r, lab in before}
        facts = [[name] for name in atoms if labels.get(name) and labels[name]["bad"]]
        assert sorted(evidence.get("Bad", [])) == sorted(facts)
        query = examples[row["id"]]["query"]["Bad"]
        assert sorted(query) == sorted([name] for name in atoms if not labels.get(name))
        given_ = {tuple(atom["args"]): atom["value"] for atom in evidence.get("Number", [])}
        expected = {
            (name, number): value
            for name, other in atoms.items()
            for number, value in numbers_of(other, now, before)
        }
        assert given_ == pytest.approx(expected, abs=1e-8)


# what does not fit --------------------------------------------------------------------------------

KEYED = {"numbers": {"Number": {"n": {"by": "card"}}}}
HEAD, KNOWN = "id,time,card ", "id,known,bad "


@pytest.mark.parametrize(
    ("rows", "labels", "faults"),
    [
        ("a,1,x b,,x", "", ["linked.rows.time: time: expected a value, found null"]),
        ("a,1,x b,noon,x", "", ["linked.rows.time: time: expected a number, a time such as"]),
        ("a,1,x b,2026-12-31T23:59:60Z,x", "", ["linked.rows.time: time: expected a number"]),
        ("a,1,x b,2,", "", ["linked.numbers.Number.n: card: expected a value, found null"]),
        ("a,1772323747000,x", "", ["linked.rows.time: time: expected seconds since 1970, found"]),
        (",1,x", "", ["linked.rows.id: id: expected a value, found null"]),
        ("a,1,x a,2,y", "", ["linked.rows.id: 'a' is also the id of rows.csv:2"]),
        ("a,9,x b,8,x", "", ["linked.rows.time: 1 s earlier than what was read before it may be"]),
        (
            "a,1,x b,864002,x c,864003,x",
            "z,1,1",
            ["linked.labels: no row with this id came within 10d"],
        ),
        (
            "a,1,x",
            "a,2,3",
            ["linked.labels.truth: bad: expected true or false (or 1 or 0), found 3"],
        ),
        ("a,1,x b", "", ["a row of 1 cells, where the header has 3"]),
    ],
)
def test_rows_at_fault_are_named_and_the_others_go_on(tmp_path, rows, labels, faults):
    paths = tables(tmp_path, rows=f"{HEAD}{rows}", labels=f"{KNOWN}{labels}")
    records = values(read(paths, **KEYED))
    told = [record for record in records if isinstance(record, str)]
    assert [fault[: len(start)] for fault, start in zip(told, faults, strict=True)] == faults
    good = [record["id"] for record in records if isinstance(record, dict)]
    assert good == [row[0] for row in rows.split() if row[0] in "abc" and "," in row][: len(good)]
    assert len(good) == len(rows.split()) - sum("linked.labels" not in fault for fault in faults)


def test_a_measured_cell_at_fault_is_told_by_the_key_of_its_number(tmp_path):
    paths = tables(tmp_path, rows=f"{HEAD}a,1,x", labels=KNOWN)
    number = {"Number": {"sum": {"measure": "sum", "of": "card", "by": "card"}}}
    told = values(read(paths, numbers=number))
    assert len(told) == 1
    assert told[0].startswith("linked.numbers.Number.sum: card: expected a number")


def test_a_label_that_waits_is_corrected_and_counted(tmp_path):
    paths = tables(tmp_path, rows=f"{HEAD}a,5,x", labels=f"{KNOWN}a,1,1 a,2,1 a,3,0")
    source = source_of(paths)
    source.open(None)
    (example,) = values(drained(source))
    assert example["truth"] == {"Bad": []}
    assert source.snapshot()["linked"]["corrections"] == 1


def test_a_row_without_an_optional_key_has_no_such_number(tmp_path):
    paths = tables(tmp_path, rows=f"{HEAD}a,1,x b,2, c,3,x", labels=KNOWN)
    number = {"Number": {"n": {"by": "card", "optional": True}}}
    counts = [record["evidence"] for record in values(read(paths, numbers=number))]
    assert counts == [{}, {}, {"Number": [{"args": ["c", "n"], "value": 1.0}]}]


def test_a_label_before_its_row_comes_with_it(tmp_path):
    paths = tables(tmp_path, rows=f"{HEAD}a,5,x b,6,x", labels=f"{KNOWN}a,1,1")
    first, second = values(read(paths, links={"Same": {"by": "card", "rows": "all"}}))
    assert first["truth"] == {"Bad": [["a"]]}
    assert first["unlabelled"] == {"Bad": []}
    assert second["evidence"] == {"Same": [["b", "a"]], "Bad": [["a"]]}
    assert second["query"] == {"Bad": [["b"]]}


def test_what_is_remembered_is_bounded_and_counted(tmp_path):
    rows = " ".join(f"r{n},{n},{n % 3}" for n in range(500))
    source = source_of(tables(tmp_path, rows=f"{HEAD}{rows}", labels=KNOWN), most=20, **KEYED)
    source.open(None)
    last = values(drained(source))[-1]
    assert last["evidence"] == {"Number": [{"args": ["r499", "n"], "value": 6.0}]}
    told = source.snapshot()["linked"]
    assert told == {
        "rows": 20,
        "keys": 3,
        "waiting": 0,
        "rows_dropped": 480,
        "rows_without_label": 480,
    }
    assert source.complaints() == ["480 rows were dropped: more than 20 (source.linked.most)"]


def test_a_file_that_lacks_a_column_is_a_wrong_configuration(tmp_path):
    paths = tables(tmp_path, rows="id,tme,card a,1,x", labels=KNOWN)
    with pytest.raises(
        ConfigError, match=r"rows.csv:1:1: source.linked.rows.time: time is no column"
    ):
        read(paths, **KEYED)


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({"numbers": {"N": {"x": {"measure": "sum", "by": "card"}}}}, "x.of: missing"),
        (
            {"numbers": {"N": {"x": {"of": "a", "rows": "Bad"}}}},
            "x.by: missing; expected the column",
        ),
        (
            {"numbers": {"N": {"x": {"by": "card", "rows": "Good"}}}},
            "numbers.N.x.rows: expected all",
        ),
        ({"numbers": {"N": {"x": {"by": "card", "age": "label"}}}}, "x.age: rows that are all"),
        ({"links": {"L": {"by": "card", "within": "11d"}}}, "links.L.within: longer than rows are"),
        ({"links": {"L": {"by": "card", "rows": "some"}}}, "links.L.rows: expected"),
        ({"within": "ten days"}, "linked: within: expected a time such as"),
    ],
)
def test_a_section_that_makes_no_sense_is_told_by_its_key(keys, reason):
    with pytest.raises(ConfigError, match=reason.replace(".", r"\.")):
        section_of(LinkedSection, {**MINIMAL, **keys}, "linked")


# runs ---------------------------------------------------------------------------------------------


def fraud_run(folder, **keys):
    generate(folder, 7, honest=150, days=12)
    (folder / "fraud.mln").write_text(MODEL)
    source = {
        "path": ["transactions.csv", "labels.csv"],
        "linked": json.loads(json.dumps({**SECTION, "within": "11d"})),
    }
    values = {"model": "fraud.mln", "query": "Fraud", "source": source, "labels": {"pending": 1000}}
    return Job(folder, [], **{**values, "metrics": {"every": 100}, **keys})


@tiers("kills", 1, 40)
def test_a_run_over_rows_that_dies_leaves_no_trace(tmp_path, kills):
    broken = fraud_run(tmp_path, checkpoint={"every": 20})
    broken.survives(kills, "linked")
    assert broken.lines("metrics.jsonl")[-1]["labelled"] > 300


def test_a_run_that_stops_and_goes_on_learns_the_same(tmp_path):
    broken = fraud_run(tmp_path, checkpoint={"every": 50})
    assert broken.run() == 0, broken.said
    expected = broken.results()
    shutil.rmtree(broken.output)
    for until in (1, 30, 31, 200, 333):
        assert broken.run("--until", str(until)) == 0, broken.said
    assert broken.run() == 0, broken.said
    assert broken.results() == expected


def test_a_run_whose_folder_is_lost_goes_on_from_copies(tmp_path, monkeypatch):
    broken = fraud_run(tmp_path, checkpoint={"every": 50})
    assert broken.run() == 0, broken.said
    weights = broken.results()["weights.mln"]
    monkeypatch.setattr("onlinesrl.stream.linked_journal.PART_BYTES", 20_000)
    copies = ["--set", f"checkpoint.copy_to=memory://{tmp_path.name}/run"]
    for until in (["--fresh", "--until", "100"], ["--until", "250"], []):
        shutil.rmtree(broken.output)
        assert broken.run(*until, *copies) == 0, broken.said
    assert broken.results()["weights.mln"] == weights


def cut_short(folder, *ends):
    """Leave only the rows of both files that are earlier than their ends."""
    for name, end in zip(("transactions.csv", "labels.csv"), ends, strict=True):
        head, *lines = (folder / name).read_bytes().splitlines(keepends=True)
        early = [line for line in lines if line.split(b",")[1] < end.encode()]
        (folder / name).write_bytes(b"".join([head, *early]))


def test_rows_appended_later_are_learned_from(tmp_path):
    whole, parts = fraud_run(tmp_path / "whole"), fraud_run(tmp_path / "parts")
    assert whole.run() == 0, whole.said
    cut_short(tmp_path / "parts", "2026-01-08", "2026-01-08")
    assert parts.run() == 0, parts.said
    for name in ("transactions.csv", "labels.csv"):
        shutil.copy(tmp_path / "whole" / name, tmp_path / "parts" / name)
    assert parts.run() == 0, parts.said
    assert parts.lines("predictions.jsonl") == whole.lines("predictions.jsonl")


@pytest.mark.parametrize("ends", [("2026-01-08", "2026-01-06"), ("2026-01-06", "2026-01-08")])
def test_rows_appended_behind_the_end_of_a_run_count_from_there_on(tmp_path, ends):
    """One file had come further than the other; and whatever stops the second run."""
    folders = [tmp_path / "once", tmp_path / "stopped"]
    once, stopped = (fraud_run(folder, checkpoint={"every": 20}) for folder in folders)
    for job, folder in zip((once, stopped), folders, strict=True):
        files = [
            (folder / name, (folder / name).read_bytes())
            for name in ("transactions.csv", "labels.csv")
        ]
        cut_short(folder, *ends)
        assert job.run() == 0, job.said
        for path, whole in files:
            path.write_bytes(whole)
    n = once.lines("metrics.jsonl")[-1]["examples"]
    for more in (1, 2, 40, 77):
        assert stopped.run("--until", str(n + more)) == 0, stopped.said
    for job in (once, stopped):
        assert job.run() == 0, job.said
        assert not job.lines("deadletter.jsonl")
    last = once.lines("metrics.jsonl")[-1]
    n_rows = len(files[0][1].splitlines()) - 1
    assert (last["examples"], last["labelled"]) == (n_rows, n_rows)
    assert stopped.results() == once.results()


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({"labels": None}, "labels: missing beside source.linked"),
        (
            {"query": ["Is"]},
            "source.linked.labels.truth.Fraud: expected a predicate of the query (Is)",
        ),
        (
            {"source": {"path": ".", "linked": MINIMAL}},
            "source.path: rows that are linked are in files",
        ),
    ],
)
def test_a_run_refuses_a_wrong_configuration(tmp_path, keys, reason):
    broken = fraud_run(tmp_path, **keys)
    assert broken.run() == 78
    assert reason in broken.said


def test_python_reads_by_the_same_keys(tmp_path):
    paths = generate(tmp_path, 8, honest=100, days=10)
    examples = [*srl.read(paths, linked=SECTION)]
    expected = [line for line in map(plain, cut(tmp_path)) if "truth" in line]
    assert [example.id for example in examples] == [line["id"] for line in expected]
    assert [example.truth for example in examples] == [line["truth"] for line in expected]
    assert all(example.evidence["Number"] for example in examples)
