"""Published data sets as examples: what the few lines of each format become, the order and the errors."""

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import onlinesrl as srl
from onlinesrl.core.example import decode
from tests.support.golden import check
from tests.support.paths import SHARED
from tests.support.stream_scripts import PAPERS, converted, ground, refusal

DATA = SHARED / "data"
CITESEER = DATA / "citeseer"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the data sets are not at hand")

# `Ada B. On "engine", 1999. In proc`
FACTS = """
isbibpos(b1007_p00,b1007,p00).
token(tada,p00,b1007).
isbibpos(b1007_p01,b1007,p01).
token(tb, p01, b1007).
token(tb, p01, b1007).
followby(b1007,p01,tperiod).
isbibpos(b1007_p02,b1007,p02).
token(ton,p02,b1007).
// a comment
isbibpos(b1007_p03,b1007,p03).
token(tengine,p03,b1007).
followby(b1007,p03,tdquote).
followby(b1007,p03,tcomma).
haspunc(b1007,p03).
token(t1999,p04,b1007).
haspunc(b1007,p04).
token(tin,p05,b1007).
isbibpos(b1007_p06,b1007,p06).
token(tproc,p06,b1007).
haspunc(b1007,p06).
lastinitial(b1007,p01).
firstin(b1007,p05).
firstnonauthortitletkn(b1007,p06).
center(b1007,p03).
lessthan(p00,p01).
isdate(t1999).
"""
FIELDS = """
infield_fauthor(b1007_p00).
infield_fauthor(b1007_p01).
infield_ftitle(b1007_p02).
infield_ftitle(b1007_p03).
infield_fvenue(b1007_p06).
"""
EXAMPLE = {
    "id": "b1007",
    "group": "face",
    "evidence": {
        "Token": [
            ["ada", 0],
            ["b", 1],
            ["on", 2],
            ["engine", 3],
            ["1999", 4],
            ["in", 5],
            ["proc", 6],
        ],
        "FollowBy": [[1, "period"], [3, "comma"], [3, "dquote"]],
        "HasPunc": [[3], [4], [6]],
        "Center": [[3]],
        "FirstIn": [[5]],
        "LastInitial": [[1]],
        "FirstNonAuthorTitleTkn": [[6]],
        "Next": [[0, 1], [1, 2], [2, 3], [3, 4], [4, 5], [5, 6]],
    },
    "truth": {"InField": [[0, "author"], [1, "author"], [2, "title"], [3, "title"], [6, "venue"]]},
}


def fold(folder: Path, facts: str, positive: str, negative: str = "", name: str = "fold1") -> Path:
    """Write a fold as srlearn publishes it."""
    test = folder / name / "test"
    test.mkdir(parents=True)
    for part, text in (("facts", facts), ("pos", positive), ("neg", negative)):
        (test / f"test_{part}.txt").write_text(text)
    return folder


def capital(line: str) -> str:
    """Write a line of Prolog as a line of a database."""
    return re.sub(r"\b[a-z](?=\w)", lambda match: match[0].upper(), line).removesuffix(".")


# citations -----------------------------------------------------------------------------------------


def citations(folder: Path, facts: str = FACTS, fields: str = FIELDS) -> list[dict[str, Any]]:
    return converted("citeseer", fold(folder / "citeseer", facts, fields), folder / "out")


def test_a_citation_becomes_an_example(tmp_path: Path) -> None:
    assert citations(tmp_path) == [EXAMPLE]


def test_a_database_becomes_the_same_example(tmp_path: Path) -> None:
    facts = [line for line in FACTS.splitlines() if "isbibpos" not in line and "//" not in line]
    fields = re.sub(r"infield_f(\w+)\((b\d+)_(p\d+)\)", r"infield(\2,f\1,\3)", FIELDS).splitlines()
    text = "\n".join(capital(line) for line in [*facts, *fields])
    assert "InField(" not in text
    (tmp_path / "face.db").write_text(text)
    assert converted("citeseer", tmp_path, tmp_path / "out") == [EXAMPLE]


@pytest.mark.parametrize(
    ("line", "other", "missing"),
    [
        ("firstin(b1007,p05).", "firstin(b1007,p07).", {"FirstIn"}),
        (
            "firstnonauthortitletkn(b1007,p06).",
            "firstnonauthortitletkn(b1007,p07).",
            {"FirstNonAuthorTitleTkn"},
        ),
        ("lastinitial(b1007,p01).", "lastinitial(b1007,p00).", {"LastInitial"}),
        ("center(b1007,p03).", "", {"Center"}),
    ],
)
def test_what_stands_for_none_leaves_no_atom(
    tmp_path: Path, line: str, other: str, missing: set[str]
) -> None:
    assert line in FACTS
    (example,) = citations(tmp_path, FACTS.replace(line, other))
    assert EXAMPLE["evidence"].keys() - example["evidence"].keys() == missing  # type: ignore[attr-defined]


