"""After an exception a learner is what it was before, whatever it was given, and by whatever method."""

import hashlib
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import onlinesrl as srl
from onlinesrl.core.example import ValuedAtom

MLN = "kind={...}\nW(word)\nIs(kind)\nNext(word, word)\nN(word): real\nW(+w) => Is(+k)\n"
PSL = "1: W(A) -> Is(A) ^2\n1: !Is(A) ^2\n"
HALF = "\ud83d"  # half an emoji, as json.loads gives it for a text that was cut in the middle
CONSTANTS: list[Any] = [HALF, "\udcff", 10**5000, 1.5, float("nan"), True, b"x"]
THINGS: list[Any] = [
    *CONSTANTS,
    None,
    object(),
    [[HALF]],
    [["a"]],
    {"a": {"b": HALF}},
    np.array(3),
    np.array([["a", "b"]]),
    np.float32(0.5),
    ValuedAtom([HALF], 1.0),
    ValuedAtom(["a"], float("inf")),
    ValuedAtom("a", "x"),  # type: ignore[arg-type]
    ValuedAtom([10**5000], 10**400),
]
GOOD: dict[str, Any] = {"W": ["a"]}
TRUTH: dict[str, Any] = {"Is": ["a"]}
LISTED: dict[str, Any] = {"Is": ["a", "b"]}


def mln() -> srl.OnlineLearner:
    return srl.OnlineLearner(MLN, query="Is")


def psl() -> srl.OnlineLearner:
    return srl.OnlineLearner(srl.Model(PSL, "psl"), query="Is")


Make = Callable[[], srl.OnlineLearner]


def digest(learner: srl.OnlineLearner) -> str:
    """Hash weights, averages, constants and metrics, as a checkpoint has them."""
    saved = learner.__reduce__()[1][0]
    found = hashlib.sha256(repr((saved.header, saved.metrics, saved.own)).encode())
    for name, array in sorted(saved.arrays.items()):
        found.update(name.encode() + array.tobytes())
    return found.hexdigest()


def atoms(name: str) -> Iterator[Any]:
    """Yield bad atoms of a predicate: a thing for a constant, a row, a value, all rows or everything."""
    for thing in THINGS:
        yield {name: [[thing]]}
        yield {name: [["a"], thing]}
        yield {name: {("a",): thing}}
        yield {name: thing}
        yield thing
    for constant in CONSTANTS:
        yield {name: {(constant,): 1.0}}
        yield {constant: [["a"]]}


def examples(truth: Any, query: Any) -> Iterator[Any]:
    """Yield bad examples, as objects, each with good parts beside the bad one."""
    good = {"id": 1, "evidence": GOOD, "truth": truth, "query": query}
    for thing in THINGS:
        for field in "id", "group", "dup_of", "time":
            yield srl.Example(**{**good, field: thing})
    for bad in atoms("W"):
        yield srl.Example(**{**good, "evidence": bad})
    for bad in atoms("Is"):
        yield srl.Example(**{**good, "truth": bad})
        yield srl.Example(**{**good, "query": bad})


Call = Callable[[srl.OnlineLearner, Any], Any]


