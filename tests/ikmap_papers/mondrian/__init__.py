"""Tests of the Mondrian paper."""
