"""The kinds of sinks: the section of each makes what takes a run's predictions."""

from typing import Annotated, TypeAlias

from pydantic import BeforeValidator, Field

from onlinesrl.section import standard
from onlinesrl.sinks.file import FileSinkSection
from onlinesrl.sinks.kafka import KafkaSinkSection

AnySink: TypeAlias = Annotated[
    FileSinkSection  # one line a kind
    | KafkaSinkSection,
    Field(discriminator="kind"),
    BeforeValidator(standard("kind", "file")),
]
