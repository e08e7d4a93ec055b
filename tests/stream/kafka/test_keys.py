"""What is wrong with the keys of Kafka is said before anything is connected."""

from pathlib import Path

import pytest

from onlinesrl.core.errors import ConfigError
from onlinesrl.runs.config.loading import load

HEAD = "model: m.mln\nquery: InField\n"
GOOD = HEAD + "source: {kind: kafka, bootstrap: 'h:1', topic: t}\n"
SECURE = HEAD + "source:\n  kind: kafka\n  bootstrap: h:1\n  topic: t\n  security: "


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("m.mln").touch()


@pytest.mark.parametrize(
    "security",
    [
        "0pen-sesame",
        "[ssl_password, 0pen-sesame]",
        "{ssl_password: [0pen-sesame]}",
        "{sasl_plain_pasword: 0pen-sesame}",
        "{sasl_plain_password:0pen-sesame}",
        "{sasl_plain_password 0pen-sesame}",
        "{0pen-sesame}",
        "{security_protocol: 0pen-sesame}",
        "{ssl_check_hostname: 0pen-sesame}",
        "{sasl_plain_password: 'x', sasl_plain_password: 0pen-sesame}",
        "{sasl_plain_password: !0pen-sesame}",
        "{sasl_plain_password: !0pen-sesame x}",
        "{sasl_plain_password: *0pen-sesame}",
        "{sasl_plain_password: &0pen-sesame a, ssl_password: &0pen-sesame b}",
        "{sasl_plain_password: %0pen-sesame}",
        "{sasl_plain_password: '0pen-sesame}",
        '{sasl_plain_password: "0pen-sesame\\x"}',
        "{sasl_plain_password: 0pen-sesame\x07}",
        "{sasl_plain_password: {sasl_plain_password: 0pen-sesame}}",
        "{sasl_plain_password: 0pen-sesame: x}",
    ],
)
def test_complaints_do_not_repeat_secrets(security):
    Path("run.yaml").write_text(SECURE + security + "\n")
    with pytest.raises(ConfigError) as in_file:
        load(Path("run.yaml"))
    Path("run.yaml").write_text(GOOD)
    for key in ("source.security", "sink.security", "source.securty", "source.sasl_plain_password"):
        with pytest.raises(ConfigError) as in_override:
            load(Path("run.yaml"), [f"{key}={security}"])
        assert "sesame" not in str(in_override.value)
        assert key.split(".")[0] in str(in_override.value)
    assert "sesame" not in str(in_file.value)
    assert "run.yaml:" in str(in_file.value)
    for line in (f"source.security:{security}", f"source={{security: {security}}}"):
        with pytest.raises(ConfigError) as in_override:
            load(Path("run.yaml"), [line])
        assert "sesame" not in str(in_override.value)


@pytest.mark.parametrize(
    "source", ["[{security: {ssl_password: 0pen-sesame}}]", "{ssl_password:0pen-sesame}"]
)
def test_complaints_about_what_is_around_them_do_not_either(source):
    Path("run.yaml").write_text(HEAD + f"source: {source}\n")
    with pytest.raises(ConfigError) as caught:
        load(Path("run.yaml"))
    assert "sesame" not in str(caught.value)


@pytest.mark.parametrize(
    "value", ["*0pen-sesame", "!0pen-sesame x", "%0pen-sesame", "[0pen-sesame", '"0pen-sesame\\x"']
)
def test_complaints_about_a_secret_by_itself_do_not_either(value):
    """The key of ``--set`` alone tells that its value is one."""
    Path("run.yaml").write_text(GOOD)
    with pytest.raises(ConfigError) as caught:
        load(Path("run.yaml"), [f"source.security.sasl_plain_password={value}"])
    assert "sesame" not in str(caught.value)


@pytest.mark.parametrize(
    "values",
    [
        "bootstrap: 'ann:0pen-sesame@h:1'",
        "bootstrap: 'h:1', registry: {url: 'http://ann:0pen-sesame@h:1'}",
        "bootstrap: 'h:1', registry: {url: 'http://:0pen-sesame@h:1'}",
    ],
)
def test_a_login_in_an_address_is_refused_and_not_repeated(values):
    Path("run.yaml").write_text(HEAD + f"source: {{kind: kafka, topic: t, {values}}}\n")
    with pytest.raises(ConfigError, match="without a login") as caught:
        load(Path("run.yaml"))
    assert "sesame" not in str(caught.value)


def test_what_is_no_secret_is_told():
    Path("run.yaml").write_text(SECURE + "{sasl_plain_password: a: b}\n")
    with pytest.raises(ConfigError, match="expected ',' or '}', but got ':'"):
        load(Path("run.yaml"))


def test_secrets_are_not_shown():
    Path("run.yaml").write_text(SECURE + "{sasl_plain_password: s3cret, ssl_password: '1234'}\n")
    config = load(Path("run.yaml"))
    assert config.source.security.settings()["sasl_plain_password"] == "s3cret"
    model = "InField(i, f)"
    for text in (str(config), repr(config), str(config.as_dict()), str(config.fingerprint(model))):
        assert "s3cret" not in text and "1234" not in text
