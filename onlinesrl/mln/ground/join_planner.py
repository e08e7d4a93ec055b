"""Join plans: a rule is compiled once to the steps that ground it in any world.

A ground clause matters only if evidence does not satisfy it; a plan enumerates exactly these groundings.
Negative evidence literals are joined, and atoms of positive evidence literals must be absent. Variables
that no join binds range over their domain, and equalities filter or bind. The order of the steps binds
variables early. A plan is immutable; ``str(plan)`` prints it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias, cast

from onlinesrl.core.errors import OnlinesrlError
from onlinesrl.logic.ast import Atom, Constant, Leaf, Predicate, Program, Term, Variable
from onlinesrl.mln.lang.clausal_form import Clause, Existential, Literal, clauses

MAX_BLOCK = 64


@dataclass(frozen=True)
class Scan:
    """A join with the tuples of a relation; ``opened`` joins with the listed open atoms instead.

    ``value`` is the variable that the step binds to the value of a numeric atom.
    """

    atom: Atom
    bound: frozenset[str]
    opened: bool = False
    value: str | None = None

    def __str__(self) -> str:
        times = "" if self.value is None else ", times its value"
        return f"{'open' if self.opened else 'join'} {_show(self.atom)}{times}"


@dataclass(frozen=True)
class Absent:
    """A filter that keeps the rows whose atom is absent from its relation."""

    atom: Atom

    def __str__(self) -> str:
        return f"absent {_show(self.atom)}"


@dataclass(frozen=True)
class Domain:
    """A loop of a variable over the world's constants of its type; ``run``: the loop becomes a run."""

    variable: str
    type: str
    run: bool = False

    def __str__(self) -> str:
        return f"{'run' if self.run else 'range'} {self.variable} over {self.type}"


@dataclass(frozen=True)
class Compare:
    """A filter on two equal (or unequal) terms; ``binds``: assign the right term to the left one."""

    equal: bool
    left: Leaf
    right: Leaf
    binds: bool = False

    def __str__(self) -> str:
        sign = ":=" if self.binds else "=" if self.equal else "!="
        return f"where {_name(self.left)} {sign} {_name(self.right)}"


@dataclass(frozen=True)
class Order:
    """A filter that compares two integers by ``<``, ``<=``, ``=`` or ``!=``."""

    op: str
    left: Leaf
    right: Leaf

    def __str__(self) -> str:
        return f"where {_name(self.left)} {self.op} {_name(self.right)}"


@dataclass(frozen=True)
class Compute:
    """A computation of an integer from two others; it binds a variable or filters by its value."""

    variable: Leaf
    op: str
    left: Leaf
    right: Leaf
    binds: bool = False

    def __str__(self) -> str:
        sign = ":=" if self.binds else "="
        return (
            f"where {_name(self.variable)} {sign} {_name(self.left)} {self.op} {_name(self.right)}"
        )


Check: TypeAlias = Absent | Compare | Order | Compute
Step: TypeAlias = Scan | Domain | Check


@dataclass(frozen=True)
class ExistentialPlan:
    """The plan that finds the bindings of an existential after the clause's variables are bound.

    ``full`` is for worlds with all atoms open, ``listed`` for worlds that list their open atoms.
    """

    full: tuple[Step, ...]
    listed: tuple[Step, ...]
    query: tuple[Literal, ...]

    def __str__(self) -> str:
        query = " ^ ".join(("" if x.positive else "!") + _show(x.atom) for x in self.query)
        return "; ".join([*map(str, self.full), f"or {query}"])


@dataclass(frozen=True)
class ClausePlan:
    """The plan that grounds one clause.

    ``full`` is for worlds with all atoms open, ``listed`` for worlds that list their open atoms.
    """

    clause: Clause
    full: tuple[Step, ...]
    listed: tuple[Step, ...]
    query: tuple[Literal, ...]
    types: Mapping[str, str] = field(hash=False)
    exists: tuple[ExistentialPlan, ...] = ()

    def __str__(self) -> str:
        query = " v ".join(("" if x.positive else "!") + _show(x.atom) for x in self.query)
        steps = [*map(str, self.full), f"write {query}"]
        steps += [f"for some {e}" for e in self.exists]
        if self.clause.template:
            steps.append(f"weight of ({', '.join(self.clause.template)})")
        return "\n".join([self.clause.text, *(f"  {step}" for step in steps)])


