"""What users of scikit-learn, river and CRF tools expect of the tagger and of the classifier."""

import copy
import doctest
import pickle
import subprocess
import sys
from importlib import import_module
from itertools import cycle
from pathlib import Path
from random import Random
from typing import Any

import joblib
import numpy as np
import pytest

import onlinesrl as srl
from onlinesrl.core.errors import OnlinesrlWarning
from onlinesrl.library.estimators.estimator import Estimator
from onlinesrl.mln.kernels import chain_crf
from onlinesrl.mln.kernels.chain_crf import Chains
from onlinesrl.mln.online.chain_weights import ChainWeights
from tests.support.golden import check

X = [
    [{"word": "In", "title": True}, {"word": "Rome", "title": True, "length": 0.4}, {"word": "."}],
    [{"word": "Ann", "title": True, "length": 0.3}, {"word": "sings"}],
    [],
]
Y = [["O", "PLACE", "O"], ["NAME", "O"], []]
GRAPHS = [
    ([{"word": "course"}, {"word": "thesis"}, {"word": "home", "new": True}], [(0, 1), (1, 2)]),
    ([{"word": "thesis"}, ["new", "word:home"]], [(0, 1, "cites")]),
    ([], []),
]
CLASSES = [["class", "student", "student"], ["student", "student"], []]
MADE: list[tuple[type[Estimator], list[Any], list[list[str]]]] = [
    (srl.SequenceTagger, X, Y),
    (srl.LinkedClassifier, GRAPHS, CLASSES),
]
both = pytest.mark.parametrize(("cls", "samples", "labels"), MADE, ids=["tagger", "linked"])


def state(estimator: Any) -> bytes:
    """All that an estimator has learned, and nothing that only makes it faster."""
    learned = copy.deepcopy(estimator.learned_)
    if isinstance(estimator, srl.SequenceTagger):
        names, scalar = [*learned.features.names], learned.weights.scalar.tolist()
        weights = learned.weights.averaged()[: len(learned.classes) + len(names)]
        parts = [weights.tobytes(), scalar, names]
    else:
        header, arrays = learned.learner._state()
        parts = [header, {name: array.tobytes() for name, array in arrays.items()}]
    return pickle.dumps([*parts, learned.classes])


# learning ----------------------------------------------------------------------------------------


@both
def test_it_learns_what_it_is_told(cls: Any, samples: Any, labels: Any) -> None:
    assert cls().fit(samples * 5, labels * 5).predict(samples) == labels
    estimator = cls(loss="ml").fit(samples * 5, labels * 5)
    assert estimator.predict(samples) == labels
    assert estimator.score(samples, labels) == 1.0
    assert sorted(estimator.classes_) == sorted({label for of in labels for label in of})
    for of, found in zip(
        estimator.predict_marginals(samples), estimator.predict(samples), strict=True
    ):
        assert [max(p, key=p.__getitem__) for p in of] == found
        assert all(sum(p.values()) == pytest.approx(1.0, abs=1e-5) for p in of)


@both
def test_one_pass_is_the_same_however_it_is_cut(cls: Any, samples: Any, labels: Any) -> None:
    whole = cls().partial_fit(samples, labels, classes=["new", *labels[0], *labels[1]])
    first = cls().partial_fit(samples[:1], labels[:1], classes=["new", *labels[0], *labels[1]])
    for x, y in zip(samples[1:], labels[1:], strict=True):
        first.learn_one(x, y)
    assert state(first) == state(whole)


@both
@pytest.mark.parametrize("update", ["adagrad", "log-likelihood", "second-order", "cda2"])
def test_fit_learns_what_single_samples_teach_when_a_label_comes_late(
    cls: Any, samples: Any, labels: Any, update: str
) -> None:
    """A label counts from the first sample that has it, in ``fit`` and ``partial_fit`` too."""
    X, y = samples[:2] * 50, [["O", "PLACE", "O"], ["PLACE", "O"]] * 50
    X, y = [*X, *samples[:2]], [*y, ["LATE", 3, "O"], ["EARLY", "LATE"]]
    single = cls(update)
    for x, of in zip(X, y, strict=True):
        single.learn_one(x, of)
    assert single.classes_ == ["O", "PLACE", 3, "LATE", "EARLY"]
    assert state(cls(update).fit(X, y)) == state(cls(update).partial_fit(X, y)) == state(single)


