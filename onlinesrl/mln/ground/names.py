"""From the numbers of groundings back to constants."""

from __future__ import annotations

from collections.abc import Sequence

from onlinesrl.core.example import Constant
from onlinesrl.mln.ground.layout import Layout


class AtomNames:
    """Turns the number of a grounding back into constants."""

    def __init__(self, layout: Layout, name: str):
        self.name = name
        order = layout.radix_order(name)
        self.kinds = [layout.type_number[layout.arguments(name)[j]] for j in order]
        self.place = [order.index(j) for j in range(len(order))]
        self.sorted = order == sorted(order)

    def constants(
        self, keys: Sequence[int], names: Sequence[Sequence[Constant]]
    ) -> list[list[Constant]]:
        """Return the argument lists of groundings; ``names`` are those of ``kinds`` in their world."""
        if len(names) == 2 and self.sorted:
            first, last = names
            n = len(last)
            return [[first[key // n], last[key % n]] for key in keys]
        return [self._one(key, names) for key in keys]

    def _one(self, key: int, names: Sequence[Sequence[Constant]]) -> list[Constant]:
        constants: list[Constant] = []
        for column in reversed(names):
            constants.append(column[key % len(column)])
            key //= len(column)
        constants.reverse()
        return [constants[place] for place in self.place]
