"""What a user could take for a table instead: ``python -m benchmarks.table_peers FOLDER`` fits one and prints figures.

Each runs in a process of its own. Its seconds are those of reading both files, preparing the columns, learning and
predicting; those of starting Python and of importing libraries do not count.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.table_sets import TEST, TRAIN

LIGHTGBM, PARTS, CATBOOST, LINEAR = "LightGBM", "LightGBM, parts of the date", "CatBoost", "linear, one-hot"
PEERS = (LIGHTGBM, PARTS, CATBOOST, LINEAR)


def fit_peer(folder: Path, peer: str, about: dict[str, Any]) -> dict[str, Any]:
    """Figures of a peer, and its seconds.

    Parameters
    ----------
    about : dict
        label, numbers (whether it is a number), categories, threads.
    """
    work = {LIGHTGBM: _lightgbm, PARTS: _lightgbm, CATBOOST: _catboost, LINEAR: _linear}[peer]
    work = work(about, peer == PARTS)  # imports
    began = time.perf_counter()
    columns, y = read(folder / TRAIN, about)
    columns_test, y_test = read(folder / TEST, about)
    classes = None
    if not about["numbers"]:
        classes, y = np.unique(y, return_inverse=True)
        y_test = np.searchsorted(classes, y_test)
    predicted = work(columns, y, columns_test, classes)
    seconds = time.perf_counter() - began
    return {"seconds": seconds, **figures(y_test, predicted, classes)}


def read(path: Path, about: dict[str, Any]) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Columns by name: words and codes as objects, times as datetime64, numbers as float64; and labels."""
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    label = table.column(about["label"]).to_numpy()
    columns = {}
    for name in table.column_names:
        if name == about["label"]:
            continue
        values = table.column(name)
        if name in about["categories"] or str(values.type).endswith("string"):
            columns[name] = np.array(values.to_pylist(), dtype=object)
        elif str(values.type).startswith("timestamp"):
            columns[name] = values.to_numpy()
        else:
            columns[name] = values.to_numpy().astype(np.float64)
    return columns, label.astype(np.float64) if about["numbers"] else label


def figures(y: np.ndarray, predicted: np.ndarray, classes: np.ndarray | None) -> dict[str, float]:
    """Of numbers RMSE and R2; of probabilities (n, classes) the area, accuracy and log loss.

    The area of more than two classes is the mean over those that have test rows, each against the rest.
    """
    if classes is None:
        error = y - predicted
        return {"rmse": float(np.sqrt(np.mean(error**2))), "r2": float(1 - np.mean(error**2) / y.var())}
    from sklearn.metrics import roc_auc_score

    own = np.clip(predicted[np.arange(y.size), y], 2.0**-52, 1)
    of = (1,) if classes.size == 2 else [k for k in range(classes.size) if 0 < (y == k).sum() < y.size]
    return {
        "roc_auc": float(np.mean([roc_auc_score(y == k, predicted[:, k]) for k in of])),
        "accuracy": float(np.mean(predicted.argmax(axis=1) == y)),
        "log_loss": float(-np.log(own).mean()),
    }


def _numbers(
    columns: dict[str, np.ndarray], known: dict[str, dict[Any, int]], parts: bool
) -> tuple[np.ndarray, list[int]]:
    """Columns as numbers, words as codes of those that `known` has (missing and others: NaN), and which are codes.

    Dates are days, or their parts.
    """
    found: list[np.ndarray] = []
    codes: list[int] = []
    for name, values in columns.items():
        if values.dtype == object:
            places = known.setdefault(name, {w: k for k, w in enumerate(sorted({v for v in values if v is not None}))})
            codes.append(len(found))
            found.append(np.array([places.get(v, np.nan) for v in values], dtype=np.float64))
        elif values.dtype.kind != "M":
            found.append(values)
        elif parts:
            from ikmap.tables.encoders import time_parts

            found += time_parts(values.astype("datetime64[s]").astype(np.float64)).values()
        else:
            found.append(values.astype("datetime64[s]").astype(np.float64) / 86400.0)
    return np.column_stack(found), codes


