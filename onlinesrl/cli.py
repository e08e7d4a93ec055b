"""The command line. Exit codes follow sysexits.h: see README."""

from __future__ import annotations

import gc
import json
import os
import re
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from onlinesrl import __version__, operate
from onlinesrl.core.errors import ConfigError, OnlinesrlError, UsageError, legible

if TYPE_CHECKING:
    from onlinesrl.mln.query import Reading, World
    from onlinesrl.run.config import Config
    from onlinesrl.run.exporter import Exporter

_STARTED = time.perf_counter()
USAGE, UNAVAILABLE, DEFECT = 64, 69, 70
READER_GONE = 128 + 13
"""As a shell has it of a program that SIGPIPE ended."""
_LASTING = 100_000
"""So many new objects between two collections: start-up makes a million that last."""

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Learn weights of relational rules online from streams of structured examples.",
)

ConfigPath = Annotated[Path, typer.Argument(metavar="CONFIG", help="A run's YAML file.")]
Trained = Annotated[
    Path,
    typer.Argument(metavar="TRAINED", help="A checkpoint, a run folder, an .mln or a .psl file."),
]
Overrides = Annotated[
    list[str],
    typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the configuration."),
]


def _load(path: Path, overrides: list[str]) -> Config:
    from onlinesrl.run.config import load

    return load(path, overrides)


@contextmanager
def _output(path: Path | None) -> Iterator[BinaryIO]:
    """Give a file to write to, or standard output."""
    if path is None:
        yield sys.stdout.buffer
        sys.stdout.flush()
        return
    from onlinesrl.core.storage import storage_errors

    with storage_errors(path, "write"), path.open("wb") as stream:
        yield stream


@app.command()
def run(  # noqa: PLR0913, PLR0917 - the options of the command
    config: ConfigPath,
    set_: Overrides = [],  # noqa: B006 - typer's way
    fresh: Annotated[bool, typer.Option(help="Start over: forget an earlier run.")] = False,
    strict: Annotated[bool, typer.Option(help="Stop at the first bad example.")] = False,
    until: Annotated[
        str | None,
        typer.Option(
            metavar="end|forever|N", help="Where to stop: a number is of examples in all."
        ),
    ] = None,
    metrics_port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Serve /metrics there; 0: a free port.")
    ] = None,
    metrics_host: Annotated[
        str, typer.Option(help="The interface of that port; 0.0.0.0: every one.")
    ] = "127.0.0.1",
) -> None:
    """Learn online from a stream; goes on from the last checkpoint where there is one."""
    settings = _load(config, set_)
    from onlinesrl.run import session
    from onlinesrl.run.progress import print_summary, say

    seconds = time.perf_counter() - _STARTED
    with _exporter(metrics_host, metrics_port, say) as exporter:
        options = session.Options(fresh, strict, _until(until), exporter)
        summary = session.run(settings, options, seconds, say)
    print_summary(summary, sys.stdout)


@app.command()
def serve(
    config: ConfigPath,
    set_: Overrides = [],  # noqa: B006
    host: Annotated[
        str, typer.Option(help="The interface to listen on; 0.0.0.0: every one.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0: a free one.")] = 8080,
    fresh: Annotated[
        bool, typer.Option(help="Forget what was learned, and learn what was sent anew.")
    ] = False,
) -> None:
    """Predict and learn what clients send by HTTP; goes on from the last checkpoint.

    What is to be learned goes to requests.jsonl in the run folder, which is the run's source.
    """
    try:
        settings = _load(config, set_)
    except ConfigError:  # it need not say what is not read
        settings = _load(config, [*set_, "source.path=-"])
    if not settings.source.served:
        raise settings.error("source.kind", "a server learns what clients send; leave source: out")
    from onlinesrl.run import serve as server
    from onlinesrl.run.progress import print_summary

    seconds = time.perf_counter() - _STARTED
    print_summary(server.serve(settings, host, port, fresh, seconds), sys.stdout)


@contextmanager
def _exporter(host: str, port: int | None, say: Callable[[str], None]) -> Iterator[Exporter | None]:
    """Serve metrics where a port is given."""
    if port is None:
        yield None
        return
    from onlinesrl.run.exporter import Exporter

    with Exporter(port, host) as exporter:
        say(f"metrics at http://{host}:{exporter.port}/metrics")
        yield exporter


def _until(text: str | None) -> str | int | None:
    if text is not None and re.fullmatch("0*[1-9][0-9]{0,17}", text):
        return int(text)
    if text not in {None, "end", "forever"}:
        raise typer.BadParameter(
            "expected end, forever or a number of examples, up to 18 digits", param_hint="--until"
        )
    return text


