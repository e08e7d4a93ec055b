"""The table of promises in tests/README.md names tests that exist, and no promise goes without one."""

import ast
import re

from tests.support.paths import REPO

ROWS = re.findall(
    r"^\| (?!-|promise)(.+?) \| (`.+::.+`) \|$", (REPO / "tests" / "README.md").read_text(), re.M
)


def test_every_promise_has_tests_that_exist() -> None:
    assert ROWS
    for promise, proof in ROWS:
        tests = re.findall(r"`([^`]+)::(\w+)`", proof)
        assert tests, promise
        for file, name in tests:
            module = ast.parse((REPO / "tests" / file).read_text())
            defined = {node.name for node in module.body if isinstance(node, ast.FunctionDef)}
            assert name in defined, f"{promise}: {file}::{name}"
