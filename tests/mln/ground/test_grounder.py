"""The ground network of the kernels against the reference grounder, and what is read off it."""

from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from unittest.mock import patch

import msgspec
import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from onlinesrl.core.background import Background
from onlinesrl.core.errors import ExampleError, Infeasible
from onlinesrl.core.example import Example, GroundAtom, ValuedAtom, decode
from onlinesrl.core.online.update_rules import Cda2
from onlinesrl.mln.ground.ground_mrf import clause_model, validate
from onlinesrl.mln.ground.grounder import ModelGrounder
from onlinesrl.mln.ground.join_planner import compile_program
from onlinesrl.mln.inference.brute_force import MAX_ATOMS, Brute, state_scores
from onlinesrl.mln.inference.ilp import Ilp
from onlinesrl.mln.inference.router import Router
from onlinesrl.mln.inference.settings import Inference
from onlinesrl.mln.kernels import grounding_frames
from onlinesrl.mln.kernels.ground_network import ROWS
from onlinesrl.mln.lang.reader import parse
from onlinesrl.mln.online.learner import MlnOnlineLearner
from tests.support.naive_grounder import Soft, World, holds, model, tautology
from tests.support.paths import REPO
from tests.support.random_programs import Case, cases, with_numbers


def learner(
    case: Case, presolve: bool = True, margins: bool = False, facts: Sequence[GroundAtom] = ()
) -> MlnOnlineLearner:
    engine = Ilp()
    inference = Inference(Router(engine) if presolve else engine, engine, presolve=presolve)
    plan, background = compile_program(case.program, case.query), Background(facts)
    return MlnOnlineLearner(plan, Cda2(), inference, margins=margins, background=background)


def copied(example: Example, facts: Sequence[GroundAtom]) -> Example:
    """An example with copies of facts before its own evidence of the predicate."""
    evidence = dict(example.evidence)
    for name in dict.fromkeys(fact.predicate for fact in facts):
        copies = [
            [*fact.arguments] if fact.value is True else ValuedAtom([*fact.arguments], fact.value)
            for fact in facts
            if fact.predicate == name
        ]
        evidence[name] = [*copies, *evidence.get(name, ())]
    return msgspec.structs.replace(example, evidence=evidence)


class Grounded:
    """What the kernels made of one packed world, with atoms and weights by name."""

    def __init__(
        self, learner: MlnOnlineLearner, batch: grounding_frames.Batch, w: int, learning: bool
    ):
        self.learner, self.batch, self.w = learner, batch, w
        self.status, self.detail = learner.grounder.ground(batch, w)
        if self.status == grounding_frames.OK:
            learner.weights.number(learner.grounder.net, learning)
            self.model, self.place = clause_model(learner.grounder.net, folded=False)
            validate(self.model)

    def atoms(self) -> list[tuple[str, tuple[str, ...]]]:
        """The network's query atoms, by number."""
        found = []
        for name, first, atoms in self.learner.grounder.atoms(self.batch, self.w):
            assert first == len(found)
            found += [(name, tuple(map(str, c))) for c in atoms]
        return found

    def weight_of(self, clause: int) -> tuple[int, float]:
        """The number of the weight of one of the model's soft clauses, and its factor."""
        net, at = self.learner.grounder.net, self.place[clause]
        row = int(np.searchsorted(net.clause_start[: net.size[ROWS] + 1], at, side="right")) - 1
        k = at - net.clause_start[row]
        return int(net.row_weight[row] + k * net.row_step[row]), float(net.row_factor[row])

    def clauses(self):
        """Yield (weight's number or -1, sign, literals) of each ground clause but definitions.

        A defined atom stands as the set of literals whose conjunction it is, which is checked.
        """
        atoms, ground_ = self.atoms(), self.model
        parts = np.split(ground_.literals, ground_.start[1:-1])
        clauses = [frozenset(part.tolist()) for part in parts][: ground_.n_clauses]
        meaning, definitions = {}, set()
        for defined in range(len(atoms) + 1, ground_.n_atoms + 1):
            pairs = {clause for clause in clauses if -defined in clause}
            asked = frozenset().union(*pairs) - {-defined}
            whole = frozenset({defined, *(-x for x in asked)})
            assert len(asked) == len(pairs) > 1
            assert whole in clauses
            meaning[defined] = frozenset((x > 0, atoms[abs(x) - 1]) for x in asked)
            definitions |= {whole, *pairs}
        for number, clause in enumerate(clauses):
            if clause not in definitions:
                named = ((x > 0, meaning.get(x) or atoms[abs(x) - 1]) for x in clause)
                index, sign = (-1, 1) if ground_.hard[number] else self.weight_of(number)
                yield index, sign, frozenset(named)

    def hard(self) -> set:
        """The hard clauses, groups written out."""
        atoms = self.atoms()
        found = {literals for index, _, literals in self.clauses() if index < 0}
        for number, exactly in enumerate(self.model.exactly):
            group = [atoms[a] for a in np.flatnonzero(self.model.group == number)]
            found |= {frozenset({(False, a), (False, b)}) for a, b in combinations(group, 2)}
            if exactly:
                found.add(frozenset((True, a) for a in group))
        return found

    def soft(self) -> Counter[Soft]:
        """The soft clauses, each by the name of its weight; to be called while learning."""
        names, found = weight_names(self.learner), Counter()
        for index, sign, literals in self.clauses():
            if index >= 0:
                found[Soft(*names[index], literals)] += sign
        return found


