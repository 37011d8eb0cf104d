"""Features of the eGMM kernel in two stages: random Fourier features of codes of GCWS (algorithms.md 10.5).

Codes are rows of length 1 with an entry for each hash, of which two have the squared distance ``2 (1 - GMM)`` in
expectation. So the Gaussian kernel of inverse width ``le / 2`` on them is ``exp(-le (1 - GMM))``, the eGMM kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ikmap.maps.fourier import FourierMap
from ikmap.model import Model
from ikmap.partitioners.gcws import GCWSPartitions
from ikmap.rows import Rows


@dataclass(frozen=True, eq=False)
class TwoStageMap(Model):
    """A map to random Fourier features of the codes of rows.

    Parameters
    ----------
    hashes : GCWSPartitions
    fourier : FourierMap
        Map of as many columns as all hashes have codes.

    Notes
    -----
    A row of zeros has no code, and the value ``exp(-le / 2)`` with all others, where the kernel has ``exp(-le)``.
    Source: Li, "Several tunable GMM kernels", who calls it impractical.
    """

    kind: ClassVar[str] = "two-stage-gmm"
    version: ClassVar[int] = 1

    hashes: GCWSPartitions
    fourier: FourierMap

    @classmethod
    def draw(cls, n_columns: int, le: float, codes: int, bits: int, features: int, seed: int) -> Self:
        """Return the map of rows of so many columns.

        Parameters
        ----------
        le : float
            Factor of the exponential, > 0.
        codes, bits : int
            Number of hashes, and bits of the code of each.
        features : int
            Number of frequencies: each has a sine and a cosine.
        """
        hashes = GCWSPartitions(seed=seed, t=codes, p=1.0, b=bits, gamma=1, full=True, n_features=n_columns)
        return cls(hashes, FourierMap.gaussian(features, codes << bits, le / 2, seed))

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.fourier.n_features

    def transform(self, X: Rows, n_threads: int | None = None) -> NDArray[np.float64]:
        """Return the features of rows: float64, shape (n, n_features).

        Raises
        ------
        ValueError
            The number of columns is another one.
        """
        return self.fourier.transform(self.hashes.cells(X, n_threads).to_csr(), n_threads)
