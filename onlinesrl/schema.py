"""What a run can be told: the keys of a configuration, their defaults and what each may be.

Also what two runs must share for one to go on where the other stopped.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    SecretStr,
    ValidationInfo,
    field_validator,
    model_validator,
)

from onlinesrl.errors import ConfigError
from onlinesrl.yamltree import Place, Tree

STDIN = Path("-")
LOSSES: Mapping[str, tuple[Literal["ml", "pl"], ...]] = {
    "cda1": ("ml", "pl"),
    "cda2": ("ml", "pl"),
    "mira": ("pl",),
    "subgradient": ("ml",),
    "perceptron": ("pl",),
}
"""The losses each update takes; the first is its default."""

FREE = (
    "output",
    "batch",
    "checkpoint.every",
    "checkpoint.keep",
    "source.max_bytes",
    "inference.max_nodes",
    "inference.unsolved",
    "limits.bad_share",
    "limits.crashes",
)
"""The keys that may change while a run is stopped."""

_REPLACEABLE = {"source.bootstrap", "source.patience", "source.gaps", "sink.bootstrap"}
"""What says how to get at the data, and not which they are."""

MARKOV_LOGIC_ONLY = (
    ("learner", "max_weights"),
    ("inference", "presolve"),
    ("inference", "solver"),
    ("inference", "audit_every"),
    ("inference", "max_nodes"),
)
"""The keys that say nothing of a PSL program."""
_TIME = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)([smh])")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def _one_or_many(value: object) -> object:
    """Let a single value stand for a list of one."""
    if isinstance(value, list):
        return tuple(value)
    return (value,) if isinstance(value, str | Path) else value


def _as_path(value: object) -> object:
    if not isinstance(value, str | Path) or not str(value):
        raise ValueError("expected a path")
    return Path(value)


def _there(path: Path) -> Path:
    try:
        path.stat()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise ValueError(f"expected a file that can be read ({why})") from error
    return path


def _file(path: Path) -> Path:
    if _there(path).is_dir():
        raise ValueError("expected a file and not a folder")
    return path


def _source(path: Path) -> Path:
    return path if path == STDIN else _there(path)


def _distinct(names: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(names)) < len(names):
        raise ValueError("expected every name once")
    return names


Name = Annotated[str, Field(min_length=1)]
Names = Annotated[
    tuple[Name, ...],
    BeforeValidator(_one_or_many),
    Field(min_length=1),
    AfterValidator(_distinct),
]
AnyPath = Annotated[Path, BeforeValidator(_as_path)]
File = Annotated[AnyPath, AfterValidator(_file)]
Input = Annotated[AnyPath, AfterValidator(_source)]
Inputs = Annotated[tuple[Input, ...], BeforeValidator(_one_or_many), Field(min_length=1)]
Natural = Annotated[int, Field(ge=0, le=2**63 - 1)]
Count = Annotated[int, Field(ge=1, le=2**63 - 1)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class _Section(BaseModel):
    """A frozen section of the configuration; an empty one has its defaults."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    @model_validator(mode="before")
    @classmethod
    def _empty(cls, values: object) -> object:
        return {} if values is None else values


class Security(_Section):
    """How to be let in by Kafka: kafka-python's own keys, passed on as they are."""

    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    ssl_cafile: Name | None = None
    ssl_certfile: Name | None = None
    ssl_keyfile: Name | None = None
    ssl_password: SecretStr | None = None
    ssl_check_hostname: bool = True
    sasl_mechanism: Name | None = None
    sasl_plain_username: Name | None = None
    sasl_plain_password: SecretStr | None = None

    def settings(self) -> dict[str, Any]:
        """Return what a client is given."""
        values = {name: getattr(self, name) for name in type(self).model_fields}
        return {
            name: value.get_secret_value() if isinstance(value, SecretStr) else value
            for name, value in values.items()
            if value is not None
        }


class Labels(_Section):
    """Truth that comes after its example: on ``topic``, or further down the stream."""

    topic: Name | None = None
    pending: Count = 10_000


class Sink(_Section):
    """Where predictions go: ``predictions.jsonl`` in the run folder, or a topic."""

    kind: Literal["file", "kafka"] = "file"
    topic: Name | None = None
    bootstrap: Name | None = None
    security: Security | None = None

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.kind == "kafka" and self.topic is None:
            raise ValueError("topic: missing; expected the topic that predictions go to")
        if self.kind == "file" and self.topic is not None:
            raise ValueError("kind: missing; a sink with a topic is of kind kafka")
        return self


