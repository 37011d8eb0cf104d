"""Tests of the repository itself: imports, pins, documentation, examples, and that no file names a machine."""
