"""The work of ``python -m flows.online``, once its options are read; with or without Prefect around it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows.options.online import OnlineOptions
from flows.options.table import csv_request
from flows.runs.batch import listening, run_pipeline, starting, table_request
from flows.runs.look_first import STANDARD_INPUT, look_at_data
from ikmap.tasks import task_named
from pipeline.errors import InputError

if TYPE_CHECKING:
    from pipeline.runs.online import OnlineParams
    from pipeline.sources.feeds.feed import Feed


def run(options: OnlineOptions, **how: Any) -> dict[str, Any]:
    """Run on a stream as the options say, and return the contents of ``metrics.json``.

    Parameters and exceptions are those of :func:`~flows.runs.batch.run_pipeline`.
    """
    how["events"] = events = listening(options, how.get("events"))
    options = look_at_data(options, events.message)
    check_source(options)
    starting(options, events)
    from pipeline.runs.online import run_online

    parameters = online_params(options)
    stages: Any = partial(run_online, online=parameters, alerts=options.alerts)
    sources = None
    if is_unbounded(options):
        options = replace(options, order="file")
        sources = [source_of(options)]

        def stages(context: Any, data: Any, invocation: Any, *, call: Any) -> dict[str, Any]:
            feed = open_feed(options, context.events.message)
            to, labels = options.alerts, options.labels_input
            return run_online(context, data, invocation, parameters, feed=feed, alerts=to, labels=labels, call=call)

    more = online_identity(options)
    return run_pipeline(options, stages, more, sources=sources, **how)


def online_params(options: OnlineOptions) -> OnlineParams:
    """Return the parameters of a stream that decide the result."""
    from pipeline.runs.online import OnlineParams
    from pipeline.streams.label_file import LABEL_LIMIT

    return OnlineParams(
        options.initial,
        options.block_rows,
        options.limit_seconds,
        alerts=options.alerts is not None,
        warm_up=options.warm_up,
        late_labels=options.labels_input is not None,
        label_limit=options.label_limit or LABEL_LIMIT,
        drift=options.drift,
        drift_delta=options.drift_delta,
        on_drift=options.on_drift,
        redraw_rows=options.redraw_rows,
    )


def online_identity(options: OnlineOptions) -> dict[str, Any]:
    """Return the identity of a run on a stream, beside that of a batch run."""
    return {"online": online_params(options).identity()}


def is_unbounded(options: OnlineOptions) -> bool:
    """Return whether rows may go on arriving: from standard input, or a directory to which files are added."""
    name = options.input
    return name is not None and (name == STANDARD_INPUT or Path(name).expanduser().is_dir())


def check_source(options: OnlineOptions) -> None:
    """Refuse options that do not suit the source, whose rows are all there or go on arriving.

    Raises
    ------
    InputError
    """
    if is_unbounded(options):
        check_unbounded(options)
        return
    where = f"--input {options.input}" if options.input else "a data set"
    if options.idle_seconds is not None:
        raise InputError(f"--idle-seconds {options.idle_seconds:g}: found {where}, expected a directory for --input")
    if options.labels_input is not None:
        raise InputError(
            f"--labels-input {options.labels_input}: found {where}, whose rows are all there, expected --input - or a "
            "directory"
        )


def check_unbounded(options: OnlineOptions) -> None:
    """Refuse options that need all rows to be there, or another kind of source.

    Raises
    ------
    InputError
    """
    where = f"--input {options.input}"
    piped = options.input == STANDARD_INPUT
    if options.initial is None:
        raise InputError(
            f"{where}: found no --initial, expected one: the number of rows to take from the beginning of the stream, "
            "on which settings and partitionings are chosen, such as --initial 10000"
        )
    if options.order == "shuffled":
        raise InputError(
            f"--order shuffled: found {where}, whose rows cannot be shuffled as they arrive; expected file"
        )
    if options.test_input is not None:
        raise InputError(
            f"--test-input: found {where}, expected no test file: every row of a stream tests the learners"
        )
    if options.format != "auto" and options.format not in (names := streamed_formats(piped=piped)):
        expected = f"{', '.join(names[:-1])} or {names[-1]}"
        raise InputError(f"--format {options.format}: found {where}, expected {expected}")
    if piped and options.idle_seconds is not None:
        raise InputError(f"--idle-seconds {options.idle_seconds:g}: found {where}, which ends as it is closed")


def streamed_formats(*, piped: bool) -> list[str]:
    """Return the names of the formats that may come from standard input, or else to a directory."""
    from pipeline.sources.formats import known_formats

    formats = known_formats().values()
    return [one.name for one in formats if one.streams or (one.table and not one.parts and not piped)]


def source_of(options: OnlineOptions) -> dict[str, Any]:
    """Identify a source without an end by its place, as its contents are not known yet."""
    assert options.input is not None
    if options.input == STANDARD_INPUT:
        return {"url": options.input, "place": "standard input"}
    return {"url": options.input, "place": str(Path(options.input).expanduser().absolute())}


def open_feed(options: OnlineOptions, say: Callable[[str], None]) -> Feed:
    """Open an unbounded source; nothing is read yet."""
    from pipeline.sources import CsvFormat, ReadRequest
    from pipeline.sources.feeds.directory import IDLE_SECONDS, DirectoryFeed
    from pipeline.sources.feeds.pipe import PipeFeed

    assert options.input is not None
    needed = options.label is not None or options.inliers is not None or task_named(options.task).labels.needed
    needed = needed and options.labels_input is None
    request = ReadRequest(
        label=options.label,
        require_label=needed,
        count=options.columns,
        csv=CsvFormat(**csv_request(options)),
        table=replace(table_request(options), unlabelled=options.labels_input is not None),
    )
    if options.input == STANDARD_INPUT:
        return PipeFeed(options.format, request, options.initial or 0)
    return DirectoryFeed(options.input, options.format, request, options.idle_seconds or IDLE_SECONDS, say)
