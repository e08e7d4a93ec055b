"""The streams that come with the project fit their configurations."""

import pytest
from conftest import REPO, command


@pytest.mark.parametrize(
    "name", ["citations", "collective", "meetings", "scores", "search", "trust"]
)
def test_check_finds_nothing_wrong(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert command("check", str(REPO / "configs" / f"{name}.yaml")) == 0
    assert "100 of the first 100 are good" in capfd.readouterr().out
