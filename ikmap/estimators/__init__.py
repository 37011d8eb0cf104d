"""scikit-learn estimators.

Open ``base.py`` first. Each class declares in ``methods`` which methods its parameters configure; the fields of these
check the parameters.
"""

from ikmap.estimators.auto import AutoClassifier, AutoRegressor
from ikmap.estimators.boosting import CellBoostingClassifier, CellBoostingRegressor
from ikmap.estimators.dual import CellLogisticRegression, CellSVC, CellSVR
from ikmap.estimators.forest import ForestMap
from ikmap.estimators.gcws import GCWSMap
from ikmap.estimators.kernels import FourierRidge, FourierSVC, KernelRidgeRegressor, KernelSVC, TwoStageGMMClassifier
from ikmap.estimators.maps import IsolationKernelMap
from ikmap.estimators.mondrian import MondrianForestRegressor, MondrianMap, MondrianRegressor, OnlineMondrianRegressor
from ikmap.estimators.norma import CellNormaClassifier, CellNormaDetector, CellNormaRegressor
from ikmap.estimators.novelty import IDKDetector
from ikmap.estimators.ogd import CellOGDClassifier, CellOGDRegressor
from ikmap.estimators.quantiles import IsolationQuantileRegressor
from ikmap.estimators.ridge import CellRidge
from ikmap.estimators.stacking import CellStackingClassifier, CellStackingRegressor
from ikmap.estimators.table_encoder import TableEncoder

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
]
