"""The truth of an example is no part of its world: the same line grounds the same with and without it."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinesrl.core.example import Example, ValuedAtom, arguments
from onlinesrl.core.learner import Outcome
from onlinesrl.core.online.update_rules import Cda2
from onlinesrl.mln.ground.join_planner import compile_program
from onlinesrl.mln.kernels import grounding_frames
from onlinesrl.mln.lang import reader as mln_reader
from onlinesrl.mln.online.learner import MlnOnlineLearner
from onlinesrl.psl.ground.grounder import Grounder
from onlinesrl.psl.ground.packing import PslPacker
from onlinesrl.psl.lang import reader as psl_reader
from tests.support.naive_grounder import World
from tests.support.random_programs import KINDS, Case, cases
from tests.support.small_learners import online


@st.composite
def streams(draw: st.DrawFn, examples: int = 1) -> Case:
    """Random programs, some of whose types are open, and examples whose truth may name anything."""
    case = draw(cases(examples=examples))
    opened = draw(st.sets(st.sampled_from(KINDS)))
    text = "\n".join([*(f"{kind} = {{...}}" for kind in sorted(opened)), case.text])
    found = [labelled(case, each) if draw(st.booleans()) else each for each in case.examples]
    return Case(text, case.query, found)


def labelled(case: Case, example: Example) -> Example:
    """The example with what of its truth is about open atoms."""
    world = World(case.program, case.query, example)
    truth = {
        name: [a for a in atoms if (name, tuple(map(str, arguments(a)))) in world.atoms]
        for name, atoms in (example.truth or {}).items()
    }
    return without(example, truth)


def without(example: Example, truth=None) -> Example:
    return Example(id=example.id, evidence=example.evidence, query=example.query, truth=truth)


def learner(case: Case) -> MlnOnlineLearner:
    plan = compile_program(case.program, case.query)
    return online(plan)


def network(own: MlnOnlineLearner, example: Example) -> tuple:
    """What an example grounds to, by the kernels: atoms, rows and literals by number."""
    own.packer.clear()
    own.packer.add(example, 0)
    batch = own.grounder.batch(learning=False)
    status, detail = own.grounder.ground(batch, 0)
    if status in (
        grounding_frames.TRUTH_NOT_OPEN,
        grounding_frames.TRUTH_BREAKS_GROUP,
        grounding_frames.TRUTH_BREAKS_RULE,
    ):
        if (
            batch.listed[0] == grounding_frames.FOUND
        ):  # it has true atoms that hard rules make false
            return ()
        status, detail = grounding_frames.OK, -1
    if status != grounding_frames.OK:
        return status, detail
    net = own.grounder.net
    atoms, variables, rows, literals, *_ = net.size.tolist()
    used = [
        *(net.var_of[:atoms], net.var_start[: variables + 1], net.exactly[:variables]),
        *(net.fixed[:atoms], net.row_len[:rows], net.row_clause[:rows], net.row_step[:rows]),
        *(net.row_factor[:rows], net.lit_start[: rows + 1], net.lit_atom[:literals]),
        *(net.lit_step[:literals], net.lit_positive[:literals], batch.domain[0]),
    ]
    names = [own.packer.names(batch, 0, k) for k, local in enumerate(own.packer.local) if local]
    return net.size.tolist(), [array.tolist() for array in used], names


@given(streams())
def test_an_example_grounds_the_same_with_and_without_its_truth(case: Case):
    (example,) = case.examples
    own = learner(case)

    assert network(own, example) in (network(own, without(example)), ())


@given(streams(examples=4))
def test_an_example_is_predicted_the_same_with_and_without_its_truth(case: Case):
    """Whatever was learned before it; where the truth is bad, it is bad."""
    for n, example in enumerate(case.examples):
        own, other = learner(case), learner(case)
        for each in (own, other):
            each.step(case.examples[:n])
        told, blind = own.step([example])[0][0], other.step([without(example)])[0][0]
        if told.prediction is None:
            assert told.error == blind.error or "truth" in told.error
            continue
        assert told.prediction.predicted == blind.prediction.predicted
        assert told.prediction.score == blind.prediction.score


@given(streams(examples=5))
def test_open_types_have_what_earlier_examples_showed(case: Case):
    """Of those that were learned from, and no more; by the definition of a world."""
    own, shown = learner(case), set[tuple[str, str]]()
    for example in case.examples:
        world = World(case.program, case.query, without(example), shown)
        found = network(own, without(example))
        if len(found) == 3:
            domains = dict(
                zip(
                    [t for t in own.layout.types if t in own.layout.plan.local],
                    found[2],
                    strict=True,
                )
            )
            assert {t: {*map(str, names)} for t, names in domains.items()} == {
                t: world.domains[t] for t in domains
            }
        (outcome,) = own.step([example])[0]
        if example.truth is not None and outcome.prediction is not None:
            shown |= {
                (kind, str(constant))
                for part in (example.evidence, example.query or {}, example.truth)
                for name, atoms in part.items()
                for atom in atoms
                for kind, constant in zip(
                    case.program.predicates[name].types, arguments(atom), strict=True
                )
                if kind in case.program.open
            }
    assert {(t, str(c)) for t, names in own.packer.shown().items() for c in names} <= shown
    assert shown <= {(t, str(c)) for t in own.layout.types for c in own.packer.shared[t].names} | {
        pair for pair in shown if pair[0] not in own.layout.plan.local
    }


def learned(case: Case, size: int) -> tuple:
    own, outcomes, tallies = learner(case), list[Outcome](), []
    for first in range(0, len(case.examples), size):
        found, tally = own.step(case.examples[first : first + size])
        outcomes += found
        tallies.append(tally)
    total = sum(tallies[1:], tallies[0])
    header, arrays = own.save()
    counts = (total.counts.tolist(), total.labelled, total.predicted, dict(total.errors))
    return outcomes, counts, header, {name: array.tobytes() for name, array in arrays.items()}


@given(streams(examples=6))
def test_every_batch_size_shows_and_learns_the_same(case: Case):
    one = learned(case, 1)

    assert learned(case, 4) == one
    assert learned(case, 6) == one


@given(streams(examples=6), st.integers(1, 5))
def test_what_was_shown_is_in_the_checkpoint(case: Case, at: int):
    whole, first, then = learner(case), learner(case), learner(case)
    expected = [whole.step([example])[0] for example in case.examples]

    found = [first.step([example])[0] for example in case.examples[:at]]
    then.restore(*first.save())
    found += [then.step([example])[0] for example in case.examples[at:]]

    assert found == expected
    assert whole.save()[0] == then.save()[0]


# one example after another -----------------------------------------------------------------------

LABELS = "Doc(doc, word)\nClass(doc, cls!)\nDoc(d, +w) => Class(d, +c)\n"


def documents(labels: Sequence[str]) -> list[Example]:
    """Documents of one word, with these labels."""
    return [
        Example(id=n, evidence={"Doc": [["D", f"w{n % 7}"]]}, truth={"Class": [["D", label]]})
        for n, label in enumerate(labels)
    ]


def model(text: str, *query: str) -> MlnOnlineLearner:
    plan = compile_program(mln_reader.parse(text), query)
    return online(plan, Cda2(sigma=0.1))


RANDOM = [str(label) for label in np.random.default_rng(0).choice(["A", "B", "C"], 300)]


def accuracy(tally) -> float:
    hits, _, misses, *_ = tally.counts.tolist()
    return hits / (hits + misses)


def test_random_labels_of_an_undeclared_type_are_refused():
    outcomes, tally = model(LABELS, "Class").step(documents(RANDOM))

    assert tally.errors == {"not_open": 300}
    assert outcomes[0].error == (
        f"truth atom Class(D, {RANDOM[0]}) is not an open atom of the example: only the truth names "
        f"the cls {RANDOM[0]}; declare it in the model, `cls = {{{RANDOM[0]}, ...}}` (`...`: and "
        "constants of the stream), name it in the evidence, or list the atoms to predict in `query`"
    )


@pytest.mark.parametrize("declared", ["cls = {...}", "cls = {A, B, C}", "cls = {B, ...}"])
def test_random_labels_of_a_type_that_says_so_are_guessed(declared):
    _, tally = model(f"{declared}\n{LABELS}", "Class").step(documents(RANDOM))

    assert tally.labelled == 300
    assert 0.25 < accuracy(tally) < 0.42


FRAUD = "Call(person, person)\nFraud(person)\nCall(x, y) => Fraud(x)\nCall(x, y) => Fraud(y)\nFraud(x)\n"


def calls(truth: str) -> list[Example]:
    """Calls between two people each, and a fraud whom the evidence does not name."""
    return [
        Example(id=n, evidence={"Call": [[f"a{n}", f"b{n}"]]}, truth={"Fraud": [[truth.format(n)]]})
        for n in range(60)
    ]


def test_who_is_only_in_the_truth_is_not_found():
    _, refused = model(FRAUD, "Fraud").step(calls("x{}"))
    _, missed = model(f"person = {{...}}\n{FRAUD}", "Fraud").step(calls("x{}"))
    _, known = model(FRAUD, "Fraud").step(calls("a{}"))

    assert refused.errors == {"not_open": 60}
    assert missed.labelled == 60
    assert missed.counts[0] == 0  # hits
    assert missed.counts[2] == 60  # misses
    assert known.counts[0] > 50


def test_a_label_is_missed_at_first_sight_and_learned_at_once():
    own = model(f"cls = {{...}}\n{LABELS.replace('!', '')}", "Class")
    first, second = documents(["A", "A"])
    second = Example(id=1, evidence=first.evidence, truth=second.truth)

    (found,), tally = own.step([first], True)
    (again,), _ = own.step([without(second)])

    assert found.prediction.predicted == {"Class": []}
    assert found.prediction.hamming == 1
    assert tally.counts.tolist() == [0, 0, 1, 1, 0, 1, 0]
    assert (tally.labelled, tally.predicted, tally.certified) == (1, 1, 1)
    assert again.prediction.predicted == {"Class": [["D", "A"]]}
    assert own.weights.updates == 1
    assert [(entry.key, entry.weight > 0) for entry in own.weights.entries()] == [
        (("w0", "A"), True)
    ]


def test_what_is_not_learned_from_shows_nothing():
    own = model(f"cls = {{A, ...}}\n{LABELS}!Class(d, Z) v Doc(d, Ham).\n", "Class")
    (example,) = documents(["B"])
    (broken,) = documents(["Z"])
    half = Example(id=3, evidence={}, truth={"Class": [["Nobody", "Y"]]})

    own.step([example], learning=False)
    own.step([without(example)])
    outcomes, tally = own.step([broken, half])

    assert own.packer.shown() == {"cls": []}
    assert tally.errors == {"hard_rule": 1, "not_open": 1}
    assert outcomes[0].error.startswith("the truth breaks the hard rule")
    assert own.step([example])[0][0].prediction is not None
    assert own.packer.shown() == {"cls": ["B"]}


def test_a_held_out_label_that_was_never_seen_is_a_miss():
    own = model(f"cls = {{...}}\n{LABELS}", "Class")
    own.step(documents(["A", "B"] * 5))
    before = own.save()[0]

    (outcome,), tally = own.step(documents(["C"]), learning=False)

    assert outcome.prediction.hamming == 2
    assert tally.counts.tolist() == [0, 1, 1, 1, 0, 2, 0]
    assert {**own.save()[0], "seen": 0} == {**before, "seen": 0}


@pytest.mark.parametrize(
    ("truth", "query", "reason"),
    [
        (
            [["E", "B"]],
            [["D", "B"]],
            "it is not in the example's `query`, or evidence makes it false",
        ),
        (
            [["D", "X"]],
            [["D", "B"]],
            "it is not in the example's `query`, or evidence makes it false",
        ),
        ([ValuedAtom(["D", "A"], 0.0)], None, "evidence makes it false"),
        ([ValuedAtom(["E", "A"], 0.0)], None, "only the truth names the doc E"),
        ([ValuedAtom(["D", "A"], 0.0)], [["D", "B"]], None),
    ],
)
def test_truth_is_about_open_atoms(truth, query, reason):
    """What it says is false as well: evidence has Class(D, A)."""
    own = model("cls = {A, B}\nDoc(doc)\nClass(doc, cls)\n1 Class(d, c)\n", "Class")
    evidence = {"Doc": [["D"]]} | ({} if reason is None else {"Class": [["D", "A"]]})
    listed = None if query is None else {"Class": query}
    (outcome,), _ = own.step(
        [Example(id=1, evidence=evidence, truth={"Class": truth}, query=listed)]
    )

    assert outcome.error is not None
    assert outcome.error.endswith(reason or "evidence makes it false") or reason in outcome.error


def test_the_truth_of_a_psl_example_is_no_part_of_its_world():
    program = psl_reader.parse("1: Knows(A, B) & Trusts(B, C) -> Trusts(A, C) ^2\n")
    packer = PslPacker(program.predicates, ("Trusts",), 100)
    example = Example(
        id=1,
        evidence={"Knows": [["a", "b"], ["b", "a"]]},
        query={"Trusts": [["a", "b"], ["b", "a"], ["a", "a"], ["b", "b"]]},
        truth={"Trusts": [["a", "b"]]},
    )
    both = [packer.world(example), packer.world(without(example))]
    graphs = [
        Grounder(program)
        .ground_worlds(packer.database([world]), 1, ("Trusts",))
        .graphs.micrograph(0)
        for world in both
    ]

    for name in ("start", "variable", "coefficient", "constant", "weight_index"):
        np.testing.assert_array_equal(getattr(graphs[0], name), getattr(graphs[1], name))
    stranger = Example(id=2, evidence={}, query=example.query, truth={"Trusts": [["a", "x"]]})
    with pytest.raises(Exception, match=r"truth atom Trusts\(a, x\) is not listed in `query`"):
        packer.world(stranger)


def test_a_number_that_an_existential_asks_for_is_a_constant_of_its_type():
    """It stands in no literal of its own: as ``p`` in ``EXIST q (E(t) ^ p = q + 1)``."""
    rule = "Q => F(t, p + 1) v (EXIST q (E(t) ^ p = q + 1))."
    text = f"F(thing, place)\nE(thing)\nplace = {{1, 2, 3}}\nQ\n1 Q\n{rule}"
    for shown, true in (([["A"]], [[]]), ([], [])):
        case = Case(text, ("Q",), [Example(id=1, evidence={"E": shown, "F": [["A", 2]]})])
        (outcome,), _ = learner(case).step(case.examples, learning=False)
        assert outcome.prediction.predicted.get("Q", []) == true
