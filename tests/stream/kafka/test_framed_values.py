"""Values in the framing of a schema registry are read by their schema, which is asked for once."""

import datetime
import decimal
import socket
import struct
import threading
from contextlib import suppress

import pytest
from pydantic import SecretStr

from onlinesrl.core.errors import ExampleError, UnavailableError
from onlinesrl.core.io import config_section
from onlinesrl.stream.kafka import framed_values
from onlinesrl.stream.kafka import registry as registry_module
from onlinesrl.stream.kafka.config import RegistrySection
from onlinesrl.stream.kafka.framed_values import FramedValues
from onlinesrl.stream.kafka.registry import SchemaRegistry
from onlinesrl.stream.shutdown import Stopped
from tests.support.orders import AVRO, ORDERS, PATH, PROTOBUF, as_avro, as_json, as_protobuf, framed
from tests.support.schema_registry import LOGIN, Registry, serving


@pytest.fixture
def registry():
    with serving() as made:
        yield made


def client(registry, login=None, patience=0.0, stopping=lambda: False, say=lambda _: None):
    return SchemaRegistry(registry.url, login, None, patience, stopping, say)


def values(registry, names=(), **keys):
    return FramedValues(client(registry, **keys), names)


# the forms -------------------------------------------------------------------------------------------


def test_all_forms_of_a_record_are_the_same_value(registry):
    read = values(registry)
    avro, protobuf = registry.add(AVRO), registry.add(PROTOBUF, "PROTOBUF")
    schema = registry.add({"type": "object"}, "JSON")
    for order in ORDERS:
        assert read.value(framed(avro, as_avro(order))) == order
        assert read.value(framed(schema, as_json([order])[0])) == order
        got = read.value(framed(protobuf, PATH + as_protobuf(order)))
        lacking = {"returned": None} if order["returned"] is None else {}
        assert {**got, "order": int(got["order"]), **lacking} == order
    assert registry.asked == [f"/schemas/ids/{n}" for n in (avro, schema, protobuf)]


def test_types_of_avro_that_json_lacks_are_text(registry):
    fields = {
        "day": {"type": "int", "logicalType": "date"},
        "at": {"type": "long", "logicalType": "timestamp-millis"},
        "price": {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2},
        "kind": {"type": "enum", "name": "Kind", "symbols": ["a", "b"]},
    }
    schema = {
        "type": "record",
        "name": "R",
        "fields": [{"name": name, "type": kind} for name, kind in fields.items()],
    }
    at = datetime.datetime(2024, 5, 6, 7, 8, 9, tzinfo=datetime.UTC)
    record = {"day": at.date(), "at": at, "price": decimal.Decimal("1.50"), "kind": "b"}
    got = values(registry).value(framed(registry.add(schema), as_avro(record, schema)))
    assert got == {"day": "2024-05-06", "at": "2024-05-06T07:08:09Z", "price": "1.50", "kind": "b"}


def test_data_of_avro_that_are_a_trap_are_bad(registry):
    """Nested without end, or any number of items in no bytes: the process neither ends nor hangs."""
    read = values(registry)
    tree = {
        "name": "Tree",
        "type": "record",
        "fields": [{"name": "left", "type": ["null", "Tree"]}],
    }
    deep = registry.add(tree)
    assert read.value(framed(deep, b"\2\2\0")) == {"left": {"left": {"left": None}}}
    with pytest.raises(ExampleError, match="not of this schema: RecursionError"):
        read.value(framed(deep, b"\2" * 100_000 + b"\0"))
    empty = {"name": "Empty", "type": "record", "fields": [{"name": "n", "type": "null"}]}
    for items in ("null", empty, {"type": "fixed", "name": "F", "size": 0}):
        schema = {"type": "map", "values": ["int", {"type": "array", "items": items}]}
        with pytest.raises(ExampleError, match="an array whose items take no bytes"):
            read.value(framed(registry.add(schema), b"\2\2a\2" + b"\xff" * 8 + b"\1\0\0"))


def test_schemas_may_refer_to_others(registry):
    line = {"type": "record", "name": "shop.Line", "fields": [{"name": "sku", "type": "string"}]}
    order = {
        "type": "record",
        "name": "shop.Order",
        "fields": [{"name": "lines", "type": {"type": "array", "items": "shop.Line"}}],
    }
    registry.add(line, subject="line/avro")
    number = registry.add(order, references=[("shop.Line", "line/avro")])
    data = b"\x04\x02a\x02b\x00"
    assert values(registry).value(framed(number, data)) == {"lines": [{"sku": "a"}, {"sku": "b"}]}
    text = 'syntax = "proto3"; package shop; message Line { string sku = 1; }'
    registry.add(text, "PROTOBUF", subject="line/proto")
    text = """
        syntax = "proto3";
        import "shop/line.proto";
        import "google/protobuf/timestamp.proto";
        message Order { repeated shop.Line lines = 1; google.protobuf.Timestamp at = 2; }
    """
    number = registry.add(text, "PROTOBUF", [("shop/line.proto", "line/proto")])
    data = b"\x00\x0a\x03\x0a\x01a\x0a\x03\x0a\x01b\x12\x02\x08\x01"
    assert values(registry).value(framed(number, data)) == {
        "lines": [{"sku": "a"}, {"sku": "b"}],
        "at": "1970-01-01T00:00:01Z",
    }


