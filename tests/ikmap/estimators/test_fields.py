"""The parameters of estimators beside the fields of the methods that they stand for: names, defaults and ranges."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval, StrOptions

import ikmap
from ikmap.methods import MAPS, Configured, fields_of, method
from tests.ikmap.estimators.constraints import constraints
from tests.ikmap.estimators.test_parameters import ESTIMATORS

CELLS = {"t": "n_estimators", "psi": "max_samples"}
OF_RUNS = "how large data are solved, which commands decide"
SEARCHED = "estimators are searched by those of scikit-learn: their default is a number that scikit-learn has"
AS_PAPER = "the paper that introduced the kernel has 100 and anne, as the docstring says"
BY_ROWS = 'the word "auto" takes a number by the rows, where commands search'
AS_SKLEARN = "scikit-learn spells it otherwise"
OF_SKLEARN = frozenset({
    "random_state", "n_jobs", "n_epochs", "shuffle", "max_iter", "fit_intercept", "normalize", "class_weight",
})  # fmt: skip
"""Parameters that only estimators have, or that scikit-learn has with other values: no field says anything of them."""


@dataclass(frozen=True)
class Stands:
    """Which fields the parameters of an estimator stand for.

    Attributes
    ----------
    estimator : str
    methods : tuple of str
        Of several, such as a map and a learner, the fields of all.
    renamed : mapping of str to str
        The name of the parameter for a field that has another.
    given : mapping of str to value
        Parameters that differ from their defaults, where others have a meaning by these only.
    own : frozenset of str
        Parameters that only the estimator has, beside those of scikit-learn.
    lacks : mapping of str to str
        Fields that are no parameters, and why.
    defaults, ranges : mapping of str to str
        Parameters with another default, or another range, and why.
    """

    estimator: str
    methods: tuple[str, ...]
    renamed: Mapping[str, str] = field(default_factory=dict)
    given: Mapping[str, object] = field(default_factory=dict)
    own: frozenset[str] = frozenset()
    lacks: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, str] = field(default_factory=dict)
    ranges: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.estimator}-{'-'.join(self.methods)}"

    @property
    def kind(self) -> type[BaseEstimator]:
        found: type[BaseEstimator] = getattr(ikmap, self.estimator)
        return found

    @property
    def classes(self) -> list[type[Configured]]:
        return [method(name) for name in self.methods]

    def defaults_of_fields(self) -> dict[str, object]:
        return {
            self.renamed.get(name, name): one.default
            for kind in self.classes
            for name, one in fields_of(kind).items()
            if name not in self.lacks
        }

    def constraints(self) -> dict[str, list[Any]]:
        found: dict[str, list[Any]] = {}
        for kind in self.classes:
            found |= constraints(kind, **self.renamed)
        return {name: of for name, of in found.items() if name not in self.lacks}


SOLVED = {"solver": OF_RUNS, "parts": OF_RUNS, "class_weight": AS_SKLEARN}
C_OF_SKLEARN = {"C": SEARCHED}
NORMA = {"eta", "regularization", "nu", "threshold"}
NORMA_LACKS = {
    "schedule": "decreasing says it, of two schedules", "horizon": "decreasing has none",
    "iterate": "average says it", "offset": "True, False or None, where commands have words",
}  # fmt: skip
NORMA_DEFAULTS = dict.fromkeys(NORMA, "None is what the word auto of commands is")
TABLE = (
    Stands(
        "IsolationKernelMap", ("anne",), CELLS, own=frozenset({"method", "max_depth", "disjoint"}),
        defaults={"max_samples": BY_ROWS},
    ),
    Stands(
        "IsolationKernelMap", ("iforest",), CELLS, given={"method": "iforest"}, own=frozenset({"method", "disjoint"}),
        defaults={"max_samples": BY_ROWS, "n_estimators": AS_PAPER, "max_depth": "None is the word none of commands"},
        ranges={"max_depth": "None is the word none of commands"},
    ),
    Stands(
        "GCWSMap", ("gcws",), {"t": "n_estimators"}, lacks={"bits": "partitionings are given by their number"},
        ranges={"gamma": "a larger one is slow, and commands refuse it", "p": "beyond 1e6 codes leave an int64"},
    ),
    Stands(
        "MondrianMap", ("mondrian",), {"t": "n_estimators"},
        defaults={"n_estimators": "as the paper has", "lifetime": "the unit of columns between 0 and 1"},
    ),
    Stands(
        "MondrianRegressor", ("mondrian",), {"t": "n_estimators"}, own=frozenset({"alpha", "select", "terminal"}),
        defaults={"n_estimators": "as the paper has", "lifetime": "a sweep finds it, as in commands"},
    ),
    Stands("CellSVC", ("svm",), lacks=SOLVED, defaults=C_OF_SKLEARN),
    Stands("CellLogisticRegression", ("logistic",), lacks=SOLVED, defaults=C_OF_SKLEARN),
    Stands(
        "CellSVR", ("svr",), {"svr_loss": "loss"}, lacks={"solver": OF_RUNS, "parts": OF_RUNS},
        ranges={"epsilon": "0 is the absolute error"},
    ),
    Stands(
        "CellRidge", ("ridge",), own=frozenset({"alpha"}),
        lacks={
            "solver": OF_RUNS, "sweep_by": OF_RUNS, "C": "alpha is 1 / (2 C), as Ridge of scikit-learn has it",
        },
    ),
    Stands(
        "CellOGDClassifier", ("ogd",), {"feature_scale": "scale"},
        lacks={"average": "the last weights decide"},
    ),
    Stands(
        "CellOGDRegressor", ("ogd",), {"feature_scale": "scale"}, lacks={"average": "the last weights decide"},
        ranges={"eta": "squared errors grow with steps of 2 or more"},
    ),
    Stands(
        "CellNormaClassifier", ("norma",), given={"loss": "nu"}, own=frozenset({"decreasing", "average", "offset"}),
        lacks=NORMA_LACKS, defaults={**NORMA_DEFAULTS, "loss": "the estimator is for one task"},
        ranges={"loss": "the estimator is for one task", **dict.fromkeys(NORMA, "None in place of the word auto")},
    ),
    Stands(
        "CellNormaRegressor", ("norma",), given={"loss": "epsilon"},
        own=frozenset({"decreasing", "average", "offset", "center", "unit"}),
        lacks=NORMA_LACKS, defaults={**NORMA_DEFAULTS, "loss": "the estimator is for one task"},
        ranges={"loss": "the estimator is for one task", **dict.fromkeys(NORMA, "None in place of the word auto")},
    ),
    Stands(
        "CellNormaDetector", ("norma",), own=frozenset({"decreasing", "average"}),
        lacks={**NORMA_LACKS, "loss": "the estimator is for one task", "threshold": "novelty learns it"},
        defaults={
            "eta": NORMA_DEFAULTS["eta"], "regularization": NORMA_DEFAULTS["regularization"],
            "nu": "what auto is for novelty",
        },
        ranges=dict.fromkeys(("eta", "regularization", "nu"), "no word auto: None, or of nu a number"),
    ),
    Stands(
        "IDKDetector", ("inne", "idk"), {**CELLS, "alert_rate": "contamination"}, own=frozenset({"method"}),
        lacks={"half_life": "of streams"}, defaults={"max_samples": BY_ROWS},
        ranges={"contamination": "scikit-learn has at most 0.5"},
    ),
    Stands(
        "IsolationQuantileRegressor", ("iforest", "quantile"), CELLS, own=frozenset({"method"}),
        lacks={"max_depth": "trees are whole"},
        defaults={
            "max_samples": BY_ROWS, "n_estimators": AS_PAPER, "quantiles": "numbers in place of a text",
        },
    ),
)  # fmt: skip
NO_METHOD = {"TableEncoder"}
"""Estimators that stand for no method."""


def test_every_estimator_stands_in_the_table() -> None:
    assert {one.estimator for one in TABLE} | NO_METHOD == {kind.__name__ for kind in ESTIMATORS}
    assert {name for one in TABLE for name in one.methods} >= MAPS.keys() - {"binning"}  # of which there is none


@pytest.mark.parametrize("one", TABLE, ids=str)
def test_every_parameter_stands_for_a_field(one: Stands) -> None:
    """Or only estimators have it; and every field is a parameter, or the table says why it is none."""
    parameters = set(one.kind().get_params())
    assert one.lacks.keys() <= {name for kind in one.classes for name in fields_of(kind)}
    assert one.own <= parameters
    assert parameters - OF_SKLEARN - one.own == one.defaults_of_fields().keys()


@pytest.mark.parametrize("one", TABLE, ids=str)
def test_defaults_are_those_of_the_fields(one: Stands) -> None:
    """Where the table does not say why not; what it says is so."""
    signature = inspect.signature(one.kind).parameters
    differ = {name for name, default in one.defaults_of_fields().items() if signature[name].default != default}
    assert differ == one.defaults.keys()


def _probes(of: list[Any]) -> Iterator[object]:
    """Yield values at the ends of a range, within it and beyond it; and every word, with one that is none."""
    for constraint in of:
        if isinstance(constraint, Interval):
            step = 1 if constraint.type is Integral else 1e-9
            low = constraint.left
            yield from (value for value in (low - step, low, low + step, constraint.right) if value is not None)
            yield 2 if constraint.type is Integral else 0.5
            if constraint.right is not None:
                yield from (constraint.right - step, constraint.right + step)
            elif constraint.type is not Integral:
                yield 1e7
        elif isinstance(constraint, StrOptions):
            yield from sorted(constraint.options)
            yield "no such word"


def _is_taken(one: Stands, name: str, value: object) -> bool:
    """Whether the estimator learns with a value, from so many rows that none is too large for them."""
    rng = np.random.default_rng(0)
    X = rng.random((40, 2))
    parameters = one.kind().get_params()
    few = {key: 3 for key in ("n_estimators",) if key in parameters}
    given = {**few, **one.given, name: value}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            one.kind(**given).fit(X, (X[:, 0] > 0.5).astype(int))
    except (ValueError, TypeError):
        return False
    return True


@pytest.mark.parametrize("one", TABLE, ids=str)
def test_what_is_refused_is_what_the_fields_refuse(one: Stands) -> None:
    """Where the table does not say why not; what it says is so."""
    differ = set()
    for name, of in one.constraints().items():
        for value in _probes(of):
            allowed = any(each is not None and each != "boolean" and each.is_satisfied_by(value) for each in of)
            if _is_taken(one, name, value) != allowed:
                differ.add(name)
    assert differ == one.ranges.keys()
