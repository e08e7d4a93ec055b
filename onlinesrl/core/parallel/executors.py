"""Pure functions of (common, part): in this process, in forks of it, or on Ray, with the same results.

A worker may die at any moment; its part is then repeated. Neither the engine nor the number of workers
changes the results. Ray is in ``core.parallel.ray_executor``.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from multiprocessing import connection
from typing import Any, Protocol, TypeVar

from onlinesrl.core import search_status
from onlinesrl.core.interrupt import whole
from onlinesrl.core.operating_system import process_context
from onlinesrl.core.parallel.starting import starting
from onlinesrl.core.parallel.task_result import (
    Done,
    WorkerDied,
    check_deaths,
    depend_on,
    tried,
    value,
)

C = TypeVar("C")
P = TypeVar("P")
R = TypeVar("R")


class Pool(Protocol):
    """The workers of parts."""

    def map(
        self,
        function: Callable[[C, P], R],
        common: C,
        parts: Sequence[P],
        again: Callable[[P], P] | None = None,
    ) -> Iterator[R]:
        """Yield ``function(common, part)`` of every part, in the order of the parts.

        The function is pure. If a worker dies, its part is repeated as ``again(part)``. Raises what the
        function raises, or PartError in its place; UnavailableError if workers die over one part again and
        again.
        """


class Inline:
    """Processes the parts one after another, in this process."""

    def map(
        self,
        function: Callable[[C, P], R],
        common: C,
        parts: Sequence[P],
        again: Callable[[P], P] | None = None,
    ) -> Iterator[R]:
        """See ``Pool.map``."""
        return (function(common, part) for part in parts)


class Workers(ABC):
    """Processes parts on up to ``workers`` workers at a time."""

    workers: int
    most_deaths: int | None = None
    """The number of deaths over a part that ends the work; None: ``task_result.DEATHS``."""

    def map(
        self,
        function: Callable[[C, P], R],
        common: C,
        parts: Sequence[P],
        again: Callable[[P], P] | None = None,
    ) -> Iterator[R]:
        """See ``Pool.map``."""
        shared, parts = self._shared(common), [*parts]
        waiting, running, results = deque(range(len(parts))), dict[Any, int](), dict[int, Done]()
        deaths = Counter[int]()
        try:
            for number in range(len(parts)):
                while number not in results:
                    while waiting and len(running) < self.workers:
                        at = waiting.popleft()
                        running[self._start(function, shared, parts[at])] = at
                    search_status.poll()
                    for task in self._ended([*running]):
                        at = running.pop(task)
                        try:
                            results[at] = self._result(task)
                        except WorkerDied as death:
                            deaths[at] += 1
                            check_deaths(deaths[at], at, death, self.most_deaths)
                            parts[at] = parts[at] if again is None else again(parts[at])
                            waiting.appendleft(at)
                yield value(results.pop(number))
        finally:
            for task in running:
                self._abandon(task)

    def _shared(self, common: C) -> Any:
        """Return a reference to ``common`` for the start of parts."""
        return common

    @abstractmethod
    def _start(self, function: Callable[..., Any], shared: Any, part: Any) -> Any:
        """Start a part; return the task."""

    @abstractmethod
    def _ended(self, tasks: Sequence[Any]) -> Sequence[Any]:
        """Return the tasks that have ended, after a short wait if there are none."""

    @abstractmethod
    def _result(self, task: Any) -> Done:
        """Return the result of an ended task. Raises WorkerDied."""

    @abstractmethod
    def _abandon(self, task: Any) -> None:
        """End a task whose result is not needed."""


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# forks -------------------------------------------------------------------------------------------


class Forks(Workers):
    """A fork of this process for every part; it has ``common`` and the compiled kernels already.

    Where ``process_context`` does not fork, parts are sent to new processes, which process many until
    ``close``, because their start takes seconds.
    """

    def __init__(self, workers: int, most_deaths: int | None = None) -> None:
        self.workers = workers
        self.most_deaths = most_deaths
        self.context = process_context()
        self._forking = self.context.get_start_method() == "fork"
        self._idle = list[tuple[Any, Any]]()

    def close(self) -> None:
        """End the processes that wait for parts."""
        while self._idle:
            pipe, process = self._idle.pop()
            pipe.close()
            process.join()

    def _start(self, function: Callable[..., Any], shared: Any, part: Any) -> Any:
        work = function, shared, part
        if not self._idle:
            ours, theirs = self.context.Pipe(duplex=not self._forking)
            process = self.context.Process(
                target=_work, args=(theirs, *([work] if self._forking else []))
            )
            with starting(), whole():  # Ctrl-C would be lost in a fork
                process.start()
            theirs.close()  # or the end of the fork would not be seen
            self._idle.append((ours, process))
        pipe, process = self._idle.pop()
        if not self._forking:
            with suppress(OSError):  # it has died, as `_result` will say
                pipe.send(work)
        return pipe, process

    def _ended(self, tasks: Sequence[Any]) -> Sequence[Any]:
        ready = connection.wait([pipe for pipe, _ in tasks], search_status.POLL_SECONDS)
        return [task for task in tasks if task[0] in ready]

    def _result(self, task: Any) -> Done:
        pipe, process = task
        try:
            result: Done = pipe.recv()
        except (EOFError, OSError):
            pipe.close()
            process.join()
            raise WorkerDied(f"exit code {process.exitcode}") from None
        self._idle.append(task)
        if self._forking:
            self.close()
        return result

    def _abandon(self, task: Any) -> None:
        pipe, process = task
        process.kill()
        process.join()
        pipe.close()


def _work(pipe: Any, *parts: tuple[Callable[..., Any], Any, Any]) -> None:  # in the other process
    start = tried(depend_on, None, None)
    with suppress(EOFError, OSError):
        for function, common, part in parts or iter(pipe.recv, None):
            pipe.send(tried(function, common, part) if start.failed is None else start)
