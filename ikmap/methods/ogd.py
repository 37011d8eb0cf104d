"""Online gradient descent on cells (IK-OGD), as the paper has it: by weights, by all products, by support points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ikmap.methods.learner import Sample, Shape, StreamLearner


@dataclass(frozen=True, kw_only=True)
class _ByWeights(StreamLearner):
    def start(self, options: Any, value: float | None, sample: Sample, n_threads: int = 1) -> Any:
        assert sample.offsets is not None
        divisor = float(options.t) if options.feature_scale == "kernel" else 1.0
        return self._kind().start(int(sample.offsets[-1]), sample.n_classes, eta=options.eta, divisor=divisor)

    def _kind(self) -> Any:
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class _Primal(_ByWeights):
    def _kind(self) -> Any:
        from ikmap.learners.ogd import OGDState

        return OGDState

    def facts(self, state: Any) -> dict[str, Any]:
        return {"updates": int(state.n_updates.sum())}


@dataclass(frozen=True, kw_only=True)
class _Naive(_ByWeights):
    def _kind(self) -> Any:
        from ikmap.learners.naive_ogd import NaiveOGDState

        return NaiveOGDState


@dataclass(frozen=True, kw_only=True)
class _Dual(StreamLearner):
    models = ("ikmap.learners.kernel_model",)

    def start(self, options: Any, value: float | None, sample: Sample, n_threads: int = 1) -> Any:
        from ikmap.kernels import IsolationKernel
        from ikmap.learners.kernel_ogd import KernelOGDState

        return KernelOGDState(IsolationKernel(options.t), sample.n_classes, options.eta, n_threads=n_threads)

    def needed_bytes(self, options: Any, shape: Shape) -> int:
        from ikmap.learners.kernel_ogd import kernel_ogd_bytes

        return kernel_ogd_bytes(shape.n, shape.d, shape.nnz, shape.n_classes)


OGD = _Primal(name="ogd", title="online gradient descent on cells (IK-OGD)", on="cells", own="feature_scale")
OGD_NAIVE = _Naive(
    name="ogd-naive",
    title="the same by products with all of t psi (IK-OGD, naive)",
    on="cells",
    own="feature_scale",
    same_as="ogd",
)
OGD_DUAL = _Dual(
    name="ogd-dual", title="the same as a sum over support points (IK-OGD, dual)", on="cells", same_as="ogd"
)
