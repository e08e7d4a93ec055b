"""Pure functions of (common, part): in this process, in forks of it, or on Ray, with the same results.

A worker may die at any moment: its part is done again. Neither the engine nor the number of workers
changes a bit of what is returned.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
import traceback
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import connection, get_context
from typing import Any, NamedTuple, Protocol, TypeVar

from onlinesrl.core import interrupt
from onlinesrl.core.errors import OnlinesrlError, UnavailableError
from onlinesrl.core.version import __version__

C = TypeVar("C")
P = TypeVar("P")
R = TypeVar("R")

LOOK_SECONDS = 0.2
"""Between two looks at whether the process that started others is there."""
ANSWER_SECONDS = 5.0
"""How long the head of a cluster may take to accept a connection."""
DEATHS = 20
"""So many workers that died in succession over one part end the work."""


class Pool(Protocol):
    """Where parts are worked on."""

    def map(self, function: Callable[[C, P], R], common: C, parts: Sequence[P]) -> Iterator[R]:
        """Yield ``function(common, part)`` of every part, in the order of the parts.

        The function is pure. Raises what it raises, or PartError in its place; UnavailableError where
        workers die over one part again and again; Interrupted when a signal asks to stop.
        """
        ...


class PartError(OnlinesrlError):
    """A part failed in another process: the message and exit code of the error there."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class Inline:
    """Works on the parts one after another, in this process."""

    def map(self, function: Callable[[C, P], R], common: C, parts: Sequence[P]) -> Iterator[R]:
        """See ``Pool.map``."""
        return (function(common, part) for part in parts)


class _Done(NamedTuple):
    """What came of a part: its value, or what failed and the exit code of that."""

    value: Any = None
    failed: str | None = None
    exit_code: int = 0


class _Died(Exception):
    """A worker died before it had a result."""


class _Workers(ABC):
    """Parts on so many workers at a time."""

    workers: int

    def map(self, function: Callable[[C, P], R], common: C, parts: Sequence[P]) -> Iterator[R]:
        """See ``Pool.map``."""
        shared = self._shared(common)
        waiting, running, done = deque(range(len(parts))), dict[Any, int](), dict[int, _Done]()
        deaths = Counter[int]()
        try:
            for number in range(len(parts)):
                while number not in done:
                    while waiting and len(running) < self.workers:
                        at = waiting.popleft()
                        running[self._start(function, shared, parts[at])] = at
                    interrupt.check()
                    for task in self._ended([*running]):
                        at = running.pop(task)
                        try:
                            done[at] = self._result(task)
                        except _Died as death:
                            deaths[at] += 1
                            _check_deaths(deaths[at], at, death)
                            waiting.appendleft(at)
                yield _value(done.pop(number))
        finally:
            for task in running:
                self._abandon(task)

    def _shared(self, common: C) -> Any:
        """Return what stands for ``common`` when a part is started."""
        return common

    @abstractmethod
    def _start(self, function: Callable[..., Any], shared: Any, part: Any) -> Any:
        """Start to work on a part; return the task."""

    @abstractmethod
    def _ended(self, tasks: Sequence[Any]) -> Sequence[Any]:
        """Return the tasks that have ended, after a short wait if there are none."""

    @abstractmethod
    def _result(self, task: Any) -> _Done:
        """Return what came of an ended task. Raises _Died."""

    @abstractmethod
    def _abandon(self, task: Any) -> None:
        """End a task whose result is not wanted."""


def _check_deaths(deaths: int, part: int, death: _Died) -> None:
    """Raise UnavailableError where too many workers died over a part."""
    if deaths >= DEATHS:
        raise UnavailableError(
            f"{deaths} workers in succession died over part {part + 1} of a round ({death}): killed for "
            "lack of memory, or crashed by an example; use fewer workers or a smaller distribute.round"
        )


def _value(done: _Done) -> Any:
    if done.failed is not None:
        raise PartError(done.failed, done.exit_code)
    return done.value


def _tried(function: Callable[..., Any], common: Any, part: Any) -> _Done:
    """Work on a part; what fails is told in words, since not every error passes from process to process."""
    try:
        return _Done(function(common, part))
    except OnlinesrlError as error:
        return _Done(failed=str(error), exit_code=error.exit_code)
    except MemoryError:
        return _Done(failed="there is not enough memory for this", exit_code=69)
    except Exception:
        return _Done(failed=traceback.format_exc(), exit_code=70)


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# forks -------------------------------------------------------------------------------------------


