"""What a run can be told: the keys of a configuration, their meanings, defaults and what each may be."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, PrivateAttr, field_validator, model_validator

from onlinesrl.core.errors import ConfigError
from onlinesrl.core.language import Language, language_of
from onlinesrl.core.section import Section
from onlinesrl.core.updates import AnyUpdate, Cda2
from onlinesrl.core.values import AnyPath, Count, File, Name, Names, Natural, duration
from onlinesrl.core.yamltree import Place, Tree
from onlinesrl.mln.sections import AnyEngine, MpeSection
from onlinesrl.run.fingerprint import LABEL_BYTES, fingerprint
from onlinesrl.stream.sinks import AnySink
from onlinesrl.stream.sinks.file import FileSinkSection
from onlinesrl.stream.sources import AnySource

DialectName = Literal["alchemy", "tuffy", "rockit", "pracmln", "pracmln-standard", "lomrf"]


class LabelsSection(Section):
    """Truth that comes after its example: on ``topic``, or further down the stream."""

    topic: Name | None = None
    """where labels come from: {"id": "c1", "truth": {...}}; null: further down the source."""
    pending: Count = 10_000
    """how many examples may wait for their truth; past it the oldest are given up."""
    max_bytes: Count = LABEL_BYTES
    """how many bytes of JSON these may take, with their predictions; past it the oldest are given up."""


class CheckpointSection(Section):
    """When to save, and how many to keep."""

    every: int | str = "30s"
    """a number of examples, or a time such as 30s."""
    keep: Count = 3
    """how many checkpoints are kept."""

    @field_validator("every", mode="before")
    @classmethod
    def _interval(cls, every: object) -> object:
        valid = every >= 1 if type(every) is int else duration(every)
        if not valid:
            raise ValueError("expected a number of examples, or a time such as 30s or 5m")
        return every

    @property
    def examples(self) -> int | None:
        """The examples from one checkpoint to the next; None where time decides."""
        return self.every if isinstance(self.every, int) else None

    @property
    def seconds(self) -> float | None:
        """The seconds from one checkpoint to the next; None where examples decide."""
        return duration(self.every)


class MetricsSection(Section):
    """When a line of metrics is written, and what is counted by itself."""

    every: Count | None = None
    """examples from one line of metrics.jsonl to the next; null: at powers of two and at the
    end."""
    by: Annotated[str, Field(pattern=r"^[^\W\d]\w*(\.[1-9][0-9]*)?$")] | None = None
    """count precision, recall and F1 for each value of this argument, too: Predicate.N, counted
    from 1, or the name of its type."""


class LimitsSection(Section):
    """What an example, and a stream, may be before it is refused."""

    bad_share: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 0.1
    """a larger share of bad examples ends the run; looked at every 128 examples and at the end."""
    max_atoms: Count = 1_000_000
    """the most open atoms of an example, and the most atoms of a predicate in its evidence; one with
    more is bad."""
    crashes: Natural = 3
    """an example that so many processes in succession died in is bad; 0: none is."""


class Config(Section):
    """What belongs to no section.

    Paths are as the process can open them: see ``load``.
    """

    model: File
    """the rules, an .mln or a .psl file."""
    dialect: DialectName = "alchemy"
    """how the model and .db files are written; weights files are Alchemy's in any case."""
    query: Names
    """the predicates to predict."""
    source: AnySource
    """a section with the path of the examples."""
    output: AnyPath
    """the run folder; the default is runs/ and the name of the configuration."""
    labels: LabelsSection | None = None
    sink: AnySink = FileSinkSection()
    learner: AnyUpdate = Cda2()
    inference: AnyEngine = MpeSection()
    checkpoint: CheckpointSection = CheckpointSection()
    metrics: MetricsSection = MetricsSection()
    limits: LimitsSection = LimitsSection()
    seed: Natural = 0
    """of the random numbers of inference: MaxWalkSAT, also where a search ends without a state, and
    MC-SAT."""
    batch: Count = 64
    """examples that are taken together; a matter of speed only: every size gives the same bits."""
    _tree: Tree | None = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        self.source.check(self)
        self.sink.check(self)
        return self

    @property
    def language(self) -> Language:
        """The language of the model."""
        return language_of(self.model.suffix)

    def as_dict(self) -> dict[str, Any]:
        """Return every key and its value, fit for JSON."""
        return self.model_dump(mode="json")

    def fingerprint(self, model: str) -> dict[str, Any]:
        """Return what two runs must share for one to go on from the other's checkpoint."""
        return fingerprint(self, model)

    def error(self, key: str, reason: str) -> ConfigError:
        """Return the error for a ``key`` found wrong later, when the model has been read."""
        tree, place = self._tree, Place("configuration")
        if tree is not None:
            place = tree.value_place(tuple(key.split(".")))
        return ConfigError([place.problem(f"{key}: {reason}")])
