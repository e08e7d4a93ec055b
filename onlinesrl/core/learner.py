"""The interface of learners: what they take and return for an example, and what a run calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, TypeVar, runtime_checkable

import msgspec
import numpy as np

from onlinesrl.core.arrays import Ints
from onlinesrl.core.errors import ExampleError
from onlinesrl.core.evaluation.confusion_matrix import Confusion, Pair
from onlinesrl.core.evaluation.label_sets import LabelSet
from onlinesrl.core.evaluation.prequential import known_sum
from onlinesrl.core.evaluation.ranking_metrics import Ranking
from onlinesrl.core.example import Atom, Atoms, Constant, Example, Rows, ValuedAtom
from onlinesrl.core.explain.counterfactual import DEFAULTS, CounterfactualQuery
from onlinesrl.core.explain.explanation import Explanation
from onlinesrl.core.online.parameter_mixing import State
from onlinesrl.core.online.temperature import Temperature
from onlinesrl.core.online.update_rules.rule import Update
from onlinesrl.core.rule_instance import PlacedWeight
from onlinesrl.core.timing import Slowest


class Estimate(msgspec.Struct, omit_defaults=True, frozen=True):
    """A number, exact unless it has a ``standard_error``; that is 0 where all samples agree."""

    value: float
    standard_error: float | None = None


class Alternative(msgspec.Struct, omit_defaults=True):
    """Another one of the best states of an example; how much less it scores, and where it differs.

    ``rank`` counts from 1; states of equal score have the same rank. ``true`` and ``false`` have the atoms
    that are predicted otherwise. If it is ``certified``, no state that is not listed before scores more.
    """

    rank: int
    score: float
    difference: float
    certified: bool
    true: Rows = {}
    false: Rows = {}


class Prediction(msgspec.Struct, omit_defaults=True):
    """One line of predictions.jsonl.

    ``predicted`` has the atoms predicted true (Markov logic), or every target with its value (PSL);
    ``hamming`` counts the wrong atoms (PSL: see ``psl.online.reporting``); ``l1`` is the
    sum of |value - true value| over the targets. ``certified`` says whether it is proven that no other state
    has a higher score; if it is, ``best`` has the next best states, where these are asked for. ``marginals``
    has every open atom with its probability, where marginals are inferred;
    ``predicted`` is then the most probable value of each atom or group by itself, no state is searched for,
    and in place of ``certified`` stands whether the ``probabilities`` are exact or sampled. For sampled ones,
    ``r_hat`` is the largest R-hat and ``ess`` the least effective sample size of an atom. ``threshold`` has,
    by predicate, the least probability of an atom predicted true, where that is not above 1/2.
    With ``inference.coverage``, ``sets`` has the labels of each unit, after so many ``truths``; see
    ``label_sets``; it ``abstains`` where one of them is empty, or has every label. Where ``best`` states are
    listed, the unit is the whole answer, see ``mln.online.answer_sets``. ``formulas`` has the
    probabilities of those asked about.
    """

    id: Constant
    predicted: Rows
    score: float
    certified: bool | None = None
    group: str | None = None
    hamming: int | None = None
    margin: float | None = None
    l1: float | None = None
    probabilities: Literal["exact", "sampled"] | None = None
    marginals: Mapping[str, Sequence[ValuedAtom]] | None = None
    r_hat: float | None = None
    ess: float | None = None
    threshold: Mapping[str, float] | None = None
    sets: Mapping[str, Sequence[LabelSet]] | None = None
    truths: int | None = None
    abstains: bool = False
    formulas: Mapping[str, Estimate] | None = None
    best: Sequence[Alternative] | None = None

    def whole(self) -> Prediction:
        """Return the prediction with its atoms in memory."""
        return self


class Outcome(msgspec.Struct):
    """The result for one example: its prediction, or the reason why it is bad.

    ``unsolved``: it is bad only because a search reached its limit. ``wrong``: the share of its
    units that were predicted wrongly, where its truth is known.
    """

    prediction: Prediction | None
    error: str | None = None
    unsolved: bool = False
    wrong: float | None = None


class Answered(NamedTuple):
    """An example whose truth came after its prediction was written; that prediction is scored."""

    example: Example
    prediction: Prediction


Item: TypeAlias = Example | ExampleError | Answered
"""The input of one step of a learner; an ExampleError stands for a bad example."""


def scored(
    items: Sequence[Item], outcomes: Sequence[Outcome]
) -> Iterator[tuple[Prediction, Example]]:
    """Yield the predictions that labelled examples are scored by, with these examples."""
    for item, outcome in zip(items, outcomes, strict=True):
        if outcome.prediction is None:
            continue
        prediction = item.prediction if isinstance(item, Answered) else outcome.prediction
        example = item.example if isinstance(item, Answered) else item
        if isinstance(example, Example) and example.labelled:
            yield prediction.whole(), example.whole()


@dataclass
class Tally:
    """Integer counts over a batch, for the metrics."""

    counts: Ints = field(default_factory=lambda: np.zeros(7, np.int64))  # metrics.HITS .. EXACT
    labelled: int = 0
    predicted: int = 0  # in this step: examples that are not Answered
    certified: int | None = 0  # None: probabilities predict, and no state is searched for
    audited: int = 0
    unsolved: int = 0  # a search reached its limit, whether the example is bad or not
    routes: dict[str, int] = field(default_factory=Counter)
    by_class: dict[str, Ints] = field(default_factory=dict)  # hits, false alarms, misses
    errors: dict[str, int] = field(default_factory=Counter)  # bad examples by ExampleError.kind
    l1: int | None = None  # in units of metrics.UNIT; None for Markov logic
    predicates: dict[str, Ints] = field(default_factory=dict)  # as by_class
    ranking: dict[str, Ranking] = field(default_factory=dict)  # of scores, by predicate
    pairs: Mapping[Pair, int] | None = field(default_factory=dict)  # see confusion.pairs
    skipped: int = 0  # ground rules left out, with an atom neither observed nor a target
    sets: dict[tuple[str, str], Ints] = field(default_factory=dict)  # see ``set_coverage``

    def __add__(self, other: Tally) -> Tally:
        """Return the counts over both batches."""
        confusion = Confusion()
        confusion.add(self.pairs)
        confusion.add(other.pairs)
        ranking = {name: Ranking() for name in {**self.ranking, **other.ranking}}
        for rankings in (self.ranking, other.ranking):
            for name, counts in rankings.items():
                ranking[name].merge(counts)
        return Tally(
            counts=self.counts + other.counts,
            labelled=self.labelled + other.labelled,
            predicted=self.predicted + other.predicted,
            certified=known_sum(self.certified, other.certified),
            audited=self.audited + other.audited,
            unsolved=self.unsolved + other.unsolved,
            routes=_sums(self.routes, other.routes),
            by_class=_sums(self.by_class, other.by_class),
            errors=_sums(self.errors, other.errors),
            l1=None if self.l1 is None else self.l1 + (other.l1 or 0),
            predicates=_sums(self.predicates, other.predicates),
            ranking=ranking,
            pairs=confusion.counts,
            skipped=self.skipped + other.skipped,
            sets=_sums(self.sets, other.sets),
        )


K = TypeVar("K")


def _sums(first: Mapping[K, Any], second: Mapping[K, Any]) -> dict[K, Any]:
    """Return the sums by name, in order of first appearance."""
    return {name: first.get(name, 0) + second.get(name, 0) for name in {**first, **second}}


class WeightEntry(Protocol):
    """One weight by name: its rule, the constants of its instance, its value (see ``Update.predict``)."""

    @property
    def text(self) -> str:
        """The rule."""

    @property
    def key(self) -> tuple[str, ...]:
        """The constants of a template's instance; empty where the rule has one weight."""

    @property
    def instance(self) -> str:
        """The key with the names of the template's variables, ``w = learning``."""

    @property
    def weight(self) -> float:
        """The weight that predicts, averaged or current."""

    @property
    def uses(self) -> int:
        """The number of updates that the weight took part in."""

    @property
    def standard_error(self) -> float | None:
        """The root of the weight's variance; None where the update has none."""


