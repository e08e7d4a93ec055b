"""Generate payments by cards, some of them fraud, and labels that come two days later.

usage: python streams/fraud/generate.py [FOLDER] [SEED]

Writes transactions.csv and labels.csv, by default in the present folder and with seed 1. README.md
describes them.
"""

import csv
import math
import sys
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

PAYMENTS, DAYS, GANGS = 8000, 40, 12
CARDS, MERCHANTS, DEVICES = 500, 150, 200
KINDS = "grocery", "fuel", "travel", "fashion"
FRAUD_BY_GANG, FRAUD_ALONE = 24, 60
BEGIN = datetime(2026, 1, 1)
HEAD = ["tx_id", "ts", "card", "merchant", "device", "amount", "mcc", "foreign", "new_device"]


def payment(rng: Random, at: float, fraud: bool, card: int, device: int, merchant: int) -> Any:
    """Return the columns of a payment, and whether it is fraud; ``at`` is in days."""
    amount = math.exp(rng.gauss(4.1 if fraud else 3.4, 0.9))
    foreign = rng.random() < (0.3 if fraud else 0.06)
    when = BEGIN + timedelta(seconds=int(at * 86400))
    kind = KINDS[merchant % len(KINDS)]
    parts = [f"c{card}", f"m{merchant}", f"d{device}", f"{amount:.2f}", kind, foreign]
    return when, parts, device != card % DEVICES, fraud


def payments(rng: Random, honest: int, days: int) -> list[Any]:
    """Return all payments by time: honest ones, those of gangs, and single frauds."""
    rows = []
    for number in range(honest + FRAUD_ALONE):
        card = rng.randrange(CARDS)
        device = card % DEVICES if rng.random() < 0.85 else rng.randrange(DEVICES)
        merchant = int(MERCHANTS * rng.random() ** 2)
        rows.append(payment(rng, rng.random() * days, number >= honest, card, device, merchant))
    for _ in range(GANGS):
        begin, length = rng.random() * (days - 8), 3 + 5 * rng.random()
        cards, devices = rng.sample(range(CARDS), 12), rng.sample(range(DEVICES), 2)
        merchants = rng.sample(range(MERCHANTS), 3)
        for _ in range(FRAUD_BY_GANG):
            card, merchant = rng.choice(cards), rng.choice(merchants)
            if rng.random() < 0.3:
                merchant = rng.randrange(MERCHANTS)
            device = rng.choice(devices) if rng.random() < 0.85 else card % DEVICES
            rows.append(payment(rng, begin + rng.random() * length, True, card, device, merchant))
    return sorted(rows)


def write(folder: Path, seed: int, honest: int = PAYMENTS, days: int = DAYS) -> None:
    """Write both tables, with so many honest payments in so many days."""
    transactions = [HEAD]
    labels = [["tx_id", "label_ts", "is_fraud"]]
    for number, (when, parts, new, fraud) in enumerate(
        payments(Random(seed), honest, days), start=1
    ):
        transactions.append([f"t{number}", str(when), *map(str, parts), str(new)])
        labels.append([f"t{number}", str(when + timedelta(days=2)), str(int(fraud))])
    for name, rows in ("transactions.csv", transactions), ("labels.csv", labels):
        with (folder / name).open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(rows)


if __name__ == "__main__":
    if "--help" in sys.argv:
        print(__doc__)
        sys.exit()
    where = Path(sys.argv[1]) if len(sys.argv) > 1 else Path()
    write(where, int(sys.argv[2]) if len(sys.argv) > 2 else 1)
