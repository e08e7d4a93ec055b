"""Looking into checkpoints: weights by name, without the run that wrote them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from onlinesrl.ground.encode import Layout
from onlinesrl.ground.plan import compile_program
from onlinesrl.lang import mln, psl
from onlinesrl.learn.learner import Hyper, Weights
from onlinesrl.learn.rule_weights import RuleWeights
from onlinesrl.learn.weights import WeightTable
from onlinesrl.results import heaviest, weight_row
from onlinesrl.session import load_checkpoint


def table(path: Path) -> Weights:
    """Return the weights of a checkpoint, which holds its own model."""
    saved = load_checkpoint(path)
    query, name = saved.header["fingerprint"]["query"], f"model of {saved.path}"
    if saved.header["learner"].get("language") == "psl":
        rules = RuleWeights(psl.parse(saved.header["model"], name), Hyper())
        rules.restore(saved.arrays)
        return rules
    program = mln.parse(saved.header["model"], name)
    weights = WeightTable(Layout(compile_program(program, query)))
    weights.restore(saved.header["learner"], saved.arrays)
    return weights


def weight_lines(path: Path, other: Path | None, top: int) -> Iterator[str]:
    """Yield the most influential weights, or the largest differences ``other`` - ``path``."""
    if other is None:
        for entry in heaviest(table(path).entries())[:top]:
            row = weight_row(entry)
            shown = _shown(row.rule, row.instance)
            yield f"{row.weight:+12.6f}  {row.updates:>8,} updates  {shown}"
        return
    old, new = _named(table(path)), _named(table(other))
    changes = {name: new.get(name, 0.0) - old.get(name, 0.0) for name in {**old, **new}}
    order = sorted(changes, key=lambda name: (-abs(changes[name]), name))
    for name in order[:top]:
        yield (
            f"{changes[name]:+12.6f}  {old.get(name, 0.0):+.6f} -> {new.get(name, 0.0):+.6f}  "
            f"{_shown(name[0], ', '.join(name[1]))}"
        )


def _shown(rule: str, instance: str) -> str:
    return f"{rule}  [{instance}]" if instance else rule


def _named(weights: Weights) -> dict[tuple[str, tuple[str, ...]], float]:
    return {(e.text, e.key): e.weight for e in weights.entries()}