def weight_names(learner: MlnOnlineLearner) -> dict[int, tuple]:
    """Clause and key of every weight, by its number: weights are set to their numbers for it."""
    table = learner.weights
    value = table.arrays.value[: len(table)].copy()
    table.arrays.value[: len(table)] = 0.0
    table.arrays.value[: len(table), 0] = np.arange(len(table))
    names = {round(entry.weight): (entry.clause, entry.key) for entry in table.entries()}
    table.arrays.value[: len(table)] = value
    return names


def packed(learner: MlnOnlineLearner, examples, learning: bool) -> grounding_frames.Batch:
    learner.packer.clear()
    for place, example in enumerate(examples):
        learner.packer.add(example, place)
    return learner.grounder.batch(learning)


def without_truth(example: Example) -> Example:
    return Example(id=example.id, evidence=example.evidence, query=example.query)


def breaks(world: World) -> bool:
    """Tell whether the example cannot be grounded: the evidence breaks a hard rule."""
    return frozenset() in world.hard()


ANY = cases() | with_numbers(cases())
"""Random programs, half of them with numbers that multiply ground clauses."""


@given(ANY)
def test_a_ground_network_is_what_the_definition_says(case: Case):
    """Same atoms, same hard part, same soft clauses with the same weights; new keys get weights."""
    agrees_with_the_definition(case)


DECLARED = "f = { A, B }\ng = { C, D, F }\nE(g)\nL(i, f)\nN(i, i)\nP(f, g)\nQ(i, f)\nR(i, g!)\n"


@pytest.mark.parametrize(
    "rule",
    [
        "N(i, j) ^ Q(i, +f) => R(j, +g)",
        "N(i, j) ^ R(i, +g) => Q(j, +f)",
        "Q(i, +f) v !E(+g)",
        "P(+f, +g) ^ N(i, j) => Q(i, f)",
        "P(f, +g) ^ L(i, +f) => Q(i, f) v R(j, g)",
        "N(i, j) ^ Q(i, +f) ^ Q(j, +h) ^ f != h",
        "Q(i, +f) ^ Q(i, +h) => R(i, +g)",
        "N(+i, j) ^ Q(i, +f) => Q(j, f)",
        "N(i, j) => (Q(i, f) <=> Q(j, f))",
        "N(i, j) => !Q(i, A) v !Q(k, B)",
        "Q(i, f) ^ Q(j, f) => R(i, C)",
        "L(i, f) v Q(i, f) v R(j, +g)",
        "N(i, j) ^ Q(j, +f) => !Q(j, f) v R(i, g)",
        "E(g) ^ Q(i, +f) ^ (R(i, g) v R(i, h))",
        "Q(i, A) ^ f = B ^ (R(i, +g) v Q(i, +f))",
    ],
)
@pytest.mark.parametrize("strange", [False, True])
def test_rules_over_declared_types_ground_as_defined(rule, strange):
    """Runs of clauses, one weight each; ``strange`` adds constants that the types do not declare."""
    evidence = {
        "E": [["C"], ["F"]],
        "L": [[1, "B"], [2, "A"]],
        "N": [[1, 2], [2, 3], [2, 2]],
        "P": [["A", "C"], ["B", "F"], ["B", "X"]][: 3 if strange else 2],
        "Q": [[3, "A"], [1, "Y"]][: 2 if strange else 1],
    }
    truth = {"R": [[i, "C"] for i in (1, 2, 3)], "Q": [[3, "B"], [2, "A"]]}
    case = Case(DECLARED + rule, ("Q", "R"), [Example(id=1, evidence=evidence, truth=truth)])

    assert agrees_with_the_definition(case) == "ground"


