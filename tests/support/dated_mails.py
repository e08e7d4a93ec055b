"""A stream of mails with times: is each spam, as its words and a neighbour say?"""

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

MODEL = """
Word(w, x)
Spam(x)
Near(x, x)

Word(+w, x) => Spam(x)
Near(x, y) ^ Spam(x) => Spam(y)
-0.5 Spam(x)
"""
HOUR = 3600.0


def mails(count: int, seed: int = 0, per_hour: int = 6) -> list[dict[str, Any]]:
    """Examples of two mails, of which the first is asked about; six to the hour, some of one time."""
    rng, examples = random.Random(seed), list[dict[str, Any]]()
    for n in range(count):
        spam = rng.random() < 0.4
        words = [w for w in ("win", "now", "hi", "bye") if rng.random() < 0.3]
        words += ["win"] if spam and rng.random() < 0.7 else []
        evidence = {"Word": [[w, "m"] for w in dict.fromkeys(words)], "Near": [["m", "o"]]}
        evidence["Word"].append([rng.choice(("win", "hi")), "o"])
        examples.append(
            {
                "id": f"e{n}",
                "time": HOUR * (n // 2 * 2) / per_hour,
                "evidence": evidence,
                "truth": {"Spam": [["m"]] if spam else []},
                "unlabelled": {"Spam": [["o"]]},
                "asked": {"Spam": [["m"]]},
            }
        )
    return examples


def late(examples: Sequence[dict[str, Any]], seed: int = 0) -> list[dict[str, Any]]:
    """The same without truth, each label up to twenty examples later; every seventh never comes."""
    rng, placed = random.Random(seed), list[tuple[float, dict[str, Any]]]()
    for n, example in enumerate(examples):
        apart = {k: v for k, v in example.items() if k not in {"truth", "unlabelled"}}
        label = {k: example[k] for k in ("id", "truth", "unlabelled") if k in example}
        placed.append((n, apart))
        placed += [(n + rng.choice((0.5, 3.5, 20.5)), label)] if n % 7 else []
    return [line for _, line in sorted(placed, key=lambda pair: pair[0])]


def encoded(lines: Sequence[dict[str, Any]]) -> list[bytes]:
    """As JSON lines."""
    return [json.dumps(line).encode() + b"\n" for line in lines]


def keys(folder: Path, **more: Any) -> dict[str, Any]:
    """The keys of a run that predicts probabilities of spam."""
    model = folder / "mails.mln"
    model.write_text(MODEL)
    learner = {"update": "log-likelihood"}
    inference = {"engine": "mcsat"}
    return {"model": str(model), "query": "Spam", "learner": learner, "inference": inference} | more
