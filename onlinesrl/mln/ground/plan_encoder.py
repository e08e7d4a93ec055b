"""Join plans as the arrays that ``mln.kernels.joins`` runs, and the relations they read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from onlinesrl.core.arrays import Bytes, Ints, Ints32
from onlinesrl.logic.ast import Constant, Leaf, Variable
from onlinesrl.logic.text import WHOLE
from onlinesrl.mln.ground.join_plan import (
    VALUE,
    Absent,
    ClausePlan,
    Compare,
    Compute,
    Domain,
    Order,
    Scan,
    Step,
    block,
    leaves,
)
from onlinesrl.mln.ground.model_index import Layout
from onlinesrl.mln.ground.open_atoms import Candidates, joins_found
from onlinesrl.mln.kernels import grounding_frames as k
from onlinesrl.mln.lang.clausal_form import Literal


@dataclass
class _Code:
    """Growing columns of the encoded plans."""

    op: list[int] = field(default_factory=list)
    slot: list[int] = field(default_factory=list)
    probe: list[int] = field(default_factory=list)
    probe_term: list[int] = field(default_factory=list)
    run: list[int] = field(default_factory=list)
    term_start: list[int] = field(default_factory=lambda: [0])
    term: list[int] = field(default_factory=list)
    binds: list[int] = field(default_factory=list)
    term_type: list[int] = field(default_factory=list)
    number: list[int] = field(default_factory=list)
    indexes: dict[tuple[int, int], int] = field(default_factory=dict)
    index_type: list[int] = field(default_factory=list)


class _Encoder:
    def __init__(self, layout: Layout):
        self.layout = layout
        self.code = _Code()

    def term(self, term: Leaf, kind: str, slots: dict[str, int]) -> int:
        if isinstance(term, Variable):
            return slots[term.name]
        return -1 - self.layout.constant_number[kind][term.name]

    def add(self, op: int, slot: int, terms: Sequence[tuple[int, bool]]) -> None:
        code = self.code
        code.op.append(op)
        code.slot.append(slot)
        code.probe.append(-1)
        code.probe_term.append(0)
        code.run.append(0)
        code.term.extend(t for t, _ in terms)
        code.binds.extend(b for _, b in terms)
        code.term_type.extend(-1 for _ in terms)
        code.term_start.append(len(code.term))

    def index(self, slot: int, argument: int, kind: str) -> int:
        key = (slot, argument)
        if key not in self.code.indexes:
            self.code.indexes[key] = len(self.code.indexes)
            self.code.index_type.append(self.layout.type_number[kind])
        return self.code.indexes[key]

    def relation(self, step: Scan | Absent, slots: dict[str, int]) -> None:
        """Encode a join or an anti-join, with an index on its first bound argument."""
        layout, atom = self.layout, step.atom
        opened = isinstance(step, Scan) and step.opened
        slot = (layout.listed if opened else layout.evidence)[atom.predicate]
        bound = set(step.bound) if isinstance(step, Scan) else set(slots)
        seen, terms, probe = set(bound), [], None
        for position, (term, kind) in enumerate(
            zip(leaves(atom), layout.arguments(atom.predicate), strict=True)
        ):
            binds = isinstance(term, Variable) and term.name not in seen
            known = not isinstance(term, Variable) or term.name in bound
            if binds:
                seen.add(term.name)
            if probe is None and known and kind in layout.plan.local:
                probe = (position, kind, self.term(term, kind, slots))
            terms.append((self.term(term, kind, slots), binds))
        if isinstance(step, Scan) and step.value is not None:
            terms.append((slots[step.value], True))
        self.add(k.SCAN if isinstance(step, Scan) else k.ABSENT, slot, terms)
        if probe is not None:
            self.code.probe[-1] = self.index(slot, probe[0], probe[1])
            self.code.probe_term[-1] = probe[2]

    def step(self, step: Step, types: Mapping[str, str], slots: dict[str, int]) -> None:
        if isinstance(step, Scan | Absent):
            self.relation(step, slots)
        elif isinstance(step, Domain):
            kind = self.layout.type_number[step.type]
            self.add(k.DOMAIN, kind, [(slots[step.variable], True)])
            self.code.run[-1] = step.run
        elif isinstance(step, Order):
            self.numbers(
                ORDERS[step.op], -1, [(step.left, False), (step.right, False)], types, slots
            )
        elif isinstance(step, Compute):
            terms = [(step.variable, step.binds), (step.left, False), (step.right, False)]
            self.numbers(k.COMPUTE, OPERATIONS[step.op], terms, types, slots)
        else:
            self.add(k.EQUAL if step.equal else k.UNEQUAL, -1, self.compared(step, types, slots))

    def numbers(
        self,
        op: int,
        operation: int,
        terms: Sequence[tuple[Leaf, bool]],
        types: Mapping[str, str],
        slots: dict[str, int],
    ) -> None:
        """Encode a step on whole numbers; constants stand for themselves."""
        first, codes = len(self.code.term), []
        for term, binds in terms:
            if isinstance(term, Variable):
                codes.append((slots[term.name], binds))
            else:
                self.code.number.append(whole_number(term))
                codes.append((-len(self.code.number), binds))
        self.add(op, operation, codes)
        for place, (term, _) in enumerate(terms, first):
            if isinstance(term, Variable):
                self.code.term_type[place] = self.layout.type_number.get(types[term.name], -1)

    def compared(
        self, step: Compare, types: Mapping[str, str], slots: dict[str, int]
    ) -> list[tuple[int, bool]]:
        kinds = [types[t.name] for t in (step.left, step.right) if isinstance(t, Variable)]
        left, right = (self.term(t, kinds[0], slots) for t in (step.left, step.right))
        return [(left, step.binds), (right, False)]


ORDERS = {"<": k.LESS, "<=": k.AT_MOST, "=": k.SAME, "!=": k.OTHER}
OPERATIONS = {"+": k.PLUS, "-": k.MINUS, "*": k.TIMES, "/": k.OVER, "%": k.MODULO}


def whole_number(term: Leaf) -> int:
    """Return the number that a constant is, or NO_NUMBER."""
    return number_of(term.name) if isinstance(term, Constant) else k.NO_NUMBER


def number_of(name: str) -> int:
    """Return the number that a constant's name is, or NO_NUMBER."""
    return int(name) if WHOLE.fullmatch(name) else k.NO_NUMBER


