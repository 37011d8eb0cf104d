"""Tests of the automatic choice of a model."""
