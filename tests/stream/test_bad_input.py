"""A bad example never stops the stream, never touches the weights, and is kept to be replayed."""

import base64
import gzip
import json
from typing import Any

import pytest
from conftest import REPO, long

from tests.support import golden

MODEL = """\
field = {"author", "title", "venue"}
Token(word, position)
Next(position, position)
Odd(position)
InField(position, field)

!InField(i, f) v !InField(i, g) v f = g.
!Next(i, i).
Odd(i) => !InField(i, "venue").

Token(+w, i) => InField(i, +f)
InField(i, +f) ^ Next(i, j) => InField(j, +f)
"""


def example(number: int, **changes: Any) -> dict[str, Any]:
    """A good example of three tokens; a change to None removes a key."""
    words = [["learn", 0], ["from", 1], [f"w{number}", 2]]
    made: dict[str, Any] = {
        "id": number,
        "evidence": {"Token": words, "Next": [[0, 1], [1, 2]]},
        "truth": {"InField": [[0, "title"], [1, "title"], [2, "venue"]]},
    }
    return {key: value for key, value in (made | changes).items() if value is not None}


def line(value: Any) -> bytes:
    return json.dumps(value).encode() + b"\n"


def evidence(**relations: list[Any]) -> bytes:
    return line(example(99, evidence={**example(99)["evidence"], **relations}))


def truth(*atoms: Any) -> bytes:
    return line(example(99, truth={"InField": list(atoms)}))


