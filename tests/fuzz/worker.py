"""One process that gives many damaged texts to the command line: `worker.py FIRST COUNT FOLDER FILE...`.

For each file and seed a line of JSON on standard output: the exit codes, CPU seconds, peak memory, and
what was said that must not be. Commands that take more than 20 s of CPU end the process; they fail with
more than 2 GB beyond what the imports take.
"""

import contextlib
import faulthandler
import gc
import io
import json
import os
import re
import resource
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from itertools import islice, product
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPO))

from tests.fuzz.mutations import mutated  # noqa: E402
from tests.support.shapes import same_for_all_plans  # noqa: E402

SECONDS = 20
BYTES = 2 << 30
LINES = 6
ALLOWED = {0, 64, 65, 74, 78}
SAMPLES = REPO / "tests" / "fuzz" / "samples"
LIMITS = ("--max-atoms", "300", "--max-groundings", "3000")
PSL_LIMITS = ("--max-groundings", "3000", "--targets", "skip")
QUERY = {
    "segmentation": "InField",
    "meetings": "HoldsAt",
    "webkb": "Faculty",
    "uwcse": "Advisedby",
    "yeast": "function",
    "cora": "Samebib",
    "markov": "HasCat",
    "trust": "Trusts",
    "scores": "Fake",
    "machines": "Fails",
    "entities": "Same",
    "tastes": "Read",
    "collective": "Topic",
    "smokers": "Smokes,Cancer",
    "joint": "InField",
    "mln1": "Clicked",
    "mln2": "Clicked",
    "mln3": "Clicked",
    "numbers": "Fake",
    "absent": "Reads",
    "equality": "Near",
    "groups": "InField,Holds,Role,Plain",
    "joins": "Cites",
    "listed": "Same",
    "runs": "InField",
    "declarations": "InField",
    "alchemy": "Smokes,Likes",
    "tuffy": "cat",
    "rockit": "topic",
    "pracmln": "topic",
}
JESTER = json.dumps(
    {
        "id": "u1",
        "group": "train",
        "evidence": {
            "Neighbours": [["j1", "j2"], ["j2", "j1"]],
            "AverageOfUser": [{"args": ["u1"], "value": 0.5}],
            "AverageOfJoke": [{"args": [j], "value": 0.4} for j in ("j1", "j2")],
            "Average": [{"args": ["all"], "value": 0.5}],
        },
        "query": {"Rating": [["u1", "j1"], ["u1", "j2"]]},
        "truth": {"Rating": [{"args": ["u1", "j1"], "value": 0.7}]},
    }
)
CONFIGS = {
    "segmentation": "citations",
    "meetings": "meetings",
    "scores": "scores",
    "collective": "collective",
    "jester": "jester",
    "search": "search",
    "trust": "trust",
}
DIALECTS = ("tuffy", "rockit", "pracmln")


def shipped() -> list[Path]:
    """Return the models, databases and configurations that come with the project, and samples."""
    kinds = {".mln", ".psl", ".db", ".yaml", ".data"}
    folders = ("streams", "configs", "tests/programs", "tests/fuzz/samples")
    found = (path for each in folders for path in sorted((REPO / each).rglob("*")))
    return [path for path in found if path.suffix in kinds]


def prepare(folder: Path) -> None:
    """Put streams of a few lines, the models and configurations in a folder, as in the repository."""
    for each in ("configs", "streams", "tests/fuzz/samples"):
        for path in (REPO / each).rglob("*"):
            copy = folder / path.relative_to(REPO)
            copy.parent.mkdir(parents=True, exist_ok=True)
            if path.suffix in {".mln", ".psl", ".yaml", ".db", ".data"}:
                shutil.copy(path, copy)
            elif path.suffix == ".jsonl":
                with path.open("rb") as lines:
                    short = sorted(islice(lines, 40), key=len)[:LINES]
                copy.write_bytes(b"".join(short))
    for name, like in (("caviar", "meetings"), ("citeseer", "citations")):
        shutil.copy(folder / f"streams/{like}/{like}.jsonl", folder / f"configs/{name}.jsonl")
    (folder / "configs/jester.jsonl").write_text(f"{JESTER}\n")
    samples = folder / "tests" / "fuzz" / "samples"
    (samples / "lives.txt").write_text("Ann\tHere\nBob\tHere\t0.5\n")
    (samples / "likes.txt").write_text("Ann\tx\t0.9\nBob\ty\n")
    (samples / "knows.txt").write_text("Ann\tBob\nBob\tAnn\n")
    (samples / "some.db").write_text("")
    for place, query in (
        ("search", "Mismatch,StrongMismatch"),
        ("trust", "Trusts"),
        ("papers/jester", "Rating"),
    ):
        of_stream = folder / "streams" / place
        _data(of_stream, of_stream.name, query.split(","))


def _data(folder: Path, name: str, opened: list[str]) -> None:
    """Write a .data file for a PSL model, with a few rows for each predicate."""
    text = re.sub(r"//[^\n]*", "", (folder / f"{name}.psl").read_text())
    arities = {p: a.count(",") + 1 for p, a in re.findall(r"(\w+)\(([^()]*)\)", text)}
    lines = ["predicates:", *(f"  {p}/{n}: {_kind(p, opened)}" for p, n in arities.items())]
    for section, kind in (("observations", "closed"), ("targets", "open")):
        lines += [f"{section}:", *(f"  {p}: {p}.txt" for p in arities if _kind(p, opened) == kind)]
    for predicate, n in arities.items():
        rows = map("\t".join, product("abc", repeat=n))
        (folder / f"{predicate}.txt").write_text("\n".join(rows))
    (folder / f"{name}.data").write_text("\n".join(lines))