E = TypeVar("E", bound=WeightEntry)


def heaviest(entries: Iterable[E]) -> list[E]:
    """Return the weights by |weight| times the updates they took part in, largest first.

    Weights that are zero and were never updated are left out.
    """
    used = [e for e in entries if e.uses or e.weight != 0.0]
    return sorted(used, key=lambda e: -abs(e.weight) * max(1, e.uses))


class LearnedWeights(Protocol):
    """The weights of a learner; the length is their number."""

    dropped: int

    def __len__(self) -> int: ...

    @property
    def updates(self) -> int:
        """The number of updates so far."""

    def entries(self) -> Iterator[WeightEntry]:
        """Yield every weight by name, in a fixed order."""

    def placed(self) -> list[PlacedWeight]:
        """Return every weight by its place in the model."""


class OnlineLearning(Protocol):
    """Predicts each example of a stream, then learns from it."""

    update: Update
    slowest: Slowest
    temperature: Temperature | None
    """The temperature of probabilities, where the update is ``calibrated``."""
    valued: bool
    """Whether predictions are values in [0, 1]."""
    exclusive: Mapping[str, Sequence[int]]
    """By predicate the arguments in which atoms differ of which at most one is true."""

    @property
    def weights(self) -> LearnedWeights:
        """The weights."""

    @property
    def model_text(self) -> str:
        """The model as text that parses to the same model."""

    def describe(self) -> str:
        """Describe the size of the model."""

    def compile(self) -> float:
        """Compile the kernels, or load them from the cache; returns the seconds it took."""

    def decode(self, line: bytes) -> Example:
        """Return the example of a JSON line, as ``step`` takes it. Raises ExampleError.

        It need not have its atoms in memory: ``whole`` has them.
        """

    def decode_all(self, lines: Sequence[bytes]) -> list[Example | ExampleError]:
        """Return the example of each line, or why it is none."""

    def step(self, items: Sequence[Item], learning: bool = True) -> tuple[list[Outcome], Tally]:
        """Predict, and learn from, each example in turn; an Answered one is not predicted again.

        There are as many outcomes as items. Raises MemoryError, after which the learner is of no more use.
        """

    def predict(
        self, items: Sequence[Item], marginals: bool = False, best: int | None = None
    ) -> list[Outcome]:
        """Predict between two steps, without any effect on learning.

        ``marginals``: each atom by its probability. ``best``: so many states, the predicted one among them.
        Raises UsageError where there are none (PSL).
        """

    def certificate(self) -> dict[str, float | None]:
        """Return the mean loss, the dual value and the bound on the regret, as far as known."""

    def weights_text(self, averaged: str, by: str) -> str:
        """Return a file of weights: a program in the language of the model.

        ``averaged`` describes the weights, ``by`` names the program that wrote them.
        """

    def advice(self, examples: Sequence[Example]) -> list[str]:
        """Return hints: likely mistakes in some examples, and rules that are expensive."""

    def complaints(self) -> list[str]:
        """Return what is suspicious after all that was learned from."""


