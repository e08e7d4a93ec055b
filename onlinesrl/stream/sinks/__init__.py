"""The kinds of sinks: the section of each makes what takes a run's predictions."""

from typing import Annotated, TypeAlias

from pydantic import BeforeValidator, Field

from onlinesrl.core.io.config_section import standard
from onlinesrl.stream.kafka.config import KafkaSinkSection
from onlinesrl.stream.sinks.file import FileSinkSection
from onlinesrl.stream.sinks.parquet import ParquetSinkSection

AnySink: TypeAlias = Annotated[
    FileSinkSection  # one line a kind
    | KafkaSinkSection
    | ParquetSinkSection,
    Field(discriminator="kind"),
    BeforeValidator(standard("kind", "file")),
]