@both
def test_new_labels_and_features_may_appear(cls: Any, samples: Any, labels: Any) -> None:
    estimator = cls().fit(samples * 3, labels * 3)
    new = [{"what": "new", "odd": True}]
    new = new if cls is srl.SequenceTagger else (new, [])
    assert estimator.predict_one(new) != [3]
    for _ in range(3):
        estimator.learn_one(new, [3])
    assert estimator.predict([new, *samples]) == [[3], *labels]
    assert estimator.classes_[-1] == 3


UPDATES = ["cda1", "cda2", "pa1", "simple", "mira", "subgradient", "perceptron", "adagrad"]


@both
@pytest.mark.parametrize(("update", "new"), [*zip(UPDATES, cycle([1, 2, 9]), strict=False)])
def test_a_label_may_be_new_at_any_time(
    cls: Any, samples: Any, labels: Any, update: str, new: int
) -> None:
    """With no new feature, with few and with many, after features for which room was made ahead."""

    def sample(*words: str) -> Any:
        of = [{"word": word} for word in words]
        return of if cls is srl.SequenceTagger else (of, [])

    estimator = cls(update).partial_fit([sample("a", "b", "c")], [["O"] * 3])
    estimator.partial_fit([sample("d")], [["O"]])
    estimator = pickle.loads(pickle.dumps(estimator))
    more = [sample(*(f"new{n}" for n in range(size)), "a") for size in (0, new)]
    truth = [["X"], [*(f"Y{n}" for n in range(new)), "X"]]
    estimator.partial_fit(more, truth, classes=["Z"])
    names = ["O", "Z", "X", *sorted({*truth[1]} - {"X"})]
    assert estimator.classes_ == names
    for _ in range(10):
        estimator.partial_fit(more[1:], truth[1:])
    assert estimator.predict(more[1:]) == truth[1:]
    assert {*estimator.predict_marginals(more)[0][0]} == {*names}


@both
def test_river_evaluates_labels_with_names(cls: Any, samples: Any, labels: Any) -> None:
    """Its metrics of several outputs take mappings; the weights are those of samples with numbers."""
    from river import base, evaluate, metrics

    names = ["first", "second", "third"]
    xs, ys = samples[:2] * 20, labels[:2] * 20
    named = [dict(zip(names, x if cls is srl.SequenceTagger else x[0], strict=False)) for x in xs]
    if cls is srl.LinkedClassifier:
        links = [[(names[i], names[j], *more) for i, j, *more in x[1]] for x in xs]
        named = [*zip(named, links, strict=True)]
    truth = [dict(zip(names, y, strict=False)) for y in ys]
    estimator, numbered = cls(), cls()
    assert isinstance(estimator, base.MultiLabelClassifier)
    metric = metrics.multioutput.MicroAverage(metrics.Accuracy())
    evaluate.progressive_val_score(zip(named, truth, strict=True), estimator, metric)
    right = total = 0
    for x, y in zip(xs, ys, strict=True):
        predicted = numbered.predict_one(x)
        if predicted is not None:
            right += sum(a == b for a, b in zip(predicted, y, strict=True))
            total += len(y)
        numbered.learn_one(x, y)
    assert metric.get() == right / total
    assert state(estimator) == state(numbered)
    marginals = numbered.predict_marginals_single(xs[0])
    assert estimator.predict_proba_one(named[0]) == dict(zip(names, marginals, strict=False))
    assert numbered.predict_proba_one(xs[0]) == marginals
    assert numbered.predict_single(xs[0]) == numbered.predict([xs[0]])[0]
    with pytest.raises(srl.InputError, match="a mapping from names of x to labels"):
        estimator.learn_one(named[0], {"fourth": "O"})


@both
def test_what_met_no_label_says_so(cls: Any, samples: Any, labels: Any) -> None:
    """Empty samples have no labels, and without labels nothing is predicted, nor read out of bounds."""
    from sklearn.exceptions import NotFittedError

    estimator = cls()
    estimator.learn_one(samples[2], labels[2])
    assert estimator.classes_ == []
    assert estimator.predict_one(samples[0]) is None
    for ask in (estimator.predict, estimator.predict_marginals):
        with pytest.raises(NotFittedError, match="has met no label yet"):
            ask(samples * 1000)
    estimator.partial_fit(samples, labels)
    assert estimator.classes_ == cls().fit(samples, labels).classes_
    only = cls().partial_fit(samples[2:], labels[2:], classes=["new"])
    assert only.predict([*samples]) == [["new"] * len(of) for of in labels]


