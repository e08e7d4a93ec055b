"""A ground world of either language: what it does, and which changes of its facts are allowed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any, NamedTuple, Protocol, TypeAlias

from onlinesrl.core.errors import DataError
from onlinesrl.core.example import MOST, Atoms, Constant, arguments, number_of, show_ground_atom
from onlinesrl.core.explain.explanation import Explanation
from onlinesrl.core.rule_instance import PlacedWeight
from onlinesrl.logic.atom_index import Change, GroundAtom

GroundRule: TypeAlias = tuple[str, float | None]
"""The text of a ground rule, and its weight; None: it is hard."""
GroundRules: TypeAlias = Callable[[], Counter[GroundRule]]
"""What counts ground rules on demand, as they were when it was made."""
ATOM = "<atom>"
"""Stands for an atom in a complaint, since its text is needed only there."""


class Exchange(NamedTuple):
    """The ground rules that came in a step, and those that went; one that stays may be in both."""

    came: GroundRules
    went: GroundRules


class StateCertificate(NamedTuple):
    """What is proved about a state: no state has more than ``gap`` more score, up to rounding.

    In Markov logic the score is the sum of the weights of the soft ground clauses that are true, but not by
    the facts alone.
    """

    score: float
    gap: float
    certified: bool


class GroundWorld(Protocol):
    """Facts, and the certified values of the open atoms."""

    touched: int
    """The ground rules that the last step added, replaced and removed."""

    @property
    def certificate(self) -> Any:
        """The certificate of the values, a named tuple with ``score``, ``gap`` and ``certified``."""
        ...

    def fact(self, atom: GroundAtom) -> float | None:
        """Return the value of a fact, NaN for a listed target; None if it is neither."""
        ...

    def value(self, atom: GroundAtom) -> float | None:
        """Return the value of an open atom or a fact; None if it is neither."""
        ...

    def values(self) -> Iterator[tuple[GroundAtom, float]]:
        """Yield the open atoms and their values."""
        ...

    def neighbourhood(
        self, atoms: Iterable[GroundAtom]
    ) -> tuple[list[GroundAtom], dict[GroundAtom, float]]:
        """Return atoms, with all others of their groups, and the other atoms of their ground rules.

        These others have their values, 0 if they are no facts. So all ground rules of the atoms can be made.
        """
        ...

    def apply(
        self, changes: Mapping[GroundAtom, float | None], exchanges: list[Exchange] | None = None
    ) -> dict[GroundAtom, Change]:
        """Change facts: a value is observed, NaN makes a target, None takes the atom away.

        Returns the open atoms whose value changed; adds the exchange of ground rules to ``exchanges``.
        Raises ModelError, Infeasible; then nothing has changed.
        """
        ...

    @property
    def text(self) -> str:
        """The program with the present weights."""
        ...

    def weights_of(self, program: Any) -> list[PlacedWeight]:
        """Return the weights of a file of weights. Raises DataError where it does not fit the rules."""
        ...

    def set_weights(self, weights: Iterable[PlacedWeight]) -> dict[GroundAtom, Change]:
        """Give the rules weights. Raises DataError, Unsolved; then nothing has changed."""
        ...

    def set_model(
        self, program: Any, exchanges: list[Exchange] | None = None
    ) -> dict[GroundAtom, Change]:
        """Go on under another program, which the facts fit, see ``apply``."""
        ...

    def facts(self) -> dict[GroundAtom, float]:
        """Return the facts in the order of their names, NaN for listed targets."""
        ...

    def save(self) -> tuple[dict[GroundAtom, float], dict[str, Any]]:
        """Return the facts, and arrays for ``resume``; this world then goes on as a resumed one does."""
        ...

    def resume(self, facts: Mapping[GroundAtom, float], arrays: Mapping[str, Any]) -> None:
        """Become the world that was saved. Raises Misfit if the arrays are not those of the facts."""
        ...

    def state(self, atoms: Iterable[GroundAtom]) -> Any:
        """Return what ``remade`` needs, at the cost of these atoms, which the next step may change.

        Its ``facts`` have the values of these atoms, and can be given those of more before they change.
        """
        ...

    def go_back(self, facts: Mapping[GroundAtom, float | None], states: Sequence[Any]) -> None:
        """Change facts back to those before steps that began in these states, and have all ended."""
        ...

    def remade(self, state: Any) -> GroundWorld:
        """Return, from its facts, the world before a step that an exception has cut off anywhere."""
        ...

    def explain(self, atom: GroundAtom) -> Explanation:
        """Return why an atom has its value. Raises ExplanationError."""
        ...


@dataclass(frozen=True)
class FactSchema:
    """What the facts of a model may be.

    ``arities`` has the number of arguments of each predicate. The predicates of the ``query`` may have
    targets, which may be ``listed``. The values of ``numeric`` predicates are any numbers. Others are 0 or 1,
    or from 0 to 1 if they are ``soft``.
    """

    arities: Mapping[str, int]
    numeric: Collection[str]
    query: Sequence[str]
    soft: bool
    listed: bool

    def rows(self, atoms: Atoms, part: str) -> Iterator[tuple[str, list[Constant], float | None]]:
        """Yield the predicate, constants and value of atoms. Raises DataError for what the model lacks."""
        for name, listed in atoms.items():
            self.check_name(name, part)
            for row in listed:
                constants = arguments(row)
                if len(constants) != self.arities[name]:
                    raise DataError(
                        f"{part}: {name} has {self.arities[name]} arguments, found {len(constants)} "
                        f"in {show_ground_atom(name, constants)}"
                    )
                yield name, constants, number_of(row)

    def check_name(self, name: str, part: str) -> None:
        """Raise DataError for a predicate that the model does not have."""
        if name not in self.arities:
            known = ", ".join(self.arities)
            raise DataError(f"{part}: the model has no predicate {name}; it has {known}")

    def fits(self, name: str, value: float | None) -> bool:
        """Tell whether an observed atom may have a value; without one it is 1."""
        if name in self.numeric:
            return value is not None and abs(value) <= MOST
        number = 1.0 if value is None else value
        return 0.0 <= number <= 1.0 if self.soft else number in (0.0, 1.0)

    def is_fact(self, name: str, constants: Sequence[str], value: float | None) -> bool:
        """Tell whether an atom may be listed with this value; None: as a target."""
        if len(constants) != self.arities.get(name):
            return False
        if value is None:
            return self.listed and name in self.query
        return self.fits(name, value)

    def _range(self, name: str) -> str:
        if name in self.numeric:
            return f"a number from {-MOST:g} to {MOST:g}"
        return "0 to 1" if self.soft else "0 or 1"

    def check_change(
        self, part: str, atom: GroundAtom, value: float | None, present: float | None
    ) -> None:
        """Raise DataError unless a ``part`` (add, set, remove, query) may change an atom.

        The ``present`` value is NaN for a target, None for an atom neither observed nor a target.
        """
        complaint = self._complaint(part, atom[0], value, present)
        if complaint:
            raise DataError(f"{part}: {complaint.replace(ATOM, show_ground_atom(*atom))}")

    def _complaint(
        self, part: str, name: str, value: float | None, present: float | None
    ) -> str | None:
        """Return what is wrong with a change of an atom, which is called ATOM."""
        if part in {"remove", "query"}:
            if value is not None:
                return f"{ATOM} has a value; expected none"
            if part == "remove" and present is None:
                return f"{ATOM} is neither observed nor a target"
            if part == "query" and name not in self.query:
                return f"{name} has no targets; expected {', '.join(self.query)}"
            if part == "query" and not self.listed:
                return (
                    f"{ATOM} is a target unless a fact decides it; remove the fact, or list all targets: "
                    "`targets: listed`"
                )
            if part == "query" and present is not None and isnan(present):
                return f"{ATOM} is a target already"
        elif not self.fits(name, value):
            number = "none" if value is None else f"{value:g}"
            return f"the value of {ATOM} is {number}; expected {self._range(name)}"
        elif part == "add" and present is not None:
            state = "a target" if isnan(present) else f"observed, with value {present:g}"
            return f"{ATOM} is {state} already; set changes it"
        return None