class Source(_Section):
    """Where the examples come from.

    Of kind file: files and folders in the order given, or ``-`` (quoted). Of kind kafka: a topic;
    ``group`` is told how far the checkpoints are, and members of a ``shared`` group divide the
    partitions. ``order: journal`` notes the order in which records of several partitions were taken.
    """

    kind: Literal["file", "kafka"] = "file"
    path: Inputs | None = None
    bootstrap: Name | None = None
    topic: Name | None = None
    group: Name | None = None
    shared: bool = False
    order: Literal["journal", "arrival"] = "journal"
    start: Literal["beginning", "end"] = "beginning"
    gaps: Literal["stop", "skip"] = "stop"
    patience: str = "5m"
    security: Security = Security()
    only: Names | None = None
    without: Names | None = None
    max_bytes: Count = 8_000_000

    @property
    def patience_seconds(self) -> float:
        """For how long brokers may be away."""
        return _seconds(self.patience) or 0.0

    @field_validator("patience")
    @classmethod
    def _time(cls, patience: str) -> str:
        if _seconds(patience) is None:
            raise ValueError("expected a time such as 30s or 5m")
        return patience

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.kind == "file" and self.path is None:
            raise ValueError(
                "path: missing; expected the files of examples, or - for standard input"
            )
        if self.kind == "file" and self.topic is not None:
            raise ValueError("topic: a source with a topic is of kind kafka")
        if self.kind == "kafka" and self.path is not None:
            raise ValueError("path: a source of kind kafka has a topic and no path")
        if self.kind == "kafka" and (self.bootstrap is None or self.topic is None):
            missing = "topic" if self.topic is None else "bootstrap"
            raise ValueError(f"{missing}: missing; a source of kind kafka has one")
        if self.shared and self.group is None:
            raise ValueError("group: missing; a shared source is shared with the group's members")
        return self

    @field_validator("path")
    @classmethod
    def _alone(cls, path: tuple[Path, ...] | None) -> tuple[Path, ...] | None:
        if path is not None and STDIN in path and len(path) > 1:
            raise ValueError("- (standard input) cannot be one of several")
        return path


class Learner(_Section):
    """The online update, its loss and its constants (Huynh & Mooney 2010, Algorithm 3)."""

    update: Literal["cda1", "cda2", "mira", "subgradient", "perceptron"] = "cda2"
    loss: Literal["ml", "pl"] = "ml"
    sigma: Positive = 0.01
    eta: Positive = 1.0
    max_weights: Count | None = None
    start: File | None = None

    @model_validator(mode="before")
    @classmethod
    def _default_loss(cls, values: object) -> object:
        if not isinstance(values, dict) or "loss" in values:
            return values
        losses = LOSSES.get(str(values.get("update", "cda2")), ("ml",))
        return {**values, "loss": losses[0]}

    @field_validator("loss")
    @classmethod
    def _fits(cls, loss: str, info: ValidationInfo) -> str:
        update = info.data.get("update")
        if update is not None and loss not in LOSSES[update]:
            raise ValueError(f"{update} takes {' or '.join(LOSSES[update])}")
        return loss

    @field_validator("eta")
    @classmethod
    def _perceptron(cls, eta: float, info: ValidationInfo) -> float:
        if info.data.get("update", "perceptron") != "perceptron":
            raise ValueError("only the perceptron has an eta")
        return eta


class Inference(_Section):
    """How the most probable state is found, and how far a search may go.

    A search that ends at ``max_nodes`` (nodes of branch and bound; null: never) without proof makes
    its example bad (``skip``), ends the run (``stop``), or leaves it with the best state found; so
    does the inference of a PSL program that ends at its last round.
    """

    presolve: Literal["exact", "none"] = "exact"
    solver: Literal["highs", "cbc"] = "highs"
    audit_every: Natural = 0
    max_groundings: Count = 1_000_000
    max_nodes: Count | None = None
    unsolved: Literal["fallback", "skip", "stop"] = "fallback"


class Checkpoint(_Section):
    """When to save (a number of examples, or a time such as ``30s``) and how many to keep."""

    every: int | str = "30s"
    keep: Count = 3

    @field_validator("every", mode="before")
    @classmethod
    def _interval(cls, every: object) -> object:
        valid = every >= 1 if type(every) is int else _seconds(every)
        if not valid:
            raise ValueError("expected a number of examples, or a time such as 30s or 5m")
        return every

    @property
    def examples(self) -> int | None:
        """The examples from one checkpoint to the next; None where time decides."""
        return self.every if isinstance(self.every, int) else None

    @property
    def seconds(self) -> float | None:
        """The seconds from one checkpoint to the next; None where examples decide."""
        return _seconds(self.every)


