"""Learning with numbers: the textbook's steps, its certificate, and what comes back from files."""

from itertools import product

import numpy as np
import pytest

from onlinesrl.core.example import Example, ValuedAtom
from onlinesrl.mln.ground.join_planner import compile_program
from onlinesrl.mln.lang.reader import parse
from tests.support.naive_grounder import World, holds
from tests.support.small_learners import learn, online, update_of
from tests.support.textbook_updates import CERTIFIED, Round, textbook

MODEL = """\
label = {A, B}
Score(token, label): real
Near(token, token): real
Word(word, token)
Is(token, label!)

0.5 Score(i, l) => Is(i, l)
-0.25 Near(i, j) ^ Is(i, l) => Is(j, l)
Score(i, l) ^ Word(w, i) ^ Is(i, +l)
"""
PROGRAM = parse(MODEL)
SIGMA, ETA = 0.05, 0.5


def example(rng: np.random.Generator, number: int) -> Example:
    """Three tokens, of which scores tell the label, with noise, and which are more or less near."""
    true = rng.integers(0, 2, 3)
    scores = [
        ValuedAtom([i, "AB"[k]], float((k == true[i]) - 0.5 + rng.normal()))
        for i, k in product(range(3), range(2))
    ]
    near = [ValuedAtom([i, i + 1], float(rng.normal())) for i in range(2)]
    words = [[f"w{n}", i] for i, n in enumerate(rng.integers(0, 2, 3).tolist())]
    return Example(
        id=number,
        evidence={"Score": scores, "Near": near, "Word": words},
        truth={"Is": [[i, "AB"[k]] for i, k in enumerate(true)]},
    )


class Dense:
    """An example's features and label losses in all states, and the number of the true one."""

    def __init__(self, case: Example, names: dict[tuple[str, tuple[str, ...]], int]):
        world = World(PROGRAM, ["Is"], case)
        states = [
            {("Is", (str(i), label)) for i, label in enumerate(labels)}
            for labels in product("AB", repeat=3)
        ]
        self.features = np.zeros((len(states), len(names)))
        for soft, count in world.soft().items():
            index = names[soft.clause.text, soft.key]
            self.features[:, index] += [count * holds(soft.literals, state) for state in states]
        self.loss = np.array([len(world.truth ^ state) for state in states], float)
        self.true = states.index(world.truth)

    def rival(self, weights: np.ndarray, augmented: bool) -> Round:
        score = self.features @ weights + augmented * self.loss
        rival = int(np.argmax(score))
        return Round(float(self.loss[rival]), self.features[self.true] - self.features[rival])


@pytest.mark.parametrize(
    ("rule", "loss"), [("cda2", "ml"), ("adagrad", "pl"), ("perceptron", "pl")]
)
def test_learning_is_the_dense_textbook_with_the_best_of_all_states(rule: str, loss: str) -> None:
    """Weights, averages, predictions, losses and certificate, over examples of real features."""
    update = update_of(rule, sigma=SIGMA, eta=ETA, delta=ETA, loss=loss)
    own = online(compile_program(PROGRAM, ["Is"]), update)
    clauses = {each.text: each for each in own.weights.clauses}
    outcomes = [("A",), ("B",)]
    keys = [(x, key) for x, c in clauses.items() for key in (outcomes if c.template else [()])]
    names = {name: n for n, name in enumerate(keys)}
    base = np.array([clauses[text].weight or 0.0 for text, _ in keys])
    rng, rounds, current, mean = np.random.default_rng(5), [], base.copy(), base.copy()
    for t in range(1, 41):
        case = example(rng, t)
        dense = Dense(case, names)
        scores = dense.features @ mean
        (found,) = learn(own, [case])
        assert found.score == pytest.approx(scores.max())
        assert found.hamming == dense.loss[np.argmax(scores)]
        rounds.append(dense.rival(current, update.loss == "ml"))
        *_, step = textbook(rounds, rule, SIGMA, ETA, base)
        current, mean = base + step.weights, base + step.average
        entries = {(e.clause.text, e.key): e.weight for e in own.weights.entries()}
        learned = [entries.get(name, base[n]) for name, n in names.items()]
        np.testing.assert_allclose(learned, mean, atol=1e-9)
    certificate = own.certificate()
    if rule in CERTIFIED:
        assert certificate["dual"] == pytest.approx(step.dual)
        assert certificate["regret_bound"] == pytest.approx(step.bound)
    assert np.abs(mean - base).min() > 0


def test_a_file_of_learned_weights_is_read_again() -> None:
    """The declarations say what is numeric, and predictions are the same."""
    rng = np.random.default_rng(6)
    cases = [example(rng, n) for n in range(20)]
    own = online(compile_program(PROGRAM, ["Is"]), update_of("cda2", sigma=SIGMA))
    learn(own, cases)
    text = own.weights_text("learned", "a test")
    assert "Score(token, label): real" in text
    again = online(compile_program(parse(text), ["Is"]))
    predicted = [outcome.prediction for outcome in own.step(cases, learning=False)[0]]
    for found, expected in zip(again.step(cases, learning=False)[0], predicted, strict=True):
        assert found.prediction.predicted == expected.predicted
        assert found.prediction.score == pytest.approx(expected.score)
