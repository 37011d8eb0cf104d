"""Constraints of an estimator's parameters that follow from the fields of the method that it stands for."""

from __future__ import annotations

import math
from numbers import Integral, Real

from sklearn.utils._param_validation import Interval, StrOptions

from ikmap.methods import Configured, fields_of
from ikmap.methods.kinds import Choice, Flag, Integer, Kind
from ikmap.methods.kinds import Real as RealNumber

type Constraint = Interval | StrOptions | str | None
"""One of the forms that ``_parameter_constraints`` of scikit-learn take."""


def constraints(kind: type[Configured], **renamed: str) -> dict[str, list[Constraint]]:
    """Return the constraints of the fields of a method, as scikit-learn writes those of parameters.

    Fields whose values are neither numbers nor words of a list are left out.

    Parameters
    ----------
    kind : type
        The class of the method.
    **renamed : str
        By the name of a field, that of the estimator's parameter, where it is another: ``t="n_estimators"``.

    Returns
    -------
    dict of str to list
        By the name of the parameter.
    """
    found: dict[str, list[Constraint]] = {}
    for name, field in fields_of(kind).items():
        if constraint := _of_kind(field.kind):
            found[renamed.get(name, name)] = constraint + ([None] if field.default is None else [])
    return found


def _of_kind(kind: Kind) -> list[Constraint]:
    match kind:
        case Flag():
            return ["boolean"]
        case Integer(low=low, high=high, words=words):
            return [Interval(Integral, low, high, closed="left" if high is None else "both"), *_words(words)]
        case RealNumber(low=low, high=high, words=words):
            closed = {(False, False): "neither", (True, False): "left", (False, True): "right", (True, True): "both"}
            ends = [end if math.isfinite(end) else None for end in (low, high)]
            return [Interval(Real, *ends, closed=closed[kind.with_low, kind.with_high]), *_words(words)]
        case Choice(known=words):
            return _words(words)
    return []


def _words(words: tuple[str, ...]) -> list[Constraint]:
    return [StrOptions(set(words))] if words else []
