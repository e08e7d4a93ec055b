"""Units of numbers by their definition, in plain numpy."""

from typing import Any

import numpy as np

from onlinesrl.core.online.metric_steps import MEMORY, MOST, OFF


class Units:
    """The units of ``count`` weights, whose numbers in an example are [ground clause, weight]; 0: none."""

    def __init__(self, count: int):
        self.unit, self.square, self.examples = np.zeros((3, count))

    @property
    def scale(self) -> Any:
        """The unit of each weight; 1 where it has none."""
        return np.where(self.unit > 0.0, self.unit, 1.0)

    def counted(self, x: Any) -> Any:
        """Begin with the units of new numbers; return the sizes with which numbers count."""
        most = MOST * self.unit * np.sqrt(np.maximum(self.square, 1.0))
        counted = np.where(self.unit > 0.0, np.minimum(np.abs(x), most), np.abs(x))
        size = _root_mean_square(counted)
        new = (self.unit == 0.0) & (size > 0.0)
        self.unit[new] = 10.0 ** np.round(np.log10(size[new]))
        return counted

    def note(self, counted: Any) -> None:
        size = _root_mean_square(counted)
        square = (size / self.scale) ** 2
        begun, used = self.examples > 0.0, size > 0.0
        examples = np.minimum(self.examples + 1.0, MEMORY)
        examples[~begun & np.isclose(square, 1.0, rtol=1e-12)] = MEMORY
        square = np.where(begun, self.square + (square - self.square) / examples, square)
        square = np.where(used, square, self.square)
        self.examples = np.where(used, examples, self.examples)
        off = used & ((square > OFF**2) | (square < OFF**-2))
        unit = self.unit.copy()
        unit[off] = 10.0 ** np.round(np.log10(self.unit[off] * np.sqrt(square[off])))
        square[off] *= (self.unit[off] / unit[off]) ** 2
        self.unit, self.square = unit, square


def _root_mean_square(counted: Any) -> Any:
    counted = np.atleast_2d(counted)
    return np.sqrt(np.sum(counted**2, axis=0) / np.maximum(np.count_nonzero(counted, axis=0), 1))
