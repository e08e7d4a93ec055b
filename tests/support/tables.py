"""Examples as Parquet tables, and the rows of tables."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb

from onlinesrl.logic.tables import write_parquet


def write_tables(folder: Path, lines: Sequence[bytes], parts: int = 1) -> None:
    """Write examples as tables, their rows from last to first; with ``parts`` in so many files each."""
    tables: dict[tuple[str, str], dict[str, list[Any]]] = {}
    for line in lines:
        value = json.loads(line)
        for part in ("evidence", "truth"):
            for predicate, atoms in value[part].items():
                columns = tables.setdefault((part, predicate), {"id": []})
                for atom in atoms:
                    columns["id"].append(value["id"])
                    for n, constant in enumerate(atom, 1):
                        columns.setdefault(f"argument_{n}", []).append(constant)
    for (part, predicate), columns in tables.items():
        rows = sorted(zip(*columns.values(), strict=True), key=lambda row: -row[0])
        for n in range(parts):
            some = [row for row in rows if row[0] % parts == n]
            name = f"{predicate}.parquet" if parts == 1 else f"{predicate}/day-{n}.parquet"
            (folder / part / name).parent.mkdir(parents=True, exist_ok=True)
            write_parquet(
                folder / part / name, dict(zip(columns, zip(*some, strict=True), strict=True))
            )


def predicted_rows(folder: Path) -> dict[str, list[Any]]:
    """The rows of a run's predicted tables, in the order of their parts."""
    found = {}
    for table in sorted(path for path in folder.iterdir() if path.is_dir()):
        columns = [read_columns(part) for part in sorted(table.iterdir())]
        found[table.name] = [row for each in columns for row in zip(*each.values(), strict=True)]
    return found


def read_columns(path: Path) -> dict[str, list[Any]]:
    """The columns of a Parquet file, by their names."""
    found = duckdb.connect().execute("SELECT * FROM read_parquet(?)", [[str(path)]])
    names = [column[0] for column in found.description or ()]
    return dict(zip(names, zip(*found.fetchall(), strict=True), strict=True))


def as_csv(folder: Path) -> None:
    """Write a folder of Parquet tables as CSV tables instead."""
    for path in sorted(folder.rglob("*.parquet")):
        columns = read_columns(path)
        with path.with_suffix(".csv").open("w", newline="") as file:
            writer = csv.writer(file, delimiter=";")
            writer.writerows([[*columns], *zip(*columns.values(), strict=True)])
        path.unlink()
