"""The published schema of an example: it takes what the reader takes."""

import json
import pickle
from typing import Any

import jsonschema
import msgspec
import pytest

import onlinesrl as srl
from onlinesrl.core.errors import ExampleError
from onlinesrl.core.example import decode, json_schema

FACTS = {"Token": [["a", 0]]}


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft202012Validator:
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    return jsonschema.Draft202012Validator(schema)


def test_the_stream_fits_the_schema(
    validator: jsonschema.Draft202012Validator, citations: list[bytes]
) -> None:
    for line in citations[::6]:
        validator.validate(json.loads(line))
        decode(line)


@pytest.mark.parametrize(
    "value",
    [
        {"id": 1, "evidence": {}},
        {"id": "a", "evidence": FACTS, "group": None, "truth": None, "query": None},
        {"id": "a", "evidence": FACTS, "truth": {"F": [{"args": [0], "value": 1}]}},
        {"id": "a", "evidence": FACTS, "query": {"F": [[0], {"args": ["0"]}]}, "dup_of": 3},
        {"id": "a", "evidence": {"Raining": [[]]}},
    ],
)
def test_good_examples(validator: jsonschema.Draft202012Validator, value: Any) -> None:
    validator.validate(value)
    decode(json.dumps(value).encode())


@pytest.mark.parametrize(
    "value",
    [
        {},
        [],
        "a",
        {"id": 1},
        {"evidence": {}},
        {"id": None, "evidence": {}},
        {"id": 1.5, "evidence": {}},
        {"id": 1, "evidence": []},
        {"id": 1, "evidence": {"P": {}}},
        {"id": 1, "evidence": {"P": ["a"]}},
        {"id": 1, "evidence": {"P": [[None]]}},
        {"id": 1, "evidence": {"P": [[0.5]]}},
        {"id": 1, "evidence": {"P": [[["a"]]]}},
        {"id": 1, "evidence": {"P": [{"value": 1}]}},
        {"id": 1, "evidence": {"P": [{"args": [1], "value": "1"}]}},
        {"id": 1, "evidence": {"P": [{"args": [1], "weight": 1}]}},
        {"id": 1, "evidence": {}, "labels": {}},
    ],
)
def test_bad_examples(validator: jsonschema.Draft202012Validator, value: Any) -> None:
    assert not validator.is_valid(value)
    with pytest.raises(ExampleError, match="not an example: "):
        decode(json.dumps(value).encode())


def test_an_atom_without_a_number_stays_without_one() -> None:
    """It is true, and a numeric predicate refuses it, however it was stored."""
    example = decode(b'{"id": 1, "evidence": {"Score": [{"args": ["a"]}]}}')
    learner = srl.OnlineLearner("Score(x): real\nQ(x)\n0 Score(x) ^ Q(x)", "Q")
    for stored in (
        example,
        pickle.loads(pickle.dumps(example)),
        decode(msgspec.json.encode(example)),
    ):
        assert [atom.value for atom in stored.evidence["Score"]] == [1.0]
        with pytest.raises(srl.ExampleError, match="has no value, and Score is numeric"):
            learner.predict_one(stored)
