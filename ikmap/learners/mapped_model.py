"""A fitted classifier on the features of a dense map: a linear SVM on approximate features, for example."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

from ikmap.arrays import Floats
from ikmap.learners.linear_model import LinearModel, OnOwnFeatures
from ikmap.rows import Rows

BLOCK = 1024
"""Rows whose features are in memory at a time."""


class FeatureMap(Protocol):
    """A map of rows to dense features."""

    def transform(self, X: Rows, n_threads: int | None = None, /) -> Floats: ...


@dataclass(frozen=True, eq=False)
class MappedModel(OnOwnFeatures):
    """A map of rows to dense features, and a linear model on them.

    Parameters
    ----------
    map : Model
        With ``transform(X, n_threads)``.
    linear : LinearModel
    """

    kind: ClassVar[str] = "mapped"
    version: ClassVar[int] = 1

    map: FeatureMap
    linear: LinearModel

    @property
    def rows_at_once(self) -> int:
        return BLOCK

    def features(self, rows: Rows, n_threads: int | None = None) -> Floats:
        return self.map.transform(rows, n_threads)