class Forks(_Workers):
    """A fork of this process for every part: it has ``common`` and the compiled kernels already."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self.context = get_context("fork")

    def _start(self, function: Callable[..., Any], shared: Any, part: Any) -> Any:
        ours, theirs = self.context.Pipe(duplex=False)
        process = self.context.Process(
            target=_work, args=(theirs, os.getpid(), function, shared, part), daemon=True
        )
        process.start()
        theirs.close()  # or the end of the fork would not be seen
        return ours, process

    def _ended(self, tasks: Sequence[Any]) -> Sequence[Any]:
        ready = connection.wait([pipe for pipe, _ in tasks], interrupt.POLL_SECONDS)
        return [task for task in tasks if task[0] in ready]

    def _result(self, task: Any) -> _Done:
        pipe, process = task
        try:
            done: _Done = pipe.recv()
        except (EOFError, OSError):
            process.join()
            raise _Died(f"exit code {process.exitcode}") from None
        finally:
            pipe.close()
        process.join()
        return done

    def _abandon(self, task: Any) -> None:
        pipe, process = task
        process.kill()
        process.join()
        pipe.close()


def _work(
    pipe: Any, parent: int, function: Callable[..., Any], common: Any, part: Any
) -> None:  # in the fork
    _depend_on(parent)
    pipe.send(_tried(function, common, part))


def _depend_on(parent: int) -> None:
    """Leave Ctrl-C to the process that started this one, and end when that is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    """End this process once it has another parent."""
    while os.getppid() == parent:
        time.sleep(LOOK_SECONDS)
    os._exit(1)


# Ray ---------------------------------------------------------------------------------------------


class OnRay(_Workers):
    """Tasks on Ray's workers; ``common`` goes once to the object store of each machine."""

    def __init__(self, ray: Any, workers: int) -> None:
        self.ray = ray
        self.workers = workers
        died = ("WorkerCrashedError", "NodeDiedError", "LocalRayletDiedError", "ObjectLostError")
        names = (*died, "OutOfMemoryError")
        self.deaths = tuple(getattr(ray.exceptions, name) for name in names)
        self.task = ray.remote(_on_worker).options(max_retries=0)

    def _shared(self, common: Any) -> Any:
        return self.ray.put(common)

    def _start(self, function: Callable[..., Any], shared: Any, part: Any) -> Any:
        return self.task.remote(__version__, function, shared, part)

    def _ended(self, tasks: Sequence[Any]) -> Sequence[Any]:
        ready: Sequence[Any] = self.ray.wait(list(tasks), timeout=interrupt.POLL_SECONDS)[0]
        return ready

    def _result(self, task: Any) -> _Done:
        try:
            done: _Done = self.ray.get(task)
        except self.deaths as error:
            raise _Died(type(error).__name__) from None
        except self.ray.exceptions.RayError as error:
            said = str(error).strip().splitlines()
            raise UnavailableError(
                f"a worker of Ray failed: {said[-1] if said else error}"
            ) from None
        return done

    def _abandon(self, task: Any) -> None:
        with suppress(Exception):
            self.ray.cancel(task, force=True)


def _on_worker(version: str, function: Callable[..., Any], common: Any, part: Any) -> _Done:
    """Work on a part on a machine of the cluster."""
    host = socket.gethostname()
    if version != __version__:
        has = f"{host}: this worker has onlinesrl {__version__}, the driver {version}"
        return _Done(failed=f"{has}; install the same on every machine", exit_code=69)
    done = _tried(function, common, part)
    return done if done.failed is None else done._replace(failed=f"worker {host}: {done.failed}")


@contextmanager
def on_ray(address: str | None, workers: int | None) -> Iterator[OnRay]:
    """Connect to Ray at an address, or None: start it on this machine; ``workers`` None: all there are.

    Where this process is connected already, that is used. Raises UnavailableError where Ray is not
    installed, does not answer, or is of another version.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    os.environ.setdefault("RAY_raylet_start_wait_time_s", "120")  # a busy machine starts slowly
    try:
        import ray
    except ImportError:
        raise UnavailableError(
            "distribute.engine: ray is not installed; pip install 'onlinesrl[ray]'"
        ) from None
    api: Any = ray
    ours = not api.is_initialized()
    if ours:
        _connect(api, address, workers)
    try:
        yield OnRay(api, workers or max(1, int(api.cluster_resources().get("CPU", 1))))
    finally:
        if ours:
            api.shutdown()


def _check_answers(address: str | None) -> None:
    """Raise UnavailableError where nothing listens at host:port; Ray would wait for a minute."""
    host, _, port = (address or "").rpartition(":")
    if host and "/" not in host and port.isdecimal():
        try:
            socket.create_connection((host.strip("[]"), int(port)), ANSWER_SECONDS).close()
        except (OSError, OverflowError) as error:
            raise UnavailableError(
                f"distribute.address: nothing answers at {address} ({error}); expected the head of a "
                "cluster, started by ray start --head --port PORT"
            ) from None


def _connect(ray: Any, address: str | None, workers: int | None) -> None:
    """Connect to Ray; it must not take the place of our signal handlers. Raises UnavailableError."""
    _check_answers(address)
    here = {"num_cpus": workers, "include_dashboard": False} if address is None else {}
    main = threading.current_thread() is threading.main_thread()
    handlers = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM) if main}
    try:
        ray.init(address or "local", log_to_driver=False, logging_level="ERROR", **here)
    except Exception as error:  # Ray raises Exception itself where it could not start in time
        said = " ".join(str(error).split())
        raise UnavailableError(f"Ray at {address or 'this machine'}: {said}") from None
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        sys.stderr.flush()
