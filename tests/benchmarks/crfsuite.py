"""CRFsuite's passive-aggressive learner on citations, with the features that the model's rules have."""

import json
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Sequence = tuple[list[list[str]], list[str]]
"""Features and label of each token."""


def sequence(example: dict[str, Any]) -> Sequence:
    """Return the features of a citation's tokens, and their fields."""
    evidence = example["evidence"]
    words = {i: str(word) for word, i in evidence["Token"]}
    marks = {
        name: {i for (i,) in evidence.get(name, ())} for name in ("HasPunc", "HasComma", "Center")
    }
    follow: dict[int, list[str]] = {}
    for i, mark in evidence.get("FollowBy", ()):
        follow.setdefault(i, []).append(f"fb={mark}")
    label = {i: str(field) for i, field in example["truth"].get("InField", ())}
    rows = []
    for n, (i, word) in enumerate(sorted(words.items())):
        row = [f"w={word}", "b", f"pos={min(n, 3)}", *(name for name in marks if i in marks[name])]
        row += follow.get(i, ())
        row += [f"{name}-1" for name in ("HasPunc", "HasComma") if i - 1 in marks[name]]
        row += [f"w-1={words.get(i - 1)}", f"w+1={words.get(i + 1)}"]
        rows.append(row)
    return rows, [label.get(i, "other") for i in sorted(words)]


def train(sequences: Iterable[Sequence], model: Path) -> None:
    """Train in one pass."""
    from pycrfsuite import Trainer

    trainer = Trainer("pa", {"max_iterations": 1}, verbose=False)
    for rows, labels in sequences:
        trainer.append(rows, labels)
    trainer.train(str(model))


def main() -> None:
    """Train on a file of citations, tag each, and write the labels beside it."""
    from pycrfsuite import Tagger

    source = Path(sys.argv[1])
    with source.open() as lines, tempfile.TemporaryDirectory() as folder:
        sequences = [sequence(json.loads(line)) for line in lines]
        train(sequences, Path(folder) / "model")
        tagger = Tagger()
        tagger.open(str(Path(folder) / "model"))
        with source.with_suffix(".labels").open("w") as out:
            out.writelines(f"{' '.join(tagger.tag(rows))}\n" for rows, _ in sequences)
