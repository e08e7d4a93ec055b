"""Mappings: records of any shape become examples, and what does not fit is said and put aside."""

import gzip
import json
import os

import pytest
from conftest import REPO
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError

import onlinesrl as srl
from onlinesrl.core.errors import DataError, ExampleError
from onlinesrl.core.example import decode
from onlinesrl.core.io import config_section
from onlinesrl.runs.replay import messages
from onlinesrl.stream.mapping import Mapper, MappingSection
from onlinesrl.stream.record_form import RecordForm
from onlinesrl.stream.records import Record
from onlinesrl.stream.sources.files import FileSection
from tests.support import golden
from tests.support.orders import MAPPING, MODEL, ORDERS, as_csv, as_file, as_json
from tests.support.serving import Served

pytestmark = pytest.mark.usefixtures("counting")

DOCUMENT = {
    "id": 7,
    "words": [{"text": "a", "index": 3}, {"text": "b", "index": 4}, {"text": "c", "index": 5}],
    "pages": [{"n": 1, "lines": ["x", "y"]}, {"n": 2, "lines": []}, {"n": 3, "lines": ["z"]}],
    "a.b": {"score": -2.5, "paid": False},
    "nothing": None,
}


def mapped(record, place="file:1", **keys):
    return json.loads(Mapper(MappingSection.model_validate(keys)).line(record, place))


def test_what_becomes_of_records():
    """Of DOCUMENT, or of a record that is given: the example, or why there is none."""

    def answer(text):
        given = json.loads(text)
        try:
            return json.dumps(mapped(given.pop("record", DOCUMENT), **given))
        except (ExampleError, ValidationError) as error:
            return str(error).partition(" [type=")[0]

    golden.check(REPO / "tests" / "stream" / "golden" / "mappings.txt", answer)


@pytest.mark.parametrize(
    ("part", "rule", "reason"),
    [
        ("evidence", {"Itm": {"arguments": []}}, "Itm: no predicate of the model; expected one of"),
        ("evidence", {"Item": {"arguments": ["a"]}}, "Item: expected 2 arguments, found 1"),
        ("truth", {"Item": {"arguments": ["a", "b"]}}, "Item: expected a predicate of the query"),
    ],
)
def test_a_mapping_must_fit_the_model(orders, part, rule, reason):
    bad = orders([], mapping={**MAPPING, part: rule})
    assert bad.call("check", bad.config) == 78
    assert f"source.mapping.{part}.{reason}" in bad.said


@pytest.mark.usefixtures("kernels")
def test_in_psl_a_mapping_lists_the_atoms_to_predict(job, tmp_path):
    (tmp_path / "m.psl").write_text("1.0: Rated(U, V) -> Trusts(U, V) ^2\n1.0: !Trusts(U, V) ^2\n")
    atom, valued = ({"arguments": ["from", "to"], **more} for more in ({}, {"value": "weight"}))
    mapping = {"evidence": {"Rated": atom}, "truth": {"Trusts": valued}}
    keys = {"model": str(tmp_path / "m.psl"), "query": "Trusts", "metrics": {}}
    run = job([], source={"path": "ratings.csv", "mapping": mapping}, **keys)
    rows = "from,to,weight\n6,2,0.75\n6,5,0.25\n".replace("\n", "\r\n")
    (run.folder / "ratings.csv").write_text(rows, newline="")
    assert run.call("check", run.config) == 78
    assert "source.mapping: expected the key query: an example in PSL lists the atoms" in run.said
    options = ["--set", f"source.mapping.query={json.dumps({'Trusts': atom})}"]
    assert run.call("check", run.config, *options) == 0, run.said
    assert run.run(*options) == 0, run.said
    found = [line["predicted"]["Trusts"][0]["args"] for line in run.predictions()]
    assert found == [["6", "2"], ["6", "5"]]


