"""Explanations of the predicted value of an atom, as text, JSON and HTML."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from html import escape
from typing import Any, ClassVar

from onlinesrl.core.errors import OnlinesrlError
from onlinesrl.core.example import Atom, Example, Rows, ValuedAtom, arguments, show_ground_atom

SHOWN = 8
"""The number of reasons on each side, and of changed atoms, in texts for people."""
LEFT_OUT = 3
"""The number of constants and evidence atoms without which the probability is told."""
_ATOM = re.compile(r"\s*([A-Za-z_][\w'-]*)\s*\((.*)\)\s*", re.DOTALL)
_ARGUMENT = re.compile(r"""\s*+(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^,"']*+))\s*+(?:,|$)""")
_WORDS = {1: "one", 2: "two"}


class ExplanationError(OnlinesrlError):
    """There is nothing to explain: there is no such example, or its atom was not predicted."""

    exit_code = 64


def read_atom(text: str) -> Atom:
    """Read ``P(a, "b c", 3)``; constants may be quoted. Raises ExplanationError."""
    match = _ATOM.fullmatch(text)
    parts = [] if match is None else _arguments(match[2])
    if match is None or parts is None:
        raise ExplanationError(f"not an atom: {text}; expected one such as Knows(Anna, 3)")
    return match[1], tuple(parts)


def _arguments(text: str) -> list[str] | None:
    """Split at commas that are not in quotes; None if that fails."""
    words, at = [], 0
    while at < len(text) or text[-1:] == ",":
        part = _ARGUMENT.match(text, at)
        if part is None:
            return None
        double, single, plain = part.groups()
        plain = plain and plain.rstrip()
        if plain == "" and text.strip():
            return None
        quoted = double if double is not None else single
        words.append(plain if quoted is None else re.sub(r"\\(.)", r"\1", quoted))
        at = part.end()
        if part[0][-1:] != ",":
            break
    return words if at == len(text) else None


@dataclass(frozen=True)
class Reason:
    """Ground rules that support the predicted value (``effect`` above 0) or oppose it (below 0).

    Markov logic: ``count`` ground rules of one ``weight`` that are true in one of the two states only: in the
    predicted one if ``holds``. The effect is their share of the score difference. ``number`` is the factor of
    the weight, the mean of the rules' numeric evidence, or 1.

    PSL: one ground rule and its ``distance`` to satisfaction. The effect is its pull on the value, up
    (above 0) or down. ``dual`` is the price of its distance. ``weight`` None: the rule is hard.
    """

    rule: str
    weight: float | None
    effect: float
    count: int = 1
    holds: bool | None = None
    number: float = 1.0
    distance: float | None = None
    dual: float | None = None


@dataclass(frozen=True)
class Other:
    """The best state in which the atom has the other value.

    ``cost`` is the score of the best state less its score, exact if ``certified``. ``changes`` are the other
    atoms that differ from the prediction, with their values in this state.
    """

    cost: float
    certified: bool
    changes: tuple[tuple[str, bool], ...]


@dataclass(frozen=True)
class Flip:
    """The smallest change of evidence that flips the prediction.

    ``change`` has the evidence atoms with their new values, and ``becomes`` the new prediction; without a
    flip they are empty and None. ``candidates`` is the number of atoms that could matter. No change of at
    most ``excluded`` of them flips the prediction. ``tried`` changes were predicted; the search ended early
    if it is not ``complete``.
    """

    candidates: int
    change: tuple[tuple[str, bool], ...]
    becomes: str | None
    excluded: int
    tried: int
    complete: bool
    noun: ClassVar[str] = "evidence atom"

    def __str__(self) -> str:
        pool = f"{self.candidates:,} {self.noun}{'s' * (self.candidates != 1)} that could matter"
        if self.change:
            changes = ", ".join(
                f"{('without', 'with')[value]} {atom}" for atom, value in self.change
            )
            least = self.excluded == len(self.change) - 1
            rest = "no smaller change does" if least else "whether a smaller one does is not known"
            return f"{changes} it would be {self.becomes} (of {pool}; {rest})"
        if self.excluded >= self.candidates:
            return f"no change of the {pool} flips it"
        if not self.excluded:
            return f"not known: the search ended among the changes of one of {pool}"
        sizes = " or ".join(_WORDS[n] for n in range(1, min(self.excluded, 2) + 1))
        sizes = sizes if self.excluded < 3 else f"up to {self.excluded}"
        return f"no change of {sizes} of {pool} flips it; larger ones were not tried" + (
            "" if self.complete else " to the end"
        )


def _number(value: float) -> str:
    """Write an effect or a weight: three decimal places, or few digits where it is tiny."""
    return f"{value:.1e}" if 0 < abs(value) < 0.0005 else f"{value:.3f}"


def _signed(value: float) -> str:
    return f"{'+' if value >= 0 else ''}{_number(value)}"


