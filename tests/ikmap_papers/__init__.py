"""Tests of the papers: without them and without ``ikmap_papers``, all other tests pass."""
