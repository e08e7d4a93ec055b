"""Worlds: a step changes the answer as a cold start would, or changes nothing at all."""

import copy
import pickle
import re
import sys
import tracemalloc
from collections import Counter
from pathlib import Path
from statistics import median

import numpy as np
import pytest

import onlinesrl as srl
from onlinesrl.core.errors import DataError, Infeasible, UsageError
from onlinesrl.core.io import checkpoint_file
from tests.conftest import tiers
from tests.support.golden import check, refusal
from tests.support.linked_papers import MARKOV

GOLDEN = Path(__file__).parent / "golden"

RULES = {
    "psl": [
        "1: Knows(A, B) & Knows(B, C) & Knows(A, C) & Trusts(A, B) & Trusts(B, C) -> Trusts(A, C) ^2",
        "1: Knows(A, B) & Knows(B, A) & Trusts(A, B) -> Trusts(B, A) ^2",
        "2: Reported(B) & Knows(A, B) -> !Trusts(A, B) ^2",
        "0.5: Knows(A, B) -> Trusts(A, B) ^2",
        "0.3: !Trusts(A, B) ^2",
        "Trusts(A, +B) <= 3 .",
    ],
    "mln": [
        "1 Knows(a, b) ^ Knows(b, c) ^ Knows(a, c) ^ Trusts(a, b) ^ Trusts(b, c) => Trusts(a, c)",
        "1.1 Knows(a, b) ^ Knows(b, a) ^ Trusts(a, b) => Trusts(b, a)",
        "2 Reported(b) ^ Knows(a, b) => !Trusts(a, b)",
        "0.5 Knows(a, b) => Trusts(a, b)",
        "0.3 !Trusts(a, b)",
        "Trusts(a, b) ^ Reported(a) => !Trusts(b, a).",
    ],
}
ALONE = {
    "psl": "0.6: Knows(A, B) & Reported(B) -> Trusts(A, B)",
    "mln": "0.6 Knows(a, b) ^ Reported(b) => Trusts(a, b)",
}
"""A rule that names all predicates."""
DECLARED = {"psl": "", "mln": "Knows(p, p)\nReported(p)\nTrusts(p, p)\n"}
WEIGHT = re.compile(r"^[\d.]+(?=[: ])")
BEST_RULES = """Knows(p, p)
Rich(p)
Smokes(p)
1.31 Knows(a, b) ^ Smokes(a) => Smokes(b)
-0.17 Smokes(a)
0.43 Rich(a) => !Smokes(a)
"""
TRUST = "\n" + "\n".join(RULES["psl"]) + "\n"


def text_of(kind, rules):
    return DECLARED[kind] + "\n".join(rules) + "\n"


class Story:
    """Random changes of who knows whom, who was reported, and who is known to trust whom."""

    def __init__(self, kind, seed):
        self.kind, self.rng = kind, np.random.default_rng(seed)
        self.knows, self.reported, self.seen, self.rules = {}, {}, {}, RULES[kind]

    def __call__(self, name):
        """Change a few facts, weights or rules; return the argument of that method of ``World``."""
        if name == "set_weights":
            factor = float(self.rng.choice([0.5, 3.0]))
            self.rules = [scaled(rule, factor) for rule in self.rules]
            return text_of(self.kind, reversed(self.rules))
        if name == "set_model":
            chosen = [
                rule for rule in self.rng.permutation(RULES[self.kind]) if self.rng.random() < 0.7
            ]
            factors = self.rng.choice([1.0, 2.0, 0.0], len(chosen)).tolist()
            self.rules = [ALONE[self.kind], *map(scaled, chosen, factors)]
            return text_of(self.kind, self.rules)
        return self.step()

    def step(self):
        """Change a few facts; return the keywords of ``World.apply``."""
        changes = {name: {} for name in ("add", "set", "remove", "query")}
        pair = tuple(self.rng.choice(8, 2, replace=False).tolist())
        if pair not in self.knows:
            self.knows[pair] = 1.0
            changes["add"]["Knows"] = [pair]
            changes["query"]["Trusts"] = [pair]
        elif self.rng.random() < 0.5:
            del self.knows[pair]
            self.seen.pop(pair, None)
            changes["remove"] = {"Knows": [pair], "Trusts": [pair]}
        elif pair in self.seen:
            del self.seen[pair]
            changes["query"]["Trusts"] = [pair]
        else:
            self.seen[pair] = float(self.rng.integers(0, 5) / 4 if self.kind == "psl" else 0)
            changes["set"]["Trusts"] = {pair: self.seen[pair]}
        one = int(self.rng.choice(8))
        if one in self.reported:
            del self.reported[one]
            changes["remove"]["Reported"] = [one]
        else:
            self.reported[one] = 0.5 if self.kind == "psl" else 1.0
            changes["add"]["Reported"] = {one: self.reported[one]}
        return changes

    def world(self):
        """A world without facts."""
        targets = "stop" if self.kind == "psl" else "listed"
        return srl.World(
            srl.Model(text_of(self.kind, self.rules), self.kind), "Trusts", targets=targets
        )

    def cold(self):
        """A new world with all facts, and its first step."""
        facts = {"Knows": self.knows, "Reported": self.reported, "Trusts": self.seen}
        targets = {"Trusts": [pair for pair in self.knows if pair not in self.seen]}
        world = self.world()
        return world, world.apply(add=facts, query=targets)


