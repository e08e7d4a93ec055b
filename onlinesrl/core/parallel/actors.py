"""Parts with states, which stay on the worker that built them and answer the driver's calls in turn.

A worker may die at any moment. The states of its parts are then built again, restored to where they were
last saved, and sent all calls since. So neither the engine nor the number of workers nor their deaths change
the answers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Any, NamedTuple, Protocol

import numpy as np

from onlinesrl.core import interrupt
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

Build = Callable[[Any, Any], "State"]


class State(Protocol):
    """A part's state; its answers depend only on the part and on the calls so far."""

    def save(self) -> Any:
        """Return what ``restore`` needs."""

    def restore(self, saved: Any) -> None:
        """Restore a state just built to where a state of the same part was saved."""

    def close(self) -> None:
        """Free its resources."""


class Call(NamedTuple):
    """A method with its arguments for every part, by number; the method None builds the part."""

    method: str | None
    arguments: Mapping[int, tuple[Any, ...]]

    def of(self, numbers: Sequence[int]) -> Call:
        """Return the call of some parts."""
        return Call(self.method, {number: self.arguments[number] for number in numbers})

    @property
    def n_bytes(self) -> int:
        """The bytes of the arrays among the arguments."""
        values = (value for arguments in self.arguments.values() for value in arguments)
        return sum(value.nbytes for value in values if isinstance(value, np.ndarray))


class States:
    """The states of some parts, in the process that holds them."""

    def __init__(self, build: Build, common: Any) -> None:
        self._build, self._common = build, common
        self._states = dict[int, State]()

    def answer(self, call: Call) -> dict[int, Done]:
        """Answer a call for every part in it; failures are in the answers."""
        return {number: tried(self.answer_part, call, number) for number in call.arguments}

    def answer_part(self, call: Call, number: int) -> Any:
        """Answer a call for a part."""
        arguments = call.arguments[number]
        if call.method is not None:
            return getattr(self._states[number], call.method)(*arguments)
        self._states[number] = self._build(self._common, *arguments)
        return None

    def close(self) -> None:
        """Close the states."""
        while self._states:
            self._states.popitem()[1].close()


class Host(ABC):
    """A holder of the states of some parts: a call is sent, then its answer received."""

    @abstractmethod
    def start(self) -> None:
        """Start without any state."""

    @abstractmethod
    def send(self, call: Call) -> None:
        """Send a call; a dead host shows when the answer is received."""

    @abstractmethod
    def receive(self) -> Mapping[int, Done]:
        """Return the answer to the last call. Raises WorkerDied, Interrupted."""

    @abstractmethod
    def close(self) -> None:
        """Drop the states."""


class ActorPool:
    """The states of parts, held by hosts: part n by host n modulo their number. A context manager.

    Raises what ``Pool.map`` raises.
    """

    def __init__(self, hosts: Sequence[Host], parts: Sequence[Any]) -> None:
        self._hosts = hosts
        self._numbers = [range(n, len(parts), len(hosts)) for n in range(len(hosts))]
        self._build = Call(None, {n: (part,) for n, part in enumerate(parts)})
        self._since = list[Call]()
        self.logged = 0
        """The bytes of the calls since the states were last saved, which are in memory."""
        with ExitStack() as opened:
            for host in hosts:
                opened.callback(host.close)
                host.start()
            self._tell(self._build)
            self._opened = opened.pop_all()

    def __enter__(self) -> ActorPool:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def call(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call a method of all states; return what each answered, in the order of the parts."""
        call = Call(method, dict(enumerate(arguments)))
        answers = self._tell(call)
        self._since.append(call)
        self.logged += call.n_bytes
        return answers

    def save(self) -> list[Any]:
        """Return the states, and remember them, so that the calls so far need not be repeated."""
        saved = self._tell(Call("save", dict.fromkeys(self._build.arguments, ())))
        self._since = [_restoring(saved)]
        self.logged = 0
        return saved

    def restore(self, saved: Sequence[Any]) -> None:
        """Restore states just built to where states of the same parts were saved."""
        self._tell(_restoring(saved))
        self._since = [_restoring(saved)]

    def _tell(self, call: Call) -> list[Any]:
        hosts = [*zip(self._hosts, self._numbers, strict=True)]
        for host, numbers in hosts:
            host.send(call.of(numbers))
        answers = dict[int, Any]()
        for host, numbers in hosts:
            answers |= self._receive(host, numbers, call)
        return [answers[n] for n in sorted(answers)]

    def _receive(self, host: Host, numbers: Sequence[int], call: Call) -> dict[int, Any]:
        """Return a host's answer to the call sent to it; if the host dies, the answer of its successor."""
        deaths = 0
        while True:
            try:
                return _values(host) if not deaths else self._repeat(host, numbers, call)
            except WorkerDied as death:
                deaths += 1
                check_deaths(deaths, numbers[0], death)
                host.start()

    def _repeat(self, host: Host, numbers: Sequence[int], last: Call) -> dict[int, Any]:
        """Repeat all calls at a new host; return its answer to the last one."""
        answer = dict[int, Any]()
        for call in [last] if last is self._build else [self._build, *self._since, last]:
            host.send(call.of(numbers))
            answer = _values(host)
        return answer


def _restoring(saved: Sequence[Any]) -> Call:
    return Call("restore", {n: (state,) for n, state in enumerate(saved)})


def _values(host: Host) -> dict[int, Any]:
    return {n: value(result) for n, result in host.receive().items()}


class Here(Host):
    """States in this process."""

    def __init__(self, build: Build, common: Any) -> None:
        self._states = States(build, common)

    def start(self) -> None:
        """See ``Host.start``."""

    def send(self, call: Call) -> None:
        """See ``Host.send``."""
        self._call = call

    def receive(self) -> Mapping[int, Done]:
        """See ``Host.receive``."""
        interrupt.check()
        call = self._call
        return {number: Done(self._states.answer_part(call, number)) for number in call.arguments}

    def close(self) -> None:
        """See ``Host.close``."""
        self._states.close()


class Fork(Host):
    """States in a fork of this process, or in a new one where ``process_context`` does not fork."""

    def __init__(self, build: Build, common: Any) -> None:
        self._made = build, common
        self._context = process_context()
        self._process: Any = None

    def start(self) -> None:
        """See ``Host.start``."""
        self.close()
        self._pipe, theirs = self._context.Pipe()
        self._process = self._context.Process(
            target=_answer, args=(theirs, *self._made), daemon=True
        )
        with starting():
            self._process.start()
        theirs.close()  # or the end of the fork would not be seen

    def send(self, call: Call) -> None:
        """See ``Host.send``."""
        with suppress(OSError):
            self._pipe.send(call)

    def receive(self) -> Mapping[int, Done]:
        """See ``Host.receive``."""
        try:
            while not self._pipe.poll(interrupt.POLL_SECONDS):
                interrupt.check()
            answer: Mapping[int, Done] = self._pipe.recv()
        except (EOFError, OSError):
            self._process.join()
            raise WorkerDied(f"exit code {self._process.exitcode}") from None
        return answer

    def close(self) -> None:
        """See ``Host.close``."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._pipe.close()


def _answer(pipe: Any, build: Build, common: Any) -> None:  # in the fork
    states, start = States(build, common), tried(depend_on, None, None)
    while True:
        call = pipe.recv()
        failed = start.failed is not None
        pipe.send(dict.fromkeys(call.arguments, start) if failed else states.answer(call))
