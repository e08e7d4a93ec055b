"""Changes of a small world of people who rate, praise and warn each other, some of them bad."""

import json
import random

PSL = """\
0.5: Rates(A, B) -> Good(B) ^2
1: Rates(A, B) & Good(A) -> Good(B) ^2
2: Warns(A, B) & Good(A) -> !Good(B)
0.2: !Good(A) ^2
Good(+A) <= 6 .
"""
MLN = """\
Rates(user, user)
Warns(user, user)
Good(user)
1 Rates(x, y) ^ Good(x) => Good(y)
2 Warns(x, y) ^ Good(x) => !Good(y)
0.5 Rates(x, y) => Good(y)
-0.2 Good(x)
"""
BAD = [
    {"add": {"Praises": [["a", "b"]]}},
    {"add": {"Rates": [["a"]]}},
    {"remove": {"Rates": [["z", "z"]]}},
    {"set": {"Rates": [{"args": ["a", "b"], "value": 3}]}},
    {"set": {"Warns": [{"args": ["a", "x"], "value": n} for n in (0, 1)]}},
    {"evidence": {"Rates": [["a", "b"]]}},
    {"id": "k1", "evidence": {"Rates": [["a", "c"]]}, "add": {"Rates": [["a", "b"]]}},
    {"id": "k1", "truth": {"Praises": [["a", "b"]]}},
]


def changes(
    count: int, soft: bool, seed: int = 0, people: str = "abcdefgh", listed: bool | None = None
) -> list[dict]:
    """Reports of keys, some later replaced or taken back, and single facts, with bad ones among them."""
    rng, lines, single = random.Random(seed), [], set()
    for n in range(count):
        pair = rng.sample(people, 2)
        name = rng.choice(["Rates", "Rates", "Warns"])
        key = f"k{rng.randrange(count // 3 + 1)}"
        choice = rng.randrange(9)
        if choice < 4:
            line = {"id": key, "evidence": {name: [pair]}}
            if soft if listed is None else listed:
                line["query"] = {"Good": [[p] for p in pair]}
        elif choice == 4:
            line = {"id": key}
        elif choice == 5 and single:
            fact = rng.choice(sorted(single))
            single.remove(fact)
            line = {"remove": {fact[0]: [[*fact[1:]]]}}
        elif choice == 6:
            value = rng.choice([0.3, 0.8]) if soft else rng.randrange(2)
            line = {"set": {"Good": [{"args": [pair[0]], "value": value}]}}
            single.add(("Good", pair[0]))
        elif choice == 7 and (name, *pair) not in single:
            single.add((name, *pair))
            line = {"add": {name: [pair]}}
        else:
            line = BAD[n % len(BAD)]
        lines.append(line)
    return lines


def encoded(lines: list[dict]) -> list[bytes]:
    return [json.dumps(line).encode() + b"\n" for line in lines]