def take(world, name, change):
    return world.apply(**change) if name == "apply" else getattr(world, name)(change)


def scaled(rule, factor):
    return WEIGHT.sub(lambda weight: f"{float(weight[0]) * factor:g}", str(rule))


def ground_rules(delta):
    return Counter({(text, weight): n for text, weight, n in delta.ground_rules.rows()})


def digest(world):
    return repr((sorted(world.answer().items()), [*world.certificate]))


@pytest.mark.parametrize("kind", RULES)
@tiers("seeds", 1, 20)
def test_after_every_step_a_world_is_as_a_new_one(tmp_path, kind, seeds):
    """Answer, certificate, ground rules and what was reported; to the bit where it is saved and loaded."""
    for seed in range(seeds):
        story, shown, last = Story(kind, seed), {}, Counter()
        world = story.world()
        for step in range(40):
            name = (
                {1: "set_weights", 3: "set_model"}.get(step % 4, "apply") if step > 9 else "apply"
            )
            change = story(name)
            if step % 10 == 9:
                world.save(tmp_path / "world")
                again = srl.World.load(tmp_path / "world")
                assert digest(again) == digest(world)
                delta = take(world, name, change)
                assert repr(take(again, name, change).changed) == repr(delta.changed)
                assert digest(again) == digest(world)
            else:
                delta = take(world, name, change)
            cold, first = story.cold()
            if name == "apply":
                last.update(ground_rules(delta))
                assert last == ground_rules(first)
            last = ground_rules(first)
            for pair, (old, new) in delta.changed.get("Trusts", {}).items():
                assert shown.pop(pair, None) == old
                shown |= {} if new is None else {pair: new}
            answer = world.answer().get("Trusts", {})
            if kind == "mln":
                assert digest(world) == digest(cold)
                assert world.marginals() == cold.marginals()
                assert answer == shown
                continue
            assert world.certificate.certified
            assert world.certificate.energy == pytest.approx(cold.certificate.energy, abs=2e-3)
            assert answer == pytest.approx(shown, abs=1e-3)
            assert all(0.0 <= value <= 1.0 for value in answer.values())
            assert all(world.explain(("Trusts", pair)).certified for pair in [*answer][:2])
            if step < 10:  # other rules may leave several best values
                assert answer == pytest.approx(cold.answer().get("Trusts", {}), abs=0.03)


@pytest.mark.parametrize("kept", [False, True])
def test_a_model_whose_hard_rules_cannot_hold_leaves_the_world_as_it_was(kept):
    soft = "E(a)\nQ(a)\nR(a)\n1 Q(x)\n-1 R(x)\n"
    world = srl.World(srl.Model(soft), ["Q", "R"], keep_conflicts=kept)
    world.apply(add={"E": ["M"]})
    before = digest(world)
    for rules in (
        "!Q(y).\nQ(x) v R(x).\nR(x) => Q(x).\n",
        "1 Q(x)\nQ(x).\n!Q(x) v R(x).\n!R(x).\n",
    ):
        with pytest.raises(Infeasible, match="these cannot all hold"):
            world.set_model(srl.Model(soft.partition("1 Q")[0] + rules))
        assert digest(world) == before
    world.apply(add={"E": ["N"]})
    cold = srl.World(srl.Model(soft), ["Q", "R"])
    cold.apply(add={"E": ["M", "N"]})
    assert digest(world) == digest(cold)


def unchanged(world, call):
    """Return why a call is refused, which changes nothing."""
    before, text = digest(world), world.model.text
    said = refusal(call)
    assert (digest(world), world.model.text) == (before, text)
    return said


def test_other_rules_that_do_not_fit_change_nothing():
    world, pairs = srl.World(srl.Model(TRUST, "psl"), "Trusts"), [(1, 2), (1, 3)]
    world.apply(add={"Knows": pairs, "Reported": {2: 0.5}}, query={"Trusts": pairs})

    def change(given):
        method, text = eval(given, {"TRUST": TRUST})
        return unchanged(world, lambda: getattr(world, method)(text))

    check(GOLDEN / "rules.txt", change)
    assert len(world.apply(remove={"Reported": [2]})) == 1


def test_a_bad_change_is_refused_and_changes_nothing():
    world, pairs = srl.World(srl.Model(TRUST, "psl"), "Trusts"), [(1, 2), (2, 1), (1, 3)]
    world.apply(add={"Knows": pairs}, query={"Trusts": pairs})

    def change(given):
        changes = {"set": {"Knows": {(1, 3): 0.5}}, **eval(given)}
        return unchanged(world, lambda: world.apply(**changes))

    check(GOLDEN / "changes.txt", change)
    assert len(world.apply(remove={"Knows": [(1, 3)], "Trusts": [(1, 3)]})) == 1
    linked = srl.World(srl.Model(MARKOV), "Has")
    linked.apply(add={"Link": [("a", "b")]})
    path = GOLDEN / "changes_of_markov_logic.txt"
    check(path, lambda given: unchanged(linked, lambda: linked.apply(**eval(given))))


