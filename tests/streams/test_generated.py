"""The streams that come with the project are what their scripts make, and fit their configurations."""

import pytest
from conftest import REPO, command

from onlinesrl.core.example import decode
from tests.support.stream_scripts import STREAMS, generator

GENERATED = ["collective", "meetings", "scores", "search", "tastes", "trust"]


@pytest.mark.parametrize("name", GENERATED)
def test_a_stream_is_what_its_generator_makes(name: str) -> None:
    text = (STREAMS / name / f"{name}.jsonl").read_text(encoding="utf-8")
    assert text == generator(name).made()
    for line in text.encode().splitlines():
        decode(line)


def test_the_village_is_what_its_generator_makes() -> None:
    for name, text in generator("trust").village().items():
        assert (STREAMS / "trust" / "village" / name).read_text(encoding="utf-8") == text


@pytest.mark.parametrize("name", ["citations", *(each for each in GENERATED if each != "tastes")])
def test_check_finds_nothing_wrong(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert command("check", str(REPO / "configs" / f"{name}.yaml")) == 0
    assert "100 of the first 100 are good" in capfd.readouterr().out
