"""The learners of ``pipeline.learners`` as the mathematics has them: states that learn online, and fits."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ikmap.cells import Cells
from ikmap.kernels import AdditiveChi2Kernel, GaussianKernel, IsolationKernel, Kernel, LaplacianKernel
from ikmap.kernels.chi2 import first_negative
from ikmap.learners.adaraker import SIGMAS, AdaRakerState, adaraker_bytes, adaraker_map
from ikmap.learners.kernel_ogd import KernelOGDState, kernel_ogd_bytes
from ikmap.learners.kernel_svm import KernelSVMParams, fit_kernel_svm, kernel_svm_bytes
from ikmap.learners.linear_svm import SVMFit, SVMParams, fit_linear_svm, svm_model
from ikmap.learners.mapped_model import MappedModel
from ikmap.learners.naive_ogd import NaiveOGDState
from ikmap.learners.nogd import NOGDState, nogd_bytes, rank_of
from ikmap.learners.ogd import OGDState
from ikmap.learners.rows import Block, Rows, n_rows
from ikmap.maps import Chi2Map, FourierMap, NystroemMap
from ikmap.maps.nystroem import draw_points
from pipeline.errors import NegativeValues
from pipeline.learners import LEARNERS
from pipeline.params import Params
from pipeline.prepared import PreparedRows

LAMBDAS = tuple(sorted(10.0**m / half for m in (-2, -3, -4, -5) for half in (1, 2)))
"""Search range of AdaRaker, the paper's Table 3."""
GAMMAS = tuple(2.0**m for m in range(-10, 6))
"""Search range of a kernel's width that is not given by psi."""


@dataclass(frozen=True)
class Sample:
    """What a learner may look at before it begins: rows to train on.

    Attributes
    ----------
    n_rows, n_columns, n_classes : int
    take : callable
        Rows by ascending number.
    """

    n_rows: int
    n_columns: int
    n_classes: int
    take: Callable[[np.ndarray], Any]

    @classmethod
    def of(cls, rows: PreparedRows) -> Sample:
        """All rows of a side, read on demand."""
        about = rows.preparation
        return cls(rows.n_rows, about.n_columns, len(about.classes), lambda numbers: rows.take(numbers)[0])


def kernel_of(name: str, params: Params, value: float | None, n_columns: int) -> Kernel:
    """Kernel of a learner.

    Parameters
    ----------
    value : float or None
        What was chosen for it: psi, or gamma.
    """
    if name in ("ogd-dual", "isolation-svm"):
        return IsolationKernel(params.t)
    if name == "chi2-svm":
        return AdditiveChi2Kernel()
    by_psi = params.gamma == "psi"
    if params.kernel == "gaussian":
        return GaussianKernel(_number(value))
    return LaplacianKernel.of_psi(int(_number(value)), n_columns) if by_psi else LaplacianKernel(_number(value))


def _number(value: float | None) -> float:
    assert value is not None
    return float(value)


def searched(name: str, params: Params) -> str | None:
    """What cross-validation is to choose for a learner, beside C: "psi", "gamma", "lambda" or nothing."""
    return LEARNERS[name].searched(params)


def parameter_of(name: str, params: Params) -> str | None:
    """Name of the number that a learner's width is given by: "psi", "gamma", "lambda", or None."""
    return LEARNERS[name].parameter(params.gamma)


def given(name: str, params: Params) -> float | None:
    """What the options say in place of a choice; None where there is none."""
    parameter = parameter_of(name, params)
    if parameter is None or searched(name, params):
        return None
    return {"lambda": float, "gamma": float, "psi": int}[parameter](
        {"lambda": params.decay, "gamma": params.gamma, "psi": params.psi}[parameter]
    )


