"""The online learner as a Python object."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, repeat
from pathlib import Path
from typing import Any, TypedDict, Unpack

from msgspec.structs import replace
from pydantic import TypeAdapter, ValidationError

from onlinesrl.core.background import Background
from onlinesrl.core.engine import EngineSection
from onlinesrl.core.errors import ConfigError, ExampleError, OnlinesrlWarning, UsageError, shown
from onlinesrl.core.evaluation.own_metric import AnyMetric, Metric
from onlinesrl.core.evaluation.prequential import Metrics
from onlinesrl.core.example import Constant, Example, Label
from onlinesrl.core.interrupt import whole
from onlinesrl.core.io.config_section import Section, kinds_of, not_for
from onlinesrl.core.io.located_yaml import Place
from onlinesrl.core.io.restoring import Misfit, restoring
from onlinesrl.core.language import check_costs, check_query, counted, language_of
from onlinesrl.core.learner import Answered, ExampleLearner, Item, Outcome, scored
from onlinesrl.core.online.temperature import held
from onlinesrl.core.online.update_rules import STANDARD, AnyUpdate
from onlinesrl.core.online.update_rules.rule import Update
from onlinesrl.library.checkpoint import Saved
from onlinesrl.library.constants import Kind, Named, is_number, parts_of, texts
from onlinesrl.library.curves import Curves
from onlinesrl.library.inputs import Given, Unknown, atoms, constant, example, facts, unlabelled_of
from onlinesrl.library.model import Model, check_keys, model_of, names_of
from onlinesrl.library.prediction import Prediction
from onlinesrl.library.streams import TableExamples
from onlinesrl.library.weights import Weights
from onlinesrl.runs.config.fingerprint import LABEL_BYTES
from onlinesrl.runs.config.schema import LimitsSection
from onlinesrl.stream.late_labels import LabelJoiner
from onlinesrl.stream.process_batch import process_batch

BATCH = 128
"""How many examples are taken together; this has no effect on the results."""


@dataclass(frozen=True)
class Settings:
    """What a learner is made with, under the names that a run's configuration has for it."""

    query: tuple[str, ...]
    learner: Update
    inference: EngineSection
    seed: int
    limits: LimitsSection
    own: Mapping[str, Metric]

    def error(self, key: str, reason: str) -> ConfigError:
        """Return the error for a key found wrong."""
        return ConfigError([Place("OnlineLearner").problem(f"{key}: {reason}")])

    def as_dict(self) -> dict[str, Any]:
        """Return the settings for JSON, as a configuration has them."""
        return {
            "query": [*self.query],
            "learner": self.learner.model_dump(mode="json"),
            "inference": self.inference.model_dump(mode="json"),
            "seed": self.seed,
            "limits": {"max_atoms": self.limits.max_atoms},
            "metrics": {
                "own": {k: metric.model_dump(mode="json") for k, metric in self.own.items()}
            },
        }


class LearnerKeys(TypedDict, total=False):
    """Keys of the section ``learner`` of a run's configuration, and ``metrics.own``."""

    loss: str | None
    sigma: float | None
    calibrated: bool | None
    metrics: Mapping[str, object]


