"""From a configuration to a learner, a reader and a run: where the parts are put together."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onlinesrl.config import Config, mismatch
from onlinesrl.errors import ExampleError, ModelError, StorageError
from onlinesrl.ground.plan import compile_program
from onlinesrl.infer.ilp import Ilp
from onlinesrl.infer.mpe import Mpe
from onlinesrl.infer.walksat import WalkSat
from onlinesrl.lang import mln
from onlinesrl.lang import weights as weight_files
from onlinesrl.lang.ast import Program
from onlinesrl.lang.example import Example
from onlinesrl.lang.psl_ast import PslProgram
from onlinesrl.learn.learner import Hyper, Learner, Outcome
from onlinesrl.learn.online import Inference, OnlineLearner
from onlinesrl.learn.rule_weights import RuleWeights
from onlinesrl.metrics import Metrics
from onlinesrl.progress import Progress
from onlinesrl.results import read_summary, write_results
from onlinesrl.stream import checkpoint
from onlinesrl.stream.examples import Reader
from onlinesrl.stream.files import FileSource, Record
from onlinesrl.stream.folder import RunFolder
from onlinesrl.stream.labels import Labels
from onlinesrl.stream.loop import Item, Rebalanced, Run, Schedule, Sink, Stopper, check_fingerprint

if TYPE_CHECKING:
    from onlinesrl.stream.exporter import Exporter

Warn = Callable[[str], None]


def warn(message: str) -> None:
    """Tell a person, on standard error."""
    print(f"warning: {message}", file=sys.stderr)


# learners ----------------------------------------------------------------------------------------


def _load(path: Path) -> Program | PslProgram:
    if path.suffix == ".psl":
        from onlinesrl.lang import psl

        return psl.load(path)
    return mln.load(path)


def make_learner(
    config: Config, program: Program | PslProgram | None = None, margins: bool = False
) -> Learner:
    """Return a learner of the configured model, or of another, with the weights in its file."""
    program = _load(config.model) if program is None else program
    for name in config.query:
        if name not in program.predicates:
            known = ", ".join(sorted(program.predicates))
            raise config.error("query", f"{name} is not declared in the model, which has {known}")
    hyper = Hyper(**config.learner.model_dump(exclude={"start"}))
    by, inference = _counted(config, program), config.inference
    if isinstance(program, PslProgram):
        return _soft_learner(config, program, hyper, by)
    ilp = Ilp(inference.solver, max_nodes=inference.max_nodes)
    return OnlineLearner(
        compile_program(program, config.query),
        hyper,
        Inference(
            whole=ilp,
            exact=Mpe(Ilp(inference.solver, max_nodes=inference.max_nodes)),
            fallback=WalkSat() if inference.unsolved == "fallback" else None,
            presolve=inference.presolve == "exact",
            audit_every=inference.audit_every,
            max_groundings=inference.max_groundings,
            max_atoms=config.limits.max_atoms,
        ),
        by,
        margins,
    )


def _soft_learner(
    config: Config, program: PslProgram, hyper: Hyper, by: tuple[str, int] | None
) -> Learner:
    from onlinesrl.infer.admm import Admm
    from onlinesrl.learn.soft import SoftInference, SoftLearner

    inference = SoftInference(
        Admm(),
        fallback=config.inference.unsolved == "fallback",
        max_groundings=config.inference.max_groundings,
        max_atoms=config.limits.max_atoms,
    )
    return SoftLearner(program, config.query, hyper, inference, by)


def _counted(config: Config, program: Program | PslProgram) -> tuple[str, int] | None:
    """Resolve ``metrics.by``: ``Predicate.N`` (from 1) or the name of a query argument's type."""
    by = config.metrics.by
    if by is None:
        return None
    arguments = [
        (name, n, kind) for name in config.query for n, kind in enumerate(_types(program, name))
    ]
    for name, n, kind in arguments:
        if by in (f"{name}.{n + 1}", kind):
            return name, n
    known = [f"{q}.{n + 1}{f' ({kind})' if kind else ''}" for q, n, kind in arguments]
    raise config.error(
        "metrics.by", f"{by} is no argument of a query predicate: {', '.join(known)}"
    )


