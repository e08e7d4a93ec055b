"""Random formulas for the tests of the language."""

from hypothesis import strategies as st

from onlinesrl.logic.ast import And, Atom, Constant, Equal, Iff, Implies, Not, Or, Variable

DECLARATIONS = "P(thing)\nQ(thing, thing)\nlower(thing)\nRain\n"

VARIABLES = [Variable("x"), Variable("y"), Variable("p", plus=True), Variable("q", plus=True)]

constants = st.builds(
    Constant, st.sampled_from(["Anna", "3", "Anna Lee", "v"]) | st.text(max_size=5)
)
variables = st.sampled_from(VARIABLES)
terms = variables | constants

atoms = st.one_of(
    st.builds(Atom, st.sampled_from(["P", "lower"]), st.tuples(terms)),
    st.builds(Atom, st.just("Q"), st.tuples(terms, terms)),
    st.just(Atom("Rain", ())),
)


def compound(basic):
    """Formulas of any shape over the basic ones."""
    return st.recursive(
        basic,
        lambda parts: st.one_of(
            st.builds(Not, parts),
            st.builds(And, st.lists(parts, min_size=2, max_size=3).map(tuple)),
            st.builds(Or, st.lists(parts, min_size=2, max_size=3).map(tuple)),
            st.builds(Implies, parts, parts),
            st.builds(Iff, parts, parts),
        ),
        max_leaves=6,
    )


ALL_VARIABLES = (Atom("Q", tuple(VARIABLES[:2])), Atom("Q", tuple(VARIABLES[2:])))

typed = compound(atoms | st.builds(Equal, terms, terms)).map(
    lambda formula: And((*ALL_VARIABLES, formula))
)
"""Formulas that name all their variables in atoms, as a program requires."""
