"""The types of values in a configuration."""

from __future__ import annotations

import glob
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from onlinesrl.core.io.remote import NO_LOGIN, has_login, is_address

STDIN = Path("-")
_TIME = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)([smhd])")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def _one_or_many(value: object) -> object:
    """Let a single value stand for a list of one."""
    if isinstance(value, list):
        return tuple(value)
    return (value,) if isinstance(value, str | Path | int | float) else value


def _as_path(value: object) -> object:
    with suppress(UnicodeEncodeError):  # no file has such a name
        if isinstance(value, str | Path) and str(value) and b"\0" not in os.fsencode(value):
            return Path(value)
    raise ValueError("expected a path")


def _there(path: Path) -> Path:
    try:
        path.stat()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ValueError(f"expected a file that can be read ({reason})") from error
    return path


def _file(path: Path) -> Path:
    if _there(path).is_dir():
        raise ValueError("expected a file and not a folder")
    return path


def _source(path: Path) -> Path:
    pattern = glob.has_magic(str(path)) and not path.exists()
    return path if path == STDIN or pattern else _there(path)


def _address(text: str) -> str:
    if not is_address(text):
        raise ValueError("expected an address such as s3://bucket/run")
    if has_login(text):
        raise ValueError(NO_LOGIN)
    return text


def _distinct(names: tuple[Any, ...]) -> tuple[Any, ...]:
    if len(set(names)) < len(names):
        raise ValueError("expected every name once")
    return names


Name = Annotated[str, Field(min_length=1)]
Names = Annotated[
    tuple[Name, ...], BeforeValidator(_one_or_many), Field(min_length=1), AfterValidator(_distinct)
]
Groups = Annotated[
    tuple[Name, ...],
    BeforeValidator(_one_or_many),
    AfterValidator(_distinct),
    AfterValidator(lambda names: names or None),
]
Address = Annotated[str, AfterValidator(_address)]
AnyPath = Annotated[Path, BeforeValidator(_as_path)]
File = Annotated[AnyPath, AfterValidator(_file)]
Existing = Annotated[AnyPath, AfterValidator(_there)]
Files = Annotated[
    tuple[File, ...], BeforeValidator(_one_or_many), Field(min_length=1), AfterValidator(_distinct)
]
Input = Annotated[AnyPath, AfterValidator(_source)]
Inputs = Annotated[tuple[Input, ...], BeforeValidator(_one_or_many), Field(min_length=1)]
Natural = Annotated[int, Field(ge=0, le=2**63 - 1)]
Count = Annotated[int, Field(ge=1, le=2**63 - 1)]
Parts = Annotated[int, Field(ge=1, le=10_000)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Positives = Annotated[tuple[Positive, ...], BeforeValidator(_one_or_many), Field(min_length=1)]


def duration(text: object) -> float | None:
    """Read ``30s``, ``5m``, ``1.5h`` or ``1d``; None for anything else and for zero."""
    match = _TIME.fullmatch(text) if isinstance(text, str) else None
    return float(match[1]) * _SECONDS[match[2]] or None if match else None


def _interval(every: object) -> object:
    if not (every >= 1 if type(every) is int else duration(every)):
        raise ValueError("expected a number of examples, or a time such as 30s or 5m")
    return every


Interval = Annotated[int | str, BeforeValidator(_interval)]
"""A number of examples, or a time."""
