"""infer's worlds against the reference grounder: soft, unknown and partly given evidence, any query."""

import json
import tempfile
from itertools import product
from math import log
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinesrl.core.errors import ExampleError, Infeasible
from onlinesrl.core.example import Example, ValuedAtom
from onlinesrl.logic.text import spell_atom
from onlinesrl.mln.inference.brute_force import MAX_ATOMS, Brute, state_scores
from onlinesrl.mln.query import infer as infer_module
from onlinesrl.mln.query import world as inference
from tests.support.answers import answer_lines
from tests.support.naive_grounder import Atom, Soft, World, holds, model
from tests.support.random_programs import FOUND, Case, cases

TRUTHS = (True, True, True, False, None, 0.7)
Database = dict[Atom, bool | float | None]


@st.composite
def questions(draw: st.DrawFn) -> tuple[Case, Database, tuple[str, ...]]:
    """A program whose rules have weights, a database, and the predicates asked for."""
    case = draw(cases(weighted=True))
    database: Database = {}
    functions = case.program.functions
    for name, predicate in case.program.predicates.items():
        constants = st.tuples(*(st.sampled_from(FOUND[kind]) for kind in predicate.types))
        for atom in draw(st.lists(constants, max_size=3)):
            key = name, tuple(map(str, atom))
            if name not in functions:
                database[key] = draw(st.sampled_from(TRUTHS))
            elif not any(n == name and c[:-1] == key[1][:-1] for n, c in database):
                database[key] = True
    names = sorted(case.program.predicates.keys() - functions.keys())
    asked = draw(st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True))
    return case, database, tuple(asked)


def written(database: Database) -> str:
    """The database in Alchemy's syntax."""
    lines = []
    for (name, constants), value in database.items():
        mark = {True: "", False: "!", None: "?"}.get(value, f"{value} ")
        arguments = ", ".join(json.dumps(c) for c in constants)
        lines.append(f"{mark}{name}({arguments})" if constants else f"{mark}{name}")
    return "\n".join(lines)


def reference(case: Case, database: Database, query: tuple[str, ...]) -> tuple[World, dict]:
    """The world by Alchemy's rules of what is open, and the weight of its ground clauses."""
    program = case.program
    open_atoms = {atom: v for atom, v in database.items() if not isinstance(v, bool)}
    mentioned = {name for name, _ in database} | program.functions.keys()
    wholly = {*query, *(program.predicates.keys() - mentioned)}
    partly = {name for name, _ in open_atoms} - wholly
    domains = {kind: dict.fromkeys(names) for kind, names in program.types.items()}
    for name, constants in database:
        for kind, constant in zip(program.predicates[name].types, constants, strict=True):
            domains.setdefault(kind, {})[constant] = None
    listed = {name: [[*c] for n, c in open_atoms if n == name] for name in partly}
    for name in wholly:
        kinds = program.predicates[name].types
        listed[name] = [[*row] for row in product(*(domains.get(kind, {}) for kind in kinds))]
    evidence: dict[str, list] = {}
    for (name, constants), value in database.items():
        if isinstance(value, bool):
            evidence.setdefault(name, []).append(ValuedAtom([*constants], float(value)))
    world = World(program, wholly | partly, Example(id=1, evidence=evidence, query=listed))
    weight = {x: count * (x.clause.weight or 0.0) for x, count in world.soft().items()}
    for atom, p in open_atoms.items():
        if p is not None:
            weight[Soft(None, atom, frozenset({(True, atom)}))] = log(p / (1 - p))
    return world, weight


def infeasible(world, weight) -> bool:
    whole, numbers, _ = model(world, weight)
    large = whole.n_atoms > MAX_ATOMS
    return large or bool(state_scores(whole, numbers, None).max() == -np.inf)


def answers_as_defined(question: tuple[Case, Database, tuple[str, ...]]) -> str:
    """The most probable state is a best one, and the exact marginals are those of brute force."""
    case, database, query = question
    world, weight = reference(*question)
    with tempfile.TemporaryDirectory() as folder:
        mln, db = Path(folder, "m.mln"), Path(folder, "e.db")
        mln.write_text(case.text)
        db.write_text(written(database))
        try:
            found = inference.load_world(mln, [db], query)
        except ExampleError as error:
            assert "the evidence breaks the hard rule" in str(error)
            assert frozenset() in world.hard()
            return "evidence breaks a rule"
        except Infeasible as error:
            assert "evidence breaks this hard rule" in str(error)
            assert frozenset() in world.hard() or infeasible(world, weight)
            return "evidence breaks a rule"
    assert frozenset() not in world.hard()
    whole, numbers, atoms = model(world, weight)
    if whole.n_atoms > MAX_ATOMS - 7:
        return "too large for brute force"
    scores = state_scores(whole, numbers, None)
    if scores.max() == -np.inf:
        with pytest.raises(Infeasible):
            answer_lines(found, "mpe", 0)
        return "infeasible"
    asked = {a for a, value in world.atoms.items() if value is None and a[0] in query}
    lines, stats = answer_lines(found, "mpe", 0)
    assert stats["certified"]
    assert {*values(lines)} == {shown(*atom) for atom in asked}
    solution = infer_module.solve(found, "mpe", 0)[0]
    true = {
        (name, tuple(map(str, args)))
        for (name, args), value in zip(found.atoms, solution, strict=False)
        if value == 1
    }
    assert all(holds(clause, true) for clause in world.hard())
    score = sum(w for x, w in weight.items() if holds(x.literals, true))
    constant = sum(
        w for x, w in weight.items() if any((not p, a) in x.literals for p, a in x.literals)
    )
    assert score == pytest.approx(Brute().solve(whole, numbers).score + constant, abs=1e-6)
    lines, stats = answer_lines(found, "exact", 0)
    if stats["route"] != "exact":
        return "sampled"
    share = np.exp(scores - scores.max())
    true_in = np.arange(len(scores))[:, None] >> (whole.n_atoms - 1 - np.arange(len(atoms))) & 1
    marginal = dict(zip(atoms, share @ true_in / share.sum(), strict=True))
    probability = values(lines)
    for atom in asked:
        assert probability[shown(*atom)] == pytest.approx(marginal[atom], abs=1e-8)
    return "answered"


def shown(name: str, constants: tuple[str, ...]) -> str:
    return spell_atom(name, constants)


def values(lines: list[str]) -> dict[str, float]:
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in lines}


@given(questions())
def test_a_database_is_answered_as_defined(question):
    answers_as_defined(question)


def test_an_atom_that_is_not_open_leaves_its_clause_to_the_existential(tmp_path):
    """P(A) is unknown, so P(B) is false: of B the rule says that some S is."""
    question = (
        Case("t = {A, B}\nS(t)\nP(t)\n1 P(x) v (EXIST z (S(z) ^ !P(z)))\n", ("S",), []),
        {("P", ("A",)): None},
        ("S",),
    )

    assert answers_as_defined(question) == "answered"


def test_the_constants_of_unknown_and_soft_atoms_are_in_the_world():
    """No evidence names A or B."""
    case = Case("P(t)\nQ(t)\n1 P(x) v Q(x)\n", ("P",), [])
    database = {("P", ("A",)): None, ("P", ("B",)): 0.7}

    assert answers_as_defined((case, database, ("P",))) == "answered"
    assert answers_as_defined((case, database, ("P", "Q"))) == "answered"
