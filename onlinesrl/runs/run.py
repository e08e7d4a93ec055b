"""A run from a configuration: learner, reader, trainer and results are put together here."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onlinesrl.core.background import Background
from onlinesrl.core.errors import StorageError, printable, shortened
from onlinesrl.core.evaluation.drift import DriftDetector
from onlinesrl.core.example import ambiguous_labels
from onlinesrl.core.io.restoring import converted, restoring
from onlinesrl.core.jit.decorators import told_of_compiling
from onlinesrl.core.language import Program, check_costs, check_query, counted, language_of
from onlinesrl.core.learner import Learner
from onlinesrl.core.search_status import observed
from onlinesrl.core.version import __version__
from onlinesrl.runs.config.fingerprint import (
    check_fingerprint,
    check_settings,
    mismatch,
    settings,
)
from onlinesrl.runs.config.schema import KEEP_CONFLICTS, Config, MlnConfig, PslConfig
from onlinesrl.runs.console import Say, warn
from onlinesrl.runs.distributed_run import distribution
from onlinesrl.runs.inputs import background, check_apart, make_reader
from onlinesrl.runs.mlflow_log import MlflowLog
from onlinesrl.runs.progress import Display, Shows
from onlinesrl.runs.summary import read_summary, write_results
from onlinesrl.stream import checkpoints as checkpoints_module
from onlinesrl.stream.checkpoint_copies import CheckpointCopies
from onlinesrl.stream.decoding import Batch, ExampleReader
from onlinesrl.stream.distributed.coordinator import Rounds
from onlinesrl.stream.late_labels import LabelJoiner
from onlinesrl.stream.run_folder import RunFolder
from onlinesrl.stream.schedule import Schedule
from onlinesrl.stream.shutdown import ShutdownSignal, Stopped
from onlinesrl.stream.source import Source
from onlinesrl.stream.sources.request_queue import Requests
from onlinesrl.stream.trainer import Trainer

if TYPE_CHECKING:
    from onlinesrl.runs.http.metrics import RunMonitor

ALCHEMY = "alchemy"
"""The dialect in which weights are written."""
ENDLESS = 1000
"""After so many examples of a live source, configured groups without examples are reported."""


# learners ----------------------------------------------------------------------------------------


def make_learner(config: Config, program: Program | None = None, margins: bool = False) -> Learner:
    """Return a learner of the configured model, or of another one, with the weights in its file."""
    language = config.language
    program = language.load(config.model, config.dialect) if program is None else program
    check_query(program, config)
    if config.source.mapping is not None:
        config.source.mapping.check(
            {name: language.argument_types(program, name) for name in program.predicates},
            config.query,
            language.lists_targets and not config.world,
            config.error,
        )
    check_costs(language, program, config)
    by = counted(language, program, config, config.metrics.by)
    facts = Background() if config.world else background(config, program)  # a world has them itself
    return language.learner(config, program, by, margins, facts)


def new_learner(config: Config) -> Learner:
    """Return a learner to be trained, with its starting weights or state."""
    learner, start = make_learner(config), config.learner.start
    if start is not None and _has_state(start):
        _take_over(config, learner, start)
    elif start is not None:
        if language_of(start.suffix) is not config.language:
            raise config.error("learner.start", f"expected weights for {config.model.name}")
        for lost in learner.start(config.language.load(start, ALCHEMY)):
            warn(f"{start}: {lost}")
    return _of_world(config, learner) if config.world else learner


def _of_world(config: Config, learner: Learner) -> Learner:
    """Return a learner that keeps one world, by the weights of another learner."""
    from onlinesrl.runs.world_learner import WorldLearner

    language = config.language
    program = language.load(config.model, config.dialect)
    if config.learner.start is not None:
        program = language.parse(learner.weights_text("", ""), "the starting weights", ALCHEMY)
    assert isinstance(config, MlnConfig | PslConfig)
    targets = config.targets if isinstance(config, MlnConfig) else config.inference.targets
    keep, facts = config.world == KEEP_CONFLICTS, background(config, program)
    return WorldLearner(
        language, program, config.query, targets, config.inference, keep, learner, facts
    )


def _has_state(path: Path) -> bool:
    """Tell whether a path is a checkpoint or run folder, rather than a file of weights."""
    return path.suffix == ".ckpt" or path.is_dir()


def _take_over(config: Config, learner: Learner, start: Path) -> None:
    """Continue the learning of another run. Raises ConfigError if its learner was configured differently."""
    saved = load_checkpoint(start)
    _tell_version(saved)
    learner_keys = ("update", "loss", "sigma", "eta", "delta", "costs", "label_loss")
    keys = ("model", "query", *(f"learner.{key}" for key in learner_keys))
    different = _mismatch(config, learner, saved, keys)
    if different:
        raise config.error(
            "learner.start",
            f"{saved.path} is of another learner ({'; '.join(different)}); "
            "to start from its weights, give its weights file",
        )
    with restoring(saved.path):
        learner.restore(saved.header["learner"], saved.arrays)


def _mismatch(
    config: Config, learner: Learner, saved: checkpoints_module.Checkpoint, keys: Sequence[str]
) -> list[str]:
    """Return how a checkpoint's configuration differs from this one in some keys."""
    current = config.fingerprint(learner.model_text)
    old, new = (
        {
            key: value
            for key, value in fingerprint.items()
            if any(key == prefix or key.startswith(f"{prefix}.") for prefix in keys)
        }
        for fingerprint in (saved.header["fingerprint"], current)
    )
    return mismatch(old, new)


