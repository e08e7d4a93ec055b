"""infer and ground, against the ground networks and the exact answers of other systems."""

import json
from dataclasses import replace
from itertools import product
from math import exp
from pathlib import Path
from statistics import fmean

import pytest
from conftest import command as run_command
from conftest import long, long_if
from typer.testing import CliRunner

import onlinesrl as srl
from onlinesrl.commands.cli import app
from onlinesrl.core.errors import DatabaseError, ExampleError, LocatedError, OnlinesrlError
from onlinesrl.logic.text import spell_atom
from onlinesrl.mln.ground import grounder
from onlinesrl.mln.inference import mcmc
from onlinesrl.mln.inference.mcmc import NO_BLOCKS
from onlinesrl.mln.query import infer as infer_module
from onlinesrl.mln.query import world as inference
from tests.support.answers import answer_lines
from tests.support.paths import SHARED

GOLDENS = SHARED / "data" / "caviar_goldens"
PEERS = SHARED / "peers" / "mln"
CASES = sorted(GOLDENS.glob("*/*/*.db"))
SOME = long_if(lambda case: CASES.index(case) % 3, CASES)
PROBES = sorted((PEERS / "syntax").glob("*.q"))
REFUSED = {"lower_const", "tuffy_closed_star", "undeclared_pred", "weight_and_dot"}

needs_goldens = pytest.mark.skipif(not CASES, reason="the CAVIAR goldens are not there")
needs_peers = pytest.mark.skipif(not PROBES, reason="the other systems' results are not there")


def clause(text: str) -> tuple[str, ...]:
    return tuple(sorted(literal.strip() for literal in text.split(" v ")))


def network(lines) -> dict[tuple[str, ...], float | None]:
    """Ground clauses by their literals; None: hard."""
    found = {}
    for line in lines:
        if line.endswith("."):
            found[clause(line[:-1])] = None
        elif line and not line.startswith("//"):
            weight, text = line.split(" ", 1)
            found[clause(text)] = float(weight)
    return found


def case_id(path: Path) -> str:
    return f"{path.parts[-3]}-{path.parts[-2]}-{path.stem}"


def exact(path: Path, kind: str) -> Path:
    learner = path.parts[-3].replace("_", "__")
    return PEERS / "caviar_exact" / f"{learner}__meet__{path.parts[-2]}__{path.stem}.{kind}.exact"


def values(lines) -> dict[str, float]:
    atoms = (line.rsplit(" ", 1) for line in lines if line and not line.startswith("#"))
    return {atom: float(value) for atom, value in atoms}


@needs_goldens
@pytest.mark.parametrize("database", SOME, ids=case_id)
def test_caviar_grounds_to_the_recorded_network_and_its_mpe_is_the_optimum(database):
    world = inference.load_world(next(database.parent.glob("*.mln")), [database], ["HoldsAt"])
    golden = network(database.with_suffix(".network").read_text().splitlines())
    found = network(infer_module.network_lines(world))
    assert found.keys() == golden.keys()
    for key, weight in golden.items():
        assert (found[key] is None) == (weight is None)
        assert weight is None or found[key] == pytest.approx(weight, abs=2e-3)
    lines, stats = answer_lines(world, "mpe", 0)
    sizes = dict(
        line.split("=") for line in database.with_suffix(".statistics").read_text().split()
    )
    assert stats["atoms"] == int(sizes["mrf.atoms.size"])
    assert stats["soft_clauses"] + stats["hard_clauses"] == int(sizes["mrf.constraints.size"])
    optimum = float(exact(database, "map").read_text().split()[2])
    assert stats["certified"]
    assert stats["cost"] == pytest.approx(optimum, rel=1e-3, abs=1e-3)
    assert values(lines).keys() == values(exact(database, "map").read_text().splitlines()).keys()
    for method, above in (
        ("walksat", 0.07),
        ("lp", 0.03),
    ):  # inertia that no walk crosses by one atom
        _, stats = answer_lines(world, method, 0)
        assert optimum - 1e-3 <= stats["cost"] <= (1 + above) * optimum + 1e-3
        assert stats["bound"] is None or stats["bound"] <= optimum + 1e-3


