"""Comparisons and arithmetic of whole numbers."""

from onlinesrl.core.jit.decorators import kernel

LESS, AT_MOST, SAME, OTHER = 0, 1, 2, 3
PLUS, MINUS, TIMES, OVER, MODULO = 0, 1, 2, 3, 4
NO_NUMBER = -(1 << 62)
MOST_NUMBER = 4 * 10**18 - 1
"""The largest result of arithmetic; constants have at most 18 digits."""


@kernel
def compares(op: int, a: int, b: int) -> bool:
    """Return whether a comparison of two numbers holds; it does not where one is NO_NUMBER."""
    if NO_NUMBER in (a, b):
        return False
    if op in (SAME, OTHER):
        return (a == b) == (op == SAME)
    return a < b if op == LESS else a <= b


@kernel
def computed(op: int, a: int, b: int) -> int:
    """Return a op b, NO_NUMBER where there is none (division by zero, more than MOST_NUMBER)."""
    if NO_NUMBER in (a, b):
        return NO_NUMBER
    if op == TIMES and b != 0 and abs(a) > MOST_NUMBER // abs(b):
        return NO_NUMBER
    if op in (PLUS, MINUS, TIMES):
        result = a + b if op == PLUS else a - b if op == MINUS else a * b
        return result if abs(result) <= MOST_NUMBER else NO_NUMBER
    if b == 0:
        return NO_NUMBER
    quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)  # as in C: towards zero
    return quotient if op == OVER else a - quotient * b
