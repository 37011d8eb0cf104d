"""Train: hand one learner, with the stored cells or rows, to the runner for its kind."""

from __future__ import annotations

from collections.abc import Mapping

from ikmap.methods import CountsLearner, DualLearner, Learner, RoundsLearner, StreamLearner, WholeLearner, method
from ikmap.methods.values import Value
from pipeline.record_types import TrainResult
from pipeline.running.stage import Context
from pipeline.storage.fitted import Fitted
from pipeline.training.counts import CountsRounds
from pipeline.training.dual import DualRounds
from pipeline.training.rounds_runner import RoundsRunner
from pipeline.training.runner import Runner, TrainingJob
from pipeline.training.stream_runner import StreamRunner
from pipeline.training.sums import SumsRounds
from pipeline.training.whole_runner import WholeRunner

RUNNERS: Mapping[type[Learner], Runner] = {
    RoundsLearner: RoundsRunner(SumsRounds),
    CountsLearner: RoundsRunner(CountsRounds),
    WholeLearner: WholeRunner(),
    DualLearner: RoundsRunner(DualRounds),
    StreamLearner: StreamRunner(),
}
"""Runners by the kind of learners that they train; the first one trains a learner that is of several kinds."""


def runner_of(learner: str) -> Runner:
    """Return the runner that trains a learner of :data:`~ikmap.methods.LEARNERS`."""
    kind = method(learner)
    return next(runner for trained_kind, runner in RUNNERS.items() if issubclass(kind, trained_kind))


def train(
    context: Context, learner: str, fitted: Fitted | None, value: Value | None = None, n_threads: int = 1
) -> TrainResult:
    """Train a learner of :data:`~ikmap.methods.LEARNERS` on the cells of one model, or on the rows.

    Parameters
    ----------
    fitted, value, n_threads
        As in :class:`~pipeline.training.runner.TrainingJob`.

    Returns
    -------
    dict
        psi of the cells, or parameter and value; content_hash of the learner's model, and the learner's summary.
    """
    job = TrainingJob(context, learner, fitted, value, n_threads)
    result = runner_of(learner).train(job)
    if not result.get("converged", True):
        tol = context.params.of(learner).value_at("tol")
        assert isinstance(tol, float)
        context.events.message(f"{learner}: duality gap {result['duality_gap']:.2g} is above --tol {tol:g}")
    return result


def fills_cluster(context: Context, learner: str, fitted: Fitted | None) -> bool:
    """Return whether a learner sends tasks to every worker in rounds, which another learner's tasks would delay."""
    held_bytes = TrainingJob(context, learner, fitted).held_bytes
    return runner_of(learner).fills_cluster(context.params.of(learner), held_bytes)
