"""A run over one world that stays: each record changes its facts, and the certified answer follows.

It has the interface of a learner, so that sources, sinks, checkpoints, dead letters, metrics and servers
are those of any run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isnan, nan
from typing import Any, Literal, TypeAlias, TypedDict, TypeVar

import numpy as np

from onlinesrl.core.background import Background
from onlinesrl.core.errors import (
    DataError,
    ExampleError,
    Infeasible,
    ModelError,
    Unsolved,
    UsageError,
)
from onlinesrl.core.example import (
    Atoms,
    Example,
    ValuedAtom,
    arguments,
    number_of,
    show_ground_atom,
)
from onlinesrl.core.explain.counterfactual import DEFAULTS, CounterfactualQuery
from onlinesrl.core.explain.explanation import Atom, Explanation
from onlinesrl.core.interrupt import Interrupted
from onlinesrl.core.io.restoring import Misfit, Natural, converted
from onlinesrl.core.language import Language, Program
from onlinesrl.core.learner import Item, Learner, Outcome, Prediction, Tally
from onlinesrl.core.online.parameter_mixing import State
from onlinesrl.logic.asserted_facts import AssertedFacts, Assertions, FactChanges
from onlinesrl.logic.atom_index import Change, GroundAtom
from onlinesrl.logic.ground_world import FactSchema, GroundWorld
from onlinesrl.stream.world_changes import ChangedAtom, ChangeDecoder, WorldChange, WorldStep

UNKEYED = ""
"""The key of facts that no id asserts."""
BACKGROUND = "source.background"
"""The key of background facts."""


RENEWAL = 1000
"""After so many changes the world is noted as it is; a resumed run goes on from there."""
V = TypeVar("V")
TARGET: Literal["target"] = "target"
_Entry: TypeAlias = tuple[str, tuple[str, ...], float | Literal["target"] | None]
_Steps: TypeAlias = list[tuple[str, list[_Entry]]]
"""Changes of facts: the key, and predicates, constants and values; None: no longer a fact."""


class _Saved(TypedDict):
    """The state of a world in a checkpoint."""

    learner: dict[str, Any]
    asserted: list[Assertions]
    since: _Steps
    seen: Natural
    changed: Natural
    touched: Natural


class WorldLearner(Learner):
    """A world of facts under a model, whose weights a ``learner`` has.

    ``program`` is the model with these weights. ``skip`` is for PSL, see ``psl.query.world``.
    """

    monitor = None
    apart = False

    def __init__(
        self,
        language: Language,
        program: Program,
        query: Sequence[str],
        skip: bool,
        learner: Learner,
        background: Background,
    ) -> None:
        self.learner = learner
        self.valued = learner.valued
        self.slowest, self.update = learner.slowest, learner.update
        self.quiet: Callable[[], object] = lambda: None
        self.seen = 0
        self.changed = self.touched = 0
        """Sums over all steps: atoms whose answer changed, and ground rules that were ground again."""
        self._schema: FactSchema = language.facts(program, query)
        self._world: GroundWorld = language.world(program, query, skip)
        self._asserted = AssertedFacts()
        self._background = background
        self._noted: list[Assertions] = []
        self._arrays: Mapping[str, Any] = {}
        self._since: _Steps = []
        """The world of the last renewal, and the changes of facts since then."""

    # the step ------------------------------------------------------------------------------------

    def step(self, items: Sequence[Item], learning: bool = True) -> tuple[list[Outcome], Tally]:
        """Change the world by each item in turn. A bad one changes nothing."""
        outcomes, errors = list[Outcome](), Counter[str]()
        for item in items:
            try:
                outcomes.append(Outcome(self._change(item)))
            except Interrupted:
                break
            except (ExampleError, DataError, ModelError, Infeasible, Unsolved) as error:
                kind = error.kind if isinstance(error, ExampleError) else _KINDS[type(error)]
                errors[kind] += 1
                text = str(error).partition("\n")[0]
                outcomes.append(Outcome(None, text, isinstance(error, Unsolved)))
            self.seen += 1
        predictions = [outcome.prediction for outcome in outcomes if outcome.prediction is not None]
        certified = sum(prediction.certified for prediction in predictions)
        return outcomes, _tally(len(predictions), certified, errors)

    def _change(self, item: Item) -> WorldStep:
        """Apply a change; return what it changed in the answer. Raises errors, and then nothing changed."""
        if isinstance(item, ExampleError):
            raise item
        assert isinstance(item, WorldChange)
        if self._background:
            facts = self._facts("evidence", self._background.atoms)
            self._assert(BACKGROUND, dict(facts))
            self._background = Background()
        key, changes = self._changes_of(item)
        with self.slowest.timing(item.id, len(changes), lambda: "step"):
            changed = self._assert(key, changes)
        certificate = self._world.certificate
        return WorldStep(
            id=item.id,
            predicted={},
            score=certificate.score,
            certified=certificate.certified,
            group=item.group,
            changed=[
                ChangedAtom(name, constants, _rounded(new), _rounded(old))
                for (name, constants), (old, new) in changed.items()
            ],
            gap=certificate.gap,
        )

    def _assert(self, key: str, changes: FactChanges) -> Mapping[GroundAtom, Change]:
        """Change what a key asserts; return the atoms whose answer changed."""
        facts = self._asserted.consequences(key, changes)
        changed = self._world.apply(facts) if facts else {}
        self._asserted.change(key, changes)
        self.changed += len(changed)
        self.touched += self._world.touched if facts else 0
        entries: list[_Entry] = [
            (*atom, TARGET if value is not None and isnan(value) else value)
            for atom, value in changes.items()
        ]
        self._since.append((key, entries))
        if len(self._since) == RENEWAL:
            self._renew()
        return changed

    def _renew(self) -> None:
        """Note the present world as the one from which a resumed run goes on.

        The world itself goes on as a resumed one. So it does not depend on when checkpoints are written.
        """
        _, self._arrays = self._world.save()
        self._noted, self._since = self._asserted.save(), []

    def _changes_of(self, change: WorldChange) -> tuple[str, FactChanges]:
        """Return a key, and how what it asserts changes. Raises DataError, ExampleError."""
        for part in ("truth", "asked", "unlabelled"):
            if getattr(change, part) is not None:
                raise ExampleError(f"{part}: a world takes evidence and query", "schema")
        if change.keyed:
            evidence = self._facts("evidence", change.evidence)
            facts = _once([*evidence, *self._facts("query", change.query)])
            return str(change.id), self._asserted.replacement(str(change.id), facts)
        parts = {"add": change.add, "set": change.set, "query": change.query}
        rows = [row for part, atoms in parts.items() for row in self._facts(part, atoms)]
        removed = [atom for atom, _ in self._facts("remove", change.remove)]
        return UNKEYED, _once([*rows, *((atom, None) for atom in removed)])

    def _facts(self, part: str, atoms: Atoms | None) -> Iterator[tuple[GroundAtom, float]]:
        """Yield the atoms of a part of a change, with their values; those of targets are NaN."""
        old = {} if part == "evidence" else self._asserted.by(UNKEYED)
        for name, rows in (atoms or {}).items():
            self._schema.check_name(name, part)
            for row in rows:
                constants, value = arguments(row), number_of(row)
                self._schema.check_arity(part, name, constants)
                atom = name, tuple(map(str, constants))
                self._schema.check_change(part, atom, value, old.get(atom))
                yield atom, nan if part == "query" else 1.0 if value is None else value

    def predict(self, items: Sequence[Item], marginals: bool = False) -> list[Outcome]:
        """Return the values of the atoms that each item lists in ``query``; without it, those of all."""
        if marginals:
            raise UsageError("a world has no marginals")
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
        values = self._world.values() if item.query is None else self._values(item.query)
        predicted: Atoms = {}
        for (name, constants), value in values:
            predicted.setdefault(name, []).append(ValuedAtom([*constants], round(value, 6)))
        certificate = self._world.certificate
        return Prediction(item.id, predicted, certificate.score, certificate.certified)

    def _values(self, query: Atoms) -> Iterator[tuple[GroundAtom, float]]:
        """Yield atoms with their values. Raises DataError, ExampleError."""
        for name, rows in query.items():
            self._schema.check_name(name, "query")
            for row in rows:
                atom = name, tuple(map(str, arguments(row)))
                value = self._world.value(atom)
                if value is None:
                    text = show_ground_atom(*atom)
                    raise ExampleError(f"query: {text} is neither observed nor a target")
                yield atom, value

    def explain(
        self, example: Example, atom: Atom, query: CounterfactualQuery = DEFAULTS
    ) -> Explanation:
        """Return why an atom has its value."""
        return self._world.explain(atom)

    def least_certain(self, example: Example, most: int) -> list[Atom]:
        """Return the open atoms whose values are nearest to 1/2."""
        values = sorted(self._world.values(), key=lambda entry: (abs(entry[1] - 0.5), entry[0]))
        return [atom for atom, _ in values[:most]]

    def words(self, evidence: Atoms) -> dict[str, str]:
        """Return none."""
        return {}

    def certificate(self) -> dict[str, float | None]:
        """Return the number of facts, what changes of them have changed so far, and the gap of the answer."""
        return {
            **self.learner.certificate(),
            "facts": len(self._asserted),
            "changed_atoms": self.changed,
            "touched_rules": self.touched,
            "gap": self._world.certificate.gap,
        }

    # checkpoints ---------------------------------------------------------------------------------

    def save(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """See ``Checkpointable``."""
        header, arrays = self.learner.save()
        saved = _Saved(
            learner=header,
            asserted=self._noted,
            since=self._since,
            seen=self.seen,
            changed=self.changed,
            touched=self.touched,
        )
        return dict(saved), arrays | {f"world_{name}": a for name, a in self._arrays.items()}

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
        """See ``Checkpointable``."""
        saved = converted(header, _Saved)
        self.learner.restore(saved["learner"], arrays)
        try:
            self._check(saved)
            self._asserted.restore(saved["asserted"])
            self._noted = saved["asserted"]
            self._arrays = {
                name.removeprefix("world_"): array
                for name, array in arrays.items()
                if name.startswith("world_")
            }
            if self._noted:
                self._world.resume(self._asserted.facts(), self._arrays)
            for key, changes in saved["since"]:
                self._assert(
                    key,
                    {
                        (name, args): nan if value == TARGET else value
                        for name, args, value in changes
                    },
                )
        except (DataError, ModelError, Infeasible, Unsolved) as error:
            raise Misfit(str(error)) from None
        self.seen, self.changed, self.touched = saved["seen"], saved["changed"], saved["touched"]
        if self._asserted.by(BACKGROUND):
            self._background = Background()

    def _check(self, saved: _Saved) -> None:
        """Raise DataError where the facts of a checkpoint are none of the model's."""
        facts: list[_Entry] = [entry for _, entries in saved["since"] for entry in entries]
        for name, args, values, targets in saved["asserted"]:
            facts += [(name, args, value) for _, value in values]
            facts += [(name, args, TARGET) for _ in targets]
        for name, args, value in facts:
            self._schema.check_name(name, "facts")
            self._schema.check_arity("facts", name, args)
            if value == TARGET:
                self._schema.check_change("query", (name, args), None, None)
            elif value is not None:
                self._schema.check_change("facts", (name, args), value, None)

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

    def start(self, program: Any) -> list[str]:
        """Refuse: a world is made with its weights."""
        raise NotImplementedError

    def compile(self) -> float:
        """Compile nothing: kernels are compiled at the first step that needs them."""
        return 0.0

    def decode(self, line: bytes) -> Example:
        """Return the change of a line. Raises ExampleError."""
        return ChangeDecoder().decode(line)

    def decode_all(self, lines: Sequence[bytes]) -> list[Example | ExampleError]:
        """Return the change of each line, or why it is none."""
        return ChangeDecoder().decode_all(lines)

    def advice(self, examples: Sequence[Example]) -> list[str]:
        """Return none."""
        return []

    def ahead(self, items: Sequence[Item]) -> None:
        """Prepare nothing."""

    def turn(self, items: Sequence[Item]) -> None:
        """Take nothing."""

    def gain(self, start: State) -> Any:
        """Refuse: a world is not cut into shards."""
        raise NotImplementedError

    def merge(self, gains: Sequence[Any], by_dual: bool) -> float:
        """Refuse: a world is not cut into shards."""
        raise NotImplementedError


_KINDS = {
    DataError: "schema",
    ModelError: "schema",
    Infeasible: "infeasible",
    Unsolved: "unsolved",
}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


def _once(facts: Sequence[tuple[GroundAtom, V]]) -> dict[GroundAtom, V]:
    """Return facts by atom. Raises DataError where one is there twice."""
    by_atom = dict(facts)
    if len(by_atom) < len(facts):
        counts = Counter(atom for atom, _ in facts)
        twice = next(atom for atom in counts if counts[atom] > 1)
        raise DataError(f"{show_ground_atom(*twice)} is changed twice")
    return by_atom


def _tally(good: int, certified: int, errors: Mapping[str, int]) -> Tally:
    """Return the counts of steps, none of which is labelled."""
    return Tally(
        counts=np.zeros(7, np.int64),
        labelled=0,
        predicted=good,
        certified=certified,
        audited=0,
        unsolved=errors.get("unsolved", 0),
        routes={"incremental": good} if good else {},
        by_class={},
        errors=errors,
    )
