"""Parts that keep a state: the same answers wherever they are held, whenever their workers die."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinesrl.core import interrupt
from onlinesrl.core.errors import DataError, UnavailableError
from onlinesrl.core.interrupt import Interrupted
from onlinesrl.core.parallel import task_result
from onlinesrl.core.parallel.executors import Forks, Inline
from onlinesrl.core.parallel.task_result import PartError
from tests.support.waiting import until

CALLS = st.lists(st.sampled_from(["add", "double", "save"]), max_size=6)


class Sum:
    """The sum of a part and what it was told; its worker is killed at chosen calls."""

    def __init__(self, common: Path, part: int) -> None:
        self.folder, self.part, self.total, self.calls = common, part, part, 0

    def add(self, number: int) -> int:
        self.total += number
        return self.total

    def double(self, number: int) -> int:
        self.total *= 2
        return self.total

    def save(self) -> int:
        return self.total

    def restore(self, saved: int) -> None:
        self.total = saved

    def close(self) -> None:
        (self.folder / f"closed-{self.part}").touch()


class Mortal(Sum):
    """Its worker is killed once for every file ``die-PART-N`` when it adds N."""

    def add(self, number: int) -> int:
        order = self.folder / f"die-{self.part}-{number}"
        if order.exists():
            order.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().add(number)


def answers(
    pool: Inline | Forks, kind: type[Sum], folder: Path, calls: list[str]
) -> list[list[int]]:
    found = []
    with pool.hold(kind, folder, range(5)) as held:
        for number, name in enumerate(calls):
            if name == "save":
                held.save()
            else:
                found.append(held.call(name, [(number + part,) for part in range(5)]))
    return found


@given(calls=CALLS, killed=st.sets(st.tuples(st.integers(0, 4), st.integers(0, 9)), max_size=4))
def test_the_same_answers_whoever_dies(tmp_path_factory, calls, killed) -> None:
    folder = tmp_path_factory.mktemp("held")
    expected = answers(Inline(), Sum, folder, calls)
    for workers in (1, 2):
        for part, number in killed:
            (folder / f"die-{part}-{number}").touch()
        assert answers(Forks(workers), Mortal, folder, calls) == expected


def test_states_in_this_process_are_closed(tmp_path: Path) -> None:
    answers(Inline(), Sum, tmp_path, [])
    assert len([*tmp_path.iterdir()]) == 5


class Bad(Sum):
    def add(self, number: int) -> int:
        if number < 0:
            os._exit(9)
        raise DataError("line 7: no such predicate") if number else ZeroDivisionError("a defect")


def test_errors_are_told_with_their_exit_codes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_result, "DEATHS", 3)
    for number, code, said in ((1, 65, "line 7"), (0, 70, "ZeroDivisionError: a defect")):
        with Forks(2).hold(Bad, tmp_path, [1, 2]) as held, pytest.raises(PartError) as error:
            held.call("add", [(number,), (number,)])
        assert error.value.exit_code == code
        assert said in str(error.value)
    died = r"3 workers in succession died over part 1 .*exit code 9"
    with Forks(2).hold(Bad, tmp_path, [1, 2]) as held, pytest.raises(UnavailableError, match=died):
        held.call("add", [(-1,), (1,)])


class Slow(Sum):
    def add(self, number: int) -> int:
        (self.folder / str(os.getpid())).touch()
        time.sleep(600)
        return 0


def test_a_signal_ends_it_and_its_workers(tmp_path: Path) -> None:
    def ask() -> None:
        until(lambda: len([*tmp_path.iterdir()]) == 2)
        interrupt.note()

    with interrupt.noted():
        asking = threading.Thread(target=ask)
        asking.start()
        with pytest.raises(Interrupted), Forks(2).hold(Slow, tmp_path, [0, 1]) as held:
            held.call("add", [(1,), (1,)])
        asking.join()
    for worker in tmp_path.iterdir():
        assert not Path(f"/proc/{worker.name}").exists()