def trained_learner(config: Config, trained: Path, margins: bool = False) -> Learner:
    """Return a learner with the weights of a checkpoint or of an MLN or PSL file.

    A file whose rules are all in the configured model gives that model its weights; any other file
    is used as the model. Raises MismatchError for a checkpoint of another model.
    """
    if _has_state(trained):
        saved = load_checkpoint(trained)
        learner = make_learner(config, margins=margins)
        learner = _of_world(config, learner) if config.world else learner
        check_fingerprint(saved.path, _mismatch(config, learner, saved, ("model", "query")))
        with restoring(saved.path):
            learner.restore(saved.header["learner"], saved.arrays)
        return learner
    if config.world:
        raise config.error("world", "a world has facts, which only its run folder has")
    language = language_of(trained.suffix)
    program = language.load(trained, ALCHEMY)
    language.check_trained(trained, program)
    if language is config.language:
        learner = make_learner(config, margins=margins)
        if not learner.start(program):
            return learner
    return make_learner(config, program, margins)


def load_checkpoint(path: Path) -> checkpoints_module.Checkpoint:
    """Return a checkpoint file, or the newest intact one of a run folder; its header is checked."""
    if not path.is_dir():
        return checkpoints_module.named(path)
    folder = path / "checkpoints" if (path / "checkpoints").is_dir() else path
    newest = checkpoints_module.latest(folder, warn)
    if newest is None:
        raise StorageError(f"{path}: no checkpoint in this folder")
    return checkpoints_module.checked(newest)


def _tell_version(saved: checkpoints_module.Checkpoint) -> None:
    """Say that another version has written a checkpoint: results may differ from there on."""
    if (version := saved.header["version"]) != __version__:
        version = shortened(printable(version))
        warn(
            f"{saved.path}: written by onlinesrl {version}, and this is {__version__}: what follows "
            "may differ from what that version would have learned"
        )


# the main job --------------------------------------------------------------------------------------


class _Watcher:
    """Updates the progress display, and the metrics server if there is one."""

    def __init__(self, display: Shows, trainer: Trainer, exporter: RunMonitor | None):
        self.display = display
        self.exporter = exporter
        self.source = trainer.reader.source
        self.choice = trainer.reader.choice
        self.told = False
        self.seconds = trainer.seconds
        self.started = time.monotonic()

    def running(self, stopper: ShutdownSignal) -> AbstractContextManager[object]:
        return self.exporter.running(stopper) if self.exporter else nullcontext()

    def processing(self, batch: Batch) -> AbstractContextManager[object]:
        return self.exporter.processing(batch) if self.exporter else nullcontext()

    def update(self, snapshot: Callable[[], dict[str, Any]], examples: int) -> None:
        if self.source.live and not self.told and self.choice.examples >= ENDLESS:
            self.told = True
            for complaint in self.choice.complaints():
                warn(complaint)
        if self.exporter is not None:
            self.exporter.update(snapshot)
        if self.display.due(examples):
            elapsed = self.seconds + time.monotonic() - self.started
            lag = self.source.lag()
            behind = {"lag": sum(lag.values())} if lag else {}
            self.display.update(snapshot() | behind, examples / max(elapsed, 1e-9))

    def saved(self) -> None:
        self.display.saved()


