"""The ground network of one world as arrays, which grounding writes and inference reads.

A *row* is a run of ``row_len`` ground clauses that differ by a constant step: clause ``k`` of a row
has the literals ``lit_atom + k * lit_step`` and the weight ``row_weight + k * row_step``, of which
``row_factor`` times counts where it is true: the sign of the rule, times the values of its numeric
atoms. Rules with a template variable over a declared type ground to runs (one row for the three fields
of a token). Every other ground clause is a run of one.

Atoms stand in *variables*: the atoms of an exactly-one or at-most-one group are one variable of
several values, any other atom is a variable of two. Variable ``v`` holds the atoms
``var_start[v] : var_start[v+1]``; its value 0 is "none of them", value ``i`` its ``i``-th atom.
So atom ``a`` of variable ``v`` has the value slot ``a + v + 1`` among all values of the world.

DEFINED atoms follow the query atoms. Each stands for a conjunction under an existential quantifier, by the
hard clauses of ``d <=> l1 ^ ... ^ ln``. The key of ``d`` is the row of ``d v !l1 v ... v !ln``. Losses,
counts and predictions ignore them.
"""

from dataclasses import replace
from typing import Annotated, Any

import numpy as np

from onlinesrl.core.arrays import Bytes, Floats, Ints, Ints32
from onlinesrl.core.jit.decorators import kernel
from onlinesrl.core.jit.frames import Frame

OPEN, FALSE, TRUE, DEFINED = 0, 1, 2, 3
CLAMPED = 2


class Network(Frame):
    """Scratch memory for one world's ground network; ``size`` says how much of it is in use."""

    # atoms, variables, rows, literals, ground clauses, atoms with their definitions
    size: Annotated[Ints, "6"]
    var_of: Annotated[Ints32, "atom"]
    var_start: Annotated[Ints32, "atom + 1"]
    exactly: Annotated[Bytes, "atom"]  # 1: one of its atoms must be true
    # OPEN; FALSE or TRUE by evidence; DEFINED by hard clauses on open atoms
    fixed: Annotated[Bytes, "atom"]
    # 1: open, of a labelled world, and its truth is not known; see ``clamp``
    latent: Annotated[Bytes, "atom"]
    # its number among its predicate's groundings in listed worlds; see DEFINED
    key: Annotated[Ints, "atom"]
    query_base: Annotated[Ints, "query + 1"]  # its first atom
    query_stride: Annotated[Ints, "argument + 1"]  # how far its constants are apart in a key
    row_len: Annotated[Ints32, "row"]
    row_clause: Annotated[Ints32, "row"]
    row_weight: Annotated[Ints, "row"]  # first weight, -1 for a hard clause
    row_step: Annotated[Ints32, "row"]  # 1 where each clause of the run has a weight of its own
    row_factor: Annotated[Floats, "row"]  # what each of its clauses counts
    row_key: Annotated[Ints32, "row, key"]  # the constants that its weights are known by
    # BARE, KEYED or UNSEEN: whether there are such constants, and are known
    row_known: Annotated[Bytes, "row"]
    row_offset: Annotated[Ints32, "row"]  # and the place of the first weight among those of one key
    clause_start: Annotated[Ints, "row + 1"]  # its first ground clause
    lit_start: Annotated[Ints32, "row + 1"]
    lit_atom: Annotated[Ints32, "literal"]
    lit_step: Annotated[Ints32, "literal"]
    lit_positive: Annotated[Bytes, "literal"]
    left_out: Annotated[Bytes, "clause"]  # 1: see ``Plans.eager``
    differ: Annotated[Ints32, "atom + 1"]  # working memory of gaps


ATOMS, VARIABLES, ROWS, LITERALS, GROUNDINGS, SETTLED = 0, 1, 2, 3, 4, 5
BARE, KEYED, UNSEEN = 0, 1, 2


def network(
    atoms: int,
    rows: int,
    literals: int,
    queries: int = 0,
    arguments: int = 0,
    keys: int = 0,
    clauses: int = 0,
) -> Network:
    """Return an empty network with room for so many atoms, rows and literals.

    ``queries`` is the number of query predicates, ``arguments`` that of their arguments, ``keys`` of
    the constants that weights are known by, and ``clauses`` of the clauses that are ground.
    """
    return Network.zeros(
        atom=atoms,
        row=rows,
        literal=literals,
        query=queries,
        argument=arguments,
        key=keys,
        clause=clauses,
    )


def joined(net: Network, part: Network) -> Network:
    """Return a network with the rows of another one over the same atoms after its own."""
    (rows, literals), (more, others) = net.size[[ROWS, LITERALS]], part.size[[ROWS, LITERALS]]
    size = net.size.copy()
    size[[ROWS, LITERALS, GROUNDINGS]] += part.size[[ROWS, LITERALS, GROUNDINGS]]
    parts: dict[str, Any] = {"size": size}
    for name in Network._names:
        a, b = getattr(net, name), getattr(part, name)
        if name in {"lit_start", "clause_start"}:
            parts[name] = np.concatenate((a[: rows + 1], a[rows] + b[1 : more + 1]))
        elif name.startswith("row_"):
            parts[name] = np.concatenate((a[:rows], b[:more]))
        elif name.startswith("lit_"):
            parts[name] = np.concatenate((a[:literals], b[:others]))
    return replace(net, **parts)


