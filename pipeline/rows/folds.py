"""Which training rows each fold of a cross-validation learns from, and which it holds out."""

from __future__ import annotations

import numpy as np

from ikmap.model_selection import folds
from pipeline.params import Params
from pipeline.rows.prepared import PreparedRows


def folds_of(rows: PreparedRows, numbers: np.ndarray, params: Params) -> list[tuple[np.ndarray, np.ndarray]]:
    """Places (fit, held out), ascending, of each fold among some training rows, by ascending number."""
    return folds(numbers.size, params.seed)
