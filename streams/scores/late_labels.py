"""Make a stream in which the truth of each shop comes some shops later.

usage: python streams/scores/late_labels.py

Reads scores.jsonl in this folder, and writes late_labels.jsonl beside it (configs/labels.yaml).
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
LATER = 5


def lines() -> Iterator[str]:
    """Yield each shop without its truth, after the truth of the shop that came LATER shops before."""
    shops = [json.loads(line) for line in (HERE / "scores.jsonl").read_text("utf-8").splitlines()]
    labels = [{"id": shop["id"], "truth": shop.pop("truth")} for shop in shops]
    for number, shop in enumerate(shops):
        if number >= LATER:
            yield json.dumps(labels[number - LATER])
        yield json.dumps(shop)
    yield from map(json.dumps, labels[-LATER:])


if __name__ == "__main__":
    if "--help" in sys.argv:
        print(__doc__)
        sys.exit()
    text = "".join(f"{line}\n" for line in lines())
    (HERE / "late_labels.jsonl").write_text(text, encoding="utf-8")
