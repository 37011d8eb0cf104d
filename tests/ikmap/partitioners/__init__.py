"""Tests of Voronoi cells and isolation trees: every fast search finds the cells that the obvious one finds."""
