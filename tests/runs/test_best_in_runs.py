"""Runs that list the next best states: nothing else changes, and the report has them beside the truth."""

import pytest

import onlinesrl as srl
from onlinesrl.core.errors import UsageError
from tests.support.dated_mails import encoded, keys, late, mails

BEST = {"inference": {"engine": "mpe", "best": 3}}
ENTITIES = {"block": ["name"], "compare": {"name": "exact"}}


@pytest.mark.parametrize("apart", [False, True])
def test_predictions_list_them_and_nothing_else_changes(job, tmp_path, apart):
    lines = late(mails(40)) if apart else mails(40)
    more = {"labels": {}} if apart else {}
    more["metrics"] = {"every": 20}
    runs = {}
    for name, section in (("plain", {"inference": {"engine": "mpe"}}), ("best", BEST)):
        runs[name] = job(encoded(lines), name, **keys(tmp_path, **section, **more))
        assert runs[name].run() == 0, runs[name].said
    for plain, listed in zip(runs["plain"].predictions(), runs["best"].predictions(), strict=True):
        best = listed.pop("best")
        assert len(best) == 2
        assert listed.pop("margin") == pytest.approx(best[0]["difference"])
        assert [row["difference"] for row in best] == sorted(row["difference"] for row in best)
        for row in best:
            assert row["score"] == pytest.approx(listed["score"] - row["difference"])
            assert row["certified"]
        changes = [(row.get("true"), row.get("false")) for row in best]
        assert changes[0] != changes[1]
        assert (None, None) not in changes
        assert listed == plain
    weights = [(run.output / "weights.mln").read_bytes() for run in runs.values()]
    assert weights[0] == weights[1]
    assert "2 next best states" in (runs["best"].output / "report.html").read_text()
    assert "less (the truth): " in (runs["best"].output / "report.html").read_text()


def test_the_library_lists_them_and_refuses_what_has_none():
    data = srl.datasets.citations()
    learner = srl.OnlineLearner(data.model, data.query, inference={"best": 4})
    for example in [*data.examples][:20]:
        learned = learner.learn_one(example)
        asked = learner.predict_one(example, best=2)
        assert len(learned.best) == 4
        assert [one.atoms for one in learned.best].count(learned.atoms) == 1
        assert len(asked.best) == len(asked.line.best) + 1 == 2
    sampler = srl.OnlineLearner(data.model, data.query, inference="mcsat")
    for one, marginals in ((learner, True), (sampler, False)):
        with pytest.raises(UsageError, match="best: probabilities search for no state"):
            one.predict_one(example, best=2, marginals=marginals)
    with pytest.raises(UsageError, match="best is 0, expected a whole number, at least 1"):
        learner.predict_one(example, best=0)
    with pytest.raises(UsageError, match="best is 0, expected a whole number, at least 1"):
        srl.infer("P(x)\n1 P(x)", {}, "P", best=0)
    psl = srl.OnlineLearner(srl.Model("1: A(X) -> B(X)", language="psl"), "B")
    with pytest.raises(UsageError, match="continuous"):
        psl.predict_one({"A": [["a"]]}, query={"B": [["a"]]}, best=2)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"inference": {"engine": "mpe", "best": 0}}, "inference.best: expected at least 1"),
        ({"inference": {"engine": "mcsat", "best": 2}}, "inference.best: not for engine mcsat"),
        (
            {"world": True, "query": "Same", "entities": ENTITIES},
            "inference.best: not for entities",
        ),
    ],
)
def test_what_has_no_next_best_states_is_refused(job, tmp_path, change, said):
    run = job(encoded(mails(1)), **keys(tmp_path, **BEST) | change)
    assert run.run() != 0
    assert said in run.said