@pytest.fixture
def orders(job, tmp_path):
    """Jobs of orders, in a file of a name."""

    def make(lines, file="source.jsonl", mapping=MAPPING, **keys):
        model = tmp_path / "orders.mln"
        model.write_text(MODEL)
        name = file.replace(".", "-")
        made = job([], name, model=str(model), query="Returned", metrics={"every": 20}, **{
            "source": {"path": file, "mapping": mapping}, **keys,
        })  # fmt: skip
        data = b"".join(lines)
        path = made.folder / file
        path.write_bytes(gzip.compress(data) if file.endswith(".gz") else data)
        return made

    return make


def learned(run):
    assert run.run() == 0, run.said
    return run.results()


@pytest.mark.usefixtures("kernels")
def test_lines_rows_and_examples_learn_the_same(orders, job):
    mapped_lines = learned(orders(as_json(ORDERS)))
    assert mapped_lines["predictions.jsonl"].count(b"\n") == len(ORDERS)
    assert learned(orders(as_csv(ORDERS), "orders.csv")) == mapped_lines
    assert learned(orders(as_csv(ORDERS), "orders.csv.gz")) == mapped_lines
    for file in "orders.parquet", "orders.avro":
        assert learned(orders([as_file(ORDERS, file)], file)) == mapped_lines
    mapper = Mapper(MappingSection.model_validate(MAPPING))
    examples = [mapper.line(record, "") + b"\n" for record in ORDERS]
    assert learned(orders(examples, "examples.jsonl", mapping=None)) == mapped_lines


@pytest.mark.parametrize("file", ["damaged.parquet", "damaged.avro"])
def test_a_damaged_file_of_rows_ends_the_run(orders, file):
    data = as_file(ORDERS, file)
    damaged = orders([data[:40], bytes(len(data) - 40)], file)
    assert damaged.run() == 74
    assert f"{damaged.folder / file}" in damaged.said


def test_avro_needs_its_package(orders, monkeypatch):
    lacking = orders([as_file(ORDERS, "orders.avro")], "orders.avro")
    monkeypatch.setattr(config_section, "installed", lambda module: module != "fastavro")
    assert lacking.run() == 64
    assert "Avro needs the extra registry: pip install 'onlinesrl[registry]'" in lacking.said
    assert not (lacking.output / "predictions.jsonl").exists()


def test_records_that_do_not_fit_are_dead_letters(orders):
    good = learned(orders(as_csv(ORDERS), "good.csv"))
    rows = as_csv(ORDERS)
    rows[30:30] = [
        b"31,c1\n",
        b"31,c1,,true,false\n",
        b",c1,x,true,false\n",
        b'31,c1,"shoe,true,false\n"x\n',
    ]
    bad = orders(rows, "bad.csv", limits={"bad_share": 1})
    results = learned(bad)
    assert results["weights.mln"] == good["weights.mln"]
    letters = [json.loads(line) for line in results["deadletter.jsonl"].splitlines()]
    lines = [sum(row.count(b"\n") for row in rows[: 30 + n]) + 1 for n in range(4)]
    assert [(x["line"], x["text"], x["reason"]) for x in letters] == [
        (lines[0], "31,c1", "a row of 2 cells, where the header has 5"),
        (lines[1], "31,c1,,true,false", "mapping.evidence.Item: sku: expected a value, found null"),
        (lines[2], ",c1,x,true,false", "mapping.id: order: expected a value, found null"),
        (lines[3] + 1, '31,c1,"shoe,true,false\n"x', "not a row of CSV: ',' expected after '\"'"),
    ]
    assert [letter["id"] for letter in letters] == [None, "31", None, None]


@pytest.mark.usefixtures("kernels")
def test_check_shows_what_the_first_record_becomes(orders):
    checked = orders(as_csv(ORDERS), "orders.csv")
    assert checked.call("check", checked.config) == 0, checked.said
    assert "orders.csv:2 becomes\n" in checked.printed
    assert (
        '\n  evidence: {"Customer":[["1","c1"]],"Express":[{"args":["1"],"value":0.0}],'
        in checked.printed
    )
    assert '\n  truth: {"Returned":[{"args":["1"],"value":1.0}]}\n' in checked.printed


