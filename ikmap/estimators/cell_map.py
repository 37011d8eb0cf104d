"""Bases of transformers to cells, and of all estimators that draw partitionings from their rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import TransformerMixin
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import check_is_fitted

from ikmap.arrays import Floats, Integers, Objects
from ikmap.cells import Cells
from ikmap.estimators.base import Estimator, Table
from ikmap.estimators.parameters import checked
from ikmap.kernels.isolation import isolation_kernel
from ikmap.methods import PsiMap
from ikmap.methods.kinds import Choice
from ikmap.partitioners import Partitions, draw_subsamples
from ikmap.rows import Rows, as_rows

PARAMETER_OF_FIELD = {"t": "n_estimators", "psi": "max_samples"}
"""Names that estimators have for these fields of maps."""


class Partitioned(Estimator):
    """Base of estimators with partitionings of their own.

    Attributes
    ----------
    partitions_ : Partitions
    """

    renamed: ClassVar[Mapping[str, str]] = PARAMETER_OF_FIELD

    partitions_: Partitions
    method: str
    disjoint: bool = False

    def _rows(self, X: Table, reset: bool, y: ArrayLike | None = None) -> Rows:
        return as_rows(self._features(X, reset, y))

    def _map(self, X: Table) -> Cells:
        """Return the cells of rows that were not learned from."""
        check_is_fitted(self)
        return self.partitions_.cells(self._rows(X, reset=False), self._n_threads)

    def _check_method(self, name: str) -> type[PsiMap]:
        """Return the class of the map of that name, one of ``methods``."""
        kinds = {kind.about.name: kind for kind in self.methods if issubclass(kind, PsiMap)}
        return kinds[checked("method", name, Choice(tuple(kinds)))]

    def _draw(self, kind: type[PsiMap], rows: Rows, psi: int, seed: int, **values: object) -> Partitions:
        """Return partitionings by points drawn from the rows."""
        configured = self._method(kind, psi=psi, **values)
        draws = draw_subsamples(rows.shape[0], configured.t, psi, seed, disjoint=self.disjoint)
        return configured.partitions(rows, draws, seed, self._n_threads)


class CellMap(TransformerMixin, Partitioned):
    """Base of transformers of rows to cells and their one-hot form; a subclass draws the partitionings.

    Attributes
    ----------
    normalize : bool
        Whether an entry is 1/sqrt(t), so that products are kernel values; else 1.
    """

    normalize: bool

    def _fit(self, rows: Rows) -> None:
        """Draw the partitionings."""
        raise NotImplementedError

    @property
    def _map_names(self) -> list[str]:
        """Name of each map whose partitionings stand side by side, once they are drawn."""
        return [self.methods[0].about.name]

    def fit(self, X: Table, y: ArrayLike | None = None) -> Self:
        """Draw the partitionings.

        Parameters
        ----------
        X : array-like, sparse matrix or DataFrame, shape (n, d)
        y : array-like, shape (n,), optional
            Targets, by which words of a table are encoded; ignored if there are only numbers.

        Raises
        ------
        ValueError
            A parameter is out of range, or an entry is not finite.
        """
        self._fit(self._rows(X, True, y))
        return self

    def fit_transform(self, X: Table, y: ArrayLike | None = None, **fit_params: object) -> sp.csr_array | Floats:  # noqa: ARG002
        """Fit, and transform the same rows.

        The words of a row are encoded by the targets of other rows, never by its own.
        """
        rows = self._rows(X, True, y)
        self._fit(rows)
        return self._one_hot(self.partitions_.cells(rows, self._n_threads))

    def transform(self, X: Table) -> sp.csr_array | Floats:
        """Return the one-hot form of the cells, with a column for each cell there is.

        Returns
        -------
        csr_array, shape (n, number of cells)
            One entry for each cell that the row is in. Dense if ``set_output`` asks for DataFrames.
        """
        return self._one_hot(self._map(X))

    def cells(self, X: Table) -> Integers:
        """Return the cell of each row in each partitioning: int32, shape (n, t); -1 where it has none."""
        return self._map(X).codes

    def kernel(self, X: Table, Y: Table | None = None) -> Floats:
        """Return the kernel matrix, shape (n, m): the share of partitionings in which two rows fall in one cell."""
        return isolation_kernel(self._map(X), None if Y is None else self._map(Y), self._n_threads)

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> Objects:  # noqa: ARG002
        """Return the names of the columns: "iforest0_17" is cell 17 of the first partitioning, of the map iforest."""
        check_is_fitted(self)
        maps = zip(self._map_names, self.partitions_.single, strict=True)
        names = [name for name, part in maps for _ in range(part.n_partitions)]
        widths = np.diff(self.partitions_.offsets)
        return np.array(
            [f"{name}{i}_{cell}" for i, name in enumerate(names) for cell in range(widths[i])], dtype=object
        )

    def _one_hot(self, cells: Cells) -> sp.csr_array | Floats:
        one_hot: sp.csr_array = cells.to_csr(normalize=self.normalize)
        return one_hot if _get_output_config("transform", self)["dense"] == "default" else one_hot.toarray()
