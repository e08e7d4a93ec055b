"""Decide all papers of a citation graph together, online.

usage: python streams/collective/tutorial.py
"""

from pathlib import Path

import onlinesrl as srl

FOLDER = Path(__file__).parent

# Which topics cite which is learned: the third rule has a weight for each pair of topics.
model = srl.Model.read(FOLDER / "collective.mln")
for rule in model.rules:
    print(rule.text)

# Each graph is predicted, as a whole and with a proof, before it is learned from.
learner = srl.OnlineLearner(model, query="Topic", update="adagrad", loss="ml", sigma=0.1)
learner.learn_many(srl.read(FOLDER / "collective.jsonl"))
print(f"\n{learner.metrics['examples']} graphs, accuracy {learner.metrics['accuracy']:.3f}")
print(learner.weights.heaviest(8))

# A graph with two loops: a paper without a word of any topic is decided by those that it cites.
papers = {
    "Says": [("a", "proof"), ("a", "axiom"), ("b", "clause"), ("c", "method"), ("d", "image")],
    "Cites": [("b", "a"), ("c", "a"), ("c", "b"), ("d", "a"), ("d", "c")],
}
found = learner.predict_one(papers)
print(sorted(found["Topic"]), "certified" if found.certified else "not certified")

# Why the paper without a word of a topic is on this one: rules for and against, and the next best topic.
print("\n".join(srl.explain(learner, found, "Topic(c, logic)").lines(most=3)))
