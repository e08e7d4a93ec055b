"""What a broker refuses is said at once, as what it is, and without the secret."""

import pytest

from onlinesrl.core.errors import ConfigError
from onlinesrl.runs.config import loading
from tests.support.kafka_broker import PASSWORD, USER
from tests.support.kafka_streams import UNTIL_END, fill, in_a_fork, source

RIGHT = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "sasl_plain_username": USER,
    "sasl_plain_password": PASSWORD,
}
WRONG: dict[str, tuple[dict[str, str], str]] = {
    "password": ({"sasl_plain_password": "Wrong-Secret"}, "Invalid username or password"),
    "mechanism": ({"sasl_mechanism": "SCRAM-SHA-512"}, "no mechanism SCRAM-SHA-512, but PLAIN"),
}


@pytest.fixture
def locked(running, topic, citations):
    """The source of a topic of ten citations, at the address that wants a login."""
    fill(running, topic, citations[:10])
    return source(running, topic) | {"bootstrap": running.login}


def test_who_may_is_let_in(locked, job):
    run = job([], source=locked | {"security": RIGHT})
    assert run.run(*UNTIL_END) == 0, run.said


@pytest.mark.parametrize(("wrong", "said"), WRONG.values(), ids=WRONG)
def test_who_may_not_is_told_at_once(locked, job, wrong, said):
    security = RIGHT | wrong
    run = job([], source=locked | {"security": security, "patience": "100h"})
    assert run.run(*UNTIL_END, first=in_a_fork) == 69, run.said
    (line,) = [line for line in run.said.splitlines() if "Kafka" in line]
    assert f"Kafka at {locked['bootstrap']} refuses the login: " in line
    assert said in line and line.endswith("; see source.security")
    assert security["sasl_plain_password"] not in run.said


@pytest.mark.parametrize("key", ["sasl_mechanism", "sasl_plain_username", "sasl_plain_password"])
def test_a_login_that_lacks_a_key_is_a_mistake_of_the_configuration(key):
    of = {"kind": "kafka", "bootstrap": "h:1", "topic": "t"}
    security = {name: value for name, value in RIGHT.items() if name != key}
    values = {"model": "m.mln", "query": "Q", "source": of | {"security": security}}
    with pytest.raises(ConfigError, match=rf"source\.security\.{key}: missing; expected") as error:
        loading.of_values(values)
    assert PASSWORD not in str(error.value)


@pytest.mark.parametrize(
    ("security", "said"), [({}, "disconnected"), ({"security_protocol": "SSL"}, "Handshake failed")]
)
def test_a_connection_that_is_closed_without_a_word_is_said_so(locked, job, security, said):
    run = job([], source=locked | {"patience": "8s", "security": security})
    assert run.run(*UNTIL_END, first=in_a_fork) == 69, run.said
    assert "cannot be reached" in run.said and said in run.said


def test_a_check_waits_seconds_and_not_the_patience(job, topic, monkeypatch):
    of = {"kind": "kafka", "bootstrap": "127.0.0.1:1", "topic": topic, "patience": "100h"}
    run = job([], source=of)
    assert run.call("check", run.config, first=in_a_fork) == 69, run.said
    assert "Kafka at 127.0.0.1:1 cannot be reached: " in run.said


@pytest.mark.parametrize("key", ["ssl_cafile", "ssl_certfile"])
def test_a_certificate_that_cannot_be_read_is_told_at_once(job, tmp_path, key):
    file = tmp_path / "no.pem"
    file.write_text("no certificate\n")
    security = RIGHT | {"security_protocol": "SASL_SSL", key: str(file)}
    where = {"kind": "kafka", "bootstrap": "127.0.0.1:1", "topic": "t", "patience": "100h"}
    run = job([], source=where | {"security": security})
    assert run.run(*UNTIL_END, first=in_a_fork) == 69, run.said
    (line,) = [line for line in run.said.splitlines() if "Kafka" in line]
    assert f"Kafka at 127.0.0.1:1: certificates cannot be read ({key} {file}): " in line
    assert line.endswith("; see source.security") and PASSWORD not in run.said
