"""The data, the command that runs it again, and, folded away, details that few people need."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import cast

from pipeline.record_types import RecordView
from pipeline.report.fields import Metrics, get_list, get_mapping, get_number, get_text, learners_of
from pipeline.report.rendering import render
from pipeline.report.scores import training_counts
from pipeline.report.text import MISSING, count, figure, label, nbytes, percent, setting, shorten
from pipeline.report.words import words_for_test_rows

_TAGS = {"sha256": "SHA-256", "etag": "ETag", "ukey": "key"}
# Fields of a learner that have a place of their own on the page, and names of others.
_SHOWN_ELSEWHERE = {
    "accuracy", "psi", "parameter", "value", "train_seconds", "predict_seconds", "map_seconds", "initial_seconds",
    "rows", "stopped_early", "content_hash", "confusion", "labels", "curve",
}  # fmt: skip
_FIELD_NAMES = {"n_support": "support vectors"}
_SECTIONS = {"schema_version", "run", "data", "params", "stages", "selection", "learners"}


def data_section(metrics: Metrics) -> str:
    """Return the section on the data and their sources."""
    data = get_mapping(metrics, "data")
    if not data:
        return ""
    online = get_mapping(metrics, "online")
    if online:
        counts = [("initial rows", online, "rows_initial"), ("rows of the stream", online, "rows_stream")]
    else:
        counts = [("training rows", data, "rows_train"), ("test rows", data, "rows_test")]
    counts += [("columns", data, "columns"), ("non-zero values", data, "nnz")]
    rows = [("data set", get_text(data, "name", MISSING))]
    rows += [(name, count(n)) for name, record, key in counts if (n := get_number(record, key)) is not None]
    if not online and (said := words_for_test_rows(data)):
        rows.append(("test rows are", said))
    classes, train = [label(name) for name in get_list(data, "classes")], training_counts(data)
    total = sum(train.values())
    if 0 < len(classes) <= 20:
        shares = [f"{c} ({percent(train[c] / total)})" if c in train and total else c for c in classes]
        rows.append(("classes (share of training rows)" if train else "classes", ", ".join(shares)))
    elif classes:
        span = f", {count(min(train.values()))} to {count(max(train.values()))} training rows each" if train else ""
        rows.append(("classes", f"{count(len(classes))}{span}"))
    return render("data.html", rows=rows)


def _sources(metrics: Metrics) -> list[tuple[str, str, str]]:
    """Return address, checksum or tag, and size of the files."""
    return [
        (get_text(source, "url", MISSING), _tag(source), nbytes(get_number(source, "size")))
        for source in get_list(metrics.get("data"), "sources")
        if isinstance(source, Mapping)
    ]


def _tag(source: Mapping[str, object]) -> str:
    """Return by what the contents of a file are known: a remote one has a tag or a key, others a checksum."""
    return next((f"{name} {tag}" for key, name in _TAGS.items() if (tag := get_text(source, key))), MISSING)


def _settings(metrics: Metrics) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return parameters, cluster (without its dashboard, which ended with the run), versions, and further records."""
    run = get_mapping(metrics, "run")
    params = dict(get_mapping(metrics, "params"))
    if "seed" not in params and run.get("seed") is not None:
        params["seed"] = run["seed"]
    extra = {key: value for key, value in metrics.items() if key not in _SECTIONS}
    plain = {key: value for key, value in extra.items() if not isinstance(value, Mapping)}
    tuned = {
        name: f"{get_text(record_of_learner, 'parameter')} = {label(cast('RecordView', record_of_learner)['chosen'])}"
        for name, record_of_learner in get_mapping(metrics.get("selection"), "tuned").items()
        if get_number(record_of_learner, "chosen") is not None
    }
    records: list[tuple[str, Mapping[str, object]]] = [
        ("Parameters", params),
        ("Chosen by cross-validation", tuned),
        ("Cluster", {key: value for key, value in get_mapping(run, "cluster").items() if key != "dashboard"}),
        ("Versions", get_mapping(run, "versions")),
        *((str(key), value) for key, value in extra.items() if isinstance(value, Mapping)),
        ("Further records", plain),
    ]
    return [(title, [(key, setting(value)) for key, value in record.items()]) for title, record in records if record]


def _solvers(metrics: Metrics) -> list[list[str]]:
    """Return further records of the learners: one column a learner, one row a record."""
    learners = learners_of(metrics)
    table: dict[str, dict[str, str]] = {}
    for name, learner in learners.items():
        for key, value in learner.items():
            if key not in _SHOWN_ELSEWHERE and isinstance(value, str | int | float):
                field = _FIELD_NAMES.get(key, str(key).replace("_", " "))
                table.setdefault(field, {})[name] = shorten(figure(value), 24)
    for name, learner in learners.items():
        # As with commits, the beginning suffices to distinguish models; metrics.json has all of it.
        if digest := get_text(learner, "content_hash")[:12]:
            table.setdefault("model hash", {})[name] = digest
    return [[field, *(values.get(name, MISSING) for name in learners)] for field, values in table.items()]


def details_section(metrics: Metrics) -> str:
    """Return the folded section: records of the solvers, parameters, versions, files."""
    solvers, records, sources = _solvers(metrics), _settings(metrics), _sources(metrics)
    if not solvers and not records and not sources:
        return ""
    head = ["", *learners_of(metrics)]
    return render("details.html", head=head, solvers=solvers, records=records, sources=sources)


def reproduce_section(metrics: Metrics) -> str:
    """Return the section with the command and the configuration that give the result again."""
    run = get_mapping(metrics, "run")
    words = get_list(run, "command")
    command = shlex.join(str(word) for word in words) if words else get_text(run, "command")
    toml = get_text(run, "config_toml")
    return render("reproduce.html", command=command, toml=toml) if command or toml else ""