def test_a_whole_number_of_a_refused_change_is_not_remembered():
    """A constant is shown as it was given: as text, or as a whole number."""
    rules = "A(x)\nB(x)\nQ(x)\n1 A(x) => Q(x)\nA(x) => !B(x).\n"
    world = srl.World(srl.Model(rules, "mln"), "Q")
    world.apply(add={"A": [("5",)]})
    with pytest.raises(Infeasible):
        world.apply(add={"B": [(5,)]})
    assert world.answer()["Q"] == {("5",): 1.0}
    world.apply(remove={"A": [("5",)]})
    world.apply(add={"A": [(5,)]})
    assert world.answer()["Q"] == {(5,): 1.0}


CHAIN = """
1: !A(X) ^2
A(X) >= B(X) .
A(X) <= C(X) .
Next(X, Y) & A(X) -> A(Y) .
"""


@pytest.mark.parametrize(
    ("change", "rules", "facts"),
    [
        (
            {"C": {1: 0.2}},
            ["A('1') >= B('1') .", "A('1') <= C('1') ."],
            ["B(1) = 0.7", "C(1) = 0.2"],
        ),
        ({"A": {1: 0.1}}, ["A('1') >= B('1') ."], ["A(1) = 0.1", "B(1) = 0.7"]),
        (
            {"C": {4: 0.6, 9: 0.1}, "B": {8: 0.0}},
            [
                "A('1') >= B('1') .",
                "Next('1', '2') & A('1') -> A('2') .",
                "Next('2', '3') & A('2') -> A('3') .",
                "Next('3', '4') & A('3') -> A('4') .",
                "A('4') <= C('4') .",
            ],
            ["B(1) = 0.7", "C(4) = 0.6", "Next(1, 2) = 1", "Next(2, 3) = 1", "Next(3, 4) = 1"],
        ),
    ],
)
def test_hard_rules_that_cannot_all_hold_change_nothing(change, rules, facts):
    world, numbers = srl.World(srl.Model(CHAIN, "psl"), "A"), range(1, 30)
    chain = [(n, n + 1) for n in numbers[:-1]]
    world.apply(
        add={"B": {1: 0.7}, "C": dict.fromkeys(numbers, 0.9), "Next": chain},
        query={"A": [*numbers]},
    )
    before = digest(world)
    with pytest.raises(Infeasible) as caught:
        world.apply(set=change)
    start, _, end = str(caught.value).partition(", and the facts ")
    assert sorted(start.partition("hard rule")[2].removeprefix("s").strip().split("; ")) == sorted(
        rule.replace("'", "") for rule in rules
    )
    assert sorted(end.split("; ")) == facts
    assert digest(world) == before
    delta = world.apply(set={"B": {1: 0.0}, "C": {1: 0.7}})
    assert delta.changed["A"][1,][1] == pytest.approx(0.0, abs=1e-3)


def test_conflicts_may_be_kept(tmp_path):
    def begun(keep):
        world, numbers = srl.World(srl.Model(CHAIN, "psl"), "A", keep_conflicts=keep), range(1, 6)
        chain = [(n, n + 1) for n in numbers[:-1]]
        world.apply(
            add={"B": {1: 0.7}, "C": dict.fromkeys(numbers, 0.9), "Next": chain},
            query={"A": [*numbers]},
        )
        return world

    world, plain = begun(keep=True), begun(keep=False)
    delta = world.apply(set={"C": {1: 0.2}})
    assert repr(delta) == "<Delta: 0 atoms changed, certified, 1 conflict>"
    assert delta.conflicts == world.conflicts
    assert "C(1) = 0.2" in world.conflicts[0]
    assert digest(world) == digest(plain)
    with pytest.raises(DataError, match=r"add: C\(1\) is observed, with value 0.2 already"):
        world.apply(add={"C": {1: 0.3}})
    assert len(world.apply(set={"C": {4: 0.3}, "B": {4: 0.1}}).conflicts) == 2
    world.save(tmp_path / "world")
    again = srl.World.load(tmp_path / "world")
    for one in (world, again):
        assert len(one.apply(set={"B": {2: 0.65}}).conflicts) == 2  # what fits goes on
        assert len(one.apply(remove={"Next": [(2, 3)]}).conflicts) == 1
        delta = one.apply(set={"B": {1: 0.1}})
        assert not delta.conflicts
        assert delta.changed["A"][1,][1] == pytest.approx(0.1, abs=1e-2)
    assert digest(world) == digest(again)
    plain.apply(
        set={"B": {1: 0.1, 2: 0.65, 4: 0.1}, "C": {1: 0.2, 4: 0.3}}, remove={"Next": [(2, 3)]}
    )
    assert world.certificate.energy == pytest.approx(plain.certificate.energy, abs=1e-5)


def test_what_waits_may_lose_its_targets():
    world = srl.World(srl.Model("B(X) -> A(X) .", "psl"), "A", keep_conflicts=True)
    world.apply(query={"A": [1, 2]}, add={"B": {1: 0.5, 2: 0.5}})
    assert len(world.apply(set={"A": {1: 0.2}}).conflicts) == 1
    assert len(world.apply(set={"A": {2: 0.2}}).conflicts) == 2
    with pytest.raises(srl.ModelError, match="neither observed nor a target"):
        world.apply(add={"B": {3: 0.5}})
    assert len(world.conflicts) == 2
    assert len(world.apply(remove={"A": [1], "B": [1]}).conflicts) == 1
    assert not world.apply(set={"B": {2: 0.2}}).conflicts