def start_online(
    name: str,
    params: Params,
    value: float | None,
    sample: Sample,
    offsets: np.ndarray | None = None,
    n_threads: int = 1,
) -> Any:
    """State of an online learner before the first row.

    Parameters
    ----------
    value : float or None
        psi, gamma or lambda, as :func:`searched` has it.
    sample : Sample
        Rows to train on: NOGD draws its points from them.
    offsets : ndarray of int64, shape (t + 1,)
        Feature columns, for learners on cells.

    Returns
    -------
    state
        With ``partial_fit(rows, y)``, ``decision_function(rows)``, ``model(classes, params)``, ``checkpoint()``,
        ``restore(arrays)``, ``n_seen``, ``n_support``.
    """
    K, eta = sample.n_classes, params.eta
    if name in ("ogd", "ogd-naive"):
        assert offsets is not None
        kind = OGDState if name == "ogd" else NaiveOGDState
        divisor = float(params.t) if params.feature_scale == "kernel" else 1.0
        return kind.start(int(offsets[-1]), K, eta=eta, divisor=divisor)
    if name in ("adaraker", "raker"):
        sigma_is: Any = params.sigma_is
        frequencies = adaraker_map(sample.n_columns, params.seed, params.features, sigma_is=sigma_is)
        asked: Any = {
            "loss": None if params.online_loss == "auto" else params.online_loss,
            "flavour": params.flavour,
            "n_threads": n_threads,
        }
        return AdaRakerState(frequencies, len(SIGMAS), K, eta, float(value or 0.0), name == "adaraker", **asked)
    kernel = kernel_of(name, params, value, sample.n_columns)
    if name in ("kernel-ogd", "ogd-dual"):
        return KernelOGDState(kernel, K, eta, n_threads=n_threads)
    assert name == "nogd", name
    points = None
    if params.points == "uniform":
        drawn = sample.take(draw_points(sample.n_rows, params.b, params.seed))
        points = NystroemMap.fit(drawn, kernel, params.rank or rank_of(params.b), n_threads)
    return NOGDState(kernel, K, params.b, params.rank, eta, params.average, points, n_threads=n_threads)


def certificate(fit: SVMFit) -> dict[str, Any]:
    """What the solution of a linear SVM has to show: the widest gap of its problems, the most sweeps."""
    return {
        "duality_gap": float(fit.gap.max()),
        "objective": float(fit.primal.sum()),
        "iterations": int(fit.n_iter.max()),
        "converged": bool(fit.converged.all()),
        "n_support": fit.n_support.tolist(),
    }


def sum_up(certificates: list[dict[str, Any]]) -> dict[str, Any]:
    """Sum up the certificates of all groups: the widest gap, the most iterations."""
    n_support = [count for certificate in certificates for count in certificate["n_support"]]
    return {
        "duality_gap": max(c["duality_gap"] for c in certificates),
        "objective": sum(c["objective"] for c in certificates),
        "iterations": max(c["iterations"] for c in certificates),
        "converged": all(c["converged"] for c in certificates),
        **({"n_support": n_support[0]} if len(n_support) == 1 else {}),  # of one-vs-rest problems, no single number
    }


def is_kernel_svm(name: str) -> bool:
    """Whether a learner is an SVM with a kernel."""
    return name.endswith("-svm")


def fit_batch(
    name: str,
    params: Params,
    value: float | None,
    rows: Rows,
    y: np.ndarray,
    classes: list[Any],
    n_threads: int = 1,
    max_working_set: int | None = None,
) -> tuple[Any, dict[str, Any]]:
    """Model of a batch learner that takes all rows at once, and the :func:`certificate` of one that has it.

    Parameters
    ----------
    max_working_set : int, optional
        Rows whose kernel values fit in memory, for an SVM with a kernel.

    Raises
    ------
    ValueError
        The rows do not suit the learner.
    WorkingSetTooLarge
        More rows of them are needed.
    """
    if is_kernel_svm(name):
        kernel = kernel_of(name, params, value, rows.n_partitions if isinstance(rows, Cells) else rows.shape[1])
        weight: Any = "balanced" if params.class_weight == "balanced" else None
        asked = KernelSVMParams(C=params.kernel_C, tol=params.tol, class_weight=weight)
        return fit_kernel_svm(rows, y, len(classes), kernel, asked, classes, n_threads, max_working_set), {}
    features: Any = map_of(name, params, value, rows.shape[1])  # type: ignore[union-attr]
    linear = SVMParams(
        loss=params.loss,  # type: ignore[arg-type]
        C=params.kernel_C,
        tol=params.tol,
        class_weight="balanced" if params.class_weight == "balanced" else None,
        fit_intercept=False,
        seed=params.seed,
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="duality gap")  # ConvergenceWarning: slow to import
        fit = fit_linear_svm([Block(features.transform(rows, n_threads), y)], len(classes), linear)
    return MappedModel(features, svm_model(fit, classes, linear, divisor=1.0)), certificate(fit)