def test_chains_are_checked_before_kernels_read_them() -> None:
    """Kernels do not check indices: what has no weights is refused where they are called."""
    features = [np.array([0, 1]), np.array([0], np.int32), np.empty(0)]
    chains = [
        (0, Chains(np.array([0, 1]), *features, np.array([], np.int64))),
        (
            2,
            Chains(
                np.array([0, 1]), features[0], np.array([5], np.int32), features[2], np.array([0])
            ),
        ),
        (2, Chains(np.array([0, 1]), *features, np.array([2]))),
    ]
    for labels, of in chains:
        weights = ChainWeights(srl.SequenceTagger()._empty().weights.update).grown(5, labels)
        for use in (weights.learn_chains, lambda c, w=weights: [*w.predict(c), *w.marginals(c)]):
            with pytest.raises(srl.InputError, match=r"no label yet|2 labels"):
                use(of)


@both
def test_fit_forgets_and_partial_fit_does_not(cls: Any, samples: Any, labels: Any) -> None:
    once = cls().fit(samples, labels)
    again = cls().fit(samples[::-1], labels[::-1]).fit(samples, labels)
    assert state(again) == state(once)
    assert state(once.partial_fit(samples, labels)) != state(again)


@both
@pytest.mark.parametrize("through", ["pickle", "joblib", "copy"])
def test_what_is_stored_goes_on_learning(
    cls: Any, samples: Any, labels: Any, through: str, tmp_path: Any
) -> None:
    estimator = cls(sigma=0.1).fit(samples, labels)
    if through == "joblib":
        joblib.dump(estimator, tmp_path / "tagger")
        other = joblib.load(tmp_path / "tagger")
    elif through == "pickle":
        other = pickle.loads(pickle.dumps(estimator))
    else:
        other = copy.deepcopy(estimator)
    assert state(other) == state(estimator)
    before = state(estimator)
    other.partial_fit(samples, labels)
    assert state(estimator) == before
    assert state(other) == state(estimator.partial_fit(samples, labels))
    assert other.get_params() == estimator.get_params() == cls(sigma=0.1).get_params()


def test_all_ways_of_naming_features_are_one() -> None:
    """A string, a name with its value, a set and a mapping; what is 0 is not there."""
    ways: list[Any] = [
        {"a": "b", "c": True, "d": 0.5},
        {"a:b": True, "c": 1, "d": np.float32(0.5), "e": False},
        {"a": {"b": 1.0}, "c": np.True_, "d": 0.5, "e": 0.0},
        {"a": ["b"], "c": 1.0, "d": 0.5, "e": []},
        {"a": {"b"}, "c": True, "d": 0.5},
    ]
    states = [state(srl.SequenceTagger().fit([[way, way]] * 3, [["x", "y"]] * 3)) for way in ways]
    assert {*states} == {states[0]}
    listed, mapped = [["a:b", "c"]], [{"a": "b", "c": True}]
    taggers = [srl.SequenceTagger().fit([x], [["x"]]) for x in (listed, mapped)]
    assert state(taggers[0]) == state(taggers[1])


def test_estimators_have_the_default_of_learners() -> None:
    default = srl.OnlineLearner("A(t)", "A").settings.learner
    assert srl.LinkedClassifier().fit(GRAPHS, CLASSES).learner.settings.learner == default
    assert srl.SequenceTagger().fit(X, Y).learned_.weights.update == default
    assert (default.update, default.loss, default.strength) == ("adagrad", "pl", 0.01)


def test_links_tell_what_features_do_not() -> None:
    """Of two things the second is of the other class; only links say so."""
    graphs = [([{"kind": kind}, {"kind": "?"}], [(0, 1)]) for kind in "abab"]
    classes = [["a", "b"], ["b", "a"]] * 2
    classifier = srl.LinkedClassifier().fit(graphs * 5, classes * 5)
    assert classifier.predict(graphs[:2]) == classes[:2]


