"""What NORMA can be told, in all its forms: loss, regularisation, step sizes and which of its functions decides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ikmap.methods.kinds import Choice, Flag, Integer, Real
from ikmap.methods.options import MethodOptions, OptionError, Setting, option

if TYPE_CHECKING:
    from ikmap.learners.online.norma_rule import NormaRule
    from ikmap.methods.sample import Sample

OF_TASK = {"classification": "hinge", "novelty": "novelty", "regression": "squared"}
"""The usual loss of each task."""
TASK_OF = {
    "hinge": "classification",
    "nu": "classification",
    "perceptron": "classification",
    "logistic": "classification",
    "novelty": "novelty",
    "squared": "regression",
    "epsilon": "regression",
    "insensitive": "regression",
    "huber": "regression",
    "trimmed": "regression",
}
WORDS = {"binary": "classification", "multiclass": "classification"}
"""Words of ``--task`` for the names of tasks."""


class NormaOptions(MethodOptions):
    """Of NORMA; auto stands for what serves the loss."""

    loss: str = option(
        "auto",
        Choice(("auto", *TASK_OF)),
        help="what to minimise: of classes hinge, nu (the margin is learned), perceptron or logistic; novelty; of "
        "numbers squared, epsilon (its width is learned), insensitive (its width is --threshold), huber or trimmed "
        "(width learned); auto: hinge, novelty or squared",
    )
    nu: float | str = option(
        "auto",
        Real(0, 1, words=("auto",), with_low=True, with_high=True),
        help="share of rows beyond the margin, alerts, or large errors, by which losses with nu learn a threshold; "
        "auto: 0.1, of epsilon 0.5, of trimmed 0.2",
        setting=Setting(
            "ν", "share beyond the threshold", "How many rows are to be alerts, margin errors or large errors."
        ),
    )
    eta: float | str = option(
        "auto",
        Real(0, words=("auto",)),
        help="step size; auto: 1 for nu and novelty, else 0.5, no more than 1 / regularization",
        setting=Setting("η", "step size", "How far one row moves the function."),
    )
    schedule: str = option(
        "auto",
        Choice(("auto", "constant", "root", "horizon")),
        help="steps of size eta (constant), eta / sqrt(row number) (root), or eta / sqrt(rows) for so many rows as "
        "--horizon says (horizon); auto: root for nu and novelty, else constant",
    )
    horizon: int | None = option(
        None, Integer(1), help="rows that --schedule horizon goes by (default: the training rows, or the initial ones)"
    )
    regularization: float | str = option(
        "auto",
        Real(0, words=("auto",), with_low=True),
        help="lambda: weights shrink by 1 - eta lambda with each row; auto: 1 for nu and novelty, 0 for perceptron, "
        "else 1e-5",
        setting=Setting("λ", "forgetting", "How quickly what was learned fades as other rows come."),
    )
    offset: str = option(
        "auto",
        Choice(("auto", "yes", "no")),
        help="whether predictions have an offset; auto: of hinge, perceptron and logistic",
    )
    threshold: float | str = option(
        "auto",
        Real(0, words=("auto",), with_low=True),
        help="margin of hinge, or width of huber or insensitive in standard deviations of the target; of losses that "
        "learn it, at first; auto: 1 for hinge, huber and trimmed, 0.1 for insensitive, else 0",
    )
    clip_rho: bool = option(
        False, Flag(), help="a margin that is learned stays at 0 or above; the share of alerts is then another than nu"
    )
    iterate: str = option(
        "auto",
        Choice(("auto", "last", "mean", "late")),
        help="the function that decides: the last, the mean of all before, or their mean in which late ones count "
        "more; auto: the mean for novelty and nu, else the last",
    )

    def check_together(self) -> None:
        super().check_together()
        if self.horizon is not None and self.schedule != "horizon":
            raise OptionError(
                f"--horizon {self.horizon}: found --schedule {self.schedule}, expected --schedule horizon"
            )
        if self.loss != "auto":
            rule_of(self, self.loss, 1000)

    @property
    def unused(self) -> frozenset[str]:
        return UNUSED.get(self.loss, frozenset())


UNUSED = {
    loss: frozenset(
        ({"nu"} if loss not in ("nu", "novelty", "epsilon", "trimmed") else set())
        | ({"clip_rho"} if loss not in ("nu", "novelty") else set())
        | ({"threshold"} if loss in ("perceptron", "logistic", "squared") else set())
        | ({"offset"} if loss == "novelty" else set())
    )
    for loss in TASK_OF
}
"""Options that change nothing, by the loss."""


def usual_loss(options: Any, task: str) -> str:
    """The loss for a task."""
    return OF_TASK[task] if options.loss == "auto" else str(options.loss)


def rule_of(options: Any, loss: str, n_rows: int) -> NormaRule:
    """Loss and steps as they were asked for; `n_rows` where steps go by the number of rows.

    Raises
    ------
    OptionError
        They contradict each other.
    """
    from ikmap.learners.online.norma_rule import usual_rule

    def given(value: Any, **words: Any) -> Any:
        return words.get(value) if isinstance(value, str) else value

    eta, schedule, horizon = given(options.eta), options.schedule, options.horizon
    if schedule == "horizon":
        eta = (1.0 if eta is None else eta) / (horizon or n_rows) ** 0.5
    try:
        return usual_rule(
            loss,
            nu=given(options.nu),
            eta=eta,
            decreasing=given(schedule, constant=False, root=True, horizon=False),
            regularization=given(options.regularization),
            offset=given(options.offset, yes=True, no=False),
            threshold=given(options.threshold),
            clip_rho=options.clip_rho,
            average=given(options.iterate, last=False, mean=True, late="late"),
        )
    except ValueError as error:
        raise OptionError(f"--loss {loss}, {error}") from None


def for_task(options: Any, task: str) -> Any:
    """With the loss that the task says, where it says one."""
    name = WORDS.get(task, task)
    return options.replace(loss=OF_TASK[name]) if options.loss == "auto" and name in OF_TASK else options


def unsuited(name: str, options: Any, task: str, largest: float) -> str | None:
    """What is wrong with loss and steps for a task, where no k(x, x) is larger than this."""
    loss = usual_loss(options, task)
    if TASK_OF[loss] == task:
        try:
            rule_of(options, loss, 1000).check_norm(largest)
        except ValueError as error:
            return str(error) if isinstance(error, OptionError) else f"--{name}.loss {loss}, {error}"
        return None
    able = ", ".join(loss for loss, of in TASK_OF.items() if of == task)
    return f"--{name}.loss {options.loss}: found task {task}, expected one of {able}"


def target_unit(rule: NormaRule, sample: Sample) -> dict[str, float]:
    """Centre and unit of targets that are numbers: their median, and a deviation that outliers do not move.

    By the deciles of all labels, as far as there are nine: the distance of the second and the eighth, which is 1.683
    deviations of normal numbers.
    """
    if not rule.of_numbers:
        return {}
    assert sample.task is not None
    codec: Any = sample.task.codec
    if len(codec.deciles) == 9:
        second, middle, eighth = codec.deciles[1], codec.deciles[4], codec.deciles[7]
        if eighth > second:
            return {"center": float(middle), "unit": float(eighth - second) / 1.683}
    return {"center": float(codec.mean), "unit": float(codec.deviation)}
