"""A run with Kafka in and out that is killed, or overtaken, ends as if it had never been."""

import itertools
import json
import os
import random
import shutil
import signal
import time
from typing import Any

import pytest
from conftest import long, soaked, tiers, wait
from kafka import KafkaConsumer, KafkaProducer

from tests.support.kafka_streams import (
    UNTIL_END,
    add,
    fill,
    from_file,
    ids,
    keys,
    learned,
    predicted,
)
from tests.support.waiting import PATIENCE, until

pytestmark = pytest.mark.usefixtures("counting")

LOCKED = 75


def small_flushes() -> None:
    """Have many transactions; called in a fork."""
    from onlinesrl.stream.kafka import sink as kafka_sink

    kafka_sink.FLUSH_SECONDS = 0.0


@pytest.mark.soak
@pytest.mark.parametrize("most", [40])
def test_kills_at_random_moments_leave_no_trace(broker, topic, job, citations, tally, most):
    """A process is killed at any moment between its start and when an unbroken one would end."""
    file = job(citations[:80], "file")
    assert file.run() == 0, file.said
    fill(broker, topic, citations[:80])
    rng, kills, seconds = random.Random(0), 0, 0.0

    def moment():
        return rng.uniform(0.0, rng.choice((1.0, 1.0, 0.4)) * seconds)

    for attempt in itertools.count():
        if kills == most:
            break
        values = keys(broker, topic, f"{topic}-{attempt}")
        run = job([], f"job{attempt}", **values, batch=3)
        started = time.monotonic()
        killed = run.end(most - kills if attempt else 0, moment, *UNTIL_END, first=small_flushes)
        if not killed:
            seconds = time.monotonic() - started  # of an unbroken run, at the load there is now
        kills += killed
        assert learned(run) == learned(file)
        assert predicted(broker, values["sink"]["topic"]) == from_file(file)
    tally["kills"] += kills


STEPS = (
    "commit_transaction",
    *map(soaked, ("committed", "begin_transaction", "send", "save", "saved")),
)


@pytest.mark.parametrize("step", STEPS)
def test_a_kill_at_any_step_of_a_transaction_leaves_no_trace(
    broker, topic, job, citations, tally, step
):
    """Before each of them, and after the commit; at the first, in the middle, and at a later one."""
    file = job(citations[:30], "file")
    assert file.run() == 0, file.said
    fill(broker, topic, citations[:30])
    values = keys(broker, topic)
    run = job([], **values, batch=3)

    def killing(at):
        def first():
            from onlinesrl.stream import checkpoints

            small_flushes()
            names = {"committed": "commit_transaction", "saved": "save"}
            owner: Any = checkpoints if step in ("save", "saved") else KafkaProducer
            real, calls = getattr(owner, names.get(step, step)), 0

            def call(*arguments, **options):
                nonlocal calls
                calls += 1
                if step in names:
                    real(*arguments, **options)
                if calls == at:
                    os.kill(os.getpid(), signal.SIGKILL)
                return None if step in names else real(*arguments, **options)

            setattr(owner, names.get(step, step), call)

        return first

    for at in (1, 2, 2):
        assert run.run(*UNTIL_END, first=killing(at)) == -signal.SIGKILL, run.said
        tally["kills"] += 1
    assert run.run(*UNTIL_END) == 0, run.said
    assert learned(run) == learned(file)
    assert predicted(broker, values["sink"]["topic"]) == from_file(file)


def test_predictions_behind_an_open_transaction_are_not_written_again(
    broker, topic, job, citations, tally, tmp_path
):
    """Another program's transaction hides them from readers of what is committed."""
    fill(broker, topic, citations[:20])
    values, waits = keys(broker, topic), tmp_path / "waits"
    out = values["sink"]["topic"]
    run = job([], **values)

    def die_at_second_save():
        from onlinesrl.stream import checkpoints

        real, calls = checkpoints.save, itertools.count(1)

        def save(*arguments, **options):
            if next(calls) == 2:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments, **options)

        checkpoints.save = save

    def tell_of_waiting():
        real = KafkaConsumer.poll

        def poll(self, *arguments, **options):
            records = real(self, *arguments, **options)
            if out in {place.topic for place in self.assignment()}:
                waits.touch()  # there was nothing to read
            return records

        KafkaConsumer.poll = poll

    with KafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id=topic) as other:
        other.init_transactions()
        other.begin_transaction()
        other.send(out, value=b"other").get(PATIENCE)
        assert run.run(*UNTIL_END, first=die_at_second_save) == -signal.SIGKILL, run.said
        again = run.start(*UNTIL_END, first=tell_of_waiting)
        until(waits.exists)
        other.abort_transaction()
    assert wait(again) == 0, run.said
    assert len(predicted(broker, out)) == 20
    tally["kills"] += 1


