"""Which constants are whole numbers: one definition for comparisons, arithmetic and order."""

from onlinesrl.logic.kernels import whole_numbers as kernel
from onlinesrl.logic.text import WHOLE

COMPARISONS = {"<": kernel.LESS, "<=": kernel.AT_MOST, "=": kernel.SAME, "!=": kernel.OTHER}
OPERATIONS = {
    "+": kernel.PLUS,
    "-": kernel.MINUS,
    "*": kernel.TIMES,
    "/": kernel.OVER,
    "%": kernel.MODULO,
}


def whole_number(name: str) -> int:
    """Return the whole number that a constant is, see ``WHOLE``, or NO_NUMBER."""
    return int(name) if WHOLE.fullmatch(name) else kernel.NO_NUMBER
