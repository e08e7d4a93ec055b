"""The weights of a run over records come from the records of its source, as ``fit`` estimates them."""

import csv
import json
from pathlib import Path

import pytest
import yaml

import onlinesrl as srl
from onlinesrl.runs import entity_weights
from tests.support.world_changes import encoded

ENTITIES = {"block": ["name", "born"], "compare": {"born": "edits", "name": "jaro_winkler"}}
NAMES = ["Anna Berg", "Bruno Carl", "Carla Diaz", "Dora Egli", "Emil Frei", "Fritz Graf"]


def written(path, names, rows):
    with path.open("w", newline="") as stream:
        csv.writer(stream).writerows([names, *rows])


def lists(job, **keys):
    """A run over two files of the same people with other columns; the second has typos and gaps."""
    values = {"query": "Same", "entities": ENTITIES, "metrics": {}, **keys}
    name = [{"arguments": ["Nr", "Name"]}, {"arguments": ["id", "full_name"]}]
    born = [{"arguments": ["Nr", "Born"]}, {"arguments": ["id", "birthday"]}]
    evidence = {"name": name, "born": born}
    source = {"path": ["first.csv", "second.csv"], "mapping": {"evidence": evidence}}
    run = job([], "lists", model="lists.mln", source=source, **values)
    first = [(f"A{n}", name, 1950 + 7 * n) for n, name in enumerate(NAMES)]
    second = [(n, name[:-1] if n % 2 else name, 1950 + 7 * n) for n, name in enumerate(NAMES)]
    second[2] = (2, "", 1964)
    written(run.folder / "first.csv", ("Nr", "Name", "Born"), first)
    written(run.folder / "second.csv", ("id", "full_name", "birthday"), second)
    rows = [(str(n), name or None, str(year)) for n, name, year in (*first, *second)]
    return run, {n: {"name": name, "born": born} for n, name, born in rows}


def test_two_files_become_entities_by_two_commands(job):
    run, rows = lists(job)
    model = run.folder / "lists.mln"
    assert run.run() == 78
    assert "`onlinesrl learn` writes one" in run.said
    assert run.call("learn", run.config) == 0, run.said
    assert "12, of which 0 have no key; 0 bad" in run.printed
    resolver = srl.EntityResolver(**ENTITIES).fit(rows)
    head, text = model.read_text().split("\n", 1)
    assert head.startswith("// Weights from 12 records and 0 labels")
    assert text == resolver.rules
    assert run.run() == 0, run.said
    table = [*csv.DictReader((run.output / "entities.csv").read_text().splitlines())]
    resolver.add(rows)
    assert {row["record"]: row["entity"] for row in table} == {r: resolver.entity(r) for r in rows}
    assert len(resolver.entities()) == 6
    for row in table:
        why = resolver.membership(row["record"])
        assert (row["probability"], row["nearest"]) == (f"{why.probability:.6f}", why.nearest or "")
    model.write_text("changed")
    assert run.call("learn", run.config) == 78
    assert "there is a model already; --fresh replaces it" in run.said
    assert model.read_text() == "changed"
    assert run.call("learn", run.config, "--fresh") == 0, run.said
    assert model.read_text() == f"{head}\n{text}"