@app.command()
def predict(
    trained: Trained,
    config: ConfigPath,
    set_: Overrides = [],  # noqa: B006
    output: Annotated[Path | None, typer.Option(help="A file; else standard output.")] = None,
) -> None:
    """Predict a source's examples, with score and margin over the second best state.

    Each is a line, in their order, a bad one too; they are given out as soon as no more input waits.
    """
    settings = _load(config, set_)
    from onlinesrl.core.metrics import Metrics
    from onlinesrl.run import held_out
    from onlinesrl.run.session import trained_learner
    from onlinesrl.stream.answers import answer

    learner = trained_learner(settings, trained, margins=True)
    with _output(output) as stream:
        for found in held_out.predictions(learner, settings, Metrics()):
            if found is None:
                stream.flush()
            else:
                stream.write(answer(*found) + b"\n")


@app.command()
def evaluate(trained: Trained, config: ConfigPath, set_: Overrides = []) -> None:  # noqa: B006
    """Score trained weights on a labelled source, without learning; JSON on standard output."""
    settings = _load(config, set_)
    from onlinesrl.run import held_out

    print(json.dumps(held_out.evaluate(settings, trained), indent=2))


@app.command()
def weights(  # noqa: PLR0913, PLR0917 - the options of the command
    trained: Trained,
    other: Annotated[
        Path | None, typer.Argument(help="A second one: show how the weights differ.")
    ] = None,
    rule: Annotated[
        str | None,
        typer.Option(metavar="N|TEXT", help="Of this rule: its number, from 1, or a part of it."),
    ] = None,
    about: Annotated[
        str | None, typer.Option(metavar="CONSTANT", help="About this constant.")
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="How many to show.")] = 20,
    json_: Annotated[bool, typer.Option("--json", help="As JSON, to the last bit.")] = False,
) -> None:
    """Show the most influential weights, or those that differ most between two of a kind.

    The first line says what the order is. Models that have no rule in common are not compared.
    """
    from onlinesrl.run import inspect

    chosen = inspect.Chosen(rule, about, top)
    if json_:
        print(json.dumps(inspect.as_json(trained, other, chosen), indent=2))
        return
    for line in inspect.weight_lines(trained, other, chosen):
        print(legible(line))


@app.command()
def check(
    config: ConfigPath,
    set_: Overrides = [],  # noqa: B006
    examples: Annotated[int, typer.Option(min=0, help="How many examples to look at.")] = 100,
) -> None:
    """Validate configuration, model and first examples without running."""
    settings = _load(config, set_)
    from onlinesrl.run import held_out

    lines, good = held_out.check(settings, examples)
    for line in lines:
        print(legible(line))
    if not good:
        raise typer.Exit(65)


Model = Annotated[Path, typer.Option("--model", metavar="M.mln", help="The model.")]
Evidence = Annotated[
    list[Path], typer.Option("--evidence", metavar="E.db", help="A database; may be repeated.")
]
Query = Annotated[str, typer.Option("--query", metavar="P,Q", help="Predicates to answer for.")]
Closed = Annotated[
    str,
    typer.Option(
        metavar="P,Q", help="Markov logic: predicates that are false where no database says more."
    ),
]
Open = Annotated[
    str,
    typer.Option(
        "--open",
        metavar="P,Q",
        help="Markov logic: predicates that are unknown there, as queried are.",
    ),
]
MaxAtoms = Annotated[
    int, typer.Option(min=1, help="Markov logic: the most open atoms that the world may have.")
]
MaxGroundings = Annotated[
    int | None,
    typer.Option(
        min=1,
        show_default="1,000,000; for PSL 50,000,000",
        help="The most ground clauses, for PSL rows to make ground rules of (tandem has no limit).",
    ),
]
DialectOption = Annotated[
    str,
    typer.Option(
        "--dialect",
        metavar="NAME",
        help="Markov logic: how the files are written: alchemy, tuffy, rockit, pracmln, "
        "pracmln-standard or lomrf.",
    ),
]
OutputOption = Annotated[Path | None, typer.Option(help="A file; else standard output.")]


class Targets(StrEnum):
    """What becomes of a ground rule of PSL that reaches an atom neither observed nor a target."""

    STOP = "stop"
    SKIP = "skip"


