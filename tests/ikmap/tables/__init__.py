"""Tests of the encoding of tables."""
