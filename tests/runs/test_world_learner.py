"""A run over one world: the answer is that of a fresh world with the same facts, whatever came before."""

import json
import random
import shutil
import signal

import pytest

import onlinesrl as srl
from onlinesrl.core.errors import Unsolved
from onlinesrl.mln.ground.model_index import EAGER
from onlinesrl.mln.online.learner import MlnOnlineLearner
from onlinesrl.mln.query.incremental_world import MlnWorld
from onlinesrl.psl.online.learner import PslOnlineLearner
from onlinesrl.runs import keyed_world
from onlinesrl.runs.run import load_checkpoint
from tests.support import world_changes
from tests.support.world_changes import BAD, changes

BEST = {"inference": {"engine": "mpe", "best": 3}}


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


@pytest.mark.parametrize(("soft", "listed"), [(True, True), (False, False), (False, True)])
@pytest.mark.parametrize("seed", range(3))
def test_the_answer_is_that_of_a_new_world(world_run, soft, listed, seed):
    lines = changes(150, soft, seed, listed=listed)
    run = world_run(lines, soft, **({} if soft or not listed else {"targets": "listed"}))
    assert run.run() == 0, run.said
    model = srl.Model(world_changes.PSL if soft else world_changes.MLN, "psl" if soft else "mln")
    world = srl.World(model, "Good", targets="skip" if soft else "listed" if listed else None)
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


def test_the_next_best_states_are_those_of_a_new_world(world_run):
    """They are on the last line of each record; nothing else changes, nor what is learned."""
    lines = changes(90, False, 3)
    for n in range(5):
        pairs = {"Rates": [[f"x{n}", f"y{n}"]]}
        lines.insert(11 * n, {"id": f"k{n}x", "evidence": pairs, "truth": {"Good": [[f"x{n}"]]}})
    lines.append({"add": {"Rates": [["y", "z"]]}})
    runs = {}
    for name, more in (("plain", {}), ("best", BEST)):
        runs[name] = world_run(lines, False, name, learner={"update": "cda2"}, **more)
        assert runs[name].run() == 0, runs[name].said
    listed = runs["best"].lines("predictions.jsonl")
    best = [line.pop("best", None) for line in listed]
    assert listed == runs["plain"].lines("predictions.jsonl")
    weights = [(run.output / "weights.mln").read_bytes() for run in runs.values()]
    assert weights[0] == weights[1]
    following = [*listed[1:], {"id": None}]
    for line, after, states in zip(listed, following, best, strict=True):
        if states is not None:
            assert "predicate" in line
        elif "predicate" in line:
            assert (after.get("id"), "predicate" in after) == (line["id"], True)

    trained = srl.Model.read(runs["best"].output / "weights.mln")
    world = srl.World(trained, "Good", inference={"best": 3})
    given = {}
    for (name, *args), value in facts_of(lines).items():
        given.setdefault(name, {})[tuple(args)] = value
    for line in lines:
        for row in line.get("truth", {}).get("Good", ()):
            given.setdefault("Good", {})[tuple(row)] = 1.0
    world.apply(set=given)
    _, *others = world.answer().best
    assert len(best[-1]) == len(others) == 2
    for row, other in zip(best[-1], others, strict=True):
        stats, changed = other.stats, {}
        for key, value in (("true", 1), ("false", 0)):
            for name, rows in row.get(key, {}).items():
                changed |= {f"{name}({', '.join(args)})": value for args in rows}
        assert changed == stats["changes"]
        assert row["certified"] and row["rank"] == stats["rank"]
        assert row["difference"] == pytest.approx(stats["difference"], abs=1e-6)
        assert row["score"] == pytest.approx(stats["score"], abs=1e-6)


def test_targets_may_come_alone(world_run):
    lines = [{"query": {"Good": [["a"], ["b"]]}}, {"add": {"Rates": [["a", "b"]]}}, {"query": {}}]
    run = world_run(lines, False, targets="listed")
    assert run.run() == 0
    assert followed(run.lines("predictions.jsonl")) == {("Good", ("a",)): 0, ("Good", ("b",)): 1}
    assert [letter["line"] for letter in run.lines("deadletter.jsonl")] == [3]


