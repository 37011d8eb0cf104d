"""``docs/metrics.schema.json``: what a run may write, and what it may not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import pytest
from jsonschema import Draft202012Validator

from flows.options.batch import BatchOptions
from ikmap.methods import fields_of, methods
from pipeline.runs.schema import metrics_schema, together
from tests import ROOT
from tests.support import report_examples
from tests.support.one_process import Command, one_process, write_rows
from tests.support.papers import with_papers

PAGE = ROOT / "docs" / "metrics.schema.json"
SCHEMA = metrics_schema()
VALIDATOR = Draft202012Validator(SCHEMA)
STAGE_FIELDS = [
    "name",
    "seconds",
    "rows",
    "rows_per_second",
    "bytes_read",
    "bytes_written",
    "peak_rss_bytes",
    "tasks",
    "tasks_skipped",
]


def faults(metrics: Any) -> list[str]:
    """Paths of the values the schema refuses, as text."""
    # Through JSON and back: what matters is the file.
    read = json.loads(json.dumps(metrics, allow_nan=False))
    return sorted({"/".join(map(str, error.absolute_path)) for error in VALIDATOR.iter_errors(read)})


def test_schema_is_a_schema() -> None:
    Draft202012Validator.check_schema(SCHEMA)


@with_papers
def test_page_has_what_methods_and_tasks_declare() -> None:
    """Written by ``IKMAP_PACKAGES=off python -m pipeline.runs.schema > docs/metrics.schema.json``."""
    assert json.loads(PAGE.read_text(encoding="utf-8")) == SCHEMA


def test_fields_that_two_declare_differently_are_refused() -> None:
    assert together([("a", {"x": {"type": "number"}}), ("b", {"x": {"type": "number"}})]) == {"x": {"type": "number"}}
    with pytest.raises(ValueError, match=r"b and a declare the field 'x' of metrics\.json differently"):
        together([("a", {"x": {"type": "number"}}), ("b", {"x": {"type": "string"}})])


def test_every_option_of_every_method_is_in_it() -> None:
    known = SCHEMA["$defs"]["params"]["properties"]
    for name, one in methods().items():
        usual, searched = one.of_record({})
        for option, value in usual.record(searched).items():
            assert option in known, name
            schema = fields_of(one)[option].given_kind.schema
            assert not list(Draft202012Validator(schema).iter_errors(value)) or value is None


def test_a_run_on_a_remote_file_is_accepted(tmp_path: Path) -> None:
    """Check a file without a checksum, which is known by the key of its version, and one with a tag."""
    remote = fsspec.filesystem("memory")
    remote.pipe("/schema/rows.libsvm", write_rows(tmp_path).read_bytes())
    options = BatchOptions(input="memory://schema/rows.libsvm", t=7, psi=8, learner=("ogd",))
    with one_process():
        metrics = Command(options).run(tmp_path / "run")
    remote.rm("/schema", recursive=True)
    (source,) = metrics["data"]["sources"]
    assert source.keys() == {"url", "size", "ukey"}
    assert faults(metrics) == []
    source["etag"] = source.pop("ukey")
    assert faults(metrics) == []


@pytest.mark.parametrize(
    "example", ["binary", "shared_psi", "ten_classes", "many_classes", "stream", "traced", "raced"]
)
def test_finished_runs_are_accepted(example: str) -> None:
    assert faults(getattr(report_examples, example)()) == []


def test_a_search_of_C_is_accepted() -> None:
    metrics = report_examples.binary()
    found = {"C": [0.5, 2.0], "accuracy_by_C": {"svm": [[0.8, 0.9], [0.8]]}, "chosen_C": {"svm": 2.0}}
    metrics["selection"] |= found
    metrics["params"]["C"] = 2.0
    assert faults(metrics) == []
    for key, wrong in (("C", [0]), ("accuracy_by_C", {"svm": [0.8]}), ("chosen_C", {"svm": "auto"})):
        metrics["selection"] |= {**found, key: wrong}
        assert faults(metrics)


def test_the_least_that_is_required_is_accepted() -> None:
    metrics = report_examples.binary()
    for field in ("config_toml", "client_peak_rss_bytes"):
        del metrics["run"][field]
    del metrics["selection"], metrics["run"]["cluster"]["dashboard"]
    for field in ("class_counts_train", "sources", "test"):
        del metrics["data"][field]
    metrics["stages"] = [{field: metrics["stages"][0][field] for field in STAGE_FIELDS}]
    metrics["learners"] = {"svm": {"accuracy": 1, "train_seconds": 0, "predict_seconds": 0}}
    metrics["params"] = {"partitioner": "mondrian", "t": 1, "psi": None}
    assert faults(metrics) == []


def test_further_fields_where_the_contract_leaves_room() -> None:
    metrics = report_examples.binary()
    metrics["params"]["max_depth"] = "log2"
    metrics["learners"]["svm"]["margin"] = 0.3
    metrics["run"]["versions"]["scipy"] = "1.17.0"
    counts = ("rows", "rows_of_processors", "cells_checked", "mismatches")
    metrics["gpu"] = {"devices": [{"name": "some device", "driver": "13.1"}], "how": ["so"], **dict.fromkeys(counts, 0)}
    assert faults(metrics) == []


@pytest.mark.parametrize("field", STAGE_FIELDS)
def test_every_stage_field_is_required(field: str) -> None:
    metrics = report_examples.binary()
    del metrics["stages"][2][field]
    assert faults(metrics) == ["stages/2"]


@pytest.mark.parametrize(
    ("section", "field"),
    [
        *((None, key) for key in ("schema_version", "run", "data", "params", "stages", "learners")),
        *(("run", key) for key in ("id", "command", "seed", "started", "seconds", "versions", "cluster")),
        *(("data", key) for key in ("name", "rows_train", "rows_test", "columns", "nnz", "classes")),
        *(("params", key) for key in ("partitioner", "psi")),
        *(("selection", key) for key in ("chosen", "rows", "folds")),
    ],
)
def test_required_fields(section: str | None, field: str) -> None:
    metrics = report_examples.binary()
    del (metrics[section] if section else metrics)[field]
    assert len(faults(metrics)) == 1


def put(*path: Any) -> Callable[[dict[str, Any]], None]:
    """A change of one value: the last of ``path`` is stored under the keys before it."""
    *keys, last, value = path

    def change(metrics: Any) -> None:
        for key in keys:
            metrics = metrics[key]
        metrics[last] = value

    return change


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (put("learners", "svm", "accuracy", 1.01), "learners/svm/accuracy"),
        (put("learners", "svm", "accuracy", 84.9), "learners/svm/accuracy"),
        (put("learners", "ogd", "curve", "accuracy", [0.5, -0.1]), "learners/ogd/curve/accuracy/1"),
        (put("learners", "ogd", "confusion", [[1, 0.5], [0, 1]]), "learners/ogd/confusion/0/1"),
        (put("learners", "ogd", {"accuracy": 0.8, "train_seconds": 1}), "learners/ogd"),
        (put("learners", {}), "learners"),
        (put("stages", []), "stages"),
        (put("stages", 0, "seconds", -1), "stages/0/seconds"),
        (put("stages", 0, "rows", 1.5), "stages/0/rows"),
        (put("stages", 0, "name", "train"), "stages/0/name"),
        (put("stages", 0, "row_per_second", 1), "stages/0"),
        (put("stages", 0, "workers", [{"seconds_busy": 1}]), "stages/0/workers/0"),
        (put("selection", "folds", 1), "selection"),
        (put("selection", "accuracy", "svm", [2]), "selection"),
        (put("selection", "chosen", 8), "selection"),
        (put("selection", "chosen", "svm", "8"), "selection"),
        (put("params", "psi", "auto"), "params/psi"),
        (put("params", "psi", 0), "params/psi"),
        (put("params", "psi", {"svm": 8}), "params/psi"),
        (put("params", "psi", {"svm": 8, "ogd": None}), "params/psi"),
        (put("learners", "svm", "psi", {"svm": 8}), "learners/svm/psi"),
        (put("learners", "svm", "content_hash", "5f70"), "learners/svm/content_hash"),
        (put("run", "client_peak_rss_bytes", -1), "run/client_peak_rss_bytes"),
        (put("params", "partitioner", ""), "params/partitioner"),
        (put("params", "t", 0), "params/t"),
        (put("data", "classes", [1, 1]), "data/classes"),
        (put("data", "test", "mine"), "data/test"),
        (put("data", "sources", 0, "sha256", "abc"), "data/sources/0/sha256"),
        (put("data", "sources", 0, {"url": "s3://a/b.csv", "size": 8}), "data/sources/0"),
        (put("data", "sources", 0, {"url": "s3://a/b.csv", "size": 8, "etag": ""}), "data/sources/0/etag"),
        (put("run", "started", "yesterday"), "run/started"),
        (put("run", "started", "2026-08-01T10:15:02"), "run/started"),
        (put("run", "seconds", "41.7"), "run/seconds"),
        (put("run", "cluster", "workers", True), "run/cluster/workers"),
        (put("run", "user", "me"), "run"),
        (put("schema_version", 2), "schema_version"),
        (put("learner", {}), ""),
    ],
)
def test_wrong_values_are_refused(change: Callable[[dict[str, Any]], None], where: str) -> None:
    metrics = report_examples.binary()
    change(metrics)
    assert faults(metrics) == [where]


@pytest.mark.parametrize("psi", [None, 8, {"svm": 8, "ogd": 64}])
def test_psi_is_none_one_for_all_or_one_for_each(psi: Any) -> None:
    metrics = report_examples.binary()
    metrics["params"]["psi"] = psi
    for name, learner in metrics["learners"].items():
        learner["psi"] = psi[name] if isinstance(psi, dict) else psi
    assert faults(metrics) == []


def test_unfinished_run_is_not_a_result() -> None:
    assert faults(report_examples.unfinished()) == ["learners", "run", "stages/3"]
