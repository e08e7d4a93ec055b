"""The JSON line of an example, read into rows of numbered constants in one pass.

Only plain lines are read: an id, a group, evidence and truth, each atom a list of whole numbers and of
strings without escapes. The general JSON decoder reads all other lines.
"""

from onlinesrl.core.arrays import Bytes, Ints, Ints32
from onlinesrl.core.jit.decorators import inlined, kernel, threaded
from onlinesrl.core.jit.frames import Frame

REFUSED = -1
SMALL = 1000
"""Whole numbers below this are looked up by their value."""
DIGITS = 18
"""The most digits of a whole number that is read here."""
ID, GROUP, EVIDENCE, TRUTH = 0, 1, 2, 3
KEYS = (b"id", b"group", b"evidence", b"truth")
TEXT, COMMA, COLON, MINUS = ord('"'), ord(","), ord(":"), ord("-")
OPEN_LIST, CLOSE_LIST, OPEN_MAP, CLOSE_MAP = ord("["), ord("]"), ord("{"), ord("}")
ESCAPE, ZERO, NINE, BLANK = ord("\\"), ord("0"), ord("9"), ord(" ")
WORD = 8
"""Texts are read in words of so many bytes, the first byte lowest."""
ONES = int.from_bytes(b"\x01" * WORD, "little")
TOPS = int.from_bytes(b"\x80" * WORD, "little", signed=True)


class Texts(Frame):
    """Distinct texts, numbered in order, in a hash table with open addressing."""

    cell: Ints32  # [power of two] the number of a text, -1: none
    hash: Ints  # [number]
    start: Ints  # [number + 1] into byte
    byte: Bytes
    size: Ints  # [1] the number of texts


class Scan(Frame):
    """The tables for reading lines, and the results."""

    constants: Texts
    keys: Texts  # KEYS
    predicates: Texts
    slot: Ints32  # [predicate, EVIDENCE or TRUTH less EVIDENCE] -1: its atoms are not read here
    arity: Ints32  # [predicate]
    most: int  # atoms of a predicate
    small: Ints32  # [whole number] the number of a constant that is one, -1: not known
    row: Ints32  # the numbers of the atoms' constants, atom after atom, line after line
    row_start: Ints  # [line + 1]
    place: Ints  # [line, 2, slot] where the atoms of each slot start in the line's row, and how many they are
    span: Ints  # [line, key, 2] where id and group stand in the line; start -1: they do not


@inlined
def _word(line: Bytes, at: int) -> int:
    """Return the bytes of a word."""
    low = line[at] | line[at + 1] << 8 | line[at + 2] << 16 | line[at + 3] << 24
    high = line[at + 4] | line[at + 5] << 8 | line[at + 6] << 16 | line[at + 7] << 24
    return low | high << 32


@inlined
def _part(line: Bytes, at: int, n: int) -> int:
    """Return the first ``n`` bytes of a word, ``n`` < WORD."""
    if at + WORD <= len(line):
        return _word(line, at) & ((1 << 8 * n) - 1)
    word = 0
    for k in range(n):
        word |= line[at + k] << 8 * k
    return word


@inlined
def _mixed(h: int, word: int) -> int:
    """Return a hash extended by a word; hashes of different single words differ."""
    h = (h ^ word) * -7046029254386353131
    return h ^ (h >> 29)


@inlined
def _hash(line: Bytes, first: int, stop: int) -> int:
    """Return the hash of some bytes by words, of which the last one is incomplete."""
    h = 0
    while first + WORD <= stop:
        h = _mixed(h, _word(line, first))
        first += WORD
    return _mixed(h, _part(line, first, stop - first))


@inlined
def _same(first: Bytes, a: int, second: Bytes, b: int, n: int) -> bool:
    """Tell whether ``n`` bytes from ``a`` and ``b`` on are the same."""
    while n >= WORD:
        if _word(first, a) != _word(second, b):
            return False
        a, b, n = a + WORD, b + WORD, n - WORD
    return _part(first, a, n) == _part(second, b, n)


@inlined
def _cell(texts: Texts, line: Bytes, first: int, stop: int, h: int) -> int:
    """Return the cell of a text with this hash, or the empty cell for it."""
    mask = len(texts.cell) - 1
    cell = h & mask
    while texts.cell[cell] >= 0:
        text = texts.cell[cell]
        begin = texts.start[text]
        n = texts.start[text + 1] - begin
        alike = texts.hash[text] == h and n == stop - first
        if alike and (n < WORD or _same(texts.byte, begin, line, first, n)):
            return cell
        cell = (cell + 1) & mask
    return cell


