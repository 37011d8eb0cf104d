"""Tests of the mathematics, in folders named like those of ``ikmap/``; most compare with ``tests/naive``."""
