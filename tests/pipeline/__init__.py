"""Tests of ``pipeline/``, in folders named like its own. Whole runs of commands are in ``tests/system``."""
