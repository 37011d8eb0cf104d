"""Messages about parameters of estimators use the names that the user typed."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator

import ikmap
from ikmap.estimators.parameters import checked
from ikmap.methods.kinds import Integer

ESTIMATORS: list[type[BaseEstimator]] = [
    one for name in ikmap.__all__ if inspect.isclass(one := getattr(ikmap, name)) and issubclass(one, BaseEstimator)
]
COUNTS = ("n_estimators", "max_samples", "n_epochs")


@pytest.mark.parametrize(
    ("kind", "name"),
    [(kind, name) for kind in ESTIMATORS for name in COUNTS if name in kind().get_params()],
    ids=lambda of: of if isinstance(of, str) else of.__name__,
)
@pytest.mark.parametrize("value", [0, -1, 1.5, True])
def test_a_number_out_of_range_is_named_as_it_was_typed(kind: type[BaseEstimator], name: str, value: object) -> None:
    X = np.random.default_rng(0).random((40, 3))
    with pytest.raises(ValueError, match=rf"^{name}: found {value!r}, expected an integer >= 1"):
        kind(**{name: value}).fit(X, (X[:, 0] > 0.5).astype(int))


def test_a_whole_number_is_taken_as_it_is() -> None:
    assert checked("b", np.int64(3), Integer(1, 3)) == 3
    with pytest.raises(ValueError, match=r"^b: found 4, expected an integer >= 1 and <= 3$"):
        checked("b", 4, Integer(1, 3))


WEIGHED = pytest.mark.parametrize("kind", [ikmap.CellOGDClassifier, ikmap.CellSVC, ikmap.CellLogisticRegression])


@WEIGHED
@pytest.mark.parametrize("value", [0, 1.5, [1, 5], np.array([1.0, 5.0]), "even"], ids=str)
def test_class_weights_that_are_none_are_named(kind: Any, value: Any) -> None:
    with pytest.raises(ValueError, match=r"^class_weight: found .*, expected a dict, 'balanced' or None"):
        kind(class_weight=value).fit(np.eye(4), [0, 1, 0, 1])


@WEIGHED
def test_class_weights_of_other_labels_and_below_0_are_named(kind: Any) -> None:
    with pytest.raises(ValueError, match=r"^class_weight: found a weight of 2, which is no class, and none of class 1"):
        kind(class_weight={0: 2.0, 2: 3.0}).fit(np.eye(4), [0, 1, 0, 1])
    with pytest.raises(ValueError, match=r"^class_weight of 1: found -1\.0, expected a number >= 0$"):
        kind(class_weight={1: -1.0}).fit(np.eye(4), [0, 1, 0, 1])
    kind(class_weight={0: 2.0, 1: 1.0, 2: 3.0}).fit(np.eye(4), [0, 1, 0, 1])  # a fold may lack a class