NOBODY = "!Good(x) v !Warns(x, x).\nGood(x) v !Warns(x, x).\n"


@pytest.mark.parametrize("soft", [True, False])
def test_a_run_that_stops_and_goes_on_gives_the_same_bits(world_run, monkeypatch, tmp_path, soft):
    """Wherever it stops, between renewals of the world and after them, and after records it refused.

    However many it refuses in succession, a checkpoint has no more steps than there are between renewals.
    """
    monkeypatch.setattr(keyed_world, "RENEWAL", 7)
    kind = "psl" if soft else "mln"
    hard = "!Good(A) | !Warns(A, A) .\nGood(A) | !Warns(A, A) ." if soft else NOBODY
    model = tmp_path / f"hard.{kind}"
    model.write_text((world_changes.PSL if soft else world_changes.MLN) + hard)
    lines = changes(60, soft, 4)
    for n, record in enumerate([*lines[::5]]):
        truth = {"Good": [{"args": ["abcdefgh"[n % 8]], "value": n % 2}]}
        lines.insert(6 * n, {"id": f"refused {n}", "evidence": {"Warns": [["a", "a"]]}})
        lines.insert(6 * n, {**record, "id": f"label {n}", "truth": truth})
        lines[6 * n].pop("remove", None)
    lines += [{"id": n, "evidence": {"Warns": [["a", "a"]]}} for n in range(9)]
    best = {} if soft else BEST
    run = world_run(lines, soft, model=str(model), learner={"update": "cda2"}, **best)
    assert run.run() == 0, run.said
    assert "cannot all hold" in str(run.lines("deadletter.jsonl"))
    unbroken = run.results()
    assert len(load_checkpoint(run.output).header["learner"]["world"]["facts"]["since"]) < 7
    shutil.rmtree(run.output)
    for until in (3, 7, 20, 33, 34, 61, 80):
        assert run.run("--until", str(until)) == 0, run.said
    assert run.run() == 0, run.said
    assert run.results() == unbroken


SAME = """Alike(user, user): real
Same(user, user)
1 Alike(x, y) ^ Same(x, y)
Same(x, y) => Same(y, x).
Same(x, y) ^ Same(y, z) => Same(x, z).
"""


def test_a_run_with_a_rule_that_is_ground_as_far_as_needed_goes_on_to_the_same_bits(
    world_run, monkeypatch, tmp_path
):
    """Many states have the same score: which one is given follows from what was ground before."""
    monkeypatch.setattr(keyed_world, "RENEWAL", 5)
    monkeypatch.setitem(EAGER, "auto", 20)  # of more than two users, see the guide
    (model := tmp_path / "same.mln").write_text(SAME)
    rng, lines = random.Random(0), list[dict]()
    for n in range(70):
        one, other = rng.sample("abcdef", 2)
        pair = {"args": [one, other]}
        alike = {"Alike": [pair | {"value": rng.choice([-1, 1, 1, 2])}]}
        refused = {"Same": [pair | {"value": 1}, {"args": [other, one], "value": 0}]}
        match n % 7:
            case 2:
                lines.append({"id": f"k{n}", "evidence": alike | refused})
            case 4:
                lines.append({"id": f"k{rng.randrange(n)}"})
            case 6:
                lines.append({"evidence": {}, "truth": {"Same": [pair | {"value": n % 2}]}})
            case _:
                lines.append({"id": f"k{n}", "evidence": alike})
    keys = {"query": "Same", "learner": {"update": "cda2"}, **BEST}
    run = world_run(lines, False, model=str(model), **keys)
    assert run.run() == 0, run.said
    assert "cannot all hold" in str(run.lines("deadletter.jsonl"))
    followed(run.lines("predictions.jsonl"))
    unbroken = run.results()
    shutil.rmtree(run.output)
    for until in (3, 12, 20, 33, 34, 51, 64):
        assert run.run("--until", str(until)) == 0, run.said
    assert load_checkpoint(run.output).arrays["world_partial"].size > 100
    assert run.run() == 0, run.said
    assert run.results() == unbroken