@dataclass(frozen=True)
class Options:
    """The command line options of a run.

    ``until`` is "end" (of what is there at the start), "forever", or a total number of examples; None:
    forever if the source is live. ``exporter`` serves metrics. ``requests`` of clients, if any, are the
    source. ``display`` shows the progress, by default on standard error.
    """

    fresh: bool = False
    strict: bool = False
    until: str | int | None = None
    exporter: RunMonitor | None = None
    requests: Requests | None = None
    display: Shows | None = None


def run(config: Config, options: Options, import_seconds: float, say: Say) -> dict[str, Any]:
    """Learn online from the configured source, resuming from the last checkpoint if there is one.

    Returns the summary, which is also written, with the weights and the report. A first signal ends
    the run in good order, whenever it comes.
    """
    display = options.display or Display()
    with options.requests or ShutdownSignal() as stopper:
        stopper.subscribe(display.stopping)
        return _run(config, options, import_seconds, say, stopper, display)


def _run(
    config: Config,
    options: Options,
    import_seconds: float,
    say: Say,
    stopper: ShutdownSignal,
    display: Shows,
) -> dict[str, Any]:
    learner = new_learner(config)
    fingerprint = config.fingerprint(learner.model_text)
    with RunFolder(config.output, config.language.suffix) as folder, ExitStack() as copying:
        if options.exporter is not None:
            options.exporter.locked()
        requests = options.requests
        reader = make_reader(
            config, options.until, folder, lambda: stopper.asked, requests, learner
        )
        check_apart(config, reader.source, folder)
        copies = _copies(config, folder, options, say, stopper)
        if copies is not None:
            copying.enter_context(copies)
        with closing(reader.source):
            compile_seconds = 0.0
            with suppress(Stopped), stopper.waiting():
                compile_seconds = compile_kernels(learner, say)
            saved = _accepted(config, folder, reader.source, fingerprint)
            ended = (
                saved is not None
                and saved.header["finished"]
                and not reader.source.live
                and not reader.more(saved.header["position"], lambda: stopper.asked)
            )
            summary = read_summary(folder.summary) if ended else None
            if saved is None:
                folder.order.unlink(missing_ok=True)
            elif summary and summary.get("checkpoint") == saved.number:
                say(f"{config.output}: this run is finished; --fresh starts it over")
                return summary
            else:
                _tell_version(saved)
                examples = saved.header["metrics"].get("examples", 0)
                say(f"resuming from {saved.path.name}, after {examples} examples")
            trainer = _make_trainer(config, options, learner, reader, folder, stopper, copies)
            log = None
            if config.metrics.mlflow is not None:
                log = MlflowLog(config.metrics.mlflow, config.output.name, folder.mlflow, warn)
                trainer.log = log.log
            _complete(trainer, saved, ended, options, stopper, display)
        complaints, metrics = trainer.reader.choice.complaints(), trainer.metrics
        if trainer.finished and not metrics.examples:
            complaints.append("the source has no example")
        if not config.world:
            complaints += metrics.complaints(config.query)
        if trainer.labels is not None:
            complaints += trainer.labels.complaints(ended=trainer.finished)
        elif metrics.unlabelled and not metrics.total.labelled and not config.world:
            complaints.append("no example has `truth`: nothing was learned or scored")
        if not_learned := trainer.line().get("not_learned"):
            complaints.append(
                f"labels that were asserted as facts and not learned from: {not_learned}, since their atoms "
                "were no targets; to learn from one, list it in the `query` of its record"
            )
        complaints += learner.complaints() if metrics.examples else []
        for complaint in complaints:
            warn(complaint)
        if not trainer.finished:
            ending = "stopped" if stopper.asked or trainer.enough else "nothing more"
            say(f"{ending} after {metrics.examples} examples; run it again to resume")
        timing = {"import_seconds": import_seconds, "compile_seconds": compile_seconds}
        results = write_results(config, trainer, timing)
        if log is not None:
            log.end(trainer.finished, lambda: stopper.asked)
        return results


