"""Showing trained weights, and comparing two sets of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from onlinesrl.core.errors import UsageError
from onlinesrl.core.io.restoring import restoring
from onlinesrl.core.language import language_of, languages
from onlinesrl.core.rule_instance import Row
from onlinesrl.runs.config.fingerprint import update_of
from onlinesrl.runs.run import load_checkpoint

SHOWN_RULES = 5


def rows(path: Path) -> tuple[str, list[Row]]:
    """Return what the weights of a checkpoint, a run folder, or a file of weights are called, and them."""
    name = "weight"
    if path.suffix in {language.suffix for language in languages()}:
        weights = [*language_of(path.suffix).rows_of_file(path)]
    else:
        saved = load_checkpoint(path)
        language = language_of(f".{saved.header['learner'].get('language', 'mln')}")
        with restoring(saved.path):
            update, model = update_of(saved.header["fingerprint"]), f"model of {saved.path}"
            name = f"{update.predict} weight"
            weights = [*language.rows_of_checkpoint(model, saved.header, saved.arrays, update)]
    if not weights:
        raise UsageError(f"{path}: no rule here has a weight")
    return name, weights


@dataclass(frozen=True)
class Chosen:
    """Which weights to show: of a rule (its number or part of its text), about a constant."""

    rule: str | None = None
    about: str | None = None
    top: int = 20

    def takes(self, row: Row) -> bool:
        """Tell whether a weight is chosen."""
        rule = self.rule
        if rule is not None and (
            row.rule != int(rule) if rule.isdecimal() else rule not in row.text
        ):
            return False
        return self.about is None or self.about in row.about()

    def of(self, path: Path, weights: Sequence[Row]) -> list[Row]:
        """Return the chosen weights. Raises UsageError if there are none."""
        chosen = [row for row in weights if self.takes(row)]
        if not chosen:
            options = [f"--rule {self.rule}"] * (self.rule is not None)
            options += [f"--about {self.about}"] * (self.about is not None)
            rules = dict.fromkeys((row.rule, row.text) for row in weights)
            listing = "\n".join(f"  {number}: {text}" for number, text in sorted(rules)[:20])
            raise UsageError(
                f"{path}: no weight matches {' and '.join(options)}; its rules are\n{listing}"
            )
        return chosen


def shown(path: Path, chosen: Chosen) -> tuple[str, list[Row]]:
    """Return a description of the order, and the chosen weights."""
    name, every = rows(path)
    weights = chosen.of(path, every)
    counted = any(row.updates is not None for row in weights)
    learned = [row for row in weights if row.updates or row.weight != 0.0]
    learned.sort(key=lambda row: -abs(row.weight) * max(1, row.updates or 1))
    by = f"|{name}|" + " times the updates it took part in" * counted
    return f"by {by}, largest first; equal ones as in the model", learned[: chosen.top]


@dataclass(frozen=True)
class Change:
    """A weight in two models."""

    row: Row
    was: float
    now: float

    def as_dict(self) -> dict[str, Any]:
        """Return the change for JSON."""
        named = {key: self.row.as_dict()[key] for key in ("rule", "text", "constants")}
        return named | {"was": self.was, "is": self.now, "change": self.now - self.was}


def compared(path: Path, other: Path, chosen: Chosen) -> tuple[str, list[Change], list[str]]:
    """Return a description of the order, the differences, and the rules that only one model has.

    Raises UsageError if two models have no rule in common.
    """
    (_, old), (_, new) = rows(path), rows(other)
    shapes = [dict.fromkeys(row.shape() for row in weights) for weights in (old, new)]
    common = shapes[0].keys() & shapes[1].keys()
    apart = [
        [f"only in {model}: {shape}" for shape in of_model if shape not in common]
        for model, of_model in zip((path, other), shapes, strict=True)
    ]
    if not common:
        lines = []
        for of_model in apart:
            more = len(of_model) - SHOWN_RULES
            lines += of_model[:SHOWN_RULES] + [f"... and {more} more"] * (more > 0)
        listing = "\n".join(f"  {line}" for line in lines)
        raise UsageError(f"{path} and {other} have no rule in common:\n{listing}")
    before, after = (
        {row.line(): row for row in weights if row.shape() in common and chosen.takes(row)}
        for weights in (old, new)
    )
    changes = [
        Change(
            after.get(name) or before[name],
            before[name].weight if name in before else 0.0,
            after[name].weight if name in after else 0.0,
        )
        for name in {**before, **after}
    ]
    if not changes:
        chosen.of(path, old)
        chosen.of(other, new)
    changes.sort(key=lambda change: (-abs(change.now - change.was), change.row.line()))
    return (
        "by |difference|, largest first; equal ones by text",
        changes[: chosen.top],
        [*chain(*apart)],
    )


def weight_lines(path: Path, other: Path | None, chosen: Chosen) -> Iterator[str]:
    """Yield a description of the order, then the most influential weights, or the largest differences."""
    if other is None:
        order, weights = shown(path, chosen)
        yield f"# {order}"
        for row in weights:
            times = "" if row.updates is None else f"{row.updates:>8,} updates  "
            yield f"{row.number()}  {times}{row.shown()}"
        return
    order, changes, apart = compared(path, other, chosen)
    yield f"# {order}"
    for change in changes:
        yield (
            f"{change.now - change.was:+12.6f}  {change.was:+.6f} -> {change.now:+.6f}  "
            f"{change.row.shown()}"
        )
    yield from (f"# {line}" for line in apart)


def as_json(path: Path, other: Path | None, chosen: Chosen) -> dict[str, Any]:
    """Return the same as ``weight_lines``, for JSON."""
    if other is None:
        order, weights = shown(path, chosen)
        return {"order": order, "weights": [row.as_dict() for row in weights]}
    order, changes, apart = compared(path, other, chosen)
    return {"order": order, "changes": [change.as_dict() for change in changes], "apart": apart}
