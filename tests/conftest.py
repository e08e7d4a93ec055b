"""What tests of whole runs share: a stream of our own, its configuration, and warm processes."""

import compileall
import faulthandler
import gc
import json
import os
import random
import shutil
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from hypothesis import HealthCheck, settings

from tests.support import compiling, dead_processes, world_changes
from tests.support.dead_processes import pytest_sessionstart, pytest_xdist_make_scheduler  # noqa: F401
from tests.support.kafka_broker import (  # noqa: F401 - fixtures
    broker,
    broker_process,
    end_unless_needed,
    own_broker,
    running,
    topic,
)
from tests.support.waiting import until

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy is imported, as for the commands
REPO = Path(__file__).parents[1]
MODEL = REPO / "streams" / "citations" / "segmentation.mln"
CITATIONS = REPO / "streams" / "citations" / "citations.jsonl"
RESULTS = ("weights.*", "predictions.jsonl", "metrics.jsonl", "deadletter.jsonl")
FIRST = (
    "stream/kafka/",
    "stream/",
    "test_readme.py",
    "runs/",
    "commands/",
    "streams/",
    "psl/",
    "mln/",
)
"""Tests that mostly wait: they come first, beside those that compute."""
RUNNING: set[int] = set()
TRIED: Counter[str] = Counter()
KEYS = {"model": str(MODEL), "query": "InField", "metrics": {"by": "field"}}


for name, most in (("few", 5), ("soak", 2_000)):
    settings.register_profile(
        name,
        derandomize=True,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],  # of a busy machine
        max_examples=most,
    )