def _complete(
    trainer: Trainer,
    saved: checkpoints_module.Checkpoint | None,
    ended: bool,
    options: Options,
    stopper: ShutdownSignal,
    display: Shows,
) -> None:
    """Resume from a checkpoint and learn until the end or a stop.

    Where the run had ``ended`` already, only what follows the last checkpoint is written.
    """
    if options.requests is not None:
        options.requests.serve(trainer.reader, trainer.learner, lambda: trainer.labels)
    with closing(trainer):
        trainer.resume(saved)
        if not ended:
            if options.exporter is not None:
                options.exporter.begin(trainer)
            with display, observed(lambda: trainer.learner.slowest.tell(display.working)):
                trainer.run(_Watcher(display, trainer, options.exporter), stopper)
        trainer.end()


def _accepted(
    config: Config, folder: RunFolder, source: Source, fingerprint: dict[str, Any]
) -> checkpoints_module.Checkpoint | None:
    """Return the newest checkpoint that the source accepts, if there is one."""
    current = settings(config)

    def accepts(saved: checkpoints_module.Checkpoint) -> bool:
        checkpoints_module.checked(saved, checkpoints_module.RunHeader)
        check_fingerprint(saved.path, mismatch(saved.header["fingerprint"], fingerprint))
        with restoring(saved.path):
            position = converted(saved.header["position"], source.Position)
        accepted = source.accepts(position, saved.number)
        if source.owes(position):
            before = saved.header["settings"]
            check_settings(saved.path, source.files[-1], mismatch(before, current))
        return accepted

    return checkpoints_module.latest(folder.checkpoints, warn, accepts)


def _copies(
    config: Config, folder: RunFolder, options: Options, say: Say, stopper: ShutdownSignal
) -> CheckpointCopies | None:
    """Clear the folder and its copies if the run starts over, or else fill an empty folder from them."""
    if options.fresh:
        folder.clear()
    section, serving = config.checkpoint, options.requests is not None
    if section.copy_to is None:
        return None
    copies = CheckpointCopies(section.copy_to, section.keep, folder, warn, lambda: stopper.asked)
    if options.fresh:
        copies.clear()
    elif not checkpoints_module.numbered(folder.checkpoints) and copies.fetch(serving):
        say(f"checkpoints from {section.copy_to}; what was written before them is not here")
    return copies


def _make_trainer(
    config: Config,
    options: Options,
    learner: Learner,
    reader: ExampleReader,
    folder: RunFolder,
    stopper: ShutdownSignal,
    copies: CheckpointCopies | None,
) -> Trainer:
    schedule = Schedule(
        config.checkpoint.examples,
        config.checkpoint.seconds,
        config.checkpoint.keep,
        config.metrics.every,
        config.batch,
    )
    make: Callable[..., Trainer] = Trainer
    if config.distribute is not None:
        make = partial(
            Rounds, distribution(config, config.distribute, options.strict, options.until)
        )
    return make(
        learner,
        reader,
        folder,
        schedule,
        config.fingerprint(learner.model_text),
        settings(config),
        config.as_dict(),
        config.sink.make(config, lambda: stopper.asked, warn),
        options.strict,
        config.limits.bad_share,
        config.limits.crashes if config.distribute is None else 0,
        settle=config.inference.unsolved == "stop",
        until=options.until if isinstance(options.until, int) else None,
        labels=LabelJoiner(config.labels.pending, config.labels.max_bytes)
        if config.labels
        else None,
        answered=None if options.requests is None else options.requests.answered,
        first=lambda examples: [*map(warn, ambiguous_labels(examples, config.query))],
        copies=copies,
        drift=None if config.drift is None else DriftDetector(config.drift),
        own=config.metrics.own,
    )


def compile_kernels(learner: Learner, say: Say) -> float:
    """Compile the kernels, with a message, or load them from the cache; return seconds."""
    with told_of_compiling(say):
        return learner.compile()
