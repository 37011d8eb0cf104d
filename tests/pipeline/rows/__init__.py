"""Tests of the rows that stages and learners read from the store: preparation, permutation, layout and blocks."""