@needs_goldens
@pytest.mark.parametrize(
    "database", [c for c in CASES if exact(c, "marg").exists()][::3], ids=case_id
)
def test_caviar_marginals(database):
    world = inference.load_world(next(database.parent.glob("*.mln")), [database], ["HoldsAt"])
    lines, stats = answer_lines(world, "exact", 0)
    golden = values(exact(database, "marg").read_text().splitlines())
    found = values(lines)
    assert stats["route"] == "exact"
    assert found.keys() == golden.keys()
    assert max(abs(found[atom] - golden[atom]) for atom in golden) < 1e-6
    for seed in range(2):
        assert mean_error(world, "mcsat", golden, seed) <= 0.003


def mean_error(world, method, golden, seed=0) -> float:
    """The mean over atoms of how far a sampler is off."""
    found = values(answer_lines(world, method, seed)[0])
    return fmean(abs(found[atom] - p) for atom, p in golden.items())


@needs_peers
@pytest.mark.parametrize("people", [10, long(100)])
def test_friends_and_smokers_is_exact(people):
    folder = PEERS / "friends_smokers"
    model, database = folder / "fs-infer.mln", folder / f"fs{people}-test.db"
    world = inference.load_world(model, [database], ["Smokes", "Cancer"])
    lines, stats = answer_lines(world, "mpe", 0)
    golden = (folder / f"fs{people}.map.exact").read_text()
    assert stats["cost"] == pytest.approx(float(golden.split()[2]), abs=1e-6)
    assert values(lines) == values(golden.splitlines())
    lines, _ = answer_lines(world, "exact", 0)
    golden_marginals = values((folder / f"fs{people}.marg.exact").read_text().splitlines())
    found = values(lines)
    assert max(abs(found[atom] - p) for atom, p in golden_marginals.items()) < 1e-6
    assert mean_error(world, "gibbs", golden_marginals) <= 0.005
    for seed in range(3):
        assert mean_error(world, "mcsat", golden_marginals, seed) <= 0.02


@needs_peers
@pytest.mark.parametrize("query", PROBES, ids=lambda path: path.stem)
def test_every_probe_is_answered_at_no_cost_or_refused_where_it_is_wrong(query):
    model, database = query.with_suffix(".mln"), query.with_suffix(".db")
    evidence = [database] if database.exists() else []
    asked = query.read_text().strip().split(",")
    if query.stem in REFUSED:
        with pytest.raises(LocatedError) as error:
            inference.load_world(model, evidence, asked)
        assert f"{query.stem}." in str(error.value)
        assert "^" in str(error.value)
        assert query.stem == "undeclared_pred" or "hint" in str(error.value)
        return
    world = inference.load_world(model, evidence, asked)
    lines, stats = answer_lines(world, "mpe", 0)
    assert lines
    assert stats["certified"]
    assert stats["cost"] == pytest.approx(0.0, abs=1e-9)  # every satisfiable probe's optimum
    assert _cost_of_recorded(query.stem, world) >= stats["cost"] - 1e-9


def _cost_of_recorded(name, world) -> float:
    """The cost of what Alchemy recorded, where it recorded all atoms asked for."""
    rows = (line.split("|") for line in (PEERS / "syntax" / "alchemy.txt").read_text().splitlines())
    answer = next((row[2] for row in rows if row[0] == name), "")
    recorded = values(part for part in answer.split(";") if part)
    names = {spell_atom(*world.atoms[n]): n for n in world.shown}
    if recorded.keys() != names.keys():
        return float("inf")
    state = [0] * world.model.n_atoms
    for number, true in world.fixed.items():
        state[number] = int(true)
    for atom, value in recorded.items():
        state[names[atom]] = int(value)
    return infer_module.cost(world, state)


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def answer(folder: Path, model: str, database: str, query: str, method: str = "mpe"):
    world = inference.load_world(
        write(folder, "m.mln", model), [write(folder, "e.db", database)], query.split(",")
    )
    lines, stats = answer_lines(world, method, 0)
    return values(lines), stats


