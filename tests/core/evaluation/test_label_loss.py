"""The label loss by predicate and constants: which cost an atom has, and what is said where none has it."""

from pathlib import Path

import numpy as np
import pytest
from conftest import REPO, command

import onlinesrl as srl
from onlinesrl.core.errors import OnlinesrlWarning
from onlinesrl.core.evaluation.label_loss import Costs

STREAM = REPO / "streams" / "citations"
MODEL = srl.Model.read(STREAM / "segmentation.mln")


def test_the_last_that_fits_holds() -> None:
    given = {"InField": 2, "InField(_, title)": {"missed": 3}, 'InField(7, "title")': 0.5}
    found = Costs(given, {"InField": 2}).of("InField", [[6, "author"], [6, "title"], [7, "title"]])
    np.testing.assert_array_equal(found, [[2, 2], [1, 3], [0.5, 0.5]])
    assert Costs({}, {"InField": 2}).of("InField", [[1, "a"]]).tolist() == [[1, 1]]


def test_a_constant_that_the_model_does_not_declare_is_warned_of() -> None:
    with pytest.warns(OnlinesrlWarning, match=r"learner\.costs for InField: .* no field titel"):
        srl.OnlineLearner(MODEL, "InField", update={"costs": {"InField(_, titel)": 2}})


@pytest.mark.parametrize(
    ("atom", "said"),
    [
        ("Token", "Token: expected a predicate of the query (InField)"),
        ("InField(_)", "InField(_): InField has 2 arguments"),
        ("InField(_, title", "not an atom: InField(_, title; expected one such as Knows(Anna, 3)"),
    ],
)
def test_what_does_not_fit_the_model_is_refused(
    atom: str, said: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(srl.ConfigError, match=r"learner\.costs") as error:
        srl.OnlineLearner(MODEL, query="InField", update={"update": "cda2", "costs": {atom: 2}})
    assert said in str(error.value)
    config = tmp_path / "run.yaml"
    config.write_text(
        f"model: {STREAM}/segmentation.mln\nquery: InField\nsource: {{path: {STREAM}/citations.jsonl}}\n"
        f"learner:\n  costs:\n    {atom!r}: 2\n"
    )
    assert command("run", str(config)) == 78
    assert f"learner.costs: {said}" in capfd.readouterr().err


def test_what_is_dearer_is_avoided() -> None:
    """The titles' tokens: dear to miss, or dear to be wrong about."""

    def found(costs: dict[str, object] | None) -> srl.OnlineLearner:
        chosen = {"update": "cda2", "sigma": 0.01, "costs": costs}
        learner = srl.OnlineLearner(MODEL, query="InField", update=chosen, by="InField.2")
        learner.learn_many(list(srl.read(STREAM / "citations.jsonl"))[:80])
        return learner

    plain, missed, extra = (
        found(each).metrics["by"]["title"]
        for each in (
            None,
            {"InField(_, title)": {"missed": 9}},
            {"InField(_, title)": {"extra": 9}},
        )
    )
    assert missed["recall"] > plain["recall"] > extra["recall"]
    assert missed["precision"] < plain["precision"] < extra["precision"]
