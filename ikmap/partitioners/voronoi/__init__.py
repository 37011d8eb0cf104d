"""Voronoi (aNNE) partitions and the exact search for their cells."""

from ikmap.partitioners.voronoi.model import VoronoiPartitions, fit_voronoi

__all__ = ["VoronoiPartitions", "fit_voronoi"]
