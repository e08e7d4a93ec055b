"""The schema of a configuration: its keys, with their meanings, defaults and possible values."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, PrivateAttr, model_validator

from onlinesrl.core.engine import EngineSection
from onlinesrl.core.errors import ConfigError
from onlinesrl.core.evaluation.drift import DriftSection
from onlinesrl.core.evaluation.own_metric import AnyMetric
from onlinesrl.core.evaluation.precision_at_k import Budget
from onlinesrl.core.io.config_section import Section
from onlinesrl.core.io.config_types import (
    Address,
    AnyPath,
    Count,
    File,
    Interval,
    Name,
    Names,
    Natural,
    Parts,
    duration,
)
from onlinesrl.core.io.located_yaml import Place, Tree
from onlinesrl.core.language import Language, Program, language_of
from onlinesrl.core.online.update_rules import AnyUpdate, Standard
from onlinesrl.core.online.update_rules.rule import Update
from onlinesrl.core.parallel.config import PoolSection
from onlinesrl.entities.config import EntitiesSection
from onlinesrl.entities.world import SAME
from onlinesrl.mln.inference.registry import AnyMlnEngine, MpeSection
from onlinesrl.psl.inference.registry import AdmmSection, AnyPslEngine
from onlinesrl.runs.config.fingerprint import LABEL_BYTES, fingerprint
from onlinesrl.stream.alerts import AlertsSection
from onlinesrl.stream.sinks import AnySink
from onlinesrl.stream.sinks.file import FileSinkSection
from onlinesrl.stream.sources import AnySource

DialectName = Literal["alchemy", "tuffy", "rockit", "pracmln", "pracmln-standard", "lomrf"]


KEEP_CONFLICTS: Literal["keep_conflicts"] = "keep_conflicts"


class LabelsSection(Section):
    """Labels that come separately from their examples: on ``topic``, or later in the source."""

    topic: Name | None = None
    """where labels come from: {"id": "c1", "truth": {...}}; null: later in the source."""
    pending: Count = 10_000
    """how many examples may wait for their label; beyond it the oldest are dropped."""
    max_bytes: Count = LABEL_BYTES
    """how many bytes of JSON these may take, with their predictions; beyond it the oldest are dropped."""


class _Repeated(Section):
    """What is written every now and then."""

    every: Interval | None = None

    @property
    def examples(self) -> int | None:
        """The number of examples in between; None if ``every`` is none."""
        return self.every if isinstance(self.every, int) else None

    @property
    def seconds(self) -> float | None:
        """The seconds in between; None if ``every`` is no time."""
        return duration(self.every)


class CheckpointSection(_Repeated):
    """When to write checkpoints, and how many to keep."""

    every: Interval = "30s"
    """a number of examples, or a time such as 30s."""
    keep: Count = 3
    """how many checkpoints are kept."""
    copy_to: Address | None = None
    """such as s3://bucket/run: where each is copied to, and read from if the run folder has none."""


class MetricsSection(_Repeated):
    """When a line of metrics is written, and what is scored separately."""

    every: Interval | None = None
    """examples between lines of metrics.jsonl, or a time such as 1d by the `time` of examples; null: at
    powers of two and at the end, and of a server whose records have a time 1d."""
    by: Annotated[str, Field(pattern=r"^[^\W\d]\w*(\.[1-9][0-9]*)?$")] | None = None
    """also report precision, recall and F1 for each value of this argument: Predicate.N, counted
    from 1, or the name of its type."""
    top: Budget | None = None
    """also report precision, recall and log loss of the k most probable atoms of each period."""
    own: dict[Name, AnyMetric] = Field(default_factory=dict)
    """metrics of your own by name, each a section with its kind; `onlinesrl guide modules`."""
    mlflow: Name | None = None
    """the experiment of MLflow to which each line of metrics is logged."""

    def needs(self) -> dict[str, str]:
        """See ``Section.needs``."""
        return {} if self.mlflow is None else {"mlflow": "mlflow"}


class LimitsSection(Section):
    """Limits on examples and on the stream."""

    bad_share: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 0.1
    """a larger share of bad examples ends the run; checked every 500 examples and at the end."""
    max_atoms: Count = 1_000_000
    """the most open atoms of an example, and the most evidence atoms of a predicate; an example
    with more is bad."""
    crashes: Natural = 3
    """an example in which so many processes in succession died is bad; 0: never."""
    request_lines: Count = 10_000
    """the most lines of a request to a server; one with more is refused."""
    retention_bytes: Count = 1_000_000_000
    """of a server, how many bytes are kept of each file that grows: clients' requests, predictions, metrics
    and dead letters. The oldest go, except what a checkpoint needs. Other runs keep all."""


