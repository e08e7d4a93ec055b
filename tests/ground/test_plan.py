"""Join plans as text: each program in tests/programs says in its header what its plan is.

``//?`` lines name the query predicates, ``//=`` lines are the plan.
"""

from pathlib import Path

import pytest

from onlinesrl.errors import OnlinesrlError
from onlinesrl.ground.plan import Plan, compile_program
from onlinesrl.lang.mln import parse

PROGRAMS = sorted((Path(__file__).parents[1] / "programs").glob("*.mln"))


def shown(plan: Plan) -> list[str]:
    """The groups, the plans of the clauses, and how they are in worlds that list their open atoms."""
    groups = [
        f"{name}: {'exactly' if group.exactly else 'at most'} one along argument {group.argument + 1}"
        for name, group in plan.groups.items()
    ]
    listed = [
        line
        for clause in plan.clauses
        if clause.listed != clause.full
        for line in (f"listed: {clause.clause.text}", *(f"  {step}" for step in clause.listed))
    ]
    return [*groups, *str(plan).splitlines(), *listed]


def header(text: str, mark: str) -> list[str]:
    return [line.removeprefix(mark).strip("\n")[1:] for line in text.splitlines() if line.startswith(mark)]


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_plans_are_as_written(path):
    text = path.read_text()
    plan = compile_program(parse(text), header(text, "//?")[0].split())

    assert shown(plan) == header(text, "//=")
