"""The data sets as the pipeline prepares them, whole and in memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.harness import Options
from ikmap.rows import Rows, as_dense
from ikmap.tasks import plain_label
from pipeline.rows.density import DENSE_COLUMNS, DENSE_SHARE
from pipeline.rows.split import Split
from pipeline.sources import ReadRequest, open_source
from pipeline.sources.columns.request import TableRequest
from pipeline.sources.datasets.known import load_registry
from pipeline.sources.datasets.registry import ResolvedDataset, resolve

QUICK_ROWS = 1500


@dataclass(frozen=True)
class Data:
    """Training and test rows: features and class numbers."""

    name: str
    X: Rows
    y: np.ndarray
    X_test: Rows
    y_test: np.ndarray
    n_classes: int

    @property
    def dense(self) -> np.ndarray:
        """Training rows as a dense array, for peers that take no other."""
        return np.ascontiguousarray(as_dense(self.X))

    @property
    def two_classes(self) -> np.ndarray:
        """Class numbers 0 and 1; with more classes, the upper half of them against the lower."""
        return self._halved(self.y)

    @property
    def two_classes_test(self) -> np.ndarray:
        """The same for the test rows."""
        return self._halved(self.y_test)

    def _halved(self, y: np.ndarray) -> np.ndarray:
        return (y >= (self.n_classes + 1) // 2).astype(np.int32)


def find(name: str, options: Options) -> ResolvedDataset:
    """The files of a data set, which are downloaded where that is possible."""
    return resolve(load_registry(None, options.data_dir).find(name), options.data_dir)


def load(name: str, options: Options) -> Data:
    """Read a data set; with --quick a part of it."""
    data = _load(name, options.data_dir)
    if not options.quick:
        return data
    train, test = (np.arange(min(n, QUICK_ROWS)) for n in (data.y.size, data.y_test.size))
    return Data(data.name, data.X[train], data.y[train], data.X_test[test], data.y_test[test], data.n_classes)


def read_labels_and_rows(name: str, options: Options) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of one file, their labels as numbers, and which of them a run with the seed 0 trains on."""
    found = find(name, options)
    X, y = _read(found.train_url, found)
    if options.quick:
        X, y = X[:QUICK_ROWS], y[:QUICK_ROWS]
    train = np.zeros(y.size, dtype=bool)
    train[Split(found.split.rule, y.size, found.split.train_rows(y.size)).of_part(0, y.size)] = True
    return as_dense(X), y.astype(np.float64), train


@lru_cache(maxsize=1)
def _load(name: str, data_dir: Path) -> Data:
    found = resolve(load_registry(None, data_dir).find(name), data_dir)
    X, labels = _read(found.train_url, found)
    dense = isinstance(X, np.ndarray) or (X.nnz >= DENSE_SHARE * np.prod(X.shape) and X.shape[1] <= DENSE_COLUMNS)
    if found.test_url is not None:
        X_test, labels_test = _read(found.test_url, found, X.shape[1])
    else:
        split = Split(found.split.rule, labels.size, found.split.train_rows(labels.size))
        train = split.of_part(0, labels.size)
        test = np.setdiff1d(np.arange(labels.size), train)
        X, X_test, labels, labels_test = X[train], X[test], labels[train], labels[test]
    if found.two_class is not None:
        y, y_test = (np.isin(values, list(found.two_class[0])).astype(np.int32) for values in (labels, labels_test))
        n_classes = 2
    else:
        classes = np.unique(labels)
        y, y_test = (np.searchsorted(classes, values).astype(np.int32) for values in (labels, labels_test))
        n_classes = classes.size
    X, X_test = (_features(rows, dense, found.divide) for rows in (X, X_test))
    return Data(name, X, y, X_test, y_test, n_classes)


def _read(url: str, found: ResolvedDataset, columns: int | None = None) -> tuple[Rows, np.ndarray]:
    request = ReadRequest(label=found.label, count=columns or found.n_columns, table=TableRequest(drop=found.drop))
    source = open_source(url, found.format, request)
    blocks = [block for fragment in source.fragments() for block in source.read(fragment)]
    labels: list[Any] = [plain_label(value) for block in blocks if block.y is not None for value in block.y]
    if isinstance(blocks[0].X, np.ndarray):
        return np.concatenate([block.X for block in blocks]), np.array(labels)
    return stack([block.X for block in blocks]), np.array(labels)


def stack(blocks: list[Any]) -> sp.csr_array:
    """Put blocks of sparse rows on top of each other; LIBSVM text makes them as wide as they need to be."""
    width = max(X.shape[1] for X in blocks)
    wide = [sp.csr_array((X.data, X.indices, X.indptr), shape=(X.shape[0], width)) for X in blocks]
    return sp.csr_array(sp.vstack(wide)) if len(wide) > 1 else wide[0]


def _features(X: Any, dense: bool, divide: float) -> Rows:
    if divide != 1.0:
        X = X / divide
    return np.ascontiguousarray(as_dense(X), dtype=np.float64) if dense else sp.csr_array(X, dtype=np.float64)
