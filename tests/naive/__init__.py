"""Slow and obvious versions of the algorithms, which the tests compare the fast ones with."""

from tests.naive.partitioners import isolation_kernel, isolation_trees, subsamples, tree_cells, voronoi_cells

__all__ = ["isolation_kernel", "isolation_trees", "subsamples", "tree_cells", "voronoi_cells"]
