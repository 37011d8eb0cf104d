"""Options of NORMA: loss, regularisation, step sizes and the function that decides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Protocol, Self, runtime_checkable

from annotated_types import Ge, Gt, Le

from ikmap.methods.fields import Doc, FieldError, Symbol
from ikmap.methods.learner import State, StreamLearner

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ikmap.json_values import Json
    from ikmap.learners.online.norma_rule import NormaRule
    from ikmap.methods.learner import Summary
    from ikmap.methods.sample import Sample

OF_TASK: dict[str, Loss] = {"classification": "hinge", "novelty": "novelty", "regression": "squared"}
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
"""Names of tasks by words of ``--task``."""
type Loss = Literal[
    "auto",
    "hinge",
    "nu",
    "perceptron",
    "logistic",
    "novelty",
    "squared",
    "epsilon",
    "insensitive",
    "huber",
    "trimmed",
]
SHARE = "Share beyond the threshold (alerts, margin errors, large errors) among the last 1000 rows or so, and ν"


@runtime_checkable
class HasRule(Protocol):
    """A state of NORMA, which knows the rule that it learns by."""

    rule: NormaRule


class RuleError(FieldError):
    """A loss and steps that contradict each other, in the words of :mod:`ikmap.learners.online.norma_rule`."""

    def __init__(self, field: str, loss: str, text: str) -> None:
        super().__init__(field, loss, text)

    def worded(self, option: Callable[[str], str] = str) -> str:
        return f"{option(self.field)} {self.found}, {self.expected}"


class NormaLearner(StreamLearner):
    """Base of learners by NORMA, whatever form their function has; "auto" stands for a value that suits the loss.

    Attributes
    ----------
    loss, nu, eta, schedule, horizon, regularization, offset, threshold, clip_rho, iterate
    """

    traced: ClassVar[Mapping[str, str]] = {
        "beyond": SHARE,
        "nu": SHARE,
        "rho": "Margin ρ of the last function",
        "level": "Level of alerts, a share of the largest value that the mean function can have",
        "epsilon": "Width ε, in the unit of the target: smaller errors cost nothing",
        "sigma": "Size σ, in the unit of the target: larger errors count no more than in proportion",
    }
    loss: Annotated[
        Loss,
        Doc(
            "what to minimise: of classes hinge, nu (the margin is learned), perceptron or logistic; novelty; of "
            "numbers squared, epsilon (its width is learned), insensitive (its width is {threshold}), huber or trimmed "
            "(width learned); auto: hinge, novelty or squared"
        ),
    ] = "auto"
    nu: Annotated[
        float | Literal["auto"],
        Ge(0),
        Le(1),
        Doc(
            "share of rows beyond the margin, alerts, or large errors, by which losses with nu learn a threshold; "
            "auto: 0.1, of epsilon 0.5, of trimmed 0.2"
        ),
        Symbol("ν", "share beyond the threshold", "How many rows are to be alerts, margin errors or large errors."),
    ] = "auto"
    eta: Annotated[
        float | Literal["auto"],
        Gt(0),
        Doc("step size; auto: 1 for nu and novelty, else 0.5, no more than 1 / regularization"),
        Symbol("η", "step size", "How far one row moves the function."),
    ] = "auto"
    schedule: Annotated[
        Literal["auto", "constant", "root", "horizon"],
        Doc(
            "steps of size eta (constant), eta / sqrt(row number) (root), or eta / sqrt(rows) for so many rows as "
            "{horizon} says (horizon); auto: root for nu and novelty, else constant"
        ),
    ] = "auto"
    horizon: Annotated[
        int | None,
        Ge(1),
        Doc("rows that {schedule} horizon goes by (default: the training rows, or the initial ones)"),
    ] = None
    regularization: Annotated[
        float | Literal["auto"],
        Ge(0),
        Doc(
            "lambda: weights shrink by 1 - eta lambda with each row; auto: 1 for nu and novelty, 0 for perceptron, "
            "else 1e-5"
        ),
        Symbol("λ", "forgetting", "How quickly what was learned fades as other rows come."),
    ] = "auto"
    offset: Annotated[
        Literal["auto", "yes", "no"],
        Doc("whether predictions have an offset; auto: of hinge, perceptron and logistic"),
    ] = "auto"
    threshold: Annotated[
        float | Literal["auto"],
        Ge(0),
        Doc(
            "margin of hinge, or width of huber or insensitive in standard deviations of the target; of losses that "
            "learn it, at first; auto: 1 for hinge, huber and trimmed, 0.1 for insensitive, else 0"
        ),
    ] = "auto"
    clip_rho: Annotated[
        bool, Doc("a margin that is learned stays at 0 or above; the share of alerts is then another than nu")
    ] = False
    iterate: Annotated[
        Literal["auto", "last", "mean", "late"],
        Doc(
            "the function that decides: the last, the mean of all before, or their mean in which late ones count "
            "more; auto: the mean for novelty and nu, else the last"
        ),
    ] = "auto"

    def check(self, searched: frozenset[str]) -> None:
        super().check(searched)
        if self.horizon is not None and self.schedule != "horizon":
            raise FieldError("horizon", f"{{schedule}} {self.schedule}", "{schedule} horizon", value=self.horizon)
        if self.loss != "auto":
            self.rule(self.loss, 1000)

    def ignored(self, searched: frozenset[str]) -> frozenset[str]:
        return IGNORED.get(self.loss, frozenset())

    def for_task(self, task: str) -> Self:
        name = WORDS.get(task, task)
        return self.at({"loss": OF_TASK[name]}) if self.loss == "auto" and name in OF_TASK else self

    def check_task(self, task: str) -> None:
        """Raise :class:`FieldError` if loss and steps do not suit a task, with k(x, x) <= 1."""
        loss, field = self.loss_for(task), f"{self.about.name}.loss"
        if TASK_OF[loss] != task:
            able = ", ".join(loss for loss, name in TASK_OF.items() if name == task)
            raise FieldError(field, f"task {task}", f"one of {able}", value=self.loss)
        rule = self.rule(loss, 1000)
        try:
            rule.check_norm(1.0)
        except ValueError as error:
            raise RuleError(field, loss, str(error)) from None

    def loss_for(self, task: str) -> str:
        """Return the loss for the task of that name."""
        return OF_TASK[task] if self.loss == "auto" else self.loss

    def rule(self, loss: str, n_rows: int) -> NormaRule:
        """Return the rule of loss and steps; `n_rows` is needed if steps depend on the number of rows.

        Raises
        ------
        FieldError
            Loss and steps contradict each other.
        """
        from ikmap.learners.online.norma_rule import usual_rule

        eta = None if self.eta == "auto" else self.eta
        if self.schedule == "horizon":
            eta = (1.0 if eta is None else eta) / (self.horizon or n_rows) ** 0.5
        average: dict[str, bool | str] = {"last": False, "mean": True, "late": "late"}
        try:
            return usual_rule(
                loss,
                nu=None if self.nu == "auto" else self.nu,
                eta=eta,
                decreasing={"constant": False, "root": True, "horizon": False}.get(self.schedule),
                regularization=None if self.regularization == "auto" else self.regularization,
                offset={"yes": True, "no": False}.get(self.offset),
                threshold=None if self.threshold == "auto" else self.threshold,
                clip_rho=self.clip_rho,
                average=average.get(self.iterate),
            )
        except ValueError as error:
            raise RuleError("loss", loss, str(error)) from None

    def summary(self, state: State) -> Summary:
        assert isinstance(state, HasRule)
        return {"loss": state.rule.loss, "nu": state.rule.nu if state.rule.learns_threshold else None}


IGNORED = {
    loss: frozenset(
        ({"nu"} if loss not in ("nu", "novelty", "epsilon", "trimmed") else set())
        | ({"clip_rho"} if loss not in ("nu", "novelty") else set())
        | ({"threshold"} if loss in ("perceptron", "logistic", "squared") else set())
        | ({"offset"} if loss == "novelty" else set())
    )
    for loss in TASK_OF
}
"""Fields without effect, by the loss."""
METRICS_SCHEMA: Mapping[str, Mapping[str, Json]] = {
    "loss": {"description": "What was minimised.", "type": "string"},
    "nu": {"description": "The share beyond the threshold that was asked for.", "type": ["number", "null"]},
}
"""JSON Schema of the fields that every form reports."""


def target_unit(rule: NormaRule, sample: Sample) -> dict[str, float]:
    """Return the centre and the unit of numbers as targets: their median, and a deviation that is robust to outliers.

    They follow from the deciles of all labels: the distance of the second and the eighth decile is 1.683 deviations of
    normal numbers. If there are fewer than nine deciles, they are the mean and the deviation.
    """
    from ikmap.tasks.regression.codec import NumberCodec

    if not rule.of_numbers:
        return {}
    assert sample.task is not None
    codec = sample.task.codec
    assert isinstance(codec, NumberCodec)
    if len(codec.deciles) == 9:
        second, middle, eighth = codec.deciles[1], codec.deciles[4], codec.deciles[7]
        if eighth > second:
            return {"center": float(middle), "unit": float(eighth - second) / 1.683}
    return {"center": float(codec.mean), "unit": float(codec.deviation)}
