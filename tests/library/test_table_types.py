"""Every library of frames, type and way in gives the same atoms, or the same refusal."""

import datetime
from collections.abc import Callable, Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import parquet

import onlinesrl as srl
from onlinesrl.core.example import ValuedAtom, decode
from onlinesrl.library.tables import columns_of
from onlinesrl.logic.tables import read_parquet
from onlinesrl.stream.sources.parquet import TableSource

LIBRARIES: dict[str, Callable[[pa.Table], Any]] = {
    "arrow": lambda table: table,
    "polars": pl.DataFrame,
    "pandas": lambda table: table.to_pandas(),
    "pandas of Arrow": lambda table: table.to_pandas(types_mapper=pd.ArrowDtype),
    "duckdb": lambda table: duckdb.connect().from_arrow(table),
}
NOON = datetime.datetime(2020, 1, 1, 12, tzinfo=datetime.UTC)
CONSTANTS: dict[str, tuple[pa.DataType, list[Any], list[Any] | None]] = {
    "int8": (pa.int8(), [3, -4], [3, -4]),
    "uint64": (pa.uint64(), [2**64 - 1, 3], [2**64 - 1, 3]),
    "whole decimals": (pa.decimal128(5, 0), [Decimal(3), Decimal(-4)], [3, -4]),
    "large whole decimals": (pa.decimal128(38, 0), [Decimal(2**100), Decimal(3)], [2**100, 3]),
    "text": (pa.string(), ["012", "é"], ["012", "é"]),
    "large text": (pa.large_string(), ["", "2.5"], ["", "2.5"]),
    "categories": (pa.dictionary(pa.int8(), pa.string()), ["b", "a"], ["b", "a"]),
    "decimals": (pa.decimal128(5, 2), [Decimal("3.00"), Decimal("2.50")], None),
    "floats": (pa.float64(), [3.0, 2.5], None),
    "bools": (pa.bool_(), [True, False], None),
    "dates": (pa.date32(), [NOON, NOON], None),
    "times of day": (pa.time64("us"), [NOON.time(), NOON.time()], None),
    "bytes": (pa.binary(), [b"a", b"b"], None),
    "lists": (pa.list_(pa.int64()), [[1], [2]], None),
    "nulls": (pa.null(), [None, None], None),
    "a null": (pa.string(), ["a", None], None),
    "times in ns": (pa.timestamp("ns"), [NOON, NOON], None),
    "times with zone": (pa.timestamp("us", "UTC"), [NOON, NOON], None),
}
NUMBERS: dict[str, tuple[pa.DataType, list[Any], list[float] | None]] = {
    "floats": (pa.float64(), [0.25, -2.5], [0.25, -2.5]),
    "float32": (pa.float32(), [0.25, -2.5], [0.25, -2.5]),
    "int8": (pa.int8(), [1, -2], [1.0, -2.0]),
    "uint64": (pa.uint64(), [1, 2], [1.0, 2.0]),
    "bools": (pa.bool_(), [True, False], [1.0, 0.0]),
    "decimals": (pa.decimal128(5, 2), [Decimal("0.25"), Decimal("-2.50")], [0.25, -2.5]),
    "whole decimals": (pa.decimal128(5, 0), [Decimal(1), Decimal(-2)], [1.0, -2.0]),
    "text": (pa.string(), ["1", "2"], None),
    "times in ns": (pa.timestamp("ns"), [NOON, NOON], None),
    "nulls": (pa.null(), [None, None], None),
    "NaN": (pa.float64(), [0.5, float("nan")], None),
    "infinity": (pa.float64(), [0.5, float("inf")], None),
}


def columns_by(frame: Any) -> dict[str, list[Any]]:
    """Return the columns of a table through the examples that it has, one for each row."""
    atoms = [x.evidence["W"][0] for x in srl.examples({"W": frame}, by="e")]
    found = [atom if isinstance(atom, list) else [*atom.args, atom.value] for atom in atoms]
    return dict(zip(("i", "value"), map(list, zip(*found, strict=True)), strict=False))


def in_a_file(table: pa.Table, folder: Path) -> Path:
    path = folder / "evidence" / "W.parquet"
    path.parent.mkdir()
    parquet.write_table(table, path)
    return path


def columns_of_source(folder: Path) -> dict[str, list[Any]]:
    """Return the columns of the table of a run's source."""
    records = TableSource(folder, "e", 1 << 20).read()
    atoms = [decode(record.value).evidence["W"][0] for record in records if record is not None]
    found = [atom if isinstance(atom, list) else [*atom.args, atom.value] for atom in atoms]
    return dict(zip(("i", "value"), map(list, zip(*found, strict=True)), strict=False))


def check(name: str, table: pa.Table, expected: Any, library: str, folder: Path) -> None:
    """Check what is read of a column, and of the same beside a column that says the example."""
    beside = table.append_column("e", pa.array(range(len(table))))
    ways: list[Callable[[], dict[str, list[Any]]]]
    if library == "Parquet":
        path, other = in_a_file(table, folder), folder / "other"
        other.mkdir()
        in_a_file(beside, other)
        ways = [lambda: read_parquet(path), lambda: columns_of_source(other)]
    else:
        frame = LIBRARIES[library]
        ways = [lambda: columns_of(frame(table), "W"), lambda: columns_by(frame(beside))]
    for way in ways:
        if expected is None:
            with pytest.raises(srl.TableError, match=rf"column {name}, row \d: expected "):
                way()
        else:
            found = way()[name]
            assert found == expected
            assert [*map(type, found)] == [*map(type, expected)]


