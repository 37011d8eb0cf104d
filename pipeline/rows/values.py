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
    able = [one.of_record({})[0] for one in (LEARNERS.get(name), KERNELS.get(kernel)) if one is not None]
    found = next(filter(None, (one.refused(rows) for one in able)), None)
    if found is not None:
        row, column, value, expected = found
        named = f"column {column_names[column]!r}" if column_names else f"feature {column + 1}"
        asked = f"expected {expected} for --learner {name} (--scale minmax)"
        raise NegativeValues(f"{where(first + row)}, {named}: found {value:g}, {asked}")


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