def _lightgbm(about: dict[str, Any], parts: bool) -> Any:
    lightgbm = peers.find("lightgbm")
    if lightgbm is None:
        raise ImportError("lightgbm is not installed (make bench)")

    def work(columns: Any, y: np.ndarray, columns_test: Any, classes: Any) -> np.ndarray:
        kind = lightgbm.LGBMRegressor if classes is None else lightgbm.LGBMClassifier
        known: dict[str, dict[Any, int]] = {}
        X, codes = _numbers(columns, known, parts)
        X_test, _ = _numbers(columns_test, known, parts)
        model = kind(n_jobs=about["threads"], random_state=0, verbose=-1).fit(X, y, categorical_feature=codes)
        return np.asarray(model.predict(X_test) if classes is None else model.predict_proba(X_test))

    return work


def _catboost(about: dict[str, Any], parts: bool) -> Any:  # noqa: ARG001
    catboost = peers.find("catboost")
    pandas = peers.find("pandas")
    if catboost is None or pandas is None:
        raise ImportError("catboost or pandas is not installed (make bench)")

    def frame(columns: Any) -> tuple[Any, list[str]]:
        words = [name for name, values in columns.items() if values.dtype == object]
        made = {
            name: ["" if v is None else str(v) for v in values]
            if values.dtype == object
            else values.astype("datetime64[s]").astype(np.float64) / 86400.0
            if values.dtype.kind == "M"
            else values
            for name, values in columns.items()
        }
        return pandas.DataFrame(made), words

    def work(columns: Any, y: np.ndarray, columns_test: Any, classes: Any) -> np.ndarray:
        kind = catboost.CatBoostRegressor if classes is None else catboost.CatBoostClassifier
        X, words = frame(columns)
        model = kind(thread_count=about["threads"], random_seed=0, verbose=False, allow_writing_files=False)
        model.fit(X, y, cat_features=words)
        X_test, _ = frame(columns_test)
        return np.asarray(model.predict(X_test) if classes is None else model.predict_proba(X_test))

    return work


def _linear(about: dict[str, Any], parts: bool) -> Any:  # noqa: ARG001
    import scipy.sparse as sp
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    def work(columns: Any, y: np.ndarray, columns_test: Any, classes: Any) -> np.ndarray:
        of_words = [name for name, values in columns.items() if values.dtype == object]
        rest = {name: values for name, values in columns.items() if name not in of_words}
        rest_test = {name: columns_test[name] for name in rest}
        sides = []
        X, _ = _numbers(rest, {}, True)
        X_test, _ = _numbers(rest_test, {}, True)
        scale, median = StandardScaler(), np.nanmedian(X, axis=0)
        for side, numbers in ((columns, X), (columns_test, X_test)):
            numbers = np.where(np.isnan(numbers), median, numbers)
            scaled = scale.fit_transform(numbers) if side is columns else scale.transform(numbers)
            if of_words:
                words = np.column_stack([[str(v) for v in side[name]] for name in of_words])
                if side is columns:
                    onehot = OneHotEncoder(handle_unknown="ignore").fit(words)
                sides.append(sp.hstack([sp.csr_array(scaled), sp.csr_array(onehot.transform(words))]).tocsr())
            else:
                sides.append(scaled)
        if classes is None:
            return np.asarray(Ridge().fit(sides[0], y).predict(sides[1]))
        model = LogisticRegression(max_iter=300).fit(sides[0], y)
        return np.asarray(model.predict_proba(sides[1]))

    return work


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        asked = json.loads(sys.argv[2])
        try:
            print(json.dumps(fit_peer(Path(sys.argv[1]), asked["peer"], asked)))
        except ImportError as error:
            print(json.dumps({"missing": str(error)}))
