"""Teams of threads, and items that are made ahead: order, errors, ends."""

import signal
import threading

import pytest

from onlinesrl.core.parallel.threads import ThreadTeam, ahead
from tests.support.waiting import PATIENCE


class Odd(Exception):
    pass


def test_a_team_does_all_parts_at_once():
    both, met = threading.Barrier(2, timeout=PATIENCE), []

    def part(word, rank, threads):
        both.wait()
        met.append((word, rank, threads))

    with ThreadTeam(2) as team:
        team.run(part, "a")
    assert sorted(met) == [("a", 0, 2), ("a", 1, 2)]


@pytest.mark.parametrize("where", [0, 1, 2])
def test_an_error_in_a_thread_arrives_as_itself(where):
    def part(rank, threads):
        if rank == where:
            raise Odd(rank)

    with pytest.raises(Odd, match=str(where)), ThreadTeam(3) as team:
        team.run(part)


def test_items_are_made_one_ahead():
    made = []

    def items():
        for n in range(4):
            made.append(threading.current_thread() is threading.main_thread())
            yield n

    assert list(ahead(items())) == [0, 1, 2, 3]
    assert made == [False] * 4
    assert list(ahead(iter([]))) == []


def test_no_more_than_one_is_ahead():
    made = []

    def items():
        for n in range(9):
            made.append(n)
            yield n

    for n in ahead(items()):
        assert len(made) <= n + 2


def test_an_error_ahead_comes_in_its_place():
    def items():
        yield 1
        yield 2
        raise Odd

    rest = ahead(items())
    assert [next(rest), next(rest)] == [1, 2]
    with pytest.raises(Odd):
        next(rest)


def test_ctrl_c_while_one_is_ahead():
    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        for n in ahead(iter(range(5))):
            if n == 2:
                signal.raise_signal(signal.SIGINT)
    assert threading.active_count() == before


def test_threads_of_a_team_meet():
    """None is ahead of another by more than the meeting that it waits at."""
    came, seen = [0, 0, 0], []

    def part(rank, threads):
        for n in range(200):
            came[rank] = n
            seen.append(n - min(came))
            team.barrier(rank)

    with ThreadTeam(3) as team:
        team.run(part)
        team.run(part)
    assert came == [199] * 3
    assert set(seen) == {0, 1}


@pytest.mark.parametrize("where", [0, 1, 2])
def test_who_is_to_meet_a_thread_that_has_an_error_does_not_wait(where):
    def part(rank, threads):
        if rank == where:
            raise Odd(rank)
        team.barrier(rank)
        raise AssertionError(rank)

    with ThreadTeam(3) as team:
        with pytest.raises(Odd, match=str(where)):
            team.run(part)
        team.run(lambda rank, threads: team.barrier(rank))


def test_ctrl_c_ends_a_meeting():
    def part(rank, threads):
        if rank == 0:
            signal.raise_signal(signal.SIGINT)
        team.barrier(rank)

    with pytest.raises(KeyboardInterrupt), ThreadTeam(2) as team:
        team.run(part)