@pytest.mark.parametrize("method", ["exact", "mcsat", "gibbs"])
def test_atoms_that_hard_clauses_define_are_computed(tmp_path, method):
    """Answers by hand; the second one's 4 atoms carry 36 defined ones and are 15 states of 16."""
    within = 1e-9 if method == "exact" else 0.03
    one = "t = {A}\nR(t)\nQ(t)\n1 EXIST y (R(y) ^ Q(y))\n"
    most = "t = {0,...,3}\nR(t)\n!R(x) v (EXIST y,z (!R(y) ^ !R(z))).\n"
    rule = "t = {0,...,3}\nR(t)\nS(t)\n-0.5 R(x)\nS(x) <=> EXIST y,z (!R(y) ^ R(z) ^ x != y).\n"

    found, _ = answer(tmp_path, one, "", "R,Q", method)
    assert list(found.values()) == pytest.approx([(1 + exp(1)) / (3 + exp(1))] * 2, abs=within)
    found, stats = answer(tmp_path, most, "", "R", method)
    assert list(found.values()) == pytest.approx([7 / 15] * 4, abs=within)
    assert stats["route"] == method
    found, _ = answer(tmp_path, rule, "", "R,S", method)
    rest = 1 - 1 / (1 + exp(0.5))
    assert found["R(0)"] == pytest.approx(1 - rest, abs=within)
    assert found["S(2)"] == pytest.approx(1 - rest**4 - (1 - rest) ** 3, abs=within)


def test_the_ground_network_defines_the_conjunctions_of_an_existential(tmp_path):
    model = "P(t)\nQ(t)\nE(t)\n2 EXIST y (P(y) ^ Q(y))\n"
    world = inference.load_world(
        write(tmp_path, "m.mln", model), [write(tmp_path, "e.db", "E(A)\n")], ["P", "Q"]
    )
    assert sorted(infer_module.network_lines(world)) == [
        "!P(A) v !Q(A) v Some_1.",
        "2 Some_1",
        "P(A) v !Some_1.",
        "Q(A) v !Some_1.",
    ]


def test_the_ground_network_says_how_many_atoms_of_a_group_are_true(tmp_path):
    model = "l = {A, B, C}\nP(t, l!)\nQ(t, l)\n!Q(x, y) v !Q(x, z) v y = z.\n1 P(x, A)\n2 Q(x, A)\n"
    database = write(tmp_path, "e.db", "!P(X, C)\nQ(Y, B)\nP(Y, A)\n")
    world = inference.load_world(write(tmp_path, "m.mln", model), [database], ["P", "Q"])
    assert sorted(infer_module.network_lines(world)) == [
        "!P(X,A) v !P(X,B).",
        "!P(Y,B).",
        "!P(Y,C).",
        "!Q(X,A) v !Q(X,B).",
        "!Q(X,A) v !Q(X,C).",
        "!Q(X,B) v !Q(X,C).",
        "!Q(Y,A).",
        "!Q(Y,C).",
        "1 P(X,A)",
        "2 Q(X,A)",
        "2 Q(Y,A)",
        "P(X,A) v P(X,B).",
    ]


NUMBERS = "t = {{1,...,5}}\nP(t)\nQ(t)\n{}\n1 !Q(x)\n"
BY_HAND = [
    *(
        (NUMBERS.format(rule), "P(1)\nP(3)\n", "Q", {f"Q({n})" for n in true})
        for rule, true in [
            ("5 P(x) ^ y = x + 1 => Q(y)", (2, 4)),
            ("5 P(x) => Q(x + 2)", (3, 5)),
            ("5 P(x) => Q(succ(x))", (2, 4)),
            ("5 P(x) ^ y > x => Q(y)", (2, 3, 4, 5)),
            ("5 P(x) ^ y <= x => Q(y)", (1, 2, 3)),
            ("5 P(x) ^ y < x => Q(y)", (1, 2)),
            ("5 P(x) ^ P(y) ^ x < y => Q(y - x)", (2,)),
            ("5 P(x) => Q(x * 2 - 1)", (1, 5)),
        ]
    ),
    (  # functions are relations
        "P(item)\nQ(item)\nitem next(item)\n3 P(next(x)) => Q(x)\n1 !Q(x)\n",
        "B = next(A)\nC = next(B)\nP(B)\n",
        "Q",
        {"Q(A)"},
    ),
    (  # a hard conjunction makes both true
        "H(t)\nS(t)\nE(t)\nH(x) ^ S(x).\n-5 H(x)\n-5 S(x)\n",
        "E(A)\nE(B)\n",
        "H,S",
        {"H(A)", "H(B)", "S(A)", "S(B)"},
    ),
    (  # an unknown atom is open, the others of its predicate are closed
        "P(t)\nQ(t)\n2 P(x)\n3 P(x) => Q(x)\n1 !Q(x)\n",
        "?P(A)\nP(B)\n!P(C)\n",
        "Q",
        {"Q(A)", "Q(B)"},
    ),
]


