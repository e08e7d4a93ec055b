"""Notice that a concept changes.

usage: python streams/tastes/tutorial.py
"""

import json
from pathlib import Path

import onlinesrl as srl

FOLDER = Path(__file__).parent
CONFIG = FOLDER.parents[1] / "configs" / "tastes.yaml"

# Each page is predicted before it is learned from. After pages 300 and 600 tastes change.
found = srl.run(CONFIG, settings={"output": Path("runs/tastes")})
print(f"signals after pages {found['drift']['at']}: F1 {found['f1']:.3f}")

# A line of metrics.jsonl has the figures of the window since the line before.
for text in Path("runs/tastes/metrics.jsonl").read_text().splitlines():
    line = json.loads(text)
    if line["examples"] % 100 == 0:
        print(
            f"to page {line['examples']}: {line['window']['hamming']:.2f} wrong articles per page"
        )
