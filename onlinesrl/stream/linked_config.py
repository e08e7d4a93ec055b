"""The section `source.linked`: which rows are asked about, what they are linked to, and what is counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from onlinesrl.core.errors import ConfigError
from onlinesrl.core.io.config_section import Section
from onlinesrl.core.io.config_types import Count, Name, Natural, duration
from onlinesrl.stream.mapping import AtomsSection, Paths, PathText


def _checked(text: str) -> str:
    if text != "0s" and duration(text) is None:
        raise ValueError("expected a time such as 30s, 5m, 12h or 10d")
    return text


Duration = Annotated[str, AfterValidator(_checked)]
Features = Annotated[
    tuple[Name | AtomsSection, ...],
    BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else (value,)),
    Field(min_length=1),
]
Measure = Literal[
    "count", "sum", "mean", "std", "min", "max", "distinct", "last", "since", "rate", "value"
]
_WITHOUT_COLUMN = ("count", "since", "rate")
_BESIDES_LABELS = ("all", "labelled", "unlabelled")


def seconds(text: str | None) -> float:
    """Return the seconds of a time; infinite for None."""
    return float("inf") if text is None else duration(text) or 0.0


class RowsSection(Section):
    """The rows that are asked about: an example for each."""

    id: Paths
    """the column of a row's name, or several, whose values are joined by /."""
    time: PathText
    """the column of a row's time."""


class LabelRowsSection(Section):
    """The rows that say what is true of others: those with all of these columns."""

    id: Paths
    """the column that has the name of the row that a label is of."""
    time: PathText
    """the column of the time at which the label is known."""
    truth: Annotated[dict[Name, PathText], Field(min_length=1)]
    """by predicate of the query, which has a row as its only argument, the column that says whether it is
    true."""


class LinksSection(Section):
    """Earlier rows with the same value of a column, which come into the example."""

    by: Paths
    """the columns; of several, the atom's third argument is the column's name."""
    rows: Literal["unlabelled", "all"] = "unlabelled"
    """which rows: those whose label is not known yet, or all; a known label is a fact."""
    latest: Count = 2
    """how many of each column: the latest."""
    within: Duration | None = None
    """how long before the row's time they may be; null: as long as rows are remembered."""
    value: Literal["1/n", "1/sqrt(n)"] | None = None
    """the atom's value, by the number n of rows with this link; null: the atom is true."""
    optional: bool = False
    """whether a row may lack a column; it then has no such link."""


class NumbersSection(Section):
    """A row's own number, or one over earlier rows with the same value of a column."""

    measure: Measure | None = None
    """what is computed; since: seconds since the last row; rate: rows, of which one has half the weight after
    each half; null: count, or the row's own value where there is no key by."""
    of: PathText | None = None
    """the column that is summed, averaged and so on."""
    by: Paths | None = None
    """the columns; of several, the column's name begins that of the number. null: the row's own value."""
    rows: Name = "all"
    """which rows: all, labelled, unlabelled, those of which a predicate is known to be true (Fraud), or known
    to be false (not Fraud)."""
    within: Duration | None = None
    """how long before the row's time, which counts too; null: as long as rows are remembered."""
    age: Literal["row", "label"] = "row"
    """of labelled rows, from which time `within` counts: the row's, or its label's."""
    half: Duration | None = None
    """of a rate, after which time a row has half the weight."""
    transform: Literal["log1p"] | None = None
    """log1p: the logarithm of 1 + the number."""
    minus: float = 0.0
    """is subtracted at last, to have a number of usual size 0."""
    optional: bool = False
    """whether a row may lack a column; it then has no such number."""

    @property
    def computed(self) -> Measure:
        """What is computed."""
        return self.measure or ("value" if self.by is None else "count")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        measure = self.computed
        if (self.by is None) != (measure == "value"):
            wanted = "leave it out: it is the row's own value" if self.by else "missing"
            raise ValueError(f"by: {wanted} ({measure})")
        if (self.of is None) != (measure in _WITHOUT_COLUMN):
            needed = "missing; expected the column" if self.of is None else "leave it out:"
            raise ValueError(f"of: {needed} of {measure}")
        if (self.half is None) != (measure != "rate"):
            raise ValueError("half: a rate has it, and nothing else")
        if self.age == "label" and self.rows in ("all", "unlabelled"):
            raise ValueError(f"age: rows that are {self.rows} may have no label; expected row")
        if measure == "value" and (self.within, self.rows, self.age) != (None, "all", "row"):
            raise ValueError("by: missing; expected the column that rows have in common")
        return self