@app.command()
def infer(  # noqa: PLR0913, PLR0917 - the options of the command
    model: Annotated[
        Path,
        typer.Option("--model", metavar="M.mln|M.psl|M.json", help="Markov logic, or PSL's rules."),
    ],
    query: Annotated[
        str | None, typer.Option(metavar="P,Q", help="Markov logic: predicates to answer for.")
    ] = None,
    evidence: Annotated[
        list[Path], typer.Option(metavar="E.db", help="Markov logic: a database; may be repeated.")
    ] = [],  # noqa: B006
    closed: Closed = "",
    open_: Open = "",
    dialect: DialectOption = "alchemy",
    data: Annotated[
        Path | None, typer.Option(metavar="M.data", help="PSL: where the data of M.psl are.")
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            help="mpe, lp, walksat; exact, mcsat, gibbs for marginals; for PSL admm, lifted-admm, "
            "tandem, sgd, tron, qp."
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="A file, for PSL a folder; else standard output.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="For the random methods.")] = 0,
    error: Annotated[
        float | None,
        typer.Option(
            metavar="E",
            help="Sampled marginals: sample until each one's standard error is at most this and the "
            "chains agree (R-hat below 1.05), at most a million samples.",
        ),
    ] = None,
    max_atoms: MaxAtoms = 1_000_000,
    max_groundings: MaxGroundings = None,
    targets: Annotated[
        Targets | None,
        typer.Option(
            help="PSL: what becomes of a ground rule that reaches an atom neither observed nor a "
            "target: an error (stop), or it is left out."
        ),
    ] = None,
    stats: Annotated[bool, typer.Option("--stats", help="Print statistics as JSON.")] = False,
) -> None:
    """Infer the most probable world, marginal probabilities, or PSL's truth values."""
    psl = model.suffix in {".psl", ".json"}
    asked = query is not None or evidence or closed or open_ or dialect != "alchemy"
    if psl and (asked or error is not None):
        raise UsageError(
            f"{model} is a PSL model, whose data say what is asked: not --query, --evidence, --closed, "
            "--open, --dialect, --error"
        )
    if psl:
        found = _infer_psl(
            model,
            data,
            method or "admm",
            output,
            seed,
            max_groundings,
            targets is Targets.SKIP,
            to_stdout=not stats,
        )
    elif query is None or data is not None or targets is not None:
        raise UsageError(
            f"{model} is Markov logic, which needs --query, and takes --evidence, not --data, --targets"
        )
    else:
        reading = _reading(closed, open_, dialect)
        world = _world(model, evidence, query, reading, max_atoms, max_groundings)
        found = _infer_mln(world, method or "mpe", output, seed, error, to_stdout=not stats)
    if stats:
        print(json.dumps(found, indent=2))


def _reading(closed: str, opened: str, dialect: str) -> Reading:
    from onlinesrl.logic.dialect import dialect_of
    from onlinesrl.mln.query import Reading

    never, unknown = (tuple(filter(None, text.split(","))) for text in (closed, opened))
    return Reading(never, unknown, dialect_of(dialect))


def _world(  # noqa: PLR0913, PLR0917 - the options of two commands
    model: Path,
    evidence: list[Path],
    query: str,
    reading: Reading,
    max_atoms: int,
    max_groundings: int | None,
) -> World:
    """Load a world; say which predicates are open because nothing was said of them."""
    from dataclasses import replace

    from onlinesrl.mln import query as inference

    limits = replace(inference.LIMITS, atoms=max_atoms, groundings=max_groundings or 1_000_000)
    world = inference.load_world(model, evidence, query.split(","), reading, limits)
    if world.assumed:
        names = ",".join(world.assumed)
        _warn(
            f"no database has an atom of {names.replace(',', ', ')}: all their atoms are open, as in "
            f"Alchemy; --closed {names} makes them false, --open {names} says that it is meant so"
        )
    return world


def _say(message: str) -> None:
    print(legible(message), file=sys.stderr)


def _warn(message: str) -> None:
    _say(f"warning: {message}")


def _infer_mln(  # noqa: PLR0913, PLR0917 - the options of the command
    world: World,
    method: str,
    output: Path | None,
    seed: int,
    error: float | None,
    to_stdout: bool,
) -> dict[str, Any]:
    from onlinesrl.core.kernels.jit import told_of_compiling
    from onlinesrl.mln import answers

    with told_of_compiling(_say):
        lines, found = answers.infer(world, method, seed, error)
    if output is not None or to_stdout:
        with _output(output) as stream:
            stream.write("".join(f"{line}\n" for line in lines).encode())
    _warn_all(found)
    return found


def _warn_all(stats: dict[str, Any]) -> None:
    """Say on standard error, whatever else is shown, where an answer is not what was asked for."""
    for message in stats["warnings"]:
        _warn(message)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let SIGTERM end the work as an interrupt does, so that it leaves nothing on disk."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _infer_psl(  # noqa: PLR0913, PLR0917 - the options of the command
    model: Path,
    data: Path | None,
    method: str,
    output: Path | None,
    seed: int,
    max_groundings: int | None,
    skip: bool,
    to_stdout: bool,
) -> dict[str, Any]:
    from onlinesrl.psl import query as psl_inference
    from onlinesrl.psl.ground.grounder import MOST
    from onlinesrl.run.progress import Status

    with _interruptible(), closing(Status(sys.stderr)) as status:
        inferred = psl_inference.infer(
            model,
            data,
            method,
            seed,
            output,
            status,
            max_groundings or MOST,
            skip,
            status.tell,
        )
    if output is not None:
        psl_inference.write(inferred, output)
    elif to_stdout:
        with _output(None) as stream:
            stream.write("".join(f"{line}\n" for line in psl_inference.lines(inferred)).encode())
    _warn_all(inferred.stats)
    if output is not None or inferred.stats["warnings"] or inferred.stats["skipped"]:
        print(psl_inference.summary(inferred), file=sys.stderr)
    return inferred.stats


