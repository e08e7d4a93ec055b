"""Write the stream of papers as Parquet tables: one for each predicate, of the evidence and of the truth.

usage: python streams/collective/tables.py

Reads collective.jsonl in this folder, and writes the folder tables beside it (configs/parquet.yaml).
"""

import json
import sys
from pathlib import Path

import duckdb

HERE = Path(__file__).parent
COLUMNS = {
    "evidence/Says": ("paper", "word"),
    "evidence/Cites": ("paper", "paper2"),
    "truth/Topic": ("paper", "topic"),
}


def write(folder: Path) -> None:
    """Write the tables, each row with the number of its example."""
    examples = [
        json.loads(line) for line in (HERE / "collective.jsonl").read_text("utf-8").splitlines()
    ]
    for name, columns in COLUMNS.items():
        part, predicate = name.split("/")
        rows = [
            dict(zip(("id", *columns), (number, *map(str, atom)), strict=True))
            for number, example in enumerate(examples)
            for atom in example[part].get(predicate, [])
        ]
        (folder / part).mkdir(parents=True, exist_ok=True)
        source = folder / f"{predicate}.json"
        source.write_text(json.dumps(rows), encoding="utf-8")
        kinds = {"id": "BIGINT", **dict.fromkeys(columns, "VARCHAR")}
        relation = duckdb.sql(f"SELECT * FROM read_json('{source}', columns={kinds})")
        relation.write_parquet(str(folder / f"{name}.parquet"))
        source.unlink()


if __name__ == "__main__":
    if "--help" in sys.argv:
        print(__doc__)
        sys.exit()
    write(HERE / "tables")
