"""Tests of regression: quantiles of the target."""
