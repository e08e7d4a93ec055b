"""The sequence tagger: a chain Markov logic network learned online."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import chain, compress
from numbers import Real
from typing import Any, NamedTuple, Self

import msgspec
import numpy as np

from onlinesrl.core.arrays import Floats
from onlinesrl.core.errors import InputError, UsageError, shown
from onlinesrl.core.evaluation.class_balance import BALANCED
from onlinesrl.core.evaluation.label_sets import RATE, LabelSets, Unit
from onlinesrl.core.evaluation.set_coverage import SetCounts, add, counted, figures
from onlinesrl.core.interrupt import whole
from onlinesrl.core.online.update_rules import STANDARD, AnyUpdate
from onlinesrl.core.online.update_rules.rule import Update
from onlinesrl.library.estimators.chunk_probabilities import Sums
from onlinesrl.library.estimators.estimator import ClassWeight, Estimator
from onlinesrl.library.estimators.features import Features, Rows
from onlinesrl.library.estimators.samples import (
    Label,
    classes_of,
    extended,
    labels_of,
    listed,
    orders,
    samples_of,
)
from onlinesrl.library.estimators.scores import (
    OUTSIDE,
    Lists,
    chunk_f1,
    chunk_scores,
    chunks,
    label_scores,
    table,
)
from onlinesrl.library.learner import validated
from onlinesrl.logic.text import quote
from onlinesrl.mln.kernels.chain_crf import Chains
from onlinesrl.mln.online import answer_sets
from onlinesrl.mln.online.chain_weights import ChainWeights

RULES = """\
Feature(feature, position): real
Next(position, position)
Label(position, label!)
"""

LABEL = "Label"
"""The predicate of labels."""
MOST = 1000
"""The most labellings of a sample that are asked for."""
WHOLE = 'coverage={"best": 5, "coverage": 0.95}'


class Span(NamedTuple):
    """A chunk of a labelling: its kind, its first and last position, from 0, and its probability."""

    kind: str
    first: int
    last: int
    probability: float


class SequenceTagger(Estimator):
    """Labels the positions of sequences, by their features and the label before.

    A sample of ``X`` is a sequence: for each position a mapping of features (strings, bools, numbers; lists,
    sets and mappings of them), or a list of their names, as sklearn-crfsuite takes them; in ``y`` it has a
    label, string or integer, for each. ``update``, ``loss`` and ``sigma`` are those of ``OnlineLearner``,
    ``passes`` and ``held_out`` say how often ``fit`` goes over the samples. ``class_weight`` is what a
    position counts by its label: a mapping from labels, or ``balanced`` by the labels seen so far.
    ``calibrated`` divides scores by a temperature for ``predict_marginals``. It is fitted in the first pass,
    to each truth before it is learned from; labels and weights are the same without it. ``coverage`` is the
    share of positions whose set of labels has the true one, see ``predict_sets``;
    ``{"best": 5, "coverage": 0.95}`` has the share of samples whose set of whole labellings has the true one,
    see ``predict_sequence_sets``.

    It is the Markov logic network of the rules ``Feature(+f, t) ^ Label(t, +y)`` and ``Next(t, u) ^
    Label(t, +y) ^ Label(u, +z)``, learned a sample at a time, and averaged. A number multiplies
    the weight of its feature. Predictions are exact (Viterbi), and so are marginals (forward-backward), but
    that a double has 16 digits: beside a number of 1e18, what the other features of its position add is lost.

    After an exception it is what it was before. Raises InputError, UsageError, NotFittedError.

    >>> X = [[{"word": "in"}, {"word": "Rome", "title": True}], [{"word": "Ann", "title": True}]]
    >>> tagger = SequenceTagger().fit(X, [["O", "PLACE"], ["NAME"]])
    >>> tagger.predict([[{"word": "Ann"}, {"word": "in"}, {"word": "Oslo", "title": True}]])
    [['NAME', 'O', 'PLACE']]
    >>> _ = tagger.partial_fit([[{"word": "1999"}]], [["YEAR"]])
    >>> tagger.classes_
    ['O', 'PLACE', 'NAME', 'YEAR']
    """

    learned_: Learned
    noun = "position"

    def __init__(
        self,
        update: str | Mapping[str, Any] = STANDARD,
        loss: str | None = None,
        sigma: float | None = None,
        passes: int = 1,
        held_out: float | None = None,
        class_weight: ClassWeight | None = None,
        calibrated: bool = False,
        coverage: float | Mapping[str, Any] | None = None,
    ):
        super().__init__(update, loss, sigma, passes, held_out, class_weight, calibrated)
        self.coverage = coverage

    def predict_marginals(self, X: Any) -> list[list[dict[Label, float]]]:
        """Return for each position of each sample the probability of each label."""
        learned: Learned = self._labelling()
        of_samples = learned.weights.marginals(learned.read(X))
        return Lists(
            [dict(zip(learned.classes, p, strict=True)) for p in token_probabilities]
            for token_probabilities in of_samples
        )

    def predict_sets(self, X: Any) -> list[list[list[Label]]]:
        """Return for each position of each sample a set of labels, of those made with ``coverage``.

        Of the sets that samples had before they were first learned from, the share that has the true label
        comes near ``coverage``, whatever the samples are (see ``label_sets`` for the bound); ``coverage_``
        tells it. A set may be empty, or have all labels: then the tagger abstains.
        """
        learned = self._labelling()
        if learned.sets is None or learned.best:
            raise UsageError("there are no sets of labels: make the tagger with coverage=0.95")
        return Lists(
            [one.labels for one in learned.sets.of({LABEL: learned.units(p)})[LABEL]]
            for p in learned.weights.marginals(learned.read(X))
        )

    def predict_sequence_sets(self, X: Any) -> list[list[list[Label]] | None]:
        """Return for each sample a set of labellings, of those made with ``best`` in ``coverage``.

        They are the first of its best ones, fewer than ``best``. None is a set of every labelling:
        then the tagger abstains. Of the sets that samples had before they were first learned from, the share
        that has the true labelling comes near ``coverage``, whatever the samples are (see
        ``mln.online.answer_sets``); ``coverage_`` tells it.
        """
        learned: Learned = self._labelling()
        sets, best, answers = learned.sets, learned.best, Lists()
        if sets is None or best is None:
            raise UsageError(f"there are no sets of labellings: make the tagger with {WHOLE}")
        for paths, log_p in learned.weights.best_labellings(learned.read(X), best):
            size = answer_sets.size(sets.of(_units(paths, log_p, None)))
            answers.append(None if size is None else [*map(learned.named, paths[:size])])
        return answers

    @property
    def coverage_(self) -> dict[str, Any]:
        """How many sets there were, the share that had the truth, the mean size, and how many abstain.

        And so ``by`` true label; of sets of labellings, by the place of the truth among the best.
        """
        of_all: dict[str, Any] = next(iter(figures(self._labelling().covered, {}).values()), {})
        return {key: value for key, value in of_all.items() if key != "window"}

    def predict_sequences(self, X: Any, best: int = 5) -> list[list[tuple[list[Label], float]]]:
        """Return the ``best`` labellings of each sample, most probable first, with their probabilities."""
        _check_best(best, 1)
        learned: Learned = self._labelling()
        of_chains = learned.weights.best_labellings(learned.read(X), best)
        return Lists(
            [
                (learned.named(path), p)
                for path, p in zip(paths, np.exp(log_p).tolist(), strict=True)
            ]
            for paths, log_p in of_chains
        )

    def predict_spans(self, X: Any) -> list[list[Span]]:
        """Return the chunks of each sample's most probable labelling, with their probabilities.

        A chunk is right if its kind and both its ends are, whatever other labels are.
        """
        learned, answers = self._labelling(), Lists()
        read = learned.read(X)
        for labels, (local, step) in zip(
            learned.label(read), learned.weights.scores(read), strict=True
        ):
            spans = [*chunks(labels)]
            sums = Sums(local, step) if spans else None
            answers.append(
                [Span(*span, sums.chunk(span, learned.classes)) for span in spans if sums]
            )
        return answers

    def report(self, X: Any, y: Any) -> str:
        """Return tables of precision, recall, F1 and support of each label, and of each kind of chunk."""
        predicted = self.predict(X)
        labels, kinds = label_scores(y, predicted), chunk_scores(y, predicted)
        if kinds.keys() == labels.keys() - {OUTSIDE}:
            return table(labels)
        return f"{table(labels)}\n\nchunks, F1 {chunk_f1(y, predicted):.3f}\n{table(kinds)}"

    @property
    def state_features_(self) -> dict[tuple[str, Label], float]:
        """The weights of features and labels, other than 0, as sklearn-crfsuite has them."""
        learned: Learned = self._labelling()
        rows = learned.weights.averaged()[len(learned.classes) :]
        return dict(_weights([*learned.features.names], learned.classes, rows))

    @property
    def transition_features_(self) -> dict[tuple[Label, Label], float]:
        """The weights of a label and the next, other than 0, as sklearn-crfsuite has them."""
        learned: Learned = self._labelling()
        rows = learned.weights.averaged()[: len(learned.classes)]
        return dict(_weights(learned.classes, learned.classes, rows))

    def weights_text(self) -> str:
        """Return the model with its averaged weights in Markov logic, for ``Model`` and ``learner.start``."""
        learned: Learned = self._labelling()
        return learned.text()

    def prune(self, threshold: float = 0.0) -> Self:
        """Drop averaged weights of at most ``threshold``, plus or minus, and what only learning needs.

        Pickles and ``weights_text`` are shorter after it. With threshold 0 predictions stay the same;
        otherwise those weights are missing: the guide, estimators and results, says what that costs.
        The tagger can be fitted anew; ``partial_fit`` and ``learn_one`` raise UsageError.
        """
        if not isinstance(threshold, Real) or not 0 <= threshold < math.inf:
            raise UsageError(f"threshold is {threshold!r}, expected a number, at least 0")
        self.learned_ = self._labelling().pruned(float(threshold))
        return self

    def _unnamed(self, x: Any) -> tuple[list[Any] | None, Any]:
        return ([*x], [*x.values()]) if isinstance(x, Mapping) else (None, x)

    def _new(self, update: Mapping[str, Any]) -> Learned:
        chosen: Update = validated(AnyUpdate, "learner", {**update})
        for key in ("max_weights", "start", "costs", "label_loss", "replay"):
            if getattr(chosen, key) is not None:
                raise UsageError(f"learner.{key} does not apply to a tagger")
        for key in sorted(chosen.model_fields_set & {"full", "memory", "samples"}):
            raise UsageError(f"learner.{key} does not apply to a tagger")
        if chosen.drawn() and not chosen.expects:
            raise UsageError(f"learner.update: {chosen.update} does not apply to a tagger")
        share: Any = self.coverage
        best = None
        if isinstance(share, Mapping):
            if share.keys() != {"best", "coverage"}:
                raise UsageError(f"coverage is {shown({**share})}, expected a share, or {WHOLE}")
            share, best = share["coverage"], share["best"]
            _check_best(best, 2)
        if self.coverage is not None and not (
            isinstance(share, Real) and 0 < float(share) <= 0.999
        ):
            raise UsageError(f"coverage is {share!r}, expected a share above 0, at most 0.999")
        coverage = None if share is None else float(share)
        return Learned(chosen, self._class_weight(), coverage, best)


class Learned:
    """What a tagger has learned: numbered features and labels, and their weights."""

    def __init__(
        self,
        update: Update,
        class_weight: ClassWeight | None,
        coverage: float | None = None,
        best: int | None = None,
    ):
        self.features = Features()
        self.classes: list[Label] = []
        self.weights = ChainWeights(update, class_weight == BALANCED)
        self.cost = class_weight if isinstance(class_weight, Mapping) else {}
        rate = answer_sets.RATE if best else RATE
        self.sets = None if coverage is None else LabelSets(coverage, {}, rate=rate)
        self.best = best
        self.covered: SetCounts = {}

    def learn(self, X: Any, y: Any, classes: Sequence[Label] | None) -> None:
        """Learn from all samples or none."""
        if self.weights.final:
            reason = "what learning needs was dropped; fit anew, or keep a copy that is not pruned"
            raise UsageError(f"a pruned tagger does not go on learning: {reason}")
        samples = samples_of(X, least=1)
        with whole() if len(samples) == 1 else nullcontext():
            n_features, sets = len(self.features), (self.sets, self.covered)
            if self.sets is not None and len(samples) > 1:
                self.sets, self.covered = copy.deepcopy(sets)
            try:
                self._learn(samples, y, classes_of(classes))
            except BaseException:
                self.features.forget(n_features)
                self.sets, self.covered = sets
                raise

    def passes(self, X: Any, y: Any) -> Iterator[None]:
        """See ``estimator.Learned.passes``."""
        chains, self.weights, self.classes = self._read(samples_of(X, least=1), y, ())
        for n, order in enumerate(orders(len(chains.start) - 1)):
            if n == 0:
                self.weights = self._met(chains, self.weights, self.classes, 0)
            else:
                self.weights.learn_chains(chains, order, self._costs(self.classes), unseen=False)
            yield

    def copy(self) -> Learned:
        """See ``estimator.Learned.copy``."""
        other = copy.copy(self)
        other.weights = self.weights.copy()
        return other

    def pruned(self, threshold: float) -> Learned:
        """Return what predicts alone, by the averaged weights beyond ``threshold``."""
        other, names = copy.copy(self), [*self.features.names]
        other.weights, features = self.weights.pruned(threshold)
        other.features = Features(names[n] for n in features)
        return other

    def _learn(self, samples: list[Any], y: Any, classes: Sequence[Label]) -> None:
        chains, weights, all_labels = self._read(samples, y, classes)
        if weights is self.weights and len(samples) > 1:
            weights = weights.copy()
        known = len(extended(self.classes, [classes]))
        self.weights = self._met(chains, weights, all_labels, known)
        self.classes = all_labels

    def _met(
        self, chains: Chains, weights: ChainWeights, labels: list[Label], known: int
    ) -> ChainWeights:
        """Learn from chains in their order, where labels beyond the ``known`` count once a chain has them.

        Return the weights with room for all labels.
        """
        highest = np.maximum.accumulate(np.concatenate([[known - 1], chains.label]))
        sizes = highest[chains.start[1:]] + 1  # how many labels are met by the end of each chain
        first, last = 0, len(sizes)
        ends = [*np.flatnonzero(np.diff(sizes)) + 1, last]
        for stop in ends if self.sets is None else range(1, last + 1):
            size, part = int(sizes[first]), _part(chains, first, stop)
            learn = self._covered(part, weights, labels[:size])
            weights = weights.grown(len(self.features), size)
            weights.learn_chains(part, cost=self._costs(labels[:size]), first=first)
            learn()
            first = stop
        return weights

    def units(self, probabilities: Sequence[Sequence[float]]) -> list[Unit]:
        """Return the positions of a sample, by the probabilities of their labels."""
        classes = [*self.classes]
        return [Unit([], classes, [*p], None) for p in probabilities]

    def _covered(
        self, sample: Chains, weights: ChainWeights, labels: Sequence[Label]
    ) -> Callable[[], None]:
        """Return what learns from the truth of a sample, by the sets that it has before.

        ``labels`` that the ``weights`` have not are in no set but of all labels.
        """
        sets = self.sets
        if sets is None or not weights.labels:
            return lambda: None
        read, truth = replace(sample, label=sample.label[:0]), sample.label.tolist()
        if self.best:
            ((paths, log_p),) = weights.best_labellings(read, self.best)
            units = _units(paths, log_p, truth)
        else:
            (marginals,) = weights.marginals(read)
            every, more = [*labels], [0.0] * (len(labels) - weights.labels)
            pairs = zip(marginals, truth, strict=True)
            units = {LABEL: [Unit([], every, [*p, *more], true) for p, true in pairs]}
        given = sets.of(units)

        def learn() -> None:
            add(self.covered, counted(sets.learn(units, given, sets.truths)))

        return learn

    def _costs(self, labels: Sequence[Label]) -> Floats:
        return np.array([self.cost.get(label, 1.0) for label in labels])

    def _read(
        self, samples: list[Any], y: Any, classes: Sequence[Label]
    ) -> tuple[Chains, ChainWeights, list[Label]]:
        """Return samples to learn from, the weights with room for new features, and all labels."""
        rows, lengths = self._rows(samples, adding=True)
        truth = labels_of(y, lengths, SequenceTagger.noun)
        all_labels = extended(self.classes, [classes, *truth])
        place = {label: n for n, label in enumerate(all_labels)}
        chains = _chains(rows, lengths, [place[label] for label in chain.from_iterable(truth)])
        return chains, self.weights.grown(len(self.features), self.weights.labels), all_labels

    def label(self, read: Chains) -> Iterator[list[Label]]:
        """Yield the most probable labelling of each sample."""
        yield from map(self.named, self.weights.predict(read))

    def named(self, path: Sequence[int]) -> list[Label]:
        """Return a labelling by its numbers of labels."""
        return [self.classes[n] for n in path]

    def read(self, X: Any) -> Chains:
        """Return samples to predict."""
        rows, lengths = self._rows(samples_of(X), adding=False)
        return _chains(rows, lengths, ())

    def _rows(self, samples: Sequence[Any], adding: bool) -> tuple[Rows, list[int]]:
        rows, lengths = Rows(), []
        for n, sample in enumerate(samples):
            positions = listed(sample, f"sample {n}", "a list of positions")
            lengths.append(len(positions))
            for t, position in enumerate(positions):
                try:
                    self.features.read(position, rows, adding)
                except InputError as error:
                    raise InputError(f"sample {n}, position {t}: {error}") from None
        return rows, lengths

    def text(self) -> str:
        """Return the model, with weights other than 0 as rules."""
        labels, size = [quote(str(label)) for label in self.classes], len(self.classes)
        rows = self.weights.averaged()
        steps, rows = rows[:size], rows[size : size + len(self.features)]
        used = np.any(rows != 0.0, axis=1)
        names = [quote(name) for name in compress(self.features.names, used)]
        ends = [f"{y})\n" for y in labels]
        head = f"label = {{{', '.join(labels)}}}\n{RULES}\n"
        rules = chain(
            _lines([f" Next(t, u) ^ Label(t, {y}) ^ Label(u, " for y in labels], ends, steps),
            _lines([f" Feature(+{f}, t) ^ Label(t, " for f in names], ends, rows[used]),
        )
        return "".join([head, *chain.from_iterable(rules)])


def _check_best(best: Any, least: int) -> None:
    if type(best) is not int or not least <= best <= MOST:
        raise UsageError(f"best is {shown(best)}, expected a whole number from {least} to {MOST}")


def _units(paths: list[list[int]], log_p: Floats, truth: list[int] | None) -> dict[str, list[Unit]]:
    """Return the unit of the best labellings, see ``answer_sets``; of equal ones, none rises by rounding."""
    below = np.maximum.accumulate(log_p[0] - log_p)[1:].tolist()
    if truth is None:
        return answer_sets.unit(below, None)
    return answer_sets.unit(below, paths.index(truth) if truth in paths else len(below))


def _weights(
    names: Sequence[Any], labels: Sequence[Label], rows: Floats
) -> Iterator[tuple[tuple[Any, Label], float]]:
    """Yield the weights [name, label] other than 0, with the name and the label of each."""
    name, label = rows.nonzero()
    values = rows[name, label].tolist()
    for n, m, weight in zip(name.tolist(), label.tolist(), values, strict=True):
        yield (names[n], labels[m]), weight


def _lines(
    names: Sequence[str], ends: Sequence[str], rows: Floats
) -> Iterator[tuple[str, str, str]]:
    """Return the weights [name, label] other than 0 as text, each with its name and the label's end."""
    name, label = rows.nonzero()
    numbers = msgspec.json.encode(rows[name, label].tolist()).decode()[1:-1].split(",")
    starts, rests = map(names.__getitem__, name.tolist()), map(ends.__getitem__, label.tolist())
    return zip(numbers, starts, rests, strict=False)  # of no weight the text is one empty number


def _part(chains: Chains, first: int, stop: int) -> Chains:
    """Return the chains from ``first`` to ``stop`` by themselves."""
    start = chains.start[first : stop + 1]
    at = chains.first[start[0] : start[-1] + 1]
    positions, features = slice(start[0], start[-1]), slice(at[0], at[-1])
    return Chains(
        start - start[0],
        at - at[0],
        chains.feature[features],
        chains.number[features],
        chains.label[positions],
    )


def _chains(rows: Rows, lengths: Sequence[int], labels: Sequence[int]) -> Chains:
    start = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    first, feature = np.frombuffer(rows.first, np.int64), np.frombuffer(rows.feature, np.int32)
    return Chains(start, first, feature, rows.number, np.array(labels, np.int64))
