"""The results of a world's prediction: its predicted and true atoms, and counts."""

from typing import Annotated

from onlinesrl.core.arrays import Bytes, Floats, Ints, Ints32
from onlinesrl.core.jit.decorators import kernel
from onlinesrl.core.jit.frames import Frame
from onlinesrl.mln.kernels.ground_network import ATOMS, OPEN, VARIABLES, Network, define
from onlinesrl.mln.kernels.grounding_frames import FOUND, OK, Batch, Plans

TIE = 1e-9
"""Probabilities that differ by less are equal, since sums are rounded."""
HITS, FALSE_ALARMS, MISSES, UNITS, RIGHT_UNITS, HAMMING, EXACT = 0, 1, 2, 3, 4, 5, 6


class State(Frame):
    """States of one world, [atom]."""

    truth: Bytes
    predicted: Bytes
    rival: Bytes
    cost: Floats  # the label loss where an atom is not as in the truth
    bonus: Floats  # what is added to a state's score for each of its true atoms


class By(Frame):
    """The argument of a query predicate by whose values counts are kept."""

    query: int  # a query predicate, -1: none
    argument: int  # the place in radix order


class Output(Frame):
    """The results of each world."""

    status: Annotated[Ints32, "world"]
    detail: Annotated[Ints, "world"]  # clause, variable or tuple that the status is about
    route: Annotated[Ints32, "world"]
    counts: Annotated[Ints, "world, 7"]  # HITS .. EXACT
    score: Annotated[Floats, "world"]
    loss: Annotated[Floats, "world"]  # hinge loss g_t(w_t)
    margin: Floats  # [world] score less that of the second best state; infinite: there is no other
    true_start: Annotated[Ints, "world + 1"]
    true_query: Annotated[Ints32, "atom"]  # true and predicted atoms: query predicate
    true_key: Annotated[Ints, "atom"]  # and number among its groundings
    # 1: predicted, 2: true, 3: both; and 4 if its truth is not known
    true_mark: Annotated[Bytes, "atom"]
    class_start: Ints  # [world + 1]
    by_class: Annotated[Ints, "class_, 3"]  # hits, false alarms, misses


class Probabilities(Frame):
    """How probabilities predict worlds, and those of the open atoms of each world."""

    predict: bool  # they predict, and not the best state
    heat: Floats  # the state of the temperature, see ``core.online.temperature``
    # 1: predicted earlier, so that no probability is computed
    answered: Annotated[Bytes, "world"]
    least: Floats  # [query predicate] the least probability of a true atom
    start: Annotated[Ints, "world + 1"]
    query: Annotated[Ints32, "atom"]  # query predicate
    key: Annotated[Ints, "atom"]  # number among its groundings
    value: Annotated[Floats, "atom"]

    @classmethod
    def _without(cls, values: dict[str, object]) -> tuple[str, ...]:
        return () if values["predict"] else ("probabilities",)


@kernel
def likeliest(plans: Plans, net: Network, unary: Floats, least: Floats, state: Bytes) -> None:
    """Write the most probable value of each variable; ``unary`` [value slot] is that of ``sum_product``.

    An atom without a group is true if its probability is at least ``least`` [query predicate].
    """
    state[: net.size[ATOMS]] = 0
    for q in range(len(plans.query_group)):
        for a in range(net.query_base[q], net.query_base[q + 1]):
            v = net.var_of[a]
            first, stop = net.var_start[v], net.var_start[v + 1]
            if stop - first == 1 and not net.exactly[v]:
                state[a] = unary[a + v + 1] >= (least[q] if net.fixed[a] == OPEN else 0.5)
            elif a == first:
                best = first + v + net.exactly[v]
                for slot in range(best + 1, stop + v + 1):
                    if unary[slot] > unary[best] + TIE:
                        best = slot
                if best > first + v:
                    state[best - v - 1] = 1
    define(net, state)


