"""onlinesrl ground: write the ground network of a world."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
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
    with_records,
    write_lines,
)
from onlinesrl.core.errors import UsageError
from onlinesrl.runs.console import say, warn

if TYPE_CHECKING:
    from onlinesrl.mln.query.world import World


@dataclass(frozen=True)
class WorldArguments:
    """The evidence of a world of Markov logic, and how it is read."""

    evidence: Evidence = field(default_factory=list)
    closed: Closed = ""
    open_: Open = ""
    dialect: DialectOption = "alchemy"
    max_atoms: MaxAtoms = 1_000_000
    max_groundings: MaxGroundings = None

    def read(
        self,
        model: Path,
        query: str,
        method: str = "",
        lazy: str | None = None,
        formulas: Sequence[str] = (),
        given: Sequence[str] = (),
    ) -> World:
        """Load the world; warn of predicates that are open only because no database mentions them.

        Further arguments are those of infer; by default nothing is left out.
        """
        from onlinesrl.logic.dialect import dialect_of
        from onlinesrl.mln.query.world import LIMITS, WorldOptions, eager_of, load_world

        closed, opened = (tuple(filter(None, _names(x))) for x in (self.closed, self.open_))
        dialect = dialect_of(self.dialect)
        options = WorldOptions(closed, opened, dialect, (*formulas,), (*given,))
        most = self.max_groundings or 1_000_000
        limits = replace(LIMITS, atoms=self.max_atoms, groundings=most)
        eager, asked = eager_of(method, lazy), _names(query) if query else []
        world = load_world(model, self.evidence, asked, options, limits, eager)
        if world.assumed:
            names = ",".join(world.assumed)
            warn(
                f"no database has an atom of {names.replace(',', ', ')}: all their atoms are open, as in "
                f"Alchemy; --closed {names} makes them false, --open {names} says that it is meant so"
            )
        return world


@with_records
def ground(model: Model, query: Query, world: WorldArguments, output: OutputOption = None) -> None:
    """Write the ground network: a weighted clause a line, hard ones with a final period."""
    if is_psl(model):
        raise UsageError(
            f"{model} is a PSL model: its ground rules are no clauses; see infer --stats"
        )
    from onlinesrl.core.jit.decorators import told_of_compiling
    from onlinesrl.mln.query import infer as infer_module

    with told_of_compiling(say):
        write_lines(output, infer_module.network_lines(world.read(model, query)))


def is_psl(model: Path) -> bool:
    """Tell whether a model is one of PSL, by its file name."""
    from onlinesrl.core.language import language_of

    return language_of(model.suffix) is language_of(".psl")


def _names(text: str) -> list[str]:
    """Return the names between commas."""
    return [name.strip() for name in text.split(",")]