def agrees_with_the_definition(case: Case, facts: Sequence[GroundAtom] = ()) -> str:
    """Compare all that is ground; a bad example must be found to be one. All examples have the facts."""
    own, example = learner(case, facts=facts), case.examples[0]
    if example.truth is None:  # unlabelled examples get no new weights
        example = Example(id=1, evidence=example.evidence, query=example.query, truth={})
    whole = copied(example, facts)
    try:
        batch = packed(own, [example], True)
    except ExampleError:
        with pytest.raises(ExampleError):
            packed(learner(case), [whole], True)
        return "bad"
    world = World(case.program, case.query, whole)

    found = Grounded(own, batch, 0, True)

    if breaks(world):
        assert found.status == grounding_frames.EVIDENCE_BREAKS_RULE
        return "evidence breaks a rule"
    if found.status in (
        grounding_frames.TRUTH_NOT_OPEN,
        grounding_frames.TRUTH_BREAKS_GROUP,
        grounding_frames.TRUTH_BREAKS_RULE,
    ):
        assert not allowed(world)
        return "truth breaks a rule"
    assert allowed(world)
    assert len(found.atoms()) == len({*found.atoms()})
    closed = close(world, found.atoms())
    assert found.hard() == world.hard()
    expected = {x: n for x, n in world.soft().items() if not tautology(x.literals)}
    assert {x: n for x, n in found.soft().items() if n} == {x: n for x, n in expected.items() if n}
    return "ground, some atoms closed" if closed else "ground"


def close(world: World, left: list) -> set:
    """Let the atoms that are not left be false, after checking that hard rules say so."""
    closed = world.atoms.keys() - {*left}
    assert {*left} <= world.atoms.keys()
    if closed:
        assert closed <= world.closed()
    assert world.example.query is not None or world.decided() <= closed
    world.close(closed)
    return closed


CITATIONS = REPO / "streams" / "citations"


@pytest.mark.parametrize("line", [0, 7, 100])
def test_a_citation_grounds_as_defined(line):
    """The first six tokens of citations of our own stream, with the rules for it."""
    text = (CITATIONS / "segmentation.mln").read_text()
    whole = decode((CITATIONS / "citations.jsonl").read_bytes().splitlines()[line])

    def cut(atoms):
        return {
            name: [row for row in rows if all(isinstance(c, str) or c < 6 for c in row)]
            for name, rows in atoms.items()
        }

    example = Example(id=whole.id, evidence=cut(whole.evidence), truth=cut(whole.truth))

    assert sum(map(len, example.evidence.values())) > 12
    assert agrees_with_the_definition(Case(text, ("InField",), [example])) == "ground"


def allowed(world: World) -> bool:
    """Tell whether the truth is a state of the world."""
    observed = {atom for atom, value in world.atoms.items() if value}
    state = world.truth | observed
    if world.denied & observed or not state | world.denied <= world.atoms.keys():
        return False
    return all(holds(clause, state) for clause in world.hard())


def set_weights(learner: MlnOnlineLearner, known: list[Soft], rng: np.random.Generator) -> dict:
    """Start from random weights for about half of the known keys; return them by clause and key."""
    numbers = {clause: n for n, clause in enumerate(learner.weights.clauses)}
    chosen = {}
    for clause, key in sorted({(x.clause, x.key) for x in known}, key=repr):
        if rng.random() < 0.6:
            chosen[clause, key] = float(rng.choice([rng.normal(), rng.integers(-2, 3) / 2]))
            learner.weights.set(numbers[clause], key, chosen[clause, key])
    return chosen


def weighted(world: World, chosen: dict) -> dict[Soft, float]:
    """The total weight of each soft clause; a key that is not chosen has the rule's weight."""
    return {
        x: count * chosen.get((x.clause, x.key), x.clause.weight or 0.0)
        for x, count in world.soft().items()
    }


