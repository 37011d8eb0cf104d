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
        File and row, for people, of a row by its number; that of the first of `rows` is `first`.

    kernel : str
        Name of the kernel that it has, if it has one.

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
    """Name of the kernel that a model has; empty: it has none."""
    found = getattr(model, "kernel", None)
    return str(found["name"]) if isinstance(found, dict) else ""


@contextmanager
def refusing_steps(learner: str) -> Iterator[None]:
    """Say whose steps are too large for the rows.

    Raises
    ------
    InputError
    """
    try:
        yield
    except StepTooLarge as error:
        raise InputError(f"--learner {learner}: {error}") from None
