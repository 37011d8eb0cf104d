"""scikit-learn estimators."""

from ikmap.estimators.classifiers import CellLogisticRegression, CellOGDClassifier, CellSVC
from ikmap.estimators.maps import IsolationKernelMap

__all__ = ["CellLogisticRegression", "CellOGDClassifier", "CellSVC", "IsolationKernelMap"]