GOOD = [line(example(number)) for number in range(6)]
BAD: dict[str, bytes] = {
    "truncated": line(example(99))[:60] + b"\n",
    "invalid UTF-8": evidence(Odd=[["@"]]).replace(b"@", b"\xc3\x28"),
    "NaN": evidence(Odd=[[float("nan")]]),
    "infinity": evidence(Odd=[["@"]]).replace(b'"@"', b"1e999"),
    "a 5000-digit number": evidence(Odd=[["@"]]).replace(b'"@"', b"9" * 5000),
    "a fraction": evidence(Odd=[[0.5]]),
    "a boolean": evidence(Odd=[[True]]),
    "a repeated key": line(example(99)).replace(
        b'"evidence": {', b'"evidence": {"Odd": [[7]], "Odd": [[8]], '
    ),
    "a repeated top-level key": line(example(99)).replace(b'{"id": 99', b'{"id": 98, "id" : 99'),
    "a lone surrogate": evidence(Odd=[["\ud800"]]),
    "nesting": b'{"id": ' + b"[" * 100_000 + b"]" * 100_000 + b"}\n",
    "nesting in an unknown key": b'{"x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}\n",
    "10 MB": line(example(99, id="x" * 10_000_000)),
    "an empty object": b"{}\n",
    "an array": b"[]\n",
    "two values": line(example(99))[:-1] + b" {}\n",
    "an unknown key": line(example(99, labels=[])),
    "no evidence": line(example(99, evidence=None)),
    "an unknown predicate": evidence(Tokn=[["a", 0]]),
    "an unknown truth predicate": line(example(99, truth={"Odd": [[0]]})),
    "too few arguments": evidence(Token=[["a"]]),
    "too many arguments": evidence(Token=[["a", 0, 0]]),
    "an atom that is no list": evidence(Odd=["a"]),
    "a value between": evidence(Odd=[{"args": [1], "value": 0.5}]),
    "contradictory evidence": evidence(Odd=[[1], {"args": ["1"], "value": 0}]),
    "contradictory truth": truth([0, "title"], {"args": [0, "title"], "value": 0}),
    "truth against evidence": evidence(InField=[{"args": [0, "title"], "value": 0}]),
    "truth that is not open": line(example(99, query={"InField": [[0, "title"], [1, "title"]]})),
    "two fields for one token": truth([0, "title"], [0, "venue"]),
    "evidence against a hard rule": evidence(Next=[[1, 1]]),
    "truth against a hard rule": evidence(Odd=[[2]]),
    "observed atoms against a hard rule": line(
        example(99, truth=None, evidence={"Odd": [[0]], "InField": [[0, "venue"]]})
    ),
    "what no terminal should get": truth(["\x1b[2J\n", "title"], ["\x1b[2J\n", "title", 3]),
    "what no terminal should get, found later": line(
        example(99, query={"InField": []}, truth={"InField": [["\x1b[2J", "title"]]})
    ),
    "nothing but a word": b"undefined\n",
    "null": b"null\n",
    "a number": b"7\n",
    "a string": b'"InField(0, title)"\n',
    "no text at all": b"\x00\x00\x00\n",
    "UTF-16": line(example(99))[:-1].decode().encode("utf-16") + b"\n",
    "a byte order mark within": b"\xef\xbb\xbf" + line(example(99)),
    "UTF-8 of a surrogate": evidence(Odd=[["@"]]).replace(b"@", b"\xed\xa0\x80"),
    "overlong UTF-8": evidence(Odd=[["@"]]).replace(b"@", b"\xc0\xaf"),
    "a control character": evidence(Odd=[["@"]]).replace(b"@", b"\x01"),
    "a string without end": line(example(99))[:-3] + b'": "\n',
    "minus infinity": evidence(Odd=[[-float("inf")]]),
    "a number with a zero before it": evidence(Odd=[["@"]]).replace(b'"@"', b"007"),
    "single quotes": line(example(99)).replace(b'"', b"'"),
    "a comma too many": line(example(99)).replace(b"]]}", b"]],}", 1),
    "a comment": line(example(99))[:-1] + b" // c\n",
    "an id that is null": line({**example(99), "id": None}),
    "an id that is a list": line(example(99, id=[1])),
    "a group that is no text": line(example(99, group=True)),
    "evidence that is a list": line(example(99, evidence=[])),
    "truth that is a text": line(example(99, truth="title")),
    "a constant that is a list": evidence(Odd=[[[1]]]),
    "a constant that is null": evidence(Odd=[[None]]),
    "an atom with an unknown key": evidence(Odd=[{"args": [1], "sign": 0}]),
    "a value that is a text": evidence(Odd=[{"args": [1], "value": "0"}]),
    "a value out of range": evidence(Odd=[{"args": [1], "value": 1e308}]),
    "an unknown query predicate": line(example(99, query={"Field": [[0, "title"]]})),
    "a query of another arity": line(example(99, query={"InField": [[0]]})),
    "too many atoms": evidence(Odd=[[n] for n in range(20)]),
    "too many facts": evidence(Odd=[[0]] * 41),
    "too many ground clauses": evidence(
        Next=[[a, b] for a in range(6) for b in range(6) if a != b]
    ),
}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "fields.mln"
    path.write_text(MODEL)
    return path


@pytest.fixture
def stream(job, model):
    """Makes runs with the limits that the corpus breaks."""

    def make(lines, name="job", **keys):
        limited = {
            "model": str(model),
            "source": {"path": "source.jsonl", "max_bytes": 250_000},
            "limits": {"max_atoms": 40, "bad_share": 1.0},
            "inference": {"max_groundings": 60},
        }
        return job(lines, name, **(limited | keys))

    return make


def replayed(letter: dict[str, Any]) -> bytes:
    return letter["text"].encode() if "text" in letter else base64.b64decode(letter["base64"])