def test_conflicts_of_a_markov_logic_world_may_be_kept():
    world, plain = (srl.World(srl.Model(MARKOV), "Has", keep_conflicts=k) for k in (True, False))
    rng, facts = np.random.default_rng(0), {"Link": {}, "Has": {}}
    counts = []
    for _ in range(60):
        name = str(rng.choice([*facts]))
        one, other = rng.choice(4, 2).tolist()
        atom = (one, other) if name == "Link" else (one, ["Logic", "Vision"][other % 2])
        part = "remove" if facts[name].pop(atom, None) else "add"
        if part == "add":
            facts[name][atom] = 1.0
        counts.append(len(world.apply(**{part: {name: [atom]}}).conflicts))
        fresh = srl.World(srl.Model(MARKOV), "Has")
        try:
            fresh.apply(add=facts)
        except Infeasible:
            assert counts[-1]
        else:
            assert not counts[-1]
            assert digest(fresh) == digest(world)
    assert 0 in counts
    assert max(counts) > 1
    with pytest.raises(Infeasible):
        plain.apply(add={"Has": [("a", "Logic"), ("a", "Vision")]})


def test_conflicts_that_only_hold_together_are_resolved_together():
    world = srl.World(srl.Model("P(t)\nP(A) <=> P(B)."), "P", keep_conflicts=True)
    world.apply(add={"P": {"A": 0, "B": 0}})
    assert len(world.apply(set={"P": {"A": 1}}).conflicts) == 1
    assert not world.apply(set={"P": {"B": 1}}).conflicts
    assert world.answer() == {}
    assert [world.explain(f"P({name})").value for name in "AB"] == [1, 1]


def targets(answer):
    return answer.get("Has", {})


def test_a_delta_lists_the_ground_rules_that_came_and_went():
    world = srl.World(srl.Model(MARKOV), "Has")
    begin = world.apply(add={"Link": [("A", "B")], "Score": {"A": 2.0}})
    assert ground_rules(begin) == {
        ("Has(A, Logic)", 0.4): 1,
        ("Has(B, Logic)", 0.4): 1,
        ("Score(A) ^ Has(A, Vision)", 1.0): 1,
        ("Link(A, B) ^ Has(A, Logic) => Has(B, Logic)", 1.5): 1,
        ("Link(A, B) ^ Has(A, Vision) => Has(B, Vision)", 1.5): 1,
    }
    changed = world.apply(set={"Score": {"A": 3.0}, "Link": [("B", "B")]})
    assert ground_rules(changed) == {
        ("Score(A) ^ Has(A, Vision)", 1.0): -1,
        ("Score(A) ^ Has(A, Vision)", 1.5): 1,
        ("Link(B, B) => Has(B, Logic)", None): 1,
    }
    assert not ground_rules(world.set_weights(MARKOV.replace("0.4", "0.7")))
    other = world.set_model(MARKOV.replace("0.4 Has(x, Logic)\n", ""))
    assert ground_rules(other) == {("Has(A, Logic)", 0.7): -1, ("Has(B, Logic)", 0.7): -1}
    assert ("Has(A, Logic)", 0.4) in ground_rules(begin)


def test_a_search_that_ends_leaves_a_state_and_its_gap(tmp_path):
    """As many of 160 pairs as may be are to be apart, in a graph too wide for elimination."""
    model = srl.Model("W(p, p)\nV(p)\n1 W(x, y) => V(x) v V(y)\n1 W(x, y) => !V(x) v !V(y)\n")
    rng = np.random.default_rng(3)
    pairs = sorted(
        {(min(x), max(x)) for x in rng.integers(0, 40, (160, 2)).tolist() if x[0] != x[1]}
    )
    proven, ended = (srl.World(model, "V", inference={"max_work": most}) for most in (None, 1))
    best = proven.apply(add={"W": pairs}).certificate
    ended.apply(add={"W": pairs[:-1]})
    state = ended.apply(add={"W": pairs[-1:]}).certificate
    assert best.certified
    assert not state.certified
    assert state.score <= best.score <= state.score + state.gap
    ended.save(tmp_path / "world")
    cold = srl.World(model, "V", inference={"max_work": 1})
    cold.apply(add={"W": pairs})
    for other in (cold, srl.World.load(tmp_path / "world")):
        assert (other.certificate, other.answer()) == (state, ended.answer())


def test_next_best_states_within_a_limit_are_not_certified():
    """Pairs gain by being true together, in a graph too wide for elimination; its best state is proven."""
    model = srl.Model("W(p, p): real\nH(p): real\nV(p)\n1 W(x, y) ^ V(x) ^ V(y)\n1 H(x) ^ V(x)\n")
    rng = np.random.default_rng(2)
    pairs = {(x, y): abs(float(rng.normal())) for x in range(20) for y in range(x)}
    facts = {"W": pairs, "H": {x: 7 * float(rng.normal()) - 5 for x in range(20)}}
    listed = []
    for most in (None, 1):
        world = srl.World(model, "V", inference={"best": 4, "max_work": most})
        assert world.apply(set=facts).certificate.certified
        listed.append([state.stats for state in world.answer().best[1:]])
    assert [state["certified"] for state in listed[0]] == [True] * 3
    assert [state["certified"] for state in listed[1]] == [False] * 3


