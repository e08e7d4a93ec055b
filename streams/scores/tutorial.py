"""Weigh a classifier's scores against rules, online.

usage: python streams/scores/tutorial.py
"""

from pathlib import Path

import onlinesrl as srl

FOLDER = Path(__file__).parent

# A numeric predicate is declared `real`; its atoms have numbers, which multiply the rules they are in.
model = srl.Model.read(FOLDER / "scores.mln")
for rule in model.rules:
    print(rule.text)

# Each shop is predicted before it is learned from.
learner = srl.OnlineLearner(model, query="Fake", update="cda2", loss="ml", sigma=0.01)
learner.learn_many(srl.read(FOLDER / "scores.jsonl"))
print(f"\n{learner.metrics['examples']} shops, F1 {learner.metrics['f1']:.3f}")

# The classifier's log odds are calibrated, so that they get a weight of about 1.
print(learner.weights)

# In Python numbers are a mapping from constants. Two reviews of one account, of which the classifier
# suspects the first; the second is as unsuspicious as the third, but for its account:
reviews = {"Score": {"r1": 2.5, "r2": -0.4, "r3": -0.4}, "By": [("r1", "a"), ("r2", "a")]}
found = learner.predict_one(reviews, marginals=True)
print({review: round(p, 2) for (review,), p in (found.values or {})["Fake"].items()})
