"""A run over one world that stays: each record changes its facts, and the certified answer follows.

It has the interface of a learner, so that sources, sinks, checkpoints, dead letters, metrics and servers
are those of any run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from math import isnan, nan
from typing import Any, TypedDict

from onlinesrl.core.background import Background
from onlinesrl.core.errors import (
    DataError,
    ExampleError,
    Infeasible,
    ModelError,
    OnlinesrlError,
    Unsolved,
    UsageError,
)
from onlinesrl.core.example import (
    Atom,
    Atoms,
    Constant,
    Example,
    ValuedAtom,
    arguments,
    show_ground_atom,
)
from onlinesrl.core.explain.counterfactual import DEFAULTS, CounterfactualQuery
from onlinesrl.core.explain.explanation import Explanation, first_of
from onlinesrl.core.io.restoring import Natural, converted
from onlinesrl.core.learner import Alternative, Estimate, Item, Learner, Outcome, Prediction, Tally
from onlinesrl.core.online.parameter_mixing import State
from onlinesrl.logic.asserted_facts import FactChanges
from onlinesrl.logic.atom_index import Change, GroundAtom, add_changes, same_value
from onlinesrl.logic.ground_world import FactSchema, GroundWorld
from onlinesrl.logic.transactional_world import TransactionalWorld
from onlinesrl.runs.keyed_world import BACKGROUND, UNKEYED, KeyedWorld, Parts, merged
from onlinesrl.stream.world_changes import (
    ChangedAtom,
    ChangeDecoder,
    Truncation,
    WorldChange,
    WorldStep,
)

WORLD = "world"
"""The key of the world's state in a checkpoint of the learner."""
AGE = 100
"""The answer's weights are renewed when they lack one in so many updates."""
PART = 500
"""The most open atoms of the part of a world in which truth is learned from."""


class _Saved(TypedDict):
    """The state of a world in a checkpoint, beside that of its learner."""

    facts: dict[str, Any]
    seen: Natural
    current: Natural