class Job:
    """A configuration in a folder of its own, and the command line to run it.

    ``run`` and ``call`` run it in this process, unless something must be done first in a fork of it.
    Standard output and standard error go to files in the folder.
    """

    def __init__(self, folder: Path, lines: Sequence[bytes], **keys: Any) -> None:
        self.folder = folder
        self.source = folder / "source.jsonl"
        self.config = folder / "run.yaml"
        self.output = folder / "out"
        folder.mkdir(parents=True, exist_ok=True)
        self.source.write_bytes(b"".join(lines))
        values = {**KEYS, "source": {"path": "source.jsonl"}, "output": str(self.output), **keys}
        self.config.write_text(yaml.safe_dump(values))

    def fork(self, *arguments: str, first: Callable[[], object] | None = None) -> int:
        """Start the command line in a fork, after calling `first` there; return its number."""
        sys.stdout.flush()
        sys.stderr.flush()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside BLAS's threads
            process = os.fork()
        if process == 0:
            code = 1
            gc.freeze()  # garbage of tests before: its finalizers may wait for threads that are not here
            gc.unfreeze = lambda: None  # type: ignore[assignment]
            try:
                self._redirect()
                faulthandler.enable(sys.stderr)
                signal.signal(signal.SIGHUP, signal.SIG_DFL)  # which nohup ignores
                if first is not None:
                    first()
                code = command(*arguments)
            except BaseException:
                traceback.print_exc()
            finally:
                with suppress(OSError):
                    sys.stdout.flush()
                os._exit(code)
        RUNNING.add(process)
        return process

    def _redirect(self) -> None:
        for name, number in (("stdout", 1), ("stderr", 2)):
            target = os.open(self.folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
            os.dup2(target, number)
            os.close(target)
            setattr(sys, name, os.fdopen(number, "w", buffering=1, closefd=False))
        sys.stdin = os.fdopen(0, closefd=False)

    @contextmanager
    def _redirected(self) -> Iterator[None]:
        """Let this process write to the files of the folder."""
        streams, before = (sys.stdin, sys.stdout, sys.stderr), [os.dup(number) for number in (1, 2)]
        shown, arguments = warnings.showwarning, sys.argv
        for stream in streams[1:]:
            stream.flush()
        try:
            self._redirect()
            yield
        finally:
            for stream in (sys.stdout, sys.stderr):
                with suppress(OSError):
                    stream.flush()
            for number, copy in enumerate(before, 1):
                os.dup2(copy, number)
                os.close(copy)
            sys.stdin, sys.stdout, sys.stderr = streams
            warnings.showwarning, sys.argv = shown, arguments

    def start(self, *options: str, first: Callable[[], object] | None = None) -> int:
        """Start `run` in a fork."""
        return self.fork("run", str(self.config), *options, first=first)

    def call(self, *arguments: object, first: Callable[[], object] | None = None) -> int:
        """Run the command line; return the exit code, or minus the signal that ended a fork."""
        if first is not None:
            return wait(self.fork(*map(str, arguments), first=first))
        with self._redirected():
            return command(*map(str, arguments))

    def run(self, *options: str, first: Callable[[], object] | None = None) -> int:
        """Run `run` to the end, as ``call``."""
        return self.call("run", self.config, *options, first=first)

    @property
    def said(self) -> str:
        """What the last process wrote on standard error."""
        said = self.folder / "stderr"
        return said.read_text() if said.exists() else ""

    @property
    def printed(self) -> str:
        """What the last process wrote on standard output."""
        return (self.folder / "stdout").read_text()

    def results(self) -> dict[str, bytes]:
        """The files that must not depend on when or how often a run was stopped."""
        found = [next(self.output.glob(name)) for name in RESULTS]
        return {path.name: path.read_bytes() for path in found}

    def lines(self, name: str) -> list[Any]:
        """The JSON lines of a file of the run folder."""
        return [json.loads(line) for line in (self.output / name).read_bytes().splitlines()]

    def predictions(self) -> list[Any]:
        """The predictions of good examples, without the lines of bad ones."""
        return [line for line in self.lines("predictions.jsonl") if "predicted" in line]

    def survives(self, kills: int, seed: object) -> None:
        """Kill the run that many times at moments of its length; it ends as an unbroken one does."""
        started = time.monotonic()
        assert self.run() == 0, self.said
        seconds = time.monotonic() - started
        expected = self.results()
        rng, killed = random.Random(seed), 0
        while killed < kills:
            shutil.rmtree(self.output)
            drawn: list[float] = []

            def moment(most: float = seconds, drawn: list[float] = drawn) -> float:
                drawn.append(rng.uniform(0.0, most))
                return drawn[-1]

            found = self.end(kills - killed, moment)
            if not found:  # it ended before that moment: the first run had more to load
                seconds = drawn[0]
            killed += found
            assert self.results() == expected
        TRIED["kills"] += killed

    def end(
        self,
        kills: int,
        moment: Callable[[], float],
        *options: str,
        first: Callable[[], object] | None = None,
        killed: Callable[[], object] = lambda: None,
    ) -> int:
        """Run to the end, killed so often at most, each time after `moment` seconds; return how often."""
        count, code = 0, -signal.SIGKILL
        while code == -signal.SIGKILL:
            process = self.start(*options, first=first)
            if count < kills:
                time.sleep(moment())
                os.kill(process, signal.SIGKILL)
                killed()
            code = wait(process)
            count += code == -signal.SIGKILL
        assert code == 0, self.said
        return count

    def checkpoints(self) -> list[Path]:
        return sorted((self.output / "checkpoints").glob("*.ckpt"))


def tiers(name: str, few: int, many: int) -> pytest.MarkDecorator:
    """A test that is run with a few of its cases, and with many in soak."""
    return pytest.mark.parametrize(name, [few, soaked(many)])


def soaked(*values: Any, name: str | None = None) -> Any:
    """A case of a test that is tried in soak alone."""
    return pytest.param(*values, marks=pytest.mark.soak, id=name)


def long(*values: Any, name: str | None = None) -> Any:
    """A case of a test that takes seconds, and is left to ``-m long``."""
    return pytest.param(*values, marks=pytest.mark.long, id=name)


def long_if(is_long: Callable[[Any], bool], values: Iterable[Any]) -> list[Any]:
    """Cases of a test, some of which are ``long``."""
    return [long(value) if is_long(value) else value for value in values]


def measuring(config: pytest.Config) -> bool:
    """Tell whether the benchmarks are asked for."""
    return bool(config.option.markexpr == "benchmark")


def command(*arguments: str) -> int:
    """Run the command line in this process; return its exit code."""
    from typer.main import get_command

    from onlinesrl.commands import cli
    from onlinesrl.core import search_status

    if isinstance(cli.app, typer.Typer):
        cli.app = get_command(cli.app)  # type: ignore[assignment]  # once, not by every fork
    search_status.left_behind.clear()  # by tests before, or this process would end with the command
    sys.argv = ["onlinesrl", *arguments]
    try:
        cli.main()
    except SystemExit as leave:
        return int(leave.code or 0)
    raise AssertionError("main returned")


def wait(process: int) -> int:
    """Return the exit code of a child, or minus the signal that ended it."""

    def ended() -> tuple[int, int] | None:
        found, status = os.waitpid(process, os.WNOHANG)
        return (found, status) if found else None

    try:
        _, status = until(ended)
    except AssertionError as error:
        error.add_note(_doing(process))
        raise
    RUNNING.remove(process)
    return os.waitstatus_to_exitcode(status)


def _doing(process: int) -> str:
    """Abort a child; return the stacks of its threads, which it writes at the end of its standard error."""
    log = Path(f"/proc/{process}/fd/2").resolve()
    os.kill(process, signal.SIGABRT)
    os.kill(process, signal.SIGCONT)  # it may be asleep
    os.waitpid(process, 0)
    RUNNING.remove(process)
    return log.read_text()[-20_000:]


@pytest.fixture
def world_run(job, tmp_path: Path):
    """Makes runs over one world from lines of changes."""

    def make(lines: Sequence[dict[str, Any]], soft: bool, name: str = "run", **keys: Any) -> Job:
        model = tmp_path / ("world.psl" if soft else "world.mln")
        model.write_text(world_changes.PSL if soft else world_changes.MLN)
        inference = {"inference": {"targets": "skip"}} if soft else {}
        values = {"limits": {"bad_share": 1.0, "crashes": 0}, "metrics": {}, "learner": {}}
        values |= {"model": str(model), "query": "Good", "world": True, **inference, **keys}
        return job(world_changes.encoded(lines), name, **values)

    return make


@pytest.fixture
def tally() -> Counter[str]:
    """Counts, over all tests, the kills, bad inputs and faults that were tried."""
    return TRIED


def pytest_configure(config: pytest.Config) -> None:
    """Choose how many cases are tried; where they are few, kernels are compiled for all plans at once."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as in the background of a script
        signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.dont_write_bytecode = False  # many processes are started
    if not hasattr(config, "workerinput"):
        if "CI" in os.environ:  # where nobody would see which tests failed before a hang
            signal.signal(signal.SIGALRM, signal.default_int_handler)
            signal.alarm(3600)
        compileall.compile_dir(REPO / "onlinesrl", quiet=2)
    soak = config.option.markexpr == "soak"
    settings.load_profile("soak" if soak else "few")
    compiling.once(REPO / "tests" / "__pycache__" / "kernels.lock")
    if not soak:
        from tests.support.shapes import same_for_all_plans

        same_for_all_plans()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Let no broker run for nothing, and no test change what Ctrl-C does in those after it."""
    end_unless_needed(item, nextitem)
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    assert handler is signal.default_int_handler, f"left behind for SIGINT: {handler}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Function]) -> None:
    """Tests that wait come first; and every property is soaked, too."""
    items.sort(key=lambda item: [f"tests/{each}" in item.nodeid for each in FIRST], reverse=True)
    for item in items if config.option.markexpr == "soak" else ():
        if getattr(item.function, "is_hypothesis_test", False):
            item.add_marker("soak")


def pytest_collection_finish() -> None:
    """Look for garbage among what tests make, seldom among what stays, as most of it does."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 10, 100)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Five processes for folders of tests, as many of them wait; none for a few files, and where they
    measure or print.
    """
    start = config.invocation_params.dir
    folders = all((start / each).is_dir() for each in config.args)
    quiet = config.option.capture != "no" and not measuring(config)
    return 5 if folders and quiet else 0


def pytest_testnodedown(node: Any) -> None:
    """Add up what the processes of pytest-xdist have tried."""
    TRIED.update(getattr(node, "workeroutput", {}).get("tried", {}))


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):  # one of these processes
        session.config.workeroutput["tried"] = dict(TRIED)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if TRIED:
        tried = ", ".join(f"{n} {what}" for what, n in sorted(TRIED.items()))
        terminalreporter.write_line(f"tried: {tried}")
    dead_processes.pytest_terminal_summary(terminalreporter)