def test_open_labels_and_known_ones() -> None:
    """A label that is None is completed and not scored; known labels at predict tell the open ones."""
    graphs = [([{"kind": kind}, {"kind": "?"}], [(0, 1)]) for kind in "abab"]
    classes: list[list[Any]] = [["a", "b"], ["b", "a"], [None, "b"], ["b", None]]
    classifier = srl.LinkedClassifier().fit(graphs * 8, classes * 8)
    assert classifier.predict(graphs[:2]) == classes[:2]
    assert classifier.learner.metrics["predicates"]["Label"]["support"] == 6 * 8
    unseen = [([{"kind": "?"}, {"kind": "new"}], [(1, 0)])]
    for label, other in (("a", "b"), ("b", "a")):
        known = [[None, label]]
        assert classifier.predict(unseen, known=known) == [[other, label]]
        (((_, second)),) = classifier.predict_marginals(unseen, known)
        assert second == {label: 1.0, other: 0.0}
    with pytest.raises(srl.InputError, match="sample 0: the label 'z' was never learned from"):
        classifier.predict(unseen, [["z", None]])
    with pytest.raises(srl.InputError, match="y has no label"):
        srl.LinkedClassifier().fit(graphs[:1], [[None, None]])
    late = srl.LinkedClassifier()
    for graph, labels in zip(graphs[::-1], [[None, None], *classes[::-1][1:]], strict=True):
        late.learn_one(graph, labels)
        assert (late.predict_one(graph) is None) == (labels == [None, None])
    whole = srl.LinkedClassifier().fit(graphs[::-1], [[None, None], *classes[::-1][1:]])
    assert state(late) == state(whole)
    assert classifier.score(graphs, [["a", "b"], ["a", None], [None, "b"], [None, None]]) == 0.75
    support = [line.split()[-1] for line in classifier.report(graphs, classes).splitlines()[1:]]
    assert support == ["2", "4"]
    stopped = srl.LinkedClassifier(passes=9, held_out=0.25).fit(graphs * 8, classes * 8)
    assert stopped.predict(graphs[:2]) == classes[:2]
    grown = srl.LinkedClassifier().fit(graphs[:2], classes[:2])
    grown.partial_fit([*graphs[:1], *graphs[:1]], [["a", None], ["c", "a"]])
    assert grown.classes_ == ["a", "b", "c"]


@both
def test_passes_are_those_of_going_on(cls: Any, samples: Any, labels: Any) -> None:
    """The first is in the order of the samples, others in a random one, in each fit the same."""
    X, y = samples[:2] * 4, [["O", "X", "Z"], ["Z", "O"], *labels[:2] * 3]
    several = cls(passes=3).fit(X, y)
    one, random = cls().fit(X, y), Random(0)
    order = [*range(8)]
    for _ in range(2):
        order = random.sample(order, 8)
        one.partial_fit([X[n] for n in order], [y[n] for n in order])
    assert state(several) == state(one)
    assert state(cls(passes=1).fit(samples, labels)) == state(cls().fit(samples, labels))


@both
def test_learning_stops_where_held_out_samples_are_labelled_no_better(
    cls: Any, samples: Any, labels: Any
) -> None:
    """What remains is the best pass; here the first labels all, so that two more end it."""
    X, y = samples[:2] * 10, labels[:2] * 10
    stopped = cls(passes=50, held_out=0.1).fit(X, y)
    rest = [n for n in range(20) if n not in {9, 19}]
    seen = cls(passes=1).fit([X[n] for n in rest], [y[n] for n in rest])
    assert stopped.predict(samples) == labels
    assert state(stopped) == state(seen)


@both
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"passes": 0}, "passes is 0, expected a whole number, at least 1"),
        ({"passes": 1.5}, r"passes is 1\.5, expected a whole number"),
        ({"held_out": 1.0}, r"held_out is 1\.0, expected a share"),
        ({"held_out": "x"}, "held_out is 'x', expected a share"),
        ({"held_out": 0.01}, r"held_out is 0\.01, which is none of 3 samples"),
    ],
)
def test_wrong_passes_are_named(
    cls: Any, samples: Any, labels: Any, wrong: dict[str, Any], message: str
) -> None:
    with pytest.raises(srl.OnlinesrlError, match=message):
        cls(**wrong).fit(samples, labels)