@dataclass(frozen=True)
class Group:
    """The constraint that at most (or exactly) one atom is true among atoms that differ in ``arguments``."""

    arguments: tuple[int, ...]
    exactly: bool

    def show(self, predicate: str) -> str:
        """Return the constraint in words."""
        places = " and ".join(str(k + 1) for k in self.arguments)
        return f"{'exactly' if self.exactly else 'at most'} one {predicate} along argument {places}"


def leaves(atom: Atom) -> tuple[Leaf, ...]:
    """Return the terms of an atom of a clause; compound terms are already replaced by names."""
    return cast("tuple[Leaf, ...]", atom.terms)


def _name(term: Leaf) -> str:
    return term.name if isinstance(term, Variable) else f'"{term.name}"'


def _show(atom: Atom) -> str:
    return f"{atom.predicate}({', '.join(map(_name, leaves(atom)))})"


def _variables(terms: Iterable[Term]) -> list[str]:
    return [t.name for t in terms if isinstance(t, Variable)]


@dataclass(frozen=True)
class Plan:
    """A model compiled for a set of query predicates."""

    program: Program
    query: tuple[str, ...]
    groups: Mapping[str, Group]
    clauses: tuple[ClausePlan, ...]
    local: frozenset[str]  # types whose constants are numbered separately in every world
    template: frozenset[str]  # types of + variables, numbered for the whole stream
    numeric: bool = False  # some step compares or computes integers

    def __str__(self) -> str:
        return "\n".join(map(str, self.clauses))


NUMBER = ""  # type of a computed variable, whose value need not be a constant of the world
VALUE = "#"  # type of a variable bound to the value of a numeric atom


def block(
    clause: Clause, types: Mapping[str, str], declared: Mapping[str, Sequence[str]]
) -> tuple[str, ...]:
    """Return the template variables over small declared types; their weights form one block."""
    variables, size = [], 1
    for v in clause.template:
        n = len(declared.get(types[v], ()))
        if n and size * n <= MAX_BLOCK:
            variables.append(v)
            size *= n
    return tuple(variables)


def at_most_one(clause: Clause, predicate: Predicate) -> int | None:
    """Return the argument k of x and y if a hard clause is ``!P(.., x, ..) v !P(.., y, ..) v x = y``."""
    if not clause.hard or len(clause.literals) != 2 or len(clause.equalities) != 1:
        return None
    if clause.comparisons or clause.computed or clause.exists:
        return None
    first, second = clause.literals
    equal, left, right = clause.equalities[0]
    names = {predicate.name}
    if first.positive or second.positive or not equal:
        return None
    if {first.atom.predicate, second.atom.predicate} != names:
        return None
    pairs = list(zip(first.atom.terms, second.atom.terms, strict=True))
    differing = [k for k, (a, b) in enumerate(pairs) if a != b]
    shared = [a for a, b in pairs if a == b]
    plain = all(isinstance(t, Variable) for pair in pairs for t in pair)
    if len(differing) != 1 or not plain or len(set(shared)) != len(shared):
        return None
    k = differing[0]
    fits = {_bare(pairs[k][0]), _bare(pairs[k][1])} == {_bare(left), _bare(right)}
    return k if fits and not {_bare(t) for t in pairs[k]} & {_bare(t) for t in shared} else None


def _bare(term: Term) -> Term:
    return Variable(term.name) if isinstance(term, Variable) else term


def holds_by_default(plan: ClausePlan, learned: bool) -> bool:
    """Tell whether a clause that pays where it is true holds wherever most query atoms are false.

    Such a clause may be ground lazily (cutting plane inference, Riedel 2008): only where two atoms are true.
    With ``learned`` weights it pays as long as its weights are not negative.
    """
    clause = plan.clause
    if not plan.types or plan.exists or sum(not x.positive for x in plan.query) < 2:
        return False
    if clause.hard or VALUE in plan.types.values():
        return clause.hard
    weight = clause.sign * (clause.weight or float(learned))
    return weight > 0 and (learned or not clause.template)


