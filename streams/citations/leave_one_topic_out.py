"""Leave one topic out on CiteSeer: F1 of every online learner, one pass, averaged weights.

usage: leave_one_topic_out.py CITESEER.jsonl [OPTION ...]

CITESEER.jsonl is what streams/papers/convert.py writes. This is table 1 of Huynh & Mooney (2010), by the
command ``onlinesrl compare``, which is printed first; it takes more options (``--output``, ``--workers``).
For each topic held out, a learner's sigma is the one with the best F1 on the last tenth of the training
citations after a pass over the others. Then the learner makes one pass over all training citations, in file
order; F1 is over InField atoms of the held-out topic. The rules are those of segmentation.mln.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

CONFIG = Path(__file__).parents[2] / "configs" / "citeseer.yaml"
LEARNERS = (
    "{update: mira}",
    "{update: subgradient}",
    "{update: cda1, loss: pl}",
    "{update: cda1, loss: ml}",
    "{update: cda2, loss: pl}",
    "{update: cda2, loss: ml}",
    "{update: adagrad, loss: pl}",
    "{update: adagrad, loss: ml}",
    "{update: pa1}",
    "{update: perceptron}",
    "{update: cd}",
)
SIGMAS = "0.001,0.003,0.01,0.03,0.1,0.3,1,3,10,30"


def command(data: Path, learners: Sequence[str] = LEARNERS, sigmas: str = SIGMAS) -> list[str]:
    """Return the command that compares learners."""
    return [
        *("onlinesrl", "compare", str(CONFIG), "--set", f"source.path={data}"),
        *("--grid", f"learner={','.join(learners)}"),
        *("--tune", f"learner.sigma={sigmas}"),
    ]


if __name__ == "__main__":
    if "--help" in sys.argv:
        print(__doc__)
        sys.exit()
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    words = [*command(Path(sys.argv[1])), *sys.argv[2:]]
    print(shlex.join(words), flush=True)
    sys.exit(subprocess.call(words))
