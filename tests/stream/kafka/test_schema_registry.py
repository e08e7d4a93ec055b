"""Topics in the framing of a schema registry are learned from as the same records in files."""

import copy
import json
import os
import signal

import pytest
from conftest import Job, wait

from tests.support.kafka_streams import UNTIL_END, fill, source
from tests.support.orders import (
    AVRO,
    MAPPING,
    MODEL,
    ORDERS,
    PATH,
    PROTOBUF,
    as_avro,
    as_csv,
    as_file,
    as_json,
    as_protobuf,
    framed,
)
from tests.support.schema_registry import LOGIN, serving
from tests.support.waiting import until

FILES = {
    "orders.jsonl": as_json(ORDERS),
    "orders.csv": as_csv(ORDERS),
    "orders.parquet": [as_file(ORDERS, "orders.parquet")],
    "orders.avro": [as_file(ORDERS, "orders.avro")],
}


@pytest.fixture(scope="module")
def registry():
    with serving(login=True) as made:
        yield made


@pytest.fixture
def orders(job, tmp_path, registry):
    def make(name, source, **keys):
        model = tmp_path / "orders.mln"
        model.write_text(MODEL)
        keys = {"checkpoint": {"every": 7}, "metrics": {"every": 20}, **keys}
        return job(
            [],
            name,
            model=str(model),
            query="Returned",
            source={"mapping": MAPPING, **source},
            **keys,
        )

    return make


@pytest.fixture
def from_topic(orders, broker, topic, registry):
    """A run from a topic with these values."""

    def make(values, **keys):
        fill(broker, topic, values)
        login = {"url": registry.url, "username": LOGIN[0], "password": LOGIN[1]}
        return orders("kafka", source(broker, topic, registry=login), **keys)

    return make


@pytest.fixture(scope="module")
def forms(registry):
    """The values of a topic in each form."""
    avro, protobuf = registry.add(AVRO), registry.add(PROTOBUF, "PROTOBUF")
    schema = registry.add({"type": "object"}, "JSON")
    return {
        "AVRO": [framed(avro, as_avro(order)) for order in ORDERS],
        "PROTOBUF": [framed(protobuf, PATH + as_protobuf(order)) for order in ORDERS],
        "JSON": [framed(schema, line.strip()) for line in as_json(ORDERS)],
        None: [line.strip() for line in as_json(ORDERS)],
    }


def learned(run: Job, *options: str) -> dict[str, bytes]:
    assert run.run(*options) == 0, run.said
    results = run.results()
    assert results["predictions.jsonl"].count(b"\n") == len(ORDERS)
    return results


@pytest.fixture
def expected(orders):
    run = orders("lines", {"path": "orders.jsonl"})
    (run.folder / "orders.jsonl").write_bytes(b"".join(FILES["orders.jsonl"]))
    return learned(run)


def test_files_of_each_form_learn_and_predict_the_same_bytes(orders, expected):
    answers = set()
    for file, data in FILES.items():
        run = orders(file, {"path": file})
        (run.folder / file).write_bytes(b"".join(data))
        assert learned(run) == expected
        assert run.call("predict", run.output, run.config) == 0
        answers.add(run.printed)
    assert len(answers) == 1


@pytest.mark.parametrize("form", ["AVRO", "PROTOBUF", "JSON", None])
def test_topics_of_each_form_learn_the_same_bytes(
    form, forms, orders, from_topic, broker, topic, expected
):
    if form is None:
        fill(broker, topic, forms[form])
        run = orders("kafka", source(broker, topic))
    else:
        run = from_topic(forms[form])
    assert run.run("--until", "23") == 0, run.said
    assert learned(run, *UNTIL_END) == expected


def test_the_password_of_a_registry_stays_in_the_configuration(forms, from_topic, registry):
    run = from_topic(forms["AVRO"][:3])
    assert run.call("check", run.config) == 0, run.said
    assert 'becomes\n  id: "1"\n' in run.printed
    assert run.run(*UNTIL_END) == 0, run.said
    text = run.said + run.printed
    files = [path for path in run.output.rglob("*") if path.is_file()]
    assert not any(LOGIN[1].encode() in path.read_bytes() for path in files)
    assert LOGIN[1] not in text


