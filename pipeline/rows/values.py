"""Refuse values that a learner cannot take, before it sees them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ikmap.methods import KERNELS, LEARNERS
from ikmap.methods.kernel import NON_NEGATIVE
from ikmap.rows import Rows
from ikmap.step_size import StepTooLarge
from pipeline.errors import InputError, InvalidValues, NegativeValues


def check_values(
    name: str, rows: Rows, where: Callable[[int], str], column_names: list[str] | None, first: int = 0, kernel: str = ""
) -> None:
    """Refuse values that a learner cannot take.

    Parameters
    ----------
    where : callable
        Names the file and row of a row by its number in the training or test rows.
    first : int
        That number for ``rows[0]``.
    kernel : str
        Name of the learner's kernel, if it has one.

    Raises
    ------
    InvalidValues
        Naming file, row, column (its name, or its number from 1) and value.
    """
    methods = [kind.of_record({})[0] for kind in (LEARNERS.get(name), KERNELS.get(kernel)) if kind is not None]
    invalid = next(filter(None, (method.first_invalid(rows) for method in methods)), None)
    if invalid is not None:
        column = f"column {column_names[invalid.column]!r}" if column_names else f"feature {invalid.column + 1}"
        expected = f"expected {invalid.expected} for --learner {name}"
        text = f"{where(first + invalid.row)}, {column}: found {invalid.value:g}, {expected}"
        if invalid.expected == NON_NEGATIVE:
            raise NegativeValues(f"{text} (--scale minmax)")
        raise InvalidValues(text)


def kernel_in(model: object) -> str:
    """Return the name of the kernel of a model, or an empty text if it has none."""
    kernel = getattr(model, "kernel", None)
    return str(kernel["name"]) if isinstance(kernel, dict) else ""


@contextmanager
def refusing_steps(learner: str) -> Iterator[None]:
    """Have a :class:`StepTooLarge` name the learner, as an :class:`InputError`.

    Raises
    ------
    InputError
    """
    try:
        yield
    except StepTooLarge as error:
        raise InputError(f"--learner {learner}: {error}") from None