class OnlineLearner:
    """Learns the weights of a model from examples, one at a time.

    ``query`` names the predicates to predict. ``update`` is the name of the online update (``cda1``,
    ``cda2``, ``pa1``, ``simple``, ``mira``, ``subgradient``, ``perceptron``, ``adagrad``,
    ``log-likelihood``, ``second-order``; ``cd``, which samples), or a mapping of the keys of the section
    ``learner`` of a run's configuration; ``loss``, ``sigma`` and ``calibrated`` are three of them.
    ``inference`` is the name of the engine, or the keys of that section.
    ``metrics`` are metrics of one's own by name (`onlinesrl guide modules`).
    ``background`` has facts that all examples share. ``by`` is an argument (``Predicate.N`` or its type)
    for each of whose values scores are kept. So many predicted examples as ``pending`` says wait for their
    ``label``; beyond it the oldest are dropped.

    The results are bit for bit those of ``onlinesrl run``. Two learners share no state: each may be used
    in a thread of its own. Raises ModelError, ConfigError, UsageError.

    >>> model = '''person = {Anna, Bob}
    ... Smokes(person)
    ... Cancer(person)
    ... 0 Smokes(x) => Cancer(x)'''
    >>> learner = OnlineLearner(model, query="Cancer")
    >>> _ = learner.learn_one({"Smokes": ["Anna"]}, {"Cancer": ["Anna"]})
    >>> learner.predict_one({"Smokes": ["Bob"]})["Cancer"]
    [('Bob',)]
    """

    def __init__(
        self,
        model: Model | str,
        query: str | Sequence[str],
        *,
        update: str | Mapping[str, Any] | type[Update] | Update = STANDARD,
        inference: str | Mapping[str, Any] | type[EngineSection] | EngineSection | None = None,
        background: Given | None = None,
        by: str | None = None,
        seed: int = 0,
        pending: int = 0,
        **keys: Unpack[LearnerKeys],
    ):
        self.model = model = model_of(model)
        check_keys(keys, LearnerKeys, "OnlineLearner")
        metrics = keys.pop("metrics", {})
        chosen = section(update, "update") | {k: v for k, v in keys.items() if v is not None}
        self.settings = Settings(
            names_of(query, "query"),
            validated(AnyUpdate, "learner", chosen),
            validated(
                model.language.engines,
                "inference",
                section({} if inference is None else inference, "engine"),
            ),
            seed,
            LimitsSection(),
            {
                name: validated(AnyMetric, f"metrics.own.{name}", section(metric, "kind"))
                for name, metric in metrics.items()
            },
        )
        if self.settings.learner.start is not None:
            other = "give a file of weights as the model, or load a checkpoint"
            raise self.settings.error("learner.start", f"for runs only; {other}")
        check_query(model.program, self.settings)
        check_costs(model.language, model.program, self.settings)
        self.background = Background(
            facts(atoms(background or {}, "background"), "background", model.program)
        )
        self.by = by
        class_argument = counted(model.language, model.program, self.settings, by)
        self.learned: ExampleLearner = model.language.learner(
            self.settings, model.program, class_argument, False, self.background
        )
        self._types = model.predicates
        self._lasting = lasting(model)
        self._texts = frozenset[Named]()
        if model.language is not language_of(".psl"):
            every = {kind for kinds in self._types.values() for kind in kinds if kind}
            self._texts = texts(self._types, [atoms(background or {}, "background")], every)
        if type(pending) is not int or pending < 0:
            raise UsageError(f"pending is {pending!r}, expected a whole number, at least 0")
        self._labels = LabelJoiner(pending, LABEL_BYTES)
        self._metrics = Metrics()
        self._lines: list[dict[str, Any]] = []

    # learning and predicting -----------------------------------------------------------------------

    def learn_one(
        self,
        x: Example | Given,
        y: Given | None = None,
        *,
        query: Given | None = None,
        unlabelled: Unknown | None = None,
    ) -> Prediction:
        """Predict an example, then learn from its truth; return that prediction.

        ``x`` is the evidence and ``y`` the truth, each a mapping from predicates to atoms (rows of
        constants, or a table), or ``x`` is an Example. ``query`` is that of ``predict_one``. ``unlabelled``
        has the open atoms whose truth is not known, which are completed; a list of predicates stands for all
        their atoms that the truth does not list. Raises ExampleError for a bad
        example; then the learner is what it was before. Ctrl-C takes effect after the step.
        """
        return self._step([example(x, y, query, unlabelled)], learning=True)[0]

    def label(
        self, id: Constant, truth: Given, *, unlabelled: Unknown | None = None
    ) -> Prediction | None:
        """Learn from the truth of an example that was predicted before; return that prediction, scored.

        ``unlabelled`` is that of ``learn_one``; by default it is the example's own. None: no example of this
        ``id`` waits, and the label waits until one is predicted. The results are
        those of a run with a section ``labels``. Raises ExampleError for a bad truth; then the example
        still waits.
        """
        if not self._labels.limit:
            raise UsageError("no example waits for its label: make the learner with pending=10_000")
        label = Label(
            id=constant(id, "id"), truth=atoms(truth, "truth"), unlabelled=unlabelled_of(unlabelled)
        )
        with whole():
            joined = self._labels.join(label)
            if joined is None:
                return None
            try:
                return self._step([joined[0]], learning=True)[0]
            except ExampleError:
                self._labels.refuse(str(label.id), joined[1])
                raise

    def learn_many(
        self,
        xs: Iterable[Example | Given],
        ys: Iterable[Given] | None = None,
        *,
        again: bool = False,
    ) -> list[Prediction]:
        """Learn from examples in turn; return their predictions, each made before its truth was used.

        All or none: after an exception the learner is what it was before the call, for which its state is
        copied once. ``again`` says that these examples were learned from before: the temperature of a
        ``calibrated`` learner is not fitted to them, since their truth is known to the weights. Raises
        ExampleError, which tells the number of the bad example.
        """
        before, metrics, lines = self._state(), self._metrics.save(), len(self._lines)
        texts_before = self._texts
        predictions: list[Prediction] = []
        try:
            with held(self.learned.temperature if again else None):
                for batch in self._batches(xs, ys):
                    predictions += self._step(batch, learning=True, first=len(predictions))
        except BaseException:
            self.learned.restore(*before)
            self._metrics = Metrics.restore(metrics)
            self._texts = texts_before
            del self._lines[lines:]
            raise
        return predictions

    def predict_one(
        self,
        x: Example | Given,
        *,
        query: Given | None = None,
        marginals: bool = False,
        formulas: str | Sequence[str] = (),
        given: str | Sequence[str] = (),
        best: int | None = None,
    ) -> Prediction:
        """Predict an example with the averaged weights; this does not change the learner.

        ``query`` lists the open atoms where they are not all those over the example's constants (PSL: the
        targets). With ``marginals`` each atom is predicted by its probability, exact where the example is
        narrow, else sampled; those of a ``calibrated`` learner are scaled by its temperature, which
        ``certificate`` has. With ``best``, ``Prediction.best`` has so many best states. With ``formulas``,
        ``Prediction.formulas`` has their probabilities, on the condition that those ``given`` hold; see
        ``infer``. Raises ExampleError, UsageError.

        Where the learner was made with ``pending``, an example without truth waits for its ``label``. One
        whose label came before is learned from. ``prediction.id`` is its id, or a new number.
        """
        asked, condition = names_of(formulas, "formulas"), names_of(given, "given")
        if not asked and not condition:
            return self.predict_many([x], [query], marginals=marginals, best=best)[0]
        sample = self._numbered(x, query)
        with whole():
            values = self.learned.probabilities(sample, asked, condition)
        prediction = self.predict_many([sample], marginals=marginals, best=best)[0]
        prediction.line.formulas = values
        return prediction

    def predict_many(
        self,
        xs: Iterable[Example | Given],
        queries: Iterable[Given | None] | None = None,
        *,
        marginals: bool = False,
        best: int | None = None,
    ) -> list[Prediction]:
        """Predict examples; see ``predict_one``."""
        if best is not None and (type(best) is not int or best < 1):
            raise UsageError(f"best is {shown(best)}, expected a whole number, at least 1")
        predictions: list[Prediction] = []
        samples = xs
        if self._labels.limit:
            every = repeat(None) if queries is None else queries
            pairs = zip(xs, every, strict=queries is not None)
            return [self._predict_waiting(x, query, marginals, best) for x, query in pairs]
        if queries is not None:
            samples = (example(x, None, query) for x, query in zip(xs, queries, strict=True))
        for batch in self._batches(samples):
            with whole():
                outcomes = self.learned.predict(batch, marginals, best)
            predictions += self._predictions(batch, outcomes, len(predictions))
        return predictions

    def _predict_waiting(
        self, x: Example | Given, query: Given | None, marginals: bool, best: int | None
    ) -> Prediction:
        """Predict an example, which waits for its label, as a run does."""
        if marginals or best is not None:
            key, way = ("marginals", "'mcsat'") if marginals else ("best", f"{{'best': {best}}}")
            reason = "what waits for a label is predicted by the engine"
            raise UsageError(f"{key}: {reason}; make the learner with inference={way}")
        sample, bad = self._numbered(x, query), None
        with whole():
            early = self._labels.early_label(sample)
            if early is not None:
                try:
                    (prediction,) = self._step([early.of(sample)], learning=True)
                except ExampleError as error:
                    bad = error
                else:
                    self._labels.early.take(str(sample.id))
                    return prediction
            (prediction,) = self._step([sample], learning=True)
            if sample.truth is None:
                self._labels.early.take(str(sample.id))
                self._labels.wait(sample).give_out(prediction.line)
                self._labels.weigh()
        if bad is not None:
            message = f"the label of {sample.id} that came before it is bad, and dropped: {bad}"
            warnings.warn(message, OnlinesrlWarning, stacklevel=4)
        return prediction

    def _numbered(self, x: Example | Given, query: Given | None) -> Example:
        """Return an example; a new number is that of none that waits."""
        sample = example(x, None, query)
        while not isinstance(x, Example) and str(sample.id) in self._labels:
            sample = replace(sample, id=example({}).id)
        return sample

    def evaluate(
        self, xs: Iterable[Example | Given], ys: Iterable[Given] | None = None
    ) -> dict[str, Any]:
        """Return the scores of the averaged weights on labelled examples, as ``onlinesrl evaluate`` does.

        This does not change the learner. Raises ExampleError, which tells the number of the bad example.
        """
        metrics, seen = Metrics(), self.learned.seen
        try:
            for batch in self._batches(xs, ys):
                with whole():
                    outcomes, tally = process_batch(self.learned, batch, learning=False)
                self._predictions(batch, outcomes, metrics.examples)
                metrics.add(tally, len(batch))
                metrics.score(self.settings.own, scored(batch, outcomes))
        finally:
            self.learned.seen = seen
        scores = metrics.snapshot()
        del scores["window"]
        return scores

    def _batches(
        self, xs: Iterable[Example | Given], ys: Iterable[Given] | None = None
    ) -> Iterator[Sequence[Example | ExampleError]]:
        """Yield examples with their truths, BATCH at a time."""
        if isinstance(xs, TableExamples) and ys is None:
            while lines := [*islice(xs.lines, BATCH)]:
                yield self.learned.decode_all(lines)
            return
        pairs = zip(xs, repeat(None)) if ys is None else zip(xs, ys, strict=True)
        examples = (example(x, y) for x, y in pairs)
        while batch := [*islice(examples, BATCH)]:
            yield batch

    @whole()
    def _step(self, batch: Sequence[Item], learning: bool, first: int = 0) -> list[Prediction]:
        seen, texts_before = self.learned.seen, self._texts
        outcomes, tally = process_batch(self.learned, batch, learning)
        examples = [item.example if isinstance(item, Answered) else item for item in batch]
        late = sum(isinstance(item, Answered) for item in batch)
        if self._lasting:  # what later examples have too, given as text and read as a whole number
            wholes = (x.whole() for x in examples if isinstance(x, Example))
            parts = (part for x in wholes for part in parts_of(x))
            self._texts |= {
                (kind, text)
                for kind, text in texts(self._types, parts, self._lasting)
                if text in (self._lasting[kind] or {text})
            }
        try:
            predictions = self._predictions(examples, outcomes, first)
        except ExampleError:
            self.learned.seen, self._texts = seen, texts_before
            raise
        before = self._metrics.examples
        self._metrics.add(tally, len(batch) - late, late)
        self._metrics.score(self.settings.own, scored(batch, outcomes))
        if self._metrics.examples.bit_length() > before.bit_length():
            self._lines.append(self._line())
            self._metrics.next_window()
        return predictions

    def _predictions(
        self, batch: Sequence[Example | ExampleError], outcomes: Sequence[Outcome], first: int
    ) -> list[Prediction]:
        for n, outcome in enumerate(outcomes, first):
            if outcome.prediction is None:
                place = "" if len(batch) == 1 and not first else f"example {n}: "
                raise ExampleError(f"{place}{outcome.error}", "bad")
        return [
            Prediction(x, outcome.prediction, self._types, self.learned.valued, self._texts)
            for x, outcome in zip(batch, outcomes, strict=True)
            if outcome.prediction is not None and isinstance(x, Example)
        ]

    # what was learned -------------------------------------------------------------------------------

    @property
    def weights(self) -> Weights:
        """The weights that predict, as they are now: averaged, or with ``predict: current`` current ones."""
        header, arrays = self.learned.save()
        contents = {"model": self.learned.model_text, "learner": header}
        contents["fingerprint"] = {"query": [*self.settings.query]}
        rows = self.model.language.rows_of_checkpoint(
            self.model.file, contents, arrays, self.settings.learner
        )
        return Weights([*rows])

    @property
    def certificate(self) -> dict[str, float | None]:
        """The mean loss, the dual value and the bound that it gives on the regret, as far as known.

        Also the temperature, where the learner is ``calibrated``.
        """
        return self.learned.certificate()

    @property
    def metrics(self) -> dict[str, Any]:
        """The scores of all predictions of ``learn_one`` and ``learn_many``, as in metrics.jsonl."""
        line = self._line()
        del line["window"]
        return line | (self._labels.counts() if self._labels.limit else {})

    def _line(self) -> dict[str, Any]:
        snapshot = self._metrics.snapshot()
        return {**snapshot, **self.certificate, "updates": self.learned.weights.updates}

    @property
    def curves(self) -> Curves:
        """The metrics at powers of two of the number of examples, or right after them, and now."""
        return Curves([*self._lines, self._line()], self.settings.learner.update)

    def weights_text(self) -> str:
        """Return the model with the weights that predict: a file of weights, which is a model."""
        return self.learned.weights_text(f"{self.learned.update.predict} weights", "onlinesrl")

    # checkpoints ----------------------------------------------------------------------------------

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        header, arrays = self.learned.save()
        return header, {name: array.copy() for name, array in arrays.items()}

    def save(self, path: str | Path) -> None:
        """Write a checkpoint, whole or not at all; ``learner.start`` of a run takes it too."""
        self._saved().write(Path(path))

    def _saved(self) -> Saved:
        (header, arrays), labels = self._state(), None
        if self._labels.limit:
            labels, waiting = self._labels.save()
            arrays |= waiting
        own: dict[str, Any] = {
            "background": {
                name: [[args, value] for args, value in rows.items()]
                for name, rows in self.background.values.items()
            },
            "by": self.by,
            "lines": self._lines,
        }
        if self._texts:
            own["texts"] = sorted(map(list, self._texts))
        return Saved(
            self.learned.model_text,
            self.model.language,
            self.settings.as_dict(),
            header,
            arrays,
            self._metrics.save(),
            own,
            labels=labels,
            pending=self._labels.limit,
        )

    @classmethod
    def load(cls, path: str | Path, background: Given | None = None) -> OnlineLearner:
        """Return the learner of a checkpoint, or of a run folder's last one; it goes on bit for bit.

        ``background`` are the facts of a run that had some, whose checkpoint does not hold them. Raises
        StorageError, UsageError.
        """
        with restoring(path):
            saved = Saved.read(Path(path))
        if background is None and saved.lacks_facts:
            raise UsageError(
                f"{path}: of a run with source.background; give these facts as background"
            )
        with restoring(path):
            return cls.of(saved, background)

    @classmethod
    def of(cls, saved: Saved, background: Given | None = None) -> OnlineLearner:
        """Return the learner of what a checkpoint holds, with its own facts if it has some. Raises Misfit."""
        settings = saved.settings
        try:
            learner = cls(
                saved.model(),
                settings["query"],
                update=settings["learner"],
                inference=settings["inference"],
                background=background if saved.facts is None else saved.facts,
                by=saved.own.get("by"),
                metrics=settings["metrics"]["own"],
                seed=settings["seed"],
                pending=0 if saved.labels is None else saved.pending,
            )
        except UsageError as error:
            raise Misfit(str(error)) from None
        learner.learned.restore(saved.header, saved.arrays)
        if saved.labels is not None:
            learner._labels.restore(saved.labels, saved.arrays)
        learner._metrics = Metrics.restore(saved.metrics, learner.settings.own)
        learner._lines = [*saved.own.get("lines", ())]
        if saved.own:
            listed = saved.own.get("texts", ())
            learner._texts = frozenset((kind, text) for kind, text in listed)
        return learner

    def __reduce__(self) -> tuple[Any, ...]:
        """Let a learner be pickled and copied, as its checkpoint."""
        saved = self._saved()
        return OnlineLearner.of, (saved,)

    def __repr__(self) -> str:
        update = self.settings.learner.update
        return f"<OnlineLearner by {update}: {self.learned.describe()}>"

    def _repr_html_(self) -> str:
        return self.weights.heaviest()._repr_html_()


