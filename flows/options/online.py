"""The options of ``python -m flows.online``."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from annotated_types import Ge, Gt, Lt

from flows.options.batch import BatchOptions
from flows.options.common import CLUSTER, DATA, OUTPUT, RUN, STREAM
from flows.options.kinds import Place
from flows.options.option import BASELINES, FEATURES, LEARNING, On
from ikmap.methods import LEARNERS, Doc, Learner, StreamLearner
from ikmap.methods.kinds import Choice, Names
from ikmap.tasks import TASKS
from ikmap.tasks.capabilities import AlertsRows, capability
from pipeline.errors import InputError
from pipeline.resolve import chosen, refuse_growth, refuse_redraw

ONLINE_LEARNER = Choice(tuple(name for name, kind in LEARNERS.items() if issubclass(kind, StreamLearner)))


def _takes_weights(learner: Learner) -> bool:
    """Return whether a learner uses weights of rows in any of its tasks."""
    return any(learner.takes_weights(task) for task in learner.about.tasks)


class OnlineOptions(BatchOptions):
    """Options of ``python -m flows.online``: a stream, every block predicted before it is learned from.

    Raises
    ------
    InputError
        As `BatchOptions`.
    """

    if TYPE_CHECKING:  # what methods declare becomes a field as the class is made

        def __init__(self, **values: Any) -> None: ...

    PROGRAM: ClassVar[str] = "flows.online"
    DESCRIPTION: ClassVar[str] = (
        "Predict and then learn from one block of rows after the other, with several learners on one stream. "
        "Parameters and the map come from the first rows; the map stays unless it grows or is drawn anew."
    )

    learner: Annotated[
        tuple[str, ...],
        Names(ONLINE_LEARNER),
        Doc(f"what learns: any of {', '.join(ONLINE_LEARNER.known)}"),
        On(LEARNING, page=1),
    ] = ("ogd",)
    initial: Annotated[
        int | None,
        Ge(2),
        Doc("rows of the initial set (default: as many as there are training rows)"),
        On(STREAM, page=1),
    ] = None
    block_rows: Annotated[
        int, Ge(1), Doc("rows that are predicted, then learned from, together"), On(STREAM, page=1)
    ] = 1000
    input: Annotated[
        str | None,
        Place("PATH|URL|-"),
        Doc("a file or URL, - (standard input), or a folder to which files come"),
        On(DATA, page=1),
    ] = None
    order: Annotated[
        str,
        Choice(("auto", "shuffled", "file")),
        Doc("order of the stream; file: training before test file; auto: shuffled, where the stream has an end"),
        On(STREAM),
    ] = "auto"
    idle_seconds: Annotated[
        float | None,
        Gt(0),
        Doc("a directory has come to its end when no file was added for so long (default: 60)"),
        On(STREAM),
    ] = None
    limit_seconds: Annotated[
        float | None, Gt(0), Doc("stop a learner that has predicted and learned for so long"), On(STREAM)
    ] = None
    alerts: Annotated[
        str | None,
        Place("FILE|-", here=True),
        Doc(
            "where alerts go while the stream runs, a line of JSON for each row found novel: a new file, or - for "
            "standard output"
        ),
        On(STREAM),
    ] = None
    warm_up: Annotated[int, Ge(0), Doc("rows after the initial ones of which no alert is sent"), On(STREAM)] = 0
    labels_input: Annotated[
        str | None,
        Place("FILE", here=True),
        Doc(
            "labels that come after their rows, where these have none: a file of lines ROW,LABEL that grows; rows are "
            "counted from 0 as they come"
        ),
        On(STREAM),
    ] = None
    label_limit: Annotated[
        int | None,
        Ge(1),
        Doc("how many of the latest rows wait for their label; labels of older rows are left out (default: 100000)"),
        On(STREAM),
    ] = None
    drift: Annotated[
        Literal["none", "adwin", "page-hinkley"],
        Doc("what watches the losses of each learner and raises an alarm where they have risen"),
        On(STREAM),
    ] = "none"
    drift_delta: Annotated[
        float | None,
        Gt(0),
        Lt(1),
        Doc(
            "for adwin, about the chance of a false alarm (default: 0.002); for page-hinkley, how far losses may lie "
            "above their mean (default: 0.005)"
        ),
        On(STREAM),
    ] = None
    on_drift: Annotated[
        Literal["mark", "redraw"],
        Doc(
            "what follows an alarm of --drift; mark: it is reported; redraw: also, half of the learner's "
            "partitionings are drawn anew from the rows that follow, and what was learned is carried over"
        ),
        On(STREAM),
    ] = "mark"
    redraw_rows: Annotated[
        int | None,
        Ge(1),
        Doc("rows after an alarm from which partitionings are drawn anew (default: 1000, or psi if that is more)"),
        On(STREAM),
    ] = None
    GROUPS: ClassVar[tuple[str, ...]] = (DATA, STREAM, FEATURES, LEARNING, BASELINES, RUN, CLUSTER, OUTPUT)
    PRESETS: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    REFUSED: ClassVar[tuple[str, ...]] = ("calibration", "threshold_for", "split_by", "importance")

    def check_together(self) -> None:
        """Refuse options that exclude each other."""
        super().check_together()
        at_default = self.at_default
        for name in self.REFUSED:
            if name not in at_default:
                words = shlex.join(self.specs()[name].words(getattr(self, name)))
                raise InputError(
                    f"{words}: found a stream, of which every row is predicted before it is learned from; expected "
                    "flows.batch"
                )
        if self.initial is not None and self.test_size != self.specs()["test_size"].default:
            raise InputError("--initial and --test-size: found both, expected one of them")
        self._check_alerts()
        self._check_weights()
        if self.drift_delta is not None and self.drift == "none":
            raise InputError(f"--drift-delta {self.drift_delta:g}: found no --drift, expected adwin or page-hinkley")
        if self.on_drift == "redraw" and self.drift == "none":
            raise InputError("--on-drift redraw: found no --drift, expected adwin or page-hinkley: type --drift adwin")
        if self.redraw_rows is not None and self.on_drift != "redraw":
            raise InputError(
                f"--redraw-rows {self.redraw_rows}: found --on-drift {self.on_drift}, expected --on-drift redraw"
            )
        if self.label_limit is not None and self.labels_input is None:
            raise InputError(f"--label-limit {self.label_limit}: found no --labels-input, expected a file of labels")
        if self.labels_input is not None and self.label is not None:
            raise InputError("--label and --labels-input: found both, expected one of them")
        if self.labels_input is not None and self.above is not None:
            raise InputError(
                f"--above {self.above:g} and --labels-input: found both; expected classes in the file of labels, "
                f"such as 1 for those above {self.above:g} and 0 for others"
            )
        names = chosen(self.map, self.learner)
        refuse_growth(names, self.by_method)
        if self.on_drift == "redraw":
            refuse_redraw(names, self.by_method)

    def _check_weights(self) -> None:
        if self.weight is None:
            return
        able = [name for name in ONLINE_LEARNER.known if _takes_weights(LEARNERS[name].of_record({})[0])]
        if ignores_weights := [name for name in self.learner if name not in able]:
            verb = "counts" if len(ignores_weights) == 1 else "count"
            raise InputError(
                f"--weight {self.weight}: found --learner {','.join(ignores_weights)}, which {verb} every row once; "
                f"expected --learner {','.join(able)}"
            )

    def _check_alerts(self) -> None:
        if self.warm_up and self.alerts is None:
            raise InputError(f"--warm-up {self.warm_up}: found no --alerts, expected a file for them, or -")
        able = [name for name, task in TASKS.items() if capability(task, AlertsRows)]
        if self.alerts is not None and not any(LEARNERS[name].about.tasks & set(able) for name in self.learner):
            known = [name for name in ONLINE_LEARNER.known if LEARNERS[name].about.tasks & set(able)]
            raise InputError(
                f"--alerts {self.alerts}: found --learner {' '.join(self.learner)}, which alerts of no rows, expected "
                f"one of {', '.join(known)}"
            )