@kernel
def record_probabilities(
    plans: Plans, batch: Batch, w: int, net: Network, unary: Floats, by: Probabilities
) -> bool:
    """Write the probabilities of a world's open atoms; see ``likeliest``. False: no room."""
    at = by.start[w]
    for q in range(len(plans.query_group)):
        for a in range(net.query_base[q], net.query_base[q + 1]):
            if net.fixed[a] != OPEN:
                continue
            if at == len(by.key):
                return False
            by.query[at], by.value[at] = q, unary[a + net.var_of[a] + 1]
            by.key[at] = net.key[a] if batch.listed[w] else a - net.query_base[q]
            at += 1
    by.start[w + 1] = at
    return True


@kernel
def _record_atoms(
    plans: Plans, batch: Batch, w: int, net: Network, state: State, by: By, out: Output
) -> bool:
    """Write the true and predicted atoms, and the counts by class; False: no room."""
    at = out.true_start[w]
    out.by_class[out.class_start[w] : out.class_start[w + 1], :] = 0
    for q in range(len(plans.query_group)):
        for a in range(net.query_base[q], net.query_base[q + 1]):
            if net.fixed[a] != OPEN:
                continue
            latent = net.latent[a] != 0
            predicted, true = state.predicted[a], batch.labelled[w] and state.truth[a]
            if not predicted and not true:
                continue
            key = net.key[a] if batch.listed[w] else a - net.query_base[q]
            if at == len(out.true_key):
                return False
            out.true_query[at], out.true_key[at] = q, key
            out.true_mark[at] = (1 if predicted else 0) + (2 if true else 0) + (4 if latent else 0)
            at += 1
            if q == by.query and batch.labelled[w] and not latent:
                j = plans.query_start[q] + by.argument
                kind = plans.query_type[j]
                number = out.class_start[w] + key // net.query_stride[j] % batch.domain[w, kind]
                out.by_class[number, 0 if predicted and true else 1 if predicted else 2] += 1
    out.true_start[w + 1] = at
    return True


@kernel
def _closed_units(plans: Plans, batch: Batch, w: int, net: Network) -> int:
    """Return the number of units without open atoms because of hard rules; each of them is right.

    These are the groups of atoms without a variable, and groups whose listed atoms are all fixed by evidence
    while hard rules exclude the others.
    """
    units = 0
    for q in range(len(plans.query_group)):
        stop = plans.query_start[q + 1]
        groups, width = 1, 1
        for j in range(plans.query_start[q], stop):
            if j < stop - plans.query_grouped[q]:
                groups *= batch.domain[w, plans.query_type[j]]
            else:
                width *= batch.domain[w, plans.query_type[j]]
        units += groups if width > 0 else 0
        first, last = net.query_base[q], net.query_base[q + 1]
        while first < last:
            v, fixed = net.var_of[first], 0
            for a in range(net.var_start[v], net.var_start[v + 1]):
                fixed += net.fixed[a] != OPEN
            size = net.var_start[v + 1] - net.var_start[v]
            units -= fixed < size or fixed == width
            first += size
    return units


@kernel
def record(
    plans: Plans,
    batch: Batch,
    w: int,
    net: Network,
    state: State,
    by: By,
    route: int,
    score: float,
    out: Output,
) -> bool:
    """Write the results of a world's prediction, before any update; False: no room."""
    if not _record_atoms(plans, batch, w, net, state, by, out):
        return False
    out.status[w] = OK
    out.route[w] = route
    out.score[w] = score
    out.counts[w, :] = 0
    if batch.labelled[w]:
        count = out.counts[w]
        for v in range(net.size[VARIABLES]):  # a unit is a variable with an open atom
            units, wrong = 0, 0
            for a in range(net.var_start[v], net.var_start[v + 1]):
                if net.fixed[a] != OPEN or net.latent[a]:
                    continue
                units = 1
                predicted, true = state.predicted[a], state.truth[a]
                wrong += predicted != true
                count[HITS] += predicted & true
                count[FALSE_ALARMS] += predicted & (1 - true)
                count[MISSES] += true & (1 - predicted)
            count[UNITS] += units
            count[RIGHT_UNITS] += units * (wrong == 0)
            count[HAMMING] += wrong
        count[EXACT] = count[HAMMING] == 0
        if batch.listed[w] == FOUND:
            closed = _closed_units(plans, batch, w, net)
            out.counts[w, UNITS] += closed
            out.counts[w, RIGHT_UNITS] += closed
    return True