@given(ANY, st.integers(0, 2**32 - 1))
def test_the_prediction_is_the_best_state(case: Case, seed: int):
    """By elimination and by the integer program, weights for some keys only; how far ahead it is."""
    example = without_truth(case.examples[0])
    world = World(case.program, case.query, example)
    narrow, whole = (learner(case, presolve, margins=True) for presolve in (True, False))
    chosen = set_weights(narrow, list(world.soft()), np.random.default_rng(seed))
    set_weights(whole, list(world.soft()), np.random.default_rng(seed))
    weight = weighted(world, chosen)

    (found,), tally = narrow.step([example], learning=False)
    (other,), _ = whole.step([example], learning=False)

    if breaks(world):
        assert found.error == other.error
        assert found.error.startswith("the evidence breaks the hard rule")
        return
    reference, numbers, atoms = model(world, weight)
    constant = sum(w for x, w in weight.items() if tautology(x.literals))
    if reference.n_atoms > MAX_ATOMS - 6:
        assert found.error == other.error
        if found.error is None:
            assert found.prediction.score == pytest.approx(other.prediction.score, abs=1e-6)
        return
    try:
        best = Brute().solve(reference, numbers)
    except Infeasible:
        assert found.error == other.error == "no state satisfies the hard rules"
        return
    second = np.sort(state_scores(reference, numbers, None))[:-1].max(initial=-np.inf)
    unique = second < best.score - 1e-6
    state = best.state[: len(atoms)]
    expected = {atoms[a] for a in np.flatnonzero(state) if world.atoms[atoms[a]] is None}
    chosen_state = {atoms[a] for a in np.flatnonzero(state)}
    close(world, Grounded(narrow, packed(narrow, [example], False), 0, False).atoms())
    open_score = scored(weighted(world, chosen), chosen_state)
    for outcome in (found, other):
        assert outcome.prediction.certified
        assert outcome.prediction.score == pytest.approx(open_score, abs=1e-6)
        said = true_atoms(outcome.prediction) | {a for a, value in world.atoms.items() if value}
        assert scored(weight, said) == pytest.approx(best.score + constant, abs=1e-6)
        if unique:
            assert true_atoms(outcome.prediction) == expected
        if second == -np.inf:
            assert outcome.prediction.margin is None
        else:
            assert outcome.prediction.margin == pytest.approx(best.score - second, abs=1e-6)
    assert tally.routes == {"elimination": 1, "ilp": 0}


def scored(weight: dict[Soft, float], state: set) -> float:
    return sum(w for x, w in weight.items() if holds(x.literals, state))


def true_atoms(prediction) -> set:
    return {
        (name, tuple(map(str, args)))
        for name, atoms in prediction.predicted.items()
        for args in atoms
    }


def learned(case: Case, size: int, room: int | None = None) -> tuple:
    """Outcomes and weights after learning from the examples in batches of a size.

    ``room`` is what the kernels' memory is to start from.
    """
    own, outcomes = learner(case), []
    if room is not None:
        own.grounder.allocate(atoms=room, rows=room, index=room)
        own.worlds.allocate(tables=room, output=room)
    for first in range(0, len(case.examples), size):
        outcomes += own.step(case.examples[first : first + size])[0]
    header, arrays = own.save()
    return outcomes, header, {name: array.tobytes() for name, array in arrays.items()}


@given(cases(examples=4))
def test_memory_that_grows_and_constants_that_are_forgotten_change_no_bit(case: Case):
    expected = learned(case, 2)

    assert learned(case, 2, room=2) == expected
    with patch("onlinesrl.mln.ground.batch_packer.KEPT_NAMES", 0):
        assert learned(case, 2) == expected


BAD = [
    Example(id="bad", evidence={"Nothing": [["A"]]}, truth={}),
    Example(id="bad", evidence={"E0": [["X", "Y", "Z", "W"]]}, truth={}),
    Example(id="bad", evidence={"E0": []}, truth={"Q9": []}),
    Example(id="bad", evidence={"E0": []}, truth={}, query={"E0": []}),
]


