"""onlinesrl replay: send the examples of a file as a live stream."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onlinesrl.core.errors import UsageError
from onlinesrl.runs.console import say

if TYPE_CHECKING:
    from onlinesrl.runs.replay import Topic


class Target(StrEnum):
    """Where a stream is sent."""

    KAFKA = "kafka"
    STDOUT = "stdout"


TopicName = Annotated[str | None, typer.Option(help="The topic, for --to kafka.")]
Bootstrap = Annotated[str, typer.Option(metavar="HOST:PORT", help="The broker.")]
LOCAL = "localhost:9092"


def topic_of(topic: str | None, bootstrap: str, partition: int | None = None) -> Topic:
    """Return the topic of the options. Raises UsageError where none is named."""
    if topic is None:
        raise UsageError("--to kafka needs --topic")
    from onlinesrl.runs.replay import Topic

    return Topic(bootstrap, topic, partition)


def replay(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file, a folder, or -.")],
    to: Annotated[Target, typer.Option(help="Where they are sent.")],
    topic: TopicName = None,
    bootstrap: Bootstrap = LOCAL,
    partition: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="The only partition to send to; by default it is chosen by the example's id.",
        ),
    ] = None,
    rate: Annotated[
        float | None, typer.Option(min=1e-6, max=1e9, help="The most examples per second.")
    ] = None,
    query: Annotated[
        str, typer.Option(metavar="P,Q", help="For .db files: the predicates to predict.")
    ] = "",
    dialect: Annotated[
        str, typer.Option(metavar="NAME", help="The dialect of .db files, as for infer.")
    ] = "alchemy",
) -> None:
    """Send the examples of a file as a live stream, to a Kafka topic or to standard output."""
    from onlinesrl.logic.dialect import dialect_of
    from onlinesrl.runs import replay as sending

    predicates = [name.strip() for name in query.split(",") if name.strip()]
    messages = sending.messages(file, predicates, dialect_of(dialect))
    kafka = to is Target.KAFKA
    destination = (
        topic_of(topic, bootstrap, partition) if kafka else sending.Lines(None, rate is not None)
    )
    sending.replay(messages, destination, rate, say)