@kernel
def clause_true(net: Network, row: int, k: int, state: Bytes) -> bool:
    """Return whether clause ``k`` of a row holds in a state."""
    for p in range(net.lit_start[row], net.lit_start[row + 1]):
        if state[net.lit_atom[p] + k * net.lit_step[p]] == net.lit_positive[p]:
            return True
    return False


@kernel
def either_true(net: Network, p: int, q: int, k: int, state: Bytes) -> bool:
    """Return whether one of two literals of clause ``k`` of a row holds, without a branch."""
    a, b = net.lit_atom[p] + k * net.lit_step[p], net.lit_atom[q] + k * net.lit_step[q]
    return (state[a] == net.lit_positive[p]) | (state[b] == net.lit_positive[q])


@kernel
def clamp(net: Network, truth: Bytes) -> None:
    """Fix the labelled atoms at their truth, until ``release``."""
    for a in range(net.size[ATOMS]):
        if net.fixed[a] == OPEN and not net.latent[a]:
            net.fixed[a] = TRUE if truth[a] else FALSE
            net.latent[a] = CLAMPED


@kernel
def release(net: Network) -> None:
    """Make the atoms that ``clamp`` fixed open again."""
    for a in range(net.size[ATOMS]):
        if net.latent[a] == CLAMPED:
            net.fixed[a], net.latent[a] = OPEN, 0


@kernel
def define(net: Network, state: Bytes) -> None:
    """Give the defined atoms the values that follow from the others."""
    for a in range(net.size[ATOMS] - 1, -1, -1):
        if net.fixed[a] != DEFINED:
            return
        state[a] = 0
        state[a] = not clause_true(net, net.key[a], 0, state)


@kernel
def violated_hard(net: Network, state: Bytes) -> int:
    """Return the clause number of a hard clause that the state breaks, or -1."""
    for r in range(net.size[ROWS]):
        if net.row_weight[r] < 0:
            for k in range(net.row_len[r]):
                if not clause_true(net, r, k, state):
                    return net.row_clause[r]
    return -1


@kernel
def may_hold(net: Network, row: int, k: int) -> bool:
    """Return whether clause ``k`` of a row has a literal that evidence does not make false."""
    for p in range(net.lit_start[row], net.lit_start[row + 1]):
        fixed = net.fixed[net.lit_atom[p] + k * net.lit_step[p]]
        if fixed != (FALSE if net.lit_positive[p] else TRUE):
            return True
    return False


@kernel
def false_hard(net: Network) -> int:
    """Return the number of a hard ground clause that evidence makes false, or -1."""
    for r in range(net.size[ROWS]):
        if net.row_weight[r] < 0:
            for k in range(net.row_len[r]):
                if not may_hold(net, r, k):
                    return net.clause_start[r] + k
    return -1


@kernel
def broken_group(net: Network, state: Bytes) -> int:
    """Return a variable whose group constraint the state breaks, or -1."""
    for v in range(net.size[VARIABLES]):
        count = 0
        for a in range(net.var_start[v], net.var_start[v + 1]):
            count += state[a]
        if count > 1 or (count == 0 and net.exactly[v]):
            return v
    return -1


@kernel
def soft_score(net: Network, state: Bytes, weight: Floats) -> float:
    """Return the sum of the weights, [ground clause], of the soft clauses that hold."""
    total = 0.0
    for r in range(net.size[ROWS]):
        if net.row_weight[r] < 0:
            continue
        p, i = net.lit_start[r], net.clause_start[r]
        literals = net.lit_start[r + 1] - p
        q = p + (literals == 2)
        short = 1 <= literals <= 2
        for k in range(net.row_len[r]):
            if either_true(net, p, q, k, state) if short else clause_true(net, r, k, state):
                total += weight[i + k]
    return total


@kernel
def sort(keys: Ints, first: int, stop: int) -> None:
    """Sort a stretch of an array in place (heap sort: no memory, no bad case)."""
    n = stop - first
    for end in range(-(n // 2), n - 1):  # below 0: build the heap; from 0 on: take its maximum
        root, size = -end - 1, n
        if end >= 0:
            size = n - 1 - end
            keys[first], keys[first + size] = keys[first + size], keys[first]
            root = 0
        while 2 * root + 1 < size:
            child = 2 * root + 1
            if child + 1 < size and keys[first + child] < keys[first + child + 1]:
                child += 1
            if keys[first + root] >= keys[first + child]:
                break
            keys[first + root], keys[first + child] = keys[first + child], keys[first + root]
            root = child
