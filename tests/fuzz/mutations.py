"""Damage to texts that a seed decides: what hands, editors, disks and ill will do to a file."""

import random
import re
from collections.abc import Sequence

_TOKEN = re.compile(rb"\w+|\s+|[^\w\s]")
_NUMBER = re.compile(rb"-?[0-9]+(?:\.[0-9]+)?")
_WORD = re.compile(rb"(?<![A-Za-z0-9_])[A-Za-z_][A-Za-z0-9_]*")
_SIGN = re.compile(rb"[^\w\s\"'/#]+| v ")
_NUMBERS = (
    *b"0 1 2 3 7 0.5 -2 100 -0 -1 1e400 -1e400 1e-400 nan inf".split(),
    *b"9223372036854775808 .5 5. 1e5 0x10 1_0".split(),
)
_PIECES = (
    *(
        b"\0",
        b"\xef\xbb\xbf",
        b"\r",
        b"\r\n",
        b"\xff",
        b"\xed\xa0\x80",
        "\u0663".encode(),
        b"\x1b[31m",
    ),
    *b"%s %d {} [] ( ) { } \" ' , . : ; ! ? * + ^ # // /* */ | & -> => <=> :- = !=".split(),
    *b"< v - -- ... @ $ \\".split(),
    *b"EXIST FORALL exist v #include #fixweight @Max |X| float_ null true".split(),
    *b"~ <<: !!set &a *a > | 2026-01-01".split(),
    *(b" v ", b"\n", b"\n\n", b"\t", b" " * 1000, b"9" * 5000, b"A" * 5000, b"x" * 5000),
)


def mutated(text: bytes, others: Sequence[bytes], seed: int) -> bytes:
    """Return a text with one to three damages; ``others`` are texts that it may get parts of."""
    rng = random.Random(seed)
    for _ in range(rng.choice((1, 1, 1, 1, 2, 3))):
        text = rng.choice(_DAMAGES)(text, others, rng)
    return text


def _span(text: bytes, rng: random.Random, most: int = 60) -> tuple[int, int]:
    begin = rng.randrange(len(text) + 1)
    return begin, min(len(text), begin + rng.randrange(1, most))


def _flip(text: bytes, _: Sequence[bytes], rng: random.Random) -> bytes:
    at = rng.randrange(max(1, len(text)))
    return text[:at] + bytes([rng.randrange(256)]) + text[at + 1 :]


def _delete(text: bytes, _: Sequence[bytes], rng: random.Random) -> bytes:
    begin, end = _span(text, rng)
    return text[:begin] + text[end:]


def _cut(text: bytes, _: Sequence[bytes], rng: random.Random) -> bytes:
    return text[: rng.randrange(len(text) + 1)]


def _double(text: bytes, _: Sequence[bytes], rng: random.Random) -> bytes:
    begin, end = _span(text, rng)
    return text[:end] + text[begin:end] * rng.choice((1, 2, 30)) + text[end:]


def _insert(text: bytes, _: Sequence[bytes], rng: random.Random) -> bytes:
    at = rng.randrange(len(text) + 1)
    return text[:at] + rng.choice(_PIECES) + text[at:]


def _splice(text: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    other = rng.choice(others)
    begin, end = _span(other, rng, 200)
    at = rng.randrange(len(text) + 1)
    return text[:at] + other[begin:end] + text[at:]


def _tokens(text: bytes, _: Sequence[bytes], rng: random.Random) -> bytes:
    """Swap two tokens, or put one in the place of another, or one out of the list."""
    tokens = _TOKEN.findall(text) or [b" "]
    first, second = rng.randrange(len(tokens)), rng.randrange(len(tokens))
    how = rng.randrange(3)
    if how == 0:
        tokens[first], tokens[second] = tokens[second], tokens[first]
    else:
        tokens[first] = tokens[second] if how == 1 else rng.choice(_PIECES)
    return b"".join(tokens)


def _word(text: bytes, _: Sequence[bytes], rng: random.Random) -> bytes:
    """Put a word or a sign of the text in the place of another: often a text that is well-formed."""
    found = list(rng.choice((_WORD, _WORD, _SIGN)).finditer(text))
    if not found:
        return text
    at, new = rng.choice(found), rng.choice(found)
    return text[: at.start()] + new[0] + text[at.end() :]


def _nest(text: bytes, _: Sequence[bytes], rng: random.Random) -> bytes:
    """Put a span, or nothing, in parentheses, negations or the like, up to thousands deep."""
    begin, end = _span(text, rng, 30)
    opening, closing = rng.choice(
        (
            (b"(", b")"),
            (b"!", b""),
            (b"!(", b")"),
            (b"f(", b")"),
            (b"[", b"]"),
            (b"{", b"}"),
            (b"- ", b""),
        )
    )
    depth = rng.choice((1, 3, 50, 3000))
    return text[:begin] + opening * depth + text[begin:end] + closing * depth + text[end:]


def _chain(text: bytes, _: Sequence[bytes], rng: random.Random) -> bytes:
    """Repeat a token or atom with a connective between, dozens or hundreds of times."""
    parts = list(re.finditer(rb"\w+(?:\([^()\n]{0,40}\))?", text))
    if not parts:
        return text
    part = rng.choice(parts)
    joint = rng.choice(
        (b" => ", b" <=> ", b" v ", b" ^ ", b" & ", b" | ", b" + ", b", ", b" -> ", b"\n")
    )
    chain = joint.join([part[0]] * rng.choice((2, 12, 40, 600)))
    return text[: part.start()] + chain + text[part.end() :]


def _number(text: bytes, _: Sequence[bytes], rng: random.Random) -> bytes:
    numbers = list(_NUMBER.finditer(text))
    if not numbers:
        return text
    number = rng.choice(numbers)
    return text[: number.start()] + rng.choice(_NUMBERS) + text[number.end() :]


def _lines(text: bytes, _: Sequence[bytes], rng: random.Random) -> bytes:
    """Shuffle some lines, join two, indent one, or repeat one."""
    lines = text.split(b"\n")
    at = rng.randrange(len(lines))
    match rng.randrange(4):
        case 0:
            some = lines[at : at + 6]
            rng.shuffle(some)
            lines[at : at + 6] = some
        case 1:
            lines[at : at + 2] = [b" ".join(lines[at : at + 2])]
        case 2:
            lines[at] = b"  " * rng.randrange(1, 4) + lines[at]
        case 3:
            lines[at:at] = [lines[at]] * rng.choice((1, 10, 200))
    return b"\n".join(lines)


_DAMAGES = (
    *(_flip, _delete, _cut, _double, _insert, _splice),
    *(_tokens, _word, _word, _word, _nest, _chain, _number, _number, _lines),
)
