"""infer and ground, against the ground networks and the exact answers of other systems."""

import json
from itertools import product
from math import exp, log
from pathlib import Path

import pytest

from onlinesrl import inference
from onlinesrl.errors import LocatedError, OnlinesrlError

SHARED = Path(__file__).parents[2] / "shared"
GOLDENS = SHARED / "data" / "caviar_goldens"
PEERS = SHARED / "peers" / "mln"
CASES = sorted(GOLDENS.glob("*/*/*.db"))
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
@pytest.mark.parametrize("database", CASES, ids=case_id)
def test_caviar_grounds_to_the_recorded_network_and_its_mpe_is_the_optimum(database):
    world = inference.load_world(next(database.parent.glob("*.mln")), [database], ["HoldsAt"])
    golden = network(database.with_suffix(".network").read_text().splitlines())
    found = network(inference.network_lines(world))
    assert found.keys() == golden.keys()
    for key, weight in golden.items():
        assert (found[key] is None) == (weight is None)
        assert weight is None or found[key] == pytest.approx(weight, abs=2e-3)
    lines, stats = inference.infer(world, "mpe", 0)
    sizes = dict(
        line.split("=") for line in database.with_suffix(".statistics").read_text().split()
    )
    assert stats["atoms"] == int(sizes["mrf.atoms.size"])
    assert stats["soft_clauses"] + stats["hard_clauses"] == int(sizes["mrf.constraints.size"])
    optimum = float(exact(database, "map").read_text().split()[2])
    assert stats["certified"]
    assert stats["cost"] == pytest.approx(optimum, rel=1e-3, abs=1e-3)
    assert values(lines).keys() == values(exact(database, "map").read_text().splitlines()).keys()


@needs_goldens
@pytest.mark.parametrize("database", [c for c in CASES if exact(c, "marg").exists()], ids=case_id)
def test_caviar_exact_marginals(database):
    world = inference.load_world(next(database.parent.glob("*.mln")), [database], ["HoldsAt"])
    lines, stats = inference.infer(world, "exact", 0)
    golden = values(exact(database, "marg").read_text().splitlines())
    found = values(lines)
    assert stats["route"] == "exact"
    assert found.keys() == golden.keys()
    assert max(abs(found[atom] - golden[atom]) for atom in golden) < 1e-6


@needs_peers
@pytest.mark.parametrize("people", [10, 50, 100])
def test_friends_and_smokers_is_exact(people):
    folder = PEERS / "friends_smokers"
    model, database = folder / "fs-infer.mln", folder / f"fs{people}-test.db"
    world = inference.load_world(model, [database], ["Smokes", "Cancer"])
    lines, stats = inference.infer(world, "mpe", 0)
    golden = (folder / f"fs{people}.map.exact").read_text()
    assert stats["cost"] == pytest.approx(float(golden.split()[2]), abs=1e-6)
    assert values(lines) == values(golden.splitlines())
    lines, _ = inference.infer(world, "exact", 0)
    golden_marginals = values((folder / f"fs{people}.marg.exact").read_text().splitlines())
    found = values(lines)
    assert max(abs(found[atom] - p) for atom, p in golden_marginals.items()) < 1e-6


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
    lines, stats = inference.infer(world, "mpe", 0)
    assert lines
    assert stats["certified"]
    assert stats["cost"] == pytest.approx(0.0, abs=1e-9)  # every satisfiable probe's optimum
    assert _cost_of_recorded(query.stem, world) >= stats["cost"] - 1e-9


def _cost_of_recorded(name, world) -> float:
    """The cost of what Alchemy recorded, where it recorded all atoms asked for."""
    rows = (line.split("|") for line in (PEERS / "syntax" / "alchemy.txt").read_text().splitlines())
    answer = next((row[2] for row in rows if row[0] == name), "")
    recorded = values(part for part in answer.split(";") if part)
    names = {inference.show_atom(*world.atoms[n]): n for n in world.shown}
    if recorded.keys() != names.keys():
        return float("inf")
    state = [0] * world.model.n_atoms
    for number, true in world.fixed.items():
        state[number] = int(true)
    for atom, value in recorded.items():
        state[names[atom]] = int(value)
    return inference.cost(world, state)


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def answer(folder: Path, model: str, database: str, query: str, method: str = "mpe"):
    world = inference.load_world(
        write(folder, "m.mln", model), [write(folder, "e.db", database)], query.split(",")
    )
    lines, stats = inference.infer(world, method, 0)
    return values(lines), stats


