"""The work of ``python -m flows.batch``, once its options are read; with or without Prefect around it."""

from __future__ import annotations

import gc
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cluster import connect, prepare
from flows.options.batch import BatchOptions
from flows.options.common import CommonOptions
from flows.options.table import csv_request
from flows.runs.look_first import data_folder, known_data, look_at_data
from ikmap.methods import fields_by_name
from ikmap.methods.registry import FAULTS
from ikmap.tasks import AUTO
from pipeline.sources.datasets.known import EMBEDDED
from pipeline.urls import Location

# Workers import this module when they start, and --help needs none of the rest: heavy imports stand in functions.
if TYPE_CHECKING:
    from cluster import ClusterHandle
    from pipeline.monitoring.events import Events
    from pipeline.params import Params
    from pipeline.runs.metrics import Invocation
    from pipeline.sources.columns.request import TableRequest
    from pipeline.sources.datasets.registry import ResolvedDataset
    from pipeline.storage.rundir import RunDirectory


def run(options: BatchOptions, **how: Any) -> dict[str, Any]:
    """Run as the options say, and return the contents of ``metrics.json``.

    Parameters and exceptions are those of :func:`run_pipeline`.
    """

    def stages(*given: Any, **more: Any) -> dict[str, Any]:
        from pipeline.runs.batch import run_batch

        return run_batch(*given, **more)

    how["events"] = events = listening(options, how.get("events"))
    options = look_at_data(options, events.message)
    starting(options, events)
    return run_pipeline(options, stages, {}, **how)


