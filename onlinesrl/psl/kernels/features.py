"""Features of values or forms in a hinge-loss model, and the most violated constraint."""

from onlinesrl.core.arrays import Floats
from onlinesrl.core.jit.decorators import kernel
from onlinesrl.psl.kernels.potentials import AT_MOST, EQUAL, HingeRows, is_off


@kernel
def measure(rows: HingeRows, y: Floats, features: Floats) -> tuple[float, int]:
    """Add every potential at y to the feature of its weight, which gives Phi(y).

    Returns the largest violation of a constraint and its row, -1 if there is none.
    """
    worst, worst_row = 0.0, -1
    for i in range(len(rows.constant)):
        form = rows.constant[i]
        for e in range(rows.start[i], rows.start[i + 1]):
            form += rows.coefficient[e] * y[rows.variable[e]]
        if rows.kind[i] >= AT_MOST:
            excess = abs(form) if rows.kind[i] == EQUAL else form
            if excess > worst:
                worst, worst_row = excess, i
        else:
            add_one(rows, i, form, features)
    return worst, worst_row


@kernel
def add(rows: HingeRows, form: Floats, features: Floats) -> None:
    """Add the potential of every row at its ``form`` to the feature of its weight."""
    for i in range(len(form)):
        if rows.kind[i] < AT_MOST:
            add_one(rows, i, form[i], features)


@kernel
def add_one(rows: HingeRows, i: int, form: float, features: Floats) -> None:
    """Add the potential of row i."""
    if not is_off(rows, i, form):
        features[rows.weight_index[i]] += form * form if rows.power[i] == 2 else form
