"""`infer` of PSL models: what is asked, what is written, and what is said of it."""

import json

import pytest
from typer.testing import CliRunner

from onlinesrl.commands.cli import app
from onlinesrl.core.errors import ModelError, OnlinesrlError, UsageError
from tests.support.paths import REPO

PAGE = REPO / "onlinesrl" / "guide" / "psl.md"
RULES = "2: Knows(A, B) & Likes(A, X) & A != B -> Likes(B, X) ^2\n1: !Likes(A, X) ^2\n"
DATA = """predicates: {Knows/2: closed, Likes/2: open}
observations: {Knows: knows.txt, Likes: likes.txt}
targets: {Likes: targets.txt}
truth: {Likes: truth.txt}
"""
FILES = {
    "m.data": DATA,
    "knows.txt": "ann\tbob\nbob\tcid\nann\tann\n",
    "likes.txt": "ann\ttea\t1\nann\tmilk\t0.5\n",
    "targets.txt": "bob\ttea\nbob\tmilk\ncid\ttea\ncid\tmilk\n",
    "truth.txt": "bob\ttea\t1\nbob\tmilk\t0\ncid\ttea\t0.5\n",
}


@pytest.fixture
def model(tmp_path):
    return written(tmp_path, RULES)


def written(folder, rules):
    for name, text in {**FILES, "m.psl": rules}.items():
        (folder / name).write_text(text)
    return folder / "m.psl"


def infer(model, *options):
    """Run the command; errors come as they are."""
    arguments = ["infer", "--model", str(model), "--data", str(model.with_suffix(".data"))]
    found = CliRunner().invoke(app, [*arguments, *options])
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        raise found.exception
    return found.stdout


# b and c are Bob's and Cid's values of what Ann likes to the degree a: 2 (a - b)^2 + 2 (b - c)^2 + b^2 + c^2.
# The slopes are 0 where 5 b = 2 a + 2 c and 3 c = 2 b: b = 6 a / 11, c = 4 a / 11.
ANSWER = {"bob\ttea": 6 / 11, "bob\tmilk": 3 / 11, "cid\ttea": 4 / 11, "cid\tmilk": 2 / 11}
ENERGY = 5 / 4 * (2 * 25 + 2 * 4 + 36 + 16) / 121
METHODS = ["admm", "lifted-admm", "tandem", "tron"]


def answers(text):
    rows = (line.rsplit("\t", 1) for line in text.splitlines())
    return {name: float(value) for name, value in rows}


@pytest.mark.parametrize("method", METHODS)
def test_the_values_of_targets(model, method):
    found = answers(infer(model, "--method", method))
    assert found == pytest.approx({f"Likes\t{each}": v for each, v in ANSWER.items()}, abs=5e-3)


def test_files_and_statistics(model, tmp_path):
    folder = tmp_path / "new" / "out"
    assert infer(model, "--output", str(folder)) == ""
    assert sorted(each.name for each in folder.iterdir()) == ["Likes.txt", "stats.json"]
    assert answers((folder / "Likes.txt").read_text()) == pytest.approx(ANSWER, abs=1e-3)
    stats = json.loads((folder / "stats.json").read_text())
    assert stats["objective"] == pytest.approx(ENERGY, rel=1e-5)
    assert stats["normalised_objective"] == pytest.approx(ENERGY / 2, rel=1e-5)
    assert stats["lower_bound"] <= ENERGY + 1e-9
    assert stats["dual_residual"] < 0.01
    counts = {
        name: stats[name] for name in ("targets", "potentials", "constraints", "never_active")
    }
    assert counts == {"targets": 4, "potentials": 8, "constraints": 0, "never_active": 0}
    assert list(stats["seconds"]) == ["load", "compile", "ground", "solve"]
    assert list(stats["cpu_seconds"]) == ["load", "compile", "ground", "solve"]
    assert stats["peak_bytes"] > 10_000_000
    error = (5 / 11 + 3 / 11 + 1.5 / 11) / 3
    figures = {"atoms": 3, "mean_absolute_error": pytest.approx(error, abs=1e-3)}
    assert stats["evaluation"] == {"Likes": {**figures, "f1": 1.0}}


def test_statistics_on_standard_output(model):
    assert json.loads(infer(model, "--stats"))["method"] == "admm"


@pytest.mark.parametrize("method", ["admm", "tandem"])
def test_a_cardinality_is_that_of_the_ground_rule(tmp_path, method):
    """PSL 2.4 counts tea, milk and mud for both: 2/3 and 1/3."""
    model = written(tmp_path, "1: |Y| * Fond(X) = Likes(X, +Y) ^2\n0.0001: Fond(X) = 0 ^2\n")
    declared = "predicates: {Likes/2: closed, Fond/1: open}\ntargets: {Fond: fond.txt}\n"
    (tmp_path / "m.data").write_text(declared + "observations: {Likes: likes.txt}\n")
    (tmp_path / "fond.txt").write_text("ann\nbob\n")
    (tmp_path / "likes.txt").write_text("ann\ttea\nann\tmilk\nbob\tmud\n")
    found = answers(infer(model, "--method", method))
    assert found == pytest.approx({"Fond\tann": 1.0, "Fond\tbob": 1.0}, abs=0.01)

    (tmp_path / "likes.txt").write_text("ann\ttea\t1\nann\tmilk\t1\nann\tmud\t0\nbob\tmud\t1\n")
    found = answers(infer(model, "--method", method))
    assert found == pytest.approx({"Fond\tann": 2 / 3, "Fond\tbob": 1.0}, abs=0.01)
    assert "`|Y|` counts the constants that `+Y` takes in the ground rule" in PAGE.read_text()


