"""Segment citations: learn online, and look at what was learned. Run it from anywhere."""

from pathlib import Path

import onlinesrl as srl

HERE = Path(__file__).parent

# A model is rules. `+` asks for a weight for every word and field; the stream brings the words.
model = srl.Model.read(HERE / "segmentation.mln")
print(f"{model!r}; the first is: {model.rules[0]}")

# Each citation is predicted before its truth is seen, so the scores are those of unseen examples.
learner = srl.OnlineLearner(
    model, query="InField", update="cda2", loss="ml", sigma=0.003, by="field"
)
for number, example in enumerate(srl.read(HERE / "citations.jsonl"), 1):
    prediction = learner.learn_one(example)
    if prediction.hamming:
        mistaken = prediction
    if number in {1, 10, 100, 252}:
        print(f"after {number:3} citations: F1 {learner.metrics['f1']:.3f}")

# The last mistakes. In a notebook, a prediction shows itself with the truth beside it.
words = {position: word for word, position in mistaken.evidence["Token"]}
truth = {*(mistaken.truth or {})["InField"]}
for position, field in sorted({*mistaken["InField"]} ^ truth):
    said = "is not" if (position, field) in mistaken["InField"] else "is"
    print(f"{mistaken.id}, word {position}, {words[position]!r} {said} {field}")

# What the word "in" has come to say, and what the bound on the regret is.
print(learner.weights.about("in"))
print({name: value and round(value, 3) for name, value in learner.certificate.items()})