def cases(kinds: Iterable[str]) -> list[tuple[str, str]]:
    """Return kinds and libraries; a null or NaN in Parquet makes a bad example of a run, no bad table."""
    bad = {"a null", "NaN", "infinity"}
    return [
        (k, of)
        for k in kinds
        for of in (*LIBRARIES, "Parquet")
        if (of, k in bad) != ("Parquet", True)
    ]


@pytest.mark.parametrize(("kind", "library"), cases(CONSTANTS))
def test_constants_are_the_same_from_everywhere(kind: str, library: str, tmp_path: Path) -> None:
    dtype, values, expected = CONSTANTS[kind]
    check("i", pa.table({"i": pa.array(values, dtype)}), expected, library, tmp_path)


@pytest.mark.parametrize(("kind", "library"), cases(NUMBERS))
def test_numbers_are_the_same_from_everywhere(kind: str, library: str, tmp_path: Path) -> None:
    dtype, values, expected = NUMBERS[kind]
    table = pa.table({"i": ["a", "b"], "value": pa.array(values, dtype)})
    check("value", table, expected, library, tmp_path)


# types of one library -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        ("012", "012"),
        ("1e3", "1e3"),
        ("A12", "A12"),
        (np.int64(8), 8),
        (2**53 + 1, 2**53 + 1),
        (2**100, 2**100),
        (Decimal(3), 3),
        (2.5, None),
        (True, None),
        (None, None),
        (NOON, None),
        (b"a", None),
        (Decimal("2.5"), None),
    ],
)
def test_all_objects_of_a_column_are_looked_at(last: Any, expected: Any) -> None:
    """A column of objects is one of text if one of them is; categories may be of objects, too."""
    rows = 2500
    column = pd.Series([7] * (rows - 1) + [last], dtype=object)
    frames = [pd.DataFrame({"e": 1, "i": column})]
    if last is not None:
        frames.append(pd.DataFrame({"e": 1, "i": pd.Categorical(column)}))
    for frame in frames:
        ways = (
            lambda frame=frame: columns_of(frame[["i"]], "W")["i"],
            lambda frame=frame: [
                atom[0] for atom in next(srl.examples({"W": frame}, by="e")).evidence["W"]
            ],
        )
        for way in ways:
            if expected is None:
                with pytest.raises(srl.TableError, match=f"W, column i, row {rows - 1}: expected"):
                    way()
            else:
                others: Any = "7" if isinstance(expected, str) else 7
                assert way() == [others] * (rows - 1) + [expected]


def test_objects_are_numbers_as_well() -> None:
    frame = pd.DataFrame(
        {"i": ["a", "b"], "value": pd.Series([True, Decimal("0.5")], dtype=object)}
    )
    assert columns_of(frame, "S") == {"i": ["a", "b"], "value": [1.0, 0.5]}
    with pytest.raises(srl.TableError, match="S, column value, row 1: expected a number"):
        columns_of(frame.assign(value=pd.Series([1, "1"], dtype=object)), "S")


def test_whole_numbers_have_128_bits() -> None:
    large = [2**100, -(2**100)]
    frames = (
        duckdb.sql("SELECT unnest([1::HUGEINT << 100, -(1::HUGEINT << 100)]) AS i"),
        pl.DataFrame({"i": pl.Series(large, dtype=pl.Int128)}),
    )
    for frame in frames:
        assert columns_of(frame, "W") == {"i": large}
    model = srl.Model("W(t)\nQ(t)\n1 W(x) => Q(x)")
    summed = duckdb.sql("SELECT sum(i) AS n FROM range(3) t(i)")
    assert [*srl.infer(model, {"W": summed}, "Q")["Q"]] == [(3,)]


@pytest.mark.parametrize(
    "empty",
    [
        pd.DataFrame({"e": [], "i": []}),
        pd.DataFrame({"e": [], "i": pd.to_datetime([])}),
        pl.DataFrame({"e": [], "i": []}),
        pa.table({"e": [], "i": []}),
        srl.Table({"e": [], "i": []}),
        duckdb.sql("SELECT 1.5 AS e, DATE '2020-01-01' AS i WHERE false"),
    ],
    ids=["pandas", "pandas of times", "polars", "arrow", "onlinesrl", "duckdb"],
)
def test_a_table_without_rows_has_columns_of_any_type(empty: Any) -> None:
    assert columns_of(empty, "W") == {"e": [], "i": []}
    given = {"W": empty, "V": srl.Table({"e": [4], "j": ["a"]})}
    assert [x.evidence for x in srl.examples(given, by="e")] == [{"V": [["a"]]}]
    assert [*srl.examples({"W": empty}, by="e")] == []


def test_a_table_of_our_own_has_text_where_there_is_any() -> None:
    table = srl.Table({"i": [1, "b"], "n": [2**70, 3], "v": [1, 0.5], "none": [None, 1]})
    given = pl.DataFrame(table)
    assert given.rows() == [("1", str(2**70), 1.0, None), ("b", "3", 0.5, 1)]


def test_values_in_examples_are_numbers() -> None:
    frame = pl.DataFrame({"e": [1], "i": ["a"], "value": pl.Series([3], dtype=pl.Int128)})
    [x] = srl.examples({"S": frame}, by="e")
    assert x.evidence["S"] == [ValuedAtom(["a"], 3.0)]