@kernel
def _number(texts: Texts, line: Bytes, first: int, stop: int, h: int) -> int:
    """Return the number of a text with this hash; a new text is added, for which there must be room."""
    cell = _cell(texts, line, first, stop, h)
    if texts.cell[cell] < 0:
        number = texts.size[0]
        texts.cell[cell], texts.hash[number] = number, h
        begin = texts.start[number]
        for k in range(stop - first):
            texts.byte[begin + k] = line[first + k]
        texts.start[number + 1] = begin + stop - first
        texts.size[0] = number + 1
    return texts.cell[cell]


@kernel
def add(texts: Texts, joined: Bytes, stops: Ints) -> None:
    """Add texts, ``joined`` one after another, each up to its place in ``stops``."""
    first = 0
    for k in range(len(stops)):
        _number(texts, joined, first, stops[k], _hash(joined, first, stops[k]))
        first = stops[k]


@inlined
def _next(line: Bytes, at: int) -> int:
    """Return the place of the next byte that is no white space, or of the line's last byte."""
    while line[at] <= BLANK and at < len(line) - 1:
        if line[at] != BLANK and line[at] != 9 and line[at] != 10 and line[at] != 13:
            break
        at += 1
    return at


@inlined
def _ends(word: int) -> int:
    """Return the top bit of the first byte of a word that ends a text; higher bits may be set; 0: none does.

    A quotation mark, an escape or a control character ends a text. Subtracting 1 sets the top bit of a byte
    that is zero; a borrow only changes the bytes above.
    """
    text, escape = word ^ ONES * TEXT, word ^ ONES * ESCAPE
    matches = (text - ONES) & ~text | (escape - ONES) & ~escape | (word - ONES * BLANK) & ~word
    return matches & TOPS


@inlined
def _text(line: Bytes, at: int) -> tuple[int, int]:
    """Return where the text ends whose first byte is at ``at``, and its hash.

    REFUSED: it does not end, or it has escapes.
    """
    h, first = 0, at
    while at + WORD <= len(line):
        word = _word(line, at)
        ends = _ends(word)
        if ends:
            n = (((ends - 1) & ~ends & ONES) * ONES >> 56) - 1
            stop = at + n if line[at + n] == TEXT else REFUSED
            return stop, _mixed(h, word & ((1 << 8 * n) - 1))
        h, at = _mixed(h, word), at + WORD
    while line[at] != TEXT:
        if line[at] < BLANK or line[at] == ESCAPE:
            return REFUSED, h
        at += 1
    return at, _hash(line, first, at)


@kernel
def _whole_end(line: Bytes, at: int) -> int:
    """Return where the whole number at ``at`` ends; REFUSED: there is none, or it has needless zeros."""
    first = at + (line[at] == MINUS)
    at = first
    while ZERO <= line[at] <= NINE:
        at += 1
    padded = at > first and line[first] == ZERO and (at > first + 1 or line[first - 1] == MINUS)
    return REFUSED if at == first or at - first > DIGITS or padded else at


@inlined
def _constant(line: Bytes, at: int) -> tuple[int, int, int, int]:
    """Return where the text of the constant at ``at`` starts and ends, the next place, and its hash."""
    if line[at] == TEXT:
        stop, h = _text(line, at + 1)
        return at + 1, stop, stop + 1, h
    stop = _whole_end(line, at)
    return at, stop, stop, _hash(line, at, max(stop, at))


@inlined
def _after(line: Bytes, at: int, close: int) -> int:
    """Return the place after the comma at ``at``, or the place of ``close``; REFUSED: neither is there."""
    at = _next(line, at)
    if line[at] == close:
        return at
    if line[at] != COMMA:
        return REFUSED
    at = _next(line, at + 1)
    return REFUSED if line[at] == close else at


@inlined
def _small(line: Bytes, at: int, most: int) -> int:
    """Return the whole number at ``at`` if it is below ``most`` and has no needless zeros, else REFUSED."""
    value, first = 0, at
    while ZERO <= line[at] <= NINE and value < most:
        value = 10 * value + line[at] - ZERO
        at += 1
    if at == first or value >= most or (line[first] == ZERO and at > first + 1):
        return REFUSED
    return REFUSED if ZERO <= line[at] <= NINE else value


@inlined
def _argument(line: Bytes, at: int, s: Scan) -> tuple[int, int]:
    """Return the number of the constant at ``at``, and the next place; REFUSED: there is none."""
    value = _small(line, at, len(s.small))
    if value >= 0 and s.small[value] >= 0:
        return s.small[value], at + (1 if value < 10 else 2 if value < 100 else 3)
    first, stop, after, h = _constant(line, at)
    if stop < 0:
        return REFUSED, after
    number = _number(s.constants, line, first, stop, h)
    if value >= 0:
        s.small[value] = number
    return number, after


