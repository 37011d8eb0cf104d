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
from sklearn.utils._param_validation import Interval, StrOptions

import ikmap
from ikmap.estimators.base import Estimator
from ikmap.methods import KERNELS, LEARNERS, MAPS, Configured, fields_of
from tests.ikmap.estimators.constraints import constraints
from tests.ikmap.estimators.test_parameters import ESTIMATORS

OF_RUNS = "how large data are solved, which commands decide"
SEARCHED = "estimators are searched by those of scikit-learn: their default is a number that scikit-learn has"
AS_PAPER = "the paper that introduced the kernel has 100 and anne, as the docstring says"
BY_ROWS = 'the word "auto" takes a number by the rows, where commands search'
AS_SKLEARN = "scikit-learn spells it otherwise"
FEW = {"n_estimators": 3, "n_partitions": 3, "cv": 2}
"""Numbers by which estimators learn fast."""
OF_SKLEARN = frozenset({
    "random_state", "n_jobs", "n_epochs", "shuffle", "max_iter", "fit_intercept", "normalize", "class_weight",
})  # fmt: skip
"""Parameters that only estimators have, or that scikit-learn has with other values: no field says anything of them."""


@dataclass(frozen=True)
class Stands:
    """How the parameters of an estimator differ from the fields of the methods that its class declares.

    Attributes
    ----------
    estimator : str
    only : tuple of str
        Those of its methods whose fields are meant, where it has several of which each run takes one; none: all.
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
    only: tuple[str, ...] = ()
    given: Mapping[str, object] = field(default_factory=dict)
    own: frozenset[str] = frozenset()
    lacks: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, str] = field(default_factory=dict)
    ranges: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return "-".join((self.estimator, *self.only))

    @property
    def kind(self) -> type[Estimator]:
        found: type[Estimator] = getattr(ikmap, self.estimator)
        return found

    @property
    def classes(self) -> list[type[Configured]]:
        return [one for one in self.kind.methods if not self.only or one.about.name in self.only]

    def defaults_of_fields(self) -> dict[str, object]:
        return {
            self.kind.renamed.get(name, name): one.default
            for kind in self.classes
            for name, one in fields_of(kind).items()
            if name not in self.lacks
        }

    def constraints(self) -> dict[str, list[Any]]:
        found: dict[str, list[Any]] = {}
        for kind in self.classes:
            found |= constraints(kind, **self.kind.renamed)
        return {name: of for name, of in found.items() if name not in self.lacks}


SOLVED = {"solver": OF_RUNS, "parts": OF_RUNS, "class_weight": AS_SKLEARN}
C_OF_SKLEARN = {"C": SEARCHED}
NORMA = {"eta", "regularization", "nu", "threshold"}
NORMA_LACKS = {
    "schedule": "decreasing says it, of two schedules", "horizon": "decreasing has none",
    "iterate": "average says it", "offset": "True, False or None, where commands have words",
}  # fmt: skip
NORMA_RANGES = {
    "eta": "no larger than one over the regularization", "nu": "a loss with nu 0 learns nothing",
}  # fmt: skip
NORMA_DEFAULTS = dict.fromkeys(NORMA, "None is what the word auto of commands is")
BY_KERNEL = {"kernel": "a name, as scikit-learn has it, with gamma and kernel_params beside it"}
OF_KERNEL = frozenset({"kernel", "gamma", "kernel_params"})
ALPHA = frozenset({"alpha"})
C_IS_ALPHA = {"C": "alpha is 1 / (2 C), as Ridge of scikit-learn has it"}
TREES = {"n_estimators": "as the paper has", "lifetime": "the unit of columns between 0 and 1"}
TABLE = (
    Stands(
        "IsolationKernelMap", ("anne",), own=frozenset({"method", "max_depth", "disjoint"}),
        defaults={"max_samples": BY_ROWS},
    ),
    Stands(
        "IsolationKernelMap", ("iforest",), given={"method": "iforest"}, own=frozenset({"method", "disjoint"}),
        defaults={"max_samples": BY_ROWS, "n_estimators": AS_PAPER, "max_depth": "None is the word none of commands"},
    ),
    Stands("CellBoostingClassifier", lacks={"quantile_level": "a class has none", "solver": OF_RUNS}),
    Stands("CellBoostingRegressor", lacks={"solver": OF_RUNS}),
    Stands("CellStackingClassifier"),
    Stands("CellStackingRegressor"),
    Stands("AutoClassifier", own=frozenset({"budget", "cv", "max_rows"})),
    Stands("AutoRegressor", own=frozenset({"budget", "cv", "max_rows"})),
    Stands(
        "ForestMap", own=frozenset({"task"}),
        defaults={"max_samples": BY_ROWS, "max_depth": "None is the word none of commands"},
    ),
    Stands("GCWSMap", lacks={"bits": "partitionings are given by their number"},
           ranges={"p": "beyond 1e6 codes leave an int64"}),
    Stands("MondrianMap", defaults=TREES),
    Stands(
        "MondrianRegressor", own=frozenset({"alpha", "select", "terminal"}),
        lacks={**C_IS_ALPHA, "solver": OF_RUNS, "tol": "an exact solution has none"},
        defaults={
            "n_estimators": "as the paper has", "lifetime": "a sweep finds it, as in commands",
            "sweep_by": "exact has a likelihood and standard deviations",
        },
    ),
    Stands(
        "OnlineMondrianRegressor", own=ALPHA, lacks=C_IS_ALPHA,
        defaults={**TREES, "n_estimators": "time grows with the square of the cells"},
    ),
    Stands("MondrianForestRegressor", own=ALPHA, lacks=C_IS_ALPHA, defaults=TREES),
    Stands("CellSVC", lacks=SOLVED, defaults=C_OF_SKLEARN),
    Stands("CellLogisticRegression", lacks=SOLVED, defaults=C_OF_SKLEARN),
    Stands("CellSVR", lacks={"solver": OF_RUNS, "parts": OF_RUNS}),
    Stands(
        "CellRidge", own=ALPHA,
        lacks={**C_IS_ALPHA, "solver": OF_RUNS, "sweep_by": "it sweeps over nothing: MondrianRegressor does"},
    ),
    Stands("CellOGDClassifier", lacks={"average": "the last weights decide"}),
    Stands(
        "CellOGDRegressor", lacks={"average": "the last weights decide"},
        ranges={"eta": "squared errors grow with steps of 2 or more"},
    ),
    Stands(
        "CellNormaClassifier", given={"loss": "nu"}, own=frozenset({"decreasing", "average", "offset"}),
        lacks=NORMA_LACKS, defaults={**NORMA_DEFAULTS, "loss": "the estimator is for one task"},
        ranges={"loss": "the estimator is for one task", **NORMA_RANGES},
    ),
    Stands(
        "CellNormaRegressor", given={"loss": "epsilon"},
        own=frozenset({"decreasing", "average", "offset", "center", "unit"}),
        lacks=NORMA_LACKS, defaults={**NORMA_DEFAULTS, "loss": "the estimator is for one task"},
        ranges={"loss": "the estimator is for one task", "eta": NORMA_RANGES["eta"]},
    ),
    Stands(
        "CellNormaDetector", own=frozenset({"decreasing", "average"}),
        lacks={**NORMA_LACKS, "loss": "the estimator is for one task", "threshold": "novelty learns it"},
        defaults={
            "eta": NORMA_DEFAULTS["eta"], "regularization": NORMA_DEFAULTS["regularization"],
            "nu": "what auto is for novelty",
        },
        ranges=NORMA_RANGES,
    ),
    Stands(
        "IDKDetector", ("inne", "idk"), own=frozenset({"method"}),
        lacks={"half_life": "of streams"}, defaults={"max_samples": BY_ROWS},
        ranges={"contamination": "scikit-learn has at most 0.5"},
    ),
    Stands(
        "IsolationQuantileRegressor", ("iforest", "quantile"), own=frozenset({"method"}),
        lacks={"max_depth": "trees are whole"},
        defaults={
            "max_samples": BY_ROWS, "n_estimators": AS_PAPER, "quantiles": "numbers in place of a text",
        },
    ),
    Stands("KernelSVC", own=OF_KERNEL, lacks={**BY_KERNEL, "class_weight": AS_SKLEARN}),
    Stands("KernelRidgeRegressor", own=OF_KERNEL | ALPHA, lacks={**BY_KERNEL, **C_IS_ALPHA}),
    Stands("FourierSVC", own=OF_KERNEL, lacks={**BY_KERNEL, "class_weight": AS_SKLEARN}),
    Stands("FourierRidge", own=OF_KERNEL | ALPHA, lacks={**BY_KERNEL, **C_IS_ALPHA}),
    Stands("TwoStageGMMClassifier", given={"codes": 4, "code_bits": 4}, lacks={"class_weight": AS_SKLEARN}),
)  # fmt: skip
NO_ESTIMATOR = {
    "binning": "a paper compares with it, and commands do so again",
    "chi2-linear": "AdditiveChi2Sampler of scikit-learn is the map", "chi2-svm": "SVC takes a function as its kernel",
    "iforest-score": "IsolationForest of scikit-learn is one", "kernel-ogd": "CellOGDClassifier has an exact kernel",
    "linear-model": "LogisticRegression and Ridge of scikit-learn are",
    "isolation-svm": "SVC takes the kernel matrix of IsolationKernelMap",
}  # fmt: skip
"""Methods that are no estimator, and why."""
NO_METHOD = {"TableEncoder"}
"""Estimators that stand for no method."""


def test_every_estimator_stands_in_the_table() -> None:
    assert {one.estimator for one in TABLE} | NO_METHOD == {kind.__name__ for kind in ESTIMATORS}
    declared = {one.about.name for kind in ESTIMATORS for one in getattr(kind, "methods", ())}
    names = {name for name, kind in (MAPS | LEARNERS).items() if kind.__module__.startswith("ikmap.")}
    assert names - declared == NO_ESTIMATOR.keys()
    assert "intersection" in KERNELS


@pytest.mark.parametrize("one", TABLE, ids=str)
def test_every_parameter_stands_for_a_field(one: Stands) -> None:
    """Or only estimators have it; and every field is a parameter, or the table says why it is none."""
    parameters = set(one.kind().get_params()) - (one.lacks.keys() - one.own)
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
    few = {key: number for key, number in FEW.items() if key in parameters}
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
