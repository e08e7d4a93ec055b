"""Print digests of what the shipped configurations learn, predict, set aside and save.

usage: python tests/support/digests.py [TREE] [--only NAME ...]

Two trees that print the same lines learn the same bits. TREE is a checkout of the repository, by default this
one; real data is read from the folder ``shared`` beside this one. Jobs without their data are left out, and
named on standard error.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
SHARED = REPO.parent / "shared"
SHIPPED = ("citations", "meetings", "collective", "scores", "search", "tastes", "trust")
CONVERTED = {name: SHARED / "data" / name for name in ("citeseer", "caviar")}
BATCH = {"cora": SHARED / "data" / "cora_er", "webkb": SHARED / "data" / "webkb"}
PSL_CASES = SHARED / "peers" / "psl" / "cases"
CHECKPOINT = """
import hashlib, json, sys
from pathlib import Path
from onlinesrl.core.io.checkpoint_file import load
saved = load(max(Path(sys.argv[1]).glob("checkpoints/*"), key=lambda path: path.name))
parts = {name: saved.header[name] for name in ("learner", "metrics", "position", "groups", "finished")}
text = json.dumps(parts, sort_keys=True)
for place in (sys.argv[2], str(Path(sys.argv[1]).parent)):  # the checkout, the folder of results
    text = text.replace(place, "")
digest = hashlib.sha256(text.encode())
for name in sorted(saved.arrays):
    array = saved.arrays[name]
    digest.update(f"{name} {array.dtype} {array.shape}".encode() + array.tobytes())
print(digest.hexdigest())
"""


class Tree:
    """A checkout, and the processes that run its code."""

    def __init__(self, root: Path):
        self.root = root
        self.environment = os.environ | {"PYTHONPATH": str(root), "PYTHONHASHSEED": "0"}

    def python(self, *arguments: str | Path) -> str:
        """Return what a process prints. Raises SystemExit with what it says where it fails."""
        done = subprocess.run(
            [sys.executable, *map(str, arguments)],
            env=self.environment,
            cwd=self.root,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise SystemExit(f"{arguments}: exit {done.returncode}\n{done.stderr[-2000:]}")
        return done.stdout

    def command(self, *arguments: str | Path) -> str:
        """Return what a command of onlinesrl prints."""
        return self.python("-c", "from onlinesrl.commands.cli import main; main()", *arguments)

    def converter(self, name: str) -> list[str | Path]:
        """Return the script that converts a data set; older trees have one for each."""
        script = self.root / "streams" / "papers" / "convert.py"
        if script.exists():
            return [script, name]
        return [next((self.root / "streams").rglob(f"from_{name}.py"))]


def sha(data: bytes) -> str:
    """Return the first 16 digits of the SHA-256 of some bytes."""
    return hashlib.sha256(data).hexdigest()[:16]


def of_run(tree: Tree, config: str, folder: Path, *keys: str) -> Iterator[tuple[str, str]]:
    """Yield the digests of an online run: its results, its last metrics, and its last checkpoint."""
    settings = [part for key in (f"output={folder}", *keys) for part in ("--set", key)]
    tree.command("run", tree.root / "configs" / f"{config}.yaml", *settings)
    for file in sorted(folder.glob("weights.*")):
        rows = [row for row in file.read_text().splitlines() if "onlinesrl" not in row]
        yield file.name, sha("\n".join(rows).encode())
    for name in ("predictions.jsonl", "deadletter.jsonl"):
        yield name, sha((folder / name).read_bytes() if (folder / name).exists() else b"")
    yield "metrics", sha((folder / "metrics.jsonl").read_bytes().splitlines()[-1])
    yield "checkpoint", tree.python("-c", CHECKPOINT, folder, tree.root).strip()[:16]


def of_batch(tree: Tree, config: str, data: Path, folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the digest of the weights of a batch learner."""
    keys = (
        f"output={folder}",
        f"source.path={data / 'fold1.db'}",
        f"test.path={data / 'fold2.db'}",
        "source.without=null",
        "test.only=null",
    )
    settings = [part for key in keys for part in ("--set", key)]
    tree.command("learn", tree.root / "configs" / f"{config}.yaml", *settings)
    rows = [
        row for row in (folder / "weights.mln").read_text().splitlines() if "onlinesrl" not in row
    ]
    yield "weights.mln", sha("\n".join(rows).encode())


def is_here(name: str, data: Path) -> bool:
    """Tell whether a job has its data; say so on standard error if not."""
    if not data.exists():
        print(f"{name}: left out, since there is no {data}", file=sys.stderr)
    return data.exists()


def jobs(tree: Tree, folder: Path) -> Iterator[tuple[str, Iterator[tuple[str, str]]]]:
    """Yield the name and the digests of every job whose data is here."""
    for name in SHIPPED:
        yield name, of_run(tree, name, folder / name)
    for name, data in CONVERTED.items():
        if is_here(name, data):
            source = folder / f"{name}.jsonl"
            tree.python(*tree.converter(name), data, source)
            yield name, of_run(tree, name, folder / name, f"source.path={source}")
    for name, data in BATCH.items():
        if is_here(name, data / "fold1.db"):
            yield name, of_batch(tree, name, data, folder / name)
    cases = sorted(PSL_CASES.glob("*/config.json")) if is_here("psl", PSL_CASES) else []
    for case in cases:
        if not case.parent.name.endswith("-learn"):
            answer = folder / case.parent.name
            yield f"psl {case.parent.name}", of_psl(tree, case.parent, answer)


def of_psl(tree: Tree, case: Path, folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the digests of the values that each of two engines infers in one of PSL's cases."""
    for method in ("admm", "lifted-admm"):
        out = folder / method
        tree.command("infer", "--model", case / "config.json", "--method", method, "--output", out)
        text = b"".join(file.read_bytes() for file in sorted(out.rglob("*.txt")))
        yield method, sha(text)


def main() -> None:
    """Print a line for each digest."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tree", nargs="?", type=Path, default=REPO)
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME")
    options = parser.parse_args()
    tree = Tree(options.tree.resolve())
    with tempfile.TemporaryDirectory() as folder:
        for name, digests in jobs(tree, Path(folder)):
            if not options.only or name in options.only:
                for part, digest in digests:
                    print(f"{name} {part} {digest}", flush=True)


if __name__ == "__main__":
    main()
