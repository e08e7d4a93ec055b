"""Who trusts whom: PSL, with truth values between 0 and 1. Run it from anywhere."""

from itertools import islice
from pathlib import Path

import onlinesrl as srl

HERE = Path(__file__).parent
model = srl.Model.read(HERE / "trust.psl")
stream = [*islice(srl.read(HERE / "trust.jsonl"), 400)]

# An example lists its targets: the opinions that are not known. Every one gets a value, certified.
learner = srl.OnlineLearner(model, query="Trusts", update="cda2", loss="ml", sigma=0.1)
first = learner.predict_one(stream[0])
for (who, whom), value in islice((first.values or {})["Trusts"].items(), 3):
    print(f"{who} trusts {whom}: {value:.2f}")

# The weights begin equal. Learning tells which of the rules hold in this world.
before = [rule.weight for rule in model.rules]
learner.learn_many(stream)
for rule, weight in zip(model.rules, learner.weights.values(), strict=True):
    print(f"{weight:5.2f}  {rule.text}")
print(
    f"mean error {learner.metrics['mae']:.3f}, F1 {learner.metrics['f1']:.3f}; before: {before[:2]}"
)
