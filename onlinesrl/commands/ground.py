"""onlinesrl ground: write the ground network of a world."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from onlinesrl.commands.common import (
    Closed,
    DialectOption,
    Evidence,
    MaxAtoms,
    MaxGroundings,
    Model,
    Open,
    OutputOption,
    Query,
    write_lines,
)
from onlinesrl.core.errors import UsageError
from onlinesrl.runs.console import say, warn

if TYPE_CHECKING:
    from onlinesrl.mln.query.load_world import WorldOptions
    from onlinesrl.mln.query.world import World


def ground(
    model: Model,
    query: Query,
    evidence: Evidence = [],  # noqa: B006
    closed: Closed = "",
    open_: Open = "",
    dialect: DialectOption = "alchemy",
    output: OutputOption = None,
    max_atoms: MaxAtoms = 1_000_000,
    max_groundings: MaxGroundings = None,
) -> None:
    """Write the ground network: a weighted clause a line, hard ones with a final period."""
    if is_psl(model):
        raise UsageError(
            f"{model} is a PSL model: its ground rules are no clauses; see infer --stats"
        )
    from onlinesrl.core.jit.decorators import told_of_compiling
    from onlinesrl.mln.query import infer as infer_module

    options = world_options(closed, open_, dialect)
    with told_of_compiling(say):
        world = read_world(model, evidence, query, options, max_atoms, max_groundings)
        write_lines(output, infer_module.network_lines(world))


def is_psl(model: Path) -> bool:
    """Tell whether a model is one of PSL, by its file name."""
    from onlinesrl.core.language import language_of

    return language_of(model.suffix) is language_of(".psl")


def _names(text: str) -> list[str]:
    """Return the names between commas."""
    return [name.strip() for name in text.split(",")]


def world_options(closed: str, opened: str, dialect: str) -> WorldOptions:
    """Return the options of a world: its closed and open predicates, and its dialect."""
    from onlinesrl.logic.dialect import dialect_of
    from onlinesrl.mln.query.load_world import WorldOptions

    false, unknown = (tuple(filter(None, _names(text))) for text in (closed, opened))
    return WorldOptions(false, unknown, dialect_of(dialect))


def read_world(
    model: Path,
    evidence: list[Path],
    query: str,
    options: WorldOptions,
    max_atoms: int,
    max_groundings: int | None,
) -> World:
    """Load a world; warn of predicates that are open only because no database mentions them."""
    from onlinesrl.mln.query import load_world as inference

    limits = replace(inference.LIMITS, atoms=max_atoms, groundings=max_groundings or 1_000_000)
    world = inference.load_world(model, evidence, _names(query), options, limits)
    if world.assumed:
        names = ",".join(world.assumed)
        warn(
            f"no database has an atom of {names.replace(',', ', ')}: all their atoms are open, as in "
            f"Alchemy; --closed {names} makes them false, --open {names} says that it is meant so"
        )
    return world
