"""Parsing with a lark grammar: the result is a tree, or an error with a suggestion."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from onlinesrl.core.errors import LocatedError
from onlinesrl.logic.ast import Position
from onlinesrl.logic.source import Source
from onlinesrl.logic.text import NAME

if TYPE_CHECKING:
    from lark import Lark, Token, Tree

    Node: TypeAlias = Tree[Token] | Token


FIRST_LINES = 64
"""The lines of the first part of a text; each part has as many as all before it."""


class Complaint(NamedTuple):
    """An error message for positions preceded by a match of `before` and followed by a match of `at`."""

    before: str
    at: str
    message: str
    hint: str


Words: TypeAlias = tuple[tuple[set[str], set[str], str], ...]
"""Descriptions of groups of terminals: (required terminals, other covered terminals, description)."""


def parse(
    code: str,
    source: Source,
    grammars: tuple[str, ...],
    complaints: Sequence[Complaint],
    words: Words,
) -> Tree[Token]:
    """Parse the code of a source by a grammar in several files; later files override earlier ones.

    Raises the source's error at the first syntax error.
    """
    from lark import UnexpectedInput

    try:
        return _parser(grammars).parse(code)
    except UnexpectedInput as error:
        raise _located(error, code, 0, source, grammars, complaints, words) from None


def parse_lines(
    code: str,
    source: Source,
    grammars: tuple[str, ...],
    complaints: Sequence[Complaint],
    words: Words,
) -> Iterator[tuple[str, Tree[Token]]]:
    """Parse lines that begin with a statement, as many again at a time; a statement may have several.

    Yields the text and the tree of each part. The lines before a part are empty in it, so that positions
    are those of the whole. Raises the source's error at the first syntax error, when it is reached.
    """
    from lark import UnexpectedInput

    lines = re.findall(r"[^\n]*\n|[^\n]+", code)
    first, stop, start = 0, FIRST_LINES, 0
    while first < len(lines):
        part = "\n" * first + "".join(lines[first:stop])
        try:
            tree = _parser(grammars).parse(part)
        except UnexpectedInput as error:
            if _is_at_end(error) and stop < len(lines):
                stop *= 2
                continue
            shift = start - first
            raise _located(error, part, shift, source, grammars, complaints, words) from None
        yield part, tree
        start += len(part) - first
        first, stop = stop, 2 * stop


def _is_at_end(error: Any) -> bool:
    token = getattr(error, "token", None)
    return token is not None and token.type == "$END"


def _located(
    error: Any,
    code: str,
    shift: int,
    source: Source,
    grammars: tuple[str, ...],
    complaints: Sequence[Complaint],
    words: Words,
) -> LocatedError:
    """Return the source's error for a syntax error of code that stands ``shift`` characters later in it."""
    offset = len(code.rstrip()) if _is_at_end(error) else error.pos_in_stream or 0
    before = code[code.rfind("\n", 0, offset) + 1 : offset]
    at_line_end = code.startswith("\n", offset)
    place = shift + (len(code[:offset].rstrip()) if at_line_end else offset)
    for complaint in complaints:
        if re.search(f"(?:{complaint.before})$", before) and re.compile(complaint.at).match(
            code, offset
        ):
            return source.error(complaint.message, place, complaint.hint or None)
    state = _parser(grammars).parse_interactive(f"{code[:offset]} ")
    list(state.exhaust_lexer())
    accepted: set[str] = state.accepts()  # type: ignore[no-untyped-call]
    message = f"expected {_alternatives(accepted, words)}, not {_token(code, offset)}"
    return source.error(message, place)


@cache
def _parser(grammars: tuple[str, ...]) -> Lark:
    from lark import Lark

    places = (name.rsplit("/", 1) for name in grammars)
    texts = (files(package).joinpath(f"{name}.lark").read_text("utf-8") for package, name in places)
    return Lark("\n".join(texts), parser="lalr", propagate_positions=True, maybe_placeholders=False)


def _alternatives(accepted: Set[str], known: Words) -> str:
    """Describe the terminals that the grammar accepts."""
    words, remaining = [], set(accepted)
    for needed, implied, word in known:
        if needed <= remaining:
            words.append(word)
            remaining -= needed | implied
    return " or ".join(filter(None, (", ".join(words[:-1]), *words[-1:]))) or "something else"


def _token(code: str, offset: int) -> str:
    """Quote what is at a place."""
    if not code[offset:].strip():
        return "the end of the file"
    token = re.compile(rf"{NAME}|[0-9.]+|<=>|=>|!=|\n|.").match(code, offset)
    assert token is not None
    return "the end of the line" if token[0] == "\n" else f"`{token[0]}`"


def position(node: Node) -> Position:
    """Return the position of a tree or token."""
    if isinstance(node, str):
        return Position(node.line or 1, node.column or 1)
    return Position(node.meta.line, node.meta.column)


def trees(node: Tree[Token]) -> Iterator[Tree[Token]]:
    """Yield the children that are trees."""
    return (child for child in node.children if not isinstance(child, str))


def tokens(node: Tree[Token]) -> Iterator[Token]:
    """Yield the children that are tokens."""
    return (child for child in node.children if isinstance(child, str))


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
        inner = [(child, depth + 1) for child in node.children if not isinstance(child, str)]
        names += len(node.children) - len(inner)
        waiting += reversed(inner)
    if names > MAX_NAMES:
        message = f"this has {names} names and constants, and a formula at most {MAX_NAMES}"
        raise source.error(message, position(statement), "write it in several rules")