def test_a_world_takes_the_options_of_inference():
    model = srl.Model(
        "S(p, p): real\nV(p, p)\n1 S(x, y) ^ V(x, y)\nV(x, y) ^ V(y, z) => V(x, z).\n"
    )
    rng = np.random.default_rng(1)
    facts = {"S": {(f"P{x}", f"P{y}"): float(rng.normal()) for x in range(7) for y in range(7)}}
    best = -np.inf
    for inference in ({"presolve": "none"}, None, {"solver": "cbc"}, "walksat", "lp"):
        world = srl.World(model, "V", inference=inference)
        world.apply(set=facts)
        state = world.certificate
        best = max(best, state.score)
        assert state.score <= best + 1e-9 <= state.score + state.gap + 2e-9
        assert state.certified or inference in ("walksat", "lp")
    with pytest.raises(srl.UsageError, match=r"inference\.solver"):
        srl.World(model, "V", inference={"solver": "none"})
    with pytest.raises(srl.UsageError, match="one of PSL has its own engine"):
        srl.World(srl.Model("1: A(X) -> B(X)", "psl"), "B", inference="mpe")


def test_a_delta_shows_its_first_atoms():
    world = srl.World(srl.Model("P(x)\n1 P(x)"), "P", targets="listed")
    delta = world.apply(query={"P": [[str(n)] for n in range(30)]})
    assert len(str(delta).splitlines()) == 22
    assert str(delta).endswith("and 10 more, all in `table`")


def test_marginals_of_wide_components_and_narrow_ones():
    """Sixteen are friends of each other; a chain is beside them, or joined; a few are foes for a while."""
    model = srl.Model("""
Knows(p, p)
Foe(p, p)
Smokes(p)
0.3 Knows(x, y) ^ Smokes(x) => Smokes(y)
0.1 Knows(x, y) => !Smokes(x) v !Smokes(y)
33.3 Foe(x, y) ^ Smokes(x) => Smokes(y)
33.3 Foe(x, y) => Smokes(y)
33.3 Foe(x, y) => !Smokes(y)
""")
    friends = [(f"F{a}", f"F{b}") for a in range(16) for b in range(a)]
    chain = [(f"C{n}", f"C{n + 1}") for n in range(9)]
    world, facts = srl.World(model, "Smokes"), {"Knows": {}, "Foe": {}}
    for part, name, pairs in (
        ("add", "Knows", friends + chain),
        ("add", "Knows", [("F1", "C1")]),
        ("remove", "Knows", [("F1", "C1"), *friends[21:]]),
        ("add", "Foe", [("C3", "C1")]),
        ("add", "Knows", [("C3", "C1")]),
        ("remove", "Foe", [("C3", "C1")]),
        ("add", "Knows", friends[21:]),
    ):
        world.apply(**{part: {name: pairs}})
        rest = {pair: 1.0 for pair in facts[name] if pair not in pairs}
        facts[name] = rest | (dict.fromkeys(pairs, 1.0) if part == "add" else {})
        cold = srl.World(model, "Smokes")
        cold.apply(add=facts)
        few, answer = world.marginals("Smokes(C1)", ("Smokes", ["F2"])), world.marginals()
        assert few["Smokes"] == {a: answer["Smokes"][a] for a in (("C1",), ("F2",))}
        assert answer == cold.marginals()
        assert answer.stats == cold.marginals().stats
        expected = srl.infer(model, facts, "Smokes", method="exact", closed=["Foe"])
        assert answer["Smokes"] == pytest.approx(expected["Smokes"], abs=1e-9)


def test_a_markov_logic_world_takes_the_weights_that_a_learner_learned():
    text = MARKOV.replace("0.4 Has(x, Logic)", "0.4 Has(x, +t)\n0.1 Title(x, +w) => Has(x, Logic)")
    model = srl.Model("Title(paper, word)" + text)
    learner = srl.OnlineLearner(model, "Has")
    facts = {"Link": [(1, 2), (2, 3)], "Title": [(1, "Sets"), (2, "Eyes")], "Score": {3: 0.5}}
    world = srl.World(model, "Has")
    world.apply(add=facts)
    for truth in (
        [(1, "Logic"), (2, "Vision"), (3, "Vision")],
        [(1, "Vision"), (2, "Vision"), (3, "Vision")],
    ):
        learner.learn_one(facts, {"Has": truth})
        weights = learner.weights_text()
        before = targets(world.answer())
        delta = world.set_weights(weights)
        after = targets(world.answer())
        assert len(delta) == sum(before[atom] != after[atom] for atom in before)
        for other in (srl.Model(weights), world.model):
            cold = srl.World(other, "Has")
            cold.apply(add=facts)
            assert digest(cold) == digest(world)
    unlike = weights.replace("Link(x, y)", "Link(y, x)")
    for bad, message in ((unlike, "no rule of the world fits"), ("", "no weight fits the rule")):
        before = digest(world)
        with pytest.raises(DataError, match=message):
            world.set_weights(bad or "Has(paper, topic!)")
        assert digest(world) == before


