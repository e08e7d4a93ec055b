"""Parts on the workers of a Ray cluster."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from onlinesrl.core import search_status
from onlinesrl.core.errors import UnavailableError
from onlinesrl.core.parallel.executors import Workers
from onlinesrl.core.parallel.task_result import Done, WorkerDied, tried
from onlinesrl.core.version import __version__

ANSWER_SECONDS = 5.0
"""The seconds for the head of a cluster to accept a connection, and to answer in HTTP/2."""
GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""A client's first words in HTTP/2: the preface, and a frame of settings without any (RFC 9113, 3.4)."""

_COMMON: dict[str, Any] = {}
"""The common data of this worker's last parts, by the name of its reference."""


class _Raylet:
    """Ray's own process, a child of this one; without it Ray would end this process at the next call."""

    def __init__(self) -> None:
        own = "raylet", os.getpid()
        paths = Path("/proc").glob("[0-9]*/stat")
        self.stat = next((path for path in paths if (_stat(path) or ())[::2] == own), None)
        """The file of its state; None: another process has started it."""

    @property
    def dead(self) -> bool:
        """Whether it has ended."""
        return self.stat is not None and (_stat(self.stat) or ("", "Z"))[1] in "ZX"

    def check(self) -> None:
        """Raise UnavailableError if it has ended."""
        if self.dead:
            raise UnavailableError(
                "Ray on this machine has ended: its process raylet, or one that this needs, was killed, "
                "perhaps for lack of memory; run it again to resume"
            )


def _stat(path: Path) -> tuple[str, str, int] | None:
    """Return the name, the state and the parent of a process; None: it is gone."""
    try:
        name, _, rest = path.read_text().partition("(")[2].rpartition(")")
    except OSError:
        return None
    state, parent = rest.split()[:2]
    return name, state, int(parent)


class OnRay(Workers):
    """Tasks on Ray's workers; ``common`` goes once to the object store of each machine."""

    def __init__(self, ray: Any, workers: int) -> None:
        self.ray = ray
        self.raylet = _Raylet()
        self.workers = workers
        self.task = ray.remote(_on_worker).options(max_retries=0)

    def _shared(self, common: Any) -> Any:
        self.raylet.check()
        return self.ray.put(common)

    def _start(self, function: Callable[..., Any], shared: Any, part: Any) -> Any:
        self.raylet.check()
        return self.task.remote(__version__, [shared, self.ray.put((function, part))])

    def _ended(self, tasks: Sequence[Any]) -> Sequence[Any]:
        self.raylet.check()
        ready: Sequence[Any] = self.ray.wait(list(tasks), timeout=search_status.POLL_SECONDS)[0]
        return ready

    def _result(self, task: Any) -> Done:
        self.raylet.check()
        done: Done = _result_of(self.ray, task)
        return done

    def _abandon(self, task: Any) -> None:
        if not self.raylet.dead:
            with suppress(Exception):
                self.ray.cancel(task, force=True)


def _result_of(ray: Any, task: Any) -> Any:
    """Return the result of a task. Raises WorkerDied, UnavailableError."""
    errors = ray.exceptions
    died = (
        errors.WorkerCrashedError,
        errors.NodeDiedError,
        errors.LocalRayletDiedError,
        errors.ObjectLostError,
        errors.OutOfMemoryError,
        errors.ActorDiedError,
        errors.ActorUnavailableError,
    )
    try:
        return ray.get(task)
    except died as error:
        raise WorkerDied(type(error).__name__) from None
    except errors.RayError as error:
        lines = str(error).strip().splitlines()
        raise UnavailableError(f"a worker of Ray failed: {lines[-1] if lines else error}") from None


def _version_problem(version: str) -> str | None:
    """Return the error for a driver of another version, whose messages are not read; None: it fits."""
    host = socket.gethostname()
    if version == __version__:
        return None
    has = f"{host}: this worker has onlinesrl {__version__}, the driver {version}"
    return f"{has}; install the same on every machine"


def _on_worker(version: str, references: Sequence[Any]) -> Done:
    """Process a part on a worker; ``references`` are those of ``common``, and of function and part."""
    if (other := _version_problem(version)) is not None:
        return Done(failed=other, exit_code=69)
    common, work = references
    function, part = _ray().get(work)
    return _with_host(tried(function, _common(common), part))


def _common(reference: Any) -> Any:
    """Return the common data of parts; a worker reads it once."""
    name = reference.hex()
    if name not in _COMMON:
        _COMMON.clear()
        _COMMON[name] = _ray().get(reference)
    return _COMMON[name]


def _ray() -> Any:
    import ray

    return ray


def _with_host(done: Done) -> Done:
    """Add the machine to the message of a failure."""
    if done.failed is None:
        return done
    return done._replace(failed=f"worker {socket.gethostname()}: {done.failed}")


@contextmanager
def on_ray(address: str | None, workers: int | None) -> Iterator[OnRay]:
    """Connect to Ray at an address, or start it on this machine; ``workers`` None: all cores.

    An existing connection of this process is used. Raises UnavailableError if Ray is not installed, does not
    answer, or is of another version.
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


def _connect(ray: Any, address: str | None, workers: int | None) -> None:
    """Connect to Ray; it must not take the place of our signal handlers. Raises UnavailableError.

    Where no head of a cluster listens at host:port, Ray would wait for minutes.
    """
    host, _, port = (address or "").rpartition(":")
    if host and "/" not in host and port.isdecimal():
        try:
            with socket.create_connection((host.strip("[]"), int(port)), ANSWER_SECONDS) as head:
                if os.environ.get("RAY_USE_TLS", "0") in ("", "0"):
                    # under TLS it speaks HTTP/2 as well, and is not asked
                    head.sendall(GREETING)
                    if head.recv(9)[3:4] != b"\x04":  # the type of a frame of settings
                        raise OSError("what listens there is not Ray")
        except (OSError, OverflowError) as error:
            raise UnavailableError(
                f"distribute.address: nothing answers at {address} ({error}); expected the head of a "
                "cluster, started by ray start --head --port PORT"
            ) from None
    local_options = {"num_cpus": workers, "include_dashboard": False} if address is None else {}
    logging.getLogger("ray").setLevel(logging.ERROR)
    main = threading.current_thread() is threading.main_thread()
    handlers = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM) if main}
    try:
        ray.init(address or "local", log_to_driver=False, logging_level="ERROR", **local_options)
    except Exception as error:  # Ray raises Exception itself where it could not start in time
        ray.shutdown()  # it may have connected in part
        message = " ".join(str(error).split())
        raise UnavailableError(f"Ray at {address or 'this machine'}: {message}") from None
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        sys.stderr.flush()