def _types(program: Program | PslProgram, name: str) -> Sequence[str | None]:
    """Return the types of a predicate's arguments; PSL has none."""
    if isinstance(program, PslProgram):
        return [None] * program.predicates[name]
    return program.predicates[name].types


def new_learner(config: Config) -> Learner:
    """Return a learner to be trained: with starting weights, and room for more than it starts with."""
    learner = make_learner(config)
    most, start = config.learner.max_weights, config.learner.start
    if isinstance(learner, OnlineLearner) and most is not None:
        fixed = learner.weights.reserved
        if most < 2 * fixed:
            reason = f"the rules alone have {fixed} weights; expected at least {2 * fixed}"
            raise config.error("learner.max_weights", reason)
    if start is not None:
        if (start.suffix == ".psl") != config.soft:
            raise config.error("learner.start", f"expected weights for {config.model.name}")
        for lost in set_weights(learner, _load(start)):
            warn(f"{start}: {lost}")
    return learner


def set_weights(learner: Learner, weights: Program | PslProgram) -> list[str]:
    """Set starting weights from a weights file; returns what the model has no place for."""
    if isinstance(weights, PslProgram):
        assert isinstance(learner.weights, RuleWeights)
        return [
            f"line {lost.position.line}: no rule of the model fits `{lost.text}`"
            for lost in learner.weights.start(weights)
        ]
    assert isinstance(learner, OnlineLearner)
    matched = weight_files.read(learner.weights.clauses, weights)
    for clause, key, weight in matched.entries:
        learner.weights.set(clause, key, weight)
    return [
        f"line {lost.position.line}: no rule of the model fits `{lost.text}` ({lost.rows} weights)"
        for lost in matched.unmatched
    ]


def trained_learner(config: Config, trained: Path, margins: bool = False) -> Learner:
    """Return a learner with the weights of a checkpoint or of an MLN or PSL file.

    A file whose rules are all the configured model's sets that model's weights; any other is a
    model of its own. Raises ConfigError for a checkpoint of another model.
    """
    if trained.suffix == ".ckpt" or trained.is_dir():
        return _from_checkpoint(config, trained, margins)
    program = _load(trained)
    if isinstance(program, Program):
        _check_weighted(trained, program)
    if isinstance(program, PslProgram) == config.soft:
        learner = make_learner(config, margins=margins)
        if not set_weights(learner, program):
            return learner
    return make_learner(config, program, margins)


def _check_weighted(path: Path, program: Program) -> None:
    for rule in program.rules:
        if rule.weight is None and not rule.hard:
            raise ModelError(
                f"this rule has no weight, so the file is not a trained model: {rule.text}",
                file=str(path),
                line=rule.position.line,
                column=rule.position.column,
            )


def _from_checkpoint(config: Config, path: Path, margins: bool) -> Learner:
    saved = load_checkpoint(path)
    learner = make_learner(config, margins=margins)
    current = config.fingerprint(learner.model_text)
    old, new = (
        {key: fingerprint.get(key) for key in ("model", "query")}
        for fingerprint in (saved.header["fingerprint"], current)
    )
    check_fingerprint(saved, mismatch(old, new))
    learner.restore(saved.header["learner"], saved.arrays)
    return learner


def load_checkpoint(path: Path) -> checkpoint.Checkpoint:
    """Return a checkpoint file, or the newest intact one of a run folder."""
    if not path.is_dir():
        return checkpoint.load(path)
    folder = path / "checkpoints" if (path / "checkpoints").is_dir() else path
    found = checkpoint.latest(folder, warn)
    if found is None:
        raise StorageError(f"{path}: no checkpoint in this folder")
    return found


def make_reader(config: Config, to_end: bool = True, journal: Path | None = None) -> Reader:
    """Return the reader of the configured source, for a run if there is a ``journal`` of its order."""
    source, labels = config.source, config.labels
    return Reader(
        _kafka_source(config, to_end, journal)
        if source.kind == "kafka"
        else FileSource([str(p) for p in source.path or ()], source.max_bytes),
        config.query,
        source.only,
        source.without,
        labels is not None,
    )


