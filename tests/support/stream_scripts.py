"""What the tests of streams share: scripts by their folder, and ground PSL streams."""

import importlib.util
import json
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from onlinesrl.core.example import Example
from onlinesrl.psl.ground.grounder import Grounded, Grounder
from onlinesrl.psl.ground.packing import PslPacker
from onlinesrl.psl.lang import reader
from tests.support.paths import REPO

STREAMS = REPO / "streams"
PAPERS = STREAMS / "papers"


def generator(stream: str, script: str = "generate") -> ModuleType:
    """Import a stream's script, under a name of its own."""
    name = f"{script}_{Path(stream).name}"
    spec = importlib.util.spec_from_file_location(name, STREAMS / stream / f"{script}.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def converter() -> ModuleType:
    """Import the script that converts published data sets."""
    return generator("papers", "convert")


def converted(name: str, source: Path, out: Path) -> list[dict[str, Any]]:
    """Convert a data set from a folder to a file of examples, in this process; return the examples."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["convert.py", name, str(source), str(out)])
        converter().main()
    return [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]


def refusal(name: str, source: Path, out: Path) -> str:
    """Return the message with which a conversion ends at a mistake; it writes nothing then."""
    with pytest.raises(SystemExit) as ended:
        converted(name, source, out)
    assert not out.exists()
    return str(ended.value.code)


def ground(model: Path, query: Sequence[str], examples: Sequence[Example]) -> Grounded:
    """Ground all examples in one call."""
    program = reader.load(model)
    packer = PslPacker(program.predicates, query, 10_000)
    worlds = [packer.world(example) for example in examples]
    return Grounder(program).ground_worlds(packer.database(worlds), len(worlds), query)