@inlined
def _atom(line: Bytes, at: int, s: Scan, arity: int, n: int) -> int:
    """Read the atom at ``at`` into the row from ``n`` on; returns the next place."""
    if line[at] != OPEN_LIST:
        return REFUSED
    at = _next(line, at + 1)
    count = 0
    while line[at] != CLOSE_LIST:
        if count == arity:
            return REFUSED
        number, at = _argument(line, at, s)
        if number < 0:
            return REFUSED
        s.row[n + count] = number
        count, at = count + 1, _after(line, at, CLOSE_LIST)
        if at < 0:
            return REFUSED
    return at + 1 if count == arity else REFUSED


@kernel
def _atoms(line: Bytes, at: int, s: Scan, i: int, name: int, slot: int, n: int) -> tuple[int, int]:
    """Read the atoms of a predicate; returns the next place, and where the row ends."""
    if line[at] != OPEN_LIST or s.place[i, 1, slot] >= 0:
        return REFUSED, n
    s.place[i, 0, slot], count = n - s.row_start[i], 0
    at = _next(line, at + 1)
    while line[at] != CLOSE_LIST:
        at = _atom(line, at, s, s.arity[name], n)
        if at < 0 or count == s.most:
            return REFUSED, n
        count, n = count + 1, n + s.arity[name]
        at = _after(line, at, CLOSE_LIST)
        if at < 0:
            return REFUSED, n
    s.place[i, 1, slot] = count
    return at + 1, n


@kernel
def _key(line: Bytes, at: int, texts: Texts) -> tuple[int, int]:
    """Return the number of the key at ``at``, and where its value is; REFUSED: it is unknown."""
    if line[at] != TEXT:
        return REFUSED, at
    stop, h = _text(line, at + 1)
    if stop < 0:
        return REFUSED, at
    key = texts.cell[_cell(texts, line, at + 1, stop, h)]
    at = _next(line, stop + 1)
    if line[at] != COLON:
        return REFUSED, at
    return key, _next(line, at + 1)


@kernel
def _relations(line: Bytes, at: int, s: Scan, i: int, part: int, n: int) -> tuple[int, int]:
    """Read evidence or truth; returns the next place, and where the row ends."""
    if line[at] != OPEN_MAP:
        return REFUSED, n
    at = _next(line, at + 1)
    while line[at] != CLOSE_MAP:
        name, at = _key(line, at, s.predicates)
        slot = s.slot[name, part - EVIDENCE] if name >= 0 else REFUSED
        if slot < 0:
            return REFUSED, n
        at, n = _atoms(line, at, s, i, name, slot, n)
        if at >= 0:
            at = _after(line, at, CLOSE_MAP)
        if at < 0:
            return REFUSED, n
    return at + 1, n


@kernel
def _scan(line: Bytes, s: Scan, i: int) -> int:
    """Read line ``i``, which ends in a line feed; returns where its row ends, or REFUSED."""
    for key in range(s.span.shape[1]):
        s.span[i, key, 0] = REFUSED
    for slot in range(s.place.shape[2]):
        s.place[i, 0, slot], s.place[i, 1, slot] = 0, REFUSED
    n, at = s.row_start[i], _next(line, 0)
    if line[at] != OPEN_MAP:
        return REFUSED
    at = _next(line, at + 1)
    while line[at] != CLOSE_MAP:
        key, at = _key(line, at, s.keys)
        if key < 0 or s.span[i, key, 0] >= 0:
            return REFUSED
        s.span[i, key, 0] = at
        if key >= EVIDENCE:
            at, n = _relations(line, at, s, i, key, n)
        else:
            first, stop, after, _ = _constant(line, at)
            if stop < 0 or (key == GROUP and first == at):
                return REFUSED
            s.span[i, key, 0], s.span[i, key, 1], at = first, stop, after
        if at >= 0:
            at = _after(line, at, CLOSE_MAP)
        if at < 0:
            return REFUSED
    for slot in range(s.place.shape[2]):
        s.place[i, 1, slot] = max(s.place[i, 1, slot], 0)
    whole = _next(line, at + 1) == len(line) - 1
    return n if whole and s.span[i, ID, 0] >= 0 and s.span[i, EVIDENCE, 0] >= 0 else REFUSED


@threaded
def scan(text: Bytes, stops: Ints, s: Scan) -> None:
    """Read lines of valid UTF-8, each up to its place in ``stops`` and with a line feed at its end.

    A line for the decoder has REFUSED as the start of its id, and no row. There must be room for as many new
    constants, and as many bytes of them, as the text has bytes.
    """
    first = 0
    for i in range(len(stops)):
        n = _scan(text[first : stops[i]], s, i)
        if n < 0:
            s.span[i, ID, 0] = REFUSED
        s.row_start[i + 1] = n if n >= 0 else s.row_start[i]
        first = stops[i]
