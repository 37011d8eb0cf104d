"""NORMA with a kernel on the rows, as a sum over stored rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from annotated_types import Gt

from ikmap.methods.about import LearnerAbout
from ikmap.methods.fields import Doc
from ikmap.methods.kernel_on_rows import OnKernel
from ikmap.methods.method import SearchSpace
from ikmap.methods.norma_options import METRICS_SCHEMA, NormaLearner, RuleError, target_unit
from ikmap.methods.sample import Sample, Shape

if TYPE_CHECKING:
    from ikmap_papers.norma.norma_dual_state import NormaDualState


class NormaDual(OnKernel, NormaLearner):
    """Regularised online learning with a kernel."""

    about: ClassVar[LearnerAbout] = LearnerAbout(
        name="norma-dual",
        title="regularised online learning with a kernel (NORMA, dual)",
        on="rows",
        tasks=frozenset({"classification", "novelty", "regression"}),
        models=("ikmap.learners.kernel.kernel_model",),
        loops=("ikmap_papers.norma._norma_dual_loops",),
        loop_words=frozenset({"kernel-terms"}),
        metrics_schema=METRICS_SCHEMA,
    )
    truncation: Annotated[
        float | Literal["none"],
        Gt(0),
        Doc("how far off a function may be, in norm, for old rows to be dropped; none: all rows are kept"),
    ] = "none"

    def check(self, searched: frozenset[str]) -> None:
        super().check(searched)
        if self.loss != "auto":
            self.rounds(self.loss, 1000)

    def check_task(self, task: str) -> None:
        """Raise :class:`FieldError` if loss and steps do not suit a task.

        Most kernels have k(x, x) = 1; with others, each row is checked when it is learned from.
        """
        super().check_task(task)
        self.rounds(self.loss_for(task), 1000)

    def rounds(self, loss: str, n_rows: int) -> int | None:
        """Return the number of rounds for which rows are kept, or None if all rows are kept.

        Raises
        ------
        FieldError
            The rule needs all rows to be kept.
        """
        from ikmap_papers.norma.truncation import rounds_kept

        if self.truncation == "none":
            return None
        rule = self.rule(loss, n_rows)
        try:
            return rounds_kept(rule, self.truncation)
        except ValueError as error:
            raise RuleError("loss", loss, str(error)) from None

    def search_space(self, searched: frozenset[str], n_rows: int, sample: Sample | None = None) -> SearchSpace:
        return {} if self.loss == "novelty" else super().search_space(searched, n_rows, sample)

    def start(self, sample: Sample, n_threads: int = 1) -> NormaDualState:
        from ikmap_papers.norma.norma_dual_state import NormaDualState

        assert sample.task is not None
        self.check_task(sample.task.name)
        loss = self.loss_for(sample.task.name)
        rule = self.rule(loss, sample.n_rows)
        return NormaDualState(
            rule,
            self.kernel.kernel(sample.n_columns),
            sample.n_classes or 2,
            self.rounds(loss, sample.n_rows),
            **target_unit(rule, sample),
            learner=self.about.name,
            n_threads=n_threads,
        )

    def memory(self, shape: Shape, rows: int | None = None) -> int:  # noqa: ARG002
        from ikmap.learners.kernel.support_set import support_set_bytes
        from ikmap_papers.norma.norma_dual_state import MOST_VALUES

        return support_set_bytes(shape.n, shape.d, shape.nnz, shape.n_classes) + 16 * MOST_VALUES + 32 * shape.n
