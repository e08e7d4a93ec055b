"""The online learner: examples in, outcomes out, strictly one at a time.

An example is predicted with the averaged weights before its truth is looked at; then the update is
made. Micro-batches only share the overhead of a call: every size gives the same bits.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from onlinesrl.errors import ExampleError, OnlinesrlError, printable
from onlinesrl.ground.convert import clause_model
from onlinesrl.ground.encode import Layout
from onlinesrl.ground.model import ClauseModel, Floats, Indices
from onlinesrl.ground.pack import AtomNames, Packer, World, show_atom
from onlinesrl.ground.plan import Plan
from onlinesrl.infer.engine import Infeasible, MapEngine, RankingEngine, Solution, Unsolved
from onlinesrl.kernels import elimination, ground, network, updates
from onlinesrl.kernels import learn as k
from onlinesrl.lang.example import Constant, Example
from onlinesrl.learn.learner import UPDATES, Hyper, Outcome, Prediction, Tally
from onlinesrl.learn.weights import WeightTable

ROUTES = {k.ELIMINATION: "elimination", k.ILP: "ilp"}
AUDIT_TOLERANCE = 1e-6
UNSOLVED = 32
"""The status of a world that was left because a search ended at its limit; see kernels.learn."""
KINDS = {
    k.TRUTH_NOT_OPEN: "not_open",
    k.TRUTH_BREAKS_GROUP: "hard_rule",
    k.TRUTH_BREAKS_RULE: "hard_rule",
    k.INFEASIBLE: "infeasible",
    ground.EVIDENCE_BREAKS_RULE: "hard_rule",
    ground.TOO_MANY_ATOMS: "limit",
    ground.TOO_MANY_GROUNDINGS: "limit",
    k.OVERFLOW: "overflow",
    UNSOLVED: "unsolved",
}
"""What kind of ExampleError the kernel's statuses are."""


class AuditError(OnlinesrlError):
    """Two exact engines disagree on the value of an example: a defect, never to be passed over."""


@dataclass(frozen=True)
class Inference:
    """How MPE problems are solved and how large they may be.

    ``whole`` is the engine for problems given to it whole (``presolve: none``, audits), ``exact`` the
    one for worlds that the kernel's elimination finds too wide. Where a search of these ends at its
    limit without proof, the example is bad; or, with ``fallback``, it is predicted with the best state
    found, by this engine where there was none, and learned from only if its rival is proven.
    """

    whole: RankingEngine
    exact: MapEngine
    fallback: MapEngine | None = None
    presolve: bool = True
    audit_every: int = 0
    max_groundings: int = 1_000_000
    max_atoms: int = 1_000_000


@dataclass(frozen=True)
class Ground:
    """The ground network of one example: its model and weights, and what its atoms are.

    ``atoms`` are (query predicate, arguments), [atom]; ``fixed`` holds those that evidence decides, which
    the model has as hard unit clauses.
    """

    model: ClauseModel
    weights: Floats
    atoms: list[tuple[str, list[Constant]]]
    fixed: dict[int, bool]