def lasting(model: Model) -> dict[Kind, frozenset[str] | None]:
    """Return the whole numbers that the model declares, by type, which all examples have; None: all of it."""
    program: Any = model.program
    if model.language is language_of(".psl"):
        return {}
    numbers = {
        kind: frozenset(filter(is_number, constants)) for kind, constants in program.types.items()
    }
    declared = {kind: constants for kind, constants in numbers.items() if constants}
    return {**declared, **dict.fromkeys(program.open)}


def section(value: object, tag: str) -> dict[str, Any]:
    """Return the keys of a section, which may be given by its kind's name or class alone, or be made.

    Raises UsageError.
    """
    if isinstance(value, str | type):
        return {tag: value}
    if isinstance(value, Section):
        return {name: getattr(value, name) for name in value.model_fields_set} | {tag: type(value)}
    if not isinstance(value, Mapping):
        raise UsageError(
            f"{tag} is {shown(value)}, expected its name, its class, or a mapping of keys with their values"
        )
    return {**value}


def validated(kind: Any, section: str, values: dict[str, Any]) -> Any:
    """Return the section of given keys. Raises UsageError with all that is wrong."""
    try:
        return TypeAdapter(kind).validate_python(values)
    except ValidationError as error:
        raise UsageError(
            "; ".join(_said(kind, section, values, problem) for problem in error.errors())
        ) from None


def _said(annotation: Any, section: str, values: Mapping[str, Any], error: Any) -> str:
    """Return what is wrong with a key of a section."""
    kinds, place = kinds_of(annotation), error["loc"]
    assert kinds is not None
    key, tag = ".".join([section, *map(str, place)]), kinds.base.tag
    reason = str(error.get("ctx", {}).get("error", error["msg"]))
    if error["type"] == "kind":
        key, reason = f"{key}.{tag}", f"{reason}, found {shown(values.get(tag))}"
    if error["type"] == "extra_forbidden":
        chosen = kinds.resolve(values.get(tag, next(iter(kinds.own))))
        names = ", ".join(chosen.model_fields)
        other = not_for(str(place[-1]), chosen, kinds.own.values())
        reason = f"{other or 'unknown key'}; known here: {names}"
    return f"{key}: {reason}"