def test_keys_and_comparisons_and_a_mapping_are_a_configuration(job):
    """All else is by default; a file of labels brings no warnings, a mistyped column does."""
    run, _ = lists(job)
    assert [run.call("learn", run.config), run.run()] == [0, 0], run.said
    values = yaml.safe_load(run.config.read_text())
    table = (run.output / "entities.csv").read_text()
    short = {key: values[key] for key in ("entities", "source")}
    path = run.folder / "short.yaml"
    path.write_text(json.dumps(short))
    output = run.folder / "short"
    assert run.call("run", path, "--set", f"output={output}") == 78
    assert "model: expected a file" in run.said
    assert "`onlinesrl learn` writes one" in run.said
    assert run.call("learn", path) == 0, run.said
    model = (run.folder / "lists.mln").read_text()
    assert (run.folder / "short.mln").read_text() == model
    assert run.call("run", path, "--set", f"output={output}") == 0, run.said
    assert (output / "entities.csv").read_text() == table
    assert run.call("run", path, "--set", "world=false") == 78
    assert "expected world: true" in run.said
    judged = [("A0", "0", "yes"), ("A1", "2", "no")]
    written(run.folder / "judged.csv", ("one", "other", "match"), judged)
    short["source"]["path"].append("judged.csv")
    rule = {"arguments": ["one", "other"], "value": "match"}
    for other, told in (("other", 0), ("othr", 1)):
        rule["arguments"][1] = other
        short["source"]["mapping"]["truth"] = {"Same": rule}
        path.write_text(json.dumps(short))
        limit = "limits.bad_share=1.0"
        assert run.call("learn", path, "--fresh", "--set", limit) == 0, run.said
        assert f"{2 * told} bad" in run.printed and f"{2 - 2 * told} labels" in run.printed
        assert run.said.count("optional rule") == told, run.said
        assert ("did you mean other?" in run.said) == told


def dead_letters(run):
    """The place and the reason of each bad row."""
    letters = run.lines("deadletter.jsonl")
    return [(f"{Path(x['file']).name}:{x['line']}", x["reason"]) for x in letters]


def test_rows_with_values_and_without_an_id_are_bad(job):
    """A row of nothing, an id alone, and a pair that nobody has judged yet say nothing."""
    run, _ = lists(job)
    judged = [("A0", "0", "yes"), ("", "2", "no"), ("A1", "", "no"), ("A1", "2", ""), ("", "", "")]
    written(run.folder / "judged.csv", ("one", "other", "match"), judged)
    with (run.folder / "second.csv").open("a") as stream:
        stream.write(",Gerd Hahn,1999\n,,\n7,,\n")
    values = yaml.safe_load(run.config.read_text())
    mapping = values["source"]["mapping"]
    mapping["truth"] = {"Same": {"arguments": ["one", "other"], "value": "match"}}
    mapping["evidence"]["list"] = [{"arguments": ["Nr", "=A"]}, {"arguments": ["id", "=B"]}]
    values["source"]["path"].append("judged.csv")
    values["entities"]["one_to_one"] = "list"
    values["limits"] = {"bad_share": 0.5}
    run.config.write_text(json.dumps(values))
    assert run.call("learn", run.config) == 0, run.said
    assert "13, of which 1 have no key; 3 bad" in run.printed
    assert run.run() == 0, run.said
    lacks = "expected a value, found null"
    assert dead_letters(run) == [
        ("second.csv:8", f"mapping.evidence.born: id: {lacks}"),
        ("judged.csv:3", f"mapping.truth.Same: one: {lacks}"),
        ("judged.csv:4", f"mapping.truth.Same: other: {lacks}"),
    ]


def test_a_row_of_an_id_that_has_values_and_no_record_withdraws_nothing(job):
    run, _ = lists(job)
    rows = [
        {"key": 1, "who": "p", "name": "Anna", "born": "1950"},
        {"key": 1, "who": None, "name": "Ana"},
        {"key": 1, "who": " ", "name": "Ana"},
        {"key": 2, "who": "q", "name": "Ana"},
        {"key": 2, "who": "q"},
        {"key": 3, "one": "", "other": "p"},
    ]
    evidence = {column: {"arguments": ["who", column]} for column in ("name", "born")}
    evidence["Same"] = {"arguments": ["one", "other"]}
    source = {"path": "source.jsonl", "mapping": {"id": "key", "evidence": evidence}}
    assert run.call("learn", run.config) == 0, run.said
    values = {"model": str(run.folder / "lists.mln"), "entities": ENTITIES}
    values |= {"query": "Same", "metrics": {}, "limits": {"bad_share": 1.0}}
    run = job(encoded(rows), "keyed", source=source, **values)
    assert run.run() == 0, run.said
    empty = "has an empty id, expected text"
    assert dead_letters(run) == [
        ("source.jsonl:2", "mapping.evidence.name: who: expected a value, found null"),
        ("source.jsonl:3", f"evidence: name( , Ana) {empty}"),
        ("source.jsonl:6", f"evidence: Same(, p) {empty}"),
    ]
    assert (run.output / "entities.csv").read_text().splitlines()[1:] == ["p,p,1.000000,"]