@pytest.fixture(scope="session", autouse=True)
def little_room(pytestconfig: pytest.Config) -> None:
    """Let tables of weights grow in short tests, too."""
    from onlinesrl.mln.ground import model_weights

    if not measuring(pytestconfig):
        model_weights.ROOM, model_weights.SLOTS = 1024, 2048


@pytest.fixture(scope="session")
def citations() -> list[bytes]:
    """The lines of the citation stream."""
    return CITATIONS.read_bytes().splitlines(keepends=True)


@pytest.fixture(scope="session")
def warm(citations: list[bytes], tmp_path_factory: pytest.TempPathFactory) -> None:
    """Import and load everything once, in this process, so that forks start at once."""
    job = Job(tmp_path_factory.mktemp("warm"), [*citations[:20], b"{\n"], checkpoint={"every": 7})
    assert job.run() == 0, job.said
    assert job.call("evaluate", job.output / "weights.mln", job.config) == 0, job.said


@pytest.fixture(scope="module")
def counting() -> Iterator[Callable[..., Any]]:
    """Let the runs of a module learn by counting, without kernels; yields what makes the real learner."""
    from onlinesrl.mln.language import MarkovLogic
    from tests.support.counting_learner import CountingLearner

    def make(_: Any, config: Any, program: Any, *rest: Any) -> CountingLearner:
        return CountingLearner(config.learner, config.query, program)

    real = MarkovLogic.learner
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MarkovLogic, "learner", make)
        patch.setitem(KEYS, "model", str(REPO / "tests" / "programs" / "declarations.mln"))
        yield real


@pytest.fixture
def kernels(counting: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a test of such a module have the learner of Markov logic all the same."""
    from onlinesrl.mln.language import MarkovLogic

    monkeypatch.setattr(MarkovLogic, "learner", counting)
    monkeypatch.setitem(KEYS, "model", str(MODEL))


@pytest.fixture
def job(warm: None, tmp_path: Path) -> Iterator[Callable[..., Job]]:
    """Makes jobs: `job(lines, name="job", **keys)`."""

    def make(lines: Iterable[bytes], name: str = "job", **keys: Any) -> Job:
        return Job(tmp_path / name, list(lines), **keys)

    yield make
    while RUNNING:  # of a test that failed
        process = RUNNING.pop()
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
