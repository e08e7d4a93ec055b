"""onlinesrl count: count the satisfied groundings of formulas."""

from __future__ import annotations

from typing import Annotated

import typer

from onlinesrl.commands.common import DialectOption, Evidence, Model, OutputOption, write_lines
from onlinesrl.commands.ground import is_psl
from onlinesrl.core.errors import UsageError

Method = Annotated[str, typer.Option(help="exact, or ijgp for estimates.")]
IBound = Annotated[
    int | None,
    typer.Option(
        min=1,
        show_default="2",
        help="ijgp: the most variables of a cluster. Time and memory grow with the number of "
        "constants to this power; from the formula's treewidth plus one on, counts are exact.",
    ),
]


def count(
    model: Model,
    evidence: Evidence = [],  # noqa: B006
    method: Method = "exact",
    i_bound: IBound = None,
    dialect: DialectOption = "alchemy",
    output: OutputOption = None,
) -> None:
    """Count the satisfied groundings of each formula in a world, and all its groundings."""
    from onlinesrl.logic.dialect import dialect_of
    from onlinesrl.mln.counting.program_counts import check_method, count_program
    from onlinesrl.mln.lang import reader
    from onlinesrl.mln.query.world import read_evidence

    if is_psl(model):
        raise UsageError(f"{model} is a PSL model, whose rules have potentials; see infer --stats")
    check_method(method, i_bound)
    program = reader.load(model, dialect_of(dialect))
    program, atoms = read_evidence(program, evidence, dialect_of(dialect))
    counts = count_program(program, atoms, method, i_bound)
    write_lines(output, [*map(str, counts)])
