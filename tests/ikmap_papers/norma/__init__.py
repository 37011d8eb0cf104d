"""Tests of the NORMA paper."""