MISTYPED = {
    "id": "order",
    "evidence": {
        "Customer": {"arguments": ["order", "customre"], "optional": True},
        "Item": [{"arguments": ["order", key], "optional": True} for key in ("product", "sku")],
        "Express": {"arguments": ["order"], "value": "express", "optional": True},
    },
    "truth": {"Returned": {"arguments": ["order"], "value": "returnd", "optional": True}},
    "unlabelled": {"Returned": {"from": "again[]", "arguments": ["."], "optional": True}},
}


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("file", ["x.csv", "x.parquet", "x.avro", "x.jsonl"])
def test_a_name_of_an_optional_rule_that_no_record_has_is_told(orders, file):
    """By check, and once by a run where names are known beforehand; a renamed column is not."""
    data = {"x.csv": as_csv, "x.jsonl": as_json}.get(file, lambda rows: [as_file(rows, file)])(
        ORDERS
    )
    run = orders(data, file, mapping=MISTYPED)
    expected = [
        ("evidence.Customer", "customre", "did you mean customer?"),
        ("truth.Returned", "returnd", "did you mean returned?"),
        ("unlabelled.Returned", "again", "known: order, customer, sku, express, returned."),
    ]
    assert run.call("check", run.config) == 0, run.said
    told = [line for line in run.printed.splitlines() if "optional rule" in line]
    assert told == [
        f"source.mapping.{rule}: none of the first 60 records has {name}, "
        f"so that this optional rule makes no atom; {meant}"
        for rule, name, meant in expected
    ]
    assert run.run() == 0, run.said
    told = [line for line in run.said.splitlines() if "optional rule" in line]
    assert (
        told == []
        if file == "x.jsonl"
        else [
            f"warning: source.mapping.{rule}: {run.folder / file} has no {name}, so that this optional rule "
            f"makes no atom; {meant}"
            for rule, name, meant in expected
        ]
    )


def test_a_source_knows_the_columns_of_its_files_of_rows(tmp_path):
    """What holds no rows, or cannot be read, has none."""
    names = ["a.csv", "b.csv.gz", "c.parquet", "d.avro", "e.jsonl", "f.csv", "g.parquet"]
    rows = b"".join(as_csv(ORDERS[:2]))
    made = [rows, gzip.compress(rows), *(as_file(ORDERS[:2], file) for file in names[2:4])]
    for name, data in zip(names, [*made, rows, b"a,a\n1,2\n", b"no rows"], strict=True):
        (tmp_path / name).write_bytes(data)
    source = FileSection.model_validate({"path": [str(tmp_path / name) for name in names]})
    assert [*source.columns()] == 4 * [[*ORDERS[0]]]


@pytest.mark.usefixtures("kernels")
def test_a_name_that_some_record_has_is_no_mistake(orders):
    """Of elements of lists, too; and what is null or empty everywhere may have any names."""
    rule = {"from": "words[]", "arguments": ["text", "tag.name"], "optional": True}
    lines = [b'{"words": []}\n', b'{"words": null}\n', b'{"words": [{"text": "a"}]}\n']
    keys = {"mapping": {"evidence": {"Customer": rule}}}
    told = []
    for more in ([], [b'{"words": [{"text": "a", "tag": null}]}\n']):
        run = orders([*lines, *more], f"{len(more)}.jsonl", **keys)
        assert run.call("check", run.config) == 0, run.said
        told.append("records has tag, so that this optional rule" in run.printed)
    assert told == [True, False]


@pytest.mark.parametrize("file", ["x.csv", "x.parquet"])
def test_a_row_with_the_id_of_an_earlier_one_is_told_once(orders, file):
    """Nothing is said where ids differ, where a run goes on, or of lines of JSON, which may be changes."""
    as_rows = as_csv if file == "x.csv" else lambda rows: [as_file(rows, file)]
    run = orders(as_rows(ORDERS), file, checkpoint={"every": 7})
    assert [run.run("--until", "9"), run.run()] == [0, 0]
    assert "of an earlier row" not in run.said
    mistaken = {**MAPPING, "id": "customer"}
    run = orders(as_rows(ORDERS), f"mistaken-{file}", mapping=mistaken)
    assert run.run() == 0
    line = 6 if file == "x.csv" else 4
    assert run.said.count("of an earlier row") == 1
    assert (
        f"warning: {run.folder / f'mistaken-{file}'}:{line} has the id 'c1' of an earlier row"
        in run.said
    )
    run = orders(as_json(ORDERS), f"{file}.jsonl", mapping=mistaken)
    assert run.run() == 0
    assert "of an earlier row" not in run.said


