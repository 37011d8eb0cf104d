"""Tests of the benchmarks: that they run, and that their tables and pictures say what was measured."""