@contextmanager
def modules_not_collected() -> Iterator[None]:
    """Look for garbage among the objects only that are made after :func:`collect_from_now_on`.

    A run imports a million objects, and to look through them takes a tenth of a second every time.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.unfreeze()
        gc.enable()


def collect_from_now_on() -> None:
    """Begin to look for garbage, but not among the objects that there are now."""
    gc.freeze()
    gc.enable()


@modules_not_collected()
def run_pipeline(
    options: BatchOptions,
    stages: Any,
    more: Mapping[str, Any],
    *,
    sources: list[dict[str, Any]] | None = None,
    call: Any = None,
    events: Events | None = None,
    on_cluster: Callable[[ClusterHandle, Path], None] | None = None,
    began: float | None = None,
) -> dict[str, Any]:
    """Find the data, open the run directory, connect to the cluster and run a pipeline on it.

    Parameters
    ----------
    stages : callable
        Function of (context, data, invocation, call=...) that returns the contents of ``metrics.json``.
    more : mapping
        JSON values that decide the result, beside the parameters of a batch run.
    sources : list of dict, optional
        Identities of the sources; default: url, size and checksum of the files.
    call : callable, optional
        Function that calls a stage (:data:`pipeline.runs.batch.Call`).
    events : Events, optional
        Receiver of progress; default: bars on a terminal, log lines elsewhere.
    on_cluster : callable, optional
        Function that is called with the cluster, when it is up, and the run directory.
    began : float, optional
        Time at which the command began, in seconds since the epoch; default: now.

    Raises
    ------
    InputError
        The user's input or environment is at fault.
    KeyboardInterrupt
        With the command that resumes the run.
    """
    began = time.time() if began is None else began
    from pipeline.errors import ClusterLost, InputError, OnlyPlanned, writing
    from pipeline.monitoring.progress import choose_progress
    from pipeline.running.compiling import words_of, words_of_rows
    from pipeline.running.repair import check_models
    from pipeline.running.scheduler_metrics import reported_to_scheduler
    from pipeline.running.stage import Context
    from pipeline.running.warm import WarmUp
    from pipeline.runs.batch import call_directly

    params = batch_params(options)
    with events or choose_progress(options.quiet) as events:
        data = find_data(options, events)
        formats = {source.format for source in data.sources if source} if sources is None else set()
        sources = sources_of(data) if sources is None else sources
        directory = open_directory(options, data.name, {**identity(params, data, sources), **more})
        path = directory.path
        try:
            for fault in FAULTS:
                events.message(f"warning: {fault}")
            if directory.repaired:
                events.message(directory.repaired)
            check_models(directory, events.message)
            if (metrics := directory.metrics(events.message)) is not None:
                events.message(f"{path}: this run is finished; --fresh does it again")
                return metrics
            if directory.resumed:
                events.message(f"{path}: going on with an unfinished run")
            with connect(options.cluster, **cluster_arguments(options, events)) as cluster:
                cluster.client.register_plugin(WarmUp(words_of(params) | words_of_rows(formats)))
                events.message(cluster.describe())
                if on_cluster is not None:
                    on_cluster(cluster, path)
                asked = replace(
                    invocation(options, sources, cluster), start_seconds=time.time() - began, stop=cluster.close
                )
                with reported_to_scheduler(cluster.client, events) as told:
                    with writing(path):
                        directory.begin()
                    context = Context(cluster.client, directory, params, told, device=options.device)
                    collect_from_now_on()
                    with writing(path):
                        made: dict[str, Any] = stages(context, data, asked, call=call or call_directly)
            events.message(f"report: {path / 'report.html'}")
            return made
        except KeyboardInterrupt:
            raise KeyboardInterrupt(resuming(options, path).again) from None
        except OnlyPlanned:
            again = replace(resuming(options, path), dry_run=False).command()
            raise OnlyPlanned(f"--dry-run: nothing was trained; to go on from here: {again}") from None
        except ClusterLost as error:
            if options.run_dir and not options.fresh:
                raise
            raise ClusterLost(f"{error}; {resuming(options, path).again}") from None
        except InputError:
            # The same data are refused again, and others are another run; a server may answer next time.
            directory.withdraw(keep_tasks=not all(Location(source["url"]).is_local for source in sources))
            raise
        finally:
            directory.close()


def open_directory(options: BatchOptions, name: str, asked: Mapping[str, Any]) -> RunDirectory:
    """Open the run directory that is given, or a new one that is named by the data and the time.

    Parameters
    ----------
    name : str
        Name of the data.
    asked : mapping
        Identity of the run.

    Raises
    ------
    InputError
        The directory cannot be written, or has something else in it.
    """
    from datetime import datetime

    from pipeline.errors import writing
    from pipeline.runs.batch import new_run_directory
    from pipeline.storage.rundir import RunDirectory

    if options.run_dir is None:
        return new_run_directory(name, f"{datetime.now():%Y%m%d-%H%M%S}", asked)
    path = Path(os.path.expanduser(options.run_dir))
    with writing(path):
        return RunDirectory(path, asked, fresh=options.fresh, begin=False)


def resuming(options: BatchOptions, path: Path) -> BatchOptions:
    """Return the options of the command that goes on with the run in a directory."""
    return replace(options, run_dir=str(path), fresh=False)


def listening(options: CommonOptions, events: Events | None) -> Events:
    """Return the given receiver of progress, else bars on a terminal, log lines elsewhere."""
    from pipeline.monitoring.progress import choose_progress

    return events or choose_progress(options.quiet)


def starting(options: CommonOptions, events: Events) -> None:
    """Begin to start a cluster, and say that a command has begun; to be called before the imports that take long.

    Imports, processes and data take seconds, on a busy machine half a minute, in which there is no progress to show.
    """
    prepare(options.cluster)
    events.message(
        f"starting: loads the code, looks at the data, starts or finds workers (--cluster {options.cluster})"
    )


def cluster_arguments(options: CommonOptions, events: Events) -> dict[str, Any]:
    """Return the arguments of `cluster.connect`, apart from the kind of cluster."""
    return {
        "workers": options.workers,
        "memory_limit": options.memory_limit,
        "options": options.cluster_option,
        "say": events.message,
    }


def sources_of(data: ResolvedDataset) -> list[dict[str, Any]]:
    """Return url, size and checksum of the files of a data set; of a remote file, the tag of its version."""
    return [{"url": source.url, **source.identity()} for source in data.sources if source is not None]


def identity(params: Params, data: ResolvedDataset, sources: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the identity of a run: its parameters and the contents of its data, wherever these are stored."""
    from pipeline.runs.batch import run_identity

    contents = [{key: value for key, value in source.items() if key != "url"} for source in sources]
    return run_identity(params.as_json(), data, contents)


def invocation(options: BatchOptions, sources: Sequence[Mapping[str, Any]], cluster: ClusterHandle) -> Invocation:
    """Return the invocation of a run, for its records."""
    from pipeline.runs.metrics import Invocation

    return Invocation(
        command=options.command(session=False),
        config_toml=options.to_toml(),
        cluster={**cluster.record(), "dashboard": cluster.dashboard_server},
        memory_limit=cluster.memory_limit,
        explain=options.explain or options.dry_run,
        dry_run=options.dry_run,
        dask_report=not options.no_dask_report,
        sources=sources,
        chosen=partial(chosen_invocation, options),
    )