@pytest.mark.parametrize("encoding", ["cp1252", "utf-8"])
def test_rows_in_another_encoding_are_read_or_refused_plainly(orders, encoding):
    plain = [{**order, "customer": "Jos\xe9"} for order in ORDERS[:20]]
    good = orders(as_csv(plain), "good.csv")
    data = [line.decode().encode("cp1252") for line in as_csv(plain)]
    source = {"path": "other.csv", "mapping": MAPPING, "encoding": encoding}
    run = orders(data, "other.csv", source=source)
    if encoding == "cp1252":
        assert learned(run)["weights.mln"] == learned(good)["weights.mln"]
        return
    assert run.run() == 65
    reason = json.loads((run.output / "deadletter.jsonl").read_text().splitlines()[0])["reason"]
    assert reason.startswith("column 6: the byte 0xe9 is not UTF-8; say the file's encoding")
    for wrong in ("utf-16", "klingon"):
        assert run.run("--set", f"source.encoding={wrong}") == 78
        assert "source.encoding: expected an encoding with ASCII in it" in run.said


def test_blanks_around_cells_do_not_count(orders):
    rows = [line.replace(b",", b"\t,  ") for line in as_csv(ORDERS) if b"shoe" not in line]
    plain = [line for line in as_csv(ORDERS) if b"shoe" not in line]
    assert learned(orders(rows, "blanks.csv")) == learned(orders(plain, "plain.csv"))


def test_the_library_reads_rows_by_the_same_mapping(orders):
    made = orders(as_csv(ORDERS), "orders.csv")
    path = made.folder / "orders.csv"
    examples = [*srl.read(path, mapping=MAPPING)]
    assert examples == [*srl.read(made.config)]
    assert [example.id for example in examples] == [str(order["order"]) for order in ORDERS]


@pytest.mark.parametrize("wrapped", [False, True])
def test_changes_of_debezium_are_the_rows_after_them(orders, wrapped):
    plain = learned(orders(as_json(ORDERS)))
    changes = [{"op": "c", "before": None, "after": order, "ts_ms": 1} for order in ORDERS]
    changes[30:30] = [
        {"op": "d", "before": ORDERS[3], "after": None},
        {"op": "u", "before": None, "after": None},
        {"after": ORDERS[1]},
    ]
    lines = as_json({"schema": {}, "payload": x} if wrapped else x for x in changes)
    source = {"path": "changes.jsonl", "mapping": MAPPING, "envelope": "debezium"}
    run = orders(lines, "changes.jsonl", source=source)
    results = learned(run)
    assert results["weights.mln"] == plain["weights.mln"]
    letters = [json.loads(line)["reason"] for line in results["deadletter.jsonl"].splitlines()]
    assert letters == [
        "a change of Debezium with op 'u' and no row in after",
        "not a change of Debezium: expected an object with the key op",
    ]
    assert json.loads(results["metrics.jsonl"].splitlines()[-1])["tombstones"] == 1


def test_a_server_maps_what_clients_send(orders):
    lines = [line.strip() for line in as_json(ORDERS[:20])]
    run = orders(as_json(ORDERS[:20]))
    predicted = learned(run)["predictions.jsonl"].splitlines()
    served = orders([], "served.jsonl", source={"path": "served.jsonl", "mapping": MAPPING})
    server = Served(served)
    bad = json.dumps({**ORDERS[0], "sku": 0.5}).encode()
    answers = server.post("/learn", [*lines, bad])
    assert answers[:-1] == [*map(json.loads, predicted)]
    reason = "mapping.evidence.Item: sku: expected text or a whole number, found 0.5"
    assert answers[-1] == {"line": 21, "error": reason, "id": "1"}
    assert server.post("/predict", lines[:1])[0]["id"] == "1"
    assert server.stop() == 0
    assert served.results()["weights.mln"] == run.results()["weights.mln"]


