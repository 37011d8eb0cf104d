"""What was run, on what, and how to run it again."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from pipeline.report.fields import Metrics, get_list, get_mapping, get_number, get_text
from pipeline.report.markup import pairs, scroll, section
from pipeline.report.scores import class_counts
from pipeline.report.text import MISSING, count, esc, label, nbytes, percent, setting

_SECTIONS = {"schema_version", "run", "data", "params", "stages", "selection", "learners"}


def data_section(metrics: Metrics) -> str:
    """What the data are and where they came from."""
    data = get_mapping(metrics, "data")
    if not data:
        return ""
    test = {"official": "official test set", "split": "seeded split of the given rows"}
    rows = [("data set", esc(get_text(data, "name", MISSING)))]
    rows += [
        (name, count(get_number(data, key)))
        for name, key in (
            ("training rows", "rows_train"),
            ("test rows", "rows_test"),
            ("columns", "columns"),
            ("non-zero values", "nnz"),
        )
        if get_number(data, key) is not None
    ]
    if get_text(data, "test"):
        rows.append(("test rows are", esc(test.get(get_text(data, "test"), get_text(data, "test")))))
    classes, train = [label(name) for name in get_list(data, "classes")], class_counts(data)
    total = sum(train.values())
    if 0 < len(classes) <= 20:
        shares = [f"{c} ({percent(train[c] / total)})" if c in train and total else c for c in classes]
        rows.append(("classes (share of training rows)" if train else "classes", esc(", ".join(shares))))
    elif classes:
        span = f", {count(min(train.values()))} to {count(max(train.values()))} training rows each" if train else ""
        rows.append(("classes", f"{count(len(classes))}{span}"))
    sources = []
    for source in get_list(data, "sources"):
        if isinstance(source, Mapping):
            digest = get_text(source, "sha256", MISSING)
            sources.append(
                f'<tr><th scope="row"><code>{esc(get_text(source, "url", MISSING))}</code>'
                f"<small>SHA-256 {esc(digest)}</small></th>"
                f"<td>{nbytes(get_number(source, 'size'))}</td></tr>"
            )
    table = (
        '<table class="sources"><thead><tr><th scope="col">Source</th><th scope="col">Size</th></tr></thead>'
        f"<tbody>{''.join(sources)}</tbody></table>"
    )
    return section("data", "Data", pairs(rows) + (scroll(table, "Sources") if sources else ""))


def _records(title: str, record: Metrics) -> str:
    rows = [(esc(key), f"<code>{esc(setting(value))}</code>") for key, value in record.items()]
    return f"<div><h3>{esc(title)}</h3>{pairs(rows)}</div>" if rows else ""


def settings_section(metrics: Metrics) -> str:
    """Parameters, cluster (less its dashboard, which ended with the run), versions, and what else was recorded."""
    run = get_mapping(metrics, "run")
    params = dict(get_mapping(metrics, "params"))
    if "seed" not in params and run.get("seed") is not None:
        params["seed"] = run["seed"]
    extra = {key: value for key, value in metrics.items() if key not in _SECTIONS}
    plain = {key: value for key, value in extra.items() if not isinstance(value, Mapping)}
    tuned = {
        name: f"{get_text(found, 'parameter')} = {label(found['chosen'])}"
        for name, found in get_mapping(metrics.get("selection"), "tuned").items()
        if get_number(found, "chosen") is not None
    }
    blocks = [
        _records("Parameters", params),
        _records("Chosen by cross-validation", tuned),
        _records("Cluster", {key: value for key, value in get_mapping(run, "cluster").items() if key != "dashboard"}),
        _records("Versions", get_mapping(run, "versions")),
        *(_records(str(key), value) for key, value in extra.items() if isinstance(value, Mapping)),
        _records("Further records", plain),
    ]
    body = "".join(blocks)
    return section("settings", "Settings", f'<div class="columns">{body}</div>') if body else ""


def reproduce_section(metrics: Metrics) -> str:
    """The command and the configuration that give this result again."""
    run = get_mapping(metrics, "run")
    words = get_list(run, "command")
    command = shlex.join(str(word) for word in words) if words else get_text(run, "command")
    toml = get_text(run, "config_toml")
    blocks = []
    if command:
        blocks.append(f'<h3>The command</h3><pre class="copy" tabindex="0"><code>{esc(command)}</code></pre>')
    if toml:
        blocks.append(
            '<h3>The same as <code>run.toml</code></h3><p class="note">Give it back with '
            "<code>--config run.toml</code>.</p>"
            f'<pre class="copy" tabindex="0"><code>{esc(toml)}</code></pre>'
        )
    return section("reproduce", "Run it again", "".join(blocks)) if blocks else ""
