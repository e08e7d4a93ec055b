"""What linked rows cost: beside reading the same examples ready-made, and by the rows in a window."""

from pathlib import Path
from statistics import median

from onlinesrl.runs.config.loading import section_of
from onlinesrl.stream.decoding import ExampleReader, RecordDecoder
from onlinesrl.stream.linked_config import LinkedSection
from onlinesrl.stream.linked_source import linked_source
from onlinesrl.stream.linked_windows import WINDOWS
from onlinesrl.stream.schedule import rare_collections
from onlinesrl.stream.source import Source
from onlinesrl.stream.sources.files import FileSource
from tests.benchmarks.measure import in_turns, ratio, show, sizes, timed
from tests.support.payments import SECTION, generate


def linked(paths: list[Path]) -> Source:
    section = section_of(LinkedSection, SECTION, "linked")
    return linked_source(section, [FileSource([path]) for path in paths], "utf-8")


def read(source: Source) -> int:
    """Read and decode all examples and labels."""
    decoder = RecordDecoder((), 1 << 20, labels=True)
    return sum(map(len, ExampleReader(source, decoder).read()))


@sizes("payments, pairs, most", (200, 1, float("inf")), (8000, 5, 5.5))
def test_reading_rows_beside_reading_ready_made_examples(
    payments: int, pairs: int, most: float, tmp_path: Path
) -> None:
    paths, ready = generate(tmp_path, 1, payments, 40), tmp_path / "ready.jsonl"
    source = linked(paths)
    source.open(None)
    with ready.open("wb") as file:
        while (records := source.next_batch(256)) is not None:
            file.writelines(record.value + b"\n" for record in records)
    assert read(linked(paths)) == read(FileSource([ready])) > 2 * payments
    with rare_collections():  # as in a run
        rows, examples = in_turns(
            pairs, lambda: read(linked(paths)), lambda: read(FileSource([ready]))
        )
    times = ratio(rows, examples)
    head = ("rows, s", "ready-made, s", "x")
    show("CPU of reading", head, [(f"{median(rows):.3g}", median(examples), times)])
    assert times <= most


@sizes("few, many, most", (50, 100, float("inf")), (2_000, 32_000, 2.0))
def test_a_row_costs_the_same_however_many_are_in_its_window(
    few: int, many: int, most: float
) -> None:
    """In microseconds: to add a row, to let one leave, and to take the number."""
    table = []
    for measure, window in WINDOWS.items():
        costs = []
        for size in (few, many):
            one = window(float(size), size / 8)
            entries = [(float(n), n, float(n * 7919 % 1000) / 8) for n in range(size + few)]
            for entry in entries[:size]:
                one.add(entry, entry[0])

            def step(one=one, entries=entries[size:]) -> None:  # type: ignore[no-untyped-def]
                for entry in entries:
                    one.add(entry, entry[0])
                    one.at(entry[0], entry[0])

            costs.append(1e6 * timed(step)[0] / few)
        table.append((measure, *costs, costs[1] / costs[0]))
    show("A row", ("", f"{few:,} in the window", f"{many:,}", "x"), table)
    assert max(row[-1] for row in table) <= most
