"""The kinds of sinks: the section of each makes what takes a run's predictions."""

from typing import Annotated, TypeAlias

from pydantic import BeforeValidator, Field

from onlinesrl.core.io.config_section import standard
from onlinesrl.stream.kafka.sink_config import KafkaSinkSection
from onlinesrl.stream.sinks.file_config import FileSinkSection
from onlinesrl.stream.sinks.parquet_config import ParquetSinkSection

AnySink: TypeAlias = Annotated[
    FileSinkSection  # one line a kind
    | KafkaSinkSection
    | ParquetSinkSection,
    Field(discriminator="kind"),
    BeforeValidator(standard("kind", "file")),
]