def _kafka_source(config: Config, to_end: bool, journal: Path | None) -> Any:
    from onlinesrl.stream.broker import Broker
    from onlinesrl.stream.kafka_source import KafkaSource, Reading
    from onlinesrl.stream.shared_source import SharedSource

    source, labels = config.source, config.labels
    topics = [source.topic, labels.topic if labels else None]
    reading = Reading(
        [topic for topic in topics if topic is not None],
        source.group,
        source.start == "end",
        to_end,
        source.gaps == "skip",
        source.patience_seconds,
        source.max_bytes,
    )
    broker = Broker(source.bootstrap or "", source.security.settings())
    if source.shared and journal is not None:
        return SharedSource(broker, reading, warn)
    return KafkaSource(broker, reading, journal if source.order == "journal" else None, warn)


def _kafka_sink(config: Config) -> Sink | None:
    if config.sink.kind == "file":
        return None
    from onlinesrl.stream.broker import Broker
    from onlinesrl.stream.kafka_sink import KafkaSink

    source, sink = config.source, config.sink
    bootstrap = sink.bootstrap or source.bootstrap
    if bootstrap is None:
        raise config.error("sink", "bootstrap: missing; expected host:port of Kafka")
    broker = Broker(bootstrap, (sink.security or source.security).settings())
    return KafkaSink(broker, sink.topic or "", source.patience_seconds, warn)


# the main job --------------------------------------------------------------------------------------


class _Watcher:
    """Feeds the progress display, and the metrics server where there is one."""

    def __init__(self, progress: Progress, run: Run, exporter: Exporter | None):
        self.progress = progress
        self.exporter = exporter
        self.source = run.reader.source
        self.seconds = run.seconds
        self.started = time.monotonic()

    def reading(self, items: Iterator[Item | None], stopper: Stopper) -> Iterator[Item | None]:
        return self.exporter.reading(items, stopper) if self.exporter else items

    def update(self, snapshot: Callable[[], dict[str, Any]], examples: int) -> None:
        if self.exporter is not None:
            self.exporter.update(snapshot)
        if self.progress.due(examples):
            elapsed = self.seconds + time.monotonic() - self.started
            lag = self.source.lag()
            behind = {"lag": sum(lag.values())} if lag else {}
            self.progress.update(snapshot() | behind, examples / max(elapsed, 1e-9))

    def saved(self) -> None:
        self.progress.saved()


@dataclass(frozen=True)
class Options:
    """What the command line says of a run.

    ``until`` is "end" (what is there when it begins), "forever", or a number of examples in all; None:
    forever where the source is live. ``exporter`` serves metrics.
    """

    fresh: bool = False
    strict: bool = False
    until: str | int | None = None
    exporter: Exporter | None = None


def run(config: Config, options: Options, import_seconds: float, say: Warn) -> dict[str, Any]:
    """Learn online from the configured source, from its last checkpoint if there is one.

    Returns the summary, which is also written with the weights and the report. A first signal to
    stop, whenever it comes, leaves it at the examples at hand and what is written of them.
    """
    with Stopper() as stopper:
        return _run(config, options, import_seconds, say, stopper)


def _run(
    config: Config, options: Options, import_seconds: float, say: Warn, stopper: Stopper
) -> dict[str, Any]:
    learner, compile_seconds = new_learner(config), 0.0
    fingerprint = config.fingerprint(learner.model_text)
    with RunFolder(config.output, ".psl" if config.soft else ".mln") as folder:
        if options.fresh:
            folder.clear()
        reader = make_reader(config, options.until == "end", folder.order)
        with closing(reader.source):
            while True:
                compile_seconds += compile_kernels(learner, say)
                saved = _accepted(folder, reader.source, fingerprint)
                if saved is None:
                    folder.order.unlink(missing_ok=True)
                else:
                    summary = read_summary(folder)
                    if saved.header["finished"] and summary and summary["finished"]:
                        say(f"{config.output}: this run is finished; --fresh starts it over")
                        return summary
                    examples = saved.header["metrics"]["examples"]
                    say(f"going on from {saved.path.name}, {examples} examples")
                run_ = _make_run(config, options, learner, reader, folder)
                with closing(run_), suppress(Rebalanced):
                    run_.resume(saved)
                    if not run_.finished:
                        if options.exporter is not None:
                            options.exporter.begin(run_)
                        with Progress() as progress:
                            watcher = _Watcher(progress, run_, options.exporter)
                            run_.run(watcher, stopper)
                    break
                say("the group divides its partitions anew")
                learner = new_learner(config)
        if not run_.finished:
            how = "stopped" if stopper.asked or run_.enough else "nothing more"
            say(f"{how} after {run_.metrics.examples} examples; run it again to go on")
        timing = {"import_seconds": import_seconds, "compile_seconds": compile_seconds}
        return write_results(config, run_, timing)


