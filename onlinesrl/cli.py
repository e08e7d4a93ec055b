"""The command line. Exit codes follow sysexits.h: see README."""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onlinesrl import __version__, operate
from onlinesrl.errors import OnlinesrlError, UsageError

if TYPE_CHECKING:
    from onlinesrl.config import Config
    from onlinesrl.stream.exporter import Exporter

_STARTED = time.perf_counter()
USAGE = 64
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
    from onlinesrl.config import load

    return load(path, overrides)


@contextmanager
def _output(path: Path | None) -> Iterator[Callable[[bytes], object]]:
    """Give a writer to a file, or to standard output."""
    if path is None:
        yield sys.stdout.buffer.write
        sys.stdout.flush()
        return
    from onlinesrl.stream.folder import storage_errors

    with storage_errors(path, "write"), path.open("wb") as stream:
        yield stream.write


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
) -> None:
    """Learn online from a stream; goes on from the last checkpoint where there is one."""
    settings = _load(config, set_)
    from onlinesrl import session
    from onlinesrl.progress import print_summary

    seconds = time.perf_counter() - _STARTED

    def say(message: str) -> None:
        print(message, file=sys.stderr)

    with _exporter(metrics_port, say) as exporter:
        options = session.Options(fresh, strict, _until(until), exporter)
        summary = session.run(settings, options, seconds, say)
    print_summary(summary, sys.stdout)


@contextmanager
def _exporter(port: int | None, say: Callable[[str], None]) -> Iterator[Exporter | None]:
    """Serve metrics where a port is given."""
    if port is None:
        yield None
        return
    from onlinesrl.stream.exporter import Exporter

    with Exporter(port) as exporter:
        say(f"metrics at http://localhost:{exporter.port}/metrics")
        yield exporter


def _until(text: str | None) -> str | int | None:
    if text is not None and text.isdecimal() and int(text) > 0:
        return int(text)
    if text not in {None, "end", "forever"}:
        raise typer.BadParameter(
            "expected end, forever or a number of examples", param_hint="--until"
        )
    return text


@app.command()
def predict(
    trained: Trained,
    config: ConfigPath,
    set_: Overrides = [],  # noqa: B006
    output: Annotated[Path | None, typer.Option(help="A file; else standard output.")] = None,
) -> None:
    """Predict a source's examples, with score and margin over the second best state."""
    settings = _load(config, set_)
    import msgspec

    from onlinesrl import session
    from onlinesrl.metrics import Metrics

    learner = session.trained_learner(settings, trained, margins=True)
    with _output(output) as write:
        for outcome in session.predictions(learner, settings, Metrics()):
            if outcome.prediction is not None:
                write(msgspec.json.encode(outcome.prediction) + b"\n")


@app.command()
def evaluate(trained: Trained, config: ConfigPath, set_: Overrides = []) -> None:  # noqa: B006
    """Score trained weights on a labelled source, without learning; JSON on standard output."""
    settings = _load(config, set_)
    from onlinesrl import session

    print(json.dumps(session.evaluate(settings, trained), indent=2))


@app.command()
def weights(
    checkpoint: Annotated[Path, typer.Argument(help="A checkpoint or a run folder.")],
    other: Annotated[
        Path | None, typer.Argument(help="A second one: show how the weights differ.")
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="How many to show.")] = 20,
) -> None:
    """Show the most influential weights, or those that differ most between two checkpoints."""
    from onlinesrl import inspect

    for line in inspect.weight_lines(checkpoint, other, top):
        print(line)


@app.command()
def check(
    config: ConfigPath,
    set_: Overrides = [],  # noqa: B006
    examples: Annotated[int, typer.Option(min=0, help="How many examples to look at.")] = 100,
) -> None:
    """Validate configuration, model and first examples without running."""
    settings = _load(config, set_)
    from onlinesrl import session

    lines, good = session.check(settings, examples)
    for line in lines:
        print(line)
    if not good:
        raise typer.Exit(65)


