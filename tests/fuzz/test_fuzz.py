"""Damaged models, databases and configurations: each is taken or refused in words, in time and memory.

`pytest -m soak tests/fuzz -s` damages every file 2,000 times (`-k trust.psl` one of them), and prints counts.
"""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz.worker import BYTES, SECONDS, shipped

WORKER = Path(__file__).with_name("worker.py")


def damaged(first: int, count: int, folder: Path, paths: Sequence[Path]) -> list[dict[str, Any]]:
    """Return what a worker tells of the files for so many seeds; it must come to its end."""
    command = [sys.executable, str(WORKER), str(first), str(count), str(folder), *map(str, paths)]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    last = f"after {found[-1]['file']}, seed {found[-1]['seed']}" if found else "at the start"
    assert done.returncode == 0, f"ended with {done.returncode} {last}: {done.stderr[-4000:]}"
    assert len(found) == count * len(paths)
    for each in found:
        assert not each["said"], f"{each['file']}, seed {each['seed']}: {each['said'][0][-4000:]}"
        assert each["seconds"] < SECONDS
        assert each["bytes"] < BYTES
    return found


def test_files_with_a_few_damages(tmp_path: Path, tally: Counter[str]) -> None:
    """Every third file; soak tries all."""
    found = damaged(6, 1, tmp_path / "a" / "b" / "c", shipped()[::3])
    codes = Counter(code for each in found for code in each["codes"])
    assert {0, 65, 78} <= codes.keys()
    tally["damaged models, databases and configurations"] += len(found)


@pytest.mark.soak
@pytest.mark.parametrize("path", shipped(), ids=lambda path: path.name)
def test_files_with_two_thousand_damages(path: Path, tmp_path: Path, tally: Counter[str]) -> None:
    found = damaged(0, 2_000, tmp_path / "a" / "b" / "c", [path])
    codes = Counter(code for each in found for code in each["codes"])
    slowest, largest = (max(each[name] for each in found) for name in ("seconds", "bytes"))
    said = ", ".join(f"{n} times {code}" for code, n in sorted(codes.items()))
    print(f"{path.name}: {len(found)} damages; {said}; at most {slowest:.2f} s, {largest >> 20} MB")
    tally["damaged models, databases and configurations"] += len(found)