def slow_sends() -> None:
    """Let the broker answer between the records of a transaction; called in a fork."""
    real = KafkaProducer.send

    def send(self: Any, *arguments: Any, **options: Any) -> Any:
        time.sleep(0.1)
        return real(self, *arguments, **options)

    KafkaProducer.send = send


@pytest.mark.parametrize(
    "begin", [soaked(None, name="at once"), pytest.param(slow_sends, id="by and by")]
)
def test_a_second_process_shuts_the_first_out(broker, topic, job, citations, tally, begin):
    """The lock is the folder's; with a copy of it only the broker can tell."""
    fill(broker, topic, citations[:30])
    values = keys(broker, topic)
    first = job([], "first", **values)
    zombie = first.start(first=begin)
    until(lambda: len(broker.read_all(values["sink"]["topic"])) == 30)
    second = job([], "second", **values)
    shutil.copytree(first.output, second.output)
    assert second.run(*UNTIL_END) == 0, second.said
    add(broker, topic, citations[30:60])
    assert wait(zombie) == LOCKED, first.said
    assert "another process has resumed run" in first.said
    assert "Traceback" not in first.said
    assert len(predicted(broker, values["sink"]["topic"])) == 30
    assert second.run(*UNTIL_END) == 0, second.said
    file = job(citations[:60], "file")
    assert file.run() == 0, file.said
    assert learned(second)[0] == learned(file)[0]
    assert predicted(broker, values["sink"]["topic"]) == from_file(file)
    tally["zombies"] += 1


def test_a_process_shut_out_within_its_transaction(broker, topic, job, citations, tally):
    """It is stopped when its predictions are sent and not committed, and wakes up overtaken."""
    fill(broker, topic, citations[:30])
    values = keys(broker, topic)
    first = job([], "first", **values)

    def stopping():
        real, calls = KafkaProducer.commit_transaction, 0

        def commit(self):
            nonlocal calls
            calls += 1
            if calls == 2:
                os.kill(os.getpid(), signal.SIGSTOP)
            return real(self)

        KafkaProducer.commit_transaction = commit

    zombie = first.start(*UNTIL_END, first=stopping)
    until(lambda: os.waitid(os.P_PID, zombie, os.WSTOPPED | os.WNOWAIT | os.WNOHANG))
    second = job([], "second", **values)
    shutil.copytree(first.output, second.output)
    assert second.run(*UNTIL_END) == 0, second.said
    os.kill(zombie, signal.SIGCONT)
    assert wait(zombie) == LOCKED, first.said
    file = job(citations[:30], "file")
    assert file.run() == 0, file.said
    assert learned(second) == learned(file)
    assert predicted(broker, values["sink"]["topic"]) == from_file(file)
    tally["zombies"] += 1


@pytest.mark.parametrize("partitions", [1, long(2)])
@tiers("kills", 3, 40)
def test_a_run_whose_folder_is_lost_at_each_kill_goes_on_from_copies(
    broker, topic, job, citations, tally, tmp_path, partitions, kills
):
    """Each prediction is in the topic once; the weights are those of an unbroken run, if the order is."""
    lines = (citations * 3)[: 30 * kills]
    lines = [json.dumps(json.loads(line) | {"id": n}).encode() for n, line in enumerate(lines)]
    fill(broker, topic, lines, partitions)
    values, rng = keys(broker, topic), random.Random(0)
    values["checkpoint"] = {"every": 3, "copy_to": f"file://{tmp_path}/copies"}
    run = job([], **values, batch=3)

    def dying(at, step):
        """Die before, within or after a copy."""

        def first():
            from onlinesrl.stream.checkpoint_copies import CheckpointCopies

            small_flushes()
            real, calls = CheckpointCopies.copy, itertools.count(1)

            def copy(self):
                last = next(calls) == at
                if last and step == "within":
                    name = f"checkpoint-{self._newest:012d}.ckpt"
                    self._files.pipe_file(f"{self._root}/.{name}.tmp", b"within")
                if not last or step == "after":
                    real(self)
                if last:
                    os.kill(os.getpid(), signal.SIGKILL)

            CheckpointCopies.copy = copy

        return first

    for kill in range(kills):
        step = ("before", "within", "after")[kill % 3]
        first = dying(rng.randrange(2, 8), step)
        assert run.run(*UNTIL_END, first=first) == -signal.SIGKILL, run.said
        shutil.rmtree(run.output)
        tally["kills"] += 1
    assert run.run(*UNTIL_END) == 0, run.said
    assert "checkpoints from file://" in run.said
    found = predicted(broker, values["sink"]["topic"])
    assert sorted(ids(found)) == list(range(len(lines)))
    if partitions == 1:
        file = job([line + b"\n" for line in lines], "file")
        assert file.run() == 0, file.said
        assert learned(run)[0] == learned(file)[0]
        assert found == from_file(file)
