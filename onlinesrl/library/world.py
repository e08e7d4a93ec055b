"""A world that stays: facts come and go, and the certified joint answer follows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import islice
from math import isnan, nan
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

from onlinesrl.core.errors import DataError, OnlinesrlError, UsageError
from onlinesrl.core.example import Constant, show_ground_atom
from onlinesrl.core.explain.explanation import Explanation
from onlinesrl.core.io import checkpoint_file
from onlinesrl.core.io.restoring import Misfit, converted, restoring
from onlinesrl.core.language import language_of
from onlinesrl.core.version import __version__
from onlinesrl.library.explain import AnyAtom, atom_of
from onlinesrl.library.inference import Answer
from onlinesrl.library.inputs import Given, atoms
from onlinesrl.library.learner import section, validated
from onlinesrl.library.model import Model, model_of, names_of
from onlinesrl.library.notebook import table_html
from onlinesrl.library.tables import Table
from onlinesrl.logic.atom_index import Change, GroundAtom
from onlinesrl.logic.ground_world import Exchange, GroundRule, StateCertificate
from onlinesrl.logic.tables import with_names
from onlinesrl.logic.transactional_world import TransactionalWorld
from onlinesrl.logic.waiting_changes import Conflict, Parts

if TYPE_CHECKING:
    from onlinesrl.psl.inference.incremental_admm import Certificate


_Listed: TypeAlias = tuple[str, tuple[str, ...], float | None]
"""A predicate, the constants and the value of a fact; None: a target."""
SHOWN = 20
"""So many changed atoms are shown as text."""
WHOLE_NUMBERS = 10_000
"""So many whole numbers are remembered before those that went are forgotten."""


class _Saved(TypedDict):
    """The header of the file of a world."""

    version: str
    language: str
    model: str
    dialect: str
    query: list[str]
    targets: str
    inference: dict[str, Any] | None
    whole_numbers: dict[str, int]
    facts: list[_Listed]
    keep_conflicts: bool
    conflicts: list[tuple[list[_Listed], list[tuple[str, tuple[str, ...]]], str, Parts]]
    """Facts that wait, atoms that wait to go, why, and on what that depends."""


class Delta:
    """What a step changed: the atoms whose answer is another, and the certificate of the new answer.

    ``changed`` has the old and the new value by predicate and atom; None: there is none. ``conflicts`` are
    those of the world, see ``World``. ``ground_rules`` counts the ``exchanges`` when it is asked for.
    """

    def __init__(
        self,
        changed: Mapping[str, Mapping[tuple[Constant, ...], Change]],
        certificate: Certificate | StateCertificate,
        conflicts: Sequence[str] = (),
        exchanges: Sequence[Exchange] = (),
    ):
        self.changed = changed
        self.certificate = certificate
        self.conflicts = (*conflicts,)
        self._exchanges = exchanges

    @cached_property
    def table(self) -> Table:
        """A row for each atom: its text, its old value and its new one."""
        rows = [
            (show_ground_atom(name, atom), *values)
            for name, by_atom in self.changed.items()
            for atom, values in by_atom.items()
        ]
        return Table(dict(zip(("atom", "old", "new"), zip(*rows, strict=True), strict=False)))

    @cached_property
    def ground_rules(self) -> Table:
        """A row for each ground rule that came or went: its text, its weight, and how many came.

        The weight of a hard rule is None. Where more went than came, the count is negative. A ground rule
        that has only been given another weight, by ``set_weights`` or ``set_model``, is not among them.
        """
        counts = Counter[GroundRule]()
        for came, went in self._exchanges:
            counts.update(came())
            counts.subtract(went())
        rows = [(text, weight, n) for (text, weight), n in counts.items() if n]
        rows.sort(key=lambda row: (row[0], row[1] or 0.0))
        return Table(dict(zip(("rule", "weight", "count"), zip(*rows, strict=True), strict=False)))

    def __len__(self) -> int:
        return sum(map(len, self.changed.values()))

    def __repr__(self) -> str:
        state = "certified" if self.certificate.certified else "not certified"
        atoms = "atom" if len(self) == 1 else "atoms"
        number = len(self.conflicts)
        conflicts = f", {number:,} conflict{'s' * (number != 1)}" if number else ""
        return f"<Delta: {len(self):,} {atoms} changed, {state}{conflicts}>"

    def __str__(self) -> str:
        rows = islice(self.table.rows(), SHOWN)
        lines = [f"{atom}: {_text(old)} -> {_text(new)}" for atom, old, new in rows]
        more = [f"and {len(self) - SHOWN:,} more, all in `table`"] if len(self) > SHOWN else []
        return "\n".join([repr(self)[1:-1], *lines, *more])

    def _repr_html_(self) -> str:
        return table_html(repr(self)[1:-1], ["atom", "old", "new"], [*self.table.rows()])


class World:
    """Facts that come and go under a model, and the certified values of its targets.

    ``query`` names the predicates that may have targets. In Markov logic all their atoms are targets that
    no fact decides, over the constants of the facts and the model, or with ``targets="listed"`` only those
    that ``apply`` lists; their values, 0 or 1, are the most probable state. In PSL targets are listed. A
    ground rule with an atom that is neither observed nor a target is an error there, and left out with
    ``targets="skip"``. Raises UsageError.

    In Markov logic ``inference`` is the name of an engine or what the section ``inference`` of a run may say,
    for components that are too wide for elimination. A search that ends at its limit leaves the best state so
    far and its gap; ``{"max_work": None}`` goes on to the proof.

    A change under which the hard rules cannot all hold is refused. With ``keep_conflicts`` it is accepted,
    and waits: the values are the best ones without it, until another change lets all hard rules hold.

    Each ``apply`` is one step, all or nothing. It grounds only what the changed facts touch, and solves
    only where the answer may move; the answer is as good as one from a cold start.

    >>> model = Model("1: Knows(A, B) & Smokes(A) -> Smokes(B) ^2   0.1: !Smokes(A) ^2", "psl")
    >>> world = World(model, "Smokes")
    >>> _ = world.apply(add={"Knows": [["Anna", "Bob"]]}, query={"Smokes": ["Anna", "Bob"]})
    >>> print(world.apply(set={"Smokes": {"Anna": 1.0}}))
    Delta: 2 atoms changed, certified
    Smokes(Anna): 0.000 -> none
    Smokes(Bob): 0.000 -> 0.909
    """

    def __init__(
        self,
        model: Model | str,
        query: str | Sequence[str],
        *,
        targets: str | None = None,
        inference: str | Mapping[str, Any] | None = None,
        keep_conflicts: bool = False,
    ) -> None:
        model = model_of(model, "psl")
        self._model, self._is_reweighed = model, False
        self._names = [*names_of(query, "query")]
        choices = model.language.targets
        self._targets = targets or choices[0]
        if self._targets not in choices:
            expected = f"expected {' or '.join(map(repr, choices))} in {model.language.name}"
            raise UsageError(f"targets is {targets!r}, {expected}")
        self._schema = model.language.facts(model.program, self._names, self._targets)
        for name in self._names:
            self._schema.check_name(name, "query")
        if inference is not None and model.language is language_of(".psl"):
            raise UsageError(
                "inference is for worlds of Markov logic; one of PSL has its own engine"
            )
        chosen = validated(model.language.engines, "inference", section(inference or {}, "engine"))
        self._inference = None if inference is None else chosen.model_dump(mode="json")
        self._best: int = getattr(chosen, "best", 1)
        world = model.language.world(model.program, self._names, self._targets, chosen)
        self._world = TransactionalWorld(world, keep_conflicts)
        self._whole_numbers = dict[str, int]()
        self._most_numbers = WHOLE_NUMBERS

    def __reduce__(self) -> Any:
        """Refuse to be copied or pickled: parts of a world share arrays, those of a copy would not.

        Raises TypeError.
        """
        raise TypeError("a world is not copied or pickled; save it, and load what was saved")

    @property
    def model(self) -> Model:
        """The model with its present weights."""
        if self._is_reweighed:
            kind, file = self._model.language.suffix[1:], self._model.file
            self._model, self._is_reweighed = Model(self._world.text, kind, file=file), False
        return self._model

    @property
    def conflicts(self) -> tuple[str, ...]:
        """Why changes wait: for each a smallest conflict of ground hard rules and facts."""
        return tuple(conflict.reason for conflict in self._world.conflicts)

    def _delta(self, changed: Mapping[GroundAtom, Change], exchanges: Sequence[Exchange]) -> Delta:
        return Delta(self._by_name(changed), self.certificate, self.conflicts, exchanges)

    @property
    def certificate(self) -> Certificate | StateCertificate:
        """The certificate of the present answer."""
        certificate: Certificate | StateCertificate = self._world.certificate
        return certificate

    def apply(
        self,
        add: Given | None = None,
        remove: Given | None = None,
        set: Given | None = None,
        query: Given | None = None,
    ) -> Delta:
        """Change facts, in one step, and return what that changes in the answer.

        ``add`` lists observed atoms that are new, ``set`` observed atoms with their values, new or not, and
        ``query`` targets, which may have been observed; a value not given is 1. ``remove`` lists atoms that
        go, observed or target. Atoms are given as for ``infer``.

        Raises DataError for a bad change, ExampleError for what is no atom, ModelError where a rule cannot
        be ground, and Infeasible, which names a smallest conflict, where the hard rules cannot all hold. Then
        nothing has changed.
        """
        changes = dict[GroundAtom, float | None]()
        numbers = dict[str, int]()
        parts = {"add": add, "remove": remove, "set": set, "query": query}
        for part, rows in parts.items():
            for atom, value in self._atoms(rows or {}, part, numbers):
                if atom in changes:
                    raise DataError(f"{part}: {show_ground_atom(*atom)} is changed twice")
                self._schema.check_change(part, atom, value, self._world.fact(atom))
                number = 1.0 if value is None else value
                changes[atom] = {"remove": None, "query": nan}.get(part, number)
        new = [text for text in numbers if text not in self._whole_numbers]
        self._whole_numbers |= numbers  # before the change, so that no interrupt comes between
        exchanges = list[Exchange]()
        try:
            changed = self._world.apply(changes, exchanges)
        except BaseException:
            for text in new:
                del self._whole_numbers[text]
            raise
        delta = self._delta(changed, exchanges)
        if len(self._whole_numbers) > self._most_numbers:
            self._forget_numbers()
        return delta

    def _forget_numbers(self) -> None:
        """Forget the whole numbers that neither facts nor answers have any more."""
        atoms = (*self._world.facts(), *(atom for atom, _ in self._world.values()))
        constants = {text for _, arguments in atoms for text in arguments}
        numbers = self._whole_numbers.items()
        self._whole_numbers = {text: number for text, number in numbers if text in constants}
        self._most_numbers = max(WHOLE_NUMBERS, 2 * len(self._whole_numbers))

    def set_weights(self, weights: Model | str) -> Delta:
        """Give all rules the weights of a file of weights, and return what that changes in the answer.

        ``weights`` is the file, as ``Model.read`` reads it, or its text: what a run or ``learn`` wrote, or
        ``OnlineLearner.weights_text()``. Nothing is ground again, all that the weights touch is solved
        again. Raises DataError where weights and rules do not fit; then nothing has changed.
        """
        exchanges = list[Exchange]()
        placed = self._world.weights_of(self._read(weights).program)
        changed = self._world.set_weights(placed, exchanges)
        self._is_reweighed = True
        return self._delta(changed, exchanges)

    def set_model(self, model: Model | str) -> Delta:
        """Go on under another model, and return what that changes in the answer.

        Only rules that are new are ground; rules that the model does not have go. Raises DataError for a
        fact that does not fit the model, and what ``apply`` raises. Then nothing has changed.
        """
        model = self._read(model)
        model.language.check_trained(Path(model.file), model.program)
        schema = model.language.facts(model.program, self._names, self._targets)
        for name in self._names:
            schema.check_name(name, "query")
        for (name, constants), value in self._world.facts().items():
            if not schema.is_fact(name, constants, None if isnan(value) else value):
                text = show_ground_atom(name, constants)
                raise DataError(f"the world has {text}, which is no fact of the model")
        exchanges = list[Exchange]()
        changed = self._world.set_model(model.program, exchanges)
        self._model, self._schema, self._is_reweighed = model, schema, False
        return self._delta(changed, exchanges)

    def _read(self, model: Model | str) -> Model:
        language = self._model.language
        if isinstance(model, str):
            return Model(model, language.suffix[1:])
        if model.language is not language:
            raise UsageError(f"expected a model in {language.name}, not in {model.language.name}")
        return model

    def save(self, path: str | Path) -> None:
        """Write the world to a file, whole or not at all. Raises StorageError."""
        self._forget_numbers()
        facts, arrays = self._world.save()
        header = {
            "version": __version__,
            "language": self._model.language.suffix[1:],
            "model": self._world.text,
            "dialect": self._model.dialect if self._world.text == self._model.text else "alchemy",
            "query": self._names,
            "targets": self._targets,
            "inference": self._inference,
            "whole_numbers": self._whole_numbers,
            "facts": _rows(facts),
            "keep_conflicts": self._world.keep_conflicts,
            "conflicts": [
                (_rows(changes), [atom for atom, x in changes.items() if x is None], *why)
                for changes, *why in self._world.conflicts
            ],
        }
        checkpoint_file.write(Path(path), 1, header, arrays)

    @classmethod
    def load(cls, path: str | Path) -> World:
        """Return a world that was saved; it goes on as that one does, bit for bit. Raises StorageError."""
        with restoring(path):
            checkpoint = checkpoint_file.load(Path(path))
            saved = converted(checkpoint.header, _Saved)
            try:
                text, language, dialect = saved["model"], saved["language"], saved["dialect"]
                model = Model(text, language, dialect, file="<world>", alone=True)
                world = cls(
                    model,
                    saved["query"],
                    targets=saved["targets"],
                    inference=saved["inference"],
                    keep_conflicts=saved["keep_conflicts"],
                )
            except OnlinesrlError as error:
                raise Misfit(str(error)) from None
            world._world.resume(world._restored(saved["facts"]), checkpoint.arrays)
            world._world.wait(
                Conflict({**world._restored(listed), **dict.fromkeys(gone)}, reason, parts)
                for listed, gone, reason, parts in saved["conflicts"]
            )
            world._whole_numbers = saved["whole_numbers"]
            world._forget_numbers()
        return world

    def _restored(self, rows: Iterable[_Listed]) -> dict[GroundAtom, float]:
        """Return saved facts. Raises Misfit where they do not fit the model."""
        facts = dict[GroundAtom, float]()
        for name, constants, value in rows:
            if not self._schema.is_fact(name, constants, value):
                raise Misfit(f"{show_ground_atom(name, constants)} is no fact of the model")
            facts[name, constants] = nan if value is None else value
        return facts

    def explain(self, atom: AnyAtom) -> Explanation:
        """Return why an atom has its value: in PSL, how strongly each ground rule pulls it up or down.

        In Markov logic, the ground rules for the value and against it, and the best state in which it is
        otherwise. Raises ExplanationError for an atom that is neither observed nor a target.
        """
        explanation: Explanation = self._world.explain(_named(atom))
        return explanation

    def answer(self) -> Answer:
        """Return the values of all targets, and the next best ones where ``inference`` asks for ``best``.

        These are as of ``infer``; an answer that is not certified has none. Raises DataError where they need
        too many ground rules.
        """
        values, certificate = dict(self._world.values()), self.certificate
        without = set(self._names).difference(name for name, _ in values)
        without = without and without.difference(name for name, _ in self._world.facts())
        stats = {
            "method": "incremental",
            "score": certificate.score,
            **certificate._asdict(),
            "warnings": [
                f"{name} is queried and has no atom: name constants of its types in facts or the model"
                if self._targets == "all"
                else f"{name} is queried and has no target: list some with `query`"
                for name in sorted(without)
            ],
        }
        if self._best < 2:
            return self._answer(values, stats)
        best = [
            self._answer(
                {**values, **other.values},
                {
                    "rank": other.rank,
                    "score": certificate.score - other.difference,
                    "difference": other.difference,
                    "certified": other.certified,
                    "changes": {show_ground_atom(*a): int(x) for a, x in other.values.items()},
                },
            )
            for other in self._world.best_states(self._best)
        ]
        return self._answer(values, stats | {"rank": 1, "difference": 0.0, "changes": {}}, best)

    def marginals(self, *atoms: AnyAtom) -> Answer:
        """Return the probabilities of these targets, or of all; for Markov logic only, else UsageError.

        They are exact where the ground model is narrow enough, and sampled by MC-SAT elsewhere, as the
        statistic ``route`` says. Only what steps have touched since the last call is computed. Raises
        DataError for an atom that is no target.
        """
        if self._schema.soft:
            raise UsageError(
                "marginals are for Markov logic: the values of PSL are no probabilities"
            )
        values, stats = self._world.marginals([*map(_named, atoms)])
        return self._answer(values, {"method": "exact", **stats})

    def _answer(
        self,
        values: Mapping[GroundAtom, float],
        stats: Mapping[str, Any],
        best: Sequence[Answer] = (),
    ) -> Answer:
        tables = {
            name: Table(
                with_names(
                    [None] * self._schema.arities[name],
                    [*zip(*by_atom, strict=True)],
                    [*by_atom.values()],
                )
            )
            for name, by_atom in self._by_name(values).items()
        }
        return Answer(tables, stats, best)

    def _by_name(
        self, by_atom: Mapping[GroundAtom, Any]
    ) -> dict[str, dict[tuple[Constant, ...], Any]]:
        """Return values by predicate and atom; whole numbers are given back as such."""
        result = dict[str, dict[tuple[Constant, ...], Any]]()
        for (name, constants), value in by_atom.items():
            atom = tuple(self._whole_numbers.get(text, text) for text in constants)
            result.setdefault(name, {})[atom] = value
        return result

    def _atoms(
        self, rows: Given, part: str, numbers: dict[str, int]
    ) -> Iterable[tuple[GroundAtom, float | None]]:
        for name, constants, value in self._schema.rows(atoms(rows, part), part):
            numbers.update((str(number), number) for number in constants if isinstance(number, int))
            yield (name, tuple(map(str, constants))), value


def _rows(facts: Mapping[GroundAtom, float | None]) -> list[_Listed]:
    return [
        (*atom, None if isnan(value) else value)
        for atom, value in facts.items()
        if value is not None
    ]


def _named(atom: AnyAtom) -> GroundAtom:
    name, constants = atom_of(atom)
    return name, tuple(constants)


def _text(value: float | None) -> str:
    return "none" if value is None else f"{value:.3f}"
