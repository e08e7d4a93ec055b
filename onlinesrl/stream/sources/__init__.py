"""The kinds of sources: the section of each makes what a run reads from."""

from typing import Annotated, TypeAlias

from pydantic import BeforeValidator, Field

from onlinesrl.core.io.config_section import standard
from onlinesrl.stream.kafka.config import KafkaSection
from onlinesrl.stream.sources.csv_tables import CsvSection
from onlinesrl.stream.sources.files import FileSection
from onlinesrl.stream.sources.parquet import ParquetSection

AnySource: TypeAlias = Annotated[
    FileSection  # one line a kind
    | KafkaSection
    | ParquetSection
    | CsvSection,
    Field(discriminator="kind"),
    BeforeValidator(standard("kind", "file")),
]
