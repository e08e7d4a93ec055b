"""The weights of a run over records, estimated from the records and labels of its source."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from onlinesrl.core.errors import DataError, ExampleError, FolderError, Infeasible
from onlinesrl.core.io.atomic_write import write_atomic
from onlinesrl.core.version import __version__
from onlinesrl.entities.resolver import EntityResolver
from onlinesrl.entities.world import EntityWorld
from onlinesrl.logic.transactional_world import TransactionalWorld
from onlinesrl.runs.config.schema import EntityWeights
from onlinesrl.runs.console import warn
from onlinesrl.runs.inputs import make_reader
from onlinesrl.runs.keyed_world import KeyedWorld, merged
from onlinesrl.stream.world_changes import Truncation, WorldChange

SHOWN = 5
"""So many bad records are told."""


def learn(config: EntityWeights, fresh: bool) -> Iterator[str]:
    """Write the model of a run over records, with the weights of ``EntityResolver.fit``; yield a summary.

    The records are those that the source leaves, corrected and withdrawn as in a run. Labels of evidence
    and of truth count alike. Raises FolderError where there is a model already, unless ``fresh``, and
    DataError where no two records have a common key, or too many are bad.
    """
    if config.model.exists() and not fresh:
        raise FolderError(f"{config.model}: there is a model already; --fresh replaces it")
    if config.source.mapping is not None:
        config.source.mapping.check(config.argument_types(), config.query, False, config.error)
    present, bad = _present(config)
    records, labels = present.records, present.labels
    if not present.candidates and not labels:
        raise DataError(
            f"none of {len(records):,} records has a key in common with another: expected in entities.block "
            "columns that records of one entity often share"
        )
    same, different = ([pair for pair, x in labels.items() if x == value] for value in (1.0, 0.0))
    fitted = config.entities.resolver().fit(records, same, different, config.seed)
    head = f"// Weights from {len(records):,} records and {len(labels):,} labels (onlinesrl {__version__})\n"
    write_atomic(config.model, (head + fitted.rules).encode())
    yield f"Records    {len(records):,}, of which {present.keyless:,} have no key; {bad:,} bad"
    yield f"Pairs      {present.candidates:,} share a key; {len(labels):,} labels"
    yield f"Model      {config.model}"


def _present(config: EntityWeights) -> tuple[EntityResolver, int]:
    """Return the records and labels that a source leaves, judged by no weights, and how many are bad.

    Raises DataError where these are more than ``limits.bad_share``.
    """
    ground = EntityWorld(config.entities.resolver)
    world, read, bad = KeyedWorld(TransactionalWorld(ground), config.entities.facts()), 0, 0
    for record, change in chain.from_iterable(make_reader(config).read()):
        read += 1
        try:
            if isinstance(change, ExampleError):
                raise change
            if isinstance(change, WorldChange):
                _apply(world, change)
        except (ExampleError, DataError, Infeasible) as error:
            bad += 1
            if bad <= SHOWN:
                warn(f"{record.file}:{record.line}: {str(error).partition(chr(10))[0]}")
    if bad > config.limits.bad_share * read:
        raise DataError(f"{bad:,} of {read:,} records are bad, more than limits.bad_share")
    return world.ground.resolver, bad


def _apply(world: KeyedWorld, change: WorldChange) -> None:
    """Do what a record says. Raises DataError, ExampleError, Infeasible; then nothing has changed."""
    parts = world.parts(change)
    facts = merged([*parts.facts.items(), *parts.labels.items()])
    with world.record():
        if isinstance(change, Truncation):
            world.clear()
        elif parts.replaces:
            world.change(parts.key, world.asserted.replacement(parts.key, facts))
        else:
            world.change(parts.key, facts)