def test_a_world_refuses_what_is_for_examples(world_run):
    run = world_run(changes(9, soft=False), False)
    assert run.run() == 0
    for command in (["predict", run.output], ["evaluate", run.output], ["compare"]):
        assert run.call(*command, run.config) == 78
        assert "world: predictions and scores are of examples" in run.said


@pytest.mark.parametrize("soft", [True, False])
def test_truth_is_learned_from_as_that_of_an_example_of_the_whole_world(world_run, soft):
    """Beside what the truth moves nothing changes, so a part of the world teaches what the whole does."""
    rng = random.Random(2)
    pairs = [rng.sample("abcdefghij", 2) for _ in range(16)]
    facts = {"Rates": pairs[:12], "Warns": pairs[12:]}
    users = sorted({user for pair in pairs for user in pair})
    begin = {"id": "begin", "evidence": facts}
    begin |= {"query": {"Good": [[user] for user in users]}} if soft else {}
    truths = [(user, float(rng.random() < 0.5)) for user in rng.sample(users, 6)]
    lines = [begin]
    for user, value in truths:
        lines.append({"id": user, "truth": {"Good": [{"args": [user], "value": value}]}})
    run = world_run(lines, soft, learner={"update": "cda2"})
    assert run.run() == 0, run.said
    model = srl.Model(world_changes.PSL if soft else world_changes.MLN, "psl" if soft else "mln")
    learner = srl.OnlineLearner(model, "Good", update="cda2")
    known, left = {}, [*users]
    for user, value in truths:
        left.remove(user)
        learner.learn_one(
            {**facts, "Good": {(name,): known[name] for name in known}},
            {"Good": {(user,): value}},
            query={"Good": [[name] for name in [user, *left]]},
            unlabelled={"Good": [[name] for name in left]},
        )
        known[user] = value
    expected, values = (
        [rule.weight for rule in weights.rules if not rule.hard]
        for weights in (
            srl.Model(learner.weights_text(), "psl" if soft else "mln"),
            srl.Model.read(next(run.output.glob("weights.*"))),
        )
    )
    assert values == pytest.approx(expected, abs=1e-4 if soft else 1e-12)
    assert run.lines("metrics.jsonl")[-1]["labelled"] == len(truths)
    original = [rule.weight for rule in model.rules if not rule.hard]
    assert max(abs(a - b) for a, b in zip(original, expected, strict=True)) > 0.05


def test_changes_of_a_database_are_changes_of_the_world(world_run):
    """A row asserts its facts until it is updated or deleted, as Debezium tells."""

    def row(number, rater, rated, kind="Rates"):
        return {"number": number, "rater": rater, "rated": rated, "warns": kind == "Warns"}

    first, second, third = row(1, "a", "b"), row(2, "b", "c"), row(2, "b", "c", "Warns")
    rows = [
        {"op": "r", "before": None, "after": first},
        {"payload": {"op": "c", "before": None, "after": second}},
        {"op": "u", "before": second, "after": third},
        {"op": "d", "before": first, "after": None},
        {"op": "d", "before": None, "after": None},
    ]
    rates, warns = {"arguments": ["rater", "rated"]}, {"arguments": ["rater", "rated"]}
    mapping = {"id": "number", "evidence": {"Rates": rates, "Warns": warns | {"value": "warns"}}}
    run = world_run(
        rows, False, source={"path": "source.jsonl", "envelope": "debezium", "mapping": mapping}
    )
    assert run.run() == 0, run.said
    (letter,) = run.lines("deadletter.jsonl")
    assert "op 'd' and without a key" in letter["reason"]
    plain = [{"id": "1", "evidence": {"Rates": [["a", "b"]]}}]
    for kind in (0, 1):
        warns = {"args": ["b", "c"], "value": kind}
        plain.append({"id": "2", "evidence": {"Rates": [["b", "c"]], "Warns": [warns]}})
    plain.append({"id": "1"})
    other = world_run(plain, False, "plain")
    assert other.run() == 0, other.said
    lines = [line for line in run.lines("predictions.jsonl") if "predicate" in line]
    assert lines == other.lines("predictions.jsonl")
    assert any(line["value"] is None for line in lines)


