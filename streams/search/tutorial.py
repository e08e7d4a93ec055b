"""Which products do not match a query: PSL, example by example, and as one table. Run it from anywhere."""

from itertools import islice
from pathlib import Path

import onlinesrl as srl

HERE = Path(__file__).parent
model = srl.Model.read(HERE / "search.psl")
queries = [*islice(srl.read(HERE / "search.jsonl"), 200)]

# A classifier's scores are evidence with values; rules about similar products correct them.
learner = srl.OnlineLearner(
    model, query=["Mismatch", "StrongMismatch"], update="cda2", loss="ml", sigma=0.1
)
learner.learn_many(queries[:-1])
last = learner.predict_one(queries[-1])
print(last.table("Mismatch"))
print([round(value, 3) for value in last.table("Mismatch")["value"]])

# The same without learning: one query, its evidence as it is written in the stream.
example = queries[-1]
found = srl.infer(model, example.evidence, example.query or {})
print(f"energy {found.stats['objective']:.4f}, certified: {found.stats['certified']}")

# What the learner says, kept for tomorrow.
print(learner.weights_text().splitlines()[0])
