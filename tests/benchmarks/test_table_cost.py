"""Tables beside text: evidence for PSL, and examples to learn from; each way in a process of its own."""

import hashlib
import json
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl

import onlinesrl as srl
from tests.benchmarks.measure import python, show, sizes

PSL = "1: Knows(A, B) & Votes(A) -> Votes(B) ^2\n0.1: !Votes(A) ^2\n"
MLN = "Word(doc, word)\nSpam(doc)\n0 Word(d, +w) => Spam(d)\n0 Spam(d)\n"
CODE = "from tests.benchmarks.test_table_cost import main; main()"


def make_graph(folder: Path, edges: int) -> None:
    """Write who knows whom among a tenth as many people, and the votes of half of them."""
    rng, people = np.random.default_rng(0), edges // 10
    pairs = np.unique(rng.integers(0, people, (edges + edges // 100, 2)), axis=0)[:edges]
    names = np.char.add("p", np.arange(people).astype(str))
    votes = rng.integers(0, 2, people // 2) / 1.0
    frames = {
        "Knows": pl.DataFrame({"a": names[pairs[:, 0]], "b": names[pairs[:, 1]]}),
        "Votes": pl.DataFrame({"a": names[: people // 2], "value": votes}),
        "asked": pl.DataFrame({"a": names[people // 2 :]}),
    }
    for name, frame in frames.items():
        frame.write_parquet(folder / f"{name}.parquet")
        frame.write_csv(folder / f"{name}.txt", separator="\t", include_header=False)
    (folder / "m.psl").write_text(PSL)
    for ending in ("txt", "parquet"):
        (folder / f"{ending}.data").write_text(
            "predicates: {Knows/2: closed, Votes/1: open}\n"
            f"observations: {{Knows: Knows.{ending}, Votes: Votes.{ending}}}\n"
            f"targets: {{Votes: asked.{ending}}}\n"
        )


def make_messages(folder: Path, count: int) -> None:
    """Write messages of ten words, as lines and as tables."""
    rng, (evidence, truth) = np.random.default_rng(0), (folder / "evidence", folder / "truth")
    spam = rng.random(count) < 0.4
    numbers = rng.zipf(1.3, (count, 10)) % 5_000 + 100 * spam[:, None]
    words, docs = np.char.add("w", numbers.astype(str)), np.arange(count)
    evidence.mkdir()
    truth.mkdir()
    table = pl.DataFrame({"id": docs.repeat(10), "doc": ["d"] * 10 * count, "word": words.ravel()})
    table.unique(maintain_order=True).write_parquet(evidence / "Word.parquet")
    labels = pl.DataFrame({"id": docs[spam], "doc": ["d"] * int(spam.sum())})
    labels.write_parquet(truth / "Spam.parquet")
    (folder / "m.mln").write_text(MLN)
    with (folder / "lines.jsonl").open("w") as stream:
        for n in docs.tolist():
            rows = [["d", word] for word in dict.fromkeys(words[n].tolist())]
            label = {"Spam": [["d"]]} if spam[n] else {}
            stream.write(json.dumps({"id": n, "evidence": {"Word": rows}, "truth": label}) + "\n")


def infer(way: str, folder: Path) -> str:
    """Infer the votes; return the objective."""
    if way == "frames":
        evidence = {n: pl.read_parquet(folder / f"{n}.parquet") for n in ("Knows", "Votes")}
        query = {"Votes": pl.read_parquet(folder / "asked.parquet")}
        stats = srl.infer(srl.Model.read(folder / "m.psl"), evidence, query).stats
    else:
        from onlinesrl.psl.inference.solving import Options
        from onlinesrl.psl.query import infer as psl

        stats = psl.infer(folder / "m.psl", folder / f"{way}.data", Options()).stats
    return f"{stats['objective']:.3f}"


def learn(way: str, folder: Path) -> str:
    """Learn from the messages; return the digest of the weights."""
    if way == "frames":
        learner = srl.OnlineLearner(srl.Model.read(folder / "m.mln"), query="Spam")
        word, spam = folder / "evidence" / "Word.parquet", folder / "truth" / "Spam.parquet"
        tables = {"Word": pl.read_parquet(word)}, {"Spam": pl.read_parquet(spam)}
        learner.learn_many(srl.examples(*tables, by="id"))
        text = learner.weights_text()
    else:
        tables = {"kind": "parquet", "path": str(folder)}
        source = tables if way == "parquet" else {"path": str(folder / "lines.jsonl")}
        output = folder / f"run-{way}"
        config = {"model": str(folder / "m.mln"), "query": "Spam", "output": str(output)}
        srl.run({**config, "source": source}, fresh=True)
        text = (output / "weights.mln").read_text()
    lines = sorted(line for line in text.splitlines() if not line.startswith("//"))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]


def main() -> None:
    """Read in one way and work; print what was computed, and CPU seconds without imports."""
    what, way, folder = sys.argv[1:]
    began = time.process_time()
    result = {"infer": infer, "learn": learn}[what](way, Path(folder))
    print(json.dumps({"result": result, "cpu": time.process_time() - began}))


@sizes("edges, messages", (100, 20), (1_000_000, 100_000))
def test_tables_beside_text(edges: int, messages: int, tmp_path: Path) -> None:
    make_graph(tmp_path, edges)
    make_messages(tmp_path, messages)
    rows = []
    for what in ("infer", "learn"):
        results = set()
        for way in ("txt", "parquet", "frames"):
            if edges <= 100:
                results.add({"infer": infer, "learn": learn}[what](way, tmp_path))
                continue
            python("-c", CODE, what, way, tmp_path)  # loads and compiles
            used = python("-c", CODE, what, way, tmp_path)
            found = json.loads(used.output)
            results.add(found["result"])
            rows.append((f"{what} from {way}", found["cpu"], used.wall, used.megabytes))
        assert len(results) == 1, results
    show(
        f"{edges:,} rows into infer, {messages:,} examples into learn",
        ("", "CPU s", "s", "peak MB"),
        rows,
    )
