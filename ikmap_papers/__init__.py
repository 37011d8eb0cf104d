"""Papers to reproduce, one folder a paper, and the systems that only they need.

A folder holds the experiments of a paper, its printed numbers, its figures and forms, and the methods that the product
itself does not need. All of it uses ``ikmap`` and ``pipeline`` by their public names, and both work without this
package. No ``__init__`` of it imports ``pipeline``, so that ``ikmap`` can read the methods without Dask.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ikmap.methods import Method

PAPERS: tuple[str, ...] = ("gmm", "isolation_kernel", "mondrian", "norma")
"""Folders of papers; the module ``paper`` of each has the :class:`pipeline.reproduce.paper.Paper` as ``PAPER``."""
DEFAULT = "isolation-kernel"
"""Name of the paper that ``flows.reproduce`` is about unless ``--paper`` names another."""


def methods() -> tuple[type[Method], ...]:
    """Return the methods of all papers, in the order in which they are listed after those of the product."""
    from ikmap_papers.isolation_kernel.adaraker import AdaRaker, Raker
    from ikmap_papers.isolation_kernel.dual_ogd import DualOGD
    from ikmap_papers.isolation_kernel.naive_ogd import NaiveOGD
    from ikmap_papers.isolation_kernel.nogd import NOGD
    from ikmap_papers.norma.norma_dual import NormaDual

    return NaiveOGD, DualOGD, NormaDual, NOGD, AdaRaker, Raker


# Whoever imports a module of a paper first, as a worker does that reads a pickled learner, finds all methods registered
# before that module runs; the registry needs `methods` of this module, which is why this import comes last.
import ikmap.methods  # noqa: E402, F401
