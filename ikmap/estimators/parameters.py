"""Parameters of estimators are checked by the fields of methods; messages use the names that the user typed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np

from ikmap.methods import Configured, DoesNotFit, FieldError, fields_of
from ikmap.methods.fields import with_options
from ikmap.methods.kinds import Integer, Kind, Real

COUNT = Integer(1)
POSITIVE = Real(0.0)
NOT_NEGATIVE = Real(0.0, with_low=True)


def plain(value: object) -> object:
    """Return a number of NumPy as one of Python, and anything else as it is."""
    return value.item() if isinstance(value, np.generic) else value


def checked[V](name: str, value: V, kind: Kind) -> V:
    """Return the value of a parameter that no field declares, in its own type.

    Raises
    ------
    ValueError
        The parameter cannot have the value: the message has its name.
    """
    try:
        result: V = kind.check(plain(value))
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    return result


def configured[M: Configured](
    kind: type[M], parameters: Mapping[str, object], renamed: Mapping[str, str], values: Mapping[str, object]
) -> M:
    """Return a method with the values of parameters.

    Parameters
    ----------
    kind : type
        The class of the method.
    parameters : mapping of str to value
    renamed : mapping of str to str
        By name of a field, the name of its parameter where that is another.
    values : mapping of str to value
        Values of fields that take precedence over parameters.

    Raises
    ------
    ValueError
        A field cannot have its value, or values contradict each other; the message has names of parameters.
    """
    names = {field: renamed.get(field, field) for field in fields_of(kind)}
    given = {field: plain(parameters[name]) for field, name in names.items() if name in parameters}
    try:
        return kind(**given | {field: plain(value) for field, value in values.items()})
    except FieldError as error:
        raise ValueError(error.worded(lambda name: names.get(name, name))) from None


@contextmanager
def naming_parameters(names: Mapping[str, str]) -> Iterator[None]:
    """Name parameters in the error of a model that does not fit into memory.

    Parameters
    ----------
    names : mapping of str to str
        By name of a field, the name of its parameter where that is another.

    Raises
    ------
    ValueError
        The model does not fit.
    """
    try:
        yield
    except DoesNotFit as error:
        raise ValueError(with_options(str(error), lambda field: names.get(field, field))) from None


def subsample_size(value: object, n_rows: int, automatic: int) -> int:
    """Return psi as the parameter ``max_samples`` says it: a number of rows, or `automatic` for "auto".

    Raises
    ------
    ValueError
        The value is neither "auto" nor a whole number from 1 to the number of rows.
    """
    if isinstance(value, str) and value == "auto":
        return automatic
    size = checked("max_samples", value, Integer(1, words=("auto",)))
    assert isinstance(size, int)
    if size > n_rows:
        raise ValueError(f"max_samples: found {size}, expected at most {n_rows}, the number of rows")
    return size