def test_what_kafka_connect_imports_is_there(registry):
    text = """
        syntax = "proto3";
        import "confluent/meta.proto";
        import "confluent/type/decimal.proto";
        message Row {
          int64 order = 1 [(confluent.field_meta) = { doc: "its number" }];
          confluent.type.Decimal price = 2;
        }
    """
    number = registry.add(text, "PROTOBUF")
    value = values(registry).value(framed(number, b"\x00\x08\x07\x12\x04\x0a\x02\x03\xe8"))
    assert value == {"order": "7", "price": {"value": "A+g=", "precision": 0, "scale": 0}}


def test_fields_are_read_under_another_name_of_theirs_that_is_asked_for(registry):
    fields = [
        {"name": "product", "type": "string", "aliases": ["sku", "article"]},
        {"name": "buyer", "type": ["null", "string"], "aliases": ["order"]},
        {"name": "order", "type": "long"},
    ]
    number = registry.add({"type": "record", "name": "R", "fields": fields})
    data = framed(number, b"\x02x\x00\x06")
    for names, name in ({"sku"}, "sku"), ({"product", "sku"}, "product"), ((), "product"):
        assert values(registry, names).value(data) == {name: "x", "buyer": None, "order": 3}
    text = (
        'syntax = "proto3"; message R { string product_name = 1; string a = 2 [json_name = "b"]; }'
    )
    data = framed(registry.add(text, "PROTOBUF"), b"\x00\x0a\x01x\x12\x01y")
    assert values(registry).value(data) == {"product_name": "x", "a": "y"}
    assert values(registry, {"productName", "b"}).value(data) == {"productName": "x", "b": "y"}


# what does not fit -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b'{"order": 1}', r"not in the framing of a schema registry: .* found b'{\"ord'"),
        (b"\0\0\0", r"not in the framing of a schema registry"),
        (framed(99, b""), r"/schemas/ids/99: 404 Not Found: .*Schema not found"),
        (framed(1, as_avro(ORDERS[0]) + b"x"), "1 byte follows the data of this schema"),
        (framed(1, as_avro(ORDERS[0])[:-3]), "the data are not of this schema: EOFError"),
        (framed(1, b"\x02" + b"\xff" * 12), "the data are not of this schema"),
        (framed(2, b"\x04\x02\x0a" + b""), r"the schema has no message at \[1, 5\]"),
        (framed(2, b"\x04"), "the data end within the indexes of a message's type"),
        (framed(2, PATH + b"\x0a\x7f"), "the data are not of this schema: DecodeError"),
        (framed(3, b"{"), "not JSON: "),
        (framed(4, b""), "a schema of type XML; expected AVRO, JSON, PROTOBUF"),
        (framed(5, b""), "the schema cannot be compiled: onlinesrl_schema.proto:1:1: "),
        (framed(6, b""), "the schema cannot be read: "),
        (framed(8, b"\0"), r"this schema: EOFError\('cannot read double from <_io.BytesIO>'\)"),
        (framed(7, b""), r"the schema imports \.\./x\.proto, which is no name of a file in it"),
    ],
)
def test_what_is_no_value_of_its_schema(registry, data, reason):
    registry.add(AVRO)
    registry.add(PROTOBUF, "PROTOBUF")
    registry.add({}, "JSON")
    registry.add({}, "XML")
    registry.add("nonsense", "PROTOBUF", subject="nonsense")
    registry.add({"type": "record"})
    registry.add('syntax = "proto3";', "PROTOBUF", [("../x.proto", "nonsense")])
    registry.add("double")
    read = values(registry)
    for _ in range(2):
        with pytest.raises(ExampleError, match=reason):
            read.value(data)
    assert len(registry.asked) <= 2


def test_damaged_data_never_do_more_than_be_bad(registry):
    """Of each form: every prefix, and every byte that is another."""
    avro, protobuf = registry.add(AVRO), registry.add(PROTOBUF, "PROTOBUF")
    read = values(registry)
    for data in framed(avro, as_avro(ORDERS[1])), framed(protobuf, PATH + as_protobuf(ORDERS[1])):
        damaged = [data[:n] for n in range(len(data))]
        damaged += [
            data[:n] + bytes([byte]) + data[n + 1 :]
            for n in range(5, len(data))
            for byte in (0, 127, 255)
        ]
        for each in damaged:
            with suppress(ExampleError):
                assert isinstance(read.value(each), dict)


