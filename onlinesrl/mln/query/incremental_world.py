"""A Markov logic world that stays: facts come and go, and its most probable state follows.

The score is a sum over the connected components of the open atoms. Narrow components are solved by messages
that are kept, see ``inference.elimination_forest``: a step computes those again that it changes. Of the other
components a step explores and solves those that it touches; the model of such a component is written in the
order of the names of its atoms. So an answer, with all ties, depends on the ground clauses alone. Scores are
added as fractions, without rounding.

Large hard clauses are ground only where a state violates them, see ``ground.violated_rows``. What is ground
so stays as long as its facts, and may decide which of equal answers is given.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from math import isnan, nan
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec
import numpy as np

from onlinesrl.core.errors import DataError, Infeasible, Unsolved
from onlinesrl.core.example import show_ground_atom
from onlinesrl.core.explain.conflict import Pattern, impossible, smallest_conflict
from onlinesrl.core.explain.explanation import Explanation, ExplanationError, shown
from onlinesrl.core.io.restoring import Misfit, Natural
from onlinesrl.core.paused_collection import paused_collection
from onlinesrl.core.rule_instance import PlacedWeight
from onlinesrl.logic.ast import Program
from onlinesrl.logic.atom_index import Change, Constants, GroundAtom, add_changes
from onlinesrl.logic.ground_world import Exchange, StateCertificate
from onlinesrl.mln.explain.world_explanation import Alternative, GroundClause, explained
from onlinesrl.mln.ground.binding_lists import Key, Row
from onlinesrl.mln.ground.grounder import LIMITS
from onlinesrl.mln.ground.incremental_grounder import IncrementalGrounder, Step
from onlinesrl.mln.ground.violated_rows import ViolatedRows
from onlinesrl.mln.inference.elimination_forest import Component, EliminationForest, Variable
from onlinesrl.mln.inference.protocols import MapEngine, Marginals
from onlinesrl.mln.inference.ranked_components import OtherState, RankedComponents
from onlinesrl.mln.inference.registry import map_engine, marginal_engine
from onlinesrl.mln.kernels.elimination_forest import CLOSES, POSITIVE
from onlinesrl.mln.kernels.grounding_frames import EVERY
from onlinesrl.mln.lang.clausal_form import Clause
from onlinesrl.mln.lang.evidence_weights import numbers_in, with_table
from onlinesrl.mln.lang.reweighting import reweighed, weights_of, weights_text


@dataclass(frozen=True, eq=False)
class _SolvedComponent:
    """A connected component of open atoms that is not narrow, in the order of names, and its best state."""

    atoms: tuple[GroundAtom, ...]
    values: tuple[float, ...]
    score: Fraction
    gap: float
    certified: bool


class _Solution(NamedTuple):
    """What solving changed: components that were and that are, and the values that are others."""

    old: Iterable[_SolvedComponent]
    new: Iterable[_SolvedComponent]
    changed: dict[GroundAtom, Change]


class _PartialGrounding(NamedTuple):
    """The clauses, by place among hard ones, that are left out, and those of their rows that are ground."""

    clauses: list[Natural]
    rows: list[tuple[Natural, Constants]]


class _State(NamedTuple):
    """What a step changes: the facts of its atoms, None where there is none, the grounder, the weights.

    Of clauses that are left out: which, all ground clauses now, and which of those that differ were there.
    """

    facts: dict[GroundAtom, float | None]
    grounder: IncrementalGrounder
    reweighed: _Reweighed
    left_out: frozenset[int]
    rows: Mapping[Key, Row]
    replaced: dict[Key, bool]


_Reweighed: TypeAlias = list[tuple[Clause, Clause]]
"""The soft clauses of a program, each also with its present weight; none: the weights are the program's."""
_Constraint: TypeAlias = tuple[Literal["fact", "group", "rule"], Any]
"""A fact about a query atom, a group, or a ground hard rule, with its atom or key."""


REFUSALS = (DataError, Infeasible, Unsolved)
"""The errors with which a step is refused, and then has changed nothing."""
UNIT = "1"
"""The number whose weight is the share of a clause in the weight of its rule."""