def check_values(
    name: str, rows: Any, where: Callable[[int], str], column_names: list[str] | None, first: int = 0
) -> None:
    """Refuse values that a learner has no kernel for.

    Parameters
    ----------
    where : callable
        File and row, for people, of a row by its number; that of the first of `rows` is `first`.

    Raises
    ------
    NegativeValues
        Naming file, row, column (its name, or its number from 1) and value.
    """
    found = first_negative(rows) if name.startswith("chi2") else None
    if found is not None:
        row, column, value = found
        named = f"column {column_names[column]!r}" if column_names else f"feature {column + 1}"
        expected = f"expected a value >= 0 for --learner {name} (--scale minmax)"
        raise NegativeValues(f"{where(first + row)}, {named}: found {value:g}, {expected}")


def fit_fold(name: str, params: Params, value: float | None, rows: Rows, y: np.ndarray) -> Callable[[Any], np.ndarray]:
    """As :func:`fit_batch`, for a comparison: of the classes that these rows have, however few they are."""
    present = np.unique(y)
    if present.size == 1:
        return lambda tested: np.full(n_rows(tested), present[0])
    model, _ = fit_batch(name, params, value, rows, np.searchsorted(present, y), present.tolist())
    return lambda tested: present[model.predict_index(tested)]


def map_of(name: str, params: Params, value: float | None, n_columns: int) -> Any:
    """Map to dense features of a learner that has one."""
    if name == "chi2-linear":
        return Chi2Map(params.chi2_order)
    kernel: Any = kernel_of(name, params, value, n_columns)
    make = FourierMap.gaussian if isinstance(kernel, GaussianKernel) else FourierMap.laplacian
    return make(params.features, n_columns, kernel.gamma, params.seed)


def needed_bytes(
    name: str, params: Params, *, n: int, d: int, nnz: int | None, n_classes: int, working_set: int | None = None
) -> int:
    """Memory that training takes in a worker, beside what every task has.

    Parameters
    ----------
    n, d : int
        Training rows and columns.
    nnz : int or None
        Entries of sparse training rows; None: they are dense.
    working_set : int, optional
        Rows in the working set of an SVM with a kernel, where it is known; without, the least that it can need.
    """
    if LEARNERS[name].on == "cells":
        d, nnz = params.t, None
    rows = 8 * n * d if nnz is None else 12 * nnz
    if is_kernel_svm(name):
        return rows + kernel_svm_bytes(n, d, nnz, working_set)
    if name in ("kernel-ogd", "ogd-dual"):
        return kernel_ogd_bytes(n, d, nnz, n_classes)
    if name == "nogd":
        return nogd_bytes(d, None if nnz is None else nnz / max(1, n), params.b, params.rank, n_classes)
    if name in ("adaraker", "raker"):
        return adaraker_bytes(n, d, len(SIGMAS), params.features, n_classes, name == "adaraker")
    if name == "chi2-linear":
        return 3 * rows * (2 * params.chi2_order + 1)
    if name == "fourier-linear":
        return rows + 8 * (3 * 2 * params.features * n + 3 * params.features * d)
    return 0
