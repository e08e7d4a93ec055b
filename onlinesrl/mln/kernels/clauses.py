"""Weighted clauses over variables, as arrays: what search and sampling read.

Atoms stand in *variables* as in ``network``: variable ``v`` holds the atoms
``var_start[v] : var_start[v + 1]``, of which at most one is true, or exactly one. A literal is coded
``2 * atom`` where positive, ``2 * atom + 1`` where negative. Clause ``c`` adds ``weight[c]`` to the
score of the states in which it is true; the first ``hard`` clauses must be true and have a weight that
outweighs all others together.

Atoms that hard clauses define as conjunctions of other literals stand last, each a variable of its own.
They are computed, never drawn or moved. The first ``gates`` clauses are their ``d v !l1 v ... v !ln``, with
``d`` or ``!d`` first, and inputs before outputs. The clauses ``!d v li`` follow.
"""

from __future__ import annotations

from itertools import accumulate, chain, pairwise

import numpy as np

from onlinesrl.core.arrays import Bytes, Floats, Ints32
from onlinesrl.core.jit.decorators import kernel
from onlinesrl.core.jit.frames import Frame


@kernel
def copy(source: Floats | Bytes | Ints32, target: Floats | Bytes | Ints32) -> None:
    """Copy one array into another; numba's own assignment may allocate."""
    for i in range(len(source)):
        target[i] = source[i]


class Clauses(Frame):
    """Clauses in compressed rows, and for each literal the clauses that have it."""

    var_of: Ints32  # [atom]
    var_start: Ints32  # [variable + 1]
    exactly: Bytes  # [variable] 1: one of its atoms must be true
    start: Ints32  # [clause + 1]
    literal: Ints32
    weight: Floats  # [clause]
    hard: int  # clauses below it are hard
    occ_start: Ints32  # [literal code + 1]
    occ: Ints32  # clauses
    aim_start: Ints32  # [clause + 1]
    aim: Ints32  # literals of atoms that may be moved; each helps to make the clause true
    gates: int  # defined atoms, the last ones
    defining: int  # clauses below it define atoms, and are always true
    drawn: int  # variables below it may be moved, the others are computed

    @classmethod
    def of(
        cls,
        first: np.ndarray[tuple[int], np.dtype[np.bool_]],
        exactly: np.ndarray[tuple[int], np.dtype[np.bool_]],
        start: Ints32,
        literal: Ints32,
        weight: Floats,
        hard: int,
        gates: int = 0,
    ) -> Clauses:
        """Return the arrays of clauses in compressed rows of codes; ``first[atom]``: it begins a variable."""
        count = np.bincount(literal, minlength=2 * len(first))
        clause = np.repeat(np.arange(len(weight), dtype=np.int32), np.diff(start))
        aim_start, aim = start, literal
        if gates:
            codes = literal.tolist()
            rows = [codes[i:j] for i, j in pairwise(start.tolist())]
            aims: dict[int, list[int]] = {}  # literals of computed atoms: what makes them true
            for defined, *inputs in rows[:gates]:
                aims[defined] = [y for x in inputs for y in aims.get(x ^ 1, [x ^ 1])]
                aims[defined ^ 1] = [y for x in inputs for y in aims.get(x, [x])]
            rows = [list(dict.fromkeys(y for x in row for y in aims.get(x, [x]))) for row in rows]
            aim_start = np.array([0, *accumulate(map(len, rows))], np.int32)
            aim = np.array(list(chain.from_iterable(rows)), np.int32)
        return cls(
            var_of=(np.cumsum(first) - 1).astype(np.int32),
            var_start=np.append(np.flatnonzero(first), len(first)).astype(np.int32),
            exactly=exactly.astype(np.uint8),
            start=start,
            literal=literal,
            weight=weight,
            hard=hard,
            occ_start=np.concatenate(([0], np.cumsum(count))).astype(np.int32),
            occ=clause[np.argsort(literal, kind="stable")],
            aim_start=aim_start,
            aim=aim,
            gates=gates,
            defining=int(start[gates]),
            drawn=int(np.count_nonzero(first)) - gates,
        )
