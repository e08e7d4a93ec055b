"""What formulas and clauses mean, by definition, in a small world."""

import operator
from itertools import product

from onlinesrl.logic.ast import (
    And,
    Arithmetic,
    Atom,
    Compare,
    Constant,
    Equal,
    Exists,
    Forall,
    Function,
    Iff,
    Implies,
    Not,
    Or,
    Variable,
)

COMPARE = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def calculate(op, left, right):
    """Integer arithmetic as in C; None for a division by zero, and from 4e18 on."""
    if op in {"+", "-", "*"}:
        result = {"+": left + right, "-": left - right, "*": left * right}[op]
        return result if abs(result) < 4 * 10**18 else None
    if right == 0:
        return None
    quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
    return quotient if op == "/" else left - right * quotient


class World:
    """Constants of one type, true atoms, and functions as mappings of arguments to a result."""

    def __init__(self, constants, true, functions):
        self.constants = constants
        self.true = set(true)
        self.functions = functions
        for name, table in functions.items():
            self.true |= {(name, (*arguments, result)) for arguments, result in table.items()}

    def value(self, term, binding):
        match term:
            case Variable(name):
                return binding[name]
            case Constant(name):
                return name
            case Function(name, terms):
                return self.functions[name][tuple(self.value(each, binding) for each in terms)]
            case Arithmetic(op, left, right):
                sides = int(self.value(left, binding)), int(self.value(right, binding))
                return str(calculate(op, *sides))

    def bindings(self, names):
        for values in product(self.constants, repeat=len(names)):
            yield dict(zip(names, values, strict=True))

    def holds(self, formula, binding):
        """The truth of a formula for a binding of its free variables."""
        match formula:
            case Atom(name, terms):
                return (name, tuple(self.value(each, binding) for each in terms)) in self.true
            case Equal(left, right):
                return self.value(left, binding) == self.value(right, binding)
            case Compare(op, left, right):
                sides = self.value(left, binding), self.value(right, binding)
                return COMPARE[op](*map(int, sides))
            case Not(operand):
                return not self.holds(operand, binding)
            case And(operands):
                return all(self.holds(each, binding) for each in operands)
            case Or(operands):
                return any(self.holds(each, binding) for each in operands)
            case Implies(left, right):
                return self.holds(left, binding) <= self.holds(right, binding)
            case Iff(left, right):
                return self.holds(left, binding) == self.holds(right, binding)
            case Exists(names, body):
                return any(self.holds(body, binding | each) for each in self.bindings(names))
            case Forall(names, body):
                return all(self.holds(body, binding | each) for each in self.bindings(names))

    def clause_values(self, clause):
        """The truth of a clause for each of its groundings that count."""
        for binding in self.bindings(ranging(clause)):
            complete = self.completed(clause, binding)
            if complete is not None:
                yield complete, self.satisfied(clause, complete)

    def completed(self, body, binding):
        """A binding with the computed integers, None if a condition fails."""
        complete = dict(binding)
        for variable, op, left, right in body.computed:
            result = calculate(op, *(int(self.value(each, complete)) for each in (left, right)))
            if result is None or complete.setdefault(variable.name, str(result)) != str(result):
                return None
        return complete

    def parts(self, body, binding):
        """The truths of the literals, equalities and comparisons."""
        for literal in body.literals:
            terms = tuple(self.value(each, binding) for each in literal.atom.terms)
            yield ((literal.atom.predicate, terms) in self.true) == literal.positive
        for sign, left, right in body.equalities:
            yield (self.value(left, binding) == self.value(right, binding)) == sign
        for sign, op, left, right in body.comparisons:
            sides = int(self.value(left, binding)), int(self.value(right, binding))
            yield COMPARE[op](*sides) == sign

    def satisfied(self, clause, binding):
        return any(self.parts(clause, binding)) or any(
            self.witnessed(each, binding) for each in clause.exists
        )

    def witnessed(self, existential, binding):
        own = [name for name in ranging(existential) if name in existential.variables]
        for values in self.bindings(own):
            complete = self.completed(existential, binding | values)
            if complete is not None and all(self.parts(existential, complete)):
                return True
        return False


def ranging(body):
    """The variables that range over constants: of the literals and the domains."""
    names = [
        term.name
        for literal in body.literals
        for term in literal.atom.terms
        if isinstance(term, Variable)
    ]
    return list(dict.fromkeys([*names, *(name for name, _ in body.domains)]))
