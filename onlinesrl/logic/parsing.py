"""Parsing with a lark grammar: the results are plain trees, or an error with a suggestion."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeAlias

from onlinesrl.core.errors import LocatedError
from onlinesrl.logic.ast import Position
from onlinesrl.logic.source import Source
from onlinesrl.logic.text import NAME

if TYPE_CHECKING:
    from lark import Lark, Token, Tree

FIRST_LINES = 64
"""The lines of the first part of a text; each part has as many as all before it."""

MAX_DEPTH = 100
"""The maximal nesting of connectives, functions and operators, not counting parentheses."""

MAX_NAMES = 2000
"""The maximal number of names and constants in a formula."""


class Complaint(NamedTuple):
    """An error message for positions preceded by a match of `before` and followed by a match of `at`."""

    before: str
    at: str
    message: str
    hint: str


Words: TypeAlias = tuple[tuple[set[str], set[str], str], ...]
"""Descriptions of groups of terminals: (required terminals, other covered terminals, description)."""


class Grammar(NamedTuple):
    """A grammar in several ``files``, of which later ones override earlier ones, and its error messages.

    A statement of a kind in ``lists`` may have any number of names.
    """

    files: tuple[str, ...]
    complaints: Sequence[Complaint]
    words: Words
    lists: tuple[str, ...] = ()


class Word(str):
    """A name, number, string or sign of a text: a terminal of the grammar, and its place."""

    __slots__ = ("kind", "position")
    kind: str
    position: Position

    def __new__(cls, token: Token) -> Self:
        """Return the word of a token."""
        word = str.__new__(cls, token)
        word.kind = token.type
        word.position = Position(token.line or 1, token.column or 1)
        return word


@dataclass(slots=True, eq=False)
class Node:
    """A rule of the grammar applied to the text ``code[span]``; ``parts`` are in its order."""

    kind: str
    parts: list[Node | Word]
    position: Position
    last_line: int
    code: str = field(repr=False)
    span: slice

    @property
    def words(self) -> list[Word]:
        """The parts that are words."""
        return [part for part in self.parts if isinstance(part, Word)]


def parse(code: str, source: Source, grammar: Grammar) -> Iterator[Node | Word]:
    """Parse the code of a source; yield its statements.

    Raises the source's error at the first syntax error, and when it reaches a statement that is too deep
    or too long.
    """
    from lark import UnexpectedInput

    try:
        tree = _parser(grammar.files).parse(code)
    except UnexpectedInput as error:
        raise _located(error, code, 0, source, grammar) from None
    return _statements(tree, code, source, grammar)


def parse_lines(code: str, source: Source, grammar: Grammar) -> Iterator[Node]:
    """Parse lines that begin with a statement, as many again at a time; a statement may have several.

    The lines before a part are empty in its ``code``, so that positions are those of the whole. Raises the
    source's error at the first syntax error, and at a statement that is too deep or too long, when it is
    reached.
    """
    from lark import UnexpectedInput

    lines = re.findall(r"[^\n]*\n|[^\n]+", code)
    first, stop, start = 0, FIRST_LINES, 0
    while first < len(lines):
        part = "\n" * first + "".join(lines[first:stop])
        try:
            tree = _parser(grammar.files).parse(part)
        except UnexpectedInput as error:
            if _is_at_end(error) and stop < len(lines):
                stop *= 2
                continue
            raise _located(error, part, start - first, source, grammar) from None
        for statement in _statements(tree, part, source, grammar):
            if isinstance(statement, Node):
                yield statement
        start += len(part) - first
        first, stop = stop, 2 * stop


def _statements(
    tree: Tree[Token], code: str, source: Source, grammar: Grammar
) -> Iterator[Node | Word]:
    """Yield the statements of a text as plain values. Raises the source's error at one beyond the bounds."""
    statements = tree.children[::-1]
    tree.children.clear()  # each tree is freed once it is plain
    while statements:
        statement = statements.pop()
        if isinstance(statement, str):
            yield Word(statement)
            continue
        root, names = _node(statement, code), 0
        waiting = [(statement, root, 0)]
        while waiting:
            outer, node, depth = waiting.pop()
            if depth > MAX_DEPTH:
                raise source.error(
                    f"this is nested more than {MAX_DEPTH} deep",
                    node.position,
                    "write it in several rules; a chain of `=>` or of `+` is nested, too",
                )
            inner = []
            for child in outer.children:
                if isinstance(child, str):
                    node.parts.append(Word(child))
                else:
                    part = _node(child, code)
                    node.parts.append(part)
                    inner.append((child, part, depth + 1))
            names += len(outer.children) - len(inner)
            waiting += reversed(inner)
        if names > MAX_NAMES and root.kind not in grammar.lists:
            message = f"this has {names} names and constants, and a formula at most {MAX_NAMES}"
            raise source.error(message, root.position, "write it in several rules")
        yield root


def _node(tree: Tree[Token], code: str) -> Node:
    meta = tree.meta
    place, span = Position(meta.line, meta.column), slice(meta.start_pos, meta.end_pos)
    return Node(str(tree.data), [], place, meta.end_line, code, span)


def _is_at_end(error: Any) -> bool:
    token = getattr(error, "token", None)
    return token is not None and token.type == "$END"


def _located(error: Any, code: str, shift: int, source: Source, grammar: Grammar) -> LocatedError:
    """Return the source's error for a syntax error of code that stands ``shift`` characters later in it."""
    offset = len(code.rstrip()) if _is_at_end(error) else error.pos_in_stream or 0
    before = code[code.rfind("\n", 0, offset) + 1 : offset]
    at_line_end = code.startswith("\n", offset)
    place = shift + (len(code[:offset].rstrip()) if at_line_end else offset)
    for complaint in grammar.complaints:
        if re.search(f"(?:{complaint.before})$", before) and re.compile(complaint.at).match(
            code, offset
        ):
            return source.error(complaint.message, place, complaint.hint or None)
    state = _parser(grammar.files).parse_interactive(f"{code[:offset]} ")
    list(state.exhaust_lexer())
    accepted: set[str] = state.accepts()  # type: ignore[no-untyped-call]
    message = f"expected {_alternatives(accepted, grammar.words)}, not {_token(code, offset)}"
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
