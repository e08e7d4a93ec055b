"""Do what the page `onlinesrl guide cutting` says, and measure it beside logistic regression.

usage: python streams/fraud/measure.py FOLDER

FOLDER has transactions.csv and labels.csv. The files of the page are written there. Prints the average
precision, the calibration error (ten bins), and F1 of what was predicted, from the tenth day on; and
CPU seconds. Logistic regression has the numbers of the payment asked about, and is fitted anew each day to
all payments whose label is known. It predicts by the threshold that was best on the labels known before that
day. It needs scikit-learn.
"""

import json
import re
import subprocess
import sys
import time
from importlib import resources
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from typing import Any

import numpy as np
from sklearn.feature_extraction import DictVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, precision_recall_curve
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler

JOINT = "Linked(p, q, +l) ^ Fraud(q) ^ Fraud(p)\n"
FIRST_DAY, LABEL_DAYS, FEW = 10, 2, 10


def files() -> dict[str, str]:
    """Return the page's rules and configuration."""
    page = (resources.files("onlinesrl") / "guide" / "cutting.md").read_text(encoding="utf-8")
    languages = {"fraud.mln": "mln", "fraud.yaml": "yaml"}
    return {
        name: re.findall(rf"^```{language}\n(.*?)^```", page, re.DOTALL | re.MULTILINE)[0]
        for name, language in languages.items()
    }


def cpu(command: list[str], folder: Path) -> float:
    """Run a command in a folder and return its CPU seconds."""
    begin = getrusage(RUSAGE_CHILDREN)
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    end = getrusage(RUSAGE_CHILDREN)
    return end.ru_utime + end.ru_stime - begin.ru_utime - begin.ru_stime


def asked(path: Path) -> dict[str, tuple[float, bool]]:
    """Return the probability of the payment that each example is about, and whether it is predicted."""
    with path.open(encoding="utf-8") as file:
        predictions = map(json.loads, file)
        return {
            prediction["id"]: (atom["value"], atom["args"] in prediction["predicted"]["Fraud"])
            for prediction in predictions
            for atom in prediction.get("marginals", {}).get("Fraud", ())
            if atom["args"] == [prediction["id"]]
        }


def best_before(label: Any, probability: Any, day: Any) -> Any:
    """Return what is predicted by the threshold that was best on the labels known before each day."""
    chosen = np.zeros(len(label), bool)
    for today in range(FIRST_DAY, day.max() + 1):
        past = day < today - LABEL_DAYS
        threshold = 0.5
        if label[past].sum() > FEW:
            precision, recall, values = precision_recall_curve(label[past], probability[past])
            f1 = 2 * precision * recall / np.maximum(precision + recall, 1e-12)
            threshold = values[f1[:-1].argmax()]
        chosen[day == today] = probability[day == today] >= threshold
    return chosen


def measures(label: Any, probability: Any, chosen: Any, day: Any) -> str:
    """Return the scores from FIRST_DAY on."""
    late = day >= FIRST_DAY
    label, probability, chosen = label[late], probability[late], chosen[late]
    bins = np.minimum((probability * 10).astype(int), 9)
    gaps = np.bincount(bins, probability - label, minlength=10)
    f1 = 2 * (label * chosen).sum() / (label.sum() + chosen.sum())
    precision = average_precision_score(label, probability)
    error = np.abs(gaps).sum() / len(label)
    return f"average precision {precision:.3f}, calibration error {error:.4f}, F1 {f1:.3f}"


def main(folder: Path) -> None:
    """Write the page's files and print a line for each method."""
    for name, text in files().items():
        (folder / name).write_text(text, encoding="utf-8")
    rules = (folder / "fraud.mln").read_text(encoding="utf-8")
    assert JOINT in rules
    (folder / "alone.mln").write_text(rules.replace(JOINT, ""), encoding="utf-8")
    command = str(Path(sys.executable).parent / "onlinesrl")
    cutting = [command, "examples", "fraud.yaml", "--output", "fraud.jsonl"]
    print(f"examples: {cpu(cutting, folder):.1f} s")

    features, label, times, truth = [], [], [], {}
    with (folder / "fraud.jsonl").open(encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    for line in lines:
        if "truth" in line:
            truth[line["id"]] = [line["id"]] in line["truth"]["Fraud"]
    examples = [line for line in lines if "evidence" in line and line["id"] in truth]
    for line in examples:
        name, evidence = line["id"], line["evidence"]
        row = {feature: 1.0 for atom, feature in evidence["Is"] if atom == name}
        numbers = (atom for atom in evidence["Number"] if atom["args"][0] == name)
        features.append(row | {atom["args"][1]: atom["value"] for atom in numbers})
        label.append(truth[name])
        times.append(line["time"])
    y, at = np.array(label, int), np.array(times)
    day = (at - at.min() // 86400 * 86400) // 86400

    begin, table, probability = (
        time.process_time(),
        DictVectorizer().fit_transform(features),
        np.zeros(len(y)),
    )
    for today in range(FIRST_DAY, day.max() + 1):
        now = at.min() // 86400 * 86400 + today * 86400
        seen = at + LABEL_DAYS * 86400 < now
        fitted = make_pipeline(MaxAbsScaler(), LogisticRegression(max_iter=1000)).fit(
            table[seen], y[seen]
        )
        probability[day == today] = fitted.predict_proba(table[day == today])[:, 1]
    late = day >= FIRST_DAY
    seconds = time.process_time() - begin
    y_late, p_late, day_late = y[late], probability[late], day[late]
    scores = measures(y_late, p_late, best_before(y_late, p_late, day_late), day_late)
    print(f"logistic regression: {scores}, {seconds:.1f} s", flush=True)

    for name in "alone", "fraud":
        model, run = f"model={name}.mln", folder / "runs" / name
        seconds = cpu(
            [command, "run", "fraud.yaml", "--set", model, "--set", f"output=runs/{name}"], folder
        )
        by_id = asked(run / "predictions.jsonl")
        p, chosen = map(np.array, zip(*(by_id[line["id"]] for line in examples), strict=True))
        print(f"{name}.mln: {measures(y, p, chosen, day)}, {seconds:.1f} s", flush=True)


if __name__ == "__main__":
    if "--help" in sys.argv:
        print(__doc__)
        sys.exit()
    main(Path(sys.argv[1]))