def _ints(values: Sequence[int]) -> Ints32:
    return np.asarray(values, np.int32)


def block_layout(layout: Layout, plan: ClausePlan) -> tuple[list[int], int]:
    """Return the stride of each template variable within a block (0: part of the key) and its size."""
    inside = block(plan.clause, plan.types, layout.constants)
    strides, size = [], 1
    for v in reversed(plan.clause.template):
        strides.append(size if v in inside else 0)
        size *= len(layout.constants[plan.types[v]]) if v in inside else 1
    return strides[::-1], size


def encoded(layout: Layout) -> tuple[k.Plans, int]:
    """Return the encoded plans and the number of weights that they reserve.

    A clause reserves a block for its own weight or those of its declared template constants, and with
    a template one more for what unseen constants have.
    """
    encoder = _Encoder(layout)
    step_start = [0]
    literal, templates = _Literals(), _Templates()
    for clause_plan in layout.plan.clauses:
        slots = {name: n for n, name in enumerate(clause_plan.types)}
        for steps in (clause_plan.full, clause_plan.listed):
            for step in steps:
                encoder.step(step, clause_plan.types, slots)
            step_start.append(len(encoder.code.op))
        literal.add(layout, encoder, clause_plan.query, slots)
        templates.add(layout, clause_plan, slots)
    literal_start = literal.start.copy()
    exists = _existentials(layout, encoder, literal)
    found_query, found_again, found_part, part_exists, part_start = _candidates(layout, encoder)
    return (
        k.Plans(
            *_queries(layout),
            _ints(_arities(layout)),
            _ints([slot for slot, _ in encoder.code.indexes]),
            _ints([argument for _, argument in encoder.code.indexes]),
            _ints(encoder.code.index_type),
            _ints(step_start),
            *_steps(encoder.code),
            np.asarray([p.clause.hard for p in layout.plan.clauses], np.uint8),
            _ints([p.clause.sign for p in layout.plan.clauses]),
            *literal.arrays(literal_start),
            *exists,
            found_query,
            found_again,
            found_part,
            part_exists,
            part_start,
            *templates.weights(),
            *templates.columns(),
            _ints([len(layout.constants[t]) for t in layout.types]),
            *_values(layout),
        ),
        templates.reserved,
    )


class _Templates:
    """The weights that clauses reserve, and the template variables that these hang on."""

    def __init__(self) -> None:
        self.first: list[int] = []
        self.unseen: list[int] = []
        self.reserved = 0
        self.variables: list[tuple[int, int, int]] = []
        self.start = [0]

    def add(self, layout: Layout, plan: ClausePlan, slots: Mapping[str, int]) -> None:
        strides, size = block_layout(layout, plan)
        for name, stride in zip(plan.clause.template, strides, strict=True):
            kind = layout.type_number[plan.types[name]]
            self.variables.append((slots[name], kind, stride))
        self.start.append(len(self.variables))
        unseen = size if plan.clause.template and 0 not in strides else 0
        self.first.append(self.reserved)
        self.unseen.append(self.reserved + unseen)
        self.reserved += 0 if plan.clause.hard else size + unseen

    def weights(self) -> tuple[Ints, Ints]:
        return np.asarray(self.first, np.int64), np.asarray(self.unseen, np.int64)

    def columns(self) -> tuple[Ints32, Ints32, Ints32, Ints32]:
        variables, kinds, strides = (
            zip(*self.variables, strict=True) if self.variables else ((),) * 3
        )
        return _ints(self.start), _ints(variables), _ints(kinds), _ints(strides)