@pytest.mark.parametrize(("model", "database", "query", "true"), BY_HAND)
def test_the_best_state_is_the_one_by_hand(tmp_path, model, database, query, true):
    found, _ = answer(tmp_path, model, database, query)
    assert {atom for atom, value in found.items() if value} == true


@pytest.mark.parametrize(
    ("rules", "cost"), [("-0.84 T(y)", 0.84), ("0.84 !T(y)", 0.84), ("-0.84 T(y)\nT(y).", 0.84)]
)
@pytest.mark.parametrize("database", ["T(A)\n", "T(A)\nS(A)\n"])
def test_what_evidence_and_hard_rules_decide_is_in_the_cost(tmp_path, rules, cost, database):
    _, stats = answer(tmp_path, f"T(t)\nS(t)\n{rules}\n", database, "T,S")
    assert stats["cost"] == pytest.approx(cost)


COSTS = """t = {A, B}
P(t)
Q(t)
-0.84 P(x)
1.5 P(x) => Q(x)
-0.7 P(x) v !Q(y)
0.3 Q(x) <=> P(x)
0.2 EXIST x P(x)
P(A) v Q(A).
-0.4 P(A) v Q(A)
0.84 P(A)
"""


@pytest.mark.parametrize("given", [0b0001, 0b0110, 0b1111])
def test_an_atom_that_evidence_gives_changes_no_cost(tmp_path, given):
    names = [f"P({a})" for a in "AB"] + [f"Q({a})" for a in "AB"]
    model = write(tmp_path, "m.mln", COSTS)
    free = inference.load_world(model, [], ["P", "Q"])
    for state in product([0, 1], repeat=4):
        true = dict(zip(names, state, strict=True))
        if not (true["P(A)"] or true["Q(A)"]):
            continue
        lines = [f"{'' if true[n] else '!'}{n}\n" for k, n in enumerate(names) if given >> k & 1]
        world = inference.load_world(model, [write(tmp_path, "e.db", "".join(lines))], ["P", "Q"])
        ordered = [true[spell_atom(*atom)] for atom in free.atoms]
        assert [*world.atoms] == [*free.atoms]
        assert infer_module.cost(world, ordered) == pytest.approx(infer_module.cost(free, ordered))


@pytest.mark.parametrize(
    ("atom", "said"),
    [
        (f"{before}{rest}", said)
        for before in ("", "!", "?", "0.7 ")
        for rest, said in [
            ("Nope(A)", "the model does not declare Nope"),
            ("P(A, B)", "P has another number of arguments here than in the model"),
        ]
    ]
    + [("B = f(A, A)", "f has another"), ("B = P(A)", "P has another"), ("f(A)", "f has another")],
)
def test_an_atom_that_is_not_the_models_is_bad_data_at_its_place(tmp_path, atom, said):
    model = write(tmp_path, "m.mln", "P(t)\nt f(t)\n1 P(x)\n")
    database = write(
        tmp_path, "e.db", f"// facts\nP(A) {atom}\n" if atom[0] in "!N" else f"\n{atom}"
    )
    with pytest.raises(DatabaseError, match=said) as error:
        inference.load_world(model, [database], ["P"])
    assert error.value.line == 2
    assert error.value.source_line[error.value.column - 1] in "NPf"
    assert "hint" in str(error.value)


@pytest.mark.parametrize(
    ("first", "second"),
    [("P(A)", "!P(A)"), ("0.7 P(A)", "0.3 P(A)"), ("P(A)", "0.3 P(A)"), ("?P(A)", "!P(A)")],
)
def test_an_atom_with_two_values_is_bad_data_at_its_second_place(tmp_path, first, second):
    model = write(tmp_path, "m.mln", "P(t)\n1 P(x)\n")
    parts = [write(tmp_path, "a.db", first), write(tmp_path, "b.db", f"\n{first}\n{second}\n")]
    with pytest.raises(DatabaseError, match=rf"P\(A\) has another value in {parts[0]}:1") as error:
        inference.load_world(model, parts, ["P"])
    assert (error.value.file, error.value.line) == (str(parts[1]), 3)
    parts[1].write_text(f"{first}\n{first}\n")
    assert len(inference.load_world(model, parts, ["P"]).atoms) == 1


