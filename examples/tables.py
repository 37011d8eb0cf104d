"""Learn from a table with words, dates and missing cells in Python: encoder, cells, classifier, search.

    python examples/tables.py                       # a small made-up table
    python examples/tables.py --run runs/clicks --input new.parquet      # a run predicts the rows of a file

For the second, make a run: python -m flows.batch --input train.csv --label clicked --run-dir runs/clicks

The same works with a DataFrame of pandas or polars in place of the Arrow table.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from ikmap import CellLogisticRegression, IsolationKernelMap, TableEncoder, load

ROWS = 2000
SHOWN = 10


def flights(n: int) -> tuple[pa.Table, np.ndarray]:
    """Made-up flights: which are late depends on the hour and on the airport, and one cell in twenty is missing."""
    rng = np.random.default_rng(0)
    airport, hour = rng.integers(0, 30, n), rng.integers(0, 24, n)
    late = rng.random(n) < 1 / (1 + np.exp(-(0.25 * (hour - 14) + 0.1 * (airport - 15))))
    start = datetime(2001, 1, 1)
    days = rng.integers(0, 180, n)
    columns = {
        "airport": [None if rng.random() < 0.05 else f"A{k:02d}" for k in airport],
        "departure": [start + timedelta(days=int(d), hours=int(h)) for d, h in zip(days, hour, strict=True)],
        "distance": rng.integers(100, 2500, n),
    }
    return pa.table(columns), late


def train(n: int) -> GridSearchCV:
    """Encode, map to cells and classify; the search chooses how words are encoded and how many cells there are."""
    table, late = flights(n)
    rows = np.array(list(zip(*table.to_pydict().values(), strict=True)), dtype=object)  # a DataFrame needs no such line
    model = make_pipeline(
        TableEncoder(),
        IsolationKernelMap("iforest", 50, random_state=0),
        CellLogisticRegression(C=0.1),
    )
    grid = {"tableencoder__categories": ["onehot", "target"], "isolationkernelmap__max_samples": [16, 64]}
    return GridSearchCV(model, grid, cv=3, scoring="roc_auc").fit(rows, late)


def predict(run: str, file: str) -> None:
    """Predict rows with a run: columns in any order, others beside them, which are left alone."""
    model = load(run)
    print(f"features: {', '.join(model.get_feature_names_out()[:10])}")
    table = pq.read_table(file)
    predicted = model.predict(table)
    try:
        # The bare command, logistic, boosting and stacking have probabilities; others with --calibration.
        probable = model.predict_proba(table)
    except AttributeError:
        probable = None
    for k, label in enumerate(predicted[:SHOWN]):
        sure = "" if probable is None else f", with a probability of {probable[k].max():.2f}"
        print(f"row {k}: {label}{sure}")


def main(argv: Sequence[str] | None = None) -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", help="directory of a finished run")
    parser.add_argument("--input", help="Parquet file with rows to predict")
    parser.add_argument("--rows", type=int, default=ROWS, help="rows of the made-up table")
    given = parser.parse_args(argv)
    if given.run:
        predict(given.run, given.input)
        return
    table, _ = flights(given.rows)
    for line in TableEncoder().fit(table).plan_:
        print(line)
    search = train(given.rows)
    print(f"ROC AUC {search.best_score_:.3f} with {search.best_params_}")


if __name__ == "__main__":
    main()
