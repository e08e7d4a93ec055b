"""Scores by predicate and confusions of Markov logic, beside sets of atoms."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Job
from hypothesis import given
from hypothesis import strategies as st

from onlinesrl.core.evaluation.confusion_matrix import Confusion, pairs
from onlinesrl.mln.online.atom_counts import Positives

MODEL = """
cls = {"news", "sport", "mail"}
Word(doc, word)
Class(doc, cls)
Spam(doc)
!Class(d, c) v !Class(d, k) v c = k.
Word(d, +w) => Class(d, +c)
Word(d, +w) => Spam(d)
Class(d, +c) => Spam(d)
"""


@given(st.data())
def test_marks_of_random_atoms(data: st.DataObject) -> None:
    """Keys are numbers of mixed radix; a unit is what their other digits say."""
    worlds, arity = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
    argument = data.draw(st.integers(0, arity - 1))
    sizes = np.array([[data.draw(st.integers(1, 4)) for _ in range(arity)] for _ in range(worlds)])
    found, expected, counts = [], Confusion(), Counter[int]()
    for w in range(worlds):
        atoms = []
        total = int(np.prod(sizes[w]))
        for key in sorted(data.draw(st.sets(st.integers(0, total - 1), max_size=6))):
            mark = data.draw(st.integers(1, 3))
            found.append((w, 0, key, mark))
            counts[mark] += 1
            digits = [f"{w}.{d}" for d in np.unravel_index(key, sizes[w])]
            atoms.append((tuple(digits), mark >= 2, mark % 2 == 1))
        expected.add(pairs(atoms, argument))
    marks = Positives(*np.array(found, np.int64).reshape(-1, 4).T)
    said = marks.pairs(sizes, argument, lambda w: [f"{w}.{n}" for n in range(4)], False)
    assert said == expected.counts
    together = Confusion()
    for cell, n in (expected.counts or {}).items():
        together.add({tuple(name and name[2:] for name in cell): n})
    alike = marks.pairs(sizes, argument, lambda _: "0123", True)
    assert alike == (together.counts if expected.counts is not None else None)
    assert marks.by_query(1).tolist() == [[counts[3], counts[1], counts[2]]]


def documents(count: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(3)
    made = []
    for n in range(count):
        names = [f"d{n}_{k}" for k in range(3)]
        kinds = rng.choice(["news", "sport", "mail", ""], 3).tolist()
        hints = [str(kind or "mail") if rng.random() < 0.7 else "the" for kind in kinds]
        evidence = {"Word": [[d, w] for d, w in zip(names, hints, strict=True)]}
        truth = {
            "Class": [[d, c] for d, c in zip(names, kinds, strict=True) if c],
            "Spam": [[d] for d, c in zip(names, kinds, strict=True) if c == "mail"],
        }
        made.append({"id": n, "evidence": evidence} | ({"truth": truth} if n % 7 else {}))
    return made


def scored(examples: list[dict[str, Any]], said: list[dict[str, Any]]) -> dict[str, Any]:
    """What metrics should say of predictions, from sets of atoms."""
    counts = {name: [0, 0, 0] for name in ("Class", "Spam")}
    table: Confusion = Confusion()
    for example, prediction in zip(examples, said, strict=True):
        if "truth" not in example:
            continue
        for name, found in counts.items():
            true, taken = (
                {tuple(atom) for atom in atoms.get(name, [])}
                for atoms in (example["truth"], prediction["predicted"])
            )
            for n, part in enumerate((true & taken, taken - true, true - taken)):
                found[n] += len(part)
            if name == "Class":
                table.add(pairs(((a, a in true, a in taken) for a in true | taken), 1))
    return {"predicates": counts, "confusion": table.table()}


def told(line: dict[str, Any]) -> dict[str, Any]:
    """The same of a line of metrics, hits and misses from precision, recall and support."""
    counts = {}
    for name, scores in line["predicates"].items():
        hits = round(scores["recall"] * scores["support"])
        taken = round(hits / scores["precision"]) if scores["precision"] else 0
        counts[name] = [hits, taken - hits, scores["support"] - hits]
    return {"predicates": counts, "confusion": line["confusion"]}


@pytest.fixture
def labels(job: Callable[..., Job], tmp_path: Path) -> Callable[..., Job]:
    (tmp_path / "m.mln").write_text(MODEL)

    def make(lines: list[dict[str, Any]], name: str = "job", **keys: Any) -> Job:
        settings = {"model": str(tmp_path / "m.mln"), "query": ["Class", "Spam"]}
        settings |= {"metrics": {"by": "cls"}, "checkpoint": {"every": 7}} | keys
        return job([json.dumps(line).encode() + b"\n" for line in lines], name, **settings)

    return make


def test_a_run_tells_what_sets_of_atoms_tell(labels: Callable[..., Job]) -> None:
    examples = documents(40)
    run = labels(examples)
    assert run.run() == 0, run.said
    last, said = run.lines("metrics.jsonl")[-1], run.lines("predictions.jsonl")
    expected = scored(examples, said)
    assert told(last) == expected
    assert len(expected["confusion"]) == 4
    assert expected["confusion"]["none"]
    assert expected["predicates"]["Spam"][0] > 0
    assert "F1 of Spam" in run.printed


Atoms = set[tuple[int, str]]


def class_scores(atoms: list[tuple[Atoms, Atoms]]) -> dict[str, float]:
    """Scores of pairs of true and predicted atoms."""
    hits = sum(len(true & predicted) for true, predicted in atoms)
    support = sum(len(true) for true, _ in atoms)
    precision, recall = hits / sum(len(predicted) for _, predicted in atoms), hits / support
    f1 = 2 * precision * recall / (precision + recall)
    return {"f1": f1, "precision": precision, "recall": recall, "support": support}


def test_scores_are_their_formulas_on_sets_of_atoms(
    job: Callable[..., Job], citations: list[bytes]
) -> None:
    """F1, accuracy, exact share and Hamming loss; F1 by class, and the mean of these."""
    run = job([*citations[:30], b"{\n"], batch=4)
    assert run.run() == 0, run.said
    examples, line = [json.loads(text) for text in citations[:30]], run.lines("metrics.jsonl")[-1]
    atoms: list[tuple[Atoms, Atoms]] = [
        tuple({tuple(atom) for atom in each["InField"]} for each in (e["truth"], p["predicted"]))
        for e, p in zip(examples, run.predictions(), strict=True)
    ]
    units = [
        {atom for atom in true if atom[0] == at} == {atom for atom in predicted if atom[0] == at}
        for example, (true, predicted) in zip(examples, atoms, strict=True)
        for at in {position for _, position in example["evidence"]["Token"]}
    ]
    by = {
        name: class_scores([tuple({a for a in s if a[1] == name} for s in pair) for pair in atoms])
        for name in ("author", "title", "venue")
    }
    expected = class_scores(atoms) | {
        "accuracy": sum(units) / len(units),
        "exact": sum(true == predicted for true, predicted in atoms) / 30,
        "hamming": sum(len(true ^ predicted) for true, predicted in atoms) / 30,
        "macro_f1": sum(scores["f1"] for scores in by.values()) / 3,
    }
    del expected["support"]
    assert {name: line[name] for name in expected} == pytest.approx(expected, rel=1e-12)
    assert line["by"] == {name: pytest.approx(scores, rel=1e-12) for name, scores in by.items()}
    assert 0 < line["exact"] < 1


def test_what_was_given_out_before_the_truth_came_is_what_is_scored(
    labels: Callable[..., Job],
) -> None:
    examples = [example for example in documents(30) if "truth" in example]
    bare = [{"id": e["id"], "evidence": e["evidence"]} for e in examples]
    late = [{"id": e["id"], "truth": e["truth"]} for e in examples]
    run = labels([*bare, *late], labels={"pending": 100})
    assert run.run() == 0, run.said
    expected = scored(examples, run.lines("predictions.jsonl"))
    last = run.lines("metrics.jsonl")[-1]
    assert {n: s["support"] for n, s in last["predicates"].items()} == {
        name: hits + misses for name, (hits, _, misses) in expected["predicates"].items()
    }
    assert last["confusion"] == expected["confusion"]


def test_units_of_several_classes_have_no_table(labels: Callable[..., Job], tmp_path: Path) -> None:
    (tmp_path / "many.mln").write_text(MODEL.replace("!Class(d, c) v !Class(d, k) v c = k.", ""))
    examples = documents(5)
    for example in examples[1:]:
        example["truth"]["Class"] = [[f"d{example['id']}_0", c] for c in ("news", "mail")]
    run = labels(examples, "many", model=str(tmp_path / "many.mln"))
    assert run.run() == 0, run.said
    last = run.lines("metrics.jsonl")[-1]
    assert last["confusion"] is None
    assert last["predicates"]["Class"]["support"] == 8