HARD = """
Banned(user)
Knows(user, user)
Good(user)
!Banned(x) v !Good(x).
1 Knows(x, y) ^ Good(x) => Good(y)
"""


def test_background_facts_are_facts_of_the_world(world_run, tmp_path):
    """They are asserted once, and no id replaces them; truth is learned from as beside any facts."""
    (tmp_path / "rates.db").write_text("Rates(A, B)\nRates(B, C)\nWarns(A, D)\n")
    ids = ["k", "source.background", "None", "null"]
    lines = [{"id": "bad", "evidence": {"Praises": [["C", "D"]]}}]
    lines += [{"id": name, "evidence": {"Rates": [["C", "D"]]}} for name in ids]
    lines += [{"id": f"truth {name}", "truth": {"Good": [[name]]}} for name in "BD"]
    beside = {"Rates": [["A", "B"], ["B", "C"]], "Warns": [["A", "D"]]}
    keys = {"learner": {"update": "cda2"}}
    source = {"path": "source.jsonl", "background": str(tmp_path / "rates.db")}
    run = world_run(lines, False, source=source, **keys)
    other = world_run([{"id": "facts", "evidence": beside}, *lines], False, "other", **keys)
    assert run.run() == other.run() == 0, (run.said, other.said)
    assert (run.output / "weights.mln").read_text() == (other.output / "weights.mln").read_text()
    answers = [followed(each.lines("predictions.jsonl")) for each in (run, other)]
    assert answers[0] == answers[1]
    last, expected = (each.lines("predictions.jsonl")[-1] for each in (run, other))
    assert last == expected
    assert last["id"] == "truth D"


@pytest.mark.parametrize("keep", [False, True])
def test_a_change_that_breaks_hard_rules_is_bad_or_waits(world_run, tmp_path, monkeypatch, keep):
    monkeypatch.setattr(keyed_world, "RENEWAL", 2)
    (tmp_path / "hard.mln").write_text(HARD)
    lines = [
        {"id": "1", "evidence": {"Knows": [["a", "b"]], "Good": [["a"]]}},
        {"id": "2", "evidence": {"Banned": [["a"], ["b"]]}},
        {"id": "3", "evidence": {"Knows": [["b", "c"]]}},
        {"id": "1"},
        {"id": "4", "evidence": {"Good": [["c"]]}},
    ]
    keys = {"world": "keep_conflicts"} if keep else {}
    run = world_run(lines, False, model=str(tmp_path / "hard.mln"), **keys)
    assert run.run() == 0, run.said
    results = run.results()
    shutil.rmtree(run.output)
    for until in range(1, 6):
        assert run.run("--until", str(until)) == 0, run.said
        last = run.lines("metrics.jsonl")[-1]
        if until == 2 and keep:
            assert last["conflicts"] == 1
    assert run.run() == 0
    assert run.results() == results
    values = followed(run.lines("predictions.jsonl"))
    letters = run.lines("deadletter.jsonl")
    if keep:
        assert not letters
        assert last["conflicts"] == 0
        assert values == {("Good", ("a",)): 0.0, ("Good", ("b",)): 0.0}
    else:
        assert [letter["line"] for letter in letters] == [2]
        assert "!Banned" in letters[0]["reason"] or "Banned(a)" in letters[0]["reason"]
        assert values == {("Good", ("b",)): 0.0}


