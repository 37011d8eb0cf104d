"""Measures this software beside what a user could take instead: ``python -m benchmarks`` lists what there is.

A benchmark is a module with ``TITLE``, ``ABOUT`` and ``cases(options)``; see `benchmarks.harness` for what a case is,
and docs/benchmarks.md for what is compared and how fairly.
"""

#: Names of the benchmarks, in the order in which they are run and shown. The last ones, LONG, are only run by name.
NAMES = (
    "voronoi",
    "iforest",
    "trees",
    "gcws",
    "linear_svm",
    "svr",
    "gram",
    "ogd",
    "online",
    "norma",
    "drift",
    "predictor",
    "libsvm_text",
    "large_text",
    "ingest",
    "onehot",
    "pipeline",
    "selection",
    "novelty",
    "regression",
    "lifetimes",
    "sweep",
    "composition",
    "scaling",
    "solvers",
    "models",
    "workers",
    "tls",
    "durability",
    "gpu",
    "runs",
    "encodings",
    "tables",
    "budgets",
    "frontier",
    "tabular",
)
LONG = ("runs", "encodings", "tables", "budgets", "frontier", "tabular")
#: Benchmarks that write other reports than one of their name.
REPORTS = {"tables": ("tables", "table_splits")}
