"""What two runs must have in common for one to resume from the other's checkpoint."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError

from onlinesrl.core.errors import OnlinesrlError, UsageError
from onlinesrl.core.io.config_section import kinds_of
from onlinesrl.core.io.restoring import Misfit
from onlinesrl.core.online.update_rules import AnyUpdate
from onlinesrl.core.online.update_rules.rule import Update

FREE = (
    "output",
    "batch",
    "checkpoint.every",
    "checkpoint.keep",
    "checkpoint.copy_to",
    "metrics.mlflow",
    "inference.max_nodes",
    "inference.max_work",
    "inference.unsolved",
    "limits.bad_share",
    "limits.crashes",
    "limits.request_lines",
    "limits.retention_bytes",
    "distribute.engine",
    "distribute.address",
    "distribute.workers",
)
"""The keys that may change while a run is stopped."""

ANSWERING = (
    "source.max_bytes",
    "sink.max_bytes",
    "inference.max_nodes",
    "inference.max_work",
    "inference.unsolved",
)
"""The keys on which answers depend. What has been answered must be read again with the same values."""

LABEL_BYTES = 250_000_000
"""The default of labels.max_bytes."""

DEFAULTS = (
    ("distribute", None),
    ("drift", None),
    ("dialect", "alchemy"),
    ("alerts", None),
    ("entities", None),
    ("alerts.by", "probability"),
    ("labels.max_bytes", LABEL_BYTES),
    ("metrics.top", None),
    ("source.encoding", "utf-8"),
    ("source.envelope", None),
    ("source.mapping", None),
    ("source.linked", None),
    ("inference.threshold", None),
    ("inference.coverage", None),
    ("inference.coverage_by", None),
    ("inference.formulas", None),
    ("inference.given", None),
    ("inference.lazy", "auto"),
    ("inference.best", 1),
    ("learner.calibrated", False),
    ("learner.replay", None),
    ("inference.engine", "mpe"),
    ("inference.engine", "admm"),
)
"""The defaults of keys that a fingerprint leaves out: a checkpoint without such a key had its default."""

ALWAYS = {
    "source.topic": None,
    "source.group": None,
    "source.shared": False,
    "source.order": "journal",
    "source.start": "beginning",
    "sink.topic": None,
    "learner.eta": 1.0,
    "learner.sigma": 0.01,
    "inference.audit_every": 0,
    "inference.max_nodes": None,
    "inference.max_work": 1_000_000,
    "inference.presolve": "exact",
    "inference.solver": "highs",
    "inference.targets": "stop",
}
"""The values that a fingerprint has for keys which the configured kinds of sections lack."""

_FACTS = "source.background"
_CONTENTS = ("model", "learner.start", _FACTS)
"""The keys of files whose content is compared."""


def fingerprint(
    config: Mapping[str, Any],
    model: str,
    background: Sequence[Path] | None,
    start: Path | None,
    replaceable: Collection[str],
) -> dict[str, Any]:
    """Return what two runs must have in common for one to resume from the other's checkpoint.

    ``config`` has the keys and values of a run; those of the ``replaceable`` sections and keys may change.
    In the result keys are dotted, and values survive a round trip through JSON. The text of the ``model``
    with its includes, the ``background`` files and the ``start`` weights are given by their SHA-256.
    Raises OSError if one of these files cannot be read.
    """
    values = ALWAYS | dict(leaves(config))
    for key in FREE:
        values.pop(key, None)
    for key, default in DEFAULTS:
        if key in values and values[key] == default:
            del values[key]
    topic = values["source.topic"]
    values["source.topic"] = topic[0] if topic is not None and len(topic) == 1 else topic
    for key in ("source.only", "source.without"):
        values[key] = values[key] and sorted(set(values[key]))
    for key in list(values):
        if any(f"{key}.".startswith(f"{place}.") for place in replaceable):
            del values[key]
    values["model"] = _digest(model.encode())
    if background is None:
        del values[_FACTS]
    else:
        values[_FACTS] = _digest(b"".join(file.read_bytes() for file in background))
    if start is not None:  # a run folder may have changed since
        content = str(start.resolve()) if start.is_dir() else _digest(start.read_bytes())
        values["learner.start"] = content
    return values


def settings(config: BaseModel) -> dict[str, Any]:
    """Return the values of the keys ``ANSWERING``."""
    values = ALWAYS | dict(leaves(config.model_dump(mode="json")))
    return {key: value for key, value in values.items() if key in ANSWERING}


def mismatch(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Return how two fingerprints differ, one line per key; empty if a run can be resumed."""
    lines = []
    for key in sorted(old.keys() | new.keys()):
        if old.get(key) != new.get(key):
            if key in _CONTENTS and old.get(key) and new.get(key):
                lines.append(f"{key}: the file has changed")
                continue
            was, now = (
                "a file" if key == _FACTS and value else show(value)
                for value in (old.get(key), new.get(key))
            )
            lines.append(f"{key}: was {was}, is {now}")
    return lines


