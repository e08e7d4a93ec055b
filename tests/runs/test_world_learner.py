"""A run over one world: the answer is that of a fresh world with the same facts, whatever came before."""

import json
import shutil

import pytest

import onlinesrl as srl
from onlinesrl.runs import world_learner
from tests.support import world_changes
from tests.support.world_changes import BAD, changes


def followed(lines):
    """The last value of each atom by the lines of a run's output; None: it is gone."""
    values = {}
    for line in lines:
        if "predicate" in line:
            atom = line["predicate"], tuple(line["args"])
            assert values.get(atom) == line["old"]
            values[atom] = line["value"]
    return {atom: value for atom, value in values.items() if value is not None}


def facts_of(lines):
    """The facts after changes, by their definition: the newest value that somebody asserts, else a target."""
    asserted, time = {}, 0
    for line in lines:
        if any(line is bad for bad in BAD):
            continue
        key = line.get("id")
        before = {fact: entry for fact, entry in asserted.items() if fact[0] == key and key}
        now = {}
        for part in ("evidence", "add", "set", "query"):
            for name, rows in line.get(part, {}).items():
                for row in rows:
                    args, value = (
                        (row, 1.0) if isinstance(row, list) else (row["args"], row["value"])
                    )
                    now[key, name, *args] = None if part == "query" else value
        for name, rows in line.get("remove", {}).items():
            for row in rows:
                del asserted[key, name, *row]
        for fact in before.keys() - now.keys():
            del asserted[fact]
        for fact, value in now.items():
            time += 1
            if asserted.get(fact, ("", 0))[0] != value:
                asserted[fact] = value, time
    facts = {}
    for (_, *atom), (value, _) in sorted(asserted.items(), key=lambda entry: entry[1][1]):
        if value is not None or tuple(atom) not in facts:
            facts[tuple(atom)] = value
    return facts


@pytest.mark.parametrize("soft", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_the_answer_is_that_of_a_new_world(world_run, soft, seed):
    lines = changes(150, soft, seed)
    run = world_run(lines, soft)
    assert run.run() == 0, run.said
    model = srl.Model(world_changes.PSL if soft else world_changes.MLN, "psl" if soft else "mln")
    world = srl.World(model, "Good", skip=soft)
    given, query = {}, {}
    for (name, *args), value in facts_of(lines).items():
        if value is None:
            query.setdefault(name, []).append(args)
        else:
            given.setdefault(name, []).append({"args": args, "value": value})
    world.apply(
        set={n: {tuple(r["args"]): r["value"] for r in rows} for n, rows in given.items()},
        query=query,
    )
    expected = {("Good", (*args,)): value for *args, value in world.answer().tables["Good"].rows()}
    values = followed(run.lines("predictions.jsonl"))
    assert values.keys() == expected.keys()
    for atom, value in expected.items():
        assert values[atom] == pytest.approx(value, abs=0.01 if soft else 0)
    summary = json.loads((run.output / "summary.json").read_bytes())
    assert summary["bad"] == sum(any(line is bad for bad in BAD) for line in lines) > 0
    assert summary["certified"] == len(lines) - summary["bad"]


@pytest.mark.parametrize("soft", [True, False])
def test_a_run_that_stops_and_goes_on_gives_the_same_bits(world_run, monkeypatch, soft):
    """Wherever it stops, between renewals of the world and after them."""
    monkeypatch.setattr(world_learner, "RENEWAL", 7)
    lines = changes(60, soft, 4)
    run = world_run(lines, soft)
    assert run.run() == 0, run.said
    unbroken = run.results()
    shutil.rmtree(run.output)
    for until in (3, 7, 20, 33, 34):
        assert run.run("--until", str(until)) == 0, run.said
    assert run.run() == 0, run.said
    assert run.results() == unbroken


def test_a_world_refuses_what_is_for_examples(world_run):
    for keys, word in (
        ({"labels": {}}, "labels"),
        ({"drift": {}}, "drift"),
        ({"sink": {"kind": "parquet"}}, "sink.kind"),
        ({"inference": {"engine": "walksat"}}, "inference.engine"),
    ):
        run = world_run([], False, word, **keys)
        assert run.run() == 78
        assert f"{word}: " in run.said
        assert "world" in run.said
