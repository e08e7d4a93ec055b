"""A bad example never stops the stream, never touches the weights, and is kept to be replayed."""

import base64
import gzip
import json
from typing import Any

import pytest
from conftest import long

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
BAD: dict[str, tuple[bytes, str]] = {
    "truncated": (line(example(99))[:60] + b"\n", "not an example: "),
    "invalid UTF-8": (evidence(Odd=[["@"]]).replace(b"@", b"\xc3\x28"), "not an example: "),
    "NaN": (evidence(Odd=[[float("nan")]]), "JSON is malformed"),
    "infinity": (evidence(Odd=[["@"]]).replace(b'"@"', b"1e999"), "out of range"),
    "a 5000-digit number": (evidence(Odd=[["@"]]).replace(b'"@"', b"9" * 5000), "out of range"),
    "a fraction": (evidence(Odd=[[0.5]]), "got `float`"),
    "a boolean": (evidence(Odd=[[True]]), "got `bool`"),
    "a repeated key": (
        line(example(99)).replace(b'"evidence": {', b'"evidence": {"Odd": [[7]], "Odd": [[8]], '),
        "not an example: the key Odd appears twice",
    ),
    "a repeated top-level key": (
        line(example(99)).replace(b'{"id": 99', b'{"id": 98, "id" : 99'),
        "not an example: the key id appears twice",
    ),
    "a lone surrogate": (evidence(Odd=[["\ud800"]]), "not an example: "),
    "nesting": (b'{"id": ' + b"[" * 100_000 + b"]" * 100_000 + b"}\n", "not an example: "),
    "nesting in an unknown key": (
        b'{"x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}\n",
        "not an example: ",
    ),
    "10 MB": (line(example(99, id="x" * 10_000_000)), "longer than source.max_bytes (250000)"),
    "an empty object": (b"{}\n", "required field `id`"),
    "an array": (b"[]\n", "Expected `object`, got `array`"),
    "two values": (line(example(99))[:-1] + b" {}\n", "trailing characters"),
    "an unknown key": (line(example(99, labels=[])), "unknown field `labels`"),
    "no evidence": (line(example(99, evidence=None)), "required field `evidence`"),
    "an unknown predicate": (evidence(Tokn=[["a", 0]]), "unknown predicate Tokn; the model has"),
    "an unknown truth predicate": (
        line(example(99, truth={"Odd": [[0]]})),
        "unknown query predicate in truth Odd; the model has InField",
    ),
    "too few arguments": (evidence(Token=[["a"]]), "Token takes 2 arguments, found 1"),
    "too many arguments": (evidence(Token=[["a", 0, 0]]), "Token takes 2 arguments, found 3"),
    "an atom that is no list": (evidence(Odd=["a"]), "not an example: "),
    "a value between": (evidence(Odd=[{"args": [1], "value": 0.5}]), "has value 0.5"),
    "contradictory evidence": (
        evidence(Odd=[[1], {"args": ["1"], "value": 0}]),
        "contradiction in evidence: Odd(1) is both true and false",
    ),
    "contradictory truth": (
        truth([0, "title"], {"args": [0, "title"], "value": 0}),
        "contradiction in truth: InField(0, title) is both true and false",
    ),
    "truth against evidence": (
        evidence(InField=[{"args": [0, "title"], "value": 0}]),
        "truth atom InField(0, title) is not an open atom",
    ),
    "truth that is not open": (
        line(example(99, query={"InField": [[0, "title"], [1, "title"]]})),
        "truth atom InField(2, venue) is not an open atom",
    ),
    "two fields for one token": (
        truth([0, "title"], [0, "venue"]),
        "the truth breaks at most one InField along argument 2",
    ),
    "evidence against a hard rule": (
        evidence(Next=[[1, 1]]),
        "the evidence breaks the hard rule !Next(i, i)",
    ),
    "truth against a hard rule": (evidence(Odd=[[2]]), "the truth breaks the hard rule"),
    "observed atoms against a hard rule": (
        line(example(99, truth=None, evidence={"Odd": [[0]], "InField": [[0, "venue"]]})),
        "no state satisfies the hard rules",
    ),
    "what no terminal should get": (
        truth(["\x1b[2J\n", "title"], ["\x1b[2J\n", "title", 3]),
        "truth atom InField(\\x1b[2J\\n, title, 3): InField takes 2 arguments, found 3",
    ),
    "what no terminal should get, found later": (
        line(example(99, query={"InField": []}, truth={"InField": [["\x1b[2J", "title"]]})),
        "truth atom InField(\\x1b[2J, title) is not an open atom",
    ),
    "nothing but a word": (b"undefined\n", "JSON is malformed"),
    "null": (b"null\n", "Expected `object`, got `null`"),
    "a number": (b"7\n", "Expected `object`, got `int`"),
    "a string": (b'"InField(0, title)"\n', "Expected `object`, got `str`"),
    "no text at all": (b"\x00\x00\x00\n", "JSON is malformed"),
    "UTF-16": (line(example(99))[:-1].decode().encode("utf-16") + b"\n", "not an example: "),
    "a byte order mark within": (b"\xef\xbb\xbf" + line(example(99)), "not an example: "),
    "UTF-8 of a surrogate": (
        evidence(Odd=[["@"]]).replace(b"@", b"\xed\xa0\x80"),
        "not an example: ",
    ),
    "overlong UTF-8": (evidence(Odd=[["@"]]).replace(b"@", b"\xc0\xaf"), "not an example: "),
    "a control character": (evidence(Odd=[["@"]]).replace(b"@", b"\x01"), "not an example: "),
    "a string without end": (line(example(99))[:-3] + b'": "\n', "not an example: "),
    "minus infinity": (evidence(Odd=[[-float("inf")]]), "JSON is malformed"),
    "a number with a zero before it": (
        evidence(Odd=[["@"]]).replace(b'"@"', b"007"),
        "JSON is malformed",
    ),
    "single quotes": (line(example(99)).replace(b'"', b"'"), "JSON is malformed"),
    "a comma too many": (line(example(99)).replace(b"]]}", b"]],}", 1), "JSON is malformed"),
    "a comment": (line(example(99))[:-1] + b" // c\n", "trailing characters"),
    "an id that is null": (line({**example(99), "id": None}), "got `null` - at `$.id`"),
    "an id that is a list": (line(example(99, id=[1])), "got `array` - at `$.id`"),
    "a group that is no text": (line(example(99, group=True)), "got `bool` - at `$.group`"),
    "evidence that is a list": (line(example(99, evidence=[])), "got `array` - at `$.evidence`"),
    "truth that is a text": (line(example(99, truth="title")), "got `str` - at `$.truth`"),
    "a constant that is a list": (evidence(Odd=[[[1]]]), "got `array` - at `$.evidence[...]"),
    "a constant that is null": (evidence(Odd=[[None]]), "got `null` - at `$.evidence[...]"),
    "an atom with an unknown key": (
        evidence(Odd=[{"args": [1], "sign": 0}]),
        "unknown field `sign`",
    ),
    "a value that is a text": (evidence(Odd=[{"args": [1], "value": "0"}]), "got `str`"),
    "a value out of range": (evidence(Odd=[{"args": [1], "value": 1e308}]), "has value 1e+308"),
    "an unknown query predicate": (
        line(example(99, query={"Field": [[0, "title"]]})),
        "unknown query predicate in query Field; the model has InField",
    ),
    "a query of another arity": (
        line(example(99, query={"InField": [[0]]})),
        "InField takes 2 arguments, found 1",
    ),
    "too many atoms": (evidence(Odd=[[n] for n in range(20)]), "limits.max_atoms (40)"),
    "too many facts": (evidence(Odd=[[0]] * 41), "limits.max_atoms is 40"),
    "too many ground clauses": (
        evidence(Next=[[a, b] for a in range(6) for b in range(6) if a != b]),
        "more ground clauses than inference.max_groundings (60), reached in the rule ",
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
    corpus = [bad for bad, _ in BAD.values()]
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
    for letter, (name, (bad, reason)) in zip(letters, BAD.items(), strict=True):
        assert letter["file"] == str(run.source)
        assert reason in letter["reason"], name
        assert "\n" not in letter["reason"], name
        assert replayed(letter) == bad[:-1][:250_000], name
        assert letter["id"] in (None, "99"), name
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
    bad, reason = BAD[name]
    run = stream([*GOOD[:3], bad, *GOOD[3:], bad], batch=64)
    assert run.run("--strict") == 65
    assert f"{run.source}:4: " in run.said
    assert reason in run.said
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
        assert f"{seen.rpartition(' ')[2]} examples\n{said}" in run.said
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