def _seconds(text: object) -> float | None:
    """Read ``30s``, ``5m`` or ``1.5h``; None for anything else and for no time at all."""
    match = _TIME.fullmatch(text) if isinstance(text, str) else None
    return float(match[1]) * _SECONDS[match[2]] or None if match else None


class Metrics(_Section):
    """When a line of metrics is written, and which argument's values get their own F1.

    ``every: null`` is at powers of two and at the end. ``by`` is ``Predicate.N``, counted from 1,
    or the name of an argument's type.
    """

    every: Count | None = None
    by: Annotated[str, Field(pattern=r"^[^\W\d]\w*(\.[1-9][0-9]*)?$")] | None = None


class Limits(_Section):
    """What an example, and a stream, may be before it is refused.

    An example that ``crashes`` processes in succession died in is bad; 0: none is for that.
    """

    bad_share: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 0.1
    max_atoms: Count = 1_000_000
    crashes: Natural = 3


class Config(_Section):
    """A whole run. Paths are as the process can open them: see ``load``.

    The ``model`` is a Markov logic network, or a program in PSL's language where it ends in ``.psl``.
    """

    model: Annotated[File, Field(description="the rules, an .mln or a .psl file")]
    query: Annotated[Names, Field(description="the predicates to predict")]
    source: Annotated[Source, Field(description="a section with the path of the examples")]
    output: AnyPath
    labels: Labels | None = None
    sink: Sink = Sink()
    learner: Learner = Learner()
    inference: Inference = Inference()
    checkpoint: Checkpoint = Checkpoint()
    metrics: Metrics = Metrics()
    limits: Limits = Limits()
    seed: Natural = 0
    batch: Count = 64
    _tree: Tree | None = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        topic = self.source.topic
        labels = self.labels.topic if self.labels is not None else None
        if labels is not None and topic is None:
            raise ValueError("labels.topic: labels of a topic belong to a source of kind kafka")
        if labels is not None and labels == topic:
            raise ValueError("labels.topic: leave it out where labels are on the source's topic")
        here = self.sink.bootstrap in (None, self.source.bootstrap)
        if self.sink.topic is not None and here and self.sink.topic in (topic, labels):
            raise ValueError("sink.topic: predictions would be read again; expected another topic")
        if self.source.shared and self.labels is not None:
            raise ValueError("labels: a shared source has none: they may go to another run")
        if self.source.shared and self.checkpoint.keep < 2:
            raise ValueError(
                "checkpoint.keep: expected at least 2: a shared run may have to go back"
            )
        return self

    @property
    def soft(self) -> bool:
        """Whether the model is a PSL program."""
        return self.model.suffix == ".psl"

    def as_dict(self) -> dict[str, Any]:
        """Return every key and its value, fit for JSON."""
        return self.model_dump(mode="json")

    def fingerprint(self, model: str) -> dict[str, Any]:
        """Return what two runs must share for one to go on from the other's checkpoint.

        Keys are dotted, values fit JSON and stay equal when read back from it. The ``model``'s text,
        with what it includes, and the starting weights stand as SHA-256. Raises OSError if the file
        of the weights is gone.
        """
        values = dict(leaves(self.as_dict()))
        for key in FREE:
            del values[key]
        for key in ("source.only", "source.without"):
            values[key] = values[key] and sorted(set(values[key]))
        for key in list(values):
            if key.startswith(("source.security", "sink.security")) or key in _REPLACEABLE:
                del values[key]
        paths = self.source.path or ()
        values["source.path"] = [str(p if p == STDIN else p.resolve()) for p in paths]
        start = self.learner.start
        values["model"] = _digest(model.encode())
        values["learner.start"] = start and _digest(start.read_bytes())
        return values

    def error(self, key: str, reason: str) -> ConfigError:
        """Return the error for a ``key`` found wrong later, when the model has been read."""
        tree, place = self._tree, Place("configuration")
        if tree is not None:
            place = tree.value_place(tuple(key.split(".")))
        return ConfigError([place.problem(f"{key}: {reason}")])


def mismatch(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Say how two fingerprints differ, one line a key; empty if a run can go on."""
    lines = []
    for key in sorted(old.keys() | new.keys()):
        if old.get(key) != new.get(key):
            text = key in ("model", "learner.start") and old.get(key) and new.get(key)
            was, now = show(old.get(key)), show(new.get(key))
            lines.append(f"{key}: the file has changed" if text else f"{key}: was {was}, is {now}")
    return lines


def leaves(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Flatten sections to dotted keys."""
    for key, value in values.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def show(value: Any) -> str:
    """Name a value in an error."""
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a section"
    if isinstance(value, bool):
        return str(value).lower()
    text = repr(str(value) if isinstance(value, Path) else value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