def _accepted(
    folder: RunFolder, source: Any, fingerprint: dict[str, Any]
) -> checkpoint.Checkpoint | None:
    """Return the newest checkpoint that the source lets the run go on from, if there is one."""

    def accepts(saved: checkpoint.Checkpoint) -> bool:
        check_fingerprint(saved, mismatch(saved.header["fingerprint"], fingerprint))
        return bool(source.accepts(saved.header["position"], saved.number))

    return checkpoint.latest(folder.checkpoints, warn, accepts)


def _make_run(
    config: Config, options: Options, learner: Learner, reader: Reader, folder: RunFolder
) -> Run:
    schedule = Schedule(
        config.checkpoint.examples,
        config.checkpoint.seconds,
        config.checkpoint.keep,
        config.metrics.every,
        config.batch,
    )
    return Run(
        learner,
        reader,
        folder,
        schedule,
        config.fingerprint(learner.model_text),
        options.strict,
        config.limits.bad_share,
        config.limits.crashes,
        settle=config.inference.unsolved == "stop",
        until=options.until if isinstance(options.until, int) else None,
        labels=Labels(config.labels.pending) if config.labels else None,
        sink=_kafka_sink(config),
    )


def compile_kernels(learner: Learner, say: Warn) -> float:
    """Compile the kernels or load them, telling a person when that takes long; returns seconds."""
    patience = threading.Timer(2.0, say, ["compiling the kernels, once: about a minute ..."])
    patience.start()
    try:
        return learner.compile()
    finally:
        patience.cancel()


# held-out data -------------------------------------------------------------------------------------


def predictions(learner: Learner, config: Config, metrics: Metrics) -> Iterator[Outcome]:
    """Predict the configured source without learning; ``metrics`` takes the counts."""
    batch: list[Any] = []
    places: list[str] = []

    def step() -> Iterator[Outcome]:
        outcomes, tally = learner.step(batch, learning=False)
        metrics.add(tally, len(batch))
        for outcome, place in zip(outcomes, places, strict=True):
            if outcome.error is not None:
                warn(f"{place}: {outcome.error}")
        yield from outcomes
        batch.clear()
        places.clear()

    for record, example in _examples(config):
        batch.append(example)
        places.append(f"{record.file}:{record.line}")
        if len(batch) == config.batch:
            yield from step()
    if batch:
        yield from step()


def _examples(config: Config) -> Iterator[tuple[Record, Example | ExampleError]]:
    """Read the configured source as far as it goes now."""
    reader = make_reader(config)
    with closing(reader.source):
        for item in reader.read(reader.source.open(None)):
            if item is not None and isinstance(item[1], Example | ExampleError):
                yield item[0], item[1]


def evaluate(config: Config, trained: Path) -> dict[str, Any]:
    """Return the metrics of trained weights on the configured source, without learning."""
    learner, metrics = trained_learner(config, trained), Metrics()
    for _ in predictions(learner, config, metrics):
        pass
    snapshot = metrics.snapshot()
    del snapshot["window"]
    return snapshot


def check(config: Config, most: int) -> tuple[list[str], bool]:
    """Validate configuration, model and first examples; returns what was found, and if all is good."""
    learner = new_learner(config)
    found = [f"model: {learner.describe()}"]
    first = list(islice(_examples(config), most))
    examples = [example for _, example in first]
    places = [f"{record.file}:{record.line}" for record, _ in first]
    outcomes, tally = learner.step(examples, learning=False)
    bad = [f"{p}: {o.error}" for p, o in zip(places, outcomes, strict=True) if o.error]
    found.append(f"examples: {tally.predicted} of the first {len(examples)} are good")
    return found + bad, not bad