class MlnWorld:
    """Facts, and the state of highest score of the open atoms.

    ``listed`` and ``eager`` are those of ``IncrementalGrounder``; ``engine`` solves the components that are
    too wide for elimination; ``max_work`` limits the search for its best states as in ``MlnEngine``. Raises
    Infeasible if the hard rules contradict each other.
    """

    def __init__(
        self,
        program: Program,
        query: Sequence[str],
        listed: bool = False,
        engine: MapEngine | None = None,
        eager: int = EVERY,
        max_work: int | None = None,
    ):
        program = with_table(program, [UNIT])
        self._grounder = IncrementalGrounder(program, query, listed, eager=eager)
        self._by_evidence = _weighted_by_evidence(self._grounder)
        self._reweighed: _Reweighed = []
        self._engine = map_engine("mpe", max_work=max_work) if engine is None else engine
        self._max_work = max_work
        self._rows = dict[Key, Row]()
        self._atoms = dict[GroundAtom, float]()
        self._groups = dict[GroundAtom, dict[GroundAtom, None]]()
        self._true = dict[GroundAtom, dict[GroundAtom, None]]()
        self._component = dict[GroundAtom, _SolvedComponent]()
        self._loose = dict[_SolvedComponent, None]()
        self._marginals = dict[GroundAtom, tuple[list[GroundAtom], Marginals]]()
        self._ranked: RankedComponents | None = None
        self._forest = EliminationForest[Key]()
        self._moved = dict[GroundAtom, None]()
        self._left_out: ViolatedRows | None = None
        self._replaced = dict[Key, bool]()
        self._due = dict[GroundAtom, Change]()
        """Values that are others since the last step, of another answer with the same score."""
        self._values = dict[GroundAtom, float]()
        self._score = Fraction(0)
        self.touched = 0
        self._follow(self._grounder.everything(), self._grounder, None)

    @property
    def text(self) -> str:
        """The program with the present weights."""
        program = self._grounder.plan.program
        soft = [clause for _, clause in self._reweighed]
        return weights_text(program, soft) if soft else program.text

    @property
    def certificate(self) -> StateCertificate:
        """The certificate of the state."""
        gap = math.fsum(component.gap for component in self._loose)
        certified = all(component.certified for component in self._loose)
        score = float(self._score + self._forest.score)
        return StateCertificate(score, gap, certified and self._forest.certified)

    def fact(self, atom: GroundAtom) -> float | None:
        """Return the value of a fact, NaN for a listed open atom; None if there is no such fact."""
        return self._grounder.fact(atom)

    def value(self, atom: GroundAtom) -> float | None:
        """Return the value of an open atom or a fact; None if it is neither."""
        return self._values.get(atom, self.fact(atom))

    def neighbourhood(
        self, atoms: Iterable[GroundAtom]
    ) -> tuple[list[GroundAtom], dict[GroundAtom, float]]:
        """See ``GroundWorld.neighbourhood``."""
        together = self._with_members(atoms)
        keys = {key for atom in together for key in self._forest.clauses(atom)}
        rows = {key: self._rows[key] for key in keys} | self._grounder.beside(together)
        beside = {a for key, row in rows.items() if row for a in self._grounder.atoms(row, key)}
        values = {atom: self.value(atom) or 0.0 for atom in sorted(beside.difference(together))}
        return sorted(together), values

    def values(self) -> Iterator[tuple[GroundAtom, float]]:
        """Yield the open atoms and their values, 0 or 1, in the order of names."""
        yield from sorted(self._values.items())

    def facts(self) -> dict[GroundAtom, float]:
        """Return the facts in the order of their names, NaN for listed open atoms."""
        return self._grounder.facts()

    def save(self) -> tuple[dict[GroundAtom, float], dict[str, Any]]:
        """Return the facts, and what of clauses that are left out is ground: the answer follows from them."""
        grounder = self._grounder
        if grounder.eager == EVERY:
            return self.facts(), {}
        partial = _partial_grounding(grounder, grounder.left_out, self._rows, {})
        return self.facts(), {"partial": np.frombuffer(msgspec.json.encode(partial), np.uint8)}

    def resume(self, facts: Mapping[GroundAtom, float], arrays: Mapping[str, Any]) -> None:
        """Become the world that was saved; this one has no facts. Raises Misfit where it cannot be."""
        try:
            partial = _PartialGrounding([], [])
            if "partial" not in arrays:
                self._grounder.eager = EVERY
            elif self._grounder.eager < EVERY:
                partial = msgspec.json.decode(arrays["partial"].tobytes(), type=_PartialGrounding)
            self._resume(facts, partial)
        except (*REFUSALS, msgspec.MsgspecError, ValueError, LookupError) as error:
            raise Misfit(str(error)) from None

    def _resume(self, facts: Mapping[GroundAtom, float], partial: _PartialGrounding) -> None:
        """Ground facts in a world without any. Raises ValueError and LookupError for another model's."""
        grounder = self._grounder
        numbers = _hard_clauses(grounder)
        grounder.left_out = frozenset(numbers[place] for place in partial.clauses)
        if not grounder.left_out <= grounder.may_wait:
            raise ValueError("a clause is left out that cannot be")
        wanted = {key: False for key in self._rows if key[0] in grounder.left_out}
        wanted |= {(numbers[place], constants): True for place, constants in partial.rows}
        self._apply(facts, None, wanted)

    def state(self, atoms: Iterable[GroundAtom]) -> _State:
        """See ``GroundWorld``."""
        self._replaced, grounder = {}, self._grounder
        facts = {atom: self.fact(atom) for atom in atoms}
        left_out = grounder.left_out
        return _State(facts, grounder, self._reweighed, left_out, self._rows, self._replaced)

    def go_back(self, facts: Mapping[GroundAtom, float | None], states: Sequence[_State]) -> None:
        """See ``GroundWorld``; the answer follows from the facts, and from what was ground."""
        replaced = {key: x for state in reversed(states) for key, x in state.replaced.items()}
        self._grounder.left_out = states[0].left_out
        self._apply(facts, None, replaced)

    def remade(self, state: _State) -> MlnWorld:
        """See ``GroundWorld``; the facts of other atoms are those of the step."""
        world = self._empty(state.grounder.plan.program)
        world._grounder.weights = world._grounder.weights_as(state.reweighed)
        world._reweighed = state.reweighed
        facts = {**state.grounder.facts(), **state.facts}
        present = {atom: value for atom, value in facts.items() if value is not None}
        world._resume(
            present, _partial_grounding(state.grounder, state.left_out, state.rows, state.replaced)
        )
        return world

    def explain(self, atom: GroundAtom) -> Explanation:
        """Return why an atom has its value. Raises ExplanationError if it is no target and no fact.

        Raises Unsolved if no state with the other value is found within the engine's limit.
        """
        value = self._fixed(atom) if atom in self._atoms else self.fact(atom)
        if value is None:
            raise ExplanationError(f"{shown(atom)} is neither observed nor a target")
        if not isnan(value):
            return Explanation("", shown(atom), value, given=True)
        wide = self._component.get(atom)
        certified = self._forest.proven(atom) if wide is None else wide.certified
        plan = self._grounder.plan
        members = [a for a in self._with_members([atom]) if isnan(self._fixed(a))]
        trial = dict[Key, None]()
        try:
            part, alternative = self._alternative(atom, members, trial)
            clauses = self._open_clauses(members)
            values = {a: self._fixed(a) for x in clauses for a in x.row.atoms}
            return explained(
                plan.program,
                atom,
                values | {a: self._values[a] for a in part.atoms},
                certified,
                alternative,
                clauses,
                plan.groups.get(atom[0]),
                members,
            )
        finally:
            self._update(Step(dict.fromkeys(trial), {}))

    def _alternative(
        self, atom: GroundAtom, members: Iterable[GroundAtom], trial: dict[Key, None]
    ) -> tuple[Component, Alternative | None]:
        """Return an atom's component, and its best state in which the atom is otherwise; None: there is none.

        What such states violate is ground and noted as ``trial``. ``members`` are the atoms of its group.
        """
        value = self._values[atom]
        values = {**dict.fromkeys(members, 0.0), atom: 1.0 - value}
        more = self._violated(values, values)
        while True:
            trial |= dict.fromkeys(more)
            self._update(Step({**more}, {}))
            (part,) = self._forest.components([atom])
            try:
                other = self._solved(part.where(atom, not value))
            except Infeasible:
                return part, None
            values = dict(zip(other.atoms, other.values, strict=True))
            if not (more := self._violated(values, values)):
                break
        state = part.state({a: self._values[a] for a in part.atoms})
        loss = part.model.exact_score(state, part.weights) - other.score
        return part, Alternative(values, float(loss), other.certified)

    def best_states(self, n: int) -> list[OtherState]:
        """Return the n - 1 states next to the present one; none where that is not certified.

        Components that no step has touched since the last call are not solved again. Of clauses that are left
        out, what such a state violates is ground for the time of the search. Raises DataError where this is
        too much.
        """
        if n < 2 or not self.certificate.certified:
            return []
        if self._ranked is None or self._ranked.n != n:
            self._ranked = RankedComponents(
                self._forest, self._engine, n, self._values, self._max_work
            )
        trial = dict[Key, Row]()
        try:
            while True:
                others = self._ranked.others(self._values)
                more = dict[Key, Row]()
                for other in others:
                    more |= self._violated(other.values, other.values)
                if not more:
                    return others
                trial |= more
                self._try(self._ranked, more, {**more})
        finally:
            if trial:
                self._try(self._ranked, trial, dict.fromkeys(trial))

    def _try(
        self, ranked: RankedComponents, rows: Mapping[Key, Row], step: dict[Key, Row | None]
    ) -> None:
        """Exchange ground clauses for the time of a search."""
        self._update(Step(step, {}))
        ranked.touch({**self._moved, **_atoms_of(rows.values())})

    def marginals(
        self, atoms: Sequence[GroundAtom] = ()
    ) -> tuple[dict[GroundAtom, float], dict[str, Any]]:
        """Return the probabilities of open atoms, of all or of these, in the order of names, and statistics.

        They are exact in components that are narrow enough, and sampled in others. What no step has touched
        since the last call is not computed again: no message where the forest solves a component, else no
        component. What was left out is ground first. Raises DataError for an atom that is not open, and
        where that is too much.
        """
        if (other := next((a for a in atoms if a not in self._values), None)) is not None:
            raise DataError(f"{show_ground_atom(*other)} is no target")
        self._ground_whole()
        engine, forest = marginal_engine("exact"), self._forest
        asked, narrow = sorted({*atoms} or self._values), forest.marginals()
        wide = [atom for atom in asked if atom in self._component]
        for part in forest.components(a for a in wide if a not in self._marginals):
            solved = part.atoms, engine.marginals(part.model, part.weights)
            self._marginals |= dict.fromkeys(part.atoms, solved)
        present = {id(self._marginals[a]): self._marginals[a] for a in wide if a in self._marginals}
        by_engine = dict[GroundAtom, float]()
        for part_atoms, marginals in present.values():
            probability = marginals.probability[: len(part_atoms)].tolist()
            by_engine |= zip(part_atoms, probability, strict=True)
        all_marginals = [marginals for _, marginals in present.values()]
        routes = {route for one in all_marginals for route in one.route.split("+")}
        if any(atom in narrow and atom not in by_engine for atom in asked):
            routes.add("exact")
        stats = {
            "route": "+".join(sorted(routes)) or "exact",
            "samples": max((one.samples for one in all_marginals), default=0),
        }
        # a group decides the atoms that are in neither
        return {a: by_engine.get(a, narrow.get(a, 0.0)) for a in asked}, stats

    def apply(
        self, changes: Mapping[GroundAtom, float | None], exchanges: list[Exchange] | None = None
    ) -> dict[GroundAtom, Change]:
        """Change facts, see ``IncrementalGrounder.change``; return the open atoms whose value changed.

        Adds the exchange of ground clauses to ``exchanges``. Raises Infeasible where the hard rules cannot
        hold, and Unsolved. Then nothing has changed.
        """
        return self._apply(changes, exchanges, {})

    def _apply(
        self,
        changes: Mapping[GroundAtom, float | None],
        exchanges: list[Exchange] | None,
        wanted: Mapping[Key, bool],
    ) -> dict[GroundAtom, Change]:
        """Change facts; of clauses that are left out, ground some that are ``wanted``, and others no more."""
        before = {atom: self.fact(atom) for atom in changes}
        _weigh(self._grounder, self._by_evidence, changes)
        step = self._grounder.change(changes)
        try:
            return self._follow(step, self._grounder, exchanges, before, wanted)
        except REFUSALS:
            self._grounder.set_facts(before)
            raise

    def set_model(
        self, program: Program, exchanges: list[Exchange] | None = None
    ) -> dict[GroundAtom, Change]:
        """Go on under another program, which the facts fit; see ``apply``.

        Only what is new is ground, unless predicates or groups are others. Raises
        Infeasible where the hard rules cannot hold, and Unsolved. Then nothing has changed.
        """
        old, program = self._grounder, with_table(program, [UNIT])
        if (change := old.under(program, self._rows)) is None:
            world = self._empty(program)
            world.apply(old.facts())
            if exchanges is not None:
                came = world._grounder.counted({**world._rows}, {})
                exchanges.append(Exchange(came, old.counted(self._rows, {})))
            before, after = self._values, world._values
            vars(self).update(vars(world))
            pairs = {atom: (before.get(atom), after.get(atom)) for atom in {**before, **after}}
            return {atom: pairs[atom] for atom in sorted(pairs) if len({*pairs[atom]}) > 1}
        grounder, step = change
        by_evidence = _weighted_by_evidence(grounder)
        _weigh(grounder, by_evidence, old.facts() if by_evidence else ())
        self._grounder = grounder
        changed = self._follow(step, old, exchanges)
        self._by_evidence = by_evidence
        self._reweighed = []
        return changed

    def weights_of(self, program: Program) -> list[PlacedWeight]:
        """Return the weights of a file of weights. Raises DataError where it does not fit the rules."""
        if self._by_evidence:
            raise DataError(
                "some weights of this model come from evidence, which no file of weights has"
            )
        return weights_of(self._grounder.plan.program, program)

    def set_weights(self, weights: Iterable[PlacedWeight]) -> dict[GroundAtom, Change]:
        """Give the rules weights; return the open atoms whose value changed.

        Raises Unsolved. Then nothing has changed.
        """
        grounder, old = self._grounder, self._grounder.weights
        clauses = reweighed(grounder.plan.program, weights)
        new = grounder.weights_as(clauses)
        rows = {k: row for k, row in self._rows.items() if old[k[0]] != new[k[0]]}
        grounder.weights = new
        try:
            changed = self._follow(Step({**rows}, {}), grounder, None)
        except REFUSALS:
            grounder.weights = old
            self._exchange({}, rows)
            raise
        self.touched, self._reweighed = len(rows), clauses
        return changed

    def _empty(self, program: Program) -> MlnWorld:
        """Return a world without facts under a program."""
        old = self._grounder
        return MlnWorld(
            program, old.plan.query, old.listed, self._engine, old.eager, self._max_work
        )

    def _follow(
        self,
        step: Step,
        old: IncrementalGrounder,
        exchanges: list[Exchange] | None,
        facts: Iterable[GroundAtom] = (),
        wanted: Mapping[Key, bool] = {},
    ) -> dict[GroundAtom, Change]:
        """Solve the components that a step touches, ground what the state violates, and solve again.

        The step has changed ``facts``. Raises what refuses it; then all is as before, also the grounder,
        which was ``old``.
        """
        before = self._left_out
        old_left_out = before.left_out if before else frozenset[int]()
        if (left_out := self._grounder.left_out) != old_left_out:
            self._left_out = ViolatedRows(self._grounder, self._rows) if left_out else None
        if self._left_out:
            near = [*facts, *(atom for atom, value in step.atoms.items() if value is None)]
            absent = [key for key, present in wanted.items() if not present]
            step.rows.update(self._grounder.only({**self._left_out.about(near), **wanted}))
            step.rows.update(dict.fromkeys(absent))
        rows = {key: self._rows.get(key) for key in step.rows}
        self._remember(rows)
        atoms = {atom: self._atoms.get(atom) for atom in step.atoms}
        together = self._update(step)
        old_rows = [row for row in rows.values() if row is not None]
        solutions = list[_Solution]()
        try:
            self._check(step)
            solutions.append(self._solve(together, old_rows))
            moved: Iterable[GroundAtom] = {**dict.fromkeys(facts), **solutions[0].changed}
            if self._left_out is not before:
                moved = {**self._grounder.facts(), **self._values}
            while more := self._violated(moved):
                added = Step({**more}, {})
                step.rows.update(more)
                rows |= dict.fromkeys(more)
                self._remember(dict.fromkeys(more))
                self._update(added)
                self._check(added)
                solutions.append(self._solve({}, ()))
                moved = solutions[-1].changed
        except REFUSALS as error:
            conflict = None
            if isinstance(error, Infeasible):
                with suppress(Unsolved):
                    new_rows = [row for row in step.rows.values() if row is not None]
                    beside = _atoms_of([*old_rows, *self._touched(), *new_rows])
                    conflict = self._conflict({**together, **beside})
            self._grounder = old
            self._update(Step(rows, atoms))
            for old_components, new_components, values in reversed(solutions):
                self._take(new_components, old_components, {a: x[0] for a, x in values.items()})
            if self._left_out is before and before:
                before.go_back()
            self._left_out, old.left_out = before, old_left_out
            raise conflict or error from None
        if self._left_out:
            self._left_out.stay()
        self.touched = len(step.rows)
        if exchanges is not None:
            came = self._grounder.counted(step.rows, rows)
            exchanges.append(Exchange(came, old.counted(rows, step.rows)))
        changed, self._due = self._due, {}
        for solution in solutions:
            add_changes(changed, solution.changed)
        return {atom: x for atom, x in sorted(changed.items()) if x[0] != x[1]}

    def _solve(self, atoms: Mapping[GroundAtom, None], rows: Iterable[Row]) -> _Solution:
        """Solve the components of atoms and of ground clauses that are touched.

        ``rows`` are those that were. Raises Infeasible and Unsolved; then no answer has changed.
        """
        if not self._forest.feasible:
            raise Infeasible("no state satisfies the hard rules")
        near = {**atoms, **self._moved}
        touched = near
        if self._component or self._marginals or self._ranked:
            touched = {**near, **_atoms_of([*rows, *self._touched()])}
        if self._ranked is not None:
            self._ranked.touch(touched)
            if len(self._ranked.due) > len(self._values):  # nobody has asked for long
                self._ranked = None
        old = {self._component[atom]: None for atom in touched if atom in self._component}
        affected = {**near, **{atom: None for component in old for atom in component.atoms}}
        best = self._forest.values(affected)
        wide = [atom for atom, value in best.items() if value is None]
        values = {
            atom: best.get(atom) or 0.0 for atom in affected if isnan(self._atoms.get(atom, 1.0))
        }
        new = [*map(self._solved, self._forest.components(wide))]
        for component in new:
            values |= zip(component.atoms, component.values, strict=True)
        for atom in touched:
            if atom in self._marginals:
                for other in self._marginals[atom][0]:
                    self._marginals.pop(other, None)
        pairs = {atom: (self._values.get(atom), values.get(atom)) for atom in affected}
        changed = {atom: x for atom, x in pairs.items() if x[0] != x[1]}
        self._take(old, new, {atom: x[1] for atom, x in changed.items()})
        return _Solution(old, new, changed)

    def _take(
        self,
        old: Iterable[_SolvedComponent],
        new: Iterable[_SolvedComponent],
        values: Mapping[GroundAtom, float | None],
    ) -> None:
        """Take components in place of old ones, and values; None: the atom is not open."""
        for component in old:
            self._score -= component.score
            self._loose.pop(component, None)
            for atom in component.atoms:
                del self._component[atom]
        for component in new:
            self._score += component.score
            self._component |= dict.fromkeys(component.atoms, component)
            self._loose |= {component: None} if component.gap or not component.certified else {}
        for atom, value in values.items():
            if value is None:
                del self._values[atom]
            else:
                self._values[atom] = value

    # clauses that are left out ---------------------------------------------------------------------

    def _violated(
        self, atoms: Iterable[GroundAtom], trial: Mapping[GroundAtom, float] = {}
    ) -> dict[Key, Row]:
        """Return what the values violate of clauses that are left out; atoms on ``trial`` have other values.

        ``atoms`` are those that have changed. Raises DataError where this is too much.
        """
        if self._left_out is None:
            return {}

        def value(atom: GroundAtom) -> float:
            return trial[atom] if atom in trial else self.value(atom) or 0.0

        try:
            return self._left_out.violated(atoms, value)
        finally:
            if trial:
                self._left_out.go_back()

    def _remember(self, rows: Mapping[Key, Row | None]) -> None:
        """Note which ground clauses of clauses that are left out there were before a step."""
        for key, row in rows.items() if self._left_out else ():
            if key[0] in self._grounder.left_out:
                self._replaced.setdefault(key, row is not None)

    def _ground_whole(self) -> None:
        """Ground all that is left out: probabilities depend on ground clauses that hold, too.

        Raises DataError where that is too much.
        """
        grounder = self._grounder
        if left_out := sorted(grounder.left_out, key=grounder.size):
            if (size := grounder.size(left_out[-1])) > LIMITS.groundings:
                text = grounder.clause(left_out[-1]).text
                raise DataError(
                    f"{text} has up to {size:,} ground rules: probabilities need all of them, at most "
                    f"{LIMITS.groundings:,}; list the targets, or ask for the values alone"
                )
            rows = {key: row for number in left_out for key, row in grounder.every(number).items()}
            self._remember({key: self._rows.get(key) for key in rows})
            grounder.left_out = frozenset()
            self._due = self._follow(Step(rows, {}), grounder, None)
            grounder.eager = EVERY

    def _touched(self) -> list[Row]:
        """Return the ground clauses that the last exchange has touched."""
        return [*map(self._rows.__getitem__, self._forest.touched())]

    # ground clauses and atoms --------------------------------------------------------------------

    @paused_collection()
    def _update(self, step: Step) -> dict[GroundAtom, None]:
        """Take in the ground clauses and atoms of a step; return its atoms with those of their groups."""
        for atom, value in step.atoms.items():
            self._set(atom, value)
        together = self._exchange(step.atoms, step.rows)
        for key, row in step.rows.items():
            if row is None:
                self._rows.pop(key, None)
            else:
                self._rows[key] = row
            if self._left_out:
                self._left_out.note(key, row is not None)
        return together

    def _exchange(
        self, atoms: Iterable[GroundAtom], rows: Mapping[Key, Row | None]
    ) -> dict[GroundAtom, None]:
        """Give the forest atoms, their variables and ground clauses; return the atoms and their groups."""
        variables, values = dict[GroundAtom, Variable](), dict[GroundAtom, float | None]()
        for group in self._groups_of(atoms):
            members = {atom: self._atoms[atom] for atom in self._groups.get(group, ())}
            if group in self._true:
                members = {atom: float(value == 1.0) for atom, value in members.items()}
            open_atoms = sorted([atom for atom, value in members.items() if isnan(value)])
            exactly = self._grounder.plan.groups[group[0]].exactly
            variables[group] = Variable((*open_atoms,), exactly)
            values |= members
        for atom in atoms:
            if atom not in values:
                values[atom] = value = self._atoms.get(atom)
                if self._grounder.group(atom) is None:
                    is_open = value is not None and isnan(value)
                    variables[atom] = Variable((atom,) if is_open else (), False)
        weights = self._grounder.weights_of(rows)
        self._moved = dict.fromkeys(self._forest.update(values, variables, rows, weights))
        return dict.fromkeys(values)

    def _set(self, atom: GroundAtom, value: float | None) -> None:
        if value is None:
            self._atoms.pop(atom, None)
        else:
            self._atoms[atom] = value
        if (group := self._grounder.group(atom)) is None:
            return
        for index, present in ((self._groups, value is not None), (self._true, value == 1.0)):
            if present:
                index.setdefault(group, {})[atom] = None
            elif group in index:
                index[group].pop(atom, None)
                if not index[group]:
                    del index[group]

    def _fixed(self, atom: GroundAtom) -> float:
        """Return the value of an atom by facts, alone or by its group; NaN for other atoms."""
        value = self._atoms[atom]
        return 0.0 if isnan(value) and self._grounder.group(atom) in self._true else value

    def _with_members(self, atoms: Iterable[GroundAtom]) -> dict[GroundAtom, None]:
        """Return atoms with all atoms of their groups."""
        together = dict.fromkeys(atoms)
        for group in self._groups_of(together):
            together |= self._groups.get(group, {})
        return together

    def _groups_of(self, atoms: Iterable[GroundAtom]) -> dict[GroundAtom, None]:
        """Return the groups of atoms."""
        return {group: None for group in map(self._grounder.group, atoms) if group is not None}

    def _check(self, step: Step) -> None:
        """Raise Infeasible where facts alone break a hard rule."""
        groups = self._groups_of(step.atoms)
        for group in (group for group in groups if group in self._groups):
            true, rule = len(self._true.get(group, ())), self._grounder.plan.groups[group[0]]
            possible = true or any(isnan(self._atoms[atom]) for atom in self._groups[group])
            if true > 1 or (rule.exactly and not possible):
                raise Infeasible(f"the facts break {rule.show(group[0])}")
        for number, _ in self._forest.broken:
            text = self._grounder.clause(number).text
            raise Infeasible(f"the evidence breaks the hard rule {text}")

    def _open_clauses(self, atoms: Iterable[GroundAtom]) -> list[GroundClause]:
        """Return the ground clauses of atoms that facts do not decide."""
        keys = {key: None for atom in atoms for key in self._forest.clauses(atom)}
        grounder, rows = self._grounder, {k: self._rows[k] for k in keys if self._forest.is_open(k)}
        return [
            GroundClause(
                grounder.weight(key, row),
                grounder.clause(key[0]),
                (key[0], grounder.template(key)),
                row,
            )
            for key, row in rows.items()
        ]

    def _solved(self, part: Component) -> _SolvedComponent:
        """Solve a component. Raises Infeasible and Unsolved."""
        solution = self._engine.solve(part.model, part.weights)
        return _SolvedComponent(
            (*part.atoms,),
            (*solution.state[: len(part.atoms)].astype(float).tolist(),),
            part.model.exact_score(solution.state, part.weights),
            max(solution.bound - solution.score, 0.0),
            solution.certified,
        )

    # conflicts -----------------------------------------------------------------------------------

    def _conflict(self, touched: Iterable[GroundAtom]) -> Infeasible | None:
        """Return the error with the smallest conflict of ground hard rules and facts; None: there is none."""
        if (conflict := smallest_conflict(self._constraints(touched), self._can_hold)) is None:
            return None
        rules, facts, depends = list[str](), dict[str, None](), list[Pattern]()
        group = self._grounder.group
        true = Counter(group(x) for kind, x in conflict if kind == "fact" and self._atoms[x])
        for kind, name in conflict:
            if kind == "fact":
                facts[_fact_text(name, self._atoms[name] == 1.0)] = None
                depends.append(name)
            elif kind == "group":
                constraint = self._grounder.plan.groups[name[0]].show(name[0])
                rules.append(f"{constraint}, as in {show_ground_atom(*min(self._groups[name]))}")
                depends += self._grounder.group_depends(name, several_true=true[name] > 1)
            else:
                text, evidence = self._grounder.shown(name)
                rules.append(f"{text}.")
                facts |= {_fact_text(atom, is_true): None for atom, is_true in evidence}
                depends += self._grounder.depends(name)
        return impossible(rules, [*facts], depends)

    def _constraints(self, touched: Iterable[GroundAtom]) -> Iterator[_Constraint]:
        """Yield the hard constraints that touched atoms are in, then those beside; facts end the search."""
        start, seen = len(atoms := [*touched]), {*atoms}
        constraints = set[_Constraint]()
        for place, atom in enumerate(atoms):  # it grows
            new = list[_Constraint]()
            if atom in self._atoms and not isnan(self._atoms[atom]):
                new.append(("fact", atom))
            if place < start or isnan(self._atoms.get(atom, nan)):
                new += [
                    ("group", group) for group in self._groups_of([atom]) if group in self._groups
                ]
                new += [
                    ("rule", key)
                    for key in self._forest.clauses(atom)
                    if self._grounder.weight(key, self._rows[key]) is None
                ]
            for constraint in new:
                if constraint not in constraints:
                    constraints.add(constraint)
                    yield constraint
                    beside = self._beside(constraint)
                    atoms += [other for other in dict.fromkeys(beside) if other not in seen]
                    seen |= {*beside}

    def _beside(self, constraint: _Constraint) -> Sequence[GroundAtom]:
        """Return the atoms of a constraint."""
        kind, name = constraint
        if kind == "fact":
            return (name,)
        return [*(self._groups[name] if kind == "group" else self._rows[name].atoms)]

    def _can_hold(self, constraints: Sequence[_Constraint]) -> bool:
        """Tell whether constraints can all hold."""
        groups = {name: None for kind, name in constraints if kind == "group"}
        variables, rows = dict[GroundAtom, Variable](), dict[_Constraint, Row]()
        for group in groups:
            exactly = self._grounder.plan.groups[group[0]].exactly
            variables[group] = Variable((*sorted(self._groups[group]),), exactly)
        for constraint in constraints:
            kind, name = constraint
            atoms = self._beside(constraint)
            alone = [atom for atom in atoms if self._grounder.group(atom) not in groups]
            variables |= {atom: Variable((atom,), False) for atom in alone}
            if kind == "fact":
                bits = CLOSES | POSITIVE * (self._atoms[name] == 1.0)
                rows[constraint] = Row(1, bytes([bits]), (name,))
            elif kind == "rule":
                rows[constraint] = self._rows[name]
        every = [atom for variable in variables.values() for atom in variable.atoms]
        forest, hard = EliminationForest[_Constraint](), [None] * len(rows)
        unsolved = forest.update(dict.fromkeys(every, nan), variables, rows, hard)
        try:
            for part in forest.components(a for a, value in unsolved.items() if value is None):
                self._engine.solve(part.model, part.weights)
        except Infeasible:
            return False
        return forest.feasible


