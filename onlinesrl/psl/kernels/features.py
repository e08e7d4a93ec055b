"""Features of values or forms in a hinge-loss model, and the most violated constraint."""

from onlinesrl.core.arrays import Bytes, Floats, Ints, Ints32
from onlinesrl.core.jit.decorators import kernel
from onlinesrl.psl.kernels.potentials import AT_MOST, EQUAL, PLAIN


@kernel
def measure(
    start: Ints,
    variable: Ints32,
    coefficient: Floats,
    constant: Floats,
    weight_index: Ints,
    power: Bytes,
    kind: Bytes,
    y: Floats,
    features: Floats,
) -> tuple[float, int]:
    """Add every potential at y to the feature of its weight, which gives Phi(y).

    Returns the largest violation of a constraint and its row, -1 if there is none.
    """
    worst, worst_row = 0.0, -1
    for i in range(len(constant)):
        form = constant[i]
        for e in range(start[i], start[i + 1]):
            form += coefficient[e] * y[variable[e]]
        if kind[i] >= AT_MOST:
            excess = abs(form) if kind[i] == EQUAL else form
            if excess > worst:
                worst, worst_row = excess, i
        elif form > 0.0 or kind[i] == PLAIN:
            features[weight_index[i]] += form * form if power[i] == 2 else form
    return worst, worst_row


@kernel
def add(form: Floats, weight_index: Ints, power: Bytes, kind: Bytes, features: Floats) -> None:
    """Add the potential of every row at its ``form`` to the feature of its weight."""
    for i in range(len(form)):
        if kind[i] == PLAIN or (kind[i] < AT_MOST and form[i] > 0.0):
            features[weight_index[i]] += form[i] * form[i] if power[i] == 2 else form[i]
