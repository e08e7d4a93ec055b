"""Facts that every example has say the same as copies of them in every example."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import pytest
from conftest import Job, wait
from hypothesis import given
from hypothesis import strategies as st

from onlinesrl.core.background import Background
from onlinesrl.core.errors import DatabaseError
from onlinesrl.core.example import Example, GroundAtom, Number
from onlinesrl.core.online.update_rules import Cda2
from onlinesrl.mln.ground.join_planner import compile_program
from onlinesrl.mln.lang.reader import parse
from onlinesrl.psl.inference.admm import Admm
from onlinesrl.psl.lang import reader
from onlinesrl.psl.online.learner import PslInference, PslOnlineLearner
from onlinesrl.runs import run as run_module
from onlinesrl.runs.config.loading import load
from tests.mln.ground.test_grounder import agrees_with_the_definition, copied
from tests.support import trust_program
from tests.support.random_programs import FOUND, NUMBERS, Case, cases, with_numbers
from tests.support.small_learners import online, state

MORE = {"thing": ["T7", "5"], "place": ["P7", "-3"], "word": ["W7", "a"]}
"""Constants, beside those of rules and examples, that facts may name."""


@st.composite
def worlds(draw: st.DrawFn, examples: int = 5) -> tuple[Case, list[GroundAtom]]:
    """A program with examples, and facts of its predicates, sometimes of those to be predicted."""
    case = draw(cases(examples=examples) | with_numbers(cases(examples=examples)))
    facts = []
    for name, predicate in case.program.predicates.items():
        if name in case.query and draw(st.integers(0, 3)):
            continue
        constants = [st.sampled_from([*map(str, FOUND[t]), *MORE[t]]) for t in predicate.types]
        facts += [(name, row) for row in draw(st.lists(st.tuples(*constants), max_size=4))]
    numeric = {name for name, predicate in case.program.predicates.items() if predicate.numeric}
    values = {
        fact: Number(draw(st.sampled_from(NUMBERS))) if fact[0] in numeric else True
        for fact in facts
    }
    return case, [GroundAtom(*fact, value, 1) for fact, value in values.items()]


def learned(
    case: Case, examples: Sequence[Example], facts: Sequence[GroundAtom], size: int, **more: Any
) -> tuple[Any, ...]:
    """What came of examples in batches of a size: outcomes, counts and weights."""
    plan = compile_program(case.program, case.query)
    update = Cda2(max_weights=more.get("most"))
    own = online(plan, update, background=Background(facts))
    if "room" in more:
        room = more["room"]
        own.grounder.allocate(atoms=room, rows=room, index=room)
        own.worlds.allocate(tables=room, output=room)
    said, counts = [], []
    for first in range(0, len(examples), size):
        outcomes, tally = own.step(examples[first : first + size])
        said += [(o.prediction and o.prediction.whole(), o.error is None) for o in outcomes]
        counts.append((tally.counts.tobytes(), tally.routes, tally.errors, tally.predicates.keys()))
    weights = [(e.clause.text, e.key, e.weight, e.uses) for e in own.weights.entries()]
    return said, counts, sorted(weights), own.certificate()


@given(worlds())
def test_an_example_with_facts_is_ground_as_one_with_copies(
    world: tuple[Case, list[GroundAtom]],
) -> None:
    agrees_with_the_definition(*world)


@given(worlds(), st.sampled_from([1, 3]))
def test_batches_and_memory_that_grows_and_is_forgotten_change_nothing(
    world: tuple[Case, list[GroundAtom]], size: int
) -> None:
    case, facts = world
    said, _, weights, certificate = learned(case, case.examples, facts, 5)
    with patch("onlinesrl.mln.ground.batch_packer.KEPT_NAMES", 0):
        others = learned(case, case.examples, facts, size, room=2)
    assert (others[0], others[2], others[3]) == (said, weights, certificate)


def test_an_example_takes_no_more_room_however_many_facts_there_are() -> None:
    """Its joins touch three of 20,000 facts, of people who are all its constants."""
    program = parse("Knows(p, p)\nKind(p)\nLikes(p, p)\n1 Knows(a, b) ^ Kind(b) => Likes(a, b)\n")
    facts = [GroundAtom("Knows", (f"P{n}", f"P{n + 1}"), True, 1) for n in range(20_000)]
    example = Example(
        id=1,
        evidence={"Kind": [["P1"], ["P3"], ["New"]], "Knows": [["P0", "New"]]},
        query={"Likes": [["P0", "P1"], ["P0", "New"], ["P2", "P3"], ["P3", "P2"]]},
        truth={"Likes": [["P0", "P1"]]},
    )
    plan = compile_program(program, ["Likes"])
    own = online(plan, background=Background(facts))
    room = own.grounder.room | own.worlds.room
    (outcome,), _ = own.step([example])
    assert outcome.prediction is not None, outcome.error
    assert outcome.prediction.predicted == {"Likes": [["P0", "P1"], ["P0", "New"], ["P2", "P3"]]}
    assert own.grounder.room | own.worlds.room == room
    own.packer.clear()
    own.packer.add(example, 0)
    batch = own.packer.batch(learning=True)
    assert len(batch.data) == 2 * 5 + 5
    kind = own.layout.type_number["p"]
    names = own.packer.names(batch, 0, kind)
    assert (len(names), names[0], names[1]) == (20_002, "P0", "P1")
    assert sorted(map(str, names)) == sorted(["New", *(f"P{n}" for n in range(20_001))])


# PSL ---------------------------------------------------------------------------------------------


def test_facts_of_a_psl_program_are_the_same_as_copies() -> None:
    """Who is fair is known of all; some pairs of everyone know each other, and trust is observed."""
    people = [f"{name}{n}{k}" for name in "abcdefgh" for n in range(0, 100, 7) for k in range(4)]
    facts = [GroundAtom("Fair", (name,), 0.25 * (n % 5), 1) for n, name in enumerate(people)]
    facts += [GroundAtom("Knows", pair, True, 1) for pair in zip(people, people[5:], strict=False)]
    facts += [GroundAtom("Trusts", pair, 0.75, 1) for pair in zip(people, people[3:], strict=False)]
    own = [
        msgspec.structs.replace(example, evidence={"Knows": example.evidence["Knows"]})
        for example in trust_program.examples(40)
    ]
    states = []
    for examples, shared in (([copied(each, facts) for each in own], []), (own, facts)):
        learner = trust_program.soft(
            reader.parse(trust_program.MODEL),
            ["Trusts"],
            Cda2(sigma=0.1),
            PslInference(Admm(), skip=True),
            background=Background(shared),
        )
        outcomes = [(o.prediction, o.error is None) for o in trust_program.learn(learner, examples)]
        assert sum(good for _, good in outcomes) > 20
        states.append((outcomes, state(learner)))

    assert states[0] == states[1]


# whole runs --------------------------------------------------------------------------------------

RULES = """\
Likes(person, dish)
Friends(person, person)
Sweet(dish)
Works(person, firm)
0.0 Likes(p, d)
0.0 Friends(p, q) ^ Likes(q, d) => Likes(p, d)
0.0 Sweet(d) => Likes(p, d)
"""
FACTS = """\
Friends(Anna, Bob)  // comments are allowed
Friends(Bob, Carl)
Sweet(Cake)
Works(Anna, "Zeno & Co")
"""
COPIES = {
    "Friends": [["Anna", "Bob"], ["Bob", "Carl"]],
    "Sweet": [["Cake"]],
    "Works": [["Anna", "Zeno & Co"]],
}


def line(number: int, **parts: Any) -> bytes:
    return json.dumps({"id": number, "evidence": {}, **parts}).encode() + b"\n"


LINES = [
    line(n, evidence={"Friends": [["Carl", f"P{n}"]]}, truth={"Likes": [["Bob", "Cake"]][: n % 2]})
    for n in range(12)
]


@pytest.fixture
def dishes(job: Callable[..., Job], tmp_path: Path) -> Callable[..., Job]:
    """Makes jobs that have facts, or copies of them."""
    (tmp_path / "rules.mln").write_text(RULES)
    (tmp_path / "facts.db").write_text(FACTS)

    def make(lines: Sequence[bytes], name: str, facts: bool, **keys: Any) -> Job:
        if not facts:
            decoded = [json.loads(each) for each in lines]
            for each in decoded:
                own = each.get("evidence", {})
                if "evidence" in each:
                    each["evidence"] = {
                        p: [*COPIES.get(p, []), *own.get(p, [])] for p in {**COPIES, **own}
                    }
            lines = [json.dumps(each).encode() + b"\n" for each in decoded]
        source = {"path": "source.jsonl"} | ({"background": "../facts.db"} if facts else {})
        model = str(tmp_path / "rules.mln")
        return job(lines, name, model=model, query="Likes", metrics={}, source=source, **keys)

    return make


def test_a_run_its_predictions_and_scores_are_those_of_copies(dishes: Callable[..., Job]) -> None:
    both = [dishes(LINES, name, name == "facts") for name in ("facts", "copies")]
    for each in both:
        assert each.run() == 0, each.said
    assert both[0].results() == both[1].results()
    for command_ in ("predict", "evaluate"):
        for each in both:
            assert wait(each.fork(command_, str(each.output), str(each.config))) == 0, each.said
        assert both[0].printed == both[1].printed


def test_labels_that_come_later_are_learned_from_with_the_facts(dishes: Callable[..., Job]) -> None:
    whole = [json.loads(each) for each in LINES]
    parts = [
        part
        for each in whole
        for part in (
            line(each["id"], evidence=each["evidence"]),
            json.dumps({"id": each["id"], "truth": each["truth"]}).encode() + b"\n",
        )
    ]
    both = [dishes(parts, name, name == "facts", labels={}) for name in ("facts", "copies")]
    for each in both:
        assert each.run() == 0, each.said
    assert both[0].results() == both[1].results()
    assert (both[0].output / "weights.mln").read_text().count("0.0000") < 3


def test_worlds_of_databases_have_the_facts(dishes: Callable[..., Job]) -> None:
    both = [dishes([], name, name == "facts") for name in ("facts", "copies")]
    for each in both:
        own = "Friends(Carl, Dora)\nLikes(Bob, Cake)\n"
        world = own if each is both[0] else FACTS + own
        (each.folder / "world.db").write_text(world)
        path = each.folder / "world.db"
        assert each.run("--set", f"source.path={path}") == 0, each.said
    assert both[0].results() == both[1].results()
    assert len(both[0].predictions()) == 1


def test_an_example_that_denies_a_fact_is_bad(dishes: Callable[..., Job]) -> None:
    denied = {"Friends": [{"args": ["Bob", "Carl"], "value": 0}]}
    run = dishes([*LINES, line(99, evidence=denied)], "denied", True)
    assert run.run() == 0, run.said
    [letter] = run.lines("deadletter.jsonl")
    assert letter["reason"] == (
        "contradiction: the evidence says false of Friends(Bob, Carl), and source.background true"
    )


def test_changed_facts_do_not_go_on_with_a_run(dishes: Callable[..., Job], tmp_path: Path) -> None:
    run = dishes(LINES, "changed", True)
    assert run.run("--until", "5") == 0, run.said
    (tmp_path / "facts.db").write_text(FACTS + "Sweet(Pie)\n")
    assert run.run() == 78
    assert "source.background: the file has changed" in run.said
    assert run.run("--set", "source.background=") == 78
    assert "source.background: was a file, is nothing" in run.said
    (tmp_path / "facts.db").write_text(FACTS)
    assert run.run() == 0, run.said
    for path in run.checkpoints():
        assert b"Zeno" not in path.read_bytes()


def test_check_knows_the_constants_of_facts(dishes: Callable[..., Job]) -> None:
    bare = [line(n, truth={"Likes": [["Bob", "Cake"]]}) for n in range(3)]
    run = dishes(bare, "check", True)
    assert wait(run.fork("check", str(run.config))) == 0
    assert "examples: 3 of the first 3 are good" in run.printed
    assert "declare" not in run.printed


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Freinds(Anna, Bob)\n", "facts.db:1:1: the model does not declare Freinds"),
        ("\nSweet(Cake, Pie)\n", "facts.db:2:1: Sweet has another number of arguments"),
        ("!Sweet(Cake)\n", "facts.db:1:1: a background fact must be true, and Sweet(Cake) is not"),
        ("?Sweet(Cake)\n", "facts.db:1:1: a background fact must be true, and Sweet(Cake) is not"),
        (
            "0.5 Sweet(Cake)\n",
            "facts.db:1:1: a background fact must be true, and Sweet(Cake) is not",
        ),
    ],
)
def test_facts_that_cannot_be_are_told_with_their_place(
    dishes: Callable[..., Job], tmp_path: Path, text: str, said: str
) -> None:
    (tmp_path / "facts.db").write_text(text)
    with pytest.raises(DatabaseError) as caught:
        run_module.new_learner(load(dishes(LINES, "job", True).config))
    assert said in str(caught.value)


def test_several_files_of_facts_and_values_of_psl(tmp_path: Path) -> None:
    (tmp_path / "m.psl").write_text(trust_program.MODEL)
    (tmp_path / "fair.db").write_text('0.5 Fair("ann")\nFair("bob")\n')
    (tmp_path / "knows.db").write_text('Knows("ann", "bob")\nFair("bob")\n')
    (tmp_path / "run.yaml").write_text(
        "model: m.psl\nquery: Trusts\nsource: {path: '-', background: [fair.db, knows.db]}\n"
    )
    learner = run_module.new_learner(load(tmp_path / "run.yaml"))
    assert isinstance(learner, PslOnlineLearner)
    assert learner.packer.background.values == {
        "Fair": {("ann",): 0.5, ("bob",): 1.0},
        "Knows": {("ann", "bob"): 1.0},
    }
    (tmp_path / "knows.db").write_text('0.75 Fair("ann")\n')
    with pytest.raises(DatabaseError, match="has another value here than"):
        run_module.new_learner(load(tmp_path / "run.yaml"))
