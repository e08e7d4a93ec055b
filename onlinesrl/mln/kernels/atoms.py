"""The numbers of a world's query atoms, by mixed radix or from a list, and their variables."""

from onlinesrl.core.arrays import Ints
from onlinesrl.core.jit.decorators import kernel
from onlinesrl.mln.kernels.ground_network import (
    ATOMS,
    FALSE,
    OPEN,
    SETTLED,
    TRUE,
    VARIABLES,
    Network,
    sort,
)
from onlinesrl.mln.kernels.grounding_frames import (
    EXACTLY_ONE,
    GROW_ATOMS,
    OK,
    TOO_MANY_ATOMS,
    Batch,
    Plans,
)


@kernel
def radix_key(plans: Plans, batch: Batch, w: int, q: int, slot: int, i: int, net: Network) -> int:
    """Return the number of tuple i of a relation among all groundings of query predicate q."""
    key = 0
    row = batch.start[w, slot] + i * plans.arity[slot]
    for j in range(plans.query_start[q], plans.query_start[q + 1]):
        key += batch.data[row + plans.query_argument[j]] * net.query_stride[j]
    return key


@kernel
def _count_below(values: Ints, first: int, count: int, value: int) -> int:
    """Return how many of some ascending values are below ``value``."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if values[first + middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def find_atom(batch: Batch, w: int, q: int, key: int, net: Network) -> int:
    """Return the atom of a radix key, -1 if the world does not list it."""
    if not batch.listed[w]:
        return net.query_base[q] + key
    first, stop = net.query_base[q], net.query_base[q + 1]
    atom = first + _count_below(net.key, first, stop - first, key)
    return atom if atom < stop and net.key[atom] == key else -1


@kernel
def number_atoms(plans: Plans, batch: Batch, w: int, net: Network, max_atoms: int) -> int:
    """Give a world's query atoms their numbers and variables; OK, TOO_MANY_ATOMS or GROW_ATOMS."""
    net.size[:] = 0
    queries = len(plans.query_group)
    for q in range(queries):
        full = 1
        for j in range(plans.query_start[q + 1] - 1, plans.query_start[q] - 1, -1):
            net.query_stride[j] = full
            if full > (1 << 62) // max(1, batch.domain[w, plans.query_type[j]]):
                return TOO_MANY_ATOMS
            full *= batch.domain[w, plans.query_type[j]]
        n = batch.count[w, plans.query_listed[q]] if batch.listed[w] else full
        net.query_base[q] = net.size[ATOMS]
        if net.size[ATOMS] + n > max_atoms:
            return TOO_MANY_ATOMS
        if net.size[ATOMS] + n + 1 > len(net.var_of):
            return GROW_ATOMS
        if batch.listed[w]:
            first, slot = net.query_base[q], plans.query_listed[q]
            for i in range(n):
                net.key[first + i] = radix_key(plans, batch, w, q, slot, i, net)
            sort(net.key, first, first + n)
        net.size[ATOMS] += n
        net.query_base[q + 1] = net.size[ATOMS]
        # one variable for all values of a grouped argument, else one per atom
        stop, width = plans.query_start[q + 1], 1
        for j in range(stop - plans.query_grouped[q], stop):
            width *= batch.domain[w, plans.query_type[j]]
        v, last, base = net.size[VARIABLES], -1, net.query_base[q]
        for a in range(base, net.query_base[q + 1]):
            key = (net.key[a] if batch.listed[w] else a - base) // width
            if key != last:
                net.var_start[v] = a
                net.exactly[v] = plans.query_group[q] == EXACTLY_ONE
                v += 1
                last = key
            net.var_of[a] = v - 1
            net.fixed[a], net.latent[a] = OPEN, 0
        net.var_start[v] = net.query_base[q + 1]
        net.size[VARIABLES] = v
        for slot, value in ((plans.query_false[q], FALSE), (plans.query_evidence[q], TRUE)):
            for i in range(batch.count[w, slot]):
                atom = find_atom(batch, w, q, radix_key(plans, batch, w, q, slot, i, net), net)
                net.fixed[atom] = value
    net.var_start[net.size[VARIABLES]] = net.size[ATOMS]
    net.size[SETTLED] = net.size[ATOMS]
    return OK
