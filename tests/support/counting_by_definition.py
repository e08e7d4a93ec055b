"""Counting by trying every grounding, and random formulas and worlds to count in."""

import itertools

import numpy as np
from hypothesis import strategies as st

from onlinesrl.core.example import GroundAtom
from onlinesrl.logic.ast import (
    And,
    Atom,
    Constant,
    Equal,
    Exists,
    Forall,
    Iff,
    Implies,
    Not,
    Or,
    Variable,
    free_variables,
    replace_terms,
)
from onlinesrl.logic.ast import terms as ast_terms
from onlinesrl.mln.counting.world import world_of
from onlinesrl.mln.lang import reader

DECLARED = """
person = {A, B, C}
thing = {U, V}
P(person)
F(person, person)
L(person, thing)
H(person, thing, person)
Q()
"""
PROGRAM = reader.parse(DECLARED)
TYPES = {**dict.fromkeys("xyzw", "person"), **dict.fromkeys("st", "thing")}
PLACES = {name: each.types for name, each in PROGRAM.predicates.items()}
CONSTANTS = PROGRAM.types


def truth(formula, true, world, binding):
    """Whether a formula is true, by its definition; ``true`` has the true atoms by predicate."""
    match formula:
        case Atom(predicate, terms):
            return tuple(value(t, binding) for t in terms) in true[predicate]
        case Equal(left, right):
            return value(left, binding) == value(right, binding)
        case Not(operand):
            return not truth(operand, true, world, binding)
        case And(operands):
            return all(truth(each, true, world, binding) for each in operands)
        case Or(operands):
            return any(truth(each, true, world, binding) for each in operands)
        case Implies(left, right):
            return not truth(left, true, world, binding) or truth(right, true, world, binding)
        case Iff(left, right):
            return truth(left, true, world, binding) == truth(right, true, world, binding)
        case Exists(names, body):
            return any(truth(body, true, world, binding | b) for b in bindings(names, world))
        case Forall(names, body):
            return all(truth(body, true, world, binding | b) for b in bindings(names, world))


def value(term, binding):
    return term.name if isinstance(term, Constant) else binding[term.name]


def bindings(names, world):
    for constants in itertools.product(*(world.domains[TYPES[v[0]]] for v in names)):
        yield dict(zip(names, constants, strict=True))


def true_atoms(world):
    return {
        name: {
            tuple(world.domains[t][n] for t, n in zip(table.types, row, strict=True))
            for row in table.rows.tolist()
        }
        for name, table in world.tables.items()
    }


def brute(formula, world, keep=()):
    """The number of true groundings, for each constant of the variables to keep."""
    true = true_atoms(world)
    found = np.zeros([world.size(TYPES[v[0]]) for v in keep], np.int64)
    rest = [v for v in free_variables(formula) if v not in keep]
    for key in np.ndindex(found.shape):
        kept = {v: world.domains[TYPES[v[0]]][n] for v, n in zip(keep, key, strict=True)}
        every = bindings(rest, world)
        found[key] = sum(truth(formula, true, world, kept | each) for each in every)
    return found


# random ------------------------------------------------------------------------------------------


def terms(kind):
    names = [v for v, t in TYPES.items() if t == kind]
    return st.sampled_from(
        [*map(Variable, names), *map(Variable, names), *map(Constant, CONSTANTS[kind])]
    )


ATOMS = st.sampled_from(sorted(PLACES)).flatmap(
    lambda name: st.tuples(*map(terms, PLACES[name])).map(lambda ts: Atom(name, ts))
)
EQUAL = st.tuples(terms("person"), terms("person")).map(lambda two: Equal(*two))
PARTS = st.one_of(ATOMS, ATOMS, ATOMS, EQUAL)
LITERALS = st.tuples(PARTS, st.booleans()).map(lambda p: p[0] if p[1] else Not(p[0]))
CLAUSES = st.lists(LITERALS, min_size=1, max_size=5).map(
    lambda parts: parts[0] if len(parts) == 1 else Or((*parts,))
)


def _compound(inner):
    two = st.tuples(inner, inner)
    return st.one_of(
        inner.map(Not),
        two.map(And),
        two.map(Or),
        two.map(lambda p: Implies(*p)),
        two.map(lambda p: Iff(*p)),
    )


OPEN = st.recursive(PARTS, _compound, max_leaves=5)


@st.composite
def formulas(draw):
    """A formula, with quantified parts whose variables stand nowhere else."""
    parts = [draw(OPEN)]
    for _ in range(draw(st.integers(0, 2))):
        body = draw(st.recursive(ATOMS, _compound, max_leaves=3))
        names = tuple(f"{v}{len(parts)}" for v in free_variables(body)[:2])
        if names:
            own = dict(zip(free_variables(body), names, strict=False))
            body = renamed(body, own)
            parts.append(draw(st.sampled_from([Exists, Forall]))(names, body))
    if len(parts) == 1:
        return parts[0]
    return draw(
        st.sampled_from([And, Or, lambda p: Implies(p[0], p[1]), lambda p: Iff(p[1], p[0])])
    )((*parts,))


def renamed(formula, names):
    def new(leaf):
        return Variable(names.get(leaf.name, leaf.name)) if isinstance(leaf, Variable) else leaf

    return replace_terms(formula, new)


def typed(formula):
    """The types of all variables: those of the letters that they begin with."""
    return {t.name: TYPES[t.name[0]] for t in ast_terms(formula) if isinstance(t, Variable)}


@st.composite
def worlds(draw):
    atoms = []
    for name, places in PLACES.items():
        every = list(itertools.product(*(CONSTANTS[t] for t in places)))
        chosen = draw(st.sets(st.sampled_from(every)))
        atoms += [GroundAtom(name, row, True, 0) for row in sorted(chosen)]
    return world_of(PROGRAM, atoms)
