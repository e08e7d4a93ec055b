"""Looking into trained weights: by name, without the run that wrote them; what differs between two."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onlinesrl.errors import UsageError
from onlinesrl.ground.encode import Layout
from onlinesrl.ground.plan import compile_program
from onlinesrl.lang import mln, psl
from onlinesrl.lang.ast import Constant, Formula, Leaf, Program, Variable, terms
from onlinesrl.lang.normal import plus_variables
from onlinesrl.lang.text import show, show_leaf
from onlinesrl.lang.weights import written
from onlinesrl.learn.rule_weights import RuleWeights
from onlinesrl.learn.updates import Cda2
from onlinesrl.learn.weights import WeightTable
from onlinesrl.session import load_checkpoint

SHOWN_RULES = 5


@dataclass(frozen=True)
class Row:
    """A weight by name: the number of its rule, from 1, its text, and the constants of its template.

    ``formula`` is None for PSL; ``updates`` is None where a file does not say them.
    """

    rule: int
    text: str
    formula: Formula | None
    constants: Mapping[str, str]
    weight: float
    updates: int | None

    def line(self) -> str:
        """Return the rule with its constants, as a file of weights has it."""
        if self.formula is None:
            return " ".join([self.text, *self.constants])
        return show(self.formula, self._spelled)

    def shape(self) -> str:
        """Return the rule without its constants, which is the same wherever its weights stand."""
        if self.formula is None:
            return self.text
        return show(self.formula, lambda leaf: show_leaf(leaf) if _varies(leaf) else "_")

    def shown(self) -> str:
        """Return the rule, with the constants of its variables."""
        if self.updates is None:
            return self.line()
        instance = [
            f"{name} = {value}" if value else name for name, value in self.constants.items()
        ]
        return f"{self.text}  [{', '.join(instance)}]" if instance else self.text

    def about(self) -> set[str]:
        """Return the constants that the weight is about."""
        own = () if self.formula is None else terms(self.formula)
        return {*self.constants.values(), *(t.name for t in own if isinstance(t, Constant))}

    def as_dict(self) -> dict[str, Any]:
        """Return what is said of it, for JSON."""
        return {
            "rule": self.rule,
            "text": self.text,
            "constants": self.constants,
            "weight": self.weight,
            "updates": self.updates,
        }

    def _spelled(self, leaf: Leaf) -> str:
        return show_leaf(
            leaf if _varies(leaf) else Constant(self.constants.get(leaf.name, leaf.name))
        )


def _varies(leaf: Leaf) -> bool:
    return isinstance(leaf, Variable) and not leaf.plus


# what holds weights --------------------------------------------------------------------------------


def rows(path: Path) -> list[Row]:
    """Return the weights of a checkpoint or run folder, with its own model, or of a file of weights."""
    if path.suffix == ".mln":
        found = [*_of_file(mln.load(path))]
    elif path.suffix == ".psl":
        found = [*_of_psl(RuleWeights(psl.load(path), Cda2()), counted=False)]
    else:
        found = [*_of_checkpoint(path)]
    if not found:
        raise UsageError(f"{path}: no rule here has a weight")
    return found


def _of_checkpoint(path: Path) -> Iterator[Row]:
    saved = load_checkpoint(path)
    query, name = saved.header["fingerprint"]["query"], f"model of {saved.path}"
    if saved.header["learner"].get("language") == "psl":
        rules = RuleWeights(psl.parse(saved.header["model"], name), Cda2())
        rules.restore(saved.arrays)
        yield from _of_psl(rules, counted=True)
        return
    program = mln.parse(saved.header["model"], name)
    weights = WeightTable(Layout(compile_program(program, query)))
    weights.restore(saved.header["learner"], saved.arrays)
    formulas = {id(c): written(c, program.rules[c.rule]) for c in weights.clauses}
    for e in weights.entries():
        constants = dict(zip(e.clause.template, e.key, strict=True))
        formula = formulas[id(e.clause)]
        yield Row(e.clause.rule + 1, e.text, formula, constants, e.weight, e.uses)


def _of_file(program: Program) -> Iterator[Row]:
    for number, rule in enumerate(program.rules, 1):
        template = plus_variables(rule.formula)
        weighted = () if rule.weight is None else (((), rule.weight),)
        for key, weight in weighted if rule.table is None else rule.table:
            constants = dict(zip(template, key, strict=False))
            yield Row(number, rule.text, rule.formula, constants, weight, None)


def _of_psl(weights: RuleWeights, counted: bool) -> Iterator[Row]:
    numbers = [n for n, rule in enumerate(weights.program.rules, 1) if rule.weight is not None]
    for number, e in zip(numbers, weights.entries(), strict=True):
        again = dict.fromkeys(e.key, "")
        yield Row(number, e.text, None, again, e.weight, e.uses if counted else None)


# what is shown -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Chosen:
    """Which weights are wanted: of a rule, by its number or a part of its text, about a constant."""

    rule: str | None = None
    about: str | None = None
    top: int = 20

    def takes(self, row: Row) -> bool:
        """Tell whether a weight is one of them."""
        rule = self.rule
        if rule is not None and (
            row.rule != int(rule) if rule.isdecimal() else rule not in row.text
        ):
            return False
        return self.about is None or self.about in row.about()

    def of(self, path: Path, found: Sequence[Row]) -> list[Row]:
        """Return those of some weights. Raises UsageError where there are none."""
        taken = [row for row in found if self.takes(row)]
        if not taken:
            asked = [f"--rule {self.rule}"] * (self.rule is not None)
            asked += [f"--about {self.about}"] * (self.about is not None)
            rules = dict.fromkeys((row.rule, row.text) for row in found)
            listed = "\n".join(f"  {number}: {text}" for number, text in sorted(rules)[:20])
            raise UsageError(
                f"{path}: no weight fits {' and '.join(asked)}; its rules are\n{listed}"
            )
        return taken


def shown(path: Path, chosen: Chosen) -> tuple[str, list[Row]]:
    """Return the chosen weights, and what their order is."""
    found = chosen.of(path, rows(path))
    counted = any(row.updates is not None for row in found)
    known = [row for row in found if row.updates or row.weight != 0.0]
    known.sort(key=lambda row: -abs(row.weight) * max(1, row.updates or 1))
    by = "|averaged weight| times the updates it took part in" if counted else "|weight|"
    return f"by {by}, largest first; equal ones as in the model", known[: chosen.top]


@dataclass(frozen=True)
class Change:
    """A weight in two models."""

    row: Row
    was: float
    now: float

    def as_dict(self) -> dict[str, Any]:
        """Return what is said of it, for JSON."""
        named = {key: self.row.as_dict()[key] for key in ("rule", "text", "constants")}
        return named | {"was": self.was, "is": self.now, "change": self.now - self.was}


def compared(path: Path, other: Path, chosen: Chosen) -> tuple[str, list[Change], list[str]]:
    """Return how the chosen weights differ, what their order is, and the rules that only one has.

    Raises UsageError where two models have no rule in common.
    """
    old, new = rows(path), rows(other)
    shapes = [dict.fromkeys(row.shape() for row in found) for found in (old, new)]
    both = shapes[0].keys() & shapes[1].keys()
    apart = [
        f"only in {where}: {shape}"
        for where, mine in zip((path, other), shapes, strict=True)
        for shape in mine
        if shape not in both
    ]
    if not both:
        listing = "\n".join(f"  {each}" for mine in shapes for each in _some(apart, mine))
        raise UsageError(f"{path} and {other} have no rule in common:\n{listing}")
    before, after = (
        {row.line(): row for row in found if row.shape() in both and chosen.takes(row)}
        for found in (old, new)
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
    return "by |difference|, largest first; equal ones by text", changes[: chosen.top], apart


def _some(apart: Sequence[str], shapes: Collection[str]) -> list[str]:
    mine = [each for each in apart if each.partition(": ")[2] in shapes]
    more = len(mine) - SHOWN_RULES
    return mine[:SHOWN_RULES] + [f"... and {more} more"] * (more > 0)


def weight_lines(path: Path, other: Path | None, chosen: Chosen) -> Iterator[str]:
    """Yield what the order is, then the most influential weights, or the largest differences."""
    if other is None:
        order, found = shown(path, chosen)
        yield f"# {order}"
        for row in found:
            times = "" if row.updates is None else f"{row.updates:>8,} updates  "
            yield f"{row.weight:+12.6f}  {times}{row.shown()}"
        return
    order, changes, apart = compared(path, other, chosen)
    yield f"# {order}"
    for change in changes:
        yield (
            f"{change.now - change.was:+12.6f}  {change.was:+.6f} -> {change.now:+.6f}  "
            f"{change.row.shown()}"
        )
    yield from (f"# {each}" for each in apart)


def as_json(path: Path, other: Path | None, chosen: Chosen) -> dict[str, Any]:
    """Return what ``weight_lines`` says, for JSON."""
    if other is None:
        order, found = shown(path, chosen)
        return {"order": order, "weights": [row.as_dict() for row in found]}
    order, changes, apart = compared(path, other, chosen)
    return {"order": order, "changes": [each.as_dict() for each in changes], "apart": apart}
