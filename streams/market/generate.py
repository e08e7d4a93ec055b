"""Simulate a marketplace whose accounts praise and report each other, and of which some turn bad.

usage: python streams/market/generate.py

Writes market.jsonl in this folder, deterministically. README.md describes it.
"""

import heapq
import json
import sys
from pathlib import Path
from random import Random
from typing import Any

OUT = Path(__file__).with_name("market.jsonl")
SEED = 1
DAYS = 400
TRADES = 6
"""Trades on a day."""
ACCOUNTS = 200
CIRCLE = 8
"""An account mostly trades with so many others, its next ones."""
BAD = 40
"""So many accounts turn bad, one after the other."""
FIRST, LAST = 60, 340
"""From and to which day they do."""
MEMORY = 120
"""A trade counts for so many days."""
REVIEW = 10
"""A false report is withdrawn after about so many days."""
VERDICTS = 0.15
"""The share of trades after which somebody looks into an account."""


def below(rng: Random, most: int) -> int:
    """Return a whole number; uses only rng.random(), which is the same in all releases of Python."""
    return int(rng.random() * most)


def turned(rng: Random) -> dict[int, int]:
    """Return the accounts that turn bad, with the day on which they do."""
    accounts = sorted(range(ACCOUNTS), key=lambda _: rng.random())[:BAD]
    return {account: FIRST + (LAST - FIRST) * n // BAD for n, account in enumerate(accounts)}


def hidden(seed: int = SEED) -> dict[str, int]:
    """Return the accounts that are bad at the end, with the day on which they turned."""
    return {f"a{account}": day for account, day in turned(Random(seed)).items()}


class Market:
    """The days of the market, as changes of its world."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.turned = turned(self.rng)
        self.changes: list[dict[str, Any]] = []
        self.withdrawn: list[tuple[int, str]] = []

    def bad(self, account: int, day: int) -> bool:
        """Tell whether an account is bad on a day."""
        return self.turned.get(account, DAYS) <= day

    def trade(self, key: str, day: int) -> None:
        """Let one account praise or report another."""
        rng = self.rng
        one = below(rng, ACCOUNTS)
        other = (one + 1 + below(rng, CIRCLE)) % ACCOUNTS
        if rng.random() < 0.1:
            other = (one + 1 + below(rng, ACCOUNTS - 1)) % ACCOUNTS
        one_is_bad, other_is_bad = self.bad(one, day), self.bad(other, day)
        false = one_is_bad and rng.random() < 0.7
        reports = rng.random() < (0.85 if other_is_bad != false else 0.05)
        predicate = "Reported" if reports else "Praised"
        names = [f"a{one}", f"a{other}"]
        self.changes.append(
            {
                "id": key,
                "evidence": {predicate: [names]},
                "query": {"Good": [[name] for name in names]},
            }
        )
        is_withdrawn = reports and not other_is_bad and rng.random() < 0.8
        until = day + (1 + below(rng, 2 * REVIEW) if is_withdrawn else MEMORY)
        heapq.heappush(self.withdrawn, (until, key))
        if rng.random() < VERDICTS:
            account, bad = (one, one_is_bad) if rng.random() < 0.5 else (other, other_is_bad)
            truth = {"Good": [{"args": [f"a{account}"], "value": int(not bad)}]}
            self.changes.append({"id": f"verdict on a{account}", "truth": truth})
            heapq.heappush(self.withdrawn, (day + MEMORY // 2, f"verdict on a{account}"))

    def day(self, day: int) -> None:
        """Withdraw what no longer counts, then trade."""
        while self.withdrawn and self.withdrawn[0][0] <= day:
            self.changes.append({"id": heapq.heappop(self.withdrawn)[1]})
        for number in range(TRADES):
            self.trade(f"trade {TRADES * day + number + 1}", day)


def made(seed: int = SEED) -> str:
    """Return the stream."""
    market = Market(seed)
    for day in range(DAYS):
        market.day(day)
    return "".join(f"{json.dumps(change)}\n" for change in market.changes)


if __name__ == "__main__":
    if "--help" in sys.argv:
        print(__doc__)
        sys.exit()
    OUT.write_text(made(), encoding="utf-8")