class _Compiler:
    def __init__(self, program: Program, query: tuple[str, ...]):
        self.program = program
        self.query = query

    def types_of(self, clause: Clause) -> dict[str, str]:
        """Return the type of each variable of a clause."""
        parts = _parts(clause)
        types = {v.name: NUMBER for part in parts for v, *_ in part.computed}
        types |= {name: kind for part in parts for name, kind in part.domains}
        for literal in (x for part in parts for x in part.literals):
            declared = self.program.predicates[literal.atom.predicate].types
            for term, kind in zip(literal.atom.terms, declared, strict=True):
                if isinstance(term, Variable):
                    types[term.name] = kind
        unknown = [name for name in clause.template if name not in types]
        if unknown:
            raise OnlinesrlError(
                f"rule `{clause.text}`: variable {unknown[0]} is in no literal of the clause, "
                "so its type is unknown; use it in a predicate"
            )
        return types | dict.fromkeys(self.values(clause).values(), VALUE)

    def values(self, clause: Clause) -> dict[Atom, str]:
        """Return, for each numeric atom of a clause, the variable of its value."""
        atoms = (x.atom for x in clause.literals)
        numeric = [x for x in atoms if self.program.predicates[x.predicate].numeric]
        return {atom: f"{VALUE}{n}" for n, atom in enumerate(numeric)}

    def compile(self, clause: Clause) -> ClausePlan:
        """Compile one clause for both kinds of world."""
        types = self.types_of(clause)
        query = tuple(x for x in clause.literals if x.atom.predicate in self.query)
        full = self.steps(clause, types, query, opened=False)
        listed = self.steps(clause, types, query, opened=True)
        if clause.exists:
            exists = tuple(self.existential(e, types) for e in clause.exists)
            return ClausePlan(clause, full, listed, query, types, exists)
        return ClausePlan(clause, self.with_run(clause, full, query), listed, query, types)

    def existential(self, part: Existential, types: Mapping[str, str]) -> ExistentialPlan:
        """Compile the search for an existential's bindings; only its own variables are free."""
        outer = {v for v in types if v not in part.variables}
        query = tuple(x for x in part.literals if x.atom.predicate in self.query)
        evidence = [x for x in part.literals if x.atom.predicate not in self.query]
        checks: list[Check] = [Absent(x.atom) for x in evidence if not x.positive]
        checks += number_checks(part, wanted=True)
        checks += [Compare(equal, a, b) for equal, a, b in part.equalities]
        inner = {v: types[v] for v in part.variables}
        variants = []
        for opened in (False, True):
            joins = [(x.atom, False) for x in evidence if x.positive]
            joins += [(x.atom, True) for x in query if opened and x.positive]
            variants.append(arrange(joins, list(checks), list(inner), inner, set(outer)))
        return ExistentialPlan(variants[0], variants[1], query)

    def steps(
        self,
        clause: Clause,
        types: Mapping[str, str],
        query: tuple[Literal, ...],
        opened: bool,
        bound: Collection[str] = (),
    ) -> tuple[Step, ...]:
        """Order the joins greedily by most bound arguments; place each check as early as possible.

        The variables ``bound`` have values before the first step.
        """
        evidence = [x for x in clause.literals if x.atom.predicate not in self.query]
        joins = [(x.atom, False) for x in evidence if not x.positive]
        if opened:
            # if its only query atom is not open, a hard clause is false, or an existential may be true
            only = len(query) == 1 and not clause.hard and not clause.exists
            joins += [(x.atom, True) for x in query if only or not x.positive]
        checks: list[Check] = [Absent(x.atom) for x in evidence if x.positive]
        checks += [Compare(not equal, a, b) for equal, a, b in clause.equalities]
        checks += number_checks(clause, wanted=False)
        inner = {v for e in clause.exists for v in e.variables}
        free = (v for v, kind in types.items() if v not in inner and kind != VALUE)
        candidate = self.run_candidate(clause, query, types)
        order = sorted(free, key=lambda v: v == candidate)  # the candidate for a run comes last
        steps = arrange(joins, checks, order, types, {*bound})
        values = self.values(clause)
        return tuple(
            replace(step, value=values.get(step.atom)) if isinstance(step, Scan) else step
            for step in steps
        )

    def run_candidate(
        self, clause: Clause, query: tuple[Literal, ...], types: Mapping[str, str]
    ) -> str | None:
        """Return the variable over which ground clauses differ by constant steps; None if there is none."""
        blocks, fixed = block(clause, types, self.program.types), _fixed(clause, query)
        if blocks and blocks[-1] not in fixed:
            return blocks[-1]
        free = [v for x in query for v in _variables(x.atom.terms) if v not in fixed]
        return next((v for v in reversed(free) if v not in clause.template), None)

    def with_run(
        self, clause: Clause, steps: tuple[Step, ...], query: tuple[Literal, ...]
    ) -> tuple[Step, ...]:
        """Turn the loop over the last variable into a run, and the loop before it if possible."""
        if not steps or not isinstance(steps[-1], Domain):
            return steps
        types = self.types_of(clause)
        if steps[-1].variable != self.run_candidate(clause, query, types):
            return steps
        stays = {v for v in clause.template if v not in block(clause, types, self.program.types)}
        stays |= _fixed(clause, query)
        before = steps[-2] if len(steps) > 1 else None
        first = -2 if isinstance(before, Domain) and before.variable not in stays else -1
        runs = (replace(step, run=True) for step in steps[first:] if isinstance(step, Domain))
        return (*steps[:first], *runs)


