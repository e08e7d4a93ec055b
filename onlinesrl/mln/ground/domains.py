"""Which types have constants that only the truth of examples names, so that the model must say more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from onlinesrl.core.background import Background
from onlinesrl.core.example import Atoms, Example, arguments
from onlinesrl.logic.text import quote
from onlinesrl.mln.ground.model_index import Layout

SHOWN = 5


def undeclared(layout: Layout, examples: Iterable[Example], background: Background) -> list[str]:
    """Return, for each type with constants that only the truth of examples has, what to do about it.

    Those of the background, declared constants, those of open types and of examples with a ``query``
    are none of them.
    """
    opened = layout.plan.program.open
    found: dict[str, dict[str, None]] = {}
    named: dict[str, dict[str, None]] = {}
    times: dict[str, int] = {}
    facts = {(t, c) for t, c, _ in _constants(layout, background.atoms)}
    for example in examples:
        known = facts | {(t, c) for t, c, _ in _constants(layout, example.evidence)}
        truth = (example.truth or {}) if example.query is None else {}
        own = {}
        for kind, constant, place in _constants(layout, truth):
            if kind in opened or constant in layout.constant_number[kind]:
                continue
            if (kind, constant) not in known:
                own[kind] = 1
                found.setdefault(kind, {})[constant] = None
                named.setdefault(kind, {})[place] = None
        times |= {kind: times.get(kind, 0) + 1 for kind in own}
    return [_advice(kind, [*found[kind]], [*named[kind]], times[kind]) for kind in found]


def _constants(layout: Layout, atoms_of: Atoms) -> Iterator[tuple[str, str, str]]:
    """Yield the type of each constant of atoms, the constant, and where it stands."""
    for name, atoms in atoms_of.items():
        if name in layout.evidence:
            types = layout.arguments(name)
            for atom in atoms:
                for j, (kind, constant) in enumerate(zip(types, arguments(atom), strict=False)):
                    yield kind, str(constant), f"{name} (argument {j + 1})"


def _advice(kind: str, constants: list[str], places: list[str], examples: int) -> str:
    shown = ", ".join([*map(quote, constants[:SHOWN]), *["..."] * (len(constants) > SHOWN)])
    return (
        f"type {kind}: in {examples} example{'s' * (examples != 1)} only the truth of "
        f"{' and '.join(places)} names its constants, which can so not be predicted; declare them, "
        f"`{kind} = {{{shown}}}`, or, where the stream brings them, `{kind} = {{...}}`"
    )
