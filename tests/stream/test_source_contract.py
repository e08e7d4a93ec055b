"""What holds of every source that reads files: it teaches what lines teach, goes on, and notices changes."""

import gzip
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from onlinesrl.core.errors import DataError
from onlinesrl.stream.mapping import Mapper, MappingSection
from onlinesrl.stream.records import Record
from onlinesrl.stream.shutdown import Stopped
from onlinesrl.stream.source import IteratedSource
from tests.support.orders import MAPPING, MODEL, ORDERS, as_csv, as_file, as_json
from tests.support.tables import as_csv as tables_as_csv
from tests.support.tables import write_tables

pytestmark = pytest.mark.usefixtures("counting")


class Kind(NamedTuple):
    """A kind of source: its keys, how some records are written, and the same as lines of examples."""

    path: str
    write: Callable[[Path, Sequence[Any]], object]
    records: Sequence[Any]
    lines: Sequence[bytes]
    keys: dict[str, Any]


def packed(path: Path, lines: Sequence[bytes]) -> None:
    """One member for each line, as of a file that grew."""
    path.write_bytes(b"".join(map(gzip.compress, lines)))


def in_files(path: Path, lines: Sequence[bytes]) -> None:
    path.mkdir(exist_ok=True)
    for n in range(0, len(lines), 10):
        (path / f"{n:02}.jsonl").write_bytes(b"".join(lines[n : n + 10]))


def in_tables(path: Path, lines: Sequence[bytes], as_text: bool = False) -> None:
    write_tables(path, lines, 2)
    if as_text:
        tables_as_csv(path)


@pytest.fixture(
    params=[
        "jsonl",
        "gz",
        "folder",
        "tables",
        "csv",
        "rows.csv",
        "rows.parquet",
        "rows.avro",
        "map",
    ]
)
def kind(request: pytest.FixtureRequest, citations: list[bytes], tmp_path: Path) -> Kind:
    values = [{**json.loads(line), "id": n, "group": None} for n, line in enumerate(citations[:30])]
    for value in values:
        value["evidence"] = {"Token": value["evidence"]["Token"]}
    lines = [json.dumps(value).encode() + b"\n" for value in values]
    (tmp_path / "orders.mln").write_text(MODEL)
    model = {"model": str(tmp_path / "orders.mln"), "query": "Returned", "metrics": {}}
    mapper = Mapper(MappingSection.model_validate(MAPPING))
    orders = [mapper.line(order, "") + b"\n" for order in ORDERS[:30]]

    def rows(file: str, form: Callable[[Any], bytes]) -> Kind:
        keys = {**model, "source": {"path": file, "mapping": MAPPING}}
        return Kind(
            file, lambda path, some: path.write_bytes(form(some)), ORDERS[:30], orders, keys
        )

    name: str = request.param
    if name.startswith("rows.p") or name.startswith("rows.a"):
        return rows(name, lambda some: as_file(some, name))
    if name in {"rows.csv", "map"}:
        form = as_csv if name == "rows.csv" else as_json
        return rows("rows.csv" if name == "rows.csv" else "m.jsonl", lambda x: b"".join(form(x)))
    if name in {"tables", "csv"}:
        source = {"kind": "parquet" if name == "tables" else "csv", "path": "tables"}
        as_text = name == "csv"
        return Kind(
            "tables", lambda p, x: in_tables(p, x, as_text), lines, lines, {"source": source}
        )
    path, write = {
        "jsonl": ("a.jsonl", lambda path, some: path.write_bytes(b"".join(some))),
        "gz": ("a.jsonl.gz", packed),
        "folder": ("days", in_files),
    }[name]
    return Kind(path, write, lines, lines, {"source": {"path": path}})


@pytest.fixture
def written(kind: Kind, job: Any) -> Any:
    run = job([], checkpoint={"every": 7}, **kind.keys)
    kind.write(run.folder / kind.path, kind.records)
    return run


@pytest.fixture
def whole(kind: Kind, job: Any) -> dict[str, bytes]:
    keys = {key: value for key, value in kind.keys.items() if key != "source"}
    run = job(kind.lines, "whole", checkpoint={"every": 7}, **keys)
    assert run.run() == 0, run.said
    return run.results()  # type: ignore[no-any-return]


def test_it_teaches_what_lines_teach_wherever_it_stops(written, whole):
    for until in ("1", "11", "12", "end"):
        assert written.run("--until", until) == 0, written.said
    assert "after 12 examples" in written.said
    assert written.results() == whole
    assert written.run() == 0
    assert "this run is finished" in written.said


def test_what_comes_later_is_learned_later(kind, written, whole):
    place = written.folder / kind.path
    kind.write(place, kind.records[:20])
    if place.suffix in {".parquet", ".avro"}:  # which cannot grow
        return
    assert written.run() == 0, written.said
    kind.write(place, kind.records)
    assert written.run() == 0, written.said
    for name in ("weights.mln", "predictions.jsonl"):
        assert written.results()[name] == whole[name]


def test_another_source_is_refused(kind, written):
    assert written.run("--until", "11") == 0, written.said
    before = written.results()
    kind.write(written.folder / kind.path, [*kind.records[3:], *kind.records[:3]][:-1])
    assert written.run() == 74
    assert "start over with --fresh" in written.said
    assert written.results() == before
    kind.write(written.folder / kind.path, kind.records)
    assert written.run() == 0, written.said


@pytest.mark.parametrize("error", [DataError("they are gone"), Stopped("stopped")])
def test_what_was_read_before_reading_ends_is_learned_from(error: Exception) -> None:
    """And the position is after it: a checkpoint neither repeats nor leaves out records."""
    records = [Record(b"{}", "name", line, 0, line) for line in range(3)]

    class Ending(IteratedSource):
        given = 0

        def read(self, position: Any = None) -> Iterator[Record | None]:
            for number, record in enumerate(records, 1):
                self.given = number
                yield record
            raise error

        def after(self, some: Sequence[Record]) -> Any:
            return self.given

    source = Ending()
    source.open(None)
    assert source.next_batch(2) == records[:2]
    assert source.next_batch(2) == records[2:]
    with pytest.raises(type(error)):
        source.next_batch(2)
    assert source.snapshot() == 3
