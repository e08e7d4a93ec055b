"""The grounders of Markov logic: they turn one example at a time into a ground network.

``Grounder`` is independent of the weights. ``ModelGrounder`` uses those of the program, without a learner.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from onlinesrl.core.arrays import Floats, Ints, enlarged
from onlinesrl.core.background import Background
from onlinesrl.core.errors import ExampleError
from onlinesrl.core.example import Constant, Example, show_ground_atom
from onlinesrl.core.jit.decorators import ready
from onlinesrl.logic.ast import Program
from onlinesrl.logic.text import quote
from onlinesrl.mln.ground.atom_names import AtomNames, Named, WorldAtoms
from onlinesrl.mln.ground.batch_packer import KEYS, NONE, LimitKeys, Packer, Wholly
from onlinesrl.mln.ground.constant_index import Domain
from onlinesrl.mln.ground.join_planner import compile_program
from onlinesrl.mln.ground.model_index import Layout
from onlinesrl.mln.ground.model_weights import ModelWeights
from onlinesrl.mln.kernels import ground_network, grounding_frames, open_atoms, weight_magnitude
from onlinesrl.mln.kernels.ground import ground_labelled


@dataclass(frozen=True)
class Limits:
    """The limits on the open atoms and ground clauses of a world, and the names of their options."""

    atoms: int = 1_000_000
    groundings: int = 1_000_000
    keys: LimitKeys = KEYS


LIMITS = Limits()
ROOM = {
    grounding_frames.GROW_ATOMS: "atoms",
    grounding_frames.GROW_ROWS: "rows",
    grounding_frames.GROW_INDEX: "index",
}
"""The memory that a kernel ran out of, by status."""
KINDS = {
    grounding_frames.TRUTH_NOT_OPEN: "not_open",
    grounding_frames.TRUTH_BREAKS_GROUP: "hard_rule",
    grounding_frames.TRUTH_BREAKS_RULE: "hard_rule",
    grounding_frames.EVIDENCE_BREAKS_RULE: "hard_rule",
    grounding_frames.TOO_MANY_ATOMS: "limit",
    grounding_frames.TOO_MANY_GROUNDINGS: "limit",
    grounding_frames.WEIGHTS_BEYOND: "overflow",
}
"""The kind of ExampleError of each status."""
ROWS = 1 << 28
"""The largest number of rows of a network, because its literals have 32-bit numbers."""


class Grounder:
    """The grounder of the worlds of a batch; ``net`` and ``truth`` belong to the last ground world.

    Their memory is reused, and grows if a kernel runs out of it. ``stream`` has, by type, the constants that
    identify weights.
    """

    def __init__(
        self,
        layout: Layout,
        stream: Mapping[str, Domain],
        limits: Limits = LIMITS,
        background: Background | None = None,
    ):
        self.layout = layout
        self.limits = limits
        self.packer = Packer(layout, stream, limits.atoms, limits.keys, background)
        self.names = [AtomNames(layout, name) for name in layout.plan.query]
        self.room: dict[str, int] = {}
        self.allocate()

    # memory --------------------------------------------------------------------------------------

    def allocate(self, atoms: int = 1 << 10, rows: int = 1 << 13, index: int = 1 << 12) -> None:
        """Allocate, or reallocate, memory for a world's ``atoms``, ``rows`` and ``index`` cells."""
        layout, code = self.layout, self.layout.plans
        steps = (np.diff(code.step_start), np.diff(code.exist_step_start))
        depth = 2 + sum(int(count.max(initial=0)) for count in steps)  # nested joins
        depth = max(depth, 2 + 3 * int(np.diff(code.part_step_start).max(initial=0)))
        types = [plan.types for plan in layout.plan.clauses]
        for candidates in layout.candidates:
            types += [candidates.types, *(exclusion.types for exclusion in candidates.exclusions)]
        variables = max(map(len, types), default=0)
        keys = max((len(p.clause.template) for p in layout.plan.clauses), default=0)
        queries, arguments = len(layout.plan.query), len(code.query_type)
        sizes = (atoms, rows, 4 * rows, queries, arguments, keys, len(code.hard))
        self.net = ground_network.network(*sizes)
        self.truth = np.zeros(atoms, np.uint8)
        self.scratch = grounding_frames.scratch(len(code.index_slot), index, depth, variables)
        self.room = {"atoms": atoms, "rows": rows, "index": index}

    def grow(self, status: int) -> None:
        """Double the memory that a kernel ran out of. Raises ExampleError beyond ``ROWS`` rows."""
        room = {**self.room, ROOM[status]: 2 * self.room[ROOM[status]]}
        if room["rows"] > ROWS:
            reason = f"more than {ROWS:,} rows of ground clauses, or four times as many literals"
            raise ExampleError(
                f"{reason}; a smaller {self.limits.keys.groundings} stops grounding sooner", "limit"
            )
        self.allocate(**room)

    def compile(self, batch: grounding_frames.Batch) -> None:
        """Compile the kernel that grounds a world of a batch, or load it from the cache."""
        code, net, s, limits = self.layout.plans, self.net, self.scratch, self.limits
        ready(ground_labelled, code, batch, 0, net, s, self.truth, limits.atoms, 0)

    # worlds --------------------------------------------------------------------------------------

    def batch(self, learning: bool) -> grounding_frames.Batch:
        """Return the packed worlds, each with the open atoms that its hard rules allow."""
        batch = self.packer.batch(learning)
        if not self.layout.candidates:
            return batch
        narrowed = np.zeros(len(batch.listed), np.uint8)
        status, w, offset = grounding_frames.GROW_DATA, 0, len(batch.data)
        while w < len(narrowed):
            if status == grounding_frames.GROW_DATA:
                batch = replace(batch, data=enlarged(batch.data, 2 * len(batch.data) + 1024))
            elif status != grounding_frames.OK:
                self.grow(status)
            status, w, offset = open_atoms.find_open(
                self.layout.plans, batch, w, offset, self.scratch, self.limits.atoms, narrowed
            )
        return replace(
            batch, listed=np.where(narrowed, np.uint8(grounding_frames.FOUND), batch.listed)
        )

    def ground(
        self, batch: grounding_frames.Batch, w: int, plans: grounding_frames.Plans | None = None
    ) -> tuple[int, int]:
        """Ground a world of a batch, by default by the layout's plans.

        Returns a status and its detail, see ``reason``.
        """
        while True:
            status, detail = ground_labelled(
                self.layout.plans if plans is None else plans,
                batch,
                w,
                self.net,
                self.scratch,
                self.truth,
                self.limits.atoms,
                self.limits.groundings,
            )
            if status not in ROOM:
                return status, detail
            self.grow(status)

    def atoms(
        self, batch: grounding_frames.Batch, w: int
    ) -> Iterator[tuple[str, int, list[list[Constant]]]]:
        """Yield the query predicates of the last ground world: name, first atom, arguments of all atoms."""
        for part in self.named(batch, w):
            yield part.names.name, part.first, part.rows()

    def named(self, batch: grounding_frames.Batch, w: int) -> Iterator[Named]:
        """Yield the atoms of each query predicate of the last ground world."""
        for q, names in enumerate(self.names):
            first, last = self.net.query_base[q : q + 2].tolist()
            listed = batch.listed[w]
            keys = self.net.key[first:last].copy() if listed else np.arange(last - first)
            domains = [self.packer.names(batch, w, kind) for kind in names.kinds]
            yield Named(names, first, keys, domains)

    # one example ---------------------------------------------------------------------------------

    def ground_one(
        self,
        example: Example,
        wholly: Wholly = NONE,
        learning: bool = False,
        narrowed: bool = True,
        plans: grounding_frames.Plans | None = None,
    ) -> grounding_frames.Batch:
        """Ground one example, by default by the layout's plans, and return its batch.

        ``narrowed``: atoms that hard rules make false are not open, as in the step of a learner. ``learning``
        adds the example's constants to the stream. For ``wholly`` see ``Packer.add``. Raises ExampleError.
        """
        self.packer.clear()
        self.packer.add(example, 0, wholly)
        batch = self.batch(learning) if narrowed else self.packer.batch(learning)
        status, detail = self.ground(batch, 0, plans)
        if status != grounding_frames.OK:
            raise ExampleError(self.reason(batch, 0, status, detail), KINDS[status])
        return batch

    def rule_sizes(self, example: Example) -> Ints:
        """Return the number of ground clauses of each rule in an example, int64[rules].

        If grounding stops at a limit, the numbers are partial. Raises ExampleError for a bad example.
        """
        self.packer.clear()
        self.packer.add(example, 0)
        self.ground(self.batch(learning=False), 0)
        plan, rows = self.layout.plan, int(self.net.size[ground_network.ROWS])
        rule = np.array([clause.clause.rule for clause in plan.clauses], np.int64)
        rules = rule[self.net.row_clause[:rows]]
        sizes = np.bincount(rules, self.net.row_len[:rows], minlength=len(plan.program.rules))
        return sizes.astype(np.int64)

    # messages ----------------------------------------------------------------------------------------

    def reason(
        self,
        batch: grounding_frames.Batch,
        w: int,
        status: int,
        detail: int,
        weight: float | None = None,
    ) -> str:
        """Return the message of a bad example; ``detail`` is the kernel's detail of the status.

        ``weight`` is the weight that is refused, where it is known.
        """
        if status == grounding_frames.TRUTH_NOT_OPEN:
            return self._not_open(batch, w, detail)
        if status == grounding_frames.TRUTH_BREAKS_GROUP:
            groups = sorted(g.show(q) for q, g in self.layout.plan.groups.items())
            return f"the truth breaks {' or '.join(groups)}"
        if status == grounding_frames.TOO_MANY_ATOMS:
            return f"more query atoms than {self.limits.keys.atoms} ({self.limits.atoms})"
        clause = self.layout.plan.clauses[detail].clause
        line = self.layout.plan.program.rules[clause.rule].position.line
        if status == grounding_frames.TOO_MANY_GROUNDINGS:
            keys = self.limits.keys
            long = (
                f", where {grounding_frames.LITERALS_EACH} more literals count as one more clause"
            )
            return (
                f"more ground clauses than {keys.groundings} ({self.limits.groundings}), reached in the rule "
                f"{clause.text} (line {line}){long if clause.exists else ''}; {keys.advice} a condition that "
                f"evidence decides to the rule, or a hard rule that decides atoms; or raise {keys.groundings}"
            )
        if status == grounding_frames.WEIGHTS_BEYOND:
            size = "a weight" if weight is None else f"the weight {weight:g}"
            return (
                f"{size} of the rule {clause.text} (line {line}) is too large: sums of doubles would hide "
                f"differences of {weight_magnitude.TOLERANCE:g}, expected at most "
                f"{weight_magnitude.SAFE:,.0f}; make this rule hard: end it with a full stop"
            )
        part = "truth" if status == grounding_frames.TRUTH_BREAKS_RULE else "evidence"
        return f"the {part} breaks the hard rule {clause.text}"

    def _not_open(self, batch: grounding_frames.Batch, w: int, detail: int) -> str:
        slot, row = detail >> 32, detail & 0xFFFFFFFF
        name = self.layout.slot_predicates()[slot]
        kinds, packer = self.layout.arguments(name), self.packer
        first = batch.start.item(w, slot) + row * len(kinds)
        constants: list[Constant] = []
        unknown: list[tuple[Constant, str]] = []  # those that the world lacks, with their types
        numbers = batch.data[first : first + len(kinds)].tolist()
        for number, kind in zip(numbers, kinds, strict=True):
            if number < 0:
                constants.append(packer.constants.names[-2 - number])
                unknown.append((constants[-1], kind))
            else:
                constants.append(packer.names(batch, w, self.layout.type_number[kind])[number])
        atom = show_ground_atom(name, constants)
        unlabelled = slot in self.layout.unlabelled.values()
        part = "unlabelled" if unlabelled else "truth"
        reason = f"{part} atom {atom} is not an open atom of the example: "
        listed = batch.listed[w] == grounding_frames.LISTED
        if not unknown or listed:
            return (
                reason
                + ("it is not in the example's `query`, or " if listed else "")
                + ("evidence fixes it" if unlabelled else "evidence makes it false")
            )
        constant, kind = unknown[0]
        return reason + (
            f"only the {part} names the {kind} {constant}; declare it in the model, `{kind} = "
            f"{{{quote(str(constant))}, ...}}` (`...`: and constants of the stream), name it in the "
            "evidence, or list the atoms to predict in `query`"
        )


