"""Random steps of changes to the facts of random programs, and the world that each defines."""

import math

from hypothesis import strategies as st

from onlinesrl.core.example import Example, ValuedAtom, arguments, number_of
from tests.support.naive_grounder import World
from tests.support.random_programs import NUMBERS, cases, with_numbers

CASES = cases(examples=3, weighted=True) | with_numbers(cases(examples=3, weighted=True))
"""Programs with weights, numeric predicates too; the facts are atoms of their examples."""


def example_of(case, facts, listed):
    """The facts as an example; NaN: an open atom."""
    evidence, query = {}, {}
    for (name, row), value in facts.items():
        part = query if math.isnan(value) else evidence
        part.setdefault(name, []).append(ValuedAtom([*row], 1.0 if math.isnan(value) else value))
    opened = {name: query.get(name, []) for name in case.query} if listed else None
    return Example(id=1, evidence=evidence, query=opened, truth={})


def pool_of(case, listed):
    """The atoms of all examples, and the values that each may have."""
    predicates, pool = case.program.predicates, {}
    for example in case.examples:
        for part in (example.evidence, example.truth or {}, example.query or {}):
            for name, atoms in part.items():
                for atom in atoms:
                    values = [1.0, 1.0, 0.0]
                    if predicates[name].numeric:
                        values = NUMBERS
                    elif name in case.query:
                        values = [1.0, 0.0, *[math.nan] * (3 * listed)]
                    pool[name, tuple(map(str, arguments(atom)))] = values
    return pool


def begin_of(case, listed):
    facts = {}
    for name, atoms in case.examples[0].evidence.items():
        for atom in atoms:
            value = number_of(atom)
            facts[name, tuple(map(str, arguments(atom)))] = 1.0 if value is None else value
    for name, atoms in (case.examples[0].query or {}).items() if listed else ():
        for atom in atoms:
            facts.setdefault((name, tuple(map(str, atom))), math.nan)
    return facts


def world_of(case, facts, listed):
    return World(case.program, case.query, example_of(case, facts, listed))


def breaks(world):
    return frozenset() in world.hard()


def changes(choose, pool, facts):
    """New values of up to three atoms, None: the atom goes; ``choose`` draws from a strategy."""
    some = st.lists(st.sampled_from(sorted(pool)), min_size=1, max_size=3, unique=True)
    return {
        atom: choose(st.sampled_from([*pool[atom], *[None] * (2 * (atom in facts))]))
        for atom in (choose(some) if pool else ())
    }