@pytest.mark.parametrize(
    ("soft", "stops"),
    [
        (True, (PslOnlineLearner, "step")),
        (False, (MlnOnlineLearner, "step")),
        (False, (MlnWorld, "apply")),
        (False, (MlnWorld, "set_weights")),
    ],
)
def test_a_run_stopped_within_a_step_goes_on_to_the_same_bits(world_run, monkeypatch, soft, stops):
    """The step ends, and then the run."""
    people = [f"p{n:02}" for n in range(26)]
    pairs = [[one, other] for one in people for other in people if one < other]
    begin = {"id": "begin", "evidence": {"Rates": pairs}}
    begin |= {"query": {"Good": [[name] for name in people]}} if soft else {}
    lines = [begin, *({"id": name, "truth": {"Good": [[name]]}} for name in people[:4])]
    run = world_run(lines, soft, learner={"update": "cda2"})
    assert run.run() == 0, run.said
    unbroken = run.results()
    shutil.rmtree(run.output)
    work, calls = getattr(*stops), []

    def stopped(*arguments):
        calls.append(arguments)
        if len(calls) == 3:
            signal.raise_signal(signal.SIGTERM)
        return work(*arguments)

    monkeypatch.setattr(*stops, stopped)
    assert run.run("--set", "batch=1") == 0, run.said
    assert "stopped after" in run.said
    summary = json.loads((run.output / "summary.json").read_bytes())
    before = world_run(lines[: summary["examples"]], soft, "before", learner={"update": "cda2"})
    assert before.run() == 0, before.said
    weights = "weights.psl" if soft else "weights.mln"
    assert run.results()[weights] == before.results()[weights]
    expected = json.loads((before.output / "summary.json").read_bytes())
    for figure in ("updates", "facts", "changed_atoms", "touched_rules", "gap"):
        assert summary[figure] == expected[figure]
    assert run.run() == 0, run.said
    assert run.results() == unbroken


CLAIMS = """
Claims(source, claim, value)
True(claim, value)
True(c, v) ^ True(c, w) => v = w.
1 Claims(s, c, v) => True(c, v)
"""


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("together", [True, False])
def test_the_query_of_a_record_comes_before_its_truth(world_run, tmp_path, keyed, together):
    """Whatever repeats, a label is learned from where its atom is a target; others are only asserted."""
    (tmp_path / "claims.mln").write_text(CLAIMS)
    keys = {"model": str(tmp_path / "claims.mln"), "query": "True", "targets": "listed"}

    def claim(number, value):
        return {"Claims": [[f"s{number}", f"c{number}", value]] * 2}

    def true(number, value):
        return {"True": [[f"c{number}", value], {"args": [f"c{number}", value], "value": 1}]}

    key = {"id": "k"} if keyed else {}
    facts = {"evidence" if keyed else "add": claim(1, "x")}
    query = {"query": {"True": [["c1", "x"], ["c1", "x"]]}}
    labels = {"truth": {"True": [*true(1, "x")["True"], *true(2, "y")["True"]]}}
    lines = [{**key, **facts, **query, **labels}]
    if not together:
        lines = [{**key, **facts, **query}, {**key, **facts, **(query if keyed else {}), **labels}]
        lines[1] = lines[1] if keyed else labels | {"add": {}}
    run = world_run([*lines, lines[-1] if keyed else {"add": {}}], False, **keys)
    assert run.run() == 0, run.said
    assert not run.lines("deadletter.jsonl")
    assert run.lines("metrics.jsonl")[-1]["labelled"] == 1
    assert json.loads((run.output / "summary.json").read_bytes())["not_learned"] == 1
    assert "asserted as facts and not learned from: 1, " in run.said
    differing = {"id": "k", "evidence": claim(1, "x"), **query}
    differing |= {"truth": {"True": [{"args": ["c1", "x"], "value": n} for n in (0, 1)]}}
    other = world_run([differing], False, "other", **keys)
    assert other.run() == 0
    (letter,) = other.lines("deadletter.jsonl")
    assert letter["reason"] == "True(c1, x) has two values, 0 and 1"