def test_rules_of_a_markov_logic_world_that_do_not_fit_change_nothing():
    world = srl.World(srl.Model(MARKOV), "Has")
    world.apply(add={"Link": [("a", "b"), ("b", "c")], "Score": {"c": 3}})
    other = MARKOV.replace("0.4 Has(x, Logic)", "2 Has(x, Logic)\n3 Score(x) ^ Has(x, Sound)")
    assert len(world.set_model(other)) == 3 + 5  # three atoms are new; all papers leave Vision
    before = digest(world)
    for text, message in (
        (other + "Link(x, y) => Has(x, Sound).\nLink(x, y) => Has(x, Logic).", "hard"),
        (other + "!Link(x, y).", "cannot all hold"),
        (other + "Has(x, Sound)", "has no weight"),
        (MARKOV.replace("Score(x)", "Link(x, x)").replace("Score(paper): real", ""), "Score"),
        (MARKOV.replace("Link(", "Linked("), "no fact of the model"),
    ):
        with pytest.raises(srl.OnlinesrlError, match=message):
            world.set_model(text)
        assert digest(world) == before
    with pytest.raises(UsageError, match="expected a model in Markov logic, not in PSL"):
        world.set_model(srl.Model(TRUST, "psl"))
    world.set_model(MARKOV.replace("topic!", "topic"))
    assert targets(world.answer())["c", "Logic"] == targets(world.answer())["c", "Vision"] == 1


GOOD = """
Rates(user, user)
Good(user)
1 Rates(x, y) ^ Good(x) => Good(y)
-0.2 Good(x)
Rates(x, x) => !Good(x).
"""
CLAIMS = """
Claims(cell, value)
Value(cell, value)
Value(c, v) ^ Value(c, w) => v = w.
Claims(c, v) => EXIST w Value(c, w).
1 Claims(c, v) => Value(c, v)
"""
RATED = """
1: Rates(A, B) & Good(A) -> Good(B) ^2
0.2: !Good(A) ^2
Rates(A, A) -> !Good(A) .
"""


def good(n):
    return {"Rates": [(f"a{n}", f"b{n}")]}, {"Good": [f"a{n}", f"b{n}"]}


def claims(n):
    return {"Claims": [(n, f"v{n}")]}, {"Value": [(n, f"v{n}"), (n, f"w{n}")]}


def together(*atoms):
    """Atoms by predicate, as one."""
    return {name: [row for some in atoms for row in some[name]] for name in atoms[0]}


def work(step):
    """The calls that a step makes, and the most memory that it takes at once, in bytes."""
    calls = 0

    def count(*_):
        nonlocal calls
        calls += 1

    tracemalloc.start()
    sys.setprofile(count)
    step()
    sys.setprofile(None)
    memory = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return calls, memory


@pytest.mark.parametrize(
    ("text", "kind", "query", "targets", "atoms"),
    [
        (GOOD, "mln", "Good", "all", good),
        (CLAIMS, "mln", "Value", "listed", claims),
        (RATED, "psl", "Good", "stop", good),
        (RATED + "1: Rates(A, B) & A % B -> Good(B)", "psl", "Good", "stop", good),
    ],
)
def test_a_change_costs_what_it_touches(text, kind, query, targets, atoms):
    """Constants never seen come, and others go, in worlds of which one has eight times the facts."""

    def work_of(n):
        world = srl.World(srl.Model(text, kind), query, targets=targets)

        def add(*numbers):
            facts, asked = (together(*some) for some in zip(*map(atoms, numbers), strict=True))
            return lambda: world.apply(add=facts, query={} if targets == "all" else asked)

        def remove(number):
            facts, asked = atoms(number)
            return lambda: world.apply(remove=facts if targets == "all" else facts | asked)

        add(*range(n))()
        add(n)()  # makes indexes
        remove(n)()
        steps = [[work(add(n + k)), work(remove(k))] for k in range(9)]
        return [
            median(column)
            for pair in zip(*steps, strict=True)
            for column in zip(*pair, strict=True)
        ]

    for few, many in zip(work_of(400), work_of(3_200), strict=True):
        assert many < 1.5 * few


def test_constants_are_compared_as_whole_numbers_then_as_text():
    """Whole numbers are those of comparisons and arithmetic: without zeros in front, of up to 18 digits."""
    names = [
        "10",
        "009",
        "8",
        "9" * 18,
        "1" + "0" * 18,
        "0",
        "x",
        "x1",
        "X",
        "é",
        "z\U0001f600",
        "-1",
    ]
    world = srl.World("1: A(X) & A(Y) & X % Y -> T(X, Y)", "T")

    def key(name):
        is_number = name not in ("009", "1" + "0" * 18) and name.removeprefix("-").isdecimal()
        return not is_number, int(name) if is_number else 0, name

    for n, name in enumerate(names):
        pairs = [(name, other) for other in names[: n + 1]]
        pairs += [(other, name) for other in names[:n]]
        delta = world.apply(add={"A": [name]}, query={"T": pairs})
        heads = [row[0].rpartition(" -> ")[2] for row in delta.ground_rules.rows()]
        expected = {f"T({a}, {b})" for a, b in pairs if key(a) < key(b)}
        assert {head.replace("'", "") for head in heads} == expected


