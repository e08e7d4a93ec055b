"""The kinds of sources: the section of each makes what a run reads from."""

from typing import Annotated, TypeAlias

from pydantic import BeforeValidator, Field

from onlinesrl.section import standard
from onlinesrl.sources.file import FileSection
from onlinesrl.sources.kafka import KafkaSection
from onlinesrl.sources.socket import SocketSection

AnySource: TypeAlias = Annotated[
    FileSection  # one line a kind
    | KafkaSection
    | SocketSection,
    Field(discriminator="kind"),
    BeforeValidator(standard("kind", "file")),
]
