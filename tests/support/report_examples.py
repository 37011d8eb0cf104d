"""Metrics of imagined runs, in the form of ``metrics.json``: material for the tests of report and schema."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np


def confusion(supports: list[int], recall: float, seed: int, spread: int = 3) -> list[list[int]]:
    """A plausible confusion matrix: errors go to a few neighbouring classes."""
    rng = np.random.default_rng(seed)
    k = len(supports)
    matrix = np.zeros((k, k), dtype=int)
    for i, n in enumerate(supports):
        right = int(rng.binomial(n, min(0.995, recall + rng.normal(0, 0.3 * (1 - recall)))))
        matrix[i, i] = right
        others = [(i + int(step)) % k for step in rng.integers(1, k, size=spread)]
        for j, extra in zip(others, rng.multinomial(n - right, [1 / spread] * spread), strict=True):
            matrix[i, j] += int(extra)
    return [[int(n) for n in row] for row in matrix]


def accuracy(matrix: list[list[int]]) -> float:
    """Share of the matrix on its diagonal."""
    return sum(matrix[i][i] for i in range(len(matrix))) / sum(map(sum, matrix))


def stage(name: str, started: float, seconds: float, rows: int, **more: Any) -> dict[str, Any]:
    """A stage record with every field that is required."""
    record = {
        "name": name,
        "started": started,
        "seconds": seconds,
        "rows": rows,
        "rows_per_second": rows / seconds,
        "bytes_read": rows * 400,
        "bytes_written": rows * 180,
        "peak_rss_bytes": 310_000_000 + rows * 900,
        "tasks": 12,
        "tasks_skipped": 0,
    }
    return record | more


def curve(rows: int, end: float, points: int) -> dict[str, Any]:
    """A learning curve that rises to ``end``."""
    at = [max(1, round(rows * (i + 1) / points)) for i in range(points)]
    return {"rows": at, "accuracy": [end - 0.11 * math.exp(-6 * (i + 1) / points) for i in range(points)]}


def hill(psis: Sequence[float], best: float, top: float, slope: float) -> list[float]:
    """Accuracies over psi with their peak ``top`` at ``best``."""
    return [top - slope * abs(math.log2(psi / best)) ** 1.3 for psi in psis]


def _run(name: str, seconds: float, learner: str, psi: str) -> dict[str, Any]:
    toml = f'dataset = "{name}"\npartitioner = "anne"\nt = 100\npsi = "{psi}"\nlearner = "{learner}"\nseed = 0\n'
    return {
        "id": f"{name}-20260801T101502",
        "command": f"python -m flows.batch --dataset {name} --psi {psi} --learner {learner}",
        "seed": 0,
        "started": "2026-08-01T10:15:02+00:00",
        "seconds": seconds,
        "versions": {
            "python": "3.12.11",
            "ikmap": "0.1.0",
            "numpy": "2.4.1",
            "dask": "2026.7.1",
            "zarr": "3.4.0",
        },
        "cluster": {"kind": "local", "workers": 2, "threads": 2, "dashboard": "http://127.0.0.1:8787/status"},
        "config_toml": toml,
        "client_peak_rss_bytes": 268_000_000,
    }


def _source(name: str, size: int) -> dict[str, Any]:
    return {"url": f"https://data.example.org/binary/{name}", "size": size, "sha256": "9f86d081884c7d65" * 4}


def binary() -> dict[str, Any]:
    """Two classes, two learners, another psi chosen for each by cross-validation."""
    svm, ogd = [[11621, 814], [1640, 2206]], [[11571, 864], [1720, 2126]]
    psi = [4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096]
    busy = [{"pid": 4711, "seconds_busy": 8.4}, {"pid": 4712, "seconds_busy": 8.9}]
    return {
        "schema_version": 1,
        "run": _run("a9a", 41.7, "svm,ogd", "auto"),
        "data": {
            "name": "a9a",
            "rows_train": 32561,
            "rows_test": 16281,
            "columns": 123,
            "nnz": 677_239,
            "classes": [-1, 1],
            "class_counts_train": [24720, 7841],
            "sources": [_source("a9a", 2_329_285), _source("a9a.t", 1_164_902)],
            "test": "official",
        },
        "params": {
            "partitioner": "anne",
            "t": 100,
            "psi": {"svm": 8, "ogd": 64},
            "learner": ["svm", "ogd"],
            "C": 1.0,
            "eta": 0.5,
        },
        "stages": [
            stage("ingest", 1.2, 1.9, 48842),
            stage("select", 3.2, 21.4, 20000, workers=[{"name": "w0", "seconds_busy": 20.1}]),
            stage("partition", 24.7, 0.08, 32561),
            stage("cells", 24.9, 9.1, 48842, workers=busy, tasks_skipped=3),
            stage("train:svm", 34.1, 4.3, 32561),
            stage("train:ogd", 38.5, 1.4, 32561),
            stage("evaluate:svm", 40.0, 0.6, 16281),
            stage("evaluate:ogd", 40.7, 0.5, 16281),
        ],
        "selection": {
            "psi": psi,
            "accuracy": {"svm": hill(psi, 8, 0.847, 0.002), "ogd": hill(psi, 64, 0.842, 0.003)},
            "chosen": {"svm": 8, "ogd": 64},
            "rows": 20000,
            "folds": 5,
        },
        "learners": {
            "svm": {
                "accuracy": accuracy(svm),
                "psi": 8,
                "content_hash": "5f70bf18a0860070" * 4,
                "train_seconds": 4.3,
                "predict_seconds": 0.21,
                "confusion": svm,
                "labels": [-1, 1],
                "duality_gap": 3.1e-5,
                "iterations": 37,
                "converged": True,
                "n_support": 12904,
            },
            "ogd": {
                "accuracy": accuracy(ogd),
                "psi": 64,
                "content_hash": "16da1e6bbb1b4a06" * 4,
                "train_seconds": 1.4,
                "predict_seconds": 0.2,
                "confusion": ogd,
                "labels": [-1, 1],
                "curve": curve(32561, 0.841, 60),
                "updates": 15210,
            },
        },
    }


def shared_psi() -> dict[str, Any]:
    """The same with one psi for both learners, of almost the same accuracy, at the edge of what was tried."""
    metrics = binary()
    psi = metrics["selection"]["psi"]
    metrics["params"]["psi"] = 4096
    metrics["selection"]["accuracy"] = {"svm": hill(psi, 4096, 0.847, 0.01), "ogd": hill(psi, 4096, 0.846, 0.01)}
    metrics["selection"]["chosen"] = {"svm": 4096, "ogd": 4096}
    for learner in metrics["learners"].values():
        learner["psi"] = 4096
    return metrics


def tuned() -> dict[str, Any]:
    """Learners on rows besides: what was chosen for each, over values of its own."""
    metrics = binary()
    gammas, lambdas = [2.0**m for m in range(-10, 6)], [a * 10.0**m for m in (-6, -5, -4, -3) for a in (5, 10)]
    psis, trained = [4, 8, 16, 32, 64], metrics["learners"]["ogd"]
    for name, parameter, values, best in (
        ("kernel-ogd", "gamma", gammas, 2.0**-5),
        ("kernel-svm", "gamma", gammas, 2.0**-4),
        ("two-stage-gmm", "le", lambdas, 1e-4),
        ("fourier-linear", "psi", psis, 16),
    ):
        record = {"parameter": parameter, "values": values, "accuracy": hill(values, best, 0.84, 0.01), "chosen": best}
        metrics["selection"].setdefault("tuned", {})[name] = record
        metrics["learners"][name] = {
            key: value for key, value in trained.items() if key not in ("psi", "curve", "updates")
        } | {"parameter": parameter, "value": best}
        metrics["stages"] += [stage(f"train:{name}", 41.3, 0.2, 32561), stage(f"evaluate:{name}", 41.5, 0.1, 16281)]
    return metrics


def _many(name: str, k: int, per_class: int, recall: float, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    test = [int(n) for n in rng.integers(per_class // 2, per_class * 2, size=k)]
    train = [3 * n for n in test]
    matrix = confusion(test, recall, seed)
    classes = list(range(1, k + 1))
    return {
        "schema_version": 1,
        "run": _run(name, 96.0, "svm", "256"),
        "data": {
            "name": name,
            "rows_train": sum(train),
            "rows_test": sum(test),
            "columns": 256,
            "nnz": 256 * sum(train),
            "classes": classes,
            "class_counts_train": train,
            "sources": [_source(f"{name}.bz2", 6_579_125)],
            "test": "split",
        },
        "params": {"partitioner": "anne", "t": 100, "psi": 256, "learner": ["svm"]},
        "stages": [
            stage("ingest", 0.8, 4.2, sum(train) + sum(test)),
            stage("partition", 5.1, 0.4, sum(train)),
            stage("cells", 5.6, 31.0, sum(train) + sum(test)),
            stage("train:svm", 36.8, 55.0, sum(train)),
            stage("evaluate:svm", 92.0, 3.6, sum(test)),
        ],
        "selection": None,
        "learners": {
            "svm": {
                "accuracy": accuracy(matrix),
                "psi": 256,
                "train_seconds": 55.0,
                "predict_seconds": 3.0,
                "confusion": matrix,
                "labels": classes,
                "duality_gap": 8e-4,
                "iterations": 212,
                "converged": False,
            }
        },
    }


def ten_classes() -> dict[str, Any]:
    """Ten classes, one learner."""
    return _many("usps", 10, 200, 0.95, 7)


def many_classes() -> dict[str, Any]:
    """105 classes, one learner."""
    return _many("sector.scale", 105, 30, 0.88, 11)


def stream() -> dict[str, Any]:
    """Two learners on one stream, one of them on the rows themselves and stopped at its limit of time."""
    metrics = binary()
    metrics["run"]["command"] = "python -m flows.online --dataset a9a --learner ogd,kernel-ogd"
    del metrics["data"]["test"], metrics["data"]["class_counts_train"]
    metrics["online"] = {"initial": None, "block_rows": 1000, "rows_initial": 32561, "rows_stream": 16281}
    metrics["online"] |= {"limit_seconds": 0.2, "chunk_rows": 16000, "chunks": 2}
    metrics["params"] |= {"learner": ["ogd", "kernel-ogd"], "psi": 64}
    metrics["stages"] = [
        stage("ingest", 1.2, 1.9, 48842),
        stage("shuffle", 3.2, 0.4, 48842),
        stage("partition", 3.7, 0.1, 32561),
        stage("stream", 3.9, 36.0, 16281),
    ]
    metrics["selection"] = None
    shared = {"train_seconds": 0.1, "predict_seconds": 0.2, "map_seconds": 2.0, "initial_seconds": 3.0}
    metrics["learners"] = {
        "ogd": shared | {"psi": 64, "accuracy": 0.84, "rows": 16281, "curve": curve(16281, 0.84, 17), "n_support": 900},
        "kernel-ogd": shared
        | {"parameter": "psi", "value": 64, "accuracy": 0.82, "rows": 9000, "stopped_early": True}
        | {"curve": curve(9000, 0.82, 9), "n_support": 1200},
    }
    return metrics


def traced() -> dict[str, Any]:
    """A stream with which the map grew, and a learner that tells of itself; once it had nothing to tell."""
    metrics = stream()
    metrics["online"]["cells_grown"] = {"anne-psi-64": [6400, 12345]}
    norm = [3.0 + 0.1 * k * (-1) ** k for k in range(17)]
    metrics["learners"]["ogd"]["traces"] = {"norm": [*norm[:5], None, *norm[6:]], "rho": [-0.5] * 17}
    return metrics


def raced() -> dict[str, Any]:
    """A run whose model a race has chosen: a sum; some models were dropped, and one was not tried."""
    metrics = binary()
    chosen = metrics["learners"].pop("svm")
    for key in ("psi", "rounds"):
        chosen.pop(key, None)
    metrics["learners"] = {"stacking": chosen}
    metrics["selection"] = None
    metrics["params"] |= {"learner": ["stacking"], "psi": None}
    metrics["stages"] = [
        stage("ingest", 1.2, 1.9, 48842),
        stage("choose", 3.2, 21.4, 20000),
        stage("train:stacking", 24.7, 9.3, 32561),
        stage("evaluate:stacking", 34.0, 0.6, 16281),
    ]
    metrics["choice"] = {
        "learner": "stacking",
        "partitioner": "",
        "scale": "none",
        "options": {"stacking": {"base_models": "boosting,iforest", "shrinkage": 0.05}},
        "name": "sum of boosting shrinkage=0.05 and iforest",
        "loss": "log loss",
        "rows": 20000,
        "folds": 5,
        "budget": 60.0,
        "spent": 21.4,
        "by_budget": False,
        "leaderboard": [
            _raced(
                "sum of boosting shrinkage=0.05 and iforest",
                "--learner stacking --base-models boosting,iforest --shrinkage 0.05",
                0.27511,
                {"boosting shrinkage=0.05": 0.75, "iforest": 0.25},
            ),
            _raced("boosting shrinkage=0.05", "--learner boosting --shrinkage 0.05", 0.27655),
            _raced("boosting", "--learner boosting", 0.27702),
            _raced("iforest", "--partitioner iforest --learner logistic --psi 256 --C 0.5", 0.30121),
            _raced("linear-model", "--learner linear-model", 0.33214)
            | {"folds": 1, "note": "dropped after 1 of 5 folds: cannot win, adds nothing"},
            dict.fromkeys(("loss", "error", "fit_seconds", "row_seconds"))
            | {"name": "anne", "options": "", "folds": 0, "weights": {}}
            | {"note": "not tried: would take 310 s a fold"},
        ],
    }
    return metrics


def _raced(name: str, options: str, loss: float, weights: dict[str, float] | None = None) -> dict[str, Any]:
    """A line of the leaderboard."""
    return {
        "name": name,
        "options": options,
        "loss": loss,
        "error": 0.0031,
        "folds": 5,
        "fit_seconds": 4.1 * len(weights or "1"),
        "row_seconds": 3.4e-06,
        "note": "",
        "weights": weights or {},
    }


def unfinished() -> dict[str, Any]:
    """A run that stopped while it computed the cells."""
    metrics = binary()
    del metrics["run"]["seconds"]
    metrics["stages"] = [*metrics["stages"][:3], {"name": "cells", "started": 24.9}]
    metrics["learners"] = {}
    return metrics