class _Literals:
    """Growing columns of the query literals."""

    def __init__(self) -> None:
        self.start, self.query, self.positive = [0], [], []  # type: list[int], list[int], list[int]
        self.term_start, self.term = [0], []  # type: list[int], list[int]

    def add(
        self,
        layout: Layout,
        encoder: _Encoder,
        literals: Sequence[Literal],
        slots: dict[str, int],
    ) -> None:
        for literal in literals:
            name = literal.atom.predicate
            kinds, terms = layout.arguments(name), leaves(literal.atom)
            self.query.append(layout.plan.query.index(name))
            self.positive.append(int(literal.positive))
            self.term += [encoder.term(terms[j], kinds[j], slots) for j in layout.radix_order(name)]
            self.term_start.append(len(self.term))
        self.start.append(len(self.query))

    def arrays(self, start: Sequence[int]) -> tuple[Ints32, Ints32, Bytes, Ints32, Ints32]:
        return (
            _ints(start),
            _ints(self.query),
            np.asarray(self.positive, np.uint8),
            _ints(self.term_start),
            _ints(self.term),
        )


def _existentials(
    layout: Layout, encoder: _Encoder, literal: _Literals
) -> tuple[Ints32, Ints32, Ints32]:
    """Encode the existentials behind everything else; returns where their parts start."""
    start, step_start = [0], [len(encoder.code.op)]
    first = len(literal.start) - 1
    for plan in layout.plan.clauses:
        slots = {name: n for n, name in enumerate(plan.types)}
        for part in plan.exists:
            for steps in (part.full, part.listed):
                for step in steps:
                    encoder.step(step, plan.types, slots)
                step_start.append(len(encoder.code.op))
            literal.add(layout, encoder, part.query, slots)
        start.append((len(step_start) - 1) // 2)
    return _ints(start), _ints(step_start), _ints(literal.start[first:])


def _candidates(layout: Layout, encoder: _Encoder) -> tuple[Ints32, Bytes, Ints32, Bytes, Ints32]:
    """Encode what finds the open atoms, behind everything else: a part for each sequence of steps."""
    query: list[int] = []
    again: list[bool] = []
    exists: list[bool] = []
    start = [0]
    step_start = [len(encoder.code.op)]
    for found in layout.candidates:
        query.append(layout.plan.query.index(found.predicate))
        again.append(joins_found(found))
        for steps, types, inner in _parts(found):
            slots = {name: n for n, name in enumerate(types)}
            for step in steps:
                encoder.step(step, types, slots)
            step_start.append(len(encoder.code.op))
            exists.append(inner)
        start.append(len(exists))
    again_, exists_ = np.asarray(again, np.uint8), np.asarray(exists, np.uint8)
    return _ints(query), again_, _ints(start), exists_, _ints(step_start)


def _parts(found: Candidates) -> Iterator[tuple[tuple[Step, ...], Mapping[str, str], bool]]:
    """Yield sequences of steps, the types of their variables, and whether they are an existential's."""
    yield found.steps, found.types, False
    for exclusion in found.exclusions:
        yield exclusion.steps, exclusion.types, False
        for steps in exclusion.exists:
            yield steps, exclusion.types, True


def _steps(
    code: _Code,
) -> tuple[Ints32, Ints32, Ints32, Ints32, Bytes, Ints32, Ints32, Bytes, Ints32, Ints]:
    return (
        _ints(code.op),
        _ints(code.slot),
        _ints(code.probe),
        _ints(code.probe_term),
        np.asarray(code.run, np.uint8),
        _ints(code.term_start),
        _ints(code.term),
        np.asarray(code.binds, np.uint8),
        _ints(code.term_type),
        np.asarray(code.number, np.int64),
    )


def _values(layout: Layout) -> tuple[Ints32, Ints32]:
    """Return, by clause, the variables that are bound to the values of numeric atoms."""
    found = [
        [n for n, kind in enumerate(plan.types.values()) if kind == VALUE]
        for plan in layout.plan.clauses
    ]
    return _ints(np.cumsum([0, *map(len, found)]).tolist()), _ints([*chain.from_iterable(found)])


def _arities(layout: Layout) -> list[int]:
    return [len(layout.columns(name)) for name in layout.slot_predicates()]


def _queries(
    layout: Layout,
) -> tuple[Ints32, Ints32, Ints32, Ints32, Ints32, Ints32, Ints32, Ints32, Ints32, Ints32]:
    start, kinds, arguments, groups, grouped = [0], [], [], [], []
    for name in layout.plan.query:
        order = layout.radix_order(name)
        kinds += [layout.type_number[layout.arguments(name)[j]] for j in order]
        arguments += order
        start.append(len(kinds))
        group = layout.plan.groups.get(name)
        exactly = group is not None and group.exactly
        grouped.append(0 if group is None else len(group.arguments))
        groups.append(k.NO_GROUP if group is None else k.EXACTLY_ONE if exactly else k.AT_MOST_ONE)
    query = layout.plan.query
    return (
        _ints(start),
        _ints(kinds),
        _ints(arguments),
        _ints(groups),
        _ints(grouped),
        _ints([layout.evidence[name] for name in query]),
        _ints([layout.listed[name] for name in query]),
        _ints([layout.false[name] for name in query]),
        _ints([layout.truth[name] for name in query]),
        _ints([layout.denied[name] for name in query]),
    )
