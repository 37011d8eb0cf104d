"""scikit-learn estimators with a kernel on the rows themselves, exact or by random features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import Tags

from ikmap.arrays import Array, Floats
from ikmap.estimators.base import Classifier, RandomState, Regressor, Supervised, Table
from ikmap.estimators.parameters import POSITIVE, checked, configured
from ikmap.learners.kernel.kernel_model import KernelModel
from ikmap.learners.linear_model import OnOwnFeatures
from ikmap.learners.rows import Block, Rows
from ikmap.methods import KERNELS, KernelMethod, Training, WholeLearner, fields_of
from ikmap.methods.fourier import FourierLinear
from ikmap.methods.fourier_ridge import FourierRidge as FourierRidgeMethod
from ikmap.methods.kernel_on_rows import KernelName, OnKernel
from ikmap.methods.kernel_ridge import KernelRidge
from ikmap.methods.kernel_svm import KernelSVM
from ikmap.methods.two_stage_gmm import TwoStageGMM
from ikmap.rows import as_rows

type KernelParameter = float | str | None


class RowsEstimator(Supervised):
    """Base of estimators that a method makes of all rows at once.

    Attributes
    ----------
    model_ : Model
    """

    methods: ClassVar[tuple[type[WholeLearner], ...]]

    def _values(self) -> dict[str, object]:
        """Return the values of fields that no parameter sets as it is."""
        return {}

    def _rows(self, X: Table, reset: bool, y: ArrayLike | None = None) -> Rows:
        return as_rows(self._features(X, reset, y))

    def _learn(self, rows: Rows, y: Array, sample_weight: Floats | None, labels: Array | None = None) -> None:
        """Fit the model; `labels` are of classes."""
        learner = self._method(self.methods[0], **self._values())
        refusal = learner.kernel.first_invalid(rows) if isinstance(learner, OnKernel) else None
        if refusal is not None:
            row, column, value, expected = refusal
            raise ValueError(
                f"Negative values in data passed to {type(self).__name__}: row {row}, column {column}: "
                f"found {value:g}, expected {expected}"
            )
        classes = [] if labels is None else labels.tolist()
        training = Training(Block(rows, y, sample_weight), classes, self._draw_seed(), self._n_threads)
        self.model_, _ = learner.fit(training)

    def _decisions(self, rows: Rows) -> Floats:
        model = self.model_
        if isinstance(model, OnOwnFeatures | KernelModel):
            return model.decision_function(rows, self._n_threads)
        return super()._decisions(rows)


class KernelEstimator(RowsEstimator):
    """Base of estimators with parameters of a kernel."""

    kernel: str
    gamma: float | None
    kernel_params: Mapping[str, KernelParameter] | None

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        kind = KERNELS.get(str(self.kernel))
        tags.input_tags.positive_only = kind is not None and kind().first_invalid(np.full((1, 1), -1.0)) is not None
        return tags

    def _kernel(self) -> KernelMethod:
        """Return the kernel that the parameters configure."""
        kind = KERNELS[checked("kernel", self.kernel, KernelName())]
        values: dict[str, object] = dict(self.kernel_params or {})
        if self.gamma is not None:
            values["gamma"] = self.gamma
        for name in values:
            if name not in fields_of(kind):
                known = ", ".join(fields_of(kind)) or "none"
                raise ValueError(f"{name}: found it with kernel {self.kernel!r}, whose parameters are: {known}")
        return configured(kind, values, {}, {})

    def _values(self) -> dict[str, object]:
        return super()._values() | {"kernel": self._kernel()}


class RowsClassifier(Classifier, RowsEstimator):
    """Base of classifiers that a method makes of all rows at once."""

    class_weight: Literal["balanced"] | None

    def _values(self) -> dict[str, object]:
        return super()._values() | {"class_weight": "none" if self.class_weight is None else self.class_weight}

    def _fit(self, X: Table, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        rows, labels, weight = self._training(X, y, sample_weight)
        self._set_classes(labels)
        self._learn(rows, self._encode(labels), weight, self.classes_)
        return self


class FeaturesClassifier(RowsClassifier):
    """Base of linear classifiers on random features."""

    def fit(self, X: Table, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like, sparse matrix or DataFrame, shape (n, d)
        y : array-like of labels, shape (n,)
        sample_weight : array-like, shape (n,), optional
            Weights >= 0.

        Raises
        ------
        ValueError
            A parameter is out of range, or rows, labels or weights are not valid.
        """
        return self._fit(X, y, sample_weight)


