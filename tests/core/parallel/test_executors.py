"""Parts on workers: the same results whatever the workers, however many die; errors are one line."""

import gc
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from onlinesrl.core.errors import DataError, UnavailableError
from onlinesrl.core.parallel import task_result
from onlinesrl.core.parallel.executors import Forks, Inline, Pool
from onlinesrl.core.parallel.task_result import PartError
from onlinesrl.stream.schedule import rare_collections
from tests.support.waiting import until

POOLS: list[Pool] = [Inline(), Forks(1), Forks(3)]


def scaled(common: list[int], part: int) -> tuple[int, int]:
    return part, common[0] * part


@pytest.mark.parametrize("workers", POOLS, ids=["in line", "1 fork", "3 forks"])
def test_results_are_in_the_order_of_the_parts(workers: Pool) -> None:
    def late_first(common: list[int], part: int) -> tuple[int, int]:
        time.sleep(0.05 * (part == 0))
        return scaled(common, part)

    assert list(workers.map(late_first, [3], range(7))) == [(n, 3 * n) for n in range(7)]
    assert list(workers.map(scaled, [3], [])) == []


def test_a_part_whose_worker_dies_is_done_again(tmp_path: Path) -> None:
    def dies_twice(common: Path, part: int) -> int:
        seen = [common / f"{part}-{n}" for n in range(2)]
        for each in seen:
            if not each.exists():
                each.touch()
                os.kill(os.getpid(), signal.SIGKILL)
        return part

    assert list(Forks(2).map(dies_twice, tmp_path, range(4))) == [*range(4)]


def test_a_part_over_which_all_die_ends_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_result, "DEATHS", 3)

    def dies(common: None, part: int) -> None:
        os._exit(9)

    with pytest.raises(
        UnavailableError, match=r"3 workers in succession died over part 1 .*exit code 9"
    ):
        list(Forks(2).map(dies, None, [0]))


def test_a_fork_leaves_the_garbage_of_its_parent(tmp_path: Path) -> None:
    """Its finalizers may wait for threads, of which a fork has none: DuckDB's crash there."""

    class Waits:
        def __init__(self) -> None:
            self.itself, self.process = self, os.getpid()

        def __del__(self) -> None:
            (tmp_path / ("here" if os.getpid() == self.process else "there")).touch()

    def collects(common: None, part: int) -> None:
        with rare_collections():
            pass
        gc.collect()

    gc.collect()
    gc.freeze()  # so that the next collections are quick
    gc.disable()
    try:
        Waits()
        list(Forks(2).map(collects, None, range(2)))
        assert not [*tmp_path.iterdir()]
        gc.collect()
    finally:
        gc.enable()
    assert [each.name for each in tmp_path.iterdir()] == ["here"]


def test_an_error_is_told_with_its_exit_code() -> None:
    def bad(common: None, part: int) -> None:
        raise DataError("line 7: no such predicate") if part else ZeroDivisionError("a defect")

    with pytest.raises(PartError, match=r"^line 7: no such predicate$") as error:
        list(Forks(2).map(bad, None, [1]))
    assert error.value.exit_code == 65
    with pytest.raises(PartError, match="ZeroDivisionError: a defect") as error:
        list(Forks(2).map(bad, None, [0]))
    assert error.value.exit_code == 70


def test_a_signal_ends_it_and_its_workers(tmp_path: Path) -> None:
    def waits(common: Path, part: int) -> None:
        (common / str(os.getpid())).touch()
        time.sleep(600)

    def ask() -> None:
        until(lambda: len([*tmp_path.iterdir()]) == 2)
        os.kill(os.getpid(), signal.SIGINT)

    asking = threading.Thread(target=ask)
    asking.start()
    with pytest.raises(KeyboardInterrupt):
        list(Forks(2).map(waits, tmp_path, [0, 1]))
    asking.join()
    for worker in tmp_path.iterdir():
        assert not Path(f"/proc/{worker.name}").exists()
