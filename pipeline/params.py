"""What decides the result of a run: the same parameters on the same data give the same bits."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Params:
    """Parameters of a batch run, apart from where the data is and on what it runs.

    Attributes
    ----------
    partitioner : {"anne", "iforest"}
    t : int
        Number of partitionings.
    psi : int or "auto"
        Cells per partitioning; "auto" chooses by 5-fold cross-validation.
    max_depth : {None, "log2"}
    cv_rows : int
        Cross-validation looks at no more training rows than this.
    learners : tuple of {"svm", "ogd", "logistic"}
    C : float or "auto"
        Weight of the losses of the SVM and of logistic regression; "auto" chooses by the same cross-validation.
    loss, tol, class_weight, solver, parts
        Of the SVM; all but `loss` also of logistic regression. `parts` is the number of parts of the rows for the
        distributed solver; None goes by size.
    eta, feature_scale, order
        Of online gradient descent.
    task : {"auto", "binary", "multiclass"}
    scale : {"none", "minmax"}
    seed : int
    shard_rows : int or None
        Rows in an object of the store; never a matter of the result.
    """

    partitioner: str = "anne"
    t: int = 100
    psi: int | str = "auto"
    max_depth: str | None = None
    cv_rows: int = 20_000
    learners: tuple[str, ...] = ("svm", "ogd")
    loss: str = "squared_hinge"
    C: float | str = 5.0
    tol: float = 1e-3
    class_weight: str | None = None
    solver: str = "auto"
    parts: int | None = None
    eta: float = 0.5
    feature_scale: str = "kernel"
    order: str = "shuffled"
    task: str = "auto"
    scale: str = "none"
    seed: int = 0
    shard_rows: int | None = None

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "learners": list(self.learners)}
