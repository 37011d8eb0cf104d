"""Slow, obvious versions of every method: the oracle of each fast one."""

from tests.naive.partitioners import isolation_kernel, isolation_trees, subsamples, tree_cells, voronoi_cells

__all__ = ["isolation_kernel", "isolation_trees", "subsamples", "tree_cells", "voronoi_cells"]
