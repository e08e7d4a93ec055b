"""The kinds of sources: the section of each makes what a run reads from."""

from typing import Annotated, TypeAlias

from onlinesrl.core.io.config_section import Kinds, named
from onlinesrl.stream.kafka.config import KafkaSection
from onlinesrl.stream.source import SourceSection
from onlinesrl.stream.sources.csv_tables import CsvSection
from onlinesrl.stream.sources.files import FileSection
from onlinesrl.stream.sources.own import RecordSource
from onlinesrl.stream.sources.parquet import ParquetSection

SOURCES: dict[str, type[SourceSection]] = named(
    FileSection, KafkaSection, ParquetSection, CsvSection
)
AnySource: TypeAlias = Annotated[SourceSection, Kinds("onlinesrl.sources", RecordSource, SOURCES)]
