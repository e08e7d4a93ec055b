"""Limits on the size of a statement of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onlinesrl.logic.parsing import position
from onlinesrl.logic.source import Source

if TYPE_CHECKING:
    from lark import Token, Tree

MAX_DEPTH = 100
"""The maximal nesting of connectives, functions and operators, not counting parentheses."""

MAX_NAMES = 2000
"""The maximal number of names and constants in a formula."""


def check_bounds(statement: Tree[Token], source: Source) -> None:
    """Raise the source's error if a statement is too deep or too long."""
    names, waiting = 0, [(statement, 0)]
    while waiting:
        node, depth = waiting.pop()
        if depth > MAX_DEPTH:
            raise source.error(
                f"this is nested more than {MAX_DEPTH} deep",
                position(node),
                "write it in several rules; a chain of `=>` or of `+` is nested, too",
            )
        inner = [(each, depth + 1) for each in node.children if not isinstance(each, str)]
        names += len(node.children) - len(inner)
        waiting += reversed(inner)
    if names > MAX_NAMES:
        message = f"this has {names} names and constants, and a formula at most {MAX_NAMES}"
        raise source.error(message, position(statement), "write it in several rules")
