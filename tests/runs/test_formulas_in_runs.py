"""Runs with formulas: their probabilities are in predictions, and change nothing else."""

from typing import Any

import pytest

from tests.support.dated_mails import encoded, keys, late, mails

BOTH, EITHER = 'Spam("m") ^ Spam("o")', "EXIST x Spam(x)"


@pytest.mark.parametrize("apart", [False, True])
def test_formulas_have_the_probabilities_of_their_moment(job, tmp_path, apart):
    """By the marginals of the same line, and with a condition by the quotient."""
    lines = late(mails(60)) if apart else mails(60)
    more: dict[str, Any] = {"labels": {}} if apart else {}
    asked = {"plain": {}, "formulas": {"formulas": [BOTH, EITHER, 'Spam("n")']}}
    asked["given"] = {"formulas": "Spam(x)", "given": 'Spam("o")'}
    written, weights = {}, {}
    for name, section in asked.items():
        for batch in (1, 64):
            inference = {"engine": "mcsat", **section}
            run = job(
                encoded(lines),
                f"{name}{batch}",
                batch=batch,
                **keys(tmp_path, metrics={}) | more | {"inference": inference},
            )
            assert run.run() == 0, run.said
            weights[name, batch] = run.results()["weights.mln"]
            rows = run.predictions()
            written[name, batch] = [row.pop("formulas", None) for row in rows], rows
    assert len({*weights.values()}) == 1
    assert all(rows == written["plain", 1][1] for _, rows in written.values())
    for name in asked:
        assert written[name, 1] == written[name, 64]
    assert {*map(str, written["plain", 1][0])} == {"None"}
    for both, given, row in zip(
        written["formulas", 1][0], written["given", 1][0], written["plain", 1][1], strict=True
    ):
        p = {atom["args"][0]: atom["value"] for atom in row["marginals"]["Spam"]}
        assert [*both] == [BOTH, EITHER]  # no mail is called n
        assert both[BOTH]["value"] + both[EITHER]["value"] == pytest.approx(
            p["m"] + p["o"], abs=3e-6
        )
        assert given['Spam("o")']["value"] == 1
        assert given['Spam("m")']["value"] == pytest.approx(both[BOTH]["value"] / p["o"], abs=1e-4)


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ({"engine": "mpe", "formulas": BOTH}, "inference.formulas: not for engine mpe"),
        ({"engine": "mcsat", "given": BOTH}, "given: expected formulas too"),
        ({"engine": "mcsat", "formulas": "Ham(m)"}, "the predicate Ham is not declared"),
        ({"engine": "mcsat", "formulas": "Spam(m) ^"}, "inference.formulas: formula Spam(m) ^"),
    ],
)
def test_what_cannot_be_asked_about_is_refused(job, tmp_path, section, said):
    run = job(encoded(mails(1)), **keys(tmp_path, metrics={}) | {"inference": section})
    assert run.run() == 78
    assert said in run.said
