"""Files of inputs and of what is said about them, compared as a whole.

A case is an input, a line ``=>``, and the answer; a line ``====`` stands between cases. With GOLDEN=1 in the
environment the answers are written anew, to be read before they are committed.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from onlinesrl.core.errors import OnlinesrlError


def check(path: Path, answer: Callable[[str], str]) -> None:
    """Compare the answers to all inputs of a file with those that stand there."""
    compare(path, {given: answer(given) for given in inputs(path)})


def inputs(path: Path) -> list[str]:
    """Return the inputs of a file."""
    cases = path.read_text(encoding="utf-8").removesuffix("\n").split("\n====\n")
    return [case.partition("\n=>\n")[0] for case in cases]


def compare(path: Path, answers: Mapping[str, str]) -> None:
    """Compare answers by their inputs with those of a file."""
    found = "\n====\n".join(f"{given}\n=>\n{answer}" for given, answer in answers.items()) + "\n"
    if os.environ.get("GOLDEN"):
        path.write_text(found, encoding="utf-8")
    assert found == path.read_text(encoding="utf-8")


def refusal(call: Callable[[], object]) -> str:
    """Return what the error says that a call raises."""
    with pytest.raises(OnlinesrlError) as caught:
        call()
    return str(caught.value)
