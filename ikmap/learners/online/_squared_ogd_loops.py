"""Compiled loop of online gradient descent on squared errors."""

from ikmap.compiled import compiled
from ikmap.learners._rows_loops import axpy, dot


@compiled({"ogd numbers": "{cells}, f8[::1], f8[::1], f8, f8, f8, i8, f8[::1], f8[::1]"})
def squared_pass(rows, y, w, eta, divisor, total, seen, norms, predicted):
    """Predict each row, then move the weights of its cells by eta times the error. Returns the total of all targets.

    The prediction is the mean of the targets so far, ``total`` over ``seen`` rows before the first of these, and the
    sum of the row's weights over ``divisor``. The error is what is left with the mean that counts the row too.
    Steps are divided by ``norms`` above 1, squared norms over the largest one of which steps are not divided: rows are
    not thrown beyond their targets. Empty: none is.
    """
    for i in range(y.size):
        mean = total / seen if seen > 0 else 0.0
        found = dot(rows, i, w) / divisor
        predicted[i] = found + mean
        total += y[i]
        seen += 1
        step = eta * ((y[i] - total / seen) - found)
        if norms.size and norms[i] > 1.0:
            step /= norms[i]
        axpy(rows, i, step, w)
    return total
