"""Voronoi (aNNE) partitions and the exact search for their cells.

Open ``model.py`` first, then ``search.py``. Loops compute scores of rows and centres (``_scores_loops.py``) and take
the nearest of each partitioning (``_settle_loops.py``). ``fused.py``, ``products.py`` and ``device_rows.py`` are for
GPUs.
"""

from ikmap.partitioners.voronoi.model import VoronoiPartitions, fit_voronoi

__all__ = ["VoronoiPartitions", "fit_voronoi"]
