"""Similar citations speak for each other: the atoms are those of a search through all earlier citations."""

import json
from typing import Any

import onlinesrl as srl
from tests.support.stream_scripts import STREAMS, generator

STREAM = STREAMS / "citations"
joint = generator("citations", "joint").joint


def words(citation: dict[str, Any]) -> list[str]:
    return [word for word, _ in sorted(citation["evidence"]["Token"], key=lambda atom: atom[1])]


def after_punctuation(citation: dict[str, Any], i: int) -> bool:
    return [i - 1] in citation["evidence"].get("HasPunc", [])


def test_candidates_are_where_an_earlier_citation_has_punctuation() -> None:
    lines = (STREAM / "citations.jsonl").read_text().splitlines()
    plain = [json.loads(line) for line in lines[:50]]
    found = [*joint(plain)]
    total = 0
    for n, citation in enumerate(plain):
        here = words(citation)
        expected = [
            [i]
            for i in range(1, len(here) - 2)
            if not after_punctuation(citation, i)
            and any(
                words(other)[k : k + 3] == here[i : i + 3] and after_punctuation(other, k)
                for other in plain[:n]
                for k in range(1, len(words(other)) - 2)
            )
        ]
        evidence = dict(found[n]["evidence"])
        assert evidence.pop("JntInfCandidate", []) == expected
        assert found[n] | {"evidence": evidence} == citation
        total += len(expected)
    assert total > 3


def test_without_candidates_the_joint_model_is_the_isolated_one() -> None:
    examples = [*srl.read(STREAM / "citations.jsonl")][:60]
    of = [
        srl.OnlineLearner(srl.Model.read(STREAM / f"{name}.mln"), "InField")
        for name in ("segmentation", "joint")
    ]
    alone, both = ([p["InField"] for p in learner.learn_many(examples)] for learner in of)
    assert alone == both
    lines = (STREAM / "citations.jsonl").read_text().splitlines()[:60]
    spoken = [srl.Example(**each) for each in joint(map(json.loads, lines))]
    of[1].learn_many(spoken)
    assert any("JntInfCandidate" in str(key) and w for key, w in of[1].weights.items())
