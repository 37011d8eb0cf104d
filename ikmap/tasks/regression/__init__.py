"""Regression: a number to predict for each row, or several quantiles of it."""

from __future__ import annotations

from ikmap.tasks.regression.kind import REGRESSION, Regression

__all__ = ["REGRESSION", "Regression"]