class KernelRegressor(Regressor, KernelEstimator):
    """Base of regressors that minimise squared errors with a kernel."""

    alpha: float

    def _values(self) -> dict[str, object]:
        return super()._values() | {"C": 1 / (2 * checked("alpha", self.alpha, POSITIVE))}

    def fit(self, X: Table, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like, sparse matrix or DataFrame, shape (n, d)
        y : array-like of finite numbers, shape (n,)
        sample_weight : array-like, shape (n,), optional
            Weights >= 0.

        Raises
        ------
        ValueError
            A parameter is out of range, or rows, targets or weights are not valid.
        """
        self._learn(*self._training(X, y, sample_weight))
        return self


class KernelSVC(KernelEstimator, RowsClassifier):
    """A support vector classifier with an exact kernel on the rows, for up to some ten thousand rows.

    Parameters
    ----------
    kernel : str, default="laplacian"
        "laplacian", "gaussian", "linear", "cosine", "intersection" (sum of the smaller values of two rows), "chi2",
        or one of the GMM kernels, such as "gmm" and "egmm".
    gamma : float or None, default=None
        Inverse width of the kernel, > 0; None takes the kernel's default.
    C : float, default=1.0
        Weight of the losses, > 0.
    kernel_params : dict or None, default=None
        Further parameters of the kernel, such as ``{"le": 10.0}`` of "egmm".
    tol : float, default=1e-3
        Tolerance to stop at, > 0.
    class_weight : "balanced" or None, default=None
        "balanced" weighs each class by the inverse of its share.
    n_jobs : int or None, default=None
        Number of threads; None or a negative number means all usable cores.

    Attributes
    ----------
    classes_ : ndarray of labels
    model_ : KernelModel
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from ikmap import KernelSVC
    >>> X = np.random.default_rng(0).random((200, 3))
    >>> y = np.where(X[:, 0] > X[:, 1], "more", "less")
    >>> bool(KernelSVC("intersection", C=10.0).fit(X, y).score(X, y) > 0.95)
    True
    """

    methods = (KernelSVM,)

    def __init__(
        self,
        kernel: str = "laplacian",
        gamma: float | None = None,
        *,
        C: float = 1.0,
        kernel_params: Mapping[str, KernelParameter] | None = None,
        tol: float = 1e-3,
        class_weight: Literal["balanced"] | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.C = C
        self.kernel_params = kernel_params
        self.tol = tol
        self.class_weight = class_weight
        self.n_jobs = n_jobs

    def fit(self, X: Table, y: ArrayLike) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like, sparse matrix or DataFrame, shape (n, d)
        y : array-like of labels, shape (n,)

        Raises
        ------
        ValueError
            A parameter is out of range, or rows or labels are not valid.
        """
        return self._fit(X, y)


class KernelRidgeRegressor(KernelRegressor):
    """Ridge regression with an exact kernel on the rows, for up to some ten thousand rows.

    The kernel applies to targets less their mean, which is added again; scikit-learn's ``KernelRidge`` has no mean.

    Parameters
    ----------
    kernel : str, default="laplacian"
        As of :class:`KernelSVC`.
    gamma : float or None, default=None
        Inverse width of the kernel, > 0; None takes the kernel's default.
    alpha : float, default=1.0
        Weight of the squared norm of the function, > 0.
    kernel_params : dict or None, default=None
        Further parameters of the kernel.
    n_jobs : int or None, default=None
        Number of threads; None or a negative number means all usable cores.

    Attributes
    ----------
    model_ : KernelModel
    n_features_in_ : int

    Notes
    -----
    Memory for the square, and time for the cube, of the number of rows. Source: algorithms.md, section 13.3.

    Examples
    --------
    >>> import numpy as np
    >>> from ikmap import KernelRidgeRegressor
    >>> X = np.random.default_rng(0).random((200, 2))
    >>> y = np.sin(6 * X[:, 0]) + X[:, 1]
    >>> bool(KernelRidgeRegressor(gamma=2.0, alpha=1e-3).fit(X, y).score(X, y) > 0.99)
    True
    """

    methods = (KernelRidge,)

    def __init__(
        self,
        kernel: str = "laplacian",
        gamma: float | None = None,
        *,
        alpha: float = 1.0,
        kernel_params: Mapping[str, KernelParameter] | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.alpha = alpha
        self.kernel_params = kernel_params
        self.n_jobs = n_jobs


class FourierSVC(KernelEstimator, FeaturesClassifier):
    """A linear SVM on random Fourier features of a kernel, orthogonal ones if wanted.

    Parameters
    ----------
    kernel : {"laplacian", "gaussian"}, default="laplacian"
    gamma : float or None, default=None
        Inverse width of the kernel, > 0; None takes the kernel's default.
    n_frequencies : int, default=50
        Number of random frequencies; each has two features, a sine and a cosine.
    orthogonal : bool, default=False
        Whether the frequencies of "gaussian" are drawn at right angles to each other, which brings products nearer to
        the kernel.
    loss : {"squared_hinge", "hinge"}, default="squared_hinge"
    C : float, default=1.0
        Weight of the losses, > 0.
    kernel_params : dict or None, default=None
        Further parameters of the kernel.
    tol : float, default=1e-3
        Wanted relative duality gap, > 0.
    class_weight : "balanced" or None, default=None
    n_jobs : int or None, default=None
    random_state : int, RandomState or None, default=0

    Attributes
    ----------
    classes_ : ndarray of labels
    model_ : MappedModel
    n_features_in_ : int

    Notes
    -----
    Source: algorithms.md, section 13.1.
    """

    methods = (FourierLinear,)
    renamed: ClassVar[Mapping[str, str]] = {"features": "n_frequencies"}

    def __init__(
        self,
        kernel: str = "laplacian",
        gamma: float | None = None,
        n_frequencies: int = 50,
        *,
        orthogonal: bool = False,
        loss: Literal["squared_hinge", "hinge"] = "squared_hinge",
        C: float = 1.0,
        kernel_params: Mapping[str, KernelParameter] | None = None,
        tol: float = 1e-3,
        class_weight: Literal["balanced"] | None = None,
        n_jobs: int | None = None,
        random_state: RandomState = 0,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.n_frequencies = n_frequencies
        self.orthogonal = orthogonal
        self.loss = loss
        self.C = C
        self.kernel_params = kernel_params
        self.tol = tol
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.random_state = random_state


class FourierRidge(KernelRegressor):
    """Ridge regression on random Fourier features of a kernel, orthogonal ones if wanted.

    Parameters
    ----------
    kernel, gamma, n_frequencies, orthogonal, kernel_params, n_jobs, random_state
        As of :class:`FourierSVC`.
    alpha : float, default=1.0
        Weight of the squared norm of the weights, > 0.

    Attributes
    ----------
    model_ : MappedModel
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from ikmap import FourierRidge
    >>> X = np.random.default_rng(0).random((200, 2))
    >>> y = np.sin(6 * X[:, 0]) + X[:, 1]
    >>> model = FourierRidge("gaussian", 5.0, orthogonal=True, alpha=1e-3).fit(X, y)
    >>> bool(model.score(X, y) > 0.99)
    True
    """

    methods = (FourierRidgeMethod,)
    renamed: ClassVar[Mapping[str, str]] = {"features": "n_frequencies"}

    def __init__(
        self,
        kernel: str = "laplacian",
        gamma: float | None = None,
        n_frequencies: int = 50,
        *,
        orthogonal: bool = False,
        alpha: float = 1.0,
        kernel_params: Mapping[str, KernelParameter] | None = None,
        n_jobs: int | None = None,
        random_state: RandomState = 0,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.n_frequencies = n_frequencies
        self.orthogonal = orthogonal
        self.alpha = alpha
        self.kernel_params = kernel_params
        self.n_jobs = n_jobs
        self.random_state = random_state


class TwoStageGMMClassifier(FeaturesClassifier):
    """A linear SVM on random Fourier features of weighted hashes: the eGMM kernel in two stages.

    It shows how many features that takes: ``KernelSVC("egmm")`` is exact for up to some ten thousand rows.

    Parameters
    ----------
    n_frequencies : int, default=50
        Number of random frequencies of the second stage.
    le : float, default=10.0
        Factor in the exponent of the kernel, > 0.
    codes : int, default=256
        Number of weighted hashes of the first stage.
    code_bits : int, default=8
        Bits of each hash, 1 to 16.
    loss, C, tol, class_weight, n_jobs, random_state
        As of :class:`FourierSVC`.

    Attributes
    ----------
    classes_ : ndarray of labels
    model_ : MappedModel
    n_features_in_ : int

    Notes
    -----
    Source: algorithms.md, section 10.5.
    """

    methods = (TwoStageGMM,)
    renamed: ClassVar[Mapping[str, str]] = {"features": "n_frequencies"}

    def __init__(
        self,
        n_frequencies: int = 50,
        le: float = 10.0,
        *,
        codes: int = 256,
        code_bits: int = 8,
        loss: Literal["squared_hinge", "hinge"] = "squared_hinge",
        C: float = 1.0,
        tol: float = 1e-3,
        class_weight: Literal["balanced"] | None = None,
        n_jobs: int | None = None,
        random_state: RandomState = 0,
    ) -> None:
        self.n_frequencies = n_frequencies
        self.le = le
        self.codes = codes
        self.code_bits = code_bits
        self.loss = loss
        self.C = C
        self.tol = tol
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.random_state = random_state