@dataclass(frozen=True)
class Explanation:
    """Why an atom of a prediction has its ``value``: 0 or 1 in Markov logic, in [0, 1] in PSL.

    ``instead`` is the other value for the comparison. In a group (at most or exactly one atom is true, see
    ``group``) it is another atom or none. ``difference`` is the sum of the effects; in Markov logic, the
    score of the predicted state less that of the same state with the other value. ``undecided`` counts the
    ground rules that have the atom but do not depend on it, without those that are ground lazily.
    ``forbidden`` are hard rules that the other value breaks if nothing else changes. ``other`` is None if
    hard rules allow no other value, and for PSL.

    For PSL, ``bound`` is the force of the bound 0 or 1 on a value at the bound. ``residual`` is the
    absolute sum of this force and all pulls, 0 at the optimum. ``given``: the value is evidence, so there
    is nothing to explain.

    Where Markov logic predicts by probabilities, ``probability`` is that of the atom, and ``without`` what it
    would be without a constant or an evidence atom, the greatest difference first; ``sampled``: one of these
    is not exact.
    """

    id: str
    atom: str
    value: float
    certified: bool | None = True
    words: Mapping[str, str] = field(default_factory=dict)
    given: bool = False
    group: str | None = None
    instead: str | None = None
    reasons: tuple[Reason, ...] = ()
    undecided: int = 0
    forbidden: tuple[str, ...] = ()
    other: Other | None = None
    bound: float | None = None
    residual: float | None = None
    flip: Flip | None = None
    probability: float | None = None
    without: tuple[tuple[str, float], ...] = ()
    sampled: bool = False
    notes: tuple[str, ...] = ()

    @property
    def soft(self) -> bool:
        """Whether the explanation is of a PSL program."""
        return self.residual is not None or self.value not in {0.0, 1.0}

    @property
    def favour(self) -> list[Reason]:
        """The reasons for the predicted value (PSL: that pull it up), strongest first."""
        return [reason for reason in self.reasons if reason.effect > 0]

    @property
    def against(self) -> list[Reason]:
        """The reasons against the predicted value (PSL: that pull it down), strongest first."""
        return [reason for reason in self.reasons if reason.effect < 0]

    @property
    def difference(self) -> float:
        """The sum of the effects."""
        return math.fsum(reason.effect for reason in self.reasons)

    def as_dict(self) -> dict[str, Any]:
        """Return all fields and the difference, for JSON."""
        return {**asdict(self), "difference": self.difference}

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self, most: int = SHOWN) -> Iterator[str]:
        """Yield lines for people, with the first ``most`` reasons of each side."""
        yield self.title
        for name, reasons in self._sides():
            yield f"  {name}"
            yield from (f"    {line}" for line in _table(reasons, most))
        yield from (f"  {line}" for line in self._rest(most))

    @property
    def title(self) -> str:
        """The atom, the words for its constants, its value and the other value."""
        words = ", ".join(f"{key} = {word}" for key, word in self.words.items())
        example = f" of example {self.id}" if self.id else ""
        head = f"{self.atom}{f' [{words}]' if words else ''}{example}: "
        head += show_value(self.value, self.soft)
        if self.given:
            return f"{head}, as its evidence says"
        return head + (f", rather than {self.instead}" if self.instead else "")

    def _sides(self) -> Iterator[tuple[str, list[Reason]]]:
        """Yield the heading and the reasons of each side that has reasons."""
        value = show_value(self.value, self.soft)
        for heading, reasons in (
            ("pulled up" if self.soft else f"speaks for {value}", self.favour),
            ("pulled down" if self.soft else f"speaks against {value}", self.against),
        ):
            if reasons:
                count = sum(reason.count for reason in reasons)
                total = math.fsum(reason.effect for reason in reasons)
                yield (
                    f"{heading}: {_signed(total)} by {count:,} ground rule{'s' * (count != 1)}",
                    reasons,
                )

    def _rest(self, most: int) -> Iterator[str]:
        """Yield the lines after the reasons."""
        if self.given:
            return
        if self.probability is not None:
            cases = (f"; without {name} {other:.2f}" for name, other in self.without[:LEFT_OUT])
            source = " (sampled)" if self.sampled else ""
            yield f"probability {self.probability:.2f}{''.join(cases)}{source}"
        if not self.reasons:
            yield "no ground rule with a weight depends on it"
        if self.soft:
            side = "1" if (self.bound or 0) < 0 else "0"
            bound = f", and the bound {side} holds with {_signed(self.bound)}" if self.bound else ""
            pulls = f"the pulls add up to {_signed(self.difference)}{bound}"
            yield f"{pulls}; {self.residual:.1e} is left, 0 at the optimum"
        else:
            yield from self._alternative(most)
        if self.flip is not None:
            yield f"what would flip it: {self.flip}"
        if self.certified is False:
            yield "this answer is not proven to be the best"
        yield from self.notes

    def _alternative(self, most: int) -> Iterator[str]:
        if self.group:
            yield f"{self.group}: the other way means another value"
        if self.undecided:
            yield f"{self.undecided:,} ground rules with it hold or fail either way"
        for rule in self.forbidden[:most]:
            yield f"the other value alone would break {rule}"
        if self.reasons and not self.forbidden:
            yield f"with the other value alone the score is {_less(self.difference)}"
        if self.other is None:
            yield "hard rules leave no other value"
            return
        more = len(self.other.changes)
        proof = "" if self.other.certified else " (not proven to be the best)"
        yield (
            f"the best state with the other value scores {_less(self.other.cost)}{proof}; it changes "
            + (f"{more:,} other atom{'s' * (more != 1)}" if more else "nothing else")
        )
        for atom, value in self.other.changes[:most]:
            yield f"  {atom} to {'true' if value else 'false'}"
        if len(self.other.changes) > most:
            yield f"  ... {more - most:,} more"

    def _repr_html_(self) -> str:
        """Return an HTML fragment, for notebooks and reports."""
        parts = [f"<h4>{escape(self.title)}</h4>"]
        for name, reasons in self._sides():
            rows = ""
            for reason in reasons[:SHOWN]:
                cells = "".join(
                    f'<td class="number">{escape(cell)}</td>' for cell in _cells(reason)
                )
                rows += f"<tr>{cells}<td><code>{escape(reason.rule)}</code></td></tr>"
            more = len(reasons) - SHOWN
            rest = f"<p>... {more:,} more</p>" if more > 0 else ""
            parts.append(f"<p>{escape(name)}</p><table>{_HEAD[self.soft]}{rows}</table>{rest}")
        parts += (f"<p>{escape(line.strip())}</p>" for line in self._rest(SHOWN))
        return f'<div class="explanation">{"".join(parts)}</div>'


