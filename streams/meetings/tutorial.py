"""Who meets whom on camera: an event calculus whose weights are learned. Run it from anywhere."""

from itertools import islice
from pathlib import Path

import onlinesrl as srl

HERE = Path(__file__).parent

# The rules say what may start and end a meeting; how much each of them counts is learned.
learner = srl.OnlineLearner(
    srl.Model.read(HERE / "meetings.mln"), query="HoldsAt", update="cda2", loss="ml", sigma=0.01
)
windows = srl.read(HERE / "meetings.jsonl")
learner.learn_many(islice(windows, 300))
print(
    f"300 windows: precision {learner.metrics['precision']:.3f}, recall {learner.metrics['recall']:.3f}"
)

# A window that it has not learned from: the meeting that is most probable, and how sure each frame is.
for window in windows:
    if window.truth and window.truth["HoldsAt"]:
        break
predicted = learner.predict_one(window)
sure = learner.predict_one(window, marginals=True)
frames = {time for _, time in (predicted.truth or {})["HoldsAt"]}
print(f"{window.id}: true in {len(frames)} frames, predicted in {len(predicted['HoldsAt'])}")
for (meeting, time), probability in (sure.values or {})["HoldsAt"].items():
    if time in frames:
        print(f"  {meeting} at {time}: {probability:.2f}")

# The rules that matter most.
print(learner.weights.heaviest(5))
