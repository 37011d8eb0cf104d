"""The work of ``python -m flows.score`` after its options are read; with or without Prefect around it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cluster import connect
from flows.options.score import ScoreOptions
from flows.runs.batch import (
    cluster_arguments,
    collect_from_now_on,
    downloading,
    listening,
    modules_not_collected,
    starting,
)
from flows.runs.look_first import look_at_model

# Workers import this module when they start, and --help needs none of the rest: heavy imports stand in functions.
if TYPE_CHECKING:
    from cluster import ClusterHandle
    from pipeline.monitoring.events import Events


@modules_not_collected()
def run(
    options: ScoreOptions,
    *,
    call: Any = None,
    events: Events | None = None,
    on_cluster: Callable[[ClusterHandle], None] | None = None,
) -> dict[str, Any]:
    """Score as the options say.

    Parameters
    ----------
    call : callable, optional
        Function that calls the one stage (:data:`pipeline.runs.batch.Call`).
    events : Events, optional
        Receiver of progress; default: bars on a terminal, log lines elsewhere.
    on_cluster : callable, optional
        Function that is called with the cluster when it is up.

    Returns
    -------
    dict
        As :func:`pipeline.runs.score.score`.

    Raises
    ------
    InputError
        The user's input or environment is at fault.
    KeyboardInterrupt
        With the command that does it again.
    """
    events = listening(options, events)
    look_at_model(options)
    starting(options, events)
    from pipeline.running.scheduler_metrics import reported_to_scheduler
    from pipeline.running.warm import WarmUp
    from pipeline.runs.batch import call_directly
    from pipeline.runs.new_data import open_data
    from pipeline.runs.score import score
    from pipeline.runs.score_output import Output
    from pipeline.runs.trained_model import open_run
    from pipeline.sources.datasets.download import readable
    from pipeline.sources.datasets.known import default_data_dir

    with events:
        model = open_run(options.model, options.learner)
        url = readable(options.input, default_data_dir(), say=events.message, progress=downloading(events))
        data = open_data(model, url, options.format, options.label)
        for line in data.source.said():
            events.message(line)
        if data.ignored:
            events.message(f"{url}: not used, as the training data did not have them: {', '.join(data.ignored)}")
        try:
            # The output is given up last: no worker of ours is left then that could still be writing.
            with (
                Output(options.output) as output,
                connect(options.cluster, **cluster_arguments(options, events)) as cluster,
            ):
                cluster.client.register_plugin(WarmUp(words=()))
                events.message(cluster.describe())
                if on_cluster is not None:
                    on_cluster(cluster)
                collect_from_now_on()
                with reported_to_scheduler(cluster.client, events) as told:
                    return (call or call_directly)("score", lambda: score(cluster.client, model, data, output, told))
        except KeyboardInterrupt:
            raise KeyboardInterrupt(options.again) from None
