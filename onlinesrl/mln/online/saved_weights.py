"""The weights that a checkpoint holds, checked: kernels take indexes from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from onlinesrl.core.example import Constant
from onlinesrl.core.io.restoring import LARGE, MOST, Expected, Misfit, Natural, converted, restored
from onlinesrl.core.kernels.averaging import HUGE, T
from onlinesrl.mln.ground.constant_index import Domain

if TYPE_CHECKING:
    from onlinesrl.mln.online.weight_table import WeightTable

RULES = float(np.finfo(np.float64).max)
"""A rule's own weight may be any number: sums that are too large are told where they are met."""
_EXPECTED = {
    "value": Expected(
        np.float64, ("weights", 3), (-RULES, -LARGE, -LARGE), (RULES, HUGE * 1e3, LARGE)
    ),
    "uses": Expected(np.int64, ("weights",), 0, MOST),
    "key": Expected(np.int32, ("blocks", "row"), 0),
    "block": Expected(np.int64, ("blocks",), 0),
    "scalar": Expected(np.float64, (6,), (0, 0, *[-LARGE] * 4), (MOST, MOST, *[LARGE] * 4)),
}
_COLUMN = Expected(np.float64, ("weights",), 0.0)


class Header(msgspec.Struct):
    """What the header has of the weights: the constants of each type, and two counts."""

    constants: dict[str, list[Constant]]
    dropped: Natural
    before: Natural = 0


def saved_weights(
    table: WeightTable, header: Mapping[str, Any], arrays: Mapping[str, Any]
) -> tuple[Header, dict[str, Domain], dict[str, Any]]:
    """Return what a table of the same model saved: header, constants, arrays. Raises Misfit."""
    saved = converted(header, Header)
    if saved.constants.keys() != table.stream.keys():
        raise Misfit("it has the constants of other types than the model")
    stream = {kind: _domain(table, kind, saved.constants[kind]) for kind in table.stream}
    expected = _EXPECTED | dict.fromkeys(table.kept, _COLUMN)
    found = restored(arrays, expected, row=table.arrays.key.shape[1])
    if found["scalar"][T] % 1:
        raise Misfit("the number of updates is not whole")
    _check_blocks(table, stream, found)
    return saved, stream, found


def _domain(table: WeightTable, kind: str, names: Sequence[Constant]) -> Domain:
    """Return the constants of a type: those of the model, then others, none twice."""
    domain, declared = Domain(names), Domain(table.layout.constants.get(kind, ()))
    if len(domain.names) < len(names) or domain.names[: len(declared.names)] != declared.names:
        raise Misfit(f"the constants of {kind} are not those of the model, then others")
    return domain


def _check_blocks(
    table: WeightTable, stream: Mapping[str, Domain], found: Mapping[str, Any]
) -> None:
    """Raise Misfit where keys are no clauses and constants, or blocks do not follow each other."""
    clause, rows = found["key"][:, 0], found["key"][:, 1:]
    if np.any(clause >= len(table.clauses)):
        raise Misfit("the array key has a clause that the model has not")
    kind, shift = table.columns()
    sizes = np.array([*(len(domain.names) for domain in stream.values()), 1])
    if np.any(rows >= (sizes[kind] + shift)[clause]):
        raise Misfit("the array key has a constant without a name")
    ends = table.reserved + np.cumsum(table.arrays.block_size[clause], dtype=np.int64)
    starts = np.concatenate([[table.reserved], ends])
    if not np.array_equal(found["block"], starts[:-1]) or len(found["uses"]) != starts[-1]:
        raise Misfit("the blocks of weights do not follow each other")