@both
def test_weights_of_samples_are_refused_with_a_reason(cls: Any, samples: Any, labels: Any) -> None:
    weights = [1.0] * len(samples)
    estimator = cls().fit(samples, labels)
    for use in (estimator.fit, estimator.partial_fit, estimator.score):
        with pytest.raises(srl.InputError, match="an online update has no weights of samples"):
            use(samples, labels, sample_weight=weights)
        with pytest.raises(srl.InputError, match="there is no parameter epochs"):
            use(samples, labels, epochs=3)


# mistakes ------------------------------------------------------------------------------------------

NAN = float("nan")
"""Of samples.txt."""


def test_a_mistake_is_named_and_changes_nothing() -> None:
    made = {cls: (x, y) for cls, x, y in MADE}

    def learn(given: str) -> str:
        cls, samples, labels = eval(given, {**vars(srl), **globals()})
        of, estimator = made[cls], cls().fit(*made[cls])
        before, said = state(estimator), set()
        for call in (estimator.fit, estimator.partial_fit):
            with pytest.raises(srl.InputError) as error:
                call(samples, labels)
            said.add(str(error.value))
            assert isinstance(error.value, ValueError)
            assert state(estimator) == before
        fresh = cls()
        with pytest.raises(srl.InputError):
            fresh.partial_fit(samples, labels)
        assert not hasattr(fresh, "learned_")
        assert state(estimator.partial_fit(*of)) == state(cls().fit(*of).partial_fit(*of))
        return " | ".join(sorted(said))

    check(Path(__file__).parent / "golden" / "samples.txt", learn)