def test_what_a_markov_logic_world_has_not():
    with pytest.raises(UsageError, match="expected 'all' or 'listed' in Markov logic"):
        srl.World(srl.Model(MARKOV), "Has", targets="skip")
    with pytest.raises(UsageError, match=":2: a rule without a weight"):
        srl.World(srl.Model("P(t)\nP(x) v P(y)"), "P")
    with pytest.raises(DataError, match=r"Has\(zed, Logic\) is no target"):
        srl.World(srl.Model(MARKOV), "Has").marginals("Has(zed, Logic)")
    with pytest.raises(UsageError, match="marginals are for Markov logic"):
        srl.World(srl.Model(TRUST, "psl"), "Trusts").marginals()


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_world_is_not_copied_but_saved_and_loaded(copied):
    with pytest.raises(TypeError, match="save it, and load what was saved"):
        copied(srl.World(srl.Model(TRUST, "psl"), "Trusts"))


def test_whole_numbers_that_went_are_forgotten(tmp_path):
    world, size = srl.World(srl.Model("1: Asks(A) -> Gets(A) ^2", "psl"), "Gets"), 6000
    for start in range(0, 4 * size, size):
        new, old = range(start, start + size), range(start - size, start) if start else ()
        change = {
            "add": {"Asks": new},
            "query": {"Gets": new},
            "remove": {"Asks": old, "Gets": old},
        }
        changed = world.apply(**change).changed["Gets"]
        assert {atom for atom, (_, value) in changed.items() if value is None} == {
            (n,) for n in old
        }
        assert world.answer()["Gets"].keys() == {(n,) for n in new}
    world.save(tmp_path / "world")
    header = checkpoint_file.load(tmp_path / "world").header
    assert {*header["whole_numbers"].values()} == {*new}


def test_a_loaded_markov_logic_world_goes_on_bit_for_bit(tmp_path):
    (tmp_path / "links.mln").write_text("Link(paper, paper)")
    text = MARKOV.replace("Link(paper, paper)", '#include "links.mln"', 1)
    world = srl.World(srl.Model(text, file=str(tmp_path / "model.mln")), "Has")
    facts = {"Link": [(1, 2), (2, 3), ("x", 3)], "Has": {(1, "Vision"): 1, (3, "Logic"): 0}}
    world.apply(add={**facts, "Score": {2: 0.1, 3: -1e30}})
    world.save(tmp_path / "world")
    (tmp_path / "links.mln").unlink()
    again = srl.World.load(tmp_path / "world")
    assert digest(again) == digest(world)
    assert (2, "Vision") in targets(again.answer())
    for change in ({"remove": {"Score": [3]}}, {"set": {"Link": [(3, 4)], "Score": {4: 1.5}}}):
        assert repr(world.apply(**change).changed) == repr(again.apply(**change).changed)
        assert digest(again) == digest(world)
    checkpoint = checkpoint_file.load(tmp_path / "world")
    for bad, message in (
        (["Has", ["1", "Logic"], None], "Has(1, Logic) is no fact of the model"),
        (["Link", ["1", "2"], 0.5], "Link(1, 2) is no fact of the model"),
        (["Link", ["1", "1"], 1.0], "these cannot all hold"),
    ):
        header = {**checkpoint.header, "facts": [["Has", ["1", "Logic"], 0.0], bad]}
        checkpoint_file.write(tmp_path / "forged", 1, header, {})
        with pytest.raises(srl.StorageError) as caught:
            srl.World.load(tmp_path / "forged")
        assert message in str(caught.value)


def test_a_damaged_world_is_refused(tmp_path):
    world = srl.World(srl.Model(TRUST, "psl"), "Trusts")
    world.apply(add={"Knows": [(1, 2)]}, query={"Trusts": [(1, 2)]})
    world.save(tmp_path / "world")
    checkpoint = checkpoint_file.load(tmp_path / "world")
    header, arrays = checkpoint.header, checkpoint.arrays
    for key, value, message in (
        ("model", "1: P(", "cannot be restored"),
        ("facts", [["Likes", ["1"], 1.0]], "Likes(1) is no fact of the model"),
        ("facts", [["Knows", ["1", "2"], 1.5]], "cannot be restored"),
        ("facts", [["Knows", ["1", "2"], 1.0]], "the rule needs Trusts(1, 2)"),
        ("facts", [["Knows", ["1", "2"], 1.0], ["Trusts", ["1", "2"], 0.5]], "the array values"),
    ):
        checkpoint_file.write(tmp_path / "forged", 1, header | {key: value}, arrays)
        with pytest.raises(srl.StorageError) as caught:
            srl.World.load(tmp_path / "forged")
        assert message in str(caught.value)
    (tmp_path / "forged").write_bytes((tmp_path / "world").read_bytes()[:-1])
    with pytest.raises(srl.StorageError, match="cut off"):
        srl.World.load(tmp_path / "forged")