# the registry ----------------------------------------------------------------------------------------


def test_a_login_is_sent_and_its_refusal_said(registry):
    with serving(login=True) as guarded:
        number = guarded.add(AVRO)
        assert client(guarded, LOGIN).schema(number).kind == "AVRO"
        for login in None, ("ann", "wrong"):
            with pytest.raises(UnavailableError, match="refuses: 401 Unauthorized; see"):
                client(guarded, login, patience=60).schema(number)


def test_a_redirection_is_not_followed(registry):
    with serving() as other:
        registry.faults = [(307, {"Location": f"{other.url}/schemas/ids/1"})]
        with pytest.raises(UnavailableError, match="refuses: 307"):
            client(registry, LOGIN).schema(1)
        assert other.asked == []


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(registry_module, "PAUSE_SECONDS", 0.01)


def test_a_registry_that_is_away_for_a_while_is_asked_again(registry, quick):
    number, said = registry.add(AVRO), []
    registry.faults = [(503, {}), (500, {}), (429, {})]
    assert client(registry, patience=60, say=said.append).schema(number).kind == "AVRO"
    (message,) = said
    assert message.startswith(f"the schema registry at {registry.url} does not answer: 503 ")
    assert "waiting for it, 60 s at most" in message


def test_patience_with_a_registry_has_an_end(quick):
    with Registry() as unheard:
        port = unheard.server_port
    away = SchemaRegistry(
        f"http://127.0.0.1:{port}", None, None, 0.05, lambda: False, lambda _: None
    )
    with pytest.raises(UnavailableError, match=r"does not answer: .*refused.* \(source.patience\)"):
        away.schema(1)
    stopped = SchemaRegistry(away.url, None, None, 60, lambda: True, lambda _: None)
    with pytest.raises(Stopped, match="so the next start asks again"):
        stopped.schema(1)


def test_a_registry_that_answers_byte_by_byte_does_not_answer(quick, monkeypatch):
    """What it sends never ends; neither patience nor a request to stop waits for it."""
    monkeypatch.setattr(registry_module, "ANSWER_SECONDS", 0.2)
    ended = threading.Event()

    def trickling():
        client, _ = listening.accept()
        with client, suppress(OSError):
            client.sendall(b"HTTP/1.1 200 OK\r\nX: ")
            while not ended.wait(0.01):
                client.sendall(b"x")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        threads = [threading.Thread(target=trickling) for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            slow = SchemaRegistry(url, None, None, 0.0, lambda: False, lambda _: None)
            with pytest.raises(UnavailableError, match=r"no answer within .*\(source.patience\)"):
                slow.schema(1)
            monkeypatch.setattr(registry_module, "ANSWER_SECONDS", 1e6)
            stopped = SchemaRegistry(url, None, None, 1e6, lambda: True, lambda _: None)
            with pytest.raises(Stopped, match="so the next start asks again"):
                stopped.schema(1)
        finally:
            ended.set()
            for thread in threads:
                thread.join()


def test_a_schema_that_was_not_there_is_asked_for_again_after_a_pause(registry, monkeypatch):
    read, number = values(registry), registry.add(AVRO)
    data = framed(number, as_avro(ORDERS[0]))
    registry.faults = [(404, {})] * 3
    for _ in range(2):
        with pytest.raises(ExampleError, match="404 Not Found"):
            read.value(data)
    assert len(registry.asked) == 1
    monkeypatch.setattr(framed_values, "AGAIN_SECONDS", 0.0)
    read = values(registry)
    for _ in range(2):
        with pytest.raises(ExampleError, match="404 Not Found"):
            read.value(data)
    assert read.value(data) == ORDERS[0]
    assert read.value(data) == ORDERS[0]
    assert len(registry.asked) == 4


def test_certificates_that_cannot_be_read_are_named(tmp_path):
    path = str(tmp_path / "none.pem")
    with pytest.raises(UnavailableError, match=r"source.registry.ssl_cafile .*none\.pem"):
        SchemaRegistry("https://localhost", None, path, 0, lambda: False, lambda _: None)


def test_packages_are_missed_before_anything_is_asked(monkeypatch):
    section = RegistrySection(url="http://localhost:1", username="a", password=SecretStr("b"))
    assert isinstance(section.client(0, None), SchemaRegistry)
    monkeypatch.setattr(config_section, "installed", lambda module: module != "google.protobuf")
    with pytest.raises(config_section.UsageError, match=r"pip install 'onlinesrl\[registry\]'"):
        section.client(0, None)


def test_the_framing_is_as_confluent_describes_it():
    assert framed(1, b"") == struct.pack(">bI", 0, 1)
