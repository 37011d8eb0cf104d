"""Names that no option of a method can have, because commands have options or functions of these names."""

from __future__ import annotations

from collections.abc import Iterable

RESERVED = frozenset({
    "above", "again", "alerts", "at", "at_default", "block_rows", "budget", "by_method", "calibration", "category",
    "check", "check_together", "checked_scopes", "cluster", "cluster_option", "columns", "columns_plan", "command",
    "config", "cv_rows", "data_dir", "dataset", "dataset_file", "datasets", "debug", "defaults_of_site", "delimiter",
    "device", "directory", "drift", "drift_delta", "drop", "dry_run", "encode_categories", "encode_numbers",
    "encode_times", "encoding", "experiments", "explain", "field_at", "figure", "format", "fresh", "from_toml",
    "header", "help", "help_all", "id", "idle_seconds", "ignored", "importance", "initial", "inliers", "input",
    "label", "label_limit", "labels_input", "learner", "left_out", "limit_seconds", "map", "memory_limit",
    "missing", "model", "no_dask_report", "of_record", "on_drift", "order", "output", "paper", "parse", "parser",
    "partitioner", "preset", "quiet", "readings", "record", "redraw_rows", "run_dir", "scale", "scoped", "search",
    "search_space", "section", "seed", "select_by", "shard_rows", "specs", "split_by", "systems", "table", "task",
    "test_input", "test_size", "the_paper", "threshold_for", "to_dict", "to_toml", "tunable", "unused",
    "value_at", "warm_up", "weight", "workers",
})  # fmt: skip


def reserved_among(options: Iterable[str]) -> list[str]:
    """Return the reserved names among some names of options, sorted."""
    return sorted(RESERVED.intersection(options))