def chosen_invocation(options: BatchOptions, asked: Invocation, params: Params) -> Invocation:
    """Return an invocation with the command and the options of the model that a race has chosen."""
    scoped = {
        name: {key: value for key, value in record.items() if value != fields_by_name(name)[key].recorded_default}
        for name, record in params.methods.items()
    }
    made = replace(
        options,
        partitioner=params.partitioner if params.on_cells else AUTO,
        learner=params.learners,
        scale="minmax" if params.scale == "minmax" else "none",
        budget=None,
        cv_rows=params.cv_rows,
        scoped={name: values for name, values in scoped.items() if values},
    )
    return replace(asked, command=made.command(session=False), config_toml=made.to_toml())


def batch_params(options: BatchOptions) -> Params:
    """Return the parameters that decide the result."""
    from pipeline.params import Params

    return Params(
        partitioner=options.map,
        learners=options.learner,
        methods=options.by_method,
        cv_rows=options.cv_rows,
        search=options.search,
        budget=options.budget,
        order="shuffled" if options.order == "auto" else options.order,  # "auto" is a word of flows.online
        task=options.task,
        scale=options.scale,
        select_by=options.select_by,
        calibration=options.calibration,
        threshold_for=options.threshold_for,
        split_by=options.split_by,
        importance=options.importance,
        seed=options.seed,
        shard_rows=options.shard_rows,
    )


def find_data(options: BatchOptions, events: Events) -> ResolvedDataset:
    """Return the data the options name: files given, a registered data set, or the embedded one.

    Raises
    ------
    InputError
        The data set is unknown or not to be had.
    """
    from pipeline.sources.datasets.download import readable
    from pipeline.sources.datasets.registry import ResolvedDataset, resolve
    from pipeline.sources.datasets.spec import Split

    folder = data_folder(options.data_dir)
    if options.input is not None:
        read = partial(readable, data_dir=folder, say=events.message, progress=downloading(events))
        return ResolvedDataset(
            name=name_of(options.input),
            train_url=read(options.input),
            test_url=None if options.test_input is None else read(options.test_input),
            table=table_request(options),
            task=options.task,
            format=options.format,
            label=options.label,
            **csv_request(options),
            n_columns=options.columns,
            split=Split(fraction=1 - options.test_size),
            inliers=options.inliers,
        )
    spec = known_data(options.dataset_file, folder).find(options.dataset or EMBEDDED)
    data = resolve(spec, folder, progress=downloading(events))
    changes: dict[str, Any] = csv_request(options)
    if options.task != "auto":
        changes["task"] = options.task
    if options.label is not None:
        changes["label"] = options.label
    if options.columns is not None:
        changes["n_columns"] = options.columns
    if options.inliers is not None:
        changes["inliers"] = options.inliers
    if (table := table_request(options)).as_json():
        changes["table"] = table
    if options.test_size != 0.2 and data.test_url is None:
        changes["split"] = Split(fraction=1 - options.test_size)
    return replace(data, **changes)


def name_of(given: str) -> str:
    """Return the name of a run on this input."""
    first = Location(given) if Path(given).exists() else Location(given).several()[0]
    name = Path(re.split(r"[*?\[]", first.place)[0].rstrip("/") or "data").name.partition(".")[0]
    return "stdin" if given == "-" else name or "data"


def table_request(options: BatchOptions) -> TableRequest:
    """Return the request for a table that the options make.

    Raises
    ------
    InputError
        The plan's file cannot be read.
    """
    from ikmap.tables import EncodingRequest
    from pipeline.rows.split_rule import STRATIFIED, SplitRule
    from pipeline.sources.columns.missing import numbers_among
    from pipeline.sources.columns.plan_file import read_plan
    from pipeline.sources.columns.request import TableRequest

    division = None if options.split_by is None else SplitRule.parse(options.split_by)
    more: dict[str, Any] = {}
    if options.missing is not None:
        words = tuple(word.strip() for word in options.missing)  # as cells are looked at
        more = {"missing": ("", *words), "missing_as_numbers": bool(numbers_among(words))}
    return TableRequest(
        drop=options.drop or (),
        id=options.id,
        weight=options.weight,
        categories=options.category or (),
        above=options.above,
        split_column=None if division is None or division.rule == STRATIFIED else division.column,
        encode=EncodingRequest(options.encode_numbers, options.encode_categories, options.encode_times),
        plan={} if options.columns_plan is None else read_plan(options.columns_plan),
        **more,
    )


def downloading(events: Events) -> Callable[[str, int, int | None], None]:
    """Tell how far the downloads are, at every tenth of each."""
    said: dict[str, int] = {}

    def progress(name: str, done: int, total: int | None) -> None:
        tenth = 10 * done // total if total else done >> 26
        if said.get(name) != tenth:
            said[name] = tenth
            of = f" of {total / 1e6:,.1f} MB" if total else ""
            events.message(f"downloading {name}: {done / 1e6:,.1f}{of}")

    return progress