def test_the_limit_of_ground_rules_is_an_option(model):
    with pytest.raises(
        ModelError, match=r"more than 5 joined rows(.|\n)*--max-groundings sets how many"
    ):
        infer(model, "--max-groundings", "5")
    assert infer(model, "--max-groundings", "8")
    assert infer(model, "--max-groundings", "5", "--method", "tandem")


def test_constraints(tmp_path):
    model = written(tmp_path, RULES + "Likes('bob', +X) <= 0.5 .\n")
    infer(model, "--output", str(tmp_path / "out"))
    stats = json.loads((tmp_path / "out" / "stats.json").read_text())
    found = answers((tmp_path / "out" / "Likes.txt").read_text())
    assert (stats["constraints"], stats["certified"]) == (1, True)
    assert stats["violation"] <= 1e-4
    assert found["bob\ttea"] + found["bob\tmilk"] == pytest.approx(0.5, abs=2e-4)


def test_observations_that_break_a_hard_rule(tmp_path):
    with pytest.raises(ModelError, match="what is observed breaks this hard rule"):
        infer(written(tmp_path, RULES + "Likes(A, +X) <= 1 .\n"))  # Ann's tea and milk


def test_a_json_model_says_where_its_data_are(model):
    config = {
        "rules": RULES.splitlines(),
        "predicates": {
            "Knows/2": {"observations": ["knows.txt"]},
            "Likes/2": {"observations": "likes.txt", "targets": "targets.txt"},
        },
    }
    path = model.with_name("m.json")
    path.write_text(json.dumps(config))
    found = CliRunner().invoke(app, ["infer", "--model", str(path)])
    assert answers(found.stdout) == pytest.approx(
        {f"Likes\t{each}": v for each, v in ANSWER.items()}, abs=1e-3
    )
    with pytest.raises(UsageError, match="says itself where its data are"):
        infer(path)


@pytest.mark.parametrize(
    ("rules", "options", "message"),
    [
        (RULES, ["--method", "mpe"], "unknown method mpe; for PSL there are admm"),
        (RULES, ["--query", "Likes"], "not --query, --evidence"),
        (RULES.replace(" ^2", ""), ["--method", "tron"], "use ADMM"),
        (RULES + "Likes('bob', 'tea') <= 0.5 .", ["--method", "tron"], "use ADMM"),
    ],
)
def test_what_does_not_go_together(tmp_path, rules, options, message):
    with pytest.raises(UsageError, match=message):
        infer(written(tmp_path, rules), *options)


def test_no_values_satisfy_the_constraints(tmp_path):
    rules = RULES + "Likes('bob', 'tea') >= 0.8 .\nLikes('bob', 'tea') <= 0.5 .\n"
    with pytest.raises(OnlinesrlError, match="no values satisfy the constraints") as caught:
        infer(written(tmp_path, rules))
    assert caught.value.exit_code == 65


def test_a_missing_target_has_its_rule(tmp_path):
    model = written(tmp_path, RULES)
    (tmp_path / "targets.txt").write_text("bob\ttea\n")
    with pytest.raises(ModelError) as caught:
        infer(model)
    assert str(caught.value).startswith(
        f"{model}:1:1: the rule needs Likes('bob', 'milk'), which is"
    )


def test_what_is_not_proven_is_said_to_be_so(tmp_path):
    rules = [
        "1: 100000 * Likes(A, 'tea') <= 1 ^2",
        "Likes(A, 'tea') <= 0.3 .",
        "Likes(A, B) >= 0.5 .",
    ]
    model = written(tmp_path, "\n".join(rules))
    (tmp_path / "likes.txt").write_text("")
    arguments = ["infer", "--model", str(model), "--data", str(model.with_suffix(".data"))]
    found = CliRunner().invoke(app, [*arguments, "--method", "tandem"])
    if found.exception is None:  # the bound had not yet shown that there are no such values
        assert "warning: this answer is not proven to be the best; the method admm" in found.stderr
        assert "but the values break hard rules" in found.stderr
    else:
        assert "no values satisfy the constraints" in str(found.exception)


def test_ground_takes_no_psl(model):
    with pytest.raises(UsageError, match="is a PSL model"):
        raised(["ground", "--model", str(model), "--query", "Likes"])


def raised(arguments):
    found = CliRunner().invoke(app, arguments)
    assert found.exception is not None
    raise found.exception


@pytest.mark.parametrize("method", ["admm", "tandem"])
def test_ground_rules_that_reach_no_target_are_an_error_or_left_out(model, method, tmp_path):
    (tmp_path / "targets.txt").write_text("bob\ttea\ncid\ttea\ncid\tmilk\n")
    with pytest.raises(ModelError, match=r"'milk'\), which is neither(.|\n)*--targets skip"):
        infer(model, "--method", method)
    stats = json.loads(infer(model, "--method", method, "--targets", "skip", "--stats"))
    assert (stats["targets"], stats["potentials"], stats["skipped"]) == (3, 5, 1)
    found = answers(infer(model, "--method", method, "--targets", "skip"))
    left = {"Likes\tbob\ttea": 6 / 11, "Likes\tcid\ttea": 4 / 11, "Likes\tcid\tmilk": 0.0}
    assert found == pytest.approx(left, abs=5e-3)


def test_targets_are_of_psl(tmp_path):
    (tmp_path / "m.mln").write_text("P(t)\n")
    arguments = ["infer", "--model", str(tmp_path / "m.mln"), "--query", "P", "--targets", "skip"]
    with pytest.raises(UsageError, match="Markov logic"):
        raise CliRunner().invoke(app, arguments).exception
