"""Exact, sparse kernel features from random partitionings, and linear learning on them."""

from __future__ import annotations

from importlib import import_module
from os import PathLike
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ikmap.estimators.auto import AutoClassifier, AutoRegressor
    from ikmap.estimators.boosting import CellBoostingClassifier, CellBoostingRegressor
    from ikmap.estimators.dual import CellLogisticRegression, CellSVC, CellSVR
    from ikmap.estimators.forest import ForestMap
    from ikmap.estimators.gcws import GCWSMap
    from ikmap.estimators.kernels import (
        FourierRidge,
        FourierSVC,
        KernelRidgeRegressor,
        KernelSVC,
        TwoStageGMMClassifier,
    )
    from ikmap.estimators.maps import IsolationKernelMap
    from ikmap.estimators.mondrian import (
        MondrianForestRegressor,
        MondrianMap,
        MondrianRegressor,
        OnlineMondrianRegressor,
    )
    from ikmap.estimators.norma import CellNormaClassifier, CellNormaDetector, CellNormaRegressor
    from ikmap.estimators.novelty import IDKDetector
    from ikmap.estimators.ogd import CellOGDClassifier, CellOGDRegressor
    from ikmap.estimators.quantiles import IsolationQuantileRegressor
    from ikmap.estimators.ridge import CellRidge
    from ikmap.estimators.stacking import CellStackingClassifier, CellStackingRegressor
    from ikmap.estimators.table_encoder import TableEncoder
    from ikmap.tables.frames import FrameModel
__all__ = [
    "AutoClassifier",
    "AutoRegressor",
    "CellBoostingClassifier",
    "CellBoostingRegressor",
    "CellLogisticRegression",
    "CellNormaClassifier",
    "CellNormaDetector",
    "CellNormaRegressor",
    "CellOGDClassifier",
    "CellOGDRegressor",
    "CellRidge",
    "CellSVC",
    "CellSVR",
    "CellStackingClassifier",
    "CellStackingRegressor",
    "ForestMap",
    "FourierRidge",
    "FourierSVC",
    "GCWSMap",
    "IDKDetector",
    "IsolationKernelMap",
    "IsolationQuantileRegressor",
    "KernelRidgeRegressor",
    "KernelSVC",
    "MondrianForestRegressor",
    "MondrianMap",
    "MondrianRegressor",
    "OnlineMondrianRegressor",
    "TableEncoder",
    "TwoStageGMMClassifier",
    "load",
]


def load(path: str | PathLike[str], learner: str | None = None) -> FrameModel:
    """Load the model of a finished run of ``flows.batch``, which predicts rows of DataFrames and arrays.

    What reads a run is no part of this package: the package that has it says so under the entry point ``ikmap.load``.

    Parameters
    ----------
    path : path
        Directory of the run.
    learner : str, optional
        Which of the run's learners; default: the first one.

    Raises
    ------
    ImportError
        No package that reads runs is installed.
    """
    from importlib.metadata import entry_points

    for found in entry_points(group="ikmap.load"):
        model: FrameModel = found.load()(path, learner)
        return model
    raise ImportError("ikmap.load: found no package that reads runs; pip install 'ikmap[pipeline]', or install it anew")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> object:
    """Import an estimator on first use, so that a worker that maps blocks does not pay for scikit-learn."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("ikmap.estimators"), name)
