"""What a user could take for a table instead: ``python -m benchmarks.table_peers FOLDER`` fits one and prints figures.

Each runs in a process of its own. Its seconds are those of reading both files, preparing the columns, learning and
predicting; those of starting Python and of importing libraries do not count.
"""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.table_sets import TEST, TRAIN

LIGHTGBM, ROUNDS, STOPPED, BAG = "LightGBM", "LightGBM-500", "LightGBM-stopped", "LightGBM-bag"
PARTS, XGBOOST, CATBOOST, HISTOGRAMS = "LightGBM-parts", "XGBoost", "CatBoost", "HistGradientBoosting"
LINEAR = "linear"
BUDGETS = (10, 30, 60, 300)
"""Seconds that an automatic choice may take."""
TREES = ["lgbm", "xgboost", "catboost", "rf", "extra_tree"]
FLAML = {f"FLAML-{seconds}": seconds for seconds in BUDGETS}
FOLDS = 5
STOPPING: dict[str, Any] = {"learning_rate": 0.05, "n_estimators": 2000}
PATIENCE = 50
MOST_WORDS = 255
"""Words of a category that HistGradientBoosting takes; of more, their codes are numbers to it."""
PEERS = {
    LIGHTGBM: "its defaults, 100 rounds",
    ROUNDS: "500 rounds",
    STOPPED: f"learning rate .05, at most 2000 rounds, ended after {PATIENCE} without gain on a tenth of the rows",
    BAG: f"the mean of {FOLDS} such, each ended by another fifth of the rows",
    PARTS: "its defaults, and the parts of the date that our encoding makes",
    XGBOOST: "its defaults",
    CATBOOST: "its defaults",
    HISTOGRAMS: "scikit-learn, its defaults",
    LINEAR: "logistic or ridge regression on one-hot and scaled columns",
    **{name: f"its own choice in {seconds} s" for name, seconds in FLAML.items()},
}
"""Settings of what users could take instead, by name. All get words and codes as categories if they take them."""

type Work = Callable[[Any, np.ndarray, Any, np.ndarray | None], np.ndarray]
"""Takes training columns, their labels, test columns and classes (None: numbers); returns predictions."""


