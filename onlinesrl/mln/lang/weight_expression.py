"""Weights that are calculated, as in pracmln: numbers, + - * /, log, exp, sqrt, and logx."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable

MAX_LENGTH = 200
"""Longer expressions have no value."""

_OPERATORS: dict[type, Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_SIGNS: dict[type, Callable[[float], float]] = {ast.UAdd: operator.pos, ast.USub: operator.neg}
_FUNCTIONS: dict[str, Callable[[float], float]] = {
    "exp": math.exp,
    "log": math.log,
    "logx": lambda x: math.log(x) if x else -100.0,
    "sqrt": math.sqrt,
}


def evaluate(text: str) -> float | None:
    """Return the value of an expression; None for what is no expression or has no value.

    ``logx(0)`` is -100.
    """
    if len(text) > MAX_LENGTH:
        return None
    try:
        return _value(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, ArithmeticError, RecursionError, MemoryError):
        return None


def _value(node: ast.expr) -> float:
    match node:
        case ast.Constant(int() | float() as value):
            return float(value)
        case ast.BinOp(left, op, right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_value(left), _value(right))
        case ast.UnaryOp(op, operand) if type(op) in _SIGNS:
            return _SIGNS[type(op)](_value(operand))
        case ast.Call(ast.Name(name), [argument], []) if name in _FUNCTIONS:
            return _FUNCTIONS[name](_value(argument))
        case _:
            raise ValueError
