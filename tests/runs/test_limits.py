"""Every limit that puts something aside is named by its key where that is said."""

import json

import pytest

from onlinesrl.runs.config.reference import meaning
from onlinesrl.runs.config.schema import LimitsSection
from onlinesrl.stream.schedule import SHARE_EVERY

PSL = "1: Knows(A, B) & Fair(B) -> Trusts(A, B)\n"
PAIRS = [["a", "b"], ["b", "a"]]
TRUST = {
    "id": "t",
    "evidence": {"Knows": PAIRS, "Fair": [["a"], ["b"]]},
    "query": {"Trusts": PAIRS},
    "truth": {},
}


@pytest.mark.parametrize(
    ("example", "override", "said"),
    [
        (TRUST, "limits.max_atoms=1", "has 2 atoms of Knows; limits.max_atoms is 1"),
        (
            TRUST,
            "inference.max_groundings=1",
            "more than 1 joined rows, reached in this rule (inference.max_groundings): 1: Knows",
        ),
        (
            TRUST | {"query": {"Trusts": PAIRS[:1]}},
            "inference.targets=stop",
            "the rule needs Trusts('b', 'a'), which is neither observed nor a target "
            "(inference.targets): 1: Knows",
        ),
    ],
)
def test_a_bad_example_names_the_key(job, tmp_path, example, override, said):
    (tmp_path / "trust.psl").write_text(PSL)
    keys = {"model": str(tmp_path / "trust.psl"), "query": "Trusts", "metrics": {}}
    run = job([json.dumps(example).encode() + b"\n"], **keys)
    assert run.run("--set", override) == 65
    assert "1 of 1 examples are bad, more than limits.bad_share (0.1) allows" in run.said
    (letter,) = run.lines("deadletter.jsonl")
    assert said in letter["reason"]


def test_weights_that_are_dropped_name_the_key(job, citations):
    run = job(citations[:30], learner={"max_weights": 300})
    assert run.run() == 0, run.said
    assert "Dropped weights" in run.printed
    assert "dropped past learner.max_weights" in (run.output / "report.html").read_text()


def test_what_waited_too_long_for_its_truth_names_the_key(job, citations):
    bare = [json.loads(line) for line in citations[:3]]
    labels = [{"id": f"nobody{n}", "truth": {}} for n in range(3)]
    for example in bare:
        del example["truth"]
    run = job([json.dumps(line).encode() + b"\n" for line in (*bare, *labels)])
    assert run.run("--set", "labels.pending=2") == 0, run.said
    more = "more than labels.pending (2) or labels.max_bytes (250000000) waited"
    assert f"warning: 1 examples were dropped: {more}\n" in run.said
    assert f"warning: 1 labels without an example were dropped: {more}\n" in run.said


def test_ground_rules_that_reach_no_target_may_be_left_out(job, tmp_path):
    (tmp_path / "trust.psl").write_text(PSL)
    keys = {"model": str(tmp_path / "trust.psl"), "query": "Trusts", "metrics": {}}
    some = {"query": {"Trusts": PAIRS[:1]}}
    examples = [TRUST, TRUST | some, TRUST | some, {**TRUST, "evidence": {"Nobody": []}}]
    lines = [json.dumps(each).encode() + b"\n" for each in examples]
    run = job(lines, limits={"bad_share": 1.0}, inference={"targets": "skip"}, **keys)
    for batch in ("1", "64"):
        assert run.run("--fresh", "--set", f"batch={batch}") == 0, run.said
        last = run.lines("metrics.jsonl")[-1]
        assert (last["bad"], last["skipped"]) == (1, 2)
        assert "2 ground rules with an atom neither observed nor a target" in run.printed
    values = [p["predicted"]["Trusts"] for p in run.predictions()]
    assert [len(atoms) for atoms in values] == [2, 1, 1]


def test_keys_of_psl_are_refused_for_markov_logic(job):
    run = job([], inference={"targets": "skip"})
    assert run.run() == 78
    assert "inference.targets: not for Markov logic; leave it out" in run.said


def test_the_share_of_bad_examples_is_checked_when_the_reference_says():
    assert f"checked every {SHARE_EVERY} examples" in meaning(LimitsSection, "bad_share")
