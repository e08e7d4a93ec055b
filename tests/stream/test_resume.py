"""Going on where a run stopped: when it does, when it refuses, and what it says."""

import fcntl
import os
import resource

import pytest
from conftest import MODEL, Job

pytestmark = pytest.mark.usefixtures("counting")

EVERY = {"every": 7}


@pytest.fixture
def stopped(job, citations):
    """A run over 40 citations that was stopped after 20."""
    run = job(citations[:40], checkpoint=EVERY, batch=4)
    assert run.run("--until", "20") == 0, run.said
    return run


@pytest.fixture(scope="module")
def unbroken(warm, citations, tmp_path_factory):
    run = Job(tmp_path_factory.mktemp("unbroken"), citations[:40])
    assert run.run() == 0, run.said
    return run.results()


def test_a_finished_run_says_so(stopped):
    assert stopped.run() == 0
    results, printed = stopped.results(), stopped.printed
    assert stopped.run() == 0
    assert "out: this run is finished; --fresh starts it over" in stopped.said
    assert stopped.printed == printed
    assert stopped.results() == results


def test_fresh_starts_over(stopped, unbroken):
    assert stopped.run("--fresh") == 0
    assert "resuming" not in stopped.said
    assert stopped.results() == unbroken
    assert stopped.run("--fresh", "--set", "learner.update=mira") == 0
    assert stopped.results() != unbroken


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("learner.sigma=0.5", "learner.sigma: was 0.01, is 0.5"),
        ("learner.update=mira", "learner.update: was 'adagrad', is 'mira'"),
        ("source.without=face", "source.without: was nothing, is ['face']"),
        ("metrics.every=3", "metrics.every: was nothing, is 3"),
    ],
)
def test_another_configuration_is_refused(stopped, override, said):
    before = stopped.results()
    assert [path.name for path in stopped.checkpoints()] == [
        f"checkpoint-{number:012d}.ckpt" for number in (1, 2, 3)
    ]
    assert stopped.run("--set", override) == 78
    assert said in stopped.said
    assert "--fresh" in stopped.said
    assert stopped.results() == before


def test_a_changed_model_is_refused(stopped, tmp_path):
    model = tmp_path / "changed.mln"
    model.write_text(MODEL.read_text() + "\nHasPunc(i) => InField(i, +f)\n")
    assert stopped.run("--set", f"model={model}") == 78
    assert "model: the file has changed" in stopped.said


def test_what_does_not_change_the_result_may_change(stopped, unbroken):
    assert stopped.run("--set", "batch=9", "--set", "checkpoint.every=1h") == 0
    assert stopped.checkpoints()[-1].name == "checkpoint-000000000004.ckpt"
    assert stopped.results() == unbroken


def test_a_damaged_checkpoint_is_passed_over(stopped, unbroken):
    newest = stopped.checkpoints()[-1]
    newest.write_bytes(newest.read_bytes()[:-1])
    assert stopped.run() == 0
    assert f"damaged checkpoint skipped: {newest}" in stopped.said
    assert stopped.results() == unbroken


def test_only_damaged_checkpoints_are_refused(stopped):
    for path in stopped.checkpoints():
        path.write_bytes(b"")
    before = stopped.results()
    assert stopped.run() == 74
    assert "none of the 3 checkpoints is intact" in stopped.said
    assert stopped.results() == before


def test_outputs_shorter_than_the_checkpoint_are_refused(stopped):
    (stopped.output / "predictions.jsonl").write_bytes(b"")
    assert stopped.run() == 74
    assert "lines are missing" in stopped.said


def test_a_locked_folder_is_refused(stopped):
    descriptor = os.open(stopped.output / "lock", os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    assert stopped.run() == 75
    assert "is running in this folder" in stopped.said
    os.close(descriptor)
    assert stopped.run() == 0


def test_a_full_disk_ends_a_run_that_can_go_on_later(job, citations, unbroken):
    run = job(citations[:40], checkpoint=EVERY)

    reading, writing = os.pipe()

    def shrink():
        resource.setrlimit(resource.RLIMIT_FSIZE, (3_000, 3_000))
        os.dup2(writing, 2)

    assert run.run(first=shrink) == 74
    os.close(writing)
    with os.fdopen(reading) as said:
        assert said.read().endswith("File too large; free some space and run it again\n")
    assert run.run() == 0, run.said
    assert run.results() == unbroken


def test_a_full_disk_is_the_reason_even_where_it_cannot_be_said(job, citations):
    run = job(citations[:40])
    assert run.run(first=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))) == 74
    assert run.said == ""
