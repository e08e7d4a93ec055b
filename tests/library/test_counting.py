"""srl.count and `onlinesrl count`: evidence of all shapes, what is refused and where."""

from pathlib import Path

import pandas as pd
import polars as pl
import pytest
from conftest import command

import onlinesrl as srl
from tests.support.golden import check, refusal

MODEL = """person = {Anna, Bob, Carl}
Friends(person, person)
Smokes(person)
1.5 Smokes(x)
2 Friends(x, y) => (Smokes(x) <=> Smokes(y))
1 Smokes(+x) => EXIST y (Friends(x, y) ^ x != y)
Smokes(x) v Friends(x, x).
"""
DATABASE = "Friends(Anna, Bob)\nFriends(Bob, Carl)\nSmokes(Anna)\nSmokes(Carl)\n!Smokes(Bob)\n"
FACTS = {"Friends": [("Anna", "Bob"), ("Bob", "Carl")], "Smokes": ["Anna", "Carl"]}
LINES = [
    "2\t3\tSmokes(x)",
    "8\t9\t!Friends(x, y) v !Smokes(x) v Smokes(y)",
    "8\t9\t!Friends(x, y) v !Smokes(y) v Smokes(x)",
    "1\t1\t!Smokes(Anna) v (EXIST y (Friends(Anna, y) ^ Anna != y))",
    "1\t1\t!Smokes(Bob) v (EXIST y (Friends(Bob, y) ^ Bob != y))",
    "0\t1\t!Smokes(Carl) v (EXIST y (Friends(Carl, y) ^ Carl != y))",
    "2\t3\tSmokes(x) v Friends(x, x)",
]


def shapes(folder: Path) -> list[object]:
    """The same evidence in every shape."""
    (folder / "e.db").write_text(DATABASE)
    friends = pd.DataFrame(FACTS["Friends"], columns=["a", "b"])
    friends.to_parquet(folder / "Friends.parquet")
    smokes = pl.DataFrame({"person": FACTS["Smokes"]})
    smokes.write_parquet(folder / "Smokes.parquet")
    return [
        FACTS,
        {"Friends": friends, "Smokes": smokes},
        {
            "Friends": {("Anna", "Bob"): 1, ("Bob", "Carl"): 1},
            "Smokes": {"Anna": 1, "Carl": 1, "Bob": 0},
        },
        folder / "e.db",
        [folder / "Friends.parquet", str(folder / "Smokes.parquet")],
    ]


def test_evidence_of_all_shapes_counts_as_the_command_prints(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "m.mln").write_text(MODEL)
    for evidence in shapes(tmp_path):
        assert str(srl.count(MODEL, evidence)).splitlines() == LINES  # type: ignore[arg-type]
    files = ["--model", str(tmp_path / "m.mln"), "--evidence", str(tmp_path / "e.db")]
    for more in ([], ["--method", "ijgp", "--i-bound", "3"]):
        capfd.readouterr()
        assert command("count", *files, *more) == 0
        assert capfd.readouterr().out.splitlines() == LINES
    assert command("count", *files, "--output", str(tmp_path / "out")) == 0
    assert (tmp_path / "out").read_text().splitlines() == LINES


def test_counts_as_objects_and_as_a_table() -> None:
    counts = srl.count(MODEL, FACTS)
    assert [(c.rule, c.satisfied, c.violated) for c in counts][:2] == [(1, 2, 1), (2, 8, 1)]
    assert all(count.exact and isinstance(count.satisfied, int) for count in counts)
    assert not srl.count(MODEL, FACTS, method="ijgp")[0].exact
    assert counts.table()["satisfied"] == [2, 8, 8, 1, 1, 0, 2]
    assert pl.DataFrame(counts.table())["groundings"].to_list() == [3, 9, 9, 1, 1, 1, 3]
    assert repr(counts) == f"<Counts of {len(counts)} formulas>"
    assert "!Friends(x, y)" in counts._repr_html_()


def test_weights_times_counts_are_the_score_of_a_world() -> None:
    found = srl.infer(MODEL, {"Friends": FACTS["Friends"]}, "Smokes")
    world = {"Friends": FACTS["Friends"], "Smokes": [a for a, v in found["Smokes"].items() if v]}
    counts = srl.count(MODEL, world)
    weights = {1: 1.5, 2: 1.0, 3: 1.0}  # half of 2 for each clause of the second rule
    unsatisfied = sum(weights[c.rule] * c.violated for c in counts if c.rule in weights)
    assert counts[-1].violated == 0
    assert found.stats["cost"] == pytest.approx(unsatisfied)


def test_a_table_of_numbers_beyond_64_bits() -> None:
    many = {"R": [(f"A{n}", 0, 0, 0, 0, 0, 0, 0) for n in range(300)]}
    many["R"] += [(0, *(f"B{n}",) * 7) for n in range(300)]
    names = [f"t{n}" for n in range(8)]
    found = srl.count(f"R({', '.join(names)})\nR(a, b, c, d, e, f, g, h)", many)
    assert found[0].satisfied == 600
    assert found[0].groundings == 301**8 > 2**63
    assert found.table()["groundings"] == [float(301**8)]
    assert pl.DataFrame(found.table()).shape == (1, 4)


def test_what_cannot_be_counted_is_refused_with_its_place() -> None:
    def read(rule: str) -> str:
        other = "Q(person, person)" if "Q(" in rule else "Score(person): real"
        declared = f"person = {{A, B}}\nP(person)\nperson Mother(person)\nN(whole)\n{other}\n"
        return refusal(lambda: srl.count(srl.Model(declared + rule, file="m.mln")))

    check(Path(__file__).parent / "golden" / "uncounted.txt", read)


def test_a_world_that_is_not_known_is_refused(tmp_path: Path) -> None:
    (tmp_path / "e.db").write_text("Smokes(Anna)\n?Smokes(Bob)\n")
    with pytest.raises(srl.DataError, match=r"line 2: Smokes\(Bob\) is unknown"):
        srl.count(MODEL, tmp_path / "e.db")
    with pytest.raises(srl.DataError, match=r"Smokes\(Bob\) has the value 0.3"):
        srl.count(MODEL, {"Smokes": {"Bob": 0.3}})


def test_numbers_do_not_hinder_what_does_not_use_them() -> None:
    model = "Score(person): real\nP(person)\nP(x)"
    found = srl.count(model, {"Score": {"A": 0.5, "B": 2}, "P": ["A"]})
    assert str(found) == "1\t2\tP(x)"


def test_options_that_do_not_go_together(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for options, message in (
        ({"method": "guess"}, "unknown method 'guess'; expected exact or ijgp"),
        ({"i_bound": 2}, "--i-bound goes with --method ijgp"),
        ({"method": "ijgp", "i_bound": 0}, "expected at least 1"),
    ):
        with pytest.raises(srl.UsageError, match=message):
            srl.count(MODEL, FACTS, **options)  # type: ignore[arg-type]
    with pytest.raises(srl.UsageError, match="potentials"):
        srl.count(srl.Model("1: A(X) -> B(X)", "psl"))
    (tmp_path / "m.psl").write_text("1: A(X) -> B(X)")
    assert command("count", "--model", str(tmp_path / "m.psl")) == 64
    assert "potentials" in capfd.readouterr().err
