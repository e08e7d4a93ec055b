"""Examples from every kind of source, and the choice of groups."""

import json
from pathlib import Path
from typing import Any

import pytest

from onlinesrl.core.errors import ExampleError
from onlinesrl.core.example import Example, ValuedAtom, decode
from onlinesrl.stream.decoding import ExampleReader, RecordDecoder
from onlinesrl.stream.group_filter import Choice
from onlinesrl.stream.sources.files import MAX_BYTES, FileSource

WORLD = """\
// one world
Token("learn", 0)
Token(Max, 1)
Next(0, 1)
!HasPunc(0)
InField(0, "title")
!InField(1, "title")
"""


def read(paths: list[Path | str], **choice: Any) -> list[Any]:
    decoder = RecordDecoder(["InField"], MAX_BYTES, Choice(**choice))
    reader = ExampleReader(FileSource(paths), decoder)
    return [example for items in reader.read() for _, example in items]


def line(number: int, group: str | None = None) -> bytes:
    made: dict[str, Any] = {"id": number, "evidence": {}}
    return json.dumps(made | ({"group": group} if group else {})).encode() + b"\n"


def test_a_database_is_one_world(tmp_path):
    path = tmp_path / "c7.db"
    path.write_text(WORLD)
    assert read([path]) == [
        Example(
            id="c7",
            evidence={
                "Token": [["learn", "0"], ["Max", "1"]],
                "Next": [["0", "1"]],
                "HasPunc": [ValuedAtom(["0"], 0.0)],
            },
            truth={"InField": [["0", "title"], ValuedAtom(["1", "title"], 0.0)]},
        )
    ]


def test_a_database_without_query_atoms_has_no_truth(tmp_path):
    path = tmp_path / "c8.db"
    path.write_text("Next(0, 1)\n")
    assert read([path])[0].truth is None


@pytest.mark.parametrize("content", [b"Token(learn, 0)\n", b"Token(\xff)", b"Token(A"])
def test_a_bad_database_is_a_bad_example(tmp_path, content):
    path = tmp_path / "bad.db"
    path.write_bytes(content)
    [error] = read([path])
    assert isinstance(error, ExampleError)
    assert "\n" not in error.reason


def test_a_database_says_what_its_json_says(job, tmp_path, citations):
    worlds = tmp_path / "worlds"
    worlds.mkdir()
    lines = []
    for number, text in enumerate(citations[:12]):
        made = json.loads(text)
        lines.append(line_of(made, f"{number:02d}"))
        (worlds / f"{number:02d}.db").write_text(database(made))
    as_json, as_db = job(lines, "json"), job([], "db", source={"path": str(worlds)})
    assert as_json.run() == 0, as_json.said
    assert as_db.run() == 0, as_db.said
    for name in ("weights.mln", "predictions.jsonl", "metrics.jsonl"):
        assert as_db.results()[name] == as_json.results()[name]


def line_of(made: dict[str, Any], name: str) -> bytes:
    return json.dumps({k: made[k] for k in ("evidence", "truth")} | {"id": name}).encode() + b"\n"


def database(made: dict[str, Any]) -> str:
    atoms = [*made["evidence"].items(), *made["truth"].items()]
    return "".join(
        f"{name}({', '.join(map(json.dumps, args))})\n" for name, rows in atoms for args in rows
    )


def test_groups_are_chosen_and_left_out(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(line(1, "face") + line(2, "ai") + line(3) + b"{\n" + line(4, "face"))

    def ids(**choice):
        return [e.id if isinstance(e, Example) else "bad" for e in read([path], **choice)]

    assert ids() == [1, 2, 3, "bad", 4]
    assert ids(only=["face"]) == [1, "bad", 4]
    assert ids(without=["face"]) == [2, 3, "bad"]
    assert ids(only=["face", "ai"], without=["ai"]) == [1, "bad", 4]
    assert ids(only=[]) == ["bad"]


@pytest.mark.parametrize(
    "text",
    [
        b'{"id": "a:b", "evidence": {"P": [["c:d", "\\"e\\": 1"]]}}',
        b'{"id" : 1, "group": null, "evidence": {"P": [{"args": [1], "value": 1}]}}',
        b'{"id": 1, "evidence": {"P": [[1]]}, "truth": {"P": [[2]]}, "query": {"P": [[2]]}}',
        b'{"id": 1, "evidence": {}, "dup_of": "x"}',
    ],
)
def test_colons_in_strings_are_no_keys(text):
    assert isinstance(decode(text), Example)


@pytest.mark.parametrize(
    "text",
    [
        b'{"id": 1, "evidence": {"P": [[1]], "P": [[2]]}}',
        b'{"id": 1, "evidence": {"P": [[1]]}, "evidence": {"P": [[1]]}}',
        b'{"id": 1, "evidence": {}, "truth": {"P": []}, "truth": null}',
        b'{"id": 1, "evidence": {"P": [{"args": [1], "args": [2]}]}}',
        b'{"id": 1, "evidence": {"P": [["a:b"]], "\\u0050": [["c"]]}}',
    ],
)
def test_repeated_keys_are_refused(text):
    with pytest.raises(ExampleError, match="appears twice"):
        decode(text)


def test_a_group_may_be_a_whole_number_as_an_id_and_a_constant_may(job, citations):
    """In the form of the learner, too; and a name of a group is never anything else."""
    results = []
    for name, kind in (("text", str), ("whole", int)):
        examples = [
            json.loads(text) | {"group": kind(n % 3)} for n, text in enumerate(citations[:9])
        ]
        lines = [json.dumps(example).encode() + b"\n" for example in examples]
        run = job(lines, name, source={"path": "source.jsonl", "without": ["1"]})
        assert run.run() == 0, run.said
        assert [line["group"] for line in run.predictions()] == ["0", "2"] * 3
        results.append({name: run.results()[name] for name in ("weights.mln", "predictions.jsonl")})
    assert results[0] == results[1]
    for group in ("true", "1.5", "[1]"):
        with pytest.raises(ExampleError, match=r"Expected `str \| null`, got .* at `\$\.group`"):
            decode(b'{"id": 1, "evidence": {}, "group": %b}' % group.encode())
    with pytest.raises(ExampleError, match="the key group appears twice"):
        decode(b'{"id": 1, "evidence": {}, "group": 1, "group": 2}')
