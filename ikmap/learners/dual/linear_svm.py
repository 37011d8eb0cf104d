"""Linear SVMs, logistic regression and support vector regression, on data in memory or read block by block.

All by dual coordinate descent. Hsieh, Chang, Lin, Keerthi, Sundararajan (2008) for the method with shrinking, Yu,
Huang, Lin (2011) for the logistic loss, Ho, Lin (2012) for regression, Yu, Hsieh, Chang, Lin (2010) for data larger
than memory; algorithms.md 8.1, 8.2.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ikmap._threads import usable_cores
from ikmap.arrays import Bools, Floats
from ikmap.json_values import Label
from ikmap.learners.dual import _linear_svr_loops as svr_loops
from ikmap.learners.dual._linear_svm_loops import LOSSES
from ikmap.learners.dual.block_minimization import BlockProblem, How, descend_blocks
from ikmap.learners.dual.block_reader import BlockReader
from ikmap.learners.dual.class_descent import ClassProblems, descend_classes
from ikmap.learners.dual.descent import Problem, descend
from ikmap.learners.dual.dual_variables import DualVariables
from ikmap.learners.dual.occurring import only_occurring
from ikmap.learners.dual.progress import Progress
from ikmap.learners.dual.regression_problem import RegressionProblem, moments, standardisation
from ikmap.learners.dual.svm_params import SVMParams as SVMParams
from ikmap.learners.linear_model import LinearModel
from ikmap.learners.rows import Blocks, balanced_weights
from ikmap.seeds import generator


@dataclass(frozen=True, eq=False)
class SVMFit:
    """Solved problems, one for each column: a single one for two classes, else one for each class.

    Attributes
    ----------
    problems : ndarray of int, shape (P,)
        Which one-vs-rest problems these are, ascending.
    coef, intercept : ndarrays of float64, shapes (n_columns, P) and (P,)
    alphas : ndarray of float64, shape (P, n)
        Dual variables, of classes >= 0, rows in the order of the blocks. Pass as ``alpha0`` to start from here.
    primal, dual, gap : ndarrays of float64, shape (P,)
        Objectives at the returned weights and ``(primal - dual) / primal``.
    n_iter : ndarray of int, shape (P,)
        Sweeps made; with several blocks, visits to every block.
    converged : ndarray of bool, shape (P,)
        True if the gap is at most ``tol``.
    n_support : ndarray of int, shape (P,)
        Rows with a dual variable that is not 0.
    history : tuple of ndarrays of float64, shapes (rounds, 4)
        For each problem, at every certificate: n_iter, primal, dual, gap.
    center, scale : float
        Where targets are numbers: coef, intercept and objectives are those for ``(y - center) / scale``.
    """

    problems: np.ndarray
    coef: Floats
    intercept: Floats
    alphas: np.ndarray
    primal: Floats
    dual: Floats
    gap: Floats
    n_iter: np.ndarray
    converged: Bools
    n_support: np.ndarray
    history: tuple[np.ndarray, ...]
    center: float = 0.0
    scale: float = 1.0


def fit_linear_svm(
    blocks: Blocks,
    n_classes: int,
    params: SVMParams | None = None,
    *,
    classes_subset: Sequence[int] | None = None,
    alpha0: np.ndarray | None = None,
    cell_value: float | None = None,
    n_threads: int | None = 1,
) -> SVMFit:
    """Solve a linear SVM or logistic regression to a certified relative duality gap.

    Parameters
    ----------
    blocks : sequence of Block
        The training set. One block is solved in memory; several are visited in turn, every unsolved problem
        being served while a block is in memory, and read from disk again at each visit if that is what
        ``blocks`` does.
    n_classes : int
        Number of classes, >= 2. With two, one problem, class 1 positive; else one against the rest each. 0 where
        targets are numbers.
    params : SVMParams, optional
    classes_subset : sequence of int, optional
        Solve only these problems, bit for bit as when solved with all others; default all.
    alpha0 : ndarray, shape (P, n), optional
        Dual variables to start from (``SVMFit.alphas``); clipped into their bounds. Default zero.
    cell_value : float, optional
        Feature value of a cell, where neither 1/sqrt(t) nor 1 is meant.
    n_threads : int, optional
        On one block, groups of eight one-vs-rest problems are solved side by side, and of the problem of two classes
        the certificate is shared. Two threads share each sweep over many rows of cells, on one block or several. None:
        as many as there are cores. The result is the same bit for bit.

    Returns
    -------
    SVMFit

    Warns
    -----
    ConvergenceWarning
        If the wanted gap was not reached.

    Notes
    -----
    Memory: per problem in flight a weight per column. One block: that, and 8 bytes per row and problem. Several: some
    blocks, and those 8 bytes in a temporary file, of which ``alphas`` is a view. Time of a sweep: the
    number of entries of the rows that are not shrunk; on one block, eight one-vs-rest problems share it.
    """
    params = params or SVMParams()
    if params.regression != (n_classes == 0):
        raise ValueError(f"loss {params.loss!r} does not suit n_classes = {n_classes}")
    numbers = problem_numbers(n_classes, classes_subset)
    if len(blocks) == 0:
        raise ValueError("no blocks to learn from")
    reader = BlockReader(blocks, n_classes, cell_value, params.normalize)
    counts = reader.survey()
    class_cost = np.array(class_costs(params, counts)) if n_classes else np.array([params.C])
    if alpha0 is not None:
        alpha0 = np.asarray(alpha0, dtype=np.float64)
        if alpha0.ndim != 2 or alpha0.shape[0] != len(numbers) or not np.isfinite(alpha0).all():
            raise ValueError(f"alpha0 must be finite, of shape ({len(numbers)}, n), got {alpha0.shape}")
        if alpha0.shape[1] != (n := sum(reader.sizes.values())):
            raise ValueError(f"alpha0 has {alpha0.shape[1]} rows, the blocks have {n}")
    threads = min(n_threads or usable_cores(), usable_cores())
    if params.regression:
        fit = _fit_regression(reader, params, class_cost, alpha0)
    elif len(blocks) == 1:
        fit = _fit_in_memory(reader, n_classes, numbers, params, class_cost, alpha0, threads)
    else:
        total_cost = float(class_cost @ counts)
        fit = _fit_in_blocks(reader, n_classes, numbers, params, class_cost, alpha0, total_cost, threads)
    warn_unless_solved(fit, params, "sweeps")
    return fit


def _fit_in_blocks(
    reader: BlockReader,
    n_classes: int,
    numbers: Sequence[int],
    params: SVMParams,
    class_cost: Floats,
    alpha0: Floats | None,
    total_cost: float,
    n_threads: int,
) -> SVMFit:
    """Solve the problems together, block by block."""
    assert reader.columns is not None
    duals = DualVariables(len(numbers), list(reader.sizes.values()))
    problems = [
        BlockProblem(
            number=number,
            slot=slot,
            positive=1 if n_classes == 2 else number,
            class_cost=class_cost,
            bias=float(params.fit_intercept),
            loss=LOSSES[params.loss],
            w=np.zeros(reader.columns + 1),
            progress=Progress(params.tol, params.max_iter, 0.0),
        )
        for slot, number in enumerate(numbers)
    ]
    if alpha0 is not None:
        for problem, alpha in zip(problems, alpha0, strict=True):
            duals.write(problem.slot, range(len(reader)), np.ascontiguousarray(alpha))
            problem.phase = "start"
    descend_blocks(
        reader,
        problems,
        duals,
        how=How(params.inner_sweeps, params.shrinking),
        seed=params.seed,
        total_cost=total_cost,
        n_threads=n_threads,
    )
    return solution(
        numbers,
        np.ascontiguousarray(np.column_stack([problem.w[:-1] for problem in problems])),
        np.array([problem.w[-1] for problem in problems]),
        duals.array(),
        np.array([problem.n_support for problem in problems]),
        [problem.progress.history for problem in problems],
        params,
    )


def _fit_regression(reader: BlockReader, params: SVMParams, cost: Floats, alpha0: Floats | None) -> SVMFit:
    """Solve the problem of numbers; a single block stays in memory."""
    assert reader.columns is not None
    duals = DualVariables(1, list(reader.sizes.values()))
    found = moments(reader)
    center, scale = standardisation(found)
    problem = RegressionProblem(
        number=0,
        slot=0,
        positive=0,
        class_cost=cost,
        bias=float(params.fit_intercept),
        loss=svr_loops.LOSSES[params.loss],
        w=np.zeros(reader.columns + 1),
        progress=Progress(params.tol, params.max_iter, 0.0),
        epsilon=params.epsilon,
        center=center,
        scale=scale,
    )
    if alpha0 is not None:
        duals.write(0, range(len(reader)), np.ascontiguousarray(alpha0[0]))
        problem.phase = "start"
    how = How(params.inner_sweeps, params.shrinking)
    descend_blocks(
        reader, [problem], duals, how=how, seed=params.seed, total_cost=float(cost[0]) * found[0], n_threads=1
    )
    w, support = problem.w, np.array([problem.n_support])
    fit = solution((0,), w[:-1, None], w[-1:], duals.array(), support, [problem.progress.history], params)
    return replace(fit, center=center, scale=scale)


def _fit_in_memory(
    reader: BlockReader,
    n_classes: int,
    numbers: Sequence[int],
    params: SVMParams,
    class_cost: Floats,
    alpha0: Floats | None,
    n_threads: int,
) -> SVMFit:
    """Solve the problem of two classes, or those of more together."""
    assert reader.columns is not None
    block, columns = reader[0], reader.columns
    # No more bytes than the weights of one problem take, whichever are solved here: so the bits are the same.
    occurring = only_occurring(block.rows, columns, 8 * columns)
    if occurring is not None:
        block, columns = block._replace(rows=occurring[0]), occurring[1].size
    alphas = np.zeros((len(numbers), block.y.size)) if alpha0 is None else alpha0.copy()
    loss, bias = LOSSES[params.loss], float(params.fit_intercept)
    seed = int(generator(params.seed, 0).integers(2**63))
    if n_classes > 2:
        problems = ClassProblems(block, np.array(numbers), class_cost, loss, bias, columns)
        coef, intercept, histories = descend_classes(
            problems, alphas, tol=params.tol, max_iter=params.max_iter, shrinking=params.shrinking, seed=seed,
            n_threads=n_threads,
        )  # fmt: skip
    else:
        problem = Problem(block, 1, class_cost, loss, bias, columns)
        w, history = descend(
            problem, alphas[0], tol=params.tol, max_iter=params.max_iter, shrinking=params.shrinking, seed=seed,
            n_threads=n_threads,
        )  # fmt: skip
        coef, intercept, histories = w[:-1, None], w[-1:], [history]
    if occurring is not None:
        found, coef = coef, np.zeros((reader.columns, len(numbers)))
        coef[occurring[1]] = found
    return solution(numbers, coef, intercept, alphas, np.count_nonzero(alphas > 0, axis=1), histories, params)


def problem_numbers(n_classes: int, subset: Sequence[int] | None) -> tuple[int, ...]:
    """Return ascending numbers of the problems to solve, of `subset` or all; two classes make one problem."""
    if n_classes < 2 and n_classes != 0:
        raise ValueError(f"at least 2 classes are needed, got {n_classes}")
    every = range(1 if n_classes in (0, 2) else n_classes)
    numbers = tuple(every if subset is None else sorted({int(k) for k in subset}))
    if not numbers or not set(numbers) <= set(every):
        raise ValueError(f"classes_subset must be among {every.start}..{every.stop - 1}, got {subset}")
    return numbers


def class_costs(params: SVMParams, counts: np.ndarray) -> tuple[float, ...]:
    """Return C times the weight of every class, by the weighted number of its rows."""
    weights = np.ones(counts.size)
    if isinstance(params.class_weight, Mapping):
        for k, value in params.class_weight.items():
            if not 0 <= int(k) < counts.size:
                raise ValueError(f"class_weight names class {k}, classes are 0..{counts.size - 1}")
            weights[int(k)] = value
    elif params.class_weight == "balanced":
        weights = balanced_weights(counts)
    return tuple((params.C * weights).tolist())


def solution(
    numbers: Sequence[int],
    coef: Floats,
    intercept: Floats,
    alphas: np.ndarray,
    n_support: np.ndarray,
    histories: Sequence[Sequence[tuple[float, float, float, float]]],
    params: SVMParams,
) -> SVMFit:
    """Return the solution, by the last certificate of each problem."""
    n_iter, primal, dual, gap = (np.array([h[-1][c] for h in histories]) for c in range(4))
    return SVMFit(
        problems=np.array(numbers),
        coef=coef,
        intercept=intercept,
        alphas=alphas,
        primal=primal,
        dual=dual,
        gap=gap,
        n_iter=n_iter.astype(np.int64),
        converged=gap <= params.tol,
        n_support=n_support,
        history=tuple(np.array(h) for h in histories),
    )


def warn_unless_solved(fit: SVMFit, params: SVMParams, unit: str) -> None:
    """Warn two callers up if the wanted gap was not reached; `unit` is the name of a counted step."""
    if fit.converged.all():
        return
    # Importing scikit-learn takes a second, which no worker should spend for a warning it rarely gives.
    from sklearn.exceptions import ConvergenceWarning

    worst = int(fit.gap.argmax())
    warnings.warn(
        f"duality gap {fit.gap[worst]:.2g} after {fit.n_iter[worst]} {unit}, wanted {params.tol:.2g} "
        f"(problem {fit.problems[worst]}): raise max_iter or tol, or lower C",
        ConvergenceWarning,
        stacklevel=3,
    )


def svm_model(
    fits: SVMFit | Sequence[SVMFit], classes: list[Label], params: SVMParams, *, divisor: float
) -> LinearModel:
    """Make the model from one fit, or from fits of parts of the one-vs-rest problems.

    Parameters
    ----------
    classes : list
        Class labels as JSON values, in the order of the class numbers; none where targets are numbers.
    divisor : float
        For rows of cells, one over their feature value: sqrt(t), or 1 without ``normalize``; else 1.
    """
    parts = sorted([fits] if isinstance(fits, SVMFit) else fits, key=lambda fit: int(fit.problems[0]))
    numbers = np.concatenate([fit.problems for fit in parts])
    order = np.argsort(numbers)
    k = 1 if len(classes) in (0, 2) else len(classes)
    if not np.array_equal(numbers[order], np.arange(k)):
        raise ValueError(f"problems solved are {sorted(numbers.tolist())}, {len(classes)} classes need 0..{k - 1}")
    if params.regression:
        (fit,) = parts
        coef, intercept = fit.coef * fit.scale, fit.intercept * fit.scale + fit.center
        return LinearModel(coef, intercept, float(divisor), "svr", [], params.as_json())
    return LinearModel(
        coef=parts[0].coef
        if len(parts) == 1
        else np.ascontiguousarray(np.column_stack([fit.coef for fit in parts])[:, order]),
        intercept=np.concatenate([fit.intercept for fit in parts])[order],
        divisor=float(divisor),
        learner="svm" if params.loss != "logistic" else "logistic",
        classes=classes,
        params=params.as_json(),
    )