def _fixed(clause: Clause, query: tuple[Literal, ...]) -> set[str]:
    """Return the variables that occur outside query literals."""
    fixed = {v for x in clause.literals if x not in query for v in _variables(x.atom.terms)}
    fixed |= {v for _, a, b in clause.equalities for v in _variables((a, b))}
    fixed |= {v for _, _, a, b in clause.comparisons for v in _variables((a, b))}
    return fixed | {v for name, _, a, b in clause.computed for v in _variables((name, a, b))}


def _binding(atom: Atom, bound: set[str]) -> tuple[int, int]:
    """Return the rank of a join: number of bound arguments, then minus the number of free arguments."""
    n_bound = sum(isinstance(t, Constant) or t.name in bound for t in leaves(atom))
    return n_bound, n_bound - len(atom.terms)


def arrange(
    joins: list[tuple[Atom, bool]],
    checks: list[Check],
    order: Sequence[str],
    types: Mapping[str, str],
    bound: set[str],
) -> tuple[Step, ...]:
    """Order the steps; ``order`` lists all variables to bind.

    Variables that no join or check binds range over their domain.
    """
    steps: list[Step] = []
    while True:
        steps += _ready(checks, bound)
        if joins:
            atom, open_ = max(joins, key=lambda join: _binding(join[0], bound))
            joins.remove((atom, open_))
            steps.append(Scan(atom, frozenset(bound), open_))
            bound |= set(_variables(atom.terms))
            continue
        free = [v for v in order if v not in bound]
        computed = {v for c in checks if isinstance(c, Compute) for v in _variables((c.variable,))}
        free.sort(key=lambda v: v in computed)  # the other variables may determine a computed one
        if not free:
            return tuple(steps)
        steps.append(Domain(free[0], types[free[0]]))
        bound.add(free[0])


def number_checks(part: Clause | Existential, wanted: bool) -> list[Check]:
    """Return the checks on integers; comparisons must hold if ``wanted``, else fail.

    Computations must hold in any case.
    """
    checks: list[Check] = []
    for positive, op, left, right in part.comparisons:
        order = Order(op, left, right)
        if op in (">", ">="):
            order = Order(op.replace(">", "<"), right, left)
        if positive == wanted:
            checks.append(order)
        elif order.op == "=":
            checks.append(Order("!=", order.left, order.right))
        else:
            checks.append(Order("<=" if order.op == "<" else "<", order.right, order.left))
    checks += [Compute(*computed) for computed in part.computed]
    return checks


def _ready(checks: list[Check], bound: set[str]) -> list[Step]:
    """Remove and return the checks whose variables are bound.

    An equality with one bound side binds the other side.
    """
    ready: list[Step] = []
    before = -1
    while before < len(ready):
        before = len(ready)
        for check in list(checks):
            step = _check_step(check, bound)
            if step is not None:
                checks.remove(check)
                ready.append(step)
    return ready


