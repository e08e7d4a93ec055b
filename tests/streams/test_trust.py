"""Our own stream of trust: how it is made, what it holds, and that it can be learned from."""

import json
from collections import Counter
from typing import Any

import pytest

from onlinesrl.core.evaluation.prequential import Metrics
from onlinesrl.core.example import Example, decode
from onlinesrl.psl.lang import reader
from onlinesrl.psl.lang.linear_form import normal_rules
from onlinesrl.psl.online.learner import PslOnlineLearner
from onlinesrl.runs.config.loading import load
from onlinesrl.runs.run import make_learner
from tests.support import naive_psl_grounder
from tests.support.stream_scripts import REPO, STREAMS

STREAM = STREAMS / "trust"
CONFIG = REPO / "configs" / "trust.yaml"
TRIADS = 6
"""The first rules of trust.psl."""

LITERATURE = "\n".join(
    f"1: Knows({first}) & Knows({second}) & Knows(A, C)"
    f" & {a}Trusts({first}) & {b}Trusts({second}) -> {head}Trusts(A, C) ^2"
    for first in ("A, B", "B, A")
    for second in ("B, C", "C, B")
    for a, b, head in (("", "", ""), ("", "!", "!"), ("!", "", "!"), ("!", "!", ""))
)


@pytest.fixture(scope="module")
def lines() -> list[bytes]:
    return (STREAM / "trust.jsonl").read_bytes().splitlines()


@pytest.fixture(scope="module")
def examples(lines: list[bytes]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines]


def signs(example: dict[str, Any]) -> dict[tuple[int, int], bool]:
    """The observed signs of an example."""
    atoms = example["evidence"].get("Trusts", [])
    found = {tuple(atom): True for atom in atoms if isinstance(atom, list)}
    found |= {tuple(atom["args"]): False for atom in atoms if isinstance(atom, dict)}
    assert all(atom["value"] == 0 for atom in atoms if isinstance(atom, dict))
    assert len(found) == len(atoms)
    return found


def edges(atoms: list[list[int]]) -> set[tuple[int, ...]]:
    found = {tuple(atom) for atom in atoms}
    assert len(found) == len(atoms)
    return found


def test_it_is_as_large_as_its_readme_says(examples: list[dict[str, Any]]) -> None:
    readme = (STREAM / "README.md").read_text(encoding="utf-8")
    hidden = sum(len(e["query"]["Trusts"]) for e in examples)
    trusted = sum(len(e["truth"]["Trusts"]) for e in examples)
    known = sum(len(e["evidence"]["Knows"]) for e in examples)
    groups = Counter(e["group"] for e in examples)
    assert len({e["id"] for e in examples}) == len(examples)
    assert sorted(groups) == [f"d{n:02}" for n in range(1, len(groups) + 1)]
    for count in (len(examples), known, hidden, trusted):
        assert f"{count:,}" in readme
    assert f"{len(groups)} districts" in readme


def test_every_sign_is_seen_or_hidden(examples: list[dict[str, Any]]) -> None:
    for e in examples:
        known, hidden = edges(e["evidence"]["Knows"]), edges(e["query"]["Trusts"])
        assert hidden
        assert not hidden & signs(e).keys()
        assert hidden | signs(e).keys() == known
        assert edges(e["truth"]["Trusts"]) <= hidden


def test_a_neighbourhood_is_a_person_and_whom_that_person_knows(
    examples: list[dict[str, Any]],
) -> None:
    for e in examples:
        known = edges(e["evidence"]["Knows"])
        members = {e["id"], *(b for a, b in known if a == e["id"])}
        assert len(members) == 6
        assert {person for edge in known for person in edge} == members


def test_a_sign_is_the_same_in_all_neighbourhoods(examples: list[dict[str, Any]]) -> None:
    seen: dict[tuple[int, ...], bool] = {}
    hidden: dict[tuple[int, ...], bool] = {}
    for e in examples:
        for edge, sign in signs(e).items():
            assert seen.setdefault(edge, sign) == sign
        for edge in edges(e["query"]["Trusts"]):
            sign = edge in edges(e["truth"]["Trusts"])
            assert hidden.setdefault(edge, sign) == sign
    assert not seen.keys() & hidden.keys()


def test_every_rule_can_be_learned() -> None:
    rules = reader.load(STREAM / "trust.psl").rules
    assert [rule.weight for rule in rules] == [1.0] * len(rules)


def test_the_sixteen_triads_of_the_literature_are_these_six_rules(lines: list[bytes]) -> None:
    ours = reader.load(STREAM / "trust.psl")
    theirs = reader.parse(LITERATURE)
    assert len(theirs.rules) == 16
    for line in lines[:20]:
        example = decode(line)
        observed = {
            (name, tuple(map(str, getattr(atom, "args", atom)))): getattr(atom, "value", 1.0)
            for name, atoms in example.evidence.items()
            for atom in atoms
        }
        targets = {("Trusts", tuple(map(str, atom))) for atom in example.query["Trusts"]}
        found = [
            {
                (frozenset(linear.items()), constant)
                for form in normal_rules(program)
                if form.rule < count
                for linear, constant in naive_psl_grounder.ground(form, observed, targets)
            }
            for program, count in ((ours, TRIADS), (theirs, 16))
        ]
        assert found[0] == found[1]


def accuracy(learner: PslOnlineLearner, examples: list[Example]) -> float:
    metrics = Metrics()
    metrics.add(learner.step(examples, learning=False)[1], len(examples))
    return metrics.snapshot()["accuracy"] or 0.0


def test_one_pass_beats_equal_weights_and_the_majority(lines: list[bytes]) -> None:
    config = load(CONFIG, [])
    trained, untrained = make_learner(config), make_learner(config)
    examples = [decode(line) for line in lines[::2]]
    cut = len(examples) * 3 // 4
    trained.step(examples[:cut])
    test = examples[cut:]
    hidden = sum(len(e.query["Trusts"]) for e in test)
    trusted = sum(len(e.truth["Trusts"]) for e in test)
    assert max(trusted, hidden - trusted) / hidden < 0.6
    assert accuracy(untrained, test) < 0.69
    assert accuracy(trained, test) > 0.72
