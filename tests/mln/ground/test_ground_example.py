"""Examples are ground and weighed by a program's own weights, without a learner."""

import pytest

from onlinesrl.core.errors import ExampleError
from onlinesrl.core.example import Example
from onlinesrl.mln.ground.grounder import ModelGrounder, ground
from onlinesrl.mln.lang.reader import parse

DECLARED = "P(t)\nQ(t)\n"
EXAMPLE = Example(id=1, evidence={"P": [["A"], ["B"], ["C"]]}, truth={"Q": []})


def test_ground_clauses_have_the_weights_of_rules_and_of_template_instances() -> None:
    program = parse(f"{DECLARED}0.5 P(+x) => Q(x)\n2 P(+A) => Q(A)\n-1 P(+B) => Q(B)\n")
    world = ground(program, ["Q"], EXAMPLE)
    assert [*world.atoms()] == [("Q", ["A"]), ("Q", ["B"]), ("Q", ["C"])]
    assert world.weights(world.net)[:3].tolist() == [2.0, -1.0, 0.5]


def test_a_grounder_numbers_the_constants_that_examples_bring() -> None:
    grounder = ModelGrounder(parse(f"{DECLARED}0.5 P(+x) => Q(x)\n"), ["Q"])
    for learning, keys in ((False, []), (True, [("A",), ("B",), ("C",)])):
        grounder.ground_example(EXAMPLE, learning=learning)
        assert [key for _, _, key in grounder.weights.numbered()] == keys


def test_weights_that_no_sum_holds_are_refused() -> None:
    world = ground(parse(f"{DECLARED}1e308 Q(x)\n"), ["Q"], EXAMPLE)
    with pytest.raises(ExampleError, match="the weights of the ground clauses add up to more than"):
        world.weights(world.net)
