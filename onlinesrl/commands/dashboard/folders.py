"""What a run folder shows of its run: read only, never locked, whatever state its files are in."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from onlinesrl.core.errors import FolderError, StorageError
from onlinesrl.core.evaluation.means_between import means_between
from onlinesrl.core.example import Atoms, Constant, ValuedAtom, arguments, show_ground_atom
from onlinesrl.stream.checkpoints import numbered
from onlinesrl.stream.run_folder import is_run
from onlinesrl.stream.tail import Tail

POINTS = 400
"""Of twice as many points of a curve every other one is left out."""
PREDICTIONS, LISTED, LETTERS, EXAMPLES = 300, 12, 10, 24
ATOMS = 200
"""The most atoms of a prediction that are listed."""
METRICS = "metrics.jsonl"
CURVE_BYTES = 1 << 26
"""The most bytes of metrics that are read at a look, some 50,000 points: curves begin at the first."""
LOCKS = Path("/proc/locks")
T = TypeVar("T")


class _Scores(msgspec.Struct):
    """The scores since the last line."""

    f1: float | None = None


class _Drift(msgspec.Struct):
    at: list[int] = []


class _Bin(msgspec.Struct):
    """The atoms with probabilities of a bin: their mean, and the share of them that are true."""

    probability: float
    true: float


class Point(msgspec.Struct):
    """What is shown of a line of metrics."""

    examples: int
    labelled: int = 0
    bad: int = 0
    f1: float | None = None
    mae: float | None = None
    hamming: float | None = None
    average_precision: float | None = None
    brier: float | None = None
    calibration_error: float | None = None
    temperature: float | None = None
    reliability: list[_Bin] = []
    window: _Scores = msgspec.field(default_factory=_Scores)
    loss: float | None = None
    regret_bound: float | None = None
    updates: int = 0
    drift: _Drift = msgspec.field(default_factory=_Drift)
    weights: int = 0
    errors: dict[str, int] = {}
    routes: dict[str, int] = {}
    certified: int | None = None
    audited: int = 0
    unsolved: int = 0
    facts: int | None = None
    changed_atoms: int | None = None
    touched_rules: int | None = None


class Prediction(msgspec.Struct):
    """What is shown of a prediction."""

    id: Constant
    predicted: Atoms
    certified: bool | None = None
    group: str | None = None
    hamming: int | None = None


class Letter(msgspec.Struct):
    """What is shown of a dead letter."""

    file: str
    line: int
    reason: str
    id: str | None = None


class Saved(NamedTuple):
    """A checkpoint: its file, bytes, and time in seconds since 1970."""

    path: Path
    bytes: int
    time: float


class Unseen(NamedTuple):
    """A checkpoint to be looked at, the one before it, and which start of the run it is of."""

    saved: Saved
    before: Path | None
    start: int


class Watched:
    """A run folder, looked at now and then; memory and time do not grow with the run.

    Raises FolderError for what is not the folder of a run.
    """

    def __init__(self, path: Path) -> None:
        try:
            run = is_run(path)
        except OSError as error:
            raise FolderError(f"{path}: cannot be read: {error.strerror}") from error
        if not run:
            reason = "not the folder of a run" if path.exists() else "there is no such folder"
            raise FolderError(
                f"{path}: {reason}; expected one that a run has written to (its output)"
            )
        self.path = path
        self._metrics = Tail(path / METRICS, newest=False)
        self._predictions = Tail(path / "predictions.jsonl")
        self._letters = Tail(path / "deadletter.jsonl")
        self._saved: list[Saved] = []
        self._newest: deque[Prediction] = deque(maxlen=PREDICTIONS)
        self._dead: deque[Letter] = deque(maxlen=LETTERS)
        self._starts = 0
        self._restart()

    def _restart(self) -> None:
        """Forget a run that has been started over, or has lost its last examples."""
        self._starts += 1
        self._points: dict[int, Point] = {}
        self.examples: dict[str, dict[str, Any]] = {}
        """The newest examples whose truth is known, as ``worker.look`` gives them, by id."""
        self.held: Mapping[str, Any] = {}
        """What the newest checkpoint looked at holds."""
        self._seen: Saved | None = None

    # reading -------------------------------------------------------------------------------------

    def look(self) -> None:
        """Read what is new: all metrics, and the newest predictions and dead letters."""
        self._saved = self._checkpoints()
        read, lines = 0, [b""]
        while lines and read < CURVE_BYTES:
            lines = self._metrics.lines()
            if self._metrics.anew:
                self._restart()
            self._add(_decoded(lines, Point))
            read += sum(map(len, lines))
        _extend(self._newest, self._predictions, Prediction)
        _extend(self._dead, self._letters, Letter)

    def _add(self, points: list[Point]) -> None:
        """Add points of the curves; a resumed run writes some again."""
        for point in points:
            self._points[point.examples] = point
        while len(self._points) > 2 * POINTS:
            first, *rest = sorted(self._points)
            chosen = [first, *rest[-1::-2]]
            self._points = {examples: self._points[examples] for examples in sorted(chosen)}

    def _checkpoints(self) -> list[Saved]:
        """Return the checkpoints, oldest first."""
        saved: list[Saved] = []
        with suppress(StorageError):  # the folder may vanish
            for _, path in sorted(numbered(self.path / "checkpoints").items()):
                with suppress(OSError):
                    status = path.lstat()
                    saved.append(Saved(path, status.st_size, status.st_mtime))
        return saved

    @property
    def unseen(self) -> Unseen | None:
        """The newest checkpoint, if it has not been looked at."""
        if not self._saved or self._saved[-1] == self._seen:
            return None
        before = self._saved[-2].path if len(self._saved) > 1 else None
        return Unseen(self._saved[-1], before, self._starts)

    def take(self, unseen: Unseen, content: Mapping[str, Any]) -> None:
        """Take what ``worker.look`` has found in a checkpoint; of an error keep what was known before."""
        if unseen.start != self._starts:
            return
        self._seen = unseen.saved
        if "error" in content:
            self.held = {**self.held, **content}
            return
        self.held = content
        point = msgspec.convert(content["line"], Point)
        if point.examples not in self._points:  # the run's own line has the whole window
            self._add([point])
        for example in content["examples"]:
            name = example["row"]["id"]
            self.examples.pop(name, None)
            self.examples[name] = example
        for name in [*self.examples][:-EXAMPLES]:
            del self.examples[name]

    # showing -------------------------------------------------------------------------------------

    def parts(self) -> dict[str, Any]:
        """Return what the page shows, by its parts, for JSON."""
        last = self._points[max(self._points)] if self._points else None
        tails = (self._predictions.path, self._letters.path, self._metrics.path)
        files = [path for path in (*tails, self.path / "summary.json") if path.exists()]
        return {
            "head": {
                "path": str(self.path),
                "state": self._state(),
                "last": last,
                "saved": self._saved[-1].time if self._saved else None,
                "written": max(map(_written, files), default=None),
            },
            "curves": self._curves(),
            "weights": {name: self.held.get(name) for name in ("heaviest", "moved", "error")},
            "examples": {
                "marked": [example["row"] for example in reversed(self.examples.values())],
                "newest": [*map(_listed, [*self._newest][-LISTED:][::-1])],
            },
            "operation": {
                "last": last,
                "seconds": self.held.get("seconds"),
                "since": self.held.get("since") or {},
                "slowest": self.held.get("slowest", []),
                "lag": _behind(self.held.get("position"), self.held.get("behind")),
                "letters": [*self._dead][::-1],
                "checkpoints": [
                    {"name": saved.path.name, "bytes": saved.bytes, "time": saved.time}
                    for saved in reversed(self._saved)
                ],
            },
        }

    def _state(self) -> str:
        if not self.path.is_dir():
            return "gone"
        if _is_locked(self.path / "lock"):
            return "running"
        if self._saved and not self.held:
            return "loading"
        return "finished" if self.held.get("finished") else "not running"

    def _curves(self) -> dict[str, Any]:
        points = [self._points[examples] for examples in sorted(self._points)]
        examples = [point.examples for point in points]
        bins = points[-1].reliability if points else []
        columns = {
            "examples": examples,
            "f1": [point.f1 for point in points],
            "window": [point.window.f1 for point in points],
            "loss": [point.loss for point in points],
            "regret": [_per_update(point) for point in points],
            "drift": points[-1].drift.at if points else [],
            "probability": [entry.probability for entry in bins],
            "true": [entry.true for entry in bins],
            "touched": means_between(examples, [point.touched_rules for point in points]),
            "changed": means_between(examples, [point.changed_atoms for point in points]),
        }
        return columns | {"wrong": [example.hamming for example in self._newest]}


def _extend(records: deque[T], tail: Tail, kind: type[T]) -> None:
    """Add the new lines of a file; those of a file that was there before it are removed."""
    lines = _decoded(tail.lines(), kind)
    if tail.anew:
        records.clear()
    records += lines


def _decoded(lines: list[bytes], kind: type[T]) -> list[T]:
    """Return the lines that are of a kind; others, such as those of bad examples, are left out."""
    records = []
    for line in lines:
        with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            records.append(msgspec.json.decode(line, type=kind))
    return records


def _per_update(point: Point) -> float | None:
    """Return the bound on the regret divided by the updates that it is of."""
    bound, updates = point.regret_bound, point.updates
    return bound / updates if bound is not None and updates else None


def _listed(prediction: Prediction) -> dict[str, Any]:
    """Return a prediction for the list of the newest: its first true atoms, and how many more there are."""
    atoms = [
        show_ground_atom(name, arguments(row))
        for name, rows in prediction.predicted.items()
        for row in rows
        if not isinstance(row, ValuedAtom) or row.value > 0.5
    ]
    return {
        "id": str(prediction.id),
        "group": prediction.group,
        "hamming": prediction.hamming,
        "certified": prediction.certified,
        "atoms": atoms[:ATOMS],
        "more": max(0, len(atoms) - ATOMS),
    }


def _written(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _behind(position: Any, behind: Any) -> dict[str, Any] | None:
    """Return how much of its current file a run had not read at its checkpoint.

    Of Kafka, its offsets, and how far each was ``behind`` the end of its partition then.
    """
    if not isinstance(position, dict):
        return None
    if "offsets" in position:
        return {"offsets": position["offsets"], "behind": behind or {}}
    try:
        size = Path(position["path"]).stat().st_size
        return {"bytes": max(0, size - position["bytes"]), "of": size}
    except (OSError, KeyError, TypeError, ValueError):
        return None


def _is_locked(lock: Path) -> bool:
    """Tell whether a process holds the lock, from the system's list: asking for it would be taking it."""
    try:
        inode = f":{lock.stat().st_ino} "
        return any(inode in line and " FLOCK " in line for line in LOCKS.read_text().splitlines())
    except OSError:
        return False