CROWD = "t = {1,...,12}\nP(t)\nR(t,t)\n1 P(x) ^ P(y)\n"


@pytest.mark.parametrize(
    ("database", "limits", "said"),
    [
        ("", (11, 2000), r"more query atoms than --max-atoms \(11\)"),
        ("?R(1,2)\n", (11, 2000), r"more atoms of P than --max-atoms \(11\)"),
        ("", (12, 72), r"more ground clauses than --max-groundings \(72\)"),
        (
            "".join(f"R({n},1)\n" for n in range(1, 13)),
            (11, 2000),
            "12 atoms of R; --max-atoms is 11",
        ),
    ],
)
def test_limits_are_named_as_they_are_set(tmp_path, database, limits, said):
    model, data = write(tmp_path, "m.mln", CROWD), write(tmp_path, "e.db", database)
    most = replace(inference.LIMITS, atoms=limits[0], groundings=limits[1])
    options = inference.WorldOptions(closed=("R",) if not database else ())
    with pytest.raises(ExampleError, match=said) as error:
        inference.load_world(model, [data], ["P"], options, most)
    assert error.value.kind == "limit"


@pytest.mark.parametrize("command", ["infer", "ground"])
def test_limits_are_options(tmp_path, command):
    model = write(tmp_path, "m.mln", CROWD)
    arguments = [command, "--model", str(model), "--query", "P", "--closed", "R"]
    for options, said in ((["--max-atoms", "11"], "11"), (["--max-groundings", "72"], "72")):
        error = CliRunner().invoke(app, [*arguments, *options]).exception
        assert isinstance(error, ExampleError)
        assert f"{options[0]} ({said})" in str(error)
    done = CliRunner().invoke(app, [*arguments, "--max-atoms", "12", "--max-groundings", "144"])
    assert len(done.stdout.splitlines()) == (12 if command == "infer" else 78)


@pytest.mark.parametrize(
    ("model", "query", "said"),
    [
        (
            "P(t)\nP(x)\n",
            "P",
            r"m.mln:2: a rule without a weight: P\(x\); write one before it, .* or learn",
        ),
        ("P(t)\n1 P(x)\n", "Q", "Q is not declared; declared are: P"),
    ],
)
def test_what_cannot_be_answered_is_said(tmp_path, model, query, said):
    with pytest.raises(OnlinesrlError, match=said):
        answer(tmp_path, model, "P(A)\n", query)


def test_a_conditional_exclusion_is_no_group(tmp_path):
    model = "t = {1,...,3}\nQ(s,t)\nP(s)\n!Q(x,y) v !Q(x,z) v y = z v y < z + 2.\n2 Q(x,y)\n"
    found, _ = answer(tmp_path, model, "P(A)\n", "Q")
    assert sum(found.values()) == 2  # 3 and 1 exclude each other, neighbours do not


# what is not what was asked for


WIDE = "t = {1,...,30}\nS(t)\n0.01 S(x) => S(y)\n"


@pytest.mark.parametrize(
    ("model", "method", "said"),
    [
        (
            WIDE,
            "exact",
            "too large for exact marginals: its wide parts have estimates by mcsat with 1000 "
            "samples: R-hat 1",
        ),
        (WIDE, "walksat", "this answer is not proven to be the best"),
        (WIDE, "mpe", ""),
        ("t = {A}\nP(t)\n1 P(x)\n", "exact", ""),
        ("t = {A}\nP(t)\n1 P(x)\n", "lp", ""),
    ],
)
def test_an_answer_that_is_not_what_was_asked_for_says_so(tmp_path, model, method, said):
    path = write(tmp_path, "m.mln", model)
    query = "S" if model == WIDE else "P"
    arguments = ["infer", "--model", str(path), "--query", query, "--method", method]
    found = CliRunner().invoke(app, [*arguments, "--open", query, "--stats"])
    assert found.exit_code == 0, found.exception
    lines = [line for line in found.stderr.splitlines() if line.startswith("warning: ")]
    assert len(lines) == bool(said), lines
    assert said in found.stderr
    assert len(json.loads(found.stdout)["warnings"]) == bool(said)


# how far sampled marginals are to be trusted