@app.command()
def ground(  # noqa: PLR0913, PLR0917 - the options of the command
    model: Model,
    query: Query,
    evidence: Evidence = [],  # noqa: B006
    closed: Closed = "",
    open_: Open = "",
    dialect: DialectOption = "alchemy",
    output: OutputOption = None,
    max_atoms: MaxAtoms = 1_000_000,
    max_groundings: MaxGroundings = None,
) -> None:
    """Write the ground network: a weighted clause a line, hard ones with a final period."""
    if model.suffix in {".psl", ".json"}:
        raise UsageError(
            f"{model} is a PSL model: its ground rules are no clauses; see infer --stats"
        )
    from onlinesrl.core.kernels.jit import told_of_compiling
    from onlinesrl.mln import answers

    reading = _reading(closed, open_, dialect)
    world = _world(model, evidence, query, reading, max_atoms, max_groundings)
    with told_of_compiling(_say), _output(output) as stream:
        stream.write("".join(f"{line}\n" for line in answers.network_lines(world)).encode())


@app.command()
def schema() -> None:
    """Print the JSON schema of an example."""
    from onlinesrl.core.example import json_schema

    print(json.dumps(json_schema(), indent=2))


guide = typer.Typer(no_args_is_help=True, help="What can be looked up: config.")


@guide.command("config")
def guide_config() -> None:
    """Print every key of a configuration with its default and meaning; in a pipe, a line each."""
    from onlinesrl.run.guide import config_lines

    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for line in config_lines(width):
        print(line)


app.add_typer(guide, name="guide")
app.command()(operate.replay)
app.add_typer(operate.dlq, name="dlq")
app.add_typer(operate.checkpoints, name="checkpoint")


def _version(wanted: bool) -> None:
    if wanted:
        print(f"onlinesrl {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


def _open_streams() -> None:
    """Put something that fails where a standard stream is closed: else the next file takes its place."""
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(number)
        except OSError:
            flags = os.O_WRONLY if number != 1 else os.O_RDONLY  # standard error may say nothing
            opened = os.open(os.devnull, flags)
            os.dup2(opened, number)
            if opened != number:
                os.close(opened)
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


def _say_unforeseen(error: Exception) -> int:
    """Say what typer finds wrong with a command, or show a defect; return the exit code."""
    shown = getattr(error, "format_message", None)
    if shown is None:
        traceback.print_exception(error)
        return DEFECT
    if message := shown():  # none where the help has been shown
        print(legible(f"onlinesrl: {message}"), file=sys.stderr)
    return USAGE


def main() -> None:
    """Run the command line; every error of the project becomes one message and its exit code."""
    _open_streams()
    gc.set_threshold(_LASTING)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # sums are the same on every machine
    try:
        code = app(standalone_mode=False)
    except OnlinesrlError as error:
        with suppress(OSError):  # standard error may be a file on the disk that is full
            print(legible(str(error)), file=sys.stderr)
        code = error.exit_code
    except KeyboardInterrupt:
        code = 130
    except (BrokenPipeError, SystemExit):  # typer's: who read the output has gone
        code = READER_GONE
    except OSError as error:
        with suppress(OSError):
            print(legible(f"onlinesrl: {error}"), file=sys.stderr)
        code = 74
    except MemoryError:
        print("onlinesrl: there is not enough memory for this", file=sys.stderr)
        code = UNAVAILABLE
    except Exception as error:
        code = _say_unforeseen(error)
    try:
        sys.stdout.flush()
    except OSError as error:
        gone = isinstance(error, BrokenPipeError)
        if not gone:
            print(f"standard output: cannot write: {error.strerror}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or it is tried again at the exit
        code = code or (READER_GONE if gone else 74)
    if "duckdb" not in sys.modules:  # it would take what is frozen for leaks, and say so
        gc.freeze()  # else the end of the interpreter looks through all that numba has loaded
    if (module := sys.modules.get("onlinesrl.core.interrupt")) and module.left_behind:
        with suppress(OSError):
            sys.stderr.flush()
        os._exit(code or 0)  # what a solver still does would keep the process, or end it badly
    sys.exit(code or 0)
