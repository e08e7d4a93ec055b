"""Lines read in one pass are what the decoder reads, and any others are left to it."""

import json
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from onlinesrl.core.errors import ExampleError
from onlinesrl.core.example import Example, decode
from onlinesrl.mln.ground.batch_packer import KEPT_NAMES
from onlinesrl.mln.ground.grounder import Limits
from onlinesrl.mln.ground.join_planner import compile_program
from onlinesrl.mln.ground.json_line_reader import MOST_BYTES, NumberedExample
from onlinesrl.mln.lang.reader import parse
from onlinesrl.mln.online.learner import MlnOnlineLearner
from tests.support.small_learners import exact, online

MODEL = """
place = {0, 1}
Token(word, place)
Next(place, place)
Raining
Field(place, field)
Token(+w, i) => Field(i, +f)
1 Next(i, j) ^ Field(i, f) => Field(j, f)
1 Raining => !Field(i, "late")
"""
MOST_ATOMS = 6


def made() -> MlnOnlineLearner:
    plan = compile_program(parse(MODEL), ["Field"])
    return online(plan, inference=exact(limits=Limits(atoms=MOST_ATOMS)))


LEARNER, PLAIN = made(), made()


def read(line: bytes, plain: bool) -> Example | str:
    """The example of a line, or why it has none."""
    try:
        return decode(line) if plain else LEARNER.decode(line)
    except ExampleError as error:
        return str(error)


def packed(learner: MlnOnlineLearner, examples: Sequence[Example | str]) -> list[object]:
    """The worlds of examples, with the names of their constants, and why others have none."""
    learner.packer.clear()
    errors = []
    for place, each in enumerate(examples):
        try:
            if isinstance(each, Example):
                learner.packer.add(each, place)
        except ExampleError as error:
            errors.append(str(error))
    batch = learner.packer.batch(learning=True)
    names = learner.packer.constants.names
    found: list[object] = [errors, batch.labelled.tolist(), batch.listed.tolist()]
    for w, (start, count) in enumerate(zip(batch.start, batch.count, strict=True)):
        arity = np.diff(learner.packer.slots.start)
        spans = zip(start.tolist(), (arity * count).tolist(), strict=True)
        rows = [
            [n if n >= -1 else names[-2 - n] for n in batch.data[first : first + size].tolist()]
            for first, size in spans
        ]
        found += [rows, count.tolist(), batch.domain[w].tolist()]
    return [*found, [names[c] for c in batch.member], [*learner.weights.stream["word"].names]]


def check(*lines: bytes) -> list[Example | str]:
    """Both roads lead to the same examples, errors and worlds."""
    quick, slow = ([read(line, plain) for line in lines] for plain in (False, True))
    for one, other in zip(quick, slow, strict=True):
        if isinstance(one, str) or isinstance(other, str):
            assert one == other
            continue
        assert (one.id, one.group, one.labelled) == (other.id, other.group, other.labelled)
        assert one.whole() == other
        assert (one.evidence, one.truth, one.query) == (other.evidence, other.truth, other.query)
    LEARNER.packer.begin()
    PLAIN.packer.begin()
    assert packed(LEARNER, quick) == packed(PLAIN, slow)
    return quick


texts = (
    st.text(max_size=4)
    | st.text("ab é", min_size=6, max_size=18)  # of several words of eight bytes
    | st.sampled_from(["a", "b", "3", "-1", "007", ":", "é", "\ud7ff", "0", ""])
)
whole = st.integers(-3, 3) | st.sampled_from([10**17, 10**18, -(10**18), 2**63, 10**30])
constants = texts | whole
odd = st.none() | st.booleans() | st.floats() | st.lists(whole, max_size=2)
atoms = st.lists(constants, max_size=3) | st.fixed_dictionaries(
    {"args": st.lists(constants, max_size=2), "value": st.sampled_from([0, 1, 0.5])}
)
pairs = st.lists(st.lists(constants, min_size=2, max_size=2), max_size=MOST_ATOMS + 1)
facts = {"Token": pairs, "Next": pairs, "Raining": st.just([[]]), "Field": pairs}
plain = st.fixed_dictionaries({}, optional=facts)
parts = plain | st.dictionaries(st.sampled_from([*facts, "New"]), st.lists(atoms | odd, max_size=2))
examples = st.fixed_dictionaries(
    {"id": constants, "evidence": plain | parts},
    optional={
        "group": texts | odd,
        "truth": plain | parts | st.none(),
        "query": plain,
        "time": st.floats(0, 9),
        "dup_of": constants,
        "new": odd,
    },
)
good = st.fixed_dictionaries(
    {"id": constants, "evidence": plain},
    optional={"group": texts, "truth": st.fixed_dictionaries({"Field": pairs})},
)


@st.composite
def lines(draw: st.DrawFn) -> bytes:
    """A line of JSON, in any order of keys, spaced at will, some keys twice, some bytes changed."""
    value = draw(st.one_of(good, good, good, examples))
    keys = draw(st.permutations(list(value)))
    ascii_only, wide = draw(st.booleans()), draw(st.booleans())
    separators = draw(st.sampled_from([(", ", ": "), (",", ":"), (" ,\t", "\r: "), (",\n ", " :")]))
    line = json.dumps(
        {key: value[key] for key in keys},
        ensure_ascii=ascii_only,
        separators=separators,
        indent=1 if wide else None,
    )
    text = line.encode(errors="surrogatepass")
    if draw(st.integers(0, 9)) == 0:
        again = draw(
            st.sampled_from([b'"id":1,', b'"group":"g",', b'"evidence":{},', b'"truth":{},'])
        )
        text = b"{" + again + text[1:]
    for _ in range(draw(st.sampled_from([0, 0, 0, 0, 0, 1, 2]))):
        at = draw(st.integers(0, len(text)))
        piece = draw(st.sampled_from([*b'[]{},:"\\-0 1a\n\xc3\x00']))
        cut = draw(st.integers(0, 2))
        text = text[:at] + bytes([piece]) + text[at + cut :]
    return text[: draw(st.integers(0, len(text)))] if draw(st.integers(0, 9)) == 0 else text


