"""Papers to reproduce, one folder a paper, and the systems that only they need.

A folder holds the experiments of a paper, its printed numbers, its figures and forms, and the methods that the product
itself does not need. All of it uses ``ikmap`` and ``pipeline`` by their public names, and both work without this
package. No ``__init__`` of it imports ``pipeline``, so that ``ikmap`` can read the methods without Dask.
"""

from __future__ import annotations

PAPERS: tuple[str, ...] = ("gmm", "isolation_kernel", "mondrian", "norma")
"""Folders of papers; the module ``paper`` of each has the :class:`pipeline.reproduce.paper.Paper` as ``PAPER``."""
DEFAULT = "isolation-kernel"
"""Name of the paper that ``flows.reproduce`` is about unless ``--paper`` names another."""