class DistributeSection(PoolSection):
    """Learning in rounds of shards, on many cores or machines; `onlinesrl guide cluster`."""

    shards: Parts = 8
    """into how many parts the examples are cut."""
    round: Count = 1000
    """examples of each shard between two merges."""
    merge: Literal["dual", "average"] | None = None
    """how what the shards added is scaled: by the best value of the dual, or 1 by their number; null: dual
    where the update has one."""

    def check(self, config: Config) -> None:
        """Raise ValueError, with the key, where another section does not go with rounds."""
        if config.source.uncut is not None:
            raise ValueError(config.source.uncut)
        if config.labels is not None:
            raise ValueError(
                "labels: examples of shards bring their own; leave it or distribute out"
            )
        if config.sink.kind != "file":
            raise ValueError(
                "sink.kind: a distributed run writes a file; leave it or distribute out"
            )
        if config.alerts is not None:
            raise ValueError(
                "alerts: shards have no order in which to raise them; leave it or distribute out"
            )
        if config.drift is not None:
            raise ValueError(
                "drift: shards have no order in which to see it; leave it or distribute out"
            )
        if config.metrics.own:
            raise ValueError(
                "metrics.own: shards count by the package's own metrics; leave it or distribute out"
            )
        if config.metrics.seconds is not None:
            raise ValueError("metrics.every: shards have no order of times; expected a number")
        if config.learner.covers and config.learner.remembered:
            raise ValueError(
                "learner.memory: shards have no order in which to forget; leave it or distribute out"
            )
        if config.learner.covers and self.merge is not None:
            name = config.learner.update
            raise ValueError(
                f"distribute.merge: {name} adds up what shards know of its weights; leave it out"
            )
        if self.merge == "dual" and not config.learner.dual:
            name = config.learner.update
            raise ValueError(f"distribute.merge: {name} has no dual; expected average")

    def by_dual(self, update: Update) -> bool:
        """Tell whether merges maximise the dual."""
        return update.dual if self.merge is None else self.merge == "dual"


class Root(Section):
    """The outermost section of a configuration, which knows where its keys stand."""

    model: File
    """the rules, an .mln or a .psl file."""
    _tree: Tree | None = PrivateAttr(default=None)

    def model_post_init(self, context: Tree | None) -> None:
        """Take the tree of the text that is validated, if there is one."""
        self._tree = context

    @property
    def language(self) -> Language:
        """The language of the model."""
        return language_of(self.model.suffix)

    def as_dict(self) -> dict[str, Any]:
        """Return all keys and values, for JSON."""
        return self.model_dump(mode="json")

    def error(self, key: str, reason: str) -> ConfigError:
        """Return the error for a ``key`` that turns out wrong after the model has been read."""
        tree, place = self._tree, Place("configuration")
        if tree is not None:
            place = tree.value_place(tuple(key.split(".")))
        return ConfigError([place.problem(f"{key}: {reason}")])


class Batch(Root):
    """Batch learning: the keys outside of sections that all languages have."""

    output: AnyPath
    """the folder of the result; the default is runs/ and the name of the configuration."""
    seed: Natural = 0
    """of the random numbers of learners that have any."""


class Config(Root):
    """The keys outside of sections.

    Relative paths are resolved by ``load``; the language of the model chooses the subclass.
    """

    dialect: DialectName = "alchemy"
    """how the model and .db files are written; weights files are Alchemy's in any case."""
    query: Names
    """the predicates to predict."""
    source: AnySource
    """a section with the path of the examples."""
    output: AnyPath
    """the run folder; the default is runs/ and the name of the configuration."""
    world: bool | Literal["keep_conflicts"] = False
    """keep one world: each record changes its facts, and the answer follows; `onlinesrl guide worlds`.
    Changes under which the hard rules cannot all hold are bad; with keep_conflicts they wait."""
    labels: LabelsSection | None = None
    sink: AnySink = FileSinkSection()
    alerts: AlertsSection | None = None
    learner: AnyUpdate = Standard()
    inference: EngineSection
    checkpoint: CheckpointSection = CheckpointSection()
    metrics: MetricsSection = MetricsSection()
    limits: LimitsSection = LimitsSection()
    drift: DriftSection | None = None
    distribute: DistributeSection | None = None
    seed: Natural = 0
    """of the random numbers of MaxWalkSAT (also as the fallback of a search) and MC-SAT."""
    batch: Count = 500
    """the most examples in a micro-batch of about a second; every size gives bit-identical results."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        self.source.check(self)
        self.sink.check(self)
        if self.distribute is not None:
            self.distribute.check(self)
        if self.alerts is not None:
            self.alerts.check(self)
        for key, section in (("metrics.top", self.metrics.top), ("alerts", self.alerts)):
            if section is not None and not self.inference.scores:
                raise ValueError(
                    f"{key}: predictions by {self.inference.engine} have no probabilities; set "
                    "inference.engine: mcsat (or gibbs)"
                )
        if not self.world:
            return self
        for key in ("labels", "drift", "distribute", "alerts"):
            if getattr(self, key) is not None:
                raise ValueError(
                    f"{key}: not for a world (world: true), whose records change facts"
                )
        if getattr(self.inference, "coverage", None) is not None:
            raise ValueError(
                "inference.coverage: not for a world (world: true), which has no examples"
            )
        if self.metrics.own:
            raise ValueError("metrics.own: not for a world (world: true), which has no examples")
        if self.metrics.top is not None:
            raise ValueError("metrics.top: not for a world (world: true), which has no examples")
        if self.metrics.seconds is not None:
            raise ValueError("metrics.every: a world (world: true) has no times; expected a number")
        if self.sink.kind not in {"file", "kafka"}:
            raise ValueError(
                "sink.kind: a world writes to a file or to Kafka; expected one of these"
            )
        if self.inference.engine not in {"mpe", "admm"}:
            raise ValueError(
                "inference.engine: a world's answer is its most probable state, by mpe or admm; leave it out "
                "(marginals() of a World in Python has probabilities)"
            )
        return self

    def check_examples(self) -> None:
        """Raise ConfigError where records change a world and are no examples."""
        if self.world:
            raise self.error(
                "world", "predictions and scores are of examples; a world answers in its run"
            )

    @property
    def of_records(self) -> bool:
        """Whether the run is over records, of which it makes entities."""
        return getattr(self, "entities", None) is not None

    def argument_types(self, program: Program | None = None) -> dict[str, tuple[str | None, ...]]:
        """Return the types of the arguments of each predicate that records have. Raises ModelError."""
        program = program or self.language.load(self.model, self.dialect)
        return {
            name: tuple(self.language.argument_types(program, name)) for name in program.predicates
        }

    def fingerprint(self, model: str) -> dict[str, Any]:
        """Return what two runs must have in common for one to resume from the other's checkpoint."""
        facts, start = self.source.background, self.learner.start
        replaceable = [f"source.{key}" for key in self.source.replaceable]
        replaceable += [f"sink.{key}" for key in self.sink.replaceable]
        if self.alerts is not None:
            replaceable += [f"alerts.sink.{key}" for key in self.alerts.sink.replaceable]
        return fingerprint(self.as_dict(), model, facts, start, replaceable)