def fit_peer(folder: Path, peer: str, about: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of a peer, and its seconds.

    Parameters
    ----------
    about : dict
        label, numbers (whether it is a number), categories, threads.
    """
    makers: dict[str, Callable[[], Work]] = {
        LIGHTGBM: lambda: _lightgbm(about),
        ROUNDS: lambda: _lightgbm(about, n_estimators=500),
        STOPPED: lambda: _lightgbm(about, parts=10, fits=1, **STOPPING),
        BAG: lambda: _lightgbm(about, parts=FOLDS, fits=FOLDS, **STOPPING),
        PARTS: lambda: _lightgbm(about, dates=True),
        XGBOOST: lambda: _xgboost(about),
        CATBOOST: lambda: _catboost(about),
        HISTOGRAMS: lambda: _histograms(about),
        LINEAR: _linear,
        **{name: partial(_flaml, about, seconds) for name, seconds in FLAML.items()},
    }
    work = makers[peer]()  # imports
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


def _lightgbm(about: dict[str, Any], *, dates: bool = False, parts: int = 0, fits: int = 1, **params: Any) -> Work:
    """Return what fits LightGBM, or the mean of several fits.

    Parameters
    ----------
    dates : bool
        Whether dates become their parts.
    parts : int
        Each fit is ended by one of so many parts of the training rows; 0: not ended early.
    """
    lightgbm = _need("lightgbm")

    def work(columns: Any, y: np.ndarray, columns_test: Any, classes: Any) -> np.ndarray:
        kind = lightgbm.LGBMRegressor if classes is None else lightgbm.LGBMClassifier
        known: dict[str, dict[Any, int]] = {}
        X, codes = _numbers(columns, known, dates)
        X_test, _ = _numbers(columns_test, known, dates)
        part = parts_of(y, parts, classes is not None) if parts else np.zeros(y.size, dtype=np.int64)
        predictions = []
        for k in range(fits):
            model = kind(n_jobs=about["threads"], random_state=k, verbose=-1, **params)
            if parts:
                held, kept = part == k, part != k
                stop = lightgbm.early_stopping(PATIENCE, verbose=False)
                ended_by = {"eval_X": X[held], "eval_y": y[held], "callbacks": [stop]}
                model.fit(X[kept], y[kept], categorical_feature=codes, **ended_by)
            else:
                model.fit(X, y, categorical_feature=codes)
            predictions.append(model.predict(X_test) if classes is None else model.predict_proba(X_test))
        return np.asarray(np.mean(predictions, axis=0))

    return work


def parts_of(y: np.ndarray, parts: int, classes: bool) -> np.ndarray:
    """Return the part of each row; rows of a class are spread evenly over the parts.

    Rows of a class that are left over once all parts have as many are in no part (-1), so no part has all of a class.
    """
    order = np.random.default_rng(0).permutation(y.size)
    part = np.full(y.size, -1, dtype=np.int64)
    for value in np.unique(y) if classes else (None,):
        rows = order if value is None else order[y[order] == value]
        whole = rows.size // parts * parts
        part[rows[:whole]] = np.arange(whole) % parts
    return part


def _need(module: str) -> Any:
    """Return a module.

    Raises
    ------
    ImportError
        If it is not installed.
    """
    found = peers.find(module)
    if found is None:
        raise ImportError(f"{module} is not installed (make bench)")
    return found


def _xgboost(about: dict[str, Any]) -> Work:
    xgboost = _need("xgboost")

    def work(columns: Any, y: np.ndarray, columns_test: Any, classes: Any) -> np.ndarray:
        kind = xgboost.XGBRegressor if classes is None else xgboost.XGBClassifier
        known: dict[str, dict[Any, int]] = {}
        X, codes = _numbers(columns, known, False)
        X_test, _ = _numbers(columns_test, known, False)
        types = ["c" if k in codes else "q" for k in range(X.shape[1])]
        model = kind(n_jobs=about["threads"], random_state=0, enable_categorical=True, feature_types=types)
        model.fit(X, y)
        return np.asarray(model.predict(X_test) if classes is None else model.predict_proba(X_test))

    return work


def _flaml(about: dict[str, Any], seconds: float) -> Work:
    automl = _need("flaml.automl")
    os.environ.pop("PYARROW_IGNORE_TIMEZONE", None)  # it sets that for Spark, and other times would be read then

    def work(columns: Any, y: np.ndarray, columns_test: Any, classes: Any) -> np.ndarray:
        known: dict[str, dict[Any, int]] = {}
        X, _ = _numbers(columns, known, False)
        X_test, _ = _numbers(columns_test, known, False)
        model = automl.AutoML()
        task, metric = ("regression", "mse") if classes is None else ("classification", "log_loss")
        how = {"time_budget": seconds, "n_jobs": about["threads"], "seed": 0, "verbose": 0}
        model.fit(X, y, task=task, metric=metric, estimator_list=TREES, **how)  # others take no missing values
        return np.asarray(model.predict(X_test) if classes is None else model.predict_proba(X_test))

    return work


def _histograms(about: dict[str, Any]) -> Work:
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
    from threadpoolctl import threadpool_limits

    def work(columns: Any, y: np.ndarray, columns_test: Any, classes: Any) -> np.ndarray:
        kind = HistGradientBoostingRegressor if classes is None else HistGradientBoostingClassifier
        known: dict[str, dict[Any, int]] = {}
        X, codes = _numbers(columns, known, False)
        X_test, _ = _numbers(columns_test, known, False)
        words = list(known.values())
        few = [k for k, places in zip(codes, words, strict=True) if len(places) <= MOST_WORDS]
        with threadpool_limits(about["threads"], user_api="openmp"):
            model = kind(random_state=0, categorical_features=few or None).fit(X, y)
            return np.asarray(model.predict(X_test) if classes is None else model.predict_proba(X_test))

    return work


def _catboost(about: dict[str, Any]) -> Work:
    catboost, pandas = _need("catboost"), _need("pandas")

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


def _linear() -> Work:
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
