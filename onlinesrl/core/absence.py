"""Whether a value of a table is there."""

from math import isnan
from typing import Any

import numpy as np


def is_absent(value: Any) -> bool:
    """Tell whether a value is None, NaN, or the NA or NaT of pandas, which need not be there."""
    if isinstance(value, float | np.floating):
        return isnan(value)
    return value is None or type(value).__name__ in {"NAType", "NaTType"}