class LinkedSection(Section):
    """How rows become linked examples; see `onlinesrl guide cutting`."""

    within: Duration
    """how long a row is remembered, by event time, and how long a label waits for its row."""
    most: Count = 1_000_000
    """how many rows are remembered at most; beyond it the oldest are dropped, and counted."""
    lateness: Duration = "0s"
    """how much earlier than the latest row of its file, or partition, a row may be; one that is earlier is
    bad."""
    idle: Duration | None = None
    """after how long without a new row a file that a run follows, or a partition of a topic, no longer holds
    back the others; what it has later counts from their time on. null: never."""
    digits: Natural = 3
    """to how many digits after the point numbers are rounded."""
    rows: RowsSection
    labels: LabelRowsSection
    evidence: dict[Name, Features] = {}  # noqa: RUF012
    """by predicate, what is observed of a row: columns, of which each is an atom of the row's name and
    column=value; or rules as in source.mapping.evidence."""
    links: dict[Name, LinksSection] = {}  # noqa: RUF012
    """by predicate, links to earlier rows."""
    numbers: dict[Name, dict[Name, NumbersSection]] = {}  # noqa: RUF012
    """by predicate, of which an atom has the row's name and that of the number, the numbers by name."""

    @model_validator(mode="after")
    def _windows(self) -> Self:
        truths = (
            *_BESIDES_LABELS,
            *(x for name in self.labels.truth for x in (name, f"not {name}")),
        )
        for key, part in self.parts:
            if seconds(part.within) > seconds(self.within) and part.within is not None:
                raise ValueError(f"{key}.within: longer than rows are remembered ({self.within})")
            if part.rows not in truths:
                raise ValueError(f"{key}.rows: expected {', '.join(truths)}, found {part.rows!r}")
        return self

    @property
    def parts(self) -> Iterator[tuple[str, LinksSection | NumbersSection]]:
        """The keys and sections of links and numbers."""
        yield from ((f"links.{name}", link) for name, link in self.links.items())
        for name, numbers in self.numbers.items():
            yield from ((f"numbers.{name}.{n}", number) for n, number in numbers.items())

    def check(
        self,
        argument_types: Mapping[str, Sequence[str | None]],
        query: Sequence[str],
        error: Callable[[str, str], ConfigError],
    ) -> None:
        """Raise the ``error`` of a key that does not fit the model's predicates or the query."""
        several = {name: 3 if len(link.by) > 1 else 2 for name, link in self.links.items()}
        arities = [("labels.truth", name, 1) for name in self.labels.truth]
        arities += [("links", name, n) for name, n in several.items()]
        arities += [("numbers", name, 2) for name in self.numbers]
        for name, rules in self.evidence.items():
            for rule in rules:
                arities.append(
                    ("evidence", name, 2 if isinstance(rule, str) else len(rule.arguments))
                )
        for part, name, arity in arities:
            key = f"source.linked.{part}.{name}"
            if name not in argument_types:
                raise error(
                    key, f"no predicate of the model; expected one of {', '.join(argument_types)}"
                )
            if len(argument_types[name]) != arity:
                raise error(
                    key, f"has {arity} arguments here, and {len(argument_types[name])} in the model"
                )
            if part == "labels.truth" and name not in query:
                raise error(key, f"expected a predicate of the query ({', '.join(query)})")
