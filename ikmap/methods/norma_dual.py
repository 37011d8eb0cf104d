"""NORMA with a kernel on the rows: what ``norma`` learns on cells, as a sum over stored rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ikmap.methods.kernel_on_rows import KernelOptions, OnKernel, kernel_of, kernel_on_rows
from ikmap.methods.kinds import Real
from ikmap.methods.norma import TRACED, NormaLearner
from ikmap.methods.norma_options import NormaOptions, rule_of, target_unit, usual_loss
from ikmap.methods.options import MethodOptions, OptionError, option
from ikmap.methods.sample import Sample, Shape
from ikmap.methods.search import Search


class NormaDualOptions(KernelOptions, NormaOptions):
    """Of NORMA with a kernel."""

    truncation: float | str = option(
        "none",
        Real(0, words=("none",)),
        help="how far off a function may be, in norm, for old rows to be dropped; none: all rows are kept",
    )

    def check_together(self) -> None:
        super().check_together()
        if self.truncation != "none" and self.loss != "auto":
            rounds_of(self, self.loss, 1000)


def rounds_of(options: Any, loss: str, n_rows: int) -> int | None:
    """Rounds for which rows are kept.

    Raises
    ------
    OptionError
        All have to be kept.
    """
    from ikmap.learners.online.norma_rule import rounds_kept

    if options.truncation == "none":
        return None
    try:
        return rounds_kept(rule_of(options, loss, n_rows), options.truncation)
    except ValueError as error:
        raise OptionError(f"--loss {loss}, {error}") from None


class _NormaDual(OnKernel, NormaLearner):
    Options: ClassVar[type[MethodOptions]] = NormaDualOptions
    traced: ClassVar[Mapping[str, str]] = TRACED
    models = ("ikmap.learners.kernel.kernel_model",)
    grows = False

    def unsuited(self, options: Any, task: str) -> str | None:
        # Of most kernels k(x, x) is 1; of others, rows are looked at as they are learned.
        if wrong := super().unsuited(options, task):
            return wrong
        try:
            rounds_of(options, usual_loss(options, task), 1000)
        except OptionError as error:
            return str(error)
        return None

    def search(self, options: Any, n_rows: int) -> Search | None:
        return None if options.loss == "novelty" else super().search(options, n_rows)

    def start(self, options: Any, value: float | None, sample: Sample, n_threads: int = 1) -> Any:
        from ikmap.learners.online.norma_dual import NormaDualState

        assert sample.task is not None
        if wrong := self.unsuited(options, sample.task.name):
            raise ValueError(wrong)
        loss = usual_loss(options, sample.task.name)
        rule = rule_of(options, loss, sample.n_rows)
        if value is None:
            kernel, of_kernel = kernel_of(options), options.of_kernel
            kernel_now = kernel.kernel(of_kernel, kernel.unsearched(of_kernel, sample.n_columns), sample.n_columns)
        else:
            kernel_now = kernel_on_rows(options, value, sample.n_columns)
        tau, of = rounds_of(options, loss, sample.n_rows), target_unit(rule, sample)
        classes = sample.n_classes or 2
        return NormaDualState(rule, kernel_now, classes, tau, **of, learner=self.name, n_threads=n_threads)

    def needed_bytes(self, options: Any, shape: Shape) -> int:
        from ikmap.learners.kernel.support_set import support_set_bytes
        from ikmap.learners.online.norma_dual import MOST_VALUES

        return support_set_bytes(shape.n, shape.d, shape.nnz, shape.n_classes) + 16 * MOST_VALUES + 32 * shape.n


NORMA_DUAL = _NormaDual(
    name="norma-dual",
    title="regularised online learning with a kernel (NORMA, dual)",
    tasks=frozenset({"classification", "novelty", "regression"}),
)