def test_a_schema_may_evolve(orders, from_topic, registry, forms):
    """A field is added, one is renamed with an alias, and one does not fit: the first two are learned."""
    added, renamed, changed = (copy.deepcopy(AVRO) for _ in range(3))
    added["fields"].insert(1, {"name": "note", "type": "string", "default": ""})
    renamed["fields"][2] = {"name": "product", "type": "string", "aliases": ["sku"]}
    changed["fields"][2] = {"name": "sku", "type": {"type": "array", "items": "string"}}
    records = copy.deepcopy(ORDERS)
    values = forms["AVRO"][:15]
    values += [
        framed(registry.add(added), as_avro({**x, "note": "n"}, added)) for x in records[15:30]
    ]
    number = registry.add(renamed)
    values += [framed(number, as_avro({**x, "product": x["sku"]}, renamed)) for x in records[30:]]
    lines = orders("lines", {"path": "orders.jsonl"})
    (lines.folder / "orders.jsonl").write_bytes(b"".join(FILES["orders.jsonl"]))
    expected = learned(lines)
    number = registry.add(changed)
    bad = framed(number, as_avro({**records[7], "sku": ["a", "b"]}, changed))
    values.insert(20, bad)
    run = from_topic(values)
    assert run.run(*UNTIL_END) == 0, run.said
    results = run.results()
    assert results["weights.mln"] == expected["weights.mln"]
    (letter,) = map(json.loads, results["deadletter.jsonl"].splitlines())
    assert letter["line"] == 20
    assert letter["reason"] == (
        f"schema {number}: mapping.evidence.Item: sku: expected text or a whole number, "
        "found a list of 2"
    )


def test_changes_in_avro_are_the_rows_after_them(orders, from_topic, registry, expected):
    envelope = {
        "type": "record",
        "name": "Envelope",
        "fields": [
            {"name": "before", "type": ["null", {**AVRO, "name": "Value"}], "default": None},
            {"name": "after", "type": ["null", "Value"], "default": None},
            {"name": "op", "type": "string"},
        ],
    }
    number = registry.add(envelope)
    changes = [{"before": None, "after": order, "op": "c"} for order in ORDERS]
    changes.insert(9, {"before": ORDERS[0], "after": None, "op": "d"})
    run = from_topic([framed(number, as_avro(change, envelope)) for change in changes])
    values = ("--set", "source.envelope=debezium")
    assert run.run(*UNTIL_END, *values) == 0, run.said
    assert run.results()["weights.mln"] == expected["weights.mln"]
    assert run.results()["predictions.jsonl"] == expected["predictions.jsonl"]


def test_a_registry_that_stays_away_ends_a_run_that_goes_on_later(
    forms, from_topic, registry, expected
):
    run = from_topic(forms["AVRO"])
    assert run.run("--until", "10") == 0, run.said
    registry.faults = [(503, {})] * 10_000
    try:
        assert run.run(*UNTIL_END, "--set", "source.patience=1s") == 69
    finally:
        registry.faults = []
    assert "does not answer: 503 Service Unavailable" in run.said
    assert "(source.patience)" in run.said
    assert learned(run, *UNTIL_END) == expected


def test_a_signal_ends_the_wait_for_a_registry(forms, from_topic, registry, expected):
    run = from_topic(forms["AVRO"])
    registry.faults = [(503, {})] * 10_000
    try:
        process = run.fork("run", str(run.config), *UNTIL_END)
        until(lambda: "waiting for it" in run.said)
        os.kill(process, signal.SIGTERM)
        assert wait(process) == 0
    finally:
        registry.faults = []
    assert "run it again to resume" in run.said
    assert learned(run, *UNTIL_END) == expected


def test_labels_of_examples_in_avro_are_json_and_not_mapped(orders, from_topic, registry, expected):
    """Also if the mapping finds in them all that it must have."""
    number = registry.add(AVRO)
    known = [order for order in ORDERS if order["returned"] is not None]
    labels = [
        {
            "id": str(order["order"]),
            "truth": {"Returned": [{"args": [order["order"]], "value": order["returned"] + 0}]},
            "unlabelled": {},
        }
        for order in known
    ]
    values = [framed(number, as_avro({**order, "returned": None})) for order in known]
    stream = [x for pair in zip(values, as_json(labels), strict=True) for x in pair]
    run = from_topic(stream, labels={})
    evidence = {name: {**rule, "optional": True} for name, rule in MAPPING["evidence"].items()}
    loose = json.dumps({**MAPPING, "id": "id", "evidence": evidence})
    lines = orders("lines-and-labels", {"path": "source.jsonl"}, labels={})
    examples = as_json({**order, "returned": None, "id": order["order"]} for order in known)
    text = [x for pair in zip(examples, as_json(labels), strict=True) for x in pair]
    lines.source.write_bytes(b"".join(text))
    assert lines.run("--set", f"source.mapping={loose}") == 0, lines.said
    assert run.run(*UNTIL_END) == 0, run.said
    for results in run.results(), lines.results():
        assert results["weights.mln"] == expected["weights.mln"]
        assert results["deadletter.jsonl"] == b""