def leaves(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Flatten sections to dotted keys."""
    for key, value in values.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{prefix}{key}.")
        elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
            yield prefix + key, json.dumps(value)
        else:
            yield prefix + key, value


def section_of(fingerprint: Mapping[str, Any], section: str, annotation: Any) -> dict[str, Any]:
    """Return the keys of a section of a fingerprint, those that its kind has. Raises Misfit.

    A module is not imported because a checkpoint names it: raises UsageError if it has not been before.
    """
    kinds = kinds_of(annotation)
    assert kinds is not None
    tag, standard = kinds.base.tag, next(iter(kinds.own), "")
    name = fingerprint.get(f"{section}.{tag}", standard)
    if name == "mpe" and standard == "admm":  # what version 0.2.0 wrote for PSL
        name = standard
    try:
        kind = kinds.resolve(name, imports=False)
    except PydanticCustomError as error:
        known = Misfit if error.type == "kind" else UsageError
        raise known(f"{section}.{tag}: {error.message()}") from None
    keys = [key for key in kind.model_fields if key != "start"]
    values = {key: _value(fingerprint, f"{section}.{key}") for key in keys}
    return {key: value for key, value in values.items() if value is not None} | {tag: name}


def update_of(fingerprint: Mapping[str, Any]) -> Update:
    """Return the update that a fingerprint has. Raises Misfit."""
    try:
        update: Update = TypeAdapter(AnyUpdate).validate_python(
            section_of(fingerprint, "learner", AnyUpdate)
        )
    except ValidationError as error:
        raise Misfit(f"its learner is not valid: {error}") from None
    return update


def _value(fingerprint: Mapping[str, Any], key: str) -> Any:
    """Return the value of a key, or the mapping that ``leaves`` has flattened; None if there is neither."""
    mapping: dict[str, Any] = {}
    for place, value in fingerprint.items():
        if place.startswith(f"{key}."):
            name = place.removeprefix(f"{key}.")
            atom, _, part = name.rpartition(".")
            if part in {"missed", "extra"}:
                mapping.setdefault(atom, {})[part] = value
            else:
                mapping[name] = value
    return mapping or fingerprint.get(key)


def show(value: Any) -> str:
    """Show a value in an error."""
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


class MismatchError(OnlinesrlError):
    """A checkpoint was made with another configuration."""

    exit_code = 78


def check_settings(path: Path, journal: str, differences: Sequence[str]) -> None:
    """Raise MismatchError if what was answered after a checkpoint would be read with other settings."""
    if differences:
        listing = "\n  ".join(differences)
        raise MismatchError(
            f"{path}: {journal} has examples that came after it, with another configuration:\n  {listing}\n"
            "go back to it and stop the run in good order (Ctrl-C), then these keys may change"
        )


def check_fingerprint(path: Path, differences: Sequence[str]) -> None:
    """Raise MismatchError if a checkpoint was made with another configuration."""
    if differences:
        listing = "\n  ".join(differences)
        raise MismatchError(
            f"{path}: made with another configuration:\n  {listing}\n"
            "go back to it, choose another output, or start over with --fresh"
        )
