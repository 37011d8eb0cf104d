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
    search : {"race", "full"}
        Whether cross-validation leaves out, after some folds, what will not be chosen any more (:mod:`ikmap.racing`).
    budget : float or None
        Seconds that it may take; part of what a run is, as two budgets may choose differently.
    learners : tuple of names of :data:`ikmap.methods.LEARNERS`
    C : float or "auto"
        Weight of the losses of the SVM and of logistic regression; "auto" chooses by the same cross-validation.
    loss, tol, class_weight, solver, parts
        Of the SVM; all but `loss` also of logistic regression. `parts` is the number of parts of the rows for the
        distributed solver; None goes by size.
    eta, feature_scale, order
        Of online gradient descent.
    kernel_C : float
        Weight of the losses of all other batch learners: those with a kernel or a dense map.
    kernel : {"laplacian", "gaussian"}
        Of learners with a kernel on the rows themselves.
    gamma : "psi", "auto" or float
        Inverse width of that kernel: ln(psi) / columns, chosen by cross-validation, or given.
    b, rank, points, average
        Of NOGD.
    features : int
        Random frequencies (AdaRaker: of each kernel).
    decay, flavour, online_loss, sigma_is
        Of AdaRaker and Raker; `decay`, "auto" or float, is the papers' lambda.
    chi2_order : int
        Of the chi-square map.
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
    search: str = "race"
    budget: float | None = None
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
    kernel_C: float = 1.0
    kernel: str = "laplacian"
    gamma: str | float = "psi"
    b: int = 100
    rank: int | None = None
    points: str = "uniform"
    average: bool = False
    features: int = 50
    decay: str | float = "auto"
    flavour: str = "published"
    online_loss: str = "auto"
    sigma_is: str = "frequency"
    chi2_order: int = 0
    task: str = "auto"
    scale: str = "none"
    seed: int = 0
    shard_rows: int | None = None

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "learners": list(self.learners)}
