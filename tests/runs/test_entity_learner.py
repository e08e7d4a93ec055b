"""A run over records: the entities are those of a new resolver, told one by one, whatever came before."""

import csv
import json
import random
import re
import shutil

import numpy as np
import pytest
from conftest import tiers

from onlinesrl.runs import keyed_world
from onlinesrl.runs.config.loading import load
from onlinesrl.runs.run import new_learner
from tests.entities.test_entity_world import RULES, section, world
from tests.support.serving import Served
from tests.support.world_changes import encoded

NAMES = [f"r{n}" for n in range(12)]
SOFT = [line.partition(" ")[2] for line in RULES.splitlines()[4:9]]
PAIRS = [("r1", "r0"), ("r1", "r2"), ("r0", "r2"), ("r3", "r4"), ("r4", "r5")]


def people(job, lines, tmp_path, name="run", **keys):
    model = tmp_path / "people.mln"
    model.write_text(RULES)
    entities = section(one_to_one="source").model_dump(exclude_unset=True)
    values = {"limits": {"bad_share": 1.0, "crashes": 0}, "metrics": {}, "learner": {}}
    values |= {"model": str(model), "query": "Same", "world": True, "entities": entities}
    return job(encoded(lines), name, **values | keys)


def drawn(count, seed, part="evidence"):
    """Records that come, are corrected and go, and labels, some of them before their records."""
    rng, lines = random.Random(seed), []
    for n in range(count):
        record, action = rng.choice(NAMES), rng.random()
        if action < 0.6:
            row = {c: [[record, rng.choice("xyz")]] for c in ("a", "b", "key", "source")}
            lines.append({"id": record, "evidence": row})
        elif action < 0.75:
            lines.append({"id": record})
        else:
            label = {"args": PAIRS[n % 5], "value": int(rng.random() < 0.7)}
            lines.append({"id": f"label {n % 5}", part: {"Same": [label]}})
    return lines


def told(lines):
    """The entity of each record, by the lines of a run's output."""
    entity = {}
    for line in lines:
        if "predicate" in line:
            record, name = line["args"]
            if line["value"] is None:
                assert entity.pop(record) == name
            else:
                assert record not in entity
                assert 0 < line["probability"] <= 1
                entity[record] = name
    return entity


@pytest.mark.parametrize("seed", range(2))
def test_the_entities_are_those_of_a_new_resolver(job, tmp_path, seed):
    lines = drawn(120, seed)
    run = people(job, lines, tmp_path)
    assert run.run() == 0, run.said
    bad = {letter["line"] for letter in run.lines("deadletter.jsonl")}
    assert "cannot all hold" in str(run.lines("deadletter.jsonl"))
    rows, labels = {}, {}
    for number, line in enumerate(lines, 1):
        evidence = line.get("evidence", {})
        if number in bad:
            continue
        if line["id"] not in NAMES:
            labels[PAIRS[int(line["id"][-1])]] = evidence["Same"][0]["value"]
        elif evidence:
            rows[line["id"]] = {column: args[0][1] for column, args in evidence.items()}
        else:
            rows.pop(line["id"], None)
    cold = world(one_to_one="source").resolver
    cold.add(rows)
    for (a, b), value in labels.items():
        if {a, b} <= rows.keys():
            cold.label(a, b, value == 1)
    assert told(run.lines("predictions.jsonl")) == {name: cold.entity(name) for name in rows}
    last = run.lines("metrics.jsonl")[-1]
    assert (last["entities"], last["keyless"]) == (len(cold.entities()), 0)
    report = (run.output / "report.html").read_text()
    assert "Entities by size" in report and "Least certain" in report


@tiers("kills", 1, 30)
def test_stops_and_kills_leave_no_trace(job, tmp_path, monkeypatch, kills):
    """Within and after renewals, with labels that are learned from, and records that are refused."""
    monkeypatch.setattr(keyed_world, "RENEWAL", 7)
    keys = {"checkpoint": {"every": 7}, "learner": {"update": "second-order"}}
    run = people(job, drawn(90, 5, "truth"), tmp_path, **keys)
    assert run.run() == 0, run.said
    unbroken = run.results()
    assert run.lines("deadletter.jsonl")
    assert run.lines("metrics.jsonl")[-1]["updates"] >= 5
    told(run.lines("predictions.jsonl"))
    shutil.rmtree(run.output)
    for until in (3, 8, 20, 33, 61):
        assert run.run("--until", str(until)) == 0, run.said
    assert run.run() == 0, run.said
    assert run.results() == unbroken
    run.survives(kills, "entities")