def _check_step(check: Check, bound: set[str]) -> Step | None:
    if isinstance(check, Absent):
        return check if set(_variables(check.atom.terms)) <= bound else None
    if isinstance(check, Order | Compute):
        if not set(_variables((check.left, check.right))) <= bound:
            return None
        if isinstance(check, Order) or set(_variables((check.variable,))) <= bound:
            return check
        bound |= set(_variables((check.variable,)))
        return replace(check, binds=True)
    free = [v for v in _variables((check.left, check.right)) if v not in bound]
    if not free:
        return check
    if len(free) == 1 and check.equal and check.left != check.right:
        swap = isinstance(check.right, Variable) and check.right.name == free[0]
        left, right = (check.right, check.left) if swap else (check.left, check.right)
        bound.add(free[0])
        return Compare(True, left, right, binds=True)
    return None


def _local_types(program: Program, query: Sequence[str], plans: Iterable[ClausePlan]) -> set[str]:
    """Return the types to number in every world: queried, joined on, enumerated or compared types."""
    local = {t for name in query for t in program.predicates[name].types}
    template: set[str] = set()
    for plan in plans:
        seen: set[str] = set()
        template |= {plan.types[v] for v in plan.clause.template}
        inner = [step for e in plan.exists for step in (*e.full, *e.listed)]
        for step in (*plan.full, *plan.listed, *inner):
            if isinstance(step, Domain):
                local.add(step.type)
            elif isinstance(step, Order | Compute):
                terms = [step.left, step.right]
                terms += [step.variable] if isinstance(step, Compute) else []
                local |= {plan.types[v] for v in _variables(terms)} - {NUMBER}
        parts = _parts(plan.clause)
        literals = [x.atom.terms for part in parts for x in part.literals]
        for pair in [*literals, *((a, b) for part in parts for _, a, b in part.equalities)]:
            for v in _variables(pair):
                if v in seen:
                    local.add(plan.types[v])
                seen.add(v)
    used = {t for p in program.predicates.values() for t in p.types}
    return local | (used - template)


def _parts(clause: Clause) -> list[Clause | Existential]:
    return [clause, *clause.exists]


def compile_program(program: Program, query: Sequence[str]) -> Plan:
    """Compile a program for the given query predicates.

    Raises OnlinesrlError for a query predicate that is undeclared or numeric.
    """
    for name in query:
        if name not in program.predicates:
            names = ", ".join(sorted(program.predicates))
            raise OnlinesrlError(f"query predicate {name} is not declared; declared are: {names}")
        if program.predicates[name].numeric:
            raise OnlinesrlError(f"{name} is numeric: it is evidence, and cannot be queried")
    query = tuple(dict.fromkeys(query))
    all_clauses = clauses(program)
    groups = {
        name: Group(program.predicates[name].exactly_one, True)
        for name in query
        if program.predicates[name].exactly_one
    }
    covered = set()  # the clauses that groups make redundant
    for number, clause in enumerate(all_clauses):
        for name in query:
            k = at_most_one(clause, program.predicates[name])
            if k is not None and k in groups.setdefault(name, Group((k,), False)).arguments:
                covered.add(number)
    compiler = _Compiler(program, query)
    needed = [
        clause
        for number, clause in enumerate(all_clauses)
        if number not in covered
        and (
            clause.hard
            or any(x.atom.predicate in query for part in _parts(clause) for x in part.literals)
        )
    ]
    plans = tuple(compiler.compile(clause) for clause in needed)
    template = {plan.types[v] for plan in plans for v in plan.clause.template}
    return Plan(
        program,
        query,
        groups,
        plans,
        frozenset(_local_types(program, query, plans)),
        frozenset(template),
        any(part.comparisons or part.computed for p in plans for part in _parts(p.clause)),
    )


def pinned_steps(
    plan: Plan, clause: ClausePlan, bound: Collection[str], opened: bool
) -> tuple[Step, ...]:
    """Return the steps that ground a clause whose variables ``bound`` have values already.

    ``opened``: the world lists its open atoms.
    """
    compiler = _Compiler(plan.program, plan.query)
    return compiler.steps(clause.clause, clause.types, clause.query, opened, bound)
