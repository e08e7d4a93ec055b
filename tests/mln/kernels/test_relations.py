"""Sorting, duplicate removal, indexes and atom numbers of the grounding kernels, against numpy."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from onlinesrl.core.example import Example
from onlinesrl.mln.ground.grounder import Grounder
from onlinesrl.mln.ground.join_planner import compile_program
from onlinesrl.mln.ground.model_index import Layout
from onlinesrl.mln.kernels import atoms as numbering
from onlinesrl.mln.kernels import ground_network, grounding_frames, relations
from onlinesrl.mln.lang.reader import parse
from onlinesrl.mln.online.weight_table import WeightTable

MODEL = """
c = { One, Two }
E(a, b)
F(b, c, a)
Q(a, c)
1 E(x, y) ^ F(y, z, x) ^ E(w, y) => Q(w, z)
1 F(y, z, x) ^ E(x, y) => Q(x, z)
"""

integers = st.integers(-5, 5) | st.integers(-(2**62), 2**62)


@given(st.lists(integers, max_size=40), st.integers(0, 40), st.integers(0, 40))
def test_a_stretch_is_sorted_and_the_rest_stays(keys, first, length):
    first = min(first, len(keys))
    stop = min(first + length, len(keys))
    array = np.array(keys, np.int64)

    ground_network.sort(array, first, stop)

    assert array.tolist() == keys[:first] + sorted(keys[first:stop]) + keys[stop:]


def test_many_keys_are_sorted():
    rng = np.random.default_rng(0)
    for keys in (rng.integers(0, 50, 5000), np.arange(5000), np.arange(5000)[::-1].copy()):
        expected = np.sort(keys)
        ground_network.sort(keys, 0, len(keys))
        assert np.array_equal(keys, expected)


def grounder() -> Grounder:
    layout = Layout(compile_program(parse(MODEL), ["Q"]))
    return Grounder(layout, WeightTable(layout).stream)


def world(own: Grounder, example: Example) -> grounding_frames.Batch:
    own.packer.clear()
    own.packer.add(example, 0)
    return own.packer.batch(True)


def relation(own: Grounder, batch: grounding_frames.Batch, slot: int) -> list[tuple[int, ...]]:
    arity = int(own.layout.plans.arity[slot])
    first, n = int(batch.start[0, slot]), int(batch.count[0, slot])
    return list(map(tuple, batch.data[first : first + arity * n].reshape(n, arity).tolist()))


def indexed(own: Grounder, batch: grounding_frames.Batch) -> None:
    while (
        status := relations.index_relations(own.layout.plans, batch, 0, own.scratch)
    ) != grounding_frames.OK:
        assert status == grounding_frames.GROW_INDEX
        own.allocate(**{**own.room, "index": 2 * own.room["index"]})


names = st.sampled_from(["u", "v", "w", 1, "1", 2, "x y"])
pairs = st.lists(st.tuples(names, names).map(list), max_size=40)
triples = st.lists(st.tuples(names, st.sampled_from(["One", "Two", "more"]), names).map(list))


@given(pairs, triples)
def test_relations_become_sets_and_indexes_list_their_tuples(e, f):
    """First places kept; an index lists the tuples with each constant, in their order."""
    own = grounder()
    batch, code = world(own, Example(id=1, evidence={"E": e, "F": f})), own.layout.plans
    before = {slot: relation(own, batch, slot) for slot in range(len(code.arity))}

    indexed(own, batch)

    for slot, tuples in before.items():
        assert relation(own, batch, slot) == list(dict.fromkeys(tuples))
    assert len(code.index_slot) > 0
    for x, (slot, argument) in enumerate(zip(code.index_slot, code.index_argument, strict=True)):
        tuples = relation(own, batch, slot)
        at, rows = own.scratch.index_start_at[x], own.scratch.index_row_at[x]
        for constant in range(batch.domain[0, code.index_type[x]]):
            first, stop = own.scratch.index_start[at + constant : at + constant + 2]
            found = own.scratch.index_row[rows + first : rows + stop].tolist()
            assert found == [i for i, row in enumerate(tuples) if row[argument] == constant]


def test_indexes_larger_than_their_room_make_it_grow():
    own, n = grounder(), 20_000
    atoms = [[f"a{k % 700}", f"b{k % n}"] for k in range(2 * n)]
    batch = world(own, Example(id=1, evidence={"E": atoms}))

    indexed(own, batch)

    assert batch.count[0, own.layout.evidence["E"]] == len({tuple(atom) for atom in atoms})
    assert own.room["index"] > n


def opened(listed) -> tuple[Grounder, grounding_frames.Batch]:
    own = grounder()
    evidence = {"E": [["u", "v"], ["w", "v"]], "Q": [["u", "Two"]]}
    batch = world(own, Example(id=1, evidence=evidence, query=listed))
    indexed(own, batch)
    status = numbering.number_atoms(own.layout.plans, batch, 0, own.net, own.limits.atoms)
    assert status == grounding_frames.OK
    return own, batch


def test_open_atoms_are_numbered_by_radix():
    """Two constants of a, two of c: four atoms, c fastest."""
    own, batch = opened(None)

    assert own.net.size[0] == 4
    for key in range(4):
        assert numbering.find_atom(batch, 0, 0, key, own.net) == key
    assert own.net.fixed[:4].tolist() == [0, 2, 0, 0]


@given(triples)
def test_listed_atoms_are_found_and_others_not(chosen):
    """The observed atom counts as listed; keys rise; a key that is not there is not found."""
    own, batch = opened({"Q": [[a, c] for a, c, _ in chosen]})
    size = int(own.net.size[0])
    keys = own.net.key[:size].tolist()
    n_c = int(batch.domain[0, own.layout.type_number["c"]])
    n_a = int(batch.domain[0, own.layout.type_number["a"]])

    assert len(keys) == len({(str(a), c) for a, c, _ in chosen} | {("u", "Two")})
    assert keys == sorted(set(keys))
    for key in range(n_a * n_c):
        found = numbering.find_atom(batch, 0, 0, key, own.net)
        assert found == (keys.index(key) if key in keys else -1)