TWO_MODES = "cell = {0,...,5}\nUp(cell)\n9 Up(x) => Up(y)\n0.1 Up(0)\n"


def sampled(tmp_path, *options, model=TWO_MODES):
    """Run infer on a model; returns standard error and, with --stats, the statistics."""
    path, name = write(tmp_path, "m.mln", model), "Up" if "Up" in model else "S"
    arguments = ["infer", "--model", str(path), "--query", name, "--open", name, *options]
    found = CliRunner().invoke(app, arguments)
    return found.exit_code, found.stderr + str(found.exception or ""), found.stdout


@pytest.mark.parametrize("method", ["mcsat", "gibbs"])
def test_statistics_say_how_far_to_trust_samples(tmp_path, method):
    code, stderr, stdout = sampled(tmp_path, "--method", method, "--stats")
    stats = json.loads(stdout)

    assert (code, stderr) == (0, "")
    assert (stats["chains"], stats["samples"]) == (4, 1_000 if method == "mcsat" else 20_000)
    assert 1 <= stats["r_hat"] < 1.1
    assert 0 < stats["ess"] <= stats["samples"]
    assert 0 < stats["standard_error"] < 0.05


def test_exact_answers_have_no_such_figures(tmp_path):
    stats = json.loads(sampled(tmp_path, "--method", "exact", "--stats")[2])
    assert not {"chains", "r_hat", "ess", "standard_error"} & stats.keys()


def test_a_wanted_error_is_sampled_for(tmp_path):
    first, more = (
        json.loads(sampled(tmp_path, "--method", "mcsat", "--stats", *options)[2])
        for options in ([], ["--error", "0.005"])
    )
    assert more["samples"] > first["samples"]
    assert more["standard_error"] <= 0.005 < first["standard_error"]


def test_chains_that_disagree_are_told_with_the_atom(tmp_path, monkeypatch):
    monkeypatch.setattr(mcmc, "blocks", lambda *_: NO_BLOCKS)
    monkeypatch.setattr(mcmc, "MOST", 80_000)
    options = ["--method", "gibbs", "--seed", "1"]
    code, stderr, _ = sampled(tmp_path, *options)
    assert code == 0
    assert stderr.startswith(
        "warning: the 4 chains disagree, so that the estimates may be far off: R-hat"
    )
    assert " of Up(" in stderr
    _, stderr, stdout = sampled(tmp_path, *options, "--error", "0.001", "--stats")
    assert (
        "warning: the requested error of 0.001 was not reached in 80000 samples: standard" in stderr
    )
    assert "warning: the 4 chains disagree" in stderr
    assert len(json.loads(stdout)["warnings"]) == 2


@pytest.mark.parametrize(
    "options", [["--method", "mpe", "--error", "0.1"], ["--method", "gibbs", "--error", "0"]]
)
def test_an_error_that_cannot_be_wanted_is_refused(tmp_path, options):
    code, stderr, _ = sampled(tmp_path, *options)
    assert code != 0
    assert "--error is a number above 0 for exact, mcsat, gibbs" in stderr


def test_evidence_that_breaks_a_hard_rule_is_named_with_the_rule_and_the_atom(tmp_path, capfd):
    model = write(tmp_path, "m.mln", "t = {A, B}\nP(t)\nQ(t)\n0.5 Q(x)\nP(x) => Q(x).\n")
    database = write(tmp_path, "e.db", "P(A)\n!Q(A)\n")
    asked = ["--model", str(model), "--evidence", str(database), "--query", " Q"]
    said = f"{model}:5: evidence breaks this hard rule for Q(A): P(x) => Q(x)"
    for command in (
        ["ground"],
        *(["infer", "--method", method] for method in ("mpe", "lp", "walksat", "exact", "gibbs")),
    ):
        assert run_command(*command, *asked) == 65
        printed = capfd.readouterr()
        assert said in printed.err and not printed.out
    database.write_text("P(A)\nQ(A)\n")
    assert CliRunner().invoke(app, ["ground", *asked]).stdout == "0.5 Q(B)\n"