def test_labels_move_the_weights_of_the_levels_that_a_pair_has(job, tmp_path):
    """Also those of pairs that nothing joins."""
    rows = {"p": "xx", "q": "xx", "r": "yz"}
    lines = {
        n: {"id": n, "evidence": {"a": [[n, a]], "b": [[n, b]], "key": [[n, "k"]]}}
        for n, (a, b) in rows.items()
    }
    weights = [float(line.split()[0]) for line in RULES.splitlines()[4:9]]
    for pair, value, moved in (("qp", 0, {0: -1, 1: -1, 3: -1}), ("rp", 1, {0: 1, 2: 1, 4: 1})):
        label = {"Same": [{"args": [*pair], "value": value}]}
        learner = {"update": "log-likelihood"}
        changes = [*map(lines.get, pair), {"id": "label", "truth": label}]
        run = people(job, changes, tmp_path, pair, learner=learner)
        assert run.run() == 0, run.said
        text = (run.output / "weights.mln").read_text()
        after = [float(re.search(rf"^(\S+) {re.escape(rule)}$", text, re.M)[1]) for rule in SOFT]
        signs = {n: np.sign(a - b) for n, (a, b) in enumerate(zip(after, weights, strict=True))}
        assert {n: sign for n, sign in signs.items() if sign} == moved


def test_a_run_starts_with_the_weights_of_another(job, tmp_path):
    lines = drawn(40, 5)
    first = people(job, lines, tmp_path)
    text = (tmp_path / "people.mln").read_text()
    weights = tmp_path / "learned.mln"
    declared, rules = text.splitlines()[:4], text.splitlines()[4:]
    weights.write_text("\n".join([*declared, *reversed(rules)]).replace("1.3 A", "-1.3 A"))
    run = people(job, lines, tmp_path, "started", learner={"start": str(weights)})
    assert (first.run(), run.run()) == (0, 0), run.said
    (tmp_path / "people.mln").write_text(text.replace("1.3 A", "-1.3 A"))
    other = people(job, lines, tmp_path, "other")
    (tmp_path / "people.mln").write_text(text.replace("1.3 A", "-1.3 A"))
    assert other.run() == 0, other.said
    assert run.lines("predictions.jsonl") == other.lines("predictions.jsonl")
    assert run.lines("predictions.jsonl") != first.lines("predictions.jsonl")


def test_what_a_client_sends_is_answered_with_reasons(job, tmp_path):
    run = people(job, [], tmp_path)
    served = Served(run)

    def row(record, a):
        values = {"a": [[record, a]], "b": [[record, "x"]], "key": [[record, "k"]]}
        return {"id": record, "evidence": values}

    answers = []
    for line in (row("p", "x"), row("q", "x"), row("r", "y")):
        answers += served.post("/changes", encoded([line]))
    entity = {"predicate": "Entity", "args": ["q", "p"], "value": 1.0, "old": None}
    why = {"nearest": "p", "levels": {"a": "Exact", "b": "Exact"}}
    assert answers[1]["changed"] == [entity | {"probability": 0.858149} | why]
    (asked,) = json.loads(served.ask("GET", "/entities?record=q")[1])
    assert asked["records"] == ["p", "q"]
    assert {key: asked[key] for key in why} == why
    status, text = served.ask("GET", "/entities?record=z")
    assert (status, "there is no record 'z'" in text.decode()) == (422, True)
    assert served.ask("GET", "/entities")[0] == 400
    status, text = served.ask("GET", "/explain?atom=Entity(q,p)", Accept="text/plain")
    assert (status, text.decode().splitlines()) == (
        200,
        [
            "Entity(q, p): 2 records: p, q",
            "  p - q: +1.800 = -0.400, a Exact +1.300, b Exact +0.900",
        ],
    )
    (explained,) = json.loads(served.ask("GET", "/explain?atom=Entity(q,p)")[1])
    (link,) = explained["links"]
    assert link["levels"][0] == {"column": "a", "level": "Exact", "weight": 1.3}
    label = {"id": "label", "evidence": {"Same": [{"args": ["q", "p"], "value": 0}]}}
    (answer,) = served.post("/changes", encoded([label]))
    assert [atom["args"] for atom in answer["changed"]] == [["q", "p"], ["q", "q"]]
    status, text = served.ask("GET", "/explain?atom=Same(p,q)")
    assert (status, "since a label says so" in text.decode()) == (422, True)
    (answer,) = served.post("/changes", encoded([{"id": "label"}]))
    assert [atom["args"] for atom in answer["changed"]] == [["q", "q"], ["q", "p"]]
    assert served.stop() == 0, run.said
    assert run.call("explain", run.output, "--atom", "Same(q, p)") == 0, run.said
    assert "Same(p, q)" in run.printed
    assert run.call("explain", run.output) == 0, run.said


def test_examples_need_each_way_to_an_answer(job, tmp_path):
    """So `warm` compiles what a run needs; also where the rules say little."""
    learner = new_learner(
        load(people(job, [], tmp_path, learner={"update": "second-order"}).config)
    )
    outcomes, tally = learner.step([*learner.examples()])
    assert all(outcome.prediction for outcome in outcomes)
    assert tally.routes.keys() >= {"incremental", "elimination", "ilp"}
    assert learner.weights.updates > 5


