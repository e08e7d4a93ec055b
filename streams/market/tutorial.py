"""A marketplace that stays: praise and reports come and go, and the answer follows. Run it from anywhere."""

import json
from pathlib import Path

import onlinesrl as srl

HERE = Path(__file__).parent

# One world, and each line of the stream is a change of it: facts that a name asserts from then on.
world = srl.World(srl.Model.read(HERE / "market.psl"), query="Good")
lines = [*map(json.loads, (HERE / "market.jsonl").read_text().splitlines())]
trades = [line for line in lines[:800] if "evidence" in line]
users = {name for line in trades for (name,) in line["query"]["Good"]}
world.apply(query={"Good": sorted(users)})
for line in trades:
    ((predicate, [pair]),) = line["evidence"].items()
    world.apply(set={predicate: [pair]})
print(f"{len(users)} accounts, {world.certificate}")

# What a report changes, and why an account is where it is.
(reporter, account) = next(
    line["evidence"]["Praised"][0] for line in trades if "Praised" in line["evidence"]
)
delta = world.apply(add={"Reported": [(account, reporter)]})
print(delta)
print(world.explain(f"Good({reporter})"))

# The report is taken back: the answer is what it was.
print(world.apply(remove={"Reported": [(account, reporter)]}))

# The whole stream, with verdicts to learn from: onlinesrl run configs/market.yaml
