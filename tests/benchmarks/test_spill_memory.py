"""Markov logic on disk: what memory does not hold, and what a million atoms without company cost."""

import json
from pathlib import Path

import pytest

from tests.benchmarks.measure import python, show

pytestmark = pytest.mark.benchmark
CIRCLES, PEOPLE, DAYS = 500, 20, 500
MEGABYTES = 200
RULES = """Friends(p, p)
Day(d)
Smokes(p)
Cancer(p)
0.7 Smokes(x) => Cancer(x)
0.003 Friends(x, y) ^ Day(d) ^ Smokes(x) => Smokes(y)
-0.4 Smokes(x)
-0.3 Cancer(x)
-0.2 Friends(x, y) ^ Cancer(x) ^ Cancer(y)
"""
ALONE = "P(t, t)\nQ(t)\n1 P(x, y) ^ Q(x)\n"
RUN = """
import json, resource, sys
from onlinesrl.commands import memory
from onlinesrl.commands.cli import main
most = int(sys.argv.pop(1)) << 20
if most:
    memory.free = lambda: most
try:
    main()
except SystemExit as ended:
    print(json.dumps(ended.code or 0))
"""
"""The command, with so many megabytes of memory; 0: all there are."""


def circles() -> str:
    """Friends in circles, each with two others; in each circle one smokes and one does not."""
    lines = [f"Day(D{day})" for day in range(DAYS)]
    for c in range(CIRCLES):
        for n in range(PEOPLE):
            for other in ((n + 1) % PEOPLE, (n * 7 + 3) % PEOPLE):
                lines += [f"Friends(P{c}_{n}, P{c}_{other})"] * (other != n)
        lines += [f"Smokes(P{c}_0)", f"!Smokes(P{c}_1)"]
    return "\n".join(dict.fromkeys(lines))


def ask(folder: Path, query: str, megabytes: int, *more: str | Path):
    """Return the exit code, the answers, CPU and wall seconds."""
    files = ("--model", folder / "m.mln", "--evidence", folder / "e.db", "--query", query)
    limits = ("--max-atoms", "2000000", "--max-groundings", "100000000")
    out = folder / "out"
    out.unlink(missing_ok=True)
    used = python("-c", RUN, str(megabytes), "infer", *files, *limits, "--output", out, *more)
    code = json.loads(used.output.splitlines()[-1])
    return code, out.read_text() if out.exists() else "", used.cpu, used.wall


def test_a_network_that_memory_does_not_hold(tmp_path: Path) -> None:
    (tmp_path / "m.mln").write_text(RULES)
    (tmp_path / "e.db").write_text(circles())
    query, spill = "Smokes,Cancer", ("--spill", tmp_path)
    ask(tmp_path, query, 0, *spill)  # compiles
    code, _, *_ = ask(tmp_path, query, MEGABYTES)
    assert code == 69
    rows = []
    found = {}
    for name, megabytes, more in (("memory", 0, ()), (f"disk, {MEGABYTES} MB", MEGABYTES, spill)):
        code, found[name], cpu, wall = ask(tmp_path, query, megabytes, *more)
        assert code == 0
        rows.append((name, wall, cpu))
    one, other = found.values()
    assert one == other
    ratio = rows[1][2] / rows[0][2]
    clauses = 2 * CIRCLES * PEOPLE * DAYS
    show(
        f"About {clauses:,} ground clauses, {CIRCLES} components: disk/memory {ratio:.2f} of CPU",
        ("network in", "s", "CPU s"),
        rows,
    )


def test_a_million_atoms_alone(tmp_path: Path) -> None:
    (tmp_path / "m.mln").write_text(ALONE)
    rows = []
    for n in (300, 1000):
        (tmp_path / "e.db").write_text("".join(f"Q(A{k})\n" for k in range(n)))
        for method in ("mpe", "exact"):
            code, found, cpu, wall = ask(tmp_path, "P", 0, "--method", method)
            assert code == 0
            assert found.count("\n") == n * n
            rows.append((method, f"{n * n:,}", wall, cpu, 1e6 * cpu / n**2))
    show("Atoms alone", ("method", "atoms", "s", "CPU s", "us each"), rows)
