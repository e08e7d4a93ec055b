"""The frames of grounding: the compiled rules, packed worlds, working memory.

All constants are integers. Types that are joined on, enumerated or queried are numbered anew in every
world: first the shared constants, those of facts among them, then the others in order of first appearance.
These numbers are dense. So counting indexes relations, and mixed radix numbers atoms.
"""

from typing import Annotated, Any

from onlinesrl.core.arrays import Bytes, Floats, Ints, Ints32
from onlinesrl.core.jit.frames import Frame

# The statuses of a world.
OK = 0
GROW_ATOMS, GROW_ROWS, GROW_INDEX = 1, 2, 3
GROW_DATA = 7
TOO_MANY_ATOMS, TOO_MANY_GROUNDINGS, EVIDENCE_BREAKS_RULE = 11, 12, 13
TRUTH_NOT_OPEN, TRUTH_BREAKS_GROUP, TRUTH_BREAKS_RULE, INFEASIBLE = 14, 15, 16, 17
WEIGHTS_BEYOND = 18
SATISFIED = 19

SCAN, ABSENT, DOMAIN, EQUAL, UNEQUAL = 0, 1, 2, 3, 4
LESS, COMPUTE = 5, 9  # on whole numbers; LESS begins the comparisons of ``whole_numbers``
SPARSE = 64  # the cells of an index on few tuples, where a type has many more constants
NO_GROUP, AT_MOST_ONE, EXACTLY_ONE = 0, 1, 2
ALL, LISTED, FOUND = 0, 1, 2
"""The open atoms of a world: all; those that it lists; those that hard rules do not make false."""
WHOLLY = -1
"""In place of the number of a predicate's unlabelled atoms: all those that the truth does not list."""
LITERALS_EACH = 8
"""So many literals, or bindings of existentials, count as one more ground clause."""
EVERY = 1 << 62
"""More ground clauses than any world has."""


class Plans(Frame):
    """The compiled rules. A term is coded as its variable's slot, or -1 - constant."""

    # query predicates; arguments in radix order: the grouped ones last
    query_start: Ints32  # [query + 1] into query_type
    query_type: Ints32
    query_argument: Ints32  # position of the argument in the predicate
    query_group: Ints32  # [query] NO_GROUP, AT_MOST_ONE, EXACTLY_ONE
    query_grouped: Ints32  # [query] number of grouped arguments
    query_evidence: Ints32  # [query] slot of its evidence relation
    query_listed: Ints32  # [query] slot of its listed atoms, the observed among them
    query_false: Ints32  # [query] slot of its atoms false by evidence
    query_truth: Ints32  # [query] slot of its true atoms
    query_denied: Ints32  # [query] slot of the atoms that its truth lists as false
    query_unlabelled: Ints32  # [query predicate] slot of the open atoms whose truth is not known
    # relations
    arity: Ints32  # [slot]
    index_slot: Ints32  # [index]
    index_argument: Ints32  # [index]
    index_type: Ints32  # [index]
    # join steps; clause c has variant 2c for full worlds, 2c + 1 for listed ones
    step_start: Ints32  # [variant + 1]
    op: Ints32  # [step]
    slot: Ints32  # [step] relation of SCAN and ABSENT, type of DOMAIN, operation of COMPUTE
    probe: Ints32  # [step] index to look in, -1: read the whole relation
    probe_term: Ints32  # [step]
    run: Bytes  # [step] 1: this DOMAIN may be left to a run, or to copies of a run
    term_start: Ints32  # [step + 1]
    term: Ints32
    binds: Bytes  # [term]
    term_type: Ints32  # [term] of steps on whole numbers, whose constants are -1 - place in number
    number: Ints
    # clauses
    hard: Bytes  # [clause]
    eager: Ints  # [clause] a clause of more groundings is left out, until a state violates some
    sign: Ints32  # [clause]
    literal_start: Ints32  # [clause + 1]
    literal_query: Ints32  # [literal]
    literal_positive: Bytes
    literal_term_start: Ints32  # [literal + 1]
    literal_term: Ints32
    # existential disjuncts, each a plan with a conjunction of query literals
    exist_start: Ints32  # [clause + 1]
    exist_step_start: Ints32  # [2 * existential + variant, and one more]
    exist_literal_start: Ints32  # [existential + 1] into the literals
    # what finds the open atoms; of its parts the first binds an atom's arguments (the first variables),
    # the others are exclusions that start from these, each followed by its existentials
    found_query: Ints32  # [candidates] query predicate
    found_again: Bytes  # [candidates] 1: joins with what candidates before it found
    found_part: Ints32  # [candidates + 1]
    part_exists: Bytes  # [part] 1: an existential of the exclusion before it
    part_step_start: Ints32  # [part + 1]
    # templates
    first_weight: Ints  # [clause] its weight; those of declared constants
    unseen_weight: Ints  # [clause] weights of template constants that are not in the table
    template_start: Ints32  # [clause + 1]
    template_variable: Ints32
    template_type: Ints32
    template_stride: Ints32  # > 0: offset stride within a block of weights; 0: part of the key
    declared: Ints32  # [type] number of declared constants
    # numeric atoms
    value_start: Ints32  # [clause + 1]
    value_variable: Ints32  # bound to the numbers of values

    @classmethod
    def _without(cls, values: dict[str, Any]) -> tuple[str, ...]:
        plain = len(values["exist_literal_start"]) == 1 and not (values["op"] >= LESS).any()
        valued = len(values["value_variable"]) > 0
        return (*(("existentials", "numbers") if plain else ()), *(() if valued else ("values",)))


