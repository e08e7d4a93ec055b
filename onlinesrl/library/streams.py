"""Examples from files, and whole runs."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from onlinesrl.core.errors import DataError, ExampleError, OnlinesrlWarning
from onlinesrl.core.example import Example, decode
from onlinesrl.library.model import names_of
from onlinesrl.library.tables import rows_by
from onlinesrl.logic.tables import connect
from onlinesrl.runs.config import loading as configuration
from onlinesrl.runs.console import told_to
from onlinesrl.runs.progress import Shows
from onlinesrl.stream.csv_rows import UTF_8
from onlinesrl.stream.observer import Progress
from onlinesrl.stream.records import Record
from onlinesrl.stream.sources.parquet import lines


def read(
    paths: str | Path | Sequence[str | Path],
    query: str | Sequence[str] = (),
    *,
    mapping: Mapping[str, Any] | None = None,
    linked: Mapping[str, Any] | None = None,
    bad: Callable[[str], object] | None = None,
) -> Iterator[Example]:
    """Yield the examples of files, folders or patterns: JSON lines (also .gz), CSV, or .db files.

    A .db file is one example, in which atoms of the ``query`` predicates are the truth. The path of a run's
    configuration (.yaml) yields what the run would learn from: any source, its groups, and examples with
    labels that come separately, in the order in which they are labelled. The ``mapping`` has the keys of
    source.mapping, and makes examples of rows and other records. ``linked`` has the keys of source.linked:
    rows of all files, merged by time, become examples, each as soon as its label has come. A bad record
    raises DataError, with its place; or ``bad`` is called with the message, and reading goes on. Raises
    ConfigError for a bad section.
    """
    from onlinesrl.stream.decoding import ExampleReader, RecordDecoder
    from onlinesrl.stream.mapping import Mapper, MappingSection
    from onlinesrl.stream.record_form import RecordForm
    from onlinesrl.stream.sources.files import FileSource

    def refuse(record: Record, error: ExampleError) -> None:
        place, message = f"{record.file}:", str(error)
        if not message.startswith(place):
            message = f"{place}{record.line}: {message}"
        if bad is None:
            raise DataError(message)
        bad(message)

    listed = [paths] if isinstance(paths, str | Path) else paths
    if len(listed) == 1 and Path(listed[0]).suffix in {".yaml", ".yml"}:
        from onlinesrl.runs.evaluation import labelled_examples

        yield from labelled_examples(configuration.load(Path(listed[0])), refuse)
        return
    if linked is not None:
        yield from _linked(listed, linked, refuse)
        return
    source, form = FileSource([Path(path) for path in listed]), None
    if mapping is not None:
        mapper = Mapper(configuration.section_of(MappingSection, mapping, "mapping"))
        form = RecordForm(mapper, say=lambda message: warnings.warn(message, OnlinesrlWarning, 2))
    decoder = RecordDecoder(names_of(query, "query"), source.max_bytes, form=form)
    for _, content in ExampleReader(source, decoder).good(refuse):
        if isinstance(content, Example):
            yield content


def _linked(
    paths: Sequence[str | Path],
    linked: Mapping[str, Any],
    refuse: Callable[[Record, ExampleError], object],
) -> Iterator[Example]:
    """Yield the examples of rows in files, each as soon as its label has come; see ``read``."""
    from onlinesrl.stream.decoding import ExampleReader, RecordDecoder
    from onlinesrl.stream.late_labels import with_labels
    from onlinesrl.stream.linked_config import LinkedSection
    from onlinesrl.stream.linked_source import linked_source
    from onlinesrl.stream.sources.files import FileSource

    section = configuration.section_of(LinkedSection, linked, "linked")
    files = [FileSource([Path(path)]) for path in paths]
    decoder = RecordDecoder((), files[0].max_bytes, labels=True)
    reader = ExampleReader(linked_source(section, files, UTF_8), decoder)
    for _, example in with_labels(reader.good(refuse), section.most, lambda *_: True):
        yield example


class TableExamples(Iterator[Example]):
    """The examples in tables; ``lines`` has those that come next, each as a line of JSON."""

    def __init__(self, lines: Iterator[bytes]):
        self.lines = lines

    def __next__(self) -> Example:
        return decode(next(self.lines))


def examples(
    evidence: Mapping[str, Any],
    truth: Mapping[str, Any] | None = None,
    query: Mapping[str, Any] | None = None,
    *,
    by: str,
) -> TableExamples:
    """Return the examples in tables, one per predicate, in ascending order of the column ``by``.

    ``by`` says which example a row belongs to, and is its id. The other columns are the arguments,
    and ``value``. Rows keep their order. With ``truth`` every example has one, with ``query`` its open
    atoms, if only an empty one. Raises TableError.

    >>> tokens = {"doc": [2, 1, 2], "word": ["to", "be", "or"]}
    >>> [x.evidence for x in examples({"Token": Table(tokens)}, by="doc")]
    [{'Token': [['be']]}, {'Token': [['to'], ['or']]}]
    """
    parts = {"evidence": evidence, "truth": truth, "query": query}
    return TableExamples(
        _lines({part: tables for part, tables in parts.items() if tables is not None}, by)
    )


def _lines(parts: Mapping[str, Mapping[str, Any]], by: str) -> Iterator[bytes]:
    listed = [
        (part, name, frame) for part, frames in parts.items() for name, frame in frames.items()
    ]
    with connect(threads=1) as connection:
        tables = {
            (part, name): rows_by(connection.cursor(), frame, name, by, f"copy_{n}")
            for n, (part, name, frame) in enumerate(listed)
        }
        for _, line in lines(tables, [*parts]):
            yield line


def run(
    config: str | Path | Mapping[str, Any],
    *,
    settings: Mapping[str, Any] | None = None,
    fresh: bool = False,
    strict: bool = False,
    until: int | str | None = None,
    progress: Callable[[Mapping[str, Any]], object] | None = None,
    say: Callable[[str], object] | None = None,
) -> dict[str, Any]:
    """Learn online as ``onlinesrl run`` does, and return the summary, as in summary.json.

    ``config`` is a configuration file, or its keys and values, whose ``settings`` (dotted keys) override
    others. ``progress`` is called with a line of metrics every now and then, ``say`` with messages and
    warnings; nothing is printed. Ctrl-C ends the run in good order, with a checkpoint, and returns.
    Raises ConfigError, ModelError, DataError, StorageError.
    """
    from onlinesrl.runs import run as run_module

    entries = [f"{key}={json.dumps(value, default=str)}" for key, value in (settings or {}).items()]
    if isinstance(config, Mapping):
        loaded = configuration.of_values(config, entries)
    else:
        loaded = configuration.load(Path(config), entries)
    output = say or _nothing
    options = run_module.Options(fresh, strict, until, display=_Callback(progress or _nothing))
    with told_to(output):
        return run_module.run(loaded, options, 0.0, output)


_SECONDS = 0.125
"""Between two calls of a progress callback."""


class _Callback(Shows):
    """Shows the progress of a run by calling a function."""

    def __init__(self, call: Callable[[Mapping[str, Any]], object]) -> None:
        self.call = call
        self.next = 0.0

    def batch(self, progress: Progress) -> None:
        """Call the function with a line of metrics and the rate, in examples per second."""
        if time.monotonic() >= self.next:
            self.next = time.monotonic() + _SECONDS
            rate = progress.examples / max(progress.seconds, 1e-9)
            self.call({**progress.line(), "rate": rate})


def _nothing(message: object) -> None:
    pass