def row(record, name, born):
    return {"id": record, "evidence": {"name": [[record, name]], "born": [[record, born]]}}


def test_weights_are_those_of_the_records_and_labels_that_are_left(job, monkeypatch):
    """Corrections, withdrawals, labels of evidence and of truth, and bad records, which are told."""
    monkeypatch.setattr(entity_weights, "SHOWN", 1)

    def label(part, a, b, value):
        return {part: {"Same": [{"args": [a, b], "value": value}]}}

    lines = [row(f"r{n}", NAMES[n % 6], str(1950 + n % 6)) for n in range(12)]
    lines += [row("r1", "Bruno Karl", "1951"), row("gone", "Anna Berg", "1950"), {"id": "gone"}]
    lines += [{"id": "l1", **label("truth", "r0", "r6", 1)}]
    lines += [{"id": "l2", **label("evidence", "r2", "r8", 0)}]
    lines += [{"id": "l3", **label("truth", "r3", "r9", 1)}, {"id": "l3"}]
    lines += [{"id": "b", "query": {"Same": [["r0", "r1"]]}}, {"no": "record"}]
    values = {"world": True, "query": "Same", "entities": ENTITIES, "model": "new.mln"}
    run = job(encoded(lines), "changes", **values)
    assert run.call("learn", run.config) == 0, run.said
    assert "2 bad" in run.printed and "2 labels" in run.printed
    assert run.said.count("source.jsonl:") == 1 and "leave `query` out" in run.said
    rows = {
        x["id"]: {column: atoms[0][1] for column, atoms in x["evidence"].items()}
        for x in lines[:13]
    }
    fitted = srl.EntityResolver(**ENTITIES).fit(rows, [("r0", "r6")], [("r2", "r8")])
    assert (run.folder / "new.mln").read_text().split("\n", 1)[1] == fitted.rules
    assert run.call("learn", run.config, "--fresh", "--set", "limits.bad_share=0.05") == 65
    assert "2 of 21 records are bad, more than limits.bad_share" in run.said


@pytest.mark.parametrize("lines", [[], [row("p", "Anna", "1950"), row("q", "Bruno", "1970")]])
def test_records_without_a_common_key_teach_nothing(job, lines):
    values = {"world": True, "query": "Same", "entities": ENTITIES, "model": "new.mln"}
    run = job(encoded(lines), "apart", **values)
    assert run.call("learn", run.config) == 65
    assert f"none of {len(lines)} records has a key in common" in run.said
    assert not (run.folder / "new.mln").exists()


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("entities=null", "entities"),
        ("model=people.psl", "model: the weights are Markov logic, expected people.mln"),
        (
            "entities.one_to_one=sorce",
            "no rule of evidence gives sorce, a column of entities, a value",
        ),
        (
            "source.mapping.evidence.nam=[{arguments: [Nr, Name]}]",
            "source.mapping.evidence.nam: no predicate of the model; expected one of born, name, Same",
        ),
    ],
)
def test_what_does_not_fit_is_said_before_a_model_is_written(job, override, says):
    run, _ = lists(job)
    assert run.call("learn", run.config, "--set", override) == 78
    assert says in run.said
    assert not {*run.folder.glob("*.mln"), *run.folder.glob("*.psl")}
