"""Tests of classification: labels, figures, calibration."""
