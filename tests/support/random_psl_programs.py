"""Random PSL programs and data, and ground models in a form that can be compared."""

from collections import Counter

import numpy as np
from hypothesis import strategies as st

from onlinesrl.core.errors import ModelError
from onlinesrl.psl.ground.hinge_loss_mrf import AT_MOST, EQUAL, HARD, HINGE
from onlinesrl.psl.lang.data import AtomTable, Database, Relation
from onlinesrl.psl.lang.linear_form import normal_rules
from onlinesrl.psl.lang.reader import parse
from tests.support import naive_psl_grounder

ARITIES = {"A": 1, "B": 2, "C": 2, "T": 1, "U": 2}
"""T and U have targets."""
CONSTANTS = ("a", "b", "10", "9", "c")
FUNCTIONS = {"Near": lambda x, y: (len(x) + 2 * len(y)) % 5 / 4}

_terms = st.sampled_from(["X", "X", "Y", "Y", "Z", "'a'", "10"])
_numbers = st.sampled_from(["1", "2", "0.5"])


@st.composite
def _atoms(draw, names=("A", "B", "C", "T", "U")):
    name = draw(st.sampled_from(names))
    terms = _terms if name in "TU" else _terms | st.just("'unseen'")
    return f"{name}({', '.join(draw(terms) for _ in range(ARITIES[name]))})"


@st.composite
def _clauses(draw):
    body = draw(st.lists(_atoms(), min_size=1, max_size=4))
    body += [f"!{each}" for each in draw(st.lists(_atoms(("A", "T", "U")), max_size=1))]
    compared = st.tuples(_terms, st.sampled_from(["!=", "==", "%"]), _terms).map(" ".join)
    body += draw(st.lists(compared, max_size=2))
    body += draw(st.sampled_from([[], [], [], ["Near(X, Y)"]]))
    head = draw(st.lists(_atoms(), min_size=1, max_size=2))
    return _weighted(draw, f"{' & '.join(body)} -> {' | '.join(head)}")


@st.composite
def _sums(draw):
    left = draw(
        st.sampled_from(["U(X, +Y)", "|Y| * T(X) + U(X, +Y)", "U(+Y, +Z)", "T(+Y) - B(X, +Z)"])
    )
    right = draw(st.sampled_from(["1", "0.5 * T(X)", "|Y|", "T(X) + A(X)", "B(X, X)"]))
    op = draw(st.sampled_from(["<=", ">=", "="]))
    conditions = ["", "", "{Y: A(Y)}", "{Y: B(X, Y) | Y == 'a'}", "{Y: !C(Y, Y) & Y % 'c'}"]
    conditions.append("{Y: A(Y) & !A(Y)}")
    return _weighted(draw, f"{left} {op} {right}", draw(st.sampled_from(conditions)))


@st.composite
def _linear(draw):
    left = " + ".join(
        f"{draw(_numbers)} * {draw(_atoms())}" for _ in range(draw(st.integers(1, 3)))
    )
    return _weighted(draw, f"{left} {draw(st.sampled_from(['<=', '>=', '=']))} {draw(_numbers)}")


def _weighted(draw, text, after=""):
    weight = draw(st.sampled_from(["1", "2.5", None]))
    if weight is None:
        return f"{text} . {after}"
    return f"{weight}: {text} {draw(st.sampled_from(['', '^2']))} {after}"


@st.composite
def programs(draw):
    """Programs of one to four rules."""
    rules, found = draw(st.lists(_clauses() | _sums() | _linear(), min_size=1, max_size=4)), []
    for rule in rules:
        try:
            parse(rule, declared=ARITIES, functions=FUNCTIONS)
        except ModelError:  # a variable that no atom binds
            continue
        found.append(rule)
    text = "\n".join(found or ["1: !T(X)"])
    return parse(text, declared=ARITIES, functions=FUNCTIONS)


@st.composite
def databases(draw):
    """Data in which every atom of T and U is observed or a target."""
    values = st.sampled_from([0.0, 0.25, 0.7, 1.0])
    relations = {}
    for name, arity in ARITIES.items():
        every = [
            (i,) if arity == 1 else (i, j)
            for i in range(5)
            for j in range(5)
            if arity == 2 or j == 0
        ]
        some = draw(st.lists(st.sampled_from(every), unique=True, max_size=7))
        given = [draw(values) for _ in some]
        rest = [each for each in every if each not in some] if name in "TU" else []
        relations[name] = Relation(
            table(some, given, arity), table(rest, None, arity), table([], [], arity)
        )
    return Database(CONSTANTS, relations)


def table(rows, values, arity):
    columns = np.array(rows, np.int32).reshape(-1, arity).T
    return AtomTable(
        columns, np.array(values, float) if values is not None else np.full(len(rows), np.nan)
    )


def side_by_side(databases):
    """The data of worlds as one database, the world its first column."""

    def joined(tables, arity):
        columns = [
            np.concatenate((np.full((1, len(each)), w, np.int32), each.columns))
            for w, each in enumerate(tables)
        ]
        return AtomTable(
            np.concatenate([np.empty((arity + 1, 0), np.int32), *columns], axis=1),
            np.concatenate([np.empty(0), *(each.values for each in tables)]),
        )

    relations = {
        name: Relation(
            *(
                joined([getattr(each.relations[name], part) for each in databases], arity)
                for part in ("observed", "targets", "truth")
            )
        )
        for name, arity in ARITIES.items()
    }
    return Database(CONSTANTS, relations)


def expected(program, database):
    """Count the naive grounder's rows; None where what is observed breaks a hard rule."""
    observed, targets = naive_psl_grounder.as_dicts(database)
    rows = Counter()
    for form in normal_rules(program):
        if naive_psl_grounder.broken(form, observed, targets, FUNCTIONS):
            return None
        hard = form.weight is None
        kind = HINGE if not hard else EQUAL if form.equality else AT_MOST
        key = (HARD if hard else form.rule, kind, 1 if hard else form.power)
        for terms, constant in naive_psl_grounder.ground(form, observed, targets, FUNCTIONS):
            named = frozenset((atom, round(value, 6)) for atom, value in terms.items())
            rows[(*key, named, round(constant, 6))] += 1
    return rows


def names(database):
    """The atoms of the variables, in their order."""
    return [
        (name, tuple(database.constants[n] for n in row))
        for name, relation in database.relations.items()
        for row in relation.targets.columns.T.tolist()
    ]


def counted(model, atoms):
    """Count a ground model's rows as `expected` does; ``atoms`` are those of its variables."""
    found = Counter()
    for i in range(model.n_rows):
        entries = range(model.start[i], model.start[i + 1])
        named = frozenset(
            (atoms[model.variable[e]], round(float(model.coefficient[e]), 6)) for e in entries
        )
        key = int(model.weight_index[i]), int(model.kind[i]), int(model.power[i])
        found[(*key, named, round(float(model.constant[i]), 6))] += 1
    return found
