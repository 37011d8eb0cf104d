"""scikit-learn estimators."""

from ikmap.estimators.classifiers import CellLogisticRegression, CellOGDClassifier, CellSVC

__all__ = ["CellLogisticRegression", "CellOGDClassifier", "CellSVC"]
