"""What a learner says of itself: name, options, what there is to choose, memory, and how it learns.

Everything that has to do with one learner stands in its object, in a file of this folder: commands, cross-validation,
plan, training and report ask the object and never its name. The objects import nothing heavy before they are used,
so that ``--help`` answers at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

if TYPE_CHECKING:
    import numpy as np

    from ikmap.kernels import Kernel

SHARED = {"cells": "partitioner t max_depth", "rows": "", "online": "eta order", "batch": "C tol class_weight"}
"""Options of all learners of a kind."""
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
    offsets : ndarray of int64, shape (t + 1,), or None
        Feature columns of the cells, for a learner on cells.
    """

    n_rows: int
    n_columns: int
    n_classes: int
    take: Callable[[np.ndarray], Any]
    offsets: np.ndarray | None = None


@dataclass(frozen=True)
class Shape:
    """Sizes of what a learner is trained on.

    Attributes
    ----------
    n, d : int
        Rows, and columns; for a learner on cells, integers per row.
    nnz : int or None
        Entries of sparse rows; None: they are dense.
    n_classes : int
    """

    n: int
    d: int
    nnz: int | None
    n_classes: int

    @property
    def rows_bytes(self) -> int:
        """Of the rows in memory."""
        return 8 * self.n * self.d if self.nnz is None else 12 * self.nnz

    @property
    def nnz_per_row(self) -> float | None:
        return None if self.nnz is None else self.nnz / max(1, self.n)


@dataclass(frozen=True, kw_only=True)
class Learner:
    """Base of all learners.

    In all methods, ``options`` has the values of the options by name (such as :class:`pipeline.params.Params`), and
    ``value`` is what was chosen or given for :meth:`parameter`: psi, gamma or lambda.

    Attributes
    ----------
    name : str
        For ``--learner``, and in a store.
    title : str
        For people.
    on : {"cells", "rows"}
        Works on the cells of the run's partitioner, or on the rows themselves.
    own : str
        Options that can change its result, beside those of all learners like it (:data:`SHARED`) and psi.
    width : {"psi", "lambda", None}
        What cross-validation chooses, beside C: the psi of the cells or of a Laplacian kernel, AdaRaker's penalty.
    takes_C : bool
        C is cross-validated too, if it is "auto"; else "auto" means 1.
    same_as : str or None
        A learner with the very same decisions, cross-validated in its place.
    way : {"online", "batch"}
        Learns from one row after the other, or from all at once.
    models : tuple of str
        Modules of the kinds of models that it makes: a process that reads one has to import them.
    runner : {"stream", "dual", "whole"}
        What trains it: one pass with checkpoints; the solvers of linear problems on cells; one task that has all rows.
    working_set : bool
        It keeps kernel values of as many rows as it turns out to need: :meth:`needed_bytes` is then the least that
        training takes, unless it is told how many rows these are.
    """

    name: str
    title: str
    on: Literal["cells", "rows"]
    own: str = ""
    width: Literal["psi", "lambda"] | None = "psi"
    takes_C: bool = False
    same_as: str | None = None

    way: ClassVar[Literal["online", "batch"]]
    runner: ClassVar[Literal["stream", "dual", "whole"]]
    models: ClassVar[tuple[str, ...]] = ("ikmap.learners.linear_model",)
    working_set: ClassVar[bool] = False

    def parameter(self, gamma: Any) -> str | None:
        """Name of the number that its width is given by, for a value of ``--gamma``: "psi", "gamma", "lambda", None."""
        return "gamma" if self.width == "psi" and self.on == "rows" and gamma != "psi" else self.width

    def searched(self, options: Any) -> str | None:
        """What cross-validation is to choose for it, beside C; `options` has psi, gamma and decay."""
        parameter = self.parameter(options.gamma)
        asked = {None: None, "lambda": options.decay, "gamma": options.gamma, "psi": options.psi}
        return parameter if asked[parameter] == "auto" else None

    def given(self, options: Any) -> float | None:
        """What the options say in place of a choice; None where there is none."""
        parameter = self.parameter(options.gamma)
        if parameter is None or self.searched(options):
            return None
        return {"lambda": float, "gamma": float, "psi": int}[parameter](
            {"lambda": options.decay, "gamma": options.gamma, "psi": options.psi}[parameter]
        )

    def uses(self, option: str, gamma: Any) -> bool:
        """Whether the value of an option that only some learners have can change its result."""
        return self.parameter(gamma) == "psi" if option == "psi" else option in self.options

    @property
    def options(self) -> frozenset[str]:
        """Names of all options that can change its result, but psi."""
        return frozenset(f"{SHARED[self.on]} {SHARED[self.way]} {self.own}".split())

    def needed_bytes(self, options: Any, shape: Shape) -> int:
        """Memory that training takes in a worker, beside what every task has."""
        return 0

    def refused(self, rows: Any) -> tuple[int, int, float, str] | None:
        """Row, column (from 0), value and what is expected in its place, of the first value that it cannot take."""
        return None


@dataclass(frozen=True, kw_only=True)
class StreamLearner(Learner):
    """Learns from one row after the other."""

    way = "online"
    runner = "stream"

    def start(self, options: Any, value: float | None, sample: Sample, n_threads: int = 1) -> Any:
        """State before the first row.

        Returns
        -------
        state
            With ``partial_fit(rows, y)``, ``decision_function(rows)``, ``model(classes, params)``, ``checkpoint()``,
            ``restore(arrays)``, ``n_seen``, ``n_support``.
        """
        raise NotImplementedError

    def facts(self, state: Any) -> dict[str, Any]:
        """What it has to say of itself at the end, beside its support points: JSON values."""
        return {}


@dataclass(frozen=True, kw_only=True)
class DualLearner(Learner):
    """A linear one on cells, of which the dual problem is solved: in memory, block by block, or in parts.

    Attributes
    ----------
    loss : str or None
        Its loss; None: that of the options.
    """

    way = "batch"
    runner = "dual"

    loss: str | None = None


@dataclass(frozen=True, kw_only=True)
class WholeLearner(Learner):
    """Learns from all rows at once, in one task.

    Attributes
    ----------
    compared_on : int or None
        Cross-validation trains it on no more rows than this.
    """

    way = "batch"
    runner = "whole"

    compared_on: ClassVar[int | None] = None

    def needed_bytes(self, options: Any, shape: Shape, rows: int | None = None) -> int:
        """Memory that training takes in a worker, beside what every task has; with `rows` in a working set."""
        return 0

    def fit(
        self,
        options: Any,
        value: float | None,
        rows: Any,
        y: np.ndarray,
        classes: list[Any],
        n_threads: int = 1,
        max_working_set: int | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """Model, and what it has to say of itself: JSON values.

        Parameters
        ----------
        max_working_set : int, optional
            Rows that fit into memory, for one with a working set.

        Raises
        ------
        ValueError
            The rows do not suit the learner.
        WorkingSetTooLarge
            More rows of them are needed.
        """
        raise NotImplementedError


def kernel_on_rows(options: Any, value: float | None, n_columns: int) -> Kernel:
    """The kernel that ``--kernel`` and ``--gamma`` name; `value` is psi or gamma."""
    from ikmap.kernels import GaussianKernel, LaplacianKernel

    assert value is not None
    if options.kernel == "gaussian":
        return GaussianKernel(float(value))
    if options.gamma == "psi":
        return LaplacianKernel.of_psi(int(value), n_columns)
    return LaplacianKernel(float(value))
