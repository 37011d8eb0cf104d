"""The work of ``python -m flows.reproduce`` after its options are read; with or without Prefect around it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from flows.options.reproduce import ReproduceOptions
from flows.runs.batch import listening, starting
from flows.runs.look_first import look_at_paper

# --help needs none of the rest: heavy imports stand in functions.
if TYPE_CHECKING:
    from cluster import ClusterHandle
    from flows.runs.local_data import LocalData
    from pipeline.monitoring.events import Events
    from pipeline.reproduce.paper import Entry, Experiment


def run(
    options: ReproduceOptions,
    *,
    call: Any = None,
    events: Events | None = None,
    on_cluster: Callable[[ClusterHandle], None] | None = None,
) -> dict[str, Any]:
    """Do what the options ask for and return the contents of ``results.json``.

    Parameters
    ----------
    call, events
        As of :func:`~flows.runs.batch.run_pipeline`.
    on_cluster : callable, optional
        Called with each cluster, when it is up.

    Raises
    ------
    InputError
        The user's input or environment is at fault.
    KeyboardInterrupt
        With the command that goes on.
    """
    events = listening(options, events)
    check_systems(options)
    look_at_paper(options)
    starting(options, events)
    from flows.runs.local_data import LocalData
    from flows.runs.paper_runs import Runs
    from pipeline.errors import ClusterLost, InputError
    from pipeline.reproduce.compared import form_of
    from pipeline.reproduce.page import write_page
    from pipeline.reproduce.results import collect
    from pipeline.runs.batch import call_directly
    from pipeline.storage.durable import write_json
    from pipeline.storage.hold import Hold

    began = time.perf_counter()
    path = options.directory
    with events:
        paper, experiments = options.the_paper, options.experiments
        data = LocalData(options)
        for experiment in experiments:
            for name in options.datasets or paper.datasets_of(experiment):
                data.look_for(name)
        for reason in data.skipped.values():
            events.message(f"skipped: {reason}")
        lock = Hold(path)
        try:
            entries = {e.label: entries_for(e, options, data) for e in experiments}
            runs = Runs(options, path, data, call or call_directly, events, on_cluster)
            sizes = any(form_of(paper, experiment).sized for experiment in experiments)
            runs.make([entry for listed in entries.values() for entry in listed], list(data.there) if sizes else [])
            results = collect(paper, experiments, entries, runs.found, options.readings, runs.sizes, path)
            results["run"] = runs.about(options.command(session=False), time.perf_counter() - began)
            results["skipped"] = data.skipped
            write_json(path / "results.json", results)
            write_page(paper, results, path / "report.html")
            events.message(f"report: {path / 'report.html'}")
            return results
        except KeyboardInterrupt:
            raise KeyboardInterrupt(replace(options, run_dir=str(path), fresh=False).again) from None
        except ClusterLost as error:
            if not options.fresh:
                raise
            raise ClusterLost(f"{error}; {replace(options, run_dir=str(path), fresh=False).again}") from None
        except InputError:
            lock.undo()
            raise
        finally:
            lock.close()


def check_systems(options: ReproduceOptions) -> None:
    """Refuse what is no system of the paper.

    Raises
    ------
    InputError
        With those that it has.
    """
    from pipeline.errors import InputError

    systems = options.the_paper.systems
    for name in options.systems or ():
        if name not in systems:
            raise InputError(f"--systems: found {name!r}, expected some of {', '.join(systems)}")


def entries_for(experiment: Experiment, options: ReproduceOptions, data: LocalData) -> list[Entry]:
    """Runs of an experiment on the data sets that are there."""
    from pipeline.reproduce.compared import form_of
    from pipeline.reproduce.paper import Request

    paper = options.the_paper
    names = data.those_of(options.datasets or paper.datasets_of(experiment))
    stream: dict[str, Any] = {} if options.order == "shuffled" else {"order": options.order}
    if options.initial is not None:
        stream["initial"] = options.initial
    return list(form_of(paper, experiment).entries(Request(names, options.readings, stream, options.systems)))