def test_the_whole_corpus_leaves_what_is_learned_as_it_is(stream, tally):
    corpus = [*BAD.values()]
    lines, bad_at = list(GOOD[:3]), []
    for bad in corpus:
        lines += [bad, *GOOD[3:4]]
        bad_at.append(len(lines) - 1)
    run = stream([*lines, *GOOD[4:]])
    clean = stream([*[x for x in lines if x not in corpus], *GOOD[4:]], "clean")
    assert run.run() == 0, run.said
    assert clean.run() == 0, clean.said
    assert run.results()["weights.mln"] == clean.results()["weights.mln"]
    assert run.predictions() == clean.predictions()
    tally["bad inputs"] += len(BAD)
    assert len(BAD) >= 60
    letters = run.lines("deadletter.jsonl")
    assert [letter["line"] for letter in letters] == bad_at
    answers = run.lines("predictions.jsonl")
    assert len(answers) == len(lines) + len(GOOD[4:])
    for letter, place in zip(letters, bad_at, strict=True):
        assert (answers[place - 1]["line"], answers[place - 1]["error"]) == (
            place,
            letter["reason"],
        )
    reasons = {}
    for letter, (name, bad) in zip(letters, BAD.items(), strict=True):
        assert letter["file"] == str(run.source)
        reasons[name] = letter["reason"]
        assert "\n" not in letter["reason"], name
        assert replayed(letter) == bad[:-1][:250_000], name
        assert letter["id"] in (None, "99"), name
    golden.compare(REPO / "tests" / "stream" / "golden" / "bad_examples.txt", reasons)
    last = run.lines("metrics.jsonl")[-1]
    assert (last["bad"], last["updates"]) == (len(BAD), len(lines) - len(BAD) + 2)


def test_dead_letters_can_be_replayed(stream):
    run = stream([GOOD[0], truth([0, "title"], [0, "venue"]), GOOD[1], evidence(Tokn=[])])
    assert run.run() == 0
    texts = [x["text"].encode() + b"\n" for x in run.lines("deadletter.jsonl")]
    again = stream([*texts, GOOD[2]], "again")
    assert again.run() == 0
    reasons = [[x["reason"] for x in r.lines("deadletter.jsonl")] for r in (run, again)]
    assert reasons[0] == reasons[1]


@pytest.mark.parametrize("name", ["truncated", "truth against a hard rule", "too many atoms"])
def test_strict_stops_at_the_first_with_the_state_before_it(stream, name):
    bad = BAD[name]
    run = stream([*GOOD[:3], bad, *GOOD[3:], bad], batch=64)
    assert run.run("--strict") == 65
    assert f"{run.source}:4: " in run.said
    assert run.lines("deadletter.jsonl") == []
    assert [p["id"] for p in run.lines("predictions.jsonl")] == [0, 1, 2]
    run.source.write_bytes(b"".join(GOOD))
    assert run.run("--strict") == 0
    assert "resuming from checkpoint-000000000001.ckpt, after 3 examples" in run.said
    clean = stream(GOOD, "clean")
    assert clean.run() == 0
    assert run.results() == clean.results()


@pytest.mark.parametrize(
    ("good", "bad", "seen"), [(440, 70, "60 of 500"), long(8, 1, "1 of 9"), long(0, 1, "1 of 1")]
)
def test_too_many_bad_examples_end_the_run_at_one_place_whatever_the_batch(stream, good, bad, seen):
    """At every 500th example, or where the source ends."""
    lines = [GOOD[0]] * good + [b"{\n"] * bad + [GOOD[1]] * 60 * (good == 440)
    patient = stream(lines, "patient")
    assert patient.run() == 0
    for batch in (1, 50, 1000):
        run = stream(
            lines, f"batch{batch}", limits={"bad_share": 0.1, "max_atoms": 40}, batch=batch
        )
        assert run.run() == 65
        said = f"{seen} examples are bad, more than limits.bad_share (0.1) allows"
        assert said in run.said
        assert run.run() == 65
        assert said in run.said
        assert f", after {seen.rpartition(' ')[2]} examples\n" in run.said
        assert run.run("--set", "limits.bad_share=1.0") == 0
        found, expected = run.results(), patient.results()
        folders = [bytes(each.folder) for each in (run, patient)]
        assert found.pop("deadletter.jsonl") == expected.pop("deadletter.jsonl").replace(
            *folders[::-1]
        )
        assert found == expected


def test_a_damaged_file_ends_the_run_with_its_place(stream):
    run = stream([], source={"path": "source.jsonl.gz"})
    packed = gzip.compress(b"".join(GOOD * 50))
    (run.folder / "source.jsonl.gz").write_bytes(packed[: len(packed) // 2])
    assert run.run() == 74
    assert "source.jsonl.gz:" in run.said
