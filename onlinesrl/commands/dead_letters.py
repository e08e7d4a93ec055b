"""onlinesrl dlq: list, show and replay the dead letters of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onlinesrl.commands.common import OutputOption
from onlinesrl.commands.replay import LOCAL, Bootstrap, Target, TopicName, topic_of
from onlinesrl.core.errors import UsageError, printable
from onlinesrl.core.io.atomic_write import plain
from onlinesrl.runs.console import say

if TYPE_CHECKING:
    from onlinesrl.runs.replay import Message
    from onlinesrl.stream.dead_letters import Letter

dlq = typer.Typer(no_args_is_help=True, help="The dead letters of a run: list, show, replay.")
RunArgument = Annotated[
    Path, typer.Argument(metavar="RUN", help="A run folder, or its deadletter.jsonl.")
]


def _letters(run: Path) -> Iterator[Letter]:
    from onlinesrl.stream.dead_letters import letters

    return letters(run / "deadletter.jsonl", plain) if run.is_dir() else letters(run)


@dlq.command("list")
def dlq_list(run: RunArgument) -> None:
    """List the dead letters: number, place, id and reason; then how many have each reason."""
    reasons: Counter[str] = Counter()
    for number, letter in enumerate(_letters(run), 1):
        name = "-" if letter.id is None else letter.id
        reasons[letter.reason] += 1
        print(printable(f"{number:>6}  {letter.place}  {name}  {letter.reason}"))
    print(f"{reasons.total():,} dead letters")
    for reason, count in sorted(reasons.items(), key=lambda item: (-item[1], item[0])):
        print(printable(f"{count:>6}  {reason}"))


@dlq.command("show")
def dlq_show(
    run: RunArgument,
    number: Annotated[
        int, typer.Argument(metavar="N", min=1, help="The number of the letter, from 1.")
    ],
) -> None:
    """Show a dead letter; bytes that cannot be printed are shown as escapes."""
    letter = next(islice(_letters(run), number - 1, None), None)
    if letter is None:
        raise UsageError(f"{run}: there is no dead letter {number}")
    size = f"the first {len(letter.value):,}" if letter.cut else f"{len(letter.value):,}"
    name = "-" if letter.id is None else letter.id
    fields = {"place": letter.place, "id": name, "reason": letter.reason, "bytes": size}
    for key, text in fields.items():
        print(f"{key:<8}{printable(text)}")
    for line in letter.value.decode(errors="backslashreplace").split("\n"):
        print(printable(line))


@dlq.command("replay")
def dlq_replay(
    run: RunArgument,
    to: Annotated[Target, typer.Option(help="Where they are sent.")] = Target.STDOUT,
    output: OutputOption = None,
    topic: TopicName = None,
    bootstrap: Bootstrap = LOCAL,
) -> None:
    """Send the dead letters again, byte for byte: one line each, or to a Kafka topic.

    A letter that was cut or has several lines cannot be sent. It is left out and named: exit 65.
    """
    from onlinesrl.runs import replay as sending

    kafka = to is Target.KAFKA
    if kafka and output is not None:
        raise UsageError("--output goes with --to stdout")
    left_out = 0

    def messages() -> Iterator[Message]:
        nonlocal left_out
        for number, letter in enumerate(_letters(run), 1):
            reason = _unfit(letter, lines=not kafka)
            if reason is None:
                message = sending.message_of(letter.value, f"{run}: dead letter {number}")
                key = letter.id.encode() if letter.id is not None else message.key
                yield message._replace(key=key)
            else:
                left_out += 1
                say(f"{run}: dead letter {number} is left out: {reason}")

    destination = topic_of(topic, bootstrap) if kafka else sending.Lines(output)
    sending.replay(messages(), destination, None, say)
    if left_out:
        raise typer.Exit(65)


def _unfit(letter: Letter, lines: bool) -> str | None:
    """Return why a letter cannot be sent as it was; None if it can."""
    if letter.cut:
        return "only its first part was kept, for it was longer than source.max_bytes"
    if lines and b"\n" in letter.value.rstrip(b"\r\n"):
        return "it has several lines (--to kafka takes it)"
    if lines and not letter.value.strip():
        return "it is blank (--to kafka takes it)"
    return None