def test_a_hard_conjunction_makes_both_true(tmp_path):
    found, _ = answer(
        tmp_path, "H(t)\nS(t)\nE(t)\nH(x) ^ S(x).\n-5 H(x)\n-5 S(x)\n", "E(A)\nE(B)\n", "H,S"
    )
    assert set(found.values()) == {1.0}


MEETING = "P(t)\nF(t, t)\nE(t)\n1.5 EXIST y (P(y) ^ F(x, y))\n-0.5 P(x)\n-0.2 F(x, y)\n"


def test_an_existential_conjunction_of_open_atoms_is_scored_as_one_formula(tmp_path):
    """Marginals by the definition: over all states of P and F, the formula once for each x."""
    names, weight = [f"P({a})" for a in "AB"] + [f"F({a},{b})" for a in "AB" for b in "AB"], {}
    for state in product([0, 1], repeat=6):
        true = dict(zip(names, state, strict=True))
        friends = sum(any(true[f"P({y})"] and true[f"F({x},{y})"] for y in "AB") for x in "AB")
        weight[state] = exp(1.5 * friends - 0.5 * sum(state[:2]) - 0.2 * sum(state[2:]))
    z = sum(weight.values())
    expected = {
        name: sum(w for state, w in weight.items() if state[n]) / z for n, name in enumerate(names)
    }
    found, stats = answer(tmp_path, MEETING, "E(A)\nE(B)\n", "P,F", "exact")
    sampled, _ = answer(tmp_path, MEETING, "E(A)\nE(B)\n", "P,F", "mcsat")
    best, cost = answer(tmp_path, MEETING, "E(A)\nE(B)\n", "P,F")

    assert found == pytest.approx(expected, abs=1e-9)
    assert stats["atoms"] == 6
    assert stats["log_z"] == pytest.approx(log(z), abs=1e-9)
    assert sampled == pytest.approx(expected, abs=0.1)
    chosen = max(weight, key=weight.get)
    assert cost["cost"] == pytest.approx(0.5 + 2 * 0.2)
    assert (sum(chosen), sum(best.values())) == (3, 3)
    with pytest.raises(inference.QueryError, match="use mcsat or exact"):
        answer(tmp_path, MEETING, "E(A)\nE(B)\n", "P,F", "gibbs")


def test_the_ground_network_defines_the_conjunctions_of_an_existential(tmp_path):
    model = "P(t)\nQ(t)\nE(t)\n2 EXIST y (P(y) ^ Q(y))\n"
    world = inference.load_world(
        write(tmp_path, "m.mln", model), [write(tmp_path, "e.db", "E(A)\n")], ["P", "Q"]
    )
    assert sorted(inference.network_lines(world)) == [
        "!P(A) v !Q(A) v Some_1.",
        "2 Some_1",
        "P(A) v !Some_1.",
        "Q(A) v !Some_1.",
    ]


def test_soft_evidence_is_a_unit_clause_of_its_log_odds(tmp_path):
    model = "P(t)\nQ(t)\n1.0 P(x) => Q(x)\n"
    found, stats = answer(tmp_path, model, "0.7 P(A)\nP(B)\n", "Q", "exact")
    # P(A) has odds 7 : 3 before the rule; states of (P, Q): weights 3e, 3e, 7, 7e
    e = 2.718281828459045
    assert found["Q(A)"] == pytest.approx((3 * e + 7 * e) / (6 * e + 7 + 7 * e), abs=1e-9)
    assert found["Q(B)"] == pytest.approx(e / (1 + e), abs=1e-9)
    assert stats["route"] == "exact"


def test_an_unknown_atom_is_open_and_the_others_of_its_predicate_are_closed(tmp_path):
    model = "P(t)\nQ(t)\n2 P(x)\n3 P(x) => Q(x)\n1 !Q(x)\n"
    found, _ = answer(tmp_path, model, "?P(A)\nP(B)\n!P(C)\n", "Q")
    assert found == {"Q(A)": 1.0, "Q(B)": 1.0, "Q(C)": 0.0}


