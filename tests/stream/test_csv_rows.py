"""Rows of CSV files: each once, whole and in order, with the place to go on from."""

import json
import tempfile
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from onlinesrl.stream.csv_rows import row
from onlinesrl.stream.sources import files
from onlinesrl.stream.sources.files import FileSource
from tests.support.golden import check, refusal

COLUMNS = ["id", 'a "b"', "two\nlines", "d"]
cell = st.text(st.sampled_from('ab1,;"\t|\n\r é'), max_size=6)
rows = st.lists(st.lists(cell, min_size=4, max_size=4), max_size=6)


def reading(path, position=None, ledger=None):
    source = FileSource([path], ledger=ledger)
    source.open(position)
    while (batch := source.next_batch(1)) is not None:
        for record in batch:
            yield record, json.loads(json.dumps(source.snapshot()))


@given(
    rows=rows,
    delimiter=st.sampled_from(",;\t|"),
    end=st.sampled_from(["\n", "\r\n"]),
    all_quoted=st.booleans(),
    mark=st.sampled_from([b"", b"\xef\xbb\xbf"]),
    last=st.booleans(),
)
@example([["1", 'x,"', "\n\n", ""]] * 3, ",", "\n", False, b"\xef\xbb\xbf", False)
def test_rows_are_those_that_were_written_and_can_be_gone_on_from(
    rows, delimiter, end, all_quoted, mark, last
):
    def is_quoted(cell):
        return all_quoted or bool(set(cell) & set('"\r\n' + delimiter))

    def written(cell):
        return '"' + cell.replace('"', '""') + '"' if is_quoted(cell) else cell

    text = end.join(delimiter.join(map(written, cells)) for cells in [COLUMNS, *rows])
    data = mark + (text + end if last else text).encode()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x.csv")
        path.write_bytes(data)
        ledger = Path(folder, "ledger")
        read = [*reading(path, None, ledger)]
        cells = [row(record.header, record.value) for record, _ in read]
        expected = [
            [cell if is_quoted(cell) else cell.strip(" \t") for cell in cells] for cells in rows
        ]
        assert cells == [
            {name: value or None for name, value in zip(COLUMNS, cells, strict=True)}
            for cells in expected
        ]
        for k, (record, position) in enumerate(read):
            assert record.line == data[: record.offset].count(b"\n") + (
                record.offset == len(data) and not last
            )
            assert [*reading(path, position, ledger)] == read[k + 1 :]


def test_a_quote_within_a_cell_without_quotes_opens_nothing(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text('id,size\n1,5" disk\n2,"a\nb"\n')
    records = [record for record, _ in reading(path)]
    assert [record.value for record in records] == [b'1,5" disk', b'2,"a\nb"']
    assert row(records[0].header, records[0].value) == {"id": "1", "size": '5" disk'}


def test_a_row_that_does_not_fit_its_header():
    path = Path(__file__).parent / "golden" / "csv_rows.txt"
    check(path, lambda given: refusal(lambda: row(*eval(given))))


def test_blanks_around_cells_and_quotes_do_not_count(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text(' id ,\t"two words " \n 1 , "a, ""\nb "  \n2,\n')
    records = [record for record, _ in reading(path)]
    assert [row(record.header, record.value) for record in records] == [
        {"id": "1", "two words ": 'a, "\nb '},
        {"id": "2", "two words ": None},
    ]


def test_a_row_that_is_still_written_is_waited_for(tmp_path, monkeypatch):
    """Wherever it has been cut: in the header, within quotes, before a line end."""
    monkeypatch.setattr(files, "WAIT_SECONDS", 0.0)
    data = b'id,note\n1,"two\nlines, ""q"""\n2,x\n'
    for cut in range(len(data)):
        path = tmp_path / f"{cut}.csv"
        path.write_bytes(data[:cut])
        source = FileSource([path], live=True, ledger=tmp_path / f"{cut}.ledger")
        records = source.read()
        before = [record for record in (next(records) for _ in range(6)) if record is not None]
        position = source.after(before) if before else None
        with path.open("ab") as file:
            file.write(data[cut:])
        after = [record for record in (next(records) for _ in range(9)) if record is not None]
        cells = [row(record.header, record.value) for record in (*before, *after)]
        assert cells == [{"id": "1", "note": 'two\nlines, "q"'}, {"id": "2", "note": "x"}]
        assert [record.line for record in (*before, *after)] == [3, 4]
        again = FileSource([path], ledger=tmp_path / f"{cut}.ledger")
        assert [*filter(None, again.read(position))] == after