def test_shards_of_records_learn_what_shards_of_examples_do(orders):
    keys = {"distribute": {"shards": 3, "round": 7, "workers": 1}}
    mapper = Mapper(MappingSection.model_validate(MAPPING))
    records, examples = as_json(ORDERS), [mapper.line(record, "") for record in ORDERS]
    records, examples = (  # shards are cut by bytes
        [line.strip().ljust(400) + b"\n" for line in lines] for lines in (records, examples)
    )
    expected = learned(orders(examples, "examples.jsonl", mapping=None, **keys))
    assert learned(orders(records, **keys)) == expected
    rows = orders(as_csv(ORDERS), "orders.csv", **keys)
    assert rows.run() == 78
    assert "files of rows cannot be cut into shards" in rows.said


leaf = st.one_of(
    st.none(),
    st.booleans(),
    st.floats(),
    st.integers(),
    st.sampled_from([10**400, -(2**70), "", "true", "1e999", "1_0", "é\0", " 7 "]),
    st.text(max_size=3),
)
name = st.sampled_from(["id", "words", "text", "v", "a.b", "x"])
value = st.recursive(
    leaf, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(name, inner, max_size=4)
)


@given(record=st.dictionaries(name, value) | value)
@example(record={"id": 10**5000, "words": []})
@example(record={"id": 1, "words": [{"text": "a", "v": "7", "x": [1, "b"]}], "a.b": None})
def test_any_record_becomes_an_example_or_is_refused(record):
    rules = {
        "P": {"from": "words[]", "arguments": ["text", "$.id", "position(1)"], "value": "v"},
        "Q": {"from": "words[0:2].x[]", "arguments": ["."], "optional": True},
        "R": {"arguments": ["['a.b']", "=c"], "optional": True},
    }
    for predicates in (rules, {"Q": rules["Q"]}, {"R": rules["R"]}):
        mapper = Mapper(MappingSection.model_validate({"id": "id", "evidence": predicates}))
        try:
            line = mapper.line(record, "x:1")
        except ExampleError as error:
            assert str(error).startswith("mapping.")
        else:
            assert decode(line).id == str(record["id"])


def test_a_record_with_a_key_twice_is_bad():
    rule = {"from": "words[]", "arguments": ["text"]}
    form = RecordForm(Mapper(MappingSection.model_validate({"evidence": {"P": rule}})))
    good = b'{"words": [{"text": "a: b"}, {"text": ""}]}'
    line = b'{"evidence":{"P":[["a: b"],[""]]},"id":"x:1"}'
    assert form.line(Record(good, "x", 1, 0, 0)) == line
    with pytest.raises(ExampleError, match="the key text appears twice"):
        form.line(Record(good.replace(b'": "a', b'": "b", "text": "a'), "x", 1, 0, 0))


def test_a_file_of_any_name_names_examples(tmp_path):
    path = tmp_path / os.fsdecode(b"\xff.csv")
    path.write_bytes(b"a\n1\n")
    (example,) = srl.read(path, mapping={"evidence": {"P": {"arguments": ["a"]}}})
    assert (example.id, example.evidence) == ("\\xff.csv:2", {"P": [["1"]]})


def test_rows_are_replayed_as_records(orders, tmp_path):
    path = tmp_path / "orders.csv"
    path.write_bytes(b"".join(as_csv(ORDERS)))
    sent = [json.loads(message.value) for message in messages(path, ())]
    assert sent == [
        {key: None if value is None else str(value) for key, value in order.items()}
        for order in ORDERS
    ]
    path.write_bytes(b"a,b\n1\n")
    with pytest.raises(DataError, match=r"orders.csv:2: a row of 1 cells"):
        next(messages(path, ()))
