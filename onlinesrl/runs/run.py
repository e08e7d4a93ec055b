"""A run from a configuration: learner, reader, trainer and results are put together here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onlinesrl.core.background import Background
from onlinesrl.core.errors import StorageError, printable, shortened
from onlinesrl.core.evaluation.drift import DriftDetector
from onlinesrl.core.evaluation.precision_at_k import PrecisionAtK
from onlinesrl.core.example import Example, ambiguous_labels
from onlinesrl.core.io.restoring import converted, restoring
from onlinesrl.core.jit.decorators import told_of_compiling
from onlinesrl.core.language import Program, check_costs, check_query, counted, language_of
from onlinesrl.core.learner import ExampleLearner, Learner
from onlinesrl.core.parallel.executors import Inline
from onlinesrl.core.search_status import observed
from onlinesrl.core.version import __version__
from onlinesrl.runs.config.fingerprint import check_fingerprint, check_settings, mismatch, settings
from onlinesrl.runs.config.schema import KEEP_CONFLICTS, Config, MlnConfig, PslConfig
from onlinesrl.runs.console import Say, warn
from onlinesrl.runs.distributed_run import distribution
from onlinesrl.runs.inputs import background, check_apart, make_reader, record_decoder
from onlinesrl.runs.mlflow_log import MlflowLog
from onlinesrl.runs.progress import Display, Shows
from onlinesrl.runs.summary import read_summary, write_results
from onlinesrl.stream import checkpoints as checkpoints_module
from onlinesrl.stream.alerts import Alerts
from onlinesrl.stream.checkpoint_copies import CheckpointCopies
from onlinesrl.stream.checkpointer import Checkpointer
from onlinesrl.stream.crash_notes import CrashNote, run_of
from onlinesrl.stream.csv_rows import UTF_8
from onlinesrl.stream.decoding import RecordDecoder
from onlinesrl.stream.distributed.coordinator import Rounds
from onlinesrl.stream.group_filter import Choice
from onlinesrl.stream.late_labels import LabelJoiner
from onlinesrl.stream.linked_source import RowForm, linked_source
from onlinesrl.stream.observer import Observer, Progress
from onlinesrl.stream.output_files import Outputs
from onlinesrl.stream.run_folder import RunFolder
from onlinesrl.stream.run_state import RunState
from onlinesrl.stream.schedule import Schedule
from onlinesrl.stream.shutdown import ShutdownSignal, Stopped
from onlinesrl.stream.source import Source, SourceContext
from onlinesrl.stream.sources.request_journal import RequestJournal
from onlinesrl.stream.sources.request_queue import Answerer, Requests
from onlinesrl.stream.trainer import Rules, Trainer

if TYPE_CHECKING:
    from onlinesrl.logic.ground_world import GroundWorld
    from onlinesrl.runs.http.metrics import RunMonitor

ALCHEMY = "alchemy"
"""The dialect in which weights are written."""
FIRST = 100
"""In so many labelled examples a run looks for labels that may be missing."""
ENDLESS = 1000
"""After so many examples of a live source, configured groups without examples are reported."""


# learners ----------------------------------------------------------------------------------------


def make_learner(
    config: Config, program: Program | None = None, margins: bool = False
) -> ExampleLearner:
    """Return a learner of the configured model, or of another one, with the weights in its file."""
    language = config.language
    program = language.load(config.model, config.dialect) if program is None else program
    check_query(program, config)
    if config.source.mapping is not None:
        config.source.mapping.check(
            config.argument_types(program),
            config.query,
            language.lists_targets and not config.world,
            config.error,
        )
    if config.source.linked is not None:
        types = {name: language.argument_types(program, name) for name in program.predicates}
        config.source.linked.check(types, config.query, config.error)
    check_costs(language, program, config)
    by = counted(language, program, config, config.metrics.by)
    facts = Background() if config.world else background(config, program)  # a world has them itself
    if config.world and best_of(config) > 1:  # likewise
        alone = config.inference.model_copy(update={"best": 1})
        config = config.model_copy(update={"inference": alone})
    return language.learner(config, program, by, margins, facts)


def best_of(config: Config) -> int:
    """Return how many of the best states are asked for."""
    best: int = getattr(config.inference, "best", 1)
    return best


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
    from onlinesrl.runs.entity_learner import EntityLearner
    from onlinesrl.runs.world_learner import WorldLearner

    language, weights = config.language, learner.weights.placed()
    program = language.load(config.model, config.dialect)
    assert isinstance(config, MlnConfig | PslConfig)
    targets = config.targets if isinstance(config, MlnConfig) else config.inference.targets
    entities = config.entities if isinstance(config, MlnConfig) else None

    def ground() -> GroundWorld:
        world: GroundWorld = (
            language.world(program, config.query, targets, config.inference)
            if entities is None
            else entities.world(program)
        )
        if config.learner.start is not None:
            world.set_weights(weights)
        return world

    keep, facts = config.world == KEEP_CONFLICTS, background(config, program)
    if entities is not None:
        return EntityLearner(ground, entities.facts(), keep, learner, facts)
    schema = language.facts(program, config.query, targets)
    return WorldLearner(ground, schema, keep, learner, facts, best_of(config))


def _has_state(path: Path) -> bool:
    """Tell whether a path is a checkpoint or run folder, rather than a file of weights."""
    return path.suffix == ".ckpt" or path.is_dir()


def _take_over(config: Config, learner: Learner, start: Path) -> None:
    """Continue the learning of another run. Raises ConfigError if its learner was configured differently."""
    saved = load_checkpoint(start)
    _tell_version(saved)
    learner_keys = ("update", "loss", "sigma", "eta", "delta", "costs", "label_loss", "replay")
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
        learner = new_learner(config) if config.world else make_learner(config, margins=margins)
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


@dataclass(frozen=True)
class Options:
    """The command line options of a run.

    ``until`` is "end" (of what is there at the start), "forever", or a total number of examples; None:
    forever if the source is live. ``monitor`` is told how it goes; ``locked`` is called when the run has its
    folder. ``requests`` of clients, if any, are the source. ``display`` shows the progress, by default on
    standard error.
    """

    fresh: bool = False
    strict: bool = False
    until: str | int | None = None
    monitor: RunMonitor | None = None
    requests: Requests | None = None
    display: Shows | None = None
    locked: Callable[[], object] = lambda: None


class _FirstLabels(Observer):
    """Warns if the first labelled examples show that labels may be missing."""

    def __init__(self, query: Sequence[str]) -> None:
        self.query = query
        self.done = False

    def batch(self, progress: Progress) -> None:
        """See ``Observer.batch``."""
        if self.done:
            return
        examples = (result.example for result in progress.results if result.outcome.prediction)
        labelled = [x for x in examples if isinstance(x, Example) and x.labelled]
        warnings = [*ambiguous_labels(labelled, self.query)]
        for warning in warnings:
            warn(warning)
        self.done = bool(warnings) or progress.examples >= FIRST


class _GroupsMet(Observer):
    """Warns once, in a run that does not end, of groups that no example has had so far."""

    def __init__(self, choice: Choice) -> None:
        self.choice = choice
        self.done = False

    def batch(self, progress: Progress) -> None:
        """See ``Observer.batch``."""
        if not self.done and self.choice.examples >= ENDLESS:
            self.done = True
            for complaint in self.choice.complaints():
                warn(complaint)


def run(config: Config, options: Options, import_seconds: float, say: Say) -> dict[str, Any]:
    """Learn online from the configured source, resuming from the last checkpoint if there is one.

    Returns the summary, which is also written, with the weights and the report. A first signal ends
    the run in good order, whenever it comes.
    """
    display = options.display or Display()
    with options.requests or ShutdownSignal() as stopper:
        stopper.subscribe(display.stopping)
        if options.monitor is not None:
            stopper.subscribe(options.monitor.stopping)
        learner = new_learner(config)
        with RunFolder(config.output, config.language.suffix) as folder:
            options.locked()
            job = _Job(config, options, learner, folder, stopper, display)
            check_apart(config, job.reader.source, folder)  # before anything is cleared
            with _copies(config, folder, options, say, stopper) as copies:
                return job.run(copies, import_seconds, say)


class _Job:
    """A run of a configuration, in its folder."""

    def __init__(
        self,
        config: Config,
        options: Options,
        learner: Learner,
        folder: RunFolder,
        stopper: ShutdownSignal,
        display: Shows,
    ) -> None:
        self.config, self.options = config, options
        self.learner = learner
        self.folder = folder
        self.stopper = stopper
        self.display = display
        self.fingerprint = config.fingerprint(learner.model_text)
        self.labels = (
            LabelJoiner(config.labels.pending, config.labels.max_bytes) if config.labels else None
        )
        self.observers: list[Observer] = [display]
        made = None if options.requests is None else self._journal
        self.reader = make_reader(
            config, options.until, folder, lambda: stopper.asked, learner, made
        )

    def _journal(self, setting: SourceContext, decoder: RecordDecoder) -> Source:
        """Return the journal of what clients send, and let them have their answers."""
        assert self.options.requests is not None
        answerer = Answerer(self.options.requests, self.learner, decoder, self.labels)
        self.observers.append(answerer)
        journal = RequestJournal(self.options.requests, answerer, setting)
        if (linked := self.config.source.linked) is None:
            return journal
        source = linked_source(linked, [journal], UTF_8, self.folder)
        answerer.rows = record_decoder(self.config, RowForm(source), None)
        return source

    def run(
        self, copies: CheckpointCopies | None, import_seconds: float, say: Say
    ) -> dict[str, Any]:
        """Resume, learn until the end or a stop, and write the results; see ``run``."""
        config, source, folder = self.config, self.reader.source, self.folder
        with closing(source):
            compile_seconds = 0.0
            with suppress(Stopped), self.stopper.waiting():
                compile_seconds = compile_kernels(self.learner, say)
            saved = self._accepted()
            if saved is not None:
                with restoring(saved.path):
                    source.restore(saved.arrays)
            ended = saved is not None and saved.header["finished"] and not source.live
            if saved is not None and ended:
                position = saved.header["position"]
                ended = not self.reader.more(position, lambda: self.stopper.asked)
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
            log = None
            if config.metrics.mlflow is not None:
                log = MlflowLog(config.metrics.mlflow, config.output.name, folder.mlflow, warn)
                self.observers.append(log)
            with ExitStack() as stack:
                trainer = self._trainer(saved, ended, copies, stack)
                if not ended:
                    stack.enter_context(self.display)
                    tell = self.learner.slowest.tell
                    with observed(lambda: tell(self.display.working)):
                        trainer.run(self.stopper)
                line = trainer.end()
        if log is not None and line is not None:
            log.log(line)
        self._complain(trainer)
        metrics, finished = trainer.state.metrics, trainer.state.finished
        if not finished:
            ending = "stopped" if self.stopper.asked or trainer.enough else "nothing more"
            say(f"{ending} after {metrics.examples} examples; run it again to resume")
        timing = {"import_seconds": import_seconds, "compile_seconds": compile_seconds}
        asked = self.stopper.asked
        results = write_results(config, trainer, timing, lambda: self.stopper.asked and not asked)
        if log is not None:
            log.close(finished, lambda: self.stopper.asked)
        return results

    def _accepted(self) -> checkpoints_module.Checkpoint | None:
        """Return the newest checkpoint that the source accepts, if there is one."""
        source, current = self.reader.source, settings(self.config)

        def accepts(saved: checkpoints_module.Checkpoint) -> bool:
            checkpoints_module.checked(saved, checkpoints_module.RunHeader)
            check_fingerprint(saved.path, mismatch(saved.header["fingerprint"], self.fingerprint))
            with restoring(saved.path):
                position = converted(saved.header["position"], source.Position)
            accepted = source.accepts(position, saved.number)
            if source.has_more(position):
                before = saved.header["settings"]
                check_settings(saved.path, source.files[-1], mismatch(before, current))
            return accepted

        return checkpoints_module.latest(self.folder.checkpoints, warn, accepts)

    def _trainer(
        self,
        saved: checkpoints_module.Checkpoint | None,
        ended: bool,
        copies: CheckpointCopies | None,
        stack: ExitStack,
    ) -> Trainer:
        """Return what learns, resumed; the ``stack`` closes it."""
        config, options, source = self.config, self.options, self.reader.source
        sink = config.sink.make(config, lambda: self.stopper.asked, warn)
        drift = None if config.drift is None else DriftDetector(config.drift)
        budget, own = config.metrics.top, config.metrics.own
        top = {} if budget is None else {name: PrecisionAtK(budget) for name in config.query}
        alerts = None
        if (section := config.alerts) is not None:
            goal = section.sink.make(config, lambda: self.stopper.asked, warn)
            alerts = Alerts(section, config.query, goal, self.learner)
        state = RunState(
            self.learner, self.reader.choice, sink, self.labels, drift, own, top, alerts
        )
        outputs = Outputs(self.folder, source.retention, alerts is not None)
        about = {
            "fingerprint": self.fingerprint,
            "settings": settings(config),
            "config": config.as_dict(),
        }
        keep = config.checkpoint.keep
        checkpointer = Checkpointer(self.folder, state, outputs, about, keep, copies)
        crashes = config.limits.crashes if config.distribute is None else 0
        crash = CrashNote(self.folder.started, run_of(self.fingerprint), crashes)
        checkpointer.resume(saved)
        every, metrics, until = config.checkpoint, config.metrics, options.until
        rules = Rules(
            Schedule(
                every.examples, every.seconds, metrics.examples, metrics.seconds, config.batch
            ),
            options.strict,
            config.inference.unsolved == "stop",
            config.limits.bad_share,
            until if isinstance(until, int) else None,
        )
        self.observers += [_FirstLabels(config.query)]
        self.observers += [_GroupsMet(self.reader.choice)] if source.live else []
        self.observers += [] if options.monitor is None else [options.monitor]
        parts = self.reader, checkpointer, rules, crash, self.observers
        make: Callable[..., Trainer] = Trainer
        if config.distribute is not None:
            rounds = distribution(config, config.distribute, options.strict, until)
            pool = Inline() if ended else stack.enter_context(rounds.pool())
            make = partial(Rounds, rounds, pool)
        trainer = make(*parts)
        stack.callback(trainer.close)
        return trainer

    def _complain(self, trainer: Trainer) -> None:
        """Warn of what is suspicious about a run."""
        state, config = trainer.state, self.config
        complaints, metrics = state.choice.complaints(), state.metrics
        if state.finished and not metrics.examples:
            complaints.append("the source has no example")
        if not config.world:
            complaints += metrics.complaints(config.query)
        if state.labels is not None:
            complaints += state.labels.complaints(ended=state.finished)
        elif metrics.unlabelled and not metrics.total.labelled and not config.world:
            complaints.append("no example has `truth`: nothing was learned or scored")
        complaints += self.learner.complaints() if metrics.examples else []
        complaints += self.reader.source.complaints()
        for complaint in complaints:
            warn(complaint)


@contextmanager
def _copies(
    config: Config, folder: RunFolder, options: Options, say: Say, stopper: ShutdownSignal
) -> Iterator[CheckpointCopies | None]:
    """Clear the folder and its copies if the run starts over, or else fill an empty folder from them."""
    if options.fresh:
        folder.clear()
    section, serving = config.checkpoint, options.requests is not None
    if section.copy_to is None:
        yield None
        return
    copies = CheckpointCopies(section.copy_to, section.keep, folder, warn, lambda: stopper.asked)
    if options.fresh:
        copies.clear()
    elif not checkpoints_module.numbered(folder.checkpoints) and copies.fetch(serving):
        say(f"checkpoints from {section.copy_to}; what was written before them is not here")
    with copies:
        yield copies


def compile_kernels(learner: Learner, say: Say) -> float:
    """Compile the kernels, with a message, or load them from the cache; return seconds."""
    with told_of_compiling(say):
        return learner.compile()