Model = Annotated[Path, typer.Option("--model", metavar="M.mln", help="The model.")]
Evidence = Annotated[
    list[Path], typer.Option("--evidence", metavar="E.db", help="A database; may be repeated.")
]
Query = Annotated[str, typer.Option("--query", metavar="P,Q", help="Predicates to answer for.")]
OutputOption = Annotated[Path | None, typer.Option(help="A file; else standard output.")]


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
    stats: Annotated[bool, typer.Option("--stats", help="Print statistics as JSON.")] = False,
) -> None:
    """Infer the most probable world, marginal probabilities, or PSL's truth values."""
    psl = model.suffix in {".psl", ".json"}
    if psl and (query is not None or evidence):
        raise UsageError(
            f"{model} is a PSL model, whose data say what is asked: not --query, --evidence"
        )
    if psl:
        found = _infer_psl(model, data, method or "admm", output, seed, to_stdout=not stats)
    elif query is None or data is not None:
        raise UsageError(
            f"{model} is Markov logic, which needs --query, and takes --evidence, not --data"
        )
    else:
        found = _infer_mln(
            model, evidence, query, method or "mpe", output, seed, to_stdout=not stats
        )
    if stats:
        print(json.dumps(found, indent=2))


def _infer_mln(  # noqa: PLR0913, PLR0917 - the options of the command
    model: Path,
    evidence: list[Path],
    query: str,
    method: str,
    output: Path | None,
    seed: int,
    to_stdout: bool,
) -> dict[str, Any]:
    from onlinesrl import inference

    world = inference.load_world(model, evidence, query.split(","))
    lines, found = inference.infer(world, method, seed)
    if output is not None or to_stdout:
        with _output(output) as write:
            write("".join(f"{line}\n" for line in lines).encode())
    return found


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let SIGTERM end the work as an interrupt does, so that it leaves nothing on disk."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _infer_psl(  # noqa: PLR0913, PLR0917 - the options of the command
    model: Path, data: Path | None, method: str, output: Path | None, seed: int, to_stdout: bool
) -> dict[str, Any]:
    from onlinesrl import psl_inference
    from onlinesrl.progress import Status

    with _interruptible(), closing(Status(sys.stderr)) as status:
        inferred = psl_inference.infer(model, data, method, seed, output, status)
    if output is not None:
        psl_inference.write(inferred, output)
    elif to_stdout:
        with _output(None) as write:
            write("".join(f"{line}\n" for line in psl_inference.lines(inferred)).encode())
    certified = inferred.stats["certified"]
    if not certified:
        print("warning: this answer is not proven to be the best", file=sys.stderr)
    if output is not None or not certified:
        print(psl_inference.summary(inferred), file=sys.stderr)
    return inferred.stats


@app.command()
def ground(
    model: Model,
    query: Query,
    evidence: Evidence = [],  # noqa: B006
    output: OutputOption = None,
) -> None:
    """Write the ground network: a weighted clause a line, hard ones with a final period."""
    if model.suffix in {".psl", ".json"}:
        raise UsageError(
            f"{model} is a PSL model: its ground rules are no clauses; see infer --stats"
        )
    from onlinesrl import inference

    world = inference.load_world(model, evidence, query.split(","))
    with _output(output) as write:
        write("".join(f"{line}\n" for line in inference.network_lines(world)).encode())


@app.command()
def schema() -> None:
    """Print the JSON schema of an example."""
    from onlinesrl.lang.example import json_schema

    print(json.dumps(json_schema(), indent=2))


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


def main() -> None:
    """Run the command line; every error of the project becomes one message and its exit code."""
    gc.set_threshold(_LASTING)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # sums are the same on every machine
    try:
        code = app(standalone_mode=False)
    except OnlinesrlError as error:
        with suppress(OSError):  # standard error may be a file on the disk that is full
            print(error, file=sys.stderr)
        code = error.exit_code
    except KeyboardInterrupt:
        code = 130
    except SystemExit:  # typer's: who read the output has gone
        code = 74
    except OSError as error:
        with suppress(OSError):
            print(f"onlinesrl: {error}", file=sys.stderr)
        code = 74
    except Exception as error:
        shown = getattr(error, "format_message", None)
        if shown is None:
            raise
        if message := shown():  # none where the help has been shown
            print(f"onlinesrl: {message}", file=sys.stderr)
        code = USAGE
    try:
        sys.stdout.flush()
    except OSError as error:
        if not isinstance(error, BrokenPipeError):
            print(f"standard output: cannot write: {error.strerror}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or it is tried again at the exit
        code = code or 74
    if "duckdb" not in sys.modules:  # it would take what is frozen for leaks, and say so
        gc.freeze()  # else the end of the interpreter looks through all that numba has loaded
    sys.exit(code or 0)
