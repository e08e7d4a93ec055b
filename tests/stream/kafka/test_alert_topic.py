"""Alerts on a topic of their own: those of the file, each once, whatever kills the run."""

import random
import time

from conftest import tiers

from tests.support import dated_mails
from tests.support.kafka_streams import UNTIL_END, fill, keys, predicted

SECTION = {"top": 2, "per": "1h"}


@tiers("kills", 2, 60)
def test_alerts_are_those_of_the_file_each_once(broker, topic, job, tmp_path, tally, kills):
    lines = dated_mails.encoded(dated_mails.late(dated_mails.mails(60)))
    common = dated_mails.keys(tmp_path, metrics={}, labels={})
    file = job(lines, "file", **common, alerts=SECTION)
    assert file.run() == 0, file.said
    expected = (file.output / "alerts.jsonl").read_bytes().splitlines()
    fill(broker, topic, lines)
    rng, killed, attempt, seconds = random.Random(1), 0, 0, 5.0
    while killed < kills or not attempt:
        attempt += 1
        goal = f"{topic}-alerts-{attempt}"
        broker.create_topic(goal)
        section = SECTION | {"sink": {"kind": "kafka", "topic": goal}}
        values = common | keys(broker, topic, f"{topic}-{attempt}") | {"alerts": section}
        run = job([], f"run{attempt}", **values)
        began = time.monotonic()
        deaths = run.end(
            kills - killed if attempt > 1 else 0,
            lambda: rng.uniform(0.05, seconds),  # noqa: B023
            *UNTIL_END,
        )
        seconds = seconds if deaths else time.monotonic() - began
        killed += deaths
        assert predicted(broker, goal) == expected
        assert len(predicted(broker, f"{topic}-{attempt}-out")) == 60
        assert (run.output / "alerts.jsonl").read_bytes() == b""
    tally["kills"] += killed


def test_a_topic_takes_predictions_or_alerts(broker, topic, job, tmp_path):
    fill(broker, topic, [])
    values = keys(broker, topic)
    values |= dated_mails.keys(tmp_path, metrics={}, alerts=SECTION | {"sink": {**values["sink"]}})
    run = job([], **values)
    assert run.run(*UNTIL_END) == 78
    assert "alerts.sink.topic: predictions go there" in run.said
