"""Processes of pytest-xdist that die: the tests they left are run once more, and the end tells where."""

import faulthandler
import re
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

DIED: dict[str, str] = {}
"""The tests in which a process died first, by file, with its stacks."""
PYTESTS = re.compile(r"/(_pytest|pluggy|xdist|execnet)/|^Extension modules")


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Run the tests of a file in one process, and all of Kafka in one, which starts the broker.

    The tests that are left of a file whose process died are run once more, and the end of the tests tells it.
    """
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            kafka = "kafka" in nodeid.partition("::")[0]
            return "kafka" if kafka else super()._split_scope(nodeid)

        def schedule(self) -> None:
            super().schedule()
            for node in self.nodes:  # one with a single test waits for a second one, or for the end
                self._reschedule(node)

        def _reschedule(self, node: Any) -> None:
            if node in self.registered_collections:  # a new process may not yet know its tests
                super()._reschedule(node)

        def remove_node(self, node: Any) -> str | None:
            work = self.assigned_work[node]
            tests = (test for unit in work.values() for test, done in unit.items() if not done)
            test = next(tests, None)
            again = test is not None and self._split_scope(test) in DIED
            if again:
                work[self._split_scope(test)][test] = True
            elif test is not None:
                DIED[self._split_scope(test)] = f"{test}\n{_fault(node)}"
                self.config.get_terminal_writer().line(f"\ndied in {DIED[self._split_scope(test)]}")
            left = {scope: unit for scope, unit in work.items() if not all(unit.values())}
            self.assigned_work[node] = left  # a process that is given an ended unit waits for ever
            super().remove_node(node)
            return test if again else None

    return Scheduling(config, log) if config.option.dist == "loadfile" else None


def fault_log(config: pytest.Config, worker: str) -> Path:
    """The file where a process of pytest-xdist writes its stacks when it dies."""
    return config.rootpath / ".pytest_cache" / f"{worker}.fault"


def _fault(node: Any) -> str:
    """Why a process died: its last stacks, without those of pytest, and what the kernel says of it."""
    _, _, stacks = (
        fault_log(node.config, node.gateway.id).read_text().rpartition("Fatal Python error")
    )
    lines = [line for line in stacks.splitlines() if not PYTESTS.search(line)]
    with suppress(OSError):  # no such program
        kernel = subprocess.run(["dmesg"], capture_output=True, text=True, check=False).stdout
        lines += [line for line in kernel.splitlines() if "segfault" in line][-2:]
    return "\n".join(lines[-60:])


def pytest_sessionstart(session: pytest.Session) -> None:
    if worker := getattr(session.config, "workerinput", None):
        log = fault_log(session.config, worker["workerid"])
        log.parent.mkdir(exist_ok=True)
        faulthandler.enable(log.open("w"))  # closed at its end


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tell the deaths at the end of the tests."""
    for death in DIED.values():
        terminalreporter.write_line(f"a process died, and its file was run again: {death}")
