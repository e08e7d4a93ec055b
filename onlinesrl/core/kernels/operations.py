"""Operations of kernels that become LLVM's language here: loops over ranges, arithmetic, items of arrays.

Numba's ways allow for more, so they take several times as many instructions, or are compiled from Python.
Imported only for compiling.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, TypeAlias

from llvmlite import ir
from numba import types
from numba.core.base import BaseContext

from onlinesrl.core.kernels import lowering
from onlinesrl.core.kernels.lowering import unknown

Fits: TypeAlias = Callable[[Any, Any], bool]
"""Tells whether an operation is done here, for a context and a signature."""
Emit: TypeAlias = Callable[[Any, Any, Any, Any], Any]
"""Writes an operation's instructions for context, builder, signature and arguments; returns its value."""

# loops -------------------------------------------------------------------------------------------


def _is_range(context: Any, sig: Any) -> bool:
    return isinstance(sig.return_type, types.RangeType)


def _range(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    whole = context.get_value_type(sig.return_type)
    number = whole.elements[0]
    bounds = (number(0), *args, number(1)) if len(args) == 1 else (*args, number(1))[:3]
    return _put(builder, whole, bounds)


def _is_iterable(context: Any, sig: Any) -> bool:
    return isinstance(sig.args[0], types.RangeType)


def _iterator(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    whole, (bounds,) = context.get_value_type(sig.return_type), args
    start, stop, step = (builder.extract_value(bounds, place) for place in range(3))
    now = lowering.memory(builder, start.type)
    builder.store(start, now)
    return _put(builder, whole, (now, stop, getattr(bounds, "step", step)))


def _put(builder: Any, whole: ir.Type, values: tuple[Any, ...]) -> Any:
    """Return a structure of a start or a place, a stop and a step, which remembers the step."""
    made: Any = unknown(whole)
    for place, value in enumerate(values):
        made = builder.insert_value(made, value, place)
    made.step = values[2]
    return made


def _is_iterator(context: Any, sig: Any) -> bool:
    return isinstance(sig.args[0], types.RangeIteratorType)


def _next(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """Return the next number and whether it is in the range, for ``first`` and ``second``."""
    (loop,), of = args, sig.args[0].yield_type
    now, stop, step = (builder.extract_value(loop, place) for place in range(3))
    step, number = getattr(loop, "step", step), builder.load(now)
    builder.store(builder.add(number, step, flags=("nsw",) if of.signed else ()), now)
    if isinstance(step, ir.Constant):
        return number, _compared(builder, of, "<" if step.constant > 0 else ">", number, stop)
    up, down = (_compared(builder, of, sign, number, stop) for sign in ("<", ">"))
    return number, builder.select(_compared(builder, of, ">", step, step.type(0)), up, down)


def first(context: Any, builder: Any, pair: Any, kind: Any) -> Any:
    """Return the first of a pair."""
    return pair[0] if isinstance(pair, tuple) else builder.extract_value(pair, 0)


def second(context: Any, builder: Any, pair: Any, kind: Any) -> Any:
    """Return the second of a pair."""
    return pair[1] if isinstance(pair, tuple) else builder.extract_value(pair, 1)


# numbers -----------------------------------------------------------------------------------------


def _are_alike(context: Any, sig: Any) -> bool:
    return sig.args in ((types.float64,) * 2, (types.int64,) * 2)


def _is_closed(context: Any, sig: Any) -> bool:
    return _are_alike(context, sig) and sig.return_type == sig.args[0]


def _arithmetic(name: str) -> Emit:
    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return getattr(builder, "f" * isinstance(sig.return_type, types.Float) + name)(*args)

    return emit


def _compared(builder: Any, kind: Any, sign: str, *args: Any) -> Any:
    if isinstance(kind, types.Float):
        return (builder.fcmp_unordered if sign == "!=" else builder.fcmp_ordered)(sign, *args)
    return (builder.icmp_signed if kind.signed else builder.icmp_unsigned)(sign, *args)


def _comparison(sign: str) -> Emit:
    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _compared(builder, sig.args[0], sign, *args)

    return emit


def _is_extreme(context: Any, sig: Any) -> bool:
    return all(isinstance(kind, types.Number) and kind == sig.return_type for kind in sig.args)


def _extreme(sign: str) -> Emit:
    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        best, *others = args
        for other in others:
            better = _compared(builder, sig.return_type, sign, other, best)
            best = builder.select(better, other, best)
        return best

    return emit


def _is_number(context: Any, sig: Any) -> bool:
    return isinstance(sig.args[0], types.Number | types.Boolean)


def _whole(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return context.cast(builder, args[0], sig.args[0], sig.return_type)


def _is_power(context: Any, sig: Any) -> bool:
    return sig.return_type == sig.args[0] == types.float64


def _power(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    if isinstance(args[1], ir.Constant) and args[1].constant == 2:
        return builder.fmul(args[0], args[0])
    return _function(context, operator.pow, sig)(builder, args)


# items -------------------------------------------------------------------------------------------


def _is_member(context: Any, sig: Any) -> bool:
    kind, index = sig.args
    return isinstance(kind, types.UniTuple) and isinstance(index, types.IntegerLiteral)


def _is_item(context: Any, sig: Any) -> bool:
    return lowering.is_item(context, sig) or _is_member(context, sig)


def _item(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    if _is_member(context, sig):
        return builder.extract_value(args[0], sig.args[1].literal_value)
    return lowering.item(context, builder, sig, args)


def _is_among(context: Any, sig: Any) -> bool:
    kind, of = sig.args
    return isinstance(kind, types.UniTuple) and isinstance(of, types.Number)


def _among(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    members, of = sig.args
    common = context.typing_context.unify_types(members.dtype, of)
    wanted = context.cast(builder, args[1], of, common)
    found = ir.Constant(ir.IntType(1), 0)
    for place in range(members.count):
        member = builder.extract_value(args[0], place)
        member = context.cast(builder, member, members.dtype, common)
        found = builder.or_(found, _compared(builder, common, "==", member, wanted))
    return found


# the table ---------------------------------------------------------------------------------------

ARITHMETIC = {
    operator.add: "add",
    operator.iadd: "add",
    operator.sub: "sub",
    operator.isub: "sub",
    operator.mul: "mul",
    operator.imul: "mul",
    operator.truediv: "div",
}
COMPARISONS = {
    operator.lt: "<",
    operator.le: "<=",
    operator.gt: ">",
    operator.ge: ">=",
    operator.eq: "==",
    operator.ne: "!=",
}
EXTREMES = {max: ">", min: "<"}
OWN: dict[Any, tuple[Fits, Emit]] = {
    operator.getitem: (_is_item, _item),
    operator.contains: (_is_among, _among),
    operator.setitem: (lowering.is_item, lowering.set_item),
    operator.pow: (_is_power, _power),
    len: (lowering.is_array, lowering.length),
    int: (_is_number, _whole),
    range: (_is_range, _range),
    "getiter": (_is_iterable, _iterator),
    "iternext": (_is_iterator, _next),
    **{of: (_is_closed, _arithmetic(name)) for of, name in ARITHMETIC.items()},
    **{of: (_are_alike, _comparison(sign)) for of, sign in COMPARISONS.items()},
    **{of: (_is_extreme, _extreme(sign)) for of, sign in EXTREMES.items()},
}
"""What is done here otherwise than by numba."""

_function = BaseContext.get_function


def function(context: BaseContext, key: Any, sig: Any, **more: Any) -> Any:
    """Return what writes the instructions of a function: ours, else numba's."""
    own = OWN.get(key.typing_key if isinstance(key, types.Function) else key)
    if own is None or not own[0](context, sig):
        return _function(context, key, sig, **more)
    return lambda builder, args, loc=None: own[1](context, builder, sig, args)


def signature(context: Any, name: Any, args: tuple[Any, ...]) -> Any:
    """Return the signature of what numba would compile from Python, or look for; None: it is numba's."""
    if name in EXTREMES and all(isinstance(kind, types.Number) for kind in args):
        common = context.unify_types(*args)
        return common(*[common] * len(args))
    if name is int and isinstance(args[0], types.Number | types.Boolean):
        of: Any = types.unliteral(args[0])
        return (of if isinstance(of, types.Integer) else types.intp)(of)
    if name is operator.getitem and _is_member(context, types.void(*args)):
        return args[0].dtype(*args)
    if args in ((types.float64,) * 2, (types.int64,) * 2):
        if name in ARITHMETIC and name is not operator.truediv:
            return args[0](*args)
        if name in COMPARISONS:
            return types.boolean(*args)
    return None
