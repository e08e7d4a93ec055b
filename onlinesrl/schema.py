"""What a run can be told: the keys of a configuration, their meanings, defaults and what each may be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, PrivateAttr, ValidationInfo, field_validator, model_validator

from onlinesrl.errors import ConfigError
from onlinesrl.fingerprint import LABEL_BYTES, fingerprint
from onlinesrl.section import Section as _Section
from onlinesrl.sinks import AnySink
from onlinesrl.sinks.file import FileSinkSection
from onlinesrl.sources import AnySource
from onlinesrl.values import (
    AnyPath,
    Count,
    Existing,
    File,
    Name,
    Names,
    Natural,
    Positive,
    duration,
)
from onlinesrl.yamltree import Place, Tree

LOSSES: Mapping[str, tuple[Literal["ml", "pl"], ...]] = {
    "cda1": ("ml", "pl"),
    "cda2": ("ml", "pl"),
    "mira": ("pl",),
    "subgradient": ("ml",),
    "perceptron": ("pl",),
    "adagrad": ("ml", "pl"),
}
"""The losses each update takes; the first is its default."""

MARKOV_LOGIC_ONLY: tuple[tuple[str, ...], ...] = (
    ("dialect",),
    ("learner", "max_weights"),
    ("inference", "engine"),
    ("inference", "presolve"),
    ("inference", "solver"),
    ("inference", "audit_every"),
    ("inference", "max_nodes"),
    ("inference", "max_work"),
)
"""The keys that say nothing of a PSL program."""

PSL_ONLY = (("inference", "targets"),)
"""The keys that say nothing of a Markov logic network."""


DialectName = Literal["alchemy", "tuffy", "rockit", "pracmln", "pracmln-standard", "lomrf"]


class Labels(_Section):
    """Truth that comes after its example: on ``topic``, or further down the stream."""

    topic: Name | None = None
    """where labels come from: {"id": "c1", "truth": {...}}; null: further down the source."""
    pending: Count = 10_000
    """how many examples may wait for their truth; past it the oldest are given up."""
    max_bytes: Count = LABEL_BYTES
    """how many bytes of JSON these may take, with their predictions; past it the oldest are given up."""


class Learner(_Section):
    """The online update, its loss and its constants (Huynh & Mooney 2010, Algorithm 3)."""

    update: Literal["cda1", "cda2", "mira", "subgradient", "perceptron", "adagrad"] = "cda2"
    """the online update."""
    loss: Literal["ml", "pl"] = "ml"
    """the rival of the truth is the loss-augmented (ml) or the plain (pl) prediction; the default
    is the first that the update takes."""
    sigma: Positive = 0.01
    """strength of the regularisation; larger values make smaller steps."""
    eta: Positive = 1.0
    """perceptron: the size of a step."""
    max_weights: Count | None = None
    """past so many weights the least influential are dropped; null: never."""
    start: Existing | None = None
    """what to start from: a file of weights, .mln or .psl, or a run folder or checkpoint, whose
    learning goes on whole; null: the weights of the rules."""

    @model_validator(mode="before")
    @classmethod
    def _default_loss(cls, values: object) -> object:
        if not isinstance(values, dict) or "loss" in values:
            return values
        losses = LOSSES.get(str(values.get("update", "cda2")), ("ml",))
        return {**values, "loss": losses[0]}

    @field_validator("loss")
    @classmethod
    def _fits(cls, loss: str, info: ValidationInfo) -> str:
        update = info.data.get("update")
        if update is not None and loss not in LOSSES[update]:
            raise ValueError(f"{update} takes {' or '.join(LOSSES[update])}")
        return loss

    @field_validator("eta")
    @classmethod
    def _perceptron(cls, eta: float, info: ValidationInfo) -> float:
        if info.data.get("update", "perceptron") != "perceptron":
            raise ValueError("only the perceptron has an eta")
        return eta


class Inference(_Section):
    """How the most probable state is found, and how far a search may go."""

    engine: Literal["mpe", "walksat", "lp", "mcsat"] = "mpe"
    """how examples are predicted. mpe: by the most probable state, proven (certified: true). walksat
    (local search) and lp (the relaxation, rounded): by a good state, where elimination is too wide, and
    learned from against rivals found the same way, proven or not: no bound on the regret. mcsat: by
    each atom's probability (exact where narrow, else sampled; with AUC and the like), and learned from
    against proven rivals, as with mpe."""
    presolve: Literal["exact", "none"] = "exact"
    """exact reductions before a search, or everything whole through the engine."""
    solver: Literal["highs", "cbc"] = "highs"
    """the solver of the integer linear program."""
    audit_every: Natural = 0
    """every n-th example is also solved whole, and the two answers are compared; 0: none."""
    max_groundings: Count = 1_000_000
    """the most ground clauses (PSL: rows of joins) of an example; one with more is bad."""
    max_nodes: Count | None = None
    """the nodes of branch and bound after which a search ends, the same on every replay; null: any
    number."""
    max_work: Count | None = 1_000_000
    """the work after which a search ends, the same on every replay: the steps of HiGHS (LPs and
    nodes) times the entries of its matrix. A million take 1 to 15 seconds; null: the search goes on to
    the proof, for hours on dense examples of a hundred atoms. cbc counts nodes only."""
    unsolved: Literal["fallback", "skip", "stop"] = "fallback"
    """what becomes of an example whose search ended without proof: predicted by the best state
    found, put aside as bad, or the end of the run."""
    targets: Literal["stop", "skip"] = "stop"
    """what becomes of a ground rule that reaches an atom, of a predicate with targets, that is
    neither observed nor a target: its example is bad, or the ground rule is left out and
    counted."""

    @field_validator("audit_every")
    @classmethod
    def _proven(cls, audit_every: int, info: ValidationInfo) -> int:
        if audit_every and info.data.get("engine", "mpe") != "mpe":
            raise ValueError("only the answers of engine mpe can be audited")
        return audit_every


class Checkpoint(_Section):
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


class Metrics(_Section):
    """When a line of metrics is written, and what is counted by itself."""

    every: Count | None = None
    """examples from one line of metrics.jsonl to the next; null: at powers of two and at the
    end."""
    by: Annotated[str, Field(pattern=r"^[^\W\d]\w*(\.[1-9][0-9]*)?$")] | None = None
    """count precision, recall and F1 for each value of this argument, too: Predicate.N, counted
    from 1, or the name of its type."""


class Limits(_Section):
    """What an example, and a stream, may be before it is refused."""

    bad_share: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 0.1
    """a larger share of bad examples ends the run; looked at every 128 examples and at the end."""
    max_atoms: Count = 1_000_000
    """the most open atoms of an example, and the most atoms of a predicate in its evidence; one with
    more is bad."""
    crashes: Natural = 3
    """an example that so many processes in succession died in is bad; 0: none is."""


class Config(_Section):
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
    labels: Labels | None = None
    sink: AnySink = FileSinkSection()
    learner: Learner = Learner()
    inference: Inference = Inference()
    checkpoint: Checkpoint = Checkpoint()
    metrics: Metrics = Metrics()
    limits: Limits = Limits()
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
    def soft(self) -> bool:
        """Whether the model is a PSL program."""
        return self.model.suffix == ".psl"

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