@given(cases(examples=3), st.sampled_from(BAD), st.integers(0, 2))
def test_a_bad_example_leaves_nothing_behind(case: Case, bad: Example, place: int):
    """It has the atoms of a good one before its mistake."""
    good = case.examples[place]
    atoms = {f"E{n}": [["unseen"] * len(kinds)] for n, kinds in enumerate(evidence_types(case))}
    bad = Example(id="bad", evidence={**atoms, **bad.evidence}, truth=bad.truth, query=bad.query)
    with_bad = Case(case.text, case.query, [*case.examples[:place], bad, good])
    without = Case(case.text, case.query, [*case.examples[:place], good])

    for size in (1, 5):
        (outcomes, *state), (expected, *clean) = learned(with_bad, size), learned(without, size)
        assert outcomes.pop(place).error
        assert (outcomes, state) == (expected, clean)


def evidence_types(case: Case) -> list[tuple[str, ...]]:
    return [p.types for name, p in case.program.predicates.items() if name.startswith("E")]


@settings(phases=[Phase.generate])
@given(cases(examples=3))
def test_atoms_that_hard_rules_close_change_no_answer(case: Case):
    learns_as_without_closing(case)


def test_a_group_without_constants_is_no_unit():
    """Beside a closed atom, with which the units are counted anew."""
    text = "E\nQ\nR(thing!)\n!E.\n(!E v Q) ^ (E => Q).\n(Q => E).\n0.5 Q v R(t)"
    case = Case(text, ("Q", "R"), [Example(id=1, evidence={}, truth={})])
    assert learns_as_without_closing(case) == "the same"


def learns_as_without_closing(case: Case) -> str:
    """The same predictions, words, counts and weights, but where two states are equally good."""
    own = learner(case, margins=True)
    with patch("onlinesrl.mln.ground.model_index.candidates", lambda plan: ()):
        other = learner(case, margins=True)
    if not own.layout.candidates:
        return "nothing is closed"
    for example in case.examples:
        (found,), tally = own.step([example], learning=False)
        (expected,), counted = other.step([example], learning=False)
        if expected.prediction is None:
            assert found == expected
            continue
        assert found.prediction.margin == pytest.approx(expected.prediction.margin, abs=1e-9)
        if found.prediction.margin is not None and found.prediction.margin < 1e-9:
            return "a tie"
        assert found.prediction.predicted == expected.prediction.predicted
        assert found.prediction.hamming == expected.prediction.hamming
        assert tally.counts.tolist() == counted.counts.tolist()
        for each in (own, other):
            each.step([example])
        if own.certificate()["loss"] != other.certificate()["loss"]:
            return "a tie of rivals"
        weights = [{(e.clause, e.key): e.weight for e in x.weights.entries()} for x in (own, other)]
        assert all(weights[1][key] == weight for key, weight in weights[0].items())
    return "the same"


# without a learner ------------------------------------------------------------------------------

TWO = "P(t)\nQ(t)\n"
THREE = Example(id=1, evidence={"P": [["A"], ["B"], ["C"]]}, truth={"Q": []})


def test_ground_clauses_have_the_weights_of_rules_and_of_template_instances() -> None:
    program = parse(f"{TWO}0.5 P(+x) => Q(x)\n2 P(+A) => Q(A)\n-1 P(+B) => Q(B)\n")
    world = ModelGrounder(program, ["Q"]).ground_example(THREE)
    assert [*world.atoms()] == [("Q", ["A"]), ("Q", ["B"]), ("Q", ["C"])]
    assert world.weights(world.net)[:3].tolist() == [2.0, -1.0, 0.5]


def test_a_grounder_numbers_the_constants_that_examples_bring() -> None:
    grounder = ModelGrounder(parse(f"{TWO}0.5 P(+x) => Q(x)\n"), ["Q"])
    for learning, keys in ((False, []), (True, [("A",), ("B",), ("C",)])):
        grounder.ground_example(THREE, learning=learning)
        assert [key for _, _, key in grounder.weights.numbered()] == keys


def test_weights_that_no_sum_holds_are_refused() -> None:
    world = ModelGrounder(parse(f"{TWO}1e308 Q(x)\n"), ["Q"]).ground_example(THREE)
    with pytest.raises(
        ExampleError, match=r"the weight 1e\+308 of the rule Q\(x\) \(line 3\) is too large"
    ):
        world.weights(world.net)
