"""Commands for those who look after a run: replay, its dead letters, its checkpoints."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onlinesrl.commands.common import OutputOption, say
from onlinesrl.core.errors import OnlinesrlError, StorageError, UsageError, printable
from onlinesrl.core.io.atomic_write import plain

if TYPE_CHECKING:
    from onlinesrl.runs.replay import Destination, Message
    from onlinesrl.stream.checkpoints import Checkpoint
    from onlinesrl.stream.dead_letters import Letter


class Target(StrEnum):
    """Where a stream is sent."""

    KAFKA = "kafka"
    STDOUT = "stdout"


TopicName = Annotated[str | None, typer.Option(help="The topic, for --to kafka.")]
Bootstrap = Annotated[str, typer.Option(metavar="HOST:PORT", help="The broker.")]
LOCAL = "localhost:9092"
SHOWN = ("version", "finished", "seconds", "position", "lengths", "metrics", "fingerprint")


def _topic(topic: str | None, bootstrap: str, partition: int | None = None) -> Destination:
    if topic is None:
        raise UsageError("--to kafka needs --topic")
    from onlinesrl.runs.replay import Topic

    return Topic(bootstrap, topic, partition)


def replay(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file, a folder, or -.")],
    to: Annotated[Target, typer.Option(help="Where to.")],
    topic: TopicName = None,
    bootstrap: Bootstrap = LOCAL,
    partition: Annotated[
        int | None, typer.Option(min=0, help="One partition; else by the example's id.")
    ] = None,
    rate: Annotated[
        float | None, typer.Option(min=1e-6, max=1e9, help="Examples a second at most.")
    ] = None,
    query: Annotated[
        str, typer.Option(metavar="P,Q", help="What is to be predicted, for .db files.")
    ] = "",
    dialect: Annotated[
        str, typer.Option(metavar="NAME", help="How .db files are written, as for infer.")
    ] = "alchemy",
) -> None:
    """Give a file's examples out as a live stream."""
    from onlinesrl.logic.dialect import dialect_of
    from onlinesrl.runs import replay as give

    predicates = [name.strip() for name in query.split(",") if name.strip()]
    found = give.messages(file, predicates, dialect_of(dialect))
    kafka = to is Target.KAFKA
    destination = (
        _topic(topic, bootstrap, partition) if kafka else give.Lines(None, rate is not None)
    )
    give.replay(found, destination, rate, say)


# dead letters ------------------------------------------------------------------------------------

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
    for reason, count in sorted(reasons.items(), key=lambda found: (-found[1], found[0])):
        print(printable(f"{count:>6}  {reason}"))


@dlq.command("show")
def dlq_show(
    run: RunArgument,
    number: Annotated[int, typer.Argument(metavar="N", min=1, help="Which, from 1.")],
) -> None:
    """Show a dead letter: what cannot be printed in its bytes stands as escapes."""
    letter = next(islice(_letters(run), number - 1, None), None)
    if letter is None:
        raise UsageError(f"{run}: there is no dead letter {number}")
    size = f"the first {len(letter.value):,}" if letter.cut else f"{len(letter.value):,}"
    name = "-" if letter.id is None else letter.id
    shown = {"place": letter.place, "id": name, "reason": letter.reason, "bytes": size}
    for key, text in shown.items():
        print(f"{key:<8}{printable(text)}")
    for line in letter.value.decode(errors="backslashreplace").split("\n"):
        print(printable(line))


@dlq.command("replay")
def dlq_replay(
    run: RunArgument,
    to: Annotated[Target, typer.Option(help="Where to.")] = Target.STDOUT,
    output: OutputOption = None,
    topic: TopicName = None,
    bootstrap: Bootstrap = LOCAL,
) -> None:
    """Give the dead letters out again, byte for byte: a line each, or to a topic.

    What cannot be given out whole (it was cut, or is of several lines) is left out and told: exit 65.
    """
    from onlinesrl.runs import replay as give

    kafka = to is Target.KAFKA
    if kafka and output is not None:
        raise UsageError("--output goes with --to stdout")
    left_out = 0

    def messages() -> Iterator[Message]:
        nonlocal left_out
        for number, letter in enumerate(_letters(run), 1):
            reason = _unfit(letter, lines=not kafka)
            if reason is None:
                message = give.message_of(letter.value, f"{run}: dead letter {number}")
                known = letter.id.encode() if letter.id is not None else message.key
                yield message._replace(key=known)
            else:
                left_out += 1
                say(f"{run}: dead letter {number} is left out: {reason}")

    destination = _topic(topic, bootstrap) if kafka else give.Lines(output)
    give.replay(messages(), destination, None, say)
    if left_out:
        raise typer.Exit(65)


