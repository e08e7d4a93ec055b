"""The kinds of sinks: the section of each makes what takes a run's predictions."""

from typing import Annotated, TypeAlias

from onlinesrl.core.io.config_section import Kinds, named
from onlinesrl.stream.kafka.config import KafkaSinkSection
from onlinesrl.stream.sink import SinkSection
from onlinesrl.stream.sinks.file import FileSinkSection
from onlinesrl.stream.sinks.own import LineSink
from onlinesrl.stream.sinks.parquet import ParquetSinkSection

SINKS: dict[str, type[SinkSection]] = named(FileSinkSection, KafkaSinkSection, ParquetSinkSection)
AnySink: TypeAlias = Annotated[SinkSection, Kinds("onlinesrl.sinks", LineSink, SINKS)]