class OnlineLearner:
    """Owns the weights; ``step`` takes a micro-batch."""

    def __init__(
        self,
        plan: Plan,
        hyper: Hyper,
        inference: Inference,
        by: tuple[str, int] | None = None,
        margins: bool = False,
    ):
        self.layout = Layout(plan)
        self.weights = WeightTable(self.layout)
        self.hyper = hyper
        self.inference = inference
        self.margins = margins
        self.by = by
        self.settings = self._settings()
        self.packer = Packer(self.layout, self.weights.stream, inference.max_atoms)
        self.names = [AtomNames(self.layout, name) for name in plan.query]
        self.seen = 0
        self._allocate(atoms=1 << 10, rows=1 << 13)

    def _settings(self) -> k.Settings:
        hyper, inference = self.hyper, self.inference
        query, argument = -1, 0
        if self.by is not None:
            query = self.layout.plan.query.index(self.by[0])
            argument = self.layout.radix_order(self.by[0]).index(self.by[1])
        return k.Settings(
            UPDATES[hyper.update],
            hyper.loss == "ml",
            float(hyper.sigma),
            float(hyper.eta),
            inference.max_atoms,
            inference.max_groundings,
            2**62 if hyper.max_weights is None else hyper.max_weights,
            query,
            argument,
            self.margins,
        )

    @property
    def model_text(self) -> str:
        """The model's text, with what it includes."""
        return self.layout.plan.program.text

    def describe(self) -> str:
        """Say how large the model is."""
        plan = self.layout.plan
        return (
            f"{len(plan.program.rules)} rules, {len(plan.clauses)} clauses to ground, "
            f"{len(plan.groups)} groups"
        )

    # memory --------------------------------------------------------------------------------

    def _allocate(self, atoms: int, rows: int) -> None:
        self.room = {"atoms": atoms, "rows": rows, "tables": 1 << 14, "index": 1 << 12}
        self._scratch()

    def _scratch(self) -> None:
        atoms, rows, tables = self.room["atoms"], self.room["rows"], self.room["tables"]
        plans = self.weights.plans
        steps = (np.diff(plans.step_start), np.diff(plans.exist_step_start))
        depth = 2 + sum(int(each.max(initial=0)) for each in steps)
        variables = max((len(p.types) for p in self.layout.plan.clauses), default=0)
        self.net = network.network(atoms, rows, 4 * rows)
        self.structure = elimination.structure_memory(atoms, rows, tables, 4 * tables)
        self.scratch = ground.scratch(
            len(self.layout.plan.query),
            len(plans.query_type),
            len(plans.index_slot),
            self.room["index"],
            depth,
            variables,
            self.weights.arrays.key.shape[1] - 1,
            rows,
        )
        truth, predicted, rival = (np.zeros(atoms, np.uint8) for _ in range(3))
        self.state = k.State(truth, predicted, rival, np.zeros(atoms))

    def _grow(self, what: str) -> None:
        self.room[what] *= 2
        self._scratch()

    def compile(self) -> float:
        """Compile the kernels, or load them from the cache; returns the seconds it took."""
        started = time.perf_counter()
        self.packer.clear()
        batch = self.packer.batch(learning=True)
        self.out = self._output(batch)
        self._call(batch, 0, self._external(0), True)
        return time.perf_counter() - started

    def ground_network(self, example: Example) -> Ground:
        """Ground one example, without learning. Raises ExampleError for a bad one."""
        self.packer.clear()
        self.packer.add(example, 0)
        batch = self.packer.batch(learning=False)
        self.out = self._output(batch)
        status, detail = self._prepare(batch)
        if status not in (ground.OK, k.EXTERNAL):
            self.out.status[0], self.out.detail[0] = status, detail
            raise ExampleError(self._reason(batch, 0), KINDS[status])
        model, used = clause_model(self.net)
        atoms: list[tuple[str, list[Constant]]] = []
        for q, names in enumerate(self.names):
            first, last = self.scratch.query_base[q], self.scratch.query_base[q + 1]
            keys = self.net.key[first:last].tolist() if batch.listed[0] else range(last - first)
            domains = [self.packer.names(batch, 0, kind) for kind in names.kinds]
            atoms += [(names.name, constants) for constants in names.constants(keys, domains)]
        values = self.net.fixed[: len(atoms)].tolist()
        fixed = {n: v == network.TRUE for n, v in enumerate(values) if v != network.OPEN}
        return Ground(model, self._current(used, *k.mean(self.weights.arrays)), atoms, fixed)

    def _prepare(self, batch: ground.Batch) -> tuple[int, int]:
        """Prepare the only world of a batch, with as much room as it takes."""
        while True:
            status, detail = k.prepare(
                self.weights.plans,
                batch,
                0,
                self.net,
                self.scratch,
                self.structure,
                self.state,
                self.weights.arrays,
                self.settings,
                False,
            )
            if not ground.GROW_ATOMS <= status <= k.GROW_OUTPUT:
                return status, detail
            self._make_room(status)

    # the step ------------------------------------------------------------------------------

    def step(
        self, examples: Sequence[Example | ExampleError], learning: bool = True
    ) -> tuple[list[Outcome], Tally]:
        """Predict, and learn from, each example in turn; an ExampleError stands for a bad one."""
        outcomes = [
            Outcome(None, str(e)) if isinstance(e, ExampleError) else None for e in examples
        ]
        bad = [e.kind for e in examples if isinstance(e, ExampleError)]
        self.packer.clear()
        for place, example in enumerate(examples):
            if isinstance(example, Example):
                try:
                    self.packer.add(example, place)
                except ExampleError as error:
                    outcomes[place] = Outcome(None, str(error))
                    bad.append(error.kind)
        batch, worlds = self.packer.batch(learning), self.packer.worlds
        self.out = self._output(batch)
        self.audits = dict[int, float]()
        self.unsolved = set[int]()
        self._run(batch, worlds, learning)
        self._check_audits(worlds)
        for w, outcome in enumerate(self._outcomes(batch, worlds)):
            outcomes[worlds[w].place] = outcome
        return [o for o in outcomes if o is not None], self._tally(batch, worlds, bad)

    def _output(self, batch: ground.Batch) -> k.Output:
        worlds = len(batch.listed)
        classes = np.zeros(worlds + 1, np.int64)
        if self.settings.by_query >= 0:
            plans = self.weights.plans
            at = plans.query_start[self.settings.by_query] + self.settings.by_argument
            np.cumsum(batch.domain[:, plans.query_type[at]], out=classes[1:])
        room = self.room.setdefault("output", 1 << 12)
        return k.Output(
            np.zeros(worlds, np.int32),
            np.zeros(worlds, np.int64),
            np.zeros(worlds, np.int32),
            np.zeros((worlds, 7), np.int64),
            np.zeros(worlds),
            np.zeros(worlds),
            np.full(worlds, np.inf),
            np.zeros(worlds + 1, np.int64),
            np.zeros(room, np.int32),
            np.zeros(room, np.int64),
            classes,
            np.zeros((int(classes[-1]), 3), np.int64),
        )

    def _run(self, batch: ground.Batch, worlds: Sequence[World], learning: bool) -> None:
        external = self._external(len(worlds))
        w = 0
        while w < len(worlds):
            w, code = self._call(batch, w, external, learning)
            if code == k.AUDIT:
                self._audit(w)
                external[w] = self._route()
                continue
            if code == k.EXTERNAL:
                self._solve_outside(batch, w, learning)
            elif code not in (k.OVER_LIMIT, ground.OK):
                self._make_room(code)
                continue
            w += 1
            if len(self.weights) > self.settings.max_weights:
                self.weights.drop_least(self.settings.max_weights)

    def _call(
        self, batch: ground.Batch, first: int, external: network.Bytes, learning: bool
    ) -> tuple[int, int]:
        stopped: tuple[int, int] = k.run_batch(
            self.weights.plans,
            batch,
            first,
            external,
            self.net,
            self.scratch,
            self.structure,
            self.state,
            self.weights.arrays,
            self.settings,
            learning,
            self.out,
        )
        return stopped

    def _make_room(self, code: int) -> None:
        if code == k.GROW_WEIGHTS:
            self.weights.grow()
        elif code == k.GROW_OUTPUT:
            self.room["output"] *= 2
            pad = np.zeros(len(self.out.true_key), np.int64)
            self.out = self.out._replace(
                true_query=np.concatenate([self.out.true_query, pad.astype(np.int32)]),
                true_key=np.concatenate([self.out.true_key, pad]),
            )
        else:
            self._grow(
                {
                    ground.GROW_ATOMS: "atoms",
                    ground.GROW_ROWS: "rows",
                    ground.GROW_INDEX: "index",
                    k.GROW_TABLES: "tables",
                }[code]
            )

    def _route(self) -> int:
        """Return EXTERNAL where inference is never the kernel's, else 0."""
        return 0 if self.inference.presolve else k.EXTERNAL

    def _external(self, worlds: int) -> network.Bytes:
        """Mark the worlds that are audited, and those whose inference is not the kernel's."""
        external = np.full(worlds, self._route(), np.uint8)
        every = self.inference.audit_every
        if every:
            external[(self.seen + 1 + np.arange(worlds)) % every == 0] = k.AUDIT
        self.seen += worlds
        return external

    # inference outside the kernel ------------------------------------------------------------

    def _solve_outside(self, batch: ground.Batch, w: int, learning: bool) -> None:
        """Predict and learn from the world that the kernel has just prepared."""
        model, used = clause_model(self.net)
        arrays, labelled = self.weights.arrays, bool(batch.labelled[w])
        engine = self.inference.exact if self.inference.presolve else self.inference.whole
        try:
            predicted = self._solve(engine, w, model, self._current(used, *k.mean(arrays)))
        except Infeasible:
            self.out.status[w] = k.INFEASIBLE
            return
        if predicted is None:
            return
        self.state.predicted[: model.n_atoms] = predicted.state
        self._margin(model, used, predicted, w)
        route = k.ILP if predicted.route == "ilp" else k.ELIMINATION
        while not k.record(
            self.weights.plans,
            batch,
            w,
            self.net,
            self.scratch,
            self.state,
            arrays,
            self.settings,
            route,
            self.out,
        ):
            self._make_room(k.GROW_OUTPUT)
        if learning and labelled:
            self._learn_outside(model, used, engine, w)

    def _solve(
        self,
        engine: MapEngine,
        w: int,
        model: ClauseModel,
        weights: Floats,
        bonus: Floats | None = None,
    ) -> Solution | None:
        """Solve a world, or fall back; None, with the world's status set, where it is left."""
        fallback = self.inference.fallback
        try:
            found = engine.solve(model, weights, bonus=bonus)
            if found.certified:
                return found
        except Unsolved:
            found = None
        self.unsolved.add(w)
        if fallback is not None:
            with suppress(Unsolved):
                return found or fallback.solve(model, weights, bonus=bonus)
        self.out.status[w] = UNSOLVED
        return None

    def _current(self, used: Indices, cu: float, cv: float) -> Floats:
        value = self.weights.arrays.value[used]
        return value[:, 0] + cu * value[:, 1] + cv * value[:, 2]

    def _learn_outside(self, model: ClauseModel, used: Indices, engine: MapEngine, w: int) -> None:
        arrays, settings = self.weights.arrays, self.settings
        k.set_bonus(self.net, self.state, settings.augmented)
        scale = updates.scale(settings.rule, self.weights.updates + 1)
        bonus = self.state.bonus[: model.n_atoms].copy()
        rival = self._solve(engine, w, model, self._current(used, scale, 0.0), bonus)
        if rival is None or not rival.certified:
            return
        self.state.rival[: model.n_atoms] = rival.state
        self.out.loss[w] = k.learn_world(
            self.net, arrays, self.state.truth, self.state.rival, settings
        )
        if math.isnan(self.out.loss[w]):
            self.out.status[w] = k.OVERFLOW

    def _audit(self, w: int) -> None:
        """Solve a world whole by the ILP, with the averaged weights; see ``_check_audits``."""
        model, used = clause_model(self.net)
        mean, none = k.mean(self.weights.arrays), np.zeros(self.net.size[0], np.uint8)
        weights = self._current(used, *mean)
        constant = network.soft_score(self.net, none, self.weights.arrays.value, *mean)
        try:
            whole = self.inference.whole.solve(model, weights)
        except Infeasible:
            self.audits[w] = -math.inf
        except Unsolved:
            return
        else:
            if whole.certified:
                self.audits[w] = whole.score + constant - model.score(none, weights)

    def _check_audits(self, worlds: Sequence[World]) -> None:
        """Compare the values that the worlds got with those of the ILP. Raises AuditError."""
        for w, value in self.audits.items():
            found = float(self.out.score[w]) if self.out.status[w] == ground.OK else -math.inf
            if not math.isclose(found, value, rel_tol=AUDIT_TOLERANCE, abs_tol=AUDIT_TOLERANCE):
                raise AuditError(
                    f"audit of example {worlds[w].example.id}: {ROUTES[int(self.out.route[w])]} "
                    f"gives {found!r}, the whole ILP {value!r}"
                )

    def _margin(self, model: ClauseModel, used: Indices, best: Solution, w: int) -> None:
        if self.margins:
            weights = self._current(used, *k.mean(self.weights.arrays))
            with suppress(Unsolved):
                second = self.inference.whole.second_best(model, weights, best.state)
                if second is not None:
                    self.out.margin[w] = best.score - second.score

    # outcomes ------------------------------------------------------------------------------

    def _outcomes(self, batch: ground.Batch, worlds: Sequence[World]) -> list[Outcome]:
        starts, status = self.out.true_start.tolist(), self.out.status.tolist()
        queries, keys = self.out.true_query.tolist(), self.out.true_key[: starts[-1]].tolist()
        scores, hamming = self.out.score.tolist(), self.out.counts[:, k.HAMMING].tolist()
        margins = [m if math.isfinite(m) else None for m in self.out.margin.tolist()]
        outcomes = []
        for w, world in enumerate(worlds):
            if status[w] != ground.OK:
                reason = printable(self._reason(batch, w))
                outcomes.append(Outcome(None, reason, status[w] == UNSOLVED))
                continue
            example = world.example
            outcomes.append(
                Outcome(
                    Prediction(
                        example.id,
                        self._atoms(batch, w, slice(starts[w], starts[w + 1]), queries, keys),
                        scores[w],
                        w not in self.unsolved,
                        example.group,
                        hamming[w] if example.truth is not None else None,
                        margins[w],
                    )
                )
            )
        return outcomes

    def _atoms(
        self,
        batch: ground.Batch,
        w: int,
        span: slice,
        queries: list[int],
        keys: list[int],
    ) -> dict[str, list[list[Constant]]]:
        found = {}
        for q, atoms in enumerate(self.names):
            names = [self.packer.names(batch, w, kind) for kind in atoms.kinds]
            mine = keys[span]
            if len(self.names) > 1:
                mine = [key for key, of in zip(mine, queries[span], strict=True) if of == q]
            found[atoms.name] = atoms.constants(mine, names)
        return found

    def _reason(self, batch: ground.Batch, w: int) -> str:
        detail = int(self.out.detail[w])
        clauses = self.weights.clauses
        reasons: dict[int, Callable[[], str]] = {
            k.TRUTH_NOT_OPEN: lambda: self._not_open(batch, w, detail),
            k.TRUTH_BREAKS_GROUP: lambda: (
                "the truth breaks "
                + " or ".join(sorted(g.show(q) for q, g in self.layout.plan.groups.items()))
            ),
            k.TRUTH_BREAKS_RULE: lambda: f"the truth breaks the hard rule {clauses[detail].text}",
            k.INFEASIBLE: lambda: "no state satisfies the hard rules",
            k.OVERFLOW: lambda: (
                "its update is beyond the range of numbers: learner.sigma is too small, or the "
                "weights are too large"
            ),
            UNSOLVED: lambda: "the search ended at inference.max_nodes without a proven answer",
            ground.EVIDENCE_BREAKS_RULE: lambda: (
                "the evidence breaks the hard rule " + clauses[detail].text
            ),
            ground.TOO_MANY_ATOMS: lambda: (
                f"more query atoms than limits.max_atoms ({self.inference.max_atoms})"
            ),
            ground.TOO_MANY_GROUNDINGS: lambda: (
                "more ground clauses than inference.max_groundings "
                f"({self.inference.max_groundings}), reached in the rule {clauses[detail].text}"
            ),
        }
        return reasons[int(self.out.status[w])]()

    def _not_open(self, batch: ground.Batch, w: int, detail: int) -> str:
        name = self.layout.plan.query[detail >> 32]
        slot, i = self.layout.truth[name], detail & 0xFFFFFFFF
        kinds = [self.layout.type_number[t] for t in self.layout.arguments(name)]
        row = int(batch.start[w, slot]) + i * len(kinds)
        args = [
            self.packer.names(batch, w, kind)[int(batch.data[row + j])]
            for j, kind in enumerate(kinds)
        ]
        return (
            f"truth atom {show_atom(name, args)} is not an open atom of the example "
            "(not in its query list, or false by evidence)"
        )

    def _tally(self, batch: ground.Batch, worlds: Sequence[World], bad: list[str]) -> Tally:
        """Count a batch; ``bad`` are the kinds of those that did not come to the kernel."""
        good = self.out.status == ground.OK
        routes = np.bincount(self.out.route[good], minlength=len(ROUTES))
        return Tally(
            counts=self.out.counts[good].sum(axis=0),
            labelled=int(np.sum(batch.labelled[good])),
            predicted=int(good.sum()),
            certified=int(good.sum()) - sum(bool(good[w]) for w in self.unsolved),
            audited=len(self.audits),
            unsolved=len(self.unsolved),
            routes={ROUTES[n]: int(routes[n]) for n in ROUTES},
            by_class=self._by_class(batch, good),
            errors=Counter(bad + [KINDS[status] for status in self.out.status[~good].tolist()]),
        )

    def _by_class(self, batch: ground.Batch, good: network.Bytes) -> dict[str, Indices]:
        if self.settings.by_query < 0:
            return {}
        plans, out = self.weights.plans, self.out
        at = plans.query_start[self.settings.by_query] + self.settings.by_argument
        kind = int(plans.query_type[at])
        sizes = np.diff(out.class_start)
        if len(sizes) and np.all(sizes == plans.declared[kind]):
            names = self.layout.constants[self.layout.types[kind]]
            table = out.by_class.reshape(len(sizes), -1, 3)[good].sum(axis=0)
            return dict(zip(names, table, strict=True))
        found: dict[str, Indices] = {}
        for w in np.flatnonzero(good).tolist():
            rows = out.by_class[out.class_start[w] : out.class_start[w + 1]]
            for name, row in zip(self.packer.names(batch, w, kind), rows, strict=True):
                found[str(name)] = found.get(str(name), 0) + row
        return found

    # certificate and checkpoint ----------------------------------------------------------------

    def certificate(self) -> dict[str, float | None]:
        """Return the mean loss, the dual value D_T and the bound it gives on the regret.

        CDA2, subgradient: an upper bound on the regret. CDA1: on the excess of the summed loss over
        the least regularised one. None for MIRA and the perceptron, and once weights were dropped.
        """
        scalar, rule = self.weights.arrays.scalar, self.settings.rule
        t, sigma = float(scalar[k.T]), self.settings.sigma
        loss = float(scalar[k.LOSS]) / t if t else None
        if rule in (updates.MIRA, updates.PERCEPTRON) or self.weights.dropped or not t:
            return {"loss": loss, "dual": None, "regret_bound": None}
        scale = sigma / (2.0 * t) if updates.shrinks(rule) else sigma / 2.0
        dual = float(scalar[k.DUAL]) - scale * float(scalar[k.NORM])
        return {"loss": loss, "dual": dual, "regret_bound": float(scalar[k.PRIMAL]) - dual}

    def save(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return header and arrays of a checkpoint."""
        header, arrays = self.weights.save()
        return {**header, "seen": self.seen}, arrays

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
        """Go on from what ``save`` returned, bit for bit."""
        self.weights.restore(header, arrays)
        self.packer.set_stream(self.weights.stream)
        self.seen = header["seen"]