class Facts(Frame):
    """The facts of all worlds, relations of shared numbers row after row, indexed once."""

    data: Ints32
    start: Ints  # [slot] into data
    count: Ints  # [slot]
    order_start: Ints  # [slot] into order
    order: Ints32  # the rows of a slot, sorted
    index_start: Ints  # [index] into cell, for the constants of the index's type and one more
    cell: Ints32  # into row
    row: Ints32  # the rows of each index's slot by constant

    @classmethod
    def _without(cls, values: dict[str, Any]) -> tuple[str, ...]:
        return () if len(values["data"]) or values["count"].any() else ("facts",)


class Batch(Frame):
    """Packed worlds: relations of integers, row after row."""

    start: Ints  # [world, slot] into data
    count: Ints  # [world, slot]; or WHOLLY
    data: Ints32
    domain: Ints32  # [world, type] number of constants
    member_start: Ints  # [world, type] into member, -1: the type is not numbered by world
    member: Ints32  # packed number of a world's constants beyond the shared ones, by world number
    stream: Ints32  # the same constants' stream-wide number, negative: unknown
    number: Ints  # the whole numbers that they are, or NO_NUMBER (only where plans compute)
    shared: Ints32  # [type] number of constants that all worlds have: declared, shown, of facts
    shared_start: Ints  # [type] into the next two
    shared_stream: Ints32  # the stream-wide number of shared constants, negative: unknown
    shared_number: Ints  # the whole numbers that they are, or NO_NUMBER (only where plans compute)
    listed: Bytes  # [world] ALL, LISTED or FOUND
    labelled: Bytes  # [world] 1: the truth is known
    facts: Facts
    value: Floats  # by number, the values of numeric atoms


class Scratch(Frame):
    """Working memory of grounding, reused from world to world."""

    index_start: Annotated[Ints32, "cell"]
    index_row: Annotated[Ints32, "cell"]
    index_start_at: Annotated[Ints, "index + 1"]
    index_row_at: Annotated[Ints, "index + 1"]
    index_mask: Annotated[Ints, "index + 1"]  # the bits of a constant that give its cell
    table: Annotated[Ints32, "cell"]  # hash table of duplicate removal
    variable: Annotated[Ints, "variable + 1"]
    cursor: Annotated[Ints, "depth"]
    stop: Annotated[Ints, "depth"]
    # where the world's own tuples begin; -1: the facts have been read
    own_cursor: Annotated[Ints, "depth"]
    own_stop: Annotated[Ints, "depth"]


def scratch(indexes: int, cells: int, depth: int, variables: int) -> Scratch:
    """Return working memory for so many indexes, their cells, join steps and rule variables."""
    return Scratch.zeros(index=indexes, cell=cells, depth=depth, variable=variables)
