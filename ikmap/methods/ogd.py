"""Online gradient descent on cells (IK-OGD), as the paper has it: by weights, by all products, by support points.

By weights it learns numbers too, on squared errors: its loss is that of the task.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ikmap.methods.kinds import Choice, Flag
from ikmap.methods.learners import OnlineOptions, StreamLearner
from ikmap.methods.options import MethodOptions, OptionError, option
from ikmap.methods.sample import Sample, Shape


class OGDOptions(OnlineOptions):
    """Of online gradient descent on cells."""

    feature_scale: str = option(
        "kernel",
        Choice(("kernel", "raw")),
        help="features that ogd and ogd-naive see: 1/sqrt(t), so that K(x, x) = 1, or 1",
    )


class _PrimalOptions(OGDOptions):
    """And of the form that is for use."""

    average: bool = option(
        False,
        Flag(),
        help="predict with the mean of the weights it has had on its way, not with the last ones: more often right, "
        "and with steadier probabilities",
    )


class _DualOptions(OGDOptions):
    def check_together(self) -> None:
        super().check_together()
        if self.feature_scale == "raw":
            raise OptionError("--feature-scale raw: found --learner ogd-dual, whose kernel is scaled; expected ogd")


class _ByWeights(StreamLearner):
    Options: ClassVar[type[MethodOptions]] = OGDOptions
    grows = True

    def start(self, options: Any, value: float | None, sample: Sample, n_threads: int = 1) -> Any:
        assert sample.offsets is not None
        divisor = float(sample.offsets.size - 1) if options.feature_scale == "kernel" else 1.0
        columns, constant = int(sample.offsets[-1]), not sample.reaches_all
        return self._kind().start(columns, sample.n_classes, eta=options.eta, divisor=divisor, constant=constant)

    def weighs(self, options: Any, task: str) -> bool:
        """Steps are longer, or shorter: not on squared errors, where a long one makes the error larger."""
        return task == "classification"

    def _kind(self) -> Any:
        raise NotImplementedError


class _Primal(_ByWeights):
    Options: ClassVar[type[MethodOptions]] = _PrimalOptions
    carries = True
    told: ClassVar[Mapping[str, Any]] = {
        "updates": {
            "description": "How often a weight vector was moved: in a round, once for each class that asked for it.",
            "type": "integer",
            "minimum": 0,
        }
    }

    def start(self, options: Any, value: float | None, sample: Sample, n_threads: int = 1) -> Any:
        from ikmap.learners.online.averaged_ogd import AveragedOGDState
        from ikmap.learners.online.squared_ogd import SquaredOGDState

        assert sample.offsets is not None
        state: Any
        if sample.n_classes:
            state = super().start(options, value, sample, n_threads)
        else:
            divisor = float(sample.offsets.size - 1) if options.feature_scale == "kernel" else 1.0
            state = SquaredOGDState.start(sample.offsets, options.eta, divisor)
        if not options.average:
            return state
        return AveragedOGDState.start(state, int(sample.offsets[-1]), sample.offsets.size - 1)

    def _kind(self) -> Any:
        from ikmap.learners.online.ogd import OGDState

        return OGDState

    def facts(self, state: Any) -> dict[str, Any]:
        return {"updates": int(state.n_updates.sum())}


class _Naive(_ByWeights):
    def _kind(self) -> Any:
        from ikmap.learners.online.naive_ogd import NaiveOGDState

        return NaiveOGDState


class _Dual(StreamLearner):
    Options: ClassVar[type[MethodOptions]] = _DualOptions
    models = ("ikmap.learners.kernel.kernel_model",)

    def start(self, options: Any, value: float | None, sample: Sample, n_threads: int = 1) -> Any:
        from ikmap.kernels import IsolationKernel
        from ikmap.learners.online.kernel_ogd import KernelOGDState

        assert sample.offsets is not None
        return KernelOGDState(
            IsolationKernel(sample.offsets.size - 1), sample.n_classes, options.eta, n_threads=n_threads
        )

    def needed_bytes(self, options: Any, shape: Shape) -> int:
        from ikmap.learners.kernel.support_set import support_set_bytes

        return support_set_bytes(shape.n, shape.d, shape.nnz, shape.n_classes)


OGD = _Primal(
    name="ogd",
    title="online gradient descent on cells (IK-OGD)",
    on="cells",
    tasks=frozenset({"classification", "regression"}),
)
OGD_NAIVE = _Naive(
    name="ogd-naive",
    title="the same by products with all of t psi (IK-OGD, naive)",
    on="cells",
    same_as="ogd",
)
OGD_DUAL = _Dual(
    name="ogd-dual", title="the same as a sum over support points (IK-OGD, dual)", on="cells", same_as="ogd"
)
