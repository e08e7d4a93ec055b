"""One way to give data, in a process of its own: prints seconds of CPU, and peak memory, as JSON.

``tables.py make FOLDER`` writes the data; ``tables.py WAY FOLDER`` reads them and works.
"""

import json
import resource
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl

import onlinesrl as srl

ROWS, PEOPLE, EXAMPLES = 1_000_000, 100_000, 100_000
PSL = "1: Knows(A, B) & Votes(A) -> Votes(B) ^2\n0.1: !Votes(A) ^2\n"
MLN = """Word(doc, word)
Spam(doc)
0 Word(d, +w) => Spam(d)
0 Spam(d)
"""


def make(folder: Path) -> None:
    """Write a graph of a million edges, and a hundred thousand messages of ten words."""
    rng = np.random.default_rng(0)
    pairs = np.unique(rng.integers(0, PEOPLE, (ROWS + 1_000, 2)), axis=0)
    names = np.char.add("p", np.arange(PEOPLE).astype(str))
    knows = pl.DataFrame({"a": names[pairs[:ROWS, 0]], "b": names[pairs[:ROWS, 1]]})
    votes = pl.DataFrame(
        {"a": names[: PEOPLE // 2], "value": rng.integers(0, 2, PEOPLE // 2) / 1.0}
    )
    asked = pl.DataFrame({"a": names[PEOPLE // 2 :]})
    for name, frame in (("Knows", knows), ("Votes", votes), ("asked", asked)):
        frame.write_parquet(folder / f"{name}.parquet")
        frame.write_csv(folder / f"{name}.txt", separator="\t", include_header=False)
    (folder / "m.psl").write_text(PSL)
    for ending in ("txt", "parquet"):
        (folder / f"{ending}.data").write_text(
            "predicates: {Knows/2: closed, Votes/1: open}\n"
            f"observations: {{Knows: Knows.{ending}, Votes: Votes.{ending}}}\n"
            f"targets: {{Votes: asked.{ending}}}\n"
        )
    (folder / "m.mln").write_text(MLN)
    spam = rng.random(EXAMPLES) < 0.4
    words = np.char.add(
        "w", (rng.zipf(1.3, (EXAMPLES, 10)) % 5_000 + 100 * spam[:, None]).astype(str)
    )
    docs = np.arange(EXAMPLES)
    (folder / "tables" / "evidence").mkdir(parents=True, exist_ok=True)
    (folder / "tables" / "truth").mkdir(exist_ok=True)
    table = pl.DataFrame(
        {"id": docs.repeat(10), "doc": np.full(10 * EXAMPLES, "d"), "word": words.ravel()}
    )
    table = table.unique(maintain_order=True)
    table.write_parquet(folder / "tables" / "evidence" / "Word.parquet")
    truth = pl.DataFrame({"id": docs[spam], "doc": np.full(int(spam.sum()), "d")})
    truth.write_parquet(folder / "tables" / "truth" / "Spam.parquet")
    with (folder / "lines.jsonl").open("w") as stream:
        for n in docs.tolist():
            found = [["d", word] for word in dict.fromkeys(words[n].tolist())]
            is_spam = {"Spam": [["d"]]} if spam[n] else {}
            line = {"id": n, "evidence": {"Word": found}, "truth": is_spam}
            stream.write(json.dumps(line) + "\n")


def frame(path: Path) -> pl.DataFrame:
    return pl.read_parquet(path)


def infer(way: str, folder: Path) -> str:
    """Infer a hundred thousand votes; return what was found."""
    if way == "frames":
        evidence = {name: frame(folder / f"{name}.parquet") for name in ("Knows", "Votes")}
        query = {"Votes": frame(folder / "asked.parquet")}
        stats = srl.infer(srl.Model.read(folder / "m.psl"), evidence, query).stats
    else:
        from onlinesrl.psl.inference.solving import Options
        from onlinesrl.psl.query import infer as psl

        data = folder / f"{way}.data"
        stats = psl.infer(folder / "m.psl", data, Options()).stats
    return f"{stats['objective']:.3f}"


def learn(way: str, folder: Path) -> str:
    """Learn from a hundred thousand examples; return the digest of the weights."""
    import hashlib

    if way == "frames":
        learner = srl.OnlineLearner(srl.Model.read(folder / "m.mln"), query="Spam")
        tables = folder / "tables"
        examples = srl.examples(
            {"Word": frame(tables / "evidence" / "Word.parquet")},
            {"Spam": frame(tables / "truth" / "Spam.parquet")},
            by="id",
        )
        learner.learn_many(examples)
        text = learner.weights_text()
    else:
        source = {"path": str(folder / "lines.jsonl")}
        if way == "parquet":
            source = {"kind": "parquet", "path": str(folder / "tables")}
        output = folder / f"run-{way}"
        config = {"model": str(folder / "m.mln"), "query": "Spam", "output": str(output)}
        srl.run({**config, "source": source}, fresh=True)
        text = (output / "weights.mln").read_text()
    lines = sorted(line for line in text.splitlines() if not line.startswith("//"))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]


if __name__ == "__main__":
    if "--help" in sys.argv:
        print(__doc__)
        sys.exit()
    what, way, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    if what == "make":
        make(folder)
    else:
        started = time.process_time()
        found = {"infer": infer, "learn": learn}[what](way, folder)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(json.dumps({"found": found, "cpu": time.process_time() - started, "peak": peak}))