_HEAD = {
    False: "<tr><th>effect</th><th>weight</th><th></th><th>rule</th></tr>",
    True: "<tr><th>pull</th><th>weight</th><th>distance</th><th>ground rule</th></tr>",
}


def show_value(value: float, soft: bool) -> str:
    """Write a value; ``soft``: in [0, 1]."""
    return f"{value:.3f}" if soft else "true" if value else "false"


def _less(cost: float) -> str:
    return f"{_number(abs(cost))} {'less' if cost >= 0 else 'more'}"


def _cells(reason: Reason) -> tuple[str, str, str]:
    weight = "hard" if reason.weight is None else _number(reason.weight)
    if reason.distance is not None:
        return f"{_signed(reason.effect)}", weight, f"{reason.distance:.3f}"
    times = f" x {_number(reason.number)}" if reason.number != 1 else ""
    times += f" x {reason.count}" if reason.count > 1 else ""
    return f"{_signed(reason.effect)}", weight + times, "holds" if reason.holds else "fails"


def _table(reasons: Sequence[Reason], most: int) -> Iterator[str]:
    """Yield aligned lines for the first reasons, and a line that counts the others."""
    rows = [_cells(reason) for reason in reasons[:most]]
    first, second, third = (max(map(len, column)) for column in zip(*rows, strict=True))
    for (effect, weight, activation), reason in zip(rows, reasons, strict=False):
        yield f"{effect:>{first}}  {weight:>{second}}  {activation:>{third}}  {reason.rule}"
    if len(reasons) > most:
        rest = math.fsum(reason.effect for reason in reasons[most:])
        yield f"... {len(reasons) - most:,} more: {_signed(rest)}"


def ordered(reasons: Sequence[Reason]) -> tuple[Reason, ...]:
    """Sort reasons by absolute effect, the strongest first; equal ones by text."""
    return tuple(sorted(reasons, key=lambda reason: (-abs(reason.effect), reason.rule)))


def first_of(atoms: Sequence[Atom], example: Example) -> Atom:
    """Return the first atom. Raises ExplanationError where an example has none."""
    if not atoms:
        raise ExplanationError(f"example {example.id} has no open atom")
    return atoms[0]


def compared(explanation: Explanation, recorded: Rows | None) -> Explanation:
    """Add a note if the run itself predicted another value; ``recorded`` None: that is not known."""
    if recorded is None or explanation.given:
        return explanation
    texts = (
        (shown((name, (*map(str, arguments(x)),))), x) for name in recorded for x in recorded[name]
    )
    row = dict(texts).get(explanation.atom)
    was = row.value if isinstance(row, ValuedAtom) else float(row is not None)
    soft = explanation.soft
    if show_value(was, soft) == show_value(explanation.value, soft):
        return explanation
    note = f"the run itself predicted {show_value(was, soft)}, with the weights it had by then"
    return replace(explanation, notes=(*explanation.notes, note))


def shown(atom: Atom) -> str:
    """Write an atom for people."""
    return show_ground_atom(*atom)
