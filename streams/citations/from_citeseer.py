"""Convert CiteSeer's labelled citations to examples.

usage: python streams/citations/from_citeseer.py DIR OUT

DIR contains the citations as TOPIC.jsonl, one per line: id, tokens, a label per token (author, title,
venue or null), and the positions of the punctuation features. OUT is one file of examples, topics in
alphabetical order, citations in the order of their file, with the topic as group. Words are unchanged.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any


def example(
    identifier: str,
    group: str,
    tokens: Sequence[str],
    labels: Sequence[str | None],
    features: Mapping[str, Sequence[Sequence[int | str]]],
) -> dict[str, Any]:
    """Return one citation as an example: Token, features and Next as evidence, InField as truth.

    A feature is the list of its atoms. Predicates without true atoms are left out; a token labelled None
    has no InField atom.
    """
    evidence = {
        "Token": [[word, i] for i, word in enumerate(tokens)],
        **features,
        "Next": [[i, i + 1] for i in range(len(tokens) - 1)],
    }
    fields = [[i, label] for i, label in enumerate(labels) if label is not None]
    return {
        "id": identifier,
        "group": group,
        "evidence": {predicate: atoms for predicate, atoms in evidence.items() if atoms},
        "truth": {"InField": fields},
    }


def converted(citation: Mapping[str, Any]) -> dict[str, Any]:
    """Convert one line of CiteSeer, without the sentinels that mean "none".

    These are the number of tokens in firstin and firstnonauthortitletkn, and 0 in lastinitial if token 0
    is longer than an initial. Raises KeyError if a part of the citation is missing.
    """
    tokens = citation["tokens"]
    no_initial = citation["lastinitial"] == [0] and len(tokens[0]) > 1
    positions = {
        "HasPunc": citation["haspunc"],
        "HasComma": citation["hascomma"],
        "Center": citation["center"],
        "FirstIn": [i for i in citation["firstin"] if i < len(tokens)],
        "LastInitial": [] if no_initial else citation["lastinitial"],
        "FirstNonAuthorTitleTkn": [
            i for i in citation["firstnonauthortitletkn"] if i < len(tokens)
        ],
    }
    features = {predicate: [[i] for i in at] for predicate, at in positions.items()}
    features = {"FollowBy": citation["followby"], **features}
    return example(citation["id"], citation["topic"], tokens, citation["labels"], features)


def examples(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield every citation of the folder; exit with a message at an invalid line."""
    paths = sorted(folder.glob("*.jsonl"), key=lambda path: path.stem)
    if not paths:
        sys.exit(
            f"{folder}: no TOPIC.jsonl in this folder; give the folder of CiteSeer's citations"
        )
    for path in paths:
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                try:
                    yield converted(json.loads(line))
                except (KeyError, TypeError, ValueError) as error:
                    sys.exit(f"{path}:{number}: not a citation in CiteSeer's form ({error!r})")


def json_lines(rows: Iterator[dict[str, Any]]) -> str:
    """Write the rows as JSON lines."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def main() -> None:
    """Convert the folder."""
    parser = argparse.ArgumentParser(description="Convert CiteSeer's citations to examples.")
    parser.add_argument("folder", metavar="DIR", type=Path, help="the folder of TOPIC.jsonl files")
    parser.add_argument("out", metavar="OUT", type=Path, help="the file of examples to write")
    arguments = parser.parse_args()
    arguments.out.write_text(json_lines(examples(arguments.folder)), encoding="utf-8")


if __name__ == "__main__":
    main()