def _kind(predicate: str, opened: list[str]) -> str:
    return "open" if predicate in opened else "closed"


def commands(path: Path, folder: Path, seed: int) -> Iterator[list[str]]:
    """Yield what is done with a file of the repository that is damaged in the folder."""
    name, place = path.stem, folder / path.relative_to(REPO)
    if path.suffix == ".mln":
        base = SAMPLES if path.parent == SAMPLES else None
        database = base / f"{name}.db" if base else folder / "tests/fuzz/samples/some.db"
        dialect = ["--dialect", name] if name in DIALECTS else []
        asked = ["--query", QUERY[name], "--evidence", str(database)]
        yield ["infer" if seed % 2 else "ground", "--model", str(place), *asked, *dialect, *LIMITS]
    elif path.suffix == ".db":
        dialect = ["--dialect", name] if name in DIALECTS else []
        asked = ["--query", QUERY[name], "--evidence", str(place)]
        yield ["infer", "--model", str(SAMPLES / f"{name}.mln"), *asked, *dialect, *LIMITS]
    elif path.suffix in {".psl", ".data"}:
        both = (place.with_suffix(".psl"), place.with_suffix(".data"))
        yield ["infer", "--model", str(both[0]), "--data", str(both[1]), *PSL_LIMITS]
    else:
        yield ["check", str(place), "--examples", str(LINES)]
    config = folder / "configs" / f"{CONFIGS.get(name, name)}.yaml"
    if path.suffix == ".yaml" or (name in CONFIGS and seed % 5 == 0):
        run = ["--until", str(LINES), "--fresh", "--set", f"output={folder / 'out'}"]
        yield ["run", str(config), *run]


def kafka(text: bytes) -> bool:
    """Tell whether a configuration asks for brokers: it is then only read."""
    return b"kafka" in text.lower()


def command(arguments: list[str]) -> tuple[int | str, str]:
    """Run a command line; return its exit code, or the name of its exception, and what it said."""
    from onlinesrl.commands import cli
    from onlinesrl.core.errors import OnlinesrlError

    said = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace")
    printed = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace")
    sys.argv = ["onlinesrl", *arguments]
    code: int | str
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(said):
        try:
            if arguments[0] == "load":
                from onlinesrl.runs.config.loading import load

                load(Path(arguments[1]))
            else:
                cli.main()
            code = 0
        except OnlinesrlError as error:
            code = error.exit_code
        except SystemExit as leave:
            code = int(leave.code or 0)
        except BaseException as error:
            code = type(error).__name__
            traceback.print_exc()
    said.flush()
    return code, said.buffer.getvalue().decode(errors="replace")  # type: ignore[attr-defined]


def memory() -> tuple[int, int]:
    """Return the bytes of address space, and the most that were resident."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * resource.getpagesize(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main(first: int, count: int, folder: Path, paths: list[Path]) -> None:
    """Damage each file by the seeds from ``first`` on, and tell what that gives."""
    from typer.main import get_command

    from onlinesrl.commands import cli

    report = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    gc.freeze = lambda: None  # it is for a process that ends
    cli.app = get_command(cli.app)  # type: ignore[assignment]  # once for all
    same_for_all_plans()
    prepare(folder)
    os.chdir(folder)
    texts = {path: path.read_bytes() for path in shipped()}
    for path, text in texts.items():
        place = folder / path.relative_to(REPO)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(text)
    for path in paths:
        for arguments in () if kafka(texts[path]) else commands(path, folder, 0):
            command(arguments)
    faulthandler.enable()
    faulthandler.register(signal.SIGPROF, chain=True)
    base, resident = memory()
    resource.setrlimit(resource.RLIMIT_AS, (base + BYTES, base + BYTES))
    for path in paths:
        place = folder / path.relative_to(REPO)
        for seed in range(first, first + count):
            damaged = mutated(texts[path], [*texts.values()], seed)
            place.write_bytes(damaged)
            clock = time.process_time()
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            read = [["load", str(place)]]
            only_read = kafka(damaged) and path.suffix == ".yaml"
            done = [command(each) for each in (read if only_read else commands(path, folder, seed))]
            signal.setitimer(signal.ITIMER_PROF, 0)
            wrong = [said for code, said in done if code not in ALLOWED or "Traceback" in said]
            found = {"file": path.name, "seed": seed, "codes": [code for code, _ in done]}
            seconds, more = time.process_time() - clock, memory()[1] - resident
            report.write(
                json.dumps(found | {"seconds": seconds, "bytes": more, "said": wrong}) + "\n"
            )
        place.write_bytes(texts[path])


if __name__ == "__main__":
    main(
        int(sys.argv[1]),
        int(sys.argv[2]),
        Path(sys.argv[3]).resolve(),
        [Path(each).absolute() for each in sys.argv[4:]],
    )
