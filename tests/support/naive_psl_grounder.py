"""PSL's grounding written down naively, for the tests: rows of dictionaries, no plans."""

from collections import defaultdict

from onlinesrl.logic.ast import Constant
from onlinesrl.logic.cnf import Literal
from onlinesrl.psl.lang.ast import evaluate


def as_dicts(database):
    """Values of observed atoms, and the set of targets, by predicate and constants."""
    names = database.constants
    observed, targets = {}, set()
    for predicate, relation in database.relations.items():
        for row, value in zip(relation.observed.columns.T, relation.observed.values, strict=True):
            observed[predicate, tuple(names[i] for i in row)] = float(value)
        targets |= {(predicate, tuple(names[i] for i in row)) for row in relation.targets.columns.T}
    return observed, targets


def ground(form, observed, targets, functions=None):
    """Yield (coefficients of targets, constant) for each ground row with targets that is not trivial."""
    for linear, constant in _all(form, observed, targets, functions or {}):
        most = constant + sum(max(value, 0) for value in linear.values())
        if linear and (form.equality or most > (1e-7 if form.weight is None else 0.0)):
            yield linear, constant


def broken(form, observed, targets, functions=None):
    """Tell whether what is observed breaks a hard form."""
    return form.weight is None and any(
        not linear and (abs(constant) if form.equality else constant) > 1e-7
        for linear, constant in _all(form, observed, targets, functions or {})
    )


def _all(form, observed, targets, functions):
    world = _World(observed, targets, functions)
    groups = defaultdict(list)
    for row in world.rows([each.atom for each in (*form.joins, *form.sums)]):
        if all(world.holds(each, row) for each in form.comparisons) and all(
            any(all(world.holds(c, row) for c in choice) for choice in each.choices)
            for each in form.summations
        ):
            summed = {each.variable for each in form.summations}
            groups[tuple((k, v) for k, v in row.items() if k not in summed)].append(row)
    for rows in groups.values():
        counts = {x.variable: len({row[x.variable] for row in rows}) for x in form.summations}
        linear, constant = defaultdict(float), evaluate(form.constant, counts)
        for term in form.terms:
            coefficient = evaluate(term.coefficient, counts)
            for atom in {instance(term.atom, row) for row in rows}:
                if atom in targets:
                    linear[atom] += coefficient
                else:
                    constant += coefficient * world.value(atom)
        yield {atom: value for atom, value in linear.items() if value}, constant


def instance(atom, row):
    return atom.predicate, tuple(
        each.name if isinstance(each, Constant) else row[each.name] for each in atom.terms
    )


class _World:
    def __init__(self, observed, targets, functions):
        self.observed, self.functions = observed, functions
        self.listed = defaultdict(list)
        for predicate, constants in (*observed, *targets):
            self.listed[predicate].append(constants)
        self.indexes = {}

    def value(self, atom):
        if atom[0] in self.functions:
            return self.functions[atom[0]](*atom[1])
        return self.observed.get(atom, 0.0)

    def rows(self, atoms, row=None):
        row = row or {}
        if not atoms:
            yield row
            return
        known = [
            each.name if isinstance(each, Constant) else row.get(each.name)
            for each in atoms[0].terms
        ]
        places = tuple(i for i, each in enumerate(known) if each is not None)
        key = atoms[0].predicate, places
        if key not in self.indexes:
            index = self.indexes[key] = defaultdict(list)
            for constants in self.listed[atoms[0].predicate]:
                index[tuple(constants[i] for i in places)].append(constants)
        for constants in self.indexes[key][tuple(known[i] for i in places)]:
            new = dict(row)
            for term, name in zip(atoms[0].terms, constants, strict=True):
                if not isinstance(term, Constant) and new.setdefault(term.name, name) != name:
                    break
            else:
                yield from self.rows(atoms[1:], new)

    def holds(self, condition, row):
        if isinstance(condition, Literal):
            return (self.value(instance(condition.atom, row)) > 0) == condition.positive
        left, right = (
            each.name if isinstance(each, Constant) else row[each.name]
            for each in (condition.left, condition.right)
        )
        return (left == right if condition.op == "=" else before(left, right)) == condition.positive


def before(left, right):
    """The order of `%`."""

    def key(name):
        return (0, int(name), name) if name.lstrip("-").isdigit() else (1, 0, name)

    return key(left) < key(right)