def test_more_rows_than_have_numbers_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(grounder, "ROWS", 1 << 13)
    rule = "1.1 Friends(x, y) ^ Smokes(x) => Smokes(y)\n"
    model = write(tmp_path, "m.mln", f"Friends(person, person)\nSmokes(person)\n{rule}")
    people = "".join(f"Friends(A{n}, B{m})\n" for n in range(100) for m in range(100))
    with pytest.raises(ExampleError, match=r"more than 8,192 rows of ground clauses") as error:
        inference.load_world(model, [write(tmp_path, "e.db", people)], ["Smokes"])
    assert error.value.kind == "limit"


def test_names_of_predicates_may_have_blanks_around_them(tmp_path):
    model = write(tmp_path, "m.mln", "t = {A}\nP(t)\nQ(t)\nR(t)\n1 P(x) ^ Q(x) ^ !R(x)\n")
    database = write(tmp_path, "e.db", "\n")
    files = ["--model", str(model), "--evidence", str(database)]
    ran = CliRunner().invoke(app, ["infer", *files, "--query", "P, Q ", "--closed", " R , "])
    assert ran.stdout == "P(A) 1\nQ(A) 1\n"


STATES = "Obs(obs, time)\nState(state!, time)\nObs(+o, t) => State(+s, t)\n"


def test_a_queried_predicate_without_an_atom_is_a_warning_everywhere(tmp_path, job):
    text = STATES.replace("Obs(+o", "1 Obs(o").replace("+s", "s")
    facts = {"Obs": [["Red", "1"]]}
    (tmp_path / "states.mln").write_text(text)
    (tmp_path / "e.db").write_text("Obs(Red, 1)\n")
    for method in ("mpe", "exact", "mcsat"):
        warnings = srl.infer(text, facts, "State", method=method).stats["warnings"]
        assert any("State is queried and has no atom" in text for text in warnings)
    said = CliRunner().invoke(
        app,
        [
            "infer",
            f"--model={tmp_path / 'states.mln'}",
            f"--evidence={tmp_path / 'e.db'}",
            "--query=State",
        ],
    )
    assert "State is queried and has no atom" in said.stderr
    world = srl.World(srl.Model(text), "State")
    world.apply(add=facts)
    assert "State is queried and has no atom" in world.answer().stats["warnings"][0]
    world.set_model(srl.Model("state = {Stop}\n" + text))
    assert not world.answer().stats["warnings"]
    run = job(
        [json.dumps({"id": 1, "evidence": facts, "truth": {"State": []}}).encode()],
        model=str(tmp_path / "states.mln"),
        query="State",
        metrics={},
    )
    assert run.run() == 0
    assert "no example with a truth has an atom of the query" in run.said


@pytest.mark.parametrize(("language", "listed"), [("mln", False), ("mln", True), ("psl", True)])
def test_each_queried_predicate_without_an_atom_is_a_warning_of_runs(
    tmp_path, job, language, listed
):
    """Not one whose atoms are all false, and predicted so."""
    texts = {
        "mln": "Obs(obs)\nGood(obs)\nState(state)\n1 Obs(o) => !Good(o)\n1 State(s)\n",
        "psl": "1: Obs(O) -> !Good(O) ^2\n1: State(S) = 0 ^2\n",
    }
    (tmp_path / f"model.{language}").write_text(texts[language])
    query = {"query": {"Good": [["Red"]]}} if listed else {}
    example = {"evidence": {"Obs": [["Red"]]}, "truth": {"Good": []}, **query}
    lines = [json.dumps({"id": n, **example}).encode() + b"\n" for n in range(3)]
    model = str(tmp_path / f"model.{language}")
    run = job(lines, model=model, query=["Good", "State"], metrics={})
    for command in (["run", run.config], ["evaluate", run.output, run.config]):
        assert run.call(*command) == 0, run.said
        (told,) = [line for line in run.said.splitlines() if "has an atom" in line]
        assert "no example with a truth has an atom of the query predicate State: name" in told


def test_learned_weights_declare_labels_that_only_the_truth_names():
    worlds = {"Obs": [["Red", 1], ["Green", 2]], "State": [["Stop", 1], ["Drive", 2]]}
    learned = srl.learn(srl.Model(STATES), worlds, "State")
    assert "state = { Stop, Drive }" in learned.model.text
    assert "time = " not in learned.model.text
    answer = srl.infer(learned.model, {"Obs": [["Green", 7]]}, "State")
    assert {args for args, value in answer["State"].items() if value} == {("Drive", 7)}
    assert not answer.stats["warnings"]
