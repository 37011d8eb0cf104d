"""Tests of the scikit-learn estimators, scikit-learn's own checks among them."""