class Explainable(Protocol):
    """Explains its predictions."""

    def explain(
        self, example: Example, atom: Atom | None = None, query: CounterfactualQuery = DEFAULTS
    ) -> Explanation:
        """Explain an atom of the prediction of an example, whose truth is not looked at.

        Without an ``atom`` it is the one that is most easily predicted otherwise. The weights are the
        averaged ones, as for predictions; nothing that learning depends on changes. ``query`` says what
        evidence may change to flip it. Raises ExampleError for a bad example, ExplanationError for an atom
        that is not predicted, and where there is none.
        """

    def least_certain(self, example: Example, most: int) -> list[Atom]:
        """Return the atoms of an example that are most easily predicted otherwise, these first.

        Raises ExampleError for a bad example.
        """

    def probabilities(
        self, example: Example, formulas: Sequence[str], given: Sequence[str] = ()
    ) -> dict[str, Estimate]:
        """Return the probability of each formula in an example, if those ``given`` hold in it, by its text.

        The truth is not looked at; nothing that learning depends on changes. Raises ExampleError for a bad
        example, and UsageError for what is no formula of the model, or where there are no probabilities.
        """

    def words(self, evidence: Atoms) -> dict[str, str]:
        """Return what constants of an example stand for, where they are only numbers."""


class Checkpointable(Protocol):
    """Has a state that a checkpoint holds."""

    def save(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return header and arrays of a checkpoint."""

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
        """Restore what ``save`` returned, bit for bit."""


class Learner(OnlineLearning, Explainable, Checkpointable, Protocol):
    """What runs do with a learner of single examples or of one world."""


@runtime_checkable
class Mergeable(Checkpointable, Protocol):
    """Learns in rounds, on shards of which each starts from the same state."""

    def gain(self, start: State) -> Any:
        """Return what was learned since ``start`` was restored; it can be sent to another process."""

    def merge(self, gains: Sequence[Any], by_dual: bool) -> float:
        """Merge what several learners gained from the state of this one; see ``parameter_mixing``.

        Returns gamma: with ``by_dual`` the best for the dual, otherwise 1 by the number of gains.
        """


class ExampleLearner(Learner, Mergeable, Protocol):
    """All that a learner of single examples does (``mln.online.learner``, ``psl.online.learner``)."""

    seen: int
    """How many examples have been processed, good or bad; audits go by it."""

    def start(self, program: Any) -> list[str]:
        """Set starting weights from a file of weights; returns what does not fit the model."""
