"""Runs and stores for the tests of the pipeline, small and without worker processes."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from ikmap.tasks import CLASSIFICATION, plain_label
from pipeline.monitoring.events import QuietProgress
from pipeline.params import Params
from pipeline.rows.parts import write_part
from pipeline.rows.preparation import Preparation
from pipeline.rows.prepared import DATA, PreparedRows
from pipeline.rows.split import Part, Split
from pipeline.running.stage import Context
from pipeline.stages.cells import cells
from pipeline.stages.partition import partition
from pipeline.storage.fitted import Fitted
from pipeline.storage.rundir import RunDirectory
from pipeline.storage.store import Store
from tests.support.in_process import InProcess
from tests.support.params_for import params_for


def context(path: Path, params: Params | None = None, client: Any = None) -> Context:
    """A run in a directory of its own, which is not locked."""
    run = RunDirectory(path, {})
    run.close()
    return Context(client or InProcess(), run, params or params_for(), QuietProgress())


def new_store(path: Path) -> Store:
    store = Store(path / "store.zarr")
    store.create()
    return store


def store_rows(
    store: Store,
    X: Any,
    y: np.ndarray,
    *,
    rule: str = "all",
    n_train: int | None = None,
    part_rows: int = 50,
    seed: int = 0,
    dense: bool | None = None,
    two_class: list[list[Any]] | None = None,
    divide: float = 1.0,
    scale: str = "none",
) -> None:
    """Store rows as the ingest does, in parts of so many rows; with rule "all" training and test rows are the same."""
    n = X.shape[0]
    labels = sorted({plain_label(v) for v in y}, key=lambda v: (isinstance(v, str), v))
    parts = []
    for k, start in enumerate(range(0, n, part_rows)):
        rows = slice(start, min(start + part_rows, n))
        name = f"{DATA}/train/00000-{k:05d}"
        write_part(store, name, X[rows], *CLASSIFICATION.read(y[rows], rows.stop - start), {"part": {}})
        parts.append(Part(name, rows.stop - start))
    n_train = n if n_train is None else n_train
    sides = {}
    for side, train in (("train", True), ("test", rule == "all")):
        split = Split(rule, n, n_train, train, seed)
        first, counts = 0, []
        for part in parts:
            counts.append(int(split.of_part(first, part.rows).size))
            first += part.rows
        sides[side] = {"parts": [asdict(part) for part in parts], "counts": counts, "split": asdict(split)}
    preparation = Preparation(
        n_columns=X.shape[1],
        column_names=None,
        dense=isinstance(X, np.ndarray) if dense is None else dense,
        task=CLASSIFICATION.of([-1, 1] if two_class else labels, two_class),
        divide=divide,
        scale=scale,
    )
    store.set_attributes(DATA, {"preparation": preparation.as_json(), "sides": sides})


def points(n: int, d: int = 4, classes: int = 2, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows in [0, 1)^d, and classes that depend on them but not cleanly."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, d))
    y = np.floor((X[:, 0] + X[:, 1] ** 2 + 0.1 * rng.random(n)) * classes / 2.1).clip(0, classes - 1)
    return X, y


def sparse(X: np.ndarray, kept: float = 0.4, seed: int = 0) -> sp.csr_array:
    return sp.csr_array(np.where(np.random.default_rng(seed).random(X.shape) < kept, X, 0.0))


def mapped(
    path: Path, n: int, params: Params, *, psi: int = 8, classes: int = 2, seed: int = 0
) -> tuple[Context, Fitted]:
    """A run up to its cells."""
    ctx = context(path, params)
    store_rows(
        ctx.store, *points(n, classes=classes, seed=seed), rule="first", n_train=n - n // 5, part_rows=max(50, n // 3)
    )
    fitted = Fitted(**partition(ctx, [psi])["fitted"][0])
    cells(ctx, [fitted])
    return ctx, fitted


def training_cells(ctx: Context, fitted: Fitted) -> tuple[np.ndarray, np.ndarray]:
    """All training cells and class numbers, by the shortest way."""
    block = PreparedRows(ctx.store, "train").take(np.arange(PreparedRows(ctx.store, "train").n_rows))
    return fitted.load(ctx.store).cells(block.rows).codes, block.y


def compiled_late(folder: Path) -> list[str]:
    """Loops and types that tasks of a run had to compile: nobody had declared them."""
    records = (json.loads(path.read_text()) for path in folder.rglob("*.json"))
    return sorted({name for record in records if isinstance(record, dict) for name in record.get("compiled", ())})