@pytest.mark.parametrize(
    ("rule", "true"),
    [
        ("5 P(x) ^ y = x + 1 => Q(y)", {2, 4}),
        ("5 P(x) => Q(x + 2)", {3, 5}),
        ("5 P(x) => Q(succ(x))", {2, 4}),
        ("5 P(x) ^ y > x => Q(y)", {2, 3, 4, 5}),
        ("5 P(x) ^ y <= x => Q(y)", {1, 2, 3}),
        ("5 P(x) ^ y < x => Q(y)", {1, 2}),
        ("5 P(x) ^ P(y) ^ x < y => Q(y - x)", {2}),
        ("5 P(x) => Q(x * 2 - 1)", {1, 5}),
    ],
)
def test_whole_numbers_are_compared_and_computed(tmp_path, rule, true):
    model = f"t = {{1,...,5}}\nP(t)\nQ(t)\n{rule}\n1 !Q(x)\n"
    found, _ = answer(tmp_path, model, "P(1)\nP(3)\n", "Q")
    assert {int(atom[2:-1]) for atom, value in found.items() if value} == true


@pytest.mark.parametrize(
    ("rule", "count"),
    [
        ("5 EXIST y (F(x,y) ^ Q(y))", 1),  # x = A needs Q(B) or Q(C); B and C have no friend
        ("5 FORALL y (F(x,y) => Q(y))", 2),
        ("5 F(x,y) => EXIST z Q(z)", 1),
        ("5 !(EXIST y (F(x,y) ^ !Q(y)))", 2),
    ],
)
def test_quantifiers_are_ground_out(tmp_path, rule, count):
    found, _ = answer(tmp_path, f"F(t,t)\nQ(t)\n{rule}\n1 !Q(x)\n", "F(A,B)\nF(A,C)\n", "Q")
    assert sum(found.values()) == count
    assert not found["Q(A)"] or "z" in rule


def test_functions_are_relations_with_a_functional_last_argument(tmp_path):
    model = "P(item)\nQ(item)\nitem next(item)\n3 P(next(x)) => Q(x)\n1 !Q(x)\n"
    database = "B = next(A)\nC = next(B)\nP(B)\n"
    found, _ = answer(tmp_path, model, database, "Q")
    assert {atom for atom, value in found.items() if value} == {"Q(A)"}


@pytest.mark.parametrize("method", ["mpe", "lp", "walksat"])
def test_map_methods_agree_on_a_small_world(tmp_path, method):
    model = "F(t,t)\nS(t)\n1.5 F(x,y) ^ S(x) => S(y)\n0.7 !S(x)\n4 S(A)\n"
    found, stats = answer(tmp_path, model, "F(A,B)\nF(B,C)\n", "S", method)
    assert set(found.values()) == {1.0}
    assert stats["cost"] == pytest.approx(2.1)


@pytest.mark.parametrize("method", ["mcsat", "gibbs"])
def test_marginal_methods_come_near_the_exact_ones(tmp_path, method):
    model = "F(t,t)\nS(t)\n1.5 F(x,y) ^ S(x) => S(y)\n0.7 !S(x)\n1 S(A)\n"
    args = (tmp_path, model, "F(A,B)\nF(B,C)\n", "S")
    near, true = answer(*args, method)[0], answer(*args, "exact")[0]
    assert all(abs(near[atom] - true[atom]) < 0.05 for atom in true)


def test_several_databases_are_one_world(tmp_path):
    model = write(tmp_path, "m.mln", "P(t)\nQ(t)\n1 P(x) => Q(x)\n")
    parts = [write(tmp_path, "a.db", "P(A)\n"), write(tmp_path, "b.db", "P(B)\n")]
    world = inference.load_world(model, parts, ["Q"])
    assert list(inference.network_lines(world)) == ["1 Q(A)", "1 Q(B)"]


@pytest.mark.parametrize(
    ("model", "query", "said"),
    [
        ("P(t)\nP(x)\n", "P", "without a weight"),
        ("P(t)\n1 P(x)\n", "Q", "Q is not declared; declared are: P"),
    ],
)
def test_what_cannot_be_answered_is_said(tmp_path, model, query, said):
    with pytest.raises(OnlinesrlError, match=said):
        answer(tmp_path, model, "P(A)\n", query)


def test_statistics_are_json(tmp_path):
    _, stats = answer(tmp_path, "P(t)\n1 P(x)\nQ(t)\n", "Q(A)\n", "P")
    assert json.loads(json.dumps(stats))["soft_clauses"] == 1


def test_a_conditional_exclusion_is_no_group(tmp_path):
    model = "t = {1,...,3}\nQ(s,t)\nP(s)\n!Q(x,y) v !Q(x,z) v y = z v y < z + 2.\n2 Q(x,y)\n"
    found, _ = answer(tmp_path, model, "P(A)\n", "Q")
    assert sum(found.values()) == 2  # 3 and 1 exclude each other, neighbours do not
