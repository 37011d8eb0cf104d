"""Trees that are grown by labels, beside LightGBM and scikit-learn on the same matrix of numbers, thread for thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.metrics import log_loss

from benchmarks import peers
from benchmarks.data import load
from benchmarks.harness import Case, Comparison, Disagreement, Options, Side
from ikmap import CellBoostingClassifier, ForestMap, IsolationKernelMap
from ikmap.rows import as_dense

TITLE = "Trees grown by labels"
ABOUT = (
    "boosting of equally many rounds of 31 leaves (shrinkage .1, nothing held out, 255 or 256 bins) beside LightGBM; "
    "300 trees of 4,096 rows beside scikit-learn's; rows mapped to the leaves of such trees beside those of blind trees"
)

FLIGHTS = "flights-3m"
ABOVE = 15.0
"""Minutes of delay: the label of a flight is whether it had more."""
ROUNDS = 100
TREES, TREE_ROWS = 300, 4096
CLOSE = 0.02
"""Share by which the log losses of ours and the peer's may differ."""


@dataclass(frozen=True)
class Numbers:
    """Rows of numbers and their classes, to train on and to test with."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def cases(options: Options) -> Iterator[Case]:
    for name in options.datasets or ("covtype-93k", FLIGHTS):
        yield Case(f"{name}, {ROUNDS} rounds", partial(boosting, name, options))
    for name in options.datasets or ("covtype-93k",):
        for splits in ("random", "best"):
            yield Case(f"{name}, {TREES} trees, {splits} splits", partial(forest, name, splits, options))
        yield Case(f"{name}, rows mapped", partial(mapping, name, options))


@lru_cache(maxsize=1)
def numbers_of(name: str, options: Options) -> Numbers:
    """Return a data set as a dense matrix; of flights, airports as codes and the date as seconds."""
    if name != FLIGHTS:
        data = load(name, options)
        return Numbers(data.dense, data.y, np.ascontiguousarray(as_dense(data.X_test)), data.y_test)
    table = pq.read_table(Path(options.data_dir) / f"{FLIGHTS}.parquet")
    if options.quick:
        table = table.slice(0, 5000)
    columns = [_numbers(table[field].combine_chunks()) for field in table.column_names if field != "delay"]
    X, y = np.column_stack(columns), (table["delay"].to_numpy() > ABOVE).astype(np.int32)
    train = np.arange(y.size) % 5 > 0
    return Numbers(X[train], y[train], X[~train], y[~train])


def _numbers(column: pa.Array) -> np.ndarray:
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        column = pc.dictionary_encode(column)
    if pa.types.is_dictionary(column.type):
        column = column.indices
    elif pa.types.is_temporal(column.type):
        column = column.cast(pa.timestamp("s")).cast(pa.int64())
    return np.asarray(column.cast(pa.float64(), safe=False))


def boosting(name: str, options: Options) -> Comparison:
    """Growing a model, and how good it is on test rows."""
    data = numbers_of(name, options)
    rounds = 5 if options.quick else ROUNDS
    ours = CellBoostingClassifier(n_estimators=rounds, validation_fraction=0.0, n_jobs=options.threads, random_state=0)
    sides = []
    lightgbm = peers.find("lightgbm")
    if lightgbm is None:
        sides.append(Side.absent("LightGBM", "lightgbm", target=1.5))
    else:
        # One tree of each class in a round, as ours; LightGBM's softmax makes as many.
        theirs = lightgbm.LGBMClassifier(n_estimators=rounds, num_threads=options.threads, verbose=-1)
        sides.append(Side("LightGBM", lambda: theirs.fit(data.X, data.y), target=1.5))

    def check(results: dict[str, Any]) -> str:
        losses = {who: log_loss(data.y_test, model.predict_proba(data.X_test)) for who, model in results.items()}
        if not options.quick and losses["ours"] > (1 + CLOSE) * min(losses.values()):
            raise Disagreement(f"log losses on test rows: {losses}")
        return "log loss on test rows: " + ", ".join(f"{who} {loss:.4f}" for who, loss in losses.items())

    return Comparison(Side("ours", lambda: ours.fit(data.X, data.y)), sides, check, relation="<=", limit=120.0)


def forest(name: str, splits: str, options: Options) -> Comparison:
    """Growing trees on subsamples of the rows: scikit-learn's grow on as many rows, drawn with replacement."""
    data = numbers_of(name, options)
    n_trees, rows = (10, 256) if options.quick else (TREES, TREE_ROWS)
    ours = ForestMap(n_trees, rows, splits=splits, n_jobs=options.threads, random_state=0)  # type: ignore[arg-type]
    kind: Callable[..., Any] = ExtraTreesClassifier if splits == "random" else RandomForestClassifier
    theirs = kind(
        n_trees, max_samples=rows, bootstrap=True, max_features=0.5, min_samples_leaf=5, n_jobs=options.threads,
        random_state=0,
    )  # fmt: skip

    def check(results: dict[str, Any]) -> str:
        found = {}
        for who, model in results.items():
            leaves = (
                model.partitions_.roots[-1] if who == "ours" else sum(e.tree_.node_count for e in model.estimators_)
            )
            found[who] = (int(leaves) + n_trees) / 2 / n_trees
        return "leaves of a tree: " + ", ".join(f"{who} {number:.0f}" for who, number in found.items())

    side = Side(f"scikit-learn {kind.__name__}", lambda: theirs.fit(data.X, data.y), target=5.0)
    return Comparison(Side("ours", lambda: ours.fit(data.X, data.y)), [side], check)


def mapping(name: str, options: Options) -> Comparison:
    """Rows to the leaves of trees by labels, beside blind trees that are drawn on as many rows."""
    data = numbers_of(name, options)
    n_trees, rows = (10, 256) if options.quick else (TREES, TREE_ROWS)
    by_labels = ForestMap(n_trees, rows, n_jobs=options.threads, random_state=0).fit(data.X, data.y)
    blind = IsolationKernelMap("iforest", n_trees, rows, n_jobs=options.threads, random_state=0).fit(data.X)

    def check(results: dict[str, Any]) -> str:
        assert {cells.shape for cells in results.values()} == {(data.y.size, n_trees)}
        return f"{data.y.size * n_trees:,} cells each"

    sides = [Side("blind trees", lambda: blind.cells(data.X), target=1.1)]
    return Comparison(Side("ours", lambda: by_labels.cells(data.X)), sides, check, rows=data.y.size, relation="<=")
