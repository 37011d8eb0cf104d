"""scikit-learn estimators."""

from ikmap.estimators.classifiers import CellLogisticRegression, CellSVC
from ikmap.estimators.gcws import GCWSMap
from ikmap.estimators.maps import IsolationKernelMap
from ikmap.estimators.mondrian import MondrianMap, MondrianRegressor
from ikmap.estimators.norma import CellNormaClassifier, CellNormaRegressor
from ikmap.estimators.norma_detector import CellNormaDetector
from ikmap.estimators.novelty import IDKDetector
from ikmap.estimators.online import CellOGDClassifier
from ikmap.estimators.online_regressor import CellOGDRegressor
from ikmap.estimators.quantiles import IsolationQuantileRegressor
from ikmap.estimators.regressors import CellRidge
from ikmap.estimators.svr import CellSVR
from ikmap.estimators.table_encoder import TableEncoder

__all__ = [
    "CellLogisticRegression",
    "CellNormaClassifier",
    "CellNormaDetector",
    "CellNormaRegressor",
    "CellOGDClassifier",
    "CellOGDRegressor",
    "CellRidge",
    "CellSVC",
    "CellSVR",
    "GCWSMap",
    "IDKDetector",
    "IsolationKernelMap",
    "IsolationQuantileRegressor",
    "MondrianMap",
    "MondrianRegressor",
    "TableEncoder",
]
