"""The artifacts of a flow run beside its log: tables, links, the report, and a bar for each long stage."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import httpx
from prefect import get_run_logger
from prefect.artifacts import (
    create_link_artifact,
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)
from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings

from cluster import ClusterHandle
from ikmap.tasks import TaskKind
from ikmap.tasks.scoring import summary
from pipeline.monitoring.events import StageState, format_rate, format_seconds
from pipeline.monitoring.plain_text import printable

PROGRESS_SECONDS = 5.0
"""A stage that takes longer gets a bar, which moves this often and no more."""
TRIES = 3
"""Number of attempts before the API counts as away; Prefect itself would try for minutes."""


@contextmanager
def tries(count: int) -> Iterator[None]:
    """Ask the API so often before it counts as away."""
    with temporary_settings({PREFECT_CLIENT_MAX_RETRIES: count - 1}):
        yield


def _if_possible[**P](show: Callable[P, None]) -> Callable[P, None]:
    """Leave out what an API that is away does not take: the result of the run does not need it."""

    @wraps(show)
    def shown(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            with tries(TRIES):
                show(*args, **kwargs)
        except httpx.HTTPError as error:
            get_run_logger().warning(f"{show.__name__}: not shown ({type(error).__name__}: {error})")

    return shown


def artifact_key(name: str) -> str:
    """`name` in the characters that Prefect takes in the key of an artifact: small letters, digits and dashes."""
    return re.sub("[^a-z0-9]+", "-", name.lower()).strip("-")


@_if_possible
def link_dashboard(cluster: ClusterHandle, *_: Any) -> None:
    """Artifact `dask-dashboard`: where to watch the chunks."""
    if cluster.dashboard_link is not None:
        create_link_artifact(
            key="dask-dashboard",
            link=cluster.dashboard_link,
            link_text="Dask dashboard",
            description=f"{cluster.describe()}. It lives as long as the run.",
        )


@_if_possible
def show_throughput(stages: Sequence[Mapping[str, Any]]) -> None:
    """Artifact `throughput`: what each stage took and did."""
    table = [
        {
            "stage": printable(stage["name"]),
            "seconds": round(stage["seconds"], 2),
            "rows": stage["rows"],
            "rows/s": round(stage["rows_per_second"]),
            "MB read": round(stage["bytes_read"] / 1e6, 2),
            "MB written": round(stage["bytes_written"] / 1e6, 2),
            "peak RSS MB": round(stage["peak_rss_bytes"] / 1e6),
            "tasks": stage["tasks"],
            "tasks done before": stage["tasks_skipped"],
        }
        for stage in stages
    ]
    create_table_artifact(key="throughput", table=table, description="Throughput of each stage")


@_if_possible
def show_metrics(task: TaskKind, learners: Mapping[str, Mapping[str, Any]], said: str = "") -> None:
    """Artifact of the name of the task's figure, such as `accuracy` or `alert-rate`: how good each learner is.

    `said` is the result in a sentence.
    """
    metric = task.presenter.metric
    key = metric.key
    table = [
        {"learner": printable(name), metric.name: None if figures[key] is None else round(figures[key], 4)}
        | {title: float(f"{value:.5g}") for title, value, _ in summary(task, figures) if isinstance(value, int | float)}
        | {title: round(figures[key], 2) for key, title in _TIMES.items() if key in figures}
        for name, figures in learners.items()
    ]
    create_table_artifact(key=artifact_key(key), table=table, description=printable(said) or metric.sentences.table)


_TIMES = {"train_seconds": "train s", "predict_seconds": "predict s"}


@_if_possible
def show_compared(results: Mapping[str, Any]) -> None:
    """Artifact `compared`: our numbers beside the printed ones."""
    measure = results["measure"]
    table = [
        {
            "table": experiment["name"],
            "data set": row["dataset"],
            "system": row["title"],
            "ours": row[measure] if row["status"] == "finished" else row["status"],
            "printed": row[f"published_{measure}"],
            "difference": row["difference"],
        }
        for experiment in results["experiments"]
        for row in experiment["rows"]
        if row.get("shown")
    ]
    create_table_artifact(key="compared", table=table, description=f"{measure.capitalize()}, ours and printed")


@_if_possible
def show_report(path: Path, command: str) -> None:
    """Artifact `report`: where the report is, and how to get the same result again."""
    create_markdown_artifact(
        key="report",
        markdown=f"Report: `{printable(str(path / 'report.html'))}`\n\nThe same result again: `{printable(command)}`\n",
        description="Result, throughput, learning curve, confusion matrix and parameters, in one offline page",
    )


class StageBars:
    """Artifacts `progress-<stage>`: how far each stage is that takes more than a moment."""

    def __init__(self) -> None:
        self._bars: dict[str, Any] = {}
        self._moved: dict[str, float] = {}
        self._broken = False

    def show(self, stage: StageState, now: float) -> None:
        """Move the bar of a stage, or make it; a stage that is not known how far it is has none."""
        ended = stage.seconds is not None
        if stage.fraction is None or self._broken or (ended and stage.name not in self._bars):
            return
        if not ended and now - self._moved.setdefault(stage.name, stage.started) < PROGRESS_SECONDS:
            return
        self._moved[stage.name] = now
        left = stage.seconds_left(now)
        timing = f"{format_seconds(stage.elapsed(now))}" if left is None else f"{format_seconds(left)} left"
        parts = (f"{stage.name}: {stage.counts()}", format_rate(stage.rate(now)), timing, stage.note)
        text = ", ".join(part for part in parts if part)
        try:
            with tries(1):
                if stage.name in self._bars:
                    update_progress_artifact(self._bars[stage.name], 100 * stage.fraction, text)
                else:
                    key = artifact_key(f"progress-{stage.name}")
                    made: Any = create_progress_artifact(100 * stage.fraction, key, text)  # here never a coroutine
                    self._bars[stage.name] = made
        except httpx.HTTPError:
            self._broken = True  # a bar is not worth a run
