"""Options of papers and of the methods that only they need: samples for tests of all options, and a value of each."""

from __future__ import annotations

from typing import Any

from flows.options.batch import BatchOptions
from flows.options.reproduce import ReproduceOptions

SAMPLES = (
    BatchOptions(
        dataset="a9a", learner=("nogd", "adaraker"), kernel="gaussian", gamma="auto", b=50, rank=7, points="violators",
        average=True, features=9, decay=0.5, flavour="script", online_loss="logistic", sigma_is="width",
    ),
    BatchOptions(dataset="a9a", learner=("norma-dual",), truncation=0.25),
)  # fmt: skip
REPRODUCE = (
    ReproduceOptions(
        table=("5", "8"), figure=("3",), section=("8.1.1",), datasets=("a9a", "mine"), systems=("ogd",), depth="log2",
        score_scale="raw", svm_scale="raw", svm_C="10", svm_loss="hinge", nogd="last", adaraker="script",
        data_dir="data", dataset_file="mine.toml", order="file", initial=50, seed=2, limit_seconds=60.0,
        run_dir="runs/x", fresh=True, cluster="slurm", cluster_option=("queue=a",), workers=3, memory_limit="1GB",
        debug=True, quiet=True,
    ),
)  # fmt: skip
GIVEN: dict[str, dict[str, Any]] = {
    "b": {"b": 50}, "rank": {"rank": 5}, "points": {"points": "violators"}, "decay": {"decay": 0.1},
    "flavour": {"flavour": "script"}, "online_loss": {"online_loss": "logistic"}, "sigma_is": {"sigma_is": "width"},
    "truncation": {"truncation": 0.1},
}  # fmt: skip
"""A value that is no default for each option that only methods of papers have, or that they take other values of."""
UNREAD = {"ogd-dual": {"feature_scale"}}
"""Options that a learner only refuses."""
