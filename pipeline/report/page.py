"""The page: the result, the errors, the choices, the effort, and how to do it again; the rest under folds."""

from __future__ import annotations

import os
from pathlib import Path

from pipeline.report.choices import choices_section
from pipeline.report.fields import Metrics, get_text, number
from pipeline.report.leaderboard import leaderboard_section
from pipeline.report.provenance import data_section, details_section, reproduce_section
from pipeline.report.rendering import page_parts, render
from pipeline.report.results import curves_section, figure_section, headline
from pipeline.report.sections import task_sections
from pipeline.report.stream import stream_section
from pipeline.report.text import shorten
from pipeline.report.timeline import stages_section
from pipeline.report.traces import traces_section


def render_report(metrics: Metrics, dask_report: str | None = None) -> str:
    """Return the report as HTML text.

    Parameters
    ----------
    metrics : mapping
        The contents of ``metrics.json`` (``docs/metrics.schema.json``). Every part may be missing.
    dask_report : str, optional
        Relative address of the Dask performance report, to link to.
    """
    sections = (
        headline,
        figure_section,
        stream_section,
        task_sections,
        leaderboard_section,
        choices_section,
        curves_section,
        traces_section,
        stages_section,
        data_section,
        reproduce_section,
        details_section,
    )
    version = number(metrics.get("schema_version"))
    name = get_text(metrics.get("data"), "name", "unnamed data set")
    return render(
        "report.html",
        title=f"{shorten(name, 80)}: run report",
        sections=[html for section in sections if (html := section(metrics))],
        version=None if version is None else f"{version:g}",
        dask_report=dask_report,
        **page_parts(),
    )


def write_report(metrics: Metrics, path: str | os.PathLike[str]) -> Path:
    """Write the report of a run as one HTML file that needs nothing else.

    The file appears whole or not at all. It links to ``dask-report.html`` if there is such a file beside it.

    Parameters
    ----------
    metrics : mapping
        The contents of ``metrics.json`` (``docs/metrics.schema.json``). Every part may be missing.
    path : path
        The file to write; its directory must exist.

    Returns
    -------
    pathlib.Path
        The file written.
    """
    target = Path(path)
    dask_report = "dask-report.html" if target.with_name("dask-report.html").is_file() else None
    write_whole(target, render_report(metrics, dask_report))
    return target


def write_whole(target: Path, text: str) -> None:
    """Write a page so that it appears whole or not at all."""
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace")
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
