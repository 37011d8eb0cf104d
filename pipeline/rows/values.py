"""Refuse values that a learner cannot take, before it sees them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ikmap.methods import KERNELS, LEARNERS
from ikmap.rows import Rows
from ikmap.step_size import StepTooLarge
from pipeline.errors import InputError, NegativeValues


def check_values(
    name: str, rows: Rows, where: Callable[[int], str], column_names: list[str] | None, first: int = 0, kernel: str = ""
) -> None:
    """Refuse values that a learner cannot take.

    Parameters
    ----------
    where : callable
        Function from the number of a row to its file and row, for people; the number of the first row is `first`.
    kernel : str
        Name of the learner's kernel, if it has one.

    Raises
    ------
    NegativeValues
        Naming file, row, column (its name, or its number from 1) and value.
    """
    methods = [kind.of_record({})[0] for kind in (LEARNERS.get(name), KERNELS.get(kernel)) if kind is not None]
    invalid = next(filter(None, (method.first_invalid(rows) for method in methods)), None)
    if invalid is not None:
        column = f"column {column_names[invalid.column]!r}" if column_names else f"feature {invalid.column + 1}"
        expected = f"expected {invalid.expected} for --learner {name} (--scale minmax)"
        raise NegativeValues(f"{where(first + invalid.row)}, {column}: found {invalid.value:g}, {expected}")


def kernel_in(model: object) -> str:
    """Return the name of the kernel of a model, or an empty text if it has none."""
    kernel = getattr(model, "kernel", None)
    return str(kernel["name"]) if isinstance(kernel, dict) else ""


@contextmanager
def refusing_steps(learner: str) -> Iterator[None]:
    """Turn the error for steps that are too large into one that names the learner.

    Raises
    ------
    InputError
    """
    try:
        yield
    except StepTooLarge as error:
        raise InputError(f"--learner {learner}: {error}") from None