def test_tries_bound_the_trials_of_an_explanation(job, tmp_path):
    lines = [{"id": n, "evidence": {"a": [[n, "x"]], "key": [[n, "k"]]}} for n in "pqrs"]
    run = people(job, lines, tmp_path)
    assert run.run() == 0, run.said
    for atom, tries, says in (
        ("Entity(q, p)", "0", "one of 4 other records splits it was not tried"),
        ("Entity(q, p)", "1", "one of 3 other records splits it was not tried"),
        ("Entity(q, p)", "9", "no record alone splits it"),
        ("Same(p, q)", "1", "the search ended among the changes of one of 2 records"),
        ("Same(p, q)", "9", "no change of the 2 records that could matter flips it"),
    ):
        assert run.call("explain", run.output, "--atom", atom, "--tries", tries) == 0, run.said
        assert says in run.printed
    assert run.call("explain", run.output, "--atom", "Same(p, q)", "--tries", "0") == 0
    assert "flip" not in run.printed
    change = ("--atom", "Same(p, q)", "--change", "A(p, x)")
    assert run.call("explain", run.output, *change) == 64
    assert "an explanation of a world changes no facts" in run.said


def test_a_correction_under_another_id_is_told(job, tmp_path):
    lines = [{"id": n, "evidence": {"a": [["p", a]], "key": [["p", "k"]]}} for n, a in ("1x", "2y")]
    run = people(job, lines, tmp_path)
    assert run.run() == 0, run.said
    (letter,) = run.lines("deadletter.jsonl")
    assert letter["line"] == 2
    assert "two values of a, 'x' and 'y'; a later value corrects" in letter["reason"]
    assert run.lines("metrics.jsonl")[-1]["entities"] == 1


def test_a_label_of_a_record_that_is_not_there_is_told_as_not_learned_from(job, tmp_path):
    label = {"id": "label", "truth": {"Same": [{"args": ["p", "q"], "value": 1}]}}
    run = people(job, [label], tmp_path)
    assert run.run() == 0, run.said
    assert "not learned from: 1, since a record was not there yet" in run.said


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"world": False}, "entities: records are the facts of a world"),
        ({"world": "keep_conflicts"}, "entities: records are the facts of a world"),
        ({"query": "Pair"}, "query: expected Same"),
        ({"entities": {"block": ["b"], "compare": {"a": "soundex"}}}, "entities.compare.a"),
        ({"entities": {"block": [], "compare": {"a": "exact"}}}, "entities.block is []"),
        (
            {"entities": {"block": ["b"], "compare": {"a": "exact"}}},
            "with this section; `onlinesrl learn --fresh` writes these",
        ),
    ],
)
def test_what_does_not_fit_is_said(job, tmp_path, keys, says):
    run = people(job, drawn(3, 0), tmp_path, **keys)
    assert run.run() in (64, 78)
    assert says in run.said


def test_a_key_that_too_many_share_is_a_dead_letter_with_its_name(job, tmp_path):
    lines = [{"id": n, "evidence": {"a": [[n, "x"]], "key": [[n, "k"]]}} for n in "pqrs"]
    entities = section().model_dump(exclude_unset=True) | {"largest": 3}
    run = people(job, lines, tmp_path, entities=entities)
    assert run.run() == 0, run.said
    (letter,) = run.lines("deadletter.jsonl")
    assert letter["line"] == 4
    assert "the block key = 'k' has 3 records" in letter["reason"]


def test_bad_records_say_what_is_wrong(job, tmp_path):
    """A label against those that tie records together, an asked atom, and two values of a column."""

    def label(a, b, value):
        return {"evidence": {"Same": [{"args": [a, b], "value": value}]}}

    rows = [{"id": n, "evidence": {"a": [[n, "x"]]}} for n in "pqr"]
    labels = [{"id": "1", **label("q", "p", 1)}, {"id": "2", **label("q", "r", 1)}]
    bad = [{"id": "3", **label("p", "r", 0)}, {"id": "4", "query": {"Same": [["p", "q"]]}}]
    bad += [{"id": "s", "evidence": {"a": [["s", "x"], ["s", "y"]]}}]
    run = people(job, [*rows, *labels, *bad], tmp_path)
    assert run.run() == 0, run.said
    letters = run.lines("deadletter.jsonl")
    assert [letter["line"] for letter in letters] == [6, 7, 8]
    reasons = [letter["reason"] for letter in letters]
    assert "cannot all hold; without any one of them the others can" in reasons[0]
    facts = reasons[0].rpartition("the facts ")[2].split("; ")
    assert {*facts} == {"!Same(p, r)", "Same(p, q)", "Same(q, r)"}
    assert "leave `query` out" in reasons[1]
    assert "record 's' has two values of a, 'x' and 'y'" in reasons[2]
    last = run.lines("metrics.jsonl")[-1]
    assert last["errors"] == {"infeasible": 1, "not_open": 1, "schema": 1}
    assert (last["entities"], last["keyless"]) == (1, 3)  # none has a key
    rows = [*csv.DictReader((run.output / "entities.csv").read_text().splitlines())]
    assert [(row["record"], row["entity"]) for row in rows] == [("p", "p"), ("q", "p"), ("r", "p")]