def test_an_interrupt_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    tagger = srl.SequenceTagger().fit(X, Y)
    before, learn = state(tagger), chain_crf.learn_from_gap

    def interrupted(chains: Chains, c: int, *rest: Any) -> float:
        if c > 0:
            raise KeyboardInterrupt
        return learn(chains, c, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(chain_crf, "learn_from_gap", interrupted)
        with pytest.raises(KeyboardInterrupt):
            tagger.partial_fit([[{"new": True}], *X], [["NEW"], *Y])
    assert state(tagger) == before
    assert tagger.classes_ == ["O", "PLACE", "NAME"]


@both
def test_what_has_learned_nothing_says_so(cls: Any, samples: Any, labels: Any) -> None:
    from sklearn.exceptions import NotFittedError

    for ask in (cls().predict, cls().predict_marginals):
        with pytest.raises(NotFittedError, match="not fitted yet") as error:
            ask(samples)
        assert isinstance(error.value, srl.NotFittedError)
        assert isinstance(pickle.loads(pickle.dumps(error.value)), NotFittedError)
    assert not hasattr(cls(), "classes_")


@pytest.mark.parametrize("cls", [srl.SequenceTagger, srl.LinkedClassifier])
def test_wrong_parameters_are_named(cls: Any) -> None:
    with pytest.raises(srl.UsageError, match="sigma"):
        cls(sigma=-1).fit(*{made: (x, y) for made, x, y in MADE}[cls])
    with pytest.raises(
        srl.UsageError, match=r"learner\.sigma: not for update mira, but for update"
    ):
        cls("mira", sigma=0.1).fit(*{made: (x, y) for made, x, y in MADE}[cls])
    with pytest.raises(srl.UsageError, match="learner"):
        cls(update="adam").fit(*{made: (x, y) for made, x, y in MADE}[cls])
    with pytest.raises(srl.UsageError, match=r"learner\.update: expected a subclass of"):
        cls(srl.OnlineLearner).fit(*{made: (x, y) for made, x, y in MADE}[cls])
    with pytest.raises(srl.UsageError, match="does not apply to a tagger"):
        srl.SequenceTagger({"update": "mira", "max_weights": 9}).fit(X, Y)
    for update, weight, said in (
        ("cda1", "even", "class_weight is 'even', expected balanced"),
        ("cda1", {"O": -1}, "class_weight: the weight of 'O' is -1"),
        ("log-likelihood", "balanced", "class_weight: not for update log-likelihood"),
    ):
        with pytest.raises(srl.UsageError, match=said):
            cls(update, class_weight=weight).fit(*{made: (x, y) for made, x, y in MADE}[cls])
    with pytest.raises(srl.UsageError, match="passes: not for second-order, whose covariance"):
        cls("second-order", passes=2).fit(*{made: (x, y) for made, x, y in MADE}[cls])
    with pytest.raises(ValueError, match="has no parameter epochs, but update, loss, sigma"):
        cls().set_params(epochs=3)


def test_a_label_never_seen_is_scored_as_wrong() -> None:
    tagger = srl.SequenceTagger().fit(X * 3, Y * 3)
    assert tagger.score(X, [["?", "PLACE", "O"], ["NAME", "?"], []]) == pytest.approx(3 / 5)


# documentation and imports ------------------------------------------------------------------------


@pytest.mark.parametrize("module", ["tagger", "linked"])
def test_the_examples_in_docstrings_run(module: str) -> None:
    assert doctest.testmod(import_module(f"onlinesrl.library.estimators.{module}")).failed == 0


def test_scikit_learn_is_not_imported() -> None:
    code = "import sys, onlinesrl as s; s.SequenceTagger().fit([[{'a': 'b'}]], [['x']]);"
    code += "s.LinkedClassifier; print('sklearn' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "False\n"


@pytest.mark.parametrize("weight", ["balanced", {'a "b"': 20.0}])
def test_a_rare_label_that_counts_more_is_predicted(weight: Any) -> None:
    """One thing of twenty is rare, and looks like three that are not."""
    things = [{"seen": n % 5 == 0} for n in range(20)]
    kinds = ['a "b"' if n == 0 else "usual" for n in range(20)]
    X, y = [([thing], []) for thing in things], [[kind] for kind in kinds]
    rare = [([{"seen": True}], [])]
    linked = srl.LinkedClassifier({"update": "cda1", "sigma": 0.1}, passes=30)
    assert linked.fit(X, y).predict(rare) == [["usual"]]
    assert linked.set_params(class_weight=weight).fit(X, y).predict(rare) == [['a "b"']]


def test_numbers_of_linked_things_count() -> None:
    """A number in a feature multiplies its weight; one that is 0 is as good as absent."""
    X = [([{"n": value}], []) for value in (-2.0, 1.5, 0.5, -0.5, 3.0, -1.0) * 5]
    y = [["high" if things[0]["n"] > 0 else "low"] for things, _ in X]
    classifier = srl.LinkedClassifier().fit(X, y)
    assert classifier.predict([([{"n": 0.3}, {"n": -0.2}], [])]) == [["high", "low"]]
    (of,) = classifier.predict_marginals([([{"n": 4.0}, {"n": 0.1}, {"n": 0.0}, {}], [])])
    assert of[0]["high"] > of[1]["high"] > of[2]["high"] == of[3]["high"]


@pytest.mark.parametrize("labels", [[1, 2], ["1", "2"], ["", "none"], [0, ""]])
def test_each_label_has_its_probability(labels: list[Any]) -> None:
    """Whole numbers too, and texts that might stand for no label."""
    X = [([{"word": "course"}, {"word": "thesis"}], [(0, 1, "cites")])]
    classifier = srl.LinkedClassifier(update="cda2", loss="ml").fit(X, [labels])
    plain = srl.LinkedClassifier(update="cda2", loss="ml").fit(X, [["a", "b"]])
    (expected,) = plain.predict_marginals(X)
    named = dict(zip("ab", labels, strict=True))
    (of,) = classifier.predict_marginals(X)
    assert of == [{named[each]: value for each, value in p.items()} for p in expected]
    assert classifier.predict(X) == [labels]
    feature = "Feature(+f, x) ^ Label(x, +y)", "word:course"
    assert classifier.learned_.learner.weights[*feature, str(labels[0])] > 0


@pytest.mark.parametrize("cls", [srl.SequenceTagger, srl.LinkedClassifier])
def test_a_weight_of_a_label_that_does_not_occur_is_warned_of(cls: Any) -> None:
    made, x, y = next(each for each in MADE if each[0] is cls)
    label = y[0][0]
    with pytest.warns(OnlinesrlWarning, match="no effect for 'NONE': there is no such label"):
        made(class_weight={"NONE": 9.0, label: 2.0}).fit(x, y)
    made(class_weight={label: 2.0}).fit(x, y).partial_fit(x, y)
    with pytest.warns(OnlinesrlWarning, match="no effect for 'NONE'"):
        made(class_weight={"NONE": 9.0}).partial_fit(x, y, [label])