class WorldLearner:
    """A world of facts under a model, and the ``learner`` of its weights.

    ``ground`` makes a world without facts, with the weights that the learner has now; ``schema`` says what
    its facts may be. Changes under which the hard rules cannot all hold are refused, or wait:
    ``keep_conflicts``. Answers have the ``best`` states of the world.
    """

    no_target = (
        "since their atoms were no targets; to learn from one, list it in the `query` of its record"
    )
    """Why a label was not learned from."""

    def __init__(
        self,
        ground: Callable[[], GroundWorld],
        schema: FactSchema,
        keep_conflicts: bool,
        learner: Learner,
        background: Background,
        best: int = 1,
    ) -> None:
        self.learner, self.best = learner, best
        self.valued, self.exclusive = learner.valued, learner.exclusive
        self.slowest, self.update = learner.slowest, learner.update
        self.temperature = learner.temperature
        self.seen = self.current = 0
        """Of updates of the weights, ``current`` is how many the answer has."""

        def new() -> KeyedWorld:
            return KeyedWorld(TransactionalWorld(ground(), keep_conflicts), schema)

        self._new = new
        self._world = self._new()
        self._figures = self._present_figures()
        """Of the world after the last step that ended."""
        self._background = background
        decoder = ChangeDecoder()
        self.decode, self.decode_all = decoder.decode, decoder.decode_all

    # the step ------------------------------------------------------------------------------------

    def step(self, items: Sequence[Item], learning: bool = True) -> tuple[list[Outcome], Tally]:
        """Change the world by each item in turn, and learn from its truth. A bad one changes nothing."""
        outcomes, tally = list[Outcome](), Tally()
        for item in items:
            try:
                prediction, learned = self._change(item)
                outcomes.append(Outcome(prediction))
                tally += replace(learned, predicted=1, certified=int(bool(prediction.certified)))
            except (ExampleError, DataError, ModelError, Infeasible, Unsolved) as error:
                kind = error.kind if isinstance(error, ExampleError) else _KINDS[type(error)]
                tally += Tally(errors={kind: 1}, unsolved=int(isinstance(error, Unsolved)))
                text = str(error).partition("\n")[0]
                outcomes.append(Outcome(None, text, isinstance(error, Unsolved)))
            self.seen += 1
        return outcomes, tally

    def _change(self, item: Item) -> tuple[WorldStep, Tally]:
        """Apply a change, and learn from it. Raises errors, and then nothing has changed."""
        if isinstance(item, ExampleError):
            raise item
        assert isinstance(item, WorldChange)
        if not self._background:
            return self._changed(item, {})
        background, self._background = self._background, Background()
        try:
            facts = self._world.atoms(BACKGROUND, "evidence", background.atoms)
            with self._world.record():
                begun = self._world.change(BACKGROUND, merged(facts))
            return self._changed(item, begun)
        except OnlinesrlError:  # the next record is then the first
            self._world, self._background = self._new(), background
            raise

    def _changed(
        self, item: WorldChange, begun: dict[GroundAtom, Change]
    ) -> tuple[WorldStep, Tally]:
        """Do what ``_change`` does, and also tell what the background has ``begun`` to change."""
        parts = self._world.parts(item)
        before = _copied(self.learner.save()) if parts.labels else None
        size = len(parts.facts) + len(parts.labels)
        with self.slowest.timing(item.id, size, lambda: "step"):
            try:
                with self._world.record():
                    changed, tally, not_learned = self._apply(item, parts)
            except OnlinesrlError:
                if before is not None:
                    self.learner.restore(*before)
                raise
        add_changes(begun, changed)
        certificate = self._world.ground.certificate
        self._figures = self._present_figures()
        prediction = WorldStep(
            id=item.id,
            predicted={},
            score=certificate.score,
            certified=certificate.certified,
            group=item.group,
            best=self._next_best(),
            changed=[
                self._told(ChangedAtom(*atom, _rounded(new), _rounded(old)))
                for atom, (old, new) in begun.items()
                if new is not None or old is not None
            ],
            gap=certificate.gap,
            age=self.age,
            conflicts=[conflict.reason for conflict in self._world.conflicts],
            not_learned=[show_ground_atom(*atom) for atom in not_learned],
        )
        return prediction, tally

    def _next_best(self) -> list[Alternative] | None:
        """Return the next best states, where they are asked for and the answer is certified.

        None also where they need too many ground rules, of those that are ground only as far as needed.
        """
        ground = self._world.ground
        certificate = ground.certificate
        if self.best < 2 or not certificate.certified:
            return None
        try:
            others = ground.best_states(self.best)
        except DataError:
            return None
        return [
            Alternative(
                other.rank,
                certificate.score - other.difference,
                other.difference,
                other.certified,
                _rows({atom: None for atom, value in other.values.items() if value}),
                _rows({atom: None for atom, value in other.values.items() if not value}),
            )
            for other in others
        ]

    def _told(self, atom: ChangedAtom) -> ChangedAtom:
        """Return what is told of an atom whose answer changed."""
        return atom

    def _apply(
        self, item: WorldChange, parts: Parts
    ) -> tuple[dict[GroundAtom, Change], Tally, list[GroundAtom]]:
        """Change the world, and learn from the labels of atoms that are open without them.

        Also return the labels of atoms that are neither open nor observed: these are only asserted.
        """
        tally = Tally(routes={"incremental": 1})
        if isinstance(item, Truncation):
            return self._world.clear(), tally, []
        key, facts, labels = parts
        world, ground = self._world, self._world.ground
        present = world.asserted.by(key) if parts.replaces else {}
        changed = dict[GroundAtom, Change]()

        def change(new: FactChanges) -> None:
            whole = world.asserted.replacement(key, new) if parts.replaces else new
            add_changes(changed, world.change(key, whole))

        truth = {atom: value for atom, value in labels.items() if self._is_open(atom)}
        if facts and any(ground.value(x) is None for x in labels):  # these may be targets then
            standing = {atom: x for atom, x in labels.items() if same_value(present.get(atom), x)}
            change(merged([*facts.items(), *standing.items()]))
            truth = {a: x for a, x in labels.items() if a in truth or self._is_open(a)}
            facts = facts if parts.replaces else {}
        not_learned = [atom for atom in labels if atom not in truth and ground.value(atom) is None]
        change(merged([*facts.items(), *labels.items()]))
        world.not_learned += len(not_learned)
        return changed, self._learn(item.id, truth, changed) if truth else tally, not_learned

    @property
    def age(self) -> int:
        """How many updates of the weights the answer lacks."""
        updates: int = self.weights.updates
        return updates - self.current

    def _learn(
        self, name: Constant, truth: Mapping[GroundAtom, float], changed: dict[GroundAtom, Change]
    ) -> Tally:
        """Learn from the truth of atoms that were open, in the part of the world around them.

        Then renew the weights of the answer if they are too old, and add what that changes to ``changed``.
        Raises ExampleError and Unsolved where the truth cannot be learned from.
        """
        example = self._example(name, truth, changed)
        outcomes, tally = self.learner.step([example])
        if outcomes[0].prediction is None:
            reason = (
                f"truth: {outcomes[0].error}; nothing of the record is asserted (to assert it without "
                "learning from it, give it as evidence)"
            )
            if outcomes[0].unsolved:
                raise Unsolved(reason)
            raise ExampleError(reason, next(iter(tally.errors)))
        if self.age > self.weights.updates // AGE:
            add_changes(changed, self._world.set_weights(self.weights.placed()))
            self.current = self.weights.updates
        return tally

    def _example(
        self, name: Constant, truth: Mapping[GroundAtom, float], moved: Mapping[GroundAtom, Change]
    ) -> Example:
        """Return the part of the world in which truth is learned from, as an example.

        Its open atoms are those with a truth, those whose answer it ``moved``, and from there all that
        ground rules connect with them, as far as they are at most ``PART``; others, also of their groups,
        have their present values, as evidence. So it is exact where the component has at most so many.
        """
        ground = self._world.ground
        frontier = [*truth, *(atom for atom in moved if atom not in truth and self._is_open(atom))]
        part, evidence = dict[GroundAtom, None](), dict[GroundAtom, float]()
        while frontier:
            atoms, beside = ground.neighbourhood(frontier)
            opened = [atom for atom in atoms if atom in truth or self._is_open(atom)]
            part |= dict.fromkeys(opened)
            evidence |= beside | {atom: ground.value(atom) or 0.0 for atom in atoms}
            frontier = [atom for atom in beside if atom not in part and self._is_open(atom)]
            if len(part) + len(frontier) > PART:
                break
        return Example(
            id=name,
            evidence=_rows({atom: value for atom, value in evidence.items() if atom not in part}),
            truth=_rows(truth),
            query=_rows(part),
            unlabelled=_rows(dict.fromkeys(atom for atom in part if self._is_open(atom))),
        )

    def _is_open(self, atom: GroundAtom) -> bool:
        """Tell whether an atom is open: it has a value and is no fact."""
        fact = self._world.ground.fact(atom)
        return isnan(fact) if fact is not None else self._world.ground.value(atom) is not None

    def probabilities(
        self, example: Example, formulas: Sequence[str], given: Sequence[str] = ()
    ) -> dict[str, Estimate]:
        """See ``Learner.probabilities``."""
        raise UsageError("formulas: a world has no probabilities of formulas")

    def predict(
        self, items: Sequence[Item], marginals: bool = False, best: int | None = None
    ) -> list[Outcome]:
        """Return the values of the atoms that each item lists in ``query``; without it, those of all.

        These also have the next best states.
        """
        if marginals or best is not None:
            raise UsageError("a run's world has no marginals, and as many states as inference.best")
        outcomes = []
        for item in items:
            try:
                outcomes.append(Outcome(self._answer(item)))
            except (ExampleError, DataError) as error:
                outcomes.append(Outcome(None, str(error)))
        return outcomes

    def _answer(self, item: Item) -> Prediction:
        if isinstance(item, ExampleError):
            raise item
        assert isinstance(item, WorldChange)
        values = self._world.ground.values() if item.query is None else self._values(item.query)
        predicted: Atoms = {}
        for (name, constants), value in values:
            predicted.setdefault(name, []).append(ValuedAtom([*constants], round(value, 6)))
        certificate = self._world.ground.certificate
        best = self._next_best() if item.query is None else None
        return Prediction(item.id, predicted, certificate.score, certificate.certified, best=best)

    def _values(self, query: Atoms) -> Iterator[tuple[GroundAtom, float]]:
        """Yield atoms with their values. Raises DataError, ExampleError."""
        for name, rows in query.items():
            self._world.schema.check_name(name, "query")
            for row in rows:
                atom = name, tuple(map(str, arguments(row)))
                value = self._world.ground.value(atom)
                if value is None:
                    text = show_ground_atom(*atom)
                    raise ExampleError(f"query: {text} is neither observed nor a target")
                yield atom, value

    def explain(
        self, example: Example, atom: Atom | None = None, query: CounterfactualQuery = DEFAULTS
    ) -> Explanation:
        """Return why an atom has its value. Raises UsageError for ``candidates``."""
        if query.candidates is not None:
            raise UsageError("change: an explanation of a world changes no facts; leave it out")
        if atom is None:
            atom = first_of(self.least_certain(example, 1), example)
        return self._explained(atom, query.tries)

    def _explained(self, atom: Atom, tries: int) -> Explanation:
        """Explain an atom of the answer, which is changed and solved again at most ``tries`` times."""
        explanation: Explanation = self._world.ground.explain(atom)
        return explanation

    def least_certain(self, example: Example, most: int) -> list[Atom]:
        """Return the open atoms whose values are nearest to 1/2."""
        values = sorted(
            self._world.ground.values(), key=lambda entry: (abs(entry[1] - 0.5), entry[0])
        )
        return [atom for atom, _ in values[:most]]

    def words(self, evidence: Atoms) -> dict[str, str]:
        """Return none."""
        return {}

    def certificate(self) -> dict[str, float | None]:
        """Return the number of facts, what changes of them have changed so far, and the gap of the answer."""
        return {**self.learner.certificate(), **self._figures}

    def _present_figures(self) -> dict[str, float | None]:
        return {
            "facts": len(self._world.asserted),
            "changed_atoms": self._world.changed,
            **({"not_learned": self._world.not_learned} if self._world.not_learned else {}),
            **({"conflicts": len(self._world.conflicts)} if self._world.keep_conflicts else {}),
            "touched_rules": self._world.touched,
            "gap": self._world.ground.certificate.gap,
        }

    # checkpoints ---------------------------------------------------------------------------------

    def save(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """See ``Checkpointable``."""
        header, arrays = self.learner.save()
        facts, world_arrays = self._world.save()
        saved = _Saved(facts=facts, seen=self.seen, current=self.current)
        return {**header, WORLD: saved}, arrays | world_arrays

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
        """See ``Checkpointable``."""
        saved = converted(header.get(WORLD), _Saved)
        self.learner.restore({key: header[key] for key in header if key != WORLD}, arrays)
        self._world.restore(saved["facts"], arrays)
        self.seen, self.current = saved["seen"], saved["current"]
        self._figures = self._present_figures()
        if self._world.asserted.by(BACKGROUND):
            self._background = Background()

    # the weights' part ---------------------------------------------------------------------------

    @property
    def weights(self) -> Any:
        """The weights of the rules."""
        return self.learner.weights

    @property
    def model_text(self) -> str:
        """The model as text."""
        return self.learner.model_text

    def describe(self) -> str:
        """Describe the size of the model."""
        return self.learner.describe()

    def weights_text(self, averaged: str, by: str) -> str:
        """Return a file of weights."""
        return self.learner.weights_text(averaged, by)

    def compile(self) -> float:
        """Compile the kernels of the learner, and those that a change of a small world needs."""
        seconds, started = self.learner.compile(), time.perf_counter()
        world = self._new()
        schema = world.schema
        facts: FactChanges = {
            (name, ("0",) * arity): nan if name in schema.query else 1.0
            for name, arity in schema.arities.items()
            if schema.listed or name not in schema.query
        }
        with suppress(DataError, ModelError, Infeasible, Unsolved), world.record():
            world.change(UNKEYED, facts)
        return seconds + time.perf_counter() - started

    def advice(self, examples: Sequence[Example]) -> list[str]:
        """Return none."""
        return []

    def complaints(self) -> list[str]:
        """See ``Learner.complaints``; the learner of the weights has only seen parts of the world."""
        number = self._world.not_learned
        text = (
            f"labels that were asserted as facts and not learned from: {number}, {self.no_target}"
        )
        return [text] if number else []


_KINDS = {DataError: "schema", ModelError: "schema", Infeasible: "infeasible", Unsolved: "unsolved"}


def _copied(saved: State) -> State:
    """Return a saved state that does not change with its learner."""
    header, arrays = saved
    return header, {name: array.copy() for name, array in arrays.items()}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


def _rows(atoms: Mapping[GroundAtom, float | None]) -> Atoms:
    """Return atoms as examples have them; None: without a value."""
    rows: Atoms = {}
    for (name, constants), value in atoms.items():
        args: list[Constant] = [*constants]
        rows.setdefault(name, []).append(args if value is None else ValuedAtom(args, value))
    return rows