def test_labels_beside_facts_of_their_group_and_targets_that_go(world_run, tmp_path):
    """What the group has as facts is no label, and targets that a record takes back are open no more."""
    (tmp_path / "claims.mln").write_text(
        CLAIMS.replace("True(claim, value)\n", "True(claim, value!)\n")
    )
    pairs = [["c", "x"], ["c", "y"], ["d", "x"], ["d", "y"]]
    lines = [
        {
            "id": "facts",
            "evidence": {"Claims": [["s", *pair] for pair in pairs], "True": pairs[:1]},
        },
        {"id": "targets", "query": {"True": pairs[1:]}, "evidence": {"Claims": []}},
        {"id": "label", "truth": {"True": [{"args": pairs[1], "value": 0}]}},
        {"id": "others", "query": {"True": [["e", "x"], ["e", "y"]]}, "evidence": {"Claims": []}},
        {"id": "others", "truth": {"True": pairs[3:]}},
    ]
    keys = {"model": str(tmp_path / "claims.mln"), "query": "True", "targets": "listed"}
    run = world_run(lines, False, learner={"update": "cda2"}, **keys)
    assert run.run() == 0, run.said
    assert not run.lines("deadletter.jsonl")
    assert run.lines("metrics.jsonl")[-1]["labelled"] == 2


def test_a_label_that_cannot_be_learned_from_is_a_dead_letter(world_run):
    """Nothing of it is asserted, and later records go on as if it had not been."""
    pairs = [list(pair) for pair in zip("abcdefgh", "bcdefgha", strict=True)]
    lines = [{"id": "begin", "evidence": {"Rates": pairs}}]
    lines += [{"id": name, "truth": {"Good": [[name]]}} for name in "ab"]
    keys = {"limits": {"bad_share": 1.0, "max_atoms": 3}, "learner": {"update": "cda2"}}
    run = world_run(lines, False, **keys)
    assert run.run() == 0, run.said
    letters = run.lines("deadletter.jsonl")
    assert [json.loads(letter["text"]) for letter in letters] == lines[1:]
    for letter in letters:
        assert "limits.max_atoms" in letter["reason"]
        assert "nothing of the record is asserted" in letter["reason"]
    other = world_run(lines[:1], False, "other", **keys)
    assert other.run() == 0
    predictions = [line for line in run.lines("predictions.jsonl") if "error" not in line]
    assert predictions == other.lines("predictions.jsonl")
    assert run.results()["weights.mln"] == other.results()["weights.mln"]


def test_truth_after_which_the_answer_is_not_found_has_taught_nothing(world_run, monkeypatch):
    pairs = [list(pair) for pair in zip("abcdef", "bcdefa", strict=True)]
    lines = [{"id": "begin", "evidence": {"Rates": pairs}}]
    labels = {name: [{"args": [name], "value": int(name == "c")}] for name in "abcd"}
    lines += [{"id": name, "truth": {"Good": label}} for name, label in labels.items()]
    keys = {"learner": {"update": "cda2"}}
    run, other = (
        world_run(lines, False, **keys),
        world_run([*lines[:3], lines[4]], False, "other", **keys),
    )
    assert other.run() == 0, other.said
    work, calls = MlnWorld.set_weights, []

    def unsolved(*arguments):
        calls.append(arguments)
        if len(calls) == 3:
            raise Unsolved("the search reached its limit")
        return work(*arguments)

    monkeypatch.setattr(MlnWorld, "set_weights", unsolved)
    assert run.run() == 0, run.said
    (letter,) = run.lines("deadletter.jsonl")
    assert "limit" in letter["reason"]
    lines = [line for line in run.lines("predictions.jsonl") if "error" not in line]
    assert lines == other.lines("predictions.jsonl")
    assert run.results()["weights.mln"] == other.results()["weights.mln"]
