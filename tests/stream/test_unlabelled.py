"""Runs over examples whose truth is partly known: late labels, resumed runs, shards, check and warning."""

import json
import random

import pytest
from conftest import Job

from tests.support.late_labels import apart
from tests.support.trust_program import MODEL as TRUST
from tests.support.trust_program import examples as circles

SHARDS = {"shards": 2, "round": 4}


def spelled(example):
    """An example as a JSON line, half of whose atoms nobody labelled."""
    return json.dumps(example).encode() + b"\n"


def citations_in_part(citations, seed=0):
    rng, lines = random.Random(seed), []
    labels = ("author", "title", "venue")
    for line in citations[:16]:
        example = json.loads(line)
        truth = example["truth"]["InField"]
        kept = [atom for atom in truth if rng.random() < 0.5]
        places = [atom[0] for atom in truth if atom not in kept]
        example["truth"] = {"InField": kept}
        example["unlabelled"] = {"InField": [[p, label] for p in places for label in labels]}
        lines.append(spelled(example))
    return lines


def circles_in_part(seed=0):
    import msgspec

    rng, lines = random.Random(seed), []
    for example in circles(16, seed):
        entry = msgspec.to_builtins(example)
        unlabelled = [atom for atom in entry["query"]["Trusts"] if rng.random() < 0.5]
        truth = [a for a in entry["truth"]["Trusts"] if a["args"] not in unlabelled]
        lines.append(
            spelled(
                {
                    **{key: entry[key] for key in ("id", "evidence", "query")},
                    "truth": {"Trusts": truth},
                    "unlabelled": {"Trusts": unlabelled},
                }
            )
        )
    return lines


@pytest.fixture(params=["mln", "psl"])
def stream(request, job, citations, tmp_path):
    """Lines of examples, and a function that makes a run of lines."""
    if request.param == "mln":
        return citations_in_part(citations), job
    (tmp_path / "trust.psl").write_text(TRUST)
    keys = {"model": str(tmp_path / "trust.psl"), "query": "Trusts", "metrics": {}}
    return circles_in_part(), lambda lines, name, **more: job(lines, name, **{**keys, **more})


def late(line):
    """An example without its truth, and its label with the atoms that stay unlabelled."""
    example, label = apart(line)
    example, label = json.loads(example), json.loads(label)
    label["unlabelled"] = example.pop("unlabelled")
    return spelled(example), spelled(label)


def learned(run: Job) -> bytes:
    assert run.run() == 0, run.said
    (weights,) = run.output.glob("weights.*")
    last = run.lines("metrics.jsonl")[-1]
    assert last["bad"] == 0 and last["labelled"] == 16, last
    return weights.read_bytes()


def test_late_labels_and_resumed_runs_learn_the_same(stream):
    lines, make = stream
    whole = learned(make(lines, "whole"))
    apart_lines = [part for line in lines for part in late(line)]
    assert learned(make(apart_lines, "late", labels={})) == whole
    early = [part for line in lines for part in late(line)[::-1]]
    assert learned(make(early, "early", labels={})) == whole
    closed = [spelled({**json.loads(line), "unlabelled": {}}) for line in lines]
    assert learned(make(closed, "closed")) != whole
    grown = make(lines[:7], "grown", checkpoint={"every": 3})
    assert grown.run() == 0, grown.said
    grown.source.write_bytes(b"".join(lines))
    assert learned(grown) == whole


def test_a_predicate_stands_for_all_its_atoms(stream):
    """In runs, late labels and check; what has no truth is neither right nor wrong in the report."""
    lines, make = stream
    listing, naming, nothing = [], [], []
    for line in lines:
        entry = json.loads(line)
        ((name, truth),) = entry["truth"].items()
        named = [atom["args"] if isinstance(atom, dict) else atom for atom in truth]
        places = [place for _, place in entry["evidence"].get("Token", ())]
        every = [[place, label] for place in places for label in ("author", "title", "venue")]
        atoms = entry["query"][name] if "query" in entry else every
        others = [row for row in atoms if row not in named]
        listing.append(spelled({**entry, "unlabelled": {name: others}}))
        naming.append(spelled({**entry, "unlabelled": [name]}))
        nothing.append(spelled({**entry, "truth": {}, "unlabelled": [name]}))
    whole = learned(make(listing, "listing"))
    assert learned(make(naming, "naming")) == whole
    assert (
        learned(make([part for line in naming for part in late(line)], "late", labels={})) == whole
    )
    run = make([*lines[:4], *nothing[4:]], "nothing")
    learned(run)
    assert run.call("check", str(run.config)) == 0, run.said
    assert "`unlabelled`" not in run.printed
    page = (run.output / "report.html").read_text().partition("</style>")[2]
    assert page.count("0 right, 0 wrong, 0 missing") == page.count("without a truth") > 0
    assert 'class="atom unlabelled"' in page
    assert 'class="atom wrong"' not in page and 'class="atom missing"' not in page
    assert "true negatives" not in page.partition("Some predictions")[2]


def test_workers_of_shards_change_nothing(stream):
    lines, make = stream
    one = make(lines, "one", distribute=SHARDS | {"workers": 1})
    two = make(lines, "two", distribute=SHARDS | {"workers": 2})
    assert learned(one) == learned(two)


def test_an_ambiguous_stream_is_told(job, tmp_path):
    model = tmp_path / "kind.psl"
    model.write_text("1: Fair(A) -> Kind(A) ^2\n1: Kind(A) -> Liked(A) ^2\n0.1: !Liked(A) ^2\n")
    example = {
        "id": 1,
        "evidence": {"Fair": [["a"]]},
        "query": {"Kind": [["a"]], "Liked": [["a"], ["b"]]},
        "truth": {"Liked": [["a"], {"args": ["b"], "value": 0}]},
    }
    false = {**example, "truth": {"Kind": [], "Liked": [{"args": ["b"], "value": 0}]}}
    for name, content, reason in (
        ("predicate", example, "the truth of example 1 has no atom of Kind; atoms that `truth`"),
        (
            "atoms",
            false,
            "the truth of example 1 lists false atoms of Liked, but not every open atom",
        ),
        ("told", {**example, "unlabelled": {"Kind": [["a"]]}}, None),
        ("closed", {**example, "unlabelled": {}}, None),
    ):
        run = job([spelled(content)], name, model=str(model), query=["Kind", "Liked"], metrics={})
        assert run.run() == 0
        assert (reason or "`unlabelled`") in run.said if reason else "`unlabelled`" not in run.said
        assert run.call("check", str(run.config)) == 0
        assert (reason in run.printed) if reason else "`unlabelled`" not in run.printed
    whole = {**example, "truth": {"Kind": [["a"]], "Liked": [["a"], ["b"]]}}
    late = {key: value for key, value in example.items() if key != "truth"}
    for name, lines, keys in (
        ("second", [{**whole, "id": 0}, example, {**example, "id": 2}], {}),
        ("late", [{**whole, "id": 0}, late, {"id": 1, "truth": false["truth"]}], {"labels": {}}),
    ):
        keys |= {"model": str(model), "query": ["Kind", "Liked"], "metrics": {}}
        run = job([spelled(line) for line in lines], name, **keys)
        assert run.run() == 0
        assert run.said.count("the truth of example 1 ") == 1, run.said
