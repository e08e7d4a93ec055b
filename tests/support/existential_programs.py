"""Random programs whose existentials ask for several open atoms at once, with answers by the definition."""

from dataclasses import dataclass
from itertools import product
from math import exp, log

from hypothesis import strategies as st

from onlinesrl.core.example import Example
from onlinesrl.mln.lang.reader import parse
from tests.support.naive_grounder import World, holds, tautology

ARITY = {"R": 1, "Q": 1, "F": 2}
HEADER = "t = {A, B}\nR(t)\nQ(t)\nF(t, t)\n"


@dataclass(frozen=True)
class Answer:
    """Marginals by atom, ``Name(args)``, and log Z without the clauses that every state satisfies."""

    probability: dict[str, float]
    log_z: float


@st.composite
def programs(draw: st.DrawFn) -> str:
    """Eight open atoms, one to four rules, of which one at least has an existential conjunction."""
    rules = [draw(_rule(existential=True))]
    rules += draw(st.lists(st.booleans().flatmap(lambda e: _rule(existential=e)), max_size=3))
    return HEADER + "\n".join(rules) + "\n"


@st.composite
def _rule(draw: st.DrawFn, existential: bool) -> str:
    parts = [draw(_literal("x")) for _ in range(draw(st.integers(0 if existential else 1, 2)))]
    if existential:
        bound = draw(st.sampled_from(["y", "y,z"]))
        variables = ["x", *bound.split(",")] if parts or draw(st.booleans()) else bound.split(",")
        some = [draw(_literal(*variables)) for _ in range(draw(st.integers(1, 2)))]
        missing = [v for v in bound.split(",") if not any(v in literal for literal in some)]
        some += [draw(_literal(v)) for v in missing or ["y"]]
        parts.append(f"(EXIST {bound} ({' ^ '.join(some)}))")
    if len(parts) > 1 and draw(st.integers(0, 3)) == 0:
        formula = f"{parts[0]} <=> {' v '.join(parts[1:])}"
    else:
        formula = " v ".join(parts)
    weight = draw(st.sampled_from([None, 0.4, 1.0, -1.5, 3.0]))
    return f"{formula}." if weight is None else f"{weight} {formula}"


@st.composite
def _literal(draw: st.DrawFn, *variables: str) -> str:
    name = draw(st.sampled_from(sorted(ARITY)))
    arguments = [draw(st.sampled_from(variables)) for _ in range(ARITY[name])]
    return f"{'!' if draw(st.booleans()) else ''}{name}({','.join(arguments)})"


def scores(text: str) -> dict[frozenset[tuple[str, tuple[str, ...]]], float]:
    """The score of each state of the program's own atoms that satisfies the hard rules, by its true atoms.

    Without the clauses that every state satisfies.
    """
    program = parse(text)
    world = World(program, sorted(ARITY), Example(id="world", evidence={}))
    atoms, hard = sorted(world.atoms), world.hard()
    soft = [
        (n * s.clause.weight, s.literals)
        for s, n in world.soft().items()
        if not tautology(s.literals)
    ]
    total = {}
    for values in product([False, True], repeat=len(atoms)):
        state = {atom for atom, value in zip(atoms, values, strict=True) if value}
        if all(holds(clause, state) for clause in hard):
            total[frozenset(state)] = sum(w for w, literals in soft if holds(literals, state))
    return total


def by_definition(text: str) -> Answer | None:
    """Enumerate the states of the program's own atoms; None where none satisfies the hard rules."""
    mass = {state: exp(score) for state, score in scores(text).items()}
    if not mass:
        return None
    z = sum(mass.values())
    return Answer(
        {
            f"{name}({','.join(args)})": sum(m for s, m in mass.items() if (name, args) in s) / z
            for name, arity in ARITY.items()
            for args in product("AB", repeat=arity)
        },
        log(z),
    )