def _unfit(letter: Letter, lines: bool) -> str | None:
    """Say why a letter cannot be given out as it was."""
    if letter.cut:
        return "only its first part was kept, for it was longer than source.max_bytes"
    if lines and b"\n" in letter.value.rstrip(b"\r\n"):
        return "it has several lines (--to kafka takes it)"
    if lines and not letter.value.strip():
        return "it is blank (--to kafka takes it)"
    return None


# checkpoints -------------------------------------------------------------------------------------

checkpoints = typer.Typer(
    no_args_is_help=True, help="The checkpoints of a run: list, show, verify."
)
CheckpointArgument = Annotated[
    Path, typer.Argument(metavar="RUN|FILE", help="A run folder, or a checkpoint.")
]


def _loaded(path: Path) -> Iterator[tuple[Path, Checkpoint | StorageError]]:
    """Yield each checkpoint of a run folder, by number, or a file, read or damaged."""
    from onlinesrl.stream import checkpoints as checkpoints_module

    inside = path / "checkpoints"
    folder = inside if inside.is_dir() else path
    files = (
        [f for _, f in sorted(checkpoints_module.numbered(folder).items())]
        if path.is_dir()
        else [path]
    )
    if not files:
        raise StorageError(f"{path}: no checkpoint in this folder")
    for file in files:
        try:
            named = file == path
            yield (
                file,
                checkpoints_module.named(file)
                if named
                else checkpoints_module.checked(checkpoints_module.load(file)),
            )
        except checkpoints_module.DamagedCheckpoint as error:
            yield file, error
        except StorageError:
            if file == path or file.exists():
                raise
            # else a run that is going has removed it for a newer one


@checkpoints.command("list")
def checkpoint_list(path: CheckpointArgument) -> None:
    """List the checkpoints: number, time, size, examples, and whether they are intact."""
    from datetime import datetime

    for file, found in _loaded(path):
        try:
            status = file.stat()
        except FileNotFoundError:  # removed just now
            continue
        time = datetime.fromtimestamp(status.st_mtime).isoformat(" ", "seconds")
        state = "damaged"
        if not isinstance(found, StorageError):
            state = f"intact  {found.header['metrics'].get('examples', 0):,} examples"
        print(f"{file.name}  {time}  {status.st_size:>12,} bytes  {state}")


@checkpoints.command("show")
def checkpoint_show(path: CheckpointArgument) -> None:
    """Show what the newest intact checkpoint holds, as JSON."""
    found = None
    for _, loaded in _loaded(path):
        found = found if isinstance(loaded, StorageError) else loaded
    if found is None:
        raise StorageError(f"{path}: no intact checkpoint")
    about = {
        "path": str(found.path),
        "number": found.number,
        **{key: found.header[key] for key in SHOWN if key in found.header},
        "model_characters": len(found.header["model"]),
        "arrays": {name: f"{a.dtype} {[*a.shape]}" for name, a in found.arrays.items()},
    }
    print(json.dumps(about, indent=2))


@checkpoints.command("verify")
def checkpoint_verify(path: CheckpointArgument) -> None:
    """Read every byte of every checkpoint, and restore it; exit 74 if one is damaged."""
    from onlinesrl.library.restored import restore

    intact, damaged = 0, []
    for _, found in _loaded(path):
        try:
            if isinstance(found, StorageError):
                raise found
            restore(found)
            intact += 1
        except OnlinesrlError as error:
            damaged.append(f"damaged: {error}")
    print(f"{intact} intact, {len(damaged)} damaged")
    if damaged:
        raise StorageError("\n".join(damaged))
