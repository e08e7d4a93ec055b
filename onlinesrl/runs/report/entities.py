"""The entities of a run over records: how large they are, and which records are least certain."""

from __future__ import annotations

from collections.abc import Sequence

from onlinesrl.entities.resolver import Membership
from onlinesrl.runs.report.html import Markup, count, paragraph, percent, section, table


def entities_section(
    sizes: Sequence[tuple[int, int]], least_certain: Sequence[tuple[str, Membership]]
) -> Markup:
    """Return the section; ``sizes`` has a number of records, and how many entities have so many."""
    words = paragraph(
        "The probability is that of a record's entity, given the entities of all other records."
    )
    rows = [
        [
            record,
            why.entity,
            why.nearest or "",
            ", ".join(f"{column} {level}" for column, level in why.levels.items()),
            percent(why.probability),
        ]
        for record, why in least_certain
    ]
    return section(
        "Entities by size",
        table(("records", "entities"), [[count(size), count(many)] for size, many in sizes]),
        paragraph("Least certain:") if rows else None,
        words if rows else None,
        table(("record", "entity", "nearest record", "levels", "probability"), rows, texts=4)
        if rows
        else None,
    )
