"""Random numbers: independent generators for all parts, derived from one integer seed."""

from __future__ import annotations

import numpy as np


def generator(seed: int, *path: int) -> np.random.Generator:
    """Return the generator of one part (a tree, a fold, a block) of a seeded object.

    Parameters
    ----------
    seed : int
        The one seed of the fitted object, >= 0.
    *path : int
        Which part: non-negative integers, for example the number of the partitioning.

    Notes
    -----
    Parts draw from generators of their own so that results do not depend on the order, the thread or the
    machine in which parts are computed (algorithms.md, section 1). The path is a spawn key, not more entropy:
    entropy is padded with zeros, which would give the parts (), (0,) and (0, 0) the same numbers.
    """
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=path)))