def test_citations_by_number_from_all_folds(tmp_path: Path) -> None:
    for n, numbers in enumerate((("b3001",), ("b0002", "b0001")), 1):
        facts = "".join(f"token(ta,p00,{number}).\n" for number in numbers)
        fold(tmp_path, facts, "", name=f"fold{n}")
    listed = converted("citeseer", tmp_path, tmp_path / "out")
    assert [(e["id"], e["group"]) for e in listed] == [
        ("b0001", "constraint"),
        ("b0002", "constraint"),
        ("b3001", "reinforcement"),
    ]


@needs_data
def test_the_real_citations(tmp_path: Path) -> None:
    examples = converted("citeseer", CITESEER, tmp_path / "all.jsonl")
    groups = Counter(e["group"] for e in examples)
    atoms = Counter(p for e in examples for p, rows in e["evidence"].items() for _ in rows)
    fields = Counter(field for e in examples for _, field in e["truth"]["InField"])
    assert groups == {"constraint": 295, "face": 348, "reinforcement": 406}
    assert [e["group"] for e in examples] == sorted(groups.elements())
    assert len({e["id"] for e in examples}) == 1049
    assert fields == {"author": 5123, "title": 8428, "venue": 11814}
    assert atoms["Token"] == 26329
    assert atoms["FirstIn"] == 1049 - 489
    assert atoms["FirstNonAuthorTitleTkn"] == 1049 - 337
    assert all(i < len(e["evidence"]["Token"]) for e in examples for [i] in atoms_of_one(e))


def atoms_of_one(example: dict[str, Any]) -> list[list[int]]:
    """All atoms of an example that hold nothing but a position."""
    return [atom for rows in example["evidence"].values() for atom in rows if len(atom) == 1]


# worlds --------------------------------------------------------------------------------------------


def test_folds_of_srlearn_become_worlds(tmp_path: Path) -> None:
    fold(
        tmp_path,
        "student(ann).\ncourseprof(c1, bob).\nstudent(ann).\n",
        "faculty(bob).\n",
        "faculty(ann).\nfaculty(carl).\n",
    )
    fold(tmp_path, 'project("p 1", dora).\n', "faculty(dora).\n", name="fold2")
    first, second = converted("webkb", tmp_path, tmp_path / "out")
    assert first == {
        "id": "fold1",
        "group": "fold1",
        "evidence": {"Student": [["Ann"]], "Courseprof": [["C1", "Bob"]]},
        "truth": {"Faculty": [["Bob"]]},
    }
    assert second["evidence"] == {"Project": [["P 1", "Dora"]]}


def test_other_predicates_among_the_positive_are_evidence(tmp_path: Path) -> None:
    positive = "sameauthor(a1,a2).\nsamebib(b1,b2).\n"
    fold(tmp_path, "title(b1,t1).\n", positive, "sameauthor(a1,a3).\nsamebib(b1,b3).\n")
    (world,) = converted("cora", tmp_path, tmp_path / "out")
    assert world["evidence"] == {"Title": [["B1", "T1"]], "Sameauthor": [["A1", "A2"]]}
    assert world["truth"] == {"Samebib": [["B1", "B2"]]}


def test_databases_become_worlds(tmp_path: Path) -> None:
    (tmp_path / "yeast-fold2.db").write_text("location(Y1, L_2)\nfunction(Y1, Func_id_1)\n")
    (tmp_path / "yeast-fold1.db").write_text("function(Y2, Func_id_1)\nenzyme(Y2, E)\n")
    assert converted("yeast", tmp_path, tmp_path / "out") == [
        {
            "id": name,
            "group": name,
            "evidence": evidence,
            "truth": {"function": [[protein, "Func_id_1"]]},
        }
        for name, evidence, protein in (
            ("yeast-fold1", {"enzyme": [["Y2", "E"]]}, "Y2"),
            ("yeast-fold2", {"location": [["Y1", "L_2"]]}, "Y1"),
        )
    ]


@needs_data
@pytest.mark.parametrize(
    ("name", "folder", "query"),
    [
        ("uwcse", "uwcse", "Advisedby"),
        ("webkb", "webkb", "Faculty"),
        ("yeast", "yeast", "function"),
    ],
)
def test_the_real_worlds(tmp_path: Path, name: str, folder: str, query: str) -> None:
    worlds = converted(name, DATA / folder, tmp_path / "out")
    for path, world in zip(sorted((DATA / folder).glob("*.db")), worlds, strict=True):
        (read,) = srl.read(path)
        assert {**world["evidence"], **world["truth"]} == read.evidence
        assert world["truth"][query] == read.evidence[query]


# documents and opinions ----------------------------------------------------------------------------

