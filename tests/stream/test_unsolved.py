"""A search that ends at its limit: skipped, fallen back from, or the end of the run; as configured."""

import json
import random
from itertools import product

import pytest
from conftest import soaked

SIGNS = {"p": "", "n": "!"}
MODEL = "Clause(var, var, var, sign, sign, sign)\nP(var)\n0.5 P(x)\n" + "".join(
    f'Clause(x, y, z, "{a}", "{b}", "{c}") => {SIGNS[a]}P(x) v {SIGNS[b]}P(y) v {SIGNS[c]}P(z).\n'
    for a, b, c in product(SIGNS, repeat=3)
)


def satisfiable(number: int, atoms: int, clauses: int) -> bytes:
    """A random 3-SAT problem with its planted solution as the truth."""
    rng = random.Random(number)
    truth = [rng.random() < 0.5 for _ in range(atoms)]
    made: list[list[int | str]] = []
    while len(made) < clauses:
        chosen, signs = rng.sample(range(atoms), 3), rng.choices("pn", k=3)
        if any(truth[a] == (sign == "p") for a, sign in zip(chosen, signs, strict=True)):
            made.append([*chosen, *signs])
    named = {a for row in made for a in row[:3]}
    true = [[a] for a, value in enumerate(truth) if value and a in named]
    world = {"id": number, "evidence": {"Clause": made}, "truth": {"P": true}}
    return json.dumps(world).encode() + b"\n"


EASY = [satisfiable(number, 12, 8) for number in range(8)]
HARD = [satisfiable(number, 40, 168) for number in (50, 51)]
MIXED = [*EASY[:3], HARD[0], *EASY[3:6], HARD[1], *EASY[6:]]


@pytest.fixture
def stream(job, tmp_path):
    """Makes runs whose every search ends after one node."""
    (tmp_path / "sat.mln").write_text(MODEL)

    def make(lines, name="job", *, batch=64, **inference):
        keys = {"model": str(tmp_path / "sat.mln"), "query": "P", "metrics": {}, "batch": batch}
        keys["inference"] = {"presolve": "none", "max_nodes": 1} | inference
        return job(lines, name, limits={"bad_share": 1.0}, **keys)

    return make


def test_skipped_examples_are_as_if_they_had_not_been(stream):
    run, easy = stream(MIXED, unsolved="skip"), stream(EASY, "easy", max_nodes=None)
    assert (run.run(), easy.run()) == (0, 0), run.said
    assert run.results()["weights.mln"] == easy.results()["weights.mln"]
    assert run.predictions() == easy.predictions()
    letters = run.lines("deadletter.jsonl")
    assert [(letter["line"], letter["id"]) for letter in letters] == [(4, "50"), (8, "51")]
    assert [letter["text"].encode() + b"\n" for letter in letters] == HARD
    reason = "the search ended at its limit (inference.max_work, max_nodes) without a proven answer"
    assert {letter["reason"] for letter in letters} == {reason}
    last = run.lines("metrics.jsonl")[-1]
    assert (last["examples"], last["bad"], last["unsolved"], last["certified"]) == (10, 2, 2, 8)


def test_the_best_state_found_is_predicted_and_not_called_certified(stream):
    hardest = satisfiable(52, 60, 252)
    run = stream([*MIXED, hardest])
    assert run.run() == 0, run.said
    assert "ended at the limit (inference.max_work, max_nodes)" in run.printed
    predictions = run.lines("predictions.jsonl")
    assert [p["id"] for p in predictions if not p["certified"]] == [50, 52]  # of 51 the rival
    assert run.lines("deadletter.jsonl") == []
    for line, made in zip([*HARD, hardest], (p for p in predictions if p["id"] > 9), strict=True):
        true = {a for (a,) in made["predicted"]["P"]}
        for *atoms, a, b, c in json.loads(line)["evidence"]["Clause"]:
            signs = zip(atoms, (a, b, c), strict=True)
            assert any((atom in true) == (sign == "p") for atom, sign in signs)
    last = run.lines("metrics.jsonl")[-1]
    assert (last["bad"], last["unsolved"], last["certified"], last["updates"]) == (0, 3, 9, 8)


def test_predict_says_how_many_answers_are_not_proven(stream):
    run = stream(MIXED)
    hard, easy = run.folder / "hard.jsonl", run.folder / "easy.jsonl"
    hard.write_bytes(b"".join([*EASY, HARD[0]]))
    easy.write_bytes(b"".join(EASY))
    for source, unproven in ((hard, 1), (easy, 0)):
        model = str(run.folder.parent / "sat.mln")
        choice = ["--set", f"source.path={source}"]
        assert run.call("predict", model, run.config, *choice) == 0, run.said
        made = [json.loads(line) for line in run.printed.splitlines()]
        assert [p["certified"] for p in made] == [True] * 8 + [False] * unproven
        said = "warning: 1 of 9 predictions are not proven to be the best (certified: false)"
        assert (said in run.said) == bool(unproven)
        assert bool(unproven) == ("proven" in run.said)


def test_the_run_stops_before_the_example_and_goes_on_with_a_higher_limit(stream):
    run = stream(MIXED, unsolved="stop")
    for _ in range(2):
        assert run.run() == 65
        assert f"{run.source}:4: the search ended at its limit" in run.said
        assert "(example 50)" in run.said
        assert [p["id"] for p in run.lines("predictions.jsonl")] == [0, 1, 2]
        assert run.lines("deadletter.jsonl") == []
    assert run.run("--set", "inference.max_nodes=null") == 0, run.said
    solved = stream(MIXED, "solved", max_nodes=None)
    assert solved.run() == 0
    assert run.results() == solved.results()


@pytest.mark.parametrize("unsolved", ["fallback", soaked("skip")])
def test_a_replay_repeats_it(stream, unsolved):
    run = stream(MIXED, unsolved=unsolved)
    assert run.run() == 0, run.said
    expected = run.results()

    for options in (("--set", "batch=1"), ("--until", "8")):
        assert run.run("--fresh", *options) == 0, run.said
        assert run.run(*options[:2] if "--set" in options else ()) == 0
        assert run.results() == expected