def test_why_a_value_is_what_it_is():
    world = srl.World(srl.Model(TRUST, "psl"), "Trusts")
    pairs = [("a", "b"), ("b", "a")]
    world.apply(add={"Knows": pairs, "Reported": {"b": 0.5}}, query={"Trusts": pairs})
    text = str(world.explain("Trusts(a, b)"))
    assert text.startswith("Trusts(a, b): 0.")
    assert "Reported('b') & Knows('a', 'b') -> !Trusts('a', 'b') ^2" in text
    assert world.explain(("Reported", ["b"])).given
    with pytest.raises(srl.ExplanationError, match="neither observed nor a target"):
        world.explain("Trusts(a, c)")


@tiers("seed", 0, 1)
def test_why_an_atom_is_true_as_a_learner_with_these_weights_says_it(seed):
    text = (
        MARKOV
        + """
Nice(paper)
0.9 EXIST y Link(x, y) ^ Nice(y) ^ Has(y, Logic)
-0.7 Nice(x) v Has(x, Vision)
0.35 Score(x) ^ Nice(x) ^ Has(x, Logic)
Nice(x) ^ Link(x, y) => Has(y, Vision).
"""
    )
    rng, model = np.random.default_rng(seed), srl.Model(text)
    papers = [str(n) for n in range(4)]
    facts = {
        "Link": [tuple(pair) for pair in rng.choice(papers, (5, 2)).tolist() if len({*pair}) > 1],
        "Score": {(paper,): round(float(rng.normal()), 3) for paper in papers[:3]},
    }
    facts["Link"] = [*dict.fromkeys(facts["Link"])]
    world, learner = srl.World(model, ["Has", "Nice"]), srl.OnlineLearner(model, ["Has", "Nice"])
    world.apply(add=facts)
    answer = world.answer()
    for name, values in answer.items():
        for atom in values:
            expected = srl.explain(learner, facts, (name, [*atom]), tries=0).as_dict()
            actual = world.explain((name, [*atom])).as_dict()
            for key in ("atom", "value", "group", "forbidden"):
                assert actual[key] == expected[key]
            assert actual["undecided"] >= expected["undecided"]  # it looks into EXIST
            assert actual["difference"] == pytest.approx(expected["difference"], abs=1e-9)
            assert actual["certified"]
            assert actual["other"]["certified"]
            assert actual["other"]["cost"] == pytest.approx(expected["other"]["cost"], abs=1e-9)
            actual["reasons"], expected["reasons"] = (
                [
                    (
                        r["rule"],
                        r["count"],
                        r["holds"],
                        round(r["effect"], 9),
                        round(r["weight"], 9),
                    )
                    for r in explanation["reasons"]
                ]
                for explanation in (actual, expected)
            )
            assert actual["reasons"] == expected["reasons"]


def test_why_an_atom_of_facts_has_its_value():
    world = srl.World(srl.Model(MARKOV), "Has")
    world.apply(add={"Link": [("a", "a"), ("b", "c")], "Has": {("c", "Vision"): 1}})
    assert world.explain("Link(b, c)").given
    assert str(world.explain("Has(c, Logic)")) == "Has(c, Logic): false, as its evidence says"
    text = str(world.explain("Has(a, Logic)"))
    assert "the other value alone would break" in text
    assert "hard rules leave no other value" in text
    with pytest.raises(
        srl.ExplanationError, match=r"Link\(c, b\) is neither observed nor a target"
    ):
        world.explain("Link(c, b)")


def test_the_best_answers_are_those_of_a_cold_start(tmp_path):
    world, facts = srl.World(srl.Model(BEST_RULES), "Smokes", inference={"best": 4}), {}
    rng = np.random.default_rng(3)
    for _ in range(30):
        pair = tuple(map(str, rng.integers(5, size=2)))
        name, atom = ("Rich", pair[:1]) if rng.random() < 0.3 else ("Knows", pair)
        rows = facts.setdefault(name, {})
        if atom in rows:
            del rows[atom]
            world.apply(remove={name: [atom]})
        else:
            rows[atom] = 1.0
            world.apply(add={name: [atom]})
        answer = world.answer()
        if not answer.get("Smokes"):
            assert answer.best == [answer]
            continue
        expected = srl.infer(BEST_RULES, facts, "Smokes", best=4)
        assert len(answer.best) == len(expected.best)
        assert [one.stats["rank"] for one in answer.best] == sorted(
            one.stats["rank"] for one in answer.best
        )
        for one, other in zip(answer.best, expected.best, strict=True):
            assert one.certified
            assert one.stats["difference"] == pytest.approx(other.stats["difference"], abs=1e-9)
            assert one.score == pytest.approx(answer.score - one.stats["difference"])
            assert one.stats["changes"] == {
                f"Smokes({row[0]})": value
                for row, value in one["Smokes"].items()
                if value != answer["Smokes"][row]
            }
    world.save(tmp_path / "world")
    saved = srl.World.load(tmp_path / "world").answer()
    assert [dict(one) for one in saved.best] == [dict(one) for one in answer.best]
    assert [one.stats for one in saved.best] == [one.stats for one in answer.best]
