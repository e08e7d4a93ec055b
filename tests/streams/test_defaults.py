"""The comparison behind the default of the learners, on small data in the form of the real sets."""

from pathlib import Path

import pytest

import onlinesrl as srl
from tests.support.paths import SHARED
from tests.support.stream_scripts import PAPERS, generator

compare = generator("papers/defaults", "compare_updates")
data = compare.tasks.__globals__
DATA = SHARED / "data"


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """Ten names in parts, twice."""
    folder = tmp_path / "probablepeople-0.5.6" / "name_data" / "labeled"
    folder.mkdir(parents=True)
    of = "<Name><GivenName>Ann{0}</GivenName> <Surname>Lee</Surname></Name>"
    text = "".join(of.format(n % 5) for n in range(20))
    (folder / "person_labeled.xml").write_text(f"<NameCollection>{text}</NameCollection>")
    return tmp_path


def test_what_is_absent_is_left_out_and_the_rest_compared(
    packages: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (task,) = compare.tasks(packages / "none", packages)
    assert task.name == "names, parts"
    assert [(len(f.training), len(f.test)) for f in task.folds] == [(16, 4), (16, 4)]
    (words, labels), *_ = task.folds[0].training
    assert labels == ["GivenName", "Surname"]
    assert words[0]["word"] == "ann1"
    assert words[0]["shape"] == "Xx9"
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 7
    assert all("left out, no " in line for line in said)
    found = {task.name: dict.fromkeys(compare.WAYS, 0.5)}
    best = compare.Way("adagrad", "pl", 0.1)
    found[task.name][best] = compare.score(task, task.folds[0], best)
    assert found[task.name][best] == 1.0
    lines = compare.table(found, 0.1).splitlines()
    assert lines[0] == "| sigma 0.1 | names, parts | mean rank |"
    assert lines[2:4] == ["| adagrad, pl | 100.00 | 1.0 |", "| adagrad, ml | 50.00 | 6.0 |"]
    assert len(lines) == 2 + 10


def test_students_and_groups_of_people_are_examples() -> None:
    """A student is an example with all professors; those who share a project or course are one."""
    atoms = {
        "Professor": [["P"], ["Q"]],
        "Student": [["S"], ["T"]],
        "Publication": [["A", "S"], ["A", "P"], ["B", "T"]],
        "Advisedby": [["S", "P"]],
    }
    first, second = data["students"](atoms)
    assert first.evidence["Publication"] == [["A", "S"], ["A", "P"]]
    assert (first.truth, second.truth) == ({"Advisedby": [["S", "P"]]}, {"Advisedby": []})
    assert second.query == {"Advisedby": [["T", "P"], ["T", "Q"]]}
    pages = {
        "Courseprof": [["c", "P"]],
        "Courseta": [["c", "S"], ["d", "T"]],
        "Project": [["j", "T"], ["j", "U"]],
        "Student": [["S"], ["T"], ["V"]],
        "Faculty": [["P"], ["U"]],
    }
    groups = [{person for (person,) in x.query["Faculty"]} for x in data["components"](pages)]
    assert groups == [{"P", "S"}, {"T", "U"}, {"V"}]
    srl.OnlineLearner((PAPERS / "defaults" / "uwcse.mln").read_text(), "Advisedby").learn_one(first)
    learner = srl.OnlineLearner((PAPERS / "defaults" / "webkb.mln").read_text(), "Faculty")
    learner.learn_many([*data["components"](pages)])


@pytest.mark.long
@pytest.mark.skipif(not DATA.exists(), reason=f"no data in {DATA}")
def test_the_default_is_ahead_on_citations() -> None:
    """The first row of the table in the guide, to the digit."""
    task = data["citeseer"](DATA / "citeseer")
    scores = [compare.score(task, fold, compare.Way("adagrad", "pl", 0.01)) for fold in task.folds]
    assert sum(scores) / 3 == pytest.approx(0.9518, abs=5e-5)