LABELS = "".join(f"{n}\t{1 + n % 7}\n" for n in range(1, 17))
WORDS = "".join(f"{n}\t{1 + n % 7}:1 {20 + n}:1 \n" for n in range(1, 17))
LINKS = "1\t8\n8\t15\n3\t3\n"


def documents(folder: Path, **changes: str) -> Path:
    source = folder / "cora"
    source.mkdir()
    for end, text in {"labels": LABELS, "words": WORDS, "links": LINKS, **changes}.items():
        (source / f"cora.{end}").write_text(text)
    return source


def test_an_eighth_of_the_documents_is_asked_for(tmp_path: Path) -> None:
    examples = converted("cora-documents", documents(tmp_path), tmp_path / "out")
    assert [e["group"] for e in examples] == [*"12345678"]
    asked = Counter(document for e in examples for document, _ in e["query"]["HasCat"])
    assert asked == {str(n): 7 for n in range(1, 17)}
    first = examples[0]
    assert first["evidence"]["Link"] == [["1", "8"], ["8", "15"]]
    seen = {args[0] for args in map(arguments, first["evidence"]["HasCat"])}
    mine = {document for document, _ in first["query"]["HasCat"]}
    assert seen == {str(n) for n in range(1, 17)} - mine
    for document in mine:
        text = {
            arguments(atom)[1]: atom["value"]
            for atom in first["evidence"]["Text"]
            if atom["args"][0] == document
        }
        assert sum(text.values()) == pytest.approx(1.0)
        assert max(text, key=lambda each: text[each]) == f"c{1 + int(document) % 7}"
    found = ground(
        PAPERS / "searches" / "cora.psl",
        ["HasCat"],
        [decode(line) for line in (tmp_path / "out").read_bytes().splitlines()],
    )
    assert not found.failures


def arguments(atom: Any) -> list[Any]:
    return atom["args"] if isinstance(atom, dict) else atom


def test_an_eighth_of_the_opinions_is_asked_for(tmp_path: Path) -> None:
    opinions = {(str(n), str(n + 1)): n % 2 for n in range(16)}
    text = "".join(f"{a}\t{b}\t{value}\n" for (a, b), value in opinions.items())
    (tmp_path / "trusts.txt").write_text(text)
    examples = converted("epinions", tmp_path, tmp_path / "out")
    assert len(examples) == 8
    asked = [tuple(pair) for e in examples for pair in e["query"]["Trusts"]]
    assert sorted(asked) == sorted(opinions)
    for e in examples:
        assert len(e["evidence"]["Knows"]) == 16
        assert len(e["evidence"]["Trusts"]) == 14
        for atom in e["truth"]["Trusts"]:
            value = atom["value"] if isinstance(atom, dict) else 1
            assert value == opinions[tuple(arguments(atom))]  # type: ignore[index]


@needs_data
def test_the_real_documents_and_opinions(tmp_path: Path) -> None:
    examples = converted(
        "citeseer-documents", DATA / "psl" / "citeseer", tmp_path / "citeseer.jsonl"
    )
    assert sum(len(e["query"]["HasCat"]) for e in examples) == 3312 * 6
    opinions = converted("epinions", DATA / "psl" / "epinions", tmp_path / "epinions.jsonl")
    assert sum(len(e["query"]["Trusts"]) for e in opinions) == 8675


# mistakes ------------------------------------------------------------------------------------------


def test_a_mistake_is_named_with_its_place(tmp_path: Path) -> None:
    def convert(given: str) -> str:
        name, path, text = eval(given, globals())
        source = tmp_path / str(len([*tmp_path.iterdir()]))
        source.mkdir()
        if name == "citeseer":
            fold(source, FACTS, FIELDS)
        elif name == "webkb":
            fold(source, "student(ann).\n", "faculty(bob).\n", "faculty(ann).\n")
        elif name == "cora-documents":
            source = documents(source)
        elif name == "jester":
            for part in ("tr-obs", "tr-uno", "te-obs", "te-uno"):
                (source / f"jester-1-{part}-0.txt").write_text("")
            (source / "jokeTextSim.txt").write_text("")
        (source / path).write_text(text)
        return refusal(name, source, tmp_path / "out").replace(str(source), "FOLDER")

    check(Path(__file__).parent / "golden" / "mistakes.txt", convert)


@pytest.mark.parametrize("name", ["citeseer", "uwcse", "webkb", "cora", "yeast"])
def test_a_folder_without_data_is_an_error(tmp_path: Path, name: str) -> None:
    assert refusal(name, tmp_path, tmp_path / "out").startswith(f"{tmp_path}: expected ")


def test_a_missing_part_of_a_fold_is_named(tmp_path: Path) -> None:
    path = fold(tmp_path, "student(ann).\n", "faculty(bob).\n") / "fold1" / "test" / "test_neg.txt"
    path.unlink()
    assert refusal("webkb", tmp_path, tmp_path / "out").startswith(f"{path}: No such file")