@dataclass(eq=False)
class GroundExample:
    """An example's ground network, whose rows refer to their weights.

    It is valid until its grounder grounds the next example.
    """

    grounder: ModelGrounder
    batch: grounding_frames.Batch

    @property
    def net(self) -> ground_network.Network:
        """The ground network."""
        return self.grounder.net

    def atoms(self) -> WorldAtoms:
        """Return the open atoms."""
        return WorldAtoms([*self.grounder.named(self.batch, 0)])

    def weights(self, net: ground_network.Network) -> Floats:
        """Return the weights of the ground clauses of the network, or of a view of it, float64[clause].

        The next call overwrites the result. Raises ExampleError if a weight is beyond what can be certified.
        """
        weight = self.grounder.weights.weigh(net)
        if weight_magnitude.beyond(net, weight, weight_magnitude.total(net, weight)):
            clause, size = weight_magnitude.largest(net, weight)
            status = grounding_frames.WEIGHTS_BEYOND
            reason = self.grounder.reason(self.batch, 0, status, clause, size)
            raise ExampleError(reason, "overflow")
        return weight


class ModelGrounder(Grounder):
    """A grounder of a program with its weights, for the atoms of ``query`` predicates.

    ``weights`` has the program's weights and the weights of new template constants of examples. For ``eager``
    see ``Layout``.
    """

    def __init__(
        self,
        program: Program,
        query: Sequence[str],
        limits: Limits = LIMITS,
        eager: int = grounding_frames.EVERY,
    ):
        layout = Layout(compile_program(program, query), eager)
        self.weights = ModelWeights(layout)
        super().__init__(layout, self.weights.stream, limits)

    def ground_example(
        self, example: Example, wholly: Wholly = NONE, learning: bool = False
    ) -> GroundExample:
        """Ground an example, for learning or for a query, which asks for every atom of its predicates.

        See ``Grounder.ground_one``; only learning narrows the open atoms. Raises ExampleError.
        """
        batch = self.ground_one(example, wholly, learning, narrowed=learning)
        self.weights.number(self.net, learning)
        return GroundExample(self, batch)
