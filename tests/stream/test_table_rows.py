"""Rows of tables as lines of JSON: the bytes that an encoder of examples would write."""

import random
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from conftest import tiers

from onlinesrl.core.errors import ExampleError, StorageError
from onlinesrl.core.example import Example, ValuedAtom
from onlinesrl.core.learner import Outcome, Prediction
from onlinesrl.logic.tables import read_parquet, write_parquet
from onlinesrl.stream.kernels import sorted_rows as kernel
from onlinesrl.stream.predictions import Result
from onlinesrl.stream.records import Record
from onlinesrl.stream.sinks.parquet import new_tables
from onlinesrl.stream.sources.parquet import TableSource

TEXTS = [
    "a",
    "",
    'say "so"',
    "back\\slash",
    "tab\tline\n",
    "é",
    "\U0001f600",
    "null",
    "7",
    "{}",
    "\0",
]
NAMES: dict[str, list[Any]] = {
    "numbers": [-3, 0, 7, 10, 2**40],
    "text": ["", "10", "7", "A", "a", "a\0", "é"],
}


def lines(folder: Path) -> list[bytes]:
    return [record.value for record in TableSource(folder, "id", 1 << 20).read() if record]


@tiers("cases", 12, 2000)
def test_lines_are_what_an_encoder_writes(cases, tmp_path):
    for case in range(cases):
        rng, folder = random.Random(case), tmp_path / str(case)
        names = NAMES[rng.choice([*NAMES])]
        expected: dict[Any, dict[str, Any]] = {}
        for part, predicate, valued in (
            ("evidence", "P", False),
            ("evidence", "Q", True),
            ("truth", "T", False),
        ):
            drawn = [rng.choice(names) for _ in range(rng.randint(1, 12))]
            found = sorted(drawn) if rng.random() < 0.5 else drawn
            text, number = [rng.choice(TEXTS) for _ in found], [rng.randint(-9, 99) for _ in found]
            value = [rng.choice([0.5, 1.0, 1e-7, -2.0, 1e300]) for _ in found]
            columns = {"id": found, "x": text, "n": number} | ({"value": value} if valued else {})
            write_parquet(folder / part / f"{predicate}.parquet", columns)
            rows = zip(found, text, number, value, strict=True)
            for name, *args, worth in sorted(rows, key=lambda row: row[0]):
                example = expected.setdefault(name, {"id": name, "evidence": {}, "truth": {}})
                atom = {"args": args, "value": worth} if valued else args
                example[part].setdefault(predicate, []).append(atom)
        for each in expected.values():  # the order of the files
            each["evidence"] = dict(sorted(each["evidence"].items()))
        written = [msgspec.json.encode(expected[name]) for name in sorted(expected)]
        assert lines(folder) == written, case


def test_an_example_may_be_in_many_batches(tmp_path):
    ids, size = [*range(100), *[100] * 300_000, 101], 300_000
    write_parquet(tmp_path / "evidence" / "P.parquet", {"id": ids, "n": [*range(len(ids))]})
    write_parquet(tmp_path / "truth" / "T.parquet", {"id": [0, 101], "n": [5, 6]})
    source = TableSource(tmp_path, "id", 1 << 23)
    found = [record for record in source.read() if record]
    atoms = msgspec.json.decode(found[100].value)["evidence"]["P"]
    assert atoms == [[n] for n in range(100, 100 + size)]
    assert found[101].value == b'{"id":101,"evidence":{"P":[[300100]]},"truth":{"T":[[6]]}}'
    short = [record for record in TableSource(tmp_path, "id", 10_000).read() if record]
    assert [record.too_long for record in short] == [n == 100 for n in range(102)]
    assert short[100].value == found[100].value[:10_000]
    assert [r.value for n, r in enumerate(short) if n != 100] == [
        r.value for n, r in enumerate(found) if n != 100
    ]


def test_first_rows_are_those_that_differ():
    rng = np.random.default_rng(0)
    for _ in range(200):
        texts = [bytes(rng.integers(97, 99, rng.integers(0, 3))) for _ in range(rng.integers(1, 9))]
        start = np.array([0, *np.cumsum([*map(len, texts)])], np.int32)
        byte, first = np.frombuffer(bytearray(b"".join(texts)), np.uint8), np.zeros(9, np.int64)
        n = kernel.first_rows(byte, start, first)
        expected = [i for i in range(len(texts)) if i == 0 or texts[i] != texts[i - 1]]
        assert first[:n].tolist() == expected


def test_a_damaged_file_is_named(tmp_path):
    path = tmp_path / "evidence" / "P.parquet"
    write_parquet(path, {"id": [*range(50_000)], "w": [f"word{n * 7919}" for n in range(50_000)]})
    whole = bytearray(path.read_bytes())
    whole[1000:200_000] = bytes(199_000)
    path.write_bytes(whole)
    with pytest.raises(StorageError, match=str(tmp_path)):
        lines(tmp_path)


# predictions --------------------------------------------------------------------------------------


def test_answers_become_columns(tmp_path):
    tables = new_tables(tmp_path, {"In": ["token", None], "Is": ["kind"], "None": ["x"]})
    record, example = Record(b"", "f", 3, 0, 0), Example(id="7", evidence={})
    atoms: dict[str, Any] = {"In": [["é\0", 1], ['"', -2]], "Is": [["5"], [5]], "None": []}
    tables.write(Result(record, example, Outcome(Prediction("7", atoms, 0.5, True, "g", 2))))
    tables.write(Result(record, ExampleError("wrong"), Outcome(None, "wrong")))
    values = {"In": [ValuedAtom(["b", 3], 0.25)]}
    bare = Prediction(8, {"In": []}, 1.5, False, marginals=values)
    tables.write(Result(record, example, Outcome(bare)))
    tables.flush()
    tables.flush()
    found = {path.name: [*path.iterdir()] for path in tmp_path.iterdir()}
    assert {*found} == {"examples", "In", "Is"} and all(len(of) == 1 for of in found.values())
    assert read_parquet(found["Is"][0]) == {"id": ["7", "7"], "kind": ["5", "5"]}
    import duckdb

    def rows(table):
        return duckdb.connect().execute(f"SELECT * FROM '{found[table][0]}'").fetchall()

    assert rows("In") == [("7", "é\0", 1, None), ("7", '"', -2, None), ("8", "b", 3, 0.25)]
    assert rows("examples") == [
        ("7", 0.5, True, "g", 2, None, None, None, 3, None),
        (None, None, None, None, None, None, None, None, 3, "wrong"),
        ("8", 1.5, False, None, None, None, None, None, 3, None),
    ]