class MlnConfig(Config):
    """The keys of a run of Markov logic."""

    targets: Literal["all", "listed"] = "all"
    """the open atoms of a world: all of the query that no fact decides, or only those that changes list in
    their `query`."""
    entities: EntitiesSection | None = None
    inference: AnyMlnEngine = MpeSection()

    @model_validator(mode="before")
    @classmethod
    def _of_records(cls, values: Any) -> Any:
        """Add what a run over records has by default: its query, its world, and optional rules."""
        if not isinstance(values, dict) or values.get("entities") is None:
            return values
        values = {"query": SAME, "world": True} | values
        match values.get("source"):
            case {"mapping": dict() as mapping} as source:
                optional = {part: _optional(rules) for part, rules in mapping.items()}
                values["source"] = source | {"mapping": optional}
        return values

    @model_validator(mode="after")
    def _resolves_in_a_world(self) -> Self:
        if self.entities is None:
            return self
        if self.world is not True or self.targets != "all":
            raise ValueError(
                "entities: records are the facts of a world; expected world: true, without targets"
            )
        if self.query != (SAME,):
            raise ValueError(f"query: expected {SAME}, of which entities are made")
        if self.source.background is not None:
            raise ValueError("source.background: records come by the source; leave it out")
        if getattr(self.inference, "best", 1) > 1:
            raise ValueError("inference.best: not for entities, which are one answer; leave it out")
        if self.source.mapping is not None:
            for column in self.entities.resolver().columns:
                if column not in self.source.mapping.evidence:
                    raise ValueError(
                        f"source.mapping: no rule of evidence gives {column}, a column of entities, a value"
                    )
        return self

    def argument_types(self, program: Program | None = None) -> dict[str, tuple[str | None, ...]]:
        """See ``Config.argument_types``."""
        if self.entities is None:
            return super().argument_types(program)
        return {name: (None,) * n for name, n in self.entities.facts().arities.items()}

    @model_validator(mode="after")
    def _lists_in_a_world(self) -> Self:
        if self.targets == "listed" and not self.world:
            raise ValueError(
                "targets: for a world (world: true); an example lists its open atoms in `query`"
            )
        return self


def _optional(part: Any) -> Any:
    """Return the rules of a part of a mapping; those that do not say it are optional."""
    if not isinstance(part, dict):
        return part
    many = {name: rules if isinstance(rules, list) else [rules] for name, rules in part.items()}
    return {
        name: [{"optional": True} | rule if isinstance(rule, dict) else rule for rule in rules]
        for name, rules in many.items()
    }


class EntityWeights(MlnConfig):
    """The keys of a run over records, whose ``model`` is yet to be written."""

    model: AnyPath
    entities: EntitiesSection

    @model_validator(mode="after")
    def _writes_markov_logic(self) -> Self:
        if self.language is not language_of(".mln"):
            raise ValueError(f"model: the weights are Markov logic, expected {self.model.stem}.mln")
        return self


class PslConfig(Config):
    """The keys of a run of PSL."""

    inference: AnyPslEngine = AdmmSection()
