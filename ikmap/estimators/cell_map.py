"""What transformers to cells share."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from ikmap.cells import Cells
from ikmap.kernels.isolation import isolation_kernel
from ikmap.partitioners.base import Partitions
from ikmap.rows import Rows, as_rows, check_finite


class CellMap(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Rows to cells and their one-hot form, by `partitions_`; a subclass fits these.

    Its parameters have `normalize`, `n_jobs` and `random_state` among them.
    """

    partitions_: Partitions
    normalize: bool
    n_jobs: int | None
    random_state: Any

    def cells(self, X: Any) -> np.ndarray:
        """Cell of each row in each partitioning: int32 array of shape (n, t); -1 where it has none."""
        return self._map(X).codes

    def transform(self, X: Any) -> sp.csr_array:
        """One-hot form of the cells: CSR with an entry for each cell of a row, and a column for each cell there is."""
        return self._map(X).to_csr(normalize=self.normalize)

    def kernel(self, X: Any, Y: Any = None) -> np.ndarray:
        """Kernel matrix: for each pair the share of partitionings in which both fall in one cell, shape (n, m)."""
        return isolation_kernel(self._map(X), None if Y is None else self._map(Y), self._n_threads)

    @property
    def _n_features_out(self) -> int:
        return int(self.partitions_.offsets[-1])

    @property
    def _n_threads(self) -> int | None:
        return None if self.n_jobs is None or self.n_jobs < 0 else self.n_jobs

    @property
    def _seed(self) -> int:
        seed = self.random_state
        if not isinstance(seed, (int, np.integer)):
            seed = check_random_state(seed).randint(2**31 - 1)
        return int(seed)

    def _map(self, X: Any) -> Cells:
        check_is_fitted(self)
        return self.partitions_.cells(self._rows(X, reset=False), self._n_threads)

    def _rows(self, X: Any, reset: bool) -> Rows:
        rows = as_rows(
            validate_data(self, X, accept_sparse="csr", dtype=np.float64, ensure_all_finite=False, reset=reset)
        )
        check_finite(rows)
        return rows

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
