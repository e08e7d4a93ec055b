"""One table names the engines; the command, the library and the guide offer what it names."""

from importlib import resources
from typing import get_args

import pytest

from onlinesrl.mln.inference.registry import (
    ENGINES,
    MAP_METHODS,
    MARGINAL_METHODS,
    Method,
    map_engine,
    marginal_engine,
)


def test_every_method_has_an_engine():
    assert {*get_args(Method)} == {*MAP_METHODS, *MARGINAL_METHODS} == {*ENGINES, "exact"}
    assert all(hasattr(map_engine(name), "solve") for name in MAP_METHODS)
    assert all(hasattr(marginal_engine(name), "marginals") for name in MARGINAL_METHODS)


@pytest.mark.parametrize("name", get_args(Method))
def test_every_method_is_offered(name: str):
    guide = (resources.files("onlinesrl") / "guide").iterdir()
    assert any(f"`{name}`" in page.read_text() for page in guide if page.name.endswith(".md"))
