"""What the tests of streams share: scripts by their folder, and ground PSL streams."""

import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from onlinesrl.core.example import Example
from onlinesrl.psl.ground.grounder import Grounded, Grounder
from onlinesrl.psl.ground.packing import PslPacker
from onlinesrl.psl.lang import reader
from tests.support.paths import REPO

STREAMS = REPO / "streams"


def generator(stream: str, script: str = "generate") -> ModuleType:
    """Import a stream's script, under a name of its own."""
    name = f"{script}_{stream}"
    spec = importlib.util.spec_from_file_location(name, STREAMS / stream / f"{script}.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def ground(model: Path, query: Sequence[str], examples: Sequence[Example]) -> Grounded:
    """Ground all examples in one call."""
    program = reader.load(model)
    packer = PslPacker(program.predicates, query, 10_000)
    worlds = [packer.world(example) for example in examples]
    return Grounder(program).ground_worlds(packer.database(worlds), len(worlds), query)