def _hard_clauses(grounder: IncrementalGrounder) -> list[int]:
    """Return the numbers of the hard clauses, in an order that the text with other weights keeps."""
    return [number for number in grounder.numbers if grounder.clause(number).hard]


def _partial_grounding(
    grounder: IncrementalGrounder,
    left_out: frozenset[int],
    rows: Mapping[Key, Row],
    replaced: Mapping[Key, bool],
) -> _PartialGrounding:
    """Return what of clauses ``left_out`` was ground, in the order of names.

    ``rows`` are all ground clauses now; of those that are ``replaced`` it is known whether they were there.
    """
    present = {key: True for key in rows if key[0] in left_out} if left_out else {}
    place = {number: n for n, number in enumerate(_hard_clauses(grounder))}
    keys = [
        key
        for key, was_there in {**present, **replaced}.items()
        if was_there and key[0] in left_out
    ]
    return _PartialGrounding(
        sorted(place[number] for number in left_out),
        sorted((place[number], constants) for number, constants in keys),
    )


def _atoms_of(rows: Iterable[Row]) -> dict[GroundAtom, None]:
    return {atom: None for row in rows for atom in row.atoms}


def _fact_text(atom: GroundAtom, is_true: bool) -> str:
    return f"{'' if is_true else '!'}{show_ground_atom(*atom)}"


def _weighted_by_evidence(grounder: IncrementalGrounder) -> list[int]:
    """Return the clauses, by number, of rules whose weights come from evidence."""
    rules = grounder.plan.program.rules
    return [
        number
        for number in grounder.weights
        if rules[grounder.clause(number).rule].weight_variable is not None
    ]


def _weigh(
    grounder: IncrementalGrounder, clauses: Sequence[int], atoms: Iterable[GroundAtom]
) -> None:
    """Give clauses the weights that are numbers of atoms. Raises DataError for what is no number."""
    for atom in atoms if clauses else ():
        for constant in numbers_in(grounder.plan.program, *atom):
            for number in clauses:
                _, table = grounder.weights[number]
                table[constant,] = float(constant) * table[UNIT,]
