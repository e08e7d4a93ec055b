"""Vowpal Wabbit on CiteSeer, leave one topic out: learning to search over the tokens of a citation, one pass.

usage: vw_citations.py FOLDER    (FOLDER holds TOPIC.jsonl)
Prints the mean F1 over field atoms, and the CPU seconds of reading and extracting, and of learning.
"""

import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

LABELS = {None: 1, "author": 2, "title": 3, "venue": 4}
SEARCH = f"--search {len(LABELS)} --search_task sequence -b 20 --quiet"


def rows(citation: dict[str, Any]) -> Iterator[str]:
    """The tokens as lines: label and features, those that the model's rules have."""
    tokens = citation["tokens"]
    follow: dict[int, list[str]] = {}
    for position, kind in citation["followby"]:
        follow.setdefault(position, []).append(kind)
    for i, token in enumerate(tokens):
        features = [f"w={token}", f"pos={min(i, 3)}", *(f"fb={kind}" for kind in follow.get(i, ()))]
        features += [name for name in ("haspunc", "hascomma", "center") if i in citation[name]]
        features += [f"{name}-1" for name in ("haspunc", "hascomma") if i - 1 in citation[name]]
        features.append(f"w-1={tokens[i - 1]}" if i else "first")
        features.append(f"w+1={tokens[i + 1]}" if i + 1 < len(tokens) else "last")
        yield f"{LABELS[citation['labels'][i]]} |f {' '.join(features).replace(':', '_')}\n"


def write(path: Path, sources: list[Path]) -> list[int]:
    """Write citations in Vowpal Wabbit's form; return their labels."""
    labels = []
    with path.open("w") as file:
        for source in sources:
            for line in source.open():
                citation = json.loads(line)
                labels += [LABELS[label] for label in citation["labels"]]
                file.writelines((*rows(citation), "\n"))
    return labels


def f1(found: list[int], true: list[int]) -> float:
    """F1 over tokens that have, or are given, a field."""
    hits = sum(a == b != LABELS[None] for a, b in zip(found, true, strict=True))
    return 2 * hits / sum(label != LABELS[None] for label in (*found, *true))


def main(folder: Path) -> None:
    from vowpalwabbit import Workspace

    topics, scores, parts, count = sorted(folder.glob("*.jsonl")), [], [0.0, 0.0], 0
    for held in topics:
        with tempfile.TemporaryDirectory() as name:
            train, test, model, out = (Path(name) / part for part in ("train", "test", "vw", "out"))
            others = [topic for topic in topics if topic != held]
            clocks = [time.process_time()]
            write(train, others)
            clocks.append(time.process_time())
            Workspace(f"{SEARCH} -d {train} -f {model}").finish()
            clocks.append(time.process_time())
            parts = [s + b - a for s, a, b in zip(parts, clocks, clocks[1:], strict=False)]
            count += sum(topic.read_bytes().count(b"\n") for topic in others)
            true = write(test, [held])
            Workspace(f"-t -i {model} -d {test} -p {out} --quiet").finish()
            scores.append(f1([int(label) for label in out.read_text().split()], true))
    read, learn = parts
    print(
        f"mean F1 {sum(scores) / len(scores):.4f}; {count} examples; read {read:.3f} train {learn:.3f}"
    )


if __name__ == "__main__":
    if "--help" in sys.argv:
        print(__doc__)
        sys.exit()
    main(Path(sys.argv[1]))
