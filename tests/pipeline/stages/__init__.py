"""Tests of single stages, on small stores and without worker processes where possible."""
