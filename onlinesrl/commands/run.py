"""Commands for runs and trained weights: run, serve, predict, evaluate, weights, check."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onlinesrl.commands.common import (
    AllowHost,
    ConfigPath,
    Distribute,
    OutputOption,
    Overrides,
    TablesOption,
    Trained,
    output_to,
)
from onlinesrl.core.errors import ConfigError, UsageError, legible, printable

if TYPE_CHECKING:
    from onlinesrl.runs.config.schema import Config
    from onlinesrl.runs.http.metrics import Exporter

_STARTED = time.perf_counter()


def _load(path: Path, overrides: list[str]) -> Config:
    from onlinesrl.runs.config.loading import load

    return load(path, overrides)


def run(
    config: ConfigPath,
    set_: Overrides = [],  # noqa: B006 - typer's way
    fresh: Annotated[bool, typer.Option(help="Start over, and delete the earlier run.")] = False,
    strict: Annotated[bool, typer.Option(help="Stop at the first bad example.")] = False,
    until: Annotated[
        str | None,
        typer.Option(
            metavar="end|forever|N", help="Where to stop; a number is the total of examples."
        ),
    ] = None,
    metrics_port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Serve /metrics there; 0: a free port.")
    ] = None,
    metrics_host: Annotated[
        str, typer.Option(help="The interface of that port; 0.0.0.0: every one.")
    ] = "127.0.0.1",
    allow_host: AllowHost = [],  # noqa: B006
    threads: Annotated[
        int,
        typer.Option(min=1, help="2: read ahead while learning; the results are the same."),
    ] = 1,
) -> None:
    """Learn online from a stream; resumes from the last checkpoint if there is one."""
    settings = _load(config, set_)
    from onlinesrl.runs import run as run_module
    from onlinesrl.runs.console import say
    from onlinesrl.runs.progress import print_summary

    seconds = time.perf_counter() - _STARTED
    with _exporter(metrics_host, metrics_port, allow_host, say) as exporter:
        options = run_module.Options(fresh, strict, _until(until), exporter, threads=threads)
        summary = run_module.run(settings, options, seconds, say)
    print_summary(summary, sys.stdout)


def serve(
    config: ConfigPath,
    set_: Overrides = [],  # noqa: B006
    host: Annotated[
        str, typer.Option(help="The interface to listen on; 0.0.0.0: every one.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0: a free one.")] = 8080,
    allow_host: AllowHost = [],  # noqa: B006
    fresh: Annotated[
        bool, typer.Option(help="Discard what was learned, and learn again from all requests.")
    ] = False,
) -> None:
    """Predict, and learn from, what clients send by HTTP; resumes from the last checkpoint.

    What is sent to /learn is written to requests.jsonl in the run folder, which is the run's source.
    """
    try:
        settings = _load(config, set_)
    except ConfigError:  # it need not say what is not read
        settings = _load(config, [*set_, "source.path=-"])
    if not settings.source.served:
        raise settings.error("source.kind", "a server learns what clients send; leave source: out")
    from onlinesrl.runs.http import service as server
    from onlinesrl.runs.http.listening import At
    from onlinesrl.runs.progress import print_summary

    seconds = time.perf_counter() - _STARTED
    at = At(host, port, allow_host)
    print_summary(server.serve(settings, at, fresh, seconds), sys.stdout)


@contextmanager
def _exporter(
    host: str, port: int | None, allow_host: list[str], say: Callable[[str], None]
) -> Iterator[Exporter | None]:
    """Serve metrics where a port is given, once the run has its folder."""
    if port is None:
        yield None
        return
    from onlinesrl.runs.http.listening import At
    from onlinesrl.runs.http.metrics import Exporter

    at = At(host, port, allow_host, "--metrics-host {} --metrics-port {}")
    with Exporter(at) as exporter:

        def begin() -> None:
            exporter.start()
            say(f"metrics at {exporter.server.address}/metrics")

        exporter.locked = begin
        yield exporter


def _until(text: str | None) -> str | int | None:
    if text is not None and re.fullmatch("0*[1-9][0-9]{0,17}", text):
        return int(text)
    if text not in {None, "end", "forever"}:
        raise typer.BadParameter(
            "expected end, forever or a number of examples, up to 18 digits", param_hint="--until"
        )
    return text


def predict(
    trained: Trained,
    config: ConfigPath,
    set_: Overrides = [],  # noqa: B006
    output: OutputOption = None,
    tables: TablesOption = None,
    distribute: Distribute = [],  # noqa: B006
) -> None:
    """Predict a source's examples, with score and margin over the second best state.

    Each example gets one line, in order, also a bad one; lines are flushed when no more input waits. With
    --tables it gets rows instead: a table per predicate, and one of the examples. With --distribute the
    files of a source are predicted side by side; the lines are the same.
    """
    settings = _load(config, set_)
    if distribute:
        if tables is not None:
            raise UsageError("--distribute writes lines; leave --tables out")
        _predict_by_file(settings, trained, distribute, output)
        return
    from onlinesrl.core.evaluation.prequential import Metrics
    from onlinesrl.runs import evaluation
    from onlinesrl.runs.run import trained_learner
    from onlinesrl.stream.predictions import answer

    learner = trained_learner(settings, trained, margins=True)
    if tables is not None:
        from onlinesrl.stream.sinks.parquet import new_tables

        into = new_tables(tables, settings.argument_types())
        for found in evaluation.predictions(learner, settings, Metrics()):
            if found is not None:
                into.add(*found)
            if into.full:
                into.write()
        into.write()
        return
    with output_to(output) as stream:
        for found in evaluation.predictions(learner, settings, Metrics()):
            if found is None:
                stream.flush()
            else:
                stream.write(answer(*found) + b"\n")


def _predict_by_file(
    settings: Config, trained: Path, distribute: list[str], output: Path | None
) -> None:
    from onlinesrl.core.parallel.config import PoolSection, given
    from onlinesrl.runs import evaluation_by_file

    section = given(PoolSection, distribute)
    with output_to(output) as stream:
        for lines in evaluation_by_file.predicted(settings, trained, section):
            stream.write(lines)
            stream.flush()


def evaluate(trained: Trained, config: ConfigPath, set_: Overrides = []) -> None:  # noqa: B006
    """Score trained weights on a labelled source, without learning; JSON on standard output."""
    settings = _load(config, set_)
    from onlinesrl.runs import evaluation

    print(json.dumps(evaluation.evaluate(settings, trained), indent=2))


def weights(
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

    The first line describes the order. Models without a common rule are not compared.
    """
    from onlinesrl.runs import weights as weights_module

    chosen = weights_module.Chosen(rule, about, top)
    if json_:
        print(json.dumps(weights_module.as_json(trained, other, chosen), indent=2))
        return
    for line in weights_module.weight_lines(trained, other, chosen):
        print(printable(line))


def check(
    config: ConfigPath,
    set_: Overrides = [],  # noqa: B006
    examples: Annotated[int, typer.Option(min=0, help="How many examples to look at.")] = 100,
) -> None:
    """Validate configuration, model and first examples without running."""
    settings = _load(config, set_)
    from onlinesrl.runs import evaluation

    lines, good = evaluation.check(settings, examples)
    for line in lines:
        print(legible(line))
    if not good:
        raise typer.Exit(65)