PLAIN_LINE = b'{"id": "a", "evidence": {"Token": [["x", 0]]}, "truth": {"Field": [[0, "f"]]}}'


@given(st.lists(lines(), min_size=1, max_size=3))
@example([PLAIN_LINE])
@example([b'{"id": 1, "evidence": {"Token": [["x", 0], ["x", "0"]], "Raining": [[]], "Next": []}}'])
@example([b'{"truth": {}, "group": "", "evidence": {}, "id": ""} \r\n\t'])
@example(
    [b'{"id": -0, "evidence": {}}', b'{"id": 01, "evidence": {}}', b'{"id": -, "evidence": {}}']
)
@example([b'{"id": 1, "evidence": {"Token": [["x", 0],]}}', b'{"id": 1, "evidence": {,}}'])
@example([b'{"id": 1, "evidence": {"Token": [["x", 0]], "Token": [["y", 0]]}}'])
@example([b'{"id": 1, "evidence": {}', b'{"id": 1, "evidence": {}}}', b"", b"{}", b"{", b'{"id"'])
@example(
    [b'{"id": 1, "evidence": {"Token": [["\xc3", 0]]}}', b'{"id": "\xed\xa0\x80", "evidence": {}}']
)
def test_any_lines_are_read_as_the_decoder_reads_them(some: list[bytes]) -> None:
    check(*some)


@given(st.binary(max_size=40))
def test_any_bytes_are_read_as_the_decoder_reads_them(line: bytes) -> None:
    check(line)


@given(st.lists(good, min_size=1, max_size=4))
def test_every_start_of_a_line_is_read_as_the_decoder_reads_it(
    some: list[dict[str, object]],
) -> None:
    line = json.dumps(some[0], ensure_ascii=False).encode(errors="surrogatepass")
    for end in range(len(line)):
        assert LEARNER.packer.lines.read(line[:end]) is None


def test_plain_lines_are_read_in_one_pass() -> None:
    found = check(
        PLAIN_LINE,
        '{"id":"ä","evidence":{"Token":[["日本",0]],"Raining":[[]]},"group":"g"}'.encode(),
        b'{ "evidence" : { "Next" : [ [ 0 , -1 ] , [ 1 , "" ] ] } , "id" : 12 }\r\n',
    )
    assert all(isinstance(each, NumberedExample) for each in found)


@pytest.mark.parametrize("odd", ["", *'"[\\\x00\x7fé\U0001f9ff'])
def test_texts_of_all_lengths_are_told_apart(odd: str) -> None:
    """Also at the end of a line, and where they differ in one byte only, or contain another."""
    text = "abcdefghijklmnopqr"
    for size in range(len(text) + 1):
        for at in {size // 2, size}:
            text_with = text[:at] + odd + text[at:size]
            words = [text_with, text[:size], text_with + "a", text_with[:-1] + "z", text_with]
            tokens = ",".join(f'["{word}",0]' for word in words)
            check(f'{{"evidence":{{"Token":[{tokens}]}},"id":"{text_with}"}}'.encode())


@pytest.mark.parametrize(
    "line",
    [
        b'{"id": "a\\n", "evidence": {}}',
        b'{"id": 1, "evidence": {"Token": [{"args": ["x", 0]}]}}',
        b'{"id": 1, "evidence": {}, "query": {}}',
        b'{"id": 1, "evidence": {}, "truth": null}',
        b'{"id": 1, "evidence": {"Unknown": [[1]]}}',
        b'{"id": 1, "evidence": {"Next": [[1]]}}',
        b'{"id": 1, "evidence": {"Next": [[0, 0], [0, 1], [1, 0], [1, 1], [1, 2], [2, 1], [2, 2]]}}',
        b'{"id": "' + MOST_BYTES * b"a" + b'", "evidence": {}}',
    ],
)
def test_other_lines_are_left_to_the_decoder(line: bytes) -> None:
    assert LEARNER.packer.lines.read(line) is None
    check(line)


def test_constants_keep_their_numbers_whoever_adds_them() -> None:
    """From lines, from the decoder, after so many that numbering begins anew."""
    learner = made()
    for n in range(3):
        many = [[f"w{n}-{m}", m % 2] for m in range(6)]
        for start in range(0, KEPT_NAMES + 7, 60) if n == 1 else (0,):
            words = [[f"{word}-{start}", at] for word, at in many]
            line = json.dumps({"id": n, "evidence": {"Token": words}}).encode()
            numbered = learner.decode(line)
            assert isinstance(numbered, NumberedExample)
            learner.packer.constants[f"other {n} {start}"]
            learner.packer.clear()
            learner.packer.add(numbered, 0)
            learner.packer.add(decode(line), 1)
            assert learner.packer.rows[0] == learner.packer.rows[1]
            assert learner.packer.spans[0] == learner.packer.spans[1]
            for at in range(3):
                learner.packer.constants[f"more {n} {start} {at}"]


def test_numbers_of_an_earlier_numbering_are_found_anew() -> None:
    learner = made()
    numbered = learner.decode(PLAIN_LINE)
    learner.packer.begin()
    learner.packer.constants["another"]
    learner.packer.clear()
    learner.packer.add(numbered, 0)
    learner.packer.add(decode(PLAIN_LINE), 1)
    assert learner.packer.rows[0] == learner.packer.rows[1]