def calls(targets: Any) -> Iterator[tuple[str, Call, Any]]:
    """Yield calls of all public methods with bad things: the name of the method, the call, the thing."""
    good = srl.Example(id=1, evidence=GOOD, truth=TRUTH, query=targets)
    of_evidence: list[tuple[str, Call]] = [
        ("learn_one", lambda of, x: of.learn_one(x, TRUTH)),
        ("predict_one", lambda of, x: of.predict_one(x, query=targets)),
        ("predict_many", lambda of, x: of.predict_many([good, x])),
        ("evaluate", lambda of, x: of.evaluate([good, x])),
        ("explain", lambda of, x: srl.explain(of, x, query=targets)),
        ("learn_many", lambda of, x: of.learn_many([good, x])),
    ]
    of_truth: list[tuple[str, Call]] = [
        ("learn_one", lambda of, y: of.learn_one(good, y)),
        ("evaluate", lambda of, y: of.evaluate([good], [y])),
        ("predict_one", lambda of, y: of.predict_one(GOOD, query=y)),
        ("explain", lambda of, y: srl.explain(of, GOOD, query=y)),
        ("learn_many", lambda of, y: of.learn_many([good, good], [TRUTH, y])),
    ]
    of_anything: list[tuple[str, Call]] = [
        ("explain", lambda of, thing: srl.explain(of, good, thing)),
        ("explain", lambda of, thing: srl.explain(of, good, ("Is", [thing]))),
        ("explain", lambda of, thing: srl.explain(of, good, change=[("Is", [thing])])),
        ("learn_many", lambda of, thing: of.learn_many(thing)),
        ("evaluate", lambda of, thing: of.evaluate(thing)),
        ("predict_many", lambda of, thing: of.predict_many(thing)),
    ]
    bad_evidence = [*atoms("W"), *examples(TRUTH, targets)]
    for methods, bad in ((of_evidence, bad_evidence), (of_truth, [*atoms("Is")])):
        for n, thing in enumerate(
            bad
        ):  # each is learned from, and given to one of the other methods
            for name, call in (methods[-1], methods[(n + n // 5) % (len(methods) - 1)]):
                yield name, call, thing
    for thing in THINGS:
        for name, call in of_anything:
            yield name, call, thing


@pytest.mark.parametrize(("make", "targets"), [(mln, None), (psl, LISTED)], ids=["mln", "psl"])
def test_an_exception_leaves_a_learner_as_it_was(make: Make, targets: Any) -> None:
    learner = make()
    good = srl.Example(id=1, evidence=GOOD, truth=TRUTH, query=targets)
    learner.learn_one(good)
    before, refused = digest(learner), 0
    saved = pickle.dumps(learner)
    for method, call, thing in calls(targets):
        try:
            call(learner, thing)
        except srl.OnlinesrlError:
            refused += 1
        except TypeError as error:  # no iterable
            assert method in {"learn_many", "evaluate", "predict_many"}, repr(error)
        else:
            if method.startswith("learn"):
                learner = pickle.loads(saved)
        assert digest(learner) == before, method
    assert refused > 250
    with pytest.raises(srl.StorageError):
        learner.save(HALF)
    other = pickle.loads(saved)
    assert learner.learn_one(good).line == other.learn_one(good).line
    assert digest(learner) == digest(other)


def words(text: str) -> list[dict[str, Any]]:
    return [{"word": word} for word in text.split()]


SEQUENCES: list[tuple[Any, Any]] = [
    *(
        ([[{"word": thing}]], [["O"]])
        for thing in THINGS
        if type(thing) not in {float, bool, np.float32}
    ),
    *(([[{thing: 1}]], [["O"]]) for thing in CONSTANTS),
    *(([words("a")], [[thing]]) for thing in THINGS),
    *(([words("a"), words("b")], [["O"], thing]) for thing in THINGS),
    *((thing, [["O"]]) for thing in THINGS),
]


@pytest.mark.parametrize("kind", [srl.SequenceTagger, srl.LinkedClassifier])
def test_an_exception_leaves_an_estimator_as_it_was(kind: Any) -> None:
    linked = kind is srl.LinkedClassifier

    def samples(X: Any) -> Any:
        return [(things, []) for things in X] if linked and isinstance(X, list) else X

    estimator = kind().fit(samples([words("a b")]), [["O", "P"]])
    expected = estimator.predict_marginals(samples([words("a b c")]))
    for X, y in SEQUENCES:
        if linked and y[0][0] is None:  # a thing whose label is not known
            continue
        with pytest.raises(srl.OnlinesrlError):
            estimator.partial_fit(samples(X), y)
        assert estimator.classes_ == ["O", "P"]
        assert estimator.predict_marginals(samples([words("a b c")])) == expected
    with pytest.raises(srl.ExampleError):
        estimator.predict(samples([[{"word": HALF}]]))
    assert estimator.predict_marginals(samples([words("a b c")])) == expected


PLAIN = "P(n)\nQ(n)\n1 P(x) => Q(x)\n"
SOFT = srl.Model("1: P(A) -> Q(A) ^2", "psl")
ASKED: list[Callable[[Any], Any]] = [
    lambda c: srl.infer(PLAIN, {"P": [[c]]}, "Q"),
    lambda c: [*srl.ground(PLAIN, {"P": [[c]]}, "Q")],
    lambda c: srl.count(PLAIN, {"P": [[c]]}),
    lambda c: srl.learn(PLAIN, {"P": [[c]]}, "Q"),
    lambda c: srl.infer(SOFT, {"P": [[c]]}, {"Q": ["a"]}),
    lambda c: srl.infer(SOFT, {"P": ["a"]}, {"Q": [[c]]}),
    lambda c: srl.learn(SOFT, {"P": ["a"]}, {"Q": [[c]]}, truth={"Q": ["a"]}),
    lambda c: srl.OnlineLearner(PLAIN, "Q", background={"P": [[c]]}),
]


@pytest.mark.parametrize("constant", CONSTANTS, ids=range(len(CONSTANTS)))
def test_what_is_no_constant_is_refused_everywhere(constant: Any) -> None:
    for ask in ASKED:
        with pytest.raises(srl.ExampleError, match="row 0: expected"):
            ask(constant)
